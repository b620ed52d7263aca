"""Kernels as plain Python functions, so that any of them can be called by itself.

A kernel that only kernels call cannot be called from Python, and compiled code reads out of bounds
silently. Its Python source can be called if all that it calls is Python too.
"""

from types import FunctionType, ModuleType, SimpleNamespace

import numpy as np


def plain(kernel, **instead):
    """Return the Python function of a kernel and of all that it calls.

    Parameters
    ----------
    **instead
        What stands in for names that the kernel calls, such as draws of random numbers.
    """
    made = {}

    def replaced(names):
        """Return names of a module with compiled functions, here and in modules, made plain."""
        found = dict(names)
        for name, value in names.items():
            if hasattr(value, "py_func"):  # compiled
                found[name] = of(value, {})
            elif isinstance(value, ModuleType) and value.__name__.startswith("streamddcrp."):
                if value not in made:
                    made[value] = SimpleNamespace()
                    made[value].__dict__.update(replaced(vars(value)))
                found[name] = made[value]
        return found

    def of(function, more):
        source = getattr(function, "py_func", function)
        if source not in made:
            names = {}
            made[source] = FunctionType(source.__code__, names, source.__name__)
            made[source].__defaults__ = source.__defaults__
            names.update(replaced(source.__globals__))
            for name, value in names.items():
                if isinstance(value, SimpleNamespace) and more.keys() & vars(value).keys():
                    names[name] = SimpleNamespace(**vars(value) | more)
            names.update(more)
        return made[source]

    function = of(kernel, instead)

    def call(*arguments):
        with np.errstate(over="ignore", invalid="ignore"):  # hashes, and lanes that nobody reads
            return function(*arguments)

    return call
