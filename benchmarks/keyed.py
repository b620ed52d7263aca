"""How fast is one model a key, and how much memory does it take?

A fleet of machines with two measurements each, in regimes of 40 rows, arrives in batches of 10,000
rows: ``visit`` rows of as many keys as that makes, interleaved, the keys in turn. That is the worst
order for a memory that forgets what was used least recently: with less memory than the fleet
needs, every visit reads a state from the disk and writes one.

Each run is a fresh process. CPU seconds, since the machine is shared; making the data is not
counted. Peak memory over that of the process before, with one model warmed up.
"""

from __future__ import annotations

import multiprocessing as mp
import time
from collections.abc import Iterator
from typing import Any

import click
import numpy as np
import pyarrow as pa
from threadpoolctl import threadpool_limits

from benchmarks.machine import machine, markdown, peak_mebibytes, spread
from streamddcrp import Keyed, SeqDDCRP

BATCH = 10_000
HEADER = (
    "keys x rows", "`memory`", "rows a visit", "rows a CPU second", "CPU microseconds a visit",
    "peak MiB",
)  # fmt: skip


def batches(n_keys: int, n_rows: int, visit: int) -> Iterator[pa.Table]:
    """Yield the stream of a fleet: ``n_rows`` of each key, ``visit`` of them a batch."""
    rng = np.random.default_rng(0)
    at_once = max(1, BATCH // visit)
    for first in range(0, n_rows, visit):
        for start in range(0, n_keys, at_once):
            keys = np.arange(start, min(start + at_once, n_keys))
            rows = np.arange(first, min(first + visit, n_rows))
            key, row = np.tile(keys, len(rows)), np.repeat(rows, len(keys))
            level = 4.0 * ((key * 7 + row // 40) % 3)
            x = level[:, None] + rng.standard_normal((len(key), 2))
            yield pa.table({"machine": key, "flow": x[:, 0], "pressure": x[:, 1]})


def _alone(pipe: Any, n_keys: int, n_rows: int, visit: int, memory: str) -> None:
    with threadpool_limits(1):
        warm = Keyed(SeqDDCRP(), by="machine", memory_limit=1)
        for batch in batches(2, 100, 50):
            warm.step_many(batch)
        fleet = Keyed(SeqDDCRP(), by="machine", memory_limit=memory)
        before, seconds, done = peak_mebibytes(), 0.0, 0
        for batch in batches(n_keys, n_rows, visit):
            start = time.process_time()
            fleet.step_many(batch)
            seconds += time.process_time() - start
            done += batch.num_rows
        pipe.send((seconds, done, peak_mebibytes() - before))


@click.command("keyed", help="Throughput and peak memory of one model a key.")
@click.option("--keys", default=5000, show_default=True)
@click.option("--rows", default=100, show_default=True, help="Rows of each key.")
@click.option("--visits", default="1,10,50", show_default=True, help="Rows of a key in a batch.")
@click.option("--memory", default="100GB,100MB", show_default=True)
@click.option("--repeats", default=3, show_default=True)
def main(keys: int, rows: int, visits: str, memory: str, repeats: int) -> None:
    """Print a table."""
    click.echo(machine())
    click.echo(markdown(HEADER, []))
    for size in memory.split(","):
        for visit in map(int, visits.split(",")):
            found = [_measured(keys, rows, visit, size) for _ in range(repeats)]
            seconds, done, peak = (np.array(column) for column in zip(*found, strict=True))
            row = (
                f"{keys:,} x {rows}", size, str(visit), spread(done / seconds, ",.0f"),
                spread(seconds / done * visit * 1e6, ",.0f"), spread(peak, ",.0f"),
            )  # fmt: skip
            click.echo(markdown(row, []).splitlines()[0])


def _measured(*arguments: Any) -> tuple[float, int, float]:
    """Run in a fresh process; return CPU seconds, rows and MiB."""
    ours, theirs = mp.Pipe()
    process = mp.get_context("spawn").Process(target=_alone, args=(theirs, *arguments))
    process.start()
    found: tuple[float, int, float] = ours.recv()
    process.join()
    return found


if __name__ == "__main__":
    main()
