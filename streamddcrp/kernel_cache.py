"""Machine code of roots: shipped, kept from an earlier run, or compiled once.

One process compiles a root while others wait for its code. The lock belongs to an open file and
ends with the process.
"""

import logging
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Timer
from typing import Any

from streamddcrp import kernel_folders as folders
from streamddcrp import numba_inside

_log = logging.getLogger(__name__)
_announced: set[str] = set()  # folders
_PATIENCE = 1.0  # seconds that compiling, or waiting for it, may take unannounced


class _Locator(numba_inside.CacheLocator):
    """Tells numba where a kernel's code is."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        path = Path(py_file)
        home = path.parent if path.parent.name == "kernels" else path
        self._py_file, self._lineno = py_file, py_func.__code__.co_firstlineno
        self._cache_path, self._stamp = folders.folder_of(home), folders.digest_of(home)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        return cls(py_func, py_file)

    def get_source_stamp(self) -> str:
        return self._stamp


class _Implementation(numba_inside.CompileResultCacheImpl):
    _locator_classes = [_Locator]  # noqa: RUF012


class _File(numba_inside.IndexDataCacheFile):
    """Codes of a root in one folder; unreadable ones count as missing."""

    def load(self, key: Any) -> Any:
        """Return a code, or None if it is missing."""
        return self._without_errors(super().load, key)

    def _load_index(self) -> Any:
        return self._without_errors(super()._load_index) or {}

    def _without_errors(self, read: Any, *args: Any) -> Any:
        try:
            return read(*args)
        except Exception:  # a truncated file can raise any error
            _log.debug("cannot read %s", self._index_path, exc_info=True)
            return None


class Cache(numba_inside.FunctionCache):
    """Machine code of a root: shipped, kept, or compiled while other processes wait."""

    _impl_class = _Implementation
    _lock: int | None = None
    _timer: Timer | None = None
    _began: float | None = None  # start of an announced compilation

    def _files(self) -> Iterator[Any]:
        """Yield the folders of codes: in the package, readable, then writable."""
        roots = [folders.READY, folders.wanted_root()]
        for root in dict.fromkeys(roots):
            if root is not None:
                yield self._file(root)
        yield self._file(folders.cache_root())

    def _file(self, root: Path) -> Any:
        folder = root / self._impl.locator.get_cache_path()
        folders.use(folder)
        stamp = self._impl.locator.get_source_stamp()
        return _File(str(folder), self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the code for a signature, or None if this process must compile it."""
        numba_inside.rtsys.initialize(target_context)  # compiling loads the rest
        found = self._found(sig, target_context)
        if found is None and self._lock is None:
            self._begin()
            found = self._found(sig, target_context)  # compiled by another process meanwhile
        return found

    def _found(self, sig: Any, target_context: Any) -> Any:
        key = self._index_key(sig, target_context.codegen())
        for file in self._files():
            data = file.load(key)
            if data is not None:
                return self._impl.rebuild(target_context, data)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store compiled code."""
        if not self._impl.check_cachable(data):
            return
        file = self._file(folders.cache_root())
        try:
            Path(file._cache_path).mkdir(parents=True, exist_ok=True)
            file.save(self._index_key(sig, data.codegen), self._impl.reduce(data))
        except OSError as error:
            _log.warning("compiled kernels cannot be kept in %s: %s", file._cache_path, error)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        sig, _, digests = super()._index_key(sig, codegen)
        return sig, folders.target(), digests

    def _begin(self) -> None:
        """Wait while another process compiles this root, then take the lock."""
        self._timer = Timer(_PATIENCE, self._announce)
        self._timer.daemon = True
        self._timer.start()
        with suppress(ImportError, OSError):  # no such locks on this system or in this folder
            import fcntl  # noqa: PLC0415 -- not everywhere

            folder = folders.cache_root() / self._impl.locator.get_cache_path()
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{self._impl.filename_base}.lock"
            self._lock = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
            fcntl.flock(self._lock, fcntl.LOCK_EX)

    def release(self) -> None:
        """Release the lock when the code exists or could not be made."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
        if self._began is not None:
            _log.warning("compiled in %.0f s", time.perf_counter() - self._began)
            self._began = None

    def _announce(self) -> None:
        name = self._impl.locator.get_cache_path()
        if name not in _announced:
            _announced.add(name)
            self._began = time.perf_counter() - _PATIENCE
            _log.warning(
                "compiling %s, once for this version of the sources (up to a minute of CPU "
                "time); kept in %s. `streamddcrp warmup` does it ahead",
                name.rpartition("-")[0].replace("streamddcrp-", "").replace("-", "."),
                folders.cache_root() / name,
            )
