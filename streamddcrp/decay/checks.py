"""Checks of distances and parameters, shared by the decays."""

import math

import numpy as np

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.typing import ArrayLike, FloatArray


def checked_distances(distances: ArrayLike) -> FloatArray:
    """Return distances as floats, any shape; refuse negative and undefined ones."""
    d = np.asarray(distances, dtype=np.float64)
    if not np.all(d >= 0.0):
        wrong = d[~(d >= 0.0)].flat[0]
        msg = f"distances: expected values >= 0 (infinity is allowed), got {wrong}"
        raise SchemaError(msg)
    return d


def positive(owner: str, name: str, value: float) -> float:
    """Return a finite, positive parameter as a float."""
    return _number(owner, name, value, positive=True)


def finite(owner: str, name: str, value: float) -> float:
    """Return a finite parameter as a float."""
    return _number(owner, name, value, positive=False)


def _number(owner: str, name: str, value: float, *, positive: bool) -> float:
    try:
        number = math.nan if isinstance(value, str | bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or (positive and number <= 0.0):
        rule = "a finite number > 0" if positive else "a finite number"
        msg = f"{owner}: {name} must be {rule}, got {value!r}"
        raise ConfigError(msg)
    return number


def log_eps(eps: float) -> float:
    """Return the logarithm of a fraction of f(0)."""
    if not 0.0 < eps <= 1.0:
        msg = f"eps: expected a fraction of f(0), 0 < eps <= 1, got {eps!r}"
        raise ConfigError(msg)
    return math.log(eps)
