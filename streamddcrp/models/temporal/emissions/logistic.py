"""Logistic-normal emission: word laws that drift, for small vocabularies."""

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from streamddcrp.models.temporal.bags import as_rows
from streamddcrp.models.temporal.emissions.base import Seats, doubled
from streamddcrp.models.temporal.kernels.logistic import (
    log_normalisers,
    logistic_expected,
    seat_logistic,
    smooth_chains,
)
from streamddcrp.typing import FloatArray, IntArray

_NEAR = 1.2  # L1 distance of word laws up to which two components may be one
_TOL = 1e-3  # nats that an iteration must gain for another to follow
_ITERATIONS = 40
_HAVE = 1.0  # expected count from which the step of a word is looked at
_STEPS = 20.0  # steps that the first guess of the drift counts for
_FORGET = 0.9  # an epoch, of what the drift is learned from
_ROW_ITERATIONS = 4  # after each row of an epoch that is open

_seat: Any = seat_logistic  # takes arrays out of a tuple, whose length a type checker cannot know


class LogisticStats(NamedTuple):
    """Expected counts, shape (E, K, V)."""

    counts: FloatArray


class LogisticStarts(NamedTuple):
    """Filtered moments at the epoch before the window, shape (K, V) each."""

    mean: FloatArray
    var: FloatArray


class LogisticSmoothed(NamedTuple):
    """Moments over a window, (E, K, V) each, and what its epochs add to the bound, (E, K)."""

    filtered_mean: FloatArray
    filtered_var: FloatArray
    mean: FloatArray
    var: FloatArray
    log_z: FloatArray


@dataclass(frozen=True, slots=True)
class LogisticNormalText:
    """Words from softmax(b_t), b_t ~ N(b_{t-1}, drift), b ~ N(0, birth_var) at birth.

    Blei and Lafferty's dynamic topics as components. Everything is dense in the vocabulary: a sweep
    costs some fifteen Kalman passes over (E, K, V) cells of 50 ns, a row that is seated
    a few over V. Meant for up to a few thousand words; `TextDecay` has no such limit.

    Attributes
    ----------
    n_words : int
        Size V of the vocabulary, which is closed.
    drift : float
        Variance of a step of a word's log weight from epoch to epoch; learned from then on.
    birth_var : float
    drift_guess : float
        What it began as, the prior of what is learned; 0: ``drift``.
    drift_sums : ndarray of float64, shape (2,)
        Steps and their squares, from epochs that have left the window; both fade.

    Examples
    --------
    >>> from scipy import sparse
    >>> from streamddcrp.models.temporal.engine import Engine, Settings
    >>> engine = Engine(Settings(alpha=1.0, kappa=(0.5,)), LogisticNormalText(n_words=4))
    >>> X = sparse.csr_array([[20, 9, 0, 0], [11, 19, 0, 0], [0, 0, 33, 12], [0, 1, 25, 14]])
    >>> scores = engine.learn(X)
    >>> engine.ids[engine.resp[-1].argmax(axis=1)]
    array([1, 1, 2, 2])
    """

    n_words: int
    drift: float = 0.05
    birth_var: float = 2.0
    drift_guess: float = 0.0
    drift_sums: FloatArray = field(default_factory=lambda: np.zeros(2))

    least = 1e-4

    def stats(self, X: Any, q: FloatArray) -> LogisticStats:
        """Return the expected counts of an epoch's rows (N, V) under assignments (N, K)."""
        X = sparse.csr_array(X)
        if X.shape[1] > self.n_words:
            msg = (
                f"rows have {X.shape[1]} words; the vocabulary is closed at n_words={self.n_words}"
            )
            raise ValueError(msg)
        out = np.zeros((q.shape[1], self.n_words))
        out[:, : X.shape[1]] = (X.T @ q).T
        return LogisticStats(out)

    def joined(self, parts: list[Any]) -> Any:
        """Return the rows of an epoch that came in parts."""
        none = sparse.csr_array((0, self.n_words))
        wide = [sparse.csr_array(X, shape=(X.shape[0], self.n_words)) for X in parts]
        return sparse.csr_array(sparse.vstack([none, *wide]))

    def no_starts(self, K: int) -> LogisticStarts:
        """Return places for what is known of components from before the window."""
        return LogisticStarts(np.zeros((K, self.n_words)), np.zeros((K, self.n_words)))

    def smooth(
        self, stats: LogisticStats, starts: LogisticStarts, begins: IntArray
    ) -> LogisticSmoothed:
        """Fit all components over the window."""
        shape = stats.counts.shape
        out = LogisticSmoothed(
            np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape), np.empty(shape[:2])
        )
        smooth_chains(
            stats.counts, begins, starts.mean, starts.var, self.birth_var, self.drift, _TOL,
            _ITERATIONS, out.filtered_mean, out.filtered_var, out.mean, out.var, out.log_z,
        )  # fmt: skip
        return out

    def expected(
        self, X: Any, smoothed: LogisticSmoothed, epoch: int, begins: IntArray, q: FloatArray
    ) -> FloatArray:
        """Return expected log likelihoods (N, K), to a bound, of rows of an epoch of the window."""
        offsets, words, counts = as_rows(X)
        out, normaliser = np.empty((len(offsets) - 1, len(begins))), np.empty(len(begins))
        log_normalisers(smoothed.mean[epoch], smoothed.var[epoch], normaliser)
        logistic_expected(offsets, words, counts, smoothed.mean[epoch], normaliser, out)
        out[:, begins > epoch] = -np.inf
        return out

    def frozen(self, smoothed: LogisticSmoothed) -> LogisticStarts:
        """Return the filtered moments of the first epoch of the window."""
        return LogisticStarts(smoothed.filtered_mean[0].copy(), smoothed.filtered_var[0].copy())

    def ahead(self, smoothed: LogisticSmoothed, steps: int = 1) -> LogisticStarts:
        """Return moments predicted for an epoch after the window."""
        return LogisticStarts(
            smoothed.filtered_mean[-1].copy(), smoothed.filtered_var[-1] + steps * self.drift
        )

    def seating(self, past: FloatArray, ahead: LogisticStarts) -> "LogisticSeating":
        """Begin an epoch: components have decayed past counts (K,) and predicted moments."""
        return LogisticSeating(self, past, ahead)

    def near(self, smoothed: LogisticSmoothed, begins: IntArray) -> tuple[IntArray, IntArray]:
        """Return pairs of components whose latest word laws are less than 1.2 apart in L1."""
        mean = smoothed.filtered_mean[-1]
        law = np.exp(mean - mean.max(axis=1, keepdims=True))
        law /= law.sum(axis=1, keepdims=True)
        a, b = np.triu_indices(len(begins), 1)
        gap = np.array([np.abs(law[i] - law[j]).sum() for i, j in zip(a, b, strict=True)])
        return a[gap < _NEAR], b[gap < _NEAR]

    def mixed(self, rows: list[Any], resp: list[FloatArray], starts: Any, least: float) -> IntArray:
        """Return none: components are not parted."""
        return np.zeros(0, np.int64)

    def learned(
        self, stats: LogisticStats, smoothed: LogisticSmoothed, begins: IntArray
    ) -> "LogisticNormalText":
        """Fit the drift to the window and to what has left it."""
        guess = self.drift_guess or self.drift
        n, square = self.drift_sums + self._steps(stats, smoothed, begins).sum(axis=0)
        return replace(self, drift=(_STEPS * guess + square) / (_STEPS + n), drift_guess=guess)

    def forgotten(
        self, stats: LogisticStats, smoothed: LogisticSmoothed, begins: IntArray
    ) -> "LogisticNormalText":
        """Take the steps out of the first epoch of the window over, for it is about to leave."""
        steps = self._steps(stats, smoothed, begins)
        more = steps[0] if len(steps) else 0.0
        return replace(self, drift_sums=_FORGET * self.drift_sums + more)

    def _steps(
        self, stats: LogisticStats, smoothed: LogisticSmoothed, begins: IntArray
    ) -> FloatArray:
        """Return steps between epochs of the window and their expected squares, (E - 1, 2).

        Of words that a component has in either epoch: all others would only repeat the variance
        that there is, and with it learning would take for ever.
        """
        mean, var = smoothed.mean, smoothed.var
        lagged = var[1:] / (1.0 + self.drift / smoothed.filtered_var[:-1])
        square = (mean[1:] - mean[:-1]) ** 2 + var[1:] + var[:-1] - 2.0 * lagged
        have = stats.counts[1:] + stats.counts[:-1] >= _HAVE
        size = stats.counts.sum(axis=2)
        there = (begins < np.arange(1, len(size))[:, None]) & (size[1:] > 0.0) & (size[:-1] > 0.0)
        have &= there[:, :, None]
        return np.stack(
            [have.sum(axis=(1, 2)), np.where(have, square, 0.0).sum(axis=(1, 2))], axis=1
        )


class LogisticSeating:
    """The open epoch: who sits where so far, and the word laws that follow from it."""

    def __init__(
        self, emission: LogisticNormalText, past: FloatArray, ahead: LogisticStarts
    ) -> None:
        K, V = ahead.mean.shape
        self.n_components = K
        self._emission = emission
        normaliser = np.empty(K)
        log_normalisers(ahead.mean, ahead.var, normaliser)
        zeros = [np.zeros((K, V)) for _ in range(3)]
        self._arrays = [
            past.copy(), np.zeros(K), zeros[0], ahead.mean, ahead.var, ahead.mean.copy(),
            ahead.var.copy(), zeros[1], zeros[2], normaliser,
        ]  # fmt: skip

    def seat(self, X: Any, a0: float, log_new: float) -> Seats:
        """Seat rows (N, V) one after the other."""
        emission = self._emission
        offsets, words, counts = as_rows(X)
        if words.max(initial=-1) >= emission.n_words:
            msg = (
                f"word {words.max()} is beyond the vocabulary, closed at n_words={emission.n_words}"
            )
            raise ValueError(msg)
        scores, chances = np.empty(len(offsets) - 1), np.empty((len(offsets) - 1, 2))
        q = np.zeros((len(scores), len(self._arrays[0])))
        done = 0
        while True:
            state: tuple[Any, ...] = (*self._arrays, q, scores, chances)
            done, self.n_components = _seat(
                offsets, words, counts, done, self.n_components, a0, log_new, emission.least,
                emission.birth_var, emission.drift, _TOL, _ROW_ITERATIONS, *state,
            )  # fmt: skip
            if done == len(scores):
                return Seats(q[:, : self.n_components], scores, chances)
            self._arrays, q = [doubled(part) for part in self._arrays], doubled(q, axis=1)
