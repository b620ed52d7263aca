"""How well are the topics of short texts found in one pass, and how fast, from raw strings?

One default setting for all corpora. Two labels of `TextStream` are judged: the one given at once,
and the final one, 500 documents later. Beside it river's TextClust, at the radius that is best by
NMI and ARI of the first 3,000 documents (its label of a document before it learns it, or right
after where it has no cluster for it), and k-means by mini-batches over TF-IDF of all documents at
once, told the true number of topics.

NMI is normalised by the geometric mean; documents without a topic are learned and not judged. "K"
is the number of clusters of judged documents, in brackets of those with at least five. CPU seconds
of one thread, since the machine is shared.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute
from river import cluster
from sklearn.cluster import MiniBatchKMeans
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from threadpoolctl import threadpool_limits

from benchmarks.machine import machine, markdown, spread
from benchmarks.streams import DATA
from benchmarks.text_data import CORPORA, Corpus, first, shuffled
from streamddcrp.estimators.text_stream import TextStream
from streamddcrp.estimators.texts import read_texts
from streamddcrp.stream.words import ENGLISH, WordTable

IntArray = NDArray[np.int64]

RADII, FEW = (0.3, 0.5, 0.7, 0.9), 3_000  # documents by whose labels the radius is chosen
BATCH = 1_000
SEEDS = range(5)
TOKEN = r"[a-z0-9][a-z0-9+#']*"
QUALITY = ("corpus", "documents", "topics", "method", "NMI", "ARI", "K", "documents/s")


class Found(NamedTuple):
    """Labels (N,) and CPU seconds."""

    labels: IntArray
    seconds: float


def stories(texts: Any, batch: int = BATCH) -> tuple[Found, Found, float]:
    """Labels at once and final ones of `TextStream`, and its mean score."""
    arrow = texts if isinstance(texts, pa.Array) else pa.array(texts)
    model = TextStream()
    model.step_many(arrow[:0])
    at_once, final, score = [], [], 0.0
    start = time.process_time()
    for row in range(0, len(arrow), batch):
        out = model.step_many(arrow[row : row + batch])
        at_once.append(out["label"].to_numpy())
        score += float(np.nansum(out["score"].to_numpy()))
        final.append(model.final_labels()["label"].to_numpy())
    seconds = time.process_time() - start
    final.append(model.final_labels(window=True)["label"].to_numpy())
    labels = Found(np.concatenate(at_once), seconds), Found(np.concatenate(final), seconds)
    return (*labels, score / len(arrow))


def bags(texts: Sequence[str]) -> list[dict[str, int]]:
    """The same words as `TextStream` reads, as river wants them."""
    table, read = WordTable(), read_texts(list(texts))
    words, ends = table.read(read.data, read.offsets, listed=read.listed)
    names = np.array(table.decode(words), object)
    return [dict.fromkeys(part.tolist(), 1) for part in np.split(names, ends[1:-1])]


def textclust(rows: Sequence[dict[str, int]], radius: float) -> Found:
    """Labels of river's TextClust."""
    model = cluster.TextClust(radius=radius, real_time_fading=False)
    labels, start = [], time.process_time()
    for words in rows:
        if not words:
            labels.append(-1)
            continue
        before = model.predict_one(words)
        model.learn_one(words)
        labels.append(model.predict_one(words) if before is None else before)
    labels = [-1 if label is None else label for label in labels]
    return Found(np.array(labels, np.int64), time.process_time() - start)


def kmeans(corpus: Corpus) -> Found:
    """Labels of k-means with the true number of topics, all documents at hand."""
    start = time.process_time()
    X = TfidfVectorizer(token_pattern=TOKEN, stop_words=list(ENGLISH)).fit_transform(corpus.texts)
    k = len(np.unique(corpus.y[corpus.y >= 0]))
    labels = MiniBatchKMeans(k, n_init=3, batch_size=4096, random_state=0).fit_predict(X)
    return Found(labels.astype(np.int64), time.process_time() - start)


def agreement(y: IntArray, label: IntArray) -> tuple[float, float]:
    """NMI by the geometric mean and ARI of the documents with a topic."""
    y, label = y[y >= 0], label[y >= 0]
    nmi = normalized_mutual_info_score(y, label, average_method="geometric")
    return float(nmi), float(adjusted_rand_score(y, label))


def large(label: IntArray) -> int:
    """Number of clusters of at least five."""
    return int((np.unique(label, return_counts=True)[1] >= 5).sum())


def line(name: str, corpus: Corpus, method: str, found: Found) -> list[str]:
    """A row of the table."""
    judged = corpus.y >= 0
    y, label = corpus.y[judged], found.labels[judged]
    return [
        name,
        f"{len(corpus.y):,}",
        f"{len(np.unique(y))} ({large(y)})",
        method,
        *(f"{value:.3f}" for value in agreement(y, label)),
        f"{len(np.unique(label)):,} ({large(label)})",
        f"{len(corpus.y) / found.seconds:,.0f}",
    ]


def quality(name: str, corpus: Corpus, *, peers: bool) -> list[list[str]]:
    """Rows of one corpus."""
    at_once, final, _ = stories(corpus.texts)
    rows = [
        line(name, corpus, "TextStream, final labels", final),
        line(name, corpus, "TextStream, labels at once", at_once),
    ]
    if peers:
        documents, y = bags(corpus.texts), corpus.y[:FEW]
        tried = [(radius, textclust(documents[:FEW], radius)) for radius in RADII]
        radius, found = max(tried, key=lambda pair: sum(agreement(y, pair[1].labels)))
        if len(documents) > FEW:
            found = textclust(documents, radius)
        rows.append(line(name, corpus, f"TextClust, radius {radius} by labels", found))
        rows.append(line(name, corpus, "k-means, true K, all at once", kmeans(corpus)))
    return rows


def order(name: str, corpus: Corpus) -> list[str]:
    """How much the final labels depend on the order within blocks."""
    found = []
    for seed in SEEDS:
        other, _ = shuffled(corpus, seed)
        _, final, _ = stories(other.texts)
        judged = final.labels[other.y >= 0]
        found.append((*agreement(other.y, final.labels), len(np.unique(judged))))
    nmi, ari, k = zip(*found, strict=True)
    return [name, spread(nmi, ".3f"), spread(ari, ".3f"), spread(k, ".0f")]


def best_of(run: Callable[[], Any], n: int) -> float:
    """Documents a second, the best of three."""
    seconds = []
    for _ in range(3):
        start = time.process_time()
        run()
        seconds.append(time.process_time() - start)
    return n / min(seconds)


def reading(texts: list[str]) -> list[list[str]]:
    """Ways from raw texts to numbers of words, in documents a second."""
    arrow, n = pa.array(texts), len(texts)
    read = read_texts(arrow)
    hashing = HashingVectorizer(token_pattern=TOKEN, stop_words=list(ENGLISH), norm=None)
    ways: dict[str, Callable[[], Any]] = {
        "`WordTable.read`": lambda: WordTable().read(read.data, read.offsets, listed=False),
        "pyarrow: lower, split, dictionary (stop words stay)": lambda: (
            compute.split_pattern_regex(compute.utf8_lower(arrow), r"[^a-z0-9+#']+")
            .flatten()
            .dictionary_encode()
        ),
        "scikit-learn, HashingVectorizer": lambda: hashing.transform(texts),
    }
    try:
        import tokenizers  # noqa: PLC0415
    except ImportError:
        rows = [["tokenizers, pre-tokenizer and a dict", "skipped: not installed"]]
    else:
        cut = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"[^a-z0-9+#']+"), "removed")

        def run() -> None:
            at: dict[str, int] = {}
            for text in texts:
                for word, _ in cut.pre_tokenize_str(text.lower()):
                    at.setdefault(word, len(at))

        rows = []
        ways["tokenizers, pre-tokenizer and a dict"] = run
    return [[name, f"{best_of(run, n):,.0f}"] for name, run in ways.items()] + rows


def memory(corpus: Corpus, n: int) -> list[list[str]]:
    """State and process while ``n`` documents pass whose words are others in each round."""
    model, rows, done, seconds = TextStream(), [], 0, 0.0
    marks = [n // 10, n // 4, n // 2, n]
    while done < n:
        mark = f"q{done // len(corpus.texts)}"
        words = [[f"{word}{mark}" for word in text.split()] for text in corpus.texts[: n - done]]
        texts = pa.array([" ".join(part) for part in words])
        start = time.process_time()
        for row in range(0, len(texts), 10_000):
            model.step_many(texts[row : row + 10_000])
            model.final_labels()
            model.events()
        seconds += time.process_time() - start
        done += len(texts)
        if done >= marks[0]:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            state = len(model.to_bytes()) / 1e6
            clusters = len(model.summary())
            rows.append([f"{done:,}", f"{state:.2f}", f"{clusters}", f"{peak:,.0f}",
                         f"{done / seconds:,.0f}"])  # fmt: skip
            marks = [m for m in marks if m > done]
    return rows


@click.command("text")
@click.option(
    "--data", type=click.Path(path_type=Path), default=DATA, help="Folder of shared data."
)
@click.option("--only", help="Corpora whose names hold this.")
@click.option("--first", "n", default=0, help="Take so many documents of each.")
@click.option("--peers/--no-peers", default=True, help="Run the others too, minutes a corpus.")
@click.option("--turnover", default=1_000_000, show_default=True, help="Documents; 0: none.")
def main(data: Path, only: str | None, n: int, peers: bool, turnover: int) -> None:
    """Find the topics of short texts in one pass, beside TextClust and k-means."""
    chosen = {}
    for name, load in CORPORA.items():
        if only is not None and only.lower() not in name.lower():
            continue
        try:
            corpus = load(data)
        except FileNotFoundError as error:
            click.echo(f"Skipped {name}: there is no {error}.")
            continue
        chosen[name] = first(corpus, n) if n else corpus
    if not chosen:
        return
    click.echo(machine())
    with threadpool_limits(1):
        stories(["to compile"] * 1000)
        click.echo("\n" + markdown(QUALITY, []))
        for name, corpus in chosen.items():
            for row in quality(name, corpus, peers=peers):
                click.echo("| " + " | ".join(row) + " |")
        click.echo()
        rows = [order(name, c) for name, c in chosen.items()]
        click.echo(
            "Five orders within blocks of 500 documents (of all, where time means nothing):\n"
        )
        click.echo(markdown(("corpus", "NMI", "ARI", "K"), rows) + "\n")
        name, corpus = next(iter(chosen.items()))
        click.echo(f"Reading words of {name}, documents/s:\n")
        click.echo(markdown(("way", "documents/s"), reading(corpus.texts)) + "\n")
        if turnover:
            click.echo(f"{name} again and again, all words new in each round:\n")
            header = ("documents", "state, MB", "live stories", "process, MB", "documents/s")
            click.echo(markdown(header, memory(corpus, turnover)))


if __name__ == "__main__":
    main()
