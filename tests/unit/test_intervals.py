"""Intervals of cluster parameters hold the parameters as often as they say."""

import math

import numpy as np
import pytest

from streamddcrp.errors import ConfigError
from streamddcrp.likelihoods import (
    BetaBernoulli,
    DirichletMultinomial,
    GammaPoisson,
    NormalGamma,
    NormalWishart,
    Product,
    Regression,
)

N = 2000  # draws of parameters from the prior, each with rows of its own
LEVEL = 0.9


def normal_gamma(rng, n):
    tau = rng.gamma(2.0, 1.0 / 1.5)
    mu = rng.normal(0.5, 1.0 / math.sqrt(0.3 * tau))
    return {"mean": [mu], "sd": [tau**-0.5]}, rng.normal(mu, tau**-0.5, (n, 1))


def normal_wishart(rng, n):
    A = rng.normal(size=(5, 2)) @ np.linalg.cholesky(np.linalg.inv(SCATTER)).T
    cov = np.linalg.inv(A.T @ A)  # the inverse of a Wishart of 5 degrees
    mu = rng.multivariate_normal([0.5, -1.0], cov / 0.3)
    return {"mean": mu, "sd": np.sqrt(np.diag(cov))}, rng.multivariate_normal(mu, cov, n)


def gamma_poisson(rng, n):
    rate = rng.gamma(2.0, 1.0 / 0.5)
    return {"mean": [rate]}, rng.poisson(rate, (n, 1)).astype(float)


def beta_bernoulli(rng, n):
    p = rng.beta(2.0, 3.0)
    return {"probability": [p]}, (rng.random((n, 1)) < p).astype(float)


def dirichlet(rng, n):
    p = rng.dirichlet([0.7] * 3)
    return {"probability": p}, rng.multinomial(4, p, n).astype(float)


SCATTER = np.array([[2.0, 0.6], [0.6, 1.0]])
FAMILIES = {
    "normal_gamma": (NormalGamma(0.5, 0.3, 2.0, 1.5), normal_gamma),
    "normal_wishart": (NormalWishart([0.5, -1.0], 0.3, SCATTER.tolist(), 5.0), normal_wishart),
    "gamma_poisson": (GammaPoisson(2.0, 0.5), gamma_poisson),
    "beta_bernoulli": (BetaBernoulli(2.0, 3.0), beta_bernoulli),
    "dirichlet": (DirichletMultinomial(0.7, 3), dirichlet),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_coverage(name):
    family, draw = FAMILIES[name]
    rng = np.random.default_rng(sorted(FAMILIES).index(name))
    drawn = [draw(rng, 1 + i % 7) for i in range(N)]
    stats = np.array([family.suffstats(rows).sum(axis=0) for _, rows in drawn])
    found = family.intervals(stats, LEVEL)
    assert found.keys() == drawn[0][0].keys() == family.point_estimates(stats).keys()
    for key, ends in found.items():
        truth = np.array([theta[key] for theta, _ in drawn])
        assert ends.shape == (*truth.shape, 2)
        within = ((ends[..., 0] < truth) & (truth < ends[..., 1])).mean(axis=0)
        assert np.abs(within - LEVEL).max() < 4.0 * math.sqrt(LEVEL * (1.0 - LEVEL) / N)
        below = (truth <= ends[..., 0]).mean(axis=0)  # as often on either side
        assert np.abs(below - 0.05).max() < 4.0 * math.sqrt(0.05 * 0.95 / N)


def test_product_and_what_has_none():
    family = Product([(NormalGamma(0.0, 0.1, 2.0, 1.0), [1]), (GammaPoisson(1.0, 0.5), [0])])
    stats = family.suffstats([[3.0, 0.2], [2.0, -0.4]]).sum(axis=0)
    found = family.intervals(stats)
    alone = GammaPoisson(1.0, 0.5)
    expected = alone.intervals(alone.suffstats([[3.0], [2.0]]).sum(axis=0))["mean"]
    np.testing.assert_allclose(found["mean"][:, [0]], expected)
    assert np.isnan(found["sd"][0, 0]).all()
    assert (np.diff(found["sd"][0, 1]) > 0.0).all()
    line = Regression([1])
    assert line.intervals(np.zeros((1, line.n_stats(2)))) == {}
    with pytest.raises(ConfigError, match="level"):
        family.intervals(stats, 0.0)
