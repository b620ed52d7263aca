"""The day and the week on trial: whether columns follow the clock, while rows come.

The trial is a filter of the season, beside the rows as they are used. The laws of columns predict
each value as it is, and less the season as it was at least half a period before, and the difference
of their log scores is added up: the lead, equation (9) of ``docs/math/column_laws.md``. Without a
season a lead of 5 nats ever comes about with probability of about e^-5 at most (Ville's
inequality), whatever the number of rows; the logarithm of the number of columns and laws is added.
So nothing has to wait for a certain row, and no row has to be kept.
A cycle smaller than the noise is left in: it makes no regimes.
A week beside a day must lead over the day alone, learned with the same memory: by a longer one,
any multiple of a period would win.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamddcrp.data.laws.rivals import LAWS, Rivals
from streamddcrp.data.seasons.tracker import NEEDED, Tracker
from streamddcrp.records import MOST, Array, refuse_if
from streamddcrp.typing import FloatArray

DAY = 86400.0  # seconds
SHORTEST, LONGEST = 7, 2048  # rows in a period: a week of days has 7
WIDEST = 8  # columns, as a trial costs time for each
LARGE = 0.5  # least share of a column's variance about its level: a smaller cycle splits no regime
SEEN = 2  # periods that must have passed
TOGETHER = 32  # rows: the call for one takes far longer than its arithmetic
FEWEST = 64  # rows, by which the kinds of columns are known
ROWS, CYCLES = 4096, 8  # rows, and periods if they are more, after which a trial ends


def on_trial(gap: float, used: list[float], n_columns: int, day: float = DAY) -> list[float]:
    """Return the periods to try where rows usually lie so far apart; none: no trial.

    A week is tried where rows are too far apart for a day, or beside a day that is in use. Where
    rows have no times, a day is the period that they show.
    """
    longer = [period for period in (day, 7.0 * day) if not used or period > used[-1]]
    shown = [period for period in longer if SHORTEST <= period / gap <= LONGEST]
    return [*used, shown[0]] if shown and n_columns <= WIDEST else []


def lasts(rows: float) -> int:
    """Return after how many rows a period of ``rows`` rows is no longer judged."""
    return max(ROWS, math.ceil(CYCLES * rows))


class Watch:
    """A trial of periods that may come into use; ``gap``: usual distance of rows, in seconds.

    ``day`` is the first of them; ``n_chosen``: periods among which these were chosen by the same
    rows.
    """

    def __init__(
        self, n_columns: int, gap: float, periods: list[float], day: float = DAY,
        n_chosen: float = 1.0,
    ) -> None:  # fmt: skip
        self.trial = Tracker(periods, gap, n_columns, judges=True)
        rows = periods[-1] / gap
        setting = self.trial.setting._replace(
            first=math.ceil(1.5 * rows), lag=math.ceil(0.5 * rows)
        )
        self.trial.setting = setting
        self.rival: Tracker | None = None  # less whose seasons rows come otherwise
        if len(periods) > 1:
            self.rival = Tracker(periods[:-1], gap, n_columns)
            self.rival.setting = self.rival.setting._replace(
                forget=setting.forget, rate=setting.rate, keep=setting.keep
            )
        self.n_rows = 0
        self.rivals = Rivals(n_columns, setting.first)
        self._waiting: list[tuple[FloatArray, FloatArray]] = []  # to be learned together
        self.least = max(FEWEST, math.ceil(SEEN * rows))
        self.last = lasts(rows)
        self.day, self.n_chosen = day, n_chosen
        self.needed = NEEDED + math.log(n_columns * n_chosen * len(LAWS))

    @property
    def is_over(self) -> bool:
        """Whether it has taken long enough."""
        return self.n_rows >= self.last

    def look(self) -> bool:
        """Return whether a season above the noise clearly predicts a column better.

        The lead of a column that is predicted worse starts again at -5 nats.
        """
        self._learn()
        self.rivals.lift(-NEEDED)
        leads = self.rivals.leads > self.needed
        return self.n_rows >= self.least and bool((self.trial.shares()[leads] > LARGE).any())

    @property
    def uses(self) -> NDArray[np.bool_]:
        """The columns (D,) that are not clearly predicted better by levels that jump."""
        return np.asarray(self.rivals.leads > -NEEDED)

    def step(self, X: FloatArray, t: FloatArray) -> None:
        """Take rows (N, D) at times (N,); they are learned `TOGETHER` at least, or when asked."""
        self.n_rows += len(X)
        self._waiting.append((X.copy(), t.copy()))
        if len(X) >= TOGETHER or len(self._waiting) >= TOGETHER:
            self._learn()

    def _learn(self) -> None:
        """Learn the rows that wait."""
        if self._waiting:
            X, t = (np.concatenate(parts) for parts in zip(*self._waiting, strict=True))
            self._waiting = []
            other, net = X if self.rival is None else self.rival.step(X, t), np.empty(X.shape)
            self.trial.step(X, t, net)
            self.rivals.step(other, net)

    @property
    def _parts(self) -> dict[str, Tracker]:
        return {"trial.": self.trial} | ({} if self.rival is None else {"rival.": self.rival})

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return self.rivals.nbytes + sum(tracker.nbytes for tracker in self._parts.values())

    def arrays(self) -> dict[str, Any]:
        """Return copies of the arrays, for a checkpoint."""
        self._learn()
        return self.rivals.arrays() | {
            part + name: array
            for part, tracker in self._parts.items()
            for name, array in tracker.arrays().items()
        }

    def restore(self, arrays: Mapping[str, Array], n_rows: Any) -> None:
        """Take up what `arrays` returned after so many rows; raises CheckpointError."""
        refuse_if(type(n_rows) is not int or not 0 <= n_rows <= MOST, "rows of season")
        self.n_rows = n_rows
        refuse_if(self.is_over, "rows of season")
        self.rivals.restore(arrays, n_rows)
        for part, tracker in self._parts.items():
            tracker.restore({
                name.removeprefix(part): array
                for name, array in arrays.items() if name.startswith(part)
            })  # fmt: skip
