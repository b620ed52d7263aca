"""Warn of suspicious first rows: constant, or from a scaler that learned as it went."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from streamddcrp.typing import FloatArray

_log = logging.getLogger(__name__)
FEWEST_ROWS = 32
DISTINCT = 0.9  # share of the other values that occur once
ROUNDING = 1e-9


def looks_scaled_on_the_way(X: FloatArray) -> bool:
    """Whether first rows (N, D) look like output of a scaler that learned row by row.

    Such a scaler knows nothing at the first row, which becomes 0 in every column. If it divides by
    a spread, the second row becomes one number up to its sign, whatever the data: 1 for the
    standard deviation. If it divides by the range, each new low is exactly 0 and each new high
    exactly 1, at least two in a column after the second row. Measured values rarely look so by
    chance, unless many recur.
    """
    known = [column[np.isfinite(column)] for column in X.T]
    X = X[:, [values.size > 1 and bool(np.ptp(values) > 0.0) for values in known]]
    if len(X) < FEWEST_ROWS or X.shape[1] == 0 or not (X[0] == 0.0).all():
        return False
    size, rest = np.abs(X[1]), X[2:]
    ends = (rest == 0.0) | (rest == 1.0)
    others = rest[~ends & ~np.isnan(rest)]
    if not len(others) or len(np.unique(others)) < DISTINCT * len(others):
        return False
    if not ends.any():
        wanted = 1.0 if len(size) == 1 else size[0]
        return bool(wanted > 0.0 and (np.abs(size - wanted) <= ROUNDING * wanted).all())
    in_range = others.min() > 0.0 and others.max() < 1.0 and bool(np.isin(size, (0.0, 1.0)).all())
    return bool(in_range and (ends.sum(axis=0) >= 2).all())


def tell_of_constants(X: FloatArray, names: Sequence[Any]) -> None:
    """Warn of constant columns in the first rows (N, D)."""
    known = [x[~np.isnan(x)] for x in X.T]
    still = [name for name, x in zip(names, known, strict=True) if not len(x) or np.ptp(x) == 0.0]
    if still and len(X) >= FEWEST_ROWS:
        _log.warning(
            "%s never varied in the first %d rows, and tells nothing so far; leave it out, or look "
            "at its source", ", ".join(map(repr, still[:5])) + " …" * (len(still) > 5), len(X),
        )  # fmt: skip
