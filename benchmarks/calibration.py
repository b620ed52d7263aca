"""Whether probabilities are as often right as they say, on streams whose truth is known.

Labels are given before a row is learned. Each id stands for the true label that most of its rows
have, so a cluster that two ids share is right at both, and two clusters at one id are right half
the time. A class of real rows is often several tables: there the likeliest class counts, with the
sum of the probabilities of its ids. What counts are the rows of the second half. The most probable
number of regimes is right if as many true ones have 8 rows of the window; it is asked four times a
run. `p_new` is right at the first row of a true label, and `p_change`, where rows have an order, if
this row and the one before have another than the row before these; of both what counts is all from
row 256 on. Real rows are those of scikit-learn, shuffled, and of a room that is occupied or not;
their truth is people's.
Scores are right if the rank of a row among 19 drawn from its forecast is uniform. What is shown is
the largest distance of its distribution from that, which true forecasts keep below 1.36 / sqrt(n)
in 95 of 100 tables of n ranks.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import click
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.metrics import adjusted_rand_score

from benchmarks.engine_quality import STREAMS, Sample
from benchmarks.machine import machine, markdown, spread
from benchmarks.options import Options, SeedRange
from benchmarks.pool import in_order, workers
from benchmarks.real_data import occupancy
from streamddcrp import SeqDDCRP, count_regimes
from streamddcrp.contract import SCORE

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

EDGES = np.array([0.5, 0.7, 0.8, 0.9, 0.95, 0.99])  # between bins of `label_prob`
RARE = np.array([0.01, 0.05, 0.2, 0.5, 0.8, 0.95])  # between bins of `p_new` and `p_change`
SETTLED = 256  # rows after which `p_new` and `p_change` count
IN_ORDER = ("regime", "r3-seq", "r5-seq", "occupancy")  # names begin so
REAL = {"iris": load_iris, "wine": load_wine, "cancer": load_breast_cancer, "digits": load_digits}
DRAWS, RANKED = 19, 100  # rows drawn from each forecast, and rows that are ranked
ASKED, LEAST = 4, 8  # times that regimes are counted; rows of one that counts
ENOUGH = 0.02  # share of the rows from which a bin counts
NAMES = "square,twenty,r3-shuf,r5-shuf,drift-10k,regime-2k,r3-seq,r5-seq"


def is_right(y: IntArray, label: IntArray) -> NDArray[np.bool_]:
    """Whether each row has the true label that most rows with its id have."""
    _, true = np.unique(y, return_inverse=True)
    _, given = np.unique(label, return_inverse=True)
    together = np.zeros((given.max() + 1, true.max() + 1), dtype=np.int64)
    np.add.at(together, (given, true), 1)
    right: NDArray[np.bool_] = together.argmax(axis=1)[given] == true
    return right


def of_classes(
    given: list[dict[int, float]], y: IntArray, label: IntArray
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return how sure each row's likeliest class is, by all ids of it, and whether it is right."""
    probs = np.zeros((len(y), y.max() + 2))  # the last one is of ids that no row is given
    classes = {k: np.bincount(y[label == k]).argmax() for k in np.unique(label).tolist()}
    for r, tables in enumerate(given):
        for k, prob in tables.items():
            probs[r, classes.get(k, -1)] += prob
    return probs.max(axis=1), probs.argmax(axis=1) == y


def reliability(prob: FloatArray, right: NDArray[np.bool_], edges: FloatArray) -> FloatArray:
    """Return rows, sum of the probabilities and number right of each bin, shape (bins, 3)."""
    place = np.searchsorted(edges, prob, side="right")
    values = (None, prob, right.astype(np.float64))
    count = partial(np.bincount, place, minlength=len(edges) + 1)
    return np.stack([count(weights=v) for v in values], axis=1).astype(np.float64)


def errors(table: FloatArray) -> tuple[float, float]:
    """Return the error of the worst bin with 2 % of the rows, and the mean error by rows."""
    rows = np.maximum(table[:, 0], 1.0)
    off = np.abs(table[:, 1] - table[:, 2]) / rows
    share = table[:, 0] / max(table[:, 0].sum(), 1.0)
    return float(off[share >= ENOUGH].max(initial=0.0)), float(off @ share)


@dataclass(frozen=True)
class Judged:
    """What one run gave."""

    seed: int
    ari: float
    second: float  # of the second half
    oracle: float
    n_ids: int  # in the second half
    table: FloatArray  # reliability of `label_prob`
    new: FloatArray  # of `p_new`
    change: FloatArray  # of `p_change`; nothing where rows come in no order
    ranks: IntArray  # of scores, from 0 to `DRAWS`
    counted: FloatArray  # (4, 2): probability of the best number of regimes, whether it is right
    micros: float


def rank_of(model: SeqDDCRP, x: FloatArray, rng: np.random.Generator) -> int:
    """Return how many rows drawn from the forecast of the next row are less surprising than it."""
    engine = model._stream
    t = float(model.n_seen)
    engine.explain(x, t)  # leaves the log prior of tables and of a new one in the work space
    prior = softmax(engine.state.scratch.own[: engine.state.n_tables + 1])
    stats = np.vstack(
        [engine.state.table.stats[: len(prior) - 1], 0.0 * engine.state.table.stats[:1]]
    )
    rows = [engine.likelihood.sample(rng, stats[k]) for k in rng.choice(len(prior), DRAWS, p=prior)]
    own, *drawn = (engine.predict(row, t)[0][SCORE] for row in [x, *rows])
    return int(np.sum(np.array(drawn) < own))


def count(model: SeqDDCRP, y: IntArray) -> tuple[float, bool]:
    """Return how sure the model is of the number of regimes, and whether it is right of truth y."""
    probs = count_regimes(model, LEAST)
    _, rows = np.unique(y[-len(model.recent_labels()) :], return_counts=True)
    return float(probs.max()), bool(probs.argmax() == np.sum(rows >= LEAST))


def measure(name: str, seed: int, options: dict[str, Any]) -> Judged:
    """Run the engine over one stream."""
    sample = load(name, seed)
    n, rng, seconds, parts = len(sample.y), np.random.default_rng(seed), 0.0, []
    ranks, counted = [], []
    model, half, given = SeqDDCRP(**options), len(sample.y) // 2, []
    most = RANKED if name in STREAMS else n  # by class, each row is asked for alone
    starts = np.linspace(half, n, min(most, n - half), endpoint=False).astype(int)
    for piece, rows in enumerate(np.split(np.arange(n), starts)):
        if rows[0] >= half and name in STREAMS:  # the model's own rows are on its own scale
            ranks.append(rank_of(model, model._row_less_season(sample.X[rows[0]], rows[0]), rng))
        elif rows[0] >= half:
            given.append(model._predict_row(sample.X[rows[0]], float(rows[0]))[1]())
        start = time.process_time()
        parts.append(model.step_many(sample.X[rows]))
        seconds += time.process_time() - start
        if piece > 0 and piece % (len(starts) // ASKED) == 0:
            counted.append(count(model, sample.y[: rows[-1] + 1]))
    out = pa.Table.from_batches(parts)
    label, prob, p_new, p_change = (
        out[c].to_numpy() for c in ("label", "label_prob", "p_new", "p_change")
    )
    y, late = sample.y[half:], label[half:]
    judged = (prob[half:], is_right(y, late))
    if name not in STREAMS:
        judged = of_classes(given, y, late)
    is_new = np.isin(np.arange(n), np.unique(sample.y, return_index=True)[1])
    before, now, after = sample.y[:-2], sample.y[1:-1], sample.y[2:]
    changed = np.append([False, False], (now != before) & (after != before))
    settled = slice(SETTLED if name.startswith(IN_ORDER) else n, None)
    return Judged(
        seed=seed,
        ari=adjusted_rand_score(sample.y, label),
        second=adjusted_rand_score(y, late),
        oracle=adjusted_rand_score(sample.y, sample.oracle),
        n_ids=len(np.unique(late)),
        table=reliability(*judged, EDGES),
        new=reliability(p_new[SETTLED:], is_new[SETTLED:], RARE),
        change=reliability(p_change[settled], changed[settled], RARE),
        ranks=np.array(ranks),
        counted=np.array(counted),
        micros=1e6 * seconds / n,
    )


def load(name: str, seed: int) -> Sample:
    """Return rows and true labels of a stream."""
    if name in STREAMS:
        return STREAMS[name].make(STREAMS[name].n, seed)
    if name in REAL:
        X, y = REAL[name](return_X_y=True)
        order = np.random.default_rng(seed).permutation(len(y))
        return Sample(X[order], y[order], y[order])
    (room,) = occupancy()
    assert room.states is not None
    return Sample(room.X, room.states, room.states)


def show(runs: list[Judged]) -> list[str]:
    """Return the cells of one stream."""
    total = np.sum([run.table for run in runs], axis=0)
    worst, mean = errors(total)
    ranks = np.bincount(
        np.concatenate([run.ranks for run in runs]).astype(np.int64), minlength=DRAWS + 1
    )
    n = ranks.sum()
    far = np.abs(np.cumsum(ranks) / max(n, 1) - np.arange(1, DRAWS + 2) / (DRAWS + 1)).max()
    said, right = total[:, 1:].sum(axis=0) / total[:, 0].sum()
    sure = total[-1]
    return [
        spread([run.ari for run in runs], ".3f"),
        spread([run.second for run in runs], ".3f"),
        f"{np.median([run.oracle for run in runs]):.3f}",
        spread([run.n_ids for run in runs], ".0f"),
        f"{sum(run.n_ids == 1 for run in runs)}",
        f"{said:.3f}", f"{right:.3f}",
        f"{sure[2] / max(sure[0], 1.0):.3f} of {sure[0] / total[:, 0].sum():.0%}",
        f"{worst:.3f}", f"{mean:.3f}",
        *(
            f"{errors(np.sum(tables, axis=0))[0]:.3f}"
            for tables in ([run.new for run in runs], [run.change for run in runs])
        ),
        f"{far:.3f} of {n:,}" if n else "",
        *(f"{share:.2f}" for share in np.concatenate([run.counted for run in runs]).mean(axis=0)),
        f"{np.median([run.micros for run in runs]):.0f}",
    ]  # fmt: skip


@click.command("calibration", help=str(__doc__).partition("\n")[0])
@click.option("--seeds", type=SeedRange(), default="100-105", show_default=True)
@click.option("--streams", default=NAMES, show_default=True)
@click.option("--set", "options", type=Options(), default="{}", help="Options of SeqDDCRP.")
@click.option("-j", "--processes", default=2, show_default=True)
@click.option("-v", "--verbose", is_flag=True, help="Every seed and bin, on standard error.")
def main(
    seeds: tuple[int, ...], streams: str, options: dict[str, Any], processes: int, verbose: bool
) -> None:
    names = streams.split(",")
    known = [*STREAMS, *REAL, "occupancy"]
    if unknown := [name for name in names if name not in known]:
        message = f"no stream {unknown[0]!r}; there are {', '.join(known)}"
        raise click.UsageError(message)
    with workers(processes) as pool:
        jobs = [pool.submit(measure, name, seed, options) for name in names for seed in seeds]
        found = iter(in_order(jobs, "calibration"))
    header = [
        "stream", "ARI", "of the second half", "oracle", "ids", "with one id", "label_prob",
        "right", "right at ≥ .99", "worst bin", "mean error", "worst of p_new", "of p_change",
        "score from uniform", "number of regimes", "right", "CPU µs a row",
    ]  # fmt: skip
    rows = []
    for name in names:
        runs = [next(found) for _ in seeds]
        rows.append([name, *show(runs)])
        if verbose:
            for run in runs:
                click.echo(
                    f"{name} {run.seed} {run.ari:.3f} {run.second:.3f} {run.n_ids}", err=True
                )
            total = np.sum([run.table for run in runs], axis=0)
            for n, said, right in total:
                line = f"{n:.0f} rows: {said / max(n, 1):.3f} {right / max(n, 1):.3f}"
                click.echo(f"{name} {line}", err=True)
    click.echo(markdown(header, rows))
    click.echo(f"\n{machine()}")


if __name__ == "__main__":
    main()
