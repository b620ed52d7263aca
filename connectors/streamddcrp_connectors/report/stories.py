"""The stories that a run found in texts: descriptions, a picture, lines of text."""

from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from streamddcrp.data.documents import top_words
from streamddcrp.data.texts import read_texts
from streamddcrp.data.words import WordTable
from streamddcrp.models.text.story_line import StoryLine
from streamddcrp.models.text.views import no_names, spelled
from streamddcrp.plots.figures import matplotlib, rendered
from streamddcrp.plots.stream import plot_stories
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp_connectors.report.results import LabelledTexts
from streamddcrp_connectors.report.words import filled

N_STORIES = 40  # described individually
N_DRAWN = 30
N_EXAMPLES = 3
ALIKE = 0.6  # share of common words from which two texts are nearly the same
LOOKED = 200  # most typical texts considered as examples
FIXED = 0.9  # part of a template's lines with a token that does not vary
ANY = "<*>"  # what stands for one that does
MOST = 1000  # last texts of a story that are compared


@dataclass(frozen=True, slots=True)
class Story:
    """The facts reported about a story."""

    label: int
    size: int
    copies: int  # texts with the same words as another
    words: str  # the most typical ones, or the template of lines
    first: int  # position of its first text
    last: int
    examples: tuple[int, ...]  # positions of typical texts


def find_stories(labelled: LabelledTexts, labels: IntArray) -> tuple[list[Story], FloatArray]:
    """Find the stories of labelled texts, largest first, and the surprise of each text.

    Labels (N,) are those of ``labelled``, or `survivors`. The surprise (N,) is the score minus a
    straight-line fit on the number of words (nats).
    """
    texts, table = read_texts(labelled.texts), WordTable()
    words, ends = table.read(texts.data, texts.offsets, listed=texts.listed)
    totals = np.bincount(words, minlength=table.capacity).astype(np.float64)
    names = table.decode(np.arange(int(words.max(initial=-1)) + 1))
    said, found, shared = [], [], np.zeros(len(totals))
    order = np.argsort(labels, kind="stable")
    ids, starts = np.unique(labels[order], return_index=True)
    for label, mine in zip(ids.tolist(), np.split(order, starts[1:]), strict=True):
        if label < 0:
            continue
        parts = [np.unique(words[ends[i] : ends[i + 1]]) for i in mine.tolist()]
        said.append((label, mine, parts, *np.unique(np.concatenate(parts), return_counts=True)))
    stories_with = np.bincount(
        np.concatenate([np.zeros(0, np.int64), *(which for *_, which, _ in said)])
    )
    trade = no_names(np.append(stories_with, 0), len(said))
    for label, mine, parts, which, counts in said:
        own = ~trade[which]
        top = spelled(top_words(which[own], counts[own].astype(np.float64), totals, names))
        shared[which] = (counts - 1) / (len(mine) + 1)
        examples = _typical(mine, parts, shared)
        copies = len(parts) - len({own.tobytes() for own in parts})
        ends_at = int(mine[0]), int(mine[-1])
        found.append(Story(label, len(mine), copies, top, *ends_at, examples))
    found.sort(key=lambda story: (-story.size, story.label))
    found = _named_by_templates(found, {label: mine for label, mine, *_ in said}, labelled.texts)
    return found, _beyond(np.nan_to_num(labelled.scores, nan=0.0), np.diff(ends).astype(np.float64))


def _named_by_templates(stories: list[Story], rows: dict[int, IntArray], texts: Any) -> list[Story]:
    """Name stories by the tokens that their texts have in place, if most texts are such lines."""
    named, fit, n = [], 0, 0
    for story in stories:
        lines = [*map(str.split, {*map(str, texts.take(rows[story.label][-MOST:]).to_pylist())})]
        usual = Counter(map(len, lines)).most_common(1)[0][0]
        alike = [line for line in lines if len(line) == usual]
        common = [Counter(column).most_common(1)[0] for column in zip(*alike, strict=True)]
        fixed = [times >= FIXED * len(alike) for _, times in common]
        words = (token if told else ANY for (token, _), told in zip(common, fixed, strict=True))
        named.append(replace(story, words=" ".join(words)))
        if len(lines) > 2:
            fit += len(alike) * (2 * sum(fixed) >= usual > 1)
            n += len(lines)
    return named if 2 * fit > n else stories


def survivors(labelled: LabelledTexts) -> IntArray:
    """Return labels (N,) with each merged story's label replaced by that of its target."""
    became: dict[int, int] = {}
    for event in reversed(labelled.events):
        if event.kind == "merge" and event.into is not None:
            became[event.label] = became.get(event.into, event.into)
    ids, at = np.unique(labelled.labels, return_inverse=True)
    return np.array([became.get(i, i) for i in ids.tolist()], np.int64)[at]


def themes_of(labelled: LabelledTexts, labels: IntArray) -> dict[int, int]:
    """Return the theme of each story, that of its last text with one; {} where none is known."""
    if labelled.themes is None:
        return {}
    known = (labelled.themes >= 0) & (labels >= 0)
    return dict(zip(labels[known].tolist(), labelled.themes[known].tolist(), strict=True))


def find_themes(
    labelled: LabelledTexts, labels: IntArray, stories: list[Story]
) -> list[tuple[Story, list[Story]]]:
    """Return themes of more than one story, the largest first, each as a story and with its own."""
    theme, parts = themes_of(labelled, labels), dict[int, list[Story]]()
    for story in stories:
        parts.setdefault(theme.get(story.label, -1), []).append(story)
    ids, at = np.unique(labels, return_inverse=True)
    of = np.array([theme.get(i, -1) for i in ids.tolist()], np.int64)[at]
    found, _ = find_stories(labelled, of)
    return [(one, parts[one.label]) for one in found if len(parts[one.label]) > 1]


def _beyond(score: FloatArray, length: FloatArray) -> FloatArray:
    """Return the residuals of a least-squares line."""
    longer = length - length.mean()
    slope = float(longer @ score) / max(float(longer @ longer), 1e-300)
    return np.asarray(score - score.mean() - slope * longer)


def _typical(places: IntArray, words: list[IntArray], shared: FloatArray) -> tuple[int, ...]:
    """Choose texts that share many words with their story, no two of them nearly the same.

    ``shared`` (V,) is the share of the story's other texts that contain a word, as if two more
    lacked it. Texts are ranked by their cosine with it.
    """
    score = np.array([shared[own].sum() / max(len(own), 1) ** 0.5 for own in words])
    chosen: list[int] = []
    for i in np.argsort(-score, kind="stable")[:LOOKED].tolist():
        if all(_overlap(words[i], words[j]) < ALIKE for j in chosen):
            chosen.append(i)
        if len(chosen) == N_EXAMPLES:
            break
    return tuple(places[chosen].tolist())


def _overlap(a: IntArray, b: IntArray) -> float:
    both = len(np.intersect1d(a, b))
    return both / max(len(a) + len(b) - both, 1)


def draw_stories(labelled: LabelledTexts, stories: list[Story]) -> dict[str, bytes]:
    """Draw the largest stories over time, by text labels, as PNG and SVG.

    A cross marks where a story was last seen, unless in the last tenth of the texts. An arrow head
    marks where it joined another one.
    """
    words = {story.label: story.words for story in stories}
    late = 0.9 * len(labelled.labels)
    live = {story.label for story in stories if story.last >= late}
    merged = {event.label for event in labelled.events if event.kind == "merge"}
    line = StoryLine().extended(
        labelled.labels, _times(labelled), lambda ids: [words.get(i, "") for i in ids.tolist()]
    )

    def figure() -> Any:
        make = matplotlib("figure").Figure
        ax = make(figsize=(13, 6.5), facecolor="white", layout="constrained").subplots()
        clock = labelled.clock
        scale = "dates" if clock.stamped else "rows" if clock.counts_rows else "time"
        urls = {story.label: f"#story-{story.label}" for story in stories[:N_STORIES]}
        plot_stories(line.table(), live, ax, largest=N_DRAWN, scale=scale, merged=merged, urls=urls)
        return ax.figure

    return rendered(figure, style={"svg.fonttype": "none"})  # browsers have fonts for all scripts


def _times(labelled: LabelledTexts) -> FloatArray:
    times = labelled.clock.times
    if labelled.clock.stamped:
        times = times.astype("datetime64[us]").astype(np.int64) / 1e6
    return np.asarray(times, np.float64)


def lines_of(labelled: LabelledTexts, stories: list[Story]) -> str:
    """Describe the stories in lines of text."""
    facts, day = facts_of(labelled, stories), partial(day_of, labelled)
    return filled("stories.txt", facts=facts, stories=stories[:N_STORIES], day=day)


def facts_of(labelled: LabelledTexts, stories: list[Story]) -> str:
    """State in a sentence how many texts and stories there are, and their dates."""
    n, utc = len(labelled.labels), " UTC" if labelled.clock.utc else ""
    large = sum(story.size >= 5 for story in stories)
    texts, all_ = _count(n, "text"), _count(len(stories), "story", "stories")
    period = f"{labelled.clock.at(0)} to {labelled.clock.at(n - 1)}{utc}"
    return f"{texts}, {period}: {all_}, {large:,} of five texts or more."


def _count(n: int, one: str, more: str = "") -> str:
    return f"{n:,} {one if n == 1 else more or one + 's'}"


def day_of(labelled: LabelledTexts, i: int) -> str:
    """Write when text ``i`` was, as exactly as the whole time span needs."""
    clock = labelled.clock
    if not clock.stamped:
        return clock.at(i)
    days = (clock.times[-1] - clock.times[0]) / np.timedelta64(1, "D")
    unit: Any = "D" if days > 7.0 else "m" if days > 1.0 / 24.0 else "s"
    return str(np.datetime_as_string(clock.times[i], unit)).replace("T", " ")
