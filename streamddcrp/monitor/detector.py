"""Alarms on a stream: an anomaly detector in river's sense around `SeqDDCRP`.

The first of these finds single odd rows, the second longer anomalies, and the third also suits a
stream whose normal values drift::

    detector = RegimeAnomalyDetector(rate=0.001)
    detector = RegimeAnomalyDetector(average=20, reference_after=200)
    detector = RegimeAnomalyDetector(
        SeqDDCRP(likelihood=("autoregression", 1)), average=20, reference_after=200
    )

The detector takes tables and data frames in batches of any size, up to a whole recording::

    out = detector.step_many(table)  # columns label, score, threshold, alarm

or row by row, as any river detector::

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

from streamddcrp.contract import LABEL, SCORE, Event
from streamddcrp.data.batches import sliceable
from streamddcrp.errors import SchemaError
from streamddcrp.estimator.as_if_next import AsIfNext
from streamddcrp.estimator.reasons import Explanation
from streamddcrp.estimator.scikit import Options
from streamddcrp.estimator.standing import Standing
from streamddcrp.estimator.stored import Stored
from streamddcrp.estimator.views import index_of, with_index
from streamddcrp.models.seqddcrp.engine import Engine
from streamddcrp.models.seqddcrp.estimator import SeqDDCRP
from streamddcrp.models.seqddcrp.kernels.layout import SETTLED
from streamddcrp.models.seqddcrp.reference import Reference
from streamddcrp.models.seqddcrp.warmup import FIRST_STAGE
from streamddcrp.monitor.alarm import Alarm, Alarms, verdicts_of
from streamddcrp.monitor.lasting import Lasting
from streamddcrp.typing import FloatArray
from streamddcrp.validation import whole


class RegimeAnomalyDetector(Options, AsIfNext, Stored, base.AnomalyDetector):
    """Anomaly detection by the surprise under a model of regimes, at a rate of false alarms.

    The score is the surprise -log p(x) of a `SeqDDCRP`, predicted before the row is learned; the
    threshold comes from an `Alarm`. The model adapts to anything that persists, so its own surprise
    finds single odd rows and moments of change. For longer anomalies, the score is the surprise
    relative to a `Reference`, the tables after the first rows, which count as normal, plus the
    evidence that the columns moved otherwise in the last rows than in those: how far from their
    forecasts by the row before, and by the other columns. This shows small steps, drifts, and
    columns that are too quiet. With ``average``, it is the mean surprise alone.

    Parameters
    ----------
    model : SeqDDCRP, optional
        The model, which continues to learn all rows. Default: a `SeqDDCRP` without tempering and
        with links that reach 8 rows, which gave fewer false alarms.
    rate : float, default 0.001
        Probability that a row in control begins an alarm: one false alarm in 1 / rate rows.
    average : int, default 1
        The score is the mean of this many rows; 10 to 30 suit longer anomalies.
    reference_after : int, optional
        Number of first rows whose tables become the reference; later rows calibrate the threshold.
        How columns move is taken from the last 1,000 of them, if there are 64 and two a column.
        Default: no reference, and the surprise is that of the current model.
    per : str, optional
        Replaces ``rate``: one false alarm per time ("day", "6h"), which needs row times, or per
        number of rows ("5000 rows"); see `Alarm`.

    Notes
    -----
    The model's cost plus about 1 microsecond a row, 11 with 40 columns and a reference; row by row,
    twice the model's cost. For reasons `step_many` stores the state every 64 rows, in about 15
    microseconds, and learns up to 64 rows again where an alarm begins.

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
        reference_after: int | None = None, per: str | None = None,
    ) -> None:  # fmt: skip
        self.model = model
        self.rate = rate
        self.average = average
        self.reference_after = reference_after
        self.per = per
        self._model = SeqDDCRP(temper=False, decay=("exponential", 8.0)) if model is None else model
        self._alarm = Alarm(rate, average, per=per)
        self._reference: Reference | None = None
        # evidence of several rows, with a reference; words have no forecasts
        alone = average == 1 and not self._model._vectorizer.open
        self._lasting = Lasting() if alone else None
        begun = min(self._model.warmup, FIRST_STAGE)
        if reference_after is not None:  # rows after which the model has begun
            self.reference_after = whole("reference_after", reference_after, begun)
        self._spare: Engine | None = None  # takes the state of before a few rows
        self._follow()

    # -- learning --------------------------------------------------------------------------------

    def learn_one(self, x: Mapping[Any, Any], t: Any = None) -> None:
        """Learn one row; parameters and errors as for `SeqDDCRP.learn_one`."""
        if self._model.verdicts or self._reference is not None:  # which need label or row
            self.step_many([x], None if t is None else [t])
            return
        score, label = self._predicted(x, t)
        self._alarm.check_times(t)
        self._model.learn_one(x, t)
        at = None if t is None else [t]
        if self._lasting is not None:
            self._lasting.step(self._model._vectorizer.row(x, learn=False))
        self._judge(np.array([score]), None if label is None else [label], at)
        self._follow()

    def learn_many(self, batch: object, t: Any = None) -> None:
        """Learn a batch of rows; the same, bit for bit, as learning them one by one."""
        self.step_many(batch, t)

    def step_many(self, batch: object, t: Any = None, *, index: bool = False) -> pa.RecordBatch:
        """Judge each row of a batch, then learn it, as `SeqDDCRP.step_many` does.

        One row each with ``label`` (int64, the table's id, predicted before the row was learned),
        ``score`` (null during warm-up; before the reference is taken, the model's surprise at the
        single row), ``threshold`` (infinite while too few rows have been seen), ``alarm`` (bool),
        ``began`` and ``ended`` as in `Alarms`, and ``why`` where an alarm begins: what
        `explain_one` returns before the row is learned. Given times come first, as ``time``.
        """
        held, rows = index_of(batch, index), sliceable(batch)
        self._alarm.check_times(t)
        due = self._rows_until_reference()
        if not self._waiting or due >= len(rows):
            return with_index(held, self._step(rows, t))
        # in case the rows after the reference are refused
        kept, rows_of_kept = deepcopy(self._model), self._lasting and self._lasting.copy()
        try:
            first = self._step(rows[:due], None if t is None else t[:due])
            try:
                rest = self._step(rows[due:], None if t is None else t[due:])
            except SchemaError as error:
                raise error.after(due) from error
        except BaseException:
            vars(self._model).update(vars(kept))
            self._reference, self._lasting = None, rows_of_kept
            raise
        both = pa.Table.from_batches([first, rest]).combine_chunks()
        return with_index(held, both.to_batches()[0])

    def _step(self, rows: Any, t: Any) -> pa.RecordBatch:
        """Judge and learn rows that all come before the reference is taken, or all after."""
        model, watch = self._model, _Watch(self)
        alarm = deepcopy(self._alarm) if len(rows) > 1 else self._alarm  # one is refused unjudged
        lasting = self._lasting and self._lasting.copy()
        seen, model._watch = model.n_seen, watch
        try:
            out = model.step_many(rows, t)
        finally:
            model._watch = None
            if model.n_seen == seen:  # refused
                self._alarm, self._lasting = alarm, lasting
        self._follow()
        judged = Alarms(*map(np.concatenate, zip(*watch.judged, strict=True)))
        times = {"time": out["time"]} if t is not None else {}
        columns = times | {
            "label": out["label"],
            "score": pa.array(judged.score, mask=np.isnan(judged.score)),
            "threshold": judged.threshold,
            "alarm": judged.alarm,
            "began": judged.began,
            "ended": judged.ended,
            "why": pa.array(watch.why, pa.string()),
        }
        return pa.RecordBatch.from_pydict(columns)

    def _judge(self, scores: FloatArray, labels: Any, t: Any, states: Any = None) -> Alarms:
        """Pass scores to the alarm, unless a reference will replace them."""
        if self._waiting:
            return Alarms.none(scores)
        regimes, verdicts = self._model.verdicts, None
        if regimes:
            verdicts = verdicts_of(regimes, labels, states)
        if self._reference is not None:  # for a reference, the model's regimes have no meaning
            labels = None
        return self._alarm.step_many(scores, t=t, labels=labels, verdicts=verdicts)

    # -- the reference ---------------------------------------------------------------------------

    def take_reference(self) -> None:
        """Take the model's present knowledge as normal from now on; calibrate again.

        Raises
        ------
        ConfigError
            The model is in warm-up.
        """
        self._model._end_contest()
        self._reference = self._model.reference()
        self._model._keep_season()
        self._alarm = Alarm(self.rate, self.average, per=self.per)
        if self._lasting is not None:
            self._lasting.settle()

    @property
    def _waiting(self) -> bool:
        """Whether a reference is wanted and still missing."""
        return self.reference_after is not None and self._reference is None

    def _rows_until_reference(self) -> int:
        return (self.reference_after or 0) - self._model.n_seen

    def _follow(self) -> None:
        """After learning: take the reference if due, or pass the rows on to it."""
        if self._waiting and self._rows_until_reference() <= 0:
            self.take_reference()
        elif self._reference is not None and self._model._stream is not None:
            self._reference.past = self._model._stream.past

    # -- predicting ------------------------------------------------------------------------------

    def predict_one(self, x: Mapping[Any, Any], t: Any = None) -> int:
        """Return the id of the most probable table, or the next id for a new one."""
        return self._model.predict_one(x, t)

    def score_one(self, x: Mapping[Any, Any], t: Any = None) -> float:
        """Return the score of a row, high if anomalous; 0 before the model is fitted."""
        surprise, label = self._predicted(x, t)
        if math.isnan(surprise):
            return 0.0
        if self._reference is not None and self._lasting is not None:
            surprise += self._lasting.ahead(self._model._as_row(x, t)[0])
        return surprise if self._waiting else self._alarm.averaged(surprise, label)

    def explain_one(self, x: Any, t: Any = None, **side: Any) -> Explanation:
        """Return each column's contribution to a row's surprise; see `SeqDDCRP.explain_one`.

        With a reference, of the surprise relative to it, without the evidence of earlier rows.
        """
        if self._reference is None:
            return self._model.explain_one(x, t)
        past = None if self._model._stream is None else self._model._stream.past
        return self._model._explain_to(self._reference, x, t, past)

    # -- looking at the model --------------------------------------------------------------------

    @property
    def n_seen(self) -> int:
        """Number of rows learned."""
        return self._model.n_seen

    def events(self) -> list[Event]:
        """Return the regimes' events since the last call, as `SeqDDCRP.events` does."""
        return self._model.events()

    def summary(self) -> pa.Table:
        """Return one row for each live regime, as `SeqDDCRP.summary` does."""
        return self._model.summary()

    def mark(self, label: int, name: str = "", verdict: str = "normal") -> None:
        """Name a regime, and mark it as normal, planned or a fault: `SeqDDCRP.mark`."""
        self._model.mark(label, name, verdict)

    def _standing(self, key: Any = None) -> Standing | None:
        return self._model._standing(key)

    def plot(self) -> Any:
        """Draw the last rows by regime, as `SeqDDCRP.plot` does."""
        return self._model.plot()

    @property
    def threshold(self) -> float:
        """The score above which the next row raises an alarm; infinite at first."""
        return self._alarm.threshold

    def _predicted(self, x: Mapping[Any, Any], t: Any) -> tuple[float, int | None]:
        """Return a row's surprise, NaN in warm-up, and its label, None relative to a reference."""
        model = self._model
        if self._reference is not None:
            return model._surprise_to(self._reference, x, t), None
        predicted = model._predict(x, t)
        score = model._score_of(predicted) if model._has_begun else math.nan
        return score, model._label_of(predicted)

    # -- checkpoints -----------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        blobs = {"model": self._model.to_bytes(), "alarm": self._alarm.to_bytes()}
        if self._reference is not None:
            blobs["reference"] = self._reference.to_bytes()
        arrays: dict[str, Any] = {n: np.frombuffer(blob, np.uint8) for n, blob in blobs.items()}
        if self._lasting is not None:
            arrays |= self._lasting.arrays()
        meta = {name: getattr(self, name) for name in ("rate", "average", "reference_after", "per")}
        return arrays, meta

    @classmethod
    def _from_state(cls, arrays: dict[str, Any], meta: dict[str, Any]) -> Self:
        detector = cls(SeqDDCRP.from_bytes(arrays["model"].tobytes()), **meta)
        detector._alarm = Alarm.from_bytes(arrays["alarm"].tobytes())
        if "reference" in arrays:
            detector._reference = Reference.from_bytes(arrays["reference"].tobytes())
        if detector._lasting is not None:
            detector._lasting.restore(arrays, detector._model._vectorizer.n_features)
        return detector


class _Watch:
    """Judges rows while a model learns them, a few at a time, and explains alarms."""

    def __init__(self, detector: RegimeAnomalyDetector) -> None:
        self._of = detector
        self._engine: Engine | None = None
        self.judged: list[Alarms] = [Alarms.none(np.empty(0))]
        self.why: list[str | None] = []

    def begin(self, engine: Engine | None) -> None:
        """Store the state before the next rows."""
        of, self._engine = self._of, engine
        self._past = None if engine is None else engine.past
        if engine is not None and not of._waiting and of._reference is None:
            of._spare = self._engine = engine.copy(of._spare)

    def end(self, X: FloatArray, rows: FloatArray, t: FloatArray, out: FloatArray) -> None:
        """Judge rows (N, D), learned as ``rows`` with the output ``out``."""
        of, reference, engine, done = self._of, self._of._reference, self._engine, 0
        if reference is None:
            scores = out[:, SCORE].copy()
            if of._model._n_learned == len(X):  # an untrained model is surprised by nothing
                scores[0] = np.nan
        else:
            reference.past = self._past
            scores = reference._score_rows(rows)
        before = of._lasting and of._lasting.copy()
        if of._lasting is not None:
            scores = scores + of._lasting.step(X)  # zeros without a reference
        judged = of._judge(scores, out[:, LABEL].astype(np.int64), t, out[:, SETTLED])
        self.judged.append(judged)
        self.why += [None] * len(X)
        for i in np.flatnonzero(judged.began).tolist() if engine is not None else ():
            assert engine is not None  # for mypy
            if reference is None:
                if i > done:
                    engine.step(rows[done:i], t[done:i])
                found, done = engine.explain(rows[i], float(t[i])), i
            else:
                _, past = reference._likelihood.prepare(rows[:i], self._past)
                found = reference._explain_row(rows[i], past if i else self._past)
            names = of._model._feature_names()
            told = of._model._in_words(names, X[i], rows[i], found)
            said = before.words(names, X[:i], told) if before else told.why
            self.why[i - len(X)] = said or None
