"""The report page about the stories of texts."""

from typing import Any

import numpy as np

from streamddcrp.plots.figures import printable, short
from streamddcrp.typing import FloatArray
from streamddcrp_connectors.report.page import page_of, picture_of
from streamddcrp_connectors.report.results import LabelledTexts
from streamddcrp_connectors.report.stories import N_STORIES, Story, day_of, facts_of, survivors

N_MOMENTS = 10
N_EVENTS = 40  # at most
N_THEMES, N_OF_THEME = 20, 5  # and of stories named of each
FEWEST = 5  # least texts of a story whose beginning and end are reported
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
        stories=[
            _story(labelled, story, at[labels == story.label])
            | {"drawn": f'id="layer-{story.label}"' in svg}
            for story in shown
        ],
        themes=[
            {
                "size": f"{theme.size:,}",
                "words": theme.words,
                "n": len(own),
                "stories": [story for story in own if story in shown][:N_OF_THEME],
            }
            for theme, own in themes[:N_THEMES]
        ],
        events=_events(labelled, stories, parts),
        moments=[
            {"at": day_of(labelled, i), "score": f"{surprise[i]:.0f}", "text": _text(labelled, i)}
            for i in _largest(surprise)
        ],
    )


def _story(labelled: LabelledTexts, story: Story, at: FloatArray) -> dict[str, Any]:
    return {
        "label": story.label, "size": f"{story.size:,}", "words": story.words,
        "copies": f"{story.copies:,} copies" if story.copies else "",
        "first": day_of(labelled, story.first), "last": day_of(labelled, story.last),
        "rate": _rate(labelled, story), "bars": _busy(at),
        "texts": [_text(labelled, i) for i in story.examples],
    }  # fmt: skip


def _events(
    labelled: LabelledTexts, stories: list[Story], parts: list[Story]
) -> list[dict[str, Any]]:
    """Describe the events of the largest stories, in order."""
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
    known = {story.label: story for story in parts}
    for event in labelled.events:
        if event.kind in RELATIONS and event.label in known and event.into in known:
            story, other = known[event.label], known[event.into]
            what, link = RELATIONS[event.kind]
            if story.size >= FEWEST:
                found.append((event.index, what, story, f" ({link} {other.words})"))
    largest = sorted(found, key=lambda event: -event[2].size)[:N_EVENTS]
    return [
        {"at": day_of(labelled, i), "what": what, "size": f"{story.size:,}", "words": story.words,
         "other": other}
        for i, what, story, other in sorted(largest, key=lambda event: event[0])
    ]  # fmt: skip


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
