"""What models that take rows of numbers have in common."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa

from streamddcrp.contract import LABEL, SCORE
from streamddcrp.data import Vectorizer, as_time, check_clocked, check_times
from streamddcrp.data.batches import batch_times, read_batch, row_types
from streamddcrp.errors import SchemaError
from streamddcrp.estimator import stored
from streamddcrp.estimator.as_if_next import AsIfNext
from streamddcrp.estimator.interrupts import undisturbed
from streamddcrp.estimator.scikit import ScikitLearn
from streamddcrp.estimator.views import Backlog, index_of, predictions, with_index, with_times
from streamddcrp.typing import FloatArray, Probabilities

Features = Mapping[Any, Any]
Predicted = tuple[FloatArray, Probabilities] | None  # None in warm-up


class RowLearner(stored.Stored):
    """What learns rows of numbers, one by one or in batches, with times or without.

    What a row is, which times are allowed, and that a refused row changes nothing, is decided here;
    `_advance` learns.
    """

    def __init__(self, *, is_open: bool = False) -> None:
        self._vectorizer = Vectorizer(open=is_open)
        self._clocked: bool | None = None  # whether rows come with times
        self._last_time: float | None = None
        self._backlog = Backlog()

    def _advance(self, X: FloatArray, t: FloatArray | None, types: list[str]) -> Any:
        """Check rows and times, then learn them all; raises before anything has changed."""
        raise NotImplementedError

    @property
    def _wants_types(self) -> bool:
        """Whether `_advance` needs the types that the values of a row came as."""
        return False

    @property
    def n_seen(self) -> int:
        """Number of rows learned."""
        raise NotImplementedError

    def _keep(self, X: FloatArray, t: FloatArray | None, given: object, out: Any) -> None:
        """Take note of rows that have just been learned, with what `_advance` returned."""

    def learn_one(self, x: Features, t: Any = None) -> None:
        """Learn one row.

        Parameters
        ----------
        x : mapping
            Feature name to number; None, or an absent feature, is a missing value.
        t : number or time stamp, optional
            Its time; without it the arrival index is the time.

        Raises
        ------
        SchemaError
            A value is not a finite number or outside the family's support. Nothing was learned.
        OrderError
            ``t`` is before the time of the row before. Nothing was learned.
        """
        self._learn_row(x, t)

    def _learn_row(self, x: Features, t: Any, *side: Any) -> None:
        """Learn one row; ``side`` inputs, where a model has them, are passed on to `_advance`."""
        mark, before = self._vectorizer.mark(), self.n_seen
        try:
            X = self._vectorizer.row(x)
            types = row_types(x, self._vectorizer.columns or ()) if self._wants_types else []
            times = None if t is None else np.array([as_time(t)])
            with undisturbed:
                out = self._advance(X, times, types, *side)
                self._keep(X, times, t, out)
        except BaseException:
            if self.n_seen == before:
                self._vectorizer.rollback(mark)
            raise

    def learn_many(self, batch: object, t: object = None) -> None:
        """Learn a batch of rows; the same, bit for bit, as learning them one by one.

        Parameters
        ----------
        batch : Arrow table or batch, data frame, or array_like of shape (N, D)
        t : array_like of shape (N,), optional

        Raises
        ------
        SchemaError, OrderError
            As for `learn_one`, with the row's number in ``row``. Nothing was learned.
        """
        self._learn_batch(batch, t)

    def _learn_batch(self, batch: object, t: object, *side: Any) -> Any:
        mark, before = self._vectorizer.mark(), self.n_seen
        try:
            X, types = read_batch(batch, self._vectorizer)
            times = None if t is None else batch_times(t, len(X))
            self._backlog.begin()
            out = self._advance(X, times, types, *side)
        except BaseException:
            if self.n_seen == before:
                self._vectorizer.rollback(mark)
                self._backlog.begin()
            raise
        self._keep(X, times, t, out)
        return out

    def _check_times(self, t: FloatArray | None) -> None:
        """Refuse times that run backwards, and rows with times among rows without."""
        if self._clocked is not (t is not None):
            check_clocked(self._clocked, t is not None)
        if t is not None:
            check_times(t, self._last_time)

    def _feature_names(self) -> list[str]:
        return self._vectorizer.names


class RowModel(ScikitLearn, AsIfNext, RowLearner):
    """A model of rows of numbers.

    How predictions look, and what files have in common, is decided here. A model supplies

    - `_advance`: learns rows and returns predictions, as the columns of `predictions`;
    - `_has_begun`: whether it can predict, or still collects the rows of a warm-up;
    - `_check_rows`: refuses rows outside the support of its likelihood;
    - `_predict_row`: predicts one row, and changes nothing;
    - `_state` and `_restore`, for checkpoints, with `_progress` and `_take_up` for what is kept
      here.
    """

    def __init__(self, *, is_open: bool = False) -> None:
        super().__init__(is_open=is_open)
        self._n_seen = 0
        self._events_read = 0

    # -- what a model supplies -------------------------------------------------------------------

    @property
    def _has_begun(self) -> bool:
        raise NotImplementedError

    def _check_rows(self, X: FloatArray, names: list[str]) -> None:
        raise NotImplementedError

    def _predict_row(self, x: FloatArray, t: float) -> tuple[FloatArray, Probabilities]:
        """Return the predictions of a checked row (D,), and what returns those of the tables."""
        raise NotImplementedError

    def _restore(self, arrays: dict[str, Any], meta: dict[str, Any]) -> None:
        raise NotImplementedError

    # -- learning --------------------------------------------------------------------------------

    def step_many(self, batch: object, t: object = None, *, index: bool = False) -> pa.RecordBatch:
        """Predict each row of a batch, then learn it, in one pass.

        Parameters
        ----------
        index : bool, default False
            Give the results the index of a pandas frame, which ``to_pandas`` restores.

        Returns
        -------
        pyarrow.RecordBatch
            A row each with ``label`` (int64, the most probable table before the row was learned),
            ``label_prob``, ``score`` (-log predictive density in nats), ``p_new`` (probability of a
            new table), ``p_change`` (that the regime of the rows before it has been left),
            ``n_tables`` (int64). The floats are null in warm-up. Where times are given, they come
            first, as ``time``.
        """
        return self._stepped(batch, t, index)

    def _stepped(self, batch: object, t: object, index: bool, *side: Any) -> pa.RecordBatch:
        """Learn a batch and return what `step_many` does; ``side`` as for `_learn_row`."""
        held = index_of(batch, index)
        return with_index(held, with_times(self._named(self._learn_batch(batch, t, *side)), t))

    def _named(self, out: Any) -> pa.RecordBatch:
        """Return the outputs of a step by name."""
        return predictions(out)

    # -- predicting ------------------------------------------------------------------------------

    def predict_one(self, x: Features, t: Any = None) -> int:
        """Return the id of the most probable table; the next id if that is a new one."""
        return self._label_of(self._predict(x, t))

    def predict_proba_one(self, x: Features, t: Any = None) -> dict[int, float]:
        """Return the probability of each table, and under -1 that of a new one."""
        return self._probabilities_of(self._predict(x, t))

    def score_one(self, x: Features, t: Any = None) -> float:
        """Return -log predictive density (nats): high is surprising. 0 in warm-up."""
        return self._score_of(self._predict(x, t))

    def _label_of(self, predicted: Predicted) -> int:
        return 0 if predicted is None else int(predicted[0][LABEL])

    def _probabilities_of(self, predicted: Predicted) -> dict[int, float]:
        if predicted is None:
            return {0: 1.0} if self._n_seen else {-1: 1.0}
        return predicted[1]()

    def _score_of(self, predicted: Predicted) -> float:
        return 0.0 if predicted is None else float(predicted[0][SCORE])

    def _predict(self, x: Features, t: Any, *side: Any) -> Predicted:
        """Predict a row; None in warm-up. Changes nothing."""
        mark = self._vectorizer.mark()
        try:  # new words of an open vocabulary count in the prediction, but are not learned
            X = self._vectorizer.row(x, learn=self._vectorizer.open)
            names = self._feature_names()
        finally:
            self._vectorizer.rollback(mark)
        if not self._has_begun:
            return None
        self._check_rows(X, names)
        return self._predict_row(X[0], self._time_of(t), *side)

    def _time_of(self, t: Any) -> float:
        """Return the time of a row to predict; default: of the last, or the arrival index."""
        if self._clocked:
            time = as_time(t) if t is not None else self._last_time or 0.0
            check_times(np.array([time]), self._last_time)
            return time
        if t is None:
            return float(self._n_seen)
        raise SchemaError("t: the rows before came without times; predict without one, too")

    @property
    def n_seen(self) -> int:
        """Number of rows learned."""
        return self._n_seen

    # -- checkpoints -----------------------------------------------------------------------------

    def _progress(self) -> dict[str, Any]:
        """Return the options and what is kept here, as JSON values."""
        options: dict[str, Any] = self.get_params()
        return {
            "options": {name: stored.to_json(value) for name, value in options.items()},
            "vectorizer": self._vectorizer.to_config(),
            "clocked": self._clocked,
            "last_time": self._last_time,
            "n_seen": self._n_seen,
            "events_read": self._events_read,
        }

    @classmethod
    def _from_state(cls, arrays: dict[str, Any], meta: dict[str, Any]) -> Self:
        stored.refuse_unless_plain(meta, counts=("n_seen", "events_read"))
        stored.check_clock(meta)
        model = cls(**{name: stored.from_json(value) for name, value in meta["options"].items()})
        model._vectorizer = Vectorizer.from_config(meta["vectorizer"])
        for name in ("clocked", "last_time", "n_seen", "events_read"):
            setattr(model, f"_{name}", meta[name])
        model._restore(arrays, meta)
        return model
