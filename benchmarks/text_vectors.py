"""Stories among vectors: what does it bring to let each story have its own expected cosine?

Vectors of the corpora, 100 dimensions of a singular value decomposition of TF-IDF (what a user
without an encoder can make; it sees all documents), and Gaussian ones of known stories: 384
dimensions, twenty at a time of eighty that come and go. The first 4,000 of each. The score is the
log predictive density against that of a vector in a story of its own, nats a vector: comparable.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from tqdm import tqdm

from benchmarks.text_data import Corpus, IntArray, first
from benchmarks.text_peers import TOKEN
from streamddcrp.data.words import ENGLISH
from streamddcrp.models.text.embedding_stream import EmbeddingStream

N, SVD, D = 4_000, 100, 384
COSINES = (0.2, 0.4, 0.6, 0.8)
MODELS: dict[str, dict[str, Any]] = {"rho learned": {}, "rho 0.4": {"rho": 0.4}}


def of_texts(corpus: Corpus) -> tuple[Any, IntArray]:
    """Vectors of documents that hold a word, and their topics."""
    corpus = first(corpus, N)
    X = TfidfVectorizer(token_pattern=TOKEN, stop_words=list(ENGLISH)).fit_transform(corpus.texts)
    X = TruncatedSVD(SVD, random_state=0).fit_transform(X)
    kept = np.abs(X).max(axis=1) > 1e-9
    return X[kept], corpus.y[kept]


def gaussian(cosine: float) -> tuple[Any, IntArray]:
    """Vectors whose expected cosine within a story is given, and their stories."""
    rng = np.random.default_rng(0)
    means = rng.normal(0.0, np.sqrt(cosine / D), (80, D))
    y = rng.choice(20, N, p=rng.dirichlet(np.ones(20))) + np.arange(N) * 60 // N
    return means[y] + rng.normal(0.0, np.sqrt((1.0 - cosine) / D), (N, D)), y


def vectors(corpora: Mapping[str, Corpus]) -> Iterator[tuple[str, Any, IntArray]]:
    """Name, vectors and stories of each stream."""
    for name, corpus in corpora.items():
        yield (name, *of_texts(corpus))
    for cosine in COSINES:
        yield (f"Gaussian, cosine {cosine}", *gaussian(cosine))


def cells(X: Any, y: IntArray, options: dict[str, Any]) -> list[str]:
    """Score, NMI and ARI of final labels and their number, vectors a second."""
    model = EmbeddingStream(**options)
    model.learn_many(X[:0])
    start = time.process_time()
    model.learn_many(X)
    seconds = time.process_time() - start
    label = model.final_labels(window=True)["label"].to_numpy()[y >= 0]
    y = y[y >= 0]
    nmi = normalized_mutual_info_score(y, label, average_method="geometric")
    ari = adjusted_rand_score(y, label)
    score, k = model.objective / len(X), len(np.unique(label))
    return [f"{score:.2f}", f"{nmi:.3f} / {ari:.3f}; {k}", f"{len(X) / seconds:,.0f}"]


def report(corpora: Mapping[str, Corpus], show: Callable[..., None]) -> None:
    """Print the table."""
    EmbeddingStream().learn_many(np.eye(20))  # to compile
    rows = []
    streams = tqdm(vectors(corpora), total=len(corpora) + len(COSINES), desc="vectors", leave=False)
    for name, X, y in streams:
        topics = f"{len(np.unique(y[y >= 0]))}"
        rows.append([name, topics, *(cell for o in MODELS.values() for cell in cells(X, y, o))])
    header = (
        "vectors of",
        "topics",
        *(c for m in MODELS for c in (f"{m}: score", "", "vectors/s")),
    )
    show(f"`EmbeddingStream`, the first {N:,}: score; NMI / ARI; number; speed:", header, rows)
