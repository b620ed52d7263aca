"""Centre and spread of columns, as the first rows of a stream tell them."""

import numpy as np

from streamddcrp.typing import FloatArray

TABLE_VARIANCE = 0.05  # prior variance within a table, as a share of the variance of the stream


def column_means(X: FloatArray) -> FloatArray:
    """Return the mean (D,) of what is there in each column of (N, D); 0 where there is nothing."""
    means = [np.mean(values) if values.size else 0.0 for values in map(_finite, X.T)]
    return np.array(means, dtype=np.float64)


def column_variances(X: FloatArray) -> FloatArray:
    """Return the variance (D,) of each column; where it does not vary, a nominal one above zero."""
    return np.array([_variance(_finite(column)) for column in X.T])


def varies(column: FloatArray) -> bool:
    """Tell whether a column (N,) varies by more than the rounding of its values."""
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
