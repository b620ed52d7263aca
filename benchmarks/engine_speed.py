"""Time, memory and size of the streaming engine at its defaults, beside river's clusterers.

CPU seconds of one thread. Rounds alternate between peer and engine, so that a slow phase of the
machine hits both.
"""

from __future__ import annotations

import multiprocessing as mp
import time
from collections.abc import Callable, Iterator
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from benchmarks import peers
from benchmarks.machine import machine, markdown, met, peak_mebibytes, spread
from benchmarks.pool import compile_engine
from benchmarks.streams import five_gaussians, rare_switches, scattered_gaussians
from streamddcrp import SeqDDCRP

FloatArray = NDArray[np.float64]

WANT_ONE_BY_ONE, WANT_WIDE = 40_000, 60.0  # rows/s, µs a row
WANT_SLOWDOWN, WANT_MEMORY, WANT_STATE = 1.1, 5.0, 100.0  # ratio, MB, kB
PEER = {
    "KMeans": {"n_clusters": 5, "halflife": 0.2, "sigma": 1.0, "seed": 0},
    "DenStream": {"epsilon": 2.0, "decaying_factor": 0.001, "beta": 0.75, "mu": 2.0,
                  "n_samples_init": 50, "stream_speed": 1},
}  # fmt: skip
STAGES, SLICES = 10, 20  # of the endless stream; slices of a stage are made one at a time


def alternate(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of every run, all runs once a round."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in tqdm(range(rounds), desc=" / ".join(runs), leave=False):
        for name, run in runs.items():
            start = time.process_time()
            run()
            seconds[name].append(time.process_time() - start)
    return seconds


def against_peers(n: int, rounds: int) -> list[tuple[str, ...]]:
    """In batches against KMeans, and one by one against KMeans and DenStream; D = 2."""
    X = five_gaussians(n, 3.0, shuffled=True)[0]
    dicts = peers.rows_of(X)
    runs: dict[str, Callable[[], object]] = {
        "KMeans": lambda: peers.prequential(peers.make("KMeans", PEER["KMeans"]), dicts),
        "batches": lambda: SeqDDCRP().step_many(X),
        "DenStream": lambda: peers.prequential(peers.make("DenStream", PEER["DenStream"]), dicts),
        "one by one": lambda: peers.prequential(SeqDDCRP(), dicts),
    }
    seconds = alternate(runs, rounds)
    rate = {name: n / np.array(times) for name, times in seconds.items()}
    rows = []
    one_by_one = "`predict_one` + `learn_one`"
    for ours, call, rival, least, ratio in (
        ("batches", "`step_many`", "KMeans", 0, 1.5),
        ("one by one", one_by_one, "DenStream", WANT_ONE_BY_ONE, 2.0),
        ("one by one", one_by_one, "KMeans", WANT_ONE_BY_ONE, 0.0),
    ):
        ratios = rate[ours] / rate[rival]
        rows.append((
            f"rows/s, {call} (D = 2)", spread(rate[ours], ",.0f"),
            f"at least {least:,}, {ratio} times {rival}",
            met(np.median(rate[ours]) >= least, np.median(ratios) >= ratio),
            f"{rival}: {spread(rate[rival], ',.0f')}", spread(ratios, ".2f"),
        ))  # fmt: skip
    return rows


def wide(n: int, rounds: int) -> tuple[str, ...]:
    """Many clusters of many features."""
    X = scattered_gaussians(n, n_clusters=50, dim=16)[0]
    model = SeqDDCRP()
    model.step_many(X)
    seconds = alternate({"wide": lambda: model.step_many(X)}, rounds)["wide"]
    micros = [1e6 * s / n for s in seconds]
    return (
        f"µs a row, K = 50, D = 16 ({model.n_tables} tables found)", spread(micros, ".0f"),
        f"under {WANT_WIDE:.0f}", met(np.median(micros) < WANT_WIDE), "", "",
    )  # fmt: skip


def state() -> tuple[str, ...]:
    """Size of the checkpoint after streams with at most eight tables."""
    sizes = []
    for X in (
        *(five_gaussians(2000, r, shuffled=s)[0] for r in (3.0, 5.0) for s in (False, True)),
        *(rare_switches(20_000, seed)[0] for seed in range(3)),
    ):
        model = SeqDDCRP()
        model.step_many(X)
        if model.n_tables <= 8:
            sizes.append(len(model.to_bytes()) / 1e3)
    return (
        f"`to_bytes`, kB ({len(sizes)} streams with K ≤ 8)", spread(sizes, ".0f"),
        f"under {WANT_STATE:.0f}", met(max(sizes) < WANT_STATE), "", "",
    )  # fmt: skip


def slices(stage: int, rows: int) -> Iterator[FloatArray]:
    """A stage of the endless stream, one slice at a time."""
    for i in range(SLICES):
        yield five_gaussians(rows // SLICES, 3.0, seed=stage * SLICES + i, shuffled=True)[0]


def _endless(pipe: Any, rows: int) -> None:
    with threadpool_limits(1):
        model = SeqDDCRP()
        for X in slices(0, rows):
            model.step_many(X)
        young = model.to_bytes()
        peak = peak_mebibytes()
        for stage in tqdm(range(1, STAGES), desc="endless", leave=False):
            for X in slices(stage, rows):
                model.step_many(X)
        grown = peak_mebibytes() - peak
        # The second stage once more, by turns with one after the last.
        other = SeqDDCRP.from_bytes(young)
        seconds: dict[str, list[float]] = {"second": [], "last": []}
        for early, late in zip(slices(1, rows), slices(STAGES, rows), strict=True):
            for name, one, X in (("second", other, early), ("last", model, late)):
                start = time.process_time()
                one.step_many(X)
                seconds[name].append(time.process_time() - start)
        pipe.send((seconds, grown, len(model.to_bytes())))


def endless(rows: int) -> list[tuple[str, ...]]:
    """Time and memory after `STAGES` times so many rows, in a process of their own."""
    context = mp.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_endless, args=(sender, rows))
    process.start()
    sender.close()
    seconds, grown, size = receiver.recv()
    process.join()
    late, early = (np.array(seconds[name]) * SLICES / rows * 1e6 for name in ("last", "second"))
    slowdown = float(np.median(late) / np.median(early))
    after = f"after {STAGES * rows:,} rows"
    return [
        (
            f"µs a row, {after}", spread(late, ".1f"),
            f"at most {WANT_SLOWDOWN} times the second {rows:,}",
            met(slowdown <= WANT_SLOWDOWN), f"second {rows:,}: {spread(early, '.1f')}",
            f"{slowdown:.2f}",
        ),
        (
            f"growth of peak memory, {after}, MiB", f"{grown:.1f}",
            f"under {WANT_MEMORY:.0f} since the first {rows:,}", met(grown < WANT_MEMORY), "", "",
        ),
        (f"`to_bytes`, {after}, kB", f"{size / 1e3:.0f}", "", "", "", ""),
    ]  # fmt: skip


def report(*, quick: bool) -> str:
    """Return the section "speed"."""
    header = ("what", "ours", "wanted", "met", "beside it", "ours / that, by round")
    n, rounds, stage = (5_000, 3, 20_000) if quick else (20_000, 7, 1_000_000)
    with threadpool_limits(1):
        compile_engine()
        rows = against_peers(n, rounds)
        rows += [wide(n, rounds), state(), *endless(stage)]
    return markdown(header, rows)


@click.command("engine_speed", help="Time, memory and size of the engine at its defaults.")
@click.option("--quick", is_flag=True, help="Fewer rows and rounds.")
def main(quick: bool) -> None:
    click.echo(report(quick=quick))
    click.echo(f"\n{machine()}")


if __name__ == "__main__":
    main()
