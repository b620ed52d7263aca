"""Delta tables in local folders: ``delta:///data/table``, or ``delta://table``.

The source reads the rows that each version of a table appends, in version order. Its place is a
version, a file in it and a row. The sink appends in transactions that also record, under the job's
name, how many rows it has written.
"""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from streamddcrp.checkpoint.codec import sync_folder
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.live.counted import CountedSink
from streamddcrp_connectors.live.messages import TableSource
from streamddcrp_connectors.run.address import Address
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.gather import POLL

_LOG = "_delta_log"
_START = {"version": 0, "file": 0, "rows": 0}
_READABLE = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "typeWidening"}


class DeltaSource(TableSource):
    """Rows appended to a table; the place is ``{"version", "file", "rows"}``.

    A table with changed or deleted rows is refused once this is seen. Files that compaction only
    rewrote are skipped.
    """

    def __init__(self, spec: str, columns: Columns, batch_rows: int) -> None:
        address, self._folder = _place(spec)
        super().__init__(address.name, columns, batch_rows)

    def after(self, at: Any) -> Iterator[tuple[Any, Any]]:
        at = dict(at or _START)
        if not self._folder.joinpath(_LOG).is_dir():
            message = f"{self.name}: there is no Delta table in {self._folder}; make it first"
            raise ConfigError(message)
        while True:
            files = self._appended(at["version"])
            if files is None:
                yield None, dict(at)
                continue
            for path in files[at["file"] :]:
                for raw in self._rows(path, at["rows"]):
                    at["rows"] += raw.num_rows
                    yield raw, dict(at)
                at |= {"file": at["file"] + 1, "rows": 0}
            at = {"version": at["version"] + 1, "file": 0, "rows": 0}

    def close(self) -> None:
        """Do nothing, since no file stays open."""

    def _appended(self, version: int) -> list[str] | None:
        """Return the files that a version appends, or after a wait None if it does not exist."""
        log = self._folder / _LOG
        try:
            text = (log / f"{version:020d}.json").read_text(encoding="utf-8")
        except FileNotFoundError:
            stems = [path.stem for path in log.glob("*.json")]
            if any(stem.isdecimal() and int(stem) > version for stem in stems):
                raise SchemaError(
                    f"{self.name}: version {version} was cleaned up before it was read. Start with "
                    "a new checkpoint folder, on a table whose log is whole"
                ) from None
            time.sleep(POLL)
            return None
        found = []
        for action in map(json.loads, text.splitlines()):
            self._check(action, version)
            if action.get("add", {}).get("dataChange"):
                found.append(unquote(action["add"]["path"]))
        return found

    def _check(self, action: dict[str, Any], version: int) -> None:
        """Refuse changes that an append-only reader cannot follow."""
        problem = None
        if action.get("remove", {}).get("dataChange"):
            problem = "changes or deletes rows, which were learned"
        elif (action.get("add") or {}).get("deletionVector"):
            problem = "has deletion vectors"
        elif unknown := set(action.get("protocol", {}).get("readerFeatures", ())) - _READABLE:
            problem = f"needs {', '.join(sorted(unknown))}, which this reader does not know"
        elif action.get("metaData", {}).get("configuration", {}).get("delta.columnMapping.mode"):
            problem = "maps its columns to other names (column mapping)"
        elif set(action.get("metaData", {}).get("partitionColumns", ())) & set(self.columns.names):
            problem = "is partitioned by one of the columns to read"
        if problem:
            raise SchemaError(f"{self.name}: version {version} {problem}")

    def _rows(self, path: str, skip: int) -> Iterator[Any]:
        """Yield the rows of a file after the first ``skip``."""
        try:
            with pq.ParquetFile(self._folder / path) as file:
                found = self.columns.resolve(file.schema_arrow.names, f"{self.name}: {path}")
                names = list(found.names)
                for raw in file.iter_batches(self._batch_rows, columns=names, use_threads=False):
                    past = min(skip, raw.num_rows)
                    skip -= past
                    if past < raw.num_rows:
                        yield raw.slice(past).select(names)
        except (pa.ArrowException, OSError) as error:
            raise SchemaError(f"{self.name}: {path} cannot be read: {error}") from error


class DeltaSink(CountedSink):
    """Rows appended to a table, which is created if missing."""

    def __init__(self, spec: str, folder: Any, what: str) -> None:
        address, self._folder = _place(spec)
        super().__init__(address, what)
        self._table: Any = None

    def arrived(self, job: str, recorded: int) -> int:
        try:
            self._table = DeltaTable(self._folder)
        except TableNotFoundError:
            self._table = None
            return 0
        except DeltaError as error:
            raise ConfigError(f"{self.name}: {error}") from error
        return int(self._table.transaction_version(job) or 0)

    def send(self, job: str, first: int, batch: Any) -> None:
        """Append and count the rows in one transaction."""
        count = Transaction(job, first + batch.num_rows)
        try:
            write_deltalake(
                self._folder if self._table is None else self._table,
                pa.Table.from_batches([batch]),
                mode="append",
                commit_properties=CommitProperties(app_transactions=[count]),
            )
            self._table = self._table or DeltaTable(self._folder)
        except (DeltaError, ValueError, pa.ArrowException) as error:
            raise ConfigError(f"{self.name}: {error}") from error
        self._force(self._table.version())

    def finish(self) -> None:
        """Do nothing, since no file stays open."""

    def _force(self, version: int) -> None:
        """Flush a new version to the disk, which the library does not do."""
        log = self._folder / _LOG / f"{version:020d}.json"
        actions = map(json.loads, log.read_text(encoding="utf-8").splitlines())
        added = [unquote(action["add"]["path"]) for action in actions if "add" in action]
        for path in (log, *(self._folder / name for name in added)):
            with path.open("rb") as file:
                os.fsync(file.fileno())
        sync_folder(log.parent)
        sync_folder(self._folder)


def _place(spec: str) -> tuple[Address, Path]:
    """Return the address with an absolute path, and the folder."""
    path = spec.partition("://")[2]
    if not path or "?" in path:
        raise ConfigError(f"{spec} must be delta://folder, without options")
    folder = Path(os.path.realpath(path))
    return Address("delta", (), None, str(folder).strip("/"), {}, {}), folder
