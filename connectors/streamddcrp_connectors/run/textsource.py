"""Rows of text: CSV and JSON lines from a file, a growing file, or a pipe."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.csvrows import CsvRows
from streamddcrp_connectors.run.jsonrows import JsonRows
from streamddcrp_connectors.run.lines import LineReader
from streamddcrp_connectors.run.rowformat import RowFormat

__all__ = ["Offset", "TextSource", "sniff"]

Offset = dict[str, Any]

_BLANK = b"\xef\xbb\xbf \t\r\n"
_PACKED = {b"\x1f\x8b": "zcat", b"(\xb5\x2f\xfd": "zstdcat", b"BZh": "bzcat", b"\xfd7zXZ": "xzcat"}


def sniff(head: bytes, name: str) -> str:
    """Return the format that the first bytes show."""
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    for magic, tool in _PACKED.items():
        if head.startswith(magic):
            message = f"{name} is compressed; unpack it first: {tool} {name} | streamddcrp run -"
            raise ConfigError(message)
    return "jsonl" if head.lstrip(_BLANK).startswith(b"{") else "csv"


class TextSource:
    """Each line one row. The offset is ``{"byte", "row", "kind", "head"}``.

    That is: position, rows so far, kind of the time column, and a digest of the first line, by
    which a file that was replaced is recognised.

    Parameters
    ----------
    origin : str, Path or binary file
        A regular file can be replayed; a pipe cannot.
    columns : Columns
    format : {"csv", "jsonl"} or None
        None: by the first line.
    batch_rows : int
        Most rows in a batch. A pipe and a growing file hand over the lines there are.
    follow : bool
        Wait for lines to come. A line without its line feed is not read.
    idle : float, optional
        With ``follow``: end after that many seconds without new data.
    """

    def __init__(
        self,
        origin: str | Path | BinaryIO,
        columns: Columns,
        *,
        format: str | None,
        batch_rows: int,
        follow: bool = False,
        idle: float | None = None,
    ) -> None:
        origin = Path(origin) if isinstance(origin, str) else origin
        self.replayable = isinstance(origin, Path) and origin.is_file()
        self.name = str(origin) if isinstance(origin, Path) else "standard input"
        self.n_rows: int | None = None
        self._batch_rows = batch_rows
        self._owned = origin.open("rb", buffering=0) if isinstance(origin, Path) else None
        stream: Any = origin if self._owned is None else self._owned
        self._reader = LineReader(
            stream, self.name, live=not self.replayable, follow=follow, idle=idle
        )
        try:
            self._look(columns, format)
        except BaseException:
            self.close()
            raise

    def _look(self, columns: Columns, format: str | None) -> None:
        """Read as much as shows the format and the columns."""
        self._first = self._first_line()
        self._format = format or sniff(self._first[:64], self.name)
        self._rows: RowFormat
        if self._format == "csv":
            self._rows = rows = CsvRows(self._first, self.name)
            self.columns = columns.resolve(rows.names, self.name)
        elif self._format == "jsonl":
            self._rows = JsonRows()
            peeked = self._first
            if columns.features:
                self.columns = columns
            else:
                self.columns, peeked = self._columns_of_first_object(columns)
            self._reader.push_back(peeked)
        else:
            message = f"{self.name} can carry CSV or JSON lines, not {self._format}; make it a file"
            raise ConfigError(message)
        self._start = self._reader.position

    def identity(self) -> dict[str, Any]:
        """Say what a checkpoint must agree with."""
        return {"path": os.path.realpath(self.name), "format": self._format}

    def read_after(self, offset: Offset | None) -> Iterator[tuple[Any, Offset]]:
        """Yield the batches after ``offset``, each with its own offset."""
        head = hashlib.sha256(self._first.rstrip(b"\r\n")).hexdigest()[:16]
        byte, row, kind = self._start, 0, None
        if offset is not None:
            if offset["head"] != head:
                message = f"{self.name} begins with another line than before: was it replaced?"
                raise SchemaError(message)
            byte, row, kind = offset["byte"], offset["row"], offset["kind"]
        if self.replayable:
            self._reader.seek(byte)
        for block in self._reader.blocks(self._batch_rows):
            byte += len(block)
            batch, kind = self._rows.decode(block, self.columns, kind)
            if batch.num_rows:
                row += batch.num_rows
                yield batch, {"byte": byte, "row": row, "kind": kind, "head": head}

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self._owned is not None:
            self._owned.close()

    def _first_line(self) -> bytes:
        line = self._reader.line()
        while line and not line.strip(_BLANK):
            line = self._reader.line()
        if not line:
            message = f"{self.name} is empty: it holds no rows"
            raise SchemaError(message)
        return line

    def _columns_of_first_object(self, columns: Columns) -> tuple[Columns, bytes]:
        """Take the names from the first line that is an object; also return the lines read."""
        line = read = self._first
        while line:
            try:
                names = list(JsonRows.read(line))
            except ValueError:
                line = self._reader.line()
                read += line
            else:
                return columns.resolve(names, self.name), read
        message = f"{self.name} holds no JSON object to take the features from; name the features"
        raise SchemaError(message)
