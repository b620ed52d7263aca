"""Logistic-normal emission: word distributions that drift, for small vocabularies."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from streamddcrp.data.documents import Word, top_words
from streamddcrp.models.temporal.emissions import Emission, Moments, Parts, Seating, Summary
from streamddcrp.models.temporal.emissions.bags import as_rows
from streamddcrp.models.temporal.kernels.logistic import (
    log_normalisers,
    logistic_expected,
    seat_logistic,
    smooth_chains,
)
from streamddcrp.typing import FloatArray, IntArray

_NEAR = 1.2  # L1 distance of word distributions up to which two components may be one
_TOL = 1e-3  # nats that an iteration must gain for another to follow
_ITERATIONS = 40
_HAVE = 1.0  # expected count from which the step of a word is looked at
_STEPS = 20.0  # steps that the first guess of the drift counts for
_FORGET = 0.9  # an epoch, of what the drift is learned from
_ROW_ITERATIONS = 4  # after each row of an epoch that is open


class LogisticStats(NamedTuple):
    """Expected counts, shape (E, K, V)."""

    counts: FloatArray


class LogisticSmoothed(NamedTuple):
    """Moments over a window, (E, K, V) each, and what its epochs add to the bound, (E, K)."""

    filtered_mean: FloatArray
    filtered_var: FloatArray
    mean: FloatArray
    var: FloatArray
    log_z: FloatArray


@dataclass(frozen=True, slots=True)
class LogisticNormalText(Emission):
    """Words from softmax(b_t), b_t ~ N(b_{t-1}, drift), b ~ N(0, birth_var) at birth.

    Blei and Lafferty's dynamic topics as components. Everything is dense in the vocabulary: a sweep
    costs some fifteen Kalman passes over (E, K, V) cells of 50 ns, a row that is assigned a few
    over V. Meant for up to a few thousand words; `TextDecay` has no such limit.

    Examples
    --------
    >>> from scipy import sparse
    >>> from streamddcrp.models.temporal.engine import Engine
    >>> from streamddcrp.models.temporal.window import Settings
    >>> engine = Engine(Settings(alpha=1.0, past_weights=(0.5,)), LogisticNormalText(n_words=4))
    >>> X = sparse.csr_array([[20, 9, 0, 0], [11, 19, 0, 0], [0, 0, 33, 12], [0, 1, 25, 14]])
    >>> scores = engine.learn(X)
    >>> engine.ids[engine.resp[-1].argmax(axis=1)]
    array([1, 1, 2, 2])
    """

    n_words: int  # V, of a closed vocabulary
    drift: float = 0.05  # variance of a step of a word's log weight; learned from then on
    birth_var: float = 2.0
    drift_guess: float = 0.0  # the prior of what is learned; 0: ``drift``
    # Steps and their squares, from epochs that have left the window; both fade.
    drift_sums: FloatArray = field(default_factory=lambda: np.zeros(2))

    least = 1e-4

    def stats(self, X: Any, q: FloatArray) -> LogisticStats:
        X = sparse.csr_array(X)
        if X.shape[1] > self.n_words:
            message = f"rows have {X.shape[1]} words; the vocabulary is closed at {self.n_words}"
            raise ValueError(message)
        out = np.zeros((q.shape[1], self.n_words))
        out[:, : X.shape[1]] = (X.T @ q).T
        return LogisticStats(out)

    def joined(self, parts: list[Any]) -> Any:
        none = sparse.csr_array((0, self.n_words))
        wide = [sparse.csr_array(X, shape=(X.shape[0], self.n_words)) for X in parts]
        return sparse.csr_array(sparse.vstack([none, *wide]))

    def no_starts(self, K: int) -> Moments:
        return Moments.none(K, self.n_words)

    def smooth(self, stats: LogisticStats, starts: Moments, begins: IntArray) -> LogisticSmoothed:
        shape = stats.counts.shape
        out = LogisticSmoothed._make([*np.empty((4, *shape)), np.empty(shape[:2])])
        smooth_chains(
            stats.counts, begins, *starts, self.birth_var, self.drift, _TOL, _ITERATIONS, *out
        )  # fmt: skip
        return out

    def expected(
        self, X: Any, smoothed: LogisticSmoothed, epoch: int, begins: IntArray, q: FloatArray
    ) -> FloatArray:
        offsets, words, counts = as_rows(X)
        out, normaliser = np.empty((len(offsets) - 1, len(begins))), np.empty(len(begins))
        log_normalisers(smoothed.mean[epoch], smoothed.var[epoch], normaliser)
        logistic_expected(offsets, words, counts, smoothed.mean[epoch], normaliser, out)
        out[:, begins > epoch] = -np.inf
        return out

    def frozen(self, smoothed: LogisticSmoothed) -> Moments:
        return Moments.filtered(smoothed, 0)

    def ahead(self, smoothed: LogisticSmoothed, steps: int = 1) -> Moments:
        return Moments.filtered(smoothed, -1, steps * self.drift)

    def seating(self, past: FloatArray, ahead: Moments) -> Seating:
        normaliser, none = np.empty(len(past)), np.zeros_like(ahead.mean)
        log_normalisers(*ahead, normaliser)
        arrays = none, *ahead, *ahead, none, none, normaliser
        return Seating(self, past, np.zeros(len(past)), *arrays)

    def prepared(self, X: Any) -> tuple[IntArray, IntArray, FloatArray]:
        rows = as_rows(X)
        if rows[1].max(initial=-1) >= self.n_words:
            message = (
                f"word {rows[1].max()} is beyond the vocabulary, closed at n_words={self.n_words}"
            )
            raise ValueError(message)
        return rows

    def assign(
        self, rows: Any, K: int, arrays: Parts, start: int, a0: float, log_new: float,
        *out: FloatArray,
    ) -> tuple[int, int]:  # fmt: skip
        found: tuple[int, int] = seat_logistic(
            *rows, start, K, a0, log_new, self.least, self.birth_var, self.drift, _TOL,
            _ROW_ITERATIONS, *arrays, *out,
        )  # fmt: skip
        return found

    def near(self, smoothed: LogisticSmoothed, begins: IntArray) -> tuple[IntArray, IntArray]:
        mean = smoothed.filtered_mean[-1]
        law = np.exp(mean - mean.max(axis=1, keepdims=True))
        law /= law.sum(axis=1, keepdims=True)
        a, b = np.triu_indices(len(begins), 1)
        gap = np.array([np.abs(law[i] - law[j]).sum() for i, j in zip(a, b, strict=True)])
        return a[gap < _NEAR], b[gap < _NEAR]

    def mixed(self, rows: list[Any], resp: Parts, starts: Any, least: float) -> IntArray:
        return np.zeros(0, np.int64)  # components are not split

    def learned(
        self, stats: LogisticStats, smoothed: LogisticSmoothed, begins: IntArray
    ) -> "LogisticNormalText":
        guess = self.drift_guess or self.drift
        n, square = self.drift_sums + self._steps(stats, smoothed, begins).sum(axis=0)
        return replace(self, drift=(_STEPS * guess + square) / (_STEPS + n), drift_guess=guess)

    def forgotten(
        self, stats: LogisticStats, smoothed: LogisticSmoothed, begins: IntArray
    ) -> "LogisticNormalText":
        steps = self._steps(stats, smoothed, begins)
        more = steps[0] if len(steps) else 0.0
        return replace(self, drift_sums=_FORGET * self.drift_sums + more)

    def _steps(
        self, stats: LogisticStats, smoothed: LogisticSmoothed, begins: IntArray
    ) -> FloatArray:
        """Return steps between epochs of the window and their expected squares, (E - 1, 2).

        Of words that a component has in either epoch: all others would only repeat the present
        variance, and learning would be slow.
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

    def summary(
        self, stats: LogisticStats, smoothed: Any, epoch: int, which: IntArray,
        names: Sequence[Word],
    ) -> Summary:  # fmt: skip
        totals, out = stats.counts.sum(axis=0), []
        for k in which.tolist():
            words = np.flatnonzero(stats.counts[k])
            out.append(top_words(words, stats.counts[k, words], totals, names))
        return Summary({}, out)

    def latest(
        self, stats: LogisticStats | None, smoothed: Any, fresh: LogisticStats,
        names: Sequence[Word],
    ) -> Summary:  # fmt: skip
        counts = fresh.counts.copy()
        if stats is not None:
            counts[: stats.counts.shape[1]] += stats.counts.sum(axis=0)
        return self.summary(LogisticStats(counts), None, 0, np.arange(len(counts)), names)
