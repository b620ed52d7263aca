"""The possible links and their prior weights, as arrays for the kernels."""

from typing import NamedTuple, Self

import numpy as np

from streamddcrp.errors import ConfigError
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import positive


def checked_alpha(alpha: float) -> float:
    """Return the weight of a self-link as a float; refuse nonpositive ones."""
    try:
        return positive("alpha", alpha)
    except ConfigError as error:
        raise ConfigError(
            f"{error}: it is the weight of a self-link, the only link of a customer with no one in "
            f"reach, such as an isolated vertex of a graph or the first customer of a sequence"
        ) from None


class Candidates(NamedTuple):
    """The candidate links of N customers besides self-links, with weights f(d); two layouts.

    The weights of a row, including that of the self-link, share a factor ``exp(-log_scale)``.
    ``shared``: candidate q of customer i is i - 1 - q, q < min(i, W), with ``weight[q]``; ``start``
    and ``customer`` are empty, ``log_scale`` has one entry. Rows: the candidates of customer i are
    ``customer[start[i]:start[i + 1]]``, ascending, with the weights at the same places.
    """

    n: int
    alpha: float  # weight of a self-link
    sequential: bool  # whether every candidate of i comes before i
    shared: bool
    start: IntArray  # (N + 1,) or (0,)
    customer: IntArray  # (number of links,) or (0,)
    weight: FloatArray  # (number of links,) or (W,), all > 0
    log_scale: FloatArray  # (N,) or (1,)
    log_mass: FloatArray  # (N,) log F_i, -inf without candidates

    @classmethod
    def from_links(
        cls, n: int, alpha: float, sequential: bool, i: IntArray, j: IntArray,
        log_weight: FloatArray,
    ) -> Self:  # fmt: skip
        """Lay out links from customers i to customers j, in any order, by rows."""
        order = np.lexsort((j, i))
        i, j, log_weight = i[order], j[order], log_weight[order]
        start = np.zeros(n + 1, np.int64)
        np.cumsum(np.bincount(i, minlength=n), out=start[1:])
        linked = np.flatnonzero(np.diff(start))
        log_scale, log_mass = np.zeros(n), np.full(n, -np.inf)
        weight = log_weight
        if linked.size:
            log_scale[linked] = np.maximum.reduceat(log_weight, start[linked])
            weight = np.exp(log_weight - log_scale[i])
            log_mass[linked] = log_scale[linked] + np.log(np.add.reduceat(weight, start[linked]))
        customer = j.astype(np.int64)
        return cls(n, alpha, sequential, False, start, customer, weight, log_scale, log_mass)

    @classmethod
    def from_gaps(cls, n: int, alpha: float, log_weight: FloatArray) -> Self:
        """Take ``log_weight`` of links over 1, .., W arrivals, the same for all customers."""
        scale = float(log_weight.max(initial=-np.inf)) if log_weight.size else 0.0
        weight = np.exp(log_weight - scale)
        mass = np.concatenate([[0.0], np.cumsum(weight)])
        with np.errstate(divide="ignore"):
            log_mass = scale + np.log(mass[np.minimum(np.arange(n), len(weight))])
        none = np.empty(0, np.int64)
        return cls(n, alpha, True, True, none, none, weight, np.array([scale]), log_mass)

    @property
    def own(self) -> FloatArray:
        """Scaled weight of the self-link, shape (N,), or (1,) in the shared layout."""
        return np.asarray(np.exp(np.log(self.alpha) - self.log_scale))

    @property
    def log_total(self) -> FloatArray:
        """log(alpha + F_i), shape (N,)."""
        return np.asarray(np.logaddexp(np.log(self.alpha), self.log_mass))

    @property
    def n_links(self) -> int:
        """Largest number of links that all customers together may choose from."""
        return self.n * len(self.weight) if self.shared else len(self.customer)

    @property
    def counted(self) -> bool:
        """Whether all earlier customers weigh the same, so that a table's weight is its size."""
        w = self.weight
        return self.shared and len(w) == self.n - 1 > 0 and bool((w == w[0]).all())

    def with_alpha(self, alpha: float) -> Self:
        """Return the same links with another self-link weight; arrays are shared."""
        return self._replace(alpha=checked_alpha(alpha))

    def row(self, i: int) -> tuple[IntArray, FloatArray]:
        """Return the candidates of customer i and their unscaled log weights."""
        if self.shared:
            width = min(i, len(self.weight))
            return i - 1 - np.arange(width), np.log(self.weight[:width]) + self.log_scale[0]
        part = slice(self.start[i], self.start[i + 1])
        return self.customer[part], np.log(self.weight[part]) + self.log_scale[i]

    def log_prior(self) -> FloatArray:
        """Return log p(c_i = j), (N, N), with normalised rows, -inf without a link; O(N^2).

        >>> from streamddcrp.models.ddcrp.distances import Distances
        >>> import numpy as np
        >>> np.exp(Distances.by_index(3).candidates("none", 0.5).log_prior())
        array([[1.    , 0.    , 0.    ],
               [0.6667, 0.3333, 0.    ],
               [0.4   , 0.4   , 0.2   ]])
        """
        out = np.full((self.n, self.n), -np.inf)
        for i, total in enumerate(self.log_total):
            customer, log_weight = self.row(i)
            out[i, customer] = log_weight - total
            out[i, i] = np.log(self.alpha) - total
        return out
