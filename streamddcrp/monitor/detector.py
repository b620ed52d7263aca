"""Alarms on a stream: an anomaly detector in river's sense around `SeqDDCRP`.

A new detector for each stream: for single odd rows, for what is odd for many rows, and for that
where normal values drift::

    detector = RegimeAnomalyDetector(rate=0.001)
    detector = RegimeAnomalyDetector(average=20, reference_after=200)
    detector = RegimeAnomalyDetector(
        SeqDDCRP(likelihood=("autoregression", 1)), average=20, reference_after=200
    )

It takes tables and data frames in batches of any size (a recorded run in one)::

    out = detector.step_many(table)  # columns label, score, threshold, alarm

or row by row, as any detector of river's::

    for x in rows:
        alarm = detector.score_one(x) > detector.threshold
        detector.learn_one(x)
"""

import math
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Self

import numpy as np
import pyarrow as pa
from river import base

from streamddcrp.contract import Event
from streamddcrp.data.batches import batch_times, read_batch, sliceable
from streamddcrp.errors import SchemaError
from streamddcrp.estimator.reasons import Explains, Explanation
from streamddcrp.estimator.scikit import Options
from streamddcrp.estimator.stored import Stored
from streamddcrp.estimator.views import index_of, with_index
from streamddcrp.models.seqddcrp.estimator import SeqDDCRP
from streamddcrp.models.seqddcrp.reference import Reference
from streamddcrp.models.seqddcrp.warmup import FIRST_STAGE
from streamddcrp.monitor.alarm import Alarm, Alarms, verdicts_of
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import whole


class RegimeAnomalyDetector(Options, Explains, Stored, base.AnomalyDetector):
    """Anomaly detection by the surprise of a model of regimes, with a calibrated threshold.

    The score is the surprise -log p(x) of a `SeqDDCRP`, predicted before the row is learned; the
    threshold is that of an `Alarm`. The model adapts to anything that persists, so its own surprise
    is for rows that are odd by themselves and for moments of change. For anomalies that last, the
    score is the surprise relative to a `Reference`: the tables as they were after the first rows,
    which are taken for normal; the mean of a few rows then shows small anomalies, too.

    Parameters
    ----------
    model : SeqDDCRP, optional
        The model to use, which goes on learning all rows. Default: a `SeqDDCRP`
        without tempering and with links that reach 8 rows, which gave fewer false alarms.
    rate : float, default 0.001
        Probability that a row in control begins an alarm.
    average : int, default 1
        The score is the mean of so many rows; 10 to 30 suit anomalies that last.
    reference_after : int, optional
        Number of first rows whose tables become the reference; the rows after them calibrate the
        threshold. Default: no reference, the surprise is that of the model as it is.

    Notes
    -----
    The cost of the model and about 1 microsecond a row; row by row, twice that of the model. To
    give reasons `step_many` copies the model, about half a millisecond a batch, and learns a batch
    again up to the last row at which an alarm begins.

    Examples
    --------
    >>> import numpy as np
    >>> from streamddcrp import RegimeAnomalyDetector
    >>> usual = np.random.default_rng(0).normal(size=(700, 1))
    >>> detector = RegimeAnomalyDetector(rate=0.01, average=10, reference_after=300)
    >>> sum(detector.step_many(usual)["alarm"].to_pylist())
    11
    >>> sum(detector.step_many(usual[:40] + 2.0)["alarm"].to_pylist())
    39
    """

    def __init__(
        self, model: SeqDDCRP | None = None, *, rate: float = 0.001, average: int = 1,
        reference_after: int | None = None,
    ) -> None:  # fmt: skip
        self.model = model
        self.rate = rate
        self.average = average
        self.reference_after = reference_after
        self._model = SeqDDCRP(temper=False, decay=("exponential", 8.0)) if model is None else model
        self._alarm = Alarm(rate, average)
        self._reference: Reference | None = None
        begun = min(self._model.warmup, FIRST_STAGE)
        if reference_after is not None:  # rows after which the model has begun
            self.reference_after = whole("reference_after", reference_after, begun)
        self._follow()

    # -- learning --------------------------------------------------------------------------------

    def learn_one(self, x: Mapping[Any, Any], t: Any = None) -> None:
        """Learn one row; parameters and errors as for `SeqDDCRP.learn_one`."""
        if self._model.verdicts:  # which need the row's label
            self.step_many([x], None if t is None else [t])
            return
        score = self._surprise(x, t)
        self._model.learn_one(x, t)
        self._judge(np.array([score]))
        self._follow()

    def learn_many(self, batch: object, t: Any = None) -> None:
        """Learn a batch of rows; the same, bit for bit, as learning them one by one."""
        self.step_many(batch, t)

    def step_many(self, batch: object, t: Any = None, *, index: bool = False) -> pa.RecordBatch:
        """Judge each row of a batch, then learn it, in one pass.

        Parameters
        ----------
        batch, t
            As for `SeqDDCRP.step_many`, which also lists the errors.
        index : bool, default False
            Give the results the index of a pandas frame, which ``to_pandas`` restores.

        Returns
        -------
        pyarrow.RecordBatch
            A row each with ``label`` (int64, the id of the table, predicted before the row was
            learned), ``score`` (null during warm-up; until the reference is taken, the surprise of
            the model at the single row), ``threshold`` (infinite while too few rows have been
            seen), ``alarm`` (bool) and, where an alarm begins, ``why``: what `explain_one` says of
            the row before it is learned; before them ``time``, where times are given.
        """
        held, rows = index_of(batch, index), sliceable(batch)
        due = self._rows_until_reference()
        if not self._waiting or due >= len(rows):
            return with_index(held, self._step(rows, t))
        kept = deepcopy(self._model)  # in case the rows behind the reference are refused
        try:
            first = self._step(rows[:due], None if t is None else t[:due])
            try:
                rest = self._step(rows[due:], None if t is None else t[due:])
            except SchemaError as error:
                raise error.after(due) from error
        except BaseException:
            vars(self._model).update(vars(kept))
            self._reference = None
            raise
        both = pa.Table.from_batches([first, rest]).combine_chunks()
        return with_index(held, both.to_batches()[0])

    def _step(self, rows: Any, t: Any) -> pa.RecordBatch:
        """Judge and learn rows all of which come before the reference is taken, or after."""
        first = self._model.n_seen == 0
        scores, reference = None, self._reference
        before = None if self._waiting else deepcopy(self._model)
        seasonal = self._model._has_season
        if reference is not None and not seasonal:
            scores = reference.score_many(rows)
        out = self._model.step_many(rows, t)
        if reference is not None and seasonal:
            scores = reference._score_rows(self._model._rows_less_season()[: len(out)])
        if scores is None:
            scores = out["score"].to_numpy(zero_copy_only=False).copy()
            scores[:first] = np.nan  # as long as nothing was learned, nothing is surprising
        judged = self._judge(scores, out)
        why = self._reasons(before, rows, t, np.flatnonzero(judged.began))
        self._follow()
        times = {"time": out["time"]} if t is not None else {}
        columns = times | {
            "label": out["label"],
            "score": pa.array(judged.score, mask=np.isnan(judged.score)),
            "threshold": judged.threshold,
            "alarm": judged.alarm,
            "why": why,
        }
        return pa.RecordBatch.from_pydict(columns)

    def _reasons(self, before: SeqDDCRP | None, rows: Any, t: Any, began: IntArray) -> Any:
        """Say why alarms begin, each by the model as it was just before its row.

        ``before`` is the model before the batch, which learns the rows between alarms again.
        """
        said: list[str | None] = [None] * len(rows)
        done = 0
        for i in began.tolist() if before is not None else ():
            assert before is not None  # for mypy
            if i > done:
                before.step_many(rows[done:i], None if t is None else t[done:i])
            row = read_batch(rows[i : i + 1], before._vectorizer, learn=False).X[0]
            x = dict(zip(before._vectorizer.columns or (), row.tolist(), strict=False))
            time = None if t is None else batch_times(t, len(rows))[i]
            said[i] = self._explain(before, x, time).why or None
            done = i
        return pa.array(said, pa.string())

    def _explain(self, model: SeqDDCRP, x: Any, t: Any) -> Explanation:
        if self._reference is None:
            return model.explain_one(x, t)
        past = None if model._stream is None else model._stream.past
        return model._explain_to(self._reference, x, t, past)

    def _judge(self, scores: FloatArray, out: Any = None) -> Alarms:
        """Hand scores to the alarm; those that a reference is to replace pass by."""
        if self._waiting:
            return Alarms.none(scores)
        regimes, verdicts = self._model.verdicts, None
        if regimes:
            verdicts = verdicts_of(regimes, *(out[name].to_numpy() for name in ("label", "state")))
        return self._alarm.step_many(scores, verdicts=verdicts)

    # -- the reference ---------------------------------------------------------------------------

    def take_reference(self) -> None:
        """From now on, take what the model knows at this moment for normal; calibrate again.

        Raises
        ------
        ConfigError
            During warm-up.
        """
        self._model._end_contest()
        self._reference = self._model.reference()
        self._model._keep_season()
        self._alarm = Alarm(self.rate, self.average)

    @property
    def _waiting(self) -> bool:
        """Whether a reference is wanted and not there yet."""
        return self.reference_after is not None and self._reference is None

    def _rows_until_reference(self) -> int:
        return (self.reference_after or 0) - self._model.n_seen

    def _follow(self) -> None:
        """After rows were learned: take the reference if it is due, else pass them on to it."""
        if self._waiting and self._rows_until_reference() <= 0:
            self.take_reference()
        elif self._reference is not None and self._model._stream is not None:
            self._reference.past = self._model._stream.past

    # -- predicting ------------------------------------------------------------------------------

    def score_one(self, x: Mapping[Any, Any], t: Any = None) -> float:
        """Return the score of a row, high if anomalous; 0 before the model is fitted."""
        surprise = self._surprise(x, t)
        if math.isnan(surprise):
            return 0.0
        return surprise if self._waiting else self._alarm.averaged(surprise)

    def explain_one(self, x: Any, t: Any = None, **side: Any) -> Explanation:
        """Say what each column adds to the surprise of a row; see `SeqDDCRP.explain_one`.

        Where there is a reference, of the surprise relative to it.
        """
        return self._explain(self._model, x, t)

    # -- looking at the model --------------------------------------------------------------------

    def events(self) -> list[Event]:
        """Return what happened to regimes since the last call, as `SeqDDCRP.events` does."""
        return self._model.events()

    def summary(self) -> pa.Table:
        """Return one row for each live regime, as `SeqDDCRP.summary` does."""
        return self._model.summary()

    def mark(self, label: int, name: str = "", verdict: str = "normal") -> None:
        """Name a regime, and say whether it is normal, planned or a fault: `SeqDDCRP.mark`."""
        self._model.mark(label, name, verdict)

    def plot(self) -> Any:
        """Draw the last rows by regime, as `SeqDDCRP.plot` does."""
        return self._model.plot()

    @property
    def threshold(self) -> float:
        """What the score of the next row must exceed for an alarm; infinite at first."""
        return self._alarm.threshold

    def _surprise(self, x: Mapping[Any, Any], t: Any) -> float:
        if self._reference is not None:
            return self._model._surprise_to(self._reference, x, t)
        score = self._model.score_one(x, t)
        return score if self._model._has_begun else math.nan

    # -- checkpoints -----------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        blobs = {"model": self._model.to_bytes(), "alarm": self._alarm.to_bytes()}
        if self._reference is not None:
            blobs["reference"] = self._reference.to_bytes()
        arrays = {name: np.frombuffer(blob, np.uint8) for name, blob in blobs.items()}
        meta = {name: getattr(self, name) for name in ("rate", "average", "reference_after")}
        return arrays, meta

    @classmethod
    def _from_state(cls, arrays: dict[str, Any], meta: dict[str, Any]) -> Self:
        detector = cls(SeqDDCRP.from_bytes(arrays["model"].tobytes()), **meta)
        detector._alarm = Alarm.from_bytes(arrays["alarm"].tobytes())
        if "reference" in arrays:
            detector._reference = Reference.from_bytes(arrays["reference"].tobytes())
        return detector
