"""What users look at in a temporal mixture: events, labels, live components, trajectories."""

import logging
import math
from typing import Any

import pyarrow as pa

from streamddcrp.contract import Event
from streamddcrp.data import Vectorizer
from streamddcrp.data.batches import batch_times, read_batch
from streamddcrp.data.times import Cut, Place
from streamddcrp.estimator.views import no_tables
from streamddcrp.models.temporal.evolving import Evolving
from streamddcrp.models.temporal.tracks import components, final_labels, trajectories
from streamddcrp.models.temporal.warmup import Waiting

_log = logging.getLogger(__name__)


class EpochViews:
    """The part of a model that only looks at what it has learned."""

    _evolving: Evolving | None
    _waiting: Waiting
    _n_seen: int
    _cut: Cut
    _place: Place
    _vectorizer: Vectorizer
    epoch: Any

    def _found(self) -> Evolving:
        """Return the model that the rows of a warm-up lead to."""
        raise NotImplementedError

    def _feature_names(self) -> list[str]:
        raise NotImplementedError

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        raise NotImplementedError

    @property
    def n_seen(self) -> int:
        """Number of rows learned."""
        return self._n_seen

    @property
    def needs_times(self) -> bool:
        """Whether epochs are told by times, or else by calls: not by numbers of rows."""
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
        return 0 if self._evolving is None else int(self._evolving.n_components)

    @property
    def objective(self) -> float:
        """Objective that the sweeps climb, summed over all epochs; NaN in warm-up.

        A monitor in nats, not a bound: see `streamddcrp.models.temporal.objective`. An epoch
        that leaves the window takes along what the objective of the window loses by it; rows of
        the open epoch count by their log predictive density.
        """
        if self._evolving is None:
            return math.nan if self._n_seen else 0.0
        return self._evolving.objective

    def events(self) -> list[Event]:
        """Return what happened to components since the last call, at most the last 256.

        Births, deaths, merges and splits are told when they can no longer be revised: when their
        epoch has left the window, ``lag`` epochs later. ``index`` and ``t`` are the number (from
        0) and the time of the epoch; a death has the last epoch with half a row, though it is
        known only after as many silent ones as count.
        """
        model = self._evolving
        if model is None:
            return []
        told = list(model.events)
        lost = model.n_events - len(told)
        if lost > 0:
            _log.warning("%d events were overwritten; call events() more often", lost)
        model.events.clear()
        model.n_events = 0
        return told

    def final_labels(self, *, window: bool = False) -> pa.Table:
        """Return the labels of rows whose epoch has left the window since the last call.

        At most the last 100,000 rows are kept for a call.

        Parameters
        ----------
        window : bool, default False
            Append the labels of the rows of the window and of the open epoch as they stand: at the
            end of a stream these are all there will be. They do not count as told. Rows of a
            warm-up are labelled as if it ended here.

        Returns
        -------
        pyarrow.Table
            Columns ``row`` (arrival index), ``epoch``, ``label``, all int64.
        """
        model = self._evolving
        if window and model is None and len(self._waiting.X):
            model = self._found()
        return final_labels(model, window=window)

    def summary(self) -> pa.Table:
        """Return one row a live component: id, size, born, last seen, and how it looks.

        ``size`` is the expected number of rows, ``born`` and ``last_seen`` are numbers of epochs.
        Numbers: ``mean_x`` now and its standard error ``sd_x`` for each feature; texts: ``words``
        that tell it from the others.
        """
        if self._evolving is None:
            return no_tables()
        return components(self._evolving, self._feature_names())

    def trajectories(self) -> pa.Table:
        """Return one row an epoch and component with at least half a row.

        Returns
        -------
        pyarrow.Table
            ``epoch``, its time ``t``, ``id``, ``mass`` (expected rows), then ``mean_x`` and
            ``sd_x`` for each feature, or ``words``. Of the last 1,000 epochs; those of the window
            as they stand.
        """
        return trajectories(self._evolving, self._feature_names())

    def plot(self, ax: Any = None, *, rows: object = None, t: object = None) -> Any:
        """Draw the components over time; return the axes.

        Texts: the stream of their masses, the largest with their words. Numbers: the track of the
        mean of each component with a band of two standard deviations of its rows, a panel for each
        of the six features that tell most. Triangles mark births, crosses deaths, diamonds what
        another component joined.

        Parameters
        ----------
        ax : matplotlib axes, or a sequence of as many as there are panels, optional
        rows : batch as for `learn_many`, optional
            Rows of numbers to draw as points behind the tracks.
        t : array_like of shape (N,), optional
            Their times; without them they are spread evenly over the epochs.

        Raises
        ------
        MissingExtraError
            If matplotlib is not installed.
        """
        from streamddcrp.models.temporal.pictures import draw  # noqa: PLC0415 -- only for pictures

        spoken = isinstance(self.epoch, str) and self._cut.kind == "period"
        behind = None
        if rows is not None:
            X = read_batch(rows, self._vectorizer, learn=False).X
            behind = X, None if t is None else batch_times(t, len(X))
        return draw(self._evolving, self._feature_names(), spoken, behind, ax)
