"""Plain lines to canonical batches: each is a text, and its time stands somewhere in it."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamddcrp.data.clock import MONTHS, find_kind, parse, read_cells
from streamddcrp.errors import ConfigError
from streamddcrp_connectors.looking.cells import Cells
from streamddcrp_connectors.run.columns import Columns, Refusal, TimeKind, assemble

TIME, TEXT = "time", "text"
_CLOCK = r"\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?"
_ZONE = r"(?: ?(?:Z|UTC|[-+]\d{2}:?\d{2}))?\b"
_STAMPS = [
    rf"\d{{4}}[-/.]\d{{2}}[-/.]\d{{2}}[T :_]{_CLOCK}{_ZONE}",
    rf"\d{{1,2}}[-/. ][A-Z][a-z]{{2}}[-/. ]\d{{4}}[: ]{_CLOCK}{_ZONE}",
    rf"\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{2,4}},?[T ]+{_CLOCK}{_ZONE}",
    rf"[A-Z][a-z]{{2}} +\d{{1,2}},? +{_CLOCK} \d{{4}}\b",
    rf"[A-Z][a-z]{{2}} +\d{{1,2}},? +\d{{4}},? +{_CLOCK}{_ZONE}",
    r"\b1[0-9]{9}(?:\.\d{1,9})?\b",
    _SHORT := r"^\d{6} \d{6}\b",
    _SLASHES := rf"^\d{{2}}/\d{{2}}/\d{{2}} {_CLOCK}",
]
_YEARLESS = rf"^(?:<\d+>)?(?:[A-Z][a-z]{{2}} +\d{{1,2}}|\d{{2}}-\d{{2}}) {_CLOCK} "
_ALONE = r"^\[?\d{1,2}:\d{2}:\d{2}"  # a clock, of no known day


class LineRows:
    r"""Texts, one a line; a line without a time has that of the line before.

    A sample shows where the time stands. Unnamed columns are called ``time`` and ``text``.

    Examples
    --------
    >>> rows = LineRows(b"[2021-01-05 10:00:07] door open\n", Columns(), "here")
    >>> rows.decode(b"[2021-01-05 10:00:09] door shut\n", rows.columns, None)[0].to_pylist()
    [{'time': Timestamp('2021-01-05 10:00:09'), 'text': '[] door shut'}]
    """

    def __init__(self, sample: bytes, columns: Columns, where: str) -> None:
        self.cells = Cells()
        if columns.key or (columns.features and not columns.text):
            message = f"{where} is read line by line: it has a time and a text, and no columns"
            raise ConfigError(message)
        lines = _texts(sample)[:1000]
        self.said = f"{where}: each line is a text"
        shares = [_share(lines, stamp) for stamp in _STAMPS]
        shares[-1] *= 1.01 * _is_year_first(lines)
        self._stamp = _STAMPS[shares.index(max(shares))] if max(shares) > 0.5 else None
        self.kind: str | None = None
        self._year = 0  # of the first line, where the times have none
        if self._stamp is not None:
            self.kind = find_kind(self._found(lines), "", columns.reading.clock)
        elif _share(lines, _YEARLESS) > 0.5:
            self._stamp = _YEARLESS
            self._year = _first_year(self._found(lines), where)
            self.kind = find_kind(self._dated(self._found(lines)), "", columns.reading.clock)
            self.said += f"; the times have no year: that of the first is taken for {self._year}"
        if columns.time and self.kind is None:
            raise ConfigError(f"{where}: no time was found in its lines; leave --time out")
        dated = (columns.time or TIME) if self.kind else None
        self.columns = Columns(dated, None, columns.features or (TEXT,), True, columns.reading)

    def sample(self, block: bytes) -> Any:
        """Return lines as a table of strings."""
        columns = [texts := _texts(block)]
        if self.kind:
            columns.insert(0, self._dated(pc.fill_null_forward(self._found(texts))))
        return pa.record_batch(columns, names=list(self.columns.names))

    @staticmethod
    def settled(data: bytes) -> int:
        return len(data)

    def _found(self, texts: Any) -> Any:
        parts = pc.extract_regex(texts, f"(?P<t>{self._stamp})")
        found = pc.struct_field(parts, "t").cast(pa.string())
        return (
            pc.binary_join_element_wise("20", found, "")
            if self._stamp in (_SHORT, _SLASHES)
            else found
        )

    def _dated(self, cells: Any) -> Any:
        """Put a year before times that have none: one more where the months begin again."""
        if not self._year or cells.null_count == len(cells):
            return cells
        parts = pc.extract_regex(cells, r"^(?P<y>\d{4} )?(?:<\d+>)?(?P<t>[A-Z\d].*\S)")
        stamps = pc.replace_substring_regex(pc.struct_field(parts, "t"), " +", " ")
        named = pc.utf8_lower(pc.utf8_slice_codeunits(stamps, 0, 3))
        months = pa.array(MONTHS.values()).take(pc.index_in(named, pa.array([*MONTHS])))
        counted = read_cells(pc.utf8_slice_codeunits(stamps, 0, 2), pa.int32())
        months = pc.coalesce(months.cast(pa.int32()), counted)
        steps = np.diff(pc.fill_null_backward(pc.fill_null_forward(months)).to_numpy(), prepend=0)
        steps[0] = 0
        first = int(pc.struct_field(parts, "y")[0].as_py() or self._year)
        years = first + np.cumsum((steps < -6).astype(int) - (steps > 6))
        return pc.binary_join_element_wise(pa.array(years).cast(pa.string()), stamps, " ")

    def decode(
        self, block: bytes, columns: Columns, kind: TimeKind | None
    ) -> tuple[Any, TimeKind | None]:
        """Turn whole lines into a canonical batch; the kind carries the last time that was read."""
        texts = _texts(block)
        if self.kind is None:
            return assemble(columns, [texts], {}, lambda _: None), None
        form, _, last = (kind or self.kind).partition("|")
        before = pa.array([last or None], pa.string())
        cells = pc.fill_null_forward(pa.concat_arrays([before, self._found(texts)]))
        if len(cells) and cells.null_count < len(cells):  # lines before the first time have that
            cells = pc.fill_null(cells, cells.drop_null()[0])
        cells = self._dated(cells)
        times, form = parse(cells[1:], form)
        refused = {
            row: Refusal("no time can be read in the line", {columns.names[1]: texts[row].as_py()})
            for row in range(len(texts))
            if times.null_count and not times[row].is_valid
        }
        rest = pc.replace_substring_regex(texts, self._stamp, "", max_replacements=1)
        rest = pc.utf8_ltrim_whitespace(rest)
        batch = assemble(columns, [times, rest], refused, lambda _: None)
        return batch, f"{form}|{cells[-1].as_py() or ''}"


def _texts(block: bytes) -> Any:
    text = block.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = [line.rstrip("\r") for line in text.split("\n")]
    return pa.array([line for line in lines if line.strip()], pa.string())


def _share(lines: Any, pattern: str) -> float:
    return float(pc.mean(pc.match_substring_regex(lines, pattern).cast(pa.int8())).as_py() or 0.0)


def _is_year_first(lines: Any) -> bool:
    """Whether 17/06/09 has its year first: where that is nearer to today than the year last."""
    parts = pc.extract_regex(lines, r"^(?P<a>\d\d)/(?P<b>\d\d)/(?P<c>\d\d) ").drop_null()
    years, months, days = (int(pc.max(part).as_py() or 99) for part in parts.flatten())
    return days < years <= datetime.now(UTC).year % 100 and months <= 12 and days <= 31


def _first_year(stamps: Any, where: str) -> int:
    """Return the latest year in which the first time lies before the file was written."""
    path = Path(where)
    written = path.stat().st_mtime if path.is_file() else time.time()
    year = datetime.fromtimestamp(written + 86_400, UTC).year  # whatever the zone
    first = " ".join(stamps.drop_null()[0].as_py().rpartition(">")[2].split())
    form = "year" if first[0].isdigit() else "name"
    begun = parse(pa.array([f"{year} {first}"]), form)[0].cast(pa.int64())[0].as_py()
    return year - (begun is not None and begun > (written + 86_400) * 1e9)


def may_be_lines(sample: bytes, name: str, columns: Sequence[str]) -> bool:
    """Whether a file in which no columns are found is plain lines: a log, or most with a time."""
    if ".log" in name:
        return True
    lines = _texts(sample)[:1000]
    free = len(columns) == 1 or not name.lower().endswith((".csv", ".tsv"))
    return free and max(_share(lines, stamp) for stamp in (*_STAMPS, _YEARLESS, _ALONE)) > 0.5
