"""Deletions of components: judged by what changes, as if the whole window had been looked at."""

import math
import operator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.temporal import moves
from streamddcrp.models.temporal.emissions import each
from streamddcrp.models.temporal.emissions.conjugate import ConjugateDecay
from streamddcrp.models.temporal.emissions.drift import GaussianDrift
from streamddcrp.models.temporal.emissions.text import TextDecay
from streamddcrp.models.temporal.kernels.counts import add_entropies, add_shares, moments_of_rows
from streamddcrp.models.temporal.window import Settings
from tests.unit.test_temporal_counts import soft_windows
from tests.unit.test_temporal_objective import engine_with

KINDS = ("drift", "family", "text")


def crowded(kind, seed):
    """Return a window with more components than there are clusters, most of them tiny."""
    rng = np.random.default_rng(seed)
    K, sizes = 9, (12, 1, 9)
    settings = Settings(float(rng.choice([0.1, 2.0])), (0.6, 0.2), slots=50, lag=2)
    born, resp = np.minimum(np.arange(K) // 4, 2), []
    for e, n in enumerate(sizes):
        s = rng.choice([1.0, 8.0]) * rng.standard_normal((n, K))
        s[:, born > e] = -np.inf
        p = np.exp(s - s.max(axis=1, keepdims=True))
        p[p < rng.choice([0.0, 0.2])] = 0.0
        resp.append(p / p.sum(axis=1, keepdims=True))
    own = [9.0 * (np.eye(K)[q.argmax(axis=1)] * (np.arange(K) % 2)) for q in resp]  # of the odd
    if kind == "text":
        emission = TextDecay(beta=0.1, n_words=20)
        words = [rng.poisson(0.3, (len(x), 20)) + np.pad(x, ((0, 0), (0, 20 - K))) for x in own]
        X = [sparse.csr_array(x.astype(float)) for x in words]
    else:
        X = [x @ rng.normal(size=(K, 2)) + rng.normal(size=(len(x), 2)) for x in own]
        emission = GaussianDrift.known(np.zeros(2), np.full(2, 9.0), *np.ones((2, 2)) * 0.5)
        if kind == "family":
            emission = ConjugateDecay(NormalGamma(0.0, 0.1, 50.0, 15.0), 2)
    engine = engine_with(resp, settings, X, emission)
    engine.ids, engine.last_active = np.arange(K), np.zeros(K, np.int64)
    engine.born, engine.next_id = born, K
    return engine


def without(engine, k):
    """Return the assignments where others have taken the rows of ``k``; None where none can."""
    settings, emission, begins = engine.settings, engine.emission, engine.begins
    now, smoothed = engine.moments(engine.resp), engine.smooth()
    weight = np.log(settings.a0 + (now + engine.decayed(now, engine.before)[:-1])[:, :, 0])
    shared = []
    for e, (X, q) in enumerate(zip(engine.rows, engine.resp, strict=True)):
        p = emission.expected(X, smoothed, e, begins, q) + weight[e]
        p[:, k] = -np.inf
        if (p[q[:, k] > 0.0] == -np.inf).all(axis=1).any():
            return None
        p = np.exp(p - p.max(axis=1, keepdims=True))
        p[p < emission.least] = 0.0
        new = q + q[:, [k]] * p / p.sum(axis=1, keepdims=True)
        new[:, k] = 0.0
        shared.append(new)
    return shared


def evidence_of(engine, k, shared):
    """Return the log evidence (K,) with and without the rows of ``k``."""
    emission, begins, stats = engine.emission, engine.begins, engine.stats(engine.resp)
    gained = [new - q for new, q in zip(shared, engine.resp, strict=True)]
    for q in gained:
        q[:, k] = 0.0
    after = emission.smooth(each(operator.add, stats, engine.stats(gained)), engine.starts, begins)
    return engine.smooth().log_z.sum(axis=0), after.log_z.sum(axis=0)


def gain_of(engine, k):
    """Return what deleting ``k`` gains in the whole window, and the assignments without it."""
    shared = without(engine, k)
    if shared is None:
        return -math.inf, None
    alone, after = evidence_of(engine, k, shared)
    others = np.delete(np.arange(engine.n_components), k)
    old, new = engine.terms(engine.resp, engine.before), engine.terms(shared, engine.before)
    unused = engine.settings.slots - engine.n_components + 1
    gain = (
        after[others].sum() - alone.sum()
        + (new.counts + new.entropy)[others].sum() - (old.counts + old.entropy).sum()
        - (1.0 - math.exp(old.log_zero[k])) * math.log(unused)
    )  # fmt: skip
    return float(gain), shared


@pytest.mark.parametrize("kind", KINDS)
def test_verdicts_are_those_of_the_whole_window(kind):
    verdicts = []
    for seed in range(12):
        engine = crowded(kind, seed)
        K = engine.n_components
        mass = sum(q.sum(axis=0) for q in engine.resp)
        for k in np.flatnonzero(mass < 3.0):
            trial = crowded(kind, seed)
            gain, shared = gain_of(trial, int(k))
            now = moves._Now(trial, np.flatnonzero(mass < 3.0))
            none = np.zeros(K, dtype=bool)
            verdict = moves._delete_one(trial, now, int(k), none.copy(), none.copy())
            assert verdict == (gain > 0.0), (seed, k, gain)
            verdicts.append(verdict)
            expected = shared if verdict else engine.resp
            for q, want in zip(trial.resp, expected, strict=True):
                np.testing.assert_allclose(q, want, rtol=0.0, atol=1e-14)
            moments, terms = trial.moments(trial.resp), trial.terms(trial.resp, trial.before)
            left = np.arange(K) != k
            np.testing.assert_allclose(now.moments[:, left], moments[:, left], atol=1e-9)
            for part, want in zip(now.terms, terms, strict=True):
                np.testing.assert_allclose(part[left], want[left], rtol=1e-9, atol=1e-9)
    assert any(verdicts)
    assert not all(verdicts)


@given(soft_windows(), st.integers(0, 10**6))
def test_shares_are_added_as_if_counted_anew(window, seed):
    q = window[0][0]
    rng = np.random.default_rng(seed)
    K = q.shape[1]
    k = int(rng.integers(K))
    rows, takers = np.flatnonzero(q[:, k]), np.delete(np.arange(K), k)
    shares = np.where(rng.random((len(rows), K - 1)) < 0.3, 0.0, rng.random((len(rows), K - 1)))
    shares *= q[rows, k][:, None] / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
    moments, entropy = np.empty((K, 3)), np.zeros(K)
    moments_of_rows(q, moments)
    add_entropies(q, entropy)
    moments, entropy = moments[takers], entropy[takers]
    add_shares(q, rows, takers, shares, moments, entropy)
    after = q[:, takers].copy()
    after[rows] += shares
    want, uncertain = np.empty((K - 1, 3)), np.zeros(K - 1)
    moments_of_rows(after, want)
    add_entropies(after, uncertain)
    # of terms up to log(1e-10): so many roundings, some of them of 1 - q
    np.testing.assert_allclose(moments, want, atol=1e-5 if (after > 1.0 - 1e-9).any() else 1e-12)
    np.testing.assert_allclose(entropy, uncertain, atol=1e-12)
