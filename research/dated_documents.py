"""Blei and Frazier (2011): mixtures of documents over time, beside the CRP.

The slides show log likelihoods of articles of the New York Times and of NIPS papers under decays,
without numbers; neither corpus is public. Here are articles of the Associated Press (days) and
addresses on the State of the Union (years). Each document links to an earlier one, by the decay of
the time between them, and documents at one table share a distribution of words. Every document is
predicted, then learned, by the particle filter `DDCRPSampler`.

Alpha and the decay are those that predict the first half of the documents best; what is reported
is the second half.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq
from tqdm import tqdm

from streamddcrp import DDCRPSampler
from streamddcrp.data import tokenize
from streamddcrp.likelihoods import DirichletMultinomial
from streamddcrp.plots.figures import STYLE, matplotlib
from streamddcrp.plots.palette import COLOURS
from streamddcrp.typing import FloatArray

from .data import shared_file

WORDS = 1000  # the most frequent ones that are in a quarter of the documents at most
PRIOR = 0.1  # mass of each word
ALPHAS = (1.0, 10.0, 100.0, 1000.0)
CORPORA = {  # file, column of time, unit, scales of the decay in it
    "AP articles": ("ap/docs.parquet", "date", "days", (7.0, 30.0, 120.0)),
    "State of the Union": ("sotu/sotu.parquet", "year", "years", (5.0, 20.0, 80.0)),
}


class Dated(NamedTuple):
    """Counts of words of N documents in order of time, (N, V), and the times, (N,)."""

    X: FloatArray
    t: FloatArray


def read(path: Path, column: str, n: int | None = None) -> Dated:
    """Read the first ``n`` documents of a Parquet file with a column of dates or years."""
    table = pq.read_table(path, columns=["text", column])
    when = table[column].to_numpy()
    when = when.astype("datetime64[D]") if when.dtype.kind in "MO" else when
    t = when.astype(np.float64)
    order = np.argsort(t, kind="stable")[:n]
    texts = [
        Counter(w for w in tokenize(text) if len(w) > 2)
        for text in table["text"].take(order).to_pylist()
    ]
    df = Counter(word for words in texts for word in words)
    total = Counter[str]()
    for words in texts:
        total.update(words)
    usable = [word for word, _ in total.most_common() if df[word] <= max(2.0, 0.25 * len(texts))]
    at = {word: w for w, word in enumerate(usable[:WORDS])}
    X = np.zeros((len(texts), len(at)))
    for row, words in zip(X, texts, strict=True):
        for word, count in words.items():
            if word in at:
                row[at[word]] = count
    return Dated(X, t[order] - t[order[0]])


def predicted(
    corpus: Dated, alpha: float, decay: object, particles: int, seed: int
) -> tuple[FloatArray, int]:
    """Log probability of the words of each document given those before it, (N,).

    Besides, how many tables documents have as their most probable one when they come.
    """
    model = DDCRPSampler(
        alpha=alpha, decay=decay, likelihood=DirichletMultinomial(PRIOR, corpus.X.shape[1]),
        n_particles=particles, time_unit=1.0, seed=seed,
    )  # fmt: skip
    out = model.step_many(corpus.X, t=corpus.t)
    return -out["score"].to_numpy(), len(set(out["label"].to_pylist()))


def draw(gains: dict[str, FloatArray], path: Path) -> None:
    """Draw the gain over the CRP, summed over documents."""
    plt = matplotlib("pyplot")
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            1, len(gains), figsize=(4.4 * len(gains), 3.2), layout="constrained", squeeze=False
        )
        for ax, (name, gain) in zip(axes[0], gains.items(), strict=True):
            ax.plot(np.cumsum(gain), color=COLOURS[0])
            ax.axvline(len(gain) // 2, color="black", ls="--", lw=0.8)
            ax.set(title=f"{name}: nats over the CRP so far", xlabel="document")
        figure.savefig(path, dpi=130)
        plt.close(figure)


def run(folder: Path, documents: int | None, particles: int, seed: int) -> Iterator[str]:
    """Yield the table, and draw the figure into the folder."""
    files = {name: shared_file(file) for name, (file, *_) in CORPORA.items()}
    yield (
        f"Prior of all: Dirichlet, {PRIOR:g} for each of {WORDS:,} words at most; alpha of "
        f"{ALPHAS} and the decay's scale chosen on the first half; {particles} particles, one "
        "pass.\n"
    )
    yield "| corpus | prior | alpha | tables | nats a word, second half " + (
        "| nats over the CRP, second half |"
    )
    yield "|" + " --- |" * 6
    gains = {}
    for name, (_, column, unit, scales) in CORPORA.items():
        corpus = read(files[name], column, documents)
        half = len(corpus.t) // 2
        tokens = corpus.X[half:].sum()
        decays: list[object] = ["none", *(("exponential", scale) for scale in scales)]
        best: dict[str, tuple[float, str, FloatArray]] = {}
        with tqdm(total=len(decays) * len(ALPHAS), desc=name, unit=" models") as bar:
            for decay in decays:
                kind = "the CRP" if decay == "none" else "exponential decay"
                for alpha in ALPHAS:
                    found, n_tables = predicted(corpus, alpha, decay, particles, seed)
                    label = kind if decay == "none" else f"{kind}, {decay[1]:g} {unit}"  # type: ignore[index]
                    entry = (float(found[:half].sum()), f"{label} | {alpha:g} | {n_tables}", found)
                    best[kind] = max(best.get(kind, entry), entry, key=lambda e: e[0])
                    bar.update()
        crp = best["the CRP"][2]
        gains[name] = best["exponential decay"][2] - crp
        for _, label, found in best.values():
            yield (
                f"| {name} | {label} | {found[half:].sum() / tokens:.4f} "
                f"| {(found - crp)[half:].sum():,.0f} |"
            )
    path = folder / "dated-documents.png"
    draw(gains, path)
    yield f"\nFigure: {path}"
