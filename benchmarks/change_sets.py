"""How often the 95 % set of a change point, told with a birth or a return, holds the true row.

Seven kinds of streams of 900 rows: regimes last 40 rows and more, 160 on average. Rows come eight
at a time, and events are read after each eight; one counts if it is within 30 rows of a change and
most of the new regime's first rows have its label. A set that is one row is said to hold it with
the probability that the row has, .95 or more, so sets of one row hold more than 95 %.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.machine import machine, markdown
from benchmarks.options import SeedRange
from benchmarks.pool import in_order, workers
from streamddcrp import SeqDDCRP

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

ROWS, STATES, NEAR, BLOCK = 900, 4, 30, 8


def stays(rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return the rows at which regimes change, after the warm-up, and the regime of each row."""
    changes, at = [], 320 + int(rng.integers(60))
    regime = np.zeros(ROWS, dtype=np.int64)
    while at < ROWS - NEAR:
        changes.append(at)
        regime[at:] = (regime[-1] + rng.integers(1, STATES)) % STATES
        at += 40 + int(rng.exponential(120.0))
    return np.array(changes), regime


def gaussian(rng: np.random.Generator, y: IntArray, width: int, apart: float) -> FloatArray:
    """Means at random, and standard deviations."""
    mean = apart * rng.standard_normal((STATES, width))
    sd = np.exp(0.4 * rng.standard_normal((STATES, width)))
    return mean[y] + sd[y] * rng.standard_normal((ROWS, width))


def counts(rng: np.random.Generator, y: IntArray) -> FloatArray:
    """Two columns of Poisson counts."""
    return rng.poisson(rng.gamma(2.0, 4.0, (STATES, 2))[y]).astype(np.float64)


def heavy(rng: np.random.Generator, y: IntArray) -> FloatArray:
    """Noise of Student's t with four degrees of freedom."""
    return 3.0 * rng.standard_normal((STATES, 2))[y] + rng.standard_t(4, (ROWS, 2))


def correlated(rng: np.random.Generator, y: IntArray) -> FloatArray:
    """Noise that keeps half of its value from row to row."""
    noise = rng.standard_normal((ROWS, 2))
    for t in range(1, ROWS):
        noise[t] = 0.5 * noise[t - 1] + np.sqrt(0.75) * noise[t]
    return 3.0 * rng.standard_normal((STATES, 2))[y] + noise


def spreads(rng: np.random.Generator, y: IntArray) -> FloatArray:
    """One column whose standard deviation changes, and hardly its mean."""
    sd = np.array([0.5, 1.0, 2.0, 4.0])[rng.permutation(STATES), None]
    mean = 0.5 * rng.standard_normal((STATES, 1))
    return mean[y] + sd[y] * rng.standard_normal((ROWS, 1))


def outliers(rng: np.random.Generator, y: IntArray) -> FloatArray:
    """Gaussians, and one row of fifty far away."""
    X = gaussian(rng, y, 2, 2.5)
    odd = rng.random(ROWS) < 0.02
    X[odd] += 15.0 * rng.standard_normal((int(odd.sum()), 2))
    return X


KINDS: dict[str, Callable[[np.random.Generator, IntArray], FloatArray]] = {
    "far Gaussians": partial(gaussian, width=2, apart=3.0),
    "near Gaussians": partial(gaussian, width=1, apart=1.5),
    "counts": counts,
    "heavy tails": heavy,
    "correlated": correlated,
    "spreads": spreads,
    "outliers": outliers,
}


@dataclass(frozen=True)
class Predicted:
    """Sets of one stream: whether each holds the truth, and its rows."""

    n_changes: int
    holds: list[bool]
    widths: list[int]


def measure(kind: str, seed: int) -> Predicted:
    """Run the engine over one stream."""
    rng = np.random.default_rng([seed, list(KINDS).index(kind)])
    changes, y = stays(rng)
    X, model, labels, events = KINDS[kind](rng, y), SeqDDCRP(), [], []
    for at in range(0, ROWS, BLOCK):
        labels += model.step_many(X[at : at + BLOCK])["label"].to_pylist()
        events += [event for event in model.events() if event.between is not None]
    predicted = Predicted(len(changes), [], [])
    for event in events:
        true = int(changes[np.argmin(np.abs(changes - event.index))])
        usual = np.bincount(labels[true + 2 : true + 20]).argmax()
        if event.label == usual and abs(event.index - true) <= NEAR:
            first, last = event.between
            predicted.holds.append(first <= true <= last)
            predicted.widths.append(int(last - first) + 1)
    return predicted


@click.command("change-sets", help=str(__doc__).partition("\n")[0])
@click.option("--seeds", type=SeedRange(), default="100-105", show_default=True)
@click.option("-j", "--processes", default=2, show_default=True)
def main(seeds: tuple[int, ...], processes: int) -> None:
    with workers(processes) as pool:
        jobs = [pool.submit(measure, kind, seed) for kind in KINDS for seed in seeds]
        found = list(in_order(jobs, "change sets"))
    rows, per = [], len(seeds)
    for at, kind in [*enumerate(KINDS), (-1, "all")]:
        runs = found if at < 0 else found[at * per : (at + 1) * per]
        holds = np.concatenate([run.holds for run in runs]).astype(bool)
        wide = np.concatenate([run.widths for run in runs])
        rows.append([
            kind, f"{len(runs)}", f"{sum(run.n_changes for run in runs)}", f"{len(holds)}",
            f"{holds.mean():.3f} ± {np.sqrt(holds.mean() * (1 - holds.mean()) / len(holds)):.3f}",
            f"{holds[wide > 1].mean():.3f} of {np.sum(wide > 1)}",
            f"{np.median(wide):.0f}, {np.quantile(wide, 0.9):.0f}",
        ])  # fmt: skip
    header = [
        "streams", "number", "changes", "sets", "hold the change", "of two rows and more",
        "rows, median and nine tenths",
    ]  # fmt: skip
    click.echo(markdown(header, rows))
    click.echo(f"\n{machine()}")


if __name__ == "__main__":
    main()
