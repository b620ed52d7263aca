"""One thread at a time: a lock for each model, which its public methods hold.

Models keep work space, and predicting writes into it; two threads in one model would mix up their
numbers. So every public method and property waits until no other thread is in the same model.
Different models do not wait for each other.

While a method learns, Ctrl-C waits (`interrupts`). Where memory runs out, the model becomes what it
was before: there is a copy of one that has learned nothing yet, and of others where a call takes
far longer than a copy. Without one, the model refuses all further calls. Where numbers of a stored
state lead a kernel to divide by zero, or a solver to fail, this place says so; and where time
stamps fall, it shows them as such.
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
_LIGHT = "RowLearner.learn_one"  # delays signals itself, and only for rows that take long
_LONG = 64.0  # copies that a call lasts before which one is made


class _Lock(type(threading.RLock())):  # type: ignore[misc]  # which has no public name
    """A lock that a thread may take again; a copy of a model has one of its own."""

    def __deepcopy__(self, memo: object) -> "_Lock":
        return _Lock()

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return _Lock, ()


class _PartOfRowsError(CheckpointError, MemoryError):
    """Memory ran out earlier; whoever holds the model may undo that."""


class _Half:
    """In the place of the lock of a model that may have learned a part of its rows."""

    def __enter__(self) -> NoReturn:
        raise _PartOfRowsError(
            "memory ran out while this model learned, and it may hold a part of the rows; go on "
            "from the last state that was saved"
        )

    def __exit__(self, *_: object) -> None:
        pass


class OneAtATime:
    """A model that any number of threads may call: they wait for each other.

    What is called first is done first; a long batch keeps the others waiting until its end. Costs
    about 0.2 us a call, and 1.5 us one that learns.
    """

    _lock: _Lock | _Half
    _was_read = False  # from bytes, whose numbers may be anyone's
    _undoes = False  # by itself
    _took, _copying = math.inf, 1e-3  # seconds of the last call that learned, and of a copy

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
    is_light = method.__qualname__ == _LIGHT
    method = _whole(method) if method.__name__ in _LEARNING and not is_light else method
    if not method.__name__.endswith("_one"):  # whose rows are checked as they are read
        method = checked(method)

    @functools.wraps(method)
    def hold(*given: Any, **options: Any) -> Any:  # the model first; quicker so than by name
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
    """Return a method that learns as one that Ctrl-C does not cut, or a lack of memory."""

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
