"""How kernels are decorated, compiled and called.

Every kernel is decorated by one of the names below, never by numba's own: `roots` compiles them in
a tenth of the time that numba takes, and `kernel_cache` keeps their machine code. Both lean on the
inside of numba (`numba_inside`). With another version than it was tested with, kernels are compiled
as numba does it, which takes ten times as long, and a warning says so. The numbers are the same.
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

TESTED = "0.68"  # the minor version of numba whose inside is known
_log = logging.getLogger(__name__)
_entry_points: dict[Any, Any] = {}
_settings: Any = config  # numba's, read from the environment


def _inside() -> Any:
    """Import what leans on the inside of numba; None where that may be another one."""
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
    """Digest of all sources of the package, of which numba would look at one."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _with(**options: Any) -> Callable[[Any], Any]:
    return lambda function: kernel(function, **options)


inner = _with()  # called by other kernels only

# For kernels that allocate nothing and take tuples of many arrays: references to the arrays are not
# counted, which takes two thirds of the time where a call does little. `entry` is called by Python,
# `uncounted` by kernels only.
_UNCOUNTED: dict[str, Any] = {"_nrt": False}
entry = _with(**_UNCOUNTED)
uncounted = _with(**_UNCOUNTED)

# Called by a loop for each word: a call passes every array of its tuples, which takes longer than
# the work of such a kernel.
leaf = _with(forceinline=True, **_UNCOUNTED)

# Loops over columns that divide: a check for zeros would keep them from vector registers.
column = _with(forceinline=True, error_model="numpy", **_UNCOUNTED)
unchecked = _with(error_model="numpy")

# Copied into the caller before it is compiled.
inlined = _with(inline="always")


def _root_of(kernel: Any) -> Any:
    return getattr(kernel, "root", kernel)


def _overloads(kernel: Any) -> dict[Any, Any]:
    return getattr(_root_of(kernel), "overloads", {})


def entry_point(kernel: Any) -> Any:
    """Return the machine code of a kernel, to be called without a look at the arguments' types.

    With a state of seventy arrays that look takes 10 us. The caller vouches for the types; a kernel
    that was not compiled yet, or for more types than one, comes back as it is.
    """
    if kernel not in _entry_points:
        overloads = _overloads(kernel)
        if len(overloads) != 1:
            return kernel
        _entry_points[kernel] = next(iter(overloads.values())).entry_point
    return _entry_points[kernel]


def entry_with(kernel: Any, *groups: Any) -> Any:
    """Return the `entry_point` of a kernel with its first arguments, groups of arrays, given.

    They are described once, not at each call: for seventy arrays that takes 1 us. The caller holds
    the arrays. None for a kernel that was not compiled yet, or for more types than one. Returned as
    a function so that memory profilers do not walk into the arrays.
    """
    code = entry_point(kernel)
    if code is kernel:
        return None
    [kinds] = _overloads(kernel)
    given = groups if _roots is None else _roots.described_groups(kinds, groups)

    def call(*rest: Any) -> Any:
        return code(*given, *rest)

    return call
