"""Stream graphs: stories and other components of texts over time as layers."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from streamddcrp.plots.figures import date_axis, matplotlib, pyplot, short
from streamddcrp.plots.palette import COLOURS, ink_on

_WORDS = 3  # words in a name
_LONGEST = 30  # letters of a name
_TIMES = 60  # points along the time of a stream
_PLACES = 12  # positions tried for a name, where a layer is thickest
_OTHERS = ("#C9CDD1", "#DDE0E3")  # alternating colours of layers after the first twelve
_DARK = "#262626"
_PER_HOUR = 3.0  # days; shorter streams count documents by the hour
_MARKS = {"^": "first seen", "x": "last seen", ">": "became part of another"}


def plot_stories(
    tracks: Any,
    live: set[int],
    ax: Any = None,
    *,
    largest: int = 30,
    scale: str = "rows",
    merged: Collection[int] = (),
    urls: Mapping[int, str] = MappingProxyType({}),
) -> Any:
    """Draw the largest stories over time and return the axes; areas are numbers of documents.

    ``tracks`` come from ``trajectories()`` of a `TextStream`; ``live`` has the ids of stories that
    have not died. Only the ``largest`` stories are drawn. ``scale`` is the unit of times: "rows"
    for row numbers, "time" for any unit, or "dates" for seconds since 1970. Stories in ``merged``
    end in an arrow head; ``urls`` are links of stories, for an SVG.
    """
    if ax is None:
        _, ax = pyplot().subplots(figsize=(13, 6.5), layout="constrained")
    known, row = np.unique(tracks["id"].to_numpy(), return_inverse=True)
    total = np.bincount(row, tracks["mass"].to_numpy()) * (known >= 0)
    ids = np.sort(known[np.lexsort((known, -total))][: min(largest, int((known >= 0).sum()))])
    times, mass, width = _over_time(tracks, ids)
    unit, size = "unit of time", 1.0
    if scale == "rows":
        unit, size = "100", 100.0
    elif scale == "dates":
        hourly = _TIMES * width < _PER_HOUR * 86400.0
        unit, size = ("hour", 3600.0) if hourly else ("day", 86400.0)
    x = (1e6 * times).astype("datetime64[us]") if scale == "dates" else times
    ax.set_xlabel({"rows": "documents learned", "time": "time", "dates": "time"}[scale])
    ax.set_ylabel(f"documents of {unit}" if scale == "rows" else f"documents per {unit}")
    counts = total[np.searchsorted(known, ids)]
    layers = Layers(ids, layer_names(tracks, ids), mass * (size / width), counts)
    draw_layers(ax, x, layers, live, merged, urls)
    return ax


def _over_time(tracks: Any, ids: Any) -> tuple[Any, Any, float]:
    """Spread documents evenly over their stretches; return times, mass (K, T) and widths."""
    begin, end = tracks["begin"].to_numpy(), tracks["end"].to_numpy()
    if not len(begin):
        return np.zeros(0), np.zeros((0, 0)), 1.0
    edges = np.linspace(begin[0], max(end[-1], begin[0] + 1e-9), _TIMES + 1)
    share = np.clip(edges, begin[:, None], end[:, None]) - begin[:, None]
    with np.errstate(invalid="ignore"):
        share = np.diff(share, axis=1) / (end - begin)[:, None]
    now = np.flatnonzero(begin == end)
    share[now] = 0.0
    share[now, np.clip(np.searchsorted(edges, begin[now], "right") - 1, 0, _TIMES - 1)] = 1.0
    mass = np.zeros((len(ids), _TIMES))
    own = np.isin(tracks["id"].to_numpy(), ids)
    rows = np.searchsorted(ids, tracks["id"].to_numpy()[own])
    np.add.at(mass, rows, share[own] * tracks["mass"].to_numpy()[own, None])
    for _ in range(2):  # smooths days and nights
        wide = np.pad(mass, ((0, 0), (1, 1)), mode="edge")
        mass = 0.25 * wide[:, :-2] + 0.5 * mass + 0.25 * wide[:, 2:]
    return 0.5 * (edges[1:] + edges[:-1]), mass, float(edges[1] - edges[0])


class Layers(NamedTuple):
    """K components over T times."""

    ids: Any  # (K,)
    names: list[str]
    mass: Any  # (K, T)
    counts: Any  # (K,) in all


def draw_layers(
    ax: Any,
    x: Any,
    layers: Layers,
    live: set[int],
    merged: Collection[int] = (),
    urls: Mapping[int, str] = MappingProxyType({}),
    counted: str = "documents",
) -> None:
    """Draw layers on each other at times ``x`` (T,), from zero, so that the axis gives totals.

    The twelve largest have colours, and names in a legend with their counts of what is ``counted``;
    thick layers are also labelled inside. Beginnings and ends are marked.
    """
    ids, names, mass, counts = layers
    ax.margins(x=0.01)
    for side in "top", "right":
        ax.spines[side].set_visible(False)
    if not len(ids):
        return
    large = np.argsort(-np.asarray(counts), kind="stable")[: len(COLOURS)]
    others = np.setdiff1d(np.arange(len(ids)), large)
    order, n = [*np.sort(large).tolist(), *others.tolist()], len(large)  # the others on top
    ids, mass, counts = ids[order], mass[order], np.asarray(counts, dtype=np.float64)[order]
    names = [names[k] for k in order]
    colours = [*COLOURS[:n], *(_OTHERS[k % 2] for k in range(len(others)))]
    drawn = ax.stackplot(x, mass, colors=colours, linewidth=0.4, edgecolor="white")
    if np.issubdtype(x.dtype, np.datetime64):
        date_axis(ax, year=True)
    ax.set_ylim(0.0, 1.04 * float(mass.sum(axis=0).max()) or 1.0)
    middle = np.cumsum(mass, axis=0) - 0.5 * mass
    for k, layer in enumerate(drawn):
        layer.set_label(names[k])
        if (url := urls.get(int(ids[k]))) is not None:
            layer.set_urls([url])
    marks = _draw_marks(ax, x, mass[:n], middle[:n], ids[:n], live, merged)
    handles = drawn[:n][::-1]
    labels = [f"{short(names[k], _LONGEST)} ({counts[k]:,.0f})" for k in reversed(range(n))]
    if len(others):
        handles = [matplotlib("patches").Patch(color=_OTHERS[0]), *handles]
        labels = [f"{len(others)} smaller ones ({counts[n:].sum():,.0f})", *labels]
    legend = ax.legend(
        [*handles, *marks], [*labels, *(mark.get_label() for mark in marks)], frameon=False,
        loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=9, handlelength=1.2,
        title=f"{'id' if all(map(str.isdigit, names)) else 'words'} ({counted})", title_fontsize=9,
        alignment="left",
    )  # fmt: skip
    for text in legend.get_texts():
        text.set_parse_math(False)
    _write(ax, x, mass[:n], middle[:n], names, colours)


def _draw_marks(
    ax: Any, x: Any, mass: Any, middle: Any, ids: Any, live: set[int], merged: Collection[int]
) -> list[Any]:
    """Mark beginnings and ends of layers; return the marks used."""
    there = mass > 0.01 * mass.max(axis=1, keepdims=True)
    first, last = there.argmax(axis=1), len(x) - 1 - there[:, ::-1].argmax(axis=1)
    k = np.arange(len(ids))
    joined = np.isin(ids, list(merged))
    gone = ~np.isin(ids, list(live)) & ~joined
    born = first > 0  # not present from the start
    made = []
    for marker, at, place in ("^", k[born], first), ("x", k[gone], last), (">", k[joined], last):
        if len(at):
            made += ax.plot(
                x[place[at]], middle[at, place[at]], marker, color=_DARK, markersize=4,
                linestyle="none", label=_MARKS[marker],
            )  # fmt: skip
    return made


def _write(ax: Any, x: Any, mass: Any, middle: Any, names: list[str], colours: list[str]) -> None:
    """Write names into layers, inside the layer and clear of other names."""
    at = np.asarray(ax.convert_xunits(x), dtype=np.float64)
    ax.figure.draw_without_rendering()  # lays out the text so that it can be measured
    taken: list[Any] = []
    for k in np.argsort(-mass.sum(axis=1), kind="stable").tolist():
        text = ax.text(
            at[0], 0.0, short(names[k], _LONGEST), ha="center", va="center", fontsize=9,
            color=ink_on(colours[k]), parse_math=False,
        )  # fmt: skip
        box = text.get_window_extent()
        for j in np.argsort(-mass[k], kind="stable")[:_PLACES].tolist():
            centre = ax.transData.transform((at[j], middle[k, j]))
            place = box.translated(*(centre - (box.x0 + box.x1, box.y0 + box.y1) / np.array(2.0)))
            if _inside(ax, at, mass[k], middle[k], place) and not any(map(place.overlaps, taken)):
                text.set_position((at[j], middle[k, j]))
                taken.append(place)
                break
        else:
            text.remove()  # the legend has it


def _inside(ax: Any, at: Any, thick: Any, middle: Any, place: Any) -> bool:
    """Whether a box lies entirely within a layer."""
    back = ax.transData.inverted()
    left, right = (back.transform((side, place.y0))[0] for side in (place.x0, place.x1))
    if left < at[0] or right > at[-1]:
        return False
    spots = np.append(at[(at > left) & (at < right)], [left, right])
    half = 0.5 * np.interp(spots, at, thick)
    centre = np.interp(spots, at, middle)
    above = ax.transData.transform(np.column_stack([spots, centre + half]))[:, 1].min()
    below = ax.transData.transform(np.column_stack([spots, centre - half]))[:, 1].max()
    return bool(above >= place.y1 and below <= place.y0)


def layer_names(tracks: Any, ids: Any) -> list[str]:
    """Name components by the words of their largest epoch, or by their ids."""
    names = [str(i) for i in ids.tolist()]
    if "words" in tracks.column_names:
        at = {i: n for n, i in enumerate(ids.tolist())}
        order = np.argsort(tracks["mass"].to_numpy(), kind="stable")
        words, owner = tracks["words"].to_pylist(), tracks["id"].to_pylist()
        for j in order.tolist():
            if words[j] and owner[j] in at:
                names[at[owner[j]]] = " ".join(words[j].split()[:_WORDS])
    return names
