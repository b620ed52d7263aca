"""Stories among vectors: what does it bring to learn rho, temper and alpha?

Vectors of the corpora, 100 dimensions of a singular value decomposition of TF-IDF (what a user
without an encoder can make; it sees all documents), the first 4,000 of each; and generated ones of
known stories. The score is the log predictive density against that of a vector in a story of its
own, nats a vector: comparable where temper is the same.
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

N, SVD = 4_000, 100
SEEDS = range(1, 20, 2)  # of those generated; constants were chosen on the even ones
MODELS: dict[str, dict[str, Any]] = {
    "learned": {},
    "topic": {"scale": "topic"},
    "given": {"rho": 0.3, "temper": 0.25, "alpha": 30.0},
}


def of_texts(corpus: Corpus) -> tuple[Any, IntArray]:
    """Vectors of documents that hold a word, and their topics."""
    corpus = first(corpus, N)
    X = TfidfVectorizer(token_pattern=TOKEN, stop_words=list(ENGLISH)).fit_transform(corpus.texts)
    X = TruncatedSVD(SVD, random_state=0).fit_transform(X)
    kept = np.abs(X).max(axis=1) > 1e-9
    return X[kept], corpus.y[kept]


def generated(seed: int, n: int = 2_500) -> tuple[Any, IntArray, str]:
    """Vectors of stories of one cosine, their stories, and what was drawn."""
    rng = np.random.default_rng(seed)
    D, K = int(rng.choice((64, 100, 384))), int(rng.choice((5, 10, 20, 60)))
    cosine, power = rng.choice((0.15, 0.25, 0.4, 0.6)), rng.choice((0.0, 0.25))
    common, moving = rng.choice((0.0, 0.0, 0.3)), rng.random() < 0.5
    spread = np.arange(1, D + 1) ** -power
    spread /= np.sqrt((spread * spread).sum())
    means = rng.normal(size=(3 * K if moving else K, D)) * spread * np.sqrt(cosine)
    y = rng.choice(K, n, p=rng.dirichlet(np.full(K, 2.0)))
    y = y + np.arange(n) * 2 * K // n if moving else y
    X = means[y] + rng.normal(size=(n, D)) * spread * np.sqrt(1.0 - cosine)
    if common:
        shared = rng.normal(size=(1, D)) * spread
        X = np.sqrt(1.0 - common) * X + np.sqrt(common) * shared / np.linalg.norm(shared)
    said = f"generated, D {D}, cosine {cosine}, spectrum {power}, in common {common}"
    return X, y, said + (", moving" if moving else "")


def vectors(corpora: Mapping[str, Corpus]) -> Iterator[tuple[str, Any, IntArray]]:
    """Name, vectors and stories of each stream."""
    for name, corpus in corpora.items():
        yield (name, *of_texts(corpus))
    for seed in SEEDS:
        X, y, said = generated(seed)
        yield said, X, y


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
    streams = tqdm(vectors(corpora), total=len(corpora) + len(SEEDS), desc="vectors", leave=False)
    for name, X, y in streams:
        topics = f"{len(np.unique(y[y >= 0]))}"
        rows.append([name, topics, *(cell for o in MODELS.values() for cell in cells(X, y, o))])
    header = (
        "vectors of",
        "topics",
        *(c for m in MODELS for c in (f"{m}: score", "", "vectors/s")),
    )
    show(f"`EmbeddingStream`, the first {N:,}: score; NMI / ARI; number; speed:", header, rows)
