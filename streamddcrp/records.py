"""Groups of arrays, declared once: from this follow creation, growth, storage and counting.

A group is a named tuple, which kernels take as one argument and update in place. Each field
declares its axes and its initial value (0 unless given)::

    class Rows(NamedTuple):
        x: Annotated[FloatArray, "W D"]
        log_weight: Annotated[FloatArray, "W W", -np.inf]
        active: Annotated[IntArray, "K:A"]  # room for K, of which A are in use

A letter is an axis whose length the caller gives; a number is a fixed length. A group is created
with its capacities and stored with the lengths in use: an axis ``K:A`` has length K, then A.

A field also declares the values it may hold, unless they are the default: "whole numbers from 0, or
the fill if that is lower, to 2^53" or "any float"::

        table: Annotated[IntArray, "W", -1, index("K", none=True)]  # a place in an array of K
        x: Annotated[FloatArray, "W D", PREPARED]

A loaded state is checked once: a forged one must not make a kernel leave an array.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from streamddcrp.errors import CheckpointError

LINE = 64  # bytes of a cache line

Array = NDArray[Any]
Lengths = Mapping[str, int]
_Group = TypeVar("_Group", bound=tuple[Any, ...])


MOST = 1 << 53  # largest whole number that a float holds exactly
Bound = float | str  # a number; "K", the length of an axis; or "<K", the last index of that axis


@dataclass(frozen=True, slots=True)
class Within:
    """The values an array may hold, bounds included; ``of``: own limits by last axis."""

    least: Bound
    most: Bound
    nan: bool = False
    of: Mapping[int, "Within"] | None = None

    def holds(self, array: Array, lengths: Lengths) -> bool:
        """Whether every value lies within the bounds; reads each array once."""
        if self is ANY or self is _HASH or array.size == 0:  # any value of the type
            return True
        if self.of is not None:
            return self._each_holds(self.of, array, lengths)
        smallest, largest = (np.fmin, np.fmax) if self.nan else (np.minimum, np.maximum)
        low, high = smallest.reduce(array, axis=None), largest.reduce(array, axis=None)
        if self.nan and np.isnan(low):  # all NaN
            return True
        return bool(self._at(self.least, lengths) <= low and high <= self._at(self.most, lengths))

    def _each_holds(self, of: Mapping[int, "Within"], array: Array, lengths: Lengths) -> bool:
        n = array.shape[-1]
        least, most = (
            np.full(n, self._at(end, lengths), array.dtype) for end in (self.least, self.most)
        )
        nan = np.full(n, self.nan)
        for at, own in of.items():
            least[at], most[at] = own._at(own.least, lengths), own._at(own.most, lengths)
            nan[at] = own.nan
        within = (least <= array) & (array <= most)
        return bool((within | (np.isnan(array) & nan)).all())

    def __str__(self) -> str:
        return f"from {self.least} to {self.most}" if self.of is None else "each in its range"

    @staticmethod
    def _at(bound: Bound, lengths: Lengths) -> float:
        if not isinstance(bound, str):
            return bound
        return lengths[bound[1:]] - 1 if bound[0] == "<" else lengths[bound]


def index(axis: str, *, none: bool = False) -> Within:
    """Allow indices of an axis; with ``none`` also -1 for no index."""
    return Within(-1 if none else 0, f"<{axis}")


def up_to(axis: str) -> Within:
    """Allow counts up to the length of ``axis``."""
    return Within(0, axis)


def counters(of: Mapping[int, Within], least: int = 0) -> Within:
    """Codes with separate meanings; ``least`` is the bound of the other entries."""
    return Within(least, MOST, of=of)


VALUE = Within(-1e100, 1e100, nan=True)  # of a row; NaN: missing
PRESENT = Within(-1e100, 1e100)  # where none may be missing
PREPARED = Within(-1.7e308, 1.7e308, nan=True)  # the same after preparation by a likelihood
ANY = Within(-math.inf, math.inf, nan=True)
REAL = Within(-math.inf, math.inf)  # not NaN
FINITE = Within(-1.7e308, 1.7e308)
WEIGHT = Within(0.0, 1.7e308)
CHANCE = Within(-1e-9, 1.0 + 1e-6)  # a probability, with room for rounding
ONLY_ZERO = Within(0, 0)
_HASH = Within(0, math.inf)


def _usual(dtype: Any, fill: Any) -> Within:
    kind = np.dtype(dtype).kind
    if kind == "f":
        return ANY
    return _HASH if kind in "ub" else Within(min(fill, 0), MOST)


class _Field(NamedTuple):
    name: str
    room: tuple[str, ...]
    used: tuple[str, ...]
    dtype: Any
    fill: Any
    within: Within

    @staticmethod
    def shape(lengths: Lengths, axes: tuple[str, ...]) -> tuple[int, ...]:
        return tuple([int(lengths[a]) if a in lengths else int(a) for a in axes])


@cache
def declared(group: Any) -> tuple[_Field, ...]:
    """Return the declared fields of a group, or of any class; others are left out."""
    found = []
    for name, hint in get_type_hints(group, include_extras=True).items():
        if get_origin(hint) is not Annotated:
            continue
        array, axes, *more = get_args(hint)
        kind = get_args(array)[-1]  # of NDArray: from numpy 2.5 on the type, before np.dtype of it
        dtype = next(iter(get_args(kind)), kind)
        pairs = [axis.partition(":") for axis in axes.split()]
        room, used = tuple(a for a, _, _ in pairs), tuple(b or a for a, _, b in pairs)
        fill = next((part for part in more if not isinstance(part, Within)), 0)
        within = next((part for part in more if isinstance(part, Within)), _usual(dtype, fill))
        found.append(_Field(name, room, used, dtype, fill, within))
    return tuple(found)


def empty(group: type[_Group], lengths: Lengths) -> _Group:
    """Return a group with room for ``lengths``."""
    plan, n_bytes = _plan(group, tuple(lengths.items()))
    whole = np.zeros(n_bytes + LINE, np.uint8)
    first = -whole.__array_interface__["data"][0] % LINE
    made = []
    for shape, dtype, fill, place in plan:
        array: Array = np.ndarray(shape, dtype, whole, first + place)
        if fill:
            array.fill(fill)
        made.append(array)
    return group(*made)


@lru_cache(64)
def _plan(
    group: Any, lengths: tuple[tuple[str, int], ...]
) -> tuple[tuple[tuple[Any, Any, Any, int], ...], int]:
    """Return shape, type, value and offset of a group's arrays on cache lines, and bytes."""
    axes, plan, place = dict(lengths), [], 0
    for f in declared(group):
        shape, dtype = f.shape(axes, f.room), np.dtype(f.dtype)
        plan.append((shape, dtype, f.fill, place))
        place += -(-math.prod(shape) * dtype.itemsize // LINE) * LINE
    return tuple(plan), place


def clear(group: Any) -> None:
    """Reset the arrays of a group to what `empty` fills in."""
    group[0].base.fill(0)
    for f, array in zip(declared(type(group)), group, strict=True):  # type: ignore[arg-type]
        if f.fill:
            array.fill(f.fill)


def resized(group: _Group, lengths: Lengths) -> _Group:
    """Return a copy with other capacities, cutting off entries beyond them."""
    new = empty(type(group), lengths)
    for target, source in zip(new, group, strict=True):
        both = tuple([slice(min(a, b)) for a, b in zip(target.shape, source.shape, strict=True)])
        target[both] = source[both]
    return new


def _parts(state: Any, lengths: Lengths) -> Iterator[tuple[str, Array, tuple[int, ...], Within]]:
    """Yield name, array, shape in use and range of a state's arrays, without work space."""
    for part, own in _ranges(type(state)):  # type: ignore[arg-type]
        value = getattr(state, part)
        if isinstance(value, np.ndarray):
            yield part, value, value.shape, own or _usual(value.dtype, 0)
        elif not part.startswith("scratch"):
            for f, array in zip(declared(type(value)), value, strict=True):  # type: ignore[arg-type]
                yield f"{part}.{f.name}", array, f.shape(lengths, f.used), f.within


@cache
def _ranges(state: Any) -> tuple[tuple[str, Within | None], ...]:
    """Return the parts of a state, and own ranges of those that are arrays."""
    hints = get_type_hints(state, include_extras=True)
    return tuple(
        (f.name, next((p for p in get_args(hints[f.name]) if isinstance(p, Within)), None))
        for f in fields(state)
    )


def arrays_of(state: Any, lengths: Lengths) -> dict[str, Array]:
    """Return copies of a state's arrays, without unused capacity, for a checkpoint.

    ``state`` is a dataclass of groups and arrays. Groups named ``scratch...`` are work space and
    left out. ``lengths`` gives the length in use of each axis.
    """
    return {
        name: array[tuple(slice(n) for n in shape)].copy()
        for name, array, shape, _ in _parts(state, lengths)
    }


def restore(state: Any, lengths: Lengths, arrays: Mapping[str, Array]) -> None:
    """Write the output of `arrays_of` into an empty state; raises CheckpointError."""
    for name, array, shape, within in _parts(state, lengths):
        stored = stored_array(name, arrays)
        check_one(name, stored, shape, array.dtype, within, lengths)
        target = array if shape == array.shape else array[tuple(map(slice, shape))]
        if target.shape != shape:
            refuse_if(True, f"{name!r} is too long")
        target[...] = stored


def check(
    group: Any, arrays: Mapping[str, Array], lengths: Lengths, part: str = "",
    without: Collection[str] = (),
) -> dict[str, int]:  # fmt: skip
    """Check stored arrays against the declaration of a group; return the lengths in use.

    Field ``f`` is stored under ``part`` and ``f``; fields in ``without`` are not stored.
    ``lengths`` gives known lengths; others follow from the arrays in order. Raises CheckpointError
    if an array is missing, has a wrong type or shape, or has a value out of range.
    """
    known = dict(lengths)
    for f in declared(group):
        if f.name in without:
            continue
        name = f"{part}{f.name}"
        stored = stored_array(name, arrays)
        refuse_if(stored.ndim != len(f.used), f"{name!r} has {stored.ndim} axes")
        for axis, n in zip(f.used, stored.shape, strict=True):
            if not axis.isdigit():
                known.setdefault(axis, n)
        check_one(name, stored, f.shape(known, f.used), f.dtype, f.within, known)
    return known


def stored_array(name: str, arrays: Mapping[str, Array]) -> Array:
    """Return an array of a stored state, or refuse it; see `check`."""
    if name not in arrays:
        raise CheckpointError(f"the stored state lacks the array {name!r}")
    return arrays[name]


def check_one(
    name: str, stored: Array, shape: tuple[int, ...], dtype: Any, within: Within,
    lengths: Lengths = MappingProxyType({}),
) -> None:  # fmt: skip
    """Check one stored array; see `check`."""
    if stored.shape != shape or stored.dtype != dtype:
        raise CheckpointError(
            f"array {name!r} of the stored state has type {stored.dtype} and shape "
            f"{stored.shape}; expected {np.dtype(dtype)} and {shape}"
        )
    if not within.holds(stored, lengths):
        raise CheckpointError(
            f"array {name!r} of the stored state has values out of range ({within}); the state "
            "was altered: use another copy"
        )


def refuse_if(wrong: bool, what: str) -> None:
    """Refuse a stored state with inconsistent parts: CheckpointError."""
    if wrong:
        raise CheckpointError(f"the stored state does not hold together ({what}); use another copy")


def nbytes_of(state: Any) -> int:
    """Return the bytes of the arrays of a state with slots for arrays or tuples of arrays."""
    slots = getattr(state, "_fields", None) or type(state).__slots__
    names = (f.name for f in fields(state)) if is_dataclass(state) else slots
    groups = (getattr(state, name) for name in names)
    parts = (group if isinstance(group, tuple) else (group,) for group in groups)
    return sum(array.nbytes for part in parts for array in part)
