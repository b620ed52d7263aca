"""Where results go.

`open_sink` chooses one of ours, or of another package (`streamddcrp_connectors.run.plugins`). Every
sink is put where a checkpoint recorded that it was (`rewind`), takes batches (`write`), returns its
position once its bytes are on the disk (`sync`), and ends (`finish`, or `abandon` after an error).

Delivery, with a checkpoint that records the position in the same transaction as the states:

* file sinks: each row exactly once, whatever moment the process dies at, since what was written
  after the last commit is cut off before the run goes on. JSON lines are appended to the file
  itself; Parquet and Arrow results are appended to a log in the checkpoint's folder, from which the
  file is made at the end and put in place in one step (the log stays, for rows to come);
* standard output and other pipes: each row at least once; the rows of one batch may be repeated
  after a kill. Their ``row`` column shows which;
* servers (sinks with ``live = True``): `write` only holds the batch, `sync` sends it, and both
  `rewind` and `sync` raise ConnectionError, and are called again, when the server is away.
  ``docs/live.md`` says how each row arrives once.

Without a checkpoint an ended process leaves the JSON lines written so far, and no Parquet or Arrow
file; after an interrupt (Ctrl-C) the file holds all rows up to it.
"""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streamddcrp.checkpoint.codec import sync_folder
from streamddcrp.contract import KINDS, Event
from streamddcrp.errors import CheckpointError, ConfigError, SchemaError
from streamddcrp_connectors.run.log import Log, Position, writing
from streamddcrp_connectors.run.plugins import SINKS, find, is_installed

__all__ = ["Log", "Sink", "json_lines", "open_sink"]

_SUFFIXES = {".pq": "parquet", ".feather": "arrow", ".ipc": "arrow"}  # besides the sinks' names
GROUP_ROWS = 1 << 16  # rows of a Parquet row group or an Arrow batch in a finished file


class Sink(Protocol):
    """A place for batches of results."""

    name: str
    identity: str  # what a checkpoint must agree with

    def rewind(self, position: Any) -> None:
        """Stand where ``position`` (from `sync`) says; None: at the start."""

    def write(self, batch: Any) -> None:
        """Append a batch."""

    def sync(self) -> Any:
        """Force what was written to the disk; return the position, a JSON value."""

    def finish(self) -> None:
        """Complete the output and close."""

    def abandon(self) -> None:
        """Close after an error."""


def open_sink(
    spec: str | os.PathLike[str], stdout: BinaryIO, folder: Path | None, what: str = "output"
) -> "Sink":
    """Choose the sink: ``-`` standard output; by what stands before ``://``, or by the ending.

    Any ending that no installed sink is named by: JSON lines. ``folder`` is that of the checkpoint;
    ``what`` names what is kept in it.
    """
    name = os.fspath(spec)
    if name == "-":
        return StreamSink(stdout, "standard output")
    if "://" in name:
        sink: Sink = find(SINKS, name.partition("://")[0])(name, folder, what)
        return sink
    path = Path(name)
    if path.is_dir() or not path.parent.is_dir():
        what = "is a folder" if path.is_dir() else f"cannot be made: no folder {path.parent}"
        raise ConfigError(f"the sink {name} {what}; name a file, or - for standard output")
    if path.exists() and not path.is_file():  # a device or a named pipe
        return StreamSink(path.open("wb", buffering=0), name, owned=True)
    suffix = path.suffix.lower()
    kind = _SUFFIXES.get(suffix, suffix[1:])
    is_known = is_installed(SINKS, kind)
    if not is_known and suffix in (".csv", ".arrows"):
        message = f"the sink {name} must end in .jsonl, .parquet or .arrow; {suffix} is not written"
        raise ConfigError(message)
    sink = find(SINKS, kind if is_known else "jsonl")(name, folder, what)
    return sink


class JsonLinesSink:
    r"""One JSON object a line, appended to a file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sink = JsonLinesSink(Path(folder, "out.jsonl"))
    ...     sink.rewind(None)
    ...     sink.write(pa.record_batch({"row": [0]}))
    ...     recorded = sink.sync()
    ...     sink.write(pa.record_batch({"row": [1]}))  # not recorded: cut off again
    ...     sink.rewind(recorded)
    ...     sink.finish()
    ...     Path(folder, "out.jsonl").read_text()
    '{"row": 0}\n'
    """

    def __init__(self, path: str | Path, folder: Path | None = None, what: str = "") -> None:
        self.name = str(path)
        self.identity = os.path.realpath(path)
        self._log = Log(Path(path))
        self.rewind, self.sync = self._log.rewind, self._log.sync

    def write(self, batch: Any) -> None:
        self._log.append(json_lines(batch))

    def finish(self) -> None:
        """Close; the file is complete at any time."""
        self._log.close()

    abandon = finish


class StreamSink:
    """One JSON object a line, to a pipe: each row at least once."""

    def __init__(self, stream: BinaryIO, name: str, *, owned: bool = False) -> None:
        self.name = self.identity = name
        self._owned = owned
        self._stream = stream

    def rewind(self, position: Any) -> None:
        """Do nothing: what was written cannot be taken back."""

    def write(self, batch: Any) -> None:
        self._stream.write(json_lines(batch))
        self._stream.flush()

    def sync(self) -> None:
        """Do nothing: a pipe has no position."""

    def finish(self) -> None:
        if self._owned:
            self._stream.close()

    abandon = finish


class RowLog:
    """A log of Arrow batches of one schema, to make a file from in bounded memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._log = Log(path)
        self._schema: Any = None
        self.sync, self.close = self._log.sync, self._log.close

    def rewind(self, position: Position | None) -> None:
        self._log.rewind(position)
        if position is not None and position["bytes"]:
            with pa.OSFile(str(self.path)) as file, pa.ipc.open_stream(file) as reader:
                self._schema = reader.schema

    def write(self, batch: Any) -> None:
        if self._schema is None:
            self._schema = batch.schema
            self._log.append(batch.schema.serialize().to_pybytes())
        if batch.schema != self._schema:
            message = f"the results have other columns than those already in {self.path}"
            raise CheckpointError(message)
        if batch.num_rows:
            self._log.append(batch.serialize().to_pybytes())

    def make(self, target: Path, kind: str) -> None:
        """Make a file, ``"parquet"`` or ``"arrow"``, and put it in place in one step."""
        self.sync()
        temporary = target.with_name(f".{target.name}.tmp")
        with writing(target):
            try:
                self._assemble(temporary, kind)
                with temporary.open("rb") as file:
                    os.fsync(file.fileno())
                temporary.replace(target)
                sync_folder(target.parent)
            finally:
                temporary.unlink(missing_ok=True)

    def _assemble(self, target: Path, kind: str) -> None:
        if self._schema is None:  # no row at all
            self._schema = pa.schema([("row", pa.int64())])
            self.path.write_bytes(self._schema.serialize().to_pybytes())
        new = pq.ParquetWriter if kind == "parquet" else pa.ipc.new_file
        with (
            pa.OSFile(str(self.path)) as file,
            pa.ipc.open_stream(file) as reader,
            new(str(target), self._schema) as writer,
        ):
            held: list[Any] = []
            n_held = 0
            for batch in reader:
                held.append(batch)
                n_held += batch.num_rows
                while n_held >= GROUP_ROWS:
                    rows = pa.concat_batches(held)
                    writer.write_batch(rows.slice(0, GROUP_ROWS))
                    held, n_held = [rows.slice(GROUP_ROWS)], n_held - GROUP_ROWS
            if n_held:
                writer.write_batch(pa.concat_batches(held))


class TableSink:
    """A Parquet or Arrow IPC file, made at the end from a log of Arrow batches.

    The log is called ``what`` in the checkpoint's folder; without one it is beside the file, and is
    removed at the end.
    """

    def __init__(
        self, path: str | Path, folder: Path | None, what: str = "output", *, kind: str
    ) -> None:
        self.name = str(path)
        self.identity = os.path.realpath(path)
        self._path = path = Path(path)
        self._kind = kind
        self._keep = folder is not None
        beside = path.with_name(f".{path.name}.rows")
        self._log = RowLog(beside if folder is None else folder / f"{what}.rows")
        self.rewind, self.write, self.sync = self._log.rewind, self._log.write, self._log.sync

    def finish(self) -> None:
        """Make the file from the log, in bounded memory, and put it in place in one step."""
        self._log.make(self._path, self._kind)
        self.abandon()

    def abandon(self) -> None:
        """Close; without a checkpoint no log is left behind."""
        self._log.close()
        if not self._keep:
            self._log.path.unlink(missing_ok=True)


open_parquet, open_arrow = (partial(TableSink, kind=kind) for kind in ("parquet", "arrow"))


def json_lines(batch: Any) -> bytes:
    r"""Write the rows of a batch as JSON lines; a value that is not finite becomes null.

    Examples
    --------
    >>> json_lines(pa.record_batch({"row": [0, 1], "score": [0.5, None]}))
    b'{"row": 0, "score": 0.5}\n{"row": 1, "score": null}\n'
    """
    columns = [_json_cells(column) for column in batch.columns]
    names = [json.dumps(name) for name in batch.schema.names]
    lines = (
        "{" + ", ".join([f"{name}: {cell}" for name, cell in zip(names, row, strict=True)]) + "}\n"
        for row in zip(*columns, strict=True)
    )
    return "".join(lines).encode()


def _json_cells(column: Any) -> list[str]:
    """Return each cell as JSON text."""
    if pa.types.is_timestamp(column.type):
        return [json.dumps(text and _iso(text)) for text in column.cast(pa.string()).to_pylist()]
    if pa.types.is_floating(column.type):
        values = column.to_numpy(zero_copy_only=False)
        finite = np.isfinite(values)
        pairs = zip(values.tolist(), finite.tolist(), strict=True)
        return [repr(value) if good else "null" for value, good in pairs]
    encode = str if pa.types.is_integer(column.type) else json.dumps
    return ["null" if value is None else encode(value) for value in column.to_pylist()]


def _iso(text: str) -> str:
    """Turn Arrow's text of a time stamp into ISO 8601 without idle zeros."""
    body, zone = (text[:-1], "Z") if text.endswith("Z") else (text, "")
    if "." in body:
        body = body.rstrip("0").rstrip(".")
    return body.replace(" ", "T") + zone


_COLUMNS = ("index", "kind", "label", "into")


def read_written(path: Path, columns: list[str] | None = None) -> Any:
    """Read a Parquet, JSON lines or Arrow file whole, as a table."""
    if path.suffix in (".parquet", ".pq"):
        from pyarrow import parquet  # noqa: PLC0415 -- heavy

        return parquet.read_table(path, columns=columns)
    if path.suffix in (".arrow", ".feather", ".ipc"):
        with pa.memory_map(os.fspath(path)) as source:
            return pa.ipc.open_file(source).read_all()
    from pyarrow import json  # noqa: PLC0415

    return json.read_json(path) if path.stat().st_size else pa.table({})


def read_events(
    path: str | os.PathLike[str], key: str | None, n_rows: int
) -> tuple[tuple[Event, str | None], ...]:
    """Read what ``run --events`` wrote, of one key, each event with its reasons in words.

    Candidates, which may dissolve, are left out. The results have ``n_rows`` rows of that key;
    events of other results are refused.
    """
    name = os.fspath(path)
    try:
        table = read_written(Path(path))
    except (OSError, pa.ArrowInvalid) as error:
        raise ConfigError(f"cannot read the events {name}: {error}") from error
    if not len(table):
        return ()
    missing = [column for column in _COLUMNS if column not in table.column_names]
    if missing:
        message = f"{name} is not what `run --events` writes: it has no column {missing[0]!r}"
        raise ConfigError(message)
    of_keys = "key" in table.column_names
    found = []
    for row, cells in enumerate(table.to_pylist()):
        if of_keys and str(cells["key"]) != key:
            continue
        kind, label, index, into = (cells[column] for column in ("kind", "label", "index", "into"))
        whole = isinstance(index, int) and isinstance(label, int) and isinstance(into, int | None)
        if not whole or kind not in (*KINDS, "candidate", "closed") or not 0 <= index < n_rows:
            message = f"{name}: row {row} is not an event of these results of {n_rows:,} rows"
            raise SchemaError(message, row=row)
        if kind != "candidate":
            found.append((Event(kind, label, index, float(index), into), cells.get("why")))
    return tuple(found)
