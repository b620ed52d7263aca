r"""Nested Chinese restaurant process: trees of topics and of components, learned from a stream.

A document, or a point, takes a path through a tree of fixed depth in which every node has
infinitely many children: child j of a node is taken with probability v_j prod_{i<j} (1 - v_i),
v ~ Beta(1, gamma). Only a finite part of the tree is kept; what lies outside keeps its prior, and
sums over the infinitely many paths that leave the kept part are in closed form (`_kernels_tree`).

- `topics.TopicTree`: each word of a document comes from a topic of its path. Incremental
  variational inference on the bound with all parameters at their optimum: a document is taken out
  of the statistics and placed where the bound gains most, a new path among the places.
- `ascent`: the same bound by coordinate ascent, with word levels conditional on the path or, as
  in the paper, factorised; and natural-gradient steps on batches.
- `components.ComponentTree`: a point is a sum of the vectors of its path, times loadings.

C. Wang and D. Blei, Variational inference for the nested Chinese restaurant process, NIPS 2009.
Deviations: sibling sticks are kept in order of size; q(v) counts the paths that leave the kept
tree below a parent (the paper's eq. 11 leaves them out); moves must raise the bound.
"""
