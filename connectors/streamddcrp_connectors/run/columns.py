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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamddcrp.errors import ConfigError, SchemaError

REFUSED = "__refused__"
MOST_FEATURES = 10_000
NUMBER_RULE = "must be a number, or {missing} where missing"
TEXT_RULE = "must be text"
TIME_RULE = "must be a number or an ISO 8601 time stamp, of one kind in all rows"
KEY_RULE = "must be text or a whole number"
_DAY_FIRST = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}\b")
_COMMA = re.compile(r"[-+]?[\d.,]*,\d+")
_REFUSED_TYPE = pa.struct({"reason": pa.string(), "values": pa.string()})

TimeKind = str  # "number", "timestamp" (no zone) or "instant" (with a zone, kept in UTC)
_TIME_TYPES = {
    "number": pa.float64(),
    "timestamp": pa.timestamp("ns"),
    "instant": pa.timestamp("ns", "UTC"),
}


class Refusal(NamedTuple):
    """Why one row cannot be used, and what stood in it."""

    reason: str
    values: Any


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns to use.

    Parameters
    ----------
    time, key : str, optional
    features : tuple of str, optional
        None: every column but the time and the key.
    text : bool
        The features hold text, not numbers.

    Examples
    --------
    >>> Columns(time="t").resolve(["a", "t", "b"], "the file").features
    ('a', 'b')
    """

    time: str | None = None
    key: str | None = None
    features: tuple[str, ...] | None = None
    text: bool = False

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

    def resolve(self, available: Sequence[str], where: str) -> "Columns":
        """Check the names against those of a source, and fill in the features."""
        twice = repeated(available)
        if twice:
            message = f"{where}: column {twice!r} occurs twice; give each column its own name"
            raise SchemaError(message)
        if REFUSED in available:
            message = f"{where}: a column must not be called {REFUSED!r}; give it another name"
            raise SchemaError(message)
        there = set(available)
        for name in self.names:
            if name not in there:
                message = f"{where} has no column {name!r}; it has {_shown(available)}"
                if len(available) == 1 and any(sign in available[0] for sign in ";\t|"):
                    dates = f", parse_dates=[{name!r}], dayfirst=True" if name == self.time else ""
                    message += (
                        ". Cells must be separated by commas, and decimals have points; convert it "
                        f"first: pandas.read_csv(file, sep=';', decimal=','{dates}).to_parquet(...)"
                    )
                raise ConfigError(message)
        if self.features is not None:
            return self
        rest = tuple(name for name in available if name not in (self.time, self.key))
        if not rest:
            message = f"{where} has no column left for the features beside the time and the key"
            raise ConfigError(message)
        if len(rest) > MOST_FEATURES:
            message = (
                f"{where} has {len(rest):,} columns beside the time and the key; a model takes at "
                f"most {MOST_FEATURES:,} features: name those to use, --features a,b,c"
            )
            raise SchemaError(message)
        return Columns(self.time, self.key, rest, self.text)


def way_out(cell: object) -> str:
    """Say how to write a cell that was refused, if it is plain what was meant.

    Examples
    --------
    >>> way_out("31.12.2026"), way_out("here")
    ('; write dates as in 2026-12-31 23:59', '')
    """
    if isinstance(cell, str) and _DAY_FIRST.match(cell.strip()):
        return "; write dates as in 2026-12-31 23:59"
    if isinstance(cell, str) and _COMMA.fullmatch(cell.strip()):
        return "; write decimals with a point, and thousands without a sign"
    return ""


def canonical(
    raw: Any, columns: Columns, kind: TimeKind | None, *, text: bool = False
) -> tuple[Any, TimeKind | None]:
    """Convert a batch to the canonical types, marking the rows that cannot be.

    Parameters
    ----------
    raw : pyarrow.RecordBatch
        Holds at least the columns named by ``columns``.
    columns : Columns
    kind : str or None
        Kind of the time column as far as known from earlier rows.
    text : bool
        The cells are strings that stand for numbers (CSV), rather than typed values.

    Returns
    -------
    batch : pyarrow.RecordBatch
    kind : str or None
        Kind of the time column, once a row has shown it.
    """
    refused: dict[int, Refusal] = {}

    def values(row: int) -> Any:
        return {name: plain(raw.column(name)[row]) for name in columns.names}

    arrays = []
    for name in columns.names:
        cells = raw.column(name)
        if name == columns.time:
            array, kind = _text_times(cells, kind) if text else _typed_times(cells, name, kind)
            rule = TIME_RULE
        elif name == columns.key:
            array = _keys(cells, name)
            rule = KEY_RULE
        elif columns.text:
            array = pc.fill_null(cells, "") if text else _typed_texts(cells, name)
            rule = TEXT_RULE
        else:
            array = _text_numbers(_trimmed(cells)) if text else _typed_numbers(cells, name)
            rule = NUMBER_RULE.format(missing="empty")
        arrays.append(array)
        for row in _lost(cells, array, text=text):
            cell = cells[row].as_py()
            reason = f"column {name!r} {rule}, got {cell!r}{way_out(cell)}"
            refused.setdefault(row, Refusal(reason, values(row)))
    return assemble(columns, arrays, refused, values), kind


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
        names.append(REFUSED)
        made.append(_refusals(refused, len(made[0])))
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


def plain(cell: Any) -> Any:
    """Return a cell as strict JSON can hold it: text where it is no finite number, text or null."""
    text = pa.types.is_temporal(cell.type)  # Python's own types do not hold nanoseconds
    value = (cell.cast(pa.string()) if text else cell).as_py()
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


def _refusals(refused: Mapping[int, Refusal], n_rows: int) -> Any:
    cells: list[dict[str, str] | None] = [None] * n_rows
    for row, (reason, values) in refused.items():
        text = reason.encode(errors="backslashreplace").decode()  # no lone surrogates in Arrow
        cells[row] = {"reason": text, "values": json.dumps(values)}
    return pa.array(cells, _REFUSED_TYPE)


def _lost(cells: Any, array: Any, *, text: bool) -> list[int]:
    """Rows that held something which the conversion made null."""
    if array.null_count == 0:
        return []
    held = cells.is_valid().to_numpy(zero_copy_only=False)
    if text:
        blank = pc.equal(pc.utf8_trim_whitespace(cells), "").fill_null(True)
        held &= ~blank.to_numpy(zero_copy_only=False)
    lost: list[int] = np.flatnonzero(held & array.is_null().to_numpy(zero_copy_only=False)).tolist()
    return lost


def _trimmed(cells: Any) -> Any:
    """Strip the cells; blank ones become null."""
    stripped = pc.utf8_trim_whitespace(cells)
    return pc.if_else(pc.equal(stripped, ""), pa.scalar(None, pa.string()), stripped)


def _parse(cells: Any, to: Any) -> Any:
    """Parse strings; those that do not parse become null."""
    try:
        return pc.cast(cells, to)
    except pa.ArrowInvalid:
        return pa.array([_parse_one(cell, to) for cell in cells], to)


def _parse_one(cell: Any, to: Any) -> Any:
    try:
        return pc.cast(cell, to)
    except pa.ArrowInvalid:
        return pa.scalar(None, to)


def first_kind(cells: Any) -> TimeKind | None:
    """Kind of the first cell of a column of strings that is a time at all."""
    return next((kind for cell in cells if (kind := _kind_of(cell))), None)


def parse_times(cells: Any, kind: TimeKind) -> Any:
    """Read strings as times of one kind; the others become null."""
    return _parse(cells, _TIME_TYPES[kind])


def _text_numbers(cells: Any) -> Any:
    """Read strings as floats; as booleans where all are true, false or null."""
    if cells.null_count < len(cells):
        with suppress(pa.ArrowInvalid):
            return pc.cast(cells, pa.float64())  # numbers alone, as usual
    flags = pc.index_in(pc.utf8_lower(cells), pa.array(["false", "true"]))
    if flags.null_count == cells.null_count:
        return pc.cast(flags, pa.bool_())
    return _parse(pc.coalesce(pc.cast(flags, pa.string()), cells), pa.float64())


def _text_times(cells: Any, kind: TimeKind | None) -> tuple[Any, TimeKind | None]:
    trimmed = _trimmed(cells)
    kind = kind or first_kind(trimmed)
    if kind is None:
        return pa.nulls(len(cells), pa.float64()), None
    return parse_times(trimmed, kind), kind


def _kind_of(cell: Any) -> TimeKind | None:
    if not cell.is_valid:
        return None
    return next((kind for kind, to in _TIME_TYPES.items() if _parse_one(cell, to).is_valid), None)


def _typed_times(cells: Any, name: str, kind: TimeKind | None) -> tuple[Any, TimeKind | None]:
    if _is_text(cells.type):
        return _text_times(pc.cast(cells, pa.string()), kind)
    if not (pa.types.is_temporal(cells.type) or pa.types.is_boolean(cells.type)):
        return _typed_numbers(cells, name).cast(pa.float64(), safe=False), "number"
    if pa.types.is_timestamp(cells.type) or pa.types.is_date(cells.type):
        kind = "instant" if getattr(cells.type, "tz", None) else "timestamp"
        try:
            return pc.cast(cells, _TIME_TYPES[kind]), kind
        except pa.ArrowInvalid as error:
            message = f"column {name!r} holds a time outside the years 1678 to 2261: {error}"
            raise SchemaError(message) from error
    message = f"column {name!r} has type {cells.type}; the time must be a number or a time stamp"
    raise SchemaError(message)


def _typed_numbers(cells: Any, name: str) -> Any:
    kind = cells.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind):
        return cells
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return pc.cast(cells, pa.float64(), safe=False)
    more = f"; if it holds texts to cluster, name it by --text {name}" if _is_text(kind) else ""
    message = (
        f"column {name!r} has type {kind}; a feature must be numeric: convert it, or leave it out "
        f"by naming the others, --features a,b,c{more}"
    )
    raise SchemaError(message)


def _is_text(kind: Any) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _typed_texts(cells: Any, name: str) -> Any:
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if not _is_text(cells.type):
        message = f"column {name!r} has type {cells.type}; it must be text"
        raise SchemaError(message)
    return pc.cast(cells, pa.string())


def _keys(cells: Any, name: str) -> Any:
    kind = cells.type
    if pa.types.is_dictionary(kind):
        cells = cells.dictionary_decode()
        kind = cells.type
    if _is_text(kind) or pa.types.is_integer(kind):
        return pc.cast(cells, pa.string())
    message = f"column {name!r} has type {kind}; a key must be text or a whole number"
    raise SchemaError(message)


def _shown(names: Sequence[str]) -> str:
    """List some names for a message."""
    more = f", .. {len(names):,} in all" if len(names) > 20 else ""
    return (", ".join(names[:20]) or "none") + more


def repeated(names: Sequence[str]) -> str | None:
    """Return the first name that occurs again."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
