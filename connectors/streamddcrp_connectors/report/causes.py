"""Latent features that are on and off: what ``tv-ibp`` reports beside a label."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamddcrp.typing import IntArray
from streamddcrp_connectors.report.lanes import label_lanes
from streamddcrp_connectors.run.written import read_written

__all__ = ["MOST", "Cause", "draw_causes", "read_causes", "words_of_causes"]

MOST = 12  # drawn and described: those that came and went most
COLOUR = "#5A6B7B"


@dataclass(frozen=True, slots=True)
class Cause:
    """A feature and the rows that have it.

    Parameters
    ----------
    id : int
    on : ndarray of bool, shape (N,)
    """

    id: int
    on: NDArray[np.bool_]


def read_causes(path: str | os.PathLike[str], rows: IntArray) -> tuple[Cause, ...]:
    """Read which features rows have, from results; empty where there are none.

    Parameters
    ----------
    path : str or path-like
    rows : ndarray of int64, shape (N,)
        Numbers of the rows wanted, ascending.
    """
    table = None
    with suppress(pa.ArrowInvalid, pa.ArrowKeyError, KeyError, OSError):
        columns = ["row", "features"]
        table = read_written(Path(path), columns).select(columns)
    if table is None or not pa.types.is_list(table.schema.field("features").type):
        return ()
    sets = table["features"].combine_chunks()
    owner = np.repeat(table["row"].to_numpy(), sets.value_lengths().fill_null(0).to_numpy())
    ids = sets.flatten().to_numpy()
    return tuple(
        Cause(int(i), np.isin(rows, owner[ids == i]))
        for i in np.unique(ids).tolist()
        if np.isin(owner[ids == i], rows).any()
    )


def most_telling(causes: tuple[Cause, ...]) -> list[Cause]:
    """Return those drawn, in the order of their ids: on and, since they began, off in many rows.

    A feature that stays on for good is a part of the level, and says nothing about the later rows.
    """

    def presence(cause: Cause) -> tuple[int, int]:
        n_on = int(cause.on.sum())
        return min(n_on, len(cause.on) - int(cause.on.argmax()) - n_on), n_on

    return sorted(sorted(causes, key=presence, reverse=True)[:MOST], key=lambda cause: cause.id)


def draw_causes(ax: Any, x: Any, end: Any, causes: tuple[Cause, ...]) -> None:
    """Draw one lane per feature, a bar where it is on.

    Parameters
    ----------
    ax : matplotlib axes
    x, end : ndarray of float64, shape (N,)
        Where the bar of each row begins and ends.
    causes : tuple of Cause
    """
    shown = most_telling(causes)
    for lane, cause in enumerate(shown):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], cause.on, [False]])))
        bars = [(x[a], end[b - 1] - x[a]) for a, b in edges.reshape(-1, 2)]
        ax.broken_barh(bars, (lane - 0.27, 0.54), fc=COLOUR, ec=COLOUR, linewidth=0.4, zorder=2)
    shares = [float(cause.on.mean()) for cause in shown]
    label_lanes(ax, [f"feature {cause.id}" for cause in shown], shares)
    more = len(causes) - len(shown)
    ax.set_title("features that are on" + (f" (of {len(causes)} those that came and went)"
                                           if more else ""))  # fmt: skip


def words_of_causes(causes: tuple[Cause, ...], at: Any) -> list[str]:
    """Say when each feature was on; ``at`` writes the time of a row."""
    if not causes:
        return []
    lines = ["Features that were on (a regime is a combination of them):"]
    for cause in most_telling(causes):
        rows = np.flatnonzero(cause.on)
        n = len(rows)
        lines.append(
            f"  feature {cause.id}, {n:,} row{'' if n == 1 else 's'} "
            f"from {at(int(rows[0]))} to {at(int(rows[-1]))}"
        )
    if len(causes) > MOST:
        lines.append(f"  {len(causes) - MOST} others, rarely on or on for good")
    return lines
