"""Check the arguments of public calls against annotations; read them as arrays and lists."""

import functools
import inspect
import itertools
import os
import typing
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import NoneType, UnionType
from typing import Any, TypeVar

import numpy as np

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.validation import LARGEST, is_finite
from streamddcrp.validation import whole as as_whole

_PACKAGE = __name__.partition(".")[0]


def generator(seed: int | None) -> np.random.Generator:
    """Return a random generator, a new one for None; raises ConfigError."""
    return np.random.default_rng(None if seed is None else as_whole("seed", seed))


def number_array(name: str, values: Any, *, ndim: int | None = 1, whole: bool = False) -> Any:
    """Return a float64 array, or int64 if ``whole``; raises SchemaError."""
    good, out = False, np.empty(())
    with suppress(TypeError, ValueError, OverflowError, NotImplementedError):
        given = np.asarray(values)
        if given.dtype.kind == "O":  # for example None for a missing value
            given = given.astype(np.float64)
        if given.dtype.kind in "biuf":
            out = given.astype(np.int64 if whole else np.float64, copy=False)
            good = not whole or bool((out == given).all())
    if not good or (ndim is not None and out.ndim != ndim):
        shape = {1: " of shape (N,)", 2: " of shape (N, D)"}.get(ndim or 0, "")
        raise SchemaError(
            f"{name} must be {'whole ' if whole else ''}numbers in an array{shape}, got "
            f"{values!r:.60}"
        )
    return out


def values_of(what: str, function: Callable[..., Any], *given: Any) -> Any:
    """Return the floats that a user's function computes from arrays; raises ConfigError."""
    try:
        with np.errstate(all="ignore"):
            out = np.asarray(function(*given), dtype=np.float64)
    except Exception as error:
        raise ConfigError(
            f"{what} failed on arrays of shape {given[0].shape} ({type(error).__name__}: {error}); "
            "it must take arrays, as numpy functions do, or be wrapped in numpy.vectorize"
        ) from error
    if out.shape != given[0].shape:
        raise ConfigError(
            f"{what} returned shape {out.shape} for arrays of shape {given[0].shape}; it must "
            "return one number each, or be wrapped in numpy.vectorize"
        )
    return out


def as_list(name: str, values: Any) -> list[Any]:
    """Return a list, array, series or Arrow column as a list; raises SchemaError."""
    with suppress(TypeError):
        if hasattr(values, "to_pylist"):
            return list(values.to_pylist())
        return list(values.tolist() if isinstance(values, np.ndarray) else values)
    raise SchemaError(f"{name}: expected a list, got {values!r:.60}")


def _dimensions(value: Any) -> int:
    return int(getattr(value, "ndim", hasattr(value, "__len__") or hasattr(value, "__iter__")))


_Function = TypeVar("_Function", bound=Callable[..., Any])
_Test = tuple[str, Callable[[Any], bool]]
_TESTS: dict[Any, _Test] = {
    int: ("a whole number", lambda x: is_finite(x) and x == int(x) and abs(x) <= LARGEST),
    float: ("a number", lambda x: is_finite(x) or (isinstance(x, float) and not np.isfinite(x))),
    bool: ("True or False", lambda x: isinstance(x, bool | np.bool_)),
    NoneType: ("None", lambda x: x is None),
    str: ("text", lambda x: isinstance(x, str)),
    bytes: ("bytes", lambda x: isinstance(x, bytes | bytearray | memoryview)),
    Callable: ("a function", callable),
    Mapping: ("a mapping", lambda x: isinstance(x, Mapping)),
    Iterable: ("a sequence", lambda x: isinstance(x, Iterable) and _dimensions(x) > 0),
    Sequence: (
        "a sequence",
        lambda x: hasattr(x, "__getitem__") and not isinstance(x, Mapping) and _dimensions(x) > 0,
    ),
    tuple: ("a sequence", lambda x: isinstance(x, list | tuple)),
    os.PathLike: ("a path", lambda x: isinstance(x, os.PathLike)),
}


def _is_ours(hint: Any) -> bool:
    ours = isinstance(hint, type) and hint.__module__.partition(".")[0] == _PACKAGE
    return ours or typing.get_origin(hint) is typing.Annotated


def _test(hint: Any) -> _Test | None:
    """Return a type hint as words and as a test, or None if it cannot be checked."""
    origin, parts = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin is typing.Annotated:
        words, attribute = hint.__metadata__
        return words, lambda x: hasattr(x, attribute)
    if origin in (typing.Union, UnionType):
        found = [test for test in map(_test, parts) if test is not None]
        if len(found) < len(parts):
            return None
        words = " or ".join(dict.fromkeys(words for words, _ in found))
        return words, lambda x: any(test(x) for _, test in found)
    if parts and (origin is tuple or (origin is Sequence and _is_ours(parts[0]))):
        return _sequence(origin, parts)
    if _is_ours(origin):  # a class
        return f"of type {origin.__name__}", lambda x: isinstance(x, origin)
    return _TESTS.get(origin) if isinstance(origin, Hashable) else None


def _sequence(origin: Any, parts: Sequence[Any]) -> _Test:
    """Return the test of a sequence of one kind, or of a tuple with one kind for each part."""
    each = [_test(part) or ("anything", lambda _: True) for part in parts if part is not ...]
    is_pair = origin is tuple and len(each) == len(parts)

    def fits(x: Any) -> bool:
        if not _TESTS[origin][1](x) or isinstance(x, str) or (is_pair and len(x) != len(each)):
            return False
        return all(test(y) for y, (_, test) in zip(x, itertools.cycle(each), strict=False))

    words = " and ".join(words for words, _ in each)
    return f"a tuple of {words}" if is_pair else f"a sequence, each {words}", fits


def checked(function: _Function) -> _Function:
    """Refuse arguments of a call that do not match their annotations: ConfigError."""
    parameters = inspect.signature(function).parameters
    tests = {name: _test(parameter.annotation) for name, parameter in parameters.items()}
    if not any(tests.values()):
        return function

    @functools.wraps(function)
    def call(*given: Any, **options: Any) -> Any:
        for name, value in itertools.chain(zip(parameters, given, strict=False), options.items()):
            test = tests.get(name)
            if test is not None and not test[1](value):
                raise ConfigError(f"{name} must be {test[0]}, got {value!r:.60}")
        return function(*given, **options)

    return typing.cast(_Function, call)
