"""The exact language model: tokens a second as a stream, and a grid of models over documents.

A million tokens drawn from a Zipf law over 20,000 words, in batches of 10,000, one thread: what
`LinkLanguageModel.step_many` does in all, evidence, scores and tables included. The grid is 3
decays x 5 parameters x 5 alphas over the articles of the Associated Press where they are at hand,
else over the same million tokens cut into documents of 400.
"""

from __future__ import annotations

import time
from typing import Any

import click
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.machine import machine, markdown, met, spread
from research.data import read_documents, shared_file
from streamddcrp.models.language.base_measure import BaseMeasure
from streamddcrp.models.language.estimator import LinkLanguageModel
from streamddcrp.models.language.fit import Corpus, evidence_surface

DECAYS: tuple[tuple[Any, ...], ...] = (
    ("exponential", 100.0), ("none",), ("window", 100), ("window", 540), ("logistic", 100.0),
    ("logistic", 500.0),
)  # fmt: skip
WORDS = 20_000
PARAMETERS = (10.0, 30.0, 100.0, 300.0, 1000.0)
ALPHAS = (10.0, 30.0, 100.0, 300.0, 1000.0)
TARGET = 5e6


def zipf(n: int) -> np.ndarray:
    """Tokens whose frequency falls with their rank."""
    p = 1.0 / np.arange(1, WORDS + 1)
    return np.random.default_rng(0).choice(WORDS, size=n, p=p / p.sum())


def per_second(tokens: np.ndarray, decay: tuple[Any, ...], batch: int) -> tuple[float, float]:
    """Tokens a second of a stream, and its log evidence."""
    model = LinkLanguageModel(decay=decay, base_measure=WORDS)
    start = time.perf_counter()
    for at in range(0, len(tokens), batch):
        model.step_many(tokens[at : at + batch])
    return len(tokens) / (time.perf_counter() - start), model.objective


def streams(tokens: np.ndarray, batch: int, runs: int) -> str:
    rows = []
    for decay in DECAYS:
        per_second(tokens[:1000], decay, 1000)  # compiles
        found = [per_second(tokens, decay, batch) for _ in range(runs)]
        rates = [rate for rate, _ in found]
        rows.append(
            (
                " ".join(map(str, decay)),
                spread([rate / 1e6 for rate in rates]),
                met(float(np.median(rates)) >= TARGET),
                f"{found[0][1]:,.1f}",
            )
        )
    return markdown(("decay", "million tokens a second", ">= 5", "log evidence"), rows)


def grid() -> str:
    path = shared_file("ap/docs.parquet")
    start = time.perf_counter()
    documents: Any = read_documents(path)
    base_measure = BaseMeasure.from_counts(documents, smoothing=0.0)
    corpus = Corpus.from_documents(documents, base_measure=base_measure)
    read = time.perf_counter() - start
    start = time.perf_counter()
    decays = [(f, a) for f in ("window", "exponential", "logistic") for a in PARAMETERS]
    surface = evidence_surface(corpus, decays, ALPHAS)
    seconds = time.perf_counter() - start
    decay, alpha, value = surface.best()
    return (
        f"{corpus.n_documents:,} documents, {len(corpus.word):,} tokens, "
        f"{len(decays) * len(ALPHAS)} models and the CRP: {seconds:.2f} s, on top of {read:.1f} s "
        f"to read and number the words. Best: {decay}, alpha {alpha:g}, log evidence {value:,.1f}."
    )


@click.command("link_language", help="Tokens a second of the exact language model; a grid of them.")
@click.option("--tokens", "n", default=1_000_000, show_default=True)
@click.option("--batch", default=10_000, show_default=True)
@click.option("--runs", default=5, show_default=True)
def main(n: int, batch: int, runs: int) -> None:
    click.echo(f"{n:,} tokens of {WORDS:,} words, batches of {batch:,}; median (min to max).\n")
    with threadpool_limits(1):
        tokens = zipf(n)
        click.echo(streams(tokens, batch, runs))
        click.echo("")
        click.echo(grid())
    click.echo(f"\n{machine()}")


if __name__ == "__main__":
    main()
