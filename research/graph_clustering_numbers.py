"""Five Gaussians that come and go, clustered with windows of several lengths."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamddcrp.models.graph.graph_crp import GraphCRP
from streamddcrp.plots.figures import STYLE, matplotlib
from streamddcrp.plots.palette import COLOURS
from streamddcrp.typing import FloatArray, IntArray

N = 2000
MEANS = np.array([(-4, 0), (4, 0), (0, 5), (0, -5), (-4, 0)], dtype=np.float64)
STRETCHES = ((0, 500, "AB"), (500, 1000, "ABC"), (1000, 1500, "BCD"), (1500, 2000, "DE"))
LIKELIHOOD = ("normal_gamma", 0.0, 0.05, 2.0, 2.0)
SETTINGS: dict[str, dict[str, Any]] = {
    "r = 50": {"window": 50},
    "r = 50, alpha = 0.3": {"window": 50, "alpha": 0.3},
    "r = 50, rejuvenate 20": {"window": 50, "rejuvenate": 20},
    "r = 20": {"window": 20},
    "r = 100": {"window": 100},
    "r = 2000: Dirichlet process": {"window": 2000},
}


class Found(NamedTuple):
    """What a model made of a stream."""

    label: IntArray
    score: float
    ari: float
    microseconds: float


def tv_gauss(seed: int) -> tuple[FloatArray, IntArray]:
    """Rows (2000, 2) and labels: A and E lie at the same place, but E comes when A has gone."""
    rng = np.random.Generator(np.random.PCG64(seed))
    X, y = np.empty((N, 2)), np.empty(N, np.int64)
    for a, b, on in STRETCHES:
        for t in range(a, b):
            y[t] = "ABCDE".index(on[int(rng.integers(len(on)))])
            X[t] = MEANS[y[t]] + rng.standard_normal(2)
    return X, y


def oracle_score(X: FloatArray) -> float:
    """Mean log density of a row for who knows the Gaussians that are on."""
    total = 0.0
    for a, b, on in STRETCHES:
        means = MEANS[["ABCDE".index(c) for c in on]]
        squares = ((X[a:b, None] - means) ** 2).sum(axis=2)
        total += float(np.log(np.exp(-0.5 * squares).mean(axis=1) / (2.0 * np.pi)).sum())
    return total / N


def adjusted_rand(y: IntArray, label: IntArray) -> float:
    """Return the adjusted Rand index of two partitions."""
    _, rows = np.unique(y, return_inverse=True)
    _, columns = np.unique(label, return_inverse=True)
    table = np.zeros((rows.max() + 1, columns.max() + 1))
    np.add.at(table, (rows, columns), 1.0)

    def pairs(counts: FloatArray) -> float:
        return float((counts * (counts - 1.0) / 2.0).sum())

    both, one, two = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    expected = one * two / (len(y) * (len(y) - 1) / 2.0)
    return (both - expected) / (0.5 * (one + two) - expected)


def follow(X: FloatArray, y: IntArray, particles: int, options: dict[str, Any]) -> Found:
    """Predict and learn all rows."""
    model = GraphCRP(likelihood=LIKELIHOOD, n_particles=particles, **options)
    begun = time.process_time()
    out = model.step_many(X)
    spent = time.process_time() - begun
    label = out["label"].to_numpy()
    score = -float(out["score"].to_numpy().mean())
    return Found(label, score, adjusted_rand(y, label), 1e6 * spent / len(X))


def draw(X: FloatArray, y: IntArray, found: dict[str, Found], path: Path) -> None:
    """Draw the first column over time, coloured by truth and by the tables found."""
    plt = matplotlib("pyplot")
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(
            len(found) + 1, 1, figsize=(9.0, 1.9 * (len(found) + 1)), sharex=True,
            layout="constrained",
        )  # fmt: skip
        shown = {"true": y} | {name: one.label for name, one in found.items()}
        for ax, (name, label) in zip(axes, shown.items(), strict=True):
            _, place = np.unique(label, return_inverse=True)
            counts = np.bincount(place)
            order = np.argsort(np.argsort(-counts, kind="stable"))
            colours = [COLOURS[k] if k < len(COLOURS) else "0.6" for k in order[place]]
            ax.scatter(np.arange(len(X)), X[:, 0] + 0.4 * X[:, 1], s=3, c=colours, lw=0)
            large = int((counts >= 10).sum())
            note = f", {large} tables of ten rows or more"
            ax.set_title(name + (note if name != "true" else " components"), loc="left")
            ax.set_yticks([])
        axes[-1].set_xlabel("row")
        figure.savefig(path, dpi=130)
        plt.close(figure)


def run(folder: Path, seeds: int, particles: int, first: int) -> Iterator[str]:
    """Do it all: write the figure to a folder, yield what is to be read."""
    streams = [tv_gauss(seed) for seed in range(first, first + seeds)]
    follow(streams[0][0][:50], streams[0][1][:50], particles, {})  # compiles
    oracle = float(np.mean([oracle_score(X) for X, _ in streams]))
    yield (
        f"Prior of all: Normal-Gamma{LIKELIHOOD[1:]}, alpha learned unless given. {N} "
        f"rows, {particles} particles, one pass, mean (least) of {seeds} data sets; "
        f"oracle {oracle:.4f}\n"
    )
    yield "| model | ARI | nats a row | below the oracle | us a row |"
    yield "| --- | --- | --- | --- | --- |"
    shown = {}
    for name, options in SETTINGS.items():
        found = [follow(X, y, particles, options) for X, y in streams]
        ari, score = [one.ari for one in found], [one.score for one in found]
        if name in {"r = 50", "r = 2000: Dirichlet process"}:
            shown[name] = found[0]
        yield (
            f"| {name} | {np.mean(ari):.4f} ({min(ari):.4f}) | {np.mean(score):.4f} | "
            f"{oracle - np.mean(score):.4f} | {min(one.microseconds for one in found):.0f} |"
        )
    draw(*streams[0], shown, folder / "clusters.png")
    yield f"figure: {folder / 'clusters.png'}"
