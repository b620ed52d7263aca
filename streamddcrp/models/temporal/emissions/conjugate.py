"""Emission of any conjugate family: a component's knowledge fades between epochs."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from streamddcrp.cached import Cached
from streamddcrp.data.documents import Word
from streamddcrp.errors import ConfigError
from streamddcrp.likelihoods import Autoregression
from streamddcrp.likelihoods.kernels import families
from streamddcrp.models.temporal.emissions import (
    Emission,
    Parts,
    Past,
    Seating,
    Summary,
    halved,
    since,
)
from streamddcrp.models.temporal.kernels import numbers
from streamddcrp.models.temporal.kernels.splits import split_conjugate, two_means
from streamddcrp.typing import FloatArray, IntArray

RHOS = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
_FIRST_RHO = 0.7
_FORGET = 0.98  # per epoch, for the evidence on rho
_SLACK = 10.0  # nats allowed for component names and the past
_AXES = 8  # of either kind, for splitting a component


class ConjugateStats(NamedTuple):
    """Expected sufficient statistics: (E, K, P) of epochs, or (K, P) of earlier ones."""

    sums: FloatArray


def refuse_order(likelihood: Any) -> None:
    """Refuse an autoregressive family: the rows of an epoch have no order."""
    parts = [part for part, _ in getattr(likelihood, "parts", [])]
    if any(isinstance(part, Autoregression) for part in [likelihood, *parts]):
        message = "Autoregression needs the rows before, but the rows of an epoch have no order; "
        raise ConfigError(message + "choose another likelihood")


@lru_cache(maxsize=64)
def _prior(likelihood: Any, n_features: int) -> tuple[int, FloatArray, FloatArray]:
    """Return the family's code, its prior for kernels, and the posterior of no rows."""
    family, hyper = likelihood.family, likelihood.hyper(n_features)
    post = np.empty((1, int(families.n_post(family, hyper))))
    none = np.zeros((1, likelihood.n_stats(n_features)))
    families.posteriors(family, hyper, none, 1, post)
    return family, hyper, post[0]


class ConjugateSmoothed:
    """Statistics of the components over a window, with derived values on demand."""

    def __init__(self, emission: "ConjugateDecay", sums: FloatArray, starts: FloatArray) -> None:
        self._emission = emission
        self.sums, self.starts = sums, starts

    @Cached
    def log_z(self) -> FloatArray:
        """Log evidence (E, K) of each epoch's rows given earlier ones."""
        family, hyper, prior = self._emission.prior
        out, work, rho = np.empty(self.sums.shape[:2]), np.empty_like(prior), self._emission.rho
        numbers.conjugate_evidence(family, hyper, self.sums, self.starts, rho, work, out)
        return out

    @Cached
    def filtered(self) -> FloatArray:
        """Knowledge at each epoch from it and earlier ones, (E, K, P)."""
        out, known = np.empty_like(self.sums), self.starts
        for e, more in enumerate(self.sums):
            known = self._emission.rho * known + more
            out[e] = known
        return out

    @Cached
    def near(self) -> FloatArray:
        """Knowledge at each epoch from the whole window, by distance, (E, K, P)."""
        out, later = self.filtered.copy(), np.zeros_like(self.starts)
        for e in range(len(out) - 2, -1, -1):
            later = self._emission.rho * (later + self.sums[e + 1])
            out[e] += later
        return out


@dataclass(frozen=True, slots=True)
class ConjugateDecay(Emission):
    """Rows of a conjugate family; statistics fade: S_t = rho S_{t-1} + C_t.

    A component's natural parameters move towards those of the prior, ``rho eta + (1 - rho) eta_0``:
    it remembers about 1 / (1 - rho) epochs. With `NormalWishart` or `NormalGamma` every component
    has its own covariance, unlike with `GaussianDrift`. Within a window an epoch is scored against
    ``sum_s rho^|t-s| C_s``. The family handles missing values.

    Examples
    --------
    >>> from streamddcrp.models.temporal.engine import Engine
    >>> from streamddcrp.models.temporal.window import Settings
    >>> from streamddcrp.likelihoods import GammaPoisson
    >>> law = ConjugateDecay(GammaPoisson(1.0, 0.1), n_features=1)
    >>> engine = Engine(Settings(alpha=1.0, past_weights=(0.5,)), law)
    >>> scores = engine.learn(np.array([[3.0], [41.0], [2.0], [38.0], [4.0], [1.0]]))
    >>> engine.ids[engine.resp[-1].argmax(axis=1)]
    array([0, 1, 0, 1, 0, 0])
    """

    likelihood: Any  # with all parameters; not autoregressive
    n_features: int
    forget: float | None = None  # rho; None: learned from the epochs that leave the window
    # Log evidence of past epochs for each candidate rho; fades.
    gains: FloatArray = field(default_factory=lambda: np.zeros(len(RHOS)))

    least = 1e-4  # tiny shares would cost a posterior each
    seat = staticmethod(numbers.seat_conjugate)

    def __post_init__(self) -> None:
        refuse_order(self.likelihood)
        if self.forget is not None and not 0.0 < self.forget <= 1.0:
            raise ConfigError(f"forget must be above 0 and at most 1, or None, got {self.forget!r}")

    @property
    def rho(self) -> float:
        """The share of knowledge kept per epoch."""
        if self.forget is not None:
            return self.forget
        return float(RHOS[self.gains.argmax()]) if self.gains.any() else _FIRST_RHO

    @property
    def prior(self) -> tuple[int, FloatArray, FloatArray]:
        """The family's code, its prior for kernels, and the posterior of no rows."""
        return _prior(self.likelihood, self.n_features)

    def prepared(self, X: FloatArray) -> FloatArray:
        return np.ascontiguousarray(self.likelihood.prepare(X)[0])

    def stats(self, X: FloatArray, q: FloatArray) -> ConjugateStats:
        family, hyper, _ = self.prior
        out = np.empty((q.shape[1], self.likelihood.n_stats(self.n_features)))
        numbers.conjugate_stats(family, hyper, self.prepared(X), q, out)
        return ConjugateStats(out)

    def joined(self, parts: Parts) -> FloatArray:
        return np.concatenate([np.zeros((0, self.n_features)), *parts])

    def no_starts(self, K: int) -> ConjugateStats:
        return ConjugateStats(np.zeros((K, self.likelihood.n_stats(self.n_features))))

    def smooth(
        self, stats: ConjugateStats, starts: ConjugateStats, begins: IntArray
    ) -> ConjugateSmoothed:
        return ConjugateSmoothed(self, stats.sums, starts.sums)

    def expected(
        self, X: FloatArray, smoothed: ConjugateSmoothed, epoch: int, begins: IntArray,
        q: FloatArray,
    ) -> FloatArray:  # fmt: skip
        family, hyper, prior = self.prior
        out, post = np.empty((len(X), len(begins))), np.empty((len(begins), len(prior)))
        sums = smoothed.near[epoch]
        numbers.conjugate_expected(family, hyper, self.prepared(X), sums, begins, epoch, post, out)
        return out

    def frozen(self, smoothed: ConjugateSmoothed) -> ConjugateStats:
        return ConjugateStats(smoothed.filtered[0].copy())

    def ahead(self, smoothed: ConjugateSmoothed, steps: int = 1) -> ConjugateStats:
        return ConjugateStats(self.rho**steps * smoothed.filtered[-1])

    def seating(self, past: FloatArray, ahead: ConjugateStats) -> Seating:
        family, hyper, prior = self.prior
        K = len(past)
        post = np.empty((K, len(prior)))
        families.posteriors(family, hyper, ahead.sums, K, post)
        return Seating(self, past, np.zeros(K), ahead.sums, post, np.zeros(K))

    @property
    def law(self) -> Any:
        """What `numbers.seat_conjugate` takes of it."""
        return *self.prior, self.least

    def near(self, smoothed: ConjugateSmoothed, begins: IntArray) -> tuple[IntArray, IntArray]:
        family, hyper, prior = self.prior
        close, work = np.zeros((len(begins), len(begins)), np.bool_), np.empty_like(prior)
        numbers.conjugate_unions(family, hyper, smoothed.filtered[-1], _SLACK, work, close)
        a, b = np.nonzero(close)
        return a, b

    def halves(
        self, rows: Parts, resp: Parts, k: int, alone: ConjugateSmoothed, epoch: int
    ) -> Parts | None:
        # rows from ``epoch`` on, with columns in units of their spread, are split along the column
        # or principal axis on which two means explain most; the smaller side leaves
        X, w = np.concatenate(rows[epoch:]), np.concatenate([q[:, k] for q in resp[epoch:]])
        there = np.isfinite(X)
        mass = (w[:, None] * there).sum(axis=0)
        if w.sum() < 2.0 or not mass.any():
            return None
        mass = np.where(mass > 0.0, mass, 1.0)
        mean = (w[:, None] * np.where(there, X, 0.0)).sum(axis=0) / mass
        gap = np.where(there, X - mean, 0.0)
        sd = np.sqrt((w[:, None] * gap**2).sum(axis=0) / mass)
        if not sd.any():
            return None
        Z = gap / np.where(sd > 0.0, sd, 1.0)
        most, leaves = 0.0, None
        principal = Z @ np.linalg.eigh((Z * w[:, None]).T @ Z)[1][:, -_AXES:]
        for along in np.concatenate([principal, Z[:, :_AXES]], axis=1).T:
            low, high = two_means(along, w)
            if low < high and -low * high > most * (along**2 @ w):  # the variance between
                most = -low * high / (along**2 @ w)
                sign = 1.0 if high > -low else -1.0
                leaves = (sign * (along - 0.5 * (low + high)) > 0.0) * 1.0
        if leaves is None:
            return None
        return since(epoch, [len(x) for x in rows], leaves)

    def split(
        self, rows: Parts, own: Parts, sides: Parts, past: Past, starts: ConjugateStats,
        begins: IntArray,
    ) -> tuple[Parts, ConjugateSmoothed]:  # fmt: skip
        (X, *part), shared = halved(rows, own, sides)
        law = (*self.prior, self.rho)
        stats = np.empty((len(rows), *starts.sums.shape))
        split_conjugate((self.prepared(X), *part), past, begins, starts.sums, law, shared, stats)
        smoothed = self.smooth(ConjugateStats(stats), starts, begins)
        return np.split(shared, part[0][1:-1]), smoothed

    def forgotten(
        self, stats: ConjugateStats, smoothed: ConjugateSmoothed, begins: IntArray
    ) -> "ConjugateDecay":
        if self.forget is not None:
            return self
        family, hyper, prior = self.prior
        gains, work = _FORGET * self.gains, np.empty_like(prior)
        numbers.conjugate_gains(family, hyper, stats.sums[0], smoothed.starts, RHOS, work, gains)
        return replace(self, gains=gains)

    def summary(
        self, stats: Any, smoothed: ConjugateSmoothed, epoch: int, which: IntArray,
        names: Sequence[Word],
    ) -> Summary:  # fmt: skip
        return Summary(self.likelihood.point_estimates(smoothed.near[epoch, which]), [])

    def latest(
        self, smoothed: ConjugateSmoothed | None, fresh: ConjugateStats,
        names: Sequence[Word],
    ) -> Summary:  # fmt: skip
        sums = fresh.sums.copy()
        if smoothed is not None:
            sums[: smoothed.sums.shape[1]] = smoothed.filtered[-1]
        return Summary(self.likelihood.point_estimates(sums), [])
