"""Pass groups of arrays to kernels by pointer.

numba passes a named tuple by value, with seven or more numbers for each array. A state of seventy
arrays becomes five hundred arguments, unpacked and packed again at every call, which would be half
the code that LLVM has to optimise. Here a group arrives as a pointer to descriptors of its arrays,
constant during a call, and a kernel loads only those that it names. The pointer has no type and
the group's name is short in LLVM's code, which both would else double.

If many calls share a group, Python may pass its descriptors as bytes instead.
"""

import struct
from collections.abc import Sequence
from typing import Any
from zlib import crc32

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
        self.mangling = f"group{crc32(self.name.encode()):08x}", ()

    @property
    def mangling_args(self) -> tuple[str, tuple[()]]:
        """Name and parameters in the names of functions."""
        return self.mangling


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
    return isinstance(kind, Group) or kind in _NUMBERS


_NUMBERS = {types.float64: "d", types.int64: "q", types.uint64: "Q", types.boolean: "?"}


def _form(kinds: Sequence[Any]) -> str:
    """Return how members lie in memory, as `struct` writes it."""
    form = "@"
    for kind in kinds:
        if isinstance(kind, types.Array):  # numba's descriptor
            form += f"PPnnP{2 * kind.ndim}n"
        else:
            form += _NUMBERS.get(kind, "P")
    return form


def described(kind: Group, group: Sequence[Any]) -> bytes:
    """Return a substitute for a group in kernel calls, valid while its arrays live."""
    parts: list[Any] = []
    for member, item in zip(kind.members, group, strict=True):
        if isinstance(member, types.Array):  # without owner
            parts += [0, 0, item.size, item.itemsize, item.ctypes.data, *item.shape, *item.strides]
        else:
            parts.append(item)
    return struct.pack(_form(kind.members), *parts)


@register_model(Group)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Group) -> None:
        super().__init__(manager, kind, cgutils.voidptr_t)


@infer_getattr
class _Attributes(AttributeTemplate):
    key = Group

    def generic_resolve(self, kind: Group, name: str) -> Any:  # type: ignore[override]
        return kind.members[kind.names.index(name)] if name in kind.names else None


@lower_getattr_generic(Group)
def _member(context: Any, builder: Any, group: Group, value: Any, name: str) -> Any:
    """Load a number, or a contiguous array without owner and with strides from its shape."""
    at = group.names.index(name)
    kind = group.members[at]
    offset = struct.calcsize(_form(group.members[: at + 1])) - struct.calcsize(_form([kind]))
    where = builder.gep(value, [ir.IntType(64)(offset)], inbounds=True)
    where = builder.bitcast(where, context.get_value_type(kind).as_pointer())
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
    builder = c.builder
    stored = ir.LiteralStructType([c.context.get_value_type(member) for member in kind.members])
    group = cgutils.alloca_once(builder, stored, zfill=True)
    place = cgutils.alloca_once_value(builder, builder.bitcast(group, c.pyapi.voidptr))
    failure = cgutils.alloca_once_value(builder, cgutils.false_bit)
    is_bytes = builder.icmp_unsigned(
        "==", c.pyapi.get_type(value), c.pyapi.get_c_object("PyBytes_Type")
    )
    with builder.if_else(is_bytes) as (described, apart):
        with described:
            builder.store(c.pyapi.bytes_as_string(value), place)
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
