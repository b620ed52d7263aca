"""Nested Chinese restaurant process: trees of topics and of components, learned from a stream.

A document or point takes a path through a tree of fixed depth in which every node has infinitely
many children: child j of a node is taken with probability v_j prod_{i<j} (1 - v_i), v ~ Beta(1,
gamma). Only a finite part of the tree is stored. The rest keeps its prior, and sums over the
infinitely many paths that leave the stored part have closed form (`kernels.tree`).

- `topic_tree.TopicTree`: each word of a document comes from a topic of its path. A document is
  removed from the statistics and placed where the bound gains most, perhaps on a new path.
- `components.ComponentTree`: a point is a sum of the vectors of its path, times loadings.
- `gibbs`: collapsed sampling of topic trees. A visit to a document of N tokens costs O(N K) for K
  nodes: its path given the levels, path and levels together (Metropolis-Hastings, or the two hold
  each other fast), then the levels.

C. Wang and D. Blei, Variational inference for the nested Chinese restaurant process, NIPS 2009.
Deviations: sibling sticks are kept in order of size; q(v) counts the paths that leave the stored
tree below a parent (the paper's eq. 11 omits them); moves must raise the bound. D. M. Blei, T. L.
Griffiths and M. I. Jordan, The nested Chinese restaurant process and Bayesian nonparametric
inference of topic hierarchies. Journal of the ACM 57(2), 2010.
"""
