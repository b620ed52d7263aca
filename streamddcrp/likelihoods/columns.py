"""Prior parameters by column, and the centre and spread of columns in first rows."""

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamddcrp.errors import ConfigError
from streamddcrp.typing import FloatArray

TIED = 0.1  # share of repeated values from which a column counts as rounded
HELD = 1.1  # mean run length of equal values from which they count as held or resent
FEWEST_PAIRS = 4
FEWEST_ROWS = 32
SHIFTS = 0.25  # share of differences that may be level shifts
FAR_APART = 25.0  # times the typical squared difference: three standard deviations
LONGEST = 0.7  # largest credible autocorrelation: slower changes are a level
CLEAR = 6.0  # over sqrt(N), nearly three standard errors; 3 of 1,000 memoryless columns exceed it
CORRELATED = 3.0  # over sqrt(N), standard errors of the autocorrelation of shuffled rows
LEAST_VARIANCE = 1e-200  # values below count as equal: their squares underflow
TABLE_VARIANCE = 0.05  # prior variance within a table, as a share of the stream's


def as_array(owner: str, name: str, value: ArrayLike) -> FloatArray:
    """Convert to a finite float64 array, or raise a `ConfigError` that names the argument."""
    array: Any = None
    if not isinstance(value, str | bytes | bool):
        try:
            array = np.asarray(value)
        except ValueError:
            array = None
    if array is None or array.dtype.kind not in "fiu" or not np.all(np.isfinite(array)):
        raise ConfigError(f"{owner}: {name} must be finite numbers, got {value!r}")
    return np.asarray(array, dtype=np.float64)


def column_parameter(
    owner: str, name: str, value: ArrayLike, *, least: float | None = None
) -> float | tuple[float, ...]:
    """Return a checked float, or one for each feature: ``least`` or more; None: positive."""
    lowest = 5e-324 if least is None else max(least, -sys.float_info.max)
    if type(value) is float and lowest <= value < math.inf:
        return value
    few = value if isinstance(value, list | tuple) and 0 < len(value) < 64 else [None]
    if all(type(x) is float and lowest <= x < math.inf for x in few):
        return tuple(few)
    array = as_array(owner, name, value)
    if array.ndim > 1 or array.size == 0:
        raise ConfigError(
            f"{owner}: {name} must be a number, or one number for each feature; "
            f"got an array of shape {array.shape}"
        )
    if not np.all(array > 0.0 if least is None else array >= least):
        rule = "positive" if least is None else f"{least:g} or more"
        raise ConfigError(f"{owner}: {name} must be {rule}, got {value!r}")
    return float(array) if array.ndim == 0 else tuple(array.tolist())


def scalar_parameter(owner: str, name: str, value: ArrayLike) -> float:
    """Return a checked positive float."""
    number = column_parameter(owner, name, value)
    if isinstance(number, tuple):
        raise ConfigError(f"{owner}: {name} must be one positive number, got {value!r}")
    return number


def common_width(owner: str, **values: Any) -> int | None:
    """Return the number of features of the sequences among ``values``, None without any."""
    widths = {name: len(value) for name, value in values.items() if isinstance(value, tuple)}
    if len(set(widths.values())) > 1:
        found = ", ".join(f"{name} has {width}" for name, width in widths.items())
        raise ConfigError(
            f"{owner}: all parameters must have one value for each feature or be single "
            f"numbers; {found}"
        )
    return next(iter(widths.values()), None)


def columns(value: Any, n_features: int) -> FloatArray:
    """Return a parameter as a vector over features."""
    return np.full(n_features, value, dtype=np.float64)


def as_columns(value: Any) -> tuple[int | str, ...]:
    """Return columns given by position or name as a tuple, empty if invalid."""
    listed = isinstance(value, Sequence) and not isinstance(value, str)
    found = tuple(value) if listed else (value,)
    fine = all(isinstance(c, int | str) and not isinstance(c, bool) for c in found)
    return found if fine and len(set(found)) == len(found) else ()


def column_means(X: FloatArray) -> FloatArray:
    """Return each column's mean (D,) over known values of (N, D); 0 without any."""
    means = [np.mean(values) if values.size else 0.0 for values in map(_finite, X.T)]
    return np.array(means, dtype=np.float64)


def column_variances(X: FloatArray) -> FloatArray:
    """Return each column's variance (D,); for constant ones, a nominal positive one."""
    return np.array([_variance(_finite(column)) for column in X.T])


def column_steps(X: FloatArray) -> FloatArray:
    """Return the steps (D,) of columns with many equal values: median nearest distances, or 0."""
    return np.array([_step(_finite(column)) for column in X.T])


def column_cells(X: FloatArray) -> FloatArray:
    """Return the widths (D,) of cells of rounded values: `column_steps`, 0 for none.

    A constant column is resolved no finer than its nominal variance. Its cell therefore has the
    prior variance of a table, and no table becomes ever more certain of the constant. Otherwise
    each row would tie the next one to its table, and many such columns would prevent new regimes.
    """
    steps = column_steps(X)
    for j, values in enumerate(map(_finite, X.T)):
        if values.size > 1 and not varies(values):
            steps[j] = math.sqrt(12.0 * TABLE_VARIANCE * _variance(values))
    return steps


def _without_repeats(values: FloatArray) -> FloatArray:
    """Return values (N,) without immediate repeats, held or resent."""
    return values[np.append(True, np.diff(values) != 0.0)] if len(values) else values


def _step(values: FloatArray) -> float:
    values = _without_repeats(values)
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) < 2 or len(distinct) > (1.0 - TIED) * len(values):
        return 0.0
    gaps = np.concatenate([[np.inf], np.diff(distinct), [np.inf]])
    return float(np.median(np.repeat(np.minimum(gaps[1:], gaps[:-1]), counts)))


def column_powers(X: FloatArray) -> FloatArray:
    """Return 1 / tau for each column (D,) of first rows (N, D); tau rows count as one."""
    return np.array([1.0 / _memory(_finite(column)) for column in X.T])


def _held(x: FloatArray) -> float:
    """Return the mean run length of each value of a column (N,); 1 for a grid."""
    fresh = _without_repeats(x)
    tied = len(fresh) < FEWEST_ROWS or len(np.unique(fresh)) <= (1.0 - TIED) * len(fresh)
    return 1.0 if tied else len(x) / len(fresh)


def column_shares(X: FloatArray) -> FloatArray:
    """Return the weight nu / D of each column (D,) of first rows (N, D), given the others.

    nu = D^2 / sum r^2 is the effective number of columns, with r their correlations within small
    neighbourhoods. Constant columns show no similarity to others, so they keep full weight.
    """
    live = np.array(
        [varies(column) and _variance(_finite(column)) > LEAST_VARIANCE for column in X.T]
    )
    share = _effective_share(X[:, live]) if live.sum() > 1 else 1.0
    return np.where(live, share, 1.0)


def is_extreme(x: float, dof: float) -> bool:
    """Return whether a chi-square variable exceeds x with a probability below 1 %.

    By the continued fraction of the incomplete gamma function (DLMF 8.9.2): scipy's quantiles take
    longer to import than all first rows.
    """
    if not dof + 2.0 < x < math.inf:
        return x == math.inf
    a, x = 0.5 * dof, 0.5 * x
    i, b, c, step = 0.0, x + 1.0 - a, math.inf, 0.0
    d = total = 1.0 / b
    while abs(step - 1.0) > 1e-15:
        i += 1.0
        b += 2.0
        d = 1.0 / (b - i * (i - a) * d)
        c = b - i * (i - a) / c
        step = c * d
        total *= step
    return math.exp(a * math.log(x) - x - math.lgamma(a)) * total < 0.01


def _effective_share(X: FloatArray) -> float:
    """Return nu / D, by Satterthwaite's adjustment, of rows (N, D) without constant columns.

    The correlations are those of differences between nearest neighbours. Neighbours three standard
    deviations apart are in different tables and left out. Columns that change together only from
    state to state stay separate. 1 unless Bartlett's test finds correlations at 1 %.
    """
    D = X.shape[1]
    Z = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    Z = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    square = (Z**2).sum(axis=1)
    distance = square[:, None] + square - 2.0 * Z @ Z.T
    distance[distance <= 1e-9 * D] = np.inf  # itself, and duplicates
    nearest = distance.argmin(axis=1)
    apart = np.isfinite(distance.min(axis=1))
    gaps = (Z - Z[nearest])[apart]
    if len(gaps) > 0:
        usual = np.maximum([_typical_square(gap) for gap in gaps.T], 1e-9)
        gaps = gaps[(gaps**2 / usual).mean(axis=1) < FAR_APART]
    dof = len(gaps) // 2  # most pairs count twice
    if dof < FEWEST_PAIRS:
        return 1.0
    products = gaps.T @ gaps
    scale = np.sqrt(np.maximum(np.diag(products), 1e-9 * len(gaps)))
    R = products / np.outer(scale, scale)
    np.fill_diagonal(R, 0.0)
    total, pairs = float((R**2).sum()), D * (D - 1) / 2.0
    if not is_extreme(dof * total / 2.0, pairs):
        return 1.0
    excess = max(0.0, (dof * total - 2.0 * pairs) / (dof - 1.0))
    return float(D / (D + excess))


def _memory(x: FloatArray) -> float:
    """Return how many rows count as one: (1 + r) / (1 - r), r the autocorrelation of (N,).

    r follows from the growth of the mean squared difference with the lag: 1 - r at lag 1 and 1 -
    r^2 at lag 2. Rows of alternating tables differ equally at every lag; level shifts are few, and
    the largest differences are left out. 1 unless r is significant and the ranks of rows are
    correlated too: with r alone, 1 in 300 shuffled columns of five levels is significant.
    """
    held = _held(x)
    if held > HELD:
        return held * _memory(_without_repeats(x))
    if len(x) < FEWEST_ROWS:
        return 1.0
    first, second, fourth = (_typical_square(x[lag:] - x[:-lag]) for lag in (1, 2, 4))
    if not first > 0.0:
        return 1.0
    r = min(second / first - 1.0, LONGEST)
    if r < CLEAR / math.sqrt(len(x)) or fourth / second - 1.0 < 0.5 * r * r:
        return 1.0
    ordered = np.sort(x)
    ranks = np.searchsorted(ordered, x, "left") + np.searchsorted(ordered, x, "right") - len(x)
    if ranks[1:] @ ranks[:-1] < CORRELATED / math.sqrt(len(x)) * (ranks @ ranks):
        return 1.0
    return (1.0 + r) / (1.0 - r)


def _typical_square(gaps: FloatArray) -> float:
    kept = math.ceil((1.0 - SHIFTS) * len(gaps))
    return float(np.mean(np.sort(gaps**2)[:kept]))


def varies(column: FloatArray) -> bool:
    """Return whether a column (N,) varies by more than rounding."""
    values = _finite(column)
    return values.size > 1 and float(np.ptp(values)) > 1e-14 * float(np.max(np.abs(values)))


def _finite(column: FloatArray) -> FloatArray:
    return column[np.isfinite(column)]


def _variance(values: FloatArray) -> float:
    if varies(values):
        return max(float(np.var(values - values[0])), LEAST_VARIANCE)
    largest = float(np.max(np.abs(values), initial=1.0))
    # A single value shows nothing of its spread. A so far constant column may start to vary; with a
    # smaller variance, each of its values would then get a table of its own.
    return largest**2 if values.size <= 1 else (0.01 * largest) ** 2


def repeats(worth: float, n_columns: int) -> str:
    """Describe how many values a row is worth."""
    return (
        f"columns or successive rows are correlated: a row counts as {worth:.3g} independent "
        f"values instead of {n_columns}"
    )
