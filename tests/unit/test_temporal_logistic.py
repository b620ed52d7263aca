"""Logistic-normal texts in the temporal mixture: the peak of the bound, and a known stream."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import optimize, sparse
from sklearn.metrics import adjusted_rand_score

from streamddcrp.models.temporal.emissions import Moments as LogisticStarts
from streamddcrp.models.temporal.emissions import logistic
from streamddcrp.models.temporal.emissions.logistic import LogisticNormalText, LogisticStats
from streamddcrp.models.temporal.engine import Engine
from streamddcrp.models.temporal.kernels.logistic import prior_evidence
from streamddcrp.models.temporal.window import Settings
from tests.unit.test_temporal_text import KAPPA, ODD, gen_text, labels_after_lag

COUNTS = np.array([[3, 1, 0, 0.5], [2, 2, 0.5, 0], [0, 0, 4, 1]])


@pytest.fixture
def to_the_peak(monkeypatch):
    monkeypatch.setattr(logistic, "_TOL", 1e-13)
    monkeypatch.setattr(logistic, "_ITERATIONS", 2000)


def fitted(counts, emission, starts=None, begins=0):
    starts = emission.no_starts(1) if starts is None else starts
    return emission.smooth(LogisticStats(counts[:, None]), starts, np.array([begins]))


def test_oracle_of_the_smoother(to_the_peak):
    s = fitted(COUNTS, LogisticNormalText(4, drift=0.3, birth_var=1.5))
    assert s.log_z.sum() == pytest.approx(-21.528292963, abs=1e-8)
    mean0, mean2 = [0.6305776, -0.0011643, -0.0456183, -0.5838016], [0.0647719, -0.2558970]
    np.testing.assert_allclose(s.mean[0, 0], mean0, atol=1e-5)
    np.testing.assert_allclose(s.mean[2, 0], [*mean2, 0.7636972, -0.5725801], atol=1e-5)
    np.testing.assert_allclose(s.var[0, 0], [0.2544380, 0.3491386, 0.3204404, 0.4672003], atol=1e-5)


@pytest.mark.parametrize("begins", [0, -1, 1])
def test_peak_against_direct_optimisation(to_the_peak, begins):
    """The bound over all Gaussian chains with pseudo-observations, by dense linear algebra."""
    drift, birth_var = 0.3, 1.5
    emission = LogisticNormalText(4, drift, birth_var)
    start = LogisticStarts(np.array([[0.3, -0.2, 0.1, 0.0]]), np.array([[0.5, 0.2, 0.9, 0.4]]))
    first = max(begins, 0)
    C = COUNTS[first:]
    E, V = C.shape
    step = np.eye(E, dtype=bool)
    L = np.tril(np.ones((E, E)))
    mean = np.zeros(V) if begins >= 0 else start.mean[0]
    var = np.full(V, birth_var) if begins >= 0 else start.var[0] + drift
    prior = [L @ np.diag(np.r_[var[w], np.full(E - 1, drift)]) @ L.T for w in range(V)]

    def fall(z):
        m, W = z[: E * V].reshape(E, V), np.exp(z[E * V :]).reshape(E, V)
        value, s = 0.0, np.empty((E, V))
        for w in range(V):
            P = np.linalg.inv(prior[w])
            S = np.linalg.inv(P + np.diag(W[:, w]))
            s[:, w] = S[step]
            gap = m[:, w] - mean[w]
            value -= 0.5 * (np.trace(P @ S) + gap @ P @ gap - E)
            value += 0.5 * (np.linalg.slogdet(S)[1] - np.linalg.slogdet(prior[w])[1])
        return -(value + (C * m).sum() - C.sum(axis=1) @ np.log(np.exp(m + s / 2).sum(axis=1)))

    best = optimize.minimize(fall, np.zeros(2 * E * V), method="BFGS", options={"gtol": 1e-7})
    counts = np.concatenate([np.zeros((first, V)), C])
    s = fitted(counts, emission, start, begins)
    assert s.log_z.sum() == pytest.approx(-best.fun, abs=1e-7)
    np.testing.assert_allclose(s.mean[first:, 0], best.x[: E * V].reshape(E, V), atol=2e-4)


def test_many_tokens_do_not_diverge():
    g = np.random.default_rng(0)
    law = g.dirichlet(np.full(60, 0.3))
    counts = g.multinomial(3000, law, size=4).astype(float)
    # a component from before the window, of which nothing is known: the iteration starts at zero
    emission = LogisticNormalText(60, drift=0.05, birth_var=2.0)
    start = LogisticStarts(np.zeros((1, 60)), np.full((1, 60), 2.0))
    s = fitted(counts, emission, start, -1)
    p = np.exp(s.mean[-1, 0])
    assert np.abs(p / p.sum() - law).sum() < 0.1
    assert s.log_z.sum() > fitted(counts, emission).log_z.sum() - 20.0


def test_evidence_of_a_row_at_birth(to_the_peak):
    x = np.array([2.0, 1.0])
    s = fitted(np.array([[2.0, 0, 1, 0, 0, 0]]), LogisticNormalText(6, 0.3, 1.5))
    assert prior_evidence(x, 6, 1.5, 60) == pytest.approx(s.log_z.sum(), abs=1e-9)
    assert prior_evidence(np.zeros(0), 6, 1.5, 5) == 0.0


def test_bound_is_below_the_evidence():
    """Monte Carlo over the law at birth: 200,000 draws, standard error below .01 nats."""
    g = np.random.default_rng(2)
    b = g.standard_normal((200_000, 5)) * np.sqrt(1.5)
    logp = b - np.logaddexp.reduce(b, axis=1, keepdims=True)
    x = np.array([3.0, 0, 1, 0, 0])
    evidence = np.log(np.exp(logp @ x).mean())
    bound = prior_evidence(x[x > 0], 5, 1.5, 60)
    assert evidence - 0.6 < bound < evidence + 0.03


def test_texts_from_drifting_laws():
    stream = gen_text(0, 40)
    engine = Engine(Settings(1.0, KAPPA), LogisticNormalText(200, drift=0.02))
    found = labels_after_lag(engine, [sparse.csr_array(X) for X, _ in stream])
    each = [adjusted_rand_score(z, a) for (_, z), a in zip(stream, found, strict=True)]
    assert np.mean(each) >= 0.99
    y = np.concatenate([z for _, z in stream])
    assert adjusted_rand_score(y, np.concatenate(found)) >= 0.99


def test_seats_do_not_depend_on_the_cuts():
    X = sparse.csr_array(gen_text(1, 20)[0][0][:, :60])
    emission = LogisticNormalText(60)
    results = []
    for cuts in ([0, 60], [0, 1, 30, 60]):
        seating = emission.seating(np.zeros(0), emission.no_starts(0))
        parts = [seating.seat(X[a:b], 0.001, 0.0, 1000) for a, b in pairwise(cuts)]
        K = seating.n_components
        results.append(
            np.concatenate([np.pad(p.q, ((0, 0), (0, K - p.q.shape[1]))) for p in parts])
        )
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("name", ODD)
def test_odd_epochs(name):
    engine = Engine(Settings(1.0, KAPPA), LogisticNormalText(4))
    for rows in ODD[name]:
        X = sparse.csr_array(np.asarray(rows, dtype=float))
        assert np.isfinite(engine.learn(X)).all()
        for q in engine.resp:
            assert np.isfinite(q).all()
            np.testing.assert_allclose(q.sum(axis=1), 1.0, atol=1e-9)


def test_closed_vocabulary():
    emission = LogisticNormalText(3)
    X = sparse.csr_array([[0, 0, 0, 1.0]])
    with pytest.raises(ValueError, match="closed at n_words=3"):
        emission.seating(np.zeros(0), emission.no_starts(0)).seat(X, 0.1, 0.0, 1000)


@pytest.mark.parametrize("first", [0.05, 0.3])
def test_drift_is_learned(first):
    """Within a factor of three, from above and from below."""
    for truth in (0.1, 0.5):
        rng = np.random.default_rng(0)
        beta = 1.4 * rng.normal(size=(2, 40))
        engine = Engine(Settings(1.0, (0.5,), lag=2), LogisticNormalText(40, drift=first))
        for _ in range(8):
            beta += np.sqrt(truth) * rng.normal(size=beta.shape)
            law = np.exp(beta) / np.exp(beta).sum(axis=1, keepdims=True)
            engine.learn(
                sparse.csr_array(np.stack([rng.multinomial(60, law[i % 2]) for i in range(20)]))
            )
        assert truth / 3.0 < engine.emission.drift < 3.0 * truth
