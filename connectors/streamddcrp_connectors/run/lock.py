"""A lock beside a file, so that only one run writes it; it names the process."""

import contextlib
import os
import time
from pathlib import Path
from typing import BinaryIO

from streamddcrp.errors import ConfigError

try:
    import fcntl
except ImportError:  # not on Windows, where an open file is locked anyway
    fcntl = None  # type: ignore[assignment]

_PATIENCE = 0.5  # seconds: a run that was just killed may still be ending


class Lock:
    """Hold a file ``.NAME.lock`` beside an output until `release`, or the end of the process.

    Another run that holds it is a ConfigError.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._path = path.with_name(f".{path.name}.lock")
        self._file: BinaryIO | None = None
        if fcntl is None:
            return
        end = time.monotonic() + _PATIENCE
        while self._file is None:
            try:
                self._file = self._taken()
            except OSError as error:
                if not isinstance(error, BlockingIOError):
                    raise ConfigError(f"cannot write {name}: {error.strerror or error}") from error
                if time.monotonic() > end:
                    raise ConfigError(
                        f"{name} is being written by another run, {self._holder()}: end that run "
                        "first, or choose another file"
                    ) from None
                time.sleep(0.02)

    def release(self) -> None:
        if self._file is not None:
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()
            self._file.close()
            self._file = None

    def _taken(self) -> BinaryIO | None:
        """Open and lock the file; None if its holder removed it meanwhile."""
        file = self._path.open("a+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._path.exists() or not os.path.samestat(
                os.fstat(file.fileno()), self._path.stat()
            ):
                file.close()
                return None
            file.truncate(0)
            file.write(f"process {os.getpid()}".encode())
            file.flush()
        except BaseException:
            file.close()
            raise
        return file

    def _holder(self) -> str:
        try:
            return self._path.read_text(encoding="utf-8", errors="replace")[:40] or "just begun"
        except OSError:
            return "just ended"
