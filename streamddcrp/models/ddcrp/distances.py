"""Distances between customers, and the links that a decay allows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

from streamddcrp.arguments import checked, number_array, values_of
from streamddcrp.data import as_matrix, as_times, check_matrix, check_times
from streamddcrp.data.batches import is_sparse
from streamddcrp.decay import Decay, DecaySpec, make_decay
from streamddcrp.decay.families import NoDecay
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.models.ddcrp.candidates import Candidates, checked_alpha
from streamddcrp.typing import ArrayLike, FloatArray, IntArray
from streamddcrp.validation import choice, whole

TAIL = 1e-12  # links below this share of alpha are dropped
BLOCK = 1_000_000  # pairs whose distances are computed at a time
NORMS = {"euclidean": 2.0, "cityblock": 1.0, "chebyshev": np.inf}
Pairs = tuple[IntArray, IntArray, FloatArray]  # customers i, customers j, distances from i to j


class Distances:
    """Distances d_ij >= 0 from each of N customers to every other; infinite: no link.

    Made by one of `by_index`, `by_time`, `by_covariates`, `by_hops`, `by_matrix`, `by_function`.

    Parameters
    ----------
    n : int
        Number of customers N.
    sequential : bool
        Whether customers may only link to those before them (j < i).

    Examples
    --------
    >>> from streamddcrp import Distances
    >>> import numpy as np
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> candidates = Distances.by_hops(path).candidates(("window", 1.5), alpha=1.0)
    >>> np.exp(candidates.log_prior())
    array([[0.5   , 0.5   , 0.    ],
           [0.3333, 0.3333, 0.3333],
           [0.    , 0.5   , 0.5   ]])
    """

    def __init__(self, n: int, sequential: bool) -> None:
        if type(self) is Distances:
            raise ConfigError(
                "Distances: make them by one of its methods, such as Distances.by_time"
            )
        self.n = whole("n, the number of customers,", n, 1)
        self.sequential = bool(sequential)

    @staticmethod
    @checked
    def by_index(n: int, *, sequential: bool = True) -> "Distances":
        """Take the difference ``|i - j|`` of the arrival indices of ``n`` customers."""
        return _Index(n, sequential)

    @staticmethod
    @checked
    def by_time(t: ArrayLike, *, sequential: bool = True) -> "Distances":
        """Take differences of times, or stamps in seconds; sequential ones must not decrease."""
        times = as_times(t)
        if sequential:
            check_times(times, given=t)
        return _Time(times, sequential)

    @staticmethod
    @checked
    def by_covariates(
        Z: ArrayLike, metric: str = "euclidean", *, sequential: bool = False
    ) -> "Distances":
        """Take distances of covariates (N, C), such as places; other metrics: `by_function`.

        ``metric``: "euclidean", "cityblock" or "chebyshev".
        """
        choice("metric", metric, NORMS)
        places = as_matrix(Z)
        check_matrix(places, complete=True)
        return _Covariates(places, NORMS[metric], sequential)

    @staticmethod
    @checked
    def by_hops(graph: Any, *, sequential: bool = False) -> "Distances":
        """Take the number of edges on the shortest path; direction is ignored.

        For direct neighbours alone use a window of 1 < width <= 2, since its end is excluded.

        Parameters
        ----------
        graph : scipy sparse or dense matrix of shape (N, N), or networkx graph
            Nonzero entries are edges. Vertices of a networkx graph keep its order.
        sequential : bool, default False
        """
        return _Hops(_adjacency(graph), sequential)

    @staticmethod
    @checked
    def by_matrix(D: Any, *, sequential: bool = False) -> "Distances":
        """Take distances from a matrix (N, N), d_ij in row i; it need not be symmetric.

        The stored entries of a sparse matrix, including 0, are the possible links. The diagonal is
        ignored.
        """
        return _Stored(*_entries(D, "D"), sequential)

    @staticmethod
    @checked
    def by_function(
        function: Callable[[IntArray, IntArray], ArrayLike], n: int, *, sequential: bool = False
    ) -> "Distances":
        """Take distances from a function, called for all pairs of ``n`` customers, O(N^2).

        It takes two arrays of customers i and j, shape (B,), and returns d_ij >= 0, shape (B,).
        """
        if not callable(function):
            raise ConfigError(
                f"function: expected a function of two arrays of indices, got {function!r}"
            )
        return _Function(function, Distances.by_index(n).n, sequential)

    def between(self, i: IntArray, j: IntArray) -> FloatArray:
        """Return the distances from customers ``i`` to customers ``j``, two arrays of one shape."""
        raise NotImplementedError

    def _reach(self, horizon: float) -> Pairs:
        """Return all pairs no farther than ``horizon``, and perhaps others, in any order."""
        raise NotImplementedError

    def candidates(self, decay: DecaySpec, alpha: float) -> Candidates:
        """Return the possible links with their weights.

        Links lighter than 1e-12 alpha are dropped: the log evidence changes by at most N times that
        share for each dropped link of a customer.

        Parameters
        ----------
        decay : Decay, tuple, str or callable
        alpha : float
            Weight of a self-link, > 0.

        Raises
        ------
        ConfigError
            ``alpha`` is not positive, or the decay returns a negative or undefined weight.
        """
        alpha = checked_alpha(alpha)
        decay = make_decay(decay)
        least = np.log(TAIL * alpha)
        share = np.clip(least - float(decay.log_weight(0.0)), -690.0, -0.6)
        return self._candidates(decay, alpha, least, decay.horizon(float(np.exp(share))))

    def _candidates(self, decay: Decay, alpha: float, least: float, horizon: float) -> Candidates:
        i, j, distance = self._reach(horizon)
        log_weight = decay.log_weight(distance)
        kept = (log_weight >= least) & ((j < i) if self.sequential else (j != i))
        return Candidates.from_links(
            self.n, alpha, self.sequential, i[kept], j[kept], log_weight[kept]
        )


class _Time(Distances):
    def __init__(self, t: FloatArray, sequential: bool) -> None:
        super().__init__(len(t), sequential)
        self._t = t

    def between(self, i: IntArray, j: IntArray) -> FloatArray:
        return np.abs(self._t[i] - self._t[j])

    def _candidates(self, decay: Decay, alpha: float, least: float, horizon: float) -> Candidates:
        if self.sequential and isinstance(decay, NoDecay):
            return _Index(self.n, True)._candidates(decay, alpha, least, horizon)
        return super()._candidates(decay, alpha, least, horizon)

    def _reach(self, horizon: float) -> Pairs:
        order = np.argsort(self._t, kind="stable")
        t = self._t[order]
        low = np.searchsorted(t, t - horizon, side="left")
        high = np.arange(self.n) if self.sequential else np.searchsorted(t, t + horizon, "right")
        length = high - low
        i = np.repeat(np.arange(self.n), length)
        j = np.arange(len(i)) - np.repeat(np.cumsum(length) - length - low, length)
        return order[i], order[j], np.abs(t[i] - t[j])


class _Index(_Time):
    def __init__(self, n: int, sequential: bool) -> None:
        super().__init__(np.arange(float(n)), sequential)

    def _candidates(self, decay: Decay, alpha: float, least: float, horizon: float) -> Candidates:
        width = int(min(self.n - 1, np.ceil(horizon)))
        log_weight = decay.log_weight(np.arange(1.0, width + 1.0))
        log_weight = log_weight[: np.flatnonzero(log_weight >= least).max(initial=-1) + 1]
        if not self.sequential or (log_weight < least).any():  # such as a non-monotone function
            return Distances._candidates(self, decay, alpha, least, horizon)
        return Candidates.from_gaps(self.n, alpha, log_weight)


class _Covariates(Distances):
    def __init__(self, places: FloatArray, norm: float, sequential: bool) -> None:
        super().__init__(len(places), sequential)
        self._places, self._norm = places, norm

    def between(self, i: IntArray, j: IntArray) -> FloatArray:
        gap = self._places[i] - self._places[j]
        return np.asarray(np.linalg.norm(gap, ord=self._norm, axis=-1))

    def _reach(self, horizon: float) -> Pairs:
        tree = scipy.spatial.KDTree(self._places)
        low, high = tree.query_pairs(horizon, p=self._norm, output_type="ndarray").T
        distance = self.between(low, high)
        return np.r_[high, low], np.r_[low, high], np.r_[distance, distance]


class _Stored(Distances):
    """Distances of listed pairs; all others are infinite."""

    def __init__(
        self, i: IntArray, j: IntArray, distance: FloatArray, n: int, sequential: bool
    ) -> None:
        super().__init__(n, sequential)
        self._keep(i, j, distance)

    def _keep(self, i: IntArray, j: IntArray, distance: FloatArray) -> None:
        key = i * self.n + j
        order = np.argsort(key, kind="stable")
        self._pairs = i[order], j[order], distance[order]
        self._key = key[order]

    def between(self, i: IntArray, j: IntArray) -> FloatArray:
        key = np.asarray(i) * self.n + np.asarray(j)
        place = np.minimum(np.searchsorted(self._key, key), len(self._key) - 1)
        if len(self._key) == 0:
            return np.where(i == j, 0.0, np.inf)
        found = np.where(self._key[place] == key, self._pairs[2][place], np.inf)
        return np.where(i == j, 0.0, found)

    def _reach(self, horizon: float) -> Pairs:
        return self._pairs


class _Hops(_Stored):
    """Shortest paths, computed as far as needed."""

    def __init__(self, adjacency: "scipy.sparse.csr_array", sequential: bool) -> None:
        self._adjacency = adjacency
        self._known = 0.0
        none = np.empty(0, np.int64)
        super().__init__(none, none, np.empty(0), adjacency.shape[0], sequential)

    def between(self, i: IntArray, j: IntArray) -> FloatArray:
        distance = super().between(i, j)
        if self._known < np.inf and np.isinf(distance).any():
            self._reach(np.inf)
            return super().between(i, j)
        return distance

    def _reach(self, horizon: float) -> Pairs:
        if horizon > self._known:
            self._keep(*self._walk(horizon))
            self._known = horizon
        return super()._reach(horizon)

    def _walk(self, horizon: float) -> Pairs:
        """Extend the walks from all vertices by one edge at a time."""
        reached = scipy.sparse.eye_array(self.n, format="csr", dtype=np.bool_)
        edge: scipy.sparse.csr_array = reached
        found: list[scipy.sparse.coo_array] = []
        while len(found) < horizon:
            edge = (edge @ self._adjacency).astype(np.bool_)
            edge = (edge > reached).tocsr()
            edge.eliminate_zeros()
            if edge.nnz == 0:
                break
            reached = (reached + edge).tocsr()
            found.append(edge.tocoo())
        parts = [(e.row, e.col, np.full(e.nnz, h)) for h, e in enumerate(found, 1)]
        if not parts:
            return self._pairs
        i, j, hops = (np.concatenate(part) for part in zip(*parts, strict=True))
        return i.astype(np.int64), j.astype(np.int64), hops.astype(np.float64)


class _Function(Distances):
    def __init__(
        self, function: Callable[[IntArray, IntArray], ArrayLike], n: int, sequential: bool
    ) -> None:
        super().__init__(n, sequential)
        self._function = function

    def between(self, i: IntArray, j: IntArray) -> FloatArray:
        d: FloatArray = values_of("function:", self._function, i, j)
        _check_values(i, j, d, "function")
        return d

    def _reach(self, horizon: float) -> Pairs:
        found: list[Pairs] = []
        step = max(1, BLOCK // self.n)
        for first in range(0, self.n, step):
            rows = np.arange(first, min(first + step, self.n))
            i, j = np.repeat(rows, self.n), np.tile(np.arange(self.n), len(rows))
            wanted = (j < i) if self.sequential else (j != i)
            i, j = i[wanted], j[wanted]
            d = self.between(i, j)
            near = d <= horizon
            found.append((i[near], j[near], d[near]))
        i, j, d = (np.concatenate(part) for part in zip(*found, strict=True))
        return i, j, d


def _entries(D: Any, name: str) -> tuple[IntArray, IntArray, FloatArray, int]:
    """Return the finite entries of a square matrix off its diagonal, and its size."""
    matrix = D if is_sparse(D) else number_array(name, D, ndim=None)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] == 0:
        raise SchemaError(
            f"{name}: expected a square matrix, a row and a column for each customer; got shape "
            f"{matrix.shape}"
        )
    if matrix.dtype.kind not in "fiub":
        raise SchemaError(f"{name}: expected numbers, got an array of type {matrix.dtype}")
    n = int(matrix.shape[0])
    if is_sparse(D):
        coo = D.tocsr().tocoo()  # sums entries of the same place
        i, j, d = coo.row, coo.col, coo.data
    else:
        i, j = np.divmod(np.arange(n * n), n)
        d = matrix.reshape(-1)
    off = i != j
    i, j, d = i[off].astype(np.int64), j[off].astype(np.int64), d[off].astype(np.float64)
    _check_values(i, j, d, name)
    finite = np.isfinite(d)
    return i[finite], j[finite], d[finite], n


def _check_values(i: IntArray, j: IntArray, d: FloatArray, name: str) -> None:
    wrong = ~(d >= 0.0)
    if wrong.any():
        at = int(wrong.argmax())
        raise SchemaError(
            f"{name}: row {i[at]}, column {j[at]}: {d[at]} is not a distance; expected numbers "
            f">= 0, infinity where there is no link",
            row=int(i[at]),
        )


def _adjacency(graph: Any) -> "scipy.sparse.csr_array":
    """Return the symmetric pattern of edges without loops."""
    if hasattr(graph, "nodes") and hasattr(graph, "edges"):
        place = {vertex: k for k, vertex in enumerate(graph.nodes())}
        ends = [(place[edge[0]], place[edge[1]]) for edge in graph.edges()]
        i, j = np.array(ends, np.int64).reshape(-1, 2).T
        n = len(place)
        if n == 0:
            raise SchemaError("graph: has no vertices; at least one customer is needed")
    else:
        i, j, value, n = _entries(graph, "graph")
        i, j = i[value != 0.0], j[value != 0.0]
    i, j = i[i != j], j[i != j]
    pattern = (np.ones(2 * len(i), np.bool_), (np.r_[i, j], np.r_[j, i]))
    return scipy.sparse.coo_array(pattern, shape=(n, n)).tocsr()
