"""HTML pages that load no other file: of the regimes of a series, and of the stories of texts."""

import base64
import hashlib
import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from streamddcrp.plots.figures import printable, short
from streamddcrp.plots.findings import Findings, Regime
from streamddcrp.plots.palette import COLOURS, DARK, GREY, colours_of
from streamddcrp.plots.segments import HOLD, Visit
from streamddcrp.plots.timeline import N_COLOURS, render
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp_connectors.report.results import LabelledTexts
from streamddcrp_connectors.report.stories import N_STORIES, Story, day_of, facts_of, survivors
from streamddcrp_connectors.report.words import described, filled, number, templates

_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_HEX = re.compile(r"#[0-9a-f]{6}", re.IGNORECASE)
# Colours of the pictures, and the variables of style.css that replace them on a page. Those of
# `ink_on` are fixed, since they lie on colours.
_NEUTRAL = {
    "#333333": "ink", "#000000": "ink", "#666666": "soft", "#999999": "axis", "#e8e8e8": "grid",
    "#ffffff": "paper", "#c8d3de": "line", "#bdbdbd": "early",
    "#5a6b7b": "cause", "#262626": "ink", GREY.lower(): "other",
    "#c9cdd1": "rest", "#dde0e3": "rest2",
}  # fmt: skip
_VARIABLES = _NEUTRAL | {colour.lower(): f"c{k}" for k, colour in enumerate(COLOURS)}


def page_of(template: str, **values: Any) -> str:
    """Fill a template of this package; every value is escaped.

    The page's policy allows only its own script, so no request leaves the machine, whatever the
    data contain.
    """
    script = templates().loader.get_source(templates(), "page.js")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return filled(template, script=script, digest=digest, colours=COLOURS, dark=DARK, **values)


def picture_of(svg: bytes, described: str, links: Mapping[str, tuple[str, str]]) -> str:
    """Embed a picture in a page: its colours follow the page, its links have names.

    ``svg`` is matplotlib's output with text kept as text. ``described`` is the alternative text.
    ``links`` maps a link to its element id and its name.
    """
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _LINK)
    root = ET.fromstring(svg)
    for name in ("width", "height"):
        root.attrib.pop(name, None)
    for metadata in root.findall(f"{{{_SVG}}}metadata"):
        root.remove(metadata)
    root.attrib |= {"class": "picture", "role": "group", "aria-label": described}
    found: set[str] = set()
    for element in root.iter():
        if style := element.get("style"):
            element.set("style", _HEX.sub(_variable, style))
        href = element.get(f"{{{_LINK}}}href", "")
        if element.tag == f"{{{_SVG}}}a" and href in links:
            number, name = links[href]
            title = ET.Element(f"{{{_SVG}}}title")
            title.text = name
            element.insert(0, title)
            element.set("aria-label", name)
            element.attrib.pop("target", None)  # matplotlib opens another window
            if href in found:
                element.attrib |= {"tabindex": "-1", "aria-hidden": "true"}
            else:
                element.set("id", number)
            found.add(href)
    return ET.tostring(root, encoding="unicode")


def _variable(match: re.Match[str]) -> str:
    name = _VARIABLES.get(match[0].lower())
    return match[0] if name is None else f"var(--{name})"


N_VISITS = 300  # the longest stays, each with a row of its own
N_REGIMES = 40
N_COLUMNS = 200
DOTS = " in the colour of its regime"


def page_of_regimes(findings: Findings) -> str:
    """Write the page: the picture, the regimes, surprising moments, and the stays.

    Bars of the picture link to rows of the tables, and rows link back.
    """
    series, values = findings.series, described(findings, N_REGIMES, N_VISITS)
    stays: list[Visit] = sorted(values["stays"], key=lambda stay: stay.first)
    urls: dict[Visit | int, str] = {stay: f"#visit-{n}" for n, stay in enumerate(stays, start=1)}
    urls |= {rank: f"#moment-{rank}" for rank in range(1, len(findings.moments) + 1)}
    svg = render(findings, ("svg",), urls, {"svg.fonttype": "none"})["svg"]
    n_left = len(findings.regimes) - len(values["largest"])
    left_out = f" The {n_left:,} smallest regimes are left out." if n_left > 0 else ""
    coloured = findings.largest(0 if series.causes else N_COLOURS)
    colours = colours_of(regime.label for regime in coloured)
    described_by = " ".join([*values["facts"], "The tables below say what is in the picture."])
    return page_of(
        "regimes.html",
        **values | {"stays": stays},
        title=series.name,
        picture=picture_of(svg, described_by, _links(findings, stays)),
        caption=f"Each panel is a column, each dot a row{'' if series.causes else DOTS}; below "
        "them how surprising each row was, and when each regime was present. Bars and numbers are "
        "links to the tables.",
        example="regime 2, a date, a column",
        rule=f"A regime is a state that lasted for at least {HOLD} consecutive rows; one that "
        f"comes back keeps its number.{left_out}",
        place_of={label: COLOURS.index(colour) for label, colour in colours.items()},
        columns=range(min(len(series.features), N_COLUMNS)),
        cell=_cell,
        printable=printable,
    )


def _links(findings: Findings, stays: list[Visit]) -> dict[str, tuple[str, str]]:
    """Return the names of the picture's links, and the ids for links back."""
    series, at = findings.series, findings.series.clock.at
    bands = {
        f"#visit-{n}": (
            f"band-{n}",
            f"{series.name_of(stay.label)}, {at(stay.first)} to {at(stay.last)}",
        )
        for n, stay in enumerate(stays, start=1)
    }
    return bands | {
        f"#moment-{rank}": (f"peak-{rank}", f"surprising moment {rank}, {at(place)}")
        for rank, place in enumerate(findings.moments, start=1)
    }


def _cell(regime: Regime, d: int) -> tuple[str, str]:
    """Return the mean and the range of a column in a regime."""
    if np.isnan(regime.mean[d]):
        return "missing", ""
    low, high = number(regime.low[d]), number(regime.high[d])
    return number(regime.mean[d]), "" if low == high else f"{low} to {high}"


N_MOMENTS = 10
N_EVENTS = 40  # at most
N_THEMES, N_OF_THEME = 20, 5  # and of stories named of each
FEWEST = 5  # least texts of a story whose beginning and end are reported
BURST = 8.0  # times the usual number of a story that goes on are a burst
EDGE = 0.05  # share of texts at each end whose births and ends are not reported
SHOWN = 160  # letters shown of a text
RELATIONS = {"merge": ("joins", "now"), "return": ("returns", "was"), "split": ("parts", "from")}
UNITS = {"a month": 30.0, "a day": 1.0, "an hour": 1.0 / 24.0}  # of rates, in days
BARS, WIDTH, HEIGHT = 40, 120, 26  # of a small picture of a story's activity


def page_of_stories(
    labelled: LabelledTexts,
    stories: list[Story],
    parts: list[Story],
    themes: list[tuple[Story, list[Story]]],
    surprise: FloatArray,
    picture: bytes,
) -> str:
    """Write the page: the picture, stories, their events, surprising texts.

    Layers of the picture link to rows of the table, and rows link back. ``parts`` are the stories
    before merges, ``themes`` those of `find_themes`.
    """
    at, labels, facts = _places(labelled), survivors(labelled), facts_of(labelled, stories)
    shown = stories[:N_STORIES]
    links = {
        f"#story-{s.label}": (f"layer-{s.label}", f"{s.words}, {s.size:,} texts") for s in shown
    }
    svg = picture_of(picture, f"{facts} The tables below say what is in the picture.", links)
    joins = " Arrow heads: they became parts of others." if labelled.events else ""
    return page_of(
        "stories.html",
        title=f"Stories in {labelled.name}",
        facts=[facts],
        picture=svg,
        caption="Each layer is a story, as thick as it is busy; the twelve largest have colours. "
        f"Triangles: where they were first seen; crosses: where last.{joins} Layers are links to "
        "the table.",
        example="a word, a date",
        more=len(stories) > len(shown),
        unit=_unit(labelled),
        width=WIDTH,
        height=HEIGHT,
        stories=shown,
        drawn=lambda story: f'id="layer-{story.label}"' in svg,
        bars=lambda story: _busy(at[labels == story.label]),
        day=partial(day_of, labelled),
        rate=partial(_rate, labelled),
        text=partial(_text, labelled),
        themes=themes[:N_THEMES],
        n_of_theme=N_OF_THEME,
        events=_events(labelled, stories, parts, at, labels),
        surprise=surprise,
        moments=_largest(surprise),
    )


def _events(
    labelled: LabelledTexts,
    stories: list[Story],
    parts: list[Story],
    at: FloatArray,
    labels: IntArray,
) -> list[tuple[int, str, Story, str]]:
    """Return the events of the largest stories, in order: text, what, story, more about it.

    Places ``at`` and labels are (N,).
    """
    n = len(labelled.labels)
    found, closed = [], set()
    for event in labelled.events:
        if event.kind == "closed":
            closed.add(event.label)
        elif event.kind == "return":
            closed.discard(event.label)
    for story in (s for s in stories if s.size >= FEWEST):
        if story.first > EDGE * n:
            found.append((story.first, "begins", story, ""))
        if story.label in closed if closed else story.last < (1.0 - 2.0 * EDGE) * n:
            found.append((story.last, "ends", story, ""))
        rows = np.flatnonzero(labels == story.label)
        bars, _ = np.histogram(at[rows], BARS, (0.0, 1.0))
        most, before = int(bars.max()), int(bars[: bars.argmax()].sum())
        if most > BURST * (1.0 + np.median(bars)) and (bars > 0).sum() > BARS / 2:
            found.append((int(rows[before]), "bursts", story, f" ({most:,} of its texts)"))
    known = {story.label: story for story in parts}
    for event in labelled.events:
        if event.kind in RELATIONS and event.label in known and event.into in known:
            story, other = known[event.label], known[event.into]
            what, link = RELATIONS[event.kind]
            if story.size >= FEWEST:
                said = f" ({link} {other.words})" if other is not story else ""
                found.append((event.index, what, story, said))
    largest = sorted(found, key=lambda event: -event[2].size)[:N_EVENTS]
    return sorted(largest, key=lambda event: event[0])


def _largest(surprise: FloatArray) -> list[int]:
    """Return the most surprising texts, without the beginning, where everything is new."""
    start = int(EDGE * len(surprise))
    order: list[int] = np.argsort(-surprise[start:], kind="stable")[:N_MOMENTS].tolist()
    return [start + i for i in order]


def _places(labelled: LabelledTexts) -> FloatArray:
    """Return each text's position in the whole time, 0 to 1."""
    t = np.asarray(labelled.clock.times).astype(np.float64)
    span = float(np.ptp(t)) if len(t) else 0.0
    return (t - t[0]) / span if span > 0.0 else np.linspace(0.0, 1.0, len(t))


def _busy(at: FloatArray) -> list[tuple[str, ...]]:
    """Return bars (x, y, width, height) of a story's activity, given its texts ``at``."""
    counts, _ = np.histogram(at, BARS, (0.0, 1.0))
    step, most = WIDTH / BARS, counts.max()
    return [
        (f"{i * step:g}", f"{HEIGHT * (1 - n / most):.1f}", f"{step:g}", f"{HEIGHT * n / most:.1f}")
        for i, n in enumerate(counts.tolist())
        if n
    ]


def _rate(labelled: LabelledTexts, story: Story) -> str:
    """State the rate of texts between a story's first and last, in the unit of `_unit`."""
    times, unit = labelled.clock.times, _unit(labelled)
    if story.size < 2:
        return ""
    if not labelled.clock.stamped:
        return f"{100.0 * story.size / (story.last - story.first + 1):.1f}"
    days = (times[story.last] - times[story.first]) / np.timedelta64(1, "D")
    return f"{story.size * UNITS[unit] / days:.1f}" if days > 0.0 else ""


def _unit(labelled: LabelledTexts) -> str:
    """Return the longest unit that fits ten times into the whole."""
    if not labelled.clock.stamped:
        return "in 100"
    days = (labelled.clock.times[-1] - labelled.clock.times[0]) / np.timedelta64(1, "D")
    return next((unit for unit, size in UNITS.items() if days >= 10.0 * size), "an hour")


def _text(labelled: LabelledTexts, i: int) -> str:
    text = " ".join(printable(str(labelled.texts[i].as_py())).split())
    return short(text, SHOWN)
