"""The reachability matrix of a sequential ddCRP, updated row by row."""

from typing import Self

import numpy as np

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.typing import ArrayLike, FloatArray

SUM_TOLERANCE = 1e-9  # rounding error allowed in the sum of a customer's links


class LaplacianInverse:
    """Keep R = (I - A)^-1 while links of customers are appended, revised and forgotten.

    A[i, j] is the probability that customer i links to the earlier customer j; the remainder to 1
    is the self-link s_i, which opens a table. R[i, j] is then the probability that the path of
    links starting at i passes through j (Bartunov and Vetrov 2014, section 4.1), and Z[i, k] = R[i,
    k] s_k that i sits at the table opened by k. Because A is strictly lower triangular, every
    update is exact and free of division. With prior links as rows the moments are the prior's; with
    q(c_i), those of the posterior approximation.

    Customers are counted from the oldest one kept: after ``evict(k)`` customer k is customer 0.

    Notes
    -----
    For n customers kept, all operations take O(n^2) time, and the matrices O(n^2) memory. Links
    that reach W customers back are rows with zeros before them.

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

    def __init__(self) -> None:
        self._A = self._R = np.empty((0, 0))
        self._self_links = np.empty(0)

    def __len__(self) -> int:
        """Count the customers kept."""
        return len(self._R)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} customers>"

    @classmethod
    def from_links(cls, links: ArrayLike) -> Self:
        """Build the inverse of link probabilities (N, N), read below the diagonal; O(N^3)."""
        A = np.asarray(links, dtype=np.float64)
        if A.ndim != 2 or A.shape[0] != A.shape[1]:
            raise SchemaError(f"links: expected a square matrix, got shape {A.shape}")
        inverse = cls()
        for i, row in enumerate(A):
            inverse.append(row[:i])
        return inverse

    def append(self, row: ArrayLike, *, self_link: float | None = None) -> None:
        """Add a customer behind the others.

        Parameters
        ----------
        row : array_like of float, shape (n,)
            Probabilities of its links to the n customers kept, oldest first.
        self_link : float, optional
            Probability that it opens a table. By default the remainder of `row`; give it if part of
            the probability belongs to evicted customers.

        Raises
        ------
        SchemaError
            `row` has the wrong length, a negative or undefined entry, or a sum above 1.
        """
        n = len(self)
        links, opens = _checked(n, row, self_link)
        self._A, self._R = np.pad(self._A, (0, 1)), np.pad(self._R, (0, 1))
        self._A[n, :n], self._R[n] = links, self._reached(n, links)
        self._self_links = np.append(self._self_links, opens)

    def revise(self, i: int, row: ArrayLike, *, self_link: float | None = None) -> None:
        """Replace the links of customer i: a rank-1 update of rows >= i and columns < i.

        ``i`` counts from the oldest one kept (ConfigError if it is not kept); ``row`` (i,) and
        ``self_link``: as for `append`, whose errors change nothing.
        """
        n = len(self)
        if not 0 <= i < n:
            message = f"i: expected a customer between 0 and {n - 1}, got {i}"
            if n == 0:
                message = f"i: there is no customer {i}, nor any other; append one first"
            raise ConfigError(message)
        links, self._self_links[i] = _checked(i, row, self_link)
        before, self._A[i, :i] = self._R[i].copy(), links
        self._R[i] = self._reached(i, links)
        later = self._R[i + 1 :]
        later += np.outer(later[:, i], self._R[i] - before)
        np.clip(later, 0.0, 1.0, out=later)

    def evict(self, k: int = 1) -> None:
        """Forget the k oldest customers, 0 <= k <= n (ConfigError if there are fewer). Exact.

        Paths between the remaining customers pass through these only, so their block of R does not
        change. Tables opened by a forgotten customer have no column any more: the rows of
        `table_probabilities` then sum to less than 1.
        """
        if not 0 <= k <= len(self):
            raise ConfigError(
                f"k: expected a number of customers between 0 and {len(self)}, got {k}"
            )
        self._A, self._R = self._A[k:, k:].copy(), self._R[k:, k:].copy()
        self._self_links = self._self_links[k:]

    @property
    def links(self) -> FloatArray:
        """Links A between the customers kept, strictly lower triangular, shape (n, n)."""
        return self._A.copy()

    @property
    def self_links(self) -> FloatArray:
        """Probability s_i that customer i opens a table, shape (n,)."""
        return self._self_links.copy()

    def to_dense(self) -> FloatArray:
        """Return R, unit lower triangular, shape (n, n)."""
        return self._R.copy()

    def table_probabilities(self) -> FloatArray:
        """Return Z = R s, shape (n, n): row i, column k: customer i sits where k opened a table.

        Rows sum to 1 as long as nothing was evicted.
        """
        return self._R * self._self_links

    def expected_table_sizes(self) -> FloatArray:
        """Return the expected number of kept customers at the table opened by each, shape (n,).

        sum_i R_ik s_k, zero-sized where k opens none; divide by `self_links` for the size of an
        existing table.
        """
        sizes: FloatArray = self._R.sum(axis=0) * self._self_links
        return sizes

    def expected_n_tables(self) -> float:
        """Return the expected number of tables opened by the customers kept, sum_k s_k."""
        return float(self._self_links.sum())

    def _reached(self, i: int, links: FloatArray) -> FloatArray:
        """Return row i of R: e_i + sum_j A_ij R_j."""
        row = np.zeros(len(self._R))
        for j in np.flatnonzero(links):
            row += links[j] * self._R[j]
        np.clip(row, 0.0, 1.0, out=row)  # rounding may leave [0, 1] by an ulp, the exact value not
        row[i] = 1.0
        return row


def _checked(n: int, row: ArrayLike, self_link: float | None) -> tuple[FloatArray, float]:
    """Check a customer's links to n predecessors; return them and the self-link."""
    links = np.asarray(row, dtype=np.float64)
    if links.shape != (n,):
        raise SchemaError(
            f"row: expected one link probability for each earlier customer, length {n}; got shape "
            f"{links.shape}"
        )
    wrong = np.flatnonzero(~((links >= 0.0) & (links <= 1.0 + SUM_TOLERANCE)))
    if wrong.size:
        raise SchemaError(
            f"row: entry {wrong[0]} is {links[wrong[0]]}; probabilities must lie between "
            f"0 and 1 (exponentiate log probabilities first)"
        )
    if self_link is not None and not self_link >= 0.0:
        raise SchemaError(f"self_link: expected a probability, got {self_link}")
    total = float(links.sum()) + (self_link or 0.0)
    if total > 1.0 + SUM_TOLERANCE:
        what = "row" if self_link is None else "row and self_link"
        raise SchemaError(
            f"{what}: the probabilities sum to {total:.17g}, above 1; normalise them first"
        )
    return links, max(0.0, 1.0 - total) if self_link is None else float(self_link)
