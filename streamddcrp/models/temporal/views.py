"""The user's view of a temporal mixture: events, labels, components, trajectories, pictures."""

import logging
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp.contract import Event
from streamddcrp.data.batches import batch_times, read_batch
from streamddcrp.data.epochs import Cut, Place
from streamddcrp.errors import ConfigError
from streamddcrp.estimator.row_model import RowModel
from streamddcrp.estimator.views import empty_table, no_tables
from streamddcrp.models.temporal.emissions import Summary
from streamddcrp.models.temporal.stream import FinalLabels, StreamState, columns_of
from streamddcrp.plots.figures import are_dates, pyplot
from streamddcrp.plots.palette import COLOURS
from streamddcrp.plots.stream import Layers, draw_layers, layer_names
from streamddcrp.typing import Axes, FloatArray

_log = logging.getLogger(__name__)
_DRAWN = 40  # components of a picture, at most
_FEATURES = 6  # panels of a picture of trajectories
_BAND = 2.0  # standard deviations
_DARK = "0.15"


def _columns(summary: Summary, features: Sequence[str]) -> dict[str, Any]:
    if not summary.values:
        return {"words": pa.array(summary.words, pa.string())}
    return {
        f"{name}_{feature}": np.ascontiguousarray(values[:, d])
        for d, feature in enumerate(features)
        for name, values in summary.values.items()
        if not np.isnan(values[:, d]).all()  # else a column without this parameter
    }


class EpochViews(RowModel):
    """The part of a model that only shows results."""

    _stream: StreamState | None
    _waiting: Any  # collected rows of the warm-up
    _cut: Cut
    _place: Place
    epoch: Any

    def _after_warmup(self) -> StreamState:
        """Return the state after the warm-up's rows."""
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
        """Approximate bytes of the model's arrays in memory, as `Keyed` counts them."""
        arrays, meta = self._state()
        words: int = sum(120 + len(str(word)) for word in (meta["model"] or {}).get("words") or ())
        return words + sum(int(array.nbytes) for array in arrays.values())

    @property
    def n_tables(self) -> int:
        """Number of live components."""
        return 0 if self._stream is None else int(self._stream.n_components)

    @property
    def objective(self) -> float:
        """Objective of the sweeps, summed over all epochs; NaN in warm-up.

        A monitor in nats, not a bound: see `streamddcrp.models.temporal.window`. An epoch that
        leaves the window counts with the window's loss of objective; rows of the open epoch count
        with their log predictive density.
        """
        if self._stream is None:
            return math.nan if self._n_seen else 0.0
        return self._stream.objective

    def events(self) -> list[Event]:
        """Return the components' events since the last call, with the last 256 of earlier calls.

        An event is reported when it can no longer be revised: when its epoch has left the window,
        ``lag`` epochs later. ``index`` and ``t`` are number (from 0) and time of the epoch. A death
        has the last epoch with half a row, though it is known only after as many silent epochs with
        rows as count. A component that has rows after more epochs, with rows or without, returns.
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

        Columns ``row`` (arrival index), ``epoch``, ``label``, all int64; of the last 100,000 rows.

        Parameters
        ----------
        window : bool, default False
            Append the present labels of the window and of the open epoch, as at the end of a
            stream. They do not count as reported. Rows of a warm-up are labelled as if it ended.
        """
        state = self._stream
        if window and state is None and len(self._waiting.x):
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
        columns = {
            "row": [part.row + np.arange(len(part.labels)) for part in parts],
            "epoch": [np.full(len(part.labels), part.epoch) for part in parts],
            "label": [part.labels for part in parts],
        }
        none = np.zeros(0, np.int64)
        return pa.table({name: np.concatenate([none, *of]) for name, of in columns.items()})

    def summary(self) -> pa.Table:
        """Return one row per live component: id, weight, born, last seen, and its description.

        ``weight`` is the expected number of rows; ``born`` and ``last_seen`` are epoch numbers.
        Numbers: the present ``mean_x`` and its standard error ``sd_x`` for each feature; texts: the
        ``words`` that distinguish it from the others, and ``copies``, texts with the words, or
        most, of an earlier one of their epoch, which ``weight`` does not count.
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
        if state.has_copies:
            columns["copies"] = state.copies_of(ids)
        return pa.table(columns | _columns(summary, self._feature_names()))

    def trajectories(self) -> pa.Table:
        """Return a row for each of the last 1,000 epochs and component with at least half a row.

        ``epoch``, its time ``t``, ``id``, ``mass`` (expected rows), then ``mean_x`` and ``sd_x``
        for each feature, or ``words``. Epochs of the window are in their present state.
        """
        state = self._stream
        parts = [] if state is None else [*state.trajectories, *state.window_trajectories()]
        if not parts:
            whole, real = pa.int64(), pa.float64()
            return empty_table(epoch=whole, t=real, id=whole, mass=real)
        of, values = columns_of(parts)
        summary = Summary(values, [words for part in parts for words in part.summary.words])
        columns = {
            "epoch": np.repeat(of["epoch"], of["size"]),
            "t": np.repeat(of["time"], of["size"]),
            "id": of["ids"],
            "mass": of["mass"],
        }
        return pa.table(columns | _columns(summary, self._feature_names()))

    def plot(
        self, ax: Axes | Sequence[Axes] | None = None, *, rows: object = None, t: object = None
    ) -> Any:
        """Draw the components over time; return the axes. Needs matplotlib.

        Texts: the stream of their masses, the largest with their words. Numbers: the mean of each
        component in a band of two standard deviations of its rows, a panel for each of the six
        features that separate them most. Triangles mark births, crosses deaths, diamonds merges.

        Parameters
        ----------
        ax : matplotlib axes, or a sequence with one for each panel, optional
        rows : batch as for `learn_many`, optional
            Numeric rows to draw as points.
        t : array_like of shape (N,), optional
            Their times; without them they are spread evenly over the epochs.
        """
        seconds = isinstance(self.epoch, str) and self._cut.kind == "period"
        picture = _Picture(self.trajectories(), self._stream, seconds=seconds)
        panels = [None] if ax is None else np.ravel(ax).tolist()
        if not panels:
            raise ConfigError("ax: got no axes to draw in")
        if not picture.features:
            return picture.stream(panels[0])
        if rows is None:
            return picture.means(ax)
        X = read_batch(rows, self._vectorizer, learn=False).X
        when = picture.spread(len(X)) if t is None else batch_times(t, len(X))
        behind = dict(zip(self._feature_names(), X.T, strict=True))
        return picture.means(ax, picture.dates(when), behind)


class _Picture:
    """Trajectories of K components spread out over E epochs."""

    def __init__(self, tracks: Any, state: StreamState | None, *, seconds: bool) -> None:
        self.tracks = tracks
        self.live = set() if state is None else set(state.engine.ids.tolist())
        self.merges = [] if state is None else list(state.merges)
        self.noise = None if state is None else getattr(state.engine.emission, "noise_var", None)
        names = tracks.column_names
        self.features = [name.removeprefix("mean_") for name in names if name.startswith("mean_")]
        epochs, first, column = np.unique(tracks["epoch"], return_index=True, return_inverse=True)
        self.ids, row = np.unique(tracks["id"], return_inverse=True)
        self.epochs, self.place = epochs, (row, column)  # where the rows of the table are
        self.mass = self.by_epoch(tracks["mass"].to_numpy(), 0.0)
        t = tracks["t"].to_numpy()[first]
        timed = np.isfinite(t).all() and (np.diff(t) > 0.0).all()
        self.t = t if timed else epochs.astype(np.float64)
        self.dated = bool(timed and seconds and are_dates(t))
        self.at = self.dates(self.t)  # where epochs are drawn
        self.label = "epoch" if np.array_equal(self.t, epochs) else ""

    def by_epoch(self, values: FloatArray, absent: float = np.nan) -> FloatArray:
        """Return a column of the table as (K, E)."""
        out = np.full((len(self.ids), len(self.epochs)), absent)
        out[self.place] = values
        return out

    def dates(self, times: FloatArray) -> Any:
        """Return times as they are drawn: dates where they are seconds since 1970."""
        return (1e3 * times).astype("datetime64[ms]") if self.dated else times

    def spread(self, n: int) -> FloatArray:
        """Return times of n rows, spread evenly over the epochs."""
        places = np.linspace(-0.5, len(self.t) - 0.5, n)
        return np.asarray(np.interp(places, np.arange(len(self.t)), self.t))

    def marks(self) -> dict[str, list[tuple[int, int]]]:
        """Return indices of component and epoch of births, deaths and merges, by marker."""
        there = self.mass > 0.0
        last = there.shape[1] - 1 - there[:, ::-1].argmax(axis=1)
        gone = np.flatnonzero(~np.isin(self.ids, list(self.live)))
        place = {i: k for k, i in enumerate(self.ids.tolist())}
        column = {e: n for n, e in enumerate(self.epochs.tolist())}
        merges = [
            (place[into], column[epoch])
            for epoch, _, into in self.merges
            if into in place and epoch in column and there[place[into], column[epoch]]
        ]
        return {
            "^": list(enumerate(there.argmax(axis=1).tolist())),
            "x": list(zip(gone.tolist(), last[gone].tolist(), strict=True)),
            "D": merges,
        }

    def stream(self, ax: Any) -> Any:
        """Draw the masses of the 40 largest components, one layer each, in the order of births."""
        plt = pyplot()
        if ax is None:
            _, ax = plt.subplots(figsize=(13, 6), layout="constrained")
        ax.set_ylabel("rows per epoch")
        ax.set_xlabel(self.label)
        if not len(self.ids):
            return ax
        large = np.sort(np.argsort(-self.mass.sum(axis=1), kind="stable")[:_DRAWN])
        ids = self.ids[large]
        names, mass = layer_names(self.tracks, ids), self.mass[large]
        layers = Layers(ids, names, mass, mass.sum(axis=1))
        draw_layers(ax, self.at, layers, self.live, {gone for _, gone, _ in self.merges})
        return ax

    def means(self, axes: Any, when: Any = None, behind: Any = None) -> Any:
        """Draw the mean of each component over the epochs in a band, one panel per feature.

        The band is two standard deviations on either side, including the uncertainty of the mean;
        the line is bolder where there were more rows. ``when, behind``: times (N,) of rows drawn as
        points, and their values by feature.
        """
        plt, tracks = pyplot(), self.tracks
        mean = np.stack([tracks[f"mean_{name}"].to_numpy() for name in self.features])
        var = np.zeros(mean.shape)
        for d, name in enumerate(self.features):
            if f"sd_{name}" in tracks.column_names:
                var[d] = tracks[f"sd_{name}"].to_numpy() ** 2
        var += 0.0 if self.noise is None else self.noise[:, None]
        differ = mean.var(axis=1) / np.maximum(var.mean(axis=1), 1e-300)
        shown = np.sort(np.argsort(-differ, kind="stable")[:_FEATURES])
        if axes is None:
            size = (9, 1.2 + 2.4 * len(shown)) if len(shown) > 1 else (9, 4.5)
            _, axes = plt.subplots(
                len(shown), 1, sharex=True, squeeze=False, figsize=size, layout="constrained"
            )
            axes = axes[:, 0]
        panels, marks = np.ravel(axes).tolist(), self.marks()
        boldness = 0.8 + 2.0 * np.sqrt(self.mass / max(self.mass.max(), 1.0))
        for ax, d in zip(panels, shown.tolist(), strict=False):
            if behind is not None:
                values = behind[self.features[d]]
                ax.plot(when, values, ".", color="0.75", markersize=2, zorder=0)
            y, band = self.by_epoch(mean[d]), self.by_epoch(_BAND * np.sqrt(var[d]))
            for k in range(len(self.ids)):
                self._draw_track(ax, k, y[k], band[k], boldness[k])
            for marker, points in marks.items():
                ax.plot(
                    [self.at[e] for _, e in points], [y[k, e] for k, e in points], marker,
                    color=_DARK, markersize=4 if marker == "D" else 5, linestyle="none", zorder=3,
                )  # fmt: skip
            ax.set_ylabel(self.features[d])
            ax.spines[["top", "right"]].set_visible(False)
        panels[-1].set_xlabel(self.label)
        return axes

    def _draw_track(
        self, ax: Any, k: int, y: FloatArray, band: FloatArray, bold: FloatArray
    ) -> None:
        """Draw a component in a panel, with gaps in epochs without it."""
        colour = COLOURS[self.ids[k] % len(COLOURS)]
        there = np.flatnonzero(self.mass[k] > 0.0)
        for part in np.split(there, np.flatnonzero(np.diff(there) > 1) + 1):
            at, low, high = self.at[part], y[part] - band[part], y[part] + band[part]
            if len(part) == 1:
                ax.vlines(at, low, high, color=colour, alpha=0.35, linewidth=3)
            ax.fill_between(at, low, high, color=colour, alpha=0.18, linewidth=0)
            ax.plot(at, y[part], color=colour, linewidth=float(bold[part].mean()))
        ax.annotate(
            str(self.ids[k]), (self.at[there[-1]], y[there[-1]]), (5, 0), color=colour,
            textcoords="offset points", fontsize=8, va="center",
        )  # fmt: skip
