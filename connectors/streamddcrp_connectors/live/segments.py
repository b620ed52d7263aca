"""Segments of a journal: files of checked frames that are only appended to.

A segment begins with a magic word. A frame is its length and CRC-32, then number, length of the
key, key and message.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from streamddcrp.errors import ConfigError

MAGIC = b"SDJRNL01"
MAX_KEY = 64  # bytes
_HEAD = struct.Struct("<II")  # length of the rest, its CRC-32
_BODY = struct.Struct("<QB")  # number, length of the key


class Tail:
    """The segment that is appended to."""

    def __init__(self, path: Path) -> None:
        self.number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def append(self, data: bytes) -> None:
        """Write all of it."""
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self.number, rest) :]

    def cut(self, length: int) -> None:
        """Drop what comes after ``length`` bytes, and stand there."""
        os.ftruncate(self.number, length)
        os.lseek(self.number, length, os.SEEK_SET)

    def sync(self) -> None:
        """Force the bytes to the disk."""
        os.fsync(self.number)

    def close(self) -> None:
        """Close, if it is open."""
        if self.number >= 0:
            os.close(self.number)
            self.number = -1


def frame(number: int, key: bytes, message: bytes) -> bytes:
    """Return the bytes of one message."""
    if len(key) > MAX_KEY:
        text = f"a key has at most {MAX_KEY} bytes, got {len(key)}"
        raise ConfigError(text)
    body = _BODY.pack(number, len(key)) + key + message
    return _HEAD.pack(len(body), zlib.crc32(body)) + body


def read_frames(file: BinaryIO, byte: int = 0) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield number, key and message of the whole frames from ``byte`` on; of the head, if 0."""
    if not byte and file.read(len(MAGIC)) != MAGIC:
        return
    file.seek(byte or len(MAGIC))
    size = os.fstat(file.fileno()).st_size
    while len(prefix := file.read(_HEAD.size)) == _HEAD.size:
        length, checksum = _HEAD.unpack(prefix)
        if not _BODY.size <= length <= size - file.tell():
            return
        body = file.read(length)
        if zlib.crc32(body) != checksum:
            return
        number, n_key = _BODY.unpack_from(body)
        yield number, body[_BODY.size : _BODY.size + n_key], body[_BODY.size + n_key :]
