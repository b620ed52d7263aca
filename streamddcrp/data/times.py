"""Time stamps as floats, the rule that time does not run backwards, and epochs.

A model measures time in one unit: numbers are taken as they are, in the caller's unit; time stamps
become seconds since 1970-01-01 UTC. A float of that size resolves 0.24 microseconds. One formula
serves single stamps and columns of them, so both give the same bits.
"""

import logging
import math
import numbers
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.errors import ConfigError, OrderError, SchemaError
from streamddcrp.typing import FloatArray

_log = logging.getLogger(__name__)
_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_SPOKEN = {"second": "s", "minute": "min", "hour": "h", "day": "d", "week": "w", "row": "rows"}
_PERIOD = re.compile(
    r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(?:(ms|s|min|h|d|w|rows)|(second|minute|hour|day|week|row)s?)\s*"
)
_LONG = 20_000  # rows of a first epoch that are suspicious
MISSING = "is missing; every row needs a time, or none has one"
Stamps = NDArray[np.datetime64]
MICROSECOND = {"ns": 10**3, "ps": 10**6, "fs": 10**9, "as": 10**12}  # in units finer than it


def as_time(t: object, *, row: int | None = None) -> float:
    """Return one time as a float.

    Parameters
    ----------
    t : number, datetime or numpy.datetime64
        Numbers keep their value; stamps become seconds since 1970-01-01 UTC. A datetime without a
        time zone is taken for UTC.
    row : int, optional
        Its number in a batch, for the error message.

    Returns
    -------
    float

    Raises
    ------
    SchemaError
        If `t` is text, missing, not finite or of another type.

    Examples
    --------
    >>> from datetime import datetime
    >>> from streamddcrp.data import as_time
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
        if not math.isfinite(number):
            raise _refusal(t, "is not finite", row)
        return number
    raise _refusal(t, _why_not(t), row)


def is_stamp(t: Any) -> bool:
    """Whether a time, or the first of a batch of times that was accepted, is a time stamp."""
    if isinstance(t, datetime | np.datetime64):
        return True
    if isinstance(t, numbers.Real):
        return False
    first = np.asarray(t[:1] if hasattr(t, "__getitem__") else ())
    return first.dtype.kind == "M" or (len(first) > 0 and isinstance(first[0], datetime))


def as_times(t: object, n_rows: int | None = None) -> FloatArray:
    """Return the times of a batch as floats.

    Parameters
    ----------
    t : array_like of numbers, datetimes or datetime64, shape (N,)
        As for `as_time`.
    n_rows : int, optional
        Required length.

    Returns
    -------
    ndarray of float64, shape (N,)
        In their order, which `check_times` judges.

    Raises
    ------
    SchemaError
        With ``row``, if a time is missing, not finite or no time at all.

    Examples
    --------
    >>> import numpy as np
    >>> from streamddcrp.data import as_times
    >>> as_times(np.array(["1970-01-01", "1970-01-02"], dtype="datetime64[D]"))
    array([    0., 86400.])
    """
    given: NDArray[Any] = t if isinstance(t, np.ndarray) else _array(t)
    if given.ndim != 1 or (n_rows is not None and len(given) != n_rows):
        rows = "row" if n_rows is None else f"row, {n_rows} in all"
        msg = f"t: expected one time a {rows}; got shape {given.shape}"
        raise SchemaError(msg)
    if given.dtype.kind == "M":
        lost = np.isnat(given)
        if lost.any():
            i = int(lost.argmax())
            raise _refusal(given[i], MISSING, i)
        return _seconds(given)
    if given.dtype.kind in "fiu":
        out = np.ascontiguousarray(given, dtype=np.float64)
        wrong = ~np.isfinite(out)
        if wrong.any():
            i = int(wrong.argmax())
            raise _refusal(float(out[i]), "is not finite", i)
        return out
    items = given.tolist() if given.dtype.kind != "O" else given
    return np.array([as_time(item, row=i) for i, item in enumerate(items)], dtype=np.float64)


def check_times(t: FloatArray, last: float | None = None, given: object = None) -> None:
    """Refuse times that run backwards. O(N).

    Parameters
    ----------
    t : ndarray of float64, shape (N,)
        Times of a batch; equal ones may follow each other.
    last : float, optional
        Time of the row before the batch.
    given : object, optional
        The times as they came: the message shows time stamps where they were such.

    Raises
    ------
    OrderError
        With ``row`` the number of the first row that comes too late.

    Examples
    --------
    >>> import numpy as np
    >>> from streamddcrp.data import check_times
    >>> check_times(np.array([3.0, 3.0, 2.0]), last=1.0)
    Traceback (most recent call last):
    ...
    streamddcrp.errors.OrderError: row 2: time 2.0 is before 3.0, the time of the row before; ...
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
    """Return the error with time stamps, in UTC, for seconds if the times t that came were such."""
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
    """Make an array of a sequence without converting its items to text."""
    try:
        items = list(t)  # type: ignore[call-overload]
    except TypeError:
        msg = f"t: expected a sequence of times, got a {type(t).__name__}"
        raise SchemaError(msg) from None
    if all(type(item) is float for item in items):
        return np.array(items, dtype=np.float64)
    out = np.empty(len(items), dtype=object)
    out[:] = items
    return out


def _seconds(stamps: Stamps) -> FloatArray:
    """Convert stamps that are not NaT: whole microseconds / 1e6, and what is finer on top."""
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
    """Return the median of the gaps between times that differ, 1 where there is none.

    The unit of a decay that was given none.
    """
    gaps = np.diff(times)
    return float(np.median(gaps[gaps > 0])) if (gaps > 0).any() else 1.0


def check_clocked(before: bool | None, now: bool) -> None:
    """Refuse rows with times after rows without, and the other way round; None: no row yet."""
    if before is not None and before != now:
        message = (
            f"t: the rows before came {'with' if before else 'without'} times; "
            "every row needs a time, or none has one"
        )
        raise SchemaError(message)


class Piece(NamedTuple):
    """Rows of a batch that are of one epoch."""

    start: int  # the rows
    stop: int
    number: int  # of the epoch; those before it are closed first, empty ones among them
    time: float  # of the epoch


@dataclass(frozen=True, slots=True)
class Place:
    """How far a stream has come."""

    number: int = 0  # of the epoch that is open, or comes next
    mark: float | None = None  # time, or number of the period, of the last epoch that had rows
    count: int = 0  # rows in the open epoch
    closed: bool = True  # whether no epoch is open

    def next(self, *, period: bool) -> "Place":
        """Return the place after the epoch, which may be empty, has been closed."""
        mark = self.mark
        if period and self.closed and mark is not None:
            mark += 1.0  # an empty period
        return Place(self.number + 1, mark, 0, closed=True)


@dataclass(frozen=True, slots=True)
class Cut:
    """Where an epoch ends: at every value of the time, after a period, or after so many rows."""

    kind: str  # "value", "period" or "rows"
    size: float = 0.0  # length of the period, or number of rows

    def pieces(self, place: Place, t: FloatArray | None, n: int) -> tuple[list[Piece], Place]:
        """Cut n rows at times (N,); return the pieces, and the place of the stream after them.

        Raises
        ------
        OrderError
            A row is of an epoch that is closed; ``row`` is its number.
        SchemaError
            There are no times, and the epochs are periods.
        """
        if self.kind == "rows":
            return self._by_rows(place, t, n)
        if t is None:
            if self.kind == "period":
                message = "t: the epochs are periods of time, so every row needs a time"
                raise SchemaError(message)
            place = replace(place, count=place.count + n, closed=False)
            return [Piece(0, n, place.number, float(place.number))], place
        marks = t if self.kind == "value" else np.floor(t / self.size)
        self._check(place, t, marks)
        starts = [0, *(np.flatnonzero(marks[1:] != marks[:-1]) + 1).tolist()]
        out = []
        for start, stop in zip(starts, [*starts[1:], n], strict=True):
            mark = float(marks[start])
            gap = self._gap(place, mark)
            closes = gap + (0 if place.closed or mark == place.mark else 1)
            number = place.number + closes
            had = place.count if closes == 0 else 0
            count = stop - start + had
            if self.kind == "period" and number == 0 and had < _LONG <= count:
                _log.warning(
                    "the first epoch has %d rows and has not ended: is its period, %g, in the unit "
                    "of the times? (A period such as '1d' is in seconds.)", count, self.size
                )  # fmt: skip
            place = Place(number, mark, count, closed=False)
            time = mark if self.kind == "value" else mark * self.size
            out.append(Piece(start, stop, number, time))
        return out, place

    def _gap(self, place: Place, mark: float) -> int:
        """Return the number of periods without rows."""
        if self.kind == "value" or place.mark is None or mark == place.mark:
            return 0
        return int(mark - place.mark) - 1

    def _by_rows(self, place: Place, t: FloatArray | None, n: int) -> tuple[list[Piece], Place]:
        size = int(self.size)
        out = []
        start = 0
        while start < n:
            closes = int(place.count == size)
            had = 0 if closes else place.count
            stop = min(n, start + size - had)
            place = Place(place.number + closes, None, had + stop - start, closed=False)
            time = float(place.number) if t is None else float(t[start])
            out.append(Piece(start, stop, place.number, time))
            start = stop
        return out, place

    def _check(self, place: Place, t: FloatArray, marks: FloatArray) -> None:
        """Refuse rows of epochs that are closed, and periods that floats cannot count."""
        before = np.concatenate([[-np.inf if place.mark is None else place.mark], marks[:-1]])
        late = marks < before
        late[0] |= place.closed and marks[0] == before[0]
        if late.any():
            row = int(late.argmax())
            what = "the time" if self.kind == "value" else "the period"
            now, last = float(t[row]), float(before[row]) * (self.size or 1.0)
            message = (
                f"row {row}: time {now!r} is late: its epoch is closed, since an epoch ends when "
                f"{what} moves on (last at {last!r}) or close() is called; sort the rows by time, "
                "or set late ones aside"
            )
            raise OrderError(message, row=row, times=(now, last))
        far = ~(np.abs(marks) < 2.0**53)
        if self.kind == "period" and far.any():
            row = int(far.argmax())
            message = (
                f"row {row}: time {float(t[row])!r} is too many epochs of {self.size!r} away from 0"
            )
            raise SchemaError(message, row=row)


def make_cut(epoch: Any) -> Cut:
    """Read the option ``epoch`` of a model.

    Examples
    --------
    >>> make_cut("6h"), make_cut(("rows", 100))
    (Cut(kind='period', size=21600.0), Cut(kind='rows', size=100))
    """
    kind, size = "period", epoch
    if epoch is None:
        return Cut("value")
    if isinstance(epoch, str) and (found := _PERIOD.fullmatch(epoch)):
        number, unit = float(found[1]), found[2] or _SPOKEN[found[3]]
        kind, size = ("rows", number) if unit == "rows" else ("period", number * _UNITS[unit])
    elif isinstance(epoch, list | tuple) and len(epoch) == 2 and epoch[0] == "rows":
        kind, size = "rows", epoch[1]
    whole = kind == "period" or (isinstance(size, int | float) and float(size).is_integer())
    is_number = isinstance(size, int | float) and not isinstance(size, bool)
    if not (is_number and 0.0 < size < np.inf and whole):
        message = (
            f"epoch must be None, a period such as 3600, '1d', '6h', '15min' or '30s', or a number "
            f"of rows such as ('rows', 100) or '100 rows'; got {epoch!r}"
        )
        raise ConfigError(message)
    return Cut(kind, size if kind == "period" else int(size))
