"""Partitions on decomposable graphs: `GraphCRP`, `GroupDP`, and Gibbs samplers of both.

The equations are in docs/math/graphs.md. In `GraphCRP` an item joins a cluster with n of its m
parents with probability n / (alpha + m), and opens one with alpha / (alpha + m). A particle holds a
seating of the last items; an arrival makes one child of it for each table it may sit at. Children
with the same future are merged, and as many as there are particles are kept by optimal resampling;
the sum of the children's weights is an unbiased factor of the evidence. Clusters with equal members
are stored once, however many particles hold them. An arrival costs O(P K) and the predictive
densities of the distinct clusters, O(P r) more for each revision; memory is O(P (r + K) + C S) with
C <= P K clusters of S numbers, whatever the length of the stream.

In `GroupDP` auxiliary items without data tie the groups. A particle holds their seating, drawn from
the prior, and counts of items per cluster and group; after each arrival some auxiliary items are
resampled. Of the pairs of cluster and group only the R that have items are kept: as a cluster
without auxiliary items is that of one group, R <= K + N C for C groups. An arrival costs O(P K) and
O(P (K + R)) per move; memory is O(P (K + R)).

K and C have limits. The items of a group are a leaf of the graph, so without them the others have
the law that they would have had alone: a group is forgotten exactly. A cluster is forgotten by
taking its items out of each particle that has it, which is exact given the particle; but which one
it is depends on the items.

In a Markov chain the group of a row is the cluster of the row before it, and may differ between
particles: an infinite hidden Markov model. Given the auxiliary items, the rows that follow cluster
j are independent draws of its own Dirichlet process, so counts n_jk of what followed what take the
place of those of groups, and all else is the same. C is then K + 1.

References: Caron and Doucet, "Bayesian nonparametric models on decomposable graphs", NIPS 2009;
Fearnhead and Clifford, "On-line inference for hidden Markov models via particle filters", JRSS B
2003.
"""
