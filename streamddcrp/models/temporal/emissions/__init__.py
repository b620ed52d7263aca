"""Emissions: the distribution of a component's rows, and how it moves from epoch to epoch."""

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple, Protocol, Self

import numpy as np

from streamddcrp.data.documents import Word
from streamddcrp.typing import FloatArray, IntArray

Parts = list[FloatArray]  # an array for each epoch
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
    """Return an array with ``n`` components more, of zeros."""
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
        """Return what was known after an epoch, or with ``drift`` is predicted for a later one."""
        return cls(smoothed.filtered_mean[epoch].copy(), smoothed.filtered_var[epoch] + drift)


class Summary(NamedTuple):
    """How K components look: point estimates by name, (K, D) each with NaN for none, or words."""

    values: dict[str, FloatArray]
    words: list[str]


class Seats(NamedTuple):
    """Where rows of the open epoch were assigned."""

    q: FloatArray  # (N, K): assignments; K counts the components opened on the way
    scores: FloatArray  # (N,): -log of the summed weights times densities
    # (N, 2): probability, before the row was assigned, of a new component, and of one whose decayed
    # past is less than half a row
    chances: FloatArray


class Seating:
    """The open epoch: its rows are assigned as they come, by marginal predictives.

    Component k has weight a0 + (decayed past count) + (expected rows of the epoch so far), a new
    one ``exp(log_new)``, but none once all slots are taken. Where a new one is the likeliest it is
    opened, and the row is its own; otherwise the row is shared among the components there are.

    ``arrays`` (K, ..) are decayed past counts, expected rows of the epoch, and what else the kernel
    ``emission.seat`` takes. It reads ``emission.law``, assigns rows of ``emission.prepared`` from a
    first one on while there is room for one component more, and returns how many are done, and K.
    """

    def __init__(self, emission: Any, *arrays: FloatArray) -> None:
        self._emission = emission
        self._arrays = [array.copy() for array in arrays]
        self.n_components = len(arrays[0])

    def _rows(self, X: Any) -> Any:
        return self._emission.prepared(X)

    def _assign(self, rows: Any, start: int, a0: float, log_new: float, *out: FloatArray) -> int:
        """Assign rows while there is room; return how many are done."""
        law, arrays = self._emission.law, tuple(self._arrays)
        done, self.n_components = self._emission.seat(
            law, rows, start, self.n_components, a0, log_new, arrays, out
        )
        return int(done)

    def seat(self, X: Any, a0: float, log_new: float, slots: int) -> Seats:
        """Assign rows; the result does not depend on how they are cut into calls."""
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
    """Distribution of the rows of a component, and how it moves from epoch to epoch.

    K components, E epochs of a window. Rows of an epoch, ``X``, have a length and are whatever the
    emission takes. Its statistics and starts are named tuples of arrays of shapes (E, K, ..) and
    (K, ..): the window stacks, adds and picks their entries by component without knowing them.
    ``begins`` (K,) is the epoch of the window in which a component was born, -1 if before it. A
    share of a row that is less than ``least`` of its likeliest component's is taken for zero.
    """

    least: float

    def stats(self, X: Any, q: FloatArray) -> Any:
        """Return the statistics (K, ..) of an epoch under assignments (N, K)."""

    def stats_of_epochs(self, rows: list[Any], resp: Parts) -> Any:
        """Return the statistics (E, K, ..) of epochs under their assignments."""
        return stacked_epochs([self.stats(X, q) for X, q in zip(rows, resp, strict=True)])

    def joined(self, parts: list[Any]) -> Any:
        """Return the rows of an epoch that came in parts, maybe none."""

    def no_starts(self, K: int) -> Any:
        """Return empty starts: what is known of K components from before the window."""

    def smooth(self, stats: Any, starts: Any, begins: IntArray) -> Any:
        """Return the posterior over the window, and log evidence (E, K) of epochs in order."""

    def expected(
        self, X: Any, smoothed: Any, epoch: int, begins: IntArray, q: FloatArray
    ) -> FloatArray:
        """Return expected log likelihoods (N, K) of rows, or collapsed ones; -inf before birth."""
        raise NotImplementedError

    def frozen(self, smoothed: Any) -> Any:
        """Return the starts once the first epoch has left: filtered, not to count rows twice."""

    def ahead(self, smoothed: Any, steps: int = 1) -> Any:
        """Return what is predicted for an epoch after the window."""

    def seating(self, past: FloatArray, ahead: Any) -> Seating:
        """Begin an epoch of components with decayed past counts (K,) and what was predicted."""
        raise NotImplementedError

    def near(self, smoothed: Any, begins: IntArray) -> tuple[IntArray, IntArray]:
        """Return pairs of components that may be one."""
        raise NotImplementedError

    def mixed(self, rows: list[Any], resp: Parts, starts: Any, least: float) -> IntArray:
        """Return which components, of those with ``least`` rows in the window, may be two."""
        return np.flatnonzero(sum(q.sum(axis=0) for q in resp) >= least)

    def halves(self, rows: list[Any], resp: Parts, k: int, alone: Any, epoch: int) -> Parts | None:
        """Return what part of each row would leave ``k`` from an epoch on; None: it is not two."""
        return None

    def split(
        self, rows: list[Any], own: Parts, sides: Parts, before: FloatArray,
        starts: Any, begins: IntArray, a0: float, weights: FloatArray,
    ) -> tuple[Parts, Any]:  # fmt: skip
        """Share rows between two components where `halves` says so.

        ``own`` (N_e, 1) is the component's share of the rows of every epoch, ``sides`` (N_e,) from
        `halves` the part that leaves at first. In turns the two are smoothed and rows shared by
        expected log likelihoods and decayed counts; ``before`` (W, 2, 3) are those of the past.
        Return shares (N_e, 2) and the last smoothing.
        """
        raise NotImplementedError

    def learned(self, stats: Any, smoothed: Any, begins: IntArray) -> Self:
        """Return the emission with its scales fitted to the window and what has left it."""
        return self

    def forgotten(self, stats: Any, smoothed: Any, begins: IntArray) -> Self:
        """Return the emission that has noted the first epoch of the window, about to leave."""
        return self

    def summary(
        self, stats: Any, smoothed: Any, epoch: int, which: IntArray, names: Sequence[Word]
    ) -> Summary:
        """Describe components ``which`` of an epoch with ``stats``; ``names``: words by number."""
        raise NotImplementedError

    def latest(self, stats: Any, smoothed: Any, fresh: Any, names: Sequence[Word]) -> Summary:
        """Describe all components as they are now.

        ``fresh`` (K, ..): statistics of the open epoch, which alone describe the components that it
        has begun, the last ones; ``stats, smoothed``: of the window, or None without components.
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
