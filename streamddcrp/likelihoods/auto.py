"""Choose and scale a likelihood by the first rows of a stream."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamddcrp.errors import SchemaError
from streamddcrp.likelihoods.base import Likelihood
from streamddcrp.likelihoods.columns import column_means, varies
from streamddcrp.likelihoods.counts import BetaBernoulli, GammaPoisson
from streamddcrp.likelihoods.covariance import as_one
from streamddcrp.likelihoods.gaussian import NormalGamma
from streamddcrp.likelihoods.product import Product
from streamddcrp.likelihoods.turned import Turned
from streamddcrp.typing import FloatArray, IntArray

FEWEST_COUNTS = 16
MOST_DISPERSION = 2.0  # variance of successive counts over their mean
LARGEST_MEAN_COUNT = 10.0  # counts above this are close to Gaussian
FAMILIES: dict[str, Likelihood] = {
    "numbers": NormalGamma(),
    "counts": GammaPoisson(),
    "zeros and ones": BetaBernoulli(),
}


def choose_likelihood(
    X: ArrayLike, *, types: Sequence[str] | None = None, names: Sequence[str] | None = None
) -> tuple[Likelihood, str]:
    """Choose a likelihood by rows, column by column; return it and the reason.

    Truth values: `BetaBernoulli`. Whole numbers from 0 with a mean below 10 that vary like counts,
    or are zeros and ones: `GammaPoisson` with the mean as prior mean. All others, and constant
    floats: `NormalGamma` about the mean, with tables expected to be narrow (5 % of a column's
    variance), since merging two tables is easier than splitting one. Columns of several kinds: a
    `Product`. The choice is invariant to shifts and unit changes of a column, and to integer or
    float type in columns that vary.

    Parameters
    ----------
    X : array_like of float, shape (N, D)
        First rows, at least one; NaN marks a missing value.
    types : sequence of {"bool", "int", "float"}, length D, optional
        Type of the values: identifies truth values, and columns constant at 0 or 1. Default: "int"
        for all.
    names : sequence of str, length D, optional
        Column names, for the reason.

    Examples
    --------
    >>> choose_likelihood([[0.0, 2.0], [1.0, 4.0], [0.0, 0.0], [3.0, 2.0]])[0]
    GammaPoisson(shape=1.0, rate=(1.0, 0.5), share=1.0)
    >>> choose_likelihood([[0.5, 1.0], [1.5, 0.0]])[1]
    'NormalGamma for 0 (numbers), GammaPoisson for 1 (counts), by the first 2 rows'
    """
    rows = np.asarray(X, dtype=np.float64)
    if rows.ndim != 2 or rows.size == 0:
        raise SchemaError(
            f"X must have shape (N, D) with at least one row and column, got {rows.shape}"
        )
    kinds, parts = _parts(rows, types)
    labels = np.array(range(rows.shape[1]) if names is None else names)
    chosen = [
        f"{type(family).__name__} for {_some(labels[at]) if len(parts) > 1 else 'all columns'} "
        f"({kinds[at[0]]})"
        for family, at in parts
    ]
    reason = f"{', '.join(chosen)}, by the first {len(rows)} rows"
    flat = [j for j in np.flatnonzero(kinds == "numbers") if not varies(rows[:, j])]
    if flat:
        reason += f"; {_some(labels[flat])} did not vary and got a nominal variance"
    return _joined(parts).scaled(rows), reason


def choose_family(rows: FloatArray, types: Sequence[str] | None) -> Likelihood:
    """Return the choice of `choose_likelihood` without parameters taken from rows (N, D)."""
    return _joined(_parts(rows, types)[1])


def numbers_of(family: Likelihood, n_columns: int) -> NDArray[np.bool_]:
    """Return the columns (D,) that a family treats as numbers."""
    return _taken_for(family, NormalGamma, n_columns)


def counts_of(family: Likelihood, n_columns: int) -> NDArray[np.bool_]:
    """Return the columns (D,) that a family treats as counts."""
    return _taken_for(family, GammaPoisson, n_columns)


def _taken_for(family: Likelihood, kind: type[Likelihood], n_columns: int) -> NDArray[np.bool_]:
    found = np.zeros(n_columns, dtype=np.bool_)
    for part, at in _parts_of(family, n_columns):
        found[list(at)] = isinstance(part, kind)
    return found


def with_correlations(
    family: Likelihood, X: FloatArray, labels: FloatArray
) -> tuple[Likelihood, int]:
    """Return a chosen family with correlated numbers within tables, and its free parameters.

    Uses first rows (N, D) and their tables ``labels`` (N,) from independent columns. Returns the
    family itself and 0 if they show no correlation.
    """
    numbers = numbers_of(family, X.shape[1])
    live = [j for j in np.flatnonzero(numbers).tolist() if varies(X[:, j])]
    full = as_one(X[:, live], labels)
    if full is None:
        return family, 0
    rest = [(part, [j for j in at if j not in live]) for part, at in _parts_of(family, X.shape[1])]
    parts = [(part, np.array(live)[list(at)]) for part, at in _parts_of(full, len(live))]
    found = _joined(parts + [(part.unscaled(), np.array(at)) for part, at in rest if at])
    if isinstance(full, Turned):
        found = replace(full, inner=found, at=live)
    return found, len(live) * (len(live) - 1) // 2


def with_numbers(family: Likelihood, odd: NDArray[np.bool_]) -> Likelihood:
    """Return a chosen family that treats the ``odd`` columns, (D,), as numbers."""
    before = numbers_of(family, len(odd))
    numbers = before | odd
    if (numbers == before).all():
        return family
    rest = [
        (part.unscaled(), np.array(others))
        for part, at in _parts_of(family, len(odd))
        if (others := [j for j in at if not numbers[j]])
    ]
    return _joined([(FAMILIES["numbers"], np.flatnonzero(numbers)), *rest])


def _parts_of(family: Likelihood, n_columns: int) -> Sequence[tuple[Likelihood, Sequence[int]]]:
    family = family.inner if isinstance(family, Turned) else family
    return family.parts if isinstance(family, Product) else ((family, range(n_columns)),)


def _parts(
    rows: FloatArray, types: Sequence[str] | None
) -> tuple[NDArray[np.str_], list[tuple[Likelihood, IntArray]]]:
    """Return each column's kind, and the families with their columns."""
    kinds = _kinds(rows, np.array(["int"] * rows.shape[1] if types is None else types))
    return kinds, [(FAMILIES[k], np.flatnonzero(kinds == k)) for k in FAMILIES if k in kinds]


def _joined(parts: list[tuple[Likelihood, IntArray]]) -> Likelihood:
    return parts[0][0] if len(parts) == 1 else Product([(part, at.tolist()) for part, at in parts])


def _some(labels: NDArray[Any]) -> str:
    shown = [*map(str, labels[:8]), *([f".. {len(labels)} in all"] if len(labels) > 8 else [])]
    return ", ".join(shown)


def _is_poisson(column: FloatArray) -> bool:
    """Whether successive values (N,) differ about as much as Poisson counts with their mean."""
    values = column[np.isfinite(column)]
    if len(values) < FEWEST_COUNTS:
        return True
    dispersion = 0.5 * float(np.mean(np.diff(values) ** 2)) / float(np.mean(values))
    return bool(1.0 / MOST_DISPERSION <= dispersion <= MOST_DISPERSION)


def _kinds(rows: FloatArray, types: NDArray[np.str_]) -> NDArray[np.str_]:
    """Return for each column a key of `FAMILIES`."""
    known = np.isfinite(rows)
    there = known.any(axis=0)
    whole = ((rows >= 0.0) & (np.floor(rows) == rows)) | ~known
    small = whole.all(axis=0) & (column_means(rows) < LARGEST_MEAN_COUNT)
    bits = small & ((rows <= 1.0) | ~known).all(axis=0)
    # a float constant at zero may become any number, an integer most likely a count
    count = small & ([varies(column) for column in rows.T] | (bits & (types != "float")))
    count[count & ~bits] = [_is_poisson(column) for column in rows.T[count & ~bits]]
    bits &= types == "bool"
    kinds = np.where(bits, "zeros and ones", np.where(count, "counts", "numbers"))
    for kind in FAMILIES:  # an empty column takes the most general kind of the others
        if not there.any() or kind in kinds[there]:
            kinds[~there] = kind
            break
    return kinds
