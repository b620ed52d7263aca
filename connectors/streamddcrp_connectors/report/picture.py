"""The picture of a labelled series: its values, its surprise, its regimes in time."""

import importlib
import io
import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from streamddcrp.errors import MissingExtraError
from streamddcrp.typing import FloatArray
from streamddcrp_connectors.report.causes import MOST, draw_causes
from streamddcrp_connectors.report.findings import Findings, Regime, most_distinct
from streamddcrp_connectors.report.lanes import label_lanes
from streamddcrp_connectors.report.palette import GREY, colours_of

__all__ = ["draw", "matplotlib", "render", "rendered"]

N_COLOURS = 12
N_PANELS = 4
WIDTH, LEFT, RIGHT, TOP, BOTTOM, BETWEEN = 10.0, 0.9, 0.55, 0.8, 0.4, 0.33  # inches
RASTER = 6_000  # points above which an SVG holds them as an image
GAP = 20.0  # a line is broken where a gap is this many times the median one

LONGEST = 60  # letters of a name
TIGHT = {"bbox_inches": "tight", "pad_inches": 0.12}  # long labels make the image wider

INK = "#333333"
EARLY = "#C4C4C4"
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
    try:
        return importlib.import_module(f"matplotlib.{part}")
    except ImportError as error:
        message = "pictures need matplotlib: pip install 'streamddcrp[plot]'"
        raise MissingExtraError(message) from error


def render(findings: Findings, formats: tuple[str, ...] = ("png", "svg")) -> dict[str, bytes]:
    """Draw the picture and return it in each format.

    Raises
    ------
    MissingExtraError
        If matplotlib is not installed.
    """
    return rendered(lambda: draw(findings), formats)


def rendered(
    figure_of: Callable[[], Any],
    formats: tuple[str, ...] = ("png", "svg"),
    style: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, bytes]:
    """Make a figure in the style of the reports, and more of it, and return it in each format."""
    made = {}
    with warnings.catch_warnings(), matplotlib("style").context(["default", STYLE, dict(style)]):
        warnings.filterwarnings("ignore", message="Glyph")  # a name in a script the font lacks
        figure = figure_of()
        for format in formats:
            buffer = io.BytesIO()
            metadata = {"Date": None} if format == "svg" else None
            figure.savefig(buffer, format=format, dpi=200, metadata=metadata, **TIGHT)
            made[format] = buffer.getvalue()
    return made


def draw(findings: Findings) -> Any:
    """Draw the picture: one panel per feature, the surprise, one lane per regime.

    Where the model has latent features, there is a lane for each of these, too.

    At most `N_PANELS` features are drawn, those that tell the regimes apart best, and at most
    `N_COLOURS` regimes have a colour and a lane of their own, the largest; the others share one.

    Returns
    -------
    matplotlib.figure.Figure
    """
    features = most_distinct(findings, N_PANELS)
    lanes = findings.largest(N_COLOURS)
    others = [regime for regime in findings.regimes if regime not in lanes]
    n_lanes = max(len(lanes) + bool(others), 1)
    heights = [{1: 2.4, 2: 1.7}.get(len(features), 1.25)] * len(features)
    causes = findings.series.causes
    heights += [1.15]
    if causes:
        heights += [0.12 + 0.27 * min(len(causes), MOST)]
    heights += [0.12 + 0.27 * n_lanes]
    figure, axes = _panels(heights)
    x = _positions(findings)
    colours = colours_of(regime.label for regime in lanes)
    groups = _groups(findings, colours)
    for ax, d in zip(axes, features, strict=False):
        _draw_feature(ax, x, findings, d, groups)
    _draw_surprise(axes[len(features)], x, findings)
    if causes:
        draw_causes(axes[-2], x, _ends(x), causes)
    for ax in axes[:-1]:
        for place in findings.moments:
            ax.axvline(x[place], color="#000000", alpha=0.08, linewidth=3, zorder=0)
    _draw_lanes(axes[-1], x, findings, lanes, others, colours)
    _draw_time(axes[-1], x, findings)
    _draw_title(axes[0], findings)
    return figure


def _panels(heights: list[float]) -> tuple[Any, list[Any]]:
    """Place panels of given heights (inches) below each other, with one axis of time."""
    height = TOP + sum(heights) + BETWEEN * (len(heights) - 1) + BOTTOM
    figure = matplotlib("figure").Figure(figsize=(WIDTH, height), facecolor="white")
    axes: list[Any] = []
    top = height - TOP
    for panel in heights:
        box = (LEFT / WIDTH, (top - panel) / height, 1 - (LEFT + RIGHT) / WIDTH, panel / height)
        axes.append(figure.add_axes(box, sharex=axes[0] if axes else None))
        top -= panel + BETWEEN
    for ax in axes[:-1]:
        ax.tick_params(axis="x", length=0, labelbottom=False)
    return figure, axes


def _positions(findings: Findings) -> FloatArray:
    """Where the rows are on the shared axis: matplotlib's days for time stamps."""
    clock = findings.series.clock
    if clock.stamped:
        return np.asarray(matplotlib("dates").date2num(clock.times), dtype=np.float64)
    return np.asarray(clock.times, dtype=np.float64)


def _groups(findings: Findings, colours: dict[int, str]) -> list[tuple[Any, str]]:
    """Which rows have which colour, the most frequent first so that the rare lie on top."""
    series = findings.series
    early = np.isnan(series.scores)
    groups = [(early, EARLY), (~early & ~np.isin(series.labels, list(colours)), GREY)]
    coloured = [(~early & (series.labels == label), colour) for label, colour in colours.items()]
    return groups + sorted(coloured, key=lambda group: -int(group[0].sum()))


def _draw_feature(ax: Any, x: FloatArray, findings: Findings, d: int, groups: Any) -> None:
    series = findings.series
    y, name = series.values[:, d], series.features[d]
    if series.measured is None:
        line, colour = y, "#D9D9D9"
    else:
        line, colour = series.measured[:, d], "#C8D3DE"
        name += ": grey as measured, coloured less its season"
    ax.plot(*_broken(x, line), color=colour, linewidth=0.8, zorder=1, rasterized=len(x) > RASTER)
    size = float(np.clip(110.0 / np.sqrt(max(len(x), 1)), 1.6, 5.0))
    for rows, colour in groups:
        if rows.any():
            ax.plot(
                x[rows],
                y[rows],
                linestyle="none",
                marker="o",
                markersize=size,
                markeredgewidth=0,
                color=colour,
                zorder=2,
                rasterized=len(x) > RASTER,
            )
    ax.set_title(_short(name), parse_math=False)
    ax.margins(y=0.08)
    ax.locator_params(axis="y", nbins=4)


def _draw_surprise(ax: Any, x: FloatArray, findings: Findings) -> None:
    scores = findings.series.scores
    ax.plot(*_broken(x, scores), color="#666666", linewidth=0.8, rasterized=len(x) > RASTER)
    for rank, place in enumerate(findings.moments, start=1):
        ax.plot(x[place], scores[place], "o", markersize=3.5, color=INK)
        ax.annotate(
            str(rank),
            (x[place], scores[place]),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=9,
            fontweight="bold",
        )
    ax.set_title("surprise (\N{MINUS SIGN}log predictive density, nats)")
    known = scores[~np.isnan(scores)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    room = high - low or 1.0
    ax.set_ylim(low - 0.1 * room, high + 0.3 * room)  # above: the numbers of the moments
    ax.locator_params(axis="y", nbins=3)


def _draw_lanes(
    ax: Any,
    x: FloatArray,
    findings: Findings,
    lanes: list[Regime],
    others: list[Regime],
    colours: dict[int, str],
) -> None:
    end = _ends(x)
    rows = [([regime], colours[regime.label], f"regime {regime.label}") for regime in lanes]
    if others:
        rows.append((others, GREY, f"{len(others)} others"))
    for lane, (regimes, colour, _) in enumerate(rows):
        for regime in regimes:
            bars = [(x[v.first], end[v.last] - x[v.first]) for v in regime.visits]
            edge, width = (colour, 0.8) if regimes is not others else ("white", 0.4)
            ax.broken_barh(bars, (lane - 0.27, 0.54), fc=colour, ec=edge, linewidth=width, zorder=2)
            firsts = [v.first for v in regime.visits]
            _mark(ax, x[firsts[:1]], lane, "birth")
            if regimes is others:
                continue
            if regime.n_returns <= CROWDED:
                _mark(ax, x[firsts[1:]], lane, "return")
            if not findings.lasts(regime):
                _mark(ax, end[[regime.last]], lane, "last")
    early = np.flatnonzero(np.isnan(findings.series.scores))
    if len(early):
        ax.axvspan(x[early[0]], end[early[-1]], color=EARLY, alpha=0.35, linewidth=0, zorder=0)
    shares = [sum(regime.share for regime in regimes) for regimes, _, _ in rows]
    label_lanes(ax, [name for _, _, name in rows], shares)
    ax.set_title("regimes")
    _draw_legend(ax, early=len(early) > 0)


CROWDED = 40  # returns above which a lane's bars must speak for themselves
MARKS: dict[str, dict[str, Any]] = {
    "birth": {"marker": "o", "markersize": 5.5, "markerfacecolor": "white"},
    "return": {"marker": ">", "markersize": 5.5, "markerfacecolor": "white"},
    "last": {"marker": "x", "markersize": 5.0},
}
MARK_NAMES = {"birth": "first seen", "return": "back again", "last": "last seen"}
ASIDE = {"birth": 0.0, "return": 0.0, "last": 5.0}  # points to the right, off the bar


def _mark(ax: Any, at: Any, lane: int, kind: str) -> None:
    if len(at) == 0:  # an empty line would count in the image's size
        return
    inches = ASIDE[kind] / 72
    aside = matplotlib("transforms").ScaledTranslation(inches, 0, ax.figure.dpi_scale_trans)
    ax.plot(
        at,
        np.full(len(at), lane),
        linestyle="none",
        markeredgecolor=INK,
        markeredgewidth=1.4 if kind == "last" else 0.9,
        zorder=4,
        clip_on=False,
        transform=ax.transData + aside,
        **MARKS[kind],
    )


def _draw_legend(ax: Any, *, early: bool) -> None:
    handles: list[Any] = [
        matplotlib("lines").Line2D(
            [],
            [],
            linestyle="none",
            markeredgecolor=INK,
            markeredgewidth=1.4 if kind == "last" else 0.9,
            label=MARK_NAMES[kind],
            **mark,
        )
        for kind, mark in MARKS.items()
    ]
    if early:
        handles.append(
            matplotlib("patches").Patch(color=EARLY, alpha=0.6, linewidth=0, label="warm-up")
        )
    ax.legend(
        handles=handles,
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=len(handles),
        frameon=False,
        borderpad=0.1,
        borderaxespad=0.2,
        handletextpad=0.3,
        columnspacing=1.4,
    )


def _draw_time(ax: Any, x: FloatArray, findings: Findings) -> None:
    clock = findings.series.clock
    margin = 0.01 * (x[-1] - x[0]) or 0.5
    ax.set_xlim(float(np.min(x)) - margin, float(np.max(x)) + margin)
    if clock.stamped:
        dates = matplotlib("dates")
        locator = dates.AutoDateLocator(minticks=4, maxticks=10)
        ax.xaxis.set_major_locator(locator)
        formats = {  # the year stands in the title
            "formats": ["%Y", "%b %Y", "%d %b", "%H:%M", "%H:%M", "%S.%f"],
            "zero_formats": ["", "%b %Y", "%d %b", "%d %b", "%H:%M", "%H:%M"],
        }
        ax.xaxis.set_major_formatter(
            dates.ConciseDateFormatter(locator, show_offset=False, **formats)
        )
    else:
        ax.set_xlabel("row" if clock.counts_rows else "time")
        ax.ticklabel_format(axis="x", style="plain", useOffset=False)
        ax.locator_params(axis="x", integer=clock.counts_rows)


def _draw_title(ax: Any, findings: Findings) -> None:
    series, clock = findings.series, findings.series.clock
    n = len(findings.regimes)
    period = "" if clock.counts_rows else f"{clock.at(0)} to {clock.at(len(series) - 1)}"
    facts = [
        f"{len(series):,} rows",
        f"{n:,} regime{'' if n == 1 else 's'}",
        period + (" UTC" if clock.utc and period else ""),
    ]
    for text, above, style in (
        (_short(series.name), 38, {"fontsize": 12, "fontweight": "bold"}),
        ("  ·  ".join(filter(None, facts)), 24, {"fontsize": 9.5, "color": "#666666"}),
    ):
        ax.annotate(
            text,
            (0, 1),
            xycoords="axes fraction",
            xytext=(0, above),
            textcoords="offset points",
            parse_math=False,
            **style,
        )


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def _broken(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Put a hole where a gap in time is unusually long, so that no line is drawn across it."""
    steps = np.diff(x)
    usual = float(np.median(steps[steps > 0])) if (steps > 0).any() else np.inf
    cuts = np.flatnonzero(steps > GAP * usual) + 1
    return np.insert(x, cuts, x[cuts]), np.insert(y, cuts, np.nan)


def _ends(x: FloatArray) -> FloatArray:
    """Where a row's bar ends: at the next row, or after a usual step where that is far off."""
    steps = np.diff(x)
    usual = float(np.median(steps[steps > 0])) if (steps > 0).any() else 1.0
    if not len(steps):
        return x + usual
    return np.asarray(x + np.minimum(np.append(steps, usual), GAP * usual))
