"""Subtract seasons from the columns of a stream, and keep their levels."""

from collections.abc import Hashable
from typing import Any, Self

import numpy as np
import pyarrow as pa
from river import base

from streamddcrp.data import Vectorizer, as_time, check_clocked, check_times
from streamddcrp.data.scaled import tell_of_constants
from streamddcrp.data.seasons.periods import Periods
from streamddcrp.data.seasons.subtracted import Subtraction
from streamddcrp.data.windows import refuse_beyond
from streamddcrp.estimator.row_model import Features, RowLearner
from streamddcrp.estimator.scikit import Options
from streamddcrp.estimator.stored import check_clock, from_json, to_json
from streamddcrp.typing import FloatArray

_FIRST = 128  # rows that tell of constant columns: the least in which "auto" looks for a period


class Seasonal(Options, RowLearner, base.Transformer):
    """Subtract the season of each column as it is learned, and keep the level.

    The remainder shows shifts, trends and faults that daily or weekly cycles would hide. The season
    is a sum of harmonics, learned together with a level that may jump. A shift of the level or a
    fault is therefore not part of the season, but a step in every period is. Several columns that
    step in the same row make this clearer. The amplitude may change. Only the part of each harmonic
    that is not noise is subtracted; a period you give is not tested.

    Parameters
    ----------
    period : "auto", "calendar", str, float or list of str or float, default "auto"
        "hour", "day", "week" (with its days) and "year", or a duration such as "12h", need row
        times: time stamps, or numbers in seconds. A number is a period in the unit of the times, or
        in rows if there are no times. "auto" looks for a period, and a longer multiple of it, after
        128, 192, 256, 384, .. and at last 4096 rows, and logs its findings; the highest peaks of a
        comb periodogram are tested by the scores of their predictions (see
        `streamddcrp.data.seasons.periods`). At least four periods must have passed. A day, or a
        week if rows are far apart, is found by the clock as soon as it leads enough, after two of
        them, and then a week beside the day (see `streamddcrp.data.seasons.watch`); "calendar"
        looks for these only, with times and up to 8 columns.

    Notes
    -----
    O(H^2) time a row and column, 1 to 5 microseconds, and O(H^2) memory a column, with H harmonics:
    up to 12 of the shortest period and 24 of longer ones, if the rows can resolve them. "auto"
    keeps 4096 rows until it has decided, which takes 0.2 to 5 s in total, in portions of some 30 ms
    a row. A season remembers 8 of its longest periods, or 25 rows per coefficient if that is more.

    Rows with times may have gaps; without times a missing row must come as a row of missing values.
    The season continues across missing values.

    A river pipeline passes no times and learns a row before transforming it, so rows would be
    miscounted: use ``SeqDDCRP(season=...)`` there.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> signal = 5.0 * np.sin(2 * np.pi * np.arange(600.0) / 24) + rng.normal(size=600)
    >>> signal[400:] += 6.0  # hidden by the cycle
    >>> seasons = Seasonal()
    >>> level = seasons.step_many(signal[:, None])["0"].to_numpy()
    >>> seasons.periods, seasons.in_use
    ((24.0,), {0: True})
    >>> float(level[300:400].std()), float(level[400:500].mean() - level[300:400].mean())
    (0.9, 6.0)
    """

    def __init__(self, period: Periods = "auto") -> None:
        self.period = period
        self._season = Subtraction(period)
        self._first = np.empty((0, 0))  # the first rows, until there are enough; not stored
        super().__init__()

    # -- learning --------------------------------------------------------------------------------

    def step_many(self, batch: object, t: object = None) -> pa.RecordBatch:
        """Transform each row of a batch by the rows before it, then learn it, in one pass.

        Returns
        -------
        pyarrow.RecordBatch
            The columns as floats minus their seasons; null where a value is missing.
        """
        out = self._learn_batch(batch, t)
        names = [str(name) for name in self._vectorizer.columns or ()]  # empty before a first row
        columns = (np.ascontiguousarray(x) for x in out.T[: len(names)])
        cells = [pa.array(x, mask=np.isnan(x)) for x in columns]
        return pa.RecordBatch.from_arrays(cells, names)

    def _advance(self, X: FloatArray, t: FloatArray | None, types: list[str]) -> FloatArray:
        if len(X) == 0:
            return X
        refuse_beyond(X, self._vectorizer.names)
        self._check_times(t)
        self._season.check(t)
        if self.n_seen < _FIRST:
            rows = X[: _FIRST - self.n_seen]
            self._first = np.concatenate([self._first.reshape(-1, X.shape[1]), rows])
            if self.n_seen + len(rows) == _FIRST:
                tell_of_constants(self._first, self._vectorizer.names)
                self._first = np.empty((0, 0))
        self._last_time = None if t is None else float(t[-1])
        self._clocked = t is not None
        return self._season.step(X, t)

    @property
    def n_seen(self) -> int:
        """Number of rows learned."""
        return self._season.n_rows

    # -- transforming ----------------------------------------------------------------------------

    def transform_one(self, x: Features, t: Any = None) -> dict[Hashable, Any]:
        """Return a row minus its season, given the rows learned so far; changes nothing.

        None where a value is missing; unknown columns are left out. Without ``t`` the time is that
        of the last row learned or, without times, of the row after it.
        """
        row = self._vectorizer.transform(x, learn=False)
        names = self._vectorizer.columns or tuple(sorted(x))
        if self._clocked is not None:
            check_clocked(self._clocked, t is not None or self._clocked)
            last = self._last_time if self._clocked else float(self._season.n_rows)
            when = np.array([last if t is None else as_time(t)])
            check_times(when, self._last_time)
            row = self._season.less(row[None], when)[0]
        values = (None if np.isnan(value) else float(value) for value in row)
        return dict(zip(names, values, strict=True))

    # -- looking ---------------------------------------------------------------------------------

    @property
    def periods(self) -> tuple[float, ...]:
        """The periods, in the unit of the times or in rows; empty while unknown."""
        tracker = self._season.tracker
        return () if tracker is None else tuple(tracker.periods.tolist())

    @property
    def in_use(self) -> dict[Hashable, bool]:
        """Whether the season of each column is subtracted at present."""
        columns, tracker = self._vectorizer.columns or (), self._season.tracker
        used = [False] * len(columns) if tracker is None else tracker.in_use
        return dict(zip(columns, used, strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays in memory."""
        return self._season.nbytes

    # -- checkpoints -----------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays, season = self._season.state()
        meta = {
            "options": {"period": to_json(self.period)},
            "vectorizer": self._vectorizer.to_config(),
            "clocked": self._clocked,
            "last_time": self._last_time,
            "season": season,
        }
        return arrays, meta

    @classmethod
    def _from_state(cls, arrays: dict[str, Any], meta: dict[str, Any]) -> Self:
        model = cls(from_json(meta["options"]["period"]))
        model._vectorizer = Vectorizer.from_config(meta["vectorizer"])
        model._clocked, model._last_time = meta["clocked"], meta["last_time"]
        check_clock(meta)
        D = model._vectorizer.n_features
        model._season.restore(arrays, meta["season"], D, meta["last_time"])
        return model
