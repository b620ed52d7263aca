"""A page of HTML to read about stories, which needs no other file."""

import html

import numpy as np

from streamddcrp.typing import FloatArray
from streamddcrp_connectors.report.results import LabelledTexts
from streamddcrp_connectors.report.stories import N_STORIES, Story, day_of, facts_of, survivors

__all__ = ["page_of"]

N_MOMENTS = 10
N_EVENTS = 40  # at most
FEWEST = 5  # texts of a story whose beginning and end are reported
EDGE = 0.05  # part of the texts at both ends, in which beginnings and ends say nothing
SHOWN = 160  # letters of a text
RELATIONS = {"merge": ("joins", "now"), "return": ("returns", "was"), "split": ("parts", "from")}
UNITS = {"a month": 30.0, "a day": 1.0, "an hour": 1.0 / 24.0}  # of rates, in days
BARS, WIDTH, HEIGHT = 40, 120, 26  # of a small picture: how busy a story was
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #333; max-width: 1100px; margin: 2em auto;
  padding: 0 1em }
h1 { font-size: 1.5em; margin-bottom: 0 } h2 { margin: 1.6em 0 .3em }
.facts, .note { color: #666; margin-top: .2em }
svg { width: 100%; height: auto } svg.busy { width: 120px }
table { border-collapse: collapse; width: 100% } td { overflow-wrap: anywhere }
@media (max-width: 700px) { .wide { display: none } td, th { padding-right: .5em } }
td, th { text-align: left; vertical-align: top; padding: .5em .9em .5em 0;
  border-bottom: 1px solid #e8e8e8 } th { white-space: nowrap }
.n { text-align: right } b { font-weight: 600 }
ul { margin: .2em 0 0; padding-left: 1.1em } li { color: #555; font-size: .92em }
.when { color: #777; white-space: nowrap }
"""


def page_of(
    labelled: LabelledTexts,
    stories: list[Story],
    parts: list[Story],
    surprise: FloatArray,
    picture: bytes,
) -> str:
    """Write the page: picture, stories, what happened to them, surprising texts.

    ``parts`` are the stories before they became parts of each other.
    """
    drawing, name = picture.decode(), html.escape(labelled.name)
    at, labels = _places(labelled), survivors(labelled)
    joins = " An arrow head: it became part of another one." if labelled.events else ""
    busiest = f"The {N_STORIES} largest, each with its most typical texts."
    return "\n".join(
        (
            f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{name}</title>',
            f"<style>{STYLE}</style>\n<h1>Stories in {name}</h1>",
            f'<p class="facts">{html.escape(facts_of(labelled, stories))}</p>',
            drawing[drawing.index("<svg") :],
            '<p class="note">Each band is a story, as thick as it is busy. A triangle: first seen; '
            f"a cross: last seen.{joins}</p>",
            _table(
                "Stories",
                busiest if len(stories) > N_STORIES else "",
                f'<th class="n">texts<th>first, last<th class="n wide">{_unit(labelled)}'
                '<th class="wide">when<th>words',
                [
                    _story(labelled, story, at[labels == story.label])
                    for story in stories[:N_STORIES]
                ],
            ),
            _events(labelled, stories, parts),
            _table(
                "Surprising texts",
                "The score is minus the log density (nats); here, beyond that of texts as long.",
                '<th>when<th class="n">nats<th>text',
                [_moment(labelled, surprise, i) for i in _largest(surprise)],
            ),
            "</html>\n",
        )
    )


def _table(title: str, note: str, header: str, rows: list[str]) -> str:
    said = f'<p class="note">{note}</p>\n' if note else ""
    body = "\n".join(rows)
    return f"<h2>{title}</h2>\n{said}<table><tr>{header}</tr>\n{body}</table>"


def _story(labelled: LabelledTexts, story: Story, at: FloatArray) -> str:
    texts = "".join(f"<li>{_text(labelled, i)}</li>" for i in story.examples)
    when = "<br>".join(html.escape(day_of(labelled, i)) for i in (story.first, story.last))
    return (
        f'<tr><td class="n">{story.size:,}</td><td class="when">{when}</td>'
        f'<td class="n wide">{_rate(labelled, story)}</td><td class="wide">{_busy(at)}</td>'
        f"<td><b>{html.escape(story.words)}</b><ul>{texts}</ul></td></tr>"
    )


def _events(labelled: LabelledTexts, stories: list[Story], parts: list[Story]) -> str:
    """Say what happened to the largest stories to which something did, in order."""
    n = len(labelled.labels)
    found = []
    for story in (s for s in stories if s.size >= FEWEST):
        if story.first > EDGE * n:
            found.append((story.first, "begins", story, ""))
        if story.last < (1.0 - 2.0 * EDGE) * n:
            found.append((story.last, "ends", story, ""))
    known = {story.label: story for story in parts}
    for event in labelled.events:
        if event.kind in RELATIONS and event.label in known and event.into in known:
            story, other = known[event.label], known[event.into]
            what, link = RELATIONS[event.kind]
            if story.size >= FEWEST:
                found.append((event.index, what, story, f" ({link} {other.words})"))
    if not found:
        return ""
    largest = sorted(found, key=lambda event: -event[2].size)[:N_EVENTS]
    rows = [
        f'<tr><td class="when">{html.escape(day_of(labelled, i))}</td><td>{what}</td>'
        f'<td class="n">{story.size:,}</td><td>{html.escape(story.words)}'
        f"{html.escape(other)}</td></tr>"
        for i, what, story, other in sorted(largest, key=lambda event: event[0])
    ]
    note = "First and last texts of stories, those at both ends of the stream left out."
    return _table("What happened", note, '<th>when<th><th class="n">texts<th>words', rows)


def _largest(surprise: FloatArray) -> list[int]:
    """Return the most surprising texts; at the beginning everything is new."""
    start = int(EDGE * len(surprise))
    order: list[int] = np.argsort(-surprise[start:], kind="stable")[:N_MOMENTS].tolist()
    return [start + i for i in order]


def _moment(labelled: LabelledTexts, surprise: FloatArray, i: int) -> str:
    return (
        f'<tr><td class="when">{html.escape(day_of(labelled, i))}</td><td class="n">'
        f"{surprise[i]:.0f}</td><td>{_text(labelled, i)}</td></tr>"
    )


def _places(labelled: LabelledTexts) -> FloatArray:
    """Return where in the whole time each text is, 0 to 1."""
    t = np.asarray(labelled.clock.times).astype(np.float64)
    span = float(np.ptp(t)) if len(t) else 0.0
    return (t - t[0]) / span if span > 0.0 else np.linspace(0.0, 1.0, len(t))


def _busy(at: FloatArray) -> str:
    """Draw in bars how busy a story, with texts ``at``, was over the whole time."""
    counts, _ = np.histogram(at, BARS, (0.0, 1.0))
    step, most = WIDTH / BARS, counts.max()
    bars = "".join(
        f'<rect x="{i * step:g}" y="{HEIGHT * (1 - n / most):.1f}" width="{step:g}" '
        f'height="{HEIGHT * n / most:.1f}"/>'
        for i, n in enumerate(counts.tolist())
        if n
    )
    return f'<svg class="busy" viewBox="0 0 {WIDTH} {HEIGHT}" fill="#4e79a7">{bars}</svg>'


def _rate(labelled: LabelledTexts, story: Story) -> str:
    """Say how many texts came between its first and last one, in the unit of `_unit`."""
    times, unit = labelled.clock.times, _unit(labelled)
    if story.size < 2:
        return ""
    if not labelled.clock.stamped:
        return f"{100.0 * story.size / (story.last - story.first + 1):.1f}"
    days = (times[story.last] - times[story.first]) / np.timedelta64(1, "D")
    return f"{story.size * UNITS[unit] / days:.1f}" if days > 0.0 else ""


def _unit(labelled: LabelledTexts) -> str:
    """Return the longest unit of which there are ten."""
    if not labelled.clock.stamped:
        return "in 100"
    days = (labelled.clock.times[-1] - labelled.clock.times[0]) / np.timedelta64(1, "D")
    return next((unit for unit, size in UNITS.items() if days >= 10.0 * size), "an hour")


def _text(labelled: LabelledTexts, i: int) -> str:
    text = "".join(c if c.isprintable() else " " for c in str(labelled.texts[i].as_py()))
    text = " ".join(text.split())
    return html.escape(text if len(text) <= SHOWN else text[: SHOWN - 1] + "…")
