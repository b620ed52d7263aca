"""JSON lines to canonical batches.

One object a line; a line of InfluxDB's protocol is one, too. ``null`` is missing; a column that is
not there is missing, too, if some object of the sample did without it, and else an error: more
often a slip of the pen. Objects within objects give names with dots. Text in a column of numbers is
read as in a CSV file, if the sample has such.
"""

import json
import logging
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streamddcrp_connectors.looking.cells import Cells
from streamddcrp_connectors.looking.dialect import Dialect, find_decimal
from streamddcrp_connectors.run.columns import (
    KEY_RULE,
    NUMBER_RULE,
    TEXT_RULE,
    TIME_RULE,
    Columns,
    Reading,
    Refusal,
    TimeKind,
    assemble,
    repeated,
    times_of,
    way_out,
)

_MEASURED = re.compile(  # InfluxDB's protocol: a measurement, its tags, its fields, the time
    r'((?:\\.|[^ ,=\\{"])+)((?:,(?:\\.|[^ \\])+)?) '
    r'((?:\\.|[^ ,=\\"])+=(?:"(?:\\.|[^"\\])*"|\\.|[^ "\\])+)(?: (\d{10,19}))?\s*'
)
_ACTION = re.compile(rb'(?m)^\{ *"(?:index|create)" *: *\{[^{}\n]*\} *\}\s*?\n')  # of a bulk
_FIELD = re.compile(r'((?:\\.|[^,=\\])+)=("(?:\\.|[^"\\])*"|(?:\\.|[^,\\])*)')
_LOG = logging.getLogger("streamddcrp.run")
Made = tuple[Any, list[bool]]  # an array, and which of its cells could be made


class JsonRows:
    r"""JSON objects, one a line.

    Examples
    --------
    >>> batch, _ = JsonRows().decode(b'{"a": 1}\n{"a": null}\n', Columns(features=("a",)), None)
    >>> batch.to_pylist()
    [{'a': 1.0}, {'a': None}]
    """

    def __init__(self) -> None:
        self.cells = Cells()
        self._optional: set[str] = set()
        self._written: set[str] = set()  # columns in which the sample has text
        self._nested = False
        self._known: set[str] = set()  # columns of the sample, and those that were told since
        self._bulk = False  # each row follows a line that says where to put it

    def names_of(self, sample: bytes) -> list[str]:
        """Return the columns of the objects of a sample, in the order in which they come."""
        self._nested = True
        rows = self._objects(sample)
        counts = Counter(name for row in rows for name in row)
        self._optional = {name for name, count in counts.items() if count < len(rows)}
        self._known = {*counts}
        return [*counts]

    def _objects(self, sample: bytes) -> list[dict[str, Any]]:
        rows = []
        without = _ACTION.sub(b"", sample)
        self._bulk = bool(without.strip())
        for line in (without if self._bulk else sample).split(b"\n"):
            with suppress(ValueError):
                rows.append(self.read(line))
        return rows

    def sample(self, sample: bytes, names: Sequence[str] = ()) -> Any:
        """Return some columns of the objects of a sample, or all, as a table of strings."""
        there, rows = self.names_of(sample), self._objects(sample)
        wanted = {*names}
        names = [name for name in there if name in wanted] or there
        self._written = {
            name for name in names if any(isinstance(row.get(name), str) for row in rows)
        }
        columns = [[_text_of(row.get(name)) for row in rows] for name in names]
        return pa.record_batch([pa.array(cells, pa.string()) for cells in columns], names=names)

    def dialect(self, sample: bytes, reading: Reading) -> Dialect:
        """Return how numbers are written in texts of a sample."""
        texts = [
            [value for value in row.values() if isinstance(value, str)]
            for row in self._objects(sample)
        ]
        decimal, thousands = (reading.decimal, "") if reading.decimal else find_decimal(texts)
        return Dialect(decimal=decimal, thousands=thousands, missing=reading.missing or ())

    @staticmethod
    def settled(data: bytes) -> int:
        return len(data)

    def decode(
        self, block: bytes, columns: Columns, kind: TimeKind | None
    ) -> tuple[Any, TimeKind | None]:
        """Turn whole lines into a canonical batch."""
        rows: list[dict[str, Any] | None] = []
        refused: dict[int, Refusal] = {}
        wanted = [name for name in columns.raw if name not in self._optional]
        if columns.reading.absent:
            wanted = []
        for line in (_ACTION.sub(b"", block) if self._bulk else block).split(b"\n"):
            if line.strip():
                try:
                    rows.append(self.read(line, wanted, columns.features or ()))
                except ValueError as error:
                    refused[len(rows)] = Refusal(str(error), line.decode(errors="replace").strip())
                    rows.append(None)

        later = {name for row in rows if row and self._known for name in row} - self._known
        later -= {*columns.raw}
        if later:
            self._known |= later
            shown = ", ".join(sorted(later)[:8])
            ways = "--features, with --missing-columns null, takes it"
            _LOG.warning("left out: %s, which the first rows lack; %s", shown, ways)

        def values(number: int) -> Any:
            row = rows[number] or {}
            return {name: _plain(row.get(name)) for name in columns.raw}

        arrays = []
        for name in columns.names:
            cells = [None if row is None else row.get(name) for row in rows]
            if name == columns.time:
                cells = [_time_of(row, columns.times) for row in rows]
                words = pa.array(map(_text_of, cells), pa.string())
                array, kind, _ = times_of(words, name, kind, columns.reading.clock, None)
                valid = array.is_valid().to_pylist()
                read = [cell is None or good for cell, good in zip(cells, valid, strict=True)]
                rule = TIME_RULE
            elif name == columns.key:
                array, read = _words(cells, (int, str))
                rule = KEY_RULE
            elif columns.text:
                array, read = _words([*map(_decoded, cells)], (str,))
                rule = TEXT_RULE
            elif name in self._written or self._has_marks(name):
                words = pa.array(map(_text_of, cells), pa.string())
                array, held = self.cells.numbers(name, words)
                odd = pc.and_(held.is_valid(), array.is_null())
                read = pc.invert(odd).to_pylist()
                rule = NUMBER_RULE.format(missing="null")
            else:
                array, read = _numbers(cells)
                rule = NUMBER_RULE.format(missing="null")
            arrays.append(array)
            for number in (i for i, good in enumerate(read) if not good):
                reason = f"column {name!r} {rule}, got {json.dumps(cells[number])}"
                reason += way_out(cells[number])
                refused.setdefault(number, Refusal(reason, values(number)))
        return assemble(columns, arrays, refused, values), kind

    def _has_marks(self, name: str) -> bool:
        habit = self.cells.habits.get(name)
        return bool(self.cells.dialect.missing or (habit and habit.sentinels))

    def read(
        self, line: bytes, names: Iterable[str] = (), features: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Read one line; ValueError says what is wrong with it."""
        try:
            text = line.decode("utf-8-sig")
            measured = None if text[:1] == "{" else _MEASURED.fullmatch(text)
            row: Any = measured or json.loads(text, object_pairs_hook=_object)
        except json.JSONDecodeError as error:
            raise ValueError(f"not valid JSON: {error.msg} at character {error.pos}") from error
        except UnicodeDecodeError as error:
            raise ValueError(f"not UTF-8 text ({error.reason} at byte {error.start})") from error
        except RecursionError as error:
            raise ValueError("too deeply nested JSON") from error
        row = _of_measured(measured) if measured else row
        if not isinstance(row, dict):
            raise ValueError("not a JSON object of column names and values")
        if self._nested and (b"[" in line or line.count(b"{") > 1):
            row = _object([*_leaves(row)]) | {name: row[name] for name in features if name in row}
        for name in names:
            if name not in row:
                ways = "write null where a value is missing, or give --missing-columns null"
                raise ValueError(f"no column {name!r}; {ways}")
        if features and not any(name in row for name in features):
            raise ValueError(f"none of the columns {', '.join(features[:8])}")
        made: dict[str, Any] = row
        return made


def is_measured(head: bytes) -> bool:
    """Whether the first line is one of InfluxDB's protocol."""
    found = _MEASURED.fullmatch(head.lstrip().partition(b"\n")[0].decode("utf-8", "replace"))
    return bool(found and found[4])


def _of_measured(found: re.Match[str]) -> dict[str, Any]:
    measurement, tags, fields, time = found.groups()
    row: dict[str, Any] = {"measurement": measurement} | dict(_FIELD.findall(tags))
    for name, value in _FIELD.findall(fields):
        text = value[:1] == '"'
        flag = {"t": True, "true": True, "f": False, "false": False}.get(value.lower())
        number = None if text or flag is not None else float(value.rstrip("iu"))
        row[name] = value[1:-1] if text else number if flag is None else flag
    row = {_plain_of(name): _plain_of(value) for name, value in row.items()}
    return row if time is None else row | {"time": int(time)}


def _plain_of(value: Any) -> Any:
    return re.sub(r"\\(.)", r"\1", value) if isinstance(value, str) else value


def _leaves(row: Mapping[Any, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield what objects within an object hold, by names with dots."""
    for name, value in row.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{name}.")
        elif (
            isinstance(value, list) and 1 < len(value) <= 3 and {*map(type, value)} <= {int, float}
        ):
            yield from _leaves(dict(enumerate(value)), f"{above}{name}.")  # a place, as in GeoJSON
        else:
            yield f"{above}{name}", value


def _text_of(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return _encodable(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    return str(value) if type(value) is int else json.dumps(value)


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        twice = repeated([name for name, _ in pairs])
        raise ValueError(f"column {twice!r} occurs twice")
    return made


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _numbers(cells: list[Any]) -> Made:
    try:
        flags = {*map(type, cells)} <= {bool, type(None)}
        return pa.array(cells, pa.bool_() if flags else pa.float64()), []
    except (pa.ArrowException, OverflowError, UnicodeEncodeError):
        return _made(cells, [_number(cell) for cell in cells], pa.float64())


def _number(cell: Any) -> float | None:
    try:
        return float(cell) if isinstance(cell, int | float) else None
    except OverflowError:
        return None


def _words(cells: list[Any], kinds: tuple[type, ...]) -> Made:
    words = [_encodable(str(cell)) if type(cell) in kinds else None for cell in cells]
    return _made(cells, words, pa.string())


def _decoded(cell: Any) -> Any:
    """Return as one text a list of bytes, as of journald, or of parts, as of Telegram."""
    if not isinstance(cell, list):
        return cell
    parts = [part.get("text") if isinstance(part, dict) else part for part in cell]
    if all(isinstance(part, str) for part in parts):
        return "".join(map(str, parts))
    octets = all(type(n) is int and 0 <= n < 256 for n in cell)
    return bytes(cell).decode("utf-8", "replace") if octets else cell


def _encodable(text: str | None) -> str | None:
    """Return the text, or None if it holds half a surrogate pair, as JSON allows."""
    if text is None or (
        not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)
    ):
        return None
    return text


def _time_of(row: dict[str, Any] | None, names: Sequence[str]) -> Any:
    """Return the time of a row; of several columns as one text."""
    if row is None:
        return None
    if len(names) == 1:
        return row.get(names[0])
    parts = [row.get(name) for name in names]
    return None if None in parts else " ".join(str(part).zfill(2) for part in parts)


def _made(cells: list[Any], made: list[Any], to: Any) -> Made:
    read = [cell is None or new is not None for cell, new in zip(cells, made, strict=True)]
    return pa.array(made, to), read
