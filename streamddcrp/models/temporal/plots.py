"""Pictures of a temporal mixture: the stream of its masses, and the trajectories of its means."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from streamddcrp.models.temporal.stream import StreamState
from streamddcrp.plots.plotting import draw_layers, layer_names, pyplot
from streamddcrp.typing import FloatArray, IntArray

_DRAWN = 40  # components, at most
_FEATURES = 6  # panels of a picture of trajectories
_BAND = 2.0  # standard deviations
_DATED = 1e8  # seconds since 1970 from which a time is taken for a date
_DARK = "0.15"
_MARKS = {"birth": "^", "death": "x", "merge": "D"}


class History(NamedTuple):
    """What a picture shows."""

    tracks: Any  # table from ``trajectories()`` of a model
    live: set[int]  # ids of components that have not died
    merges: Sequence[tuple[int, int, int]]  # epoch, and which component joined which
    dated: bool  # whether times are seconds since 1970


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
        """Label of the time axis, if it needs one."""
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
    state: StreamState | None, tracks: Any, features: Sequence[str], seconds: bool,
    behind: tuple[FloatArray, FloatArray | None] | None, axes: Any,
) -> Any:  # fmt: skip
    """Draw trajectories where components have means, else the stream of their masses.

    ``seconds``: whether times are seconds; late ones are of dates. ``behind``: rows (N, D) to draw
    as points, and their times (N,) or None.
    """
    t = tracks["t"].to_numpy()
    dated = seconds and len(t) > 0 and bool(t.min() > _DATED)
    if state is None:
        return _draw_stream(History(tracks, set(), [], dated), axes)
    history = History(tracks, set(state.engine.ids.tolist()), list(state.merges), dated)
    if not any(name.startswith("mean_") for name in tracks.column_names):
        return _draw_stream(history, axes)
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
    return _draw_means(history, getattr(state.engine.emission, "noise", None), points, axes)


def _draw_stream(history: History, ax: Any = None) -> Any:
    """Draw the masses of the 40 largest components, one layer each, in the order of births."""
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


def _draw_means(
    history: History, noise: FloatArray | None = None,
    behind: tuple[Any, Mapping[str, FloatArray]] | None = None, axes: Any = None,
) -> Any:  # fmt: skip
    """Draw the mean of each component over the epochs in a band, one panel per feature.

    The band is two standard deviations wide on either side, of the rows of the component (variance
    ``noise`` (D,), where ``sd`` is of the mean alone) and of what is not known of their mean; the
    line is the bolder the more rows there were. ``behind``: times (N,) and values by feature.
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
    shown = np.argsort(-differ, kind="stable")[:_FEATURES]
    if axes is None:
        size = (9, 1.2 + 2.4 * len(shown)) if len(shown) > 1 else (9, 4.5)
        _, axes = plt.subplots(
            len(shown), 1, sharex=True, squeeze=False, figsize=size, layout="constrained"
        )
        axes = axes[:, 0]
    marks = lines.marks(history)
    boldness = 0.8 + 2.0 * np.sqrt(lines.mass / max(lines.mass.max(), 1.0))
    for ax, d in zip(np.atleast_1d(axes).tolist(), sorted(shown.tolist()), strict=False):
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
    """Split the epochs of a component where one in between lacks it."""
    return np.split(there, np.flatnonzero(np.diff(there) > 1) + 1)
