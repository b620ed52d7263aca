"""How a kernel that numba has typed becomes LLVM's code, in fewer instructions.

numba reads ``x[i]`` as one case of all that may stand in brackets: it copies the description of the
array to the stack, makes a view of it and reads the item of that, in some forty instructions, and
the first work of LLVM is to take them away again. Here an item or a row of a contiguous array, at
whole numbers, and a slice, is a place behind a pointer, and no array is described before its
description is wanted. What is computed stays the same. Loops and calls are in `lowering_flow`.

Arrays that the caller holds, and rows of these, are not counted: they live as long as the call.
What is returned is counted, and so is all that a kernel allocates.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from numba import types

from streamddcrp.array_groups import Group, Member, Row
from streamddcrp.lowering_flow import key_of
from streamddcrp.lowering_items import Items, depth, is_compact, is_slice
from streamddcrp.numba_inside import analysis, eh, ir

_ITEMS = ("getitem", "static_getitem")
_CONSTANTS = ir.Const | ir.Global | ir.FreeVar


class Lowering(Items):
    """`Items`, with short cuts for arrays and for variables that nothing counts.

    Attributes
    ----------
    _values : dict of str to list
        What is assigned to each variable.
    _borrowed : set of str
        Arrays that the caller holds, or rows of these.
    _local : set of str
        Variables that are assigned once, and used in that block only.
    _given : dict of int to Row
        Arrays among the arguments, by position.
    _later : dict of str to function
        How to make values that may never be wanted.
    """

    def init(self) -> None:
        """Find out about the variables."""
        self._is_copying = False  # a reference that needs no count
        self._values: dict[str, list[Any]] = defaultdict(list)
        self._home: dict[str, int] = {}  # the block in which a variable is assigned last
        self._arrays: dict[str, Any] = {}
        self._given: dict[int, Row] = {}
        self._items: dict[str, list[Any]] = {}
        self._ends: dict[str, list[Any]] = {}
        self._later: dict[str, Callable[[], Any]] = {}
        self._is_usual = bool(
            self.generator_info or self.context.enable_debuginfo or self._loc_notify_registry
        )
        returned = set()
        for offset, block in self.blocks.items():
            for inst in block.body:
                if isinstance(inst, ir.Assign):
                    self._values[inst.target.name].append(inst.value)
                    self._home[inst.target.name] = offset
                    if isinstance(inst.value, ir.Global) and inst.value.value is eh.exception_check:
                        self._is_usual = True  # blocks may be left in their midst
                elif isinstance(inst, ir.Return):
                    returned.add(inst.value.name)
        kinds = {} if self._is_usual else {name: self.typeof(name) for name in self._values}
        arrays = {name for name, kind in kinds.items() if type(kind) is types.Array}
        self._borrowed = self._closed(arrays - returned, self._is_borrowed)
        numbers = {name for name, kind in kinds.items() if isinstance(kind, types.Integer)}
        self._natural = self._closed(numbers, self._is_natural)
        super().init()

    def _find_singly_assigned_variable(self) -> None:
        """Find the variables that need no place on the stack: one value, known where it is used."""
        if self._is_usual:
            super()._find_singly_assigned_variable()
            return
        dominators = analysis.compute_cfg_from_blocks(self.blocks).dominators()
        users: dict[str, set[int]] = defaultdict(set)
        for offset, names in analysis.compute_use_defs(self.blocks).usemap.items():
            for name in names:
                users[name].add(offset)
        once = {name for name, values in self._values.items() if len(values) == 1}
        self._local = {name for name in once if not users[name]}
        self._singly_assigned_vars = self._local | {
            name for name in once
            if not self._counts(name)
            and all(u > self._home[name] and self._home[name] in dominators[u] for u in users[name])
        }  # fmt: skip
        self._blk_local_varmap: dict[str, Any] = {}

    # What is known of variables

    def _closed(self, names: set[str], holds: Callable[..., bool]) -> set[str]:
        """Return the variables for which something holds whatever is assigned to them."""
        while True:
            kept = {
                name for name in names
                if all(holds(self.typeof(name), value, names) for value in self._values[name])
            }  # fmt: skip
            if kept == names:
                return kept
            names = kept

    def _is_borrowed(self, kind: Any, value: Any, names: set[str]) -> bool:
        if isinstance(value, ir.Arg):
            return bool(self.typeof(f"arg.{value.name}") == kind)
        if isinstance(value, ir.Var):
            return value.name in names and self.typeof(value.name) == kind
        if not isinstance(value, ir.Expr):
            return False
        if value.op == "getattr":
            return isinstance(self.typeof(value.value.name), Group)
        return value.op in _ITEMS and value.value.name in names and self._is_short(value, kind)

    def _is_natural(self, kind: Any, value: Any, names: set[str]) -> bool:
        if not kind.signed or isinstance(value, _CONSTANTS):
            return bool(not kind.signed or value.value >= 0)
        if isinstance(value, ir.Var):
            return value.name in names and self.typeof(value.name) == kind
        is_item = getattr(value, "op", "") == "pair_first"
        return is_item and self._counts_up(value.value.name, names)

    def _counts_up(self, name: str, natural: set[str]) -> bool:
        """Whether what a loop goes through is a range that begins at no negative number."""
        pending, seen = [name], {name}
        while pending:
            for value in self._values[pending.pop()]:
                if isinstance(value, ir.Expr) and value.op == "call":
                    is_range = key_of(self.typeof(value.func.name)) is range
                    begins = [arg.name for arg in value.args[:-1]]
                    if not is_range or len(begins) > 1 or not natural.issuperset(begins):
                        return False
                    continue
                is_step = getattr(value, "op", "") in ("getiter", "iternext")
                source = value.value if is_step else value
                if not isinstance(source, ir.Var):
                    return False
                pending += [source.name] if source.name not in seen else []
                seen.add(source.name)
        return True

    # Arrays

    def _is_postponed(self, inst: Any) -> bool:
        """Whether an assignment is one of something that may never be wanted as a whole."""
        name, value = inst.target.name, inst.value
        kind, op = self.typeof(name), getattr(value, "op", "")
        if name not in self._singly_assigned_vars or self._counts(name):
            return False
        if isinstance(kind, types.Array):
            array = self._parts(value, kind)
            if array is not None and name not in self._local:  # loaded where all can use it
                sizes = [array.size(d) for d in range(kind.ndim)]
                array = Row(self.context, self.builder, kind, array.data, sizes)
            if array is not None:
                self._arrays[name], self._later[name] = array, array.whole
        elif isinstance(value, _CONSTANTS) and isinstance(kind, types.Callable):
            constant = self.context.get_constant_generic
            self._later[name] = partial(constant, self.builder, kind, value.value)
        elif name in self._ranges:
            self._later[name] = partial(super().lower_expr, kind, value)
        elif name not in self._local:
            return False
        elif op == "build_tuple" and depth(inst.target, self.typeof)[0] > 0:
            self._items[name] = [self._known(i.name) for i in value.items]
            self._later[name] = partial(self._tuple, kind, self._items[name])
        elif op == "call" and is_slice(kind) and len(value.args) == 2:
            self._ends[name] = [self._known(i.name) for i in value.args]
            self._later[name] = partial(super().lower_expr, kind, value)
        return name in self._later

    def _parts(self, value: Any, kind: Any) -> Any:
        """Return an array without an owner as what it consists of, None if it is another array."""
        if isinstance(value, ir.Var):
            return self._arrays.get(value.name)
        if isinstance(value, ir.Arg):
            return self._given.get(value.index)
        op = getattr(value, "op", "")
        if op == "getattr" and isinstance(self.typeof(value.value.name), Group):
            group = self.typeof(value.value.name), self.loadvar(value.value.name)
            return Member(self.context, self.builder, *group, value.attr)
        if op in _ITEMS and self._is_short(value, kind):
            name = value.value.name
            if name in self._arrays or not self.context.enable_nrt:
                place = self._place(self._array(name), self.typeof(name).ndim, value.index)
                return Row(self.context, self.builder, kind, *place)
        return None

    # Arguments

    def extract_function_arguments(self) -> Any:
        """Take arrays as what they consist of, where none is returned."""
        if self._is_usual or self._is_counted(self.fndesc.restype):
            return super().extract_function_arguments()
        raw, self.fnargs = list(self.call_conv.get_arguments(self.function)), []
        for index, kind in enumerate(self.fndesc.argtypes):
            packer = self.context.get_arg_packer((kind,))
            n = len(packer.argument_types)
            if is_compact(kind):
                data, *shape = raw[4 : 5 + kind.ndim]
                self._given[index] = Row(self.context, self.builder, kind, data, shape)
                self.fnargs.append(None)
            else:
                self.fnargs += packer.from_arguments(self.builder, raw[:n])
            raw = raw[n:]
        return self.fnargs

    def _argument(self, arg: Any, kind: Any) -> list[Any]:
        array = self._arrays.get(arg.name)
        if array is None or self.typeof(arg.name) != kind:
            return super()._argument(arg, kind)
        return array.fields()

    def _builtin(self, function: Any, expr: Any, signature: Any) -> Any:
        if function is len and isinstance(self.typeof(expr.args[0].name), types.Array):
            return self._array(expr.args[0].name).size(0)
        return super()._builtin(function, expr, signature)

    # numba's methods

    def lower_inst(self, inst: Any) -> None:
        """Lower a statement."""
        if self._is_usual:
            super().lower_inst(inst)
        elif isinstance(inst, ir.Assign):
            if not self._is_of_loop(inst) and not self._is_postponed(inst):
                name = inst.target.name
                self._is_copying = name in self._borrowed
                value = self.lower_assign(self.typeof(name), inst)
                self._is_copying = False
                self.storevar(value, name)
        elif isinstance(inst, ir.Del):
            self.delvar(inst.value)
        elif not (isinstance(inst, ir.SetItem | ir.StaticSetItem) and self._set_item(inst)):
            super().lower_inst(inst)

    def lower_assign(self, ty: Any, inst: Any) -> Any:
        """Lower what is assigned."""
        if isinstance(inst.value, ir.Arg) and inst.value.index in self._given:
            return self._given[inst.value.index].whole()
        return super().lower_assign(ty, inst)

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        """Lower an expression."""
        if expr.op in _ITEMS and self._is_short(expr, resty):
            return self._item(resty, expr)
        return super().lower_expr(resty, expr)

    def lower_binop(self, resty: Any, expr: Any, op: Any) -> Any:
        """Lower an operator; only a static operand needs what numba tries first."""
        if expr.static_lhs is not ir.UNDEFINED or expr.static_rhs is not ir.UNDEFINED:
            return super().lower_binop(resty, expr, op)
        wanted = self.fndesc.calltypes[expr]
        function, signature = _operator(self.context.typing_context, op, wanted.args)
        values = [
            self.context.cast(self.builder, self.loadvar(side.name), self.typeof(side.name), kind)
            for side, kind in zip((expr.lhs, expr.rhs), wanted.args, strict=True)
        ]
        value = self.context.get_function(function, signature)(self.builder, values)
        return self.context.cast(self.builder, value, wanted.return_type, resty)

    def loadvar(self, name: str) -> Any:
        """Return the value of a variable."""
        if name not in self._later or name in self._blk_local_varmap:
            return super().loadvar(name)
        value = self._later[name]()
        if name in self._local:
            self._blk_local_varmap[name] = value
        return value

    def storevar(self, value: Any, name: str, argidx: int | None = None) -> None:
        """Assign to a variable."""
        if self._is_usual or name in self._singly_assigned_vars or self._counts(name):
            super().storevar(value, name, argidx)
        else:
            self._alloca_var(name, self.typeof(name))
            self.builder.store(value, self.getvar(name))

    def delvar(self, name: str) -> None:
        """Release what a variable holds."""
        if self._is_usual or self._counts(name):
            super().delvar(name)

    def _counts(self, name: str) -> bool:
        """Whether the references that a variable holds are counted."""
        return name not in self._borrowed and self._is_counted(self.typeof(name))

    def _is_counted(self, kind: Any) -> bool:
        return self.context.enable_nrt and _has_owner(self.context.data_model_manager, kind)

    def incref(self, typ: Any, val: Any) -> None:
        """Count a reference more."""
        if not self._is_copying and self._is_counted(typ):
            super().incref(typ, val)

    def decref(self, typ: Any, val: Any) -> None:
        """Count a reference less."""
        if self._is_counted(typ):
            super().decref(typ, val)


@cache
def _has_owner(models: Any, kind: Any) -> bool:
    return bool(models[kind].contains_nrt_meminfo())


@cache
def _operator(typing: Any, op: Any, kinds: Any) -> tuple[Any, Any]:
    function = typing.resolve_value_type(op)
    return function, function.get_call_type(typing, kinds, {})
