"""Nested Chinese restaurant process: trees of topics and of components, learned from a stream.

A document, or a point, takes a path through a tree of fixed depth in which every node has
infinitely many children: child j of a node is taken with probability v_j prod_{i<j} (1 - v_i),
v ~ Beta(1, gamma). Only a finite part of the tree is kept; what lies outside keeps its prior, and
sums over the infinitely many paths that leave the kept part are in closed form (`kernels.tree`).

- `topic_tree.TopicTree`: each word of a document comes from a topic of its path. Incremental
  variational inference on the bound with all parameters at their optimum: a document is taken out
  of the statistics and placed where the bound gains most, a new path among the places.
- `components.ComponentTree`: a point is a sum of the vectors of its path, times loadings.
- `gibbs`: collapsed sampling of topic trees, as a baseline. Along the path of a document,
  theta_d ~ Dirichlet(alpha), beta_k ~ Dirichlet(eta), z_dj ~ theta_d, w_dj ~ beta of the node at
  level z_dj, with theta and beta integrated out. A document of N tokens is visited in O(N K) for K
  nodes: its path is sampled given the levels, then path and levels together (accepted or not,
  Metropolis-Hastings), then the levels. Without the joint step the two hold each other fast.

C. Wang and D. Blei, Variational inference for the nested Chinese restaurant process, NIPS 2009.
Deviations: sibling sticks are kept in order of size; q(v) counts the paths that leave the kept
tree below a parent (the paper's eq. 11 leaves them out); moves must raise the bound.
D. M. Blei, T. L. Griffiths and M. I. Jordan, The nested Chinese restaurant process and Bayesian
nonparametric inference of topic hierarchies. Journal of the ACM 57(2), 2010.
"""
