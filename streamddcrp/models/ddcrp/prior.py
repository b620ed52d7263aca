"""Prior expectations of a ddCRP: the number and sizes of tables.

With A the matrix of link probabilities of the sequential process (rows sum to one, A_ii opens a
table):

* the number of tables is a sum of independent events of probability A_ii;
* r_i = 1 + sum_{j<i} A_ij r_j customers lie on the path of i to its root, and the mean of r_i is
  the mean number of customers below a link: what a sampler's sweep costs;
* M_ij = sum_t A_it M_tj is the chance that i and j < i share a table.

No matrix is inverted. The general process, whose links make cycles, has no such formulas ((I -
A)^-1 is wrong for it): its links are simulated, with Monte Carlo errors.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy

from streamddcrp.arguments import checked, generator
from streamddcrp.decay import Decay, DecaySpec, make_decay
from streamddcrp.errors import ConfigError
from streamddcrp.models.ddcrp.candidates import Candidates
from streamddcrp.models.ddcrp.distances import Distances
from streamddcrp.models.ddcrp.kernels import moments as kernels
from streamddcrp.partitions import labels_of_links
from streamddcrp.typing import ArrayLike, FloatArray
from streamddcrp.validation import whole

_DENSE = 3000  # most customers for exact sums of chances to share a table,
_STEPS = 2e9  # and most steps of these sums
_AT_ONCE = 1_000_000  # links drawn at a time
_HEAVY = 1e15  # bounds of alpha, in units of the weight of a link


@dataclass(frozen=True, slots=True)
class PriorSummary:
    """Prior moments of the tables of N customers.

    >>> print(prior_summary(1.0, ("exponential", 5.0), 1000))
    1000 customers, alpha = 1, Exponential(scale=5.0)
    tables            183.3, between 163 and 204 with 90 %
    customers a table 5.5; in the table of a customer picked at random 22.1
    new tables        one in 5.5 arrivals
    """

    n: int  # number of customers
    alpha: float
    decay: Decay
    expected_n_tables: float
    sd_n_tables: float
    n_tables_probs: FloatArray = field(repr=False)  # (N + 1,) chance of k tables
    # Chance that the last customer opens a table; for a general process, tables per customer.
    new_table_rate: float
    # Customers per table, N over the expected number of tables. Far from the start of a long stream
    # it is 1 + F / alpha, with F the sum of all link weights.
    mean_table_size: float
    # Expected size of a random customer's table: large tables count more.
    mean_own_table_size: float
    # Expected number of customers whose path of links leads through a customer, itself included.
    mean_subtree_size: float
    # Monte Carlo standard errors of simulated numbers, by attribute.
    errors: Mapping[str, float]

    def __str__(self) -> str:
        below = np.cumsum(self.n_tables_probs)
        low, high = (int(k) for k in np.searchsorted(below, [0.05, 0.95]))
        lines = [
            f"{self.n} customers, alpha = {self.alpha:g}, {self.decay!r}",
            f"tables            {self.expected_n_tables:.1f}, between {low} and {high} with 90 %",
            f"customers a table {self.mean_table_size:.1f}; in the table of a customer picked at "
            f"random {self.mean_own_table_size:.1f}",
            f"new tables        one in {1.0 / self.new_table_rate:.1f} arrivals",
        ]
        if self.errors:
            worst = max(error / abs(getattr(self, name)) for name, error in self.errors.items())
            lines.append(f"simulated, with standard errors up to {100.0 * worst:.1g} %")
        return "\n".join(lines)


@checked
def prior_summary(
    alpha: float,
    decay: DecaySpec,
    distances: int | ArrayLike | Distances,
    *,
    n_draws: int = 200,
    seed: int | None = 0,
) -> PriorSummary:
    """Return the prior's expected number and sizes of tables.

    Parameters
    ----------
    alpha : float
        Weight of a self-link, > 0.
    decay : Decay, tuple, str or callable
        E.g. ``("exponential", 8.0)``, ``("window", 5)``, ``"none"``.
    distances : int, array_like of shape (N,), or Distances
        The number of customers, with index differences as distances; or their times, not
        decreasing; or any distances, sequential or not.
    n_draws : int, default 200
        Draws of all links, if moments are simulated: for the general process, and for
        ``mean_own_table_size`` of long sequences (more than 3000 customers) under a decay.
    seed : int, optional
        For these draws.

    Notes
    -----
    O(N W), W candidates a customer, and O(N^2 W) for ``mean_own_table_size`` unless simulated.

    Examples
    --------
    >>> summary = prior_summary(0.7, ("exponential", 2.0), 5)
    >>> summary.expected_n_tables, summary.mean_subtree_size
    (2.6671, 1.6608)
    """
    n_draws = whole("n_draws", n_draws, 2)
    decay = make_decay(decay)
    links = _as_distances(distances).candidates(decay, alpha)
    rng = generator(seed)
    moments = (_sequential if links.sequential else _general)(links, n_draws, rng)
    return PriorSummary(n=links.n, alpha=float(alpha), decay=decay, **moments)


@checked
def alpha_for(
    decay: DecaySpec,
    distances: int | ArrayLike | Distances | None = None,
    *,
    n_tables: float | None = None,
    table_size: float | None = None,
) -> float:
    """Return the alpha for which a sequential prior expects a number or size of tables.

    Parameters
    ----------
    decay : Decay, tuple, str or callable
    distances : int, array_like of shape (N,), or sequential Distances, optional
        As for `prior_summary`. Default: an endless stream, with distances in arrivals.
    n_tables : float
        Expected number of tables: solves sum_i alpha / (alpha + F_i) = n_tables.
    table_size : float
        Customers a table: N / n_tables, or 1 + F / alpha of an endless stream.

    Raises
    ------
    ConfigError
        No alpha fits, or not exactly one of ``n_tables`` and ``table_size`` was given.

    Examples
    --------
    >>> alpha_for(("window", 11), table_size=6.0)
    2.0
    >>> alpha_for(("exponential", 2.0), 5, n_tables=2.6670661802)
    0.7
    """
    if (n_tables is None) == (table_size is None):
        raise ConfigError(f"give n_tables or table_size; got {n_tables!r} and {table_size!r}")
    if table_size is not None and not 1.0 < table_size < np.inf:
        raise ConfigError(f"table_size must be more than 1, got {table_size!r}")
    decay = make_decay(decay)
    if distances is None:
        return _endless(decay, table_size)
    where = _as_distances(distances)
    wanted = float(where.n / table_size if n_tables is None else n_tables)  # type: ignore[operator]
    alpha = float(decay.weight(0.0))
    for _ in range(2):  # the second time with the links kept at this alpha
        links = where.candidates(decay, alpha)
        if not links.sequential:
            raise ConfigError(
                "alpha_for needs links to earlier customers only: the general process has no "
                "formula for its number of tables; compare prior_summary for several alphas"
            )
        alpha = _solve(links.log_mass, wanted)
    return alpha


def _endless(decay: Decay, table_size: float | None) -> float:
    """Return F / (table_size - 1)."""
    horizon = decay.horizon(1e-17)
    if table_size is None or not horizon < 1e8:
        raise ConfigError(
            "without a number of customers, alpha follows from table_size and from a decay that "
            f"ends: give the number of customers too; got table_size={table_size!r}, {decay!r}"
        )
    return float(decay.weight(np.arange(1.0, np.ceil(horizon) + 1.0)).sum() / (table_size - 1.0))


def _solve(log_mass: FloatArray, wanted: float) -> float:
    alone = int((log_mass == -np.inf).sum())
    if not alone < wanted < len(log_mass):
        raise ConfigError(
            f"the expected number of tables of {len(log_mass)} customers, {alone} of them with "
            f"no one to link to, lies between {alone} and {len(log_mass)}; wanted: {wanted}"
        )

    def excess(log_alpha: float) -> float:
        return float((1.0 / (1.0 + np.exp(log_mass - log_alpha))).sum() - wanted)

    linked = log_mass[log_mass > -np.inf]
    reach = np.log(_HEAVY)
    low, high = float(linked.min() - reach), float(linked.max() + reach)
    return float(np.exp(scipy.optimize.brentq(excess, low, high, xtol=1e-14, rtol=1e-14)))


def _as_distances(distances: int | ArrayLike | Distances) -> Distances:
    if isinstance(distances, Distances):
        return distances
    if not hasattr(distances, "__len__"):
        return Distances.by_index(distances)  # type: ignore[arg-type]  # checked there
    return Distances.by_time(distances)


def _total(links: Candidates) -> FloatArray:
    """Return the total weight of each customer's links and self-link, in the row's scale."""
    return np.ascontiguousarray(np.exp(links.log_total - links.log_scale))


def _sequential(links: Candidates, n_draws: int, rng: np.random.Generator) -> dict[str, Any]:
    n, total, weight = links.n, _total(links), links.weight
    own = np.exp(np.log(links.alpha) - links.log_total)
    probs, length = np.empty(n + 1), np.empty(n)
    kernels.number_of_tables(own, probs)
    kernels.path_lengths(links, links.counted, total, length)
    expected = float(own.sum())
    errors: dict[str, float] = {}
    width = len(weight) if links.shared else len(weight) / n
    if links.counted:  # total[0]: the weight of a self-link alone
        mean_own = float(1.0 + (n - 1) * weight[0] / (weight[0] + total[0]))
    elif n <= _DENSE and 0.5 * n**2 * width <= _STEPS:
        shared = np.empty((n, n))
        kernels.share_table(links, total, shared)
        mean_own = float(shared.sum()) / n
    else:
        draws = _simulate(links, n_draws, rng)
        mean_own, errors["mean_own_table_size"] = _mean(draws[:, 1])
    return {
        "expected_n_tables": expected,
        "sd_n_tables": float(np.sqrt((own * (1.0 - own)).sum())),
        "n_tables_probs": probs,
        "new_table_rate": float(own[-1]),
        "mean_table_size": n / expected,
        "mean_own_table_size": mean_own,
        "mean_subtree_size": float(length.mean()),
        "errors": errors,
    }


def _general(links: Candidates, n_draws: int, rng: np.random.Generator) -> dict[str, Any]:
    draws, n = _simulate(links, n_draws, rng), links.n
    (expected, error), (mean_own, own_error), (below, below_error) = map(_mean, draws.T)
    return {
        "expected_n_tables": expected,
        "sd_n_tables": float(draws[:, 0].std(ddof=1)),
        "n_tables_probs": np.bincount(draws[:, 0].astype(np.int64), minlength=n + 1) / n_draws,
        "new_table_rate": expected / n,
        "mean_table_size": n / expected,
        "mean_own_table_size": mean_own,
        "mean_subtree_size": below,
        "errors": {
            "expected_n_tables": error,
            "new_table_rate": error / n,
            "mean_table_size": n * error / expected**2,
            "mean_own_table_size": own_error,
            "mean_subtree_size": below_error,
        },
    }


def _mean(draws: FloatArray) -> tuple[float, float]:
    """Return the mean of independent draws and its standard error."""
    return float(draws.mean()), float(draws.std(ddof=1) / np.sqrt(len(draws)))


def _simulate(links: Candidates, n_draws: int, rng: np.random.Generator) -> FloatArray:
    """Return numbers of tables and mean sizes of own tables and of subtrees, by draw."""
    out, total = np.empty((n_draws, 3)), _total(links)
    step = max(1, _AT_ONCE // links.n)
    for first in range(0, n_draws, step):
        part = out[first : first + step]
        drawn = np.empty((len(part), links.n), np.int64)
        kernels.draw_links(links, total, rng, drawn)
        kernels.measure(drawn, labels_of_links(drawn), part)
    return out
