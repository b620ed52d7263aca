"""A report of many keys: which differ from their past, and which share a new regime."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from streamddcrp.contract import Part
from streamddcrp.estimator.reasons import parts_apart
from streamddcrp.estimator.standing import OVERDUE, Standing, chance_of_stay, ranked
from streamddcrp.plots.figures import INK, date_axis, pyplot, rendered, short
from streamddcrp.plots.segments import Visit, visits
from streamddcrp.plots.series import Labelled
from streamddcrp.typing import FloatArray
from streamddcrp_connectors.report.page import page_of, picture_of
from streamddcrp_connectors.report.words import filled, percent

N_LANES = 40
FIRST, USUAL = 8, 250  # rows that describe how a stay began, and those to compare with
KNOWN, NEW, SHARED = "#c8d3de", "#E69F00", "#D55E00"
_LONG = "lasts longer than usual"
_RULE = (
    "The least usual first. Share: how much of the time before the stay the key was in that "
    "regime, 0 where it is new. Same group: these came to a new regime within a few rows of each "
    "other, and the same column moved the same way."
)


def report_of_fleet(name: str, fleet: Sequence[tuple[str, Labelled]]) -> tuple[str, list[bytes]]:
    """Return sentences about some keys, and as files the picture (PNG, SVG), text and page."""
    stays = {key: _visits(series) for key, series in fleet}
    series_of = dict(fleet)
    found = [_standing(key, series, stays[key]) for key, series in fleet if stays[key]]
    ordered, groups = ranked(found)
    shown = [*zip(ordered, groups, strict=True)][:N_LANES]
    pictures = rendered(lambda: _draw(shown, series_of, stays))
    n_new = sum(one.share == 0.0 for one in ordered)
    shared = sorted({group for group in groups if group is not None})
    facts = [
        f"{name}: {len(fleet):,} keys, {n_new or 'none'} of them in a regime new to the key.",
        *_together([*zip(ordered, groups, strict=True)], series_of, stays, shared),
    ]
    rows = []
    for one, group in zip(ordered, groups, strict=True):
        series, key = series_of[one.key], str(one.key)
        why = filter(None, [one.why, _LONG if one.longer < OVERDUE else ""])
        rows.append({
            "key": key, "regime": series.name_of(one.state),
            "since": series.clock.at(stays[key][-1].first), "rows": f"{one.rows:,}",
            "share": percent(one.share) if one.share else "new", "group": group or "",
            "why": "; ".join(why),
        })  # fmt: skip
    words = filled("fleet.txt", facts=facts, rows=rows, rule=_RULE)
    page = page_of(
        "fleet.html", title=name, facts=facts, rows=rows, rule=_RULE,
        picture=picture_of(pictures["svg"], " ".join(facts), {}),
        caption="A lane for each key; in colour, stays in a regime that was new to the key; at the "
        "right, numbers of groups." + (f" The first {N_LANES}." if len(ordered) > N_LANES else ""),
        example="a key, a column, a regime",
    )  # fmt: skip
    return words, [*pictures.values(), words.encode(), page.encode()]


def _visits(series: Labelled) -> list[Visit]:
    """Return the stays of a series after its warm-up, as positions in it."""
    warm = np.flatnonzero(~np.isnan(series.scores))
    return [
        Visit(stay.label, int(warm[stay.first]), int(warm[stay.last]))
        for stay in visits(series.labels[warm])
    ]


def _standing(key: str, series: Labelled, stays: list[Visit]) -> Standing:
    """Say which regime a series ends in."""
    last, times = stays[-1], np.asarray(series.clock.times, np.float64)
    began = last.first
    times = times / 1e9 if series.clock.stamped else times
    lengths = [v.last - v.first + 1 for v in stays[:-1] if v.label == last.label]
    rows, before = len(series) - began, sum(lengths)
    share = before / began if began > rows else 1.0
    longer = chance_of_stay(len(lengths), before, rows)
    reasons: tuple[Part, ...] = ()
    if len(stays) > 1:
        past = series.values[stays[-2].first : stays[-2].last + 1][-USUAL:]
        reasons = _apart(series.features, past, series.values[began : last.last + 1][:FIRST])
    pace = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
    since = float(times[began])
    return Standing(key, last.label, rows, since, min(share, 1.0), longer, reasons, pace)


def _apart(names: Sequence[str], before: FloatArray, after: FloatArray) -> tuple[Part, ...]:
    """Say in which columns two sets of rows differ."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Mean of empty slice|Degrees of freedom")
        mean, old = np.nanmean(after, axis=0), np.nanmean(before, axis=0)
        spread, near = np.nanstd(before, axis=0), np.nanvar(after, axis=0)
    # one extra row with the earlier spread: a few rows alone are weak evidence
    sd = np.sqrt((len(after) * near + spread**2) / (len(after) + 1))
    return parts_apart(names, mean, sd, old, spread)


def _together(
    ordered: Sequence[tuple[Standing, int | None]], series: Any, stays: Any, shared: list[int]
) -> list[str]:
    """Say which keys share a new regime, one line for each group."""
    lines = []
    for number in shared:
        of = [one for one, group in ordered if group == number]
        first = min(of, key=lambda one: one.since)
        when = series[first.key].clock.at(stays[first.key][-1].first)
        names = ", ".join(str(one.key) for one in of[:20]) + (", ..." if len(of) > 20 else "")
        why = f" ({first.why})" if first.why else ""
        lines.append(
            f"Group {number}: {len(of)} keys came to a new regime at {when}{why}: {names}."
        )
    return lines


def _draw(shown: Sequence[tuple[Standing, int | None]], series: Any, stays: Any) -> Any:
    """Draw a lane for each key with its rows, and its stays in regimes that were then new."""
    figure = pyplot().figure(figsize=(10.0, 1.1 + 0.26 * max(len(shown), 1)), facecolor="white")
    ax = figure.add_axes(
        (0.14, 0.5 / figure.get_figheight(), 0.8, 1 - 1.0 / figure.get_figheight())
    )
    stamped = False
    for lane, (one, group) in enumerate(shown):
        clock, of = series[one.key].clock, stays[one.key]
        stamped = clock.stamped
        x = np.asarray(clock.times, np.float64) / (86400e9 if stamped else 1.0)
        ax.broken_barh([(x[0], x[-1] - x[0])], (lane - 0.3, 0.6), fc=KNOWN)
        firsts = {visit.label: visit for visit in reversed(of)}  # first stay in each regime
        new = [v for v in of[1:] if firsts[v.label] is v and v.first > v.last - v.first]
        for visit in new:
            colour = SHARED if group is not None and visit is of[-1] else NEW
            ax.broken_barh(
                [(x[visit.first], x[visit.last] - x[visit.first])], (lane - 0.3, 0.6), fc=colour
            )
        if group is not None:
            ax.annotate(
                str(group), (1.01, lane), xycoords=("axes fraction", "data"), va="center", color=INK
            )
    ax.set_yticks(range(len(shown)), [short(str(one.key), 16) for one, _ in shown])
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ax.grid(visible=False)
    ax.set_title("keys, the least usual first", pad=10.0)
    if stamped:
        date_axis(ax, year=True)
    patch = pyplot().matplotlib.patches.Patch
    drawn = {"regimes it knew": KNOWN, "new to the key": NEW, "new, in a group": SHARED}
    handles = [patch(color=colour, label=name) for name, colour in drawn.items()]
    ax.legend(handles=handles, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3, frameon=False)
    return figure
