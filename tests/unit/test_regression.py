"""Regression and autoregression: special cases, lags, missing values, draws, extremes, options."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from streamddcrp import fit_seqddcrp
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods import Autoregression, NormalGamma, Regression
from streamddcrp.likelihoods.kernels import families
from tests.oracles.families import RegressionTwin

NAN = np.nan
SEEDS = st.integers(0, 2**32 - 1)

FAMILY = Regression((0, 2), [0.5, -1.0, 2.0], [1.0, 2.0, 0.5], 0.3, [1.5, 2.0], [1.0, 0.4])
ROWS = np.array([[0.3, 1.0, 2.0], [-1.2, 0.2, 3.0], [0.5, -0.4, 1.0], [NAN, 0.1, 1.5]])


def twin_of(family):
    names = "mean", "scale", "kappa", "shape", "rate"
    return RegressionTwin(family.targets, *(np.array(getattr(family, name)) for name in names))


def table(family, X, past=None):
    return family.suffstats(X, past).sum(axis=0)


# --- Special cases -------------------------------------------------------------------------------


def test_without_regressors_it_is_normal_gamma():
    X = np.random.default_rng(0).normal(3.0, 2.0, size=(20, 2))
    X[3, 1] = NAN
    gamma = NormalGamma([1.0, 2.0], 0.3, [1.5, 2.0], [0.5, 1.0])
    linear = Regression((0, 1), [1.0, 2.0], 1.0, 0.3, [1.5, 2.0], [0.5, 1.0])
    S, T = table(gamma, X), table(linear, X)
    assert_allclose(linear.log_marginal(T), gamma.log_marginal(S), rtol=1e-13)
    for method in ("log_predictive", "expected_log_lik"):
        found, expected = getattr(linear, method)(X[0], T), getattr(gamma, method)(X[0], S)
        assert_allclose(found, expected, rtol=1e-12)


@given(SEEDS, st.integers(1, 3), st.integers(1, 2))
def test_autoregression_is_regression_on_a_table_of_lags(seed, order, D):
    rng = np.random.default_rng(seed)
    X = np.cumsum(rng.normal(size=(12, D)), axis=0)
    mean, scale, rate = rng.normal(size=D), rng.uniform(0.5, 2.0, D), rng.uniform(0.5, 2.0, D)
    family = Autoregression(order, mean, scale, 0.3, 1.5, rate)
    S = table(family, X[:-1])
    marginal = predictive = expected = 0.0
    for d in range(D):
        lagged = np.column_stack(
            [X[order:, d], *(X[order - j : len(X) - j, d] for j in range(1, order + 1))]
        )
        one = Regression(0, np.full(order + 1, mean[d]), scale[d], 0.3, 1.5, rate[d])
        T = table(one, lagged[:-1])
        marginal += one.log_marginal(T)
        predictive += one.log_predictive(lagged[-1], T)
        expected += one.expected_log_lik(lagged[-1], T)
    past = X[-1 - order : -1]
    assert_allclose(family.log_marginal(S), marginal, rtol=1e-10)
    assert_allclose(family.log_predictive(X[-1], S, past), predictive, rtol=1e-9, atol=1e-9)
    assert_allclose(family.expected_log_lik(X[-1], S, past), expected, rtol=1e-9, atol=1e-9)


# --- Lags ----------------------------------------------------------------------------------------


def test_lags_of_missing_values_are_the_last_known_ones():
    family = Autoregression(2, [1.0, 0.0], [2.0, 1.0], rate=1.0)
    X = np.array([[3.0, NAN], [5.0, 7.0], [NAN, 8.0], [9.0, 9.0]])
    rows, past = family.prepare(X)
    first = [[NAN, NAN, 2.0], [1.0, NAN, 4.0], [2.0, 1.0, NAN], [2.0, 2.0, 8.0]]  # lag1, lag2, y
    second = [[NAN, NAN, NAN], [NAN, NAN, 7.0], [7.0, NAN, 8.0], [8.0, 7.0, 9.0]]
    assert_allclose(rows, np.column_stack([first, second]))
    assert_allclose(past, [[5.0, 8.0], [9.0, 9.0]])
    assert_allclose(table(family, X)[1:8], [1.0, 2.0, 4.0, 2.0, 4.0, 4.0, 8.0])  # one full row
    assert family.log_predictive([4.0, 4.0], table(family, X)) == 0.0  # no past, nothing to say


@given(SEEDS, st.integers(1, 3), st.lists(st.integers(0, 12), max_size=5))
def test_rows_do_not_depend_on_how_a_series_is_cut(seed, order, cuts):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, 2))
    X[rng.random(X.shape) < 0.3] = NAN
    family = Autoregression(order, 0.1, 1.3, rate=1.0)
    expected, end = family.prepare(X)
    past, parts = None, []
    for a, b in zip([0, *sorted(cuts)], [*sorted(cuts), 12], strict=True):
        rows, past = family.prepare(X[a:b], past)
        parts.append(rows)
    assert np.array_equal(np.concatenate(parts), expected, equal_nan=True)
    assert np.array_equal(past, end, equal_nan=True)


# --- Densities -----------------------------------------------------------------------------------


def test_expected_log_lik_against_monte_carlo():
    z, size = np.array([0.5, 1.0, 0.25, 1.0]), 4000
    draws = twin_of(FAMILY).draw_log_lik(np.random.default_rng(1), ROWS[1], ROWS, z, size)
    S = (z[:, None] * FAMILY.suffstats(ROWS)).sum(axis=0)
    error = np.std(draws) / np.sqrt(size)
    assert abs(FAMILY.expected_log_lik(ROWS[1], S)[0] - np.mean(draws)) < 4.0 * error


def test_draws_follow_the_predictive():
    rng, S, x = np.random.default_rng(2), table(FAMILY, ROWS), np.array([0.0, 1.5, 0.0])
    rows = np.array([FAMILY.sample(rng, S, x=x) for _ in range(3000)])
    assert np.all(rows[:, 1] == 1.5)
    for t, target in enumerate(FAMILY.targets):
        M, L, a, b = twin_of(FAMILY).posterior(t, ROWS, np.ones(4))
        phi = np.array([1.0, (1.5 + 1.0) / 2.0])
        scale = np.sqrt(b / a * (1.0 + phi @ np.linalg.solve(L, phi)))
        assert stats.kstest(rows[:, target], stats.t(2 * a, M @ phi, scale).cdf).pvalue > 1e-4
    again = FAMILY.sample(np.random.default_rng(2), S, 5)
    assert again.shape == (5, 3)
    assert np.array_equal(again, FAMILY.sample(np.random.default_rng(2), S, 5))


def test_draws_of_a_series_have_its_coefficients():
    """A sharp table: the series drawn from it gives the coefficients back."""
    family = Autoregression(2, 5.0, 2.0, rate=0.1)
    X = np.full((4000, 1), 5.0)
    noise = np.random.default_rng(3).normal(size=4000)
    for i in range(2, 4000):
        X[i] = 1.0 + 0.5 * X[i - 1] + 0.3 * X[i - 2] + noise[i]
    drawn = family.sample(np.random.default_rng(4), table(family, X), 4000)
    assert drawn.shape == (4000, 1)
    assert family.sample(np.random.default_rng(4), table(family, X)).shape == (1,)
    for series in (X, drawn):  # 4 standard errors: 1 / sqrt(4000) times sqrt(1 - 0.3^2)
        found = family.point_estimates(table(family, series))
        assert_allclose(found["lag1"][0, 0], 0.5, atol=0.09)
        assert_allclose(found["lag2"][0, 0], 0.3, atol=0.09)
        assert_allclose(found["sd"][0, 0], 1.0, rtol=0.06)


def test_point_estimates_are_in_the_units_of_the_data():
    rng = np.random.default_rng(5)
    x = rng.normal([10.0, -2.0], [3.0, 0.1], size=(5000, 2))
    y = 4.0 + 2.0 * x[:, 0] - 30.0 * x[:, 1] + 0.5 * rng.normal(size=5000)
    X = np.column_stack([x[:, 0], y, x[:, 1]])
    family = Regression("load", names=["a", "load", "b"]).scaled(X)
    found = family.point_estimates([table(family, X)])
    assert set(found) == {"intercept", "sd", "slope_a", "slope_b"}
    for name, value in (("intercept", 4.0), ("sd", 0.5), ("slope_a", 2.0), ("slope_b", -30.0)):
        assert_allclose(found[name][0, 1], value, rtol=0.1)
        assert np.isnan(found[name][0, [0, 2]]).all()


# --- Precision -----------------------------------------------------------------------------------


class Moved(RegressionTwin):
    """The twin with any prior coefficients."""

    def prior(self, t, P):
        return self.coefficients[t], self.weights[t] * np.eye(P)


@given(SEEDS)
def test_prior_coefficients_and_weights_may_move(seed):
    """As empirical Bayes moves them: `hyper` changes, the stored statistics do not."""
    rng = np.random.default_rng(seed)
    hyper = FAMILY.hyper(3)
    cells = hyper[3:].reshape(2, 6)  # mean (2), kappa (2), shape, rate
    cells[:, :2] = rng.normal(size=(2, 2))
    cells[:, 2:4] = weight = rng.uniform(0.1, 2.0, (2, 1))
    twin = twin_of(FAMILY)
    twin.__class__ = Moved
    twin.coefficients = cells[:, :2] + [[0.5, 0.0], [2.0, 0.0]]
    twin.weights = weight[:, 0]
    z = rng.uniform(size=4)
    S = (z[:, None] * FAMILY.suffstats(ROWS)).sum(axis=0)
    post = np.zeros(families.n_post(FAMILY.family, hyper))
    families.posterior(FAMILY.family, hyper, S, post)
    assert_allclose(post[0], twin.bound(ROWS, z), rtol=1e-10, atol=1e-10)
    x = FAMILY.prepare(ROWS[1:2])[0][0]
    found = families.log_predictive(FAMILY.family, hyper, post, x)
    assert_allclose(found, twin.log_predictive(ROWS[1], ROWS, z), rtol=1e-10, atol=1e-10)


@given(SEEDS, st.floats(1e-9, 1e9), st.floats(-1e6, 1e6))
def test_units_and_offsets_do_not_matter(seed, unit, offset):
    rng = np.random.default_rng(seed)
    X, x = rng.normal(size=(8, 2)), rng.normal(size=2)
    near = Regression(1).scaled(X)
    S = table(near, X)
    factor, shift = np.array([unit, 1.0 / unit]), np.array([unit * offset, 0.0])
    far = Regression(1).scaled(X * factor + shift)
    T = table(far, X * factor + shift)
    # the shifted column is rounded at 1e-16 |offset| standard deviations; exponents are below 10
    tol = 1e-13 * (1e4 + abs(offset))
    assert_allclose(far.log_marginal(T), near.log_marginal(S) + 8 * np.log(unit), atol=tol)
    found = far.log_predictive(x * factor + shift, T)
    assert_allclose(found, near.log_predictive(x, S) + np.log(unit), atol=tol)


@pytest.mark.parametrize("size", [1e3, 1e6, 1e9])
def test_an_exact_relation_far_from_the_first_rows_is_found(size):
    """The weight of the prior is lost in rounding; the bounds that rest on it must not bite."""
    x = size * np.linspace(1.0, 2.0, 30)
    family = Regression(1, 0.0, 1.0, 0.05, 1.5, 0.1)
    found = family.point_estimates(table(family, np.column_stack([x, 2.0 * x])))
    assert_allclose(found["slope_0"][0, 1], 2.0, rtol=1e-4)


@pytest.mark.parametrize("kind", ["constant", "collinear", "nearly", "huge", "tiny", "outlier"])
def test_degenerate_rows_give_finite_numbers(kind):
    rng = np.random.default_rng(6)
    X = rng.normal(size=(200, 4))
    if kind == "constant":
        X[:] = 3.0
    if kind in {"collinear", "nearly"}:
        X[:, 1] = 2.0 * X[:, 2] - 1.0 + (1e-9 * X[:, 3] if kind == "nearly" else 0.0)
        X[:, 0] = X[:, 1] + X[:, 2]  # no noise at all
    X *= {"huge": 1e39, "tiny": 1e-100}.get(kind, 1.0)
    if kind == "outlier":
        X[100] = [1e40, -1e40, 1e40, 1e40]
    for family in (Regression(0).scaled(X[:50]), Autoregression(2).scaled(X[:50])):
        family.check_rows(X)
        S = np.cumsum(family.suffstats(X), axis=0)
        S += 1e-15 * abs(S) * rng.uniform(-1.0, 1.0, S.shape)
        past = X[148:150]
        for values in (
            family.log_marginal(np.concatenate([S, 1e-9 * S, S - S[150]])),
            family.log_predictive(X[150], S, past),
            family.log_predictive(X[100], S, past),
            family.expected_log_lik(X[150], S, past),
        ):
            assert np.isfinite(values).all()
        assert (family.point_estimates(S)["sd"][:, 0] > 0.0).all()


@pytest.mark.parametrize("P", [1, 2, 3])
def test_coefficients_stay_in_bounds_where_rounding_alone_is_left(P):
    """A table that large rows joined and left: (L L')^-1 <= 1 / kappa, and what w explains.

    kappa_i (w_i - mean_i)^2 is at most the squares left, 2 (rate_n - rate), but for 1e-10 of all.
    """
    rng, kappa, rounded = np.random.default_rng(P), 1e-3, 0
    family = Regression(0, 0.0, 1.0, kappa, 1.5, 1.0)
    hyper = family.hyper(P + 1)
    for _ in range(60):
        X = rng.normal(size=(40, P + 1)) * 10.0 ** rng.uniform(0, 9, P + 1)
        S = np.zeros(family.n_stats(P + 1))
        for row in family.suffstats(X + 10.0 ** rng.uniform(-2, 9)):
            S += row
        for row in rng.permutation(family.suffstats(X + 10.0 ** rng.uniform(-2, 9))):
            S -= row * rng.choice([0.0, 1.0], p=[0.05, 0.95])
        S[1] = max(S[1], 0.0)
        size = P + 1  # coefficients: an intercept and P slopes
        post = np.zeros(families.n_post(family.family, hyper))
        families.posterior(family.family, hyper, S, post)
        w, root = post[1 : 1 + size], post[1 + size : 1 + size + size * (size + 1) // 2]
        assert (np.abs(root) <= 1.0 / np.sqrt(kappa)).all()
        squares = 2.0 * (0.5 / post[1 + size + len(root) + 2] - 1.0)
        most = squares + 1e-10 * max(S[-1], 0.0)
        assert (kappa * w**2 <= (1.0 + 1e-9) * most + 1e-12).all()
        rounded += bool((kappa * w**2 > 0.5 * most).any())
    assert rounded > 0  # the bound was reached


# --- Batch inference -----------------------------------------------------------------------------


def test_batch_inference_finds_changes_of_slope():
    rng = np.random.default_rng(7)
    drift = np.repeat([1.0, -1.0, 1.0], 30)
    X = np.cumsum(drift + 0.1 * rng.normal(size=90))[:, None]
    family = Autoregression(1, rate=0.02)  # the rest from the rows
    fit = fit_seqddcrp(X, family, alpha=0.1, decay=("exponential", 8.0))
    assert fit.labels[15] == fit.labels[75] != fit.labels[45]


# --- Options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Regression(()), "targets must be positions or names"),
        (lambda: Regression((0, 0)), "each once"),
        (lambda: Regression(1.5), "targets must be positions or names"),
        (lambda: Regression(0, scale=0.0), "scale must be positive"),
        (lambda: Regression(0, kappa=[1.0, 2.0]), "kappa must be one positive number"),
        (lambda: Regression((0, 1), shape=[1.0, 1.0, 1.0]), "shape has 3 numbers for 2 targets"),
        (lambda: Regression(0, mean=[0.0, 1.0], names=["a"]), "mean has 2, names has 1"),
        (lambda: Autoregression(0), "order must be a whole number from 1 to 256"),
        (lambda: Autoregression(257), "order must be a whole number from 1 to 256"),
        (lambda: Autoregression(1, [0.0, 0.0], [1.0]), "mean has 2, scale has 1"),
        (lambda: Autoregression(1).hyper(1), r"lacks parameters; give them, or take them from"),
    ],
)
def test_unusable_parameters(make, match):
    with pytest.raises(ConfigError, match=match):
        make()


def test_unknown_targets_are_named():
    with pytest.raises(SchemaError, match=r"no column 'z'; the data have \['x', 'y'\]"):
        Regression("z").scaled(np.eye(2), ["x", "y"])
    with pytest.raises(SchemaError, match="no column 2; the data have 2 columns"):
        Regression(2).scaled(np.eye(2))
    with pytest.raises(SchemaError, match="no column 'y'"):
        Regression("y").scaled(np.eye(2))


def test_numbers_left_out_come_from_rows():
    X = np.random.default_rng(8).normal(3.0, 2.0, size=(50, 2))
    family = Autoregression(2).scaled(X)
    assert_allclose(family.mean, X.mean(axis=0))
    assert_allclose(family.scale, X.std(axis=0))
    assert_allclose(family.rate, 0.075 * X.var(axis=0))
    assert family.scaled(X + 1.0) is family
    given = Autoregression(2, mean=0.0).scaled(X)
    assert given.mean == 0.0
    assert_allclose(Regression(1, shape=2.0).scaled(X).rate, [0.1 * X[:, 1].var()])


def test_point_estimates_of_no_table():
    estimates = FAMILY.point_estimates(FAMILY.suffstats(ROWS)[:0])
    assert estimates["sd"].shape == (0, 3)
    assert all(len(values) == 0 for values in estimates.values())
