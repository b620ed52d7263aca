"""What the package takes from the inside of numba: every name that numba does not promise.

`compilation` imports what needs these names only with the version that they were tested with.
"""

from llvmlite import binding
from numba.core import analysis, cgutils, config, ir
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.core.caching import UserProvidedCacheLocator as CacheLocator
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import register_pass
from numba.core.imputils import lower_getattr_generic
from numba.core.lowering import Lower
from numba.core.registry import CPUDispatcher
from numba.core.typed_passes import BaseNativeLowering, NativeLowering, NopythonRewrites
from numba.core.typing.context import Context
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.core.unsafe import eh
from numba.core.untyped_passes import InlineClosureLikes

__all__ = [
    "AttributeTemplate", "BaseNativeLowering", "CPUDispatcher", "CacheLocator",
    "CompileResultCacheImpl", "Compiler", "Context", "FunctionCache", "IndexDataCacheFile",
    "InlineClosureLikes", "JITCodeLibrary", "Lower", "NativeLowering", "NopythonRewrites",
    "analysis", "binding", "cgutils", "config", "eh", "global_compiler_lock", "infer_getattr",
    "ir", "lower_getattr_generic", "register_pass",
]  # fmt: skip
