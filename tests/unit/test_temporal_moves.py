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
from streamddcrp.models.temporal.kernels.counts import (
    add_entropies,
    add_most,
    add_shares,
    moments_of_rows,
)
from streamddcrp.models.temporal.window import Settings, Window
from tests.oracles import temporal
from tests.unit.test_temporal_counts import soft_windows
from tests.unit.test_temporal_objective import engine_with

KINDS = ("drift", "family", "text")
MAY_PAY = moves._may_pay


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


@given(soft_windows())
def test_counts_and_entropy_gain_no_more_than_their_bound(window):
    """Exact expectations, by enumeration."""
    resp, _, alpha, kappa = window
    K = resp[0].shape[1]
    settings = Settings(alpha, tuple(kappa), slots=K)
    engine = engine_with(resp, settings)
    now = moves._Now(engine, np.arange(K))
    if K == 1:
        return
    for k in range(K):
        others = np.delete(np.arange(K), k)
        old, new = ([q[:, others] for q in part] for part in (resp, without(engine, k)))
        gain = temporal.entropy(new) - temporal.entropy(resp)
        for sign, part in ((1.0, new), (-1.0, old)):
            gain += sign * temporal.expected_log_joint(part, alpha * (K - 1) / K, kappa, "exact")
        assert gain <= now.most[k] + 1e-9 * (1.0 + abs(gain))


@pytest.mark.parametrize("n", [1, 5, 50])
def test_a_row_may_gain_by_the_rows_of_later_epochs(n):
    """Here it gains more than its own count: it is the past of these."""
    kappa, alpha = [0.6, 0.3], 0.2
    resp = [np.array([[1.0, 0.0]]), np.repeat([[0.0, 1.0]], n, axis=0), np.array([[0.0, 1.0]])]
    engine = engine_with(resp, Settings(alpha, tuple(kappa), slots=2))
    now = moves._Now(engine, np.array([0]))
    old, new = ([q[:, [1]] for q in part] for part in (resp, without(engine, 0)))
    gain = temporal.expected_log_joint(new, alpha / 2, kappa, "exact")
    gain -= temporal.expected_log_joint(old, alpha / 2, kappa, "exact")
    assert gain <= now.most[0]
    assert gain > math.log(alpha / 2 + 1.0) or n == 1


@pytest.mark.parametrize("seed", range(12))
def test_evidence_gains_no_more_than_its_ceiling(seed):
    engine = crowded("drift", seed)
    mass = sum(q.sum(axis=0) for q in engine.resp)
    tiny = np.flatnonzero(mass < 3.0)
    now, gaps = moves._Now(engine, tiny), []
    for k in tiny:
        shared = without(engine, int(k))
        if shared is not None:
            alone, after = evidence_of(engine, int(k), shared)
            gaps.append(now.ceiling[k] - np.delete(after - alone, k).sum())
    assert min(gaps) > -1e-9


def test_rows_that_tiny_ones_share_are_judged_by_their_own_shares():
    """`add_most` against the sums themselves, the likeliest component left out or not."""
    rng = np.random.default_rng(0)
    N, K, least = 40, 6, 1e-3
    scores = 4.0 * rng.normal(size=(N, K))
    scores[rng.random((N, K)) < 0.2] = -np.inf
    scores[0, 1:] = -np.inf
    q = rng.dirichlet(np.full(K, 0.3), N)
    q[rng.random((N, K)) < 0.3] = 0.0
    gains, evidence = rng.normal(size=K), rng.normal(size=(N, K))
    most, ceiling = np.zeros((2, K))
    tiny = np.array([1, 2, 5])
    add_most(q, tiny, scores, gains, evidence, least, most, ceiling)
    for k in tiny:
        want = np.zeros(2)
        for i in np.flatnonzero(q[:, k]):
            p = np.delete(scores[i], k)
            p = np.exp(p - p.max())
            p[p < least] = 0.0
            p /= p.sum()
            want[0] += q[i, k] * (p @ np.delete(gains, k) - p[p > 0.0] @ np.log(p[p > 0.0]))
            want[1] += q[i, k] * p @ np.delete(evidence[i], k)
        assert (most[k], ceiling[k]) == pytest.approx(want, rel=1e-10)
    assert not most[[0, 3, 4]].any()
    q[0], most[:] = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0], 0.0
    add_most(q, np.array([0]), scores, gains, evidence, least, most, ceiling)
    assert most[0] == -np.inf  # no other component could take the first row


@pytest.mark.parametrize("kind", KINDS)
def test_unions_that_are_not_counted_row_by_row_would_not_pay(kind, monkeypatch):
    """The merges are those of a pass over the rows of every pair."""
    pairs = []
    merged_terms = Window.merged_terms
    monkeypatch.setattr(
        Window, "merged_terms", lambda w, a, b: pairs.append(len(a)) or merged_terms(w, a, b)
    )
    n_changes = 0
    for seed in range(12):
        found, counted = [], []
        for every in (False, True):
            engine = crowded(kind, seed)
            monkeypatch.setattr(
                moves, "_may_pay", (lambda gain, *_: gain == gain) if every else MAY_PAY
            )
            pairs.clear()
            moves._merge(engine)
            counted.append(sum(pairs))
            found.append((engine.ids.tolist(), engine.resp))
        assert found[0][0] == found[1][0]
        for one, other in zip(found[0][1], found[1][1], strict=True):
            np.testing.assert_array_equal(one, other)
        n_changes += 9 - len(found[0][0])
        assert counted[0] <= counted[1]
    assert n_changes
