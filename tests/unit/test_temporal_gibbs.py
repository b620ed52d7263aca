"""The blocked Gibbs sampler of the temporal mixture against enumeration."""

import math
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.baselines.tdpm_gibbs.kernels import _log_seat, _recount, sweep
from benchmarks.baselines.tdpm_gibbs.sampler import sample_temporal_dpm
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.models.temporal.emissions.drift import GaussianDrift
from tests.oracles import temporal

KAPPA = temporal.kernel(2.0, 2)


def law(mean, birth, drift, noise):
    return GaussianDrift.known(*(np.array([value]) for value in (mean, birth, drift, noise)))


def posterior(X, K, alpha, scales):
    """Probability of every assignment, chains integrated out; in the order of `assignments`."""
    mean, birth, drift, noise = scales
    logs = []
    for c in temporal.assignments([len(x) for x in X], K):
        value = temporal.log_joint(c, K, alpha, KAPPA)
        for k in range(K):
            held = [np.array([float(label == k) for label in row]) for row in c]
            value += temporal.dense_chain([x[:, 0] for x in X], held, noise, drift, mean, birth)[2]
        logs.append(value)
    p = np.exp(np.array(logs) - max(logs))
    return p / p.sum()


def standard_errors(hits):
    """Of the means of autocorrelated indicators (S, A), from the means of batches."""
    batches = hits[: len(hits) // 100 * 100].reshape(100, -1, hits.shape[1]).mean(axis=1)
    return batches.std(axis=0, ddof=1) / 10.0


@pytest.mark.parametrize(
    "scales", [(0.5, 1e-8, 1e-8, 0.7), (0.3, 2.0, 0.4, 0.5)], ids=["chains known", "chains drawn"]
)
def test_draws_follow_the_posterior(scales):
    rng = np.random.default_rng(0)
    sizes, K, alpha = (2, 1, 0, 2), 2, 0.8
    X = [rng.normal(0.3, 1.2, (n, 1)) for n in sizes]
    p = posterior(X, K, alpha, scales)
    draws = sample_temporal_dpm(
        X, law(*scales), alpha=alpha, decay=("exponential", 2.0), width=2, slots=K,
        n_sweeps=40_000, burn_in=200, seed=1,
    )  # fmt: skip
    flat = np.concatenate(draws.labels, axis=1)
    state = flat @ (K ** np.arange(flat.shape[1])[::-1])
    hits = (state[:, None] == np.arange(len(p))).astype(float)
    error = standard_errors(hits)
    # five errors of a batch estimate with 99 degrees of freedom, for 32 states
    assert (np.abs(hits.mean(axis=0) - p) <= 5.0 * error + 1e-4).all()
    assert error.max() < 0.01


def test_full_conditional_is_the_ratio_of_joints():
    """O1 and equation (G), for every row and slot."""
    c = [(0, 1), (0, 0, 2), (1, 2)]
    flat, first = np.array([k for row in c for k in row]), np.array([0, 2, 5, 7])
    kappa, alpha, K = np.array(KAPPA), 1.2, 3
    count, past = np.zeros((3, K)), np.zeros((3, K))
    for t in range(3):
        for i in range(first[t], first[t + 1]):
            without = np.delete(flat, i)
            ends = first - (first > i)
            _recount(ends, without, kappa, count, past)
            ours = np.array([_log_seat(t, k, count, past, kappa, alpha / K) for k in range(K)])
            joint = []
            for k in range(K):
                moved = flat.copy()
                moved[i] = k
                parts = [tuple(moved[a:b]) for a, b in pairwise(first)]
                joint.append(temporal.log_joint(parts, K, alpha, KAPPA))
            assert ours - ours[0] == pytest.approx(np.array(joint) - joint[0], abs=1e-12)


def test_chains_follow_their_posterior():
    """Forward filtering, backward sampling: moments of the drawn means of held rows."""
    X = [np.array(x)[:, None] for x in ((1.0, 2.0), (), (-1.0, 4.0, 0.5))]
    mean, cov, _ = temporal.dense_chain(
        [x[:, 0] for x in X], [np.ones(len(x)) for x in X], 0.5, 0.3, 0.2, 2.0
    )
    rng = np.random.default_rng(3)
    rows, first = np.concatenate(X), np.array([0, 2, 2, 5])
    state = np.zeros((3, 1)), np.zeros((3, 1)), np.zeros((3, 1, 1))
    scales = [np.array([v]) for v in (0.2, 2.0, 0.3, 0.5)]
    draws = np.empty((20_000, 3))
    for s in range(len(draws)):
        c = np.zeros(5, np.int64)  # one slot: every sweep draws the chain anew
        sweep(1, rows, first, c, 1.0, np.array(KAPPA), *scales, rng, *state)
        draws[s] = state[2][:, 0, 0]
    sd = np.sqrt(np.diag(cov))
    assert (np.abs(draws.mean(axis=0) - mean) < 5.0 * sd / math.sqrt(len(draws))).all()
    # a sample covariance has variance (s_ii s_jj + s_ij^2) / n
    spread = np.sqrt((np.outer(sd, sd) ** 2 + cov**2) / len(draws))
    assert (np.abs(np.cov(draws.T) - cov) < 5.0 * spread).all()


def test_log_joint_and_counts():
    rng = np.random.default_rng(4)
    X, first = rng.standard_normal((7, 1)), np.array([0, 2, 5, 7])
    c = rng.integers(0, 3, 7)
    state = np.zeros((3, 3)), np.zeros((3, 3)), np.zeros((3, 3, 1))
    scales = [np.array([v]) for v in (0.0, 2.0, 0.3, 0.5)]
    value = sweep(4, X, first, c, 1.2, np.array(KAPPA), *scales, rng, *state)
    parts = [tuple(c[a:b]) for a, b in pairwise(first)]
    expected = temporal.log_joint(parts, 3, 1.2, KAPPA)
    for t in range(3):
        for i in range(first[t], first[t + 1]):
            gap = X[i, 0] - state[2][t, c[i], 0]
            expected -= 0.5 * (gap * gap / 0.5 + math.log(math.pi))
    assert value == pytest.approx(expected, abs=1e-10)


def test_seeds_and_shapes():
    epochs = [[[0.0], [9.0]], [], [[0.2], [8.8], [9.1]]]
    options = {"slots": 6, "n_sweeps": 50, "burn_in": 20, "thin": 5}
    draws = sample_temporal_dpm(epochs, law(4.0, 30.0, 0.1, 1.0), seed=7, **options)
    again = sample_temporal_dpm(epochs, law(4.0, 30.0, 0.1, 1.0), seed=7, **options, progress=True)
    assert [labels.shape for labels in draws.labels] == [(10, 2), (10, 0), (10, 3)]
    assert (draws.log_joint == again.log_joint).all()
    assert draws.n_components.max() <= 6
    assert [len(labels) for labels in draws.modes()] == [2, 0, 3]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"alpha": -1.0}, "alpha"),
        ({"slots": 0}, "slots"),
        ({"n_sweeps": 0}, "n_sweeps"),
        ({"thin": 3, "n_sweeps": 2}, "thin"),
        ({"burn_in": 1.5}, "burn_in"),
    ],
)
def test_options_are_refused_by_name(options, word):
    with pytest.raises(ConfigError, match=word):
        sample_temporal_dpm([[[0.0]]], law(0.0, 1.0, 0.1, 1.0), **options)


def test_rows_must_fit_the_law():
    with pytest.raises(ConfigError, match="1 columns, the rows have 2"):
        sample_temporal_dpm([[[0.0, 1.0]]], law(0.0, 1.0, 0.1, 1.0))
    with pytest.raises(SchemaError, match="epoch 0, row 0"):
        sample_temporal_dpm([[[np.inf]]], law(0.0, 1.0, 0.1, 1.0))
