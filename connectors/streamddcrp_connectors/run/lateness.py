"""Rows out of order, and rows from the future.

A model refuses a row whose time lies before the last one's. What comes late can instead be learned
as of now, or waited for; what lies far ahead, and would make all later rows late, can be set aside.
"""

import base64
import math
import time
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp.data.epochs import make_cut
from streamddcrp.errors import ConfigError
from streamddcrp_connectors.run.columns import Columns, Refusal, arrow_stream, read_stream
from streamddcrp_connectors.run.joining import joined
from streamddcrp_connectors.run.models import Rows

_DAY = 86_400.0  # seconds
MOST = 100_000  # rows that are waited with, and keys whose last time is kept


class Lateness:
    """What a run does with late and early rows.

    Parameters
    ----------
    policy : str or None
        ``"as-now"``: a late row gets the last time before it, of its key. ``"wait=5s"``: rows that
        lie at most so far behind the newest are put in order; the others are refused. With
        ``"dead-letter"`` or None the model refuses what is late.
    max_ahead : str or None
        Refuse rows that lie farther ahead: time stamps of the clock, numbers of the largest time
        that was taken. Of the first row nothing is known. ``"none"``: refuse none. Default: time
        stamps a day ahead of the clock, unless all before are.
    """

    def __init__(self, policy: str | None, max_ahead: str | None, columns: Columns) -> None:
        how, _, span = (policy or "dead-letter").partition("=")
        if how not in {"dead-letter", "as-now", "wait"} or bool(span) != (how == "wait"):
            message = f"--late must be dead-letter, as-now, sort or wait=5s, got {policy!r}"
            raise ConfigError(message)
        if columns.time is None and (policy or max_ahead not in (None, "none")):
            raise ConfigError("--late and --max-ahead need a time: name its column with --time")
        self._as_now = how == "as-now"
        self._wait = seconds_of(span, "--late wait") if span else None
        self._given = max_ahead is not None
        self._ahead = _DAY
        if max_ahead is not None:
            self._ahead = np.inf if max_ahead == "none" else seconds_of(max_ahead, "--max-ahead")
        self._columns = columns
        self._last: dict[str, Any] = {}  # times by key, those of as-now
        self._newest: Any = None  # of all rows
        self._held: Rows | None = None
        self._since = time.monotonic()

    def state(self) -> dict[str, Any] | None:
        """Return what a checkpoint keeps, a JSON value."""
        if self._newest is None:
            return None
        held = None
        if self._held is not None:
            batch = self._held.batch.append_column(_NUMBER, pa.array(self._held.numbers))
            held = base64.b64encode(arrow_stream([batch])).decode()
        return {"last": self._last, "newest": self._newest, "held": held}

    def restore(self, state: dict[str, Any] | None) -> None:
        if state is None:
            return
        self._last, self._newest = state["last"], state["newest"]
        if state["held"] is not None:
            batch = read_stream(base64.b64decode(state["held"]))
            numbers = batch.column(_NUMBER).to_numpy()
            self._held = Rows(numbers, batch.drop_columns([_NUMBER]), self._columns)

    def admit(self, rows: Rows) -> tuple[Rows, dict[int, Refusal]]:
        """Return the rows to learn now, and those that lie too far ahead by their number."""
        if self._columns.time is None or not len(rows):
            return rows, {}
        self._since = time.monotonic()
        refused: dict[int, Refusal] = {}
        stamped = pa.types.is_timestamp(rows.batch.column(self._columns.time).type)
        if self._ahead < np.inf and (self._given or stamped):
            rows, refused = self._set_aside(rows)
            if not len(rows):
                return rows, refused
        times = _numbers(rows)
        newest = np.maximum.accumulate(np.maximum(times, self._first(times)))
        self._newest = newest[-1].item()
        if self._as_now:
            return self._in_order(rows, times), refused
        if self._wait is None:
            return rows, refused
        late = times < newest - _span(self._wait, rows)
        if late.any():
            reason = f"column {self._columns.time!r} lies more than --late wait behind the newest"
            rows, more = _apart(rows, late, reason)
            refused |= more
        if self._held is not None:
            numbers = np.concatenate([self._held.numbers, rows.numbers])
            rows = Rows(numbers, joined([self._held.batch, rows.batch]), rows.columns)
        return self._released(rows), refused

    @property
    def lenient(self) -> bool:
        """Whether nobody asked for rows from the future to be refused."""
        return not self._given

    @property
    def overdue(self) -> bool:
        """Whether rows were waited with long enough by the clock."""
        waited = time.monotonic() - self._since
        return self._held is not None and waited > (self._wait or 0.0)

    def release(self, *, all_of_them: bool) -> Rows | None:
        """Return the rows that were waited with, if it was long enough or the end has come."""
        if self._held is None or not (all_of_them or self.overdue):
            return None
        rows, self._held = self._held, None
        return _sorted(rows)

    def _set_aside(self, rows: Rows) -> tuple[Rows, dict[int, Refusal]]:
        times = _numbers(rows)
        ahead, option = _span(self._ahead, rows), "--max-ahead"
        if isinstance(ahead, int):
            latest, what = time.time_ns() + ahead, "the clock"
            if not self._given:
                option = "a day (--max-ahead 30d, or none, allows it)"
                if latest < (times.min() if self._newest is None else self._newest):
                    return rows, {}  # the series lies in the future as a whole
            bad = times > latest
        else:
            newest, what = self._first(times), "all rows before it"
            bad = np.zeros(len(times), bool)
            for place, time_ in enumerate(times.tolist()):
                bad[place] = time_ > newest + ahead  # then it is no measure for the rows after it
                newest = newest if bad[place] else max(newest, time_)
        if not bad.any():
            return rows, {}
        column = self._columns.time
        return _apart(rows, bad, f"column {column!r} is more than {option} ahead of {what}")

    def _first(self, times: Any) -> Any:
        return times[0] if self._newest is None else self._newest

    def _in_order(self, rows: Rows, times: Any) -> Rows:
        """Let no time of a key lie before the one before it."""
        keys = [""] * len(rows)
        if self._columns.key is not None:
            keys = rows.batch.column(self._columns.key).to_pylist()
        for place, (key, time_) in enumerate(zip(map(str, keys), times.tolist(), strict=True)):
            self._last[key] = times[place] = max(time_, self._last.pop(key, time_))
        while len(self._last) > MOST:
            del self._last[next(iter(self._last))]
        column = rows.batch.schema.get_field_index(self._columns.time)
        kind = rows.batch.schema.field(column).type
        made = rows.batch.set_column(column, self._columns.time, pa.array(times).cast(kind))
        return Rows(rows.numbers, made, rows.columns)

    def _released(self, rows: Rows) -> Rows:
        """Hold back what an earlier row may still come before."""
        rows = _sorted(rows)
        limit = self._newest - _span(self._wait or 0.0, rows)
        n_due = int(np.searchsorted(_numbers(rows), limit, side="right"))
        n_due = max(n_due, len(rows) - MOST)
        self._held = rows.slice(n_due, len(rows)) if n_due < len(rows) else None
        return rows.slice(0, n_due)


_NUMBER = "__number__"


def seconds_of(text: str, option: str) -> float:
    """Read a time such as 5s, 10min or a number of seconds; errors name the option."""
    seconds = math.nan
    with suppress(ValueError):  # ConfigError is one
        seconds = float(text)
    with suppress(ConfigError):
        cut = make_cut(text)
        seconds = float(cut.size) if cut.kind == "period" else seconds
    if not 0.0 <= seconds < math.inf:
        raise ConfigError(f"{option} must be a time such as 5s, 10min or a number, got {text!r}")
    return seconds


def _span(length: float, rows: Rows) -> float:
    """Return seconds in units of the column: whole nanoseconds, or as they are."""
    column = rows.batch.column(rows.columns.time)
    if not pa.types.is_timestamp(column.type):
        return length
    return min(round(length * 1e9), 1 << 62)  # which an int64 can be less


def _numbers(rows: Rows) -> Any:
    """Return the times as nanoseconds or floats, to be changed at will."""
    column = rows.batch.column(rows.columns.time)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
    return column.to_numpy(zero_copy_only=False).copy()


def _apart(rows: Rows, bad: Any, reason: str) -> tuple[Rows, dict[int, Refusal]]:
    """Take rows out, for one reason."""
    refused = {
        int(rows.numbers[row]): Refusal(reason, rows.values(row))
        for row in np.flatnonzero(bad).tolist()
    }
    return rows.take(np.flatnonzero(~bad)), refused


def _sorted(rows: Rows) -> Rows:
    return rows.take(np.lexsort((rows.numbers, _numbers(rows))))
