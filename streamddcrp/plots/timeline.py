"""The time line of a labelled series: values, surprise, regimes."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from streamddcrp.data.times import typical_gap
from streamddcrp.plots.figures import INK, date_axis, matplotlib, pyplot, rendered, short, styled
from streamddcrp.plots.findings import (
    Findings,
    changed_features,
    find,
    odd_features,
    telling_features,
)
from streamddcrp.plots.lanes import CAUSE, EARLY, draw_causes, draw_lanes, lanes_of_causes
from streamddcrp.plots.palette import GREY, colours_of
from streamddcrp.plots.segments import Visit
from streamddcrp.plots.series import Labelled
from streamddcrp.typing import FloatArray

N_COLOURS = 12
N_COMBINATIONS = 5  # regimes with lanes if they are combinations of features
N_PANELS = 12
WIDTH, LEFT, RIGHT, TOP, BOTTOM, BETWEEN = 10.0, 0.9, 0.55, 0.8, 0.4, 0.33  # inches
HEIGHTS = ((1, 2.4), (2, 1.7), (4, 1.25), (6, 1.0), (N_PANELS, 0.8))  # by the number of panels
RASTER = 2_000  # points above which an SVG contains them as an image
GAP = 20.0  # times the median gap that breaks a line
NAMED = 110  # letters of the line that names columns not drawn

Urls = Mapping[Visit | int, str]  # links of visits, or of moments by rank


def render(
    findings: Findings,
    formats: tuple[str, ...] = ("png", "svg"),
    urls: Urls = MappingProxyType({}),
    style: Mapping[str, Any] = MappingProxyType({}),
) -> dict[str, bytes]:
    """Draw the picture and return it in each format; see `draw`."""
    return rendered(lambda: draw(findings, urls=urls), formats, style)


def draw(
    findings: Findings,
    *,
    figure_of: Callable[..., Any] | None = None,
    urls: Urls = MappingProxyType({}),
) -> Any:
    """Draw one lane per regime, the surprise, one panel per column; return the figure.

    The lanes and the time are on top, visible with any number of columns; in the figure's list of
    axes they come last. Latent features, if the model has them, also get a lane each. Up to
    `N_PANELS` columns are drawn (`telling_features`), and the others are named. The largest regimes
    have their own colour and lane, the others share one; regimes that are combinations of latent
    features have no colours, because there are too many. ``figure_of`` creates the figure, as
    `matplotlib.pyplot.figure` does; by default no window shows it. ``urls`` are links for an SVG,
    of a `Visit`, or of a moment by rank from 1.
    """
    series = findings.series
    features = telling_features(findings, N_PANELS)
    lanes = findings.largest(N_COMBINATIONS if series.causes else N_COLOURS)
    others = [regime for regime in findings.regimes if regime not in lanes]
    height = next(inches for n, inches in HEIGHTS if len(features) <= n)
    heights = [height] * len(features) + [1.15]
    if series.causes:
        heights += [0.12 + 0.27 * len(lanes_of_causes(series.causes))]
    heights += [0.12 + 0.27 * max(len(lanes) + bool(others), 1)]
    lines = _lines(findings, features)
    figure, axes = _panels(heights, len(features), 0.14 * (len(lines) - 1), figure_of)
    x = _positions(findings)
    end = _ends(x)
    if series.causes:  # one colour, as lanes show what is on
        colours = dict.fromkeys((regime.label for regime in lanes), CAUSE)
    else:
        colours = colours_of(regime.label for regime in lanes)
    groups = _groups(findings, colours)
    for ax, d in zip(axes, features, strict=False):
        _draw_feature(ax, x, findings, d, groups)
    _draw_surprise(axes[len(features)], x, findings, urls)
    if series.causes:
        draw_causes(axes[-2], x, end, series.causes)
    early = np.flatnonzero(np.isnan(series.scores))
    for ax in axes:
        if len(early):  # only the warm-up is hatched
            ax.axvspan(
                x[early[0]], end[early[-1]], facecolor="none", edgecolor=EARLY, hatch="////",
                linewidth=0, zorder=0,
            )  # fmt: skip
        if ax is not axes[-1]:
            for place in findings.moments:
                ax.axvline(x[place], color=INK, alpha=0.6, linewidth=0.8, dashes=(3, 2), zorder=1)
    draw_lanes(axes[-1], x, end, findings, lanes, others, colours, urls)
    _draw_time(axes[-1], x, findings)
    _draw_title(axes[-1], findings, lines)
    return figure


def plot_series(series: Labelled) -> Any:
    """Draw a series in a pyplot figure, shown in a notebook or a window."""
    with styled():
        if not len(series):
            figure = pyplot().figure(figsize=(WIDTH, 1.2), facecolor="white")
            figure.text(0.02, 0.5, f"{series.name}: no rows learned yet", fontsize=12)
            return figure
        return draw(find(series), figure_of=pyplot().figure)


def _panels(heights: list[float], first: int, more: float, figure_of: Any) -> tuple[Any, list[Any]]:
    """Place panels of given heights (inches) with a common time axis.

    Those from ``first`` on are on top, the last one highest, with the time below it.
    """
    top = TOP + more
    height = top + sum(heights) + BETWEEN * (len(heights) - 1) + 2.0 * BOTTOM
    make = matplotlib("figure").Figure if figure_of is None else figure_of
    figure = make(figsize=(WIDTH, height), facecolor="white")
    axes: list[Any] = []
    place, boxes = height - top, {}
    for i in (*reversed(range(first, len(heights))), *range(first)):
        panel, size = heights[i], 1 - (LEFT + RIGHT) / WIDTH
        boxes[i] = LEFT / WIDTH, (place - panel) / height, size, panel / height
        place -= panel + BETWEEN + (BOTTOM if len(boxes) == 1 else 0.0)
    for i in range(len(heights)):
        axes.append(figure.add_axes(boxes[i], sharex=axes[0] if axes else None))
        if i not in (first - 1, len(heights) - 1):
            axes[i].tick_params(axis="x", length=0, labelbottom=False)
    return figure, axes


def _positions(findings: Findings) -> FloatArray:
    """Positions of the rows on the shared axis: matplotlib's days for time stamps."""
    clock = findings.series.clock
    if clock.stamped:
        return np.asarray(matplotlib("dates").date2num(clock.times), dtype=np.float64)
    return np.asarray(clock.times, dtype=np.float64)


def _groups(findings: Findings, colours: dict[int, str]) -> list[tuple[Any, str]]:
    """Rows of each colour, the most frequent first so that rare ones lie on top."""
    series = findings.series
    early = np.isnan(series.scores)
    if series.causes:
        return [(early, EARLY), (~early, CAUSE)]
    groups = [(early, EARLY), (~early & ~np.isin(series.labels, list(colours)), GREY)]
    coloured = [(~early & (series.labels == label), colour) for label, colour in colours.items()]
    return groups + sorted(coloured, key=lambda group: -int(group[0].sum()))


def _draw_feature(ax: Any, x: FloatArray, findings: Findings, d: int, groups: Any) -> None:
    series = findings.series
    y, name = series.values[:, d], series.features[d]
    if series.measured is None:
        line, look = y, {"color": "#8C8C8C", "alpha": 0.35}  # thin on light and on dark
    else:
        line, look = series.measured[:, d], {"color": "#C8D3DE"}
        name += ": grey as measured, coloured less its season"
    ax.plot(*_broken(x, line), **look, linewidth=0.8, zorder=1, rasterized=len(x) > RASTER)
    size = float(np.clip(110.0 / np.sqrt(max(len(x), 1)), 1.6, 5.0))
    dots = {"markersize": size, "markeredgewidth": 0, "zorder": 2, "rasterized": len(x) > RASTER}
    for rows, colour in groups:
        if rows.any():
            ax.plot(x[rows], y[rows], "o", color=colour, **dots)
    if len(series.features) > 1:
        for rank, place in enumerate(findings.moments, start=1):
            if d in odd_features(series, place) and not np.isnan(y[place]):
                ax.plot(
                    x[place], y[place], "o", markersize=size + 5, markerfacecolor="none",
                    markeredgecolor=INK, markeredgewidth=1.0, zorder=4, gid=f"odd-{rank}-{d}",
                )  # fmt: skip
    ax.set_title(short(name), parse_math=False)
    ax.margins(y=0.08)
    ax.locator_params(axis="y", nbins=4)


def _draw_surprise(ax: Any, x: FloatArray, findings: Findings, urls: Urls) -> None:
    scores = findings.series.scores
    ax.plot(*_broken(x, scores), color="#666666", linewidth=0.8, rasterized=len(x) > RASTER)
    for rank, place in enumerate(findings.moments, start=1):
        ax.plot(x[place], scores[place], "o", markersize=3.5, color=INK, url=urls.get(rank))
        ax.annotate(
            str(rank),
            (x[place], scores[place]),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=9,
            fontweight="bold",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
            url=urls.get(rank),
        )
    title = "surprise (\N{MINUS SIGN}log predictive density, nats)"
    if findings.moments:
        title += "; dashed: most surprising moments"
    if findings.moments and len(findings.series.features) > 1:
        title += ", ringed: the columns that were odd"
    ax.set_title(title)
    known = scores[~np.isnan(scores)]
    low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 1.0)
    room = high - low or 1.0
    ax.set_ylim(low - 0.1 * room, high + 0.3 * room)  # room for the numbers of the moments
    ax.locator_params(axis="y", nbins=3)


def _draw_time(ax: Any, x: FloatArray, findings: Findings) -> None:
    clock = findings.series.clock
    margin = 0.01 * (x[-1] - x[0]) or 0.5
    ax.set_xlim(float(np.min(x)) - margin, float(np.max(x)) + margin)
    if clock.stamped:
        date_axis(ax, year=False)  # it is in the title
        ax.set_xlabel("time (UTC)" if clock.utc else "time")
    else:
        ax.set_xlabel("row" if clock.counts_rows else "time")
        ax.ticklabel_format(axis="x", style="plain", useOffset=False)
        ax.locator_params(axis="x", integer=clock.counts_rows)


def _lines(findings: Findings, features: list[int]) -> list[str]:
    """Write below the title what is drawn, and which columns are not."""
    series, clock = findings.series, findings.series.clock
    n = len(findings.regimes)
    period = "" if clock.counts_rows else f"{clock.at(0)} to {clock.at(len(series) - 1)}"
    facts = [
        f"{len(series):,} row{'' if len(series) == 1 else 's'}",
        f"{n:,} regime{'' if n == 1 else 's'}",
        period + (" UTC" if clock.utc and period else ""),
    ]
    lines = ["  ·  ".join(filter(None, facts))]
    if series.note:
        lines.append(series.note)
    left_out = [d for d in range(len(series.features)) if d not in features]
    if left_out:
        names = short(", ".join(short(series.features[d], 24) for d in left_out), NAMED)
        what = f"not drawn ({len(left_out):,} of {len(series.features):,} columns)"
        if not {*left_out} & {*changed_features(findings)}:
            what = f"{len(left_out):,} columns without a change"
        lines.append(f"{what}: {names}")
    return lines


def _draw_title(ax: Any, findings: Findings, lines: list[str]) -> None:
    texts = [(short(findings.series.name), {"fontsize": 12, "fontweight": "bold"})]
    texts += [(line, {"fontsize": 9.5, "color": "#666666"}) for line in lines]
    for k, (text, style) in enumerate(texts):
        above = 24 + 12.5 * (len(lines) - max(k, 1)) + (14 if k == 0 else 0)
        ax.annotate(
            text,
            (0, 1),
            xycoords="axes fraction",
            xytext=(0, above),
            textcoords="offset points",
            parse_math=False,
            **style,
        )


def _broken(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Insert a gap in the line where a gap in time is unusually long."""
    steps = np.diff(x)
    usual = float(np.median(steps[steps > 0])) if (steps > 0).any() else np.inf
    cuts = np.flatnonzero(steps > GAP * usual) + 1
    return np.insert(x, cuts, x[cuts]), np.insert(y, cuts, np.nan)


def _ends(x: FloatArray) -> FloatArray:
    """End of a row's bar: at the next row, or after a usual step if that is far away."""
    usual = typical_gap(x)
    return np.asarray(x + np.minimum(np.append(np.diff(x), usual), GAP * usual))
