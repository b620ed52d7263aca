"""Compile kernels to machine code, with numba's internals; used by `compilation`.

numba would optimise each function with everything it calls, and again inside each of its callers.
Here a kernel is only typed and translated to LLVM code. The *root*, the kernel that Python calls,
includes the code of all kernels it needs and is optimised once, as a whole; groups of arrays reach
it as pointers (`array_groups`). This is ten times as fast. Loops are not unrolled, which would
double the code, and garbage collection is rare meanwhile.

The target is the one `kernel_folders` names, whatever numba was configured for.
"""

import gc
from functools import cache
from types import CodeType
from typing import Any

from numba import types

from streamddcrp.array_groups import Group, described, grouped
from streamddcrp.kernel_cache import Cache
from streamddcrp.kernel_folders import target
from streamddcrp.numba_inside import (
    Compiler,
    Context,
    CPUDispatcher,
    InlineClosureLikes,
    JITCodeLibrary,
    NopythonRewrites,
    binding,
    config,
    global_compiler_lock,
)

_settings: Any = config  # numba's, read from the environment
_signatures: dict[Any, Any] = {}  # by numba's functions
_SELDOM = (50_000, 20, 20)  # numba keeps most objects, and each collection visits all
_INNER: dict[str, Any] = {
    "nopython": True, "boundscheck": None, "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
}  # fmt: skip


@cache
def _machine() -> Any:
    """Return LLVM's target machine, set up like numba's except for the processor."""
    _, name, features, _ = target()
    triple = binding.Target.from_triple(binding.get_process_triple())
    reloc = "static" if triple.name.startswith("x86") else "default"
    return triple.create_target_machine(
        cpu=name, features=features, opt=int(_settings.OPT), reloc=reloc,
        codemodel="jitdefault", jit=True,
    )  # fmt: skip


class _NoEnvironment:
    """A kernel without its own machine code needs no Python environment."""

    @staticmethod
    def set_env(name: str, env: Any) -> None:
        pass


class _Lowered(JITCodeLibrary):
    """Code that is neither optimised nor compiled; roots include it."""

    codegen = _NoEnvironment

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0


class _Whole(JITCodeLibrary):
    """A root's code with that of all kernels it needs, optimised once."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def add_linking_library(self, library: Any) -> None:
        if library not in self._linking_libraries:
            super().add_linking_library(library)
            for needed in library._linking_libraries if isinstance(library, _Lowered) else ():
                self.add_linking_library(needed)

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == binding.Linkage.linkonce_odr:
                function.linkage = "internal"
            elif not function.is_declaration:  # else LLVM sees groups change before the call
                function.add_function_attribute("noinline")
        tuning = binding.create_pipeline_tuning_options(speed_level=int(_settings.OPT))
        tuning.loop_vectorization = bool(_settings.LOOP_VECTORIZE)
        tuning.slp_vectorization = bool(_settings.SLP_VECTORIZE)
        tuning.loop_unrolling = False  # it doubles the code without a gain in speed
        builder = binding.create_pass_builder(_machine(), tuning)
        manager = builder.getModulePassManager()
        manager.add_refprune_pass()
        manager.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        self._code = _machine().emit_object(self._final_module)
        self._set_compiled_object(self._code)  # numba loads it as if cached
        super()._finalize_final_module()

    def serialize_using_object_code(self) -> Any:
        """Return the machine code and the names that it defines, without sources."""
        names = [f.name for f in self._final_module.functions if not f.is_declaration]
        defined = "\n".join(f'define void @"{name}"() {{ ret void }}' for name in names)
        return self.name, "object", (self._code, binding.parse_assembly(defined).as_bitcode())


class _Typing(Context):
    """A cache of numba's function types, which tries every overload of `+` at each sum."""

    def __init__(self, shared: Context) -> None:
        self.__dict__ = shared.__dict__

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        if kws or isinstance(func, str | types.Dispatcher | types.BoundFunction):
            return super().resolve_function_type(func, args, kws)
        key = func, args
        if key not in _signatures:
            _signatures[key] = super().resolve_function_type(func, args, kws)
        return _signatures[key]


_typing = cache(_Typing)


class _LoweringOnly(Compiler):
    """numba's compiler for kernels that Python does not call."""

    _library: Any = _Lowered

    def __init__(self, typing: Any, target: Any, library: Any, *more: Any) -> None:
        library = self._library(target.codegen(), "kernel")
        library.enable_object_caching()
        super().__init__(_typing(typing), target, library, *more)

    def define_pipelines(self) -> Any:
        """Remove passes that never apply to a kernel."""
        [passes] = super().define_pipelines()
        idle: set[Any] = {NopythonRewrites}
        if not any(isinstance(c, CodeType) for c in self.state.func_id.code.co_consts):
            idle.add(InlineClosureLikes)  # there are no inner functions
        passes.passes = [(p, why) for p, why in passes.passes if p not in idle]
        passes.finalize()
        return [passes]


class _RootCompiler(_LoweringOnly):
    _library = _Whole


class _Root(CPUDispatcher):
    """The function that Python calls for a kernel; groups of arrays come as pointers."""

    _cache: Any

    def typeof_pyval(self, value: Any) -> Any:
        return grouped(super().typeof_pyval(value))

    def compile(self, sig: Any) -> Any:
        with global_compiler_lock:  # numba's lock, while the threshold is changed
            usual = gc.get_threshold()
            gc.set_threshold(*_SELDOM)
            try:
                return super().compile(sig)
            finally:
                gc.set_threshold(*usual)
                self._cache.release()


class _Kernel(CPUDispatcher):
    """A kernel; calls from Python go to its root."""

    _root: Any = None

    @property
    def root(self) -> Any:
        """The version that Python calls, created at the first call."""
        if self._root is None:
            options = {**self.targetoptions, "no_cpython_wrapper": False, "forceinline": False}
            self._root = _Root(self.py_func, {}, options, pipeline_class=_RootCompiler)
            self._root._cache = Cache(self.py_func)
        return self._root

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.root(*args, **named)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        return super().get_call_template(tuple(map(_plain, args)), kws)


def _plain(kind: Any) -> Any:
    """Return an argument's type: one for all integers, so that no kernel is compiled for each."""
    kind = types.unliteral(kind)
    return types.int64 if kind in types.signed_domain else kind


def compiled(function: Any, options: dict[str, Any]) -> Any:
    """Return a kernel that is compiled at its first call."""
    return _Kernel(function, {}, {**_INNER, **options}, pipeline_class=_LoweringOnly)


def described_groups(kinds: Any, groups: Any) -> list[Any]:
    """Return arguments with groups of arrays described in advance."""
    return [
        described(kind, group) if isinstance(kind, Group) else group
        for kind, group in zip(kinds, groups, strict=False)
    ]
