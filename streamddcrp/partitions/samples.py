"""Samples of partitions: labels from links, similarities, least expected loss.

Losses between partitions have a common form, where n_k and m_l are the sizes of the tables of two
partitions of N customers and n_kl those of their intersections:

    L = (sum_k f(n_k) + sum_l f(m_l) - 2 sum_kl f(n_kl)) / c

==========  ============  ============  =========================================
loss        f(n)          c             meaning
==========  ============  ============  =========================================
``vi``      n log n       N             variation of information, in nats
``binder``  n^2           N (N - 1)     share of pairs together in one of them only
==========  ============  ============  =========================================

so one compiled search serves both, and the expectation over samples is exact, without a bound or an
(N, N) matrix.

References
----------
D. B. Dahl, D. J. Johnson and P. Mueller. Search algorithms and loss functions for Bayesian
clustering. JCGS 31, 2022. S. Wade and Z. Ghahramani. Bayesian cluster analysis. Bayesian Analysis
13, 2018.
"""

from collections.abc import Iterator

import numpy as np
import scipy

from streamddcrp.arguments import checked, generator, number_array
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.partitions.kernels import add_together, contingency, number_tables, place_all
from streamddcrp.typing import ArrayLike, FloatArray, IntArray
from streamddcrp.validation import whole

_DENDROGRAM = 3000  # most customers for a dendrogram of the similarities
_EVALUATED = 64  # samples, and dendrogram cuts, whose losses are compared before the search


@checked
def labels_of_links(links: ArrayLike) -> IntArray:
    """Return the tables that links make: linked customers share a label.

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
        A link leads to no customer.

    Examples
    --------
    >>> labels_of_links([0, 0, 2, 4, 3])
    array([0, 0, 2, 3, 3])
    """
    given = number_array("links", links, ndim=None, whole=True)
    if given.ndim not in {1, 2} or given.shape[-1] == 0:
        raise SchemaError(
            f"links must be integers of shape (N,) or (S, N), N at least 1; got an array of "
            f"{given.dtype} of shape {given.shape}"
        )
    n, N = given.size, given.shape[-1]
    wrong = (given < 0) | (given >= N)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise SchemaError(
            f"links: customer {at[-1]} links to {given[at]}; there are customers 0 to {N - 1}",
            row=at[0],
        )
    item = np.arange(n)
    ends = given.ravel() + item - item % N  # customers of all samples are numbered together
    graph = scipy.sparse.coo_array((np.ones(n, np.bool_), (item, ends)), shape=(n, n))
    _, table = scipy.sparse.csgraph.connected_components(graph, directed=False)
    return np.asarray(named(table).reshape(given.shape) % N)


def named(labels: IntArray) -> IntArray:
    """Name the tables of a partition (N,) after their smallest customer."""
    _, first, table = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(first[table].astype(np.int64))


def as_samples(labels: ArrayLike) -> tuple[IntArray, IntArray]:
    """Return samples (S, N) with tables numbered 0, 1, ... and their numbers of tables (S,)."""
    given = number_array("labels", labels, ndim=None, whole=True)
    if given.ndim == 1:
        given = given[np.newaxis]
    if given.ndim != 2 or 0 in given.shape:
        raise SchemaError(
            "labels must be integers of shape (S, N), a row for each sample, S and N at least 1; "
            f"got an array of {given.dtype} of shape {given.shape}"
        )
    if given.min() < 0 or given.max() >= given.shape[1]:
        given = np.array([np.unique(row, return_inverse=True)[1] for row in given])
    out = np.empty(given.shape, np.int64)
    return out, number_tables(np.ascontiguousarray(given, dtype=np.int64), out)


def as_weights(weights: ArrayLike | None, n_samples: int) -> FloatArray:
    """Return the weights of samples, summing to one; equal weights for None."""
    if weights is None:
        return np.full(n_samples, 1.0 / n_samples)
    given = number_array("weights", weights)
    if given.shape != (n_samples,) or not (given >= 0.0).all() or not 0.0 < given.sum() < np.inf:
        raise SchemaError(
            f"weights must be {n_samples} finite numbers >= 0, one for each sample and not all "
            f"zero; got an array of shape {given.shape}"
        )
    return np.ascontiguousarray(given / given.sum())


@checked
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


class _Samples:
    """Sampled partitions laid out for `place_all`, equal ones merged."""

    def __init__(self, labels: ArrayLike, weights: ArrayLike | None, loss: str) -> None:
        tables, n_tables = as_samples(labels)
        weight = as_weights(weights, len(tables))
        self.tables, first, same = np.unique(tables, axis=0, return_index=True, return_inverse=True)
        self.weights = np.bincount(same.ravel(), weight)
        self.n_tables = n_tables[first]
        self.n = N = tables.shape[1]
        n = np.arange(N + 1.0)
        f = {"vi": scipy.special.xlogy(n, n), "binder": n * n}.get(loss)
        if f is None:
            raise ConfigError(f"loss must be 'vi' or 'binder', got {loss!r}")
        self.f, self.step = f, np.diff(f)
        self.scale = float(N if loss == "vi" else max(N * (N - 1), 1))
        begin = np.cumsum(self.n_tables) - self.n_tables
        self.rows = np.ascontiguousarray((self.tables + begin[:, np.newaxis]).T, dtype=np.int32)
        self.weight_of_row = np.repeat(self.weights, self.n_tables)
        sizes = np.bincount(self.rows.ravel(), minlength=len(self.weight_of_row))
        self.constant = float(self.weight_of_row @ self.f[sizes])

    def count(self, place: IntArray) -> tuple[IntArray, IntArray]:
        """Return counts (T, K) and sizes (K,) with room for one more table."""
        K = min(int(place.max(initial=-1)) + 2, self.n)
        counts = np.empty((len(self.weight_of_row), K), np.int32)
        sizes = np.empty(K, np.int64)
        contingency(place, self.rows, counts, sizes)
        return counts, sizes

    def loss(self, counts: IntArray, sizes: IntArray) -> float:
        """Return the expected loss of an estimate."""
        shared = float(self.weight_of_row @ self.f[counts].sum(axis=1))
        total = float(self.f[sizes].sum()) + self.constant - 2.0 * shared
        return max(total, 0.0) / self.scale

    def move_singles(self, place: IntArray, rng: np.random.Generator) -> float:
        """Move single customers until no move lowers the loss; return it."""
        while True:
            counts, sizes = self.count(place)
            order = rng.permutation(self.n)
            n_moved, done = 0, 0
            while done < self.n:
                moved, visited = place_all(
                    order[done:], self.weights, self.step, self.rows, place, counts, sizes
                )
                n_moved, done = n_moved + moved, done + visited
                if done < self.n:  # no empty table left
                    more = min(len(sizes), self.n - len(sizes))
                    counts = np.pad(counts, ((0, 0), (0, more)))
                    sizes = np.pad(sizes, (0, more))
            if n_moved == 0:
                return self.loss(counts, sizes)
            place[:] = as_samples(place)[0][0]

    def starts(self) -> Iterator[IntArray]:
        """Yield candidates near the best partition."""
        yield np.zeros(self.n, np.int64)
        every = -(-len(self.tables) // _EVALUATED)
        yield from self.tables[::every]
        if 1 < self.n <= _DENDROGRAM:
            apart = 1.0 - similarity_matrix(self.tables, self.weights)
            tree = scipy.cluster.hierarchy.linkage(
                scipy.spatial.distance.squareform(np.maximum(apart, 0.0), checks=False), "average"
            )
            most = int(min(self.n, 2 * self.n_tables.max(), _EVALUATED))
            yield from np.ascontiguousarray(
                scipy.cluster.hierarchy.cut_tree(tree, range(2, most + 1)).T, dtype=np.int64
            )


@checked
def point_estimate(
    labels: ArrayLike,
    loss: str = "vi",
    *,
    weights: ArrayLike | None = None,
    n_starts: int = 16,
    seed: int | None = 0,
) -> IntArray:
    """Return the partition of least expected loss that a local search finds.

    Single customers move in random order to the table of least expected loss, until no move helps.
    The search starts from the best sample, the best cut of a dendrogram of the similarities (up to
    3000 customers), and partitions built by placing customers one by one.

    Parameters
    ----------
    labels : array_like of int, shape (S, N)
        Sampled partitions; customers of equal label share a table.
    loss : {"vi", "binder"}, default "vi"
        Variation of information, or Binder's loss, which favours singletons.
    weights : array_like of float, shape (S,), optional
        Weights of the samples, up to a factor. Default: equal.
    n_starts : int, default 16
    seed : int, optional
        For the orders.

    Returns
    -------
    ndarray of int64, shape (N,)
        The smallest index of the customer's table.

    Raises
    ------
    ConfigError
        An option is out of range.
    SchemaError
        The samples or their weights are not of the right shape.

    Notes
    -----
    O(S K N) a sweep for K tables of the estimate, and 4 T K bytes for T tables in all samples
    together; 16 N^2 bytes more for the dendrogram.

    Examples
    --------
    >>> point_estimate([[0, 0, 0, 3], [0, 0, 2, 2], [0, 0, 2, 2]])
    array([0, 0, 2, 2])
    """
    n_starts = whole("n_starts", n_starts, 1)
    samples = _Samples(labels, weights, loss)
    rng = generator(seed)
    known = sorted(
        ((samples.loss(*samples.count(place)), place) for place in samples.starts()),
        key=lambda start: start[0],
    )
    nowhere = np.full(samples.n, -1)
    best, least = known[0][1], np.inf
    for start in range(n_starts):
        from_known = start % 2 == 0 and start // 2 < len(known)
        place: IntArray = (known[start // 2][1] if from_known else nowhere).copy()
        found = samples.move_singles(place, rng)
        if found < least:
            best, least = place, found
    return named(best)
