"""Counts of words for experiments on topics, and documents in halves."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from scipy import sparse

from streamddcrp.data import tokenize
from streamddcrp.errors import ConfigError
from streamddcrp.typing import IntArray

from .data import read_documents

FRACTION = 5  # of the documents one in so many is for testing


class TopicCorpus(NamedTuple):
    """Documents to learn, and others whose words are in two halves.

    Attributes
    ----------
    train, seen, held : scipy.sparse.csr_array, shape (N, V), (M, V) and (M, V)
        Counts. Words that are in no training document are left out of all.
    names : list of str
        The V words.
    train_rows, test_rows : ndarray of int64
        Which of the documents they are.
    """

    train: Any
    seen: Any
    held: Any
    names: list[str]
    train_rows: IntArray
    test_rows: IntArray


def split(counts: Any, names: Sequence[str], test: IntArray, seed: int = 0) -> TopicCorpus:
    """Split documents (N, V) into those to learn and those to complete.

    Of every test document a random half of the tokens, rounded down, is seen; the rest is held out.
    """
    X = sparse.csr_array(counts)
    train_rows = np.setdiff1d(np.arange(X.shape[0]), test)
    train = X[train_rows]
    known = np.flatnonzero(np.asarray(train.sum(axis=0)).ravel() > 0)
    rest = sparse.csr_array(X[test][:, known])
    rng = np.random.default_rng(seed)
    seen = rest.copy()
    for a, b in pairwise(rest.indptr):
        n = rest.data[a:b]
        chosen = rng.permutation(int(n.sum()))[: int(n.sum()) // 2]
        seen.data[a:b] = np.bincount(np.repeat(np.arange(b - a), n)[chosen], minlength=b - a)
    held = sparse.csr_array(rest - seen)
    seen.eliminate_zeros()
    return TopicCorpus(
        sparse.csr_array(train[:, known]), seen, held, [names[w] for w in known.tolist()],
        train_rows, test,
    )  # fmt: skip


def unigram(corpus: TopicCorpus, eta: float = 0.1) -> float:
    """Return nats a held-out word under the frequencies of the training documents."""
    n = np.asarray(corpus.train.sum(axis=0)).ravel() + eta
    held = np.asarray(corpus.held.sum(axis=0)).ravel()
    return float(held @ np.log(n / n.sum()) / held.sum())


def _read(bow: Path, vocabulary: Path) -> tuple[Any, list[str]]:
    table = pq.read_table(bow)
    doc, word, count = (table[name].to_numpy() for name in ("doc", "word", "count"))
    names = pq.read_table(vocabulary)["token"].to_pylist()
    shape = (int(doc.max()) + 1, len(names))
    return sparse.csr_array((count.astype(np.int64), (doc, word)), shape=shape), names


def bag_of_words(
    folder: Path, n: int | None = None, seed: int | None = None, fold: int = 0
) -> TopicCorpus:
    """Return the first ``n`` documents of a folder, every fifth or a random fifth to test.

    ``fold``: the first of every fifth.
    """
    counts, names = _read(folder / "bow.parquet", folder / "vocab.parquet")
    some = counts[:n]
    test = np.arange(fold, some.shape[0], FRACTION)
    if seed is not None:
        test = np.sort(np.random.default_rng(seed).permutation(some.shape[0])[: len(test)])
    return split(some, names, test, seed or 0)


def newsgroups(folder: Path, n: int = 5000, fold: int = 0) -> tuple[TopicCorpus, list[str]]:
    """Return shuffled posts to 20 newsgroups, every fifth for testing, and their groups.

    ``fold``: the first of every fifth.

    Words in fewer than ten of the posts, or in more than a tenth of them, are left out, and posts
    without other words.
    """
    counts, names = _read(folder / "train_bow.parquet", folder / "vocab.parquet")
    groups = pq.read_table(folder / "train_docs.parquet")["group"].to_pylist()
    rows = np.random.default_rng(0).permutation(len(groups))[:n]
    some = sparse.csr_array(counts[: len(groups)][rows])
    df = np.diff(sparse.csc_array(some).indptr)
    kept = np.flatnonzero((df >= 10) & (df <= 0.1 * len(rows)))
    some = sparse.csr_array(some[:, kept])
    full = np.flatnonzero(np.diff(some.indptr))
    rows, test = rows[full], np.arange(fold, len(full), FRACTION)
    corpus = split(some[full], [names[w] for w in kept.tolist()], test)
    return corpus, [groups[row] for row in rows.tolist()]


def corpus_of_texts(path: Path, fold: int = 0) -> TopicCorpus:
    """Return the documents of a file, every fifth for testing.

    ``fold``: the first of every fifth.

    Words of three letters and more that are in two documents at least and in a quarter of them at
    most.
    """
    texts = [Counter(w for w in tokenize(text) if len(w) > 2) for text in read_documents(path)]
    df = Counter(word for words in texts for word in words)
    names = sorted(word for word, n in df.items() if 2 <= n <= max(2.0, 0.25 * len(texts)))
    if len(texts) < FRACTION or not names:
        message = f"{path}: too little text; at least {FRACTION} documents that share words"
        raise ConfigError(message)
    at = {word: w for w, word in enumerate(names)}
    entries = [(d, at[w], n) for d, text in enumerate(texts) for w, n in text.items() if w in at]
    doc, word, count = np.array(entries, dtype=np.int64).T
    counts = sparse.csr_array((count, (doc, word)), shape=(len(texts), len(names)))
    return split(counts, names, np.arange(fold, len(texts), FRACTION))
