"""Pictures of a temporal mixture: the stream of its masses, and the tracks of its means."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamddcrp.models.temporal.evolving import Evolving
from streamddcrp.models.temporal.tracks import trajectories
from streamddcrp.plots.plotting import pyplot
from streamddcrp.plots.stream_graph import draw_layers, layer_names
from streamddcrp.typing import FloatArray, IntArray

_DRAWN = 40  # components, at most
_FEATURES = 6  # panels of a picture of tracks
_BAND = 2.0  # standard deviations
_DATED = 1e8  # seconds since 1970 from which a time is taken for a date
_DARK = "0.15"
_MARKS = {"birth": "^", "death": "x", "merge": "D"}


class History(NamedTuple):
    """What a picture shows.

    Attributes
    ----------
    tracks : pyarrow.Table
        From ``trajectories()`` of a model.
    live : set of int
        Ids of components that have not died.
    merges : sequence of (epoch, id, id)
        When which component joined which.
    dated : bool
        Whether times are seconds since 1970.
    """

    tracks: Any
    live: set[int]
    merges: Sequence[tuple[int, int, int]]
    dated: bool


def _dates(seconds: FloatArray) -> Any:
    return (1e3 * seconds).astype("datetime64[ms]")


def _seconds(dates: Any) -> Any:
    return 1e-3 * dates.astype(np.int64)


class _Lines(NamedTuple):
    """Components by epoch: their masses (K, E), 0 where absent, and where each row of a table is.

    ``at`` is where an epoch is drawn.
    """

    ids: IntArray
    at: Any
    mass: FloatArray
    row: IntArray
    column: IntArray
    epochs: IntArray

    @classmethod
    def of(cls, history: History) -> "_Lines":
        """Spread a table of trajectories out."""
        tracks = history.tracks
        epochs, first, column = np.unique(
            tracks["epoch"].to_numpy(), return_index=True, return_inverse=True
        )
        ids, row = np.unique(tracks["id"].to_numpy(), return_inverse=True)
        mass = np.zeros((len(ids), len(epochs)))
        mass[row, column] = tracks["mass"].to_numpy()
        t = tracks["t"].to_numpy()[first]
        at: Any = t if np.isfinite(t).all() and (np.diff(t) > 0.0).all() else epochs
        if history.dated and at is t:
            at = _dates(t)
        return cls(ids, at, mass, row, column, epochs)

    @property
    def label(self) -> str:
        """What the axis of time counts, if that is not plain."""
        return "epoch" if np.array_equal(self.at, self.epochs) else ""

    def marks(self, history: History) -> dict[str, list[tuple[int, int]]]:
        """Return the component and the epoch, by place, of births, deaths and merges."""
        there = self.mass > 0.0
        first = there.argmax(axis=1)
        last = len(self.epochs) - 1 - there[:, ::-1].argmax(axis=1)
        gone = np.flatnonzero(~np.isin(self.ids, list(history.live))).tolist()
        merges = []
        place = {i: k for k, i in enumerate(self.ids.tolist())}
        column = {e: n for n, e in enumerate(self.epochs.tolist())}
        for epoch, _, into in history.merges:
            if into in place and epoch in column and there[place[into], column[epoch]]:
                merges.append((place[into], column[epoch]))
        return {
            "birth": [(k, int(first[k])) for k in range(len(self.ids))],
            "death": [(k, int(last[k])) for k in gone],
            "merge": merges,
        }


def draw(
    model: Evolving | None,
    features: Sequence[str],
    spoken: bool,
    behind: tuple[FloatArray, FloatArray | None] | None,
    axes: Any,
) -> Any:
    """Draw tracks where components have means, else the stream.

    Parameters
    ----------
    model : Evolving, optional
    features : sequence of str
    spoken : bool
        Whether periods were given as text, so that times are seconds; late ones are of dates.
    behind : tuple of rows (N, D) and their times (N,) or None, optional
    axes : matplotlib axes, optional
    """
    tracks = trajectories(model, features)
    t = tracks["t"].to_numpy()
    dated = spoken and len(t) > 0 and bool(t.min() > _DATED)
    if model is None:
        return plot_stream(History(tracks, set(), [], dated), axes)
    history = History(tracks, set(model.engine.ids.tolist()), list(model.merges), dated)
    if not any(name.startswith("mean_") for name in tracks.column_names):
        return plot_stream(history, axes)
    points = None
    if behind is not None:
        X, when = behind
        at = _Lines.of(history).at
        if when is None:
            step = np.arange(len(at))
            places = np.linspace(-0.5, len(at) - 0.5, len(X))
            at = _seconds(at) if dated else at
            when = np.interp(places, step, at)
        points = _dates(when) if dated else when, dict(zip(features, X.T, strict=True))
    return plot_tracks(history, getattr(model.engine.emission, "noise", None), points, axes)


def plot_stream(history: History, ax: Any = None) -> Any:
    """Draw the masses of components over epochs, one layer each, in the order of their births.

    The 40 largest, of which the larger carry their words or ids. Triangles mark births, crosses
    deaths, arrow heads merges into older components.

    Parameters
    ----------
    history : History
    ax : matplotlib axes, optional
    """
    plt = pyplot()
    if ax is None:
        _, ax = plt.subplots(figsize=(11, 5.5), layout="constrained")
    ax.set_yticks([])  # heights count, not places
    ax.set_ylabel("rows")
    lines = _Lines.of(history)
    if not len(lines.ids):
        ax.set_xlabel("epoch")
        return ax
    ax.set_xlabel(lines.label)
    large = np.sort(np.argsort(-lines.mass.sum(axis=1), kind="stable")[:_DRAWN])
    ids, mass = lines.ids[large], lines.mass[large]
    joined = {gone for _, gone, _ in history.merges}
    colours = [f"C{i % 10}" for i in ids.tolist()]
    draw_layers(
        ax, lines.at, mass, ids, layer_names(history.tracks, ids), history.live, colours, joined
    )
    ax.margins(x=0.01)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    return ax


def plot_tracks(
    history: History, noise: FloatArray | None = None,
    behind: tuple[Any, Mapping[str, FloatArray]] | None = None, axes: Any = None,
) -> Any:  # fmt: skip
    """Draw the mean of each component over the epochs in a band, one panel a feature.

    The band is two standard deviations wide on either side, of what the component's rows scatter
    and of what is not known of their mean; the line is as bold as there were many rows. Triangles
    mark births, crosses deaths, diamonds what another component joined.

    Parameters
    ----------
    history : History
    noise : ndarray, shape (D,), optional
        Variance of the rows about their component's mean, where ``sd`` is of the mean alone.
    behind : tuple of times (N,) and a mapping of features to values (N,), optional
        Rows to draw as points.
    axes : matplotlib axes or a sequence of as many as there are panels, optional

    Returns
    -------
    ndarray of matplotlib axes, or ``axes``
    """
    plt = pyplot()
    tracks = history.tracks
    names = [c.removeprefix("mean_") for c in tracks.column_names if c.startswith("mean_")]
    lines = _Lines.of(history)
    mean = np.stack([tracks[f"mean_{name}"].to_numpy() for name in names])
    var = np.zeros(mean.shape)
    for d, name in enumerate(names):
        if f"sd_{name}" in tracks.column_names:
            var[d] = tracks[f"sd_{name}"].to_numpy() ** 2
    var += 0.0 if noise is None else noise[:, None]
    width = _BAND * np.sqrt(var)
    differ = mean.var(axis=1) / np.maximum(var.mean(axis=1), 1e-300)
    telling = np.argsort(-differ, kind="stable")[:_FEATURES]
    if axes is None:
        size = (9, 1.2 + 2.4 * len(telling)) if len(telling) > 1 else (9, 4.5)
        _, axes = plt.subplots(
            len(telling), 1, sharex=True, squeeze=False, figsize=size, layout="constrained"
        )
        axes = axes[:, 0]
    marks = lines.marks(history)
    boldness = 0.8 + 2.0 * np.sqrt(lines.mass / max(lines.mass.max(), 1.0))
    for ax, d in zip(np.atleast_1d(axes).tolist(), sorted(telling.tolist()), strict=False):
        if behind is not None:
            ax.plot(behind[0], behind[1][names[d]], ".", color="0.75", markersize=2, zorder=0)
        y = np.full(lines.mass.shape, np.nan)
        band = np.full(lines.mass.shape, np.nan)
        y[lines.row, lines.column], band[lines.row, lines.column] = mean[d], width[d]
        for k, i in enumerate(lines.ids.tolist()):
            colour = f"C{i % 10}"
            there = np.flatnonzero(lines.mass[k] > 0.0)
            for part in _runs(there, lines.epochs):
                at, low, high = (
                    lines.at[part],
                    y[k, part] - band[k, part],
                    y[k, part] + band[k, part],
                )
                if len(part) == 1:
                    ax.vlines(at, low, high, color=colour, alpha=0.35, linewidth=3)
                ax.fill_between(at, low, high, color=colour, alpha=0.18, linewidth=0)
                ax.plot(at, y[k, part], color=colour, linewidth=float(boldness[k, part].mean()))
            end = there[-1]
            ax.annotate(
                str(i), (lines.at[end], y[k, end]), (5, 0), textcoords="offset points",
                color=colour, fontsize=8, va="center",
            )  # fmt: skip
        for kind, points in marks.items():
            ax.plot(
                [lines.at[e] for _, e in points], [y[k, e] for k, e in points], _MARKS[kind],
                color=_DARK, markersize=5 if kind != "merge" else 4, linestyle="none", zorder=3,
            )  # fmt: skip
        ax.set_ylabel(names[d])
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    np.atleast_1d(axes)[-1].set_xlabel(lines.label)
    return axes


def _runs(there: IntArray, epochs: IntArray) -> list[IntArray]:
    """Part the places where a component was there where an epoch in between lacks it."""
    return np.split(there, np.flatnonzero(np.diff(there) > 1) + 1)
