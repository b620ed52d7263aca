"""Batch variational inference for the sequential ddCRP mixture.

Exact coordinate ascent on the bound of Bartunov and Vetrov (2014) with the corrections of
`docs/bound.md`: sweeps alternate between both directions, over live tables and prior links only. No
matrix is inverted and nothing of shape (N, N) is stored under a windowed prior. After convergence,
tables whose union raises the bound are merged.
"""

import logging
import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import scipy
from tqdm import tqdm

from streamddcrp.arguments import checked, generator
from streamddcrp.cards import ResultCard
from streamddcrp.data import as_observations, as_times, check_times
from streamddcrp.data.batches import is_sparse
from streamddcrp.decay import Decay, DecaySpec, make_decay
from streamddcrp.errors import ConfigError
from streamddcrp.estimator.sweeps import fitted
from streamddcrp.likelihoods import LikelihoodSpec
from streamddcrp.likelihoods.kernels.families import n_post, n_stats
from streamddcrp.models.seqddcrp.kernels import batch as kernels
from streamddcrp.typing import ArrayLike, FloatArray, IntArray
from streamddcrp.validation import positive, whole

_TAIL = 1e-12  # prior weight, relative to alpha, below which a link is dropped


@dataclass(frozen=True, slots=True)
class LinkPrior:
    """Banded prior of the links of N customers.

    ``log_weight``: log f of customer i - W + d at column d, one row where distances are arrival
    indices; ``log_total`` (N,): log S_i = log(alpha + sum_j f_ij).
    """

    log_weight: FloatArray
    log_total: FloatArray
    log_alpha: float


def link_prior(decay: Decay, alpha: float, n: int, t: FloatArray | None = None) -> LinkPrior:
    """Compute the link prior of ``n`` customers at times (n,) or indices.

    ``alpha``: weight of opening a table; links below 1e-12 of it are dropped.
    """
    alpha = positive("alpha", alpha)
    share = _TAIL * alpha / float(decay.weight(0.0))
    horizon = decay.horizon(min(max(share, 1e-300), 0.5))
    if t is None:
        width = max(1, math.ceil(min(n - 1, horizon)))
        log_weight = np.ascontiguousarray(decay.log_weight(np.arange(width, 0, -1.0))[None, :])
        mass = np.concatenate([[0.0], np.cumsum(np.exp(log_weight[0, ::-1]))])
        log_total = np.log(alpha + mass[np.minimum(np.arange(n), width)])
        return LinkPrior(log_weight, log_total, math.log(alpha))
    reach = np.arange(n) - np.searchsorted(t, t - horizon, side="left")
    width = int(max(reach.max(initial=1), 1))
    log_weight = np.full((n, width), -np.inf)
    for gap in range(1, width + 1):  # one column per gap: memory stays (n, W)
        log_weight[gap:, width - gap] = decay.log_weight(t[gap:] - t[:-gap])
    log_total = np.log(alpha + np.exp(log_weight).sum(axis=1))
    return LinkPrior(log_weight, log_total, math.log(alpha))


_log = logging.getLogger(__name__)
_BIRTH_FLOOR = 1e-8  # a self-link below this share of the row's best option is set to zero
_SLOW = 1e-6  # relative gain of a sweep below which merges are tried
_CHAIN = 32  # most tables for which chains of merges are tried, too


@dataclass(frozen=True, slots=True)
class SeqDDCRPFit(ResultCard):
    """A converged variational posterior.

    Attributes
    ----------
    bound_trace : ndarray of float64, shape (n_sweeps,)
        Bound on log p(X) after each sweep; never decreases.
    links : scipy.sparse.csr_array, shape (N, N)
        Row i is q(c_i); the diagonal holds the self-links.
    table_probs : scipy.sparse.csr_array, shape (N, K)
        Probability that customer i sits at live table k.
    openers : ndarray of int64, shape (K,)
        Customer that opened each live table; ascending.
    stats : ndarray of float64, shape (K, P)
        Expected sufficient statistics of the tables.
    labels : ndarray of int64, shape (N,)
        Most probable table of each customer, an index into ``openers``.
    converged : bool
    """

    bound_trace: FloatArray
    links: "scipy.sparse.csr_array"
    table_probs: "scipy.sparse.csr_array"
    openers: IntArray
    stats: FloatArray
    labels: IntArray
    converged: bool

    @property
    def bound(self) -> float:
        """The final bound on log p(X)."""
        return float(self.bound_trace[-1])

    @property
    def n_sweeps(self) -> int:
        """Number of sweeps made."""
        return len(self.bound_trace)

    @property
    def expected_n_tables(self) -> float:
        """Expected number of tables, the sum of the self-link probabilities."""
        return float(self.links.diagonal().sum())


class _Batch:
    """Arrays of one fit, and the sweeps over them."""

    def __init__(
        self, X: FloatArray, family: int, hyper: FloatArray, prior: LinkPrior, init: object
    ) -> None:
        n, width = len(X), prior.log_weight.shape[1]
        size = int(n_stats(family, hyper))
        self.family, self.hyper, self.X, self.prior = family, hyper, X, prior
        self.links = np.zeros((n, width))
        self.birth = np.ones(n)
        if not (isinstance(init, str) and init == "singletons"):
            self._start_from(init)
        self.cone = np.zeros((n, size))
        self.natural = np.zeros((n, size))
        self.stats = np.zeros((n, size))
        self.post = np.empty(int(n_post(family, hyper)))
        self.slot = np.zeros(n, np.int64)
        self.offset = np.zeros(n, np.int64)
        self.length = np.zeros(n, np.int64)
        self.score = np.empty(width)
        self.z = np.empty(16 * n)
        self.n_tables = 0

    def _start_from(self, init: object) -> None:
        n, width = self.links.shape
        if not is_sparse(init) or cast(Any, init).shape != (n, n):
            raise ConfigError(
                f"init must be 'singletons' or a sparse ({n}, {n}) matrix of link probabilities, "
                f"as in SeqDDCRPFit.links; got {type(init).__name__}"
            )
        coo = cast(Any, init).tocoo()
        gap = coo.row - coo.col
        if gap.size and (gap.min() < 0 or gap.max() > width):
            raise ConfigError(
                f"init links customers {gap.max()} apart; the prior reaches {width} back"
            )
        total = np.bincount(coo.row, coo.data, n)
        if not (coo.data >= 0.0).all() or not np.allclose(total, 1.0, rtol=0.0, atol=1e-6):
            raise ConfigError("init must have rows of probabilities that sum to 1")
        self.birth[:] = 0.0
        own = gap == 0
        self.birth[coo.row[own]] = coo.data[own]
        self.links[coo.row[~own], (width - gap)[~own]] = coo.data[~own]
        if ((self.links > 0.0) & (self.prior.log_weight == -np.inf)).any():
            raise ConfigError("init has links that are impossible under this decay and these times")

    def draw_links(self, rng: np.random.Generator) -> None:
        """Start from links drawn from the prior."""
        n, width = self.links.shape
        log_p = np.full((n, width + 1), self.prior.log_alpha)
        log_p[:, :width] = self.prior.log_weight
        log_p[np.arange(n)[:, None] + np.arange(width + 1) < width] = -np.inf  # before the first
        chosen = (log_p + rng.gumbel(size=log_p.shape)).argmax(axis=1)
        self.links[:] = 0.0
        self.birth[:] = chosen == width
        linked = np.flatnonzero(self.birth == 0.0)
        self.links[linked, chosen[linked]] = 1.0

    def _forward(self, *, update: bool) -> float:
        prior = self.prior
        self.z, self.n_tables, link_term = kernels.ascend(
            update, self.family, self.hyper, self.X, self.links, self.birth, prior.log_weight,
            prior.log_total, prior.log_alpha, _BIRTH_FLOOR, self.cone, self.natural, self.slot,
            self.z, self.offset, self.length, self.score, self.stats,
        )  # fmt: skip
        tables = kernels.refresh_tables(
            self.family, self.hyper, self.stats, self.n_tables, self.post, self.natural
        )
        return float(link_term + tables)

    def restore(self) -> float:
        """Recompute Z, statistics and posteriors from the links; return the bound."""
        return self._forward(update=False)

    def sweep(self, *, ascending: bool) -> float:
        """One exact coordinate-ascent sweep over all rows and tables; return the bound."""
        if ascending:
            kernels.cone_statistics(self.family, self.hyper, self.X, self.links, self.cone)
            return self._forward(update=True)
        prior = self.prior
        kernels.descend(
            self.family, self.hyper, self.X, self.links, self.birth, prior.log_weight,
            prior.log_total, prior.log_alpha, _BIRTH_FLOOR, self.cone, self.natural, self.slot,
            self.z, self.offset, self.length, self.score,
        )  # fmt: skip
        return self._forward(update=False)

    def merge(self, bound: float) -> float:
        """Merge tables if that raises the bound; return the new bound (or the old one).

        First all screened merges are tried at once, then one by one and, with few tables, a whole
        chain of merges: three overlapping tables may fit worse than four and worse than one.
        """
        gain, target = self._gains()
        wanted = np.flatnonzero(gain > 0)
        wanted = wanted[np.argsort(-gain[wanted], kind="stable")]
        chosen: list[int] = []
        taken: set[int] = set()
        for k in wanted:  # each table takes part in at most one merge
            if k not in taken and target[k] not in taken:
                chosen.append(int(k))
                taken |= {int(k), int(target[k])}
        proposals = [chosen] if len(chosen) > 1 else []
        for proposal in proposals + [[k] for k in chosen]:
            links, birth = self.links.copy(), self.birth.copy()
            better = self._relink(proposal, target)
            if better > bound:
                return better
            self._put_back(links, birth)
        return self._merge_chain(bound) if self.n_tables <= _CHAIN else bound

    def _merge_chain(self, bound: float) -> float:
        """Merge the best pair again and again, down to one table; keep the best stage."""
        links, birth = self.links.copy(), self.birth.copy()
        while self.n_tables > 1:
            gain, target = self._gains()
            best = int(gain.argmax())
            if target[best] < 0:
                break
            better = self._relink([best], target)
            if better > bound:
                return better
        self._put_back(links, birth)
        return bound

    def _relink(self, openers: list[int], target: IntArray) -> float:
        """Let openers link into their target tables, and sweep both ways; return the bound."""
        for k in openers:
            kernels.relink(
                k, int(target[k]), self.links, self.birth, self.prior.log_weight, self.z,
                self.offset, self.length,
            )  # fmt: skip
        self.restore()
        self.sweep(ascending=False)
        return self.sweep(ascending=True)

    def _put_back(self, links: FloatArray, birth: FloatArray) -> None:
        self.links, self.birth = links, birth
        self.restore()

    def _gains(self) -> tuple[FloatArray, IntArray]:
        gain = np.empty(len(self.X))
        target = np.empty(len(self.X), np.int64)
        prior = self.prior
        kernels.merge_gains(
            self.family, self.hyper, self.links, self.birth, prior.log_weight, prior.log_total,
            prior.log_alpha, self.slot, self.z, self.offset, self.length, self.stats, self.n_tables,
            self.post, gain, target,
        )  # fmt: skip
        return gain, target

    def result(self, trace: list[float], converged: bool) -> SeqDDCRPFit:
        n, width = self.links.shape
        row, column = np.nonzero(self.links)
        own = np.flatnonzero(self.birth)
        links = scipy.sparse.csr_array(
            (
                np.concatenate([self.links[row, column], self.birth[own]]),
                (np.concatenate([row, own]), np.concatenate([row - width + column, own])),
            ),
            shape=(n, n),
        )
        rows = np.concatenate([np.arange(k, k + self.length[k]) for k in own])
        probs = np.concatenate(
            [self.z[self.offset[k] : self.offset[k] + self.length[k]] for k in own]
        )
        table_probs = scipy.sparse.csr_array(
            (probs, (rows, np.repeat(np.arange(len(own)), self.length[own]))), shape=(n, len(own))
        )
        table_probs.eliminate_zeros()
        return SeqDDCRPFit(
            bound_trace=np.array(trace),
            links=links,
            table_probs=table_probs,
            openers=own,
            stats=self.stats[: self.n_tables].copy(),
            labels=np.asarray(table_probs.argmax(axis=1)).ravel().astype(np.int64),
            converged=converged,
        )


@checked
def fit_seqddcrp(
    X: ArrayLike,
    likelihood: LikelihoodSpec = "auto",
    *,
    alpha: float,
    decay: DecaySpec,
    t: ArrayLike | None = None,
    init: object = "singletons",
    merge: bool = True,
    n_starts: int = 1,
    max_sweeps: int = 200,
    tol: float = 1e-9,
    seed: int | None = 0,
    progress: bool = False,
) -> SeqDDCRPFit:
    """Fit the sequential ddCRP mixture to a whole data set by exact coordinate ascent.

    Parameters
    ----------
    X : array_like of float, shape (N, D)
        Observations in arrival order. A masked array marks missing values.
    likelihood : Likelihood, tuple or str, default "auto"
        Conjugate family, e.g. ``NormalWishart(mean, kappa, scatter, dof)``. "auto" chooses one for
        each column, and logs its choice.
    alpha : float
        Weight of opening a table against the decay weights of linking to an earlier customer.
    decay : Decay, tuple, str or callable
        E.g. ``("exponential", 8.0)``, ``"none"`` (the CRP), ``Exponential(50) * Window(200)``.
    t : array_like of float, shape (N,), optional
        Arrival times, not decreasing. Default: the arrival index.
    init : {"singletons"} or scipy.sparse array of shape (N, N), default "singletons"
        Every customer at its own table, or the ``links`` of an earlier fit.
    merge : bool, default True
        After convergence, merge tables if that raises the bound, and sweep again.
    n_starts : int, default 1
        Starts: from ``init``, then from links drawn from the prior; the fit with the largest bound
        is returned.
    max_sweeps : int, default 200
        For each start.
    tol : float, default 1e-9
        Stop after two successive sweeps that raise the bound by less than ``tol * |bound|``.
    seed : int or None, default 0
        For the other starts.
    progress : bool, default False
        Show a progress bar with the bound and the number of live tables.

    Raises
    ------
    ConfigError
        An option is out of range.
    SchemaError
        A value is not finite or outside the family's support; the message names row and column.
    OrderError
        ``t`` decreases.

    Notes
    -----
    A sweep costs O(N W (P + K)) in time and O(N W) in memory: W prior links a customer, K tables
    within a customer's reach, P the length of the statistics. Bartunov and Vetrov (2014), eq. 5
    and 6, with the self-link of Algorithm 1 corrected.

    Examples
    --------
    >>> from streamddcrp import fit_seqddcrp
    >>> from streamddcrp.likelihoods import NormalGamma
    >>> X = [[0.3], [-0.2], [4.1], [0.1], [3.8], [4.4]]
    >>> fit = fit_seqddcrp(X, NormalGamma(0.0, 0.1, 1.5, 1.0), alpha=0.5, decay="none")
    >>> fit.openers[fit.labels].tolist()
    [0, 0, 2, 0, 2, 2]
    >>> fit.bound
    -14.52
    """
    n_starts, max_sweeps = whole("n_starts", n_starts, 1), whole("max_sweeps", max_sweeps, 1)
    if not tol >= 0:
        raise ConfigError(f"tol must be >= 0, got {tol!r}")
    rows = as_observations(X)
    family = fitted(likelihood, rows)
    hyper = family.hyper(rows.shape[1])
    rows, _ = family.prepare(rows)
    times = None if t is None else as_times(t, len(rows))
    if times is not None:
        check_times(times, given=t)
    prior = link_prior(make_decay(decay), alpha, len(rows), times)
    rng, fits = generator(seed), []
    with tqdm(total=n_starts * max_sweeps, unit=" sweeps", disable=not progress) as bar:
        for start in range(n_starts):
            batch = _Batch(rows, family.family, hyper, prior, init)
            if start:
                batch.draw_links(rng)
            fits.append(batch.result(*_ascend(batch, max_sweeps, tol, merge, bar)))
    return max(fits, key=lambda fit: fit.bound)


def _ascend(
    batch: _Batch, max_sweeps: int, tol: float, merge: bool, bar: Any
) -> tuple[list[float], bool]:
    """Sweep and merge until the bound converges; return the bounds, and whether it did."""
    bound = batch.restore()
    trace: list[float] = []
    settled = 0
    may_merge = merge
    while len(trace) < max_sweeps and settled < 2:
        before = bound
        bound = batch.sweep(ascending=len(trace) % 2 == 0)
        rise, size = bound - before, abs(bound)
        settled = settled + 1 if rise <= tol * size else 0
        if merge and (settled == 2 or (may_merge and rise <= _SLOW * size)):
            before = bound
            bound = batch.merge(bound)
            may_merge = bound > before
            settled = 0 if may_merge else settled
        trace.append(bound)
        bar.update()
        bar.set_postfix(bound=f"{bound:.3f}", tables=batch.n_tables)
    _log.info("%d sweeps, bound %.6f, %d live tables", len(trace), bound, batch.n_tables)
    return trace, settled == 2
