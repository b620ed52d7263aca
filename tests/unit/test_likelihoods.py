"""Conjugate families: hand-computed values, twins, draws, options and refusals."""

import dataclasses
import math
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, special, stats

from streamddcrp.errors import SchemaError
from streamddcrp.likelihoods import (
    Autoregression,
    BetaBernoulli,
    DirichletMultinomial,
    GammaPoisson,
    NormalGamma,
    NormalWishart,
    Regression,
)
from streamddcrp.likelihoods.kernels import families
from streamddcrp.likelihoods.kernels.special import (
    gamma_terms,
    log_factorial,
    log_gamma,
    log_rising,
)
from tests.oracles import families as twins

NAN = np.nan

# One of each, D = 2, with rows to learn from and a twin.
FAMILIES = [
    NormalGamma([0.5, -1.0], [0.3, 1.0], [1.5, 2.0], [1.0, 0.4]),
    NormalWishart([0.5, -1.0], 0.3, [[2.0, 0.6], [0.6, 1.0]], 2.5),
    DirichletMultinomial(0.7, 2),
    DirichletMultinomial(1.3),
    GammaPoisson([0.4, 2.0], [0.5, 1.5]),
    BetaBernoulli([0.4, 2.0], [0.5, 1.5]),
]
ROWS = {
    "NormalGamma": [[0.3, 1.0], [-1.2, 0.2], [0.5, -0.4]],
    "NormalWishart": [[0.3, 1.0], [-1.2, 0.2], [0.5, -0.4]],
    "DirichletMultinomial": [[2.0, 0.0], [1.0, 3.0], [0.0, 0.0]],
    "GammaPoisson": [[2.0, 0.0], [1.0, 15.0], [0.0, 70.0]],
    "BetaBernoulli": [[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]],
}
ids = [f"{type(f).__name__}{i}" for i, f in enumerate(FAMILIES)]
each_family = pytest.mark.parametrize("family", FAMILIES, ids=ids)


def learned(family):
    return family.suffstats(ROWS[type(family).__name__]).sum(axis=0)


def make_twin(family):
    if isinstance(family, DirichletMultinomial):
        mass = family.hyper(2)[1]
        return twins.DirichletMultinomialTwin(np.full(2, mass))
    twin = getattr(twins, f"{type(family).__name__}Twin")
    values = {f.name: np.array(getattr(family, f.name)) for f in dataclasses.fields(twin)}
    return twin(**values)


def log_marginal(family, rows):
    return family.log_marginal(family.suffstats(rows).sum(axis=0))[0]


# --- Values computed elsewhere -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([0], -2.0052690601),
        ([2], -3.132374916),
        ([0, 1, 3], -3.8447123415),
        ([2, 4, 5], -5.5907847284),
    ],
)
def test_normal_wishart_of_one_feature(members, expected):
    x = np.array([0.3, -0.2, 4.1, 0.1, 3.8, 4.4])
    family = NormalWishart(0.0, 0.1, [[2.0]], 3.0)
    assert_allclose(log_marginal(family, x[members, None]), expected, atol=1e-10)


@pytest.mark.parametrize(
    ("family", "rows", "expected"),
    [
        (NormalGamma(0, 0.5, 2, 1), [[0.3], [-1.2], [0.5], [2.0], [-0.9]], -9.8515204125),
        (DirichletMultinomial(0.5, 3), np.eye(3)[[0, 1, 0, 2, 0]], -6.5410299992),
        (GammaPoisson(1.5, 0.8), [[2], [0], [3], [7], [1]], -12.8501750630),
        (
            NormalWishart([0, 0], 0.5, np.eye(2), 4),
            [[0.3, 1], [-1.2, 0.2], [0.5, -0.4]],
            -9.3401324911,
        ),
        (BetaBernoulli(1, 1), [[1], [1], [0]], -math.log(12)),  # 2! 1! / 4!
    ],
)
def test_log_marginal_of_one_table(family, rows, expected):
    assert_allclose(log_marginal(family, rows), expected, atol=1e-10)


def test_normal_wishart_of_one_feature_is_normal_gamma():
    """W(1/s, v) is Gamma(v/2, s/2)."""
    rows = np.array([[0.3], [2.0], [-4.0]])
    wishart, gamma = NormalWishart(1.0, 0.4, [[3.0]], 2.6), NormalGamma(1.0, 0.4, 1.3, 1.5)
    assert_allclose(log_marginal(wishart, rows), log_marginal(gamma, rows), rtol=1e-12)


def test_normal_wishart_of_many_features_agrees_with_scipy():
    """Both parities of the multivariate gamma chain, and an ill-conditioned scatter."""
    rng = np.random.default_rng(0)
    for D in (1, 2, 3, 6, 7, 16):
        root = rng.normal(size=(D, D))
        scatter = root @ root.T + 0.01 * np.eye(D)
        family = NormalWishart(rng.normal(size=D), 0.2, scatter, D + 0.5)
        X = rng.normal(size=(4, D))
        z = rng.uniform(size=4)
        twin = make_twin(family)
        S = (z[:, None] * family.suffstats(X)).sum(axis=0)
        tol = 1e-13 * np.linalg.cond(scatter) + 1e-10
        assert_allclose(family.log_marginal(S)[0], twin.bound(X, z), rtol=tol)
        found = family.log_predictive(X[0], S)[0]
        assert_allclose(found, twin.log_predictive(X[0], X, z), rtol=tol)


# --- Special functions ---------------------------------------------------------------------------


@pytest.mark.parametrize("a", [1e-6, 0.3, 1.0, 15.9, 16.0, 1e3, 1e8, 1e15])
@pytest.mark.parametrize("n", [0, 1, 5, 12, 13, 200])
def test_log_rising_of_whole_numbers_is_a_sum_of_logs(a, n):
    expected = math.fsum(math.log(a + k) for k in range(n))
    # below 16 a difference of lgamma at up to lgamma(216) = 943
    assert_allclose(log_rising(a, float(n)), expected, rtol=1e-13, atol=2e-13)


@pytest.mark.parametrize("a", [1e-6, 0.3, 7.7, 16.0, 25.0])
@pytest.mark.parametrize("n", [1e-9, 0.5, 3.3, 1e4])
def test_log_rising_of_real_numbers(a, n):
    expected = special.gammaln(a + n) - special.gammaln(a)
    scale = abs(special.gammaln(a + n)) + abs(special.gammaln(a))
    assert_allclose(log_rising(a, n), expected, atol=1e-14 * (1.0 + scale), rtol=0)


def test_log_rising_over_overflowing_products():
    assert_allclose(log_rising(1e300, 12.0), 12 * math.log(1e300), rtol=1e-14)


@pytest.mark.parametrize("x", [1e-6, 0.5, 1.0, 1.5, 2.3, 15.5, 15.9, 16.0, 31.5, 1e4, 1e12])
def test_log_gamma_half_a_step_of_it_and_its_slope(x):
    gamma, half, psi = gamma_terms(x)
    assert_allclose(log_gamma(x), special.gammaln(x), rtol=1e-15, atol=4e-15)
    assert_allclose(gamma, special.gammaln(x), rtol=1e-15, atol=4e-15)
    assert_allclose(psi, special.digamma(x), rtol=1e-14, atol=4e-15)
    assert_allclose(half + gamma_terms(x + 0.5)[1], math.log(x), rtol=1e-15, atol=4e-15)


@pytest.mark.parametrize("x", [0, 1, 5, 63, 64, 1000, 2.5])
def test_log_factorial(x):
    assert_allclose(log_factorial(float(x)), special.gammaln(x + 1), atol=1e-14)


# --- Expectations, normalisation, draws ----------------------------------------------------------


@pytest.mark.parametrize("family", [f for f in FAMILIES if f.n_features == 2])
def test_expected_log_lik_against_monte_carlo(family):
    twin, X = make_twin(family), np.array(ROWS[type(family).__name__])
    z, x, rng, size = np.array([0.5, 1.0, 0.25]), X[1], np.random.default_rng(1), 4000
    if isinstance(twin, twins.FeatureTwin):
        draws = sum(
            twin.draw_log_lik_1(rng, x[d], size, *twin.posterior_1(d, values, weights))
            for d, values, weights in twin.features(X, z)
        )
    else:
        draws = twin.draw_log_lik(rng, x, X, z, size)
    S = (z[:, None] * family.suffstats(X)).sum(axis=0)
    error = np.std(draws) / np.sqrt(size)
    assert abs(family.expected_log_lik(x, S)[0] - np.mean(draws)) < 4.0 * error


def test_gaussian_predictives_integrate_to_one():
    for family in (NormalGamma(0.5, 0.3, 1.5, 1.0), NormalWishart(0.5, 0.3, 2.0, 1.5)):
        assert_allclose(integrate.quad(density, -np.inf, np.inf, args=(family,))[0], 1.0, atol=1e-7)


def density(x, family):
    S = family.suffstats([[0.3], [2.0]]).sum(axis=0)
    return np.exp(family.log_predictive([x], S)[0])


def test_predictive_of_two_correlated_features_integrates_to_one():
    family = NormalWishart([0.0, 1.0], 1.0, [[2.0, 0.6], [0.6, 1.0]], 12.0)
    axis = np.linspace(-6.0, 6.0, 81)  # trapezoids on a smooth, fast decaying function
    S = learned(family)
    density = [np.exp(family.log_predictive([x, y], S)[0]) for x, y in product(axis, axis)]
    assert_allclose(np.sum(density) * (axis[1] - axis[0]) ** 2, 1.0, atol=1e-3)


def test_discrete_predictives_sum_to_one():
    family = GammaPoisson(3.0, 2.0)
    S = family.suffstats([[2.0], [5.0]]).sum(axis=0)
    total = sum(np.exp(family.log_predictive([float(x)], S)[0]) for x in range(200))
    assert_allclose(total, 1.0, atol=1e-12)
    family = FAMILIES[-1]
    rows = product([0.0, 1.0], repeat=2)
    total = sum(np.exp(family.log_predictive(row, learned(family))[0]) for row in rows)
    assert_allclose(total, 1.0, rtol=1e-12)
    family = DirichletMultinomial(0.4, 3)
    S = family.suffstats([[2, 0, 1], [0, 0, 3]]).sum(axis=0)
    sentences = (np.eye(3)[list(tokens)].sum(axis=0) for tokens in product(range(3), repeat=4))
    total = sum(np.exp(family.log_predictive(counts, S)[0]) for counts in sentences)
    assert_allclose(total, 1.0, rtol=1e-12)


@each_family
def test_draws_follow_the_predictive(family):
    """Each row with a parameter of its own: a sample of the predictive, to 4 standard errors."""
    rng, S, size = np.random.default_rng(2), learned(family), 3000
    rows = np.array([family.sample(rng, S) for _ in range(size)])
    assert rows.shape == (size, 2)
    if isinstance(family, NormalGamma | NormalWishart):
        first, joint = students(family)
        assert stats.kstest(rows[:, 0], first.cdf).pvalue > 1e-4
        if joint is not None:
            scores = [family.log_predictive(row, S)[0] for row in rows]
            error = np.std(scores) / np.sqrt(size)
            assert abs(np.mean(scores) + joint.entropy()) < 4.0 * error
        return
    if isinstance(family, DirichletMultinomial):
        assert np.all(rows.sum(axis=1) == 1.0)
        p = family.point_estimates(S)["probability"][0]
        p = p / p.sum()
    elif isinstance(family, BetaBernoulli):
        p = family.point_estimates(S)["probability"][0]
    else:
        p = np.exp(
            [family.log_predictive([0.0, NAN], S)[0], family.log_predictive([NAN, 0.0], S)[0]]
        )
        rows = rows == 0.0
    assert np.all(np.abs(rows.mean(axis=0) - p) < 4.0 * np.sqrt(p * (1 - p) / size) + 1e-12)


def students(family):
    """Predictive of the first feature, and of both if they are correlated."""
    twin, X, z = make_twin(family), np.array(ROWS[type(family).__name__]), np.ones(3)
    if isinstance(family, NormalGamma):
        mean, kappa, shape, rate = twin.posterior_1(0, X[:, 0], z)
        return stats.t(2 * shape, mean, np.sqrt(rate * (kappa + 1) / (shape * kappa))), None
    mean, kappa, scatter, dof = twin.posterior(X, z)
    spread = scatter * (kappa + 1) / (kappa * (dof - 1))
    first = stats.t(dof - 1, mean[0], np.sqrt(spread[0, 0]))
    return first, stats.multivariate_t(mean, spread, dof - 1)


@each_family
def test_draws_have_the_size_asked_for_and_repeat(family):
    S = learned(family)
    rows = family.sample(np.random.default_rng(3), S, 5)
    assert rows.shape == (5, 2)
    assert rows.dtype == np.float64
    assert np.array_equal(rows, family.sample(np.random.default_rng(3), S, 5))
    family.check_rows(rows)


def test_draws_of_one_call_share_a_parameter():
    family = NormalGamma(0.0, 1e-4, 50.0, 50.0)  # means vary by 100, rows by 1
    rows = family.sample(np.random.default_rng(4), np.zeros(4), 100)
    assert np.std(rows) < 2.0


def test_draws_of_documents():
    family = DirichletMultinomial(2.0)
    rows = family.sample(np.random.default_rng(5), np.zeros(4), 7, n_tokens=30)
    assert rows.shape == (7, 3)
    assert np.all(rows.sum(axis=1) == 30)
    with pytest.raises(SchemaError, match="without columns"):
        family.sample(np.random.default_rng(5), np.zeros(1))


def test_point_estimates():
    X = np.random.default_rng(6).normal([3.0, -2.0], [0.5, 2.0], size=(20000, 2))
    for family in (NormalGamma(0.0, 0.1, 1.0, 1.0), NormalWishart(0.0, 0.1, 1.0, 2.0)):
        found = family.point_estimates([family.suffstats(X).sum(axis=0)])
        assert_allclose(found["mean"], [[3.0, -2.0]], atol=0.06)  # 4 standard errors
        assert_allclose(found["sd"], [[0.5, 2.0]], rtol=0.03)
    found = GammaPoisson(1.0, 1.0).point_estimates([[3.0, 0.0, 3.0, 8.0]])
    assert_allclose(found["mean"], [[9.0 / 4.0]], rtol=1e-12)
    found = BetaBernoulli(1.0, 2.0).point_estimates([[3.0, 2.0, 1.0]])
    assert_allclose(found["probability"], [[0.5]], rtol=1e-12)
    found = DirichletMultinomial(1.0, 2).point_estimates([[3.0, 2.0, 1.0]])
    assert_allclose(found["probability"], [[0.6, 0.4]], rtol=1e-12)


# --- Particular families -------------------------------------------------------------------------


def test_open_vocabulary_does_not_depend_on_the_number_of_columns():
    family = DirichletMultinomial(2.0)
    S, x = family.suffstats([[3, 0], [1, 2]]).sum(axis=0), np.array([1.0, 4.0])
    wide_S, wide_x = np.append(S, np.zeros(50)), np.append(x, np.zeros(50))
    for method in ("log_predictive", "expected_log_lik"):
        assert getattr(family, method)(x, S) == getattr(family, method)(wide_x, wide_S)
    assert family.log_marginal(S) == family.log_marginal(wide_S)
    closed = DirichletMultinomial(2.0 / 2**20, 2**20)  # the same prior, all columns written out
    full = np.append(S, np.zeros(2**20 - 2))
    assert_allclose(family.log_marginal(S), closed.log_marginal(full), rtol=1e-12)


def test_missing_counts_of_categories_are_zero():
    family = DirichletMultinomial(0.5, 3)
    assert np.array_equal(family.suffstats([2.0, NAN, 1.0]), family.suffstats([2.0, 0.0, 1.0]))


def test_normal_wishart_fills_in_the_prior_mean():
    family = NormalWishart([1.0, 2.0], 0.5, np.eye(2), 3.0)
    assert np.array_equal(family.suffstats([5.0, NAN]), family.suffstats([5.0, 2.0]))
    S = np.zeros(6)
    assert family.log_predictive([5.0, NAN], S) == family.log_predictive([5.0, 2.0], S)


def test_indefinite_scatter_is_floored_at_the_prior():
    family = NormalWishart([0.0, 0.0], 0.5, np.eye(2), 3.0)
    S = np.array([2.0, 0.0, 0.0, -5.0, 3.0, -5.0])
    floor = np.array([2.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    assert np.isfinite(family.log_marginal(S)).all()
    S[4] = 0.0
    assert_allclose(family.log_marginal(S), family.log_marginal(floor), rtol=1e-12)
    gamma = NormalGamma(0.0, 0.5, 3.0, 1.0)
    assert gamma.log_marginal([2.0, 2.0, 0.0, -5.0]) == gamma.log_marginal([2.0, 2.0, 0.0, 0.0])


@pytest.mark.parametrize(
    "family",
    [
        NormalGamma(0.0, [1.0, 1.0, 2.0], [1.5, 2.5, 2.5], 1.0),
        GammaPoisson([1.0, 1.0, 2.0], [1.5, 2.5, 2.5]),
        BetaBernoulli([1.0, 2.0, 0.5], [2.0, 1.0, 0.5]),
    ],
)
def test_features_with_partly_equal_priors(family):
    """What is computed once for several features must be the same for them."""
    X, z = np.array([[1.0, 0.0, 1.0], [1.0, 1.0, NAN]]), np.array([1.0, 0.5])
    S = (z[:, None] * family.suffstats(X)).sum(axis=0)
    twin = getattr(twins, f"{type(family).__name__}Twin")
    names = [f.name for f in dataclasses.fields(twin)]
    twin = twin(**{name: np.full(3, getattr(family, name)) for name in names})
    assert_allclose(family.log_marginal(S)[0], twin.bound(X, z), rtol=1e-12)
    expected = twin.log_predictive(X[0], X, z)
    assert_allclose(family.log_predictive(X[0], S)[0], expected, rtol=1e-12)


def test_features_of_all_sizes_share_a_log():
    """Products of what would have a log each neither overflow nor lose digits."""
    D = 40
    size = 10.0 ** np.tile([-60.0, 60.0, 0.0, 60.0], D // 4)
    family = NormalGamma(0.0, 1.0, 2.5, size**2)
    rng = np.random.default_rng(0)
    X, z = size * rng.normal(size=(6, D)), np.ones(6)
    x = size * np.tile([1e-9, 1.0, 1e70, 1e80], D // 4)
    S, hyper = family.suffstats(X).sum(axis=0), family.hyper(D)
    twin = twins.NormalGammaTwin(
        *(
            np.broadcast_to(getattr(family, f.name), D)
            for f in dataclasses.fields(twins.NormalGammaTwin)
        )
    )
    post = np.zeros(families.n_post(family.family, hyper))
    found = families.log_marginal(family.family, hyper, S, post)
    assert_allclose(found, family.log_marginal(S)[0], rtol=1e-13)
    assert_allclose(found, twin.bound(X, z), rtol=1e-12)
    assert_allclose(family.log_predictive(x, S)[0], twin.log_predictive(x, X, z), rtol=1e-12)


def test_negative_counts_are_clipped():
    for family in FAMILIES[2:]:
        S = np.zeros(family.n_stats(2))
        expected = family.log_predictive([1.0, 1.0], S), family.expected_log_lik([1.0, 1.0], S)
        first = 1 if family.n_stats(2) % 2 else 2
        S[first:] = -0.01
        assert family.log_marginal(S) == 0.0
        assert family.log_predictive([1.0, 1.0], S) == expected[0]
        assert family.expected_log_lik([1.0, 1.0], S) == expected[1]


def test_sums_survive_many_corrections():
    """A hundred thousand additions and removals, as sweeps make them."""
    rng, family = np.random.default_rng(7), NormalGamma(0.0, 0.5, 3.0, 1.0)
    X, z = rng.normal(size=(100, 1)) * 10.0, rng.uniform(size=100)
    rows, hyper = family.suffstats(X), family.hyper(1)
    S, expected = (z[:, None] * rows).sum(axis=0), (z[:, None] * rows).sum(axis=0)
    for weight in rng.uniform(size=500):
        for sign in (1.0, -1.0):
            for x in X:
                families.add_stats(family.family, hyper, x, sign * weight, S)
    # 1e5 steps, each rounded at 1e-16 of a sum below 5e3 * 100; they add up like a random walk
    assert_allclose(S, expected, atol=1e-16 * 1e6 * np.sqrt(1e5) * 4)
    assert_allclose(family.log_marginal(S), family.log_marginal(expected), rtol=1e-9)


@pytest.mark.parametrize("family", [NormalGamma(), NormalWishart(), Autoregression(2)])
def test_a_spread_leaves_columns_at_rest_alone(family):
    X = np.random.default_rng(5).normal(size=(40, 3))
    X[:, 1] = 7.0
    X[:, 2] = np.nan
    own, wide = (
        np.diag(f.scatter) if isinstance(f, NormalWishart) else np.array(f.rate)
        for f in (family.scaled(X), family.scaled(X).spread_by(3.0, X))
    )
    assert np.array_equal(wide, own * [3.0, 1.0, 1.0])


def test_the_spread_of_a_regression_is_that_of_its_targets():
    X = np.random.default_rng(5).normal(size=(40, 3))
    X[:, 1] = 7.0
    family = Regression([1, 2]).scaled(X)
    assert np.array_equal(family.spread_by(3.0, X).rate, np.multiply(family.rate, [1.0, 3.0]))
