"""Is the column that is to blame named? Faults in single columns, planted and of a process.

`planted`: one of 20 correlated columns shifts in a single row. `process`: 16 variables, each of
which follows up to two others with a lag, some of them held by controllers; the input of one steps,
and what depends on it moves, too.
"""

from __future__ import annotations

from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.machine import machine, markdown
from streamddcrp import RegimeAnomalyDetector, SeqDDCRP

FloatArray = NDArray[np.float64]
D = 20  # correlated columns
VARIABLES, USUAL, FAULTY = 16, 1500, 200  # of the process, and its rows before and after the step
DETECTORS: dict[str, dict[str, Any]] = {
    "SeqDDCRP": {},
    "with a reference": {"average": 20, "reference_after": 1000},
}


def planted(seed: int, likelihood: str, size: float) -> int:
    """Return the place of the shifted column among the parts of the row, from 0."""
    rng = np.random.default_rng([seed, 45])
    loadings = rng.normal(size=(3, D))
    X = rng.normal(size=(501, 3)) @ loadings + 0.7 * rng.normal(size=(501, D))
    model = SeqDDCRP(likelihood=likelihood)
    model.learn_many(X[:500])
    d, x = int(rng.integers(D)), X[500]
    x[d] += rng.choice([-1.0, 1.0]) * size * X[:500, d].std()
    parts = model.explain_one(dict(enumerate(x.tolist()))).parts
    return [part.name for part in parts].index(str(d))


def links(rng: np.random.Generator, n: int) -> list[tuple[int, int, int, float]]:
    """Draw which of n variables follow earlier ones: follower, leader, lag and slope."""
    return [
        (i, int(j), int(rng.integers(1, 9)), rng.choice([-1.0, 1.0]) * rng.uniform(0.3, 0.9))
        for i in range(1, n)
        for j in rng.choice(i, min(int(rng.integers(3)), i), replace=False)
    ]


def process(seed: int, loops: int) -> tuple[FloatArray, int]:
    """Return rows (N, VARIABLES + loops) of a process, and the variable whose input steps.

    Each variable follows up to two before it, with lags and inertia. In each loop, a PI controller
    moves a valve, which is a column, too, such that a variable stays at its set point.
    """
    rng = np.random.default_rng([seed, 46])
    n, step_at = 200 + USUAL + FAULTY, 200 + USUAL
    faulty, step = int(rng.integers(VARIABLES)), rng.choice([-1.0, 1.0]) * rng.uniform(4.0, 8.0)
    push, inertia = rng.normal(size=(n, VARIABLES)), rng.uniform(0.0, 0.8, VARIABLES)
    push[step_at:, faulty] += step
    follows = links(rng, VARIABLES)
    held = rng.choice(VARIABLES, loops, replace=False)
    gain, reset = rng.uniform(0.3, 0.8, loops), rng.uniform(0.02, 0.2, loops)
    X, total = np.zeros((n, VARIABLES + loops)), np.zeros(loops)
    noise = 0.2 * rng.normal(size=X.shape)  # of sensors, in standard deviations of an input
    for t in range(1, n):
        now = push[t].copy()
        for i, j, lag, size in follows:
            now[i] += size * X[t - lag, j] if t >= lag else 0.0
        now[held] += X[t - 1, VARIABLES:]
        X[t, :VARIABLES] = inertia * X[t - 1, :VARIABLES] + (1.0 - inertia) * now
        off = X[t, held] + noise[t, held]
        total += reset * off
        X[t, VARIABLES:] = -gain * off - total
    return (X + noise)[200:] * 10.0 ** rng.uniform(-2.0, 3.0, VARIABLES + loops), faulty


def blamed(seed: int, loops: int, **options: Any) -> tuple[int | None, int | None]:
    """Return the place of the faulty variable in the first alarm and the first event after it.

    Places are counted from 0, VARIABLES if it is not among the reasons; None without alarm, event.
    """
    X, faulty = process(seed, loops)
    detector = RegimeAnomalyDetector(None if options else SeqDDCRP(), **options)
    detector.step_many(X[:USUAL])
    detector.events()
    out = detector.step_many(X[USUAL:]).to_pylist()
    alarms = [[said.split(" ")[0] for said in row["why"].split("; ")] for row in out if row["why"]]
    events = [
        [part.name for part in event.reasons]
        for event in detector.events()
        if event.reasons and event.index >= USUAL
    ]
    found = [
        of[0].index(str(faulty)) if of and str(faulty) in of[0] else VARIABLES
        for of in (alarms, events)
    ]
    return found[0] if alarms else None, found[1] if events else None


@click.command("reasons")
@click.option("--seeds", default=200, show_default=True)
@click.option("--first", default=100, show_default=True, help="First seed; 0 to 9 were in view.")
def main(seeds: int, first: int) -> None:
    """Count how often the column to blame is named first, or among the first three."""
    click.echo(machine())
    rows = []
    for likelihood in ("auto", "normal_wishart"):
        for size in (6.0, 3.0):
            places = [planted(first + i, likelihood, size) for i in range(seeds)]
            rows.append([likelihood, f"{size:.0f}", f"{np.mean(np.array(places) == 0):.3f}"])
    click.echo(markdown(["likelihood", "sd", "named first"], rows))
    rows = []
    for loops in (0, 4):
        for said, options in DETECTORS.items():
            found = [blamed(first + i, loops, **options) for i in range(seeds)]
            for name, of in zip(("alarm", "event"), zip(*found, strict=True), strict=True):
                told = np.array([place for place in of if place is not None])
                shares = len(told) / seeds, np.mean(told == 0), np.mean(told < 3)
                row = [str(loops), said, f"first {name}"]
                rows.append(row + [f"{share:.3f}" for share in shares])
    head = ["loops", "detector", "by", "faults told", "named first", "among three"]
    click.echo(markdown(head, rows))


if __name__ == "__main__":
    main()
