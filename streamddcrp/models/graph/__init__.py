"""Partitions on decomposable graphs: `GraphCRP`, `GroupDP`, and Gibbs samplers of both.

The equations are in docs/math/graphs.md. In `GraphCRP` an item joins a cluster with n of its m
parents with probability n / (alpha + m), and opens one with alpha / (alpha + m). A particle holds a
seating of the last items; an arrival gives it one child for each possible table. Children with the
same future are merged, and optimal resampling keeps as many as there are particles; the sum of the
children's weights is an unbiased factor of the evidence. Clusters with equal members are stored
once, whichever particles hold them. An arrival costs O(P K) and the predictive densities of the
distinct clusters, plus O(P r) for each revision; memory is O(P (r + K) + C S) with C <= P K
clusters of S numbers, whatever the length of the stream.

In `GroupDP` auxiliary items without data tie the groups. A particle holds their seating, drawn from
the prior, and counts of items per cluster and group; after each arrival some auxiliary items are
resampled. Only the R pairs of cluster and group that have items are stored: a cluster without
auxiliary items belongs to one group, so R <= K + N C for C groups. An arrival costs O(P K), and
each move O(P (K + R)); memory is O(P (K + R)).

K and C have limits. The items of a group are a leaf of the graph, so without them the others have
their own marginal distribution: a group is forgotten exactly. A cluster is forgotten by removing
its items from each particle that has it. This is exact given the particle, but the choice of
cluster depends on the items.

In a Markov chain the group of a row is the previous row's cluster, and may differ between
particles: an infinite hidden Markov model. Given the auxiliary items, the rows after cluster j are
independent draws of its own Dirichlet process, so counts n_jk of transitions replace those of
groups, and all else is the same. C is then K + 1.

References: Caron and Doucet, "Bayesian nonparametric models on decomposable graphs", NIPS 2009;
Fearnhead and Clifford, "On-line inference for hidden Markov models via particle filters", JRSS B
2003.
"""
