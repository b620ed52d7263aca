"""The reachability matrix of a sequential ddCRP, updated row by row."""

from typing import Self

import numpy as np

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.reachability import kernels
from streamddcrp.typing import ArrayLike, FloatArray

SUM_TOLERANCE = 1e-9  # rounding error allowed in the sum of a customer's links
FIRST_CAPACITY = 16


class LaplacianInverse:
    """Keep R = (I - A)^-1 while links of customers are appended, revised and forgotten.

    A[i, j] is the probability that customer i links to the earlier customer j; the remainder to 1
    is the self-link s_i, which opens a table. R[i, j] is then the probability that the path of
    links starting at i passes through j (Bartunov and Vetrov 2014, section 4.1), and Z[i, k] = R[i,
    k] s_k that i sits at the table opened by k. Because A is strictly lower triangular, every
    update is exact and free of division. With prior links as rows the moments are the prior's; with
    q(c_i), those of the posterior approximation.

    Customers are counted from the oldest one kept: after ``evict(k)`` customer k is customer 0.

    Parameters
    ----------
    bandwidth : int, optional
        Links reach back over the last `bandwidth` customers only (a window decay). The links then
        take O(W n) memory instead of O(n^2); R itself stays dense.

    Notes
    -----
    For n customers kept, time and memory:

    ==========  ======================  ==========================
    operation   dense                   bandwidth W
    ==========  ======================  ==========================
    append      O(n^2)                  O(W n)
    revise(i)   O(i^2 + (n - i) i)      O(W i + (n - i) i)
    evict(k)    O(k)                    O(k)
    memory      O(n^2)                  O(n^2) for R, O(W n) for A
    ==========  ======================  ==========================

    Storage grows by doubling and is reused as customers are evicted, so memory follows the number
    of customers kept, not the length of the stream.

    Examples
    --------
    Three customers; the second joins the first with probability 1/2, the third prefers the second.

    >>> from streamddcrp.reachability import LaplacianInverse
    >>> inverse = LaplacianInverse()
    >>> for row in [], [0.5], [0.25, 0.5]:
    ...     inverse.append(row)
    >>> inverse.to_dense()
    array([[1. , 0. , 0. ],
           [0.5, 1. , 0. ],
           [0.5, 0.5, 1. ]])
    >>> inverse.table_probabilities()[2]
    array([0.5 , 0.25, 0.25])
    >>> inverse.expected_n_tables()
    1.75
    >>> inverse.revise(1, [1.0])
    >>> inverse.expected_table_sizes()
    array([2.75, 0.  , 0.25])
    """

    def __init__(self, *, bandwidth: int | None = None) -> None:
        self._bandwidth = _checked_bandwidth(bandwidth)
        self._start = 0  # buffer row of the oldest customer kept
        self._end = 0  # one past the buffer row of the newest
        self._R = np.zeros((FIRST_CAPACITY, FIRST_CAPACITY))
        self._A = np.zeros((FIRST_CAPACITY, self._bandwidth or FIRST_CAPACITY))
        self._self_links = np.zeros(FIRST_CAPACITY)
        self._work = np.zeros(FIRST_CAPACITY)

    def __len__(self) -> int:
        """Count the customers kept."""
        return self._end - self._start

    def __repr__(self) -> str:
        band = "" if self._bandwidth is None else f", bandwidth={self._bandwidth}"
        return f"<{type(self).__name__} of {len(self)} customers{band}>"

    @classmethod
    def from_links(cls, links: ArrayLike, *, bandwidth: int | None = None) -> Self:
        """Build the inverse of link probabilities (N, N), read below the diagonal.

        O(N^3), or O(W N^2) with a ``bandwidth``, as for the class.
        """
        A = np.asarray(links, dtype=np.float64)
        if A.ndim != 2 or A.shape[0] != A.shape[1]:
            raise SchemaError(f"links: expected a square matrix, got shape {A.shape}")
        inverse = cls(bandwidth=bandwidth)
        for i, row in enumerate(A):
            inverse.append(row[:i])
        return inverse

    def append(self, row: ArrayLike, *, self_link: float | None = None) -> None:
        """Add a customer behind the others. O(n^2); O(W n) with a bandwidth.

        Parameters
        ----------
        row : array_like of float, shape (n,)
            Probabilities of its links to the n customers kept, oldest first. With a bandwidth W
            the last ``min(n, W)`` of them suffice, and the others must be zero.
        self_link : float, optional
            Probability that it opens a table. By default the remainder of `row`; give it if part of
            the probability belongs to evicted customers.

        Raises
        ------
        SchemaError
            `row` has the wrong length, a negative or undefined entry, or a sum above 1.
        """
        n = len(self)
        links, opens = self._checked(n, row, self_link)
        self._reserve()
        self._set_links(self._end, links, opens)
        kernels.append(self._A, *self._reach(self._end), self._start, self._end, self._R)
        self._end += 1

    def revise(self, i: int, row: ArrayLike, *, self_link: float | None = None) -> None:
        """Replace the links of customer i: a rank-1 update of rows >= i and columns < i.

        ``i`` counts from the oldest one kept (ConfigError if it is not kept); ``row`` (i,) and
        ``self_link``: as for `append`, whose errors change nothing. O(i^2 + (n - i) i); with a
        bandwidth O(W i + (n - i) i).
        """
        n = len(self)
        if not 0 <= i < n:
            message = f"i: expected a customer between 0 and {n - 1}, got {i}"
            if n == 0:
                message = f"i: there is no customer {i}, nor any other; append one first"
            raise ConfigError(message)
        links, opens = self._checked(i, row, self_link)
        at = self._start + i
        self._set_links(at, links, opens)
        first, shift = self._reach(at)
        kernels.revise(self._A, first, shift, self._start, at, self._end, self._work, self._R)

    def evict(self, k: int = 1) -> None:
        """Forget the k oldest customers, 0 <= k <= n (ConfigError if there are fewer). O(k), exact.

        Paths between the remaining customers pass through these only, so their block of R does not
        change. Tables opened by a forgotten customer have no column any more: the rows of
        `table_probabilities` then sum to less than 1.
        """
        if not 0 <= k <= len(self):
            raise ConfigError(
                f"k: expected a number of customers between 0 and {len(self)}, got {k}"
            )
        self._start += k

    @property
    def bandwidth(self) -> int | None:
        """Largest distance of links in customers; None: unlimited."""
        return self._bandwidth

    @property
    def links(self) -> FloatArray:
        """Links A between the customers kept, strictly lower triangular, shape (n, n)."""
        A = np.zeros((len(self), len(self)))
        for i, at in enumerate(range(self._start, self._end)):
            first, shift = self._reach(at)
            A[i, first - self._start : i] = self._A[at, first + shift : at + shift]
        return A

    @property
    def self_links(self) -> FloatArray:
        """Probability s_i that customer i opens a table, shape (n,)."""
        return self._self_links[self._start : self._end].copy()

    def to_dense(self) -> FloatArray:
        """Return R, unit lower triangular, shape (n, n)."""
        rows = slice(self._start, self._end)
        return np.tril(self._R[rows, rows])

    def table_probabilities(self) -> FloatArray:
        """Return Z = R s, shape (n, n): row i, column k: customer i sits where k opened a table.

        Rows sum to 1 as long as nothing was evicted. O(n^2).
        """
        return self.to_dense() * self._self_links[self._start : self._end]

    def expected_table_sizes(self) -> FloatArray:
        """Return the expected number of kept customers at the table opened by each, shape (n,).

        sum_i R_ik s_k, zero-sized where k opens none; divide by `self_links` for the size of an
        existing table. O(n^2).
        """
        out = np.empty(len(self))
        kernels.column_masses(self._start, self._end, self._R, out)
        return out * self._self_links[self._start : self._end]

    def expected_n_tables(self) -> float:
        """Return the expected number of tables opened by the customers kept, sum_k s_k. O(n)."""
        return float(self._self_links[self._start : self._end].sum())

    def _checked(self, n: int, row: ArrayLike, self_link: float | None) -> tuple[FloatArray, float]:
        """Check a customer's links to n predecessors; return them and the self-link."""
        links = np.asarray(row, dtype=np.float64, order="C")
        kept = n if self._bandwidth is None else min(n, self._bandwidth)
        if links.ndim != 1 or links.size not in {n, kept}:
            lengths = f"{n}" if kept == n else f"{kept} (the bandwidth) or {n}"
            raise SchemaError(
                f"row: expected one link probability for each earlier customer, length {lengths}; "
                f"got shape {links.shape}"
            )
        wrong = np.flatnonzero(~((links >= 0.0) & (links <= 1.0 + SUM_TOLERANCE)))
        if wrong.size:
            raise SchemaError(
                f"row: entry {wrong[0]} is {links[wrong[0]]}; probabilities must lie between "
                f"0 and 1 (exponentiate log probabilities first)"
            )
        if links.size > kept:
            if links[: n - kept].any():
                far = int(np.flatnonzero(links[: n - kept])[0])
                raise SchemaError(
                    f"row: entry {far} links {n - far} customers back, beyond the bandwidth of "
                    f"{self._bandwidth}; set it to 0 or construct with a larger bandwidth"
                )
            links = links[n - kept :]
        total = float(links.sum())
        if self_link is not None:
            if not self_link >= 0.0:
                raise SchemaError(f"self_link: expected a probability, got {self_link}")
            total += self_link
        if total > 1.0 + SUM_TOLERANCE:
            what = "row" if self_link is None else "row and self_link"
            raise SchemaError(
                f"{what}: the probabilities sum to {total:.17g}, above 1; normalise them first"
            )
        return links, max(0.0, 1.0 - total) if self_link is None else float(self_link)

    def _reach(self, at: int) -> tuple[int, int]:
        """Return the first row that a row's links reach, and the position of row 0 among them."""
        if self._bandwidth is None:
            return self._start, 0
        return max(self._start, at - self._bandwidth), self._bandwidth - at

    def _set_links(self, at: int, links: FloatArray, self_link: float) -> None:
        first, shift = self._reach(at)
        self._A[at, first + shift : at + shift] = links
        self._self_links[at] = self_link

    def _reserve(self) -> None:
        """Make room for one more row: reuse the rows of evicted customers, or double."""
        capacity = len(self._self_links)
        if self._end < capacity:
            return
        n = len(self)
        old, new = slice(self._start, self._end), slice(0, n)
        # At most half full: the halves do not overlap, and at least n appends pay for the copy.
        grown = capacity if 2 * n <= capacity else 2 * capacity
        R, A, self_links = self._R, self._A, self._self_links
        if grown > capacity:
            R = np.zeros((grown, grown))
            A = np.zeros((grown, self._bandwidth or grown))
            self_links = np.zeros(grown)
            self._work = np.zeros(grown)
        R[new, new] = self._R[old, old]
        banded = self._bandwidth is not None
        A[new, slice(None) if banded else new] = self._A[old, slice(None) if banded else old]
        self_links[new] = self._self_links[old]
        self._R, self._A, self._self_links = R, A, self_links
        self._start, self._end = 0, n


def _checked_bandwidth(bandwidth: object) -> int | None:
    if bandwidth is None:
        return None
    if isinstance(bandwidth, bool):
        pass
    elif isinstance(bandwidth, int | np.integer) and bandwidth >= 1:
        return int(bandwidth)
    raise ConfigError(
        f"bandwidth: expected an integer >= 1, or None for links to all earlier customers; "
        f"got {bandwidth!r}"
    )
