"""How items and parts of arrays become LLVM's code, in fewer instructions than numba's.

numba copies the description of an array to the stack, makes a view of it and reads the item of
that. Here an item, a row or a slice of a contiguous array is a place behind a pointer.
"""

from collections.abc import Callable
from functools import reduce
from typing import Any

from numba import types

from streamddcrp.array_groups import Row
from streamddcrp.lowering_flow import Flow
from streamddcrp.numba_inside import cgutils, ir

SCALARS = types.Number | types.Boolean


class _Named:
    """An array that is the value of a variable."""

    def __init__(self, lower: "Items", name: str) -> None:
        self.lower, self.name = lower, name

    @property
    def data(self) -> Any:
        return self.part("data")

    def size(self, d: int) -> Any:
        return self.part("shape", d)

    def part(self, field: str, *path: int) -> Any:
        lower, name = self.lower, self.name
        model = lower.context.data_model_manager[lower.typeof(name)]
        at = (model.get_field_position(field), *path)
        if name in lower._blk_local_varmap:
            return lower.builder.extract_value(lower._blk_local_varmap[name], at)
        return lower.builder.load(cgutils.gep_inbounds(lower.builder, lower.getvar(name), 0, *at))


class Items(Flow):
    """`Flow`, with short cuts for items and parts of arrays.

    Attributes
    ----------
    _arrays : dict of str to object
        Arrays without an owner, by what they consist of.
    _natural : set of str
        Whole numbers that are never negative.
    _items : dict of str to list
        The items of an index that is a tuple: name, type and value.
    _ends : dict of str to list
        The same of the ends of a slice, None for one that it lacks.
    """

    _arrays: dict[str, Any]
    _natural: set[str]
    _items: dict[str, list[Any]]
    _ends: dict[str, list[Any]]

    def _is_short(self, inst: Any, result: Any) -> bool:
        """Whether an instruction is about an item or a contiguous part, at whole numbers.

        Of this type; None: about a part, of whatever type.
        """
        kind = self.typeof(getattr(inst, "value" if isinstance(inst, ir.Expr) else "target").name)
        if self._is_usual or self.context.enable_boundscheck or not is_compact(kind):
            return False
        n, is_cut = depth(inst.index, self.typeof)
        if n < kind.ndim and (n > 0 or is_cut):
            return result is None or (is_compact(result) and result.ndim == kind.ndim - n)
        if n != kind.ndim or is_cut:
            return False
        return bool(result == kind.dtype) or (
            isinstance(result, SCALARS) and isinstance(kind.dtype, SCALARS)
        )

    def _array(self, name: str) -> Any:
        return self._arrays.get(name) or _Named(self, name)

    def _index(self, index: Any) -> list[Any]:
        """Return the numbers of an index, each with whether it may count from the end.

        Of a slice, which comes last, its ends, None for one that it lacks.
        """
        if not isinstance(index, ir.Var):
            return [self._constant(i) for i in (index if isinstance(index, tuple) else (index,))]
        kind: Any = self.typeof(index.name)
        is_tuple = isinstance(kind, types.BaseTuple)
        if not is_tuple:
            return [self._part(index.name, kind)]
        if index.name in self._items:
            return [self._part(*item) for item in self._items[index.name]]
        value = self.loadvar(index.name)
        items = [self.builder.extract_value(value, d) for d in range(len(kind))]
        return [self._part("", kind[d], item) for d, item in enumerate(items)]

    def _constant(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [end if end is None else self._constant(end) for end in (i.start, i.stop)]
        return self.context.get_value_type(types.intp)(i), i < 0

    def _part(self, name: str, kind: Any, value: Any = None) -> Any:
        if name in self._ends:
            return [end and self._part(*end) for end in self._ends[name]]
        value = self.loadvar(name) if value is None else value
        if isinstance(kind, types.SliceType):
            return [(self.builder.extract_value(value, at), True) for at in range(2)]
        return self._word(kind, value), kind.signed and name not in self._natural

    def _word(self, kind: Any, value: Any) -> Any:
        word = types.intp if kind.signed else types.uintp
        return self.context.cast(self.builder, value, kind, word)

    def _place(self, array: Any, ndim: int, index: Any) -> tuple[Any, list[Any]]:
        """Return a pointer to the item or to the first of the part, and the shape of the part."""
        builder, sizes, shape = self.builder, {}, []
        numbers = self._index(index)
        if isinstance(numbers[-1], list):
            begin, size = self._extent(array.size(len(numbers) - 1), *numbers[-1])
            numbers[-1] = begin, False
            shape.append(size)
        offset: Any = None
        for d in range(ndim):
            i, wraps = numbers[d] if d < len(numbers) else (offset, False)
            if d or wraps:
                sizes[d] = array.size(d)
            if wraps:
                i = self._from_end(i, sizes[d])
            offset = i if offset is None else builder.mul(offset, sizes[d])
            if 0 < d < len(numbers):
                offset = builder.add(offset, i)
        shape += [sizes[d] for d in range(len(numbers), ndim)]
        return builder.gep(array.data, [offset]), shape

    def _from_end(self, i: Any, size: Any) -> Any:
        is_negative = self.builder.icmp_signed("<", i, i.type(0))
        return self.builder.select(is_negative, self.builder.add(i, size), i)

    def _extent(self, size: Any, begin: Any, end: Any) -> tuple[Any, Any]:
        """Return where a slice begins, and how long it is."""
        first = size.type(0) if begin is None else self._within(begin, size)
        last = size if end is None else self._within(end, size)
        length = last if begin is None else self.builder.sub(last, first)
        return first, length if begin is None or end is None else self._positive(length)

    def _within(self, end: tuple[Any, bool], size: Any) -> Any:
        i, wraps = end
        if wraps:
            i = self._positive(self._from_end(i, size))
        return self.builder.select(self.builder.icmp_signed("<", i, size), i, size)

    def _positive(self, i: Any) -> Any:
        return self.builder.select(self.builder.icmp_signed("<", i, i.type(0)), i.type(0), i)

    def _item(self, result: Any, expr: Any) -> Any:
        """Lower ``array[index]``."""
        array, kind = self._array(expr.value.name), self.typeof(expr.value.name)
        place, shape = self._place(array, kind.ndim, expr.index)
        if not shape:
            item = self.context.unpack_value(self.builder, kind.dtype, place)
            return self.context.cast(self.builder, item, kind.dtype, result)
        row = Row(self.context, self.builder, result, place, shape).whole()
        if isinstance(array, _Named):  # what else is not described has no owner
            model = self.context.data_model_manager[result]
            for field in ("meminfo", "parent"):
                at = model.get_field_position(field)
                row = self.builder.insert_value(row, array.part(field), at)
        self.incref(result, row)
        return row

    def _set_item(self, inst: Any) -> bool:
        """Lower ``array[index] = number``, of one item or of all in a part."""
        kind, given = self.typeof(inst.target.name), self.typeof(inst.value.name)
        is_fill = isinstance(given, SCALARS) and self._is_short(inst, None)
        if isinstance(given, types.Array) or not (is_fill or self._is_short(inst, given)):
            return False
        value, wanted = self.loadvar(inst.value.name), self.fndesc.calltypes[inst].args[2]
        value = self.context.cast(self.builder, value, given, wanted)
        value = self.context.cast(self.builder, value, wanted, kind.dtype)
        place, shape = self._place(self._array(inst.target.name), kind.ndim, inst.index)
        if not is_fill:
            self.context.pack_value(self.builder, kind.dtype, value, place)
            return True
        with cgutils.for_range(self.builder, reduce(self.builder.mul, shape)) as loop:
            at = self.builder.gep(place, [loop.index])
            self.context.pack_value(self.builder, kind.dtype, value, at)
        return True

    def _known(self, name: str) -> tuple[str, Any, Any] | None:
        """Return a part of an index, with its value unless it is a slice, or None."""
        kind = self.typeof(name)
        if isinstance(kind, types.NoneType):
            return None
        return name, kind, self.loadvar(name) if isinstance(kind, types.Integer) else None

    def _tuple(self, kind: Any, items: list[Any]) -> Any:
        values = [
            self.context.cast(self.builder, self.loadvar(name) if value is None else value, had, to)
            for (name, had, value), to in zip(items, kind, strict=True)
        ]
        return self.context.make_tuple(self.builder, kind, values)


def is_compact(kind: Any) -> bool:
    """Whether a type is that of contiguous arrays."""
    return type(kind) is types.Array and kind.layout == "C" and kind.aligned


def depth(index: Any, typeof: Callable[[str], Any]) -> tuple[int, bool]:
    """Return the number of whole numbers of an index, and whether a slice comes behind them.

    -1 if it has other parts.
    """
    kind: Any = typeof(index.name) if isinstance(index, ir.Var) else index
    is_tuple = isinstance(kind, tuple | types.BaseTuple)
    parts = list(kind) if is_tuple else [kind]
    is_cut = bool(parts) and is_slice(parts[-1])
    numbers = parts[: len(parts) - is_cut]
    are_whole = all(isinstance(part, types.Integer) or type(part) is int for part in numbers)
    return (len(numbers), is_cut) if are_whole else (-1, False)


def is_slice(part: Any) -> bool:
    """Whether a part of an index, or its type, is a slice of every item between two places."""
    if isinstance(part, slice):
        ends = part.start, part.stop
        return part.step is None and all(end is None or type(end) is int for end in ends)
    return type(part) is types.SliceType and not part.has_step
