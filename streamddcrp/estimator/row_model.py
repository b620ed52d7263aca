"""Shared by models of numeric rows."""

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
    """A learner of numeric rows, one by one or in batches, with or without times.

    This class checks rows and times and ensures that a refused row changes nothing; `_advance`
    learns.
    """

    def __init__(self, *, is_open: bool = False) -> None:
        self._vectorizer = Vectorizer(open=is_open)
        self._clocked: bool | None = None  # whether rows come with times
        self._last_time: float | None = None
        self._backlog = Backlog()

    def _advance(self, X: Any, t: FloatArray | None, types: Any) -> Any:
        """Check rows and times, then learn all of them; raises before any change."""
        raise NotImplementedError

    def _read_row(self, x: Any) -> tuple[Any, Any]:
        """Return a row as a batch in the form of `_advance`, and the types of its values."""
        X = self._vectorizer.row(x)
        return X, row_types(x, self._vectorizer.columns or ()) if self._wants_types else []

    def _read_rows(self, batch: Any) -> tuple[Any, Any]:
        """Return the rows of a batch in the form of `_advance`, and the types of their values."""
        return read_batch(batch, self._vectorizer)

    @property
    def _wants_types(self) -> bool:
        """Whether `_advance` needs the original types of a row's values."""
        return False

    @property
    def n_seen(self) -> int:
        """Number of rows learned."""
        raise NotImplementedError

    def _keep(self, X: FloatArray, t: FloatArray | None, given: object, out: Any) -> None:
        """Note newly learned rows, with the output of `_advance`."""

    def learn_one(self, x: Features, t: Any = None) -> None:
        """Learn one row.

        Parameters
        ----------
        x : mapping
            Feature name to number; None or an absent feature is a missing value.
        t : number or time stamp, optional
            Time of the row; by default its arrival index.

        Raises
        ------
        SchemaError
            A value is not finite or is outside the family's support. Nothing was learned.
        OrderError
            ``t`` precedes the time of the previous row. Nothing was learned.
        """
        self._learn_row(x, t)

    def _learn_row(self, x: Features, t: Any, *side: Any) -> None:
        """Learn one row; pass ``side`` inputs, if the model has any, to `_advance`."""
        mark, before = self._vectorizer.mark(), self.n_seen
        try:
            X, types = self._read_row(x)
            times = None if t is None else np.array([as_time(t)])
            with undisturbed:
                out = self._advance(X, times, types, *side)
                self._keep(X, times, t, out)
        except BaseException:
            if self.n_seen == before:
                self._vectorizer.rollback(mark)
            raise

    def learn_many(self, batch: object, t: object = None) -> None:
        """Learn a batch of rows, with the same result, bit for bit, as one by one.

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
            X, types = self._read_rows(batch)
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
        """Refuse decreasing times, and mixing rows with and without times."""
        if self._clocked is not (t is not None):
            check_clocked(self._clocked, t is not None)
        if t is not None:
            check_times(t, self._last_time)

    def _feature_names(self) -> list[str]:
        return self._vectorizer.names


class RowModel(ScikitLearn, AsIfNext, RowLearner):
    """A model of numeric rows.

    It defines the form of predictions and of files. A subclass supplies

    - `_advance`: learns rows and returns predictions, in the columns of `predictions`;
    - `_has_begun`: whether the warm-up is complete and it can predict;
    - `_check_rows`: refuses rows outside the support of its likelihood;
    - `_predict_row`: predicts one row, and changes nothing;
    - `_state` and `_restore`, for checkpoints, with `_progress` for the fields of this class.
    """

    def __init__(self, *, is_open: bool = False) -> None:
        super().__init__(is_open=is_open)
        self._n_seen = 0
        self._events_read = 0

    # -- supplied by a model ---------------------------------------------------------------------

    @property
    def _has_begun(self) -> bool:
        raise NotImplementedError

    def _check_rows(self, X: FloatArray, names: list[str]) -> None:
        raise NotImplementedError

    def _predict_row(self, x: FloatArray, t: float) -> tuple[FloatArray, Probabilities]:
        """Return the predictions of a checked row (D,), and a function for the tables'."""
        raise NotImplementedError

    def _restore(self, arrays: dict[str, Any], meta: dict[str, Any]) -> None:
        raise NotImplementedError

    # -- learning --------------------------------------------------------------------------------

    def step_many(self, batch: object, t: object = None, *, index: bool = False) -> pa.RecordBatch:
        """Predict each row of a batch, then learn it, in one pass.

        Parameters
        ----------
        index : bool, default False
            Give the results the index of a pandas frame; ``to_pandas`` restores it.

        Returns
        -------
        pyarrow.RecordBatch
            One row each: ``label`` (int64, most probable table before the row was learned),
            ``label_prob``, ``score`` (-log predictive density in nats), ``p_new`` (probability of a
            new table), ``p_change`` (probability that the regime of the previous rows has ended),
            ``n_tables`` (int64). Floats are null in warm-up. Given times come first, as ``time``.
        """
        return self._stepped(batch, t, index)

    def _stepped(self, batch: object, t: object, index: bool, *side: Any) -> pa.RecordBatch:
        """Learn a batch and return what `step_many` does; ``side`` as for `_learn_row`."""
        held = index_of(batch, index)
        return with_index(held, with_times(self._named(self._learn_batch(batch, t, *side)), t))

    def _named(self, out: Any) -> pa.RecordBatch:
        return predictions(out)

    # -- predicting ------------------------------------------------------------------------------

    def predict_one(self, x: Features, t: Any = None) -> int:
        """Return the id of the most probable table, or the next id if a new one is."""
        return self._label_of(self._predict(x, t))

    def predict_proba_one(self, x: Features, t: Any = None) -> dict[int, float]:
        """Return the probability of each table, with -1 for a new one."""
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
        """Predict a row without changing anything; None in warm-up."""
        X, names = self._read(x)
        if not self._has_begun:
            return None
        self._check_rows(X, names)
        return self._predict_row(X[0], self._time_of(t), *side)

    def _read(self, x: Features) -> tuple[FloatArray, list[str]]:
        """Return the values (1, D) and columns of a row; new words count, but are not learned."""
        mark = self._vectorizer.mark()
        try:
            return self._vectorizer.row(x, learn=self._vectorizer.open), self._feature_names()
        finally:
            self._vectorizer.rollback(mark)

    def _time_of(self, t: Any) -> float:
        """Return the time of a row to predict, by default the last time or the arrival index."""
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
        """Return the options and this class's fields as JSON values."""
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
