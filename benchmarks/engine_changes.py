"""Alarms at the switches of a regime stream: the engine, drift detectors, and BOCD.

Switches less than 12 rows apart count as one. An alarm from 3 rows before a switch to 30 after it
hits it, one alarm a switch; every other alarm is false.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from river import drift

from benchmarks.bocd import run_lengths
from benchmarks.machine import machine, markdown, met, spread
from benchmarks.options import Options, SeedRange
from benchmarks.pool import in_order, workers
from benchmarks.scores import APART, apart, match, switches
from benchmarks.streams import rare_switches
from streamddcrp import SeqDDCRP

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

WANT_HITS, WANT_FALSE, WANT_DELAY = 0.95, 1.0, 5.0  # share; in 1,000 rows; rows


def alarms_of(out: pa.RecordBatch, threshold: float = 0.5) -> IntArray:
    """The rule for the engine, of `step_many`'s table alone.

    An alarm where `p_change` rises above the threshold, then none for the next 11 rows.
    """
    high = np.nan_to_num(out["p_change"].to_numpy(zero_copy_only=False)) > threshold
    return apart(np.flatnonzero(high & ~np.append(False, high[:-1])))


def engine(X: FloatArray, options: dict[str, Any], threshold: float) -> IntArray:
    return alarms_of(SeqDDCRP(**options).step_many(X), threshold)


def detector(make: Callable[[], Any], X: FloatArray) -> IntArray:
    """Alarms of a drift detector of river."""
    model, alarms = make(), []
    for t, x in enumerate(X[:, 0].tolist()):
        model.update(x)
        if model.drift_detected:
            alarms.append(t)
    return np.array(alarms, dtype=np.int64)


def bocd(X: FloatArray) -> IntArray:
    """Alarms where the most probable run length falls by 12 rows or more, then none for 11 rows.

    A shorter fall only moves the beginning of a run that has just begun.
    """
    prior_mean = float(X[:50].mean())  # as the engine, which takes its scale from 50 rows
    run = run_lengths(X[:, 0], mean=prior_mean, shape=0.1, rate=0.1)
    return apart(np.flatnonzero(np.diff(run, prepend=0) <= -APART))


def adwin(X: FloatArray) -> IntArray:
    return detector(drift.ADWIN, X)


def page_hinkley(X: FloatArray) -> IntArray:
    return detector(drift.PageHinkley, X)


PEERS = {"BOCD, hazard 0.01": bocd, "PageHinkley": page_hinkley, "ADWIN": adwin}


def measure(
    method: Callable[..., IntArray], n: int, seed: int, *more: Any
) -> tuple[int, int, list[int], int, float]:
    """Switches, hits, their delays, false alarms, CPU µs a row."""
    X, y, _, _ = rare_switches(n, seed)
    start = time.process_time()
    alarms = method(X, *more)
    micros = 1e6 * (time.process_time() - start) / n
    true = switches(y)
    delays, false = match(true, alarms)
    return len(true), len(delays), delays, false, micros


def table(
    seeds: tuple[int, ...], sizes: tuple[int, ...], options: dict[str, Any], threshold: float
) -> str:
    """Return the Markdown table: one row a method and length of stream."""
    header = (
        "rows", "method", "switches hit", "share", "share, by seed", "false in 1,000 rows",
        "by seed", "median delay, rows", "met", "CPU µs a row",
    )  # fmt: skip
    methods = {"ours": (engine, options, threshold)} | {k: (f,) for k, f in PEERS.items()}
    cases = [(n, name) for n in sizes for name in methods]
    with workers() as pool:
        jobs = [
            pool.submit(measure, methods[name][0], n, seed, *methods[name][1:])
            for n, name in cases
            for seed in seeds
        ]
        found = iter(in_order(jobs, "changes"))
    rows = []
    for n, name in cases:
        runs = [next(found) for _ in seeds]
        total, hits, false = (sum(run[j] for run in runs) for j in (0, 1, 3))
        share, per_1000 = hits / total, 1000 * false / (n * len(seeds))
        delay = float(np.median([d for run in runs for d in run[2]] or [np.nan]))
        good = met(share >= WANT_HITS, per_1000 <= WANT_FALSE, delay <= WANT_DELAY)
        rows.append((
            f"{n:,}", name, f"{hits} of {total}", f"{share:.1%}",
            spread([100 * run[1] / run[0] for run in runs], ".0f") + " %",
            f"{per_1000:.2f}", spread([1000 * run[3] / n for run in runs], ".2g"),
            f"{delay:g}", good, spread([run[4] for run in runs], ".1f"),
        ))  # fmt: skip
    return markdown(header, rows)


def report(*, quick: bool) -> str:
    """Return the section "changes"."""
    seeds = tuple(range(2 if quick else 10))
    return table(seeds, (2_000,) if quick else (2_000, 20_000), {}, 0.5)


@click.command("engine_changes", help="Alarms at switches, against drift detectors and BOCD.")
@click.option("--seeds", type=SeedRange(), default="100-105", show_default=True)
@click.option("--rows", "sizes", multiple=True, type=int, default=(2_000, 20_000))
@click.option("--set", "options", type=Options(), default="{}", help="Options of SeqDDCRP.")
@click.option("--threshold", default=0.5, show_default=True, help="Of p_change.")
def main(
    seeds: tuple[int, ...], sizes: tuple[int, ...], options: dict[str, Any], threshold: float
) -> None:
    click.echo(table(seeds, sizes, options, threshold))
    click.echo(f"\n{machine()}")


if __name__ == "__main__":
    main()
