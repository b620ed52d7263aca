"""A likelihood chosen and scaled from the first rows of a stream."""

import numpy as np
from numpy.typing import ArrayLike

from streamddcrp.errors import SchemaError
from streamddcrp.likelihoods._scale import column_means, varies
from streamddcrp.likelihoods.base import Likelihood
from streamddcrp.likelihoods.beta_bernoulli import BetaBernoulli
from streamddcrp.likelihoods.gamma_poisson import GammaPoisson
from streamddcrp.likelihoods.normal_gamma import NormalGamma

__all__ = ["choose_likelihood"]

LARGEST_MEAN_COUNT = 10.0  # counts above this are close to Gaussian


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
    seen = f"the first {len(rows)} rows"
    if counts and np.all((values == 0.0) | (values == 1.0)) and len(np.unique(values)) == 2:
        return BetaBernoulli(), f"BetaBernoulli(0.5, 0.5): {seen} hold only zeros and ones"
    is_count = np.all((values >= 0.0) & (np.floor(values) == values)) and values.size > 0
    if counts and is_count and np.all(column_means(rows) < LARGEST_MEAN_COUNT):
        reason = (
            f"GammaPoisson(shape=1, rate=1/mean): {seen} hold only counts, "
            f"with column means below {LARGEST_MEAN_COUNT:g}"
        )
        return GammaPoisson().scaled(rows), reason
    constant = int(np.sum([not varies(column) for column in rows.T]))
    reason = (
        "NormalGamma(mean=column means, rate in proportion to column variances): "
        f"{seen} hold numbers that are not small counts"
    )
    if constant:
        reason += f"; {constant} of {rows.shape[1]} columns did not vary and got a nominal variance"
    return NormalGamma().scaled(rows), reason
