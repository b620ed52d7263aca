"""Times: numbers and stamps to floats, the same bits one by one and in columns, order."""

from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamddcrp.data import as_time, as_times, check_times
from streamddcrp.data.times import as_given
from streamddcrp.errors import OrderError, SchemaError

EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("t", "expected"),
    [
        (3, 3.0),
        (-2.5, -2.5),
        (np.float32(0.5), 0.5),
        (np.int64(7), 7.0),
        (Fraction(1, 4), 0.25),
        (datetime(1970, 1, 1), 0.0),
        (datetime(2024, 1, 1, tzinfo=UTC), 1704067200.0),
        (datetime(2024, 1, 1, 2, tzinfo=EAST), 1704067200.0),
        (datetime(1969, 12, 31, 23, 59, 59, 500000), -0.5),
        (np.datetime64("1970-01-02"), 86400.0),
        (np.datetime64("1971"), 31536000.0),
        (np.datetime64("1970-01-01T00:01"), 60.0),
        (np.datetime64("1970-01-01T00:00:00.25"), 0.25),
        (np.datetime64("1969-12-31T23:59:59.750000000"), -0.25),
        (np.datetime64("1970-01-01T00:00:00.000000001"), 1e-9),
        (np.datetime64("1970-01-01T00:00:01.000000000001"), 1 + 1e-12),
        (np.datetime64(3, "25ms"), 0.075),
    ],
)
def test_as_time(t, expected):
    assert as_time(t) == expected
    assert type(as_time(t)) is float
    np.testing.assert_array_equal(as_times([t]), [expected])


@pytest.mark.parametrize(
    ("t", "match"),
    [
        ("2024-01-01", r"'2024-01-01' is text; convert it first.*datetime.fromisoformat"),
        (None, "None is missing"),
        (True, "True is a bool; expected a number"),
        (np.True_, "is a bool"),
        (np.nan, "nan is not a finite number"),
        (-np.inf, "-inf is not a finite number"),
        (10**400, "too large"),
        (np.datetime64("NaT", "s"), "is missing"),
        (date(2024, 1, 1), "is a date"),
        (timedelta(1), "is a timedelta"),
        (np.timedelta64(1, "s"), "is a timedelta64"),
        ([1.0], "is a list"),
        (datetime.min.replace(tzinfo=EAST), "outside the years"),
    ],
)
def test_no_time_at_all(t, match):
    with pytest.raises(SchemaError, match="^time .*" + match):
        as_time(t)
    with pytest.raises(SchemaError, match="^row 1, time .*" + match) as caught:
        as_times([1.0, t])
    assert caught.value.row == 1


@pytest.mark.parametrize(
    ("t", "row"),
    [
        (np.array([0.0, np.nan]), 1),
        (np.array([np.inf, 0.0]), 0),
        (np.array(["2024", "NaT"], dtype="datetime64[s]"), 1),
        (np.array(["2024-01-01"]), 0),
        (np.array([True]), 0),
        (np.array([1, 2], dtype="timedelta64[s]"), 0),
        ([0.0, np.nan], 1),
        ([0, 10**400], 1),
    ],
)
def test_columns_with_bad_times(t, row):
    with pytest.raises(SchemaError, match=f"^row {row}, time") as caught:
        as_times(t)
    assert caught.value.row == row


@pytest.mark.parametrize("t", [3.0, np.zeros((2, 1)), "2024"])
def test_not_one_time_a_row(t):
    with pytest.raises(SchemaError, match=r"^t: expected|^row 0, time '2' is text"):
        as_times(t)


def test_length_is_checked():
    with pytest.raises(SchemaError, match=r"one time a row, 3 in all; got shape \(2,\)"):
        as_times([1.0, 2.0], 3)
    assert as_times([], 0).shape == (0,)


def test_columns_are_floats():
    for t in [1, 2], (1.0, 2), np.array([1, 2]), np.array([1, 2], "f4"), iter([1, 2]):
        out = as_times(t)
        np.testing.assert_array_equal(out, [1.0, 2.0])
        assert out.dtype == np.float64
        assert out.flags.c_contiguous
    np.testing.assert_array_equal(as_times(np.arange(6.0)[::2]), [0, 2, 4])


@given(st.lists(st.datetimes(timezones=st.sampled_from([None, UTC, EAST])), max_size=8))
def test_columns_and_single_stamps_give_the_same_bits(stamps):
    try:
        one_by_one = [as_time(stamp) for stamp in stamps]
    except SchemaError:
        return  # within hours of the first or last year
    utc = [s if s.tzinfo is None else s.astimezone(UTC).replace(tzinfo=None) for s in stamps]
    column = np.array(utc, dtype="datetime64[us]")
    np.testing.assert_array_equal(as_times(column), one_by_one)
    np.testing.assert_array_equal(as_times(stamps), one_by_one)
    for stamp, t in zip(utc, one_by_one, strict=True):
        assert abs(t - (stamp - datetime(1970, 1, 1)).total_seconds()) <= np.spacing(abs(t))
        if 1678 < stamp.year < 2262:  # nanoseconds reach no further
            assert as_time(np.datetime64(stamp, "ns")) == t


def test_order():
    check_times(np.array([]), 5.0)
    check_times(np.array([1.0, 1.0, 2.0]))
    check_times(np.array([5.0]), 5.0)
    with pytest.raises(OrderError, match=r"^row 2: time 0.5 is before 1.0.*equal ones") as caught:
        check_times(np.array([1.0, 1.0, 0.5, 0.1]))
    assert caught.value.row == 2
    with pytest.raises(OrderError, match=r"^row 0: time 1.0 is before 1.5, the time of") as caught:
        check_times(np.array([1.0, 0.0]), 1.5)
    assert caught.value.row == 0


def test_order_of_time_stamps():
    stamps = [datetime(2026, 1, 1, 12, 0, 0, 250000), datetime(2026, 1, 1, 13, tzinfo=EAST)]
    shown = r"row 1: time 2026-01-01 11:00:00 UTC is before 2026-01-01 12:00:00.25 UTC, the time"
    for came in (
        stamps,
        pa.array(stamps, pa.timestamp("us")),
        np.array(["2026-01-01"], "datetime64[D]"),
    ):
        with pytest.raises(OrderError, match=shown) as caught:
            check_times(as_times(stamps), given=came)
        assert caught.value.row == 1
    with pytest.raises(OrderError, match=r"1e[+]300 is before 2e[+]300"):  # beyond the calendar
        raise as_given(OrderError("1e+300 is before 2e+300", times=(1e300, 2e300)), stamps)
