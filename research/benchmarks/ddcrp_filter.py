"""How fast is the particle filter of the ddCRP, how large, and how good?

Speed: CPU seconds of ``step_many`` in batches of 10,000 rows of drifting 2-D Gaussians, best of a
few runs. Memory: what a long stream in such batches adds to a fresh process after its first 100,000
rows, and the bytes of the state. Quality: labels and densities predicted before each
row is learned, on regimes (1-D) and drifting Gaussians (2-D), beside `SeqDDCRP`; both at their
defaults. The filter's model is the plain one: a regime that returns gets a new label.
"""

from __future__ import annotations

import math
import multiprocessing as mp
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score
from threadpoolctl import threadpool_limits

from benchmarks.machine import machine, markdown, spread
from benchmarks.scores import windowed_ari
from benchmarks.streams import drifting_gaussians, rare_switches
from streamddcrp import SeqDDCRP
from streamddcrp.models.ddcrp.estimator import DDCRPSampler

FloatArray = NDArray[np.float64]
BATCH = 10_000
WARM = 100_000  # rows before memory is first looked at
WAIT = 64  # rows without a score
TARGET = 30_000  # arrivals a second with ten particles
DECAYS: dict[str, Any] = {
    "exponential 8": ("exponential", 8.0),
    "exponential 16": ("exponential", 16.0),
    "window 20": ("window", 20),
}
STREAMS: dict[str, Callable[[int, int], Any]] = {
    "regime": rare_switches,
    "drift": drifting_gaussians,
}
MODELS: dict[str, Callable[[], Any]] = {
    "SeqDDCRP": SeqDDCRP,
    "filter, P = 1": lambda: DDCRPSampler(n_particles=1),
    "filter, P = 10": DDCRPSampler,
    "filter, P = 100": lambda: DDCRPSampler(n_particles=100),
}


def batches(X: FloatArray, n_rows: int) -> Iterator[FloatArray]:
    """Yield ``n_rows`` rows, going over X again and again."""
    for start in range(0, n_rows, BATCH):
        yield X[start % len(X) :][: min(BATCH, n_rows - start)]


def seconds(model: Any, X: FloatArray) -> float:
    model.step_many(X[:WAIT])
    start = time.process_time()
    for batch in batches(X[WAIT:], len(X) - WAIT):
        model.step_many(batch)
    return time.process_time() - start


def speed(n_rows: int, repeats: int) -> None:
    click.echo(f"\nArrivals a CPU second, D = 2, {n_rows:,} rows; target {TARGET:,} at P = 10.\n")
    click.echo(markdown(("decay", "P = 1", "P = 10", "P = 100"), []))
    X = drifting_gaussians(n_rows, 0)[0]
    for name, decay in DECAYS.items():
        cells = [name]
        for n_particles in (1, 10, 100):
            found = [
                (len(X) - WAIT) / seconds(DDCRPSampler(decay=decay, n_particles=n_particles), X)
                for _ in range(repeats)
            ]
            cells.append(spread(found, ",.0f"))
        click.echo(markdown(cells, []).splitlines()[0])


def resident() -> float:
    """MiB that this process takes now (Linux)."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return float(line.split()[1]) / 1024.0
    return math.nan


def _alone(pipe: Any, n_rows: int, options: dict[str, Any]) -> None:
    with threadpool_limits(1):
        X = drifting_gaussians(WARM, 0)[0]
        model = DDCRPSampler(**options)
        for batch in batches(X, WARM):
            model.step_many(batch)
        taken, size, start = resident(), model.nbytes, time.process_time()
        for batch in batches(X, n_rows - WARM):
            model.step_many(batch)
        used = time.process_time() - start
        pipe.send((resident() - taken, size, model.nbytes, (n_rows - WARM) / used))


def memory(n_rows: int) -> None:
    click.echo(f"\nMemory over {n_rows:,} arrivals, 10 particles, after the first {WARM:,}.\n")
    header = "decay", "growth, MiB", "state, kB (then, at the end)", "arrivals/s"
    click.echo(markdown(header, []))
    for name, decay in DECAYS.items():
        ours, theirs = mp.Pipe()
        process = mp.get_context("spawn").Process(
            target=_alone, args=(theirs, n_rows, {"decay": decay})
        )
        process.start()
        growth, before, after, rate = ours.recv()
        process.join()
        row = name, f"{growth:.1f}", f"{before / 1e3:.0f}, {after / 1e3:.0f}", f"{rate:,.0f}"
        click.echo(markdown(row, []).splitlines()[0])


def quality(n_rows: int, seeds: int) -> None:
    click.echo(f"\nPrequential, {n_rows:,} rows, {seeds} seeds: median (smallest to largest).\n")
    header = "stream", "model", "ARI", "ARI in windows of 500", "nats a row", "live tables"
    click.echo(markdown(header, []))
    for name, make in STREAMS.items():
        for label, model in MODELS.items():
            ari, near, nats, live = [], [], [], []
            for seed in range(seeds):
                X, y = make(n_rows, seed)[:2]
                out = model().step_many(X)
                found = out["label"].to_numpy()
                ari.append(adjusted_rand_score(y, found))
                near.append(windowed_ari(y, found))
                nats.append(float(np.mean(out["score"].to_numpy(zero_copy_only=False)[WAIT:])))
                live.append(out["n_tables"][-1].as_py())
            row = (
                name, label, spread(ari, ".2f"), spread(near, ".2f"), spread(nats, ".3f"),
                spread(live, ".0f"),
            )  # fmt: skip
            click.echo(markdown(row, []).splitlines()[0])


@click.command("ddcrp_filter", help="Speed, memory and quality of the particle filter.")
@click.option("--rows", default=20_000, show_default=True, help="For speed.")
@click.option("--repeats", default=3, show_default=True)
@click.option("--long", default=1_000_000, show_default=True, help="Rows for memory.")
@click.option("--quality-rows", default=2_000, show_default=True)
@click.option("--seeds", default=5, show_default=True)
def main(rows: int, repeats: int, long: int, quality_rows: int, seeds: int) -> None:
    """Print three tables."""
    click.echo(machine())
    with threadpool_limits(1):
        DDCRPSampler(warmup=1).step_many(np.zeros((2, 1)))  # compiles
        speed(rows, repeats)
        memory(long)
        quality(quality_rows, seeds)


if __name__ == "__main__":
    main()
