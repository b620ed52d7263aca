"""The paper's expectations, to second order about the mean: slow twins, and the exact ones."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.epochs import drifting_gaussians
from streamddcrp import TemporalDPM, fit_temporal_dpm
from streamddcrp.models.temporal import window
from streamddcrp.models.temporal.emissions.drift import GaussianDrift
from streamddcrp.models.temporal.window import Settings
from tests.oracles import temporal
from tests.unit.test_temporal_counts import STEP, compiled_expectations, soft_windows
from tests.unit.test_temporal_objective import engine_with


def slow(a0, of, order):
    return temporal.expected_log(a0, of, order), temporal.expected_step(a0, STEP, of, order)


@given(
    st.lists(
        st.tuples(st.floats(0.0, 1.0), st.sampled_from([1.0, 0.6, 0.2])), min_size=0, max_size=8
    ),
    st.sampled_from([1e-6, 1e-3, 0.1, 2.0]),
)
def test_compiled_expectations_are_the_paper_s(of, a0):
    """f(E X) + f''(E X) Var X / 2, a count of nothing being f(0)."""
    means = [sum(p for p, w in of if w == weight) for weight in (1.0, 0.6, 0.2)]
    assume(all(mean == 0.0 or mean > temporal.TINY for mean in means))
    # the kernel takes Var X as E X² - (E X)², which is off by 2 eps (E X)², in units of 1 / f''
    assert compiled_expectations(a0, of, plain=True)[:2] == pytest.approx(
        slow(a0, of, "taylor2"), rel=1e-11
    )


@given(case=soft_windows(), taylor=st.booleans())
def test_a_sweep_of_the_window_is_the_slow_one(case, taylor):
    """The option reaches the updates of all epochs, and nothing else changes."""
    q, _, alpha, kappa = case
    rng = np.random.default_rng(len(q))
    X = [rng.normal(0.0, 2.0, (len(rows), 1)) for rows in q]
    emission = GaussianDrift.known(*(np.array([v]) for v in (0.0, 4.0, 0.2, 1.0)))
    K = q[0].shape[1]
    settings = Settings(
        alpha=alpha, past_weights=tuple(kappa), slots=K, lag=len(q) - 1, taylor=taylor
    )
    engine = engine_with([rows.copy() for rows in q], settings, X, emission)
    smoothed, begins = engine.smooth(), engine.begins
    engine.sweep(1, exact=not taylor)
    order = "taylor2" if taylor else "zc"
    kept = [rows.copy() for rows in q]
    for t, rows in enumerate(X):
        ell = [None] * t + [emission.expected(rows, smoothed, t, begins, q[t])]
        temporal.sweep_epoch(kept, ell, t, alpha, kappa, order)
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


def test_the_option_reaches_stream_and_batch():
    rows = drifting_gaussians(1).rows
    models = [TemporalDPM(expectation=name, warmup=20) for name in window.EXPECTATIONS]
    for model in models:
        for X in rows:
            model.learn_many(X)
        assert TemporalDPM.from_bytes(model.to_bytes()).objective == model.objective
    assert models[0].objective != models[1].objective
    fits = [fit_temporal_dpm(rows, expectation=name) for name in window.EXPECTATIONS]
    assert fits[0].objective != fits[1].objective
