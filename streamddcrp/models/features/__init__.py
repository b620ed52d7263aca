"""Latent features: the Indian buffet process on decomposable graphs, such as windows of time.

The equations are in docs/math/graphs.md. In `TimeVaryingIBP` row t has each feature that m of the r
rows before it have with probability m / (r + 1), and Poisson(alpha / (r + 1)) new ones; a feature
that none of r rows in a row has is dead. A row is the sum of the loadings of its features, a
baseline and Gaussian noise (`streamddcrp.likelihoods.LinearGaussian`), loadings and noise variance
integrated out.

A particle is a choice of features for all rows. A few children of each particle, then as many of
all as there are places, are kept by optimal resampling; equal ones are merged. Then rows of the
window are resampled, by exact Gibbs steps over all their features, six at a time: that is what
finds the right features. A new feature that a row may get is weighed with every scale. What is
gained depends on the number of particles times the number of rows that each resamples. The first
rows are learned by annealing, too (`start`), and both kinds of particles compete. An arrival costs
O(P (K^2 D + 2^min(K, 8))), every resampled row O(K D + K^2) a particle; memory is
O(P (K^2 + K D + r)), whatever the length of the stream.

`sample_graph_ibp` is the same process on any decomposable graph, by Gibbs sampling: an item has a
feature with odds by its counts in the cliques and separators around the item, unless its owners
would fall apart without it; its own features are Poisson.

Both correct Caron and Doucet, "Bayesian nonparametric models on decomposable graphs", NIPS 2009,
section 4: features whose rows are too far apart are per feature, not per matrix; dead features are
marginalised (the state is a matrix over live features, not over rows); and in the conditionals sets
without the item are left out.
"""
