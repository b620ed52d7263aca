"""What a component's law over time must be able to do for the engine."""

from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from streamddcrp.typing import FloatArray, IntArray


class Seats(NamedTuple):
    """Where rows were seated.

    Attributes
    ----------
    q : ndarray of float64, shape (N, K)
        Assignments; K counts the components opened on the way.
    scores : ndarray of float64, shape (N,)
        -log of the summed weights times densities: the surprise but for the log of all weights.
    chances : ndarray of float64, shape (N, 2)
        Probability, before the row was seated, of a new component, and of one whose decayed past is
        less than half a row.
    """

    q: FloatArray
    scores: FloatArray
    chances: FloatArray


class Seating(Protocol):
    """The open epoch: its rows are seated as they come, by marginal predictives.

    Component k has weight a0 + (decayed past count) + (expected rows of the epoch so far), a new
    one ``exp(log_new)``. Where a new one is the likeliest of all it is opened, and the row is its
    own; otherwise the row is shared among the components there are.
    """

    n_components: int

    def seat(self, X: Any, a0: float, log_new: float) -> Seats:
        """Seat rows, in one compiled call; the result depends on the rows only, not on the cuts."""


class Emission(Protocol):
    """Law of the rows of a component, and how it moves from epoch to epoch.

    K components, E epochs of a window. Rows of an epoch, ``X``, have a length and are whatever the
    emission takes. ``Stats`` and ``Starts`` are named tuples of arrays of shapes (E, K, ..) and
    (K, ..): the engine stacks, adds and picks their entries by component without knowing them.
    ``begins`` (K,) is the epoch of the window in which a component was born, -1 if before it.
    ``least`` is what part of its likeliest component's share a row's share of another must be, else
    it is nothing.
    """

    least: float

    def stats(self, X: Any, q: FloatArray) -> Any:
        """Return the statistics (K, ..) of an epoch under assignments (N, K)."""

    def joined(self, parts: list[Any]) -> Any:
        """Return the rows of an epoch that came in parts, maybe none."""

    def no_starts(self, K: int) -> Any:
        """Return empty places for what is known of K components from before the window."""

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

    def frozen(self, smoothed: Any) -> Any:
        """Return the starts that follow once the first epoch has left the window.

        Filtered, not smoothed, else the rows of the window would count twice.
        """

    def seating(self, past: FloatArray, ahead: Any) -> Seating:
        """Begin an epoch."""

    def ahead(self, smoothed: Any, steps: int = 1) -> Any:
        """Return what is predicted for an epoch after the window."""

    def near(self, smoothed: Any, begins: IntArray) -> tuple[IntArray, IntArray]:
        """Return pairs of components that may be one."""

    def mixed(self, rows: list[Any], resp: list[FloatArray], starts: Any, least: float) -> IntArray:
        """Return which components, of those with ``least`` rows in the window, may be two."""

    def halves(
        self, rows: list[Any], resp: list[FloatArray], k: int, alone: Any, epoch: int
    ) -> list[FloatArray] | None:
        """Return what part of each row of the window would leave ``k`` from an epoch on, 0 to 1.

        None if ``k`` shows no sign of being two.
        """

    def parted(
        self, rows: list[Any], own: list[FloatArray], sides: list[FloatArray], before: FloatArray,
        starts: Any, begins: IntArray, a0: float, kappa: FloatArray,
    ) -> tuple[list[FloatArray], Any]:  # fmt: skip
        """Share rows between two components; needed only where some are `mixed`.

        ``own`` (N_e, 1) is what they have of the rows of every epoch, ``sides`` (N_e,) from
        `halves` the part that leaves at first. In turns the two are smoothed and rows shared by
        expected log likelihoods and decayed counts; ``before`` (W, 2, 3) are those of the past.
        Return shares (N_e, 2) and the last smoothing.
        """

    def learned(self, stats: Any, smoothed: Any, begins: IntArray) -> Self:
        """Return the emission with its scales fitted to the window and what has left it."""

    def forgotten(self, stats: Any, smoothed: Any, begins: IntArray) -> Self:
        """Return the emission that has noted the first epoch of the window, about to leave."""


def heavy(resp: list[FloatArray], least: float) -> IntArray:
    """Return which components have so many rows in a window."""
    return np.flatnonzero(sum(q.sum(axis=0) for q in resp) >= least)


def doubled(array: FloatArray, axis: int = 0) -> FloatArray:
    """Return an array with twice the room, and eight more, along an axis."""
    room = [(0, 0)] * array.ndim
    room[axis] = (0, array.shape[axis] + 8)
    return np.pad(array, room)
