"""Posterior of the links and of the number of tables of one document."""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from streamddcrp.decay import Decay
from streamddcrp.errors import SchemaError
from streamddcrp.models.language.kernels import fill_pairs, find_pairs, poisson_binomial
from streamddcrp.models.language.memory import first_within, horizon_of, unscaled
from streamddcrp.typing import ArrayLike, FloatArray, IntArray


class TableCount(NamedTuple):
    """Mean and variance of a number of tables."""

    mean: float
    variance: float


def link_posterior(
    word: IntArray, g: FloatArray, t: FloatArray, *, alpha: float, decay: Decay
) -> sp.csr_array:
    """Return p(c_i = j | w) of all tokens of a document; the links are independent.

    Parameters
    ----------
    word : ndarray of int64, shape (N,)
    g, t : ndarray of float64, shape (N,)
        Probability of each token under the base measure; times, or 0, 1, 2, .. for index distance.
    alpha : float
    decay : Decay

    Returns
    -------
    scipy.sparse.csr_array, shape (N, N)
        Rows sum to 1; the diagonal holds the probabilities of opening a table. Links lighter than
        1e-12 alpha are left out. O(pairs of equal words within reach) time and memory.
    """
    decay, alpha = unscaled(decay, alpha)
    n = len(word)
    first = first_within(t, t, horizon_of(decay, alpha))
    previous, count = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    find_pairs(word, first, np.full(word.max(initial=-1) + 1, -1), previous, count)
    indptr = np.zeros(n + 1, dtype=np.int64)
    np.cumsum(count + 1, out=indptr[1:])
    indices = np.empty(indptr[-1], dtype=np.int64)
    fill_pairs(first, previous, indptr, indices)
    own = np.repeat(np.arange(n), count + 1)
    data = decay.weight(t[own] - t[indices])
    data[indptr[1:] - 1] = alpha * g
    if n:
        data /= np.repeat(np.add.reduceat(data, indptr[:-1]), count + 1)
    links = sp.csr_array((data, indices, indptr), shape=(n, n))
    links.eliminate_zeros()
    return links


def n_tables_probs(p_open: ArrayLike) -> FloatArray:
    """Return P(K = 0), ..., P(K = N) of the number of tables, a Poisson-binomial; O(N^2).

    Parameters
    ----------
    p_open : array_like of float, shape (N,)
        Probability of each token to open a table: the diagonal of `link_posterior`.

    Examples
    --------
    >>> n_tables_probs([1.0, 0.5, 0.5])
    array([0.  , 0.25, 0.5 , 0.25])
    """
    p = np.ascontiguousarray(p_open, dtype=np.float64)
    if p.ndim != 1 or not np.all((p >= 0.0) & (p <= 1.0)):
        message = f"p_open: expected probabilities in a flat array, got shape {p.shape}"
        raise SchemaError(message)
    out = np.empty(len(p) + 1)
    poisson_binomial(p, out)
    return out


def sample_links(links: sp.csr_array, n_draws: int, rng: np.random.Generator) -> IntArray:
    """Draw whole vectors of links: each draw is what one Gibbs sweep would give, independent.

    Parameters
    ----------
    links : scipy.sparse.csr_array, shape (N, N)
        As `link_posterior` returns it.
    n_draws : int
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of int64, shape (n_draws, N)
    """
    n = links.shape[0]
    ends = np.cumsum(links.data)
    before = np.concatenate([[0.0], ends])[links.indptr[:-1]]
    rows = np.concatenate([before[1:], ends[-1:]]) - before
    at = np.searchsorted(ends, before + rng.random((n_draws, n)) * rows, side="right")
    drawn = links.indices[np.clip(at, links.indptr[:-1], links.indptr[1:] - 1)]
    return np.asarray(drawn, dtype=np.int64)


def together(links: sp.csr_array) -> FloatArray:
    """Return P(i and j at one table) for independent sequential links, dense.

    M_ii = 1, M_ij = sum_{t<i} Q_it M_tj for j < i, M symmetric. O(stored links times N) time,
    O(N^2) memory: for a document, not for a stream.
    """
    n = links.shape[0]
    out = np.eye(n)
    for i in range(n):
        row = slice(links.indptr[i], links.indptr[i + 1])
        to = links.indices[row]
        earlier = to < i
        out[i, :i] = links.data[row][earlier] @ out[to[earlier], :i]
        out[:i, i] = out[i, :i]
    return out
