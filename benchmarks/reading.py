"""A large CSV: rows a second of the reader alone, its peak memory, and the first row of a run.

Each figure is that of a fresh process, in CPU seconds: its start and imports count for the first
row of ``streamddcrp run``, not for the reader.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import click
import numpy as np

from benchmarks.machine import machine, markdown, peak_mebibytes, spread
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.sources import open_source

PIECE = 100_000  # rows written at a time


def write(path: Path, size: int) -> None:
    """Write a time by the second, three measurements and a flag until a file has its size."""
    X = np.random.default_rng(0).normal([12.0, 40.0, 20.0], [1.0, 3.0, 0.5], (PIECE, 3))
    rows = [f"{a:.4f},{b:.4f},{c:.3f},{('on', 'off')[i % 2]}\n" for i, (a, b, c) in enumerate(X)]
    with path.open("w") as file:
        file.write("time,flow,level,temp,pump\n")
        first = np.datetime64("2020-01-01T00:00:00")
        while file.tell() < size:
            stamps = np.datetime_as_string(first + np.arange(PIECE))
            file.writelines(f"{at},{row}" for at, row in zip(stamps, rows, strict=True))
            first += PIECE


def read(path: str) -> None:
    """Print rows, CPU seconds from here on, and the peak memory of the process in MiB."""
    begun = time.process_time()
    with closing(open_source(path, Columns())) as source:
        n_rows = sum(batch.num_rows for batch, _ in source.read_after(None))
    click.echo(f"{n_rows} {time.process_time() - begun} {peak_mebibytes()}")


def first_row(path: Path) -> float:
    """CPU seconds of a run until its first row is written."""
    command = [sys.executable, "-m", "streamddcrp_connectors", "run", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as run:
        assert run.stdout is not None
        run.stdout.readline()
        ticks = Path(f"/proc/{run.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        run.kill()
    return sum(map(int, ticks)) / 100.0


@click.command("reading", help=__doc__)
@click.option("--size", default=1_000_000_000, show_default=True, help="bytes")
@click.option("--rounds", default=3, show_default=True)
def main(size: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        write(path, size)
        program = f"from benchmarks.reading import read; read({str(path)!r})"
        found = []
        for _ in range(rounds):
            done = subprocess.run(
                [sys.executable, "-c", program], capture_output=True, check=True, text=True
            )
            found.append([*map(float, done.stdout.split())])
        n_rows, seconds, peaks = zip(*found, strict=True)
        firsts = [first_row(path) for _ in range(rounds)]
    per_second = [n / s for n, s in zip(n_rows, seconds, strict=True)]
    click.echo(machine())
    click.echo(markdown(
        ["rows", "rows a CPU second", "peak, MiB", "first row of a run, CPU s"],
        [(f"{n_rows[0]:,.0f}", spread(per_second, ",.0f"), spread([*peaks], ".0f"),
          spread(firsts, ".2f"))],
    ))  # fmt: skip
