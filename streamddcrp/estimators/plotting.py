"""Pictures of a model; matplotlib is imported when one is drawn."""

from typing import Any

import numpy as np

from streamddcrp.errors import MissingExtraError

__all__ = ["plot_tables", "pyplot"]


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
