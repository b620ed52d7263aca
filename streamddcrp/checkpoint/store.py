"""States of many models and the source's cursor in one SQLite file, committed together.

The file is in write-ahead mode with ``synchronous=FULL``: `SqliteStore.commit` returns when the
states *and* the cursor are on the disk, and a crash at any moment leaves the last complete commit.
While a store is open no other process can open it, so two runs cannot share a checkpoint by
mistake.

Each state and cursor has a digest, and all of them together have one: a file that lost a key, or
contains foreign data, is refused when opened.

States that do not fit into memory are moved between commits to a temporary file that SQLite deletes
(in $SQLITE_TMPDIR, $TMPDIR or /var/tmp); committed data do not change.
"""

import hashlib
import hmac
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, Self

from streamddcrp.checkpoint.codec import MAX_BYTES, state_key
from streamddcrp.errors import CheckpointError

_APPLICATION_ID = 0x5DDC
_VERSION = 1
_PAGE = 16384  # bytes; a state has many kB
_STATES = (
    "state(op text not null, key text not null, blob blob not null, digest blob not null, "
    "primary key(op, key))"
)
_CURSORS = "cursor(source text primary key, offset text not null, digest blob not null)"
_WHOLE = "whole(n integer not null, total blob not null, digest blob not null)"
_SCHEMA = {f"CREATE TABLE {table}" for table in (_STATES, _CURSORS, _WHOLE)}
_LEAST = 64  # bytes of a state with its digest
_LIMITS = {  # limits of SQLite, as low as possible
    sqlite3.SQLITE_LIMIT_LENGTH: MAX_BYTES + (1 << 16),
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 1 << 12,
    sqlite3.SQLITE_LIMIT_COLUMN: 8,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 32,
    sqlite3.SQLITE_LIMIT_ATTACHED: 1,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
}
_SETTINGS = (
    f"page_size={_PAGE}", "locking_mode=exclusive", "trusted_schema=off", "cell_size_check=on",
    "mmap_size=0", "journal_mode=wal", "synchronous=full",
)  # fmt: skip
_MODULUS = 1 << 256
_PUT = "values(?, ?, ?, ?) on conflict do update set blob = excluded.blob, digest = excluded.digest"


class SqliteStore:
    """Keep states by operator and key, and a cursor by source, with atomic commits.

    Parameters
    ----------
    path : str or path-like, optional
        File of the store; created, with its folder, if absent. None: a temporary file.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with SqliteStore(pathlib.Path(folder, "state.sqlite")) as store:
    ...         store.commit("model", {"a": b"state of a"}, "rows", {"row": 100})
    ...         store.get("model", "a"), store.get("model", "b"), store.offset("rows")
    (b'state of a', None, {'row': 100})
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        self.path = Path("(temporary)" if path is None else path)
        with self._guard("open"):
            if "\0" in str(self.path):
                raise OSError("a path has no NUL")
            if path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(
                path or "", timeout=0.5, isolation_level=None,
                check_same_thread=False,  # callers hold the lock of its model
            )  # fmt: skip
        try:
            self._prepare()
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        with self._guard("open"):
            for setting in _SETTINGS:
                self._db.execute(f"pragma {setting}")
            for limit, most in _LIMITS.items():
                self._db.setlimit(limit, most)
            self._db.execute("attach '' as aside")
            self._db.execute(f"pragma aside.page_size={_PAGE}")
            self._db.execute("pragma aside.synchronous=off")
            self._db.execute("begin exclusive")
            self._db.execute(f"create table aside.{_STATES}")
            found = self._db.execute("pragma application_id").fetchone()[0]
            version = self._db.execute("pragma user_version").fetchone()[0]
            empty = self._db.execute("select count(*) from sqlite_master").fetchone()[0] == 0
            if not empty and found != _APPLICATION_ID:
                raise CheckpointError(
                    f"{self.path} is a database of another program; choose another checkpoint"
                )
            if version > _VERSION:
                raise CheckpointError(
                    f"{self.path} was written by a newer streamddcrp; install that release"
                )
            if empty:
                self._db.execute(f"pragma application_id={_APPLICATION_ID}")
                self._db.execute(f"pragma user_version={_VERSION}")
                for table in _SCHEMA:
                    self._db.execute(table)
                self._db.execute("insert into whole values(0, ?, ?)", _sealed(0, 0))
            if [row[0] for row in self._db.execute("pragma main.quick_check(1)")] != ["ok"]:
                self._damaged()
            self._n, self._total = self._whole()
            self._db.execute("commit")

    def _whole(self) -> tuple[int, int]:
        """Return the checked number of states and cursors, and the sum of their digests."""
        made = {row[0] for row in self._db.execute("select sql from sqlite_master where sql != ''")}
        rows = self._db.execute("select * from whole limit 2").fetchall() if made == _SCHEMA else []
        pages = self._db.execute("pragma page_count").fetchone()[0]
        if len(rows) == 1 and type(rows[0][0]) is int and 0 <= rows[0][0] <= pages * _PAGE / _LEAST:
            n = rows[0][0]
            found, total, keys, indexed = 0, 0, 0, 0
            for table, name in (("state", "op, key"), ("cursor", "source, ''")):
                query = f"select {name}, digest from main.{table} not indexed limit {n + 1}"
                for *key, digest in self._db.execute(query):
                    found += 1
                    total += int.from_bytes(digest if isinstance(digest, bytes) else b"", "little")
                    keys += hash((table, *key))
                query = (
                    f"select {name} from main.{table} indexed by sqlite_autoindex_{table}_1 "
                    f"limit {n + 1}"
                )
                indexed += sum(hash((table, *key)) for key in self._db.execute(query))
            total %= _MODULUS
            if found == n and keys == indexed and rows[0][1:] == _sealed(n, total):
                return n, total
        self._damaged()

    def _damaged(self) -> NoReturn:
        raise CheckpointError(
            f"{self.path} is damaged (states are missing or changed), or was written with another "
            "STREAMDDCRP_STATE_KEY; restore it from a copy, or set the key"
        )

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
        """Return the last state stored or committed for ``key`` of operator ``op``, or None."""
        with self._guard("read"):
            for place in ("aside", "main"):
                row = self._db.execute(
                    f"select blob, digest from {place}.state where op=? and key=?", (op, key)
                ).fetchone()
                if row is not None:
                    self._check(row[1], op, key, row[0], what=f"the state of key {key!r}")
                    return bytes(row[0])
        return None

    def keys(self, op: str) -> list[str]:
        """Return the keys of operator ``op``, sorted."""
        with self._guard("read"):
            rows = self._db.execute(
                "select key from main.state where op=? union "
                "select key from aside.state where op=? order by key",
                (op, op),
            )
            return [row[0] for row in rows]

    def states(self, op: str) -> Iterator[tuple[str, bytes]]:
        """Yield the keys of operator ``op``, sorted, and their states."""
        for key in self.keys(op):
            blob = self.get(op, key)
            if blob is None:  # the file was changed while open
                self._damaged()
            yield key, blob

    def put_aside(self, op: str, states: Iterable[tuple[str, bytes]]) -> None:
        """Store states by key until the next commit includes them; a crash loses them."""
        rows = ((op, key, blob, _digest(op, key, blob)) for key, blob in states)
        with self._guard("write"):
            self._db.executemany(f"insert into aside.state {_PUT}", rows)

    @contextmanager
    def undoing(self) -> Iterator[None]:
        """Undo states stored within the block if it fails. The block must not commit."""
        with self._guard("write"):
            self._db.execute("begin")
        try:
            yield
        except BaseException:
            self._db.rollback()
            raise
        with self._guard("write"):
            self._db.execute("commit")

    def commit(
        self,
        op: str,
        dirty: Mapping[str, bytes] | Iterable[tuple[str, bytes]],
        source: str,
        offset: Any,
    ) -> None:
        """Write the changed states of ``op`` and the cursor in one transaction.

        Parameters
        ----------
        dirty : mapping of str to bytes, or iterable of (str, bytes)
            States by key that changed since the last commit, besides those already stored.
        offset : JSON value
            Position of ``source`` *after* the last row that the states have learned.
        """
        text = json.dumps(offset, sort_keys=True)
        states = dirty.items() if isinstance(dirty, Mapping) else dirty
        with self._guard("write"):
            self._db.execute("begin immediate")
            n, total = self._n, self._total
            query = "select m.digest from aside.state join main.state m using(op, key)"
            for (old,) in self._db.execute(query):
                n, total = n - 1, total - int.from_bytes(old, "little")
            for (new,) in self._db.execute("select digest from aside.state"):
                n, total = n + 1, total + int.from_bytes(new, "little")
            self._db.execute("insert or replace into main.state select * from aside.state")
            self._db.execute("delete from aside.state")
            for key, blob in states:
                new = _digest(op, key, blob)
                n, total = self._swapped(n, total, "state where op=? and key=?", (op, key), new)
                self._db.execute(f"insert into main.state {_PUT}", (op, key, blob, new))
            new = _digest(source, text.encode())
            n, total = self._swapped(n, total, "cursor where source=?", (source,), new)
            self._db.execute("insert or replace into cursor values(?,?,?)", (source, text, new))
            total %= _MODULUS
            self._db.execute("update whole set n=?, total=?, digest=?", (n, *_sealed(n, total)))
            self._db.execute("commit")
            self._n, self._total = n, total

    def _swapped(
        self, n: int, total: int, place: str, key: tuple[str, ...], new: bytes
    ) -> tuple[int, int]:
        """Return a key's number and sum of digests after a digest is replaced."""
        old = self._db.execute(f"select digest from main.{place}", key).fetchone()
        if old is not None:
            n, total = n - 1, total - int.from_bytes(old[0], "little")
        return n + 1, total + int.from_bytes(new, "little")

    def close(self) -> None:
        """Release the file; committed data stay."""
        with self._guard("close"):
            self._db.close()

    def __del__(self) -> None:
        with suppress(AttributeError):  # it was never opened
            self._db.close()  # newer Pythons warn of one that is dropped open, such as a temporary

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self, digest: bytes, *parts: str | bytes, what: str) -> None:
        if digest != _digest(*parts):
            raise CheckpointError(f"{what} in {self.path} is damaged; restore the file from a copy")

    @contextmanager
    def _guard(self, action: str) -> Iterator[None]:
        """Roll back on any failure; report errors of SQLite or the system as CheckpointError."""
        try:
            yield
        except BaseException as error:
            with suppress(AttributeError, sqlite3.Error):  # never opened, or closed
                self._db.rollback()
            if not isinstance(error, sqlite3.Error | OSError):
                raise
            if "locked" in str(error):
                message = f"the checkpoint {self.path} is in use by another run; wait for it to end"
            else:
                message = f"cannot {action} the checkpoint {self.path}: {error}"
            raise CheckpointError(message) from error


def _sealed(n: int, total: int) -> tuple[bytes, bytes]:
    """Return a stored sum of ``n`` digests, and the digest of both."""
    data = total.to_bytes(32, "little")
    return data, _digest("whole", str(n), data)


def _digest(*parts: str | bytes) -> bytes:
    """SHA-256 of the parts, each with its length; an HMAC where the environment has a key."""
    key = state_key()
    total = hashlib.sha256() if key is None else hmac.new(key, digestmod="sha256")
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.digest()
