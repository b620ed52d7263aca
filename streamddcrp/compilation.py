"""How kernels are decorated, compiled and called.

Every kernel is decorated by a name below, never by numba's own. `roots` compiles kernels ten times
as fast as numba, and `kernel_cache` stores their machine code. Both depend on numba's internals
(`numba_inside`). With an untested version of numba, kernels are compiled by numba itself and a
warning says so; the results are the same.
"""

import hashlib
import logging
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba import config, njit

from streamddcrp.kernel_folders import cache_root

TESTED = "0.68"  # the minor version of numba whose internals are known
_log = logging.getLogger(__name__)
_entry_points: dict[Any, Any] = {}
_settings: Any = config  # numba's, read from the environment


def _inside() -> Any:
    """Import what depends on numba's internals; None if they may differ."""
    why = f"numba {numba.__version__} is not {TESTED}"
    try:
        if numba.__version__.rpartition(".")[0] == TESTED:
            import streamddcrp.roots as roots  # noqa: PLC0415, PLR0402 -- only with that version

            return roots
    except ImportError as error:
        why = str(error)
    _log.warning(
        "kernels take ten times as long to compile, minutes for SeqDDCRP: %s. "
        "Install 'numba==%s.*'", why, TESTED,
    )  # fmt: skip
    return None


_roots = None if _settings.DISABLE_JIT else _inside()


def kernel(function: Any = None, /, **options: Any) -> Any:
    """Compile a function that Python or other kernels call, with options of `numba.njit`."""
    if function is None:
        return lambda f: kernel(f, **options)
    if _settings.DISABLE_JIT:
        return function
    if _roots is not None:
        return _roots.compiled(function, options)
    usual, _settings.CACHE_DIR = _settings.CACHE_DIR, str(cache_root() / f"slow-{_sources()}")
    try:
        return njit(cache=True, **options)(function)
    finally:
        _settings.CACHE_DIR = usual


@cache
def _sources() -> str:
    """Digest of all sources of the package; numba would check only one of them."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _with(**options: Any) -> Callable[[Any], Any]:
    return lambda function: kernel(function, **options)


inner = _with()  # called by other kernels only

# For kernels that allocate nothing and take tuples of many arrays. Arrays are not
# reference-counted, which saves two thirds of the time of a short call. Python calls `entry`; only
# kernels call `uncounted`.
_UNCOUNTED: dict[str, Any] = {"_nrt": False}
entry = _with(**_UNCOUNTED)
uncounted = _with(**_UNCOUNTED)

# For kernels called in a loop for each word: a real call passes every array of its tuples, which
# takes longer than the kernel's work.
leaf = _with(forceinline=True, **_UNCOUNTED)

# For loops over columns that divide: a check for zeros would prevent vectorisation.
column = _with(forceinline=True, error_model="numpy", **_UNCOUNTED)
unchecked = _with(error_model="numpy")

# For code copied into the caller before compilation.
inlined = _with(inline="always")


def _overloads(kernel: Any) -> dict[Any, Any]:
    return getattr(getattr(kernel, "root", kernel), "overloads", {})


def entry_point(kernel: Any) -> Any:
    """Return a kernel's machine code, to be called without checking argument types.

    With a state of seventy arrays the check takes 10 us. The caller guarantees the types. A kernel
    compiled for no type, or for several, is returned unchanged.
    """
    if kernel not in _entry_points:
        overloads = _overloads(kernel)
        if len(overloads) != 1:
            return kernel
        _entry_points[kernel] = next(iter(overloads.values())).entry_point
    return _entry_points[kernel]


def entry_with(kernel: Any, *groups: Any) -> Any:
    """Return a kernel's `entry_point` with its first arguments, groups of arrays, bound.

    The groups are described once, which takes 1 us for seventy arrays, and the caller holds the
    arrays. None for a kernel compiled for no type, or for several. Returned as a function so that
    memory profilers do not walk into the arrays.
    """
    code = entry_point(kernel)
    if code is kernel:
        return None
    [kinds] = _overloads(kernel)
    given = groups if _roots is None else _roots.described_groups(kinds, groups)

    def call(*rest: Any) -> Any:
        return code(*given, *rest)

    return call
