"""Turn items of arrays and loops over ranges into few instructions.

numba reads ``x[i]`` as one case of all that may stand in brackets, in forty instructions, and a
loop over a range as one that may step backwards. They were half of the code that LLVM has to read.
Here an item or a row of a contiguous array is a place behind its pointer. What is computed is the
same. Instructions whose results nobody uses are dropped before LLVM reads them.
"""

import operator
from collections import Counter
from typing import Any

from llvmlite import ir
from numba import types

from streamddcrp.numba_inside import CPUContext, cgutils

_codes: Any = ir.instructions
_PURE = frozenset((
    "add", "alloca", "bitcast", "extractvalue", "getelementptr", "icmp", "insertvalue", "load",
    "mul", "select", "sub",
))  # fmt: skip


class Shorter(CPUContext):
    """A view of numba's context with shorter code for items and ranges."""

    def __init__(self, shared: CPUContext) -> None:
        self.__dict__ = shared.__dict__

    def get_function(self, fn: Any, sig: Any, _firstcall: bool = True) -> Any:
        """Return what builds the code of a function for a signature."""
        fits, build = _OURS.get(getattr(fn, "typing_key", fn), _NOTHING)
        if self.enable_boundscheck or not fits(sig):
            return super().get_function(fn, sig, _firstcall)

        def code(builder: Any, args: Any, loc: Any = None) -> Any:
            return build(self, builder, sig, args)

        return code

    def pair_first(self, builder: Any, val: Any, ty: Any) -> Any:
        """Return what an iterator gave."""
        return builder.extract_value(val, 0)

    def pair_second(self, builder: Any, val: Any, ty: Any) -> Any:
        """Return whether it gave anything."""
        return builder.extract_value(val, 1)


# Items of arrays


def _kinds(kind: Any) -> Any:
    """Types of the indices."""
    return getattr(kind, "types", (kind,))  # those of a tuple


def _is_item(sig: Any) -> bool:
    array, index = sig.args[:2]
    return (
        type(array) is types.Array
        and array.layout == "C"
        and array.aligned
        and 0 < len(_kinds(index)) <= array.ndim
        and all(isinstance(kind, types.Integer) for kind in _kinds(index))
    )


def _is_set_item(sig: Any) -> bool:
    array, index, value = sig.args
    return (
        _is_item(sig)
        and len(_kinds(index)) == array.ndim
        and isinstance(value, types.Number | types.Boolean)
    )


def _place(context: Any, builder: Any, sig: Any, args: Any) -> tuple[Any, list[Any]]:
    """Return a pointer to an item or a row, and the row's shape."""
    array, index = args[:2]
    kind, kinds = sig.args[0], _kinds(sig.args[1])
    model = context.data_model_manager[kind]
    where = model.get_field_position("shape")
    shape = [builder.extract_value(array, [where, d]) for d in range(kind.ndim)]
    is_tuple = isinstance(sig.args[1], types.BaseTuple)
    at: Any = None
    for d, number in enumerate(kinds):
        i = builder.extract_value(index, d) if is_tuple else index
        i = context.cast(builder, i, number, types.intp if number.signed else types.uintp)
        if number.signed:  # negative ones count from the end
            is_negative = builder.icmp_signed("<", i, i.type(0))
            i = builder.select(is_negative, builder.add(i, shape[d]), i)
        at = i if at is None else builder.add(builder.mul(at, shape[d]), i)
    for n in shape[len(kinds) :]:
        at = builder.mul(at, n)
    data = builder.extract_value(array, model.get_field_position("data"))
    return builder.gep(data, [at]), shape[len(kinds) :]


def _get_item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    place, shape = _place(context, builder, sig, args)
    kind = sig.return_type
    if not shape:
        return context.unpack_value(builder, kind, place)
    of, model = (context.data_model_manager[k] for k in (sig.args[0], kind))
    row = ir.Constant(context.get_value_type(kind), ir.Undefined)
    size = builder.extract_value(args[0], of.get_field_position("itemsize"))
    strides, n_items = [size], shape[-1]
    for n in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], n, flags=["nsw"]))
    for n in shape[-2::-1]:
        n_items = builder.mul(n_items, n, flags=["nsw"])
    known = {"data": place, "itemsize": size, "nitems": n_items}
    for field in ("meminfo", "parent"):
        known[field] = builder.extract_value(args[0], of.get_field_position(field))
    for field, value in known.items():
        row = builder.insert_value(row, value, model.get_field_position(field))
    for field, values in {"shape": shape, "strides": strides}.items():
        for d, value in enumerate(values):
            row = builder.insert_value(row, value, [model.get_field_position(field), d])
    if context.enable_nrt:
        context.nrt.incref(builder, kind, row)
    return row


def _set_item(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    kind, _, given = sig.args
    place, _ = _place(context, builder, sig, args)
    value = context.cast(builder, args[2], given, kind.dtype)
    context.pack_value(builder, kind.dtype, value, place)
    return context.get_dummy_value()


# Ranges: {start, stop, step} becomes {pointer to the next, stop, step, pointer to what is left}


def _is_range(sig: Any) -> bool:
    return len(sig.args) < 3 and all(kind == types.int64 for kind in sig.args)


def _range(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    n = args[-1].type
    value = ir.Constant(context.get_value_type(sig.return_type), ir.Undefined)
    for field, item in enumerate((args[0] if len(args) > 1 else n(0), args[-1], n(1))):
        value = builder.insert_value(value, item, field)
    return value


def _is_range_of(sig: Any) -> bool:
    return sig.args[0] == types.range_state64_type


def _iterate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    start, stop, step = (_part(args[0], (field,)) for field in range(3))
    if not isinstance(step, ir.Constant) or step.constant != 1:
        return CPUContext.get_function(context, "getiter", sig)(builder, args)
    left = builder.sub(stop, start)
    at, n = (cgutils.alloca_once(builder, left.type) for _ in range(2))
    builder.store(start, at)
    builder.store(left, n)
    value = ir.Constant(context.get_value_type(sig.return_type), ir.Undefined)
    for field, item in enumerate((at, stop, step, n)):
        value = builder.insert_value(value, item, field)
    return value


def _is_steps(sig: Any) -> bool:
    return sig.args[0] == types.range_iter64_type


def _next(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    """Step, which does no harm after the last."""
    at, _, step, left = (builder.extract_value(args[0], field) for field in range(4))
    value, n = builder.load(at), builder.load(left)
    builder.store(builder.add(value, step), at)
    builder.store(builder.sub(n, n.type(1), flags=["nsw"]), left)
    pair = ir.Constant(context.get_value_type(sig.return_type), ir.Undefined)
    for field, item in enumerate((value, builder.icmp_signed(">", n, n.type(0)))):
        pair = builder.insert_value(pair, item, field)
    return pair


# What builds code, and for which signatures.
_OURS: dict[Any, Any] = {
    operator.getitem: (_is_item, _get_item),
    operator.setitem: (_is_set_item, _set_item),
    range: (_is_range, _range),
    "getiter": (_is_range_of, _iterate),
    "iternext": (_is_steps, _next),
}
_NOTHING: Any = (lambda sig: False), None


# Values that nobody uses


def drop_unused(module: Any) -> None:
    """Read parts of a struct from where they were put in; drop what is not used then."""
    for function in module.functions:
        same: dict[int, Any] = {}
        used: Counter[int] = Counter()
        for block in function.blocks:
            for code in block.instructions:
                _replace(code, same)
                used.update(map(id, _needed(code)))
                if isinstance(code, _codes.ExtractValue):
                    part = _part(code.aggregate, tuple(code.indices))
                    if part is not None:
                        same[id(code)] = part
        for block in reversed(function.blocks):
            kept = []
            for code in reversed(block.instructions):
                if code.opname in _PURE and not used[id(code)]:
                    used.subtract(map(id, code.operands))
                else:
                    kept.append(code)
            block.instructions[:] = kept[::-1]


def _needed(code: Any) -> Any:
    if isinstance(code, _codes.PhiInstr):
        return [value for value, _ in code.incomings]
    return code.operands


def _replace(code: Any, same: dict[int, Any]) -> None:
    if isinstance(code, _codes.PhiInstr) or not any(id(x) in same for x in code.operands):
        return
    code.operands = [same.get(id(x), x) for x in code.operands]
    if isinstance(code, _codes.ExtractValue | _codes.InsertValue):
        code.aggregate = code.operands[0]
    if isinstance(code, _codes.InsertValue):
        code.value = code.operands[1]
    elif isinstance(code, _codes.GEPInstr):
        code.pointer, *code.indices = code.operands


def _part(whole: Any, at: tuple[int, ...]) -> Any:
    """Return the value at a place in a struct, None if it was not put in alone."""
    while isinstance(whole, _codes.InsertValue):
        into = tuple(whole.indices)
        if at[: len(into)] == into:
            if at == into:
                return whole.value
            whole, at = whole.value, at[len(into) :]
        elif into[: len(at)] == at:
            return None
        else:
            whole = whole.aggregate
    return None
