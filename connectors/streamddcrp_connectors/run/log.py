"""A file that is appended to, and cut back to the length that a checkpoint recorded."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

from streamddcrp.checkpoint.codec import sync_folder
from streamddcrp.errors import CheckpointError, ConfigError

Position = dict[str, Any]  # {"bytes", "digest"} of a file


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Report why the system does not write a file, as when the disk is full."""
    try:
        yield
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error


class Log:
    """A file that is only appended to, and cut back to a recorded length after a crash."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: FileIO | None = None
        self._dirty = False
        self._digest = hashlib.blake2b(digest_size=16)

    def rewind(self, position: Position | None) -> None:
        """Open the file and drop what comes after ``position`` (None: everything)."""
        self.close()
        length, digest = 0, ""
        if position is not None:
            length, digest = range(position["bytes"] + 1)[-1], position["digest"]
        with writing(self.path):
            known = self.path.exists()
            file = self.path.open("r+b" if known else "w+b", buffering=0)
            if not known:
                sync_folder(self.path.parent)
            size = os.fstat(file.fileno()).st_size
            self._digest = _digest(file, min(size, length))
        problem = ""
        if size < length:
            problem = f"has {size} bytes, fewer than the {length} that the checkpoint recorded: it"
        elif position is not None and digest != self._digest.hexdigest():
            problem = "does not hold what the checkpoint recorded: it"
        if problem:
            file.close()
            raise CheckpointError(
                f"{self.path} {problem} was changed or removed. Put it back, or start again with a "
                "new checkpoint folder"
            )
        file.truncate(length)
        file.seek(length)
        self._file = file
        self._dirty = True

    def append(self, data: bytes) -> None:
        """Append bytes; other processes see them at once. Where there is no room, append none."""
        rest, length = memoryview(data), self.file.tell()
        with writing(self.path):
            try:
                while rest:
                    rest = rest[self.file.write(rest) :]
                    self._dirty = True
            except OSError:
                with suppress(OSError):
                    self.file.truncate(self.file.seek(length))
                raise
        self._digest.update(data)

    def sync(self) -> Position:
        """Force the bytes to the disk; return their number and a digest of them all."""
        if self._dirty:
            with writing(self.path):
                os.fsync(self.file.fileno())
            self._dirty = False
        return {"bytes": self.file.tell(), "digest": self._digest.hexdigest()}

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def file(self) -> FileIO:
        if self._file is None:
            raise RuntimeError(f"{self.path} is written to before rewind() was called")
        return self._file


def _digest(file: FileIO, length: int) -> Any:
    digest = hashlib.blake2b(digest_size=16)
    while length and (block := file.read(min(length, 1 << 20))):
        digest.update(block)
        length -= len(block)
    return digest
