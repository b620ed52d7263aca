"""How well are the words of tomorrow's texts predicted? The temporal mixture beside topic models.

**The measure.** Texts come in epochs. Epoch t is predicted by what was learned from the epochs
before it: of each of its documents a random half of the words is shown, and each word of the other
half is predicted from that, log p(w | shown half, epochs before t). The figure is the mean over the
words of all test epochs, in nats a word. It is the same for all models: the same words (in five
documents or more; those not met before t are left out), the same halves, and a law over the words
met before t that sums to one.

What is compared: in the temporal mixture (`TemporalDPM`, its defaults) each document belongs to one
component; topic models mix topics within a document, which is the better model of long texts, and
are given the number of topics. The mixture and gensim's online LDA learn each epoch once as it
comes; the others are fitted again to all the past for every test epoch. CPU seconds, since the
machine is shared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from benchmarks.machine import machine, markdown
from benchmarks.streams import DATA
from research.benchmarks.dated_texts import CORPORA, Corpus, read
from research.benchmarks.topic_models import (
    GensimDynamic,
    GensimOnline,
    Mixture,
    Model,
    TomotopyDynamic,
    TomotopyHDP,
    TomotopyLDA,
    Unigram,
    has,
)

BoolArray = NDArray[np.bool_]

PIECE = 256  # documents at once
HEADER = ("texts", "model", "log p a word", "over the unigram", "CPU s")
MODELS: dict[str, tuple[str | None, Callable[[], Model]]] = {
    "unigram": (None, Unigram),
    "temporal mixture": (None, Mixture),
    "gensim online LDA, 50 topics": ("gensim", lambda: GensimOnline(50)),
    "tomotopy LDA, 20 topics": ("tomotopy", lambda: TomotopyLDA(k=20)),
    "tomotopy LDA, 100 topics": ("tomotopy", lambda: TomotopyLDA(k=100)),
    "tomotopy HDP": ("tomotopy", lambda: TomotopyHDP(initial_k=20)),
}
SLOW: dict[str, tuple[str | None, Callable[[], Model]]] = {
    "tomotopy DTM, 20 topics": ("tomotopy", lambda: TomotopyDynamic(k=20)),
    "gensim LdaSeqModel, 10 topics": ("gensim", lambda: GensimDynamic(10)),
}


class Task(NamedTuple):
    """Half of the words of documents of an epoch, and the other half, (N, V) each."""

    shown: sparse.csr_array
    hidden: sparse.csr_array


def halves(X: sparse.csr_array, known: BoolArray, seed: int) -> Task:
    """Part the words of each document at random; those not known, (V,) of bool, are left out."""
    rng = np.random.default_rng(seed)
    X = X.copy()
    X.data *= known[X.indices]
    X.eliminate_zeros()
    X = X[X.sum(axis=1) >= 2.0]
    counts = X.data.astype(np.int64)
    owner = np.repeat(np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), counts)
    word = np.repeat(X.indices, counts)
    order = np.lexsort((rng.random(len(word)), owner))
    start = np.searchsorted(owner, np.arange(X.shape[0]))
    size = np.bincount(owner, minlength=X.shape[0])
    rank = np.empty(len(word), dtype=np.int64)
    rank[order] = np.arange(len(word)) - start[owner[order]]
    first = rank < size[owner] // 2
    parts = []
    for some in (first, ~first):
        one = np.ones(int(some.sum()))
        parts.append(sparse.csr_array((one, (owner[some], word[some])), shape=X.shape))
    return Task(*parts)


def log_p(model: Model, task: Task, known: BoolArray) -> float:
    """Sum of log p of the hidden words under laws over the known words, (V,) of bool."""
    total = 0.0
    for i in range(0, task.shown.shape[0], PIECE):
        p = model.words(task.shown[i : i + PIECE]) * known
        p /= p.sum(axis=1, keepdims=True)
        hidden = task.hidden[i : i + PIECE].tocoo()
        total += float(hidden.data @ np.log(p[hidden.row, hidden.col]))
    return total


class Found(NamedTuple):
    """Mean log p of a hidden word of the test epochs, how many there were, CPU seconds."""

    log_p: float
    n: int
    seconds: float


def run(model: Model, corpus: Corpus, tests: set[int]) -> Found:
    """Learn epoch after epoch, and predict those of ``tests`` before they are learned."""
    start = time.process_time()
    total, n = 0.0, 0
    known = np.zeros(len(corpus.words), dtype=bool)
    for e, X in enumerate(corpus.epochs):
        if e in tests:
            task = halves(X, known, seed=e)
            total += log_p(model, task, known)
            n += int(task.hidden.sum())
        if e < max(tests):
            model.learn(X)
        known[X.indices] = True
    return Found(total / n, n, time.process_time() - start)


@click.command("temporal_language")
@click.option(
    "--data", type=click.Path(path_type=Path), default=DATA, help="Folder of shared data."
)
@click.option("--texts", default=None, help="Only corpora with this in their name.")
@click.option("--model", "models", default=None, help="Only models with this in their name.")
@click.option("--tests", default=3, show_default=True, help="Test epochs, in the later half.")
@click.option(
    "--common",
    default=1.0,
    show_default=True,
    help="Most documents that a word may be in, a share.",
)
@click.option("--most", default=None, type=int, help="Documents of an epoch, drawn at random.")
@click.option("--slow", is_flag=True, help="Run the dynamic topic models too: up to hours.")
def main(
    data: Path, texts: str | None, models: str | None, tests: int, common: float, most: int | None,
    slow: bool,
) -> None:  # fmt: skip
    """Predict the words of dated texts beside the topic models of gensim and tomotopy."""
    click.echo(machine())
    rows = []
    for name in CORPORA:
        if (texts or "") not in name:
            continue
        try:
            corpus = read(name, data, common=common, most=most)
        except FileNotFoundError as error:
            click.echo(f"Skipped {name}: there is no {error.filename}.")
            continue
        T = len(corpus.epochs)
        n = sum(X.shape[0] for X in corpus.epochs)
        click.echo(f"{name}: {n:,} documents, {T} epochs, {len(corpus.words):,} words.")
        some = {int(e) for e in np.linspace(T // 2, T - 1, tests)}
        floor = None
        for label, (package, make) in {**MODELS, **(SLOW if slow else {})}.items():
            if (models or "") not in label and floor is not None:
                continue
            if package is not None and not has(package):
                click.echo(f"Skipped {label}: {package} is not installed.")
                continue
            with threadpool_limits(1):
                found = run(make(), corpus, some)
            floor = found.log_p if floor is None else floor
            gain = found.log_p - floor
            rows.append(
                [name, label, f"{found.log_p:.3f}", f"{gain:+.3f}", f"{found.seconds:,.1f}"]
            )
            click.echo(" ".join(rows[-1]), err=True)
    click.echo("\n" + markdown(HEADER, rows))


if __name__ == "__main__":
    main()
