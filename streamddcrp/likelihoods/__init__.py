"""Conjugate families: the distribution of the rows of one table.

A family is a density p(x | theta) with a conjugate prior. Rows enter through sufficient statistics,
a vector that adds, subtracts, scales and merges; with q(theta) the posterior of the weighted rows,

    sum_i z_i E log p(x_i | theta) - KL(q(theta) || p(theta)) = log marginal(statistics),

so the statistics alone give the bound of a variational method. All families share one interface,
`Likelihood`, which methods reach through compiled kernels. A row costs O(D) time in each table,
O(D^2) for `NormalWishart`. Memory is one vector of statistics and one cached posterior per table,
whatever the number of rows.

References
----------
Bernardo and Smith, Bayesian Theory (1994), appendix A: the families and their predictives.
"""

from streamddcrp.likelihoods.auto import choose_likelihood
from streamddcrp.likelihoods.base import Likelihood
from streamddcrp.likelihoods.counts import BetaBernoulli, DirichletMultinomial, GammaPoisson
from streamddcrp.likelihoods.gaussian import NormalGamma, NormalWishart
from streamddcrp.likelihoods.linear_gaussian import LinearGaussian
from streamddcrp.likelihoods.product import Product
from streamddcrp.likelihoods.registry import LikelihoodSpec, likelihood_from_config, make_likelihood
from streamddcrp.likelihoods.regression import Autoregression, Regression

__all__ = [
    "Autoregression",
    "BetaBernoulli",
    "DirichletMultinomial",
    "GammaPoisson",
    "Likelihood",
    "LikelihoodSpec",
    "LinearGaussian",
    "NormalGamma",
    "NormalWishart",
    "Product",
    "Regression",
    "choose_likelihood",
    "likelihood_from_config",
    "make_likelihood",
]
