"""Which columns of a source are used, and their conversion to what a model takes.

A *canonical* batch has, in this order, the time (float64 or timestamp[ns]), the key (string), the
features (numbers; null is missing), each column only if it was asked for. Whole numbers stay whole
numbers where a column is typed so (Parquet, Arrow): a model that chooses its own likelihood takes
them for counts. Text has no types, and a choice by what the first batch happens to hold would
depend on its length: the numbers of CSV and JSON lines are floats, that is, measurements. In all
sources true and false are 1 and 0, and flags in a column of nothing else; a batch without a number
comes as booleans, since a model takes the widest type of all its first rows.

A row that cannot be converted stays in its place, and a last column `REFUSED` then says why: errors
travel as data, in order, and the caller of the source decides to stop or to set the row aside.
"""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamddcrp.data.clock import TYPES, Wanted, find_kind, parse
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.looking.cells import Cells, mean_words, together, trimmed
from streamddcrp_connectors.looking.dialect import Dialect
from streamddcrp_connectors.looking.survey import Survey, survey
from streamddcrp_connectors.options import names_in

REFUSED = "__refused__"
TOGETHER = " + "  # between the columns that make up a time
MOST_FEATURES = 10_000
NUMBER_RULE = "must be a number, or {missing} where missing"
TEXT_RULE = "must be text"
TIME_RULE = "must be a number or a time stamp, written alike in all rows"
KEY_RULE = "must be text or a whole number"
_COMMA = re.compile(r"[-+]?[\d.,]*,\d+")
_REFUSED_TYPE = pa.struct({"reason": pa.string(), "values": pa.string()})

TimeKind = str  # see `streamddcrp.data.clock`


class Refusal(NamedTuple):
    """Why one row cannot be used, and what stood in it."""

    reason: str
    values: Any


@dataclass(frozen=True, slots=True)
class Reading:
    """What was said about how a source is written; what is None is found by looking."""

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    missing: tuple[str, ...] | None = None  # marks beside the usual ones, or numbers: -999
    header: bool | None = None
    skip: int | None = None  # lines before the header
    clock: Wanted = Wanted()  # noqa: RUF009 -- a constant: how times are written
    absent: bool = False  # a column that a JSON object lacks is missing there

    def dialect(self) -> dict[str, Any]:
        """Return what is said of the dialect of a text file."""
        names = ("sep", "decimal", "encoding", "missing", "header", "skip")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns to use.

    Examples
    --------
    >>> Columns(time="t").resolve(["a", "t", "b"], "the file").features
    ('a', 'b')
    """

    time: str | None = None  # may be in several columns, with commas between them: ``date,hour``
    key: str | None = None
    features: tuple[str, ...] | None = None  # None: every column but the time and the key
    text: bool = False  # the features hold text, not numbers
    reading: Reading = Reading()  # how the source is written

    @classmethod
    def of(
        cls,
        time: str | None = None,
        key: str | None = None,
        features: tuple[str, ...] | None = None,
        text: str | None = None,
        reading: Reading = Reading(),
    ) -> "Columns":
        """Return the columns that the options of a command name."""
        if text is None:
            return cls(time, key, features, False, reading)
        if features is not None:
            raise ConfigError("--text and --features exclude each other: texts, or numbers")
        return cls(time, key, (text,), True, reading)

    def __post_init__(self) -> None:
        twice = repeated(self.names)
        if twice:
            message = f"column {twice!r} is named twice among the time, the key and the features"
            raise ConfigError(message)
        if self.features is not None and not self.features:
            message = "no feature is named; give at least one column, or leave the list out for all"
            raise ConfigError(message)

    @property
    def names(self) -> tuple[str, ...]:
        """All named columns, in the order of a canonical batch."""
        first = tuple(name for name in (self.time, self.key) if name is not None)
        return first + (self.features or ())

    @property
    def raw(self) -> tuple[str, ...]:
        """The columns of the source behind `names`."""
        return tuple(dict.fromkeys((*self.times, *self.names[self.time is not None :])))

    @property
    def times(self) -> tuple[str, ...]:
        """The columns of the source that make up the time."""
        return () if self.time is None else tuple(self.time.split(TOGETHER))

    def check(self, available: Sequence[str], where: str) -> "Columns":
        """Check the names against those of a source."""
        twice = repeated(available)
        if twice:
            message = f"{where}: column {twice!r} occurs twice; give each column its own name"
            raise SchemaError(message)
        if REFUSED in available:
            message = f"{where}: a column must not be called {REFUSED!r}; give it another name"
            raise SchemaError(message)
        there = set(available)
        if self.time is not None and self.time not in there and "," in self.time:
            parts = TOGETHER.join(names_in(self.time))
            return replace(self, time=parts).check(available, where)
        if self.time is not None and self.time not in there:
            bare = self.time.lstrip("#% ")
            ends = [name for name in available if name.endswith(f".{self.time}") or name == bare]
            if len(ends) == 1:
                return replace(self, time=ends[0])
        for name in self.raw:
            if name not in there:
                more = f", .. {len(available):,} in all" if len(available) > 20 else ""
                has = (", ".join(available[:20]) or "none") + more
                raise ConfigError(f"{where} has no column {name!r}; it has {has}")
        return self

    def resolve(self, available: Sequence[str], where: str) -> "Columns":
        """Check the names against those of a source, and fill in the features."""
        self = self.check(available, where)  # noqa: PLW0642 -- the time may be in several columns
        if self.features is not None:
            return self
        taken = {*self.times, self.key}
        rest = tuple(name for name in available if name not in taken)
        if not rest:
            message = f"{where} has no column left for the features beside the time and the key"
            raise ConfigError(message)
        _refuse_too_many(rest, where)
        return replace(self, features=rest)


def _refuse_too_many(features: Sequence[str], where: str) -> None:
    if len(features) > MOST_FEATURES:
        raise SchemaError(
            f"{where} has {len(features):,} columns beside the time and the key; a model takes at "
            f"most {MOST_FEATURES:,} features: name those to use, --features a,b,c"
        )


def chosen(columns: Columns, table: Any, dialect: Dialect, where: str) -> tuple[Columns, Survey]:
    """Choose the columns that were not named, by a sample whose cells are text.

    ``columns`` are checked against the sample. Where features are named, no time is looked for;
    beside a text one is, in whose order the rows are. ``where`` is what messages call the source.
    """
    named = columns.features is not None
    times: tuple[str, ...] | None = columns.times
    if dialect.decimal == ",":
        clock = columns.reading.clock._replace(commas=True)
        columns = replace(columns, reading=replace(columns.reading, clock=clock))
    there = {*table.schema.names}
    if named and not columns.text:  # in rows of JSON a column may come later
        table = table.select([name for name in columns.raw if name in there])
    if columns.time is None and (columns.text or not named):
        times = None
    elif named:
        times = tuple(name for name in columns.times if name in there)
    texts = (columns.features or ()) if columns.text else ()
    found = survey(table, dialect, columns.reading.clock, times, columns.key, texts)
    time = TOGETHER.join(found.times) or columns.time
    if columns.text and found.key != columns.key:
        found = found._replace(key=columns.key)
        if columns.time is None:
            time, found = None, found._replace(times=(), kind=None)
    if named:
        shown = () if columns.text else found.features
        found = found._replace(features=shown, left_out={})
        return replace(columns, time=time, key=found.key), found
    if not found.features:
        words = [name for name in found.left_out if found.habits[name].kind == "words"]
        lengths = {name: mean_words(table.column(name)) for name in words}
        text = max(words, key=lengths.__getitem__, default="")
        if lengths.get(text, 0.0) >= 2.0:
            told = replace(columns, features=(text,), text=True)
            columns, timed = chosen(told, table, dialect, where)
            taken = {text, *columns.times}
            rest = {name: why for name, why in found.left_out.items() if name not in taken}
            return columns, timed._replace(left_out=rest)
        ways = f"; to cluster texts, say --text {words[-1]}" if words else ""
        left = ", ".join(f"{name} ({why})" for name, why in list(found.left_out.items())[:20])
        raise ConfigError(
            f"{where} has no column left for the features beside the time and the key: it has "
            f"{left or 'no other'}{ways}"
        )
    _refuse_too_many(found.features, where)
    return replace(columns, time=time, key=found.key, features=found.features), found


def way_out(cell: object) -> str:
    """Say how to write a cell that was refused, if it is plain what was meant.

    Examples
    --------
    >>> way_out("1.234,5"), way_out("here")
    ('; if the file has decimal commas, say --decimal ,', '')
    """
    if isinstance(cell, str) and _COMMA.fullmatch(cell.strip()):
        return "; if the file has decimal commas, say --decimal ,"
    return ""


def canonical(
    raw: Any, columns: Columns, kind: TimeKind | None, *, cells: Cells | None = None
) -> tuple[Any, TimeKind | None]:
    """Convert a batch to the canonical types, marking the rows that cannot be.

    Parameters
    ----------
    kind : str or None
        Kind of the time column as far as known from earlier rows; it is returned once a row shows
        it.
    cells : Cells, optional
        Reads numbers in columns of text; without it these are refused.
    """
    refused: dict[int, Refusal] = {}

    def values(row: int) -> Any:
        return {name: plain(raw.column(name)[row]) for name in columns.raw}

    arrays = []
    for name in columns.names:
        if name == columns.time:
            held = together([raw.column(part) for part in columns.times])
            array, kind, held = times_of(held, name, kind, columns.reading.clock, cells)
            rule = TIME_RULE
        elif name == columns.key:
            array = _keys(held := raw.column(name), name)
            rule = KEY_RULE
        elif columns.text:
            array = _typed_texts(held := raw.column(name), name)
            array = array if cells is None or cells.typed else pc.fill_null(array, "")
            rule = TEXT_RULE
        elif cells is not None and _is_text(raw.column(name).type):
            array, held = cells.numbers(name, pc.cast(raw.column(name), pa.string()))
            rule = NUMBER_RULE.format(missing="empty")
        else:
            array = _typed_numbers(held := raw.column(name), name)
            rule = NUMBER_RULE.format(missing="empty")
        arrays.append(array)
        lost = pc.and_(held.is_valid(), array.is_null()) if array.null_count else pa.array([False])
        for row in np.flatnonzero(lost.to_numpy(zero_copy_only=False)).tolist():
            cell = held[row].as_py()
            reason = f"column {name!r} {rule}, got {cell!r}{way_out(cell)}"
            refused.setdefault(row, Refusal(reason, values(row)))
    return assemble(columns, arrays, refused, values), kind


def times_of(
    held: Any, name: str, kind: TimeKind | None, wanted: Wanted, cells: Cells | None
) -> tuple[Any, TimeKind | None, Any]:
    """Read a column as times; return them, their kind, and the column less marks of missing."""
    if _is_text(held.type):
        held = trimmed(pc.cast(held, pa.string()))
        if kind is None:  # that of the first cell which is a time at all, however many come at once
            found = (find_kind(held[row : row + 1], name, wanted) for row in range(len(held)))
            kind = next(filter(None, found), None)
        if kind is None:
            return pa.nulls(len(held), pa.float64()), None, held
    elif pa.types.is_temporal(held.type) or pa.types.is_boolean(held.type):
        array, kind = _stamps(held, name, kind, wanted)
        return array, kind, held
    else:
        kind = kind or _kind_of(_typed_numbers(held, name), name, wanted)
        if kind in (None, "number"):
            return _typed_numbers(held, name).cast(pa.float64(), safe=False), kind, held
    array, kind = parse(held, kind)
    if cells is not None and array.null_count > held.null_count:
        held = cells.present(held)
    return array, kind, held


def _kind_of(numbers: Any, name: str, wanted: Wanted) -> TimeKind | None:
    """Return what a column of numbers counts as a time, by the first; None: there is none."""
    first = next((n for n in numbers.drop_null()[:1].to_pylist() if abs(n) < 1e18), None)
    if first is None:
        return "number" if numbers.null_count < len(numbers) else None
    text = str(int(first)) if first == int(first) else repr(first)
    return find_kind(pa.array([text]), name, wanted)


def assemble(
    columns: Columns,
    arrays: Sequence[Any],
    refused: dict[int, Refusal],
    values: Callable[[int], Any],
) -> Any:
    """Make the canonical batch; a row without a time or a key is refused here."""
    for name, array in zip(columns.names, arrays, strict=True):
        if name in (columns.time, columns.key) and array.null_count:
            what = "time" if name == columns.time else "key"
            for row in np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False)).tolist():
                if row not in refused:
                    reason = f"column {name!r} is empty; each row needs a {what}"
                    refused[row] = Refusal(reason, values(row))
    names = list(columns.names)
    made = list(arrays)
    if refused:
        cells: list[dict[str, str] | None] = [None] * len(made[0])
        for row, (reason, held) in refused.items():
            text = reason.encode(errors="backslashreplace").decode()  # no lone surrogates in Arrow
            cells[row] = {"reason": text, "values": json.dumps(held)}
        names.append(REFUSED)
        made.append(pa.array(cells, _REFUSED_TYPE))
    return pa.record_batch(made, names=names)


def refusals(batch: Any) -> tuple[Any, dict[int, Refusal]]:
    """Take the marks off a canonical batch: its columns, and why which rows were refused."""
    if REFUSED not in batch.schema.names:
        return batch, {}
    marks = batch.column(REFUSED)
    rows = np.flatnonzero(marks.is_valid().to_numpy(zero_copy_only=False)).tolist()
    found = {
        row: Refusal(marks[row]["reason"].as_py(), json.loads(marks[row]["values"].as_py()))
        for row in rows
    }
    return batch.select([name for name in batch.schema.names if name != REFUSED]), found


def arrow_stream(batches: Sequence[Any]) -> bytes:
    """Write record batches of one schema as an Arrow IPC stream."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    data: bytes = out.getvalue().to_pybytes()
    return data


def read_stream(data: bytes) -> Any:
    """Read the first batch of what `arrow_stream` wrote."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_next_batch()


def plain(cell: Any) -> Any:
    """Return a cell as strict JSON can hold it: text where it is no finite number, text or null."""
    text = pa.types.is_temporal(cell.type)  # Python's own types do not hold nanoseconds
    value = (cell.cast(pa.string()) if text else cell).as_py()
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _stamps(held: Any, name: str, kind: TimeKind | None, wanted: Wanted) -> tuple[Any, TimeKind]:
    if pa.types.is_timestamp(held.type) or pa.types.is_date(held.type):
        zoned = getattr(held.type, "tz", None) is not None
        kind = kind or ("instant" if zoned else "timestamp")
        if kind.partition("@")[0] not in ("timestamp", "instant"):
            message = f"the time is of kind timestamp, that of earlier rows is of kind {kind}"
            raise SchemaError(message)
        if wanted.zone is not None and not zoned and "@" not in kind:
            kind = f"timestamp@{wanted.zone}"
        try:
            array = pc.cast(held, TYPES["instant" if zoned else "timestamp"])
        except pa.ArrowInvalid as error:
            message = f"column {name!r} holds a time outside the years 1678 to 2261: {error}"
            raise SchemaError(message) from error
        return parse(array, kind)
    message = f"column {name!r} has type {held.type}; the time must be a number or a time stamp"
    raise SchemaError(message)


def _typed_numbers(cells: Any, name: str) -> Any:
    kind = cells.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind):
        return cells
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return pc.cast(cells, pa.float64(), safe=False)
    more = f"; if it holds texts to cluster, name it by --text {name}" if _is_text(kind) else ""
    raise SchemaError(
        f"column {name!r} has type {kind}; a feature must be numeric: convert it, or leave it out "
        f"by naming the others, --features a,b,c{more}"
    )


def _is_text(kind: Any) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _typed_texts(cells: Any, name: str) -> Any:
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if not _is_text(cells.type):
        raise SchemaError(f"column {name!r} has type {cells.type}; it must be text")
    return pc.cast(cells, pa.string())


def _keys(cells: Any, name: str) -> Any:
    kind = cells.type
    if pa.types.is_dictionary(kind):
        cells = cells.dictionary_decode()
        kind = cells.type
    if _is_text(kind) or pa.types.is_integer(kind):
        return pc.cast(cells, pa.string())
    raise SchemaError(f"column {name!r} has type {kind}; a key must be text or a whole number")


def repeated(names: Sequence[str]) -> str | None:
    """Return the first name that occurs again."""
    seen: set[str] = set()
    for name in names if len({*names}) < len(names) else ():
        if name in seen:
            return name
        seen.add(name)
    return None
