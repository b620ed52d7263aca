"""Draw reasons: each part's contribution to the surprise of a row or of a batch."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamddcrp.contract import Part
from streamddcrp.plots.figures import INK, pyplot, short, styled

_MOST = 20  # parts
_TEXT = 90  # letters of the words about a part


def plot_parts(parts: Sequence[Part], headline: str) -> Any:
    """Draw each part's excess as a bar with its words; see `Explanation.plot`."""
    drawn = parts[:_MOST]
    with styled({"axes.grid.axis": "x"}):
        figure = pyplot().figure(figsize=(8.0, 1.3 + 0.32 * max(len(drawn), 1)), facecolor="white")
        inch = 1.0 / figure.get_figheight()
        ax = figure.add_axes((0.22, 0.6 * inch, 0.26, 1.0 - inch))
        places = np.arange(len(drawn))[::-1]
        values = [part.excess for part in drawn]
        colours = ["#C44E52" if value > 0.0 else "#C8D3DE" for value in values]
        ax.barh(places, values, height=0.62, color=colours)
        ax.set_yticks(places, [short(part.name, 24) for part in drawn])
        for place, part in zip(places, drawn, strict=True):
            ax.annotate(
                short(part._words, _TEXT), (1.02, place), xycoords=("axes fraction", "data"),
                va="center", fontsize=9, color=INK, parse_math=False,
            )  # fmt: skip
        ax.axvline(0.0, color="#999999", linewidth=0.8)
        ax.set_xlabel("excess surprise (nats)")
        more = f"; {len(parts) - len(drawn):,} more parts" if len(parts) > len(drawn) else ""
        ax.set_title(f"{headline}{more}", fontweight="bold")
        ax.locator_params(axis="x", nbins=4)
        return figure


def plot_rows(names: Sequence[str], rows: Sequence[Mapping[str, float]]) -> Any:
    """Draw each part's excess by row; see `Explanations.plot`."""
    drawn = names[:_MOST]
    values = np.array([[row.get(name, np.nan) for row in rows] for name in drawn])
    with styled({"axes.grid": False}):
        figure = pyplot().figure(figsize=(10.0, 1.3 + 0.3 * max(len(drawn), 1)), facecolor="white")
        ax = figure.add_subplot()
        known = values[np.isfinite(values)]
        top = max(float(np.quantile(known, 0.999)) if len(known) else 1.0, 1.0)
        # logarithmic from a nat on: one extreme column must not hide the others
        scale = pyplot().matplotlib.colors.SymLogNorm(1.0, vmin=0.0, vmax=max(top, 1.1))
        image = ax.imshow(
            np.fmax(values, 0.0).reshape(len(drawn), len(rows)), aspect="auto", cmap="Reds",
            norm=scale, interpolation="nearest",
        )  # fmt: skip
        ax.set_yticks(np.arange(len(drawn)), [short(name, 24) for name in drawn])
        ax.set_xlabel("row of the batch")
        more = f"; {len(names) - len(drawn):,} more" if len(names) > len(drawn) else ""
        ax.set_title(f"excess surprise of each part, the largest first{more}")
        figure.colorbar(image, ax=ax, label="nats", pad=0.015, format="%g")
        return figure
