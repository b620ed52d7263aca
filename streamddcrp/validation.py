"""Checks of options: return the value in its type, or name the option and the rule."""

import sys
from collections.abc import Collection
from numbers import Real
from typing import Any

from streamddcrp.errors import ConfigError

MOST_PARTICLES = 1 << 16
LARGEST = 1 << 62  # largest whole number of an option
_ROOM = 1 << 26  # numbers that all particles may store at the start: 512 MB

VERDICTS = ("normal", "planned", "fault")  # users' verdicts on regimes, in the order of their codes


def is_finite(value: Any) -> bool:
    """Whether a value is a number that a float can hold, and not a time."""
    timed = getattr(getattr(value, "dtype", None), "kind", "") == "m"  # a Real of NumPy's
    if timed or not isinstance(value, Real) or isinstance(value, bool):
        return False
    return bool(abs(value) <= sys.float_info.max)  # type: ignore[operator]


def whole(name: str, value: Any, least: int = 0, most: int | None = None) -> int:
    """Return a whole number (3.0 counts) from ``least`` to ``most``, or raise ConfigError."""
    good = type(value) is int or (is_finite(value) and float(value).is_integer())
    if not good or abs(value) > LARGEST or value < least or (most is not None and value > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ConfigError(f"{name} must be a whole number {limits}, got {value!r}")
    return int(value)


def particle_count(value: Any, each: int = 1, options: str = "") -> int:
    """Return ``n_particles``, 1 to 65,536 and at most 2^26 numbers by other ``options``."""
    n = whole("n_particles", value, 1, MOST_PARTICLES)
    most = _ROOM // each
    if n > most:
        raise ConfigError(
            f"n_particles must be a whole number from 1 to {most} with these {options}, by which "
            f"each particle keeps some {each} numbers; got {n}"
        )
    return n


def positive(name: str, value: Any, also: str = "") -> float:
    """Return a positive finite number, or raise ConfigError; ``also`` names other choices."""
    if not is_finite(value) or value <= 0:
        raise ConfigError(
            f"{name} must be a positive number{also and f' or {also}'}, got {value!r}"
        )
    return float(value)


def finite(name: str, value: Any) -> float:
    """Return a finite number, or raise ConfigError."""
    if not is_finite(value):
        raise ConfigError(f"{name} must be a finite number, got {value!r}")
    return float(value)


def choice(name: str, value: Any, options: Collection[Any]) -> Any:
    """Return an option that must be among ``options``; raises ConfigError."""
    if not isinstance(value, str) or value not in options:
        raise ConfigError(f"{name} must be one of {sorted(options)}, got {value!r}")
    return value
