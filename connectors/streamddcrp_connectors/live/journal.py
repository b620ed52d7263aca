"""A durable queue of messages on the local disk, for sources that cannot be asked a second time.

A server that must not lose what it accepted puts each message here, and says so to the sender only
afterwards: `Journal.put` returns once the bytes are on the disk. The run reads the messages by
number, as often as it has to, and trims those that a checkpoint covers.

Layout: a folder of segments, named by the number of their first message; see `segments`. The first
frame of a segment holds, as JSON, the keys put last before it, so that repeated messages are
known however much was trimmed. Segments are only appended to; a process that died in the middle of
a frame leaves a torn tail, which is cut off when the journal is opened.
"""

import fcntl
import itertools
import json
import logging
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from streamddcrp.errors import CheckpointError, ConfigError, StreamDDCRPError
from streamddcrp_connectors.live.segments import MAGIC, Tail, frame, read_frames
from streamddcrp_connectors.run.log import sync_folder

_SUFFIX = ".journal"
_log = logging.getLogger("streamddcrp.journal")


class Entry(NamedTuple):
    """What is put into a journal.

    Parameters
    ----------
    message : bytes
    key : bytes
        Names the message, so that it is known when it comes again; empty: it is never known.
    first : bool
        The sender is sure that the message was not sent before, so that a known key is a new one.
    """

    message: bytes
    key: bytes = b""
    first: bool = False


class JournalFullError(StreamDDCRPError):
    """There is no room until the run has caught up."""


class Journal:
    """Messages in the order in which they were put, numbered from 0.

    Any number of threads may call `put`; one reads. One process at a time has the journal open.

    Parameters
    ----------
    folder : Path
        Made if need be.
    max_bytes : int
        Most bytes on the disk; `put` raises JournalFullError beyond.
    segment_bytes : int, optional
        A segment is closed at this size; default: a sixteenth of ``max_bytes``, at most 64 MiB.
        A message has at most half of ``max_bytes``, so that there is room for it once the run has
        caught up.
    remembered : int
        How many keys, the latest, are known.

    Raises
    ------
    ConfigError
        The folder cannot be written, or another process has the journal open.
    CheckpointError
        A segment other than the tail of the last one is damaged.

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

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int = 1 << 30,
        segment_bytes: int | None = None,
        remembered: int = 4096,
    ) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self._segment_bytes = segment_bytes or min(max_bytes // 16, 1 << 26)
        self._remembered = remembered
        self._change = threading.Condition()  # guards all that follows
        self._flushing = threading.Lock()
        self._broken: str | None = None
        self._sizes: dict[int, int] = {}  # of segments, by the number of their first message
        self._keys: dict[bytes, int] = {}  # and the number of their message
        self._next = 0
        self._durable = 0
        self._place = (-1, 0, 0)  # of the reader: next number, its segment, its byte
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = (folder / "lock").open("wb")
        except OSError as error:
            message = f"cannot write the journal {folder}: {error.strerror or error}"
            raise ConfigError(message) from error
        try:
            self._only_one()
            self._tail = self._open()
        except BaseException:
            self._lock.close()
            raise

    @property
    def first(self) -> int:
        """Number of the first message that is kept."""
        with self._change:
            return min(self._sizes)

    @property
    def end(self) -> int:
        """Number of the next message: one more than the last that is on the disk."""
        return self._durable

    @property
    def n_bytes(self) -> int:
        """Bytes on the disk."""
        with self._change:
            return sum(self._sizes.values())

    def put(self, message: bytes, key: bytes = b"") -> bool:
        """Append one message and return once it is on the disk; see `put_all`."""
        return self.put_all([Entry(message, key)])[0]

    def put_all(self, entries: Iterable[Entry]) -> list[bool]:
        """Append messages and return once they are on the disk.

        Threads that wait at the same time share one flush of the disk.

        Parameters
        ----------
        entries : iterable of Entry
            One whose key is among the latest ones is not put again, unless it is said to be first.

        Returns
        -------
        new : list of bool
            Which messages were put now; the others were there, and are on the disk too.

        Raises
        ------
        JournalFullError
            Nothing was put: there is no room, or the disk is full.
        ConfigError
            A message can never be put: it is too large.
        """
        new: list[bool] = []
        upto = -1
        frames: list[bytes] = []
        with self._change:
            self._check()
            known: dict[bytes, int] = {}
            for message, key, first in entries:
                earlier = None if first else known.get(key, self._keys.get(key))
                new.append(earlier is None)
                if len(message) > self.max_bytes // 2:
                    text = (
                        f"a message of {len(message):,} bytes is larger than half of the journal "
                        f"{self.folder}, {self.max_bytes:,} bytes; allow it more"
                    )
                    raise ConfigError(text)
                if earlier is None:
                    earlier = self._next + len(frames)
                    frames.append(frame(earlier, key, message))
                    if key:
                        known.pop(key, None)
                        known[key] = earlier
                upto = max(upto, earlier)
            if frames:
                self._append(frames)
                self._remember(known)
        if upto >= self._durable:
            self._flush(upto)
        return new

    def read(self, first: int) -> Iterator[tuple[int, bytes]]:
        """Yield the messages from number ``first`` on, as far as they are on the disk by now."""
        end = self._durable
        if not self.first <= first <= end:
            message = (
                f"the journal {self.folder} holds the messages {self.first} to {end}, and the "
                f"checkpoint goes on at {first}: journal and checkpoint do not belong together"
            )
            raise CheckpointError(message)
        number, start, byte = self._place
        if number != first or start not in self._sizes:
            start, byte = max(at for at in list(self._sizes) if at <= first), 0
        while first < end:
            expected = start if not byte else first
            with self._path(start).open("rb") as file:
                found = read_frames(file, byte)
                if not byte:
                    next(found, None)  # the head
                for number, _, body in found:
                    if number != expected or number >= end:
                        break
                    expected += 1
                    if number >= first:
                        first = expected
                        self._place = first, start, file.tell()
                        yield number, body
            if first < end and (first == start or first not in self._sizes):
                message = f"{self._path(start)}: message {first} is damaged: the disk lost bytes"
                raise CheckpointError(message)
            start, byte = first, 0

    def wait(self, number: int, timeout: float) -> bool:
        """Wait until message ``number`` is on the disk; return whether it is."""
        with self._change:
            self._check()
            return self._change.wait_for(lambda: self._durable > number, timeout)

    def trim(self, before: int) -> None:
        """Remove the segments whose messages are all numbered below ``before``."""
        with self._change:
            if before >= self._next > max(self._sizes) and self.n_bytes > self.max_bytes // 2:
                self._roll()
            starts = sorted(self._sizes)
            for start, following in itertools.pairwise(starts):
                if following > before:
                    break
                self._path(start).unlink()
                del self._sizes[start]

    def close(self) -> None:
        """Close the files; what was put stays."""
        with self._change:
            self._broken = f"the journal {self.folder} is closed"
        with self._flushing:
            self._tail.close()
            self._lock.close()

    def _only_one(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            message = f"another process has the journal {self.folder} open; stop it first"
            raise ConfigError(message) from error

    def _path(self, start: int) -> Path:
        return self.folder / f"{start:020d}{_SUFFIX}"

    def _open(self) -> Tail:
        """Find the segments, cut off a torn tail, and open the last one for appending."""
        starts = sorted(int(path.stem) for path in self.folder.glob(f"*{_SUFFIX}"))
        self._sizes = {start: self._path(start).stat().st_size for start in starts}
        while starts:
            length = self._scan(starts[-1])
            if length:
                break
            self._path(starts[-1]).unlink()  # died before it was whole: no message was in it
            del self._sizes[starts.pop()]
        if not starts:
            return self._begin(0)
        path = self._path(starts[-1])
        torn = self._sizes[starts[-1]] - length
        if torn:
            _log.warning("removed %d bytes of an unfinished record from %s", torn, path)
        tail = Tail(path)
        tail.cut(length)
        tail.sync()
        self._sizes[starts[-1]] = length
        self._durable = self._next
        return tail

    def _scan(self, start: int) -> int:
        """Take keys and numbers from a segment; return its whole length, 0 without a head."""
        end = 0
        with self._path(start).open("rb") as file:
            for number, key, body in read_frames(file):
                if end == 0:
                    self._keys = {bytes.fromhex(name): at for name, at in json.loads(body)}
                    self._next = start
                else:
                    self._next = number + 1
                    if key:
                        self._remember({key: number})
                end = file.tell()
        return end

    def _begin(self, start: int) -> Tail:
        """Make a new segment."""
        tail = Tail(self._path(start))
        tail.cut(0)
        keys = json.dumps([[key.hex(), at] for key, at in self._keys.items()])
        head = MAGIC + frame(start, b"", keys.encode())
        tail.append(head)
        tail.sync()
        sync_folder(self.folder)
        self._sizes[start] = len(head)
        return tail

    def _append(self, frames: list[bytes]) -> None:
        size = sum(map(len, frames))
        if self.n_bytes + size > self.max_bytes:
            message = (
                f"the journal {self.folder} is full: {self.n_bytes:,} of {self.max_bytes:,} bytes "
                "wait for the run to take them"
            )
            raise JournalFullError(message)
        start = max(self._sizes)
        try:
            if self._sizes[start] >= self._segment_bytes and self._next > start:
                self._roll()
                start = self._next
            self._tail.append(b"".join(frames))
        except OSError as error:
            self._undo(start, error)
        self._sizes[start] += size
        self._next += len(frames)

    def _roll(self) -> None:
        """Close the last segment and begin another."""
        self._tail.sync()
        tail = self._begin(self._next)
        self._tail.close()
        self._tail = tail

    def _undo(self, start: int, error: OSError) -> None:
        """Take back half a frame, or let no more be put."""
        message = f"cannot write the journal {self.folder}: {error.strerror or error}"
        try:
            self._tail.cut(self._sizes[start])
        except OSError:
            self._broken = message
        raise JournalFullError(message) from error

    def _remember(self, keys: dict[bytes, int]) -> None:
        for key in keys.keys() & self._keys.keys():
            del self._keys[key]  # it is now among the latest
        self._keys |= keys
        for key in list(self._keys)[: max(0, len(self._keys) - self._remembered)]:
            del self._keys[key]

    def _flush(self, upto: int) -> None:
        """Force all messages so far to the disk, unless another thread has done so meanwhile."""
        with self._flushing:
            if self._durable > upto:
                return
            with self._change:
                self._check()
                end, handle = self._next, os.dup(self._tail.number)
            try:
                os.fsync(handle)
            except OSError as error:  # the pages may be lost: nothing after them can be trusted
                self._broken = f"cannot write the journal {self.folder}: {error.strerror or error}"
                raise JournalFullError(self._broken) from error
            finally:
                os.close(handle)
            with self._change:
                self._durable = end
                self._change.notify_all()

    def _check(self) -> None:
        if self._broken is not None:
            raise JournalFullError(self._broken)
