"""How kernels take groups of arrays: by a pointer.

numba passes a named tuple by value, each array as seven or more numbers: a state of seventy arrays
as five hundred arguments, taken apart and put together again at every call. Half of the code that
LLVM would have to optimise is that. Here a group arrives as a pointer to the descriptions of its
arrays, which nothing changes during a call, and a kernel loads only those that it names.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.datamodel.registry import register_default
from numba.core.imputils import lower_getattr_generic
from numba.core.pythonapi import NativeValue, unbox
from numba.core.typing.templates import AttributeTemplate, infer_getattr


class Group(types.Type):
    """Type of a named tuple whose members are numbers, contiguous arrays and groups."""

    def __init__(self, names: tuple[str, ...], members: tuple[Any, ...]) -> None:
        self.names, self.members = names, members
        fields = ", ".join(f"{n}: {m}" for n, m in zip(names, members, strict=True))
        super().__init__(f"group({fields})")


def grouped(kind: Any) -> Any:
    """Return as what kernels take arguments of a type: groups for named tuples of arrays."""
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


@register_default(Group)
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
def _member(context: Any, builder: Any, kind: Group, value: Any, name: str) -> Any:
    at = kind.names.index(name)
    member, where = kind.members[at], cgutils.gep_inbounds(builder, value, 0, at)
    if not isinstance(member, types.Array):
        return _constant(builder, where)
    fields = context.data_model_manager.lookup(member)._fields
    n_bytes = context.get_abi_sizeof(context.get_data_type(member.dtype))
    size = context.get_constant(types.intp, n_bytes)

    def load(field: str, *inside: int) -> Any:
        place = cgutils.gep_inbounds(builder, where, 0, fields.index(field), *inside)
        return _constant(builder, place)

    shape = [load("shape", d) for d in range(member.ndim)]
    strides = [size]
    for n in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], n, flags=["nsw"]))
    known = {
        "nitems": load("nitems"), "itemsize": size, "data": load("data"),
        "shape": cgutils.pack_array(builder, shape),
        "strides": cgutils.pack_array(builder, strides),
    }  # fmt: skip
    array = cgutils.get_null_value(context.get_value_type(member))  # not counted: no owner
    for field, item in known.items():
        array = builder.insert_value(array, item, fields.index(field))
    return array


def _constant(builder: Any, where: Any) -> Any:
    """Load what does not change during a call."""
    value = builder.load(where)
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


@unbox(Group)
def _unbox(kind: Group, value: Any, c: Any) -> Any:
    stored = c.context.get_value_type(kind).pointee
    group = cgutils.alloca_once(c.builder, stored, zfill=True)
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
    return NativeValue(group, is_error=failed)
