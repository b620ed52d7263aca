"""Time stamps as floats, and the check that time never decreases.

A model measures time in one unit: numbers keep the caller's unit, and time stamps become seconds
since 1970-01-01 UTC. A float of that size resolves 0.24 microseconds. One formula serves single
stamps and columns, so both give the same bits.
"""

import numbers
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamddcrp.errors import OrderError, SchemaError
from streamddcrp.typing import FloatArray

MISSING = "is missing; every row needs a time, or none has one"
Stamps = NDArray[np.datetime64]
MICROSECOND = {"ns": 10**3, "ps": 10**6, "fs": 10**9, "as": 10**12}  # units finer than it


# Times beyond are refused, and those nearer to zero are zero: quotients of gaps are finite.
FARTHEST, NEAREST = 1e150, 1e-130
_TOO_FAR = "is not a finite number between -1e150 and 1e150"


def as_time(t: object, *, row: int | None = None) -> float:
    """Return one time as a float; a datetime without a time zone counts as UTC.

    SchemaError if it is text, missing, not finite, beyond 1e150 or of another type; ``row`` is its
    number in a batch.

    >>> from datetime import datetime
    >>> as_time(datetime(2024, 1, 1)), as_time(17)
    (1704067200.0, 17.0)
    """
    if isinstance(t, datetime):
        if t != t:  # noqa: PLR0124  # pandas.NaT is a datetime, and unlike itself
            raise _refusal(t, MISSING, row)
        try:
            naive = t if t.tzinfo is None else t.astimezone(UTC).replace(tzinfo=None)
        except OverflowError:
            raise _refusal(t, "is outside the years 1 to 9999 in UTC", row) from None
        return float(_seconds(np.array([naive], dtype="datetime64[us]"))[0])
    if isinstance(t, np.datetime64):
        if np.isnat(t):
            raise _refusal(t, MISSING, row)
        return float(_seconds(np.array([t]))[0])
    if isinstance(t, numbers.Real) and not isinstance(t, bool | np.timedelta64):
        try:
            number = float(t)
        except OverflowError:
            raise _refusal(t, "is too large for a float", row) from None
        if not abs(number) <= FARTHEST:
            raise _refusal(t, _TOO_FAR, row)
        return number if abs(number) >= NEAREST else 0.0
    raise _refusal(t, _why_not(t), row)


def is_stamp(t: Any) -> bool:
    """Whether a time, or the first of an accepted batch, is a time stamp."""
    if isinstance(t, datetime | np.datetime64):
        return True
    if isinstance(t, numbers.Real):
        return False
    first = np.asarray(t[:1] if hasattr(t, "__getitem__") else ())
    return first.dtype.kind == "M" or (len(first) > 0 and isinstance(first[0], datetime))


def as_times(t: object, n_rows: int | None = None) -> FloatArray:
    """Return the times of a batch (N,) as floats, as `as_time` does; N must be ``n_rows`` if given.

    >>> as_times(np.array(["1970-01-01", "1970-01-02"], dtype="datetime64[D]"))
    array([    0., 86400.])
    """
    given: NDArray[Any] = t if isinstance(t, np.ndarray) else _array(t)
    if given.ndim != 1 or (n_rows is not None and len(given) != n_rows):
        rows = "row" if n_rows is None else f"row, {n_rows} in all"
        raise SchemaError(f"t: expected one time a {rows}; got shape {given.shape}")
    if given.dtype.kind == "M":
        lost = np.isnat(given)
        if lost.any():
            i = int(lost.argmax())
            raise _refusal(given[i], MISSING, i)
        return _seconds(given)
    if given.dtype.kind in "fiu":
        out = np.ascontiguousarray(given, dtype=np.float64)
        size = np.abs(out)
        wrong = ~(size <= FARTHEST)
        if wrong.any():
            i = int(wrong.argmax())
            raise _refusal(float(out[i]), _TOO_FAR, i)
        return np.where(size >= NEAREST, out, 0.0) if (size < NEAREST).any() else out
    items = given.tolist() if given.dtype.kind != "O" else given
    return np.array([as_time(item, row=i) for i, item in enumerate(items)], dtype=np.float64)


def check_times(t: FloatArray, last: float | None = None, given: object = None) -> None:
    """Refuse decreasing times (N,) of a batch: OrderError, with the first late one in ``row``.

    ``last`` is the time of the row before the batch. The message shows time stamps if the times
    were ``given`` as such.
    """
    if len(t) == 0:
        return
    if last is not None and t[0] < last:
        i, before = 0, last
    else:
        backwards = t[1:] < t[:-1]
        if not backwards.any():
            return
        i = 1 + int(backwards.argmax())
        before = t[i - 1]
    msg = (
        f"row {i}: time {float(t[i])!r} is before {float(before)!r}, the time of the row "
        f"before; times must not fall (equal ones may follow): sort the stream by time, or leave "
        f"t out to count arrivals"
    )
    raise as_given(OrderError(msg, row=i, times=(float(t[i]), float(before))), given)


def as_given(error: OrderError, t: Any) -> OrderError:
    """Return the error with UTC time stamps for seconds, if the given times were stamps."""
    if t is None or not is_stamp(t):
        return error
    message = str(error)
    for seconds in error.times:
        micro = round(1e6 * seconds)
        if abs(micro) < 2**63:
            stamp = str(np.datetime64(micro, "us")).replace("T", " ")
            message = message.replace(repr(seconds), stamp.rstrip("0").rstrip(".") + " UTC")
    return OrderError(message, row=error.row)


def _array(t: object) -> NDArray[Any]:
    """Turn a sequence into an array without converting items to text."""
    if isinstance(t, bytes) or not isinstance(t, Iterable):
        raise SchemaError(f"t: expected a sequence of times, got a {type(t).__name__}")
    items = list(t)
    if all(type(item) is float for item in items):
        return np.array(items, dtype=np.float64)
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out


def _seconds(stamps: Stamps) -> FloatArray:
    """Convert stamps (not NaT): whole microseconds / 1e6, plus the finer part."""
    unit = np.datetime_data(stamps.dtype)[0]
    if unit in MICROSECOND:
        per_microsecond = MICROSECOND[unit]
        ticks = stamps.astype(f"datetime64[{unit}]").astype(np.int64)
        whole, rest = np.divmod(ticks, per_microsecond)
        return whole / 1e6 + rest / (per_microsecond * 1e6)
    if unit in {"us", "ms"}:
        per_second = 1e6 if unit == "us" else 1e3
        return stamps.astype(f"datetime64[{unit}]").astype(np.int64) / per_second
    return stamps.astype("datetime64[s]").astype(np.int64).astype(np.float64)


def _why_not(t: object) -> str:
    if isinstance(t, str):
        return "is text; convert it first, for instance with datetime.fromisoformat"
    if t is None:
        return MISSING
    return (
        f"is a {type(t).__name__}; expected a number, a datetime or a numpy.datetime64 "
        f"(durations and dates: convert them to numbers or datetimes)"
    )


def _refusal(t: object, problem: str, row: int | None) -> SchemaError:
    place = "" if row is None else f"row {row}, "
    return SchemaError(f"{place}time {t!r} {problem}", row=row)


def typical_gap(times: FloatArray) -> float:
    """Return the median gap between different times, 1 without gaps.

    It is the default unit of a decay.
    """
    gaps = np.diff(times)
    return float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 1.0


def check_clocked(before: bool | None, now: bool) -> None:
    """Refuse mixing rows with and without times; None: no row yet."""
    if before is not None and before != now:
        raise SchemaError(
            f"t: the rows before came {'with' if before else 'without'} times; "
            "every row needs a time, or none has one"
        )
