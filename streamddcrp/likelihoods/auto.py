"""A likelihood chosen and scaled from the first rows of a stream."""

import numpy as np
from numpy.typing import ArrayLike

from streamddcrp.errors import SchemaError
from streamddcrp.likelihoods.base import Likelihood
from streamddcrp.likelihoods.beta_bernoulli import BetaBernoulli
from streamddcrp.likelihoods.gamma_poisson import GammaPoisson
from streamddcrp.likelihoods.normal_gamma import NormalGamma
from streamddcrp.typing import FloatArray

__all__ = ["choose_likelihood"]

LARGEST_MEAN_COUNT = 10.0  # counts above this are close to Gaussian
KAPPA, SHAPE = 0.05, 1.5
TABLE_VARIANCE = 0.05  # prior variance within a table, as a share of the variance of the stream


def choose_likelihood(X: ArrayLike, *, counts: bool = True) -> tuple[Likelihood, str]:
    """Choose a likelihood for rows like these.

    Zeros and ones, both present: `BetaBernoulli`. Whole numbers from 0 with column means below 10:
    `GammaPoisson` with the column means as prior means. All else: `NormalGamma` about the column
    means, with tables expected to be narrow (5 % of a column's variance): it is easier to merge two
    tables than to divide one. The choice follows shifts and changes of unit of a column.

    Parameters
    ----------
    X : array_like of float, shape (N, D)
        First rows; NaN marks a missing value.
    counts : bool, default True
        False: whole numbers are measurements that happen to be whole; the Gaussian family is taken.

    Returns
    -------
    likelihood : Likelihood
    reason : str
        What was chosen and why, in words.

    Raises
    ------
    SchemaError
        If there is no row or no column.

    Examples
    --------
    >>> choose_likelihood([[0.0, 2.0], [1.0, 4.0], [0.0, 0.0], [3.0, 2.0]])[0]
    GammaPoisson(shape=1.0, rate=(1.0, 0.5))
    """
    rows = np.asarray(X, dtype=np.float64)
    if rows.ndim != 2 or rows.size == 0:
        message = f"X must have shape (N, D) with at least one row and column, got {rows.shape}"
        raise SchemaError(message)
    values = rows[np.isfinite(rows)]
    means = np.array([_mean(column) for column in rows.T])
    seen = f"the first {len(rows)} rows"
    if counts and np.all((values == 0.0) | (values == 1.0)) and len(np.unique(values)) == 2:
        return BetaBernoulli(0.5, 0.5), f"BetaBernoulli(0.5, 0.5): {seen} hold only zeros and ones"
    is_count = np.all((values >= 0.0) & (np.floor(values) == values)) and values.size > 0
    if counts and is_count and np.all(means < LARGEST_MEAN_COUNT):
        # a column of zeros: half an event in all
        rate = 1.0 / np.maximum(means, 0.5 / len(rows))
        reason = (
            f"GammaPoisson(shape=1, rate=1/mean): {seen} hold only counts, "
            f"with column means below {LARGEST_MEAN_COUNT:g}"
        )
        return GammaPoisson(1.0, rate), reason
    variances = np.array([_variance(column) for column in rows.T])
    constant = int(np.sum([not _varies(column) for column in rows.T]))
    reason = (
        f"NormalGamma(mean=column means, kappa={KAPPA:g}, shape={SHAPE:g}, "
        f"rate={SHAPE * TABLE_VARIANCE:g} * column variances): {seen} hold numbers that are not "
        "small counts"
    )
    if constant:
        reason += f"; {constant} of {rows.shape[1]} columns did not vary and got a nominal variance"
    return NormalGamma(means, KAPPA, SHAPE, SHAPE * TABLE_VARIANCE * variances), reason


def _finite(column: FloatArray) -> FloatArray:
    return column[np.isfinite(column)]


def _mean(column: FloatArray) -> float:
    values = _finite(column)
    return float(np.mean(values)) if values.size else 0.0


def _varies(column: FloatArray) -> bool:
    """Tell whether a column varies by more than the rounding of its values."""
    values = _finite(column)
    return values.size > 1 and float(np.ptp(values)) > 1e-14 * float(np.max(np.abs(values)))


def _variance(column: FloatArray) -> float:
    """Return the variance; of a column that does not vary, a nominal one that is not zero."""
    values = _finite(column)
    if _varies(column):
        return float(np.var(values - values[0]))
    mean = _mean(column)
    if values.size <= 1:  # nothing is known of its spread
        return max(1.0, mean * mean)
    return 1e-8 * max(1.0, mean * mean)
