"""Kernels are compiled once for a version of the sources; a compilation that takes long says so."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any

__all__ = ["compiled", "entry_point"]

_log = logging.getLogger(__name__)
_entry_points: dict[Any, Any] = {}
_PATIENCE = 1.0  # seconds; loading from the cache is quicker


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
