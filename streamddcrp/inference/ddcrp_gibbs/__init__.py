"""Collapsed Gibbs sampling of the distance dependent CRP mixture, sequential and general.

Model: customer i links to customer j with probability f(d_ij) / (alpha + F_i) or to itself with
probability alpha / (alpha + F_i), F_i = sum_j f(d_ij); customers that links connect, in either
direction, sit at one table and share the parameter of a conjugate exponential family:

    p(x, c) = prod_i A_{i, c_i} prod_k m(S_k),

m the marginal likelihood of the rows of a table. Sequential: links go back in the order of arrival.
General: any link, as between the vertices of a graph.

A sweep draws every link once. With W candidates a customer it costs O(N (W + P + K L)): P numbers
of statistics, K tables among the candidates, L for the marginal likelihood of one; general links
O(|S| P) more for each customer, |S| those below it. Memory is O(N P) and the candidates, W numbers
in all where distance is the difference of arrival indices.

References
----------
D. M. Blei and P. I. Frazier. Distance dependent Chinese restaurant processes. JMLR 12, 2011.
"""

from streamddcrp.inference.ddcrp_gibbs.candidates import Candidates
from streamddcrp.inference.ddcrp_gibbs.chain import Chain
from streamddcrp.inference.ddcrp_gibbs.distances import Distances
from streamddcrp.inference.ddcrp_gibbs.hyper import HyperGrid
from streamddcrp.inference.ddcrp_gibbs.parameters import ParameterChain
from streamddcrp.inference.ddcrp_gibbs.predict import held_out_log_likelihood
from streamddcrp.inference.ddcrp_gibbs.prior import PriorSummary, alpha_for, prior_summary
from streamddcrp.inference.ddcrp_gibbs.sampler import sample_ddcrp
from streamddcrp.inference.ddcrp_gibbs.samples import DDCRPSamples

__all__ = [
    "Candidates",
    "Chain",
    "DDCRPSamples",
    "Distances",
    "HyperGrid",
    "ParameterChain",
    "PriorSummary",
    "alpha_for",
    "held_out_log_likelihood",
    "prior_summary",
    "sample_ddcrp",
]
