"""Kernels as plain Python functions, so that any of them can be called by itself.

A kernel that only kernels call cannot be called from Python, and compiled code reads out of bounds
silently. Its Python source can be called if all that it calls is Python too.
"""

from types import FunctionType

import numpy as np


def plain(kernel, **instead):
    """Return the Python function of a kernel and of all that it calls.

    Parameters
    ----------
    **instead
        What stands in for names that the kernel calls, such as draws of random numbers.
    """
    made = {}

    def of(function, more):
        source = getattr(function, "py_func", function)
        if source not in made:
            names = dict(source.__globals__)
            made[source] = FunctionType(source.__code__, names, source.__name__)
            made[source].__defaults__ = source.__defaults__
            for name, value in source.__globals__.items():
                if hasattr(value, "py_func"):  # compiled
                    names[name] = of(value, {})
            names.update(more)
        return made[source]

    function = of(kernel, instead)

    def call(*arguments):
        with np.errstate(over="ignore"):  # hashes wrap around
            return function(*arguments)

    return call
