"""Gaussian emission with drifting means and full covariances of noise, drift and prior."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import softmax

from streamddcrp.data.documents import Word
from streamddcrp.errors import ConfigError
from streamddcrp.models.temporal import emissions as em
from streamddcrp.models.temporal.emissions import drift as gauss
from streamddcrp.models.temporal.kernels import full
from streamddcrp.models.temporal.kernels.numbers import BIRTH, DRIFT, HALF, NOISE, SEEN
from streamddcrp.models.temporal.kernels.splits import ROUNDS
from streamddcrp.typing import FloatArray, IntArray

_ROUNDED = 1e-12  # least eigenvalue of a correlation of summed statistics


class FullStats(NamedTuple):
    """Expected rows of epochs (E, K) and their information; of `full_stats`, with E in front."""

    size: FloatArray
    info: FloatArray
    shift: FloatArray
    const: FloatArray
    n_whole: FloatArray
    total: FloatArray
    square: FloatArray


@dataclass(frozen=True, slots=True)
class FullGaussianDrift(gauss.GaussianDrift):
    """x ~ N(phi_t, R), phi_t ~ N(phi_{t-1}, Q), phi at birth ~ N(m0, P0); R, Q and P0 are (D, D).

    As `GaussianDrift`, with correlated columns. Missing values are integrated out; the noise is
    learned from complete rows. A row costs O(K D^3) for K components that share it, and an epoch
    O(K D^3) for its smoothing.

    Examples
    --------
    >>> from streamddcrp.models.temporal.engine import Engine
    >>> from streamddcrp.models.temporal.window import Settings
    >>> noise = np.array([[1.0, 0.9], [0.9, 1.0]])
    >>> law = FullGaussianDrift.known(np.zeros(2), 36.0 * np.eye(2), 0.05 * noise, noise)
    >>> engine = Engine(Settings(alpha=1.0, past_weights=(0.5,)), law)
    >>> scores = engine.learn(np.array([[0.0, 0.0], [2.0, 2.0], [-2.0, 2.0]]))
    >>> engine.ids[engine.resp[-1].argmax(axis=1)]
    array([0, 0, 1])
    """

    seat = staticmethod(full.seat_full)

    @classmethod
    def known(
        cls, birth_mean: FloatArray, birth_var: FloatArray, drift: FloatArray, noise: FloatArray
    ) -> "FullGaussianDrift":
        """Parameters as given, (D,) and (D, D); ConfigError if a covariance is invalid."""
        for name, cov in (("birth_var", birth_var), ("drift", drift), ("noise", noise)):
            if not is_covariance(cov, len(birth_mean)):
                what = "a covariance, symmetric and positive definite"
                raise ConfigError(f"{name} must be {what}, got {cov}")
        none = np.zeros((2, *noise.shape))
        return cls(birth_mean, birth_var, drift, noise, noise, drift, birth_var, none, none, none)

    @classmethod
    def like(cls, law: gauss.GaussianDrift) -> "FullGaussianDrift":
        """Take scales from an emission without correlations."""
        return cls.known(law.birth_mean, *map(np.diag, (law.birth_var, law.drift, law.noise)))

    @classmethod
    def scaled(cls, X: FloatArray, spread: float) -> "FullGaussianDrift":
        """Take scales from rows (N, D), as `GaussianDrift.scaled` does."""
        mean, cov = _moments(X)
        return cls.known(mean, gauss.BROAD * cov, gauss.DRIFT_GUESS * spread * cov, spread * cov)

    @property
    def is_sound(self) -> bool:
        """Whether all covariances are valid, and all sums may become covariances."""
        D = len(self.birth_mean)
        covs = [self.birth_var, self.drift, self.noise]
        covs += [self.birth_guess, self.drift_guess, self.noise_guess]
        sums = np.stack([self.birth_sums, self.drift_sums, self.noise_sums])
        squares = [A for A in sums[:, 1] if A.any()]
        return (
            all(is_covariance(A, D) for A in covs)
            and all(is_covariance(A, D, -1e-9) for A in squares)
            and bool((sums[:, 0] >= 0.0).all())
        )

    @staticmethod
    def variances(var: FloatArray) -> FloatArray:
        return np.diagonal(var, axis1=-2, axis2=-1)

    @property
    def _parts(self) -> tuple[FloatArray, FloatArray, float]:
        """W and W' W = R^-1, and log |2 pi R|."""
        whitener, precision = np.empty((2, *self.noise.shape))
        return whitener, precision, full.noise_parts(self.noise, whitener, precision)

    def stats(self, X: FloatArray, q: FloatArray) -> FullStats:
        K, D = q.shape[1], len(self.noise)
        out = FullStats(
            np.empty(K), np.empty((K, D, D)), np.empty((K, D)), np.empty(K), np.empty(K),
            np.empty((K, D)), np.empty((K, D, D)),
        )  # fmt: skip
        full.full_stats(self.prepared(X), self._parts, q, out)
        return out

    def stats_of_epochs(self, rows: em.Parts, resp: em.Parts) -> Any:
        return em.stacked_epochs([self.stats(X, q) for X, q in zip(rows, resp, strict=True)])

    def no_starts(self, K: int) -> em.Moments:
        D = len(self.noise)
        return em.Moments(np.zeros((K, D)), np.zeros((K, D, D)))

    def smooth(self, stats: Any, starts: em.Moments, begins: IntArray) -> gauss.DriftSmoothed:
        means, covs = np.empty_like(stats.shift), np.empty_like(stats.info)
        out = gauss.DriftSmoothed(
            means, covs, means.copy(), covs.copy(), covs.copy(), np.empty_like(stats.size)
        )
        full.kalman_full(stats, begins, starts, self.birth_var, self.drift, out)
        return out

    def expected(
        self, X: FloatArray, smoothed: gauss.DriftSmoothed, epoch: int, begins: IntArray,
        q: FloatArray,
    ) -> FloatArray:  # fmt: skip
        out = np.empty((len(X), len(begins)))
        mean, var = smoothed.mean[epoch], smoothed.var[epoch]
        full.full_expected(self.prepared(X), mean, var, self._parts, begins, epoch, out)
        return out

    def _sums(self, stats: Any, s: gauss.DriftSmoothed, begins: IntArray) -> FloatArray:
        # as `scale_sums`; the median is by a component's variance in noise units
        E, _, D = s.mean.shape
        out = np.zeros((3, E, 2, D, D))
        precision = self._parts[1]
        second = _outer(s.mean, s.mean) + s.var
        cross = _outer(stats.total, s.mean)
        seen = stats.size > SEEN
        for e in range(E):
            some = np.flatnonzero(stats.n_whole[e] > SEEN)
            if len(some):
                n = stats.n_whole[e, some]
                about = cross[e, some] + np.swapaxes(cross[e, some], 1, 2)
                scatter = (stats.square[e, some] - about) / n[:, None, None] + second[e, some]
                order = np.argsort((precision * scatter).sum(axis=(1, 2)), kind="stable")
                middle = order[np.argmax(np.cumsum(n[order]) >= HALF * n.sum())]
                out[NOISE, e, 0], out[NOISE, e, 1] = n.sum(), n.sum() * scatter[middle]
            born = begins == e
            out[BIRTH, e, 0], out[BIRTH, e, 1] = born.sum(), second[e, born].sum(axis=0)
            if e:
                on = (begins < e) & seen[e] & seen[e - 1]
                lagged = s.lagged[e, on]
                step = s.mean[e, on] - s.mean[e - 1, on]
                square = _outer(step, step) + s.var[e, on] + s.var[e - 1, on]
                square -= lagged + np.swapaxes(lagged, 1, 2)
                out[DRIFT, e, 0], out[DRIFT, e, 1] = on.sum(), square.sum(axis=0)
        _undo_rounding(out[:, :, 1])
        return out

    def seating(self, past: FloatArray, ahead: em.Moments) -> em.Seating:
        none = np.zeros(len(past)), np.zeros_like(ahead.var), np.zeros_like(ahead.mean)
        return em.Seating(self, past, *none, *ahead)

    @property
    def law(self) -> Any:
        return self.birth_var, self.noise, *self._parts[1:]

    def near(self, smoothed: gauss.DriftSmoothed, begins: IntArray) -> tuple[IntArray, IntArray]:
        mean, var = smoothed.filtered_mean[-1], smoothed.filtered_var[-1]
        a, b = np.triu_indices(len(begins), 1)
        gap = (mean[a] - mean[b])[:, :, None]
        units = np.linalg.solve(self.noise + 0.5 * (var[a] + var[b]), gap)
        close = (gap * units).sum(axis=(1, 2)) < gauss.NEAR
        return a[close], b[close]

    def _in_units_of_noise(self, gaps: FloatArray) -> FloatArray:
        return gaps @ self._parts[0].T

    def split(
        self, rows: em.Parts, own: em.Parts, sides: em.Parts, past: em.Past, starts: em.Moments,
        begins: IntArray,
    ) -> tuple[em.Parts, gauss.DriftSmoothed]:  # fmt: skip
        shared, (a0, weights, before), W = em.divided(own, sides), past, len(past[1])
        for r in range(ROUNDS + 1):
            stats = self.stats_of_epochs(rows, shared)
            smoothed = self.smooth(stats, starts, begins)
            if r == ROUNDS:
                break
            counts = np.concatenate([before, stats.size])
            for e in range(max(int(begins[0]), 0), len(rows)):
                weight = a0 + counts[W + e] + weights[::-1] @ counts[e : W + e]
                ell = self.expected(rows[e], smoothed, e, begins, shared[e])
                shared[e] = own[e] * softmax(ell + np.log(weight), axis=1)
        return shared, smoothed

    def latest(
        self, smoothed: gauss.DriftSmoothed | None, fresh: Any, names: Sequence[Word]
    ) -> em.Summary:
        # those begun in the open epoch, by its rows alone
        K = len(fresh.size)
        epoch, none = em.each(lambda part: part[None], fresh), self.no_starts(K)
        alone = self.smooth(epoch, none, np.zeros(K, np.int64))
        mean, var = alone.mean[0], alone.var[0]
        if smoothed is not None:
            n = smoothed.mean.shape[1]
            mean[:n], var[:n] = smoothed.filtered_mean[-1], smoothed.filtered_var[-1]
        return self._summary(mean, var)


def full_guesses(X: FloatArray) -> list[FullGaussianDrift]:
    """Return `guesses` for rows (N, D), and correlated ones, by clusters in whitened rows."""
    out = [FullGaussianDrift.like(law) for law in gauss.guesses(X)]
    mean, cov = _moments(X)
    root = np.linalg.cholesky(cov)
    Z = solve_triangular(root, (np.where(np.isnan(X), mean, X) - mean).T, lower=True).T
    for k in gauss.numbers_of_clusters(X):
        gaps = gauss.within(Z, k) if k > 1 else Z
        share = gaps.T @ gaps / max(len(Z) - k, 1) + 1e-6 * np.eye(len(cov))
        noise = root @ share @ root.T
        noise = 0.5 * (noise + noise.T)
        law = FullGaussianDrift.known(mean, gauss.BROAD * cov, gauss.DRIFT_GUESS * noise, noise)
        out.append(law)
    return out + [FullGaussianDrift.scaled(X, spread) for spread in gauss.spreads(X)]


def _moments(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean (D,) and covariance (D, D) of rows (N, D), shrunk to diagonal for few rows."""
    mean, var = gauss.moments_of_rows(X)
    gaps = np.where(np.isnan(X), 0.0, X - mean) / np.sqrt(var)
    N, D = X.shape
    share = D / (D + N)
    corr = (1.0 - share) * (gaps.T @ gaps) / N + share * np.eye(D)
    np.fill_diagonal(corr, 1.0)
    unit = np.ldexp(1.0, int(np.frexp(var.max())[1]))  # its square might underflow
    return mean, corr * (np.sqrt(np.outer(var / unit, var / unit)) * unit)


def _outer(a: FloatArray, b: FloatArray) -> FloatArray:
    """Products a b' of vectors (.., D)."""
    return a[..., :, None] * b[..., None, :]


def is_covariance(A: FloatArray, D: int, least: float = 0.0) -> bool:
    """Whether an array is (D, D), symmetric, with a correlation definite by ``least``."""
    if np.shape(A) != (D, D) or not np.isfinite(A).all() or not np.allclose(A, A.T, atol=0.0):
        return False
    value = np.linalg.eigvalsh(A / _units(A))
    return bool(value[0] > least * value[-1])


def _units(A: FloatArray) -> FloatArray:
    """Products (.., D, D) of columns' deviations, by which covariances become correlations."""
    variance = np.diagonal(A, axis1=-2, axis2=-1)
    unit = np.sqrt(np.where(variance > 0.0, variance, 1.0))
    return _outer(unit, unit)


def _undo_rounding(sums: FloatArray) -> None:
    """Repair rounding errors in sums of squares (.., D, D)."""
    units = _units(sums)
    least = np.linalg.eigvalsh(sums / units)[..., 0]
    for at in zip(*np.nonzero((least <= _ROUNDED) & sums.any(axis=(-2, -1))), strict=True):
        A = sums[at]
        none = np.diagonal(A) <= 0.0
        A[none], A[:, none] = 0.0, 0.0
        value, vector = np.linalg.eigh(A / units[at])
        whole = (vector * np.maximum(value, _ROUNDED)) @ vector.T
        whole[none], whole[:, none] = 0.0, 0.0
        A[:] = 0.5 * (whole + whole.T) * units[at]
