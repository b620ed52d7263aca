"""Tables as text, CSV and the like, to canonical batches.

One line is one row, unless a quoted cell goes on in the next (RFC 4180). What looks like such a
cell but does not end as one is a refused row, and the lines after it are rows. A line of a wrong
width is a refused row, too.
"""

import csv
import io
import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv

from streamddcrp.errors import SchemaError
from streamddcrp_connectors.looking.cells import Cells
from streamddcrp_connectors.looking.dialect import (
    RULE,
    SECOND,
    SEPARATORS,
    Dialect,
    bare,
    named,
    unglued,
)
from streamddcrp_connectors.run.columns import (
    Columns,
    Refusal,
    TimeKind,
    assemble,
    canonical,
    refusals,
)
from streamddcrp_connectors.run.lines import MAX_LINE

_LOG = logging.getLogger("streamddcrp.run")
csv.field_size_limit(MAX_LINE)  # texts may be longer than its 128 KiB
LONGEST = 10_000  # letters of a name
MOST_LINES, MOST_BYTES = 1000, 1 << 20  # of a row whose quoted cells go over several lines


class CsvRows:
    r"""Rows of cells under one header.

    ``header`` is the line that names the columns, or none where the dialect has their names;
    ``head`` are the lines above the first row: one of several cells that comes again is no row.

    Examples
    --------
    >>> columns = Columns("t", None, ("a",))
    >>> batch, kind = CsvRows(b"t,a\n", "here").decode(b"1,0.5\n2,\n", columns, None)
    >>> batch.to_pylist(), kind
    ([{'t': 1.0, 'a': 0.5}, {'t': 2.0, 'a': None}], 'number')
    """

    def __init__(
        self, header: bytes, where: str, dialect: Dialect | None = None, head: bytes = b""
    ) -> None:
        self.dialect = dialect = dialect or Dialect()
        self.cells = Cells(dialect)
        self._where = where
        self._told: set[str] = set()
        self.clock: str | None = None  # a column of clocks, in which no row has a word
        self.said = ""
        self._sep = "\t" if dialect.sep in (" ", "::") else dialect.sep
        self.names = [*dialect.names] or self._header(header)
        # a last row of empty cells: a quote left open before it swallows it
        self._bare = b"\n" + self._sep.encode() * max(len(self.names) - 1, 1)
        cells = rb"(?m)^((?:[^\t\n]*\t){%d}[^\t\n]*)" % (len(self.names) - 1)
        word = rb"\t[^\t\n0-9]*[A-Za-z][^\t\n0-9]*"  # behind the last cell
        self._noted = re.compile(cells + rb"(?:" + word + rb")+(?=\r?$)")
        cell, sign = rb"[^%b\"\r\n]*" % re.escape(self._sep.encode()), re.escape(self._sep.encode())
        self._short = re.compile(
            rb"(?m)^(?![\r\n]|\Z)(?:%b%b){0,%d}%b(?=\r?$)" % (cell, sign, len(self.names) - 2, cell)
            if dialect.short else b"(?!)"
        )  # fmt: skip
        lines = head.decode(dialect.encoding, "replace").encode().splitlines()
        self._again = [line for line in lines if dialect.sep.encode() in line.strip()]

    def _header(self, header: bytes) -> list[str]:
        where, dialect = self._where, self.dialect
        try:
            text = header.decode(dialect.encoding.replace("utf-8", "utf-8-sig")).strip("\r\n")
        except UnicodeDecodeError as error:
            raise SchemaError(
                f"{where}: the header line is not {dialect.encoding.upper()} text "
                f"({error.reason}); say how it is written, as in --encoding latin-1"
            ) from error
        if "\r" in text and '"' not in text:
            raise SchemaError(
                f"{where}: carriage returns inside the first line; if they end the lines, "
                f"change them first: tr '\\r' '\\n' < {where}"
            )
        if dialect.sep == " ":
            names = text.split()
        else:
            read = csv.reader([text.replace(dialect.sep, self._sep)], delimiter=self._sep)
            try:
                names = [" ".join(name.split()) for name in next(read, [])]
            except csv.Error as error:
                raise SchemaError(f"{where}: the header line cannot be read: {error}") from error
        if max(map(len, names), default=0) > LONGEST:
            message = f"{where}: the header line cannot be read: a name is too long"
            raise SchemaError(message)
        if not any(names):
            raise SchemaError(f"{where} is empty: its first line must name the columns")
        made = [*named(names)]
        differ = [pair for pair in zip(made, names, strict=True) if pair[0] != pair[1]]
        again = [new for new, name in differ if name and new != bare(name)]
        if again:
            self.said = f"columns of one name are numbered: {', '.join(again[:8])}"
        return made

    def settled(self, data: bytes) -> int:
        """Return how many bytes are of whole rows: a quoted cell may go on in lines to come."""
        return len(data) - self._rows_of(data, whole=False)[2]

    def decode(
        self, block: bytes, columns: Columns, kind: TimeKind | None
    ) -> tuple[Any, TimeKind | None]:
        """Turn whole lines into a canonical batch."""
        block = self._plain(block)
        if columns.time or columns.key:
            block = self._without_bare(block)
        raw, broken = self._read(block, columns.raw)
        batch, kind = canonical(raw, columns, kind, cells=self.cells)
        if self.clock is not None:
            batch = _less_words(batch, raw.column(self.clock), columns)
        if broken:
            batch, refused = refusals(batch)
            batch = assemble(columns, batch.columns, refused | broken, lambda _: None)
        return batch, kind

    def sample(self, block: bytes, names: Sequence[str] = ()) -> Any:
        """Return columns of lines, all by default, as strings, less lines that are no rows."""
        raw, broken = self._read(self._without_bare(self._plain(block)), names or self.names)
        return raw.take(pa.array(np.delete(np.arange(len(raw)), [*broken])))

    def _without_bare(self, block: bytes) -> bytes:
        """Leave out lines of nothing but separators, as spreadsheets have them at the end."""
        if self._bare not in block or b'"' in block:
            return block
        sign = re.escape(self._sep.encode())
        return re.sub(rb"(?m)^ *(?:" + sign + rb" *)+\r?(?:\n|\Z)", b"", block)

    def _plain(self, block: bytes) -> bytes:
        """Return a block in UTF-8, without comments, and with one sign between cells."""
        dialect = self.dialect
        if dialect.encoding != "utf-8":
            block = block.decode(dialect.encoding, "replace").encode()
        block = block.removesuffix(b"\x1a")  # as DOS ends a file
        if dialect.comment and dialect.comment.encode() in block:
            mark = re.escape(dialect.comment.encode())
            block = re.sub(rb"(?m)^[ \t]*" + mark + rb".*\n?", b"", block)
        for line in self._again:
            if line in block:
                block = re.sub(rb"(?m)^" + re.escape(line) + rb"\r?(?:\n|\Z)", b"", block)
                self._tell("lines above the table come again, and are left out")
        if dialect.sep == "|":
            block = RULE.sub(b"", block)
        if dialect.sep == "::":
            block = block.replace(b"::", b"\t")
        if dialect.glued:
            block = unglued(block.decode(errors="surrogateescape")).encode(errors="surrogateescape")
        if dialect.sep == " ":
            block = re.sub(SECOND.pattern.encode(), rb"\1", block)
            block = re.sub(rb"(?m)^[ \t]+|[ \t]+(?=\r?$)", b"", block)
            if b'"' in block:  # between cells, not within them
                block = re.sub(rb'("[^"\n]*")|[ \t]+', lambda match: match[1] or b"\t", block)
            else:
                block = re.sub(rb"[ \t]+", b"\t", block)
            block, n = re.subn(self._noted, rb"\1", block)
            if n:
                self._tell("words behind the last column are left out")
        if dialect.short:
            block = self._short.sub(self._filled, block)
        return block

    def _filled(self, row: re.Match[bytes]) -> bytes:
        """Add the cells that a row lacks."""
        lacking = len(self.names) - 1 - row[0].count(self._sep.encode())
        return row[0] + self._sep.encode() * lacking

    def _tell(self, what: str) -> None:
        if what not in self._told:
            _LOG.warning("%s: %s", self._where, what)
            self._told.add(what)

    def _rows_of(self, block: bytes, *, whole: bool = True) -> tuple[list[bytes], set[int], int]:
        """Cut into rows; return them, and the places of those with a quote that is not closed.

        Also how many bytes at the end may be part of a longer row, too.
        """
        lines = block.split(b"\n")
        if b'"' not in block:
            return lines, set(), 0
        odd = [number for number, line in enumerate(lines) if line.count(b'"') % 2]
        rows: list[bytes] = []
        opened: set[int] = set()
        at = 0
        for number in odd:
            if number < at:
                continue
            rows += lines[at:number]
            row, at = self._joined(lines, number)
            if row is None:
                if at == len(lines) and not whole:
                    return rows, opened, sum(len(line) + 1 for line in lines[number:]) - 1
                opened.add(len(rows))
                row, at = lines[number], number + 1
            rows.append(row)
        return rows + lines[at:], opened, 0

    def _joined(self, lines: list[bytes], first: int) -> tuple[bytes | None, int]:
        """Return a row that goes over several lines, and the line after it; None: it is none.

        With None, a line behind the last says that lines to come may end it.
        """
        sep = self._sep.encode()
        row = lines[first]
        if not _is_open(row, sep):
            return row, first + 1
        size = len(row)
        for number in range(first + 1, min(len(lines), first + MOST_LINES)):
            line = lines[number]
            if number == len(lines) - 1 and not line:
                break  # behind the last line feed
            row += b"\n" + line
            size += len(line) + 1
            if size > MOST_BYTES:
                return None, first
            if line.count(b'"') % 2 and not _is_open(row, sep):
                whole = len(self._cut(row.decode("utf-8", "replace"))) == len(self.names)
                return (row, number + 1) if whole else (None, first)
        over = len(lines) - first < MOST_LINES
        return None, len(lines) if over else first

    def _read(self, block: bytes, names: Sequence[str]) -> tuple[Any, dict[int, Refusal]]:
        """Read columns of cells as text, and say which lines are not rows; their cells are null.

        Arrow parses a block in which each line is a whole row.
        """
        names = [*dict.fromkeys(filter(None, (*names, self.clock)))]
        schema = pa.schema([(name, pa.string()) for name in names])
        lines, opened, _ = self._rows_of(block)
        full = [line for line in lines if line not in (b"", b"\r")]
        whole = not opened and len(lines) == block.count(b"\n") + 1 and _is_clean(block)
        if full and whole and not _is_open(full[-1], self._sep.encode()):
            with suppress(pa.ArrowInvalid):
                raw = self._parsed(block, schema)
                if len(raw) == len(full):
                    return raw, {}
        rows: list[Sequence[str]] = []
        broken: dict[int, Refusal] = {}
        for number, line in enumerate(lines):
            if row := line.removesuffix(b"\r"):
                cells, reason = self._cells(row, is_open=number in opened)
                if reason:
                    broken[len(rows)] = Refusal(reason, row.decode(errors="replace"))
                    cells = [""] * len(self.names)
                rows.append(cells)
        columns = [*zip(*rows, strict=True)] or [()] * len(self.names)
        read = ([cell or None for cell in columns[self.names.index(name)]] for name in names)
        return pa.record_batch([pa.array(cells, pa.string()) for cells in read], schema), broken

    def _cells(self, row: bytes, *, is_open: bool) -> tuple[list[str], str]:
        """Return the cells of a row, and why it is none; else an empty text."""
        quoted, sep = b'"' in row, self._sep.encode()
        try:
            text = row.decode()
            if is_open or (quoted and _is_open(row, sep)):
                return [], "a quote is not closed on its line"
            within = rb"(?<![^" + re.escape(sep) + rb'])"(?:[^"]++|"")*+"'
            if b"\r" in row and b"\r" in re.sub(within, b"", row):
                return [], "a carriage return inside the line"
            cells = self._cut(text)
        except UnicodeDecodeError as error:
            return [], f"not UTF-8 text ({error.reason} at byte {error.start})"
        except csv.Error as error:
            return [], f"cannot be read as CSV: {error}"
        expected, reason = len(self.names), ""
        if len(cells) != expected:
            reason = f"{len(cells)} cells where the header names {expected} columns"
            if expected == 1:
                between = SEPARATORS.get(self._sep, self._sep)
                reason += f"; cells are taken to stand between {between}"
        return cells, reason

    def _cut(self, row: str) -> list[str]:
        return next(csv.reader(io.StringIO(row, newline=""), delimiter=self._sep), [])

    def _parsed(self, block: bytes, schema: Any) -> Any:
        table = pc_csv.read_csv(
            pa.py_buffer(block),
            read_options=pc_csv.ReadOptions(
                use_threads=False, column_names=self.names, block_size=len(block) + 1
            ),
            parse_options=pc_csv.ParseOptions(
                delimiter=self._sep, newlines_in_values=b'"' in block
            ),
            convert_options=pc_csv.ConvertOptions(
                column_types=schema,
                include_columns=schema.names,
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
        empty = pa.record_batch([pa.array([], pa.string()) for _ in schema], schema=schema)
        return pa.concat_batches([empty, *table.to_batches()])


def _less_words(batch: Any, clocks: Any, columns: Columns) -> Any:
    """Refuse rows that have a word where the others have a clock, such as averages of all."""
    words = pc.fill_null(pc.match_substring_regex(clocks, "^[A-Za-z]{4}"), False)
    if not pc.any(words).as_py():
        return batch
    batch, refused = refusals(batch)
    for row in np.flatnonzero(words.to_numpy(zero_copy_only=False)).tolist():
        refused[row] = Refusal("a word in the place of a clock", clocks[row].as_py())
    return assemble(columns, batch.columns, refused, lambda _: None)


def _is_clean(block: bytes) -> bool:
    """Return whether every line is UTF-8 and ends where it should."""
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return block.count(b"\r") == block.count(b"\r\n")


def _is_open(row: bytes, sep: bytes) -> bool:
    """Whether a row ends within a quoted cell; a quote within a bare cell is a letter."""
    bare = rb"[^" + re.escape(sep) + rb"]*+"
    cell = rb'(?>"(?:[^"]++|"")*+"' + bare + rb'|(?!")' + bare + rb")"
    before = re.match(rb"(?:" + cell + re.escape(sep) + rb")*+", row)
    return re.fullmatch(cell, row[before.end() if before else 0 :]) is None
