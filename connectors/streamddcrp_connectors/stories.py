"""The stories that a run found in texts: a picture, a page to read, lines of text."""

import html
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamddcrp.estimators.documents import top_words
from streamddcrp.estimators.story_line import StoryLine
from streamddcrp.estimators.stream_graph import plot_stories
from streamddcrp.estimators.texts import read_texts
from streamddcrp.stream.words import WordTable
from streamddcrp.typing import FloatArray, IntArray

from .picture import matplotlib, rendered
from .results import Told

__all__ = ["Story", "draw_stories", "find_stories", "lines_of", "page_of"]

N_STORIES = 40  # told one by one
N_DRAWN = 30
N_EXAMPLES = 3
N_MOMENTS = 10
SHOWN = 160  # letters of a text
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #333; max-width: 1100px; margin: 2em auto;
  padding: 0 1em }
h1 { font-size: 1.5em; margin-bottom: 0 } .facts { color: #666; margin-top: .2em }
svg { width: 100%; height: auto } table { border-collapse: collapse; width: 100% }
td, th { text-align: left; vertical-align: top; padding: .5em .8em .5em 0;
  border-bottom: 1px solid #e8e8e8 } td.n { text-align: right } b { font-weight: 600 }
.said { color: #555; font-size: .92em } .when { color: #777; white-space: nowrap }
"""


@dataclass(frozen=True, slots=True)
class Story:
    """What is told about a story.

    Parameters
    ----------
    label, size : int
    words : str
        The most telling ones.
    first, last : int
        Places of its first and last text.
    examples : tuple of int
        Places of typical texts.
    """

    label: int
    size: int
    words: str
    first: int
    last: int
    examples: tuple[int, ...]


def find_stories(told: Told) -> list[Story]:
    """Find the stories of texts with labels, the largest first."""
    texts, table = read_texts(told.texts), WordTable()
    words, ends = table.read(texts.data, texts.offsets, listed=texts.listed)
    totals = np.bincount(words, minlength=table.capacity).astype(np.float64)
    names = table.decode(np.arange(int(words.max(initial=-1)) + 1))
    found = []
    for label, size in zip(*np.unique(told.labels, return_counts=True), strict=True):
        if label < 0:
            continue
        mine = np.flatnonzero(told.labels == label)
        parts = [slice(ends[i], ends[i + 1]) for i in mine.tolist()]
        own = np.concatenate([words[part] for part in parts])
        which, at, counts = np.unique(own, return_inverse=True, return_counts=True)
        said = top_words(which, counts.astype(np.float64), totals, names) if len(which) else ""
        examples = _typical(mine, counts[at] / size, np.diff(ends)[mine])
        found.append(Story(int(label), int(size), said, int(mine[0]), int(mine[-1]), examples))
    return sorted(found, key=lambda story: (-story.size, story.label))


def _typical(places: IntArray, shared: FloatArray, lengths: IntArray) -> tuple[int, ...]:
    """Choose texts whose words many texts of the story have, of some length."""
    owner = np.repeat(np.arange(len(lengths)), lengths)
    score = np.bincount(owner, shared, minlength=len(lengths)) / (lengths + 2.0)
    best = np.argsort(-score, kind="stable")[:N_EXAMPLES]
    return tuple(places[best].tolist())


def draw_stories(told: Told, stories: list[Story]) -> dict[str, bytes]:
    """Draw the largest stories over time; return the picture as PNG and SVG.

    A cross where a story was last seen, unless that was in the last tenth of the texts.
    """
    words = {story.label: story.words for story in stories}
    late = 0.9 * len(told.labels)
    live = {story.label for story in stories if story.last >= late}
    line = StoryLine().extended(
        told.labels, _times(told), lambda ids: [words.get(i, "") for i in ids.tolist()]
    )

    def figure() -> Any:
        figure = matplotlib("figure").Figure(figsize=(13, 7), facecolor="white")
        ax = figure.add_axes((0.04, 0.07, 0.94, 0.88))
        ax.grid(visible=False)
        stamped = told.clock.stamped
        plot_stories(line.table(), live, ax, largest=N_DRAWN, dates=stamped)
        return figure

    return rendered(figure)


def _times(told: Told) -> FloatArray:
    times = told.clock.times
    if told.clock.stamped:
        times = times.astype("datetime64[us]").astype(np.int64) / 1e6
    return np.asarray(times, np.float64)


def lines_of(told: Told, stories: list[Story]) -> str:
    """Say what the stories are in lines of text."""
    lines = [_facts(told, stories), ""]
    lines += [
        f"{story.size:7,}  {_when(told, story)}  {story.words}" for story in stories[:N_STORIES]
    ]
    return "\n".join(lines) + "\n"


def page_of(told: Told, stories: list[Story], picture: bytes) -> str:
    """Write a page of HTML that needs no other file: picture, stories, surprising texts."""
    drawing = picture.decode()
    rows = []
    for story in stories[:N_STORIES]:
        said = "<br>".join(_text(told, i) for i in story.examples)
        rows.append(
            f'<tr><td class="n">{story.size:,}</td><td class="when">{_when(told, story)}</td>'
            f'<td><b>{html.escape(story.words)}</b><br><span class="said">{said}</span></td>'
            "</tr>"
        )
    scores = np.nan_to_num(told.scores, nan=-np.inf)
    odd = np.argsort(-scores, kind="stable")[:N_MOMENTS].tolist()
    moments = [
        f'<tr><td class="when">{html.escape(told.clock.at(i))}</td><td class="n">'
        f"{told.scores[i]:.0f}</td><td>{_text(told, i)}</td></tr>"
        for i in odd
    ]
    name = html.escape(told.name)
    return (
        f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{name}</title>\n'
        f'<style>{STYLE}</style>\n<h1>{name}</h1>\n<p class="facts">'
        f"{html.escape(_facts(told, stories))}</p>\n{drawing[drawing.index('<svg') :]}\n"
        "<p>Areas are numbers of texts. A triangle: first seen; a cross: last seen.</p>\n"
        "<h2>Stories</h2>\n<table><tr><th>texts<th>first, last<th>words, typical texts</tr>\n"
        + "\n".join(rows)
        + "</table>\n<h2>Surprising texts</h2>\n<table><tr><th>when<th>nats<th>text</tr>\n"
        + "\n".join(moments)
        + "</table>\n</html>\n"
    )


def _facts(told: Told, stories: list[Story]) -> str:
    n, clock = len(told.labels), told.clock
    large = sum(story.size >= 5 for story in stories)
    period = f"{clock.at(0)} to {clock.at(n - 1)}" + (" UTC" if clock.utc else "")
    return f"{n:,} texts, {period}: {len(stories):,} stories, {large:,} of five texts or more."


def _when(told: Told, story: Story, between: str = " - ") -> str:
    return (
        html.escape(told.clock.at(story.first)) + between + html.escape(told.clock.at(story.last))
    )


def _text(told: Told, i: int) -> str:
    text = " ".join(str(told.texts[i].as_py()).split())
    return html.escape(text if len(text) <= SHOWN else text[: SHOWN - 1] + "…")
