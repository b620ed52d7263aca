"""Thread safety: each model has a lock, which its public methods hold.

Models keep work space that predictions write to, so two threads in one model would mix up their
numbers. Every public method and property therefore waits while another thread is in the same model.
Different models do not wait for each other.

While a method learns, Ctrl-C waits (`interrupts`). If memory runs out, the model returns to its
earlier state from a copy. An untrained model always has one, others if a call takes far longer than
a copy; without a copy, the model refuses further calls. This module also reports numbers of a
stored state that make a kernel divide by zero or a solver fail, and shows decreasing time stamps as
such.
"""

import functools
import inspect
import math
import threading
import time
from collections.abc import Callable
from copy import deepcopy
from types import FunctionType
from typing import Any, NoReturn, Self

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
_LIGHT = "RowLearner.learn_one"  # delays signals itself, only for slow rows
_LONG = 64.0  # a call must last as long as this many copies to get one


class _Lock(type(threading.RLock())):  # type: ignore[misc]  # the type has no public name
    """A reentrant lock; a copy of a model gets a new one."""

    def __deepcopy__(self, memo: object) -> "_Lock":
        return _Lock()

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return _Lock, ()


class _PartOfRowsError(CheckpointError, MemoryError):
    """Memory ran out earlier; the model's owner may undo that."""


class _Half:
    """Replaces the lock of a model that may have learned part of its rows."""

    def __enter__(self) -> NoReturn:
        raise _PartOfRowsError(
            "memory ran out while this model learned, and it may hold a part of the rows; go on "
            "from the last state that was saved"
        )

    def __exit__(self, *_: object) -> None:
        pass


class OneAtATime:
    """A model that threads may share: calls wait for each other.

    Calls run in order of arrival; a long batch makes the others wait for its end. Costs about 0.2
    us a call, and 1.5 us for one that learns.
    """

    _lock: _Lock | _Half
    _was_read = False  # from bytes, whose numbers are untrusted
    _undoes = False  # whether the model undoes failed calls itself
    _took, _copying = math.inf, 1e-3  # seconds of the last learning call, and of a copy

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
        made: dict[int, Any] = {}  # a member with two names stays one member
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
    """Return a method or property that holds the lock, or None if it needs none."""
    if isinstance(value, FunctionType) and not hasattr(value, _MARK):
        return _holding(value)
    if isinstance(value, property) and not hasattr(value.fget, _MARK):
        return property(_holding(value.fget), value.fset, value.fdel, value.__doc__)
    return None


def _holding(method: Any) -> Callable[..., Any]:
    is_light = method.__qualname__ == _LIGHT
    method = _whole(method) if method.__name__ in _LEARNING and not is_light else method
    if not method.__name__.endswith("_one"):  # these check rows as they read them
        method = checked(method)

    @functools.wraps(method)
    def hold(*given: Any, **options: Any) -> Any:  # the model first; faster than by name
        with given[0]._lock:
            try:
                return method(*given, **options)
            except MemoryError:
                if is_light:
                    given[0]._lock = _Half()
                raise
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


def _whole(method: Any) -> Callable[..., Any]:
    """Return a learning method that neither Ctrl-C nor lack of memory can cut short."""

    @functools.wraps(method)
    def whole(*given: Any, **options: Any) -> Any:
        model = given[0]
        with undisturbed:
            kept, begun = None, time.perf_counter()
            if model._took >= _LONG * model._copying and not model._undoes:
                kept = deepcopy(vars(model)) | {"_lock": model._lock}
                begun, copied = time.perf_counter(), begun
                model._copying = begun - copied
            try:
                out = method(*given, **options)
            except MemoryError:
                if kept is not None:
                    vars(model).clear()
                    vars(model).update(kept)
                elif not model._undoes:
                    model._lock = _Half()
                raise
            model._took = time.perf_counter() - begun
            return out

    return whole
