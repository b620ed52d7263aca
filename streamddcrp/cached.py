"""Properties computed once."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

_Value = TypeVar("_Value")


class Cached(Generic[_Value]):
    """A property computed when first read, and then kept.

    `functools.cached_property` has a lock up to Python 3.11: a process forked while another thread
    holds it would wait for ever.
    """

    def __init__(self, work_out: Callable[[Any], _Value]) -> None:
        self._work_out = work_out
        self.__doc__ = work_out.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, of: Any, owner: type | None = None) -> _Value:
        if of is None:
            return self  # type: ignore[return-value]  # for documentation
        value: _Value = self._work_out(of)
        of.__dict__[self._name] = value
        return value
