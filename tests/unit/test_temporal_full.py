"""Gaussian components that drift with full covariances: against dense solves and the diagonal."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from streamddcrp import TemporalDPM, fit_temporal_dpm, sample_temporal_dpm
from streamddcrp.errors import CheckpointError, ConfigError
from streamddcrp.models.temporal.emissions import Moments, stacked_epochs
from streamddcrp.models.temporal.emissions.drift import GaussianDrift
from streamddcrp.models.temporal.emissions.full import (
    FullGaussianDrift,
    _undo_rounding,
    is_covariance,
)
from streamddcrp.models.temporal.engine import Engine
from streamddcrp.models.temporal.likelihood import check_emission
from streamddcrp.models.temporal.window import Settings
from tests.oracles.temporal import dense_full_chain


def covariance(rng, D, scale=1.0):
    A = rng.standard_normal((D, D + 2))
    return scale * (A @ A.T / D + 0.1 * np.eye(D))


def smooth(emission, X, q, begins=None, starts=None):
    """Smooth rows (N_t, D) under assignments (N_t, K), all chains from the first epoch on."""
    K = q[0].shape[1]
    begins = np.zeros(K, np.int64) if begins is None else begins
    starts = emission.no_starts(K) if starts is None else starts
    stats = stacked_epochs([emission.stats(x, w) for x, w in zip(X, q, strict=True)])
    return emission.smooth(stats, starts, begins)


def make_chain(seed, sizes, D, K, centre, holes):
    rng = np.random.default_rng(seed)
    law = FullGaussianDrift.known(
        np.full(D, centre), covariance(rng, D, 4.0), covariance(rng, D, 0.2), covariance(rng, D)
    )
    X = [centre + 3.0 * rng.standard_normal((n, D)) for n in sizes]
    X = [np.where(rng.random(x.shape) < holes, np.nan, x) for x in X]
    q = [np.where(rng.random((n, K)) < 0.3, 0.0, rng.random((n, K))) for n in sizes]
    return law, X, q


chains = st.builds(
    make_chain, st.integers(0, 10**9), st.lists(st.integers(0, 4), min_size=1, max_size=5),
    st.integers(1, 4), st.integers(1, 3), st.sampled_from([0.0, 30.0]), st.sampled_from([0.0, 0.4]),
)  # fmt: skip


@given(chains)
def test_smoother_is_the_dense_solve(chain):
    """Moments, lag-one covariances and log Z; epochs without rows, soft and missing ones."""
    emission, X, q = chain
    s = smooth(emission, X, q)
    T = len(X)
    for k in range(q[0].shape[1]):
        mean, cov, log_z = dense_full_chain(
            [x - emission.birth_mean for x in X], [w[:, k] for w in q],
            emission.noise, emission.drift, np.zeros(len(emission.noise)), emission.birth_var,
        )  # fmt: skip
        assert s.mean[:, k] == pytest.approx(mean, abs=1e-9)
        for t in range(T):
            assert s.var[t, k] == pytest.approx(cov[t, :, t], abs=1e-10)
            if t:
                assert s.lagged[t, k] == pytest.approx(cov[t, :, t - 1], abs=1e-10)
        assert s.log_z[:, k].sum() == pytest.approx(log_z, abs=1e-7)


@given(chains)
def test_filtered_moments_are_those_of_the_epochs_so_far(chain):
    emission, X, q = chain
    s = smooth(emission, X, q)
    for t in range(len(X)):
        so_far = smooth(emission, X[: t + 1], q[: t + 1])
        assert s.filtered_mean[t] == pytest.approx(so_far.mean[t], abs=1e-12)
        assert s.filtered_var[t] == pytest.approx(so_far.var[t], abs=1e-12)


def pair(rng, D):
    """The same diagonal law, by vectors and by matrices."""
    centre, birth, drift, noise = rng.standard_normal(D), *np.exp(rng.standard_normal((3, D)))
    law = GaussianDrift.known(centre, 9.0 * birth, 0.2 * drift, noise)
    return law, FullGaussianDrift.like(law)


@given(st.integers(0, 10**6), st.integers(1, 3), st.sampled_from([0.0, 0.3]))
@example(724, 2, 0.0)  # seats rows by shares of 6e-9
def test_diagonal_covariances_give_the_diagonal_emission(seed, D, holes):
    """All that an emission says, but for the scales that it learns, and for what is split."""
    rng = np.random.default_rng(seed)
    law, full = pair(rng, D)
    X = [3.0 * rng.standard_normal((n, D)) for n in (4, 0, 5)]
    X = [np.where(rng.random(x.shape) < holes, np.nan, x) for x in X]
    q = [rng.random((len(x), 2)) for x in X]
    begins = np.array([-1, 1])
    q[0][:, 1] = 0.0
    mean, var = rng.standard_normal((2, D)), np.exp(rng.standard_normal((2, D)))
    starts = Moments(mean, var), Moments(mean, np.stack([np.diag(v) for v in var]))
    ours, theirs = smooth(full, X, q, begins, starts[1]), smooth(law, X, q, begins, starts[0])
    assert ours.log_z == pytest.approx(theirs.log_z, abs=1e-8)
    for name in ("mean", "filtered_mean"):
        assert getattr(ours, name) == pytest.approx(getattr(theirs, name), abs=1e-10)
    for name in ("var", "filtered_var", "lagged"):
        diagonal = np.diagonal(getattr(ours, name), axis1=2, axis2=3)
        assert diagonal == pytest.approx(getattr(theirs, name), abs=1e-10)
        rest = getattr(ours, name) - diagonal[..., None] * np.eye(D)
        assert rest == pytest.approx(np.zeros(rest.shape), abs=1e-10)
    for e in (0, 2):
        pairs = [emission.expected(X[e], s, e, begins, q[e]) for emission, s in
                 ((full, ours), (law, theirs))]  # fmt: skip
        assert pairs[0] == pytest.approx(pairs[1], abs=1e-9)
    past = np.array([2.0, 0.3])
    seats = [
        emission.seating(past, emission.ahead(s, 2)).seat(X[2], 1e-3, 0.5, 1000)
        for emission, s in ((full, ours), (law, theirs))
    ]
    for mine, other in zip(*seats, strict=True):  # all that differs is rounding
        assert mine == pytest.approx(other, abs=1e-11)
    assert [a.tolist() for a in full.near(ours, begins)] == [
        a.tolist() for a in law.near(theirs, begins)
    ]


@given(st.integers(0, 10**6), st.integers(-1, 2), st.integers(0, 3))
def test_halves_and_splits_of_diagonal_laws(seed, born, epoch):
    rng = np.random.default_rng(seed)
    epoch = max(epoch, born)
    law, full = pair(rng, 2)
    rows = [rng.normal(0.0, 4.0, (n, 2)) for n in (5, 0, 7, 4)]
    rows[2][1, 0] = np.nan
    own = [np.where(e < born, 0.0, rng.random((len(X), 1))) for e, X in enumerate(rows)]
    begins = np.array([born])
    alone = [smooth(emission, rows, own, begins) for emission in (full, law)]
    sides = [
        emission.halves(rows, own, 0, s, epoch)
        for emission, s in zip((full, law), alone, strict=True)
    ]
    assert (sides[0] is None) == (sides[1] is None)
    if sides[1] is None:
        return
    for mine, other in zip(*sides, strict=True):
        assert mine.tolist() == other.tolist()
    before, weights = 3.0 * rng.random((3, 2, 3)), np.array([0.6, 0.4, 0.1])
    before[:, born >= 0 :] = 0.0
    past, begins = (1e-3, weights, before[:, :, 0].copy()), np.array([born, epoch])
    found = [
        emission.split(rows, own, sides[1], past, emission.no_starts(2), begins)
        for emission in (full, law)
    ]
    for mine, other in zip(found[0][0], found[1][0], strict=True):
        assert mine == pytest.approx(other, abs=1e-9)
    assert found[0][1].log_z == pytest.approx(found[1][1].log_z, abs=1e-7)


@given(chains)
def test_expected_log_likelihoods_are_those_of_draws_in_closed_form(chain):
    """E log N(x | phi, R) = log N(x | m, R) - tr(R^-1 P) / 2, of what is there."""
    emission, X, q = chain
    s, begins = smooth(emission, X, q), np.zeros(q[0].shape[1], np.int64)
    for e, rows in enumerate(X):
        found = emission.expected(rows, s, e, begins, q[e])
        for i, x in enumerate(rows):
            there = np.flatnonzero(~np.isnan(x))
            R = emission.noise[np.ix_(there, there)]
            for k in range(found.shape[1]):
                m = (s.mean[e, k] + emission.birth_mean)[there]
                P = s.var[e, k][np.ix_(there, there)]
                by_hand = 0.0
                if len(there):
                    by_hand = multivariate_normal(m, R).logpdf(x[there])
                    by_hand -= 0.5 * np.trace(np.linalg.solve(R, P))
                assert found[i, k] == pytest.approx(by_hand, rel=1e-10, abs=1e-8)


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3]))
def test_seats_are_ratios_of_evidences(seed, holes):
    """The first component takes every row: a row's score is log Z with it less that without."""
    rng = np.random.default_rng(seed)
    D = 3
    law = FullGaussianDrift.known(
        np.ones(D), covariance(rng, D, 9.0), covariance(rng, D, 0.1), covariance(rng, D)
    )
    X = 2.0 * rng.standard_normal((8, D))
    X = np.where(rng.random(X.shape) < holes, np.nan, X)
    X[0] = 0.5  # opens the component
    none = law.no_starts(0)
    whole = law.seating(np.zeros(0), none).seat(X, 1e-3, -1e4, 1000)
    parts, cut = law.seating(np.zeros(0), none), []
    for a in range(0, 8, 3):
        cut.append(parts.seat(X[a : a + 3], 1e-3, -1e4, 1000))
    assert whole.q.shape == (8, 1)
    assert np.concatenate([seats.scores for seats in cut]).tolist() == whole.scores.tolist()
    log_z = [smooth(law, [X[:n]], [np.ones((n, 1))]).log_z.sum() for n in range(9)]
    for i in range(1, 8):
        expected = log_z[i + 1] - log_z[i] + math.log(1e-3 + i)
        assert whole.scores[i] == pytest.approx(-expected, abs=1e-8)


def test_scales_are_learned_from_what_they_made():
    """Correlated noise and steps of many epochs; the sampling error of R is about a tenth."""
    rng = np.random.default_rng(0)
    R = np.array([[1.0, 0.8], [0.8, 1.0]])
    Q = np.array([[0.5, -0.4], [-0.4, 0.5]])
    centre = np.array([[-15.0, 0.0], [15.0, 0.0]])
    first = GaussianDrift.known(np.zeros(2), np.full(2, 100.0), np.full(2, 0.3), np.full(2, 2.0))
    engine = Engine(Settings(alpha=1.0, past_weights=(0.6, 0.3)), FullGaussianDrift.like(first))
    for _ in range(60):
        centre = centre + rng.multivariate_normal(np.zeros(2), Q, 2)
        z = rng.integers(0, 2, 60)
        engine.learn(centre[z] + rng.multivariate_normal(np.zeros(2), R, 60))
    law = engine.emission
    assert engine.n_components == 2
    assert law.is_sound
    assert law.noise == pytest.approx(R, abs=0.15)
    assert law.drift[0, 1] / math.sqrt(law.drift[0, 0] * law.drift[1, 1]) < -0.5
    assert np.diag(law.drift) == pytest.approx([0.5, 0.5], abs=0.2)


def correlated_epochs(seed, n_epochs=10):
    """Two clusters side by side along the short axis of their noise."""
    rng = np.random.default_rng(seed)
    R = np.array([[4.0, 3.9], [3.9, 4.0]])
    centre = np.array([[-1.0, 1.0], [1.0, -1.0]])
    ids = [rng.integers(0, 2, 60) for _ in range(n_epochs)]
    return [centre[z] + rng.multivariate_normal(np.zeros(2), R, 60) for z in ids], ids


def test_correlated_clusters_are_told_apart():
    rows, ids = correlated_epochs(0)
    model = TemporalDPM(likelihood="full_gaussian")
    for X in rows:
        model.learn_many(X)
    final = model.final_labels(window=True)["label"].to_numpy().reshape(10, 60)[-1]
    agree = np.mean((final == final[0]) == (ids[-1] == ids[-1][0]))
    assert model.n_tables == 2
    assert agree > 0.95
    restored = TemporalDPM.from_bytes(model.to_bytes())
    assert restored.objective == model.objective
    assert restored.summary().equals(model.summary())
    fit = fit_temporal_dpm(rows, FullGaussianDrift.scaled(np.concatenate(rows), 0.1))
    assert len(fit.ids) == 2


def test_what_is_no_covariance_is_refused():
    ones = np.eye(2)
    for bad in (np.array([[1.0, 2.0], [2.0, 1.0]]), np.array([[1.0, 0.5], [0.0, 1.0]]), np.ones(2)):
        with pytest.raises(ConfigError, match="noise must be a covariance"):
            FullGaussianDrift.known(np.zeros(2), ones, ones, bad)
    law = FullGaussianDrift.known(np.zeros(2), ones, ones, ones)
    check_emission(law, 2)
    law.noise_sums[1] = [[-1.0, 0.0], [0.0, 1.0]]
    with pytest.raises(CheckpointError, match="covariances"):
        check_emission(law, 2)
    with pytest.raises(ConfigError, match="closed form"):
        sample_temporal_dpm([np.zeros((3, 2))], law, n_sweeps=10)


def test_rounding_leaves_sums_of_squares():
    """Steps of what is known to 1e-16 of its size may be sums of anything."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(2, 4, 3, 3)) * 10.0 ** rng.integers(-9, 9, 3)[:, None]
    sums = root @ np.swapaxes(root, 2, 3)
    sums[0, 1] = 0.0
    before = sums.copy()
    _undo_rounding(sums)
    np.testing.assert_array_equal(sums, before)
    spoiled = [[-3e59, 2e58], [2e58, 6e59]], [[1e59, 2e59], [2e59, 1e59]], [[-1.0, 0.0], [0.0, 0.0]]
    sums = np.array(spoiled)
    _undo_rounding(sums)
    assert sums[0].tolist() == [[0.0, 0.0], [0.0, 6e59]]
    assert is_covariance(sums[1], 2)
    assert sums[2].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    for A in sums:  # with the first guess, a covariance
        assert is_covariance(A + np.diag([1e-3, 2.0]), 2)


def test_columns_of_a_covariance_may_differ_in_size():
    """Eigenvalues, of which the smallest drowns in the rounding of the largest, are of no use."""
    size = np.array([1e-9, 1.0, 1e9])
    A = np.outer(size, size) * (0.9 + 0.1 * np.eye(3))
    assert is_covariance(A, 3)
    assert not is_covariance(A * (2.0 - np.eye(3)), 3)
    FullGaussianDrift.known(np.zeros(3), A, A, A)
