"""Evidence of several rows that columns no longer move as usual: docs/math/lasting_changes.md."""

import numpy as np
import pytest

from streamddcrp import RegimeAnomalyDetector
from streamddcrp.errors import CheckpointError
from streamddcrp.estimator.reasons import Explanation
from streamddcrp.monitor.lasting import FAR, LEAST, LONG, MOST, RIDGE, SHORT, Lasting

N, D = 400, 3


def rows(seed=0, n=700):
    """Slow columns; the last one follows the first."""
    rng = np.random.default_rng(seed)
    X, push = np.zeros((n, D)), rng.normal(size=(n, D))
    for t in range(1, n):
        X[t] = [0.9, 0.5, 0.0] * X[t - 1] + push[t]
        X[t, 2] = X[t, 0] + 0.3 * push[t, 2]
    return 5.0 + [1.0, 100.0, 0.01] * X


def settled(X):
    lasting = Lasting()
    lasting.step(X)
    lasting.settle()
    return lasting


def twin(X):
    """Equations (1) and (2), by whole arrays; return the evidence after each of all rows."""
    usual = X[:N]
    Z = (X - usual.mean(axis=0)) / usual.std(axis=0)
    A, Y = Z[: N - 1], Z[1:N]
    B = np.linalg.solve(A.T @ A / N + RIDGE * np.eye(D), A.T @ Y / N).T
    E = Z - np.clip(np.vstack([np.zeros(D), Z[:-1]]), -FAR, FAR) @ B.T
    E /= np.sqrt(((Y - A @ B.T) ** 2).mean(axis=0))
    P = np.linalg.inv(E[1:N].T @ E[1:N] / N + RIDGE**2 * np.eye(D))
    given = E @ P
    given /= np.sqrt((given[1:N] ** 2).mean(axis=0))
    best, usually = np.zeros(len(X)), np.zeros(N)
    for rows in (SHORT, LONG):
        for fitted, r in ((D, E), (2 * D, given)):
            q = np.minimum(r**2, MOST)
            q = np.column_stack([q, q.mean(axis=1)])
            q = np.vstack([np.ones((rows - 1, D + 1)), q])
            square = np.array([q[i : i + rows].mean(axis=0) for i in range(len(X))])
            mean, n = square[LONG:N].mean(axis=0), rows * np.array([1] * D + [D])

            def g(ratio, n=n):
                v = (n * ratio + 1) / (n + 1)
                return n / 2 * (v - 1 - np.log(v))

            told = g(square[LONG:N] / mean)
            unit = np.maximum(2 * told.mean(axis=0), np.quantile(told, 0.99, axis=0) / 3.32)
            usually[LONG:] = np.maximum(usually[LONG:], (told / unit).max(axis=1))
            later = g(square / (mean * (N + fitted) / (N - fitted))) / unit
            best = np.maximum(best, later.max(axis=1))
    return np.maximum(best - np.quantile(usually[LONG:], 0.99), 0.0)


def test_evidence_is_that_of_the_equations_however_rows_are_cut():
    X = rows()
    X[600:] += 0.2 * np.arange(100)[:, None] * [1.0, 100.0, 0.01]
    whole = settled(X[:N])
    found = whole.step(X[N:])
    np.testing.assert_allclose(found, twin(X)[N:], rtol=1e-9, atol=1e-9)
    assert found.max() > 5.0
    cut = settled(X[:N])
    for a in range(N, len(X), 7):
        again = Lasting()
        again.restore(cut.arrays(), D)
        assert cut.ahead(X[a]) == found[a - N]
        assert again.step(X[a : a + 7]).tolist() == found[a - N : a - N + 7].tolist()
        cut = again


@pytest.mark.parametrize("kind", ["frozen", "step", "noisy"])
def test_a_column_that_moves_otherwise_is_named(kind):
    X = rows(seed=2)
    if kind == "frozen":
        X[600:, 1] = X[600, 1]
    elif kind == "step":
        X[600:, 1] += 500.0
    else:
        X[600:, 1] += 500.0 * np.random.default_rng(0).normal(size=100)
    detector = RegimeAnomalyDetector(reference_after=N)
    out = detector.step_many(X)
    alarm = out["alarm"].to_numpy(zero_copy_only=False)
    assert alarm[620:640].any()
    assert not alarm[N:600].any()
    assert any(why and why.startswith("1 ") for why in out["why"].to_pylist()[600:])
    quiet = settled(X[:N])
    quiet.step(X[N:620])
    nothing = Explanation((), 0.0, 0.0, 0.0)
    said = quiet.words(["0", "1", "2"], X[620:640], nothing)
    assert said.startswith("1 ")
    assert (float(said.split()[1]) < 1.0) == (kind == "frozen")


@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_of_a_controller_the_column_that_it_follows_is_named_too(noise):
    rng = np.random.default_rng(4)
    X, set_point = np.zeros((700, 2)), np.where(np.arange(700) < 600, 0.0, 6.0)
    for t in range(1, 700):  # a heater, by the last temperature, and a temperature
        X[t, 0] = -(X[t - 1, 1] - set_point[t]) + 0.3 * noise * rng.normal()
        X[t, 1] = 0.7 * X[t - 1, 1] + 0.2 * X[t, 0] + 0.3 * rng.normal()
    detector = RegimeAnomalyDetector(reference_after=N)
    detector.learn_many(dict(zip(["heater", "warm"], X[:600].T, strict=True)))
    out = detector.step_many(dict(zip(["heater", "warm"], X[600:].T, strict=True)))
    why = next(text for text in out["why"].to_pylist() if text)
    assert why.startswith("heater ")
    assert ("; warm (heater follows it)" in why) == (noise < 1.0)


def test_missing_values_constants_and_few_rows():
    X = rows(seed=3)
    X[::9, 1] = np.nan
    X[:, 2] = 7.0
    found = settled(X[:N]).step(X[N:])
    assert np.isfinite(found).all()
    assert (found > 0.0).mean() < 0.1
    X[690:, 2] = 7.1
    assert settled(X[:N]).step(X[N:])[-1] > 10.0
    assert not settled(X[: LEAST + 2 * D - 1]).step(X).any()


def test_altered_states_are_refused():
    arrays = settled(rows()[:N]).arrays()
    for name, value in {"unit": 0.0, "turn": LONG, "mean": np.nan}.items():
        wrong = {key: x.copy() for key, x in arrays.items()}
        wrong[f"lasting.{name}"].flat[0] = value
        with pytest.raises(CheckpointError):
            Lasting().restore(wrong, D)
