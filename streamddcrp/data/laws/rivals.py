"""Whether a season belongs to a column, or to the regimes that the column follows."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from streamddcrp.data.laws.filters import FEWEST, LEVEL, NOTHING, Filters, Law, scale_of
from streamddcrp.records import FINITE, VALUE, check_one, stored_array
from streamddcrp.typing import FloatArray

LAWS = (
    LEVEL, Law(1.0, 0.3, jumps=True), Law(1.0, 3.0, jumps=False),
    Law(0.97, 0.01, jumps=True, trend=True),
)  # fmt: skip
TOGETHER, SAY = 16, 2.0  # rows, and the nats they may add to a lead: no event proves a season

_KEPT = {"score": FINITE, "rows": VALUE, "lifted": FINITE, "before": FINITE}


class Rivals:
    """Whether a season or a law without one predicts columns better: leads, equation (9).

    Filters of several laws follow the values as they are and those less the season, and the best of
    each compete; scores count from row ``first`` on. A column that only follows a plan is levels
    that come again, one that lags behind such a column is a trend with jumps: neither is a season.
    """

    def __init__(self, n_columns: int, first: int) -> None:
        n = 2 * n_columns * len(LAWS)
        self.filters, self.score = Filters.of(n), np.zeros(n)
        self.rows = np.zeros((FEWEST, 2 * n_columns))  # the first ones, by which filters begin
        self.first, self.n_rows = max(first, FEWEST), 0
        self.lifted = np.zeros(n_columns)  # nats by which leads were lifted, or cut
        self.before = np.zeros(n_columns)  # leads before the last rows that are judged together

    def step(self, X: FloatArray, net: FloatArray) -> None:
        """Take rows (N, D) as they are and less their seasons; see what they add to the leads."""
        done = 0
        while done < len(X):
            least = max(TOGETHER - self.n_rows % TOGETHER, self.first - self.n_rows)
            upto = min(done + least, len(X))
            self.learn(X[done:upto], net[done:upto])
            done = upto
            if self.n_rows % TOGETHER == 0:
                before, (plain, less) = self.leads, self.scores
                self.before, self.lifted = before, before - (less - plain)

    def learn(self, X: FloatArray, net: FloatArray) -> None:
        """Add up the scores of rows (N, D) as they are and less their seasons."""
        both, n, done = np.column_stack([X, net]), self.n_rows, 0
        self.n_rows += len(X)
        if n < FEWEST:
            done = min(FEWEST - n, len(X))
            self.rows[n : n + done] = both[:done]
            if n + done < FEWEST:
                return
            for d, scale in enumerate([*map(scale_of, self.rows.T[: X.shape[1]])] * 2):
                if scale is not None:
                    for k, law in enumerate(LAWS):
                        self.filters.begin(d * len(LAWS) + k, law, scale, NOTHING)
            self._learn(self.rows, np.zeros_like(self.score))
        counts = max(done, min(self.first - n, len(X)))
        self._learn(both[done:counts], np.zeros_like(self.score))
        self._learn(both[counts:], self.score)

    def _learn(self, both: FloatArray, score: FloatArray) -> None:
        self.filters.step(np.repeat(both, len(LAWS), axis=1), score)

    @property
    def scores(self) -> FloatArray:
        """Log score of the best law for each column as it is, and less its season, (2, D)."""
        return np.asarray(self.score.reshape(2, -1, len(LAWS)).max(axis=2))

    @property
    def leads(self) -> FloatArray:
        """Nats by which the season predicts each column better, (D,)."""
        raw, net = self.scores
        return np.asarray(np.minimum(net - raw + self.lifted, self.before + SAY))

    def lift(self, least: float) -> None:
        """Raise leads below ``least`` nats to it.

        The chance that one ever comes to b is then e^-b, and e^(least - b) more for each time.
        """
        more = np.maximum(least - self.leads, 0.0)
        self.lifted, self.before = self.lifted + more, self.before + more

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return self.filters.nbytes + self.score.nbytes + self.rows.nbytes

    def arrays(self) -> dict[str, Any]:
        """Return copies of the arrays, for a checkpoint."""
        own = {f"rivals.{name}": getattr(self, name).copy() for name in _KEPT}
        return self.filters.arrays("rivals.") | own

    def restore(self, arrays: Mapping[str, Any], n_rows: int) -> None:
        """Restore `arrays`, or begin where a state has none; raises CheckpointError."""
        if not any(name.startswith("rivals.") for name in arrays):
            return
        self.n_rows = n_rows
        for name, within in _KEPT.items():
            mine = getattr(self, name)
            stored = stored_array(f"rivals.{name}", arrays)
            check_one(f"rivals.{name}", stored, mine.shape, np.float64, within)
            mine[:] = stored
        self.filters.restore(arrays, "rivals.")
