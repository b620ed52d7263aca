"""Checks of whole batches, in numpy only."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.typing import FloatArray


def as_matrix(values: object, n_features: int | None = None) -> FloatArray:
    """Return a batch of rows as a matrix of floats.

    Parameters
    ----------
    values : array_like of numbers, shape (N, D)
        Booleans count as 0 and 1. Other types, objects and text included, are refused.
    n_features : int, optional
        Required number of columns.

    Returns
    -------
    ndarray of float64, shape (N, D)
        C-contiguous; `values` itself where it is that already.

    Raises
    ------
    SchemaError
        If `values` is not two-dimensional, not numeric or not D wide.

    Examples
    --------
    >>> from streamddcrp.data import as_matrix
    >>> as_matrix([[1, 2], [3, 4]])
    array([[1., 2.],
           [3., 4.]])
    """
    try:
        X = np.asarray(values)
    except ValueError as error:
        msg = f"batch: expected rows of equal length ({error})"
        raise SchemaError(msg) from None
    if X.dtype.kind not in "fiub":
        msg = (
            f"batch: expected numbers, got an array of type {X.dtype}; convert text and objects "
            f"first, or hand over a table with named columns"
        )
        raise SchemaError(msg)
    if X.ndim != 2:
        msg = f"batch: expected two dimensions (rows, features), got shape {X.shape}"
        if X.ndim == 1:
            msg += "; a single row is values.reshape(1, -1), a single feature values.reshape(-1, 1)"
        raise SchemaError(msg)
    if n_features is not None and X.shape[1] != n_features:
        msg = f"batch: expected {n_features} columns, got {X.shape[1]}"
        raise SchemaError(msg)
    return np.require(X, np.float64, ["C", "A", "W"])  # kernels are compiled for such arrays


def check_matrix(
    X: FloatArray,
    columns: Sequence[str | int] | None = None,
    row0: int = 0,
    *,
    missing: NDArray[np.bool_] | None = None,
) -> None:
    """Refuse NaN and infinity in a batch, naming the first of them. O(N D).

    Parameters
    ----------
    X : ndarray of float64, shape (N, D)
    columns : sequence of str or int, shape (D,), optional
        Names for the message; by default the column numbers.
    row0 : int
        Number of the first row within the batch that the caller was handed.
    missing : ndarray of bool, shape (N, D), optional
        Where a value is missing (null): the NaN that stands for it passes.

    Raises
    ------
    SchemaError
        With ``row`` the number of the offending row.

    Examples
    --------
    >>> import numpy as np
    >>> from streamddcrp.data import check_matrix
    >>> check_matrix(np.array([[1.0, 2.0], [np.inf, 4.0]]), ("a", "b"))
    Traceback (most recent call last):
    ...
    streamddcrp.errors.SchemaError: row 1, column 'a': inf is not finite; ...
    """
    wrong = ~np.isfinite(X)
    if missing is not None:
        if missing.shape != X.shape:
            msg = f"missing: expected the shape of the batch {X.shape}, got {missing.shape}"
            raise SchemaError(msg)
        wrong &= ~(missing & np.isnan(X))
    if not wrong.any():
        return
    i, d = (int(index) for index in np.unravel_index(int(wrong.argmax()), wrong.shape))
    name = d if columns is None else columns[d]
    msg = (
        f"row {row0 + i}, column {name!r}: {X[i, d]} is not finite; "
        f"mark missing values as null (None), and drop or clip what has overflowed"
    )
    raise SchemaError(msg, row=row0 + i)


def as_observations(X: object) -> FloatArray:
    """Return the rows of a whole data set, checked; NaN stands for what a mask leaves out.

    Parameters
    ----------
    X : array_like of float, shape (N, D)
        A masked array marks missing values.

    Returns
    -------
    ndarray of float64, shape (N, D)

    Raises
    ------
    ConfigError
        Without rows.
    SchemaError
        A value is not finite; the message names row and column.
    """
    missing = None
    if isinstance(X, np.ma.MaskedArray):
        missing = np.asarray(np.ma.getmaskarray(X), dtype=np.bool_)
        X = np.where(missing, np.nan, X.data)
    rows = as_matrix(X)
    check_matrix(rows, missing=missing)
    if len(rows) == 0:
        message = "X has no rows; at least one observation is needed"
        raise ConfigError(message)
    return rows
