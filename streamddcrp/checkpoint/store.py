"""States of many models and the source's cursor in one SQLite file, committed together.

The file is in write-ahead mode with ``synchronous=FULL``: `SqliteStore.commit` returns when the
states *and* the cursor have reached the disk, and a process or machine that dies at any moment
leaves the last complete commit. While a store is open no other process can open it, so two runs
cannot share a checkpoint by mistake.
"""

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from streamddcrp.errors import CheckpointError

__all__ = ["SqliteStore"]

_APPLICATION_ID = 0x5DDC
_VERSION = 1
_TABLES = (
    "create table if not exists state(op text not null, key text not null, blob blob not null, "
    "digest blob not null, primary key(op, key)) without rowid",
    "create table if not exists cursor(source text primary key, offset text not null, "
    "digest blob not null) without rowid",
)


class SqliteStore:
    """Keep states by operator and key, and a cursor by source, with atomic commits.

    Parameters
    ----------
    path : str or path-like
        File of the store; made, with its folder, if absent.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with SqliteStore(pathlib.Path(folder, "state.sqlite")) as store:
    ...         store.commit("model", {"a": b"state of a"}, "rows", {"row": 100})
    ...         store.get("model", "a"), store.get("model", "b"), store.offset("rows")
    (b'state of a', None, {'row': 100})
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        with self._guard("open"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, timeout=0.5, isolation_level=None)
        try:
            self._prepare()
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        with self._guard("open"):
            self._db.execute("pragma locking_mode=exclusive")
            self._db.execute("pragma journal_mode=wal")
            self._db.execute("pragma synchronous=full")
            self._db.execute("begin exclusive")
            found = self._db.execute("pragma application_id").fetchone()[0]
            version = self._db.execute("pragma user_version").fetchone()[0]
            empty = self._db.execute("select count(*) from sqlite_master").fetchone()[0] == 0
            if not empty and found != _APPLICATION_ID:
                message = f"{self.path} is a database of another program; choose another checkpoint"
                raise CheckpointError(message)
            if version > _VERSION:
                message = f"{self.path} was written by a newer streamddcrp; install that release"
                raise CheckpointError(message)
            if empty:
                self._db.execute(f"pragma application_id={_APPLICATION_ID}")
                self._db.execute(f"pragma user_version={_VERSION}")
                for statement in _TABLES:
                    self._db.execute(statement)
            self._db.execute("commit")

    def offset(self, source: str) -> Any | None:
        """Return the JSON value last committed for ``source``, or None."""
        with self._guard("read"):
            row = self._db.execute(
                "select offset, digest from cursor where source=?", (source,)
            ).fetchone()
        if row is None:
            return None
        self._check(row[1], source, row[0].encode(), what=f"the cursor of {source!r}")
        return json.loads(row[0])

    def get(self, op: str, key: str) -> bytes | None:
        """Return the state last committed for ``key`` of operator ``op``, or None."""
        with self._guard("read"):
            row = self._db.execute(
                "select blob, digest from state where op=? and key=?", (op, key)
            ).fetchone()
        if row is None:
            return None
        self._check(row[1], op, key, row[0], what=f"the state of key {key!r}")
        return bytes(row[0])

    def keys(self, op: str) -> list[str]:
        """Return the keys of operator ``op``, sorted."""
        with self._guard("read"):
            rows = self._db.execute("select key from state where op=? order by key", (op,))
            return [row[0] for row in rows]

    def commit(self, op: str, dirty: Mapping[str, bytes], source: str, offset: Any) -> None:
        """Write the changed states and the cursor in one transaction: all or nothing.

        Parameters
        ----------
        op : str
            Operator the states belong to.
        dirty : mapping of str to bytes
            States by key that changed since the last commit.
        source : str
        offset : JSON value
            Where ``source`` stands *after* the last row that the states have learned.
        """
        text = json.dumps(offset, sort_keys=True)
        states = [(op, key, blob, _digest(op, key, blob)) for key, blob in dirty.items()]
        with self._guard("write"):
            self._db.execute("begin immediate")
            self._db.executemany("insert or replace into state values(?,?,?,?)", states)
            self._db.execute(
                "insert or replace into cursor values(?,?,?)",
                (source, text, _digest(source, text.encode())),
            )
            self._db.execute("commit")

    def close(self) -> None:
        """Release the file; what was committed stays."""
        with self._guard("close"):
            self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _check(self, digest: bytes, *parts: str | bytes, what: str) -> None:
        if digest != _digest(*parts):
            message = f"{what} in {self.path} is damaged; restore the file from a copy"
            raise CheckpointError(message)

    @contextmanager
    def _guard(self, action: str) -> Iterator[None]:
        """Roll back on any failure, and report one of SQLite or the system as CheckpointError."""
        try:
            yield
        except BaseException as error:
            if getattr(self, "_db", None) is not None and self._db.in_transaction:
                self._db.rollback()
            if not isinstance(error, sqlite3.Error | OSError):
                raise
            if "locked" in str(error):
                message = f"the checkpoint {self.path} is in use by another run; wait for it to end"
            else:
                message = f"cannot {action} the checkpoint {self.path}: {error}"
            raise CheckpointError(message) from error


def _digest(*parts: str | bytes) -> bytes:
    """SHA-256 of the parts, each with its length, so that no two lists of parts read the same."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.digest()
