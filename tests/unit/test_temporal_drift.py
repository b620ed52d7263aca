"""Gaussian components that drift: the compiled smoother against dense linear algebra."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from streamddcrp.models.temporal.emissions import Moments as DriftStarts
from streamddcrp.models.temporal.emissions.drift import NEAR, DriftStats, GaussianDrift
from streamddcrp.models.temporal.kernels.numbers import drift_expected, drift_predictive
from streamddcrp.models.temporal.kernels.splits import two_means
from tests.oracles.temporal import dense_chain


def law(D=1, *, mean=0.0, birth=2.0, drift=0.1, noise=0.5):
    return GaussianDrift.known(*(np.full(D, value) for value in (mean, birth, drift, noise)))


def statistics(emission, X, q):
    parts = [emission.stats(x, w) for x, w in zip(X, q, strict=True)]
    return DriftStats(*(np.stack(part) for part in zip(*parts, strict=True)))


def smooth(emission, X, q, begins=None):
    """Smooth rows (N_t, D) under assignments (N_t, K), all chains from the first epoch on."""
    K = q[0].shape[1]
    begins = np.zeros(K, np.int64) if begins is None else begins
    return emission.smooth(statistics(emission, X, q), emission.no_starts(K), begins)


X5 = [np.array(x)[:, None] for x in ((1.0, 2.0), (0.5, 3.0), (-1.0, 4.0))]
Q5 = [np.array(q)[:, None] for q in ((1.0, 0.5), (0.0, 0.0), (0.25, 0.75))]


def test_smoother_digits():
    """O5, an epoch without rows in the middle."""
    s = smooth(law(), X5, Q5)
    assert s.mean.ravel() == pytest.approx([1.6086956522, 1.7717391304, 1.9347826087], abs=5e-11)
    assert s.var.ravel() == pytest.approx([0.2028985507, 0.2347826087, 0.2463768116], abs=5e-11)
    assert s.filtered_mean.ravel() == pytest.approx(
        [1.1428571429, 1.1428571429, 1.9347826087], abs=5e-11
    )
    assert s.filtered_var.ravel() == pytest.approx(
        [0.2857142857, 0.3857142857, 0.2463768116], abs=5e-11
    )
    assert s.log_z.sum() == pytest.approx(-9.4552031751, abs=5e-11)


@st.composite
def chains(draw):
    """Rows of up to six epochs with soft assignments.

    Some epochs are empty, some rows unassigned, some values missing.
    """
    rng = np.random.default_rng(draw(st.integers(0, 10**9)))
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=6))
    D, K = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    centre = draw(st.sampled_from([0.0, 30.0]))
    X = [centre + 3.0 * rng.standard_normal((n, D)) for n in sizes]
    holes = draw(st.sampled_from([0.0, 0.3]))
    X = [np.where(rng.random(x.shape) < holes, np.nan, x) for x in X]
    q = [np.where(rng.random((n, K)) < 0.3, 0.0, rng.random((n, K))) for n in sizes]
    scale = np.exp(rng.standard_normal((3, D)))
    emission = GaussianDrift.known(np.full(D, centre), 4.0 * scale[0], 0.2 * scale[1], scale[2])
    return emission, X, q


@given(chains())
def test_smoother_is_the_dense_solve(chain):
    """Moments, lag-one covariances and log Z of a Gaussian chain, column by column."""
    emission, X, q = chain
    s = smooth(emission, X, q)
    D, K = X[0].shape[1], q[0].shape[1]
    for k in range(K):
        log_z = 0.0
        for c in range(D):
            there = [~np.isnan(x[:, c]) for x in X]
            mean, cov, value = dense_chain(
                [x[some, c] for x, some in zip(X, there, strict=True)],
                [w[some, k] for w, some in zip(q, there, strict=True)],
                emission.noise[c], emission.drift[c], emission.birth_mean[c], emission.birth_var[c],
            )  # fmt: skip
            log_z += value
            assert s.mean[:, k, c] + emission.birth_mean[c] == pytest.approx(mean, abs=1e-10)
            assert s.var[:, k, c] == pytest.approx(np.diag(cov), abs=1e-11)
            assert s.lagged[1:, k, c] == pytest.approx(np.diag(cov, 1), abs=1e-11)
        assert s.log_z[:, k].sum() == pytest.approx(log_z, abs=1e-8)


@given(chains(), st.sampled_from([-7.0, 0.3, 1e4]))
def test_translation(chain, shift):
    """O9 (f): data and prior mean moved together change nothing but the means."""
    emission, X, q = chain
    moved = GaussianDrift.known(
        emission.birth_mean + shift, emission.birth_var, emission.drift, emission.noise
    )
    s, there = smooth(emission, X, q), smooth(moved, [x + shift for x in X], q)
    for name in ("mean", "var", "filtered_mean", "filtered_var", "lagged", "log_z"):
        assert getattr(there, name) == pytest.approx(getattr(s, name), rel=1e-9, abs=1e-7)


@given(chains())
def test_statistics_of_a_window_are_those_of_its_epochs(chain):
    emission, X, q = chain
    together, apart = emission.stats_of_epochs(X, q), statistics(emission, X, q)
    for one, other in zip(together, apart, strict=True):
        assert (one == other).all()


def test_near_components():
    rng = np.random.default_rng(2)
    emission = law(3)
    q = [rng.dirichlet(np.ones(12), 30)]
    s = smooth(emission, [4.0 * rng.normal(size=(30, 3))], q)
    a, b = emission.near(s, np.zeros(12, np.int64))
    i, j = np.triu_indices(12, 1)
    mean, var = s.filtered_mean[-1], s.filtered_var[-1]
    gap = (mean[i] - mean[j]) ** 2 / (emission.noise + 0.5 * (var[i] + var[j]))
    some = gap.sum(axis=1) < NEAR
    assert 0 < some.sum() < len(some)
    assert (a.tolist(), b.tolist()) == (i[some].tolist(), j[some].tolist())


@given(chains())
def test_rows_nobody_holds_are_missing(chain):
    """Rows of weight zero, or whole epochs of them, say nothing."""
    emission, X, q = chain
    without = [np.where(np.arange(len(w))[:, None] == 0, 0.0, w) for w in q]
    s = smooth(emission, X, without)
    fewer = smooth(emission, [x[1:] for x in X], [w[1:] for w in q])
    for mine, theirs in zip(s, fewer, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-12, abs=1e-12)


def test_missing_epochs_only_drift():
    emission = law(2)
    X = [np.array([[1.0, -2.0]]), np.zeros((0, 2)), np.zeros((0, 2))]
    q = [np.ones((1, 1)), np.zeros((0, 1)), np.zeros((0, 1))]
    s = smooth(emission, X, q)
    assert (s.filtered_mean == s.filtered_mean[0]).all()
    assert s.filtered_var[:, 0, 0] == pytest.approx(0.4 + 0.1 * np.arange(3), abs=1e-14)
    assert s.log_z[1:].tolist() == [[0.0], [0.0]]
    ahead = emission.ahead(s, 4)
    assert ahead.var == pytest.approx(s.filtered_var[-1] + 0.4, abs=1e-14)


def test_a_chain_begins_when_it_is_born():
    """Epochs before birth are not part of the chain, whatever comes later."""
    emission = law(2)
    rng = np.random.default_rng(0)
    X = [rng.standard_normal((4, 2)) for _ in range(5)]
    q = [np.zeros((4, 1))] * 2 + [np.ones((4, 1))] * 3
    late = smooth(emission, X, q, np.array([2]))
    alone = smooth(emission, X[2:], q[2:])
    for mine, theirs in zip(late, alone, strict=True):
        assert mine[2:] == pytest.approx(theirs, abs=1e-14)
    assert not late.log_z[:2].any()
    assert (emission.expected(X[1], late, 1, np.array([2]), q[1]) == -np.inf).all()


def test_a_window_goes_on_from_what_was_frozen():
    """Filtered moments carry everything: two windows in a row are one."""
    emission = law(3)
    rng = np.random.default_rng(1)
    X = [rng.standard_normal((5, 3)) for _ in range(6)]
    q = [rng.random((5, 2)) for _ in range(6)]
    whole = smooth(emission, X, q)
    starts = emission.no_starts(2)
    begins = np.zeros(2, np.int64)
    for e in range(2):
        starts = emission.frozen(
            emission.smooth(statistics(emission, X[e:], q[e:]), starts, begins)
        )
        begins = np.full(2, -1)
    rest = emission.smooth(statistics(emission, X[2:], q[2:]), starts, begins)
    for name in ("mean", "var", "filtered_mean", "filtered_var", "log_z"):
        assert getattr(rest, name) == pytest.approx(getattr(whole, name)[2:], abs=1e-12)


def test_expected_log_likelihood_digits():
    mean, var = np.array([[0.5, -1.0]]), np.array([[0.3, 0.2]])
    noise, x = np.array([2.0, 0.5]), np.array([[1.0, 0.0]])
    out = np.empty((1, 1))
    drift_expected(x, mean, var, noise, np.array([-1]), 0, out)
    by_hand = norm.logpdf(x, mean, np.sqrt(noise)) - 0.5 * var / noise
    assert out[0, 0] == pytest.approx(by_hand.sum(), abs=1e-14)
    drift_expected(np.array([[1.0, np.nan]]), mean, var, noise, np.array([-1]), 0, out)
    assert out[0, 0] == pytest.approx(by_hand[0, 0], abs=1e-14)


@given(chains())
def test_predictive_is_a_ratio_of_evidences(chain):
    """log p(x | rows so far) = log Z with x - log Z without it."""
    emission, X, _ = chain
    rows = np.concatenate(X)
    if len(rows) < 2:
        return
    before, x = rows[:-1], rows[-1]
    ones = np.ones((len(rows), 1))
    with_x = smooth(emission, [rows], [ones]).log_z.sum()
    without = smooth(emission, [before], [ones[1:]]).log_z.sum()
    zero = np.zeros(len(x))
    ours = drift_predictive(
        x - emission.birth_mean, (~np.isnan(before)).sum(axis=0) * 1.0,
        np.nansum(before - emission.birth_mean, axis=0), zero, emission.birth_var, emission.noise,
    )  # fmt: skip
    assert ours == pytest.approx(with_x - without, abs=1e-8)


def test_seats_are_the_urn_in_order():
    """Seating is a sequence of predictives; cutting the rows changes no bit."""
    rng = np.random.default_rng(2)
    centres = np.array([[-6.0, 0.0], [6.0, 0.0], [0.0, 9.0]])
    X = centres[rng.integers(0, 3, 40)] + rng.standard_normal((40, 2))
    emission = law(2, birth=36.0, noise=1.0)
    whole = emission.seating(np.zeros(0), DriftStarts(np.zeros((0, 2)), np.zeros((0, 2))))
    seats = whole.seat(X, 1e-3, 0.0, 1000)
    assert seats.q.shape == (40, 3)
    assert seats.q.sum(axis=1) == pytest.approx(np.ones(40), abs=1e-14)
    parts = emission.seating(np.zeros(0), DriftStarts(np.zeros((0, 2)), np.zeros((0, 2))))
    for start in range(0, 40, 7):
        some = parts.seat(X[start : start + 7], 1e-3, 0.0, 1000)
        K = some.q.shape[1]
        assert (some.q == seats.q[start : start + 7, :K]).all()
        assert (some.scores == seats.scores[start : start + 7]).all()
    # the first row: a birth for sure, at the prior
    prior = norm.logpdf(X[0], 0.0, math.sqrt(37.0)).sum()
    assert seats.scores[0] == pytest.approx(-prior, abs=1e-12)


@given(st.integers(0, 10**6), st.sampled_from([0.5, 6.0]))
def test_seats_are_the_slow_ones(seed, apart):
    """Every seat by its definition: weight times predictive, a birth where that is likeliest."""
    rng = np.random.default_rng(seed)
    X = apart * rng.integers(-1, 2, (15, 2)) + rng.standard_normal((15, 2))
    X[rng.random(X.shape) < 0.2] = np.nan
    emission = law(2, birth=9.0, noise=1.0)
    known = DriftStarts(rng.normal(0.0, 5.0, (2, 2)), np.full((2, 2), 0.3))
    seats = emission.seating(np.array([3.0, 0.4]), known).seat(X, 1e-3, 0.0, 1000)
    past, mean, var = [3.0, 0.4], list(known.mean), list(known.var)
    size, count, total = [0.0, 0.0], [np.zeros(2)] * 2, [np.zeros(2)] * 2
    for i, x in enumerate(X):
        s = [
            math.log(1e-3 + past[k] + size[k])
            + drift_predictive(x, count[k], total[k], mean[k], var[k], emission.noise)
            for k in range(len(size))
        ]
        zero = np.zeros(2)
        new = drift_predictive(x, zero, zero, zero, emission.birth_var, emission.noise)
        assert seats.scores[i] == pytest.approx(-np.logaddexp.reduce([*s, new]), abs=1e-10)
        if new >= max(s):
            past.append(0.0)
            size.append(0.0)
            for values, value in ((count, 0.0), (total, 0.0), (mean, 0.0), (var, 9.0)):
                values.append(np.full(2, value))
            q = np.eye(len(size))[-1]
        else:
            q = np.exp(np.array(s) - np.logaddexp.reduce(s))
        assert seats.q[i, : len(q)] == pytest.approx(q, abs=1e-12)
        for k in range(len(size)):
            size[k] += q[k]
            count[k] = count[k] + q[k] * ~np.isnan(x)
            total[k] = total[k] + q[k] * np.nan_to_num(x)
    assert seats.q.shape[1] == len(size)


@given(st.integers(0, 10**6), st.integers(-1, 2), st.integers(0, 3))
def test_parting_is_the_slow_one(seed, born, epoch):
    """Five rounds of smoothing and sharing, by the emission's other methods."""
    rng = np.random.default_rng(seed)
    epoch = max(epoch, born)
    emission = law(2, mean=0.5, birth=9.0, noise=1.0)
    rows = [rng.normal(0.0, 2.0, (n, 2)) for n in (5, 0, 7, 4)]
    rows[2][1:3, 0] = np.nan
    own = [np.where(e < born, 0.0, rng.random((len(X), 1))) for e, X in enumerate(rows)]
    sides = [(rng.random(len(X)) < 0.5) * float(e >= epoch) for e, X in enumerate(rows)]
    starts = DriftStarts(rng.standard_normal((2, 2)), np.full((2, 2), 0.4))
    begins, before, kappa = np.array([born, epoch]), 3.0 * rng.random((3, 2, 3)), [0.6, 0.4, 0.1]
    if born >= 0:
        before[:, 0] = 0.0
    before[:, 1] = 0.0
    past = 1e-3, np.array(kappa), before[:, :, 0].copy()
    shared, smoothed = emission.split(rows, own, sides, past, starts, begins)
    slow = [w * np.stack([1.0 - side, side], axis=1) for w, side in zip(own, sides, strict=True)]
    for r in range(6):
        s = emission.smooth(statistics(emission, rows, slow), starts, begins)
        counts = [*before[:, :, 0], *(q.sum(axis=0) for q in slow)]
        for e in range(max(born, 0), 4 if r < 5 else 0):
            past = sum(kappa[d] * counts[3 + e - 1 - d] for d in range(3))
            p = emission.expected(rows[e], s, e, begins, slow[e])
            p += np.log(1e-3 + past + counts[3 + e])
            p = np.exp(p - p.max(axis=1, keepdims=True, initial=-np.inf))
            slow[e] = own[e] * p / p.sum(axis=1, keepdims=True)
    for ours, theirs in zip(shared, slow, strict=True):
        assert ours == pytest.approx(theirs, abs=1e-10)
    assert smoothed.log_z == pytest.approx(s.log_z, abs=1e-8)
    assert smoothed.mean == pytest.approx(s.mean, abs=1e-10)


def test_two_means():
    x, w = np.array([0.0, 1.0, 9.0, 10.0, 50.0]), np.array([1.0, 1.0, 1.0, 0.5, 0.0])
    assert two_means(x, w) == pytest.approx((0.5, 28.0 / 3.0), abs=1e-12)
    assert np.isnan(two_means(np.array([3.0, 4.0]), np.array([1.0, 0.05]))).all()
    assert np.isnan(two_means(np.full(4, 3.0), np.ones(4))).all()


def test_rounding_does_not_choose_the_component_in_the_middle():
    """The noise is that of the component in the middle; here one of two is, of five rows each."""
    emission = law(1)
    learned = []
    for nudge in (1.0 - 1e-15, 1.0 + 1e-15):
        size = np.array([[5.0, 5.0 * nudge]])
        square = np.array([[[2.0], [40.0]]])
        stats = DriftStats(size, size[:, :, None], np.zeros((1, 2, 1)), square)
        s = emission.smooth(stats, emission.no_starts(2), np.zeros(2, np.int64))
        learned.append(emission.learned(stats, s, np.zeros(2, np.int64)).noise[0])
    assert learned[0] == pytest.approx(learned[1], rel=1e-12)


def test_births_tell_how_far_apart_they_are():
    """The guess counts for five births; those of the window and before it are the others."""
    emission = law(1, birth=1.0, drift=1e-9, noise=1e-6)
    places = np.array([-30.0, 10.0, 50.0])
    begins = np.array([0, 1, 1])
    size = np.array([[4.0, 0.0, 0.0], [4.0, 4.0, 4.0]])
    total = size[:, :, None] * places[:, None]
    stats = DriftStats(size, size[:, :, None], total, size[:, :, None] * places[:, None] ** 2)
    s = emission.smooth(stats, emission.no_starts(3), begins)
    expected = (5.0 + (places**2).sum()) / 8.0
    assert emission.learned(stats, s, begins).birth_var == pytest.approx([expected], rel=1e-4)
    left = emission.forgotten(stats, s, begins)
    assert left.birth_sums.ravel() == pytest.approx([1.0, 900.0], rel=1e-4)
    rest = DriftStats(*(part[1:] for part in stats))
    s = left.smooth(rest, left.frozen(s), begins - 1)
    assert left.learned(rest, s, begins - 1).birth_var == pytest.approx([expected], rel=1e-4)
