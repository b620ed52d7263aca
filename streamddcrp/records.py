"""Groups of arrays that are declared once: making, enlarging, storing and counting follow.

A group is a named tuple, which kernels take as one argument and update in place. Each field says
which axes it has, and what stands where nothing was written yet (0 unless given)::

    class Rows(NamedTuple):
        x: Annotated[FloatArray, "W D"]
        log_weight: Annotated[FloatArray, "W W", -np.inf]
        active: Annotated[IntArray, "K:A"]  # room for K, of which A are in use

A letter is an axis whose length the caller gives, a number is itself. Lengths are capacities when a
group is made, and what is in use when it is stored: an axis ``K:A`` takes K then and A now.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from streamddcrp.errors import CheckpointError

Array = NDArray[Any]
Lengths = Mapping[str, int]
_Group = TypeVar("_Group", bound=tuple[Any, ...])


class _Field(NamedTuple):
    name: str
    room: tuple[str, ...]
    used: tuple[str, ...]
    dtype: Any
    fill: Any

    def shape(self, lengths: Lengths, axes: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(int(a) if a.isdigit() else int(lengths[a]) for a in axes)


@cache
def declared(group: Any) -> tuple[_Field, ...]:
    """Return the declared fields of a group; none where it is not one."""
    found = []
    for name, hint in get_type_hints(group, include_extras=True).items():
        if get_origin(hint) is not Annotated:
            return ()
        array, axes, *fill = get_args(hint)
        dtype = get_args(get_args(array)[1])[0]
        pairs = [axis.partition(":") for axis in axes.split()]
        room, used = tuple(a for a, _, _ in pairs), tuple(b or a for a, _, b in pairs)
        found.append(_Field(name, room, used, dtype, fill[0] if fill else 0))
    return tuple(found)


def empty(group: type[_Group], lengths: Lengths) -> _Group:
    """Return a group with room for ``lengths``."""
    return group(*(np.full(f.shape(lengths, f.room), f.fill, f.dtype) for f in declared(group)))


def resized(group: _Group, lengths: Lengths) -> _Group:
    """Return a copy with other capacities; what lies beyond them is cut off."""
    new = empty(type(group), lengths)
    for target, source in zip(new, group, strict=True):
        both = tuple(slice(min(a, b)) for a, b in zip(target.shape, source.shape, strict=True))
        target[both] = source[both]
    return new


def _parts(state: Any, lengths: Lengths) -> Iterator[tuple[str, Array, tuple[int, ...]]]:
    """Yield name, array and the shape in use of everything a state remembers; no work space."""
    for part in (field.name for field in fields(state)):
        value = getattr(state, part)
        if isinstance(value, np.ndarray):
            yield part, value, value.shape
        elif not part.startswith("scratch"):
            for f, array in zip(declared(type(value)), value, strict=True):  # type: ignore[arg-type]
                yield f"{part}.{f.name}", array, f.shape(lengths, f.used)


def arrays_of(state: Any, lengths: Lengths) -> dict[str, Array]:
    """Return copies of the arrays of a state, without unused capacity, for a checkpoint.

    Parameters
    ----------
    state : dataclass
        Of groups and arrays. A group whose name begins with ``scratch`` is work space: left out.
    lengths : mapping
        What is in use of each axis.
    """
    return {
        name: array[tuple(slice(n) for n in shape)].copy()
        for name, array, shape in _parts(state, lengths)
    }


def restore(state: Any, lengths: Lengths, arrays: Mapping[str, Array]) -> None:
    """Write what `arrays_of` returned into an empty state.

    Raises
    ------
    CheckpointError
        If an array is missing, or its type or shape is not the declared one.
    """
    for name, array, shape in _parts(state, lengths):
        stored = arrays.get(name)
        if stored is None:
            message = f"the stored state lacks the array {name!r}"
            raise CheckpointError(message)
        fits = stored.shape == shape and all(
            a <= b for a, b in zip(shape, array.shape, strict=True)
        )
        if not fits or stored.dtype != array.dtype:
            message = (
                f"array {name!r} of the stored state has type {stored.dtype} and shape "
                f"{stored.shape}; expected {array.dtype} and {shape}"
            )
            raise CheckpointError(message)
        array[tuple(slice(n) for n in shape)] = stored


def nbytes_of(state: Any) -> int:
    """Return the bytes of the arrays of a state with slots: each an array, or a tuple of arrays."""
    names = (f.name for f in fields(state)) if is_dataclass(state) else type(state).__slots__
    groups = (getattr(state, name) for name in names)
    parts = (group if isinstance(group, tuple) else (group,) for group in groups)
    return sum(array.nbytes for part in parts for array in part)
