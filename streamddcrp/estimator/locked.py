"""One thread at a time: a lock for each model, which its public methods hold.

Models keep work space, and predicting writes into it; two threads in one model would mix up their
numbers. So every public method and property waits until no other thread is in the same model.
Different models do not wait for each other.

While a method learns, Ctrl-C waits (`interrupts`). Where numbers of a stored state lead a kernel to
divide by zero, or a solver to fail, this place says so; and where time stamps fall, it shows them
as such.
"""

import functools
import inspect
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any, Self

import numpy as np

from streamddcrp.arguments import checked
from streamddcrp.data.times import as_given
from streamddcrp.errors import CheckpointError, OrderError
from streamddcrp.estimator.interrupts import undisturbed

_MARK = "_holds_the_lock"
_LEARNING = {
    "learn_one", "learn_many", "step_many", "fit", "fit_predict", "close", "refine",
    "new_document",
}  # fmt: skip
_LIGHT = "RowLearner.learn_one"  # delays signals itself, and only for rows that take long


class _Lock(type(threading.RLock())):  # type: ignore[misc]  # which has no public name
    """A lock that a thread may take again; a copy of a model has one of its own."""

    def __deepcopy__(self, memo: object) -> "_Lock":
        return _Lock()

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return _Lock, ()


class OneAtATime:
    """A model that any number of threads may call: they wait for each other.

    What is called first is done first; a long batch keeps the others waiting until its end. Costs
    about 0.2 us a call, and 1.5 us one that learns.
    """

    _lock: _Lock
    _was_read = False  # from bytes, whose numbers may be anyone's

    def __new__(cls, *args: Any, **options: Any) -> Self:
        model = super().__new__(cls)
        model._lock = _Lock()
        return model

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "__init__" in vars(cls):
            cls.__init__ = checked(cls.__init__)  # type: ignore[method-assign]
        _, *options = inspect.signature(cls.__init__).parameters.values()  # not those of __new__
        cls.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
        made: dict[int, Any] = {}  # one that has two names stays one
        for owner in reversed(cls.__mro__):
            if owner.__module__.partition(".")[0] == __name__.partition(".")[0]:
                for name, value in list(vars(owner).items()):
                    if name.startswith("_") or getattr(cls, name) is not value:
                        continue
                    if id(value) not in made:
                        made[id(value)] = _locked(value)
                    if made[id(value)] is not None:
                        setattr(cls, name, made[id(value)])


def _locked(value: Any) -> Any:
    """Return a method or property that holds the lock, or None where it needs none."""
    if isinstance(value, FunctionType) and not hasattr(value, _MARK):
        return _holding(value)
    if isinstance(value, property) and not hasattr(value.fget, _MARK):
        return property(_holding(value.fget), value.fset, value.fdel, value.__doc__)
    return None


def _holding(method: Any) -> Callable[..., Any]:
    learn = method.__name__ in _LEARNING and method.__qualname__ != _LIGHT
    method = _undisturbed(method) if learn else method
    if not method.__name__.endswith("_one"):  # whose rows are checked as they are read
        method = checked(method)

    @functools.wraps(method)
    def hold(*given: Any, **options: Any) -> Any:  # the model first; quicker so than by name
        with given[0]._lock:
            try:
                return method(*given, **options)
            except OrderError as error:
                t = inspect.signature(method).bind(*given, **options).arguments.get("t")
                raise as_given(error, t) from None
            except (ArithmeticError, np.linalg.LinAlgError) as error:
                if not given[0]._was_read:
                    raise
                raise CheckpointError(
                    "the stored state that the model was read from has numbers that cannot be used "
                    f"({error}); use another copy"
                ) from error

    setattr(hold, _MARK, True)
    return hold


def _undisturbed(method: Any) -> Callable[..., Any]:
    @functools.wraps(method)
    def whole(*given: Any, **options: Any) -> Any:
        with undisturbed:
            return method(*given, **options)

    return whole
