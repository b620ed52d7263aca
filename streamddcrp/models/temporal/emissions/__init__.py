"""Emissions: the distribution of a component's rows, and how it moves from epoch to epoch."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from streamddcrp.data.documents import Word
from streamddcrp.typing import FloatArray, IntArray


class Moments(NamedTuple):
    """Mean and variance of the parameters of components, shape (K, D) each."""

    mean: FloatArray
    var: FloatArray


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
    one ``exp(log_new)``. Where a new one is the likeliest of all it is opened, and the row is its
    own; otherwise the row is shared among the components there are.

    Parameters
    ----------
    *arrays : ndarray, shape (K, ..)
        Of the components: decayed past counts and whatever else `_assign` takes.
    """

    def __init__(self, *arrays: FloatArray) -> None:
        self._arrays = [array.copy() for array in arrays]
        self.n_components = len(arrays[0])

    def _rows(self, X: Any) -> Any:
        """Return rows as the kernel takes them."""
        raise NotImplementedError

    def _assign(self, rows: Any, start: int, a0: float, log_new: float, *out: FloatArray) -> int:
        """Assign rows from ``start`` on while there is room; return how many are done."""
        raise NotImplementedError

    def seat(self, X: Any, a0: float, log_new: float) -> Seats:
        """Assign rows; the result does not depend on how they are cut into calls."""
        rows, N, done = self._rows(X), X.shape[0], 0
        scores, chances = np.empty(N), np.empty((N, 2))
        q = np.zeros((N, len(self._arrays[0])))
        while True:
            done = self._assign(rows, done, a0, log_new, q, scores, chances)
            if done == N:
                return Seats(q[:, : self.n_components], scores, chances)
            if self.n_components == len(self._arrays[0]):
                more = len(self._arrays[0]) + 8
                q = np.pad(q, ((0, 0), (0, more)))
                self._arrays = [
                    np.pad(part, ((0, more), *[(0, 0)] * (part.ndim - 1))) for part in self._arrays
                ]


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

    def joined(self, parts: list[Any]) -> Any:
        """Return the rows of an epoch that came in parts, maybe none."""

    def no_starts(self, K: int) -> Any:
        """Return empty starts: what is known of K components from before the window."""

    def smooth(self, stats: Any, starts: Any, begins: IntArray) -> Any:
        """Return the posterior over the window.

        It has ``log_z`` (E, K), the log evidence of each component's rows of an epoch given those
        of the epochs before.
        """

    def expected(
        self, X: Any, smoothed: Any, epoch: int, begins: IntArray, q: FloatArray
    ) -> FloatArray:
        """Return scores (N, K) of the rows of an epoch.

        Expected log likelihoods, or collapsed ones, from which the rows' own shares ``q`` in what
        was smoothed are taken out; -inf where a component is not yet born.
        """
        raise NotImplementedError

    def frozen(self, smoothed: Any) -> Any:
        """Return the starts that follow once the first epoch has left the window.

        Filtered, not smoothed, else the rows of the window would count twice.
        """

    def ahead(self, smoothed: Any, steps: int = 1) -> Any:
        """Return what is predicted for an epoch after the window."""

    def seating(self, past: FloatArray, ahead: Any) -> Seating:
        """Begin an epoch of components with decayed past counts (K,) and what was predicted."""
        raise NotImplementedError

    def near(self, smoothed: Any, begins: IntArray) -> tuple[IntArray, IntArray]:
        """Return pairs of components that may be one."""
        raise NotImplementedError

    def mixed(self, rows: list[Any], resp: list[FloatArray], starts: Any, least: float) -> IntArray:
        """Return which components, of those with ``least`` rows in the window, may be two."""
        return np.flatnonzero(sum(q.sum(axis=0) for q in resp) >= least)

    def halves(
        self, rows: list[Any], resp: list[FloatArray], k: int, alone: Any, epoch: int
    ) -> list[FloatArray] | None:
        """Return what part of each row of the window would leave ``k`` from an epoch on, 0 to 1.

        None if ``k`` shows no sign of being two.
        """
        return None

    def split(
        self, rows: list[Any], own: list[FloatArray], sides: list[FloatArray], before: FloatArray,
        starts: Any, begins: IntArray, a0: float, weights: FloatArray,
    ) -> tuple[list[FloatArray], Any]:  # fmt: skip
        """Share rows between two components; needed only where some have `halves`.

        ``own`` (N_e, 1) is the component's share of the rows of every epoch, ``sides`` (N_e,) from
        `halves` the part that leaves at first. In turns the two are smoothed and rows shared by
        expected log likelihoods and decayed counts; ``before`` (W, 2, 3) are those of the past.
        Return shares (N_e, 2) and the last smoothing.
        """
        message = f"{type(self).__name__} does not split components"
        raise TypeError(message)

    def learned(self, stats: Any, smoothed: Any, begins: IntArray) -> Self:
        """Return the emission with its scales fitted to the window and what has left it."""
        return self

    def forgotten(self, stats: Any, smoothed: Any, begins: IntArray) -> Self:
        """Return the emission that has noted the first epoch of the window, about to leave."""
        return self

    def summary(
        self, stats: Any, smoothed: Any, epoch: int, which: IntArray, names: Sequence[Word]
    ) -> Summary:
        """Describe components ``which`` of an epoch of the window.

        ``stats`` (K, ..) are of that epoch; ``names`` are the words by number.
        """
        raise NotImplementedError

    def latest(self, stats: Any, smoothed: Any, fresh: Any, names: Sequence[Word]) -> Summary:
        """Describe all components as they are now.

        ``fresh`` (K, ..): statistics of the rows of the open epoch, which alone describe the last
        components, those that it has begun; ``stats, smoothed``: of the window, for the others, or
        None if there are no others.
        """
        raise NotImplementedError


def rows_of_epochs(first: IntArray, rows: FloatArray) -> list[FloatArray]:
    """Cut rows of a window into those of its epochs, which begin at ``first`` (E + 1,)."""
    return [rows[a:b] for a, b in pairwise(first)]
