"""Nested Chinese restaurant process: trees of topics and of components, learned from a stream.

A document, or a point, takes a path through a tree of fixed depth in which every node has
infinitely many children: child j of a node is taken with probability v_j prod_{i<j} (1 - v_i),
v ~ Beta(1, gamma). Only a finite part of the tree is kept; what lies outside keeps its prior, and
sums over the infinitely many paths that leave the kept part are in closed form (`kernels.tree`).

- `topics.TopicTree`: each word of a document comes from a topic of its path. Incremental
  variational inference on the bound with all parameters at their optimum: a document is taken out
  of the statistics and placed where the bound gains most, a new path among the places.
- `ascent`: the same bound by coordinate ascent, with word levels conditional on the path or, as
  in the paper, factorised; and natural-gradient steps on batches.
- `components.ComponentTree`: a point is a sum of the vectors of its path, times loadings.

C. Wang and D. Blei, Variational inference for the nested Chinese restaurant process, NIPS 2009.
Deviations: sibling sticks are kept in order of size; q(v) counts the paths that leave the kept
tree below a parent (the paper's eq. 11 leaves them out); moves must raise the bound.


Collapsed Gibbs sampling of a tree of topics under the nested CRP, as a baseline.

Documents walk down a tree of L levels, the root first; at each node they take the branch of m_c
earlier documents with weight m_c, a new one with weight gamma. Along their path,

    theta_d ~ Dirichlet(alpha_1, .., alpha_L),   beta_k ~ Dirichlet(eta, .., eta),
    z_dj ~ theta_d,   w_dj ~ beta of the path's node at level z_dj,

with theta and beta integrated out. A sweep visits every document: its path is drawn given the
levels of its tokens, among all leaves and all ways to branch off; then path and levels are drawn
together and the draw is accepted or not (Metropolis-Hastings); then the levels given the path.
Drawn by turns alone they hold each other fast: tokens of a level keep a document at a node, and the
node keeps their level. A visit costs O(N K) for a document of N tokens and K nodes.

References
----------
D. M. Blei, T. L. Griffiths and M. I. Jordan. The nested Chinese restaurant process and Bayesian
nonparametric inference of topic hierarchies. Journal of the ACM 57(2), 2010.
"""
