"""What users see of a temporal mixture: events, labels, live components, trajectories."""

import logging
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp.contract import Event
from streamddcrp.data import Vectorizer
from streamddcrp.data.batches import batch_times, read_batch
from streamddcrp.data.times import Cut, Place
from streamddcrp.estimator.views import no_tables
from streamddcrp.models.temporal.emissions import Summary
from streamddcrp.models.temporal.plots import draw
from streamddcrp.models.temporal.stream import FinalLabels, StreamState

_log = logging.getLogger(__name__)


def _columns(summary: Summary, features: Sequence[str]) -> dict[str, Any]:
    if not summary.values:
        return {"words": pa.array(summary.words, pa.string())}
    return {
        f"{name}_{feature}": np.ascontiguousarray(values[:, d])
        for d, feature in enumerate(features)
        for name, values in summary.values.items()
        if not np.isnan(values[:, d]).all()  # else a column without this parameter
    }


class EpochViews:
    """The part of a model that only shows what it has learned."""

    _stream: StreamState | None
    _waiting: Any  # rows of the warm-up
    _n_seen: int
    _cut: Cut
    _place: Place
    _vectorizer: Vectorizer
    epoch: Any

    def _after_warmup(self) -> StreamState:
        """Return the state that the rows of the warm-up lead to."""
        raise NotImplementedError

    def _feature_names(self) -> list[str]:
        raise NotImplementedError

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        raise NotImplementedError

    @property
    def needs_times(self) -> bool:
        """Whether epochs end by times or by calls, not by numbers of rows."""
        return self._cut.kind != "rows"

    @property
    def n_epochs(self) -> int:
        """Number of epochs that have ended, empty ones included."""
        return self._place.number

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays of the model take in memory, about, as `Keyed` counts them."""
        arrays, meta = self._state()
        words: int = sum(120 + len(str(word)) for word in (meta["model"] or {}).get("words") or ())
        return words + sum(int(array.nbytes) for array in arrays.values())

    @property
    def n_tables(self) -> int:
        """Number of live components."""
        return 0 if self._stream is None else int(self._stream.n_components)

    @property
    def objective(self) -> float:
        """Objective that the sweeps climb, summed over all epochs; NaN in warm-up.

        A monitor in nats, not a bound: see `streamddcrp.models.temporal.window`. An epoch that
        leaves the window counts by what the objective of the window loses by it; rows of the open
        epoch by their log predictive density.
        """
        if self._stream is None:
            return math.nan if self._n_seen else 0.0
        return self._stream.objective

    def events(self) -> list[Event]:
        """Return what happened to components since the last call, at most the last 256.

        Births, deaths, merges and splits are reported when they can no longer be revised: when
        their epoch has left the window, ``lag`` epochs later. ``index`` and ``t`` are the number
        (from 0) and the time of the epoch; a death has the last epoch with half a row, though it is
        known only after as many silent ones as count.
        """
        state = self._stream
        if state is None:
            return []
        events = list(state.events)
        lost = state.n_events - len(events)
        if lost > 0:
            _log.warning("%d events were overwritten; call events() more often", lost)
        state.events.clear()
        state.n_events = 0
        return events

    def final_labels(self, *, window: bool = False) -> pa.Table:
        """Return the labels of rows whose epoch has left the window since the last call.

        At most the last 100,000 rows are kept for a call.

        Parameters
        ----------
        window : bool, default False
            Append the labels of the rows of the window and of the open epoch as they stand: at the
            end of a stream these are all there will be. They do not count as reported. Rows of a
            warm-up are labelled as if it ended here.

        Returns
        -------
        pyarrow.Table
            Columns ``row`` (arrival index), ``epoch``, ``label``, all int64.
        """
        state = self._stream
        if window and state is None and len(self._waiting.X):
            state = self._after_warmup()
        parts: list[FinalLabels] = []
        if state is not None:
            if state.n_lost:
                _log.warning(
                    "final labels of %d rows were dropped; call final_labels() more often",
                    state.n_lost,
                )
            parts = list(state.final)
            state.final.clear()
            state.n_final = state.n_lost = 0
            if window:
                parts += state.window_labels()
        none = [np.zeros(0, np.int64)]
        sizes = [len(part.labels) for part in parts]
        rows = [part.row + np.arange(len(part.labels)) for part in parts]
        columns = {
            "row": np.concatenate(none + rows),
            "epoch": np.repeat(np.array([part.epoch for part in parts], np.int64), sizes),
            "label": np.concatenate(none + [part.labels for part in parts]),
        }
        return pa.table(columns)

    def summary(self) -> pa.Table:
        """Return one row per live component: id, weight, born, last seen, and how it looks.

        ``weight`` is the expected number of rows, ``born`` and ``last_seen`` are numbers of epochs.
        Numbers: ``mean_x`` now and its standard error ``sd_x`` for each feature; texts: the
        ``words`` that distinguish it from the others.
        """
        state = self._stream
        if state is None:
            return no_tables()
        engine, (ids, summary) = state.engine, state.latest()
        weight = np.array([state.sizes.get(i, 0.0) for i in ids.tolist()])
        for q in [*engine.resp, *engine.seated]:
            weight[: q.shape[1]] += q.sum(axis=0)
        more = np.full(len(ids) - engine.n_components, engine.epoch + 1)
        columns: dict[str, Any] = {
            "id": ids,
            "weight": weight,
            "born": np.concatenate([engine.born, more]),
            "last_seen": np.concatenate([engine.last_active, more]),
        }
        return pa.table(columns | _columns(summary, self._feature_names()))

    def trajectories(self) -> pa.Table:
        """Return one row per epoch and component with at least half a row.

        Returns
        -------
        pyarrow.Table
            ``epoch``, its time ``t``, ``id``, ``mass`` (expected rows), then ``mean_x`` and
            ``sd_x`` for each feature, or ``words``. Of the last 1,000 epochs; those of the window
            as they stand.
        """
        state = self._stream
        parts = [] if state is None else [*state.trajectories, *state.window_trajectories()]
        if not parts:
            kinds = {"epoch": pa.int64(), "t": pa.float64(), "id": pa.int64(), "mass": pa.float64()}
            return pa.schema(list(kinds.items())).empty_table()
        sizes = [len(part.ids) for part in parts]
        values = {
            name: np.concatenate([part.summary.values[name] for part in parts])
            for name in parts[0].summary.values
        }
        summary = Summary(values, [words for part in parts for words in part.summary.words])
        columns = {
            "epoch": np.repeat([part.epoch for part in parts], sizes),
            "t": np.repeat([part.time for part in parts], sizes),
            "id": np.concatenate([part.ids for part in parts]),
            "mass": np.concatenate([part.mass for part in parts]),
        }
        return pa.table(columns | _columns(summary, self._feature_names()))

    def plot(self, ax: Any = None, *, rows: object = None, t: object = None) -> Any:
        """Draw the components over time; return the axes.

        Texts: the stream of their masses, the largest with their words. Numbers: the trajectory of
        the mean of each component with a band of two standard deviations of its rows, a panel for
        each of the six features that separate them most. Triangles mark births, crosses deaths,
        diamonds merges into a component.

        Parameters
        ----------
        ax : matplotlib axes, or a sequence of as many as there are panels, optional
        rows : batch as for `learn_many`, optional
            Rows of numbers to draw as points behind the trajectories.
        t : array_like of shape (N,), optional
            Their times; without them they are spread evenly over the epochs.

        Raises
        ------
        MissingExtraError
            If matplotlib is not installed.
        """
        behind = None
        if rows is not None:
            X = read_batch(rows, self._vectorizer, learn=False).X
            behind = X, None if t is None else batch_times(t, len(X))
        seconds = isinstance(self.epoch, str) and self._cut.kind == "period"
        return draw(self._stream, self.trajectories(), self._feature_names(), seconds, behind, ax)
