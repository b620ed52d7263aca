"""Whole lines from a byte stream: a file, a pipe, or a file that is still being written.

Digests of its head and last block show that a file is still the same.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

from streamddcrp.errors import SchemaError

MAX_LINE = 1 << 24
_READ = 1 << 18
_TAIL = 64  # bytes before new ones, by which a file that was cut and has grown is recognised


class RotatedError(SchemaError):
    """A followed file was renamed, and all of it was read; or it was ``cut``."""

    def __init__(self, message: str, *, cut: bool) -> None:
        super().__init__(message)
        self.cut = cut


@dataclass
class LineReader:
    r"""Cut a stream of bytes into blocks of whole lines, in memory bounded by the block.

    Examples
    --------
    >>> import io
    >>> list(LineReader(io.BytesIO(b"one\ntwo\nthree\nfour"), "words").blocks(2))
    [b'one\ntwo\n', b'three\n', b'four']
    """

    stream: Any  # binary
    name: str
    _: KW_ONLY
    live: bool = False  # it has no known end (a pipe): hand over the lines there are
    # At the end of the file wait for more, and hand over an empty block each time that there is
    # none; a line without its line feed is never handed over.
    follow: bool = False
    idle: float | None = None  # then end after that many seconds without new data
    poll: float = 0.1
    newest: Callable[[], os.PathLike[str]] | None = None  # the file to which lines are added now
    position: int = 0

    def __post_init__(self) -> None:
        self.live |= self.follow
        self._waited = 0.0
        self.go_on(self.stream, 0)

    def seek(self, position: int) -> None:
        """Go to the byte after a line that was handed over before."""
        size = os.fstat(self.stream.fileno()).st_size
        if position > size:
            message = f"{self.name} is shorter than what was already read: was it replaced?"
            raise SchemaError(message)
        if position:
            self.stream.seek(position - 1)
            around = self.stream.read(3)
            ended = around[:1] == b"\n" or around[1:] in (b"", b"\r", b"\r\n")
            if not ended and around[1:2] != b"\n":
                message = f"{self.name}: its last line has grown since it was read as a whole row"
                raise SchemaError(message)
        self.stream.seek(position)
        self.go_on(self.stream, position)

    def go_on(self, stream: Any, position: int) -> None:
        """Read on in a stream that stands at the byte after a line."""
        self.stream, self.position = stream, position
        self._read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
        self._data = b""  # what was read last; handed over as far as _at
        self._at = self._n_lines = 0  # n_lines: line feeds in the rest

    def peek(self, size: int) -> bytes:
        """Return about this many bytes from here on; they are still handed over later.

        Whole lines, one that is not blank at least; of a stream without a known end those that are
        there.
        """
        ended = False
        while not ended and (len(self._data) < size or not self._has_line()):
            chunk = self._next()
            self._data += chunk
            self._n_lines += chunk.count(b"\n")
            if not self._n_lines:
                self._check_length(len(self._data))
            if not chunk:
                ended = self._has_line() or not self._waits()
            elif self.live and not self.follow:
                ended = self._has_line()
        if ended and not self.follow and not (self.live and self._has_line()):
            return self._data
        first = len(self._data) - len(self._data.lstrip())
        return self._data[
            : self._data.rfind(b"\n", 0, max(size, self._data.find(b"\n", first) + 1)) + 1
        ]

    def _has_line(self) -> bool:
        """Whether there is a whole line that is not blank."""
        return bool(self._data[: self._data.rfind(b"\n") + 1].strip())

    def skip(self, n: int) -> None:
        """Leave out lines that `peek` returned."""
        self._n_lines -= self._data[:n].count(b"\n")
        self._at, self.position = n, n

    def blocks(self, max_lines: int) -> Iterator[bytes]:
        """Yield blocks of 1 to ``max_lines`` whole lines; only the last may lack its line feed.

        When following, an empty block says that nothing came.
        """
        while True:
            while self._n_lines >= max_lines or (self.live and self._n_lines):
                yield self._cut(max_lines)
            chunk = self._next()
            if not chunk:
                if not self._waits():
                    break
                yield b""
                continue
            self._waited = 0.0
            if self.follow:
                self._check_tail(len(chunk))
            self._data, self._at = self._data[self._at :] + chunk, 0
            self._n_lines += chunk.count(b"\n")
            if not self._n_lines:
                self._check_length(len(self._data))
        while self._n_lines:
            yield self._cut(max_lines)
        if self._at < len(self._data) and not self.follow:
            yield self._take(len(self._data))

    def _cut(self, max_lines: int) -> bytes:
        """Take up to ``max_lines`` lines off what was read."""
        n = min(max_lines, self._n_lines)
        self._n_lines -= n
        if self._n_lines == 0:
            return self._take(self._data.rindex(b"\n") + 1)
        end = self._at
        for _ in range(n):
            end = self._data.index(b"\n", end) + 1
        return self._take(end)

    def _take(self, end: int) -> bytes:
        start, self._at = self._at, end
        self.position += end - start
        return self._data[start:end]

    def _next(self) -> bytes:
        return self._read(max(_READ, len(self._data) - self._at))  # keeps the copying linear

    def _waits(self) -> bool:
        """Wait a little at the end of a file that is followed; False: long enough."""
        if not self.follow or (self.idle is not None and self._waited >= self.idle):
            return False
        self._check_same_file()
        time.sleep(self.poll)
        self._waited += self.poll
        return True

    def _check_same_file(self) -> None:
        """Say when no more can come at the end of a file, since it was cut or exchanged."""
        opened = os.fstat(self.stream.fileno())
        cut = opened.st_size < self.stream.tell()
        try:
            there = os.stat(self.newest() if self.newest else self.name)
        except OSError:
            return  # removed, perhaps to be written again
        if not cut and os.path.samestat(opened, there):
            return
        if not cut:  # what writes may still hold the old file open
            time.sleep(self.poll)
            if os.fstat(self.stream.fileno()).st_size > self.stream.tell():
                return
        message = f"{self.name} was {'cut' if cut else 'replaced'} while it was being followed"
        raise RotatedError(message, cut=cut)

    def _check_tail(self, n_new: int) -> None:
        """Say when what stands before new bytes is not what was read there."""
        tail = self._data[-_TAIL:]
        start = self.stream.tell() - n_new - len(tail)
        if os.pread(self.stream.fileno(), len(tail), start) != tail:
            message = f"{self.name} was cut while it was being followed"
            raise RotatedError(message, cut=True)

    def _check_length(self, length: int) -> None:
        if length > MAX_LINE:
            raise SchemaError(
                f"{self.name} has a line of more than {MAX_LINE >> 20} MiB after byte "
                f"{self.position}: it does not hold one row on each line"
            )


_HEAD, _LAST = 1 << 16, 1 << 12  # bytes
ReadAt = Callable[[int, int], bytes]  # a number of bytes, from a place on


def reading(number: int) -> ReadAt:
    """Read an open file, by its descriptor, at any place."""
    return partial(os.pread, number)


def fingerprint(read_at: ReadAt, end: int) -> dict[str, str]:
    """Digest the beginning of a file (``head``), and the block before byte ``end`` (``last``)."""
    start = max(end - _LAST, 0)
    return {"head": _digest(read_at, 0, min(_HEAD, end)), "last": _digest(read_at, start, end)}


def check_fingerprint(
    read_at: ReadAt, size: int, end: int, recorded: dict[str, Any], name: str
) -> None:
    """Refuse a file, of ``size`` bytes, that differs from the one that was read before.

    It is shorter, or begins otherwise, or holds other bytes before ``end``.
    """
    if size < end:
        raise SchemaError(f"{name} is shorter than what was already read: was it replaced?")
    now = fingerprint(read_at, end)
    for part, what in (("head", "begins with other bytes than"), ("last", "differs from")):
        if now[part] != recorded[part]:
            raise SchemaError(f"{name} {what} what was already read from it: was it replaced?")


def _digest(read_at: ReadAt, start: int, end: int) -> str:
    return hashlib.sha256(read_at(end - start, start)).hexdigest()[:16]
