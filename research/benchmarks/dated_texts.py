"""Texts with dates, in epochs: AP, Reuters and the State of the Union."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pyarrow import parquet
from scipy import sparse

FEWEST = 5  # documents that a word must be in
SHORTEST = 20  # words of a paragraph
WORD = re.compile(r"\b\w\w+\b")  # that of scikit-learn, for all methods


class Corpus(NamedTuple):
    """Counts (N, V) of words in the documents of each epoch, in the order of time; the words."""

    epochs: list[sparse.csr_array]
    words: list[str]


def _ap(data: Path) -> tuple[list[str], list[int]]:
    """Stories of the Associated Press, 1988 and 1990, by month."""
    table = parquet.read_table(data / "ap" / "docs.parquet")
    return table["text"].to_pylist(), [12 * d.year + d.month for d in table["date"].to_pylist()]


def _reuters(*columns: str) -> Callable[[Path], tuple[list[str], list[int]]]:
    """Stories of Reuters, 26 February to 31 March 1987, by day."""

    def stories(data: Path) -> tuple[list[str], list[int]]:
        table = parquet.read_table(data / "reuters21578" / "reuters_to_1987_03.parquet")
        parts = zip(*(table[name].to_pylist() for name in columns), strict=True)
        texts = [" ".join(part or "" for part in story) for story in parts]
        return texts, [time.toordinal() for time in table["time"].to_pylist()]

    return stories


def _sotu(data: Path) -> tuple[list[str], list[int]]:
    """Paragraphs of the addresses on the State of the Union, 1790 to 2020, by decade."""
    table = parquet.read_table(data / "sotu" / "sotu.parquet")
    texts, decades = [], []
    for text, year in zip(table["text"].to_pylist(), table["year"].to_pylist(), strict=True):
        parts = [part for part in re.split(r"\n+", text) if len(WORD.findall(part)) >= SHORTEST]
        texts += parts
        decades += [year // 10] * len(parts)
    return texts, decades


CORPORA: dict[str, Callable[[Path], tuple[list[str], list[int]]]] = {
    "AP by month": _ap,
    "Reuters titles by day": _reuters("title"),
    "Reuters stories by day": _reuters("title", "body"),
    "State of the Union by decade": _sotu,
}


def read(name: str, data: Path, *, common: float = 1.0, most: int | None = None) -> Corpus:
    """Read a corpus; words of fewer than five documents, or of too many, are left out.

    Parameters
    ----------
    name : str
        One of `CORPORA`.
    data : Path
        Folder of shared data.
    common : float
        Largest share of the documents that a word may be in.
    most : int, optional
        Documents of an epoch, drawn at random; the others are left out before words are counted.
    """
    texts, periods = CORPORA[name](data)
    if most is not None:
        rng, seen = np.random.default_rng(0), Counter[int]()
        kept = []
        for i in rng.permutation(len(texts)).tolist():
            seen[periods[i]] += 1
            kept += [i] if seen[periods[i]] <= most else []
        texts, periods = [texts[i] for i in sorted(kept)], [periods[i] for i in sorted(kept)]
    documents = [Counter(WORD.findall(text.lower())) for text in texts]
    spread = Counter(word for document in documents for word in document)
    widest = common * len(documents)
    words = sorted(word for word, n in spread.items() if FEWEST <= n <= widest)
    number = {word: i for i, word in enumerate(words)}
    epochs = []
    for period in sorted(set(periods)):
        rows = [document for document, p in zip(documents, periods, strict=True) if p == period]
        known = [[(number[w], n) for w, n in row.items() if w in number] for row in rows]
        pairs = [pair for row in known for pair in row]
        columns = np.array([w for w, _ in pairs], dtype=np.int64)
        counts = np.array([n for _, n in pairs], dtype=np.float64)
        offsets = np.cumsum([0, *map(len, known)])
        X = sparse.csr_array((counts, columns, offsets), shape=(len(rows), len(words)))
        X.sort_indices()
        epochs.append(X)
    return Corpus(epochs, words)
