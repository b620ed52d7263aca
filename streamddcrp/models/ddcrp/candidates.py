"""Links that are possible, with their prior weights, as arrays for the kernels."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from streamddcrp.errors import ConfigError
from streamddcrp.typing import FloatArray, IntArray


def checked_alpha(alpha: float) -> float:
    """Return the weight of a self-link as a float, or say why it must be positive."""
    try:
        number = float("nan") if isinstance(alpha, str | bool) else float(alpha)
    except (TypeError, ValueError):
        number = float("nan")
    if not 0.0 < number < np.inf:
        message = (
            f"alpha must be a finite number > 0, got {alpha!r}: it is the weight of a self-link, "
            f"the only link of a customer with nobody in reach, such as an isolated vertex of a "
            f"graph or the first customer of a sequence"
        )
        raise ConfigError(message)
    return number


@dataclass(frozen=True, slots=True)
class Candidates:
    """Whom each of N customers may link to besides itself, with weights f(d).

    The weights of a row share a factor, ``exp(-log_scale)``, by which the weight of the self-link
    is multiplied too. There are two layouts:

    * ``shared``: candidate q of customer i is customer i - 1 - q, q < min(i, W), with weight
      ``weight[q]``. One table of weights serves all; ``start`` and ``customer`` are empty and
      ``log_scale`` has one entry.
    * rows: the candidates of customer i are ``customer[start[i]:start[i + 1]]``, ascending, with
      the weights at the same places.

    Attributes
    ----------
    n : int
        Number of customers N.
    alpha : float
        Weight of a self-link.
    sequential : bool
        Whether every candidate of i comes before i.
    shared : bool
    start : ndarray of int64, shape (N + 1,) or (0,)
    customer : ndarray of int64, shape (number of links,) or (0,)
    weight : ndarray of float64, shape (number of links,) or (W,)
        All > 0.
    log_scale : ndarray of float64, shape (N,) or (1,)
    log_mass : ndarray of float64, shape (N,)
        log F_i, -inf without candidates.
    """

    n: int
    alpha: float
    sequential: bool
    shared: bool
    start: IntArray
    customer: IntArray
    weight: FloatArray
    log_scale: FloatArray
    log_mass: FloatArray

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
        """Number of links that all customers together may choose from, at most."""
        return self.n * len(self.weight) if self.shared else len(self.customer)

    @property
    def counted(self) -> bool:
        """Whether all earlier customers weigh the same, so that tables weigh as they are large."""
        w = self.weight
        return self.shared and len(w) == self.n - 1 > 0 and bool((w == w[0]).all())

    def with_alpha(self, alpha: float) -> Self:
        """Return the same links beside another weight of the self-link; arrays are shared."""
        return replace(self, alpha=checked_alpha(alpha))

    def row(self, i: int) -> tuple[IntArray, FloatArray]:
        """Return the candidates of customer i and the logs of their weights, not scaled."""
        if self.shared:
            width = min(i, len(self.weight))
            return i - 1 - np.arange(width), np.log(self.weight[:width]) + self.log_scale[0]
        part = slice(self.start[i], self.start[i + 1])
        return self.customer[part], np.log(self.weight[part]) + self.log_scale[i]

    def log_prior(self) -> FloatArray:
        """Return log p(c_i = j), rows normalised, -inf where there is no link; O(N^2).

        Returns
        -------
        ndarray of float64, shape (N, N)

        Examples
        --------
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
