"""Laws of seasons that hold for any series."""

import numpy as np
import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st

from streamddcrp import Seasonal
from streamddcrp.data.seasons.tracker import MOST, Tracker

PERIODS = st.lists(st.floats(2.5, 60.0), min_size=1, max_size=3, unique=True).map(sorted)


def series(seed, n=250):
    rng = np.random.default_rng(seed)
    turn = np.arange(n) / rng.uniform(3, 40)
    y = rng.exponential(3.0) * np.sin(2 * np.pi * turn) + rng.standard_t(3, n)
    y += np.cumsum(rng.normal(0, 5, n) * (rng.random(n) < 0.02))
    y[rng.random(n) < 0.05] = np.nan
    return y


def column(y):
    return pa.table({"y": pa.array(y, from_pandas=True)})


@given(st.integers(0, 2**32 - 1), PERIODS)
def test_numbers_stay_finite_and_states_in_range(seed, periods):
    y = series(seed)
    tracker = Tracker(periods, 1.0, 1)
    out = tracker.step(y[:, None], np.arange(250.0))
    assert (np.isnan(out[:, 0]) == np.isnan(y)).all()
    for array in tracker.state:
        assert np.isfinite(array).all()
    assert abs(tracker.state.lead[0]) <= MOST
    assert (tracker.state.spread[0] == tracker.state.spread[0].T).all()
    assert (np.diag(tracker.state.spread[0]) > 0.0).all()
    assert tracker.state.n[0] == np.isfinite(y).sum()


@given(st.integers(0, 2**32 - 1), PERIODS, st.integers(-40, 40), st.sampled_from([-1.0, 1.0]))
def test_the_unit_of_a_column_does_not_matter(seed, periods, power, sign):
    """Multiplication by a power of two is exact, so that every bit follows."""
    y, factor = series(seed), sign * 2.0**power
    one, other = (Seasonal(periods).step_many(column(x))["y"] for x in (y, factor * y))
    expected = one.to_numpy(zero_copy_only=False) * factor
    # the scores take logarithms of variances, which do not follow exactly
    np.testing.assert_allclose(
        other.to_numpy(zero_copy_only=False), expected, rtol=1e-9, atol=1e-9 * abs(factor)
    )


@given(st.integers(0, 2**32 - 1), PERIODS, st.integers(0, 249))
def test_later_rows_do_not_matter(seed, periods, cut):
    y = series(seed)
    changed = y.copy()
    changed[cut:] = -7.0 * changed[cut:] + 100.0
    one, other = (Seasonal(periods).step_many(column(x))["y"] for x in (y, changed))
    assert one[:cut].equals(other[:cut])


@given(st.integers(0, 2**32 - 1), PERIODS)
def test_a_column_without_values_touches_no_other(seed, periods):
    """Others do, where they jump."""
    a = series(seed)
    table = pa.table({"a": pa.array(a, from_pandas=True), "b": np.full(len(a), np.nan)})
    both = Seasonal(periods).step_many(table)
    assert both["a"].equals(Seasonal(periods).step_many(column(a))["y"])


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), PERIODS)
def test_the_order_of_columns_does_not_matter(seed, other, periods):
    y = np.column_stack([series(seed), series(other)])
    one, turned = Tracker(periods, 1.0, 2), Tracker(periods, 1.0, 2)
    t = np.arange(float(len(y)))
    np.testing.assert_array_equal(one.step(y, t), turned.step(y[:, ::-1], t)[:, ::-1])


@given(st.integers(0, 2**32 - 1), PERIODS, st.floats(-1e6, 1e6))
def test_only_the_gaps_between_times_matter_for_what_is_left(seed, periods, start):
    """A shift of the clock turns sines into cosines, which spans the same curves."""
    y = series(seed)
    t = np.arange(250.0)
    one, other = (Tracker(periods, 1.0, 1) for _ in range(2))
    a, b = one.step(y[:, None], t), other.step(y[:, None], t + round(start))
    assume(one.in_use == other.in_use)
    same = np.isclose(a, b, rtol=1e-5, atol=1e-5, equal_nan=True).mean()
    assert same > 0.9  # a lead of 5 nats may be reached a row earlier or later by rounding
