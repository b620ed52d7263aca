"""Laws that hold in every conjugate family, against twins that never sum statistics.

Tolerance: values are at most 20 from the prior mean in at most 7 rows, the smallest prior rate (or
eigenvalue of a scatter) is 0.1, so cancellation in sum x^2 - (sum x)^2 / kappa magnifies the unit
round-off 1.1e-16 by at most 7 * 400 / 0.1 = 3e4, and an exponent below 20 by another factor 20:
7e-11. All the rest is algebra at 1e-13 relative.

Regression: standardised regressors and outputs are at most 4 from their means, the weight of the
prior is at least 0.3 and its rate at least 1. Rounding changes the rate by 5 round-offs times
(sum_i |w_i| |phi_i| + |r|)^2, norms over 7 rows at most sqrt(7 * 16) = 11 and |w_i| at most
11 / (2 sqrt(0.3)) = 10: 3e-11, and an exponent below 10 makes that 3e-10.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from streamddcrp.likelihoods import (
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

TOL = 1e-10


@dataclass
class Case:
    """Rows X (N, D) with weights z (N,), a further row x (D,), a family and its slow twin."""

    family: Any
    twin: Any
    X: np.ndarray
    z: np.ndarray
    x: np.ndarray

    @property
    def tol(self):
        return 1e-9 if isinstance(self.family, Regression | Product) else TOL

    def prepared(self, X):
        return self.family.prepare(X)[0]

    def stats(self, X=None, z=None):
        X = self.X if X is None else X
        z = self.z if z is None else z
        rows = self.family.suffstats(X)
        return (z[:, None] * rows).sum(axis=0)


def vectors(draw, size, low, high):
    return np.array(draw(st.lists(st.floats(low, high), min_size=size, max_size=size)))


def draw_family(draw, name, D):
    """Return a family with its twin, and the strategy of one value."""
    if name == "normal_gamma":
        mean, kappa = vectors(draw, D, -5.0, 5.0), vectors(draw, D, 0.05, 5.0)
        shape, rate = vectors(draw, D, 0.3, 5.0), vectors(draw, D, 0.1, 5.0)
        args = mean, kappa, shape, rate
        return NormalGamma(*args), twins.NormalGammaTwin(*args), st.floats(-15.0, 15.0)
    if name == "normal_wishart":
        root = vectors(draw, D * D, -2.0, 2.0).reshape(D, D)
        scatter = root @ root.T + 0.1 * np.eye(D)
        mean = vectors(draw, D, -5.0, 5.0)
        kappa, dof = draw(st.floats(0.05, 5.0)), D - 1 + draw(st.floats(0.5, 5.0))
        args = mean, kappa, scatter, dof
        return NormalWishart(*args), twins.NormalWishartTwin(*args), st.floats(-15.0, 15.0)
    if name == "dirichlet_multinomial":
        mass = draw(st.floats(0.05, 5.0))
        twin = twins.DirichletMultinomialTwin(np.full(D, mass))
        return DirichletMultinomial(mass, D), twin, st.integers(0, 20).map(float)
    if name == "regression":
        targets = tuple(sorted(draw(st.sets(st.integers(0, D - 1), min_size=1))))
        args = (
            targets, vectors(draw, D, -1.0, 1.0), vectors(draw, D, 1.0, 5.0),
            draw(st.floats(0.3, 5.0)), vectors(draw, len(targets), 0.3, 5.0),
            vectors(draw, len(targets), 1.0, 5.0),
        )  # fmt: skip
        return Regression(*args), twins.RegressionTwin(*args), st.floats(-3.0, 3.0)
    args = vectors(draw, D, 0.05, 5.0), vectors(draw, D, 0.05, 5.0)
    if name == "gamma_poisson":
        return GammaPoisson(*args), twins.GammaPoissonTwin(*args), st.integers(0, 100).map(float)
    return BetaBernoulli(*args), twins.BetaBernoulliTwin(*args), st.sampled_from([0.0, 1.0])


GAUSSIAN = ("normal_gamma", "normal_wishart")
PARTS = ("normal_gamma", "regression", "dirichlet_multinomial", "gamma_poisson", "beta_bernoulli")
ALL = (*PARTS, "normal_wishart", "product")


def draw_product(draw, D):
    """Return a product of two or three parts with its twin, and the strategies of all columns."""
    order = draw(st.permutations(range(D)))
    cuts = sorted(draw(st.sets(st.integers(1, D - 1), min_size=1, max_size=2)))
    parts, twin_parts, values = [], [], [None] * D
    for a, b in zip([0, *cuts], [*cuts, D], strict=True):
        at = list(order[a:b])
        family, twin, value = draw_family(draw, draw(st.sampled_from(PARTS)), len(at))
        parts.append((family, at))
        twin_parts.append((twin, at))
        for j in at:
            values[j] = value
    return Product(parts), twins.ProductTwin(twin_parts), values


@st.composite
def cases(draw, names=ALL, missing=True):
    D = draw(st.integers(1, 3))
    name = draw(st.sampled_from(names))
    if name == "product":
        D = draw(st.integers(2, 5))
        family, twin, values = draw_product(draw, D)
    else:
        family, twin, value = draw_family(draw, name, D)
        values = [value] * D
    if missing:
        values = [value | st.just(np.nan) for value in values]
    row = st.tuples(*values)
    rows = draw(st.lists(row, min_size=0, max_size=6))
    weight = st.just(0.0) | st.just(1.0) | st.floats(1e-12, 1.0)
    z = np.array(draw(st.lists(weight, min_size=len(rows), max_size=len(rows))))
    return Case(family, twin, np.array(rows).reshape(len(rows), D), z, np.array(draw(row)))


def close(case, found, expected):
    assert_allclose(found, expected, rtol=case.tol, atol=case.tol)


def one(values):
    assert values.shape == (1,)
    return float(values[0])


@given(cases())
def test_log_marginal_is_the_chain_of_predictives(case):
    hard = np.ones(len(case.X))
    found = one(case.family.log_marginal(case.stats(z=hard)))
    close(case, found, case.twin.log_marginal(case.X))


@given(cases())
def test_densities_agree_with_the_twin(case):
    S = case.stats()
    found = one(case.family.log_predictive(case.x, S))
    close(case, found, case.twin.log_predictive(case.x, case.X, case.z))
    found = one(case.family.expected_log_lik(case.x, S))
    close(case, found, case.twin.expected_log_lik(case.x, case.X, case.z))


@given(cases())
def test_predictive_is_a_difference_of_log_marginals(case):
    S = case.stats()
    after, before = case.family.log_marginal([S + case.family.suffstats(case.x), S])
    expected = one(case.family.log_predictive(case.x, S))
    assert_allclose(after - before, expected, rtol=case.tol, atol=case.tol * (1.0 + abs(before)))


@given(cases())
def test_log_marginal_of_soft_statistics_is_the_bound(case):
    """sum_i z_i E log p(x_i | theta) - KL(q || p) at q = posterior, the divergence by hand."""
    found = one(case.family.log_marginal(case.stats()))
    close(case, found, case.twin.bound(case.X, case.z))


@given(cases())
def test_expected_log_lik_is_below_the_predictive(case):
    S = case.stats()
    expected = one(case.family.expected_log_lik(case.x, S))
    predictive = one(case.family.log_predictive(case.x, S))
    assert expected <= predictive + case.tol * (1.0 + abs(predictive))


@given(cases())
def test_nothing_known_is_the_prior(case):
    empty = np.zeros(case.family.n_stats(len(case.x)))
    assert one(case.family.log_marginal(empty)) == 0.0
    single = one(case.family.log_marginal(case.family.suffstats(case.x)))
    predictive = one(case.family.log_predictive(case.x, empty))
    close(case, predictive, single)


@given(cases())
def test_a_missing_row_says_nothing_but_counts(case):
    assume(not isinstance(case.family, NormalWishart))  # it fills in the prior mean instead
    gap = np.full(len(case.x), np.nan)
    S = case.stats()
    assert one(case.family.log_predictive(gap, S)) == 0.0
    assert one(case.family.expected_log_lik(gap, S)) == 0.0
    added = case.family.suffstats(gap)
    assert added[0] == 1.0
    assert set(added[1:]) <= ({0.0, 1.0} if isinstance(case.family, Product) else {0.0})
    assert case.family.log_marginal(S + added) == case.family.log_marginal(S)


def magnitude(case):
    """Size of the terms of each statistic."""
    rows = np.vstack([case.X, case.x])
    return np.abs(case.family.suffstats(rows)).sum(axis=0)


@given(cases(), st.floats(1e-6, 1.0))
def test_add_then_subtract_restores(case, weight):
    D = len(case.x)
    hyper, before = case.family.hyper(D), case.stats()
    S, x = before.copy(), case.prepared(case.x[np.newaxis])[0]
    families.add_stats(case.family.family, hyper, x, weight, S)
    families.add_stats(case.family.family, hyper, x, -weight, S)
    assert np.all(np.abs(S - before) <= 4e-16 * magnitude(case))


@given(cases(), st.randoms(use_true_random=False))
def test_order_of_rows_is_irrelevant(case, random):
    order = list(range(len(case.X)))
    random.shuffle(order)
    S, T = case.stats(), case.stats(case.X[order], case.z[order])
    assert np.all(np.abs(S - T) <= 7 * 2.2e-16 * magnitude(case))
    found = case.family.log_marginal([S, T])
    close(case, found[0], found[1])


@given(cases())
def test_statistics_are_linear(case):
    """Kernel sums with weights = weighted sums of rows; two halves merge to the whole."""
    D = len(case.x)
    S = np.zeros(case.family.n_stats(D))
    for x, z in zip(case.prepared(case.X), case.z, strict=True):
        families.add_stats(case.family.family, case.family.hyper(D), x, z, S)
    assert np.all(np.abs(S - case.stats()) <= 7 * 2.2e-16 * magnitude(case))
    half = len(case.X) // 2
    merged = case.stats(case.X[:half], case.z[:half]) + case.stats(case.X[half:], case.z[half:])
    assert np.all(np.abs(merged - S) <= 14 * 2.2e-16 * magnitude(case))


@given(cases())
def test_expected_log_lik_is_linear_in_the_statistics(case):
    D = len(case.x)
    code, hyper, S = case.family.family, case.family.hyper(D), case.stats()
    post, natural = np.zeros(families.n_post(code, hyper)), np.zeros(len(S))
    families.posterior(code, hyper, S, post)
    families.natural_parameters(code, hyper, post, natural)
    row = case.family.suffstats(case.x)
    scale = 1.0 + np.abs(natural * row).sum()
    found = one(case.family.expected_log_lik(case.x, S))
    assert_allclose(natural @ row, found, rtol=0.0, atol=case.tol * scale)


@given(cases(GAUSSIAN), st.floats(0.01, 100.0), st.floats(-100.0, 100.0))
def test_gaussian_families_follow_shift_and_scale(case, scale, shift):
    family = case.family
    mean = scale * np.array(family.mean) + shift
    if isinstance(family, NormalGamma):
        rate = scale**2 * np.array(family.rate)
        moved = NormalGamma(mean, family.kappa, family.shape, rate)
    else:
        moved = NormalWishart(mean, family.kappa, scale**2 * np.array(family.scatter), family.dof)
    S = case.stats()
    T = (case.z[:, None] * moved.suffstats(scale * case.X + shift)).sum(axis=0)
    y = scale * case.x + shift
    observed = np.isfinite(case.x).sum() if isinstance(family, NormalGamma) else len(case.x)
    # the data are rounded at 100 + 20 scale, in units of the table's width 0.1 scale
    tol = TOL * (1.0 + 100.0 / scale)
    before, after = family.log_predictive(case.x, S), moved.log_predictive(y, T)
    assert_allclose(after, before - observed * np.log(scale), rtol=tol, atol=tol)
    before, after = family.expected_log_lik(case.x, S), moved.expected_log_lik(y, T)
    assert_allclose(after, before - observed * np.log(scale), rtol=tol, atol=tol)


@given(cases(GAUSSIAN), st.floats(1e6, 1e8), st.booleans())
def test_large_offset_costs_no_precision(case, offset, negative):
    """Mean 1e6 to 1e8 standard deviations from zero: the same as the shifted data about zero."""
    offset = -offset if negative else offset
    family, args = case.family, [getattr(case.family, name) for name in ("mean", "kappa")]
    names = [field.name for field in dataclasses.fields(family)]
    rest = args[1:] + [getattr(family, name) for name in names[2:]]
    far_mean = np.array(family.mean) + offset
    far_X, far_x = case.X + offset, case.x + offset
    far, near = type(family)(far_mean, *rest), type(family)(far_mean - offset, *rest)
    S = (case.z[:, None] * far.suffstats(far_X)).sum(axis=0)
    T = (case.z[:, None] * near.suffstats(far_X - offset)).sum(axis=0)  # exact differences
    assert_allclose(far.log_marginal(S), near.log_marginal(T), rtol=TOL, atol=TOL)
    for method in ("log_predictive", "expected_log_lik"):
        found, expected = getattr(far, method)(far_x, S), getattr(near, method)(far_x - offset, T)
        assert_allclose(found, expected, rtol=TOL, atol=TOL)


@given(cases(GAUSSIAN), st.data())
def test_prior_mean_may_move_while_statistics_stay(case, data):
    """The centre of the sums is not the prior mean: hyper may change under stored statistics."""
    D = len(case.x)
    mean = vectors(data.draw, D, -5.0, 5.0)
    moved = dataclasses.replace(case.family, mean=mean)
    X, x = case.prepared(case.X), case.prepared(case.x[np.newaxis])[0]
    if isinstance(moved, NormalWishart):  # what is missing is the mean, which moves
        X, x = (np.where(np.isnan(rows), case.family.mean, rows) for rows in (X, x))
    hyper = moved.hyper(D)
    at = 1 if isinstance(moved, NormalGamma) else 4
    hyper[at : at + D] = case.family.hyper(D)[at : at + D]  # centre of the old sums, new mean
    post = np.zeros(families.n_post(moved.family, hyper))
    families.posterior(moved.family, hyper, case.stats(), post)
    T = (case.z[:, None] * moved.suffstats(X)).sum(axis=0)
    assert_allclose(post[0], one(moved.log_marginal(T)), rtol=TOL, atol=TOL)
    found = families.log_predictive(moved.family, hyper, post, x)
    assert_allclose(found, one(moved.log_predictive(x, T)), rtol=TOL, atol=TOL)


@given(cases(), st.data())
def test_damaged_statistics_give_finite_numbers(case, data):
    """Rounding may leave tiny negative counts or an indefinite scatter: floored, never NaN."""
    S = case.stats() * data.draw(st.sampled_from([0.0, 1e-13, 1.0]))
    noise = vectors(data.draw, len(S), -1.0, 1.0)
    S += data.draw(st.sampled_from([1e-16, 1e-12, 1e-3])) * noise
    for values in (
        case.family.log_marginal(S),
        case.family.log_predictive(case.x, S),
        case.family.expected_log_lik(case.x, S),
    ):
        assert np.isfinite(values).all()


@given(cases())
def test_all_tables_in_one_call_are_bitwise_the_same(case):
    D, code = len(case.x), case.family.family
    hyper, x = case.family.hyper(D), case.prepared(case.x[np.newaxis])[0]
    Q = families.n_post(code, hyper)
    many = np.outer([1.0, 0.25, 0.0], case.stats())
    many_post, scores = np.zeros((3, Q)), np.zeros(3)
    families.posteriors(code, hyper, many, 3, many_post)
    for k in range(3):
        post = np.zeros(Q)
        families.posterior(code, hyper, many[k], post)
        assert np.array_equal(post, many_post[k])
        alone = families.log_marginal(code, hyper, many[k], np.zeros(Q))
        assert_allclose(alone, post[0], rtol=TOL, atol=TOL)
    families.log_predictives(code, hyper, many_post, x, 3, scores)
    one_by_one = [families.log_predictive(code, hyper, post, x) for post in many_post]
    assert np.array_equal(scores, one_by_one)
    eight = np.vstack([many_post, np.full((5, Q), np.nan)])  # what lies beyond does not matter
    in_lanes = np.zeros(8)
    families.log_predictives_in_lanes(code, hyper, eight, x, 3, in_lanes)
    assert_allclose(in_lanes[:3], one_by_one, rtol=TOL, atol=TOL)
    families.expected_log_liks(code, hyper, many_post, x, 3, scores)
    one_by_one = [families.expected_log_lik(code, hyper, post, x) for post in many_post]
    assert np.array_equal(scores, one_by_one)
