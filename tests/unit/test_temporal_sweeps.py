"""Sweeps of a window: a slow twin, and how far plain expansions of counts are off."""

import numpy as np
import pytest
from hypothesis import given

from streamddcrp.models.temporal.emissions.drift import GaussianDrift
from streamddcrp.models.temporal.window import Settings
from tests.oracles import temporal
from tests.unit.test_temporal_counts import STEP, compiled_expectations, soft_windows
from tests.unit.test_temporal_objective import engine_with


def slow(a0, of, order):
    return temporal.expected_log(a0, of, order), temporal.expected_step(a0, STEP, of, order)


@given(case=soft_windows())
def test_a_sweep_of_the_window_is_the_slow_one(case):
    q, _, alpha, kappa = case
    rng = np.random.default_rng(len(q))
    X = [rng.normal(0.0, 2.0, (len(rows), 1)) for rows in q]
    emission = GaussianDrift.known(*(np.array([v]) for v in (0.0, 4.0, 0.2, 1.0)))
    K = q[0].shape[1]
    settings = Settings(alpha=alpha, past_weights=tuple(kappa), slots=K, lag=len(q) - 1)
    engine = engine_with([rows.copy() for rows in q], settings, X, emission)
    smoothed, begins = engine.smooth(), engine.begins
    engine.sweep(1, exact=True)
    kept = [rows.copy() for rows in q]
    for t, rows in enumerate(X):
        ell = [None] * t + [emission.expected(rows, smoothed, t, begins, q[t])]
        temporal.sweep_epoch(kept, ell, t, alpha, kappa, "zc")
        assert engine.resp[t] == pytest.approx(kept[t], rel=0.0, abs=1e-9)
        kept[t] = engine.resp[t].copy()


@pytest.mark.parametrize("a0", [1e-3, 0.1])
def test_which_is_nearer_to_the_exact_expectation(a0):
    """Counts of 20 rows by enumeration: far off and not where nearly empty, alike where filled."""

    def gaps(mean):
        of = [(mean / 20, 1.0)] * 10 + [(mean / 20, STEP)] * 10
        exact = np.array(slow(a0, of, "exact"))
        plain, corrected = (
            np.array(compiled_expectations(a0, of, plain=plain)[:2]) for plain in (True, False)
        )
        return np.abs(plain - exact), np.abs(corrected - exact)

    for mean in (0.01, 0.1, 1.0, 3.0):
        plain, corrected = gaps(mean)
        assert (corrected < 0.02).all()
        assert (plain > 3.0 * corrected).all()
    plain, corrected = gaps(10.0)
    assert (plain < 0.003).all()
    assert (corrected < plain).all()
