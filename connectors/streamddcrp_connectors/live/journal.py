"""A durable queue of messages on the local disk, for senders that cannot repeat them.

`Journal.put` returns once the message is on the disk, so that a server can confirm it. The run
reads messages by number, repeatedly if needed, and trims those covered by a checkpoint.
"""

import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from streamddcrp.errors import CheckpointError, ConfigError, StreamDDCRPError

NAME = "journal.sqlite"
MAX_KEY = 64  # bytes
_PAGE = 4096
_SETTINGS = "pragma locking_mode=exclusive; pragma journal_mode=wal; pragma synchronous=full"
_TABLES = (
    "create table if not exists message"
    "(number integer primary key autoincrement, crc integer not null, body blob not null)",
    "create table if not exists known(number integer primary key, key blob not null unique)",
)


class Entry(NamedTuple):
    """An entry of a journal."""

    message: bytes
    key: bytes = b""  # identifies a repeated message; empty: none
    first: bool = False  # the sender never sent it before, so a known key is a clash


class JournalFullError(StreamDDCRPError):
    """The journal is full until the run catches up."""


class Journal:
    """Messages in the order of `put`, numbered from 0.

    The store is a SQLite database in WAL mode. Any number of threads may call `put`, but only one
    process may have the journal open.

    Parameters
    ----------
    max_bytes : int
        Most bytes on the disk: five eighths for messages, the rest for SQLite's log. Beyond it
        `put` raises JournalFullError. A message has at most a quarter.
    remembered : int
        At least this many of the latest keys are remembered.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     journal = Journal(Path(folder))
    ...     journal.put(b"one", b"k"), journal.put(b"two"), journal.put(b"one", b"k")
    ...     list(journal.read(1))
    ...     journal.close()
    (True, True, False)
    [(1, b'two')]
    """

    def __init__(self, folder: Path, *, max_bytes: int = 1 << 30, remembered: int = 4096) -> None:
        self._path = folder / NAME
        self._max_bytes, self._remembered = max_bytes, remembered
        self._change = threading.Condition()  # guards the database and the numbers below
        if old := sorted(path.name for path in folder.glob("*.journal")):
            raise ConfigError(
                f"the journal {folder} holds messages of a version before SQLite, which no run "
                f"would learn ({', '.join(old[:3])}): let that version learn them and remove the "
                "files, or give another folder"
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(
                self._path, timeout=0, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(f"cannot write the journal {self._path}: {error}") from error
        try:
            with self._reporting(ConfigError):
                self._db.executescript(_SETTINGS)
                self._db.execute(f"pragma max_page_count={max_bytes * 5 // 8 // _PAGE}")
                self._db.execute(f"pragma wal_autocheckpoint={min(max_bytes // 8 // _PAGE, 1000)}")
                for table in _TABLES:
                    self._db.execute(table)
                rows = self._db.execute("select max(seq) from sqlite_sequence").fetchall()
                self.end = 0 if rows[0][0] is None else rows[0][0] + 1
                self.first = self._find_first()
        except BaseException:
            self._db.close()
            raise

    def put(self, message: bytes, key: bytes = b"") -> bool:
        """Append one message and return once it is on the disk; see `put_all`."""
        return self.put_all([Entry(message, key)])[0]

    def put_all(self, entries: Iterable[Entry]) -> list[bool]:
        """Append messages, wait until they are on the disk, and return which were new.

        A message with a remembered key is not stored again, unless it is marked as first.

        Raises
        ------
        JournalFullError
            The journal or the disk is full; nothing was stored.
        ConfigError
            A message or its key is too large.
        """
        entries = tuple(entries)
        for message, key, _ in entries:
            if len(message) > self._max_bytes // 4:
                text = (
                    f"a message of {len(message):,} bytes is larger than a quarter of the journal "
                    f"{self._path.parent}, {self._max_bytes:,} bytes; allow it more"
                )
                raise ConfigError(text)
            if len(key) > MAX_KEY:
                text = f"a key has at most {MAX_KEY} bytes, got {len(key)}"
                raise ConfigError(text)
        with self._change:
            new, end = [], self.end
            with self._reporting(JournalFullError):
                self._db.execute("begin")
                for entry in entries:
                    new.append(self._insert(end, entry))
                    end += new[-1]
                self._db.execute("commit")
            self.end = end
            self._change.notify_all()
        return new

    def read(self, first: int) -> Iterator[tuple[int, bytes]]:
        """Yield the stored messages from number ``first`` on.

        No message can be stored while one is being read.
        """
        end = self.end
        if not self.first <= first <= end:
            raise CheckpointError(
                f"the journal {self._path.parent} holds the messages {self.first} to {end}, and "
                f"the checkpoint goes on at {first}: journal and checkpoint do not belong together"
            )
        query = "select number, crc, body from message where number >= ? order by number"
        with self._change, self._reporting(CheckpointError):
            for number, crc, body in self._db.execute(query, (first,)):
                if number != first or crc != zlib.crc32(body):
                    break
                yield number, body
                first += 1
        if first < end:
            raise CheckpointError(f"{self._path}: message {first} is damaged: the disk lost bytes")

    def wait(self, number: int, timeout: float) -> bool:
        """Wait until message ``number`` is on the disk; return whether it is."""
        with self._change:
            return self._change.wait_for(lambda: self.end > number, timeout)

    def trim(self, before: int) -> None:
        """Remove the messages numbered below ``before``, and all keys but the latest."""
        oldest = "select number from known order by number desc limit 1 offset ?"
        with self._change, self._reporting(CheckpointError):
            self._db.execute("begin")
            self._db.execute("delete from message where number < ?", (before,))
            self._db.execute(f"delete from known where number <= ({oldest})", (self._remembered,))
            self._db.execute("commit")
            self.first = self._find_first()

    def close(self) -> None:
        with self._change:
            self._db.close()

    def _find_first(self) -> int:
        (number,) = self._db.execute("select min(number) from message").fetchone()
        return self.end if number is None else int(number)

    def _insert(self, number: int, entry: Entry) -> bool:
        message, key, first = entry
        if key:
            how = "replace" if first else "ignore"
            put = self._db.execute(f"insert or {how} into known values(?, ?)", (number, key))
            if not put.rowcount:
                return False
        row = (number, zlib.crc32(message), message)
        self._db.execute("insert into message values(?, ?, ?)", row)
        return True

    @contextmanager
    def _reporting(self, kind: type[StreamDDCRPError]) -> Iterator[None]:
        """Roll back after any failure, and report SQLite's message."""
        try:
            yield
        except BaseException as error:
            if not isinstance(error, sqlite3.ProgrammingError) and self._db.in_transaction:
                self._db.rollback()
            if not isinstance(error, sqlite3.Error):
                raise
            code = getattr(error, "sqlite_errorcode", None)
            if code == sqlite3.SQLITE_BUSY:
                message = f"another process has the journal {self._path.parent} open; stop it first"
            elif code == sqlite3.SQLITE_FULL:
                message = (
                    f"the journal {self._path.parent} is full: {self.end - self.first:,} messages"
                    f" wait for the run to take them (at most {self._max_bytes:,} bytes)"
                )
            else:
                message = f"cannot use the journal {self._path}: {error}"
            raise kind(message) from error
