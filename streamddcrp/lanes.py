"""Eight numbers at once, for the loops over window rows that take most of the time.

An automatic vectoriser adds a remainder loop, another loop for short arrays and an overlap check,
which for a hundred numbers take as long as the loop itself. Here array lengths are multiples of
eight, and padding entries are harmless. ``+``, ``-``, ``*`` and ``/`` work on lanes, and between
lanes and numbers.

In plain Python a lane is a NumPy array; the functions below operate on it directly.
"""

import inspect
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import lower_builtin, models, register_model, type_callable

LANES = 8
_DOUBLE, _WORD = ir.DoubleType(), ir.IntType(64)
_EIGHT, _WORDS = ir.VectorType(_DOUBLE, LANES), ir.VectorType(_WORD, LANES)
_NOTHING = ir.Constant(_EIGHT, [0.0] * LANES)
_FUSED = ("contract",)  # a product and a sum may become one instruction


class Lanes(types.Type):
    """Type of eight numbers in a register."""

    def __init__(self) -> None:
        super().__init__("lanes")


_LANES = Lanes()


@register_model(Lanes)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Lanes) -> None:
        super().__init__(manager, kind, _EIGHT)


def _compiled(
    function: Any, result: Any, *kinds: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function callable from kernels with arguments of these kinds."""

    @type_callable(function)
    def _typed(_context: Any) -> Any:
        def typer(*args: Any) -> Any:
            is_ours = len(args) == len(kinds) and all(map(isinstance, args, kinds))
            return result if is_ours else None

        typer.pysig = inspect.signature(function)  # type: ignore[attr-defined]
        return typer

    return lower_builtin(function, *kinds)


def _fill(builder: Any, value: Any) -> Any:
    """Return lanes that all hold a number."""
    empty = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    first = builder.insert_element(empty, value, ir.Constant(_WORD, 0))
    return builder.shuffle_vector(first, first, _pattern([0] * LANES))


def _pattern(order: list[int]) -> Any:
    return ir.Constant(ir.VectorType(ir.IntType(32), len(order)), order)


def _part(context: Any, builder: Any, kind: Any, array: Any, field: str) -> Any:
    """Return the struct of an array."""
    return builder.extract_value(array, context.data_model_manager[kind].get_field_position(field))


def _place(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    """Return a pointer to eight entries of an array."""
    where = builder.gep(_part(context, builder, kind, array, "data"), [at])
    return builder.bitcast(where, _EIGHT.as_pointer())


def lanes(value: float) -> Any:
    """Return lanes that all hold a number."""
    return np.full(LANES, value)


@_compiled(lanes, _LANES, types.Float)
def _lanes(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
    return _fill(builder, args[0])


def load(values: Any, at: int) -> Any:
    """Return eight entries of an array from ``at`` >= 0 on."""
    return values[at : at + LANES].copy()


@_compiled(load, _LANES, types.Array, types.Integer)
def _load(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.load(_place(context, builder, sig.args[0], *args), align=8)


def store(values: Any, at: int, eight: Any) -> None:
    """Store lanes in an array from ``at`` >= 0 on."""
    values[at : at + LANES] = eight


@_compiled(store, types.none, types.Array, types.Integer, Lanes)
def _store(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    builder.store(args[2], _place(context, builder, sig.args[0], *args[:2]), align=8)
    return context.get_dummy_value()


def load_column(values: Any, row: int, at: int) -> Any:
    """Return entry ``at`` of each of eight rows of a matrix, from ``row`` on."""
    return values[row : row + LANES, at].copy()


@_compiled(load_column, _LANES, types.Array, types.Integer, types.Integer)
def _load_column(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    values, row, at = args
    shape = _part(context, builder, sig.args[0], values, "shape")
    width = builder.extract_value(shape, 1)
    data = _part(context, builder, sig.args[0], values, "data")
    where = builder.gep(data, [builder.add(builder.mul(row, width), at)])
    eight = ir.Constant(_EIGHT, ir.Undefined)
    for lane in range(LANES):
        eight = builder.insert_element(eight, builder.load(where), ir.Constant(_WORD, lane))
        where = builder.gep(where, [width])
    return eight


def larger(a: Any, b: Any) -> Any:
    """Return the larger number in each lane; ``b`` where one is NaN."""
    return np.where(a > b, a, b)


@_compiled(larger, _LANES, Lanes, Lanes)
def _larger(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
    return _larger_of(builder, *args)


def _larger_of(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def floored(a: Any, least: float) -> Any:
    """Return lanes with entries below a number set to zero."""
    return np.where(a >= least, a, 0.0)


@_compiled(floored, _LANES, Lanes, types.Float)
def _floored(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
    is_kept = builder.fcmp_ordered(">=", args[0], _fill(builder, args[1]))
    return builder.select(is_kept, args[0], _NOTHING)


def between(a: Any, first: int, stop: int) -> Any:
    """Return lanes with all entries zero except ``first`` to ``stop`` - 1; any ``stop``."""
    lane = np.arange(LANES)
    return np.where((lane >= first) & (lane < stop), a, 0.0)


@_compiled(between, _LANES, Lanes, types.Integer, types.Integer)
def _between(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
    lane = ir.Constant(_WORDS, list(range(LANES)))
    from_first = builder.icmp_signed(">=", lane, _fill(builder, args[1]))
    before_stop = builder.icmp_signed("<", lane, _fill(builder, args[2]))
    return builder.select(builder.and_(from_first, before_stop), args[0], _NOTHING)


def times_power(a: Any, shifted: Any) -> Any:
    """Return a 2^k, with k in the low bits of ``shifted``."""
    return (a.view(np.int64) + (shifted.view(np.int64) << 52)).view(np.float64)


@_compiled(times_power, _LANES, Lanes, Lanes)
def _times_power(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
    a, k = (builder.bitcast(arg, _WORDS) for arg in args)
    k = builder.shl(k, ir.Constant(_WORDS, [52] * LANES))
    return builder.bitcast(builder.add(a, k), _EIGHT)


_HALF_ROOT = 0x3FE6A09E667F3BCD  # bits of the square root of a half
_BEYOND = 0x4338000000000000  # bits of 1.5 2^52; adding a small integer shows its bits


def power_of(a: Any) -> Any:
    """Return the k for which a 2^-k lies between sqrt(1/2) and sqrt(2); a > 0."""
    return ((a.view(np.int64) - _HALF_ROOT) >> 52).astype(np.float64)


@_compiled(power_of, _LANES, Lanes)
def _power_of(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
    def eight(word: int) -> Any:
        return ir.Constant(_WORDS, [word] * LANES)

    bits = builder.sub(builder.bitcast(args[0], _WORDS), eight(_HALF_ROOT))
    bits = builder.add(builder.ashr(bits, eight(52)), eight(_BEYOND))
    return builder.fsub(builder.bitcast(bits, _EIGHT), ir.Constant(_EIGHT, [1.5 * 2.0**52] * LANES))


def sum_of(a: Any) -> Any:
    """Return the sum of the lanes."""
    for width in (4, 2, 1):
        a = a[:width] + a[width:]
    return a[0]


def _folded(builder: Any, eight: Any, join: Callable[..., Any]) -> Any:
    """Add neighbouring lanes."""
    width = LANES
    while width > 1:
        width //= 2
        halves = [
            builder.shuffle_vector(eight, eight, _pattern(list(range(first, first + width))))
            for first in (0, width)
        ]
        eight = join(*halves)
    return builder.extract_element(eight, ir.Constant(_WORD, 0))


@_compiled(sum_of, types.float64, Lanes)
def _sum_of(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
    return _folded(builder, args[0], builder.fadd)


def largest_of(a: Any) -> Any:
    """Return the largest lane; none may be NaN."""
    return np.max(a)


@_compiled(largest_of, types.float64, Lanes)
def _largest_of(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
    return _folded(builder, args[0], lambda a, b: _larger_of(builder, a, b))


def sums_of(a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any) -> Any:
    """Return the sums of the lanes of each of eight, one in each lane."""
    return np.array([sum_of(eight) for eight in (a, b, c, d, e, f, g, h)])


@_compiled(sums_of, _LANES, *[Lanes] * LANES)
def _sums_of(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
    many = list(args)
    for width in (1, 2, 4):  # lanes taken from the previous group
        first = [
            begin + lane
            for at in range(0, LANES, 2 * width)
            for begin in (at, LANES + at)
            for lane in range(width)
        ]
        orders = first, [lane + width for lane in first]
        many = [
            builder.fadd(*(builder.shuffle_vector(u, v, _pattern(order)) for order in orders))
            for u, v in zip(many[::2], many[1::2], strict=True)
        ]
    return many[0]


def solved(eight: Any, columns: Any) -> Any:
    """Return z = ``eight`` + A z, A strictly lower; rows of ``columns`` (8, 8) are its columns."""
    for lane in range(LANES - 1):
        eight = eight + eight[lane] * columns[lane]
    return eight


@_compiled(solved, _LANES, Lanes, types.Array)
def _solved(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    z, columns = args
    for lane in range(LANES - 1):
        at = ir.Constant(_WORD, lane * LANES)
        column = builder.load(_place(context, builder, sig.args[1], columns, at), align=8)
        known = builder.shuffle_vector(z, z, _pattern([lane] * LANES))
        z = builder.fadd(z, builder.fmul(known, column, flags=_FUSED), flags=_FUSED)
    return z


def _define(operation: Any, name: str) -> None:
    """Define an operation between lanes, and between lanes and numbers, for numba."""
    for kinds in ((Lanes, Lanes), (Lanes, types.Float), (types.Float, Lanes)):

        @_compiled(operation, _LANES, *kinds)
        def _build(_context: Any, builder: Any, sig: Any, args: Any) -> Any:
            a, b = (
                arg if kind == _LANES else _fill(builder, arg)
                for kind, arg in zip(sig.args, args, strict=True)
            )
            return getattr(builder, name)(a, b, flags=_FUSED)


_define(operator.add, "fadd")
_define(operator.sub, "fsub")
_define(operator.mul, "fmul")
_define(operator.truediv, "fdiv")
