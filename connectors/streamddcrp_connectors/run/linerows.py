"""Plain lines to canonical batches: each is a text, and its time stands somewhere in it."""

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from streamddcrp.data.clock import find_kind, parse
from streamddcrp.errors import ConfigError
from streamddcrp_connectors.looking.cells import Cells
from streamddcrp_connectors.run.columns import Columns, Refusal, TimeKind, assemble

TIME, TEXT = "time", "text"
_CLOCK = r"\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?"
_ZONE = r"(?: ?(?:Z|UTC|[-+]\d{2}:?\d{2}))?\b"
_STAMPS = [
    rf"\d{{4}}[-/.]\d{{2}}[-/.]\d{{2}}[T :_]{_CLOCK}{_ZONE}",
    rf"\d{{1,2}}[-/. ][A-Z][a-z]{{2}}[-/. ]\d{{4}}[: ]{_CLOCK}{_ZONE}",
    rf"\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{2,4}}[T ]+{_CLOCK}{_ZONE}",
    rf"[A-Z][a-z]{{2}} +\d{{1,2}},? +{_CLOCK} \d{{4}}\b",
    rf"[A-Z][a-z]{{2}} +\d{{1,2}},? +\d{{4}},? +{_CLOCK}{_ZONE}",
    r"\b1[0-9]{9}(?:\.\d{1,9})?\b",
]
_YEARLESS = re.compile(rf"^(?:<\d+>)?[A-Z][a-z]{{2}} +\d{{1,2}} {_CLOCK} ")


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
        counts = [pc.sum(pc.match_substring_regex(lines, stamp)).as_py() or 0 for stamp in _STAMPS]
        self._stamp = _STAMPS[counts.index(max(counts))] if max(counts) > 0.5 * len(lines) else None
        self.kind = None
        if self._stamp is not None:
            self.kind = find_kind(self._found(lines), "", columns.reading.clock)
        elif sum(bool(_YEARLESS.match(line)) for line in lines.to_pylist()) > 0.5 * len(lines):
            self.said += "; their times have no year, and are not used"
        if columns.time and self.kind is None:
            raise ConfigError(f"{where}: no time was found in its lines; leave --time out")
        time = (columns.time or TIME) if self.kind else None
        self.columns = Columns(time, None, columns.features or (TEXT,), True, columns.reading)

    def sample(self, block: bytes) -> Any:
        """Return lines as a table of strings."""
        texts = _texts(block)
        columns = [pc.fill_null_forward(self._found(texts)), texts] if self.kind else [texts]
        return pa.record_batch(columns, names=list(self.columns.names))

    @staticmethod
    def settled(data: bytes) -> int:
        return len(data)

    def _found(self, texts: Any) -> Any:
        parts = pc.extract_regex(texts, f"(?P<t>{self._stamp})")
        return pc.struct_field(parts, "t").cast(pa.string())

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
        times, form = parse(cells[1:], form)
        refused = {
            row: Refusal("no time can be read in the line", {columns.names[1]: texts[row].as_py()})
            for row in range(len(texts)) if times.null_count and not times[row].is_valid
        }  # fmt: skip
        rest = pc.replace_substring_regex(texts, self._stamp, "", max_replacements=1)
        batch = assemble(columns, [times, rest], refused, lambda _: None)
        return batch, f"{form}|{cells[-1].as_py() or ''}"


def _texts(block: bytes) -> Any:
    text = block.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = [line.rstrip("\r") for line in text.split("\n")]
    return pa.array([line for line in lines if line.strip()], pa.string())


def may_be_lines(sample: bytes, name: str, columns: Sequence[str]) -> bool:
    """Whether a file in which no columns are found is plain lines: a log, or most with a time."""
    if ".log" in name:
        return True
    lines = _texts(sample)[:1000]
    counts = [pc.sum(pc.match_substring_regex(lines, stamp)).as_py() for stamp in _STAMPS]
    dated = sum(bool(_YEARLESS.match(line)) for line in lines.to_pylist())
    return len(columns) == 1 and max(dated, *(count or 0 for count in counts)) > 0.5 * len(lines)
