"""Rows of text: CSV and JSON lines from a file, a growing file, or a pipe."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.csvrows import CsvRows
from streamddcrp_connectors.run.fingerprint import check_fingerprint, fingerprint, reading
from streamddcrp_connectors.run.jsonrows import JsonRows
from streamddcrp_connectors.run.lines import LineReader
from streamddcrp_connectors.run.places import Place, packing

Offset = dict[str, Any]

_BLANK = b"\xef\xbb\xbf \t\r\n"
_JSON_ARRAY = re.compile(rb"(\xef\xbb\xbf)?\s*\[\s*(\{|$)")


def sniff(head: bytes, name: str) -> str:
    """Return the format that the first bytes show."""
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    if packing(head, name):
        message = f"{name} is compressed; decompress it first, or write it to a file"
        raise ConfigError(message)
    if head.startswith(b"PK\x03\x04"):
        message = f"{name} is a spreadsheet or an archive; save it as CSV first"
        raise ConfigError(message)
    if _JSON_ARRAY.match(head):
        message = (
            f"{name} is one JSON array; write each of its objects on a line of its own: "
            f"jq -c '.[]' {name} > rows.jsonl"
        )
        raise ConfigError(message)
    return "jsonl" if head.lstrip(_BLANK).startswith(b"{") else "csv"


class TextSource:
    """Each line one row. The offset is ``{"byte", "row", "kind", "head", "last"}``.

    That is: position, rows so far, kind of the time column, and digests of what was read, by which
    a file that was replaced is recognised; of a `Place`, digests and size of the file as it lies
    there.

    Parameters
    ----------
    origin : str, Path, Place or binary file
        A regular file can be replayed; a pipe cannot. A `Place` is read from its start to its end,
        and read over to go on in it.
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
        origin: str | Path | Place | BinaryIO,
        columns: Columns,
        *,
        format: str | None,
        batch_rows: int,
        follow: bool = False,
        idle: float | None = None,
    ) -> None:
        origin = Path(origin) if isinstance(origin, str) else origin
        whole = isinstance(origin, Place) or (isinstance(origin, Path) and origin.is_file())
        self.replayable = whole
        self.n_rows: int | None = None
        self.live = follow
        self._batch_rows = batch_rows
        self._place = origin if isinstance(origin, Place) else None
        self._owned: Any = None
        stream: Any = origin
        self.name = "standard input"
        if isinstance(origin, Place):
            self.name = origin.name
            self._seen = origin.fingerprint()
            stream = self._owned = origin.unpacked()
        elif isinstance(origin, Path):
            self.name = str(origin)
            stream = self._owned = origin.open("rb", buffering=0)
        self._reader = LineReader(stream, self.name, live=not whole, follow=follow, idle=idle)
        try:
            self._look(columns, format)
        except BaseException:
            self.close()
            raise

    def _look(self, columns: Columns, format: str | None) -> None:
        """Read as much as shows the format and the columns."""
        self._first = self._first_line()
        self._format = format or sniff(self._first[:64], self.name)
        self._rows: CsvRows | JsonRows
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
        byte, row, kind = self._start, 0, None
        if offset is not None:
            byte, row, kind = offset["byte"], offset["row"], offset["kind"]
        if self._place is not None:
            if (byte, offset) != (self._reader.position, None):
                self._go_to(self._place, byte, offset)
        elif self.replayable:
            number = self._owned.fileno()
            if offset is not None:
                size = os.fstat(number).st_size
                check_fingerprint(reading(number), size, byte, offset, self.name)
            self._reader.seek(byte)

        def here() -> Offset:
            seen = {}
            if self._place is not None:
                seen = self._seen
            elif self.replayable:
                seen = fingerprint(reading(self._owned.fileno()), byte)
            return {"byte": byte, "row": row, "kind": kind} | seen

        for block in self._reader.blocks(self._batch_rows):
            if not block:
                yield None, here()
                continue
            byte += len(block)
            batch, kind = self._rows.decode(block, self.columns, kind)
            if batch.num_rows:
                row += batch.num_rows
                yield batch, here()

    def _go_to(self, place: Place, byte: int, offset: Offset | None) -> None:
        """Read on at a byte of what a file holds, if it is the one that was read before."""
        if offset is not None:
            place.check(offset)
        self._owned.close()
        self._owned = place.unpacked(byte)
        self._reader.go_on(self._owned, byte)

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
