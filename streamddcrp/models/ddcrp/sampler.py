"""Draws from the posterior of a ddCRP mixture by Gibbs, with griddy moves of alpha and decay."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import Generator

from streamddcrp.arguments import checked
from streamddcrp.data import as_observations
from streamddcrp.data.batches import batch_times
from streamddcrp.decay import Decay, DecaySpec, make_decay
from streamddcrp.decay.families import Exponential, LinearWindow, Logistic, Window
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.estimator.sweeps import Plan, fitted
from streamddcrp.likelihoods import LikelihoodSpec
from streamddcrp.models.ddcrp.candidates import Candidates, checked_alpha
from streamddcrp.models.ddcrp.chain import Chain, DDCRPSamples
from streamddcrp.models.ddcrp.distances import Distances
from streamddcrp.models.ddcrp.kernels.sweep import link_term, partition_term
from streamddcrp.typing import ArrayLike, FloatArray
from streamddcrp.validation import finite

_MANY = 10_000_000  # links above which sweeps from singletons take too long
_AT_ONCE = 200_000  # updates between two looks at the progress bar
PARAMETER: dict[type[Decay], str] = {
    Window: "width", Exponential: "scale", Logistic: "location", LinearWindow: "width",
}  # fmt: skip


def decay_parameter(decay: Decay) -> float:
    """Return the width, scale or location of a decay, NaN without one."""
    name = PARAMETER.get(type(decay))
    return float("nan") if name is None else float(getattr(decay, name))


@dataclass(frozen=True, slots=True)
class HyperGrid:
    """Values among which alpha and the decay's parameter are drawn after each sweep.

    The prior is uniform over the values, so their spacing expresses your beliefs.

    Parameters
    ----------
    alpha : sequence of float, optional
        Values of the weight of a self-link. Default: it is fixed.
    decay : sequence of float, optional
        Values of the decay's parameter: the width of a window, the scale of an exponential, the
        location of a logistic decay. Default: it is fixed. For sequential links it is drawn given
        the tables, with the links summed out; otherwise given the links.

    Examples
    --------
    >>> HyperGrid(alpha=(0.3, 1.0), decay=(5.0, 10.0, 20.0))
    HyperGrid(alpha=(0.3, 1.0), decay=(5.0, 10.0, 20.0))
    """

    alpha: Sequence[float] | None = None
    decay: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if self.alpha is None and self.decay is None:
            raise ConfigError(
                "HyperGrid: needs values of alpha, of the decay's parameter, or of both"
            )
        checks: dict[str, Any] = {
            "alpha": checked_alpha,
            "decay": partial(finite, "HyperGrid: decay"),
        }
        for name, check in checks.items():
            values = getattr(self, name)
            if values is not None:
                object.__setattr__(self, name, tuple(check(value) for value in values))
                if len(values) == 0:
                    raise ConfigError(f"HyperGrid: {name} has no values")


def make_grid(spec: object, alpha: float, decay: Decay) -> HyperGrid:
    """Return the grid of an option "alpha", "decay" or "both", or the `HyperGrid` that it is.

    The names give nine values each, from a sixteenth to sixteen times ``alpha``, and from a quarter
    to four times the decay's parameter.
    """
    if isinstance(spec, HyperGrid):
        return spec
    if not isinstance(spec, str) or spec not in {"alpha", "decay", "both"}:
        raise ConfigError(f"hyper must be 'alpha', 'decay', 'both' or a HyperGrid, got {spec!r}")
    powers = 2.0 ** np.arange(-4, 5)
    middle = decay_parameter(decay)
    if spec != "alpha" and not middle > 0.0:
        raise ConfigError(
            f"hyper={spec!r}: {decay!r} has no positive parameter to spread a grid about; choose "
            f"hyper='alpha', another decay, or HyperGrid with values of your own"
        )
    return HyperGrid(
        alpha=None if spec == "decay" else (checked_alpha(alpha) * powers).tolist(),
        decay=None if spec == "alpha" else (middle * np.sqrt(powers)).tolist(),
    )


class Griddy:
    """The moves over a grid of A values of alpha and B decays, for one model.

    With n self-links and S_i = alpha + F_i(f), log p(alpha, f | ...) is, up to a constant,

        given links:   n log alpha + sum_i log f(d_{i c_i}) - sum_i log S_i
        given tables:  n log alpha + sum_i log sum_{j < i, z_j = z_i} f(d_ij) - sum_i log S_i

    with the first two sums over customers that are not self-linked. A move costs O(B N W), or O(N)
    if only alpha varies; memory: the candidates of all B decays.
    """

    def __init__(self, grid: HyperGrid, distances: Distances, decay: Decay, alpha: float) -> None:
        self._alphas = np.array([alpha] if grid.alpha is None else grid.alpha, dtype=np.float64)
        decays = [decay] if grid.decay is None else [_with(decay, value) for value in grid.decay]
        self._parameters = [decay_parameter(d) for d in decays]
        least = float(self._alphas.min())  # the same links at every alpha
        self._candidates = [distances.candidates(d, least) for d in decays]
        log_alpha = np.log(self._alphas)[:, None]
        totals = [np.logaddexp(log_alpha, c.log_mass).sum(axis=1) for c in self._candidates]
        self._log_total = np.column_stack(totals)
        self._partition = distances.sequential and len(decays) > 1
        a = int(np.abs(self._alphas - alpha).argmin())
        near = np.abs(np.array(self._parameters) - decay_parameter(decay))
        # the links at the grid values nearest to the given ones, and these values
        self.start = self._at(a, int(near.argmin()) if len(decays) > 1 else 0)

    def log_probs(self, chain: Chain) -> FloatArray:
        """Return log p(alpha, f | tables or links) on the grid, (A, B), up to a constant."""
        links, labels = chain.links, chain.labels
        if len(self._candidates) == 1:
            term = [0.0]
        elif self._partition:
            term = [partition_term(candidates, labels) for candidates in self._candidates]
        else:
            term = [link_term(candidates, links) for candidates in self._candidates]
        n_self = int((links == np.arange(len(links))).sum())
        return np.asarray(n_self * np.log(self._alphas)[:, None] + term - self._log_total)

    def move(self, chain: Chain, rng: Generator) -> tuple[float, float]:
        """Draw both and update the chain; return alpha and the decay's parameter."""
        log_p = self.log_probs(chain)
        p = np.exp(log_p - log_p.max()).ravel()
        place = np.searchsorted(np.cumsum(p), rng.random() * p.sum(), side="right")
        a, b = np.divmod(min(int(place), p.size - 1), log_p.shape[1])
        chain.candidates, alpha, parameter = self._at(int(a), int(b))
        if self._partition:
            chain.redraw_links(rng)
        return alpha, parameter

    def _at(self, a: int, b: int) -> tuple[Candidates, float, float]:
        alpha = float(self._alphas[a])
        return self._candidates[b].with_alpha(alpha), alpha, self._parameters[b]


def _with(decay: Decay, value: float) -> Decay:
    name = PARAMETER.get(type(decay))
    if name is None:
        raise ConfigError(
            f"HyperGrid: {decay!r} has no parameter that a grid could vary; choose a window, an "
            f"exponential, a logistic or a linear window, or leave decay out of the grid"
        )
    changed: Decay = replace(decay, **{name: value})  # type: ignore[type-var]
    return changed


@checked
def sample_ddcrp(
    X: ArrayLike,
    likelihood: LikelihoodSpec = "auto",
    *,
    alpha: float,
    decay: DecaySpec,
    distances: Distances | None = None,
    t: ArrayLike | None = None,
    sequential: bool = True,
    hyper: str | HyperGrid | None = None,
    n_chains: int = 4,
    n_sweeps: int = 1000,
    burn_in: int = 200,
    thin: int = 1,
    seed: int | None = 0,
    progress: bool = False,
) -> DDCRPSamples:
    """Sample the links of a ddCRP mixture from their posterior, by Gibbs.

    Parameters
    ----------
    X : array_like of float, shape (N, D)
        Observations; in arrival order if links are sequential. A masked array marks missing values.
    likelihood : Likelihood, tuple or str, default "auto"
        Conjugate family, e.g. ``NormalWishart(mean, kappa, scatter, dof)``. "auto" chooses one for
        each column, and logs its choice.
    alpha : float
        Weight of a self-link against the decay weights of links to others.
    decay : Decay, tuple, str or callable
        E.g. ``("exponential", 8.0)``, ``"none"`` (the CRP), ``Exponential(50) * Window(200)``.
    distances : Distances, optional
        Default: the difference of arrival indices, or of ``t``.
    t : array_like, shape (N,), optional
        Times, instead of ``distances``; not decreasing if links are sequential.
    sequential : bool, default True
        Whether customers link to earlier ones only. ``distances`` define this themselves.
    n_chains : int, default 4
        Chains, run one after the other with their own seeds.
    n_sweeps : int, default 1000
        Sweeps of each chain after the burn-in. A sweep draws every link once.
    burn_in : int, default 200
        Sweeps before the first draw. Each customer starts at its own table, because joining whole
        subtrees is easy, but splitting a mixed table is not. With more than ten million candidate
        links, chains start from a sequential seating instead.
    thin : int, default 1
        Sweeps for each stored draw.
    hyper : {"alpha", "decay", "both"} or HyperGrid, optional
        Draw alpha, the decay's parameter or both after each sweep, from a default grid around the
        given values or your own grid. Default: both are fixed.
    seed : int or None, default 0
    progress : bool, default False
        Show a progress bar.

    Raises
    ------
    SchemaError
        A value is not finite or outside the family's support, or the distances have another number
        of rows; the message names row and column.
    OrderError
        Sequential times decrease.

    Notes
    -----
    Customers of unconnected parts of a graph never share a table, so there are at least as many
    tables as connected parts. If links may lead to later customers, a sweep also moves N / 4 whole
    branches: the customers below one join another table by a link of any of them. On graphs with
    long rows, such as documents, chains still end in different places; a warning is given if the
    R-hat of the log joint density is above 1.1.

    A sweep costs O(N (W + P + K L)), see the package; stored links take 8 bytes a customer and
    draw. Equal seeds give equal bits.

    Examples
    --------
    >>> import numpy as np
    >>> from streamddcrp import sample_ddcrp
    >>> from streamddcrp.likelihoods import NormalGamma
    >>> X = [[0.3], [-0.2], [4.1], [0.1], [3.8], [4.4]]
    >>> family = NormalGamma(0.0, 0.1, 1.5, 1.0)
    >>> samples = sample_ddcrp(X, family, alpha=0.5, decay=("exponential", 5.0), seed=0)
    >>> together = samples.labels[:, :, None] == samples.labels[:, None, :]
    >>> np.round(together.mean(axis=0)[2], 1)  # who sits with the third customer
    array([0. , 0. , 1. , 0.1, 0.9, 0.9])
    """
    plan = Plan.checked(n_chains, n_sweeps, burn_in, thin)
    rows = as_observations(X)
    family = fitted(likelihood, rows)
    prior = family.hyper(rows.shape[1])
    rows, _ = family.prepare(rows)
    weights = make_decay(decay)
    where = _distances(distances, t, sequential, len(rows))
    griddy = None
    start = where.candidates(weights, alpha), float(alpha), decay_parameter(weights)
    if hyper is not None:
        griddy = Griddy(make_grid(hyper, alpha, weights), where, weights, alpha)
        start = griddy.start
    n, chain_of = len(rows), plan.chain
    found: dict[str, Any] = {
        "links": np.empty((len(chain_of), n), np.int32),
        "labels": np.empty((len(chain_of), n), np.int32),
        "n_tables": np.empty(len(chain_of), np.int64),
        "log_joint": np.empty(len(chain_of)),
    }
    drawn = np.tile(start[1:], (len(chain_of), 1))  # alpha and the decay's parameter
    for number, (rng, bar) in enumerate(plan.chains(seed, progress=progress)):
        chain = Chain(rows, family.family, prior, start[0])
        if start[0].n_links > _MANY:
            chain.forward(rng)
        kept = slice(number * plan.n_kept, (number + 1) * plan.n_kept)
        mine = [part[kept] for part in found.values()]
        if griddy is None:
            _sample(chain, rng, plan, mine, bar)
        else:
            _sample_with_hyper(chain, rng, griddy, plan, mine, drawn[kept], bar)
    return DDCRPSamples(
        chain_of, **found, alpha=drawn[:, 0].copy(), decay_parameter=drawn[:, 1].copy(),
        likelihood=family, decay=weights,
    )  # fmt: skip


def _distances(
    distances: Distances | None, t: ArrayLike | None, sequential: bool, n: int
) -> Distances:
    if distances is None:
        if t is None:
            return Distances.by_index(n, sequential=sequential)
        return Distances.by_time(batch_times(t, n), sequential=sequential)
    if t is not None:
        raise ConfigError("give t or distances, not both: Distances.by_time(t) are distances")
    if distances.n != n:
        raise SchemaError(
            f"distances: of {distances.n} customers, but X has {n} rows; both must agree"
        )
    return distances


def _sample(chain: Chain, rng: Generator, plan: Plan, out: list[Any], bar: Any) -> None:
    """Fill links, labels, numbers of tables and log joints, many sweeps in one call."""
    step = max(1, _AT_ONCE // out[0].shape[1])
    for first in range(0, plan.burn_in, step):
        some = min(step, plan.burn_in - first)
        chain.sweep(rng, some)
        bar.update(some)
    step = max(1, step // plan.thin)
    for first in range(0, plan.n_kept, step):
        rows = [part[first : first + step] for part in out]
        chain.draw(rng, plan.thin, *rows)
        bar.update(len(rows[0]) * plan.thin)


def _sample_with_hyper(
    chain: Chain, rng: Generator, griddy: Griddy, plan: Plan, out: list[Any], drawn: FloatArray,
    bar: Any,
) -> None:  # fmt: skip
    """As above, with moves of alpha and decay after each sweep."""
    for sweep in range(1 - plan.burn_in, plan.n_kept * plan.thin + 1):
        chain.sweep(rng)
        now = griddy.move(chain, rng)
        bar.update()
        if sweep > 0 and sweep % plan.thin == 0:
            row = sweep // plan.thin - 1
            chain.draw(rng, 0, *(part[row : row + 1] for part in out))
            drawn[row] = now
