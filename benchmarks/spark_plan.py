"""How many cores does a fleet need on Spark, and what do hot keys and slow tasks add?

A trigger of T seconds brings Poisson numbers of rows to K keys whose rates follow Zipf's law. Each
row costs ``row`` and each visit of a key ``visit`` CPU time. Keys are hashed to partitions, each a
task on one core; a free core takes the next task. A share of the tasks is slow by a factor. The
simulated trigger is compared with the formula of `docs/spark.md`, which spreads work evenly.
"""

from __future__ import annotations

import heapq

import click
import numpy as np

from benchmarks.machine import markdown
from streamddcrp.typing import FloatArray

HEADER = (
    "Zipf exponent", "visits a trigger", "rows a visit", "cores by the formula",
    "state written a trigger", "hottest key", "tasks a core", "trigger / formula",
    "the same with slow tasks",
)  # fmt: skip


def shares(keys: int, exponent: float) -> FloatArray:
    """Return the share of the rows that each key has (keys,)."""
    weights = np.arange(1, keys + 1, dtype=float) ** -exponent
    return np.asarray(weights / weights.sum())


def makespan(tasks: FloatArray, cores: int) -> float:
    """Return when the last task ends, each taken by the first free core."""
    free = [0.0] * cores
    for task in tasks:
        heapq.heappush(free, heapq.heappop(free) + task)
    return max(free)


@click.command("spark-plan", help="Cores, state and skew of a fleet on Spark; a simulation.")
@click.option("--rate", default=1e5, show_default=True, help="Rows a second.")
@click.option("--keys", default=10_000_000, show_default=True)
@click.option("--trigger", default=600.0, show_default=True, help="Seconds.")
@click.option("--visit-ms", default=3.0, show_default=True, help="CPU time of a visit.")
@click.option("--row-ms", default=0.05, show_default=True, help="CPU time of a row.")
@click.option("--state-kb", default=20.0, show_default=True, help="Bytes of a state / 1000.")
@click.option("--use", default=0.7, show_default=True, help="Share of its time a core works.")
@click.option("--zipf", default="0,0.5,0.8,1", show_default=True)
@click.option("--tasks", default="1,4", show_default=True, help="Tasks a core.")
@click.option("--slow", default=0.02, show_default=True, help="Share of tasks that are slow.")
@click.option("--factor", default=3.0, show_default=True, help="How much slower they are.")
@click.option("--repeats", default=3, show_default=True)
def main(
    rate: float, keys: int, trigger: float, visit_ms: float, row_ms: float, state_kb: float,
    use: float, zipf: str, tasks: str, slow: float, factor: float, repeats: int,
) -> None:  # fmt: skip
    """Print a table."""
    rng = np.random.default_rng(0)
    rows = []
    for exponent in map(float, zipf.split(",")):
        expected = rate * trigger * shares(keys, exponent)
        visits = float(-np.expm1(-expected).sum())
        work = 1e-3 * (visits * visit_ms + rate * trigger * row_ms)
        cores = max(1, int(np.ceil(work / (use * trigger))))
        hottest = 1e-3 * (visit_ms + expected[0] * row_ms)
        for per_core in map(int, tasks.split(",")):
            even, uneven = [], []
            for _ in range(repeats):
                counts = rng.poisson(expected)
                load = 1e-3 * ((counts > 0) * visit_ms + counts * row_ms)
                partition = rng.integers(0, cores * per_core, keys)
                seconds = np.bincount(partition, load, cores * per_core)
                even.append(makespan(seconds, cores))
                for _ in range(20):  # which tasks are slow matters more than which rows come
                    slowed = np.where(rng.random(len(seconds)) < slow, factor, 1.0)
                    uneven.append(makespan(seconds * slowed, cores))
            rows.append((
                f"{exponent:g}", f"{visits:,.0f}", f"{rate * trigger / visits:.1f}", f"{cores:,}",
                f"{visits * state_kb / 1e6:,.0f} GB", f"{hottest:,.1f} s", str(per_core),
                f"{np.median(even) / (use * trigger):.2f}",
                f"{np.median(uneven) / (use * trigger):.2f}",
            ))  # fmt: skip
    click.echo(markdown(HEADER, rows))


if __name__ == "__main__":
    main()
