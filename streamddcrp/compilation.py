"""How kernels are compiled and cached.

Every kernel is decorated by one of the names below, never by numba's own. A compiled kernel is kept
in a folder named by its package and a digest of the sources it may call: those of its own
``kernels`` package and what these import. numba alone would miss an edit of a function imported
from another file. An edit of one model's kernels therefore compiles that model again and nothing
else, in tests and for users alike. The folders lie in ``$NUMBA_CACHE_DIR``, or in the user's cache.
"""

import hashlib
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Timer
from typing import Any

from numba import njit
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserProvidedCacheLocator
from numba.misc.appdirs import AppDirs

_log = logging.getLogger(__name__)
_entry_points: dict[Any, Any] = {}
_PATIENCE = 1.0  # seconds; loading from the cache is quicker
_UNUSED = 30 * 86400.0  # seconds after which a folder of an older version goes
_settings: Any = config  # numba's, read from the environment
_CORE = Path(__file__).parent
_COMPILED = {"kernels", "numerics", "contract", "compilation"}  # besides `kernels` packages
_IMPORTED = re.compile(rb"^from streamddcrp\.([\w.]+) import", re.MULTILINE)


def _is_compiled(path: Path) -> bool:
    return path.parent.name == "kernels" or path.stem in _COMPILED


@cache
def _digest(home: Path) -> str:
    """Digest of a file or package of kernels, and of the kernels that these import."""
    pending = sorted(home.glob("*.py")) if home.is_dir() else [home]
    sources: dict[Path, bytes] = {}
    while pending:
        path = pending.pop()
        if path not in sources:
            sources[path] = path.read_bytes()
            names = (name.decode().split(".") for name in _IMPORTED.findall(sources[path]))
            files = (_CORE.joinpath(*name).with_suffix(".py") for name in names)
            pending += [file for file in files if file.is_file() and _is_compiled(file)]
    digest = hashlib.sha256()
    for path in sorted(sources):
        digest.update(f"{path.parent.name}/{path.name}\n".encode())
        digest.update(sources[path])
    return digest.hexdigest()[:16]


@cache
def _folder(home: Path) -> str:
    """Name the folder of a package's compiled kernels, and clear away those long out of use."""
    root = Path(_settings.CACHE_DIR or AppDirs("streamddcrp", appauthor=False).user_cache_dir)
    name = "-".join(home.with_suffix("").parts[-3:])
    folder = root / f"{name}-{_digest(home)}"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)  # marks it as in use
        for other in root.glob(f"{name}-*"):
            if other.stat().st_mtime < time.time() - _UNUSED:
                shutil.rmtree(other, ignore_errors=True)
    return str(folder)


class _Locator(UserProvidedCacheLocator):
    """Where numba keeps a kernel; refuses a folder that cannot be written."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        path = Path(py_file)
        home = path.parent if path.parent.name == "kernels" else path
        self._py_file, self._lineno = py_file, py_func.__code__.co_firstlineno
        self._cache_path, self._stamp = _folder(home), _digest(home)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        locator = cls(py_func, py_file)
        return locator if os.access(locator.get_cache_path(), os.W_OK) else None

    def get_source_stamp(self) -> str:
        return self._stamp


class _Implementation(CompileResultCacheImpl):
    _locator_classes = [_Locator, *CompileResultCacheImpl._locator_classes]  # noqa: RUF012


class _Cache(FunctionCache):
    _impl_class = _Implementation


def kernel(function: Any = None, /, **options: Any) -> Any:
    """Compile a function that Python or other kernels call.

    Parameters
    ----------
    **options
        Further options of `numba.njit`.
    """
    if function is None:
        return lambda f: kernel(f, **options)
    dispatcher = njit(**options)(function)
    if not _settings.DISABLE_JIT:
        dispatcher._cache = _Cache(function)
    return dispatcher


def _with(**options: Any) -> Callable[[Any], Any]:
    return lambda function: kernel(function, **options)


# Called by other kernels only: without the code to call them from Python there is a sixth less to
# compile.
_INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
inner = _with(**_INNER)

# For kernels that allocate nothing and take tuples of many arrays: references to the arrays are not
# counted, which takes two thirds of the time where a call does little. `entry` is called by Python,
# `uncounted` by kernels only.
_UNCOUNTED: dict[str, Any] = {"_nrt": False}
entry = _with(**_UNCOUNTED)
uncounted = _with(**_UNCOUNTED, **_INNER)

# Called by a loop for each word: a call passes every array of its tuples, which takes longer than
# the work of such a kernel.
leaf = _with(forceinline=True, **_UNCOUNTED, **_INNER)

# Loops over columns that divide: a check for zeros would keep them from vector registers.
column = _with(forceinline=True, error_model="numpy", **_UNCOUNTED, **_INNER)
unchecked = _with(error_model="numpy")

# Copied into the caller before it is compiled.
inlined = _with(inline="always")


@contextmanager
def compiled(kernel: Any) -> Iterator[bool]:
    """Say so if the block, which is to call ``kernel`` on no rows, has to compile it.

    Yields
    ------
    bool
        Whether the call is needed: False once the kernel has been loaded or compiled.
    """
    if getattr(kernel, "overloads", True):
        yield False
        return
    timer = Timer(
        _PATIENCE, _log.warning, ("compiling the kernels, once for this version: a minute or two",)
    )
    timer.daemon = True
    timer.start()
    try:
        yield True
    finally:
        timer.cancel()


def entry_point(kernel: Any) -> Any:
    """Return the machine code of a kernel, to be called without a look at the arguments' types.

    With a state of seventy arrays that look takes 10 us. The caller vouches for the types; a kernel
    that was not compiled yet, or for more types than one, comes back as it is.
    """
    if kernel not in _entry_points:
        overloads = getattr(kernel, "overloads", {})
        if len(overloads) != 1:
            return kernel
        _entry_points[kernel] = next(iter(overloads.values())).entry_point
    return _entry_points[kernel]
