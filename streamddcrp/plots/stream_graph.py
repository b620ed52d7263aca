"""The stream graph: how much of a stream each story or component is, over time."""

from collections.abc import Collection
from typing import Any

import numpy as np

from streamddcrp.plots.plotting import pyplot

_NAMED = 40  # components that carry their names, at most,
_THIN = 0.02  # where they are so large a part of the picture
_TRIED = 30  # places for a name
_LETTER, _LINE = 0.075, 0.17  # inches that a letter of a name and a line of it take
_WORDS = 3  # of a name
_TIMES = 60  # points along the time of a stream
_COLOURS = (
    "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948", "#9c755f",
    "#ff9da7", "#86bcb6", "#a0cbe8", "#ffbe7d", "#8cd17d", "#d4a6c8", "#d7b5a6",
)  # fmt: skip


def plot_stories(
    tracks: Any,
    live: set[int],
    ax: Any = None,
    *,
    largest: int = 30,
    dates: bool = False,
    merged: Collection[int] = (),
) -> Any:
    """Draw the largest stories over time, so that areas are numbers of documents.

    Parameters
    ----------
    tracks : pyarrow.Table
        From ``trajectories()`` of a `TextStream`.
    live : set of int
        Ids of stories that have not died.
    ax : matplotlib axes, optional
    largest : int
        How many stories; the others are left out.
    dates : bool
        Whether times are seconds since 1970.
    merged : collection of int
        Ids of stories that were merged into others: with an arrow head where they end.
    """
    if ax is None:
        ax = pyplot().figure(figsize=(13, 7)).add_axes((0.03, 0.06, 0.93, 0.87))
    for side in "top", "right", "left":
        ax.spines[side].set_visible(False)
    ax.margins(x=0.01)
    ax.set_ylabel("documents")
    ax.set_xlabel("" if dates else "time")
    known, row = np.unique(tracks["id"].to_numpy(), return_inverse=True)
    total = np.bincount(row, tracks["mass"].to_numpy()) * (known >= 0)
    ids = np.sort(known[np.lexsort((known, -total))][: min(largest, int((known >= 0).sum()))])
    times, mass = _over_time(tracks, ids)
    x = (1e6 * times).astype("datetime64[us]") if dates else times
    colours = [_COLOURS[k % len(_COLOURS)] for k in range(len(ids))]
    draw_layers(ax, x, mass, ids, layer_names(tracks, ids), live, colours, merged)
    return ax


def _over_time(tracks: Any, ids: Any) -> tuple[Any, Any]:
    """Spread documents evenly over the time of their stretches: times (T,), masses (K, T)."""
    begin, end = tracks["begin"].to_numpy(), tracks["end"].to_numpy()
    if not len(begin):
        return np.zeros(0), np.zeros((0, 0))
    edges = np.linspace(begin[0], max(end[-1], begin[0] + 1e-9), _TIMES + 1)
    share = np.clip(edges, begin[:, None], end[:, None]) - begin[:, None]
    with np.errstate(invalid="ignore"):
        share = np.diff(share, axis=1) / (end - begin)[:, None]
    now = np.flatnonzero(begin == end)
    share[now] = 0.0
    share[now, np.clip(np.searchsorted(edges, begin[now], "right") - 1, 0, _TIMES - 1)] = 1.0
    mass = np.zeros((len(ids), _TIMES))
    own = np.isin(tracks["id"].to_numpy(), ids)
    rows = np.searchsorted(ids, tracks["id"].to_numpy()[own])
    np.add.at(mass, rows, share[own] * tracks["mass"].to_numpy()[own, None])
    for _ in range(2):  # smoother: days and nights
        wide = np.pad(mass, ((0, 0), (1, 1)), mode="edge")
        mass = 0.25 * wide[:, :-2] + 0.5 * mass + 0.25 * wide[:, 2:]
    return 0.5 * (edges[1:] + edges[:-1]), mass


def draw_layers(
    ax: Any,
    x: Any,
    mass: Any,
    ids: Any,
    names: list[str],
    live: set[int],
    colours: list[str],
    merged: Collection[int] = (),
) -> None:
    """Draw layers (K, T) on each other, their beginnings and ends, and the names of the largest."""
    ax.set_yticks([])  # heights count, not places
    if not len(ids):
        return
    layers = ax.stackplot(
        x, mass, baseline="sym", colors=colours, alpha=0.85, linewidth=0.3, edgecolor="white"
    )
    middle = np.cumsum(mass, axis=0) - 0.5 * mass.sum(axis=0) - 0.5 * mass
    there = mass > 0.01 * mass.max(axis=1, keepdims=True)
    first, last = there.argmax(axis=1), len(x) - 1 - there[:, ::-1].argmax(axis=1)
    k = np.arange(len(ids))
    joined = np.isin(ids, list(merged))
    gone = ~np.isin(ids, list(live)) & ~joined
    born = first > 0  # not there from the beginning
    for marker, at, place in ("^", k[born], first), ("x", k[gone], last), (">", k[joined], last):
        ax.plot(
            x[place[at]], middle[at, place[at]], marker, color="0.15", markersize=4,
            linestyle="none",
        )  # fmt: skip
    _write(ax, x, mass, middle, names, colours)
    for layer, name in zip(layers, names, strict=True):
        layer.set_label(name)


def _write(ax: Any, x: Any, mass: Any, middle: Any, names: list[str], colours: list[str]) -> None:
    """Write names into the largest layers, each where the layer is thick and no other name is.

    The letters have a dark shade of the colour of their layer, which may be thinner than they are.
    """
    from matplotlib import colors  # noqa: PLC0415  # optional

    at = np.asarray(ax.convert_xunits(x), dtype=np.float64)
    width, height = ax.get_position().size * ax.figure.get_size_inches()
    reach, room = np.ptp(at) or 1.0, mass.sum(axis=0).max()
    behind = {"facecolor": "white", "alpha": 0.6, "edgecolor": "none", "pad": 0.8}
    taken: list[tuple[float, float, float]] = []
    order = np.argsort(-mass.sum(axis=1), kind="stable")
    for i in order.tolist():
        half = 0.5 * _LETTER * len(names[i]) / width * reach
        inside = (at >= at[0] + half) & (at <= at[-1] - half)
        free = mass[i] * (inside if inside.any() else 1.0)
        best = np.argsort(-free, kind="stable")[:_TRIED].tolist()
        for j, shift in ((j, shift) for j in best for shift in (0.0, 0.25, -0.25)):
            if free[j] < _THIN * room:
                break
            place, y = at[j], middle[i, j] + shift * mass[i, j]
            apart = (abs(place - p) > half + h or abs(y - q) > _LINE / height * room
                     for p, q, h in taken)  # fmt: skip
            if all(apart):
                taken.append((place, y, half))
                dark = tuple(0.45 * part for part in colors.to_rgb(colours[i]))
                ax.text(place, y, names[i], ha="center", va="center", fontsize=9, color=dark,
                        bbox=behind)  # fmt: skip
                break
        if len(taken) == _NAMED:
            return


def layer_names(tracks: Any, ids: Any) -> list[str]:
    """Name components by the words of their largest epoch, or by their ids."""
    names = [str(i) for i in ids.tolist()]
    if "words" in tracks.column_names:
        at = {i: n for n, i in enumerate(ids.tolist())}
        order = np.argsort(tracks["mass"].to_numpy(), kind="stable")
        words, owner = tracks["words"].to_pylist(), tracks["id"].to_pylist()
        for j in order.tolist():
            if words[j] and owner[j] in at:
                names[at[owner[j]]] = " ".join(words[j].split()[:_WORDS])
    return names
