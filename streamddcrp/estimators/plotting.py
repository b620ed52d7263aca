"""Pictures of a model; matplotlib is imported when one is drawn."""

from collections.abc import Collection
from typing import Any

import numpy as np

from streamddcrp.errors import MissingExtraError

__all__ = ["plot_features", "plot_stream", "plot_tables", "pyplot"]

_NAMED = 40  # components that carry their names, at most,
_THIN = 0.02  # where they are so large a part of the picture
_TRIED = 8  # places for a name
_WORDS = 3  # of a name


def pyplot() -> Any:
    """Import matplotlib, or say how to install it."""
    try:
        import matplotlib.pyplot as plt  # noqa: PLC0415
    except ImportError as error:
        message = "pictures need matplotlib: pip install 'streamddcrp[plot]'"
        raise MissingExtraError(message) from error
    return plt


def plot_tables(summary: Any, recent: int, ax: Any = None) -> Any:
    """Draw a bar a table, its length the expected number of rows; grey where absent of late.

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
    sizes = np.array(summary["size"].to_pylist(), dtype=float)
    seen = [-1 if last is None else last for last in summary["last_seen"].to_pylist()]
    colours = [
        f"C{i % 10}" if last >= recent else "0.75" for i, last in zip(ids, seen, strict=True)
    ]
    ax.barh([str(i) for i in ids], sizes, color=colours)
    ax.invert_yaxis()
    ax.set_xlabel("rows (expected)")
    ax.set_ylabel("table")
    return ax


def plot_stream(
    tracks: Any,
    live: set[int],
    ax: Any = None,
    *,
    clock: str = "epoch",
    merged: Collection[int] = (),
    largest: int | None = None,
) -> Any:
    """Draw the masses of components over time, one layer each, in the order of their births.

    The largest carry their words or ids; triangles mark births, crosses deaths, arrow heads what
    went on as part of another component.

    Parameters
    ----------
    tracks : pyarrow.Table
        From ``trajectories()`` of a model; the id -1 stands for all others, in grey.
    live : set of int
        Ids of components that have not died.
    ax : matplotlib axes, optional
    clock : {"epoch", "t", "date"}
        What is drawn to the right: the number of the epoch, its time, or its time as a date.
    merged : collection of int
        Ids of components that were merged into others.
    largest : int, optional
        How many components have layers of their own; None: all.
    """
    plt = pyplot()
    if ax is None:
        _, ax = plt.subplots(figsize=(9 if largest is None else 13, 4 if largest is None else 7),
                             layout="constrained")  # fmt: skip
    ids, x, mass = _layers(tracks, clock, largest)
    ax.set_xlabel({"epoch": "epoch", "t": "time", "date": ""}[clock])
    ax.set_ylabel("rows")
    ax.set_yticks([])  # heights count, not places
    if not len(ids):
        return ax
    colours = ["0.92" if i < 0 else f"C{i % 10}" for i in ids.tolist()]
    layers = ax.stackplot(x, mass, baseline="sym", colors=colours, alpha=0.85, linewidth=0)
    middle = np.cumsum(mass, axis=0) - 0.5 * mass.sum(axis=0) - 0.5 * mass
    there = mass > 0.0
    first, last = there.argmax(axis=1), mass.shape[1] - 1 - there[:, ::-1].argmax(axis=1)
    k = np.arange(len(ids))
    joined = np.isin(ids, list(merged))
    gone = ~np.isin(ids, list(live)) & ~joined
    for marker, rows, place in ("^", ids >= 0, first), ("x", gone, last), (">", joined, last):
        at = k[rows & (ids >= 0)]
        ax.plot(
            x[place[at]], middle[at, place[at]], marker, color="0.15", markersize=4,
            linestyle="none",
        )  # fmt: skip
    names = _names(tracks, ids)
    _write(ax, x, mass, middle, names, ids)
    for layer, name in zip(layers, names, strict=True):
        layer.set_label(name)
    return ax


def _layers(tracks: Any, clock: str, largest: int | None) -> tuple[Any, Any, Any]:
    """Return ids (K,), where epochs are drawn (T,), and masses (K, T)."""
    ids = tracks["id"].to_numpy()
    epochs, starts, column = np.unique(
        tracks["epoch"].to_numpy(), return_index=True, return_inverse=True
    )
    x = epochs if clock == "epoch" else tracks["t"].to_numpy()[starts]
    if clock == "date":
        x = (1e6 * x).astype("datetime64[us]")
    if largest is not None:
        known, row = np.unique(ids, return_inverse=True)
        total = np.bincount(row, tracks["mass"].to_numpy())
        order = known[np.lexsort((known, -total))]
        ids = np.where(np.isin(ids, order[order >= 0][:largest]), ids, -1)
    kept, row = np.unique(ids, return_inverse=True)
    mass = np.zeros((len(kept), len(epochs)))
    np.add.at(mass, (row, column), tracks["mass"].to_numpy())
    return kept, x, mass


def _write(ax: Any, x: Any, mass: Any, middle: Any, names: list[str], ids: Any) -> None:
    """Write names into the largest layers, each at a place where it hides no other."""
    at = np.asarray(ax.convert_xunits(x), dtype=np.float64)
    width, height = ax.get_position().size * ax.figure.get_size_inches()
    reach, room = np.ptp(at) or 1.0, mass.sum(axis=0).max()
    taken: list[tuple[float, float, float]] = []
    order = np.argsort(-mass.sum(axis=1), kind="stable")
    for i in order[ids[order] >= 0].tolist():
        half = 0.5 * 0.065 * len(names[i]) / width * reach
        for j in np.argsort(-mass[i], kind="stable")[:_TRIED].tolist():
            if mass[i, j] < _THIN * room:
                break
            place = min(max(at[j], at[0] + half), at[-1] - half) if reach > 2 * half else at[j]
            y = middle[i, j]
            apart = (abs(place - p) > half + h or abs(y - q) > 0.15 / height * room
                     for p, q, h in taken)  # fmt: skip
            if all(apart):
                taken.append((place, y, half))
                ax.text(place, y, names[i], ha="center", va="center", fontsize=8)
                break
        if len(taken) == _NAMED:
            return


def _names(tracks: Any, ids: Any) -> list[str]:
    """Name components by the words of their largest epoch, or by their ids."""
    names = ["" if i < 0 else str(i) for i in ids.tolist()]
    if "words" in tracks.column_names:
        at = {i: n for n, i in enumerate(ids.tolist())}
        order = np.argsort(tracks["mass"].to_numpy(), kind="stable")
        words, owner = tracks["words"].to_pylist(), tracks["id"].to_pylist()
        for j in order.tolist():
            if words[j] and owner[j] in at:
                names[at[owner[j]]] = " ".join(words[j].split()[:_WORDS])
    return names


def plot_features(assignments: Any, loadings: Any, columns: Any, ax: Any = None) -> Any:
    """Draw a lane a feature, marked at the rows that have it, and what the feature looks like.

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
        ax.vlines(rows[on], lane - 0.35, lane + 0.35, color=f"C{lane % 10}", linewidth=1.0)
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
