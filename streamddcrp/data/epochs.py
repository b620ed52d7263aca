"""Epochs: how times cut a stream, and the stream's position."""

import logging
import re
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from streamddcrp.errors import ConfigError, OrderError, SchemaError
from streamddcrp.typing import FloatArray

_log = logging.getLogger(__name__)
_UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_SPOKEN = {"second": "s", "minute": "min", "hour": "h", "day": "d", "week": "w", "row": "rows"}
_PERIOD = re.compile(
    r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(?:(ms|s|min|h|d|w|rows)|(second|minute|hour|day|week|row)s?)\s*"
)
_LONG = 20_000  # rows of a first epoch that are suspicious
FIRST_VALUES, FEW = 50, 4  # times that show how many rows have one, and rows that make an epoch
GATHERED = 200  # rows at least of an epoch, where fewer have one time


class Piece(NamedTuple):
    """Rows of a batch in one epoch."""

    start: int  # the rows
    stop: int
    number: int  # of the epoch; earlier ones are closed first, also empty ones
    time: float  # of the epoch


@dataclass(frozen=True, slots=True)
class Place:
    """A stream's position."""

    number: int = 0  # of the open or the next epoch
    mark: float | None = None  # time or period number of the last epoch with rows
    count: int = 0  # rows in the open epoch
    closed: bool = True  # whether no epoch is open
    values: int = 0  # the first times that have ended, and their rows
    rows: int = 0

    @property
    def gathers(self) -> bool:
        """Whether times are those of rows, so that epochs are made of many of them."""
        return self.values == FIRST_VALUES and self.rows < FEW * FIRST_VALUES

    def next(self, *, period: bool) -> "Place":
        """Return the position after the epoch, perhaps empty, was closed."""
        mark = self.mark
        if period and self.closed and mark is not None:
            mark += 1.0  # an empty period
        return replace(self, number=self.number + 1, mark=mark, count=0, closed=True)


@dataclass(frozen=True, slots=True)
class Cut:
    """The rule that ends an epoch: a new time value, a period, or a number of rows.

    If the first `FIRST_VALUES` values of time have fewer than `FEW` rows each in the mean, they are
    the times of rows. From then on an epoch has at least `GATHERED` rows.
    """

    kind: str  # "value", "period" or "rows"
    size: float = 0.0  # length of the period, or number of rows

    def pieces(self, place: Place, t: FloatArray | None, n: int) -> tuple[list[Piece], Place]:
        """Cut n rows at times (N,); return the pieces, and the stream's position after them.

        OrderError, with ``row``, for a row of a closed epoch; SchemaError if periods lack times.
        """
        if self.kind == "rows":
            return self._by_rows(place, t, n)
        if t is None:
            if self.kind == "period":
                raise SchemaError("t: the epochs are periods of time, so every row needs a time")
            place = replace(place, count=place.count + n, closed=False)
            return [Piece(0, n, place.number, float(place.number))], place
        marks = t if self.kind == "value" else np.floor(t / self.size)
        self._check(place, t, marks)
        starts = [0, *(np.flatnonzero(marks[1:] != marks[:-1]) + 1).tolist()]
        out: list[Piece] = []
        for start, stop in zip(starts, [*starts[1:], n], strict=True):
            mark = float(marks[start])
            moves_on = place.mark is not None and mark != place.mark
            empty = int(mark - (place.mark or 0.0)) - 1 if moves_on and self.kind == "period" else 0
            if moves_on and self.kind == "value" and place.values < FIRST_VALUES:
                place = replace(place, values=place.values + 1, rows=place.rows + place.count)
            ends = moves_on and not (place.gathers and place.count < GATHERED)
            closes = empty + (0 if place.closed or not ends else 1)
            number = place.number + closes
            had = place.count if closes == 0 else 0
            count = stop - start + had
            if self.kind == "period" and number == 0 and had < _LONG <= count:
                _log.warning(
                    "the first epoch has %d rows and has not ended: is its period, %g, in the unit "
                    "of the times? (A period such as '1d' is in seconds.)", count, self.size
                )  # fmt: skip
            place = replace(place, number=number, mark=mark, count=count, closed=False)
            if out and out[-1].number == number:
                out[-1] = out[-1]._replace(stop=stop)
                continue
            time = mark if self.kind == "value" else mark * self.size
            out.append(Piece(start, stop, number, time))
        return out, place

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
        """Refuse rows of closed epochs, and periods too many for floats to count."""
        before = np.concatenate([[-np.inf if place.mark is None else place.mark], marks[:-1]])
        late = marks < before
        late[0] |= place.closed and marks[0] == before[0]
        if late.any():
            row = int(late.argmax())
            what = "the time" if self.kind == "value" else "the period"
            now, last = float(t[row]), float(before[row]) * (self.size or 1.0)
            raise OrderError(
                f"row {row}: time {now!r} is late: its epoch is closed, since an epoch ends when "
                f"{what} moves on (last at {last!r}) or close() is called; sort the rows by time, "
                "or set late ones aside",
                row=row,
                times=(now, last),
            )
        far = ~(np.abs(marks) < 2.0**53)
        if self.kind == "period" and far.any():
            row = int(far.argmax())
            raise SchemaError(
                f"row {row}: time {float(t[row])!r} is too many epochs of {self.size!r} from 0",
                row=row,
            )


def make_cut(epoch: Any, name: str = "epoch") -> Cut:
    """Read the option ``epoch`` of a model, or a similar one.

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
    elif isinstance(epoch, list | tuple) and len(epoch) == 2 and str(epoch[0]) == "rows":
        kind, size = "rows", epoch[1]
    whole = kind == "period" or (isinstance(size, int | float) and float(size).is_integer())
    is_number = isinstance(size, int | float) and not isinstance(size, bool)
    if not (is_number and 0.0 < size < np.inf and whole):
        raise ConfigError(
            f"{name} must be None, a period such as 3600, '1d', '6h', '15min' or '30s', or a "
            f"number of rows such as ('rows', 100) or '100 rows'; got {epoch!r}"
        )
    return Cut(kind, size if kind == "period" else int(size))
