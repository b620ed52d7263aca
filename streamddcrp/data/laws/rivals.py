"""Whether a season belongs to a column, or to the regimes that the column follows."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from streamddcrp.data.laws.filters import FEWEST, LEVEL, NOTHING, Filters, scale_of
from streamddcrp.records import FINITE, VALUE, check_one, stored_array
from streamddcrp.typing import FloatArray


class Rivals:
    """Whether columns are told better with a season, or by a level that jumps and comes again.

    Both are filters of the level with jumps, of the values as they are and of those less the
    season: a column that only follows a plan is its levels, and no season.

    Parameters
    ----------
    n_columns : int
    first : int
        Rows from which scores count.
    """

    def __init__(self, n_columns: int, first: int) -> None:
        self.filters, self.score = Filters.of(2 * n_columns), np.zeros(2 * n_columns)
        self.rows = np.zeros((FEWEST, 2 * n_columns))  # the first ones, by which filters begin
        self.first, self.n_rows = max(first, FEWEST), 0

    def step(self, X: FloatArray, net: FloatArray) -> None:
        """Take rows (N, D) as they are and less their seasons."""
        both, n, done = np.column_stack([X, net]), self.n_rows, 0
        self.n_rows += len(X)
        if n < FEWEST:
            done = min(FEWEST - n, len(X))
            self.rows[n : n + done] = both[:done]
            if n + done < FEWEST:
                return
            for d, scale in enumerate([*map(scale_of, self.rows.T[: X.shape[1]])] * 2):
                if scale is not None:
                    self.filters.begin(d, LEVEL, scale, NOTHING)
            self.filters.step(self.rows, np.zeros_like(self.score))
        counts = max(done, min(self.first - n, len(X)))
        self.filters.step(both[done:counts], np.zeros_like(self.score))
        self.filters.step(both[counts:], self.score)

    @property
    def leads(self) -> FloatArray:
        """By how much the season tells each column better, (D,)."""
        raw, net = self.score.reshape(2, -1)
        return np.asarray(net - raw)

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return self.filters.nbytes + self.score.nbytes + self.rows.nbytes

    def arrays(self) -> dict[str, Any]:
        """Return copies of the arrays, for a checkpoint."""
        own = {"rivals.score": self.score.copy(), "rivals.rows": self.rows.copy()}
        return self.filters.arrays("rivals.") | own

    def restore(self, arrays: Mapping[str, Any], n_rows: int) -> None:
        """Restore what `arrays` returned after a number of rows; raises CheckpointError.

        A state of before there were rivals has none: they begin now.
        """
        if not any(name.startswith("rivals.") for name in arrays):
            return
        self.n_rows = n_rows
        for name, mine, within in (("score", self.score, FINITE), ("rows", self.rows, VALUE)):
            stored = stored_array(f"rivals.{name}", arrays)
            check_one(f"rivals.{name}", stored, mine.shape, np.float64, within)
            mine[:] = stored
        self.filters.restore(arrays, "rivals.")
