"""Collapsed Gibbs sampling of a tree of topics under the nested CRP, as a baseline.

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

from streamddcrp.inference.ncrp_gibbs.sampler import sample_nested_topics
from streamddcrp.inference.ncrp_gibbs.samples import NestedTopicSamples

__all__ = ["NestedTopicSamples", "sample_nested_topics"]
