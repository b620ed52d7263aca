"""What the package takes from the inside of numba: every name that numba does not promise.

`compilation` imports what needs these names only with the version that they were tested with.
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
from numba.core.typed_passes import NopythonRewrites
from numba.core.typing.context import Context
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.core.untyped_passes import InlineClosureLikes

__all__ = [
    "AttributeTemplate", "CPUDispatcher", "CacheLocator", "CompileResultCacheImpl", "Compiler",
    "Context", "FunctionCache", "IndexDataCacheFile", "InlineClosureLikes", "JITCodeLibrary",
    "NopythonRewrites", "binding", "cgutils", "config", "global_compiler_lock", "infer_getattr",
    "lower_getattr_generic",
]  # fmt: skip
