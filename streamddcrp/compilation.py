"""How kernels are compiled and cached.

Every kernel is decorated by one of the names below, never by numba's own. numba would optimise each
function together with all that it calls, and then once more inside each of its callers. Here a
kernel is only typed and lowered, in few instructions (`lowering`); when Python calls one, that one,
the *root*, takes in the code of all it needs and is optimised once, as a whole, and groups of
arrays come to it as pointers (`array_groups`). This takes a fifth of the time. Loops are not
unrolled, which would double the code, and garbage is seldom collected meanwhile.

A root's machine code is kept in a folder named by its package and a digest of the sources it may
call: those of its own ``kernels`` package and what these import. An edit of one model's kernels
therefore compiles that model again and nothing else, in tests and for users alike. The folders lie
in ``$NUMBA_CACHE_DIR``, or in the user's cache.

The pipeline leans on the inside of numba. With another version than it was tested with, kernels
are compiled as numba does it, which is slower and gives the same numbers.
"""

import gc
import hashlib
import logging
import os
import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Timer
from types import CodeType
from typing import Any

import numba
from llvmlite.binding import Linkage, create_pass_builder, create_pipeline_tuning_options
from numba import njit, types
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserProvidedCacheLocator
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import register_pass
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import BaseNativeLowering, NativeLowering, NopythonRewrites
from numba.core.typing.context import Context
from numba.core.untyped_passes import InlineClosureLikes
from numba.misc.appdirs import AppDirs

from streamddcrp.array_groups import Group, described, grouped
from streamddcrp.lowering import Lowering

_log = logging.getLogger(__name__)
_entry_points: dict[Any, Any] = {}
_signatures: dict[Any, Any] = {}  # of numba's functions
_announced: set[str] = set()  # folders
_PATIENCE = 1.0  # seconds that a compilation may take unannounced
_UNUSED = 30 * 86400.0  # seconds after which a folder of an older version goes
_SELDOM = (50_000, 20, 20)  # numba keeps most of what it makes, and each collection looks at all
_INNER: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
_IS_TESTED = numba.__version__.split(".")[:2] == ["0", "68"]
_settings: Any = config  # numba's, read from the environment
_CORE = Path(__file__).parent
# Besides `kernels` packages.
_COMPILED = {
    "kernels", "numerics", "contract", "compilation", "array_groups", "lowering",
    "lanes", "lowering_flow", "lowering_items",
}  # fmt: skip
_IMPORTED = re.compile(rb"^from streamddcrp\.([\w.]+) import", re.MULTILINE)


def _is_compiled(path: Path) -> bool:
    return path.parent.name == "kernels" or path.stem in _COMPILED


@cache
def _digest(home: Path) -> str:
    """Digest of a file or package of kernels, and of the kernels that these import."""
    pending = sorted(home.glob("*.py")) if home.is_dir() else [home]
    sources: dict[Path, bytes] = {}
    while pending:
        path = pending.pop()
        if path not in sources:
            sources[path] = path.read_bytes()
            names = (name.decode().split(".") for name in _IMPORTED.findall(sources[path]))
            files = (_CORE.joinpath(*name).with_suffix(".py") for name in names)
            pending += [file for file in files if file.is_file() and _is_compiled(file)]
    digest = hashlib.sha256()
    for path in sorted(sources):
        digest.update(f"{path.parent.name}/{path.name}\n".encode())
        digest.update(sources[path])
    return digest.hexdigest()[:16]


def cache_root() -> Path:
    """Return the folder below which compiled kernels are kept."""
    return Path(_settings.CACHE_DIR or AppDirs("streamddcrp", appauthor=False).user_cache_dir)


@cache
def _folder(home: Path) -> str:
    """Name the folder of a package's compiled kernels, and clear away those long out of use."""
    root = cache_root()
    name = "-".join(home.with_suffix("").parts[-3:])
    folder = root / f"{name}-{_digest(home)}"
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)  # marks it as in use
        for other in root.glob(f"{name}-*"):
            if other.stat().st_mtime < time.time() - _UNUSED:
                shutil.rmtree(other, ignore_errors=True)
    return str(folder)


class _Locator(UserProvidedCacheLocator):
    """Where numba keeps a kernel; refuses a folder that cannot be written."""

    def __init__(self, py_func: Any, py_file: str) -> None:
        path = Path(py_file)
        home = path.parent if path.parent.name == "kernels" else path
        self._py_file, self._lineno = py_file, py_func.__code__.co_firstlineno
        self._cache_path, self._stamp = _folder(home), _digest(home)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Any:
        locator = cls(py_func, py_file)
        return locator if os.access(locator.get_cache_path(), os.W_OK) else None

    def get_source_stamp(self) -> str:
        return self._stamp


class _Implementation(CompileResultCacheImpl):
    _locator_classes = [_Locator, *CompileResultCacheImpl._locator_classes]  # noqa: RUF012


class _Cache(FunctionCache):
    """The machine code of a root on disk; a compilation that takes long is announced."""

    _impl_class = _Implementation
    _timer: Timer | None = None
    _began: float | None = None  # when a compilation that was announced did

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super().load_overload(sig, target_context)
        if found is None and self._timer is None and self.cache_path not in _announced:
            self._timer = Timer(_PATIENCE, self._announce)
            self._timer.daemon = True
            self._timer.start()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super().save_overload(sig, data)
        if self._began is not None:
            _log.warning("compiled in %.0f s", time.perf_counter() - self._began)
            self._began = None

    def _announce(self) -> None:
        if self.cache_path not in _announced:
            _announced.add(self.cache_path)
            self._began = time.perf_counter() - _PATIENCE
            _log.warning(
                "compiling %s, once for this version of the sources (up to half a minute of CPU "
                "time); kept in %s. `streamddcrp warmup` does it ahead",
                Path(self.cache_path).name.rpartition("-")[0].replace("-", "."), self.cache_path,
            )  # fmt: skip


class _NoEnvironment:
    """A kernel without machine code of its own has no place for a Python environment."""

    @staticmethod
    def set_env(name: str, env: Any) -> None:
        pass


class _Lowered(JITCodeLibrary):
    """Code that is neither optimised nor turned into machine code; roots take it in."""

    codegen = _NoEnvironment

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def finalize(self) -> None:
        self._raise_if_finalized()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0


class _Whole(JITCodeLibrary):
    """Code of a root with that of all kernels it needs, optimised once."""

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def add_linking_library(self, library: Any) -> None:
        if library not in self._linking_libraries:
            super().add_linking_library(library)
            for needed in library._linking_libraries if isinstance(library, _Lowered) else ():
                self.add_linking_library(needed)

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.linkonce_odr:
                function.linkage = "internal"
            elif not function.is_declaration:  # else LLVM sees groups change before the call
                function.add_function_attribute("noinline")
        tuning = create_pipeline_tuning_options(speed_level=int(_settings.OPT))
        tuning.loop_vectorization = bool(_settings.LOOP_VECTORIZE)
        tuning.slp_vectorization = bool(_settings.SLP_VECTORIZE)
        tuning.loop_unrolling = False  # it doubles the code, for no more rows a second
        builder = create_pass_builder(self._codegen._tm, tuning)
        manager = builder.getModulePassManager()
        manager.add_refprune_pass()
        manager.run(self._final_module, builder)


class _Typing(Context):
    """numba's types of functions, kept: it tries every overload of `+` at each sum."""

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


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(BaseNativeLowering):
    _name: Any = "streamddcrp_lowering"
    lowering_class: Any = Lowering


class _LoweringOnly(Compiler):
    """numba's compiler, for kernels that are not called from Python."""

    _library: Any = _Lowered

    def __init__(self, typing: Any, target: Any, library: Any, *more: Any) -> None:
        library = self._library(target.codegen(), "kernel")
        library.enable_object_caching()
        super().__init__(_typing(typing), target, library, *more)

    def define_pipelines(self) -> Any:
        """Leave out what finds nothing in a kernel, and lower in fewer instructions."""
        [passes] = super().define_pipelines()
        idle: set[Any] = {NopythonRewrites}
        if not any(isinstance(c, CodeType) for c in self.state.func_id.code.co_consts):
            idle.add(InlineClosureLikes)  # no function within
        swapped = {NativeLowering: _Lowering}
        passes.passes = [(swapped.get(p, p), why) for p, why in passes.passes if p not in idle]
        passes.finalize()
        return [passes]


class _RootCompiler(_LoweringOnly):
    _library = _Whole


class _Root(CPUDispatcher):
    """What Python calls of a kernel; groups of arrays come as pointers."""

    def typeof_pyval(self, value: Any) -> Any:
        return grouped(super().typeof_pyval(value))

    def compile(self, sig: Any) -> Any:
        with global_compiler_lock:  # of numba: one thread at a time changes the threshold
            usual = gc.get_threshold()
            gc.set_threshold(*_SELDOM)
            try:
                return super().compile(sig)
            finally:
                gc.set_threshold(*usual)


class _Kernel(CPUDispatcher):
    """A kernel; a call from Python goes to its root."""

    _root: Any = None

    @property
    def root(self) -> Any:
        """The version that Python calls, made at the first call."""
        if self._root is None:
            options = {**self.targetoptions, "no_cpython_wrapper": False, "forceinline": False}
            self._root = _Root(self.py_func, {}, options, pipeline_class=_RootCompiler)
            self._root._cache = _Cache(self.py_func)
        return self._root

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.root(*args, **named)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        if any(isinstance(arg, Group) for arg in args):
            args = tuple(map(_plain, args))
        return super().get_call_template(args, kws)


def _plain(kind: Any) -> Any:
    """Return the type of an argument of a large kernel: one for all signed integers and constants.

    For short loops over arrays it pays to know where they begin.
    """
    kind = types.unliteral(kind)
    return types.int64 if kind in types.signed_domain else kind


def kernel(function: Any = None, /, **options: Any) -> Any:
    """Compile a function that Python or other kernels call.

    Parameters
    ----------
    **options
        Further options of `numba.njit`.
    """
    if function is None:
        return lambda f: kernel(f, **options)
    if _settings.DISABLE_JIT:
        return function
    if not _IS_TESTED:
        dispatcher = njit(**options)(function)
        dispatcher._cache = _Cache(function)
        return dispatcher
    options = {"nopython": True, "boundscheck": None, **_INNER, **options}
    return _Kernel(function, {}, options, pipeline_class=_LoweringOnly)


def _with(**options: Any) -> Callable[[Any], Any]:
    return lambda function: kernel(function, **options)


inner = _with()  # called by other kernels only

# For kernels that allocate nothing and take tuples of many arrays: references to the arrays are not
# counted, which takes two thirds of the time where a call does little. `entry` is called by Python,
# `uncounted` by kernels only.
_UNCOUNTED: dict[str, Any] = {"_nrt": False}
entry = _with(**_UNCOUNTED)
uncounted = _with(**_UNCOUNTED)

# Called by a loop for each word: a call passes every array of its tuples, which takes longer than
# the work of such a kernel.
leaf = _with(forceinline=True, **_UNCOUNTED)

# Loops over columns that divide: a check for zeros would keep them from vector registers.
column = _with(forceinline=True, error_model="numpy", **_UNCOUNTED)
unchecked = _with(error_model="numpy")

# Copied into the caller before it is compiled.
inlined = _with(inline="always")


def _root_of(kernel: Any) -> Any:
    return getattr(kernel, "root", kernel)


def _overloads(kernel: Any) -> dict[Any, Any]:
    return getattr(_root_of(kernel), "overloads", {})


def entry_point(kernel: Any) -> Any:
    """Return the machine code of a kernel, to be called without a look at the arguments' types.

    With a state of seventy arrays that look takes 10 us. The caller vouches for the types; a kernel
    that was not compiled yet, or for more types than one, comes back as it is.
    """
    if kernel not in _entry_points:
        overloads = _overloads(kernel)
        if len(overloads) != 1:
            return kernel
        _entry_points[kernel] = next(iter(overloads.values())).entry_point
    return _entry_points[kernel]


def entry_with(kernel: Any, *groups: Any) -> Any:
    """Return the `entry_point` of a kernel with its first arguments, groups of arrays, given.

    They are described once, not at each call: for seventy arrays that takes 1 us. The caller holds
    the arrays. None for a kernel that was not compiled yet, or for more types than one. A function,
    for who asks how large an object is does not look into one.
    """
    code = entry_point(kernel)
    if code is kernel:
        return None
    [kinds] = _overloads(kernel)
    given = [
        described(kind, group) if isinstance(kind, Group) else group
        for kind, group in zip(kinds, groups, strict=False)
    ]

    def call(*rest: Any) -> Any:
        return code(*given, *rest)

    return call
