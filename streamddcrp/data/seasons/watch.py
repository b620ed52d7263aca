"""The clock's own periods on trial, while rows come: is there an hour, a day, a week or a year?

A trial is a filter of the season, beside the rows as they are used. At each row "level + season"
and "level" predict, the season as it was at least a period before, and the difference of their log
scores is added up: the lead. Under the law of the level a lead of 5 nats ever comes about with
probability e^-5 at most (Ville's inequality), whatever the number of rows; the logarithm of the
number of trials and columns is added. So nothing has to wait for a certain row, and nothing of the
rows has to be kept.
"""

import math
from collections.abc import Mapping
from typing import Any

from streamddcrp.data.seasons.tracker import NEEDED, Tracker
from streamddcrp.records import MOST, Array, refuse_if
from streamddcrp.typing import FloatArray

UNITS = ((3600.0, 86400.0), (604800.0, 31556952.0))  # seconds; the first pair that rows can show
LEAST, LONGEST = 7, 2048  # rows in a period: a week of days has 7
_MEMORY = ("forget", "rate", "keep")
WIDEST = 8  # columns, as a trial costs time for each
FEWEST = 64  # rows, by which the kinds of columns are known
SEEN = 3  # periods that must have passed
ROWS, CYCLES = 4096, 8  # after so many rows, and cycles of the longest period, a watch ends


def trials(gap: float, used: list[float]) -> list[list[float]]:
    """Return the periods that are tried where rows usually lie so far apart.

    Parameters
    ----------
    gap : float
        Seconds.
    used : list of float
        Periods in use, rising; a longer one is then tried beside them.
    """
    pairs = [[unit for unit in pair if LEAST <= unit / gap <= LONGEST] for pair in UNITS]
    if used:
        return [[*used, unit] for pair in pairs for unit in pair if unit > used[-1]][:1]
    return next(([[unit] for unit in pair] for pair in pairs if pair), [])


class Watch:
    """Trials of the clock's periods.

    Parameters
    ----------
    n_columns : int
    gap : float
        Usual distance of two rows, in seconds.
    used : list of float
        Periods in use.
    """

    def __init__(self, n_columns: int, gap: float, used: list[float]) -> None:
        wanted = trials(gap, used) if n_columns <= WIDEST else []
        self.trackers = [Tracker(each, gap, n_columns, judges=True) for each in wanted]
        for tracker in self.trackers:
            longest = tracker.periods[-1] / gap
            tracker.setting = tracker.setting._replace(
                first=math.ceil(2.0 * longest), lag=round(longest)
            )
        self.rival: Tracker | None = None
        if used and wanted:  # by the same memory, or the longer period would win by a longer one
            self.rival = Tracker(used, gap, n_columns)
            memory = {name: getattr(self.trackers[0].setting, name) for name in _MEMORY}
            self.rival.setting = self.rival.setting._replace(**memory)
        self.n_rows = 0
        self.needed = NEEDED + math.log(max(len(wanted) * n_columns, 1))
        longest = max((each[-1] / gap for each in wanted), default=0.0)
        self.last = max(ROWS, math.ceil(CYCLES * longest)) if wanted else 0

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to be found any more."""
        return self.n_rows >= self.last

    def step(self, X: FloatArray, t: FloatArray) -> None:
        """Learn rows (N, D) at times (N,)."""
        net = X if self.rival is None else self.rival.step(X, t)
        for tracker in self.trackers:
            tracker.step(X, t, net)
        self.n_rows += len(X)

    def found(self) -> Tracker | None:
        """Return the trial that leads enough, and most; None if there is none."""
        span = self.n_rows if self.n_rows >= FEWEST else 0
        old = [one for one in self.trackers if span * one.gap >= SEEN * one.periods[-1]]
        best = max(old, key=lambda one: float(one.state.lead.max()), default=None)
        return None if best is None or best.state.lead.max() <= self.needed else best

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return sum(tracker.nbytes for tracker in self._all)

    @property
    def _all(self) -> list[Tracker]:
        return self.trackers if self.rival is None else [*self.trackers, self.rival]

    def arrays(self) -> dict[str, Any]:
        """Return copies of the arrays, for a checkpoint."""
        return {
            f"watch{k}.{name}": array
            for k, tracker in enumerate(self._all)
            for name, array in tracker.arrays().items()
        }

    def restore(self, arrays: Mapping[str, Array], n_rows: object) -> None:
        """Take up what `arrays` returned after so many rows; raises CheckpointError."""
        refuse_if(type(n_rows) is not int or not 0 <= n_rows <= MOST, "rows of season")
        self.n_rows = n_rows
        refuse_if(self.is_over, "rows of season")
        for k, tracker in enumerate(self._all):
            own = f"watch{k}."
            tracker.restore({n.removeprefix(own): a for n, a in arrays.items() if n.startswith(own)})
