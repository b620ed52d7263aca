"""Lanes of a picture, one under the other: a name on the left, a share on the right."""

from collections.abc import Sequence
from typing import Any

__all__ = ["label_lanes"]


def label_lanes(ax: Any, names: Sequence[str], shares: Sequence[float]) -> None:
    """Lay out a lane for each name, the first on top, and write each one's share beside it."""
    ax.set_ylim(max(len(names), 1) - 0.4, -0.6)
    ax.set_yticks(range(len(names)), names)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    for lane, share in enumerate(shares):
        ax.annotate(
            f"{100 * share:.0f} %" if share >= 0.005 else "< 1 %",
            (1.0, lane),
            xycoords=("axes fraction", "data"),
            xytext=(6, 0),
            textcoords="offset points",
            va="center_baseline",
            fontsize=9,
        )
