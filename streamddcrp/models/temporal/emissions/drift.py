"""Gaussian emission with drifting means; noise, drift and prior are learned."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from streamddcrp.data.documents import Word
from streamddcrp.likelihoods.columns import column_means
from streamddcrp.models.temporal import emissions as em
from streamddcrp.models.temporal.kernels import numbers
from streamddcrp.models.temporal.kernels.splits import split_drift, two_means
from streamddcrp.typing import FloatArray, IntArray

BROAD = 4.0  # variance of means at birth, relative to that of the first rows
_NOISE_ROWS = 20.0  # weight of the initial noise in rows
_BIRTHS = 5.0  # weight of their initial variance in births
_STEPS = 10.0  # weight of the initial drift in transitions
NEAR = 12.0  # largest squared distance, in predictive units, of components that may be one
_SPREAD = 1.3  # variance about the mean, in units of the noise, from which a split is tried; two
# halves that differ less cost more counts than they save squares
_LEAST = 1e-200  # variance of the first rows below which they show no scale
_ROUNDED = 1e-14  # deviation, of the largest value, that rounding alone may show
_FORGET = 0.98  # per epoch, for the evidence on noise and drift
# First guesses of the scales.
_CLUSTERS = (1, 2, 4, 8, 16)
_EACH = 4  # least mean rows of a cluster
_FEW = 32  # rows below which shares of the variance are also tried
_SPREADS = (0.03, 0.01, 0.003)  # of the first rows' variance: noise if clusters are many
_FEW_SPREAD = 0.1  # another one if rows are few
DRIFT_GUESS = 0.05  # of the noise
_RUNS, _MOST = 3, 20  # of k-means


class DriftStats(NamedTuple):
    """Expected rows of epochs (E, K); and their values, sums and squares, (E, K, D)."""

    size: FloatArray
    n_values: FloatArray
    total: FloatArray
    square: FloatArray

    @classmethod
    def empty(cls, E: int, K: int, D: int) -> Self:
        """Return arrays to be filled."""
        return cls(np.empty((E, K)), *np.empty((3, E, K, D)))


class DriftSmoothed(NamedTuple):
    """Moments over a window, (E, K, D) each, and the log evidence of its epochs, (E, K)."""

    filtered_mean: FloatArray
    filtered_var: FloatArray
    mean: FloatArray
    var: FloatArray
    lagged: FloatArray
    log_z: FloatArray

    @classmethod
    def empty(cls, E: int, K: int, D: int) -> Self:
        return cls._make([*np.empty((5, E, K, D)), np.empty((E, K))])


@dataclass(frozen=True, slots=True)
class GaussianDrift(em.Emission):
    """x ~ N(phi_t, R), phi_t ~ N(phi_{t-1}, Q), phi at birth ~ N(m0, P0), all diagonal, (D,)."""

    birth_mean: FloatArray  # m0
    birth_var: FloatArray  # P0
    drift: FloatArray  # Q
    noise: FloatArray  # R
    # Initial R, Q and P0, (D,) each: the prior of what is learned.
    noise_guess: FloatArray
    drift_guess: FloatArray
    birth_guess: FloatArray
    # Rows, transitions or births, and their squares, (2, D) each, from epochs that have left the
    # window; they fade.
    noise_sums: FloatArray
    drift_sums: FloatArray
    birth_sums: FloatArray

    least, seat = 1e-12, staticmethod(numbers.seat_drift)

    @classmethod
    def scaled(cls, X: FloatArray, spread: float) -> "GaussianDrift":
        """Take scales from rows (N, D), with a share ``spread`` of their variance as noise."""
        mean, var = moments_of_rows(X)
        noise = spread * var
        return cls.known(mean, BROAD * var, 0.05 * noise, noise)

    @classmethod
    def known(
        cls, birth_mean: FloatArray, birth_var: FloatArray, drift: FloatArray, noise: FloatArray
    ) -> "GaussianDrift":
        """Parameters as given, shape (D,) each."""
        none = np.zeros((2, *np.shape(noise)))
        return cls(birth_mean, birth_var, drift, noise, noise, drift, birth_var, none, none, none)

    @property
    def noise_var(self) -> FloatArray:
        """Variances of the noise, (D,)."""
        return self.variances(self.noise)

    @staticmethod
    def variances(var: FloatArray) -> FloatArray:
        """Return the variances (.., D) in ``var`` of moments."""
        return var

    def stats(self, X: FloatArray, q: FloatArray) -> Any:
        return em.each(lambda part: part[0], self.stats_of_epochs([X], [q]))

    def stats_of_epochs(self, rows: em.Parts, resp: em.Parts) -> Any:
        E, K, D = len(rows), resp[0].shape[1], len(self.noise)
        out = DriftStats.empty(E, K, D)
        for X, q, *parts in zip(rows, resp, *out, strict=True):
            numbers.drift_stats(self.prepared(X), q, *parts)
        return out

    def joined(self, parts: em.Parts) -> FloatArray:
        return np.concatenate([np.zeros((0, len(self.noise))), *parts])

    def no_starts(self, K: int) -> em.Moments:
        return em.Moments.none(K, len(self.noise))

    def smooth(self, stats: DriftStats, starts: em.Moments, begins: IntArray) -> DriftSmoothed:
        out = DriftSmoothed.empty(*stats.total.shape)
        numbers.kalman(stats, begins, starts, self.law, out)
        return out

    def expected(
        self, X: FloatArray, smoothed: DriftSmoothed, epoch: int, begins: IntArray, q: FloatArray
    ) -> FloatArray:
        out = np.empty((len(X), len(begins)))
        numbers.drift_expected(
            X - self.birth_mean, smoothed.mean[epoch], smoothed.var[epoch], self.noise, begins,
            epoch, out,
        )  # fmt: skip
        return out

    def frozen(self, smoothed: DriftSmoothed) -> em.Moments:
        return em.Moments.filtered(smoothed, 0)

    def ahead(self, smoothed: DriftSmoothed, steps: int = 1) -> em.Moments:
        return em.Moments.filtered(smoothed, -1, steps * self.drift)

    def learned(
        self, stats: DriftStats, smoothed: DriftSmoothed, begins: IntArray
    ) -> "GaussianDrift":
        sums = self._sums(stats, smoothed, begins).sum(axis=1)
        noise, drift = self.noise_sums + sums[numbers.NOISE], self.drift_sums + sums[numbers.DRIFT]
        birth = self.birth_sums + sums[numbers.BIRTH]
        return replace(
            self,
            birth_var=(_BIRTHS * self.birth_guess + birth[1]) / (_BIRTHS + birth[0]),
            noise=(_NOISE_ROWS * self.noise_guess + noise[1]) / (_NOISE_ROWS + noise[0]),
            drift=(_STEPS * self.drift_guess + drift[1]) / (_STEPS + drift[0]),
        )

    def drawn(self, sums: FloatArray, rng: np.random.Generator) -> "GaussianDrift":
        """Draw noise, drift and birth variance given their counts and sums of squares.

        ``sums`` (3, 2, D) are by NOISE, DRIFT, BIRTH. Each prior is the scaled inverse chi-squared
        distribution about the initial value, with the degrees of freedom that it has in `learned`;
        the draw has n more of them.
        """
        first = np.array([_NOISE_ROWS, _STEPS, _BIRTHS])[:, None]
        guess = np.stack([self.noise_guess, self.drift_guess, self.birth_guess])
        values = (first * guess + sums[:, 1]) / rng.chisquare(first + sums[:, 0])
        noise, drift = values[numbers.NOISE], values[numbers.DRIFT]
        return replace(self, noise=noise, drift=drift, birth_var=values[numbers.BIRTH])

    def forgotten(
        self, stats: DriftStats, smoothed: DriftSmoothed, begins: IntArray
    ) -> "GaussianDrift":
        sums = self._sums(stats, smoothed, begins)
        return replace(
            self,
            birth_sums=_FORGET * self.birth_sums + sums[numbers.BIRTH, 0],
            noise_sums=_FORGET * self.noise_sums + sums[numbers.NOISE, 0],
            drift_sums=_FORGET * self.drift_sums + sums[numbers.DRIFT, 1:2].sum(axis=0),
        )

    def _sums(self, stats: DriftStats, s: DriftSmoothed, begins: IntArray) -> FloatArray:
        """Return the window's evidence on noise, drift and births, shape (3, E, 2, D)."""
        out = np.empty((3, len(s.mean), 2, len(self.noise)))
        numbers.scale_sums(stats, s, begins, out)
        return out

    def seating(self, past: FloatArray, ahead: em.Moments) -> em.Seating:
        none = np.zeros_like(ahead.mean)
        return em.Seating(self, past, np.zeros(len(past)), none, none, *ahead)

    def prepared(self, X: FloatArray) -> FloatArray:
        return X - self.birth_mean  # rows and moments are relative to it

    @property
    def law(self) -> Any:
        """P0, Q and R, as kernels take them."""
        return self.birth_var, self.drift, self.noise

    def near(self, smoothed: DriftSmoothed, begins: IntArray) -> tuple[IntArray, IntArray]:
        mean, var = smoothed.filtered_mean[-1], smoothed.filtered_var[-1]
        close = np.zeros((len(begins), len(begins)), dtype=np.bool_)
        numbers.drift_near(mean, var, self.noise, NEAR, close)
        a, b = np.nonzero(close)
        return a, b

    def halves(
        self, rows: em.Parts, resp: em.Parts, k: int, alone: DriftSmoothed, epoch: int
    ) -> em.Parts | None:
        # rows from ``epoch`` on are split along the direction of largest spread about the smoothed
        # mean; the side farther from it leaves
        gaps = [X - self.birth_mean - m for X, m in zip(rows, alone.mean[:, 0], strict=True)]
        G = np.concatenate(gaps[epoch:])
        G = self._in_units_of_noise(np.where(np.isnan(G), 0.0, G))
        w = np.concatenate([q[:, k] for q in resp[epoch:]])
        if w.sum() < 2.0:
            return None
        value, vector = np.linalg.eigh((G * w[:, None]).T @ G / w.sum())
        if value[-1] < _SPREAD:
            return None
        along = G @ vector[:, -1]
        low, high = two_means(along, w)
        if not low < high:
            return None
        sign = 1.0 if abs(high) > abs(low) else -1.0
        leaves = (sign * (along - 0.5 * (low + high)) > 0.0) * 1.0
        return em.since(epoch, [len(X) for X in rows], leaves)

    def _in_units_of_noise(self, gaps: FloatArray) -> FloatArray:
        return gaps / np.sqrt(self.noise)

    def split(
        self, rows: em.Parts, own: em.Parts, sides: em.Parts, past: em.Past, starts: em.Moments,
        begins: IntArray,
    ) -> tuple[em.Parts, DriftSmoothed]:  # fmt: skip
        E, D = len(rows), len(self.noise)
        part, shared = em.halved([self.prepared(X) for X in rows], own, sides)
        stats, out = DriftStats.empty(E, 2, D), DriftSmoothed.empty(E, 2, D)
        split_drift(part, past, begins, starts, self.law, shared, stats, out)
        return np.split(shared, part[1][1:-1]), out

    def summary(
        self, stats: Any, smoothed: DriftSmoothed, epoch: int, which: IntArray,
        names: Sequence[Word],
    ) -> em.Summary:  # fmt: skip
        return self._summary(smoothed.mean[epoch, which], smoothed.var[epoch, which])

    def latest(
        self, smoothed: DriftSmoothed | None, fresh: DriftStats, names: Sequence[Word]
    ) -> em.Summary:
        mean, var, n = np.empty_like(fresh.total), np.empty_like(fresh.total), 0
        if smoothed is not None:
            n = smoothed.mean.shape[1]
            mean[:n], var[:n] = smoothed.filtered_mean[-1], smoothed.filtered_var[-1]
        size = fresh.size[n:, None]
        mean[n:], var[n:] = fresh.total[n:] / size, self.noise / size
        return self._summary(mean, var)

    def _summary(self, mean: FloatArray, var: FloatArray) -> em.Summary:
        sd = np.sqrt(self.variances(var))
        return em.Summary({"mean": mean + self.birth_mean, "sd": sd}, [])


def moments_of_rows(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance (D,) of present values of rows (N, D); variances above zero."""
    there = ~np.isnan(X)
    n = there.sum(axis=0)
    mean = np.where(there, X, 0.0).sum(axis=0) / np.maximum(n, 1)
    var = np.where(there, (X - mean) ** 2, 0.0).sum(axis=0) / np.maximum(n, 1)
    most = np.abs(np.where(there, X, 0.0)).max(axis=0, initial=0.0)
    var = np.where(var > (_ROUNDED * most) ** 2, var, np.maximum(var, 1e-12 * most**2))
    return mean, np.where(n == 0, 1.0, np.where(var > _LEAST, var, 1e-12))


def guesses(X: FloatArray) -> list[GaussianDrift]:
    """Return emissions for rows (N, D) with different noise: within 1, 2, 4, .. clusters.

    Each column has the noise that it shows within clusters, so a column without clusters keeps all
    of its variance. Later rows show which emission is best.
    """
    out = []
    for k in numbers_of_clusters(X):
        first = GaussianDrift.scaled(X, 1.0)
        share = _within(X, k)
        noise, drift = share * first.noise, DRIFT_GUESS * share * first.noise
        out.append(replace(first, noise=noise, noise_guess=noise, drift=drift, drift_guess=drift))
    return out + [GaussianDrift.scaled(X, spread) for spread in spreads(X)]


def numbers_of_clusters(X: FloatArray) -> list[int]:
    """Return candidate numbers of clusters of rows (N, D) for initial values."""
    return [k for k in _CLUSTERS if k == 1 or k * _EACH <= len(X)]


def spreads(X: FloatArray) -> tuple[float, ...]:
    """Return candidate noise shares of the variance of rows (N, D) with many clusters."""
    return _SPREADS if len(X) >= _FEW else (_FEW_SPREAD, *_SPREADS)


def _within(X: FloatArray, k: int) -> FloatArray:
    """Share of the variance of each column within k clusters, at least a millionth, (D,)."""
    X = np.where(np.isnan(X), column_means(X), X)
    sd = X.std(axis=0)
    Z = (X - X.mean(axis=0)) / np.where(sd > 0.0, sd, 1.0)
    share = (within(Z, k) ** 2).sum(axis=0) / (len(Z) - k) if k > 1 else 1.0
    return np.where(sd > 0.0, np.clip(share, 1e-6, 1.0), 1.0)


def within(Z: FloatArray, k: int) -> FloatArray:
    """Rows (N, D) minus the centres of k clusters, the best of several k-means runs."""
    rng = np.random.default_rng(0)
    runs = [Z - _clustered(Z, k, rng) for _ in range(_RUNS)]
    return min(runs, key=lambda gaps: float((gaps**2).sum(axis=0).sum()))


def _clustered(Z: FloatArray, k: int, rng: np.random.Generator) -> FloatArray:
    """Return each row's cluster centre, (N, D), by k-means from separated seeds."""
    centre = Z[[rng.integers(len(Z))]]
    while len(centre) < k:
        gap = ((Z[:, None] - centre) ** 2).sum(axis=2).min(axis=1)
        if gap.sum() == 0.0:
            break
        centre = np.concatenate([centre, Z[[rng.choice(len(Z), p=gap / gap.sum())]]])
    label: IntArray = np.full(len(Z), -1)
    for _ in range(_MOST):
        was, label = label, ((Z[:, None] - centre) ** 2).sum(axis=2).argmin(axis=1)
        if (was == label).all():
            break
        for j in np.unique(label):
            centre[j] = Z[label == j].mean(axis=0)
    return centre[label]
