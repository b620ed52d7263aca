"""The Indian buffet process on a decomposable graph, by Gibbs sampling.

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

from streamddcrp.inference.graph_ibp.sampler import GraphIBPSamples, fit_graph_ibp

__all__ = ["GraphIBPSamples", "fit_graph_ibp"]
