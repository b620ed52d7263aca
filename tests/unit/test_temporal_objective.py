"""Monitor and rigorous bound of the temporal mixture against enumeration."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamddcrp.models.temporal.emissions.drift import GaussianDrift
from streamddcrp.models.temporal.engine import Engine
from streamddcrp.models.temporal.window import Settings
from tests.oracles import temporal
from tests.oracles.temporal import count_bound, exact_bound
from tests.unit.test_temporal_counts import KAPPA3, Q3, arrays


def engine_with(resp, settings, X=None, emission=None):
    """Build an engine whose window holds these assignments, from the first epoch on."""
    K = resp[0].shape[1]
    emission = GaussianDrift.known(*np.ones((4, 1))) if emission is None else emission
    engine = Engine(settings, emission)
    engine.epoch = len(resp) - 1
    engine.rows = [np.zeros((len(q), 1)) for q in resp] if X is None else X
    engine.resp = resp
    engine.ids = engine.born = engine.last_active = np.zeros(K, np.int64)
    engine.before = np.zeros((len(settings.past_weights), K, 3))
    engine.starts = emission.no_starts(K)
    return engine


def test_digits():
    """O4."""
    settings = Settings(alpha=1.2, past_weights=tuple(KAPPA3), slots=3, lag=2)
    parts = engine_with(arrays(Q3), settings).objective()
    assert parts.counts == pytest.approx(-8.9421855017, abs=5e-11)
    assert parts.entropy == pytest.approx(temporal.entropy(arrays(Q3)), abs=1e-13)
    assert count_bound(arrays(Q3), settings) == pytest.approx(-9.0054265762, abs=5e-11)


def test_bound_is_exact_where_weights_are_equal():
    rng = np.random.default_rng(0)
    q = [rng.dirichlet(np.ones(3), n) for n in (2, 3, 0, 2)]
    for kappa in ((0.7,), (0.5, 0.5)):
        exact = temporal.expected_log_joint(q, 0.9, list(kappa), "exact")
        settings = Settings(alpha=0.9, past_weights=kappa, slots=3)
        assert count_bound(q, settings) == pytest.approx(exact, abs=1e-12)


@st.composite
def small_cases(draw):
    rng = np.random.default_rng(draw(st.integers(0, 10**9)))
    sizes = draw(st.lists(st.integers(0, 3), min_size=1, max_size=4).filter(lambda n: sum(n) < 8))
    K = draw(st.integers(1, 2 if sum(sizes) > 5 else 3))
    sharp = draw(st.sampled_from([0.1, 1.0, 10.0]))
    q = [rng.dirichlet(np.full(K, 1.0 / sharp), n) for n in sizes]
    alpha = draw(st.sampled_from([0.01, 1.2, 6.0]))
    kappa = temporal.kernel(draw(st.sampled_from([0.7, 2.0, 10.0])), draw(st.integers(1, 3)))
    return rng, sizes, K, q, alpha, kappa


@given(small_cases())
def test_bounds_and_monitor_of_the_counts(case):
    """O9 (g): bound <= E log p(c); the monitor within a tenth of a nat a cell."""
    _, sizes, K, q, alpha, kappa = case
    settings = Settings(alpha=alpha, past_weights=tuple(kappa), slots=K)
    exact = temporal.expected_log_joint(q, alpha, kappa, "exact")
    assert count_bound(q, settings) <= exact + 1e-11
    monitor = engine_with(q, settings).objective().counts
    assert abs(monitor - exact) <= 0.1 * len(sizes) * K


@given(small_cases())
def test_bound_is_below_the_evidence_of_known_likelihoods(case):
    rng, sizes, K, q, alpha, kappa = case
    ell = [2.0 * rng.standard_normal((n, K)) for n in sizes]
    evidence = temporal.log_evidence(
        sizes, K, alpha, kappa,
        lambda c: sum(ell[t][i, k] for t, row in enumerate(c) for i, k in enumerate(row)),
    )  # fmt: skip
    settings = Settings(alpha=alpha, past_weights=tuple(kappa), slots=K)
    fit = sum(float((a * b).sum()) for a, b in zip(q, ell, strict=True))
    assert exact_bound(q, fit, settings) <= evidence + 1e-11


@given(st.integers(0, 10**6), st.sampled_from([0.2, 3.0]), st.booleans())
def test_bound_is_below_the_evidence_of_drifting_gaussians(seed, alpha, converged):
    """log p(x) by enumeration of all assignments, the chains of each integrated out densely."""
    rng = np.random.default_rng(seed)
    sizes, K, kappa = (2, 1, 3), 2, temporal.kernel(2.0, 2)
    R, Q, m0, P0 = 0.5, 0.2, 0.3, 3.0
    X = [rng.normal(m0, 2.0, (n, 1)) for n in sizes]
    q = [rng.dirichlet(np.ones(K), n) for n in sizes]

    def log_lik(c):
        total = 0.0
        for k in range(K):
            held = [np.array([float(label == k) for label in row]) for row in c]
            total += temporal.dense_chain([x[:, 0] for x in X], held, R, Q, m0, P0)[2]
        return total

    evidence = temporal.log_evidence(list(sizes), K, alpha, kappa, log_lik)
    settings = Settings(alpha=alpha, past_weights=tuple(kappa), slots=K, lag=2)
    emission = GaussianDrift.known(*(np.array([v]) for v in (m0, P0, Q, R)))
    engine = engine_with(q, settings, X, emission)
    if converged:
        for _ in range(5):
            engine.sweep(1)
            engine.emission = emission  # the scales stay as they are
    bound = exact_bound(engine.resp, engine.smooth().log_z.sum(), settings)
    assert bound <= evidence + 1e-10
    parts = engine.objective()
    assert parts.total - parts.names == pytest.approx(bound, abs=0.6)


def test_names_are_counted_where_somebody_is():
    """A slot with no rows has no name to give; sure ones have K! / (K - n)! of them."""
    settings = Settings(alpha=1.0, past_weights=(0.5,), slots=50)
    hard = [np.eye(3)[[0, 1, 1]], np.eye(3)[[1, 0]]]
    parts = engine_with(hard, settings).objective()
    assert parts.names == pytest.approx(math.log(50 * 49), abs=1e-6)
    assert Engine(settings, GaussianDrift.known(*np.ones((4, 1)))).objective().total == 0.0


def test_monitor_hardly_falls():
    """Sweeps with scales held raise the monitor, up to what its expansion leaves out."""
    rng = np.random.default_rng(4)
    X = [rng.normal(0.0, 2.5, (12, 2)) + np.array([5.0, 0.0]) * (rng.random((12, 1)) < 0.4)
         for _ in range(5)]  # fmt: skip
    q = [rng.dirichlet(np.ones(4), 12) for _ in range(5)]
    emission = GaussianDrift.known(*(np.full(2, v) for v in (0.0, 9.0, 0.1, 1.0)))
    settings = Settings(alpha=0.5, past_weights=(0.6, 0.3), slots=4, lag=4)
    engine = engine_with(q, settings, X, emission)
    before = engine.objective().total
    for _ in range(30):
        engine.sweep(1)
        engine.emission = emission
        after = engine.objective().total
        assert after >= before - 1e-3 * 60
        before = after
