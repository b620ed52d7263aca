"""What families know by column: prior parameters, and the centre and spread of first rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamddcrp.errors import ConfigError
from streamddcrp.typing import FloatArray

TABLE_VARIANCE = 0.05  # prior variance within a table, as a share of the variance of the stream


def as_array(owner: str, name: str, value: ArrayLike) -> FloatArray:
    """Convert to a finite float64 array or raise a `ConfigError` that names the argument."""
    array: Any = None
    if not isinstance(value, str | bytes | bool):
        try:
            array = np.asarray(value)
        except ValueError:
            array = None
    if array is None or array.dtype.kind not in "fiu" or not np.all(np.isfinite(array)):
        message = f"{owner}: {name} must be finite numbers, got {value!r}"
        raise ConfigError(message)
    return np.asarray(array, dtype=np.float64)


def column_parameter(
    owner: str, name: str, value: ArrayLike, *, positive: bool
) -> float | tuple[float, ...]:
    """Return a float (for all features) or a tuple of floats (one for each), checked."""
    array = as_array(owner, name, value)
    if array.ndim > 1 or array.size == 0:
        message = (
            f"{owner}: {name} must be a number, or one number for each feature; "
            f"got an array of shape {array.shape}"
        )
        raise ConfigError(message)
    if positive and not np.all(array > 0.0):
        message = f"{owner}: {name} must be positive, got {value!r}"
        raise ConfigError(message)
    return float(array) if array.ndim == 0 else tuple(array.tolist())


def scalar_parameter(owner: str, name: str, value: ArrayLike) -> float:
    """Return a positive float, checked."""
    number = column_parameter(owner, name, value, positive=True)
    if isinstance(number, tuple):
        message = f"{owner}: {name} must be one positive number, got {value!r}"
        raise ConfigError(message)
    return number


def common_width(owner: str, **values: Any) -> int | None:
    """Return the number of features that the sequences among ``values`` agree on, None if none."""
    widths = {name: len(value) for name, value in values.items() if isinstance(value, tuple)}
    if len(set(widths.values())) > 1:
        found = ", ".join(f"{name} has {width}" for name, width in widths.items())
        message = (
            f"{owner}: all parameters must have one value for each feature or be single "
            f"numbers; {found}"
        )
        raise ConfigError(message)
    return next(iter(widths.values()), None)


def columns(value: Any, n_features: int) -> FloatArray:
    """Return a parameter as a vector with one entry for each feature."""
    return np.full(n_features, value, dtype=np.float64)


def as_columns(value: Any) -> tuple[int | str, ...]:
    """Return columns given by position or name as a tuple, empty if they are not columns."""
    listed = isinstance(value, Sequence) and not isinstance(value, str)
    found = tuple(value) if listed else (value,)
    fine = all(isinstance(c, int | str) and not isinstance(c, bool) for c in found)
    return found if fine and len(set(found)) == len(found) else ()


def column_means(X: FloatArray) -> FloatArray:
    """Return the mean (D,) of the known values of each column of (N, D); 0 where none is known."""
    means = [np.mean(values) if values.size else 0.0 for values in map(_finite, X.T)]
    return np.array(means, dtype=np.float64)


def column_variances(X: FloatArray) -> FloatArray:
    """Return the variance (D,) of each column; where it does not vary, a nominal one above zero."""
    return np.array([_variance(_finite(column)) for column in X.T])


def varies(column: FloatArray) -> bool:
    """Return whether a column (N,) varies by more than the rounding of its values."""
    values = _finite(column)
    return values.size > 1 and float(np.ptp(values)) > 1e-14 * float(np.max(np.abs(values)))


def _finite(column: FloatArray) -> FloatArray:
    return column[np.isfinite(column)]


def _variance(values: FloatArray) -> float:
    if varies(values):
        return float(np.var(values - values[0]))
    largest = float(np.max(np.abs(values), initial=1.0))
    # of a single value nothing is known about its spread
    return largest**2 if values.size <= 1 else 1e-8 * largest**2
