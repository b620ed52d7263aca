"""Lanes of a picture, stacked: a name on the left, a share on the right."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from streamddcrp.plots.figures import INK, matplotlib, short
from streamddcrp.plots.findings import Findings, Regime
from streamddcrp.plots.palette import GREY
from streamddcrp.plots.series import Cause

EARLY = "#BDBDBD"  # the warm-up, hatched
CAUSE = "#5A6B7B"  # features that are on: one colour, as the lane names the feature
N_CAUSES = 12  # lanes drawn, for the features that changed most
CROWDED = 40  # returns above which a lane shows only bars
_MARK = {"linestyle": "none", "markeredgecolor": INK, "markeredgewidth": 0.9}
MARKS: dict[str, dict[str, Any]] = {
    "birth": {**_MARK, "marker": "o", "markersize": 5.5, "markerfacecolor": "white"},
    "return": {**_MARK, "marker": ">", "markersize": 5.5, "markerfacecolor": "white"},
    "last": {**_MARK, "marker": "x", "markersize": 5.0, "markeredgewidth": 1.4},
}
MARK_NAMES = {"return": "back again", "last": "last seen"}
ASIDE = {"birth": 0.0, "return": 0.0, "last": 5.0}  # points to the right, off the bar


def label_lanes(ax: Any, names: Sequence[str], shares: Sequence[float]) -> None:
    """Lay out a lane for each name from the top, and write its share beside it."""
    ax.set_ylim(max(len(names), 1) - 0.4, -0.6)
    ax.set_yticks(range(len(names)), names, parse_math=False)
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


def lanes_of_causes(causes: tuple[Cause, ...]) -> list[Cause]:
    """Return the ids of features to draw: on, and after their start off, in many rows."""

    def presence(cause: Cause) -> tuple[int, int]:
        n_on = int(cause.on.sum())
        return min(n_on, len(cause.on) - int(cause.on.argmax()) - n_on), n_on

    return sorted(sorted(causes, key=presence, reverse=True)[:N_CAUSES], key=lambda cause: cause.id)


def bars_of(on: Any, begin: Any, end: Any) -> list[tuple[Any, Any]]:
    """Return the beginning and width of each run of rows (N,) that are on, as bars are drawn."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], on, [False]])))
    return [(begin[a], end[b - 1] - begin[a]) for a, b in edges.reshape(-1, 2)]


def draw_causes(ax: Any, x: Any, end: Any, causes: tuple[Cause, ...]) -> None:
    """Draw one lane per feature with a bar where it is on; rows go from ``x`` to ``end`` (N,)."""
    shown = lanes_of_causes(causes)
    for lane, cause in enumerate(shown):
        bars = bars_of(cause.on, x, end)
        ax.broken_barh(bars, (lane - 0.27, 0.54), fc=CAUSE, ec=CAUSE, linewidth=0.4, zorder=2)
    shares = [float(cause.on.mean()) for cause in shown]
    label_lanes(ax, [f"feature {cause.id}" for cause in shown], shares)
    title = "latent features: a bar where one is on"
    if len(causes) > len(shown):
        title += f" (of {len(causes)} those that came and went)"
    ax.set_title(title)


def draw_lanes(
    ax: Any,
    x: Any,
    end: Any,
    findings: Findings,
    lanes: list[Regime],
    others: list[Regime],
    colours: dict[int, str],
    urls: Mapping[Any, str],
) -> None:
    """Draw one lane per regime with a bar for each visit, and a lane for the ``others``."""
    series, name_of = findings.series, findings.series.name_of
    rows = [([regime], colours[regime.label], short(name_of(regime.label))) for regime in lanes]
    if others:
        rows.append((others, GREY, f"{len(others)} others"))
    for lane, (regimes, colour, _) in enumerate(rows):
        for regime in regimes:
            bars = [(x[v.first], end[v.last] - x[v.first]) for v in regime.visits]
            edge, width = (colour, 0.8) if regimes is not others else ("white", 0.4)
            drawn = ax.broken_barh(
                bars, (lane - 0.27, 0.54), fc=colour, ec=edge, linewidth=width, zorder=2
            )
            drawn.set_urls([urls.get(v) for v in regime.visits])
            firsts = [v.first for v in regime.visits]
            _mark(ax, x[firsts[:1]], lane, "birth")
            if regimes is others:
                continue
            if regime.n_returns <= CROWDED:
                _mark(ax, x[firsts[1:]], lane, "return")
            if not findings.lasts(regime):
                _mark(ax, end[[regime.last]], lane, "last")
    shares = [sum(regime.share for regime in regimes) for regimes, _, _ in rows]
    label_lanes(ax, [name for _, _, name in rows], shares)
    ax.set_title("combinations of features" if series.causes else "regimes")
    births = "first seen in these rows" if series.cut else "first seen"
    grey = ~np.isnan(series.scores) & ~np.isin(series.labels, list(colours))
    unnamed = not others and not series.causes and bool(grey.any())
    _draw_legend(ax, births, early=findings.early > 0, unnamed=unnamed)


def _mark(ax: Any, at: Any, lane: int, kind: str) -> None:
    if len(at) == 0:  # an empty line would count in the image's size
        return
    inches = ASIDE[kind] / 72
    aside = matplotlib("transforms").ScaledTranslation(inches, 0, ax.figure.dpi_scale_trans)
    there = {"zorder": 4, "clip_on": False, "transform": ax.transData + aside}
    ax.plot(at, np.full(len(at), lane), **there, **MARKS[kind])


def _draw_legend(ax: Any, births: str, *, early: bool, unnamed: bool) -> None:
    line, patch = matplotlib("lines").Line2D, matplotlib("patches").Patch
    handles: list[Any] = [
        line([], [], label=births if kind == "birth" else MARK_NAMES[kind], **mark)
        for kind, mark in MARKS.items()
    ]
    if unnamed:
        dot = {"marker": "o", "markersize": 4.0, "markeredgewidth": 0.0}
        handles.append(line([], [], linestyle="none", color=GREY, label="no regime", **dot))
    if early:
        look = {"facecolor": "none", "edgecolor": EARLY, "hatch": "//////", "linewidth": 0.6}
        handles.append(patch(label="warm-up", **look))
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
