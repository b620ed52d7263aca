"""Pass groups of arrays to kernels by pointer.

numba passes a named tuple by value, with seven or more numbers for each array. A state of seventy
arrays becomes five hundred arguments, unpacked and packed again at every call, which would be half
the code that LLVM has to optimise. Here a group arrives as a pointer to descriptors of its arrays,
constant during a call, and a kernel loads only those that it names.

If many calls share a group, Python may pass its descriptors as bytes instead.
"""

import struct
from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import NativeValue, models, register_model, unbox

from streamddcrp.numba_inside import (
    AttributeTemplate,
    cgutils,
    infer_getattr,
    lower_getattr_generic,
)


class Group(types.Type):
    """numba type of a named tuple of numbers, contiguous arrays and groups."""

    def __init__(self, names: tuple[str, ...], members: tuple[Any, ...]) -> None:
        self.names, self.members = names, members
        fields = ", ".join(f"{n}: {m}" for n, m in zip(names, members, strict=True))
        super().__init__(f"group({fields})")


def grouped(kind: Any) -> Any:
    """Return the type in which kernels take arguments of a type.

    Named tuples of arrays become groups. Read-only arrays, such as Arrow's, become ordinary ones,
    so that no kernel is compiled for each kind; no kernel writes to user data.
    """
    if isinstance(kind, types.Array):
        return kind.copy(readonly=False)
    if isinstance(kind, types.BaseNamedTuple):
        named: Any = kind
        members = tuple(map(grouped, named))
        if all(map(_is_member, members)):
            return Group(named.fields, members)
    return kind


def _is_member(kind: Any) -> bool:
    if isinstance(kind, types.Array):
        return bool(kind.layout == "C")
    return isinstance(kind, Group | types.Number | types.Boolean)


_FORMATS = {types.float64: "d", types.int64: "q", types.boolean: "?"}


def described(kind: Group, group: Sequence[Any]) -> bytes:
    """Return a substitute for a group in kernel calls, valid while its arrays live."""
    form, parts = "@", []
    for member, item in zip(kind.members, group, strict=True):
        if isinstance(member, types.Array):  # numba's layout: no owner, and so on
            form += f"PPnnP{2 * item.ndim}n"
            parts += [0, 0, item.size, item.itemsize, item.ctypes.data, *item.shape, *item.strides]
        else:
            form += _FORMATS[member]
            parts.append(item)
    return struct.pack(form, *parts)


@register_model(Group)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Group) -> None:
        stored = [manager.lookup(member).get_value_type() for member in kind.members]
        super().__init__(manager, kind, ir.LiteralStructType(stored).as_pointer())


@infer_getattr
class _Attributes(AttributeTemplate):
    key = Group

    def generic_resolve(self, kind: Group, name: str) -> Any:  # type: ignore[override]
        return kind.members[kind.names.index(name)] if name in kind.names else None


@lower_getattr_generic(Group)
def _member(context: Any, builder: Any, group: Group, value: Any, name: str) -> Any:
    """Load a number, or a contiguous array without owner and with strides from its shape."""
    at = group.names.index(name)
    kind, where = group.members[at], cgutils.gep_inbounds(builder, value, 0, at)
    if not isinstance(kind, types.Array):
        return _constant(builder, where)
    model = context.data_model_manager[kind]

    def load(field: str, *inside: int) -> Any:
        at = model.get_field_position(field)
        return _constant(builder, cgutils.gep_inbounds(builder, where, 0, at, *inside))

    shape = [load("shape", d) for d in range(kind.ndim)]
    size = context.get_constant(
        types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype))
    )
    strides, n_items = [size], shape[0]
    for n in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], n, flags=["nsw"]))
    for n in shape[1:]:
        n_items = builder.mul(n_items, n, flags=["nsw"])
    known = {
        "nitems": n_items, "itemsize": size, "data": load("data"),
        "shape": cgutils.pack_array(builder, shape),
        "strides": cgutils.pack_array(builder, strides),
    }  # fmt: skip
    array = cgutils.get_null_value(context.get_value_type(kind))
    for field, item in known.items():
        array = builder.insert_value(array, item, model.get_field_position(field))
    return array


def _constant(builder: Any, where: Any) -> Any:
    """Load a value that is constant during a call."""
    value = builder.load(where)
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


@unbox(Group)
def _unbox(kind: Group, value: Any, c: Any) -> Any:
    builder, stored = c.builder, c.context.get_value_type(kind)
    group = cgutils.alloca_once(builder, stored.pointee, zfill=True)
    place = cgutils.alloca_once_value(builder, group)
    failure = cgutils.alloca_once_value(builder, cgutils.false_bit)
    is_bytes = builder.icmp_unsigned(
        "==", c.pyapi.get_type(value), c.pyapi.get_c_object("PyBytes_Type")
    )
    with builder.if_else(is_bytes) as (described, apart):
        with described:
            builder.store(builder.bitcast(c.pyapi.bytes_as_string(value), stored), place)
        with apart:
            builder.store(_fill(kind, value, group, c), failure)
    return NativeValue(builder.load(place), is_error=builder.load(failure))


def _fill(kind: Group, value: Any, group: Any, c: Any) -> Any:
    """Write the descriptors of a named tuple's arrays; return whether that failed."""
    failed = cgutils.false_bit
    signature = ir.FunctionType(ir.IntType(32), [c.pyapi.pyobj, c.pyapi.voidptr])
    adapt = cgutils.get_or_insert_function(c.builder.module, signature, "numba_adapt_ndarray")
    for at, member in enumerate(kind.members):
        item = c.pyapi.tuple_getitem(value, at)
        where = cgutils.gep_inbounds(c.builder, group, 0, at)
        if isinstance(member, types.Array):  # borrowed, not counted: the caller holds the group
            c.builder.call(adapt, (item, c.builder.bitcast(where, c.pyapi.voidptr)))
        else:
            native = c.unbox(member, item)
            c.builder.store(native.value, where)
            failed = c.builder.or_(failed, native.is_error)
    return failed
