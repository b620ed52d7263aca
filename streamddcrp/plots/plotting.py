"""Pictures of a model; matplotlib is imported when one is drawn."""

from typing import Any

import numpy as np

from streamddcrp.errors import MissingExtraError

_NAMED = 40  # columns that carry their names, at most


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
