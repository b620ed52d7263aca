"""Chinese restaurant process on decomposable graphs, followed by particles along a stream.

Model: item t names parents among earlier items, all neighbours of each other; it joins a cluster
with n of its m parents with probability n / (alpha + m), and opens one with alpha / (alpha + m).
Members of a cluster share the parameter of a conjugate family. Every clique of the graph is then a
Chinese restaurant process, and a cluster is connected in the graph. With the last r items as
parents, a cluster that was silent for r items is dead.

A particle holds a seating of the last items; an arrival makes one child of it for each table it may
sit at. Equivalent children are merged, and as many as there are particles are kept by the optimal
resampling of Fearnhead and Clifford; the sum of the children's weights is an unbiased factor of the
evidence. alpha is fixed or integrated out on a grid. With rejuvenation, items of the window are
resampled from their full conditionals. Clusters with equal members are stored once, however many
particles hold them.

An arrival costs O(P K) and the predictive densities of the distinct clusters, O(P r) more for each
revision; memory O(P (r + K) + C S) with C <= P K clusters of S numbers, whatever the length of the
stream.

References: Caron and Doucet, "Bayesian nonparametric models on decomposable graphs", NIPS 2009;
Fearnhead and Clifford, "On-line inference for hidden Markov models via particle filters", JRSS B
2003.


Clusters shared by groups through auxiliary items: Dirichlet processes on a decomposable graph.

Model: N_0 auxiliary items without data form, with the items of any one group, a Chinese restaurant
process of concentration alpha; the auxiliary items separate the groups. So an item of group c joins
cluster j with weight m_j0 + m_jc, its auxiliary items and its items of the group, and opens one
with weight alpha. Each group's distribution is a Dirichlet process, and those of two groups have
correlation N_0 / (alpha + N_0) on every set. With two layers a node between root and groups has N_1
auxiliary items of its own, which form a Chinese restaurant process with those of the root.

A particle holds the seating of the auxiliary items, drawn from the prior, and counts of items per
cluster and group. Arrivals are learned as in `graph_crp`; after each, some auxiliary items are
resampled from their full conditionals. Of the pairs of cluster and group only the R that have items
are kept: as a cluster without auxiliary items is that of one group, R <= K + N C for C groups. An
arrival costs O(P K) and O(P (K + R)) per move; memory is O(P (K + R)). alpha is fixed or integrated
out on a grid: all that is known of it are the number of clusters and the numbers of parents. The
Gibbs sampler seats all rows by the same weights, moves the auxiliary items in the same way, and
draws alpha by gamma variables.

K and C have limits. The items of a group are a leaf of the graph, so without them the others have
the law that they would have had alone: a group is forgotten exactly. A cluster is forgotten by
taking its items out of each particle that has it, which is exact given the particle; but which one
it is depends on the items.

In a Markov chain the group of a row is the cluster of the row before it, and may differ between
particles: an infinite hidden Markov model. Given the auxiliary items, the rows that follow cluster
j are independent draws of its own Dirichlet process, so counts n_jk of what followed what take the
place of those of groups, and all else is the same. C is then K + 1.

Reference: Caron and Doucet, "Bayesian nonparametric models on decomposable graphs", NIPS 2009,
section 4.1.
"""
