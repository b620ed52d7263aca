"""The time-varying Indian buffet process by sequential Monte Carlo.

Model: row t has each feature that m of the r rows before it have with probability m / (r + 1), and
Poisson(alpha / (r + 1)) new ones (fewer rows count in the first r); a feature that none of r rows
in a row has is dead. A row is the sum of the loadings of its features, a baseline and Gaussian
noise (`streamddcrp.likelihoods.LinearGaussian`), loadings and noise variance integrated out.

A particle is a choice of features for all rows. An arrival's children are all subsets of a
particle's live features with any number of new ones (of many features, all subsets of the eight
most doubtful ones, the others drawn, with weights to match); their sum is an unbiased factor of the
evidence. A few children of each particle, then as many of all as there are places, are kept by
optimal resampling; equal ones are merged. Then rows of the window are resampled, by exact Gibbs
steps over all their features, six at a time: that is what finds the right features. A new feature
that a row may get is weighed with every scale. What is gained depends on the number of particles
times the number of rows that each resamples.

The first rows are learned by annealing, too (`start`), and both kinds of particles compete.

An arrival costs O(P (K^2 D + 2^min(K, 8))), every resampled row O(K D + K^2) a particle; memory is
O(P (K^2 + K D + r)), whatever the length of the stream.

References
----------
Caron and Doucet, "Bayesian nonparametric models on decomposable graphs", NIPS 2009, section 4.2;
with corrections: features whose rows are too far apart are per feature, not per matrix, and dead
features are marginalised (the state is a matrix over live features, not over rows).


The Indian buffet process on a decomposable graph, by Gibbs sampling.

Items have features; a feature's owners form a connected set of the graph, and within each clique
the features are an Indian buffet process. For one history (set of owners) h

    lambda_h = prod_C (n_hC - 1)! (n_C - n_hC)! / n_C!  over  the same product of separators

and the number of features with that history is Poisson(alpha lambda_h), independently
(`prior.intensity`). Given all others, an item has a feature with odds

    prod_C max(n_C', 1) / (n_C - n_C')  over  the same product of separators that hold the item

unless its owners would fall apart without it; its own features are Poisson.

References
----------
Caron and Doucet, "Bayesian nonparametric models on decomposable graphs", NIPS 2009, section 4; the
conditionals corrected: sets without the item are left out, and support is tested for each feature.
"""
