"""Pictures of a model; matplotlib is imported when one is drawn."""

from typing import Any

import numpy as np

from streamddcrp.errors import MissingExtraError

__all__ = ["plot_features", "plot_stream", "plot_tables", "pyplot"]

_NAMED = 12  # components that carry their names
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


def plot_stream(tracks: Any, live: set[int], ax: Any = None) -> Any:
    """Draw the masses of components over epochs, one layer each, in the order of their births.

    Parameters
    ----------
    tracks : pyarrow.Table
        From ``trajectories()`` of a model.
    live : set of int
        Ids of components that have not died.
    ax : matplotlib axes, optional
    """
    plt = pyplot()
    if ax is None:
        _, ax = plt.subplots(figsize=(9, 4), layout="constrained")
    epochs, column = np.unique(tracks["epoch"].to_numpy(), return_inverse=True)
    ids, row = np.unique(tracks["id"].to_numpy(), return_inverse=True)
    mass = np.zeros((len(ids), len(epochs)))
    mass[row, column] = tracks["mass"].to_numpy()
    ax.set_xlabel("epoch")
    ax.set_ylabel("rows")
    ax.set_yticks([])  # heights count, not places
    if not len(ids):
        return ax
    colours = [f"C{i % 10}" for i in ids]
    layers = ax.stackplot(epochs, mass, baseline="sym", colors=colours, alpha=0.85, linewidth=0)
    top = np.cumsum(mass, axis=0) - 0.5 * mass.sum(axis=0)
    middle = top - 0.5 * mass
    there = mass > 0.0
    first, last = there.argmax(axis=1), len(epochs) - 1 - there[:, ::-1].argmax(axis=1)
    k = np.arange(len(ids))
    ax.plot(epochs[first], middle[k, first], "^", color="0.15", markersize=4, linestyle="none")
    gone = np.flatnonzero(~np.isin(ids, list(live)))
    ax.plot(
        epochs[last[gone]], middle[gone, last[gone]], "x", color="0.15", markersize=4,
        linestyle="none",
    )  # fmt: skip
    names = _names(tracks, ids)
    peak = mass.argmax(axis=1)
    for i in np.argsort(-mass.sum(axis=1), kind="stable")[:_NAMED].tolist():
        ax.text(epochs[peak[i]], middle[i, peak[i]], names[i], ha="center", va="center", fontsize=8)
    for layer, name in zip(layers, names, strict=True):
        layer.set_label(name)
    return ax


def _names(tracks: Any, ids: Any) -> list[str]:
    """Name components by the words of their largest epoch, or by their ids."""
    names = [str(i) for i in ids.tolist()]
    if "words" in tracks.column_names:
        at = {i: n for n, i in enumerate(ids.tolist())}
        order = np.argsort(tracks["mass"].to_numpy(), kind="stable")
        words, owner = tracks["words"].to_pylist(), tracks["id"].to_pylist()
        for j in order.tolist():
            if words[j]:
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
