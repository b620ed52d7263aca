"""Columns whose values are held: what is only sent again is no news, and counts as missing.

A sensor that is read once a minute, in rows that come each second, repeats its value; so does one
that reports only what has moved, and a row that is delivered twice. Such a repeat says nothing of
the regime. Values of a few levels repeat as well: they are told from held ones by coming back.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamddcrp.records import VALUE, Within, check_one
from streamddcrp.typing import FloatArray

NEAR = 8  # values before and behind, among which a repeat may be chance ..
LEAST_CHANCE = 1.0 / (2 * NEAR)  # .. and how probable it is where none of them is the same
NEWS, MOST_AGAIN = np.log(2.0), np.log((1.0 + LEAST_CHANCE) / (2.0 * LEAST_CHANCE))  # nats
LEVELS = 12  # a column of so many values, or fewer, has levels that last
LEAD = 10.0  # nats by which rows must say that a column is held, or is not any more


def evidence(y: FloatArray) -> float:
    """Return the log odds that values (N,) are held, docs/math/column_laws.md (10)."""
    y = y[np.isfinite(y)]
    starts = np.flatnonzero(np.append(True, np.diff(y) != 0.0)) if len(y) else np.empty(0, int)
    values, again = y[starts], np.diff(np.append(starts, len(y))) > 1
    if len(np.unique(values)) <= LEVELS:
        return -np.inf
    same, near = np.zeros(len(values)), np.zeros(len(values))
    for lag in range(2, NEAR + 2):
        equal = values[lag:] == values[:-lag]
        for side in (slice(lag, None), slice(None, -lag)):
            same[side] += equal
            near[side] += 1.0
    chance = np.maximum(same / near, LEAST_CHANCE)
    return float(np.where(again, np.log((1.0 + chance) / (2.0 * chance)), -NEWS).sum())


class Held:
    """Which columns of a stream hold their values, and the values sent last."""

    def __init__(self) -> None:
        self.columns = np.empty(0, dtype=np.int64)  # (D,): 1 where values are held
        self._sent = np.empty(0)  # (D,); NaN: none yet

    @property
    def any(self) -> bool:
        """Whether a column is held."""
        return bool(self.columns.any())

    def look(self, X: FloatArray, free: Sequence[bool]) -> bool:
        """Judge the ``free`` columns by rows (N, D) as they came; return if the verdict changed."""
        before = self.columns if len(self.columns) else np.zeros(X.shape[1], dtype=np.int64)
        repeats = np.count_nonzero(X[1:] == X[:-1], axis=0)
        odds = repeats * MOST_AGAIN - (len(X) - 2 * repeats) * NEWS  # at most
        for d in np.flatnonzero((odds > -LEAD) | np.isnan(X).any(axis=0)):
            odds[d] = evidence(X[:, d])
        self.columns = (np.where(before == 1, odds > -LEAD, odds > LEAD) & free).astype(np.int64)
        return not np.array_equal(before, self.columns)

    def begin(self, X: FloatArray) -> FloatArray:
        """Return rows (N, D) from the first one on without repeats; `step` goes on from there."""
        self._sent = np.full(X.shape[1], np.nan)
        return self.step(X)

    def step(self, X: FloatArray, *, learn: bool = True) -> FloatArray:
        """Return rows (N, D), NaN where a held column only repeats the value it sent last."""
        out = X
        for d in np.flatnonzero(self.columns):
            y = np.append(self._sent[d], X[:, d])
            known = np.maximum.accumulate(np.where(np.isfinite(y), np.arange(len(y)), 0))
            repeated = y[1:] == y[known[:-1]]
            if repeated.any():
                out = X.copy() if out is X else out
                out[repeated, d] = np.nan
            if learn:
                self._sent[d] = y[known[-1]]
        return out

    def arrays(self) -> dict[str, Any]:
        """Return copies of the arrays, for a checkpoint."""
        return {"held.columns": self.columns.copy(), "held.sent": self._sent.copy()}

    def restore(self, arrays: Mapping[str, Any], n_columns: int) -> None:
        """Take up what `arrays` returned; raises CheckpointError."""
        if "held.columns" not in arrays:
            return
        columns, sent = arrays["held.columns"], arrays["held.sent"]
        check_one("held.columns", columns, (n_columns,), np.int64, Within(0, 1))
        check_one("held.sent", sent, (n_columns,), np.float64, VALUE)
        self.columns, self._sent = columns.copy(), sent.copy()
