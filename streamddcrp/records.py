"""How much memory a state takes."""

from typing import Any


def nbytes_of(state: Any) -> int:
    """Return the bytes of the arrays of a state with slots: each an array, or a tuple of arrays."""
    groups = (getattr(state, name) for name in type(state).__slots__)
    parts = (group if isinstance(group, tuple) else (group,) for group in groups)
    return sum(array.nbytes for part in parts for array in part)
