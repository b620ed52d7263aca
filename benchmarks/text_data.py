"""Short texts with true topics, from the folder of shared data, in the order in which they came."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pyarrow import parquet

IntArray = NDArray[np.int64]


class Corpus(NamedTuple):
    """Texts, their true topics (N,), -1 where unknown, and in which blocks order is chance."""

    texts: list[str]
    y: IntArray
    block: int


def _labels(column: Any) -> IntArray:
    """Topics as numbers, -1 for none."""
    values = column.to_pylist()
    names = sorted({value for value in values if value is not None})
    at = {name: i for i, name in enumerate(names)}
    return np.array([at.get(value, -1) for value in values], np.int64)


def _plain(path: str, block: int) -> Callable[[Path], Corpus]:
    def load(data: Path) -> Corpus:
        table = parquet.read_table(data / path)
        return Corpus(table["text"].to_pylist(), _labels(table["label"]), block)

    return load


def _reuters(shorten: Callable[[str], str]) -> Callable[[Path], Corpus]:
    def load(data: Path) -> Corpus:
        table = parquet.read_table(data / "reuters21578/reuters_to_1987_03.parquet")
        columns = table["title"].to_pylist(), table["body"].to_pylist()
        texts = [f"{title} {shorten(body)}" for title, body in zip(*columns, strict=True)]
        return Corpus(texts, _labels(table["label"]), 500)

    return load


def _hundred(text: str) -> str:
    return " ".join(text.split()[:100])


def _ap(data: Path) -> Corpus:
    texts = parquet.read_table(data / "ap/docs.parquet", columns=["text"])["text"].to_pylist()
    return Corpus([_hundred(text) for text in texts], np.full(len(texts), -1), 500)


def _reuters_largest(data: Path) -> Corpus:
    """Title and body of the reports of the five topics that most reports have alone."""
    corpus = _reuters(str)(data)
    top = np.argsort(-np.bincount(corpus.y[corpus.y >= 0]), kind="stable")[:5]
    chosen = np.flatnonzero(np.isin(corpus.y, top)).tolist()
    return Corpus([corpus.texts[i] for i in chosen], corpus.y[chosen], 500)


def _newsgroups(*classes: str | tuple[str, ...]) -> Callable[[Path], Corpus]:
    """Messages of some groups of 20 Newsgroups, or of classes of them, shuffled.

    Their words are in no order.
    """
    parts = [(part,) if isinstance(part, str) else part for part in classes]
    at = {group: i for i, part in enumerate(parts) for group in part}

    def load(data: Path) -> Corpus:
        folder = data / "newsgroups20"
        docs = parquet.read_table(folder / "train_docs.parquet")
        words = np.array(parquet.read_table(folder / "vocab.parquet")["token"].to_pylist(), object)
        bow = parquet.read_table(folder / "train_bow.parquet", columns=["doc", "word"])
        bow = bow.sort_by("doc")
        doc, word = (bow[name].to_numpy() for name in ("doc", "word"))
        ends = np.searchsorted(doc, np.arange(len(docs) + 1))
        y = docs["group"].to_pylist()
        chosen = np.flatnonzero([group in at for group in y])
        chosen = np.random.default_rng(0).permutation(chosen)
        texts = [" ".join(words[word[ends[i] : ends[i + 1]]]) for i in chosen.tolist()]
        labels = np.array([at[y[i]] for i in chosen.tolist()], np.int64)
        return Corpus(texts, labels, 1 << 30)

    return load


CORPORA: dict[str, Callable[[Path], Corpus]] = {
    "Tweets-T": _plain("mstream_tweets/tweets_t.parquet", 500),
    "Tweets": _plain("mstream_tweets/tweets.parquet", 500),
    "tweet2472": _plain("tweet2472/tweet2472.parquet", 1 << 30),
    "StackOverflow titles": _plain("stackoverflow_titles/stackoverflow_titles.parquet", 1 << 30),
    "Reuters titles": _reuters(lambda _: ""),
    "Reuters title + 200 characters": _reuters(lambda body: body[:200]),
}
LONG: dict[str, Callable[[Path], Corpus]] = {  # for speed alone
    "Reuters title + 100 words": _reuters(_hundred),
    "Reuters title + body": _reuters(str),
    "AP, 100 words": _ap,
}

BROAD: dict[str, Callable[[Path], Corpus]] = {
    "hockey, space, graphics, Mideast, Christian": _newsgroups(
        "rec.sport.hockey", "sci.space", "comp.graphics", "talk.politics.mideast",
        "soc.religion.christian",
    ),
    "baseball, crypt, mac, atheism, autos": _newsgroups(
        "rec.sport.baseball", "sci.crypt", "comp.sys.mac.hardware", "alt.atheism", "rec.autos"
    ),
    "motorcycles, medicine, X, guns, for sale": _newsgroups(
        "rec.motorcycles", "sci.med", "comp.windows.x", "talk.politics.guns", "misc.forsale"
    ),
    "Windows, electronics, politics, religion, motorcycles": _newsgroups(
        "comp.os.ms-windows.misc", "sci.electronics", "talk.politics.misc", "talk.religion.misc",
        "rec.motorcycles",
    ),
    "five branches": _newsgroups(
        ("comp.graphics", "comp.os.ms-windows.misc", "comp.sys.ibm.pc.hardware",
         "comp.sys.mac.hardware", "comp.windows.x"),
        ("rec.sport.baseball", "rec.sport.hockey"),
        ("rec.autos", "rec.motorcycles"),
        ("talk.politics.guns", "talk.politics.mideast", "talk.politics.misc"),
        ("alt.atheism", "soc.religion.christian", "talk.religion.misc"),
    ),
    "PC, hockey, medicine, Mideast, atheism": _newsgroups(
        "comp.sys.ibm.pc.hardware", "rec.sport.hockey", "sci.med", "talk.politics.mideast",
        "alt.atheism",
    ),
    "graphics, autos, space, guns, Christian": _newsgroups(
        "comp.graphics", "rec.autos", "sci.space", "talk.politics.guns", "soc.religion.christian"
    ),
    "X, baseball, crypt, for sale, politics": _newsgroups(
        "comp.windows.x", "rec.sport.baseball", "sci.crypt", "misc.forsale", "talk.politics.misc"
    ),
    "Reuters, five topics": _reuters_largest,
}  # fmt: skip


def first(corpus: Corpus, n: int) -> Corpus:
    """The first ``n`` documents."""
    return Corpus(corpus.texts[:n], corpus.y[:n], corpus.block)


def shuffled(corpus: Corpus, seed: int) -> tuple[Corpus, IntArray]:
    """The documents in another order within each block, and that order."""
    rng = np.random.default_rng(seed)
    starts = range(0, len(corpus.y), corpus.block)
    blocks = [np.arange(s, min(s + corpus.block, len(corpus.y))) for s in starts]
    order = np.concatenate([rng.permutation(block) for block in blocks])
    return Corpus([corpus.texts[i] for i in order.tolist()], corpus.y[order], corpus.block), order
