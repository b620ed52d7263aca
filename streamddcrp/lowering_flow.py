"""How loops over ranges, and calls, become LLVM's code in fewer instructions.

numba makes an object of each range, one of its iterator and one of each step, in some hundred
instructions, and distinguishes six return statuses after each call. Here a loop is a
number that is compared and raised, and what is called writes its exception where its caller would
copy it to.
"""

from typing import Any

from numba import types

from streamddcrp.numba_inside import Lower, ir


class Flow(Lower):
    """numba's lowering, with short cuts for loops and calls.

    Attributes
    ----------
    _values : dict of str to list
        What is assigned to each variable.
    _is_usual : bool
        Whether there are no short cuts.
    _loops : dict of str to str
        Iterators over ranges, and which they were at first.
    _ranges : set of str
        What these loops go through.
    _local : set of str
        Variables that are assigned once, and used in that block only.
    _states : dict of str to tuple
        The place of a loop's number, its end and its step, by the loop's first iterator.
    _pairs : dict of str to tuple
        Steps of loops: the number, and whether there is one.
    """

    _values: dict[str, list[Any]]
    _is_usual: bool
    _local: set[str]

    def init(self) -> None:
        """Find the loops."""
        super().init()
        self._states: dict[str, tuple[Any, Any, int]] = {}
        self._pairs: dict[str, tuple[Any, Any]] = {}
        self._loops: dict[str, str] = {}
        for name in () if self._is_usual else self._values:
            if isinstance(self.typeof(name), types.RangeIteratorType):
                first = self._first(name)
                if len(first) == 1 and self._step(*first):
                    self._loops[name] = first.pop()
        self._ranges = {self._values[name][0].value.name for name in self._loops.values()}

    # Loops

    def _first(self, name: str) -> set[str]:
        """Return the variables whose value an iterator may be, and that are no copies."""
        pending, seen, first = [name], {name}, set()
        while pending:
            name = pending.pop()
            for value in self._values[name]:
                if not isinstance(value, ir.Var):
                    first.add(name)
                elif value.name not in seen:
                    seen.add(value.name)
                    pending.append(value.name)
        return first

    def _range(self, name: str) -> Any:
        """Return the call of `range` that an iterator goes through, if it stands right before."""
        [made, *more] = self._values[name]
        if more or getattr(made, "op", "") != "getiter" or made.value.name not in self._local:
            return None
        [call, *more] = self._values[made.value.name]
        if more or getattr(call, "op", "") != "call" or call.kws or call.vararg:
            return None
        return call if key_of(self.typeof(call.func.name)) is range else None

    def _step(self, name: str) -> int:
        """Return the step of a loop, 0 if it is not known."""
        call = self._range(name)
        if call is None or len(call.args) < 3:
            return int(call is not None)
        [value, *more] = self._values[call.args[2].name]
        step = 0 if more or not isinstance(value, ir.Const) else int(value.value)
        return step if step > 0 or self.typeof(name).yield_type.signed else 0

    def _is_of_loop(self, inst: Any) -> bool:
        """Lower an assignment, if it is what makes a loop go on."""
        name, value = inst.target.name, inst.value
        op = getattr(value, "op", "")
        if op == "getiter" and name in self._loops:
            call, kind = self._range(name), self.typeof(name).yield_type
            ends = [self._cast_var(arg, kind) for arg in call.args[:2]]
            place = self._room(ends[0].type)
            self.builder.store(ends[0] if len(ends) > 1 else ends[0].type(0), place)
            self._states[name] = place, ends[-1], self._step(name)
        elif op == "iternext" and value.value.name in self._loops:
            self._pairs[name] = self._next(self._loops[value.value.name])
        else:
            return name in self._loops
        return True

    def _next(self, name: str) -> tuple[Any, Any]:
        place, end, step = self._states[name]
        is_signed, number = self.typeof(name).yield_type.signed, self.builder.load(place)
        compare = self.builder.icmp_signed if is_signed else self.builder.icmp_unsigned
        is_valid = compare("<" if step > 0 else ">", number, end)
        flags = ["nsw" if is_signed else "nuw"]  # none ends within a step of the last number
        self.builder.store(self.builder.add(number, number.type(step), flags=flags), place)
        return number, is_valid

    def _room(self, kind: Any) -> Any:
        with self.builder.goto_entry_block():
            return self.builder.alloca(kind)

    # Calls

    def _call(self, kind: Any, expr: Any, signature: Any) -> Any:
        """Call a kernel; should it raise, the exception is that of this one."""
        made = kind.dispatcher.get_compile_result(signature)
        self.context.add_linking_libs((made.library,))
        function = self.context.declare_function(self.builder.module, made.fndesc)
        given = [
            value for arg, wanted in zip(expr.args, signature.args, strict=True)
            for value in self._argument(arg, wanted)
        ]  # fmt: skip
        out = self._room(function.args[0].type.pointee)
        code = self.builder.call(function, [out, self.function.args[1], *given])
        with self.builder.if_then(self.builder.icmp_signed("!=", code, code.type(0)), likely=False):
            self.builder.ret(code)
        value = self.builder.load(out)
        return self.context.get_returned_value(self.builder, signature.return_type, value)

    def _argument(self, arg: Any, kind: Any) -> list[Any]:
        """Return the values by which an argument is passed."""
        packer = self.context.get_arg_packer((kind,))
        return list(packer.as_arguments(self.builder, (self._cast_var(arg, kind),)))

    def _builtin(self, function: Any, expr: Any, signature: Any) -> Any:
        """Lower a call of some of Python's functions, of others return None."""
        kind, n = signature.return_type, len(expr.args)
        kinds = {kind, *(types.unliteral(self.typeof(arg.name)) for arg in expr.args)}
        is_known = n == 1 if function is int else n == 2 and function in (min, max)
        if not is_known or not all(isinstance(k, types.Integer | types.Float) for k in kinds):
            return None
        values = [self._cast_var(arg, kind) for arg in expr.args]
        if n == 1:
            return values[0]
        sign = ">" if function is max else "<"
        if isinstance(kind, types.Float):
            is_second = self.builder.fcmp_ordered(sign, values[1], values[0])
        elif kind.signed:
            is_second = self.builder.icmp_signed(sign, values[1], values[0])
        else:
            is_second = self.builder.icmp_unsigned(sign, values[1], values[0])
        return self.builder.select(is_second, values[1], values[0])

    def lower_call(self, resty: Any, expr: Any) -> Any:
        """Lower a call."""
        kind, signature, value = self.typeof(expr.func.name), self.fndesc.calltypes[expr], None
        if not (self._is_usual or expr.kws or expr.vararg or expr.target):
            if not isinstance(kind, types.Dispatcher):
                value = self._builtin(key_of(kind), expr, signature)
            elif len(expr.args) == len(signature.args) and not isinstance(
                signature.return_type, types.Optional | types.Generator
            ):
                value = self._call(kind, expr, signature)
        if value is None:
            return super().lower_call(resty, expr)
        return self.context.cast(self.builder, value, signature.return_type, resty)

    def lower_expr(self, resty: Any, expr: Any) -> Any:
        """Lower an expression."""
        if expr.op in ("pair_first", "pair_second") and expr.value.name in self._pairs:
            return self._pairs[expr.value.name][expr.op == "pair_second"]
        return super().lower_expr(resty, expr)


def key_of(kind: Any) -> Any:
    """Return the function that a type is of, None if it is of none of Python's."""
    return getattr(kind, "typing_key", None)
