"""Changes are moved to the most probable rows, by evidence computed from dense densities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_t

from streamddcrp import relocate_changes
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.monitor import changes as module
from streamddcrp.monitor.changes import KAPPA, ORDER
from streamddcrp.monitor.kernels import nearest

SHAPE, SHARE = 1.5, 0.05  # of the noise's prior: its variance is a twentieth of the column's


def dense_evidence(column, scale, start, end):
    """Log marginal of a segment as one Student t; rows whose lags are unknown are left out."""
    rows = [i for i in range(max(start, ORDER), end) if not np.isnan(column[i])]
    known = column.copy()
    for i in range(1, len(known)):
        if np.isnan(known[i]):
            known[i] = known[i - 1]
    rows = [i for i in rows if not np.isnan(known[i - ORDER : i]).any()]
    if not rows:
        return 0.0
    mean = np.nanmean(column)
    lags = [[1.0, *(known[i - ORDER : i][::-1] - mean) / scale] for i in rows]
    phi = np.array(lags)
    rate = SHAPE * SHARE * scale**2
    shape = (rate / SHAPE) * (np.eye(len(rows)) + phi @ phi.T / KAPPA)
    law = multivariate_t(loc=np.zeros(len(rows)), shape=shape, df=2 * SHAPE)
    return float(law.logpdf(column[rows] - mean))


def distance(stretch, known):
    """Least mean squared distance of a stretch to the stretches of known values."""
    m = len(stretch)
    return min(
        np.mean((stretch - known[k : k + m]) ** 2)
        for k in range(len(known) - m + 1)
    )  # fmt: skip


def likeness(column, within, before, first, last, after, c):
    """Log evidence of the rows from first to last, those from c on by the signal backwards."""
    step = -(-within // module.FINEST)
    m = max(within // (8 * step), 1)
    r = min(module.LIBRARY, (first - before) // step, (after - last) // step)
    if r < 2 * m:
        return 0.0
    total = 0.0
    for x, start, rows in (
        (column, first, range(first, c)),
        (column[::-1], len(column) - last, range(len(column) - last, len(column) - c)),
    ):
        for t in rows:
            t = start + (t - start) // step * step  # noqa: PLW2901  rows between have its evidence
            stretch = x[t - (m - 1) * step : t + 1 : step]
            known = x[start - r * step : min(start, t - (m - 1) * step) : step]
            total -= 0.5 * np.log(distance(stretch, known) + 0.01)
    return total


def filled(column):
    """In standard units, each gap with the value before it, or the mean where there is none."""
    z = (column - np.nanmean(column)) / np.nanstd(column)
    for i in np.flatnonzero(np.isnan(z)):
        z[i] = z[i - 1] if i > 0 else 0.0
    return z


def evidence(X, within, before, first, last, after):
    """Log evidence of a change at each row from first to last, between those before and after."""
    return {
        c: sum(
            dense_evidence(x, np.nanstd(x), before, c)
            + dense_evidence(x, np.nanstd(x), c, after)
            + likeness(filled(x), within, before, first, last, after, c)
            for x in X.T
        )
        for c in range(first, last + 1)
    }


@st.composite
def cases(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    N, D = draw(st.integers(30, 70)), draw(st.integers(1, 2))
    changes = sorted(draw(st.sets(st.integers(1, N - 1), min_size=1, max_size=3)))
    X = rng.normal(size=(N, D)).cumsum(axis=0) * rng.uniform(0.1, 10.0) + rng.normal(0.0, 50.0)
    X[N // 2 :] += 3.0 * rng.normal(size=(N - N // 2, D))
    X[rng.random(X.shape) < draw(st.sampled_from([0.0, 0.1]))] = np.nan
    return X, changes, draw(st.integers(1, 40))


@given(case=cases(), finest=st.sampled_from([4, 16, 256]), library=st.sampled_from([7, 2048]))
def test_no_row_nearby_is_more_probable(case, finest, library):
    X, changes, within = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FINEST", finest)
        patch.setattr(module, "LIBRARY", library)
        check_that_no_row_is_more_probable(X, changes, within)


def check_that_no_row_is_more_probable(X, changes, within):
    found = relocate_changes(changes, X, within).tolist()
    for before, old, new, after in zip(
        [0, *found], changes, found, [*changes[1:], len(X)], strict=False
    ):
        first = max(old - within, old - (old - before) // 2)
        last = min(old + within, old + (after - old) // 2)
        scores = evidence(X, within, before, first, last, after)
        best = max(scores.values())
        # rounding alone: sums of squares of up to 70 rows, and their differences
        assert scores[new] >= best - 1e-6 * max(1.0, abs(best))


@given(data=st.data())
def test_nearest_stretches_are_those_of_a_search(data):
    length = data.draw(st.integers(1, 6))
    n_known, n = data.draw(st.integers(2 * length, 40)), data.draw(st.integers(0, 30))
    values = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1))).normal(size=n_known + n)
    found = np.empty(n)
    nearest(values, n_known, length, found)
    for i in range(n):
        stretch = values[n_known + i - length + 1 : n_known + i + 1]
        slow = distance(stretch, values[: min(n_known, n_known + i - length + 1)])
        # at most 70 squares below 100 are added and taken away again, one after the other
        assert found[i] == pytest.approx(slow, rel=1e-12, abs=1e-12)


def test_chunks_do_not_matter(monkeypatch):
    X = np.random.default_rng(0).normal(size=(900, 2)).cumsum(axis=0)
    X[500:] *= -1.5
    whole = relocate_changes([200, 520], X, 30).tolist()
    monkeypatch.setattr(module, "CHUNK", 7)
    assert relocate_changes([200, 520], X, 30).tolist() == whole


def test_a_change_of_shape_is_found_to_the_row():
    rng = np.random.default_rng(1)
    phase = 2.0 * np.pi * np.arange(1500) / 25
    errors = []
    for _ in range(20):
        true, signal = int(rng.integers(600, 900)), np.sin(phase)
        signal[true:] += 0.5 * np.sin(2.0 * phase[true:] + rng.uniform(0.0, 6.0))
        signal += 0.02 * rng.normal(size=1500)
        found = relocate_changes([true + int(rng.integers(-100, 101))], signal, 100)
        errors.append(abs(int(found[0]) - true))
    assert np.median(errors) <= 1
    assert max(errors) <= 8  # the lags of as many rows mix both shapes


@pytest.mark.parametrize("period", [24, 200])
def test_a_shape_and_its_reverse_differ(period):
    """Their spectra, and so all autoregressions, are the same."""
    rng = np.random.default_rng(2)
    errors = []
    for _ in range(5):
        true = int(rng.integers(14 * period, 16 * period))
        signal = np.arange(30.0 * period) % period / period
        signal[true:] = 1.0 - signal[true:]
        signal += 0.02 * rng.normal(size=len(signal))
        within = 4 * period
        found = relocate_changes([true + int(rng.integers(-period, period + 1))], signal, within)
        errors.append(abs(int(found[0]) - true))
    assert max(errors) <= period / 4  # half of a stretch is of the other shape by then


def test_nothing_found_nothing_moved():
    assert relocate_changes([], [1.0, 2.0], 5).tolist() == []


def test_a_column_at_rest_says_nothing():
    signal = np.sin(np.arange(300.0))
    signal[150:] *= 0.1
    both = np.column_stack([signal, np.full(300, 7.0)])
    assert (
        relocate_changes([170], both, 40).tolist() == relocate_changes([170], signal, 40).tolist()
    )


@pytest.mark.parametrize("changes", [[5, 5], [7, 3], [0, 4], [4, 20], [-1]])
def test_refuses_changes_that_are_no_rows(changes):
    with pytest.raises(ConfigError, match="changes must rise and lie between 1 and 19"):
        relocate_changes(changes, np.arange(20.0), 3)


def test_refuses_what_is_no_signal():
    with pytest.raises(SchemaError, match="signal must have shape"):
        relocate_changes([1], np.zeros((3, 2, 2)), 3)
    with pytest.raises(SchemaError, match="row 2"):
        relocate_changes([1], [0.0, 1.0, np.inf, 2.0], 3)
    with pytest.raises(ConfigError, match="within"):
        relocate_changes([1], np.arange(9.0), 0)
