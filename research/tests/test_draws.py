"""Parameters drawn from a table's posterior: moments, predictive densities, posterior means."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats as dist

from research.kernels.draw import draw_parameters, mean_parameters
from streamddcrp.compilation import kernel
from streamddcrp.likelihoods import (
    Autoregression,
    BetaBernoulli,
    DirichletMultinomial,
    GammaPoisson,
    NormalGamma,
    NormalWishart,
    Product,
    Regression,
)
from streamddcrp.likelihoods.kernels import families
from tests.oracles import families as twins

RNG = np.random.default_rng(5)
NUMBERS = RNG.normal([0.5, -1.0, 2.0], [1.0, 0.5, 2.0], (9, 3))
GAPS = NUMBERS.copy()
GAPS[[1, 4], [0, 2]] = np.nan
COUNTS = RNG.poisson([0.3, 2.0, 9.0], (7, 3)).astype(float)
BITS = (RNG.random((6, 3)) < [0.1, 0.5, 0.9]).astype(float)
SCATTER = np.array([[2.0, 0.6, 0.1], [0.6, 1.0, -0.3], [0.1, -0.3, 1.5]])
WISHART = NormalWishart([0.5, -1.0, 1.0], 0.7, SCATTER, 4.5)
GAMMA = NormalGamma([0.5, -1.0, 1.0], [0.3, 1.0, 2.0], [2.5, 3.0, 4.0], [1.0, 0.4, 2.0])
LINEAR = Regression((0, 2), [0.5, -1.0, 2.0], [1.0, 2.0, 0.5], 0.8, [2.5, 3.0], [1.0, 0.4])
CASES = {
    "normal-gamma": (GAMMA, GAPS),
    "normal-gamma prior": (GAMMA, GAPS[:0]),
    "normal-wishart": (WISHART, NUMBERS),
    "normal-wishart prior": (NormalWishart([0.5, -1.0, 1.0], 0.7, SCATTER, 9.0), NUMBERS[:0]),
    "normal-wishart of one": (NormalWishart([0.5], 0.7, [[2.0]], 3.5), NUMBERS[:, :1]),
    "regression": (LINEAR, GAPS),
    "autoregression": (Autoregression(2, 0.0, 1.0, 0.5, 2.5, 1.0), NUMBERS),
    "dirichlet": (DirichletMultinomial(0.7, 3), COUNTS),
    "dirichlet of little mass": (DirichletMultinomial(0.02, 3), COUNTS[:1]),
    "gamma-poisson": (GammaPoisson([0.4, 2.0, 1.0], [0.5, 1.5, 1.0]), COUNTS),
    "beta-bernoulli": (BetaBernoulli([0.4, 2.0, 1.0], [0.5, 1.5, 1.0]), BITS),
    "product": (
        Product([(GammaPoisson(0.9, 0.5), [3]), (NormalGamma(0.0, 0.5, 3.0, 1.0), [1, 0]),
                 (NormalWishart(0.0, 0.5, [[1.0]], 4.0), [2])]),
        np.column_stack([NUMBERS[:7], COUNTS[:, 2]]),
    ),
}  # fmt: skip
N_DRAWS = 20_000


@kernel
def draws(family, hyper, stats, post, rng, out):
    for i in range(len(out)):
        draw_parameters(family, hyper, stats, post, rng, out[i])


def table(name):
    likelihood, X = CASES[name]
    hyper = likelihood.hyper(X.shape[1])
    stats = likelihood.suffstats(X).sum(axis=0)
    post = np.empty(int(families.n_post(likelihood.family, hyper)))
    families.posterior(likelihood.family, hyper, stats, post)
    return likelihood, hyper, stats, post


@pytest.fixture(scope="module", params=CASES)
def drawn(request):
    likelihood, hyper, stats, post = table(request.param)
    eta = np.empty((N_DRAWS, len(stats)))
    draws(likelihood.family, hyper, stats, post, np.random.default_rng(0), eta)
    return request.param, eta


def within(sample, expected, n_errors=4.0):
    error = sample.std(axis=0) / np.sqrt(len(sample))
    assert (np.abs(sample.mean(axis=0) - expected) <= n_errors * error + 1e-9).all()


def test_mean_of_natural_parameters(drawn):
    name, eta = drawn
    likelihood, hyper, _, post = table(name)
    expected = np.empty(eta.shape[1])
    families.natural_parameters(likelihood.family, hyper, post, expected)
    within(eta, expected)


def test_mean_density_is_predictive(drawn):
    name, eta = drawn
    likelihood, _, stats, _ = table(name)
    X = CASES[name][1] if len(CASES[name][1]) else np.array([[0.1, -0.8, 1.4]])
    past = X[-3:-1] if name == "autoregression" else None
    expected = likelihood.log_predictive(X[-1], stats, past)[0]
    within(np.exp(eta @ likelihood.suffstats(X)[-1]), np.exp(expected))


def test_products_draw_their_parts_alike():
    """A product of one part, beside the part alone, from equal generators."""
    product = Product([(WISHART, [0, 1, 2])])
    found = []
    for likelihood in WISHART, product:
        hyper, stats = likelihood.hyper(3), likelihood.suffstats(NUMBERS).sum(axis=0)
        post = np.empty(int(families.n_post(likelihood.family, hyper)))
        families.posterior(likelihood.family, hyper, stats, post)
        eta = np.empty((3, len(stats)))
        draws(likelihood.family, hyper, stats, post, np.random.default_rng(1), eta)
        found.append(eta)
    assert_allclose(found[1][:, 1:], found[0])
    assert (found[1][:, 0] == 0.0).all()


def plugged(name, x):
    """Log density at the posterior mean, the slow way."""
    likelihood, X = CASES[name]
    z = np.ones(len(X))
    if name == "normal-gamma":
        total = 0.0
        twin = twins.NormalGammaTwin(
            *(np.array(getattr(likelihood, v)) for v in ("mean", "kappa", "shape", "rate"))
        )
        for d, values, weights in twin.features(X, z):
            mean, _, shape, rate = twin.posterior_1(d, values, weights)
            total += dist.norm.logpdf(x[d], mean, np.sqrt(rate / shape))
        return total
    if name == "normal-wishart":
        values = (getattr(likelihood, field.name) for field in dataclasses.fields(likelihood))
        twin = twins.NormalWishartTwin(*map(np.array, values))
        mean, _, scatter, dof = twin.posterior(X, z)
        return dist.multivariate_normal.logpdf(x, mean, scatter / dof)
    if name == "regression":
        fields = likelihood.targets, likelihood.mean, likelihood.scale, likelihood.kappa
        both = likelihood.shape, likelihood.rate
        twin = twins.RegressionTwin(
            fields[0], *(np.array(v) for v in fields[1:3]), fields[3], *(np.array(v) for v in both)
        )
        total = 0.0
        for t in range(len(likelihood.targets)):
            w, _, shape, rate = twin.posterior(t, X, z)
            phi, y, _ = twin.data(t, x[None])
            total += dist.norm.logpdf(y[0], phi[0] @ w, np.sqrt(rate / shape))
        return total
    if name == "dirichlet":
        c = 0.7 + X.sum(axis=0)
        return x @ np.log(c / c.sum())
    values = (getattr(likelihood, field.name) for field in dataclasses.fields(likelihood))
    a, b, _ = map(np.array, values)  # and the share of a column
    if name == "gamma-poisson":
        return dist.poisson.logpmf(x, (a + X.sum(axis=0)) / (b + len(X))).sum()
    return dist.bernoulli.logpmf(x, (a + X.sum(axis=0)) / (a + b + len(X))).sum()


@pytest.mark.parametrize(
    "name",
    ["normal-gamma", "normal-wishart", "regression", "dirichlet", "gamma-poisson",
     "beta-bernoulli"],
)  # fmt: skip
def test_posterior_mean(name):
    likelihood, hyper, stats, post = table(name)
    eta = np.empty(len(stats))
    mean_parameters(likelihood.family, hyper, post, eta)
    x = CASES[name][1][0]
    assert_allclose(eta @ likelihood.suffstats(x), plugged(name, x), rtol=1e-10)


def test_tiny_masses_draw_numbers():
    """A category with next to no mass has a log probability far below that of any float."""
    likelihood = DirichletMultinomial(1e-6, 4)
    hyper, stats = likelihood.hyper(4), np.zeros(5)
    post = np.empty(int(families.n_post(likelihood.family, hyper)))
    families.posterior(likelihood.family, hyper, stats, post)
    eta = np.empty((200, 5))
    draws(likelihood.family, hyper, stats, post, np.random.default_rng(2), eta)
    assert np.isfinite(eta).all()
    assert_allclose(np.exp(eta[:, 1:]).sum(axis=1), 1.0, atol=1e-9)
