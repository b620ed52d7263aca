"""Samples of partitions: checks, labels from links, posterior similarity."""

import numpy as np

from streamddcrp.errors import SchemaError
from streamddcrp.partitions.kernels import add_together, join, number_tables
from streamddcrp.typing import ArrayLike, FloatArray, IntArray


def labels_of_links(links: ArrayLike) -> IntArray:
    """Return the tables that links make: customers joined by links, any way, share a label.

    Parameters
    ----------
    links : array_like of int, shape (N,) or (S, N)
        The customer that each customer links to, or itself.

    Returns
    -------
    ndarray of int64, of the shape of `links`
        The smallest index of the customer's table.

    Raises
    ------
    SchemaError
        If a link leads to no customer.

    Examples
    --------
    >>> labels_of_links([0, 0, 2, 4, 3])
    array([0, 0, 2, 3, 3])
    """
    given = np.asarray(links)
    if given.ndim not in {1, 2} or given.dtype.kind not in "iu" or given.shape[-1] == 0:
        message = (
            f"links must be integers of shape (N,) or (S, N), N at least 1; got an array of "
            f"{given.dtype} of shape {given.shape}"
        )
        raise SchemaError(message)
    N = given.shape[-1]
    wrong = (given < 0) | (given >= N)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        message = f"links: customer {at[-1]} links to {given[at]}; there are customers 0 to {N - 1}"
        raise SchemaError(message, row=at[0])
    out = np.empty(given.shape, np.int64)
    join(np.ascontiguousarray(given, dtype=np.int64).reshape(-1, N), out.reshape(-1, N))
    return out


def as_samples(labels: ArrayLike) -> tuple[IntArray, IntArray]:
    """Return samples (S, N) with tables numbered 0, 1, ... and their numbers of tables (S,)."""
    given = np.asarray(labels)
    if given.ndim == 1:
        given = given[np.newaxis]
    if given.ndim != 2 or given.dtype.kind not in "iu" or 0 in given.shape:
        message = (
            "labels must be integers of shape (S, N), a row for each sample, S and N at least 1; "
            f"got an array of {given.dtype} of shape {given.shape}"
        )
        raise SchemaError(message)
    if given.min() < 0 or given.max() >= given.shape[1]:
        given = np.array([np.unique(row, return_inverse=True)[1] for row in given])
    out = np.empty(given.shape, np.int64)
    return out, number_tables(np.ascontiguousarray(given, dtype=np.int64), out)


def as_weights(weights: ArrayLike | None, n_samples: int) -> FloatArray:
    """Return the weights of samples, summing to one; equal weights for None."""
    if weights is None:
        return np.full(n_samples, 1.0 / n_samples)
    given = np.asarray(weights, dtype=np.float64)
    if given.shape != (n_samples,) or not (given >= 0.0).all() or not 0.0 < given.sum() < np.inf:
        message = (
            f"weights must be {n_samples} finite numbers >= 0, one for each sample and not all "
            f"zero; got an array of shape {given.shape}"
        )
        raise SchemaError(message)
    return np.ascontiguousarray(given / given.sum())


def similarity_matrix(labels: ArrayLike, weights: ArrayLike | None = None) -> FloatArray:
    """Return how often customers share a table: the posterior similarity matrix.

    Parameters
    ----------
    labels : array_like of int, shape (S, N)
        Sampled partitions; customers of equal label share a table.
    weights : array_like of float, shape (S,), optional
        Weights of the samples, up to a factor. Default: equal.

    Returns
    -------
    ndarray of float64, shape (N, N)
        8 N^2 bytes: 800 MB for ten thousand customers. Time is that of the pairs within tables,
        O(S N^2) at most.

    Examples
    --------
    >>> similarity_matrix([[0, 0, 2], [0, 1, 1]])
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0.5],
           [0. , 0.5, 1. ]])
    """
    tables, _ = as_samples(labels)
    out = np.zeros((tables.shape[1], tables.shape[1]))
    add_together(tables, as_weights(weights, len(tables)), out)
    return out
