"""Eight numbers at once, for the loops over rows of a window that take most of the time.

A compiler that finds such loops by itself adds one for the rest, another one for short arrays and a
check whether the arrays overlap, which for a hundred numbers take as long as the loop. Here arrays
are as long as a multiple of eight, and what is computed of the last ones is harmless. ``+``, ``-``
and ``*`` work on lanes, and between lanes and numbers. Without compilation lanes are arrays.
"""

import operator
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.datamodel import models
from numba.core.datamodel.registry import register_default
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic

LANES = 8
_DOUBLE, _WORD = ir.DoubleType(), ir.IntType(64)
_EIGHT = ir.VectorType(_DOUBLE, LANES)
_FUSED = ("contract",)  # a product and a sum may be one instruction
_settings: Any = numba.config


class Lanes(types.Type):
    """Type of eight numbers in a register."""

    def __init__(self) -> None:
        super().__init__("lanes")


_LANES = Lanes()


@register_default(Lanes)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Lanes) -> None:
        super().__init__(manager, kind, _EIGHT)


def _fill(builder: Any, value: Any) -> Any:
    """Return eight times a number."""
    empty = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    first = builder.insert_element(empty, value, ir.Constant(_WORD, 0))
    return builder.shuffle_vector(first, first, _pattern([0] * LANES))


def _pattern(order: list[int]) -> Any:
    return ir.Constant(ir.VectorType(ir.IntType(32), len(order)), order)


def _place(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Return a pointer to eight entries of an array."""
    field = context.data_model_manager[sig.args[0]].get_field_position("data")
    where = builder.gep(builder.extract_value(args[0], field), [args[1]])
    return builder.bitcast(where, _EIGHT.as_pointer())


def _compiled(plain: Callable[..., Any]) -> Callable[[Callable[..., Any]], Any]:
    """Make an intrinsic of a function of types; ``plain`` is what it does to arrays."""
    return lambda define: plain if _settings.DISABLE_JIT else intrinsic(define)


@_compiled(lambda value: np.full(LANES, value))
def lanes(_typing: Any, value: Any) -> Any:
    """Return lanes that all hold a number."""

    def build(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return _fill(builder, args[0])

    return _LANES(types.float64), build


@_compiled(lambda values, at: values[at : at + LANES].copy())
def load(_typing: Any, values: Any, at: Any) -> Any:
    """Return eight entries of an array from ``at`` on, which is not negative."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_place(context, builder, sig, args), align=8)

    return _LANES(values, types.intp), build


def _put(values: Any, at: int, eight: Any) -> None:
    values[at : at + LANES] = eight


@_compiled(_put)
def store(_typing: Any, values: Any, at: Any, eight: Any) -> Any:
    """Put lanes into an array from ``at`` on, which is not negative."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[2], _place(context, builder, sig, args), align=8)
        return context.get_dummy_value()

    return types.none(values, types.intp, _LANES), build


@_compiled(np.maximum)
def larger(_typing: Any, a: Any, b: Any) -> Any:
    """Return the larger number in each lane; none is NaN."""

    def build(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return _LANES(_LANES, _LANES), build


@_compiled(lambda a, least: np.where(a >= least, a, 0.0))
def floored(_typing: Any, a: Any, least: Any) -> Any:
    """Return lanes with zeros for what is less than a number."""

    def build(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        is_kept = builder.fcmp_ordered(">=", args[0], _fill(builder, args[1]))
        return builder.select(is_kept, args[0], ir.Constant(_EIGHT, [0.0] * LANES))

    return _LANES(_LANES, types.float64), build


def _between(a: Any, first: int, stop: int) -> Any:
    lane = np.arange(LANES)
    return np.where((lane >= first) & (lane < stop), a, 0.0)


@_compiled(_between)
def between(_typing: Any, a: Any, first: Any, stop: Any) -> Any:
    """Return lanes with zeros but from lane ``first`` to before ``stop``, which may be any."""

    def build(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        lane = ir.Constant(ir.VectorType(_WORD, LANES), list(range(LANES)))
        from_first = builder.icmp_signed(">=", lane, _fill(builder, args[1]))
        before_stop = builder.icmp_signed("<", lane, _fill(builder, args[2]))
        is_kept = builder.and_(from_first, before_stop)
        return builder.select(is_kept, args[0], ir.Constant(_EIGHT, [0.0] * LANES))

    return _LANES(_LANES, types.intp, types.intp), build


def _power(a: Any, shifted: Any) -> Any:
    return (a.view(np.int64) + (shifted.view(np.int64) << 52)).view(np.float64)


@_compiled(_power)
def times_power(_typing: Any, a: Any, shifted: Any) -> Any:
    """Return a 2^k, where k stands in the low bits of ``shifted``."""

    def build(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        words = ir.VectorType(_WORD, LANES)
        a, k = (builder.bitcast(arg, words) for arg in args)
        k = builder.shl(k, ir.Constant(words, [52] * LANES))
        return builder.bitcast(builder.add(a, k), _EIGHT)

    return _LANES(_LANES, _LANES), build


def _folded(builder: Any, eight: Any, join: Callable[..., Any]) -> Any:
    """Join the lanes two by two."""
    width = LANES
    while width > 1:
        width //= 2
        halves = [
            builder.shuffle_vector(eight, eight, _pattern(list(range(first, first + width))))
            for first in (0, width)
        ]
        eight = join(*halves)
    return builder.extract_element(eight, ir.Constant(_WORD, 0))


def _sum(a: Any) -> Any:
    for width in (4, 2, 1):
        a = a[:width] + a[width:]
    return a[0]


@_compiled(_sum)
def sum_of(_typing: Any, a: Any) -> Any:
    """Return the sum of the lanes."""

    def build(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        return _folded(builder, args[0], builder.fadd)

    return types.float64(_LANES), build


@_compiled(np.max)
def largest_of(_typing: Any, a: Any) -> Any:
    """Return the largest of the lanes; none is NaN."""

    def build(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        def join(a: Any, b: Any) -> Any:
            return builder.select(builder.fcmp_ordered(">", a, b), a, b)

        return _folded(builder, args[0], join)

    return types.float64(_LANES), build


def _sums(*eight: Any) -> Any:
    return np.array([_sum(a) for a in eight])


@_compiled(_sums)
def sums_of(_typing: Any, a: Any, b: Any, c: Any, d: Any, e: Any, f: Any, g: Any, h: Any) -> Any:
    """Return the sum of the lanes of each of eight, in a lane of its own."""

    def build(_context: Any, builder: Any, _sig: Any, args: Any) -> Any:
        many = list(args)
        for width in (1, 2, 4):  # of what is taken from one before the other
            first = [
                begin + lane
                for at in range(0, LANES, 2 * width)
                for begin in (at, LANES + at)
                for lane in range(width)
            ]
            orders = first, [lane + width for lane in first]
            many = [
                builder.fadd(*(builder.shuffle_vector(u, v, _pattern(o)) for o in orders))
                for u, v in zip(many[::2], many[1::2], strict=True)
            ]
        return many[0]

    return _LANES(*[_LANES] * LANES), build


@_compiled(lambda values, row, at: values[row : row + LANES, at].copy())
def load_column(_typing: Any, values: Any, row: Any, at: Any) -> Any:
    """Return entry ``at`` of each of eight rows of a matrix, from ``row`` on."""

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        model = context.data_model_manager[sig.args[0]]
        data = builder.extract_value(args[0], model.get_field_position("data"))
        shape = builder.extract_value(args[0], model.get_field_position("shape"))
        width = builder.extract_value(shape, 1)
        where = builder.gep(data, [builder.add(builder.mul(args[1], width), args[2])])
        eight = ir.Constant(_EIGHT, ir.Undefined)
        for lane in range(LANES):
            eight = builder.insert_element(eight, builder.load(where), ir.Constant(_WORD, lane))
            where = builder.gep(where, [width])
        return eight

    return _LANES(values, types.intp, types.intp), build


def _solved(eight: Any, columns: Any) -> Any:
    for lane in range(LANES - 1):
        eight = eight + eight[lane] * columns[lane]
    return eight


@_compiled(_solved)
def solved(_typing: Any, eight: Any, columns: Any) -> Any:
    """Return the z for which z = ``eight`` + A z.

    A is a strictly lower triangle of which ``columns`` (8, 8) has the columns as rows.
    """

    def build(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        z = args[0]
        for lane in range(LANES - 1):
            at = (args[1], ir.Constant(_WORD, lane * LANES))
            column = builder.load(_place(context, builder, _of_array(sig), at), align=8)
            known = builder.shuffle_vector(z, z, _pattern([lane] * LANES))
            z = builder.fadd(z, builder.fmul(known, column, flags=_FUSED), flags=_FUSED)
        return z

    return _LANES(_LANES, columns), build


def _of_array(sig: Any) -> Any:
    return signature(sig.return_type, sig.args[1])


def _define(operation: Any, name: str) -> None:
    """Teach numba an operation between lanes, and between lanes and numbers."""

    @infer_global(operation)
    class _Typed(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            is_ours = len(args) == 2 and _LANES in args and not kws
            if is_ours and all(a in (_LANES, types.float64) for a in args):
                return signature(_LANES, *args)
            return None

    def build(_context: Any, builder: Any, sig: Any, args: Any) -> Any:
        a, b = (
            arg if kind == _LANES else _fill(builder, arg)
            for kind, arg in zip(sig.args, args, strict=True)
        )
        return getattr(builder, name)(a, b, flags=_FUSED)

    for kinds in ((_LANES, _LANES), (_LANES, types.float64), (types.float64, _LANES)):
        lower_builtin(operation, *kinds)(build)


_define(operator.add, "fadd")
_define(operator.sub, "fsub")
_define(operator.mul, "fmul")

