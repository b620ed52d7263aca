"""What the stop words of another language do to stories, and whether the language is recognised.

Simulated: each of the English stop words that `TextStream` leaves out becomes a word of the list of
another language, chosen at random, everywhere; all other words stay. "half": half of the texts, at
random. Labels with the English list, with the right one by its name, and with "auto"; NMI / ARI of
final labels, medians of several choices. Then all English corpora as they are: whether "auto" finds
a language in them, and whether labels and scores are the same to the bit.
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from benchmarks.machine import machine, markdown
from benchmarks.streams import DATA
from benchmarks.text import agreement, stories
from benchmarks.text_data import BROAD, CORPORA, LONG, Corpus
from streamddcrp.data.languages import known_lists
from streamddcrp.data.tokens import tokenize_all
from streamddcrp.data.words import ENGLISH
from streamddcrp.models.text.text_stream import TextStream

SEEDS = range(400, 405)
LANGUAGES = ("german", "french", "polish")


def translated(corpus: Corpus, language: str, seed: int, part: float = 1.0) -> Corpus:
    """The corpus with the stop words of another language in a part of its texts."""
    lists, rng = known_lists(), np.random.default_rng(seed)
    own = [w for w in lists.words[lists.names.index(language)] if len(w) > 1 and w not in ENGLISH]
    into = dict(zip(ENGLISH, rng.permutation(own).tolist(), strict=False))
    chosen = rng.random(len(corpus.texts)) < part
    cut = tokenize_all(corpus.texts)
    texts = [
        " ".join(into.get(word, word) for word in words) if here else text
        for text, words, here in zip(corpus.texts, cut, chosen.tolist(), strict=True)
    ]
    return corpus._replace(texts=texts)


def row(name: str, corpus: Corpus, language: str, part: float) -> list[str]:
    """Agreement with three lists, and what was recognised."""
    cells, found = [name, language + (", half" if part < 1.0 else "")], set()
    for stop_words in ("english", language, "auto"):
        scores = []
        for seed in tqdm(SEEDS, desc=f"{name}, {language}", leave=False):
            other = translated(corpus, language, seed, part)
            model = TextStream(stop_words=stop_words)
            scores.append(agreement(corpus.y, stories(other.texts, model)[1].labels))
            found.add(", ".join(model.languages) if stop_words == "auto" else "")
        nmi, ari = np.median(scores, axis=0)
        cells.append(f"{nmi:.3f} / {ari:.3f}")
    return [*cells, "; ".join(sorted(found - {""})) or "none"]


def unchanged(name: str, corpus: Corpus) -> list[str]:
    """Whether an English corpus is the same with "auto", and the time it takes."""
    english, auto = TextStream(), TextStream(stop_words="auto")
    a, b = stories(corpus.texts, english), stories(corpus.texts, auto)
    same = all(np.array_equal(x.labels, y.labels) for x, y in zip(a[:2], b[:2], strict=True))
    found = ", ".join(auto.languages) or "none"
    return [
        name,
        found,
        "yes" if same and a[2] == b[2] else "no",
        f"{b[0].seconds / a[0].seconds:.2f}",
    ]


@click.command("text-languages")
@click.option(
    "--data", type=click.Path(path_type=Path), default=DATA, help="Folder of shared data."
)
def main(data: Path) -> None:
    """Find stories in texts with the stop words of another language."""
    click.echo(machine())
    with threadpool_limits(1):
        rows = []
        for name in ("StackOverflow titles", "Reuters titles"):
            corpus = CORPORA[name](data)
            kinds = [*((language, 1.0) for language in LANGUAGES), ("german", 0.5)]
            rows += [row(name, corpus, language, part) for language, part in kinds]
        header = ("corpus", "stop words", "english", "by name", "auto", "recognised")
        click.echo(f"\nSimulated languages:\n\n{markdown(header, rows)}")
        stories(["to compile"] * 1000, TextStream(stop_words="auto"))
        rows = [unchanged(name, load(data)) for name, load in (CORPORA | LONG | BROAD).items()]
        header = ("corpus", "recognised", "same labels and score", "time against english")
        click.echo(f"\nEnglish corpora with stop_words='auto':\n\n{markdown(header, rows)}")


if __name__ == "__main__":
    main()
