"""How well are the topics of tweets found, batch by batch, as they come and go, and how fast?

Tweets-T of Yin et al. (2018): 30,322 short documents of 269 topics in 16 batches, each an epoch.
One pass; a document's label is the one it has when it leaves the window, two epochs after it came.
River's TextClust labels each document before it learns it, or right after where it has no cluster
for it. Its radius was tuned on labels; what the temporal mixture has to be given was chosen on the
predictive score of these documents, which other data may choose otherwise.

NMI is normalised by the geometric mean. CPU seconds, since the machine is shared; making the counts
is not timed for any.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from numpy.typing import NDArray
from pyarrow import parquet
from river import cluster
from scipy import sparse
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from threadpoolctl import threadpool_limits

from benchmarks.machine import machine, markdown
from benchmarks.streams import DATA
from streamddcrp.models.temporal.emissions.text import TextDecay
from streamddcrp.models.temporal.engine import Engine
from streamddcrp.models.temporal.window import Settings, count_settings

IntArray = NDArray[np.int64]

FILE = Path("mstream_tweets") / "tweets_t.parquet"
RADIUS = 0.7
PUBLISHED = (("MStream, 10 iterations a batch", 0.882), ("MStreamF", 0.923))
HEADER = (
    "method", "NMI", "ARI", "NMI in epochs", "ARI in epochs", "clusters", "-log p a word",
    "documents / s",
)  # fmt: skip
SETTINGS = Settings(**count_settings(None, None, None), lag=3)  # as `TemporalDPM`
MODELS = {
    "temporal mixture": (SETTINGS, TextDecay()),
    "the same, lag 2": (SETTINGS._replace(lag=2), TextDecay()),
    "the same, lag 0": (SETTINGS._replace(lag=0), TextDecay()),
    "the same, prior .01 for each word": (SETTINGS, TextDecay(beta=0.01)),
}


class Epoch(NamedTuple):
    """Counts (N, V) of the words met so far, the words themselves, and the true topics (N,)."""

    X: sparse.csr_array
    words: list[dict[str, int]]
    y: IntArray


class Found(NamedTuple):
    """Labels by epoch, -log predictive probability a word (None: no such thing), CPU seconds."""

    labels: list[IntArray]
    score: float | None
    seconds: float


def tweets(path: Path) -> list[Epoch]:
    """Read the batches; words are numbered as they are met, so that the vocabulary grows."""
    table = parquet.read_table(path)
    batch, y = table["batch"].to_numpy(), table["label"].to_numpy().astype(np.int64)
    words = [dict(Counter(text.split())) for text in table["text"].to_pylist()]
    number: dict[str, int] = {}
    epochs = []
    for b in np.unique(batch):
        rows = np.flatnonzero(batch == b)
        parts = [words[i] for i in rows]
        columns = [number.setdefault(w, len(number)) for part in parts for w in part]
        counts = np.ones(len(columns))  # once a document, as `TemporalDPM` takes texts
        offsets = np.cumsum([0, *map(len, parts)])
        X = sparse.csr_array((counts, columns, offsets), shape=(len(parts), len(number)))
        epochs.append(Epoch(X, parts, y[rows]))
    return epochs


def mixture(epochs: list[Epoch], settings: Settings, emission: TextDecay) -> Found:
    """Learn epoch after epoch; labels are read as an epoch leaves the window."""
    engine = Engine(settings, emission)
    labels: list[IntArray] = []
    score, start = 0.0, time.process_time()
    for epoch in epochs:
        if len(engine.rows) > settings.lag:
            labels.append(engine.ids[engine.resp[0].argmax(axis=1)])
        score += float(engine.learn(epoch.X).sum())
    labels += [engine.ids[q.argmax(axis=1)] for q in engine.resp]
    seconds = time.process_time() - start
    return Found(labels, score / sum(float(epoch.X.sum()) for epoch in epochs), seconds)


def textclust(epochs: list[Epoch]) -> Found:
    """Learn document after document by river's TextClust."""
    model = cluster.TextClust(radius=RADIUS, real_time_fading=False)
    labels, start = [], time.process_time()
    for epoch in epochs:
        found = []
        for words in epoch.words:
            before = model.predict_one(words)
            model.learn_one(words)
            found.append(model.predict_one(words) if before is None else before)
        labels.append(np.array(found, dtype=np.int64))
    return Found(labels, None, time.process_time() - start)


def agreement(y: IntArray, label: IntArray) -> tuple[float, float]:
    """NMI by the geometric mean, and ARI."""
    nmi = normalized_mutual_info_score(y, label, average_method="geometric")
    return float(nmi), float(adjusted_rand_score(y, label))


def line(name: str, epochs: list[Epoch], found: Found) -> list[str]:
    """One row of the table."""
    pairs = [agreement(e.y, label) for e, label in zip(epochs, found.labels, strict=True)]
    label = np.concatenate(found.labels)
    pooled = agreement(np.concatenate([e.y for e in epochs]), label)
    return [
        name,
        *(f"{value:.3f}" for value in (*pooled, *np.mean(pairs, axis=0))),
        str(len(np.unique(label))),
        "" if found.score is None else f"{found.score:.3f}",
        f"{len(label) / found.seconds:,.0f}",
    ]


@click.command("temporal_text")
@click.option(
    "--data", type=click.Path(path_type=Path), default=DATA, help="Folder of shared data."
)
@click.option("--batches", default=16, show_default=True, help="How many of the 16 batches.")
@click.option("--peers/--no-peers", default=True, help="Run TextClust too, a minute or two.")
def main(data: Path, batches: int, peers: bool) -> None:
    """Find the topics of tweets, batch by batch, beside river's TextClust."""
    if not (data / FILE).exists():
        click.echo(f"Skipped: there is no {data / FILE}.")
        return
    epochs = tweets(data / FILE)[:batches]
    with threadpool_limits(1):
        mixture(epochs[:2], *MODELS["temporal mixture"])  # compiles
        rows = [line(name, epochs, mixture(epochs, *model)) for name, model in MODELS.items()]
        if peers:
            rows.append(line(f"river TextClust, radius {RADIUS}", epochs, textclust(epochs)))
    rows += [[f"{name} (published)", f"{nmi:.3f}", *[""] * 6] for name, nmi in PUBLISHED]
    true = len(np.unique(np.concatenate([epoch.y for epoch in epochs])))
    click.echo(machine())
    click.echo(f"\n{sum(len(e.y) for e in epochs):,} documents of {true} topics.\n")
    click.echo(markdown(HEADER, rows))


if __name__ == "__main__":
    main()
