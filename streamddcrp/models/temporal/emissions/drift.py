"""Gaussian emission with drifting means, of which noise, drift and prior are learned."""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from streamddcrp.models.temporal.emissions.base import Seats, doubled, heavy
from streamddcrp.models.temporal.kernels.drift import (
    drift_expected,
    drift_stats,
    kalman,
    part_in_two,
    seat_at_drift,
    two_means,
)
from streamddcrp.models.temporal.kernels.scales import BIRTH, DRIFT, NOISE, scale_sums
from streamddcrp.typing import FloatArray, IntArray

_BROAD = 4.0  # variance of components' means at birth, in units of that of the first rows
_NOISE_ROWS = 20.0  # rows that the first guess of the noise counts for
_BIRTHS = 5.0  # births that the first guess of their variance counts for
_STEPS = 10.0  # transitions that the first guess of the drift counts for
_NEAR = 12.0  # squared distance in predictive units up to which two components may be one
_SPREAD = 1.3  # variance about the mean, in units of the noise, from which a split is tried; two
# halves that differ less cost more counts than they save squares
_LEAST = 1e-200  # variance of the first rows below which they tell no scale
_ROUNDS = 5  # of sharing rows between the halves of a split
_FORGET = 0.98  # an epoch, of what noise and drift are learned from


class DriftStats(NamedTuple):
    """Expected rows of epochs (E, K); their values, and sums and squares of these, (E, K, D)."""

    size: FloatArray
    n_values: FloatArray
    total: FloatArray
    square: FloatArray


class DriftStarts(NamedTuple):
    """Filtered moments at the epoch before the window, shape (K, D) each."""

    mean: FloatArray
    var: FloatArray


class DriftSmoothed(NamedTuple):
    """Moments over a window, (E, K, D) each, and the log evidence of its epochs, (E, K)."""

    filtered_mean: FloatArray
    filtered_var: FloatArray
    mean: FloatArray
    var: FloatArray
    lagged: FloatArray
    log_z: FloatArray


@dataclass(frozen=True, slots=True)
class GaussianDrift:
    """x ~ N(phi_t, R), phi_t ~ N(phi_{t-1}, Q), phi at birth ~ N(m0, P0), all diagonal.

    Attributes
    ----------
    birth_mean, birth_var, drift, noise : ndarray of float64, shape (D,)
        m0, P0, Q, R.
    noise_guess, drift_guess, birth_guess : ndarray of float64, shape (D,)
        What they, and P0, began as: the prior of what is learned.
    noise_sums, drift_sums, birth_sums : ndarray of float64, shape (2, D)
        Rows, transitions or births, and their squares, from epochs that have left the window; they
        fade.
    """

    birth_mean: FloatArray
    birth_var: FloatArray
    drift: FloatArray
    noise: FloatArray
    noise_guess: FloatArray
    drift_guess: FloatArray
    birth_guess: FloatArray
    noise_sums: FloatArray
    drift_sums: FloatArray
    birth_sums: FloatArray

    least = 1e-12

    @classmethod
    def scaled(cls, X: FloatArray, spread: float) -> "GaussianDrift":
        """Take scales from rows (N, D), the noise being a share ``spread`` of their variance.

        NaN is a missing value; a column of nothing else is taken to be of unit variance about zero.
        """
        mean, var = _moments(X)
        noise = spread * var
        return cls.known(mean, _BROAD * var, 0.05 * noise, noise)

    @classmethod
    def known(
        cls, birth_mean: FloatArray, birth_var: FloatArray, drift: FloatArray, noise: FloatArray
    ) -> "GaussianDrift":
        """Parameters as given, shape (D,) each."""
        zeros = np.zeros((2, len(birth_mean)))
        return cls(
            birth_mean, birth_var, drift, noise, noise, drift, birth_var, zeros, zeros, zeros
        )

    def stats(self, X: FloatArray, q: FloatArray) -> DriftStats:
        """Return statistics of an epoch's rows (N, D) under assignments (N, K)."""
        K, D = q.shape[1], len(self.noise)
        out = DriftStats(np.empty(K), *np.empty((3, K, D)))
        drift_stats(X, self.birth_mean, q, *out)
        return out

    def joined(self, parts: list[FloatArray]) -> FloatArray:
        """Return the rows of an epoch that came in parts."""
        return np.concatenate([np.zeros((0, len(self.noise))), *parts])

    def no_starts(self, K: int) -> DriftStarts:
        """Return places for what is known of components from before the window."""
        return DriftStarts(np.zeros((K, len(self.noise))), np.zeros((K, len(self.noise))))

    def smooth(self, stats: DriftStats, starts: DriftStarts, begins: IntArray) -> DriftSmoothed:
        """Filter and smooth over the window."""
        moments = [np.empty_like(stats.total) for _ in range(5)]
        out = DriftSmoothed._make([*moments, np.empty_like(stats.size)])
        kalman(
            *stats[1:], begins, *starts, np.zeros_like(self.noise), self.birth_var, self.drift,
            self.noise, *out,
        )  # fmt: skip
        return out

    def expected(
        self, X: FloatArray, smoothed: DriftSmoothed, epoch: int, begins: IntArray, q: FloatArray
    ) -> FloatArray:
        """Return expected log likelihoods (N, K) of rows of an epoch of the window."""
        out = np.empty((len(X), len(begins)))
        drift_expected(
            X - self.birth_mean, smoothed.mean[epoch], smoothed.var[epoch], self.noise, begins,
            epoch, out,
        )  # fmt: skip
        return out

    def frozen(self, smoothed: DriftSmoothed) -> DriftStarts:
        """Return the filtered moments of the first epoch of the window."""
        return DriftStarts(smoothed.filtered_mean[0].copy(), smoothed.filtered_var[0].copy())

    def ahead(self, smoothed: DriftSmoothed, steps: int = 1) -> DriftStarts:
        """Return moments predicted for an epoch after the window."""
        return DriftStarts(
            smoothed.filtered_mean[-1].copy(), smoothed.filtered_var[-1] + steps * self.drift
        )

    def learned(
        self, stats: DriftStats, smoothed: DriftSmoothed, begins: IntArray
    ) -> "GaussianDrift":
        """Fit noise and drift to the window and to what has left it."""
        sums = self._sums(stats, smoothed, begins).sum(axis=1)
        noise, drift = self.noise_sums + sums[NOISE], self.drift_sums + sums[DRIFT]
        birth = self.birth_sums + sums[BIRTH]
        return replace(
            self,
            birth_var=(_BIRTHS * self.birth_guess + birth[1]) / (_BIRTHS + birth[0]),
            noise=(_NOISE_ROWS * self.noise_guess + noise[1]) / (_NOISE_ROWS + noise[0]),
            drift=(_STEPS * self.drift_guess + drift[1]) / (_STEPS + drift[0]),
        )

    def forgotten(
        self, stats: DriftStats, smoothed: DriftSmoothed, begins: IntArray
    ) -> "GaussianDrift":
        """Take the sums of the first epoch of the window over, for it is about to leave."""
        sums = self._sums(stats, smoothed, begins)
        return replace(
            self,
            birth_sums=_FORGET * self.birth_sums + sums[BIRTH, 0],
            noise_sums=_FORGET * self.noise_sums + sums[NOISE, 0],
            drift_sums=_FORGET * self.drift_sums + sums[DRIFT, 1:2].sum(axis=0),
        )

    def _sums(self, stats: DriftStats, s: DriftSmoothed, begins: IntArray) -> FloatArray:
        """Return what the window says of noise, drift and births, shape (3, E, 2, D)."""
        out = np.empty((3, len(s.mean), 2, len(self.noise)))
        scale_sums(*stats, s.mean, s.var, s.lagged, begins, out)
        return out

    def seating(self, past: FloatArray, ahead: DriftStarts) -> "DriftSeating":
        """Begin an epoch: components have decayed past counts (K,) and predicted moments."""
        return DriftSeating(self, past, ahead)

    def near(self, smoothed: DriftSmoothed, begins: IntArray) -> tuple[IntArray, IntArray]:
        """Return pairs of components whose latest means could be one."""
        mean, var = smoothed.filtered_mean[-1], smoothed.filtered_var[-1]
        a, b = np.triu_indices(len(begins), 1)
        gap = (mean[a] - mean[b]) ** 2 / (self.noise + 0.5 * (var[a] + var[b]))
        close = gap.sum(axis=1) < _NEAR
        return a[close], b[close]

    def mixed(
        self, rows: list[FloatArray], resp: list[FloatArray], starts: Any, least: float
    ) -> IntArray:
        """Return all components with ``least`` rows."""
        return heavy(resp, least)

    def halves(
        self, rows: list[FloatArray], resp: list[FloatArray], k: int, alone: DriftSmoothed,
        epoch: int,
    ) -> list[FloatArray] | None:  # fmt: skip
        """Return for each row of the window whether it would go to a second component.

        Rows from ``epoch`` on are parted in two along the direction of their largest spread about
        the smoothed mean; the side farther from it leaves. None where they do not spread more than
        the noise says.
        """
        scale = np.sqrt(self.noise)
        gaps = [(X - self.birth_mean - alone.mean[e, 0]) / scale for e, X in enumerate(rows)]
        gaps = [np.where(np.isnan(gap), 0.0, gap) for gap in gaps]
        G, w = np.concatenate(gaps[epoch:]), np.concatenate([q[:, k] for q in resp[epoch:]])
        if w.sum() < 2.0:
            return None
        value, vector = np.linalg.eigh((G * w[:, None]).T @ G / w.sum())
        if value[-1] < _SPREAD:
            return None
        along = G @ vector[:, -1]
        low, high = two_means(along, w)
        if not low < high:
            return None
        cut = 0.5 * (low + high)
        sign = 1.0 if abs(high) > abs(low) else -1.0
        return [
            np.zeros(len(gap)) if e < epoch else (sign * (gap @ vector[:, -1] - cut) > 0.0) * 1.0
            for e, gap in enumerate(gaps)
        ]

    def parted(
        self, rows: list[FloatArray], own: list[FloatArray], sides: list[FloatArray],
        before: FloatArray, starts: DriftStarts, begins: IntArray, a0: float, kappa: FloatArray,
    ) -> tuple[list[FloatArray], DriftSmoothed]:  # fmt: skip
        """Share rows between two components: some rounds of weights, likelihoods, smoothing."""
        first = np.cumsum([0, *(len(X) for X in rows)])
        E, D = len(rows), len(self.noise)
        out = DriftSmoothed._make([*(np.empty((E, 2, D)) for _ in range(5)), np.empty((E, 2))])
        all_own, side = np.concatenate(own), np.concatenate(sides)[:, None]
        shared = np.concatenate([all_own * (1.0 - side), all_own * side], axis=1)
        part_in_two(
            _ROUNDS, np.concatenate(rows), first, all_own, a0, kappa, before[:, :, 0].copy(),
            begins, *starts, self.birth_mean, self.birth_var, self.drift, self.noise, shared, *out,
        )  # fmt: skip
        return [shared[a:b] for a, b in pairwise(first)], out


def _moments(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and variance (D,) of what is there of rows (N, D); variances above zero."""
    there = ~np.isnan(X)
    n = there.sum(axis=0)
    mean = np.where(there, X, 0.0).sum(axis=0) / np.maximum(n, 1)
    var = np.where(there, (X - mean) ** 2, 0.0).sum(axis=0) / np.maximum(n, 1)
    var = np.maximum(var, 1e-12 * np.abs(np.where(there, X, 0.0)).max(axis=0, initial=0.0) ** 2)
    return mean, np.where(n == 0, 1.0, np.where(var > _LEAST, var, 1e-12))


class DriftSeating:
    """The open epoch: who sits where so far, and the moments that follow from it."""

    def __init__(self, emission: GaussianDrift, past: FloatArray, ahead: DriftStarts) -> None:
        K, D = ahead.mean.shape
        self.n_components = K
        self._emission = emission
        none = np.zeros((2, K, D))
        self._arrays = [past, np.zeros(K), none[0], none[1], ahead.mean, ahead.var]

    def seat(self, X: FloatArray, a0: float, log_new: float) -> Seats:
        """Seat rows (N, D) one after the other."""
        emission = self._emission
        Y, zero = X - emission.birth_mean, np.zeros(X.shape[1])
        scores, chances = np.empty(len(X)), np.empty((len(X), 2))
        q = np.zeros((len(X), len(self._arrays[0])))
        done = 0
        while True:
            past, size, count, total, mean, var = self._arrays
            done, self.n_components = seat_at_drift(
                Y, done, self.n_components, a0, log_new, past, size, count, total, mean, var, zero,
                emission.birth_var, emission.noise, q, scores, chances,
            )  # fmt: skip
            if done == len(X):
                return Seats(q[:, : self.n_components], scores, chances)
            self._arrays, q = [doubled(part) for part in self._arrays], doubled(q, axis=1)
