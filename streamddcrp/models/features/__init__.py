"""Latent features: the Indian buffet process on decomposable graphs, such as windows of time.

The equations are in docs/math/graphs.md. In `TimeVaryingIBP` row t has each feature that m of the r
rows before it have with probability m / (r + 1), and Poisson(alpha / (r + 1)) new ones; a feature
absent from r successive rows is dead. A row is the sum of the loadings of its features, a baseline
and Gaussian noise (`streamddcrp.likelihoods.LinearGaussian`), with loadings and noise variance
integrated out.

A particle is a choice of features for all rows. From a few children of each particle, optimal
resampling keeps as many as there are places; equal ones are merged. Then rows of the window are
resampled by exact Gibbs steps over all their features, six at a time; these steps find the right
features. A possible new feature is weighed with every scale. Quality depends on the number of
particles times the number of rows that each resamples. The first rows are also learned by annealing
(`start`), and both kinds of particles compete. An arrival costs O(P (K^2 D + 2^min(K, 8))), every
resampled row O(K D + K^2) a particle; memory is O(P (K^2 + K D + r)), whatever the length of the
stream.

`sample_graph_ibp` is the same process on any decomposable graph, by Gibbs sampling: an item has a
feature with odds by its counts in the surrounding cliques and separators, unless its owners would
be disconnected without it; its own features are Poisson.

Both correct Caron and Doucet, "Bayesian nonparametric models on decomposable graphs", NIPS 2009,
section 4: reachability of rows is per feature, not per matrix; dead features are marginalised (the
state is a matrix over live features, not over rows); and the conditionals leave out sets without
the item.
"""
