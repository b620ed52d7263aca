"""Shared by all pictures: the style, and matplotlib, imported when one is drawn."""

import io
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np

from streamddcrp.errors import import_extra
from streamddcrp.typing import FloatArray

LONGEST = 60  # letters of a name
TIGHT = {"bbox_inches": "tight", "pad_inches": 0.12}  # long labels make the image wider

INK = "#333333"
STYLE = {
    "font.size": 10.0,
    "axes.edgecolor": "#999999",
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.0,
    "axes.titlecolor": INK,
    "axes.titlepad": 5.0,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": "#E8E8E8",
    "grid.linewidth": 0.8,
    "hatch.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": "#999999",
    "ytick.color": "#999999",
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 9.0,
    "ytick.labelsize": 9.0,
    "legend.fontsize": 9.0,
    "path.simplify": True,
    "agg.path.chunksize": 10_000,
    "svg.hashsalt": "streamddcrp",  # the same picture gives the same file
}


def matplotlib(part: str) -> Any:
    """Import a part of matplotlib, or say how to install it."""
    return import_extra(f"matplotlib.{part}", "pictures need matplotlib", "plot")


def pyplot() -> Any:
    """Import `matplotlib.pyplot`, for figures shown in a notebook or a window."""
    return matplotlib("pyplot")


@contextmanager
def styled(style: Mapping[str, Any] = MappingProxyType({})) -> Iterator[None]:
    """Draw in the common style; no warning for a glyph that the font lacks."""
    with warnings.catch_warnings(), matplotlib("style").context(["default", STYLE, dict(style)]):
        warnings.filterwarnings("ignore", message="Glyph")
        yield


def rendered(
    figure_of: Callable[[], Any],
    formats: tuple[str, ...] = ("png", "svg"),
    style: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, bytes]:
    """Draw a figure in the common style and return it in each format."""
    made = {}
    with styled(style):
        figure = figure_of()
        for format in formats:
            buffer = io.BytesIO()
            metadata = {"Date": None} if format == "svg" else None
            figure.savefig(buffer, format=format, dpi=200, metadata=metadata, **TIGHT)
            made[format] = buffer.getvalue()
    return made


def are_dates(t: FloatArray) -> bool:
    """Whether times count as seconds since 1970: if they are between 1973 and 9999."""
    return len(t) > 0 and bool(np.min(t) > 1e8 and np.max(t) < 2.5e11)


def date_axis(ax: Any, *, year: bool) -> None:
    """Write short dates along the time axis, with or without the year beside it."""
    dates = matplotlib("dates")
    locator = dates.AutoDateLocator(minticks=4, maxticks=10)
    formats = {
        "formats": ["%Y", "%b %Y", "%d %b", "%H:%M", "%H:%M", "%S.%f"],
        "zero_formats": ["", "%b %Y", "%d %b", "%d %b", "%H:%M", "%H:%M"],
        "offset_formats": ["", "", "%Y", "%d %b %Y", "%d %b %Y", "%d %b %Y %H:%M"],
    }
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, show_offset=year, **formats))


def short(name: str, longest: int = LONGEST) -> str:
    """Shorten a long name for a picture, and remove what cannot be drawn."""
    name = printable(name)
    return name if len(name) <= longest else name[: longest - 1] + "…"


def printable(text: str) -> str:
    """Replace unprintable letters, which an SVG must not contain, with spaces."""
    return "".join(c if c.isprintable() else " " for c in text)
