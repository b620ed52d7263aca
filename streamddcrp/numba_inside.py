"""Everything that the package uses of numba's undocumented internals.

`compilation` imports modules that need them only with the tested version of numba.
"""

from llvmlite import binding
from numba.core import cgutils, config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.core.caching import UserProvidedCacheLocator as CacheLocator
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.imputils import lower_getattr_generic
from numba.core.registry import CPUDispatcher
from numba.core.runtime.nrt import rtsys
from numba.core.typed_passes import NopythonRewrites
from numba.core.typing.context import Context
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.core.untyped_passes import InlineClosureLikes

__all__ = [
    "AttributeTemplate", "CPUDispatcher", "CacheLocator", "CompileResultCacheImpl", "Compiler",
    "Context", "FunctionCache", "IndexDataCacheFile", "InlineClosureLikes", "JITCodeLibrary",
    "NopythonRewrites", "binding", "cgutils", "config", "global_compiler_lock", "infer_getattr",
    "lower_getattr_generic", "rtsys",
]  # fmt: skip
