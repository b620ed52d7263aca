"""Emissions: the distribution of a component's rows, and its change between epochs."""

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple, Protocol, Self

import numpy as np

from streamddcrp.data.documents import Word
from streamddcrp.typing import FloatArray, IntArray

Parts = list[FloatArray]  # an array for each epoch
Past = tuple[float, FloatArray, FloatArray]  # of `Emission.split`
AnyEmission = Annotated[Any, "an emission", "no_starts"]  # what of one tells it from others


def each(function: Callable[..., Any], *groups: Any) -> Any:
    """Apply a function to the arrays of named tuples of one kind, field by field."""
    return type(groups[0])(*map(function, *groups))


def pick(group: Any, columns: IntArray, axis: int = 1) -> Any:
    """Return some components of a named tuple of arrays."""
    return each(lambda part: np.take(part, columns, axis=axis), group)


def stacked_epochs(parts: Sequence[Any]) -> Any:
    """Return the statistics (E, K, ..) of epochs from those (K, ..) of each."""
    return each(lambda *column: np.stack(column), *parts)


def widened(array: FloatArray, n: int, axis: int = 1) -> FloatArray:
    """Append zeros for ``n`` components to an array."""
    shape = list(array.shape)
    shape[axis] = n
    return np.concatenate([array, np.zeros(shape, array.dtype)], axis=axis)


class Moments(NamedTuple):
    """Mean and variance of the parameters of components, (K, D) each; or covariance, (K, D, D)."""

    mean: FloatArray
    var: FloatArray

    @classmethod
    def none(cls, K: int, D: int) -> Self:
        return cls(np.zeros((K, D)), np.zeros((K, D)))

    @classmethod
    def filtered(cls, smoothed: Any, epoch: int, drift: Any = 0.0) -> Self:
        """Return the knowledge after an epoch or, with ``drift``, predicted for a later one."""
        return cls(smoothed.filtered_mean[epoch].copy(), smoothed.filtered_var[epoch] + drift)


class Summary(NamedTuple):
    """How K components look: point estimates by name, (K, D) each with NaN for none, or words."""

    values: dict[str, FloatArray]
    words: list[str]


class Seats(NamedTuple):
    """Assignments of the open epoch's rows."""

    q: FloatArray  # (N, K): assignments; K includes components opened meanwhile
    scores: FloatArray  # (N,): -log of the summed weights times densities
    # (N, 2): probability, before assignment, of a new component, and of one whose decayed past is
    # less than half a row
    chances: FloatArray


class Seating:
    """The open epoch: rows are assigned as they come, by marginal predictives.

    Component k has weight a0 + (decayed past count) + (expected rows of the epoch so far), and a
    new one ``exp(log_new)``, while slots are free. If a new one is the likeliest it is opened with
    the whole row; otherwise the row is shared among the existing components.

    ``arrays`` (K, ..) are decayed past counts, expected rows of the epoch, and further inputs of
    the kernel ``emission.seat``. It reads ``emission.law``, assigns rows of ``emission.prepared``
    from a first one on while there is room for one more component, and returns the rows done and K.
    """

    def __init__(self, emission: Any, *arrays: FloatArray) -> None:
        self._emission = emission
        self._arrays = [array.copy() for array in arrays]
        self.n_components = len(arrays[0])

    def _rows(self, X: Any) -> Any:
        return self._emission.prepared(X)

    def _assign(self, rows: Any, start: int, a0: float, log_new: float, *out: FloatArray) -> int:
        """Assign rows while there is room; return the number done."""
        law, arrays = self._emission.law, tuple(self._arrays)
        done, self.n_components = self._emission.seat(
            law, rows, start, self.n_components, a0, log_new, arrays, out
        )
        return int(done)

    def seat(self, X: Any, a0: float, log_new: float, slots: int) -> Seats:
        """Assign rows; the result does not depend on the cuts between calls."""
        rows, N, done = self._rows(X), X.shape[0], 0
        scores, chances = np.empty(N), np.empty((N, 2))
        q = np.zeros((N, len(self._arrays[0])))
        while True:
            if self.n_components == slots:
                log_new = -math.inf
            done = self._assign(rows, done, a0, log_new, q, scores, chances)
            if done == N:
                return Seats(q[:, : self.n_components], scores, chances)
            if self.n_components == len(self._arrays[0]):
                more = max(min(self.n_components + 8, slots - self.n_components), 1)
                q = widened(q, more)
                self._arrays = [widened(part, more, 0) for part in self._arrays]


class Emission(Protocol):
    """Distribution of a component's rows, and its change between epochs.

    K components, E epochs of a window. Rows of an epoch, ``X``, have a length and an
    emission-specific type. Statistics and starts are named tuples of arrays of shapes (E, K, ..)
    and (K, ..), which the window stacks, adds and indexes by component without interpreting them.
    ``begins`` (K,) is the epoch of the window in which a component was born, -1 if earlier. A row's
    share below ``least`` times its likeliest component's counts as zero.
    """

    least: float

    def stats(self, X: Any, q: FloatArray) -> Any:
        """Return the statistics (K, ..) of an epoch under assignments (N, K)."""

    def stats_of_epochs(self, rows: list[Any], resp: Parts) -> Any:
        """Return the statistics (E, K, ..) of epochs under their assignments."""
        return stacked_epochs([self.stats(X, q) for X, q in zip(rows, resp, strict=True)])

    def joined(self, parts: list[Any]) -> Any:
        """Return the rows of an epoch that came in parts, perhaps none."""

    def no_starts(self, K: int) -> Any:
        """Return empty starts: the knowledge of K components from before the window."""

    def smooth(self, stats: Any, starts: Any, begins: IntArray) -> Any:
        """Return the posterior over the window, and log evidence (E, K) of epochs in order."""

    def expected(
        self, X: Any, smoothed: Any, epoch: int, begins: IntArray, q: FloatArray
    ) -> FloatArray:
        """Return expected log likelihoods (N, K) of rows, or collapsed ones; -inf before birth."""
        raise NotImplementedError

    def frozen(self, smoothed: Any) -> Any:
        """Return the starts after the first epoch leaves: filtered, not to count rows twice."""

    def ahead(self, smoothed: Any, steps: int = 1) -> Any:
        """Return the prediction for an epoch after the window."""

    def seating(self, past: FloatArray, ahead: Any) -> Seating:
        """Begin an epoch of components, given decayed past counts (K,) and predictions."""
        raise NotImplementedError

    def near(self, smoothed: Any, begins: IntArray) -> tuple[IntArray, IntArray]:
        """Return pairs of components that may be one."""
        raise NotImplementedError

    def mixed(self, rows: list[Any], resp: Parts, starts: Any, least: float) -> IntArray:
        """Return the components, with ``least`` rows in the window, that may be two."""
        return np.flatnonzero(sum(q.sum(axis=0) for q in resp) >= least)

    def halves(self, rows: list[Any], resp: Parts, k: int, alone: Any, epoch: int) -> Parts | None:
        """Return the share of each row that leaves ``k`` from an epoch on; None: no split."""
        return None

    def split(
        self, rows: list[Any], own: Parts, sides: Parts, past: Past, starts: Any, begins: IntArray
    ) -> tuple[Parts, Any]:
        """Share rows between two components, starting from `halves`.

        ``own`` (N_e, 1) is the component's share of every epoch's rows, ``sides`` (N_e,) from
        `halves` the initial part that leaves. Smoothing alternates with sharing rows by expected
        log likelihoods and decayed counts; ``past``: the pseudo-count of a slot, and weights (W,)
        and expected rows (W, 2) of the epochs before the window. Returns shares (N_e, 2) and the
        last smoothing.
        """
        raise NotImplementedError

    def learned(self, stats: Any, smoothed: Any, begins: IntArray) -> Self:
        """Return the emission with scales fitted to the window and past epochs."""
        return self

    def forgotten(self, stats: Any, smoothed: Any, begins: IntArray) -> Self:
        """Return the emission updated by the first epoch of the window, which will leave."""
        return self

    def summary(
        self, stats: Any, smoothed: Any, epoch: int, which: IntArray, names: Sequence[Word]
    ) -> Summary:
        """Describe components ``which`` of an epoch with ``stats``; ``names``: words by number."""
        raise NotImplementedError

    def latest(self, smoothed: Any, fresh: Any, names: Sequence[Word]) -> Summary:
        """Describe all components as they are now.

        ``fresh`` (K, ..): statistics of the open epoch, the only description of components begun in
        it, which come last; ``smoothed``: of the window, or None without components.
        """
        raise NotImplementedError


def since(epoch: int, sizes: Sequence[int], values: FloatArray) -> Parts:
    """Cut values of the rows from an epoch on into epochs, with zeros for those before."""
    ends = np.cumsum(sizes[epoch:])[:-1]
    return [np.zeros(n) for n in sizes[:epoch]] + np.split(values, ends)


def halved(rows: Parts, own: Parts, sides: Parts) -> tuple[tuple[Any, ...], FloatArray]:
    """Return rows (N, D) of a window, the first of each epoch (E + 1,), own shares; and halves."""
    share, side = np.concatenate(own), np.concatenate(sides)[:, None]
    halves = np.concatenate([share * (1.0 - side), share * side], axis=1)
    return (np.concatenate(rows), np.cumsum([0, *map(len, rows)]), share), halves


def divided(own: Parts, sides: Parts) -> Parts:
    """Return what stays and what leaves, (N_e, 2), of the shares (N_e, 1) of rows: see `split`."""
    pairs = (np.stack([1.0 - side, side], axis=1) for side in sides)
    return [share * pair for share, pair in zip(own, pairs, strict=True)]
