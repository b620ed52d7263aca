"""Pictures of a model; matplotlib is imported when one is drawn."""

from collections.abc import Collection
from typing import Any

import numpy as np

from streamddcrp.errors import MissingExtraError

_NAMED = 40  # columns, or components, that carry their names, at most
_THIN = 0.02  # part of the picture from which on a component carries its name
_TRIED = 30  # places for a name
_LETTER, _LINE = 0.075, 0.17  # inches that a letter of a name and a line of it take
_WORDS = 3  # of a name
_TIMES = 60  # points along the time of a stream
_COLOURS = (
    "#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#edc948", "#9c755f",
    "#ff9da7", "#86bcb6", "#a0cbe8", "#ffbe7d", "#8cd17d", "#d4a6c8", "#d7b5a6",
)  # fmt: skip


def pyplot() -> Any:
    """Import matplotlib, or say how to install it."""
    try:
        import matplotlib.pyplot as plt  # noqa: PLC0415
    except ImportError as error:
        message = "pictures need matplotlib: pip install 'streamddcrp[plot]'"
        raise MissingExtraError(message) from error
    return plt


def plot_tables(summary: Any, recent: int, ax: Any = None) -> Any:
    """Draw one bar per table, its length the expected number of rows; grey if not seen recently.

    Parameters
    ----------
    summary : pyarrow.Table
        From ``summary()`` of a model.
    recent : int
        Arrival index from which a table counts as present.
    ax : matplotlib axes, optional
    """
    plt = pyplot()
    if ax is None:
        _, ax = plt.subplots(
            figsize=(6, 0.6 + 0.3 * max(summary.num_rows, 1)), layout="constrained"
        )
    ids = summary["id"].to_pylist()
    sizes = np.array(summary["weight"].to_pylist(), dtype=float)
    seen = [-1 if last is None else last for last in summary["last_seen"].to_pylist()]
    colours = [
        f"C{i % 10}" if last >= recent else "0.75" for i, last in zip(ids, seen, strict=True)
    ]
    ax.barh([str(i) for i in ids], sizes, color=colours)
    ax.invert_yaxis()
    ax.set_xlabel("rows (expected)")
    ax.set_ylabel("table")
    return ax


def plot_features(assignments: Any, loadings: Any, columns: Any, ax: Any = None) -> Any:
    """Draw one lane per feature, marked at the rows that have it, and what the feature looks like.

    Parameters
    ----------
    assignments : pyarrow.Table
        From ``assignments()`` of a model.
    loadings : dict
        From ``loadings()``: id to ndarray of shape (D,).
    columns : sequence of str, length D
    ax : matplotlib axes, optional
        For the lanes alone. Without it a second panel shows the loadings.
    """
    plt = pyplot()
    rows = assignments["row"].to_numpy()
    sets = assignments["features"].to_pylist()
    ids = sorted({i for one in sets for i in one})
    panel = None
    if ax is None:
        height = 1.2 + 0.3 * max(len(ids), 1)
        _, (ax, panel) = plt.subplots(
            1, 2, figsize=(10, height), width_ratios=(3, 1), layout="constrained", sharey=True
        )
    for lane, i in enumerate(ids):
        on = np.array([i in one for one in sets])
        edges = np.flatnonzero(np.diff(np.concatenate([[False], on, [False]])))
        bars = [(rows[a] - 0.5, rows[b - 1] - rows[a] + 1.0) for a, b in edges.reshape(-1, 2)]
        ax.broken_barh(bars, (lane - 0.35, 0.7), color=f"C{lane % 10}", linewidth=0.5)
    ax.set_yticks(range(len(ids)), [str(i) for i in ids])
    ax.set_ylim(len(ids) - 0.5, -0.5)
    ax.set_xlabel("row")
    ax.set_ylabel("feature")
    if panel is not None and ids:
        images = np.array([loadings.get(i, np.full(len(columns), np.nan)) for i in ids])
        unit = np.nanmax(np.abs(images), axis=0)
        unit[~(unit > 0.0)] = 1.0
        panel.imshow(images / unit, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
        named = len(columns) <= _NAMED
        panel.set_xticks(range(len(columns)) if named else [], columns if named else [])
        panel.tick_params(axis="x", rotation=90)
        panel.set_xlabel("loading, by the column's largest")
    return ax


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
