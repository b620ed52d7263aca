"""Where rows come from.

`open_source` finds out what a path holds, and which source reads it: one of ours, or of another
package (`streamddcrp_connectors.run.plugins`). Every source yields ``(batch, offset)``: a canonical
batch (see `streamddcrp_connectors.run.columns`) and a small JSON value: *after the last row of
this batch*. ``read_after(offset)`` goes on from there; ``offset["row"]`` counts the rows so far, so
the rows of a batch are numbered ``offset["row"] - batch.num_rows`` and up, from 0, the header of a
CSV file and blank lines not counted.

Delivery: files are replayable, so a run with a checkpoint learns each row exactly once. Standard
input is not: what a killed process had read is gone, and a checkpoint is refused.

A *live* source, of a server, has ``live = True``; ``docs/live.md`` says what that asks of it. It
may have a method ``committed(offset)``, called when nothing up to ``offset`` is wanted again.

Memory: one batch of rows at a time (Parquet: its pages and one batch).
"""

import inspect
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.looking.cells import Cells
from streamddcrp_connectors.looking.dialect import Dialect
from streamddcrp_connectors.looking.survey import ROWS, Survey, said_of
from streamddcrp_connectors.run.columns import Columns, TimeKind, canonical, chosen
from streamddcrp_connectors.run.contents import HEAD, SUFFIXES, is_document, packing
from streamddcrp_connectors.run.places import Place, is_pattern
from streamddcrp_connectors.run.plugins import SOURCES, find, installed, is_installed
from streamddcrp_connectors.run.textsource import Offset, TextSource, sniff

__all__ = ["Offset", "Source", "open_source"]

_SUFFIXES = {  # besides the sources' own names
    ".ndjson": "jsonl",
    ".pq": "parquet",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}


class Source(Protocol):
    """A stream of batches that can be resumed."""

    name: str
    columns: Columns
    n_rows: int | None  # if known
    replayable: bool

    def identity(self) -> dict[str, Any]:
        """Return the settings that a checkpoint must match."""

    def read_after(self, offset: Offset | None) -> Iterator[tuple[Any, Offset]]:
        """Yield the batches after ``offset`` (None: from the start), each with its own offset.

        A live source yields None for a batch when nothing came, and raises ConnectionError when
        its server is away: it is then called again.
        """

    def close(self) -> None:
        """Close what is open."""


open_csv = partial(TextSource, format="csv")
open_jsonl = partial(TextSource, format="jsonl")
open_lines = partial(TextSource, format="lines")


def open_source(
    spec: str | os.PathLike[str],
    columns: Columns,
    *,
    format: str | None = None,
    batch_rows: int = 1000,
    follow: bool = False,
    idle: float | None = None,
) -> "Source":
    """Open a file, a folder of text files, standard input for ``-``, or another package's source.

    Parameters
    ----------
    format : str, optional
        Name of an installed source. Default: what stands before ``://``, else the name's ending,
        else by the first bytes.
    follow : bool
        Wait at the end of a CSV or JSON lines file for lines to come; at the end of the last file
        of a pattern also for the next file.
    idle : float, optional
        With ``follow``: end after that many seconds without new data.
    """
    if format is not None and not is_installed(SOURCES, format):
        raise ConfigError(f"format must be one of {', '.join(installed(SOURCES))}, got {format!r}")
    if batch_rows < 1:
        raise ConfigError(f"batch_rows must be at least 1, got {batch_rows}")
    name = os.fspath(spec)
    if name == "-":
        if follow:
            message = "standard input is read as it comes; --follow is for a file that is growing"
            raise ConfigError(message)
        return TextSource(sys.stdin.buffer, columns, format=format, batch_rows=batch_rows)
    if "://" in name:
        opener: Any = find(SOURCES, name.partition("://")[0])
        if "format" in inspect.signature(opener).parameters:  # it reads files
            opener = partial(opener, format=format)
        return _open(opener, name, columns, name.partition("://")[0], batch_rows, follow, idle)
    opener = None
    if is_pattern(name) and not Path(name).exists():
        known = (partial(TextSource, format=format or _ending(name)), "csv")
        opener, format = known if follow else (find(SOURCES, "files"), "files")
    elif Path(name).is_dir():
        if follow or format not in {None, "folder"}:
            message = f"{name} is a folder of texts: it has no format, and cannot be followed"
            raise ConfigError(message)
        format = "folder"
    else:
        opener, format = _opener(name, format, follow=follow)
    opener = opener or find(SOURCES, format)
    return _open(opener, name, columns, format, batch_rows, follow, idle)


def _opener(name: str, format: str | None, *, follow: bool) -> tuple[Any, str]:
    """Return what opens one file, if it is not the source of its format, and the format."""
    head = _head(Path(name))
    if head is None:  # a pipe: by its first line, if need be
        return partial(TextSource, format=format), "csv"
    if packing(head) and not (follow and is_document(head)):
        return partial(find(SOURCES, "files"), format=format), "packed"
    known = format or _ending(name)
    found = known or sniff(head, name)
    if known is None and found in ("csv", "jsonl"):  # or lines, as a longer look will show
        return partial(TextSource, format=None), found
    return None, found


def _open(
    opener: Any, name: str, columns: Columns, format: str, batch_rows: int, follow: bool,
    idle: float | None,
) -> "Source":  # fmt: skip
    """Open what ``opener`` reads; only a source with an option ``follow`` can be followed."""
    if not follow or getattr(opener, "live", False):
        source: Source = opener(name, columns, batch_rows=batch_rows)
        return source
    if "follow" not in inspect.signature(opener).parameters:
        message = f"{name} is a {format} file: only CSV and JSON lines can be followed as they grow"
        raise ConfigError(message)
    growing: Source = opener(name, columns, batch_rows=batch_rows, follow=True, idle=idle)
    return growing


def format_of(name: str, head: Callable[[], bytes]) -> tuple[str, bool]:
    """Return the format of a file by its ending, less that of its packing; True if by it alone."""
    known = _ending(name)
    return (known, True) if known else (sniff(head(), name), False)


def _ending(name: str) -> str | None:
    path = Path(name)
    suffix = Path(path.stem).suffix if path.suffix.lower() in SUFFIXES else path.suffix
    ending = suffix.lower()
    known = _SUFFIXES.get(ending, ending[1:])
    return known if is_installed(SOURCES, known) else None


def _head(path: Path) -> bytes | None:
    """Return the first bytes of a file; None for a pipe, which must not be opened twice."""
    try:
        if path.exists() and not path.is_file():
            return None
        with path.open("rb") as file:
            return file.read(HEAD)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error


class _TypedFile(ABC):
    """A file of typed columns; the offset is ``{"row"}``, its size, and digests of its ends."""

    replayable = True
    format: ClassVar[str]
    mapped: ClassVar[bool] = False  # into memory

    def __init__(self, path: str | Place, columns: Columns, batch_rows: int) -> None:
        self._place = path if isinstance(path, Place) else Place.local(path)
        self.name, self._batch_rows = self._place.name, batch_rows
        self.n_rows: int | None = None
        self._file = self._place.open(mapped=self.mapped)
        try:
            if self._file.size() == 0:
                raise SchemaError(f"{self.name} is empty: it has not even a {self.format} header")
            self._typed = look(*self._first(), columns, self.name)
        except BaseException:
            self.close()
            raise
        self.columns, self.understood = self._typed.columns, self._typed.understood

    def identity(self) -> dict[str, Any]:
        return {"path": os.path.realpath(self.name), "format": self.format}

    def read_after(self, offset: Offset | None) -> Iterator[tuple[Any, Offset]]:
        row = 0
        if offset is not None:
            self._place.check(offset)
            row = offset["row"]
        batches, skip = self._batches(), row
        seen, kind = self._place.fingerprint(), self._typed.kind
        while True:
            try:
                raw = next(batches, None)
                if raw is not None:
                    raw.validate(full=True)  # a damaged file must not crash what reads it
                    raw = flat(raw).select(list(self.columns.raw))
            except (pa.ArrowException, OSError) as error:
                raise SchemaError(f"{self.name} is damaged after row {row}: {error}") from error
            if raw is None:
                break
            past = min(skip, raw.num_rows)
            skip -= past
            raw = raw.slice(past)
            if raw.num_rows:
                row += raw.num_rows
                batch, kind = canonical(raw, self.columns, kind, cells=self._typed.cells)
                yield batch, {"row": row} | seen
        if skip:
            message = f"has {row - skip} rows, fewer than the {row} read before: was it replaced?"
            raise SchemaError(f"{self.name} {message}")

    def close(self) -> None:
        self._file.close()

    @abstractmethod
    def _first(self) -> tuple[Any, Callable[[], Iterator[Any]]]:
        """Return the schema, and what yields the first rows."""

    @abstractmethod
    def _batches(self) -> Iterator[Any]:
        """Return all rows."""


class ParquetSource(_TypedFile):
    """Rows of a Parquet file, streamed."""

    format = "parquet"

    def _first(self) -> tuple[Any, Callable[[], Iterator[Any]]]:
        try:
            self._parquet = pq.ParquetFile(
                self._file, pre_buffer=False, buffer_size=1 << 17, page_checksum_verification=True
            )
        except (pa.ArrowException, OSError) as error:
            raise SchemaError(f"{self.name} is not a whole Parquet file: {error}") from error
        self.n_rows = self._parquet.metadata.num_rows
        first = partial(self._parquet.iter_batches, ROWS, use_threads=False)
        return self._parquet.schema_arrow, first

    def _batches(self) -> Iterator[Any]:
        names = list(self.columns.raw)
        batches: Iterator[Any] = self._parquet.iter_batches(
            self._batch_rows, columns=names, use_threads=False
        )
        return batches


class ArrowSource(_TypedFile):
    """Rows of an Arrow IPC file or stream, memory-mapped."""

    format, mapped = "arrow", True

    def _first(self) -> tuple[Any, Callable[[], Iterator[Any]]]:
        schema, batches = self._read()
        return schema, lambda: batches

    def _batches(self) -> Iterator[Any]:
        for batch in self._read()[1]:
            for start in range(0, batch.num_rows, self._batch_rows):
                yield batch.slice(start, self._batch_rows)

    def _read(self) -> tuple[Any, Iterator[Any]]:
        """Return the schema and all batches of the file, opened again."""
        self._file.close()
        self._file = mapped = self._place.open(mapped=True)
        try:
            if mapped.read(6) == b"ARROW1":
                reader = pa.ipc.open_file(mapped)
                batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
                return reader.schema, batches
            mapped.seek(0)
            stream = pa.ipc.open_stream(mapped)
            return stream.schema, iter(stream)
        except (pa.ArrowException, OSError) as error:
            message = f"{self.name} is not a whole Arrow IPC file or stream: {error}"
            raise SchemaError(message) from error


class Typed(NamedTuple):
    """How typed columns are read."""

    columns: Columns
    cells: Cells  # reads columns of text
    kind: TimeKind | None = None  # of the time, where it is in several columns
    found: Survey | None = None  # None: there were no rows
    understood: list[str] = []  # noqa: RUF012 -- never changed


def look(schema: Any, batches: Callable[[], Iterator[Any]], columns: Columns, where: str) -> Typed:
    """Choose the columns that were not named, by the first rows."""
    try:
        schema = flat(_none_of(schema)).schema
        names = schema.names
    except UnicodeDecodeError as error:
        raise SchemaError(f"{where} is damaged: a column's name is no text: {error}") from error
    columns = columns.check(names, where)
    try:
        first = next(iter(batches()), None)
        if first is not None:
            first.validate(full=True)
            first = flat(first)
        texts = [] if first is None else [_as_text(column) for column in first.columns]
    except (pa.ArrowException, OSError) as error:
        raise SchemaError(f"{where} is damaged after row 0: {error}") from error
    dialect = Dialect(missing=columns.reading.missing or ())
    if first is None or not first.num_rows:
        columns = columns.resolve(names, where)
        _check_types(schema, columns, where)
        return Typed(columns, Cells(dialect, typed=True))
    table = pa.record_batch(texts, names=names)
    key = columns.key
    columns, found = chosen(columns, table, dialect, where)
    _check_types(schema, columns, where)
    said = said_of(table, found, columns.reading.clock, key)
    kind = found.kind if len(columns.times) > 1 else None
    return Typed(columns, Cells(dialect, found.habits, typed=True), kind, found, said)


def flat(batch: Any) -> Any:
    """Return a batch with the fields of structs as columns, by names with dots."""
    while any(pa.types.is_struct(field.type) for field in batch.schema):
        columns: dict[str, Any] = {}
        for field, column in zip(batch.schema, batch.columns, strict=True):
            if pa.types.is_struct(field.type):
                names = (f"{field.name}.{part.name}" for part in field.type)
                columns |= dict(zip(names, column.flatten(), strict=True))
            else:
                columns[field.name] = column
        batch = pa.record_batch([*columns.values()], names=[*columns])
    return batch


def _none_of(schema: Any) -> Any:
    return pa.record_batch([pa.nulls(0, field.type) for field in schema], schema=schema)


def _as_text(column: Any) -> Any:
    """Return a column as text; lists and the like become words."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        return pc.cast(column, pa.string())
    except pa.ArrowException:
        lost = column.is_null().to_numpy(zero_copy_only=False)
        return pa.array(np.full(len(column), "a list"), pa.string(), mask=lost)


def _check_types(schema: Any, columns: Columns, where: str) -> None:
    """Refuse columns of an unusable type before any row is read."""
    try:
        canonical(_none_of(schema).select(list(columns.raw)), columns, None, cells=Cells())
    except SchemaError as error:
        raise SchemaError(f"{where}: {error}") from error
