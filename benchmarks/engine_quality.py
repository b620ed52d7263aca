"""Labels of the streaming engine at its defaults, before each row is learned, against the truth.

``python -m benchmarks.engine_quality --seeds 100-105 --streams regime-2k,drift-10k`` is the quick
board for work on the engine: one row a stream, ``--set '{"alpha": 0.2}'`` changes options of
`SeqDDCRP`, ``-v`` lists the seeds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

from benchmarks import peers
from benchmarks.machine import machine, markdown, met, spread
from benchmarks.options import Options, SeedRange
from benchmarks.oracle import nearest, sticky_filter
from benchmarks.pool import in_order, workers
from benchmarks.scores import windowed_ari
from benchmarks.streams import (
    CORNERS,
    drifting_gaussians,
    five_gaussians,
    moving_gaussians,
    rare_switches,
    scattered_gaussians,
    square_of_gaussians,
)
from streamddcrp import SeqDDCRP

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

TUNING_SEED, TUNING_ROWS = 100, 10_000  # of the peers
LARGE = 20_000  # beyond so many rows the peers get one seed
WORST_REGIME = 0.80


@dataclass(frozen=True)
class Sample:
    """Rows, true labels, and labels by the true parameters."""

    X: FloatArray
    y: IntArray
    oracle: IntArray


def regime(n: int, seed: int) -> Sample:
    X, y, mean, sd = rare_switches(n, seed)
    return Sample(X, y, sticky_filter(X, y, mean, sd))


def five(radius: float, shuffled: bool, n: int, seed: int) -> Sample:
    X, y = five_gaussians(n, radius, seed, shuffled=shuffled)
    return Sample(X, y, nearest(X, radius * CORNERS))


def drift(n: int, seed: int) -> Sample:
    X, y, means, labels = drifting_gaussians(n, seed)
    return Sample(X, y, labels[np.arange(n), nearest(X, means)])


def moving(n: int, seed: int) -> Sample:
    X, y, means = moving_gaussians(n, seed)
    return Sample(X, y, nearest(X, means))


def scattered(n: int, seed: int) -> Sample:
    X, y, mean = scattered_gaussians(n, seed)
    return Sample(X, y, nearest(X, mean))


def square(n: int, seed: int) -> Sample:
    X, y, mean = square_of_gaussians(n, seed)
    return Sample(X, y, nearest(X, mean))


@dataclass(frozen=True)
class Stream:
    """A generator, and the median scores the engine is to reach on it."""

    make: Callable[[int, int], Sample]
    n: int
    want: float
    want_windows: float = 0.0
    worst: float = 0.0
    n_clusters: int = 5


STREAMS = {
    "regime-2k": Stream(regime, 2_000, 0.95, worst=WORST_REGIME),
    "regime-20k": Stream(regime, 20_000, 0.97, worst=WORST_REGIME),
    "regime-200k": Stream(regime, 200_000, 0.90, worst=WORST_REGIME),
    "r3-seq": Stream(partial(five, 3.0, False), 2_000, 0.92),
    "r3-shuf": Stream(partial(five, 3.0, True), 2_000, 0.91),
    "r5-seq": Stream(partial(five, 5.0, False), 2_000, 0.97),
    "r5-shuf": Stream(partial(five, 5.0, True), 2_000, 0.995),
    "drift-10k": Stream(drift, 10_000, 0.70, want_windows=0.75),
    "drift-100k": Stream(drift, 100_000, 0.45, want_windows=0.75),
    "moving": Stream(moving, 12_000, 0.90, n_clusters=3),
    "twenty": Stream(scattered, 10_000, 0.65, n_clusters=20),
    "square": Stream(square, 4_000, 0.62, n_clusters=4),
}


@dataclass(frozen=True)
class Found:
    """What one run gave."""

    seed: int
    ari: float
    windows: float
    oracle: float
    n_ids: int
    micros: float  # CPU a row


def measure(name: str, seed: int, options: dict[str, Any]) -> Found:
    """Run the engine over one stream."""
    sample = STREAMS[name].make(STREAMS[name].n, seed)
    start = time.process_time()
    label = SeqDDCRP(**options).step_many(sample.X)["label"].to_numpy()
    seconds = time.process_time() - start
    return Found(
        seed=seed,
        ari=adjusted_rand_score(sample.y, label),
        windows=windowed_ari(sample.y, label),
        oracle=adjusted_rand_score(sample.y, sample.oracle),
        n_ids=len(np.unique(label)),
        micros=1e6 * seconds / len(label),
    )


def tune_peer(peer: str, name: str) -> peers.Settings:
    """Choose a peer's settings on a seed of its own."""
    stream = STREAMS[name]
    sample = stream.make(min(stream.n, TUNING_ROWS), TUNING_SEED)
    return peers.tune(peer, sample.X, sample.y, stream.n_clusters)


def measure_peer(peer: str, settings: peers.Settings, name: str, seed: int) -> float:
    """Prequential adjusted Rand index of a peer."""
    sample = STREAMS[name].make(STREAMS[name].n, seed)
    label = peers.prequential(peers.make(peer, settings), peers.rows_of(sample.X))
    return float(adjusted_rand_score(sample.y, label))


def peer_scores(
    pool: Executor, names: Sequence[str], seeds: Sequence[int]
) -> dict[tuple[str, str], list[float]]:
    """Scores of all peers, by peer and stream; of the large streams on the first seed only."""
    pairs = [(peer, name) for peer in peers.PEERS for name in names]
    tuned = in_order([pool.submit(tune_peer, *pair) for pair in pairs], "tuning peers")
    runs = [
        (peer, settings, name, seed)
        for (peer, name), settings in zip(pairs, tuned, strict=True)
        for seed in seeds[: 1 if STREAMS[name].n > LARGE else None]
    ]
    found = in_order([pool.submit(measure_peer, *run) for run in runs], "peers")
    scores: dict[tuple[str, str], list[float]] = {pair: [] for pair in pairs}
    for (peer, _, name, _), score in zip(runs, found, strict=True):
        scores[peer, name].append(score)
    return scores


def table(
    seeds: Sequence[int],
    names: Sequence[str],
    options: dict[str, Any],
    *,
    processes: int,
    with_peers: bool,
    verbose: bool = False,
) -> str:
    """Return the Markdown table: one row a stream."""
    with workers(processes) as pool:
        jobs = [pool.submit(measure, name, seed, options) for name in names for seed in seeds]
        found = iter(in_order(jobs, "ours"))
        others = peer_scores(pool, names, seeds) if with_peers else {}
    header = [
        "stream", "rows", "ARI, ours", "wanted", "ARI in windows of 500", "met", "ARI, oracle",
        *(f"ARI, {peer}" for peer in peers.PEERS if with_peers), "ids", "CPU µs a row",
    ]  # fmt: skip
    rows = []
    for name in names:
        stream, runs = STREAMS[name], [next(found) for _ in seeds]
        if verbose:
            for run in runs:
                click.echo(f"{name} {run}", err=True)
        ari = [run.ari for run in runs]
        windows = [run.windows for run in runs]
        wanted = f"{stream.want:g}"
        wanted += f", no seed below {stream.worst:.2f}" if stream.worst else ""
        wanted += f", windows {stream.want_windows:.2f}" if stream.want_windows else ""
        rows.append([
            name, f"{stream.n:,}", spread(ari, ".3f"), wanted, spread(windows, ".2f"),
            met(
                np.median(ari) >= stream.want,
                min(ari) >= stream.worst,
                np.median(windows) >= stream.want_windows,
            ),
            spread([run.oracle for run in runs], ".2f"),
            *(spread(others[peer, name], ".2f") for peer in peers.PEERS if with_peers),
            spread([run.n_ids for run in runs], ".0f"),
            spread([run.micros for run in runs], ".0f"),
        ])  # fmt: skip
    return markdown(header, rows)


def report(*, quick: bool) -> str:
    """Return the section "quality": all streams, the oracle, the peers."""
    names = [name for name in STREAMS if not quick or STREAMS[name].n <= 2_000]
    seeds = range(2 if quick else 10)
    return table(seeds, names, {}, processes=2, with_peers=True)


@click.command("engine_quality", help="Labels at the defaults against the truth: the quick board.")
@click.option("--seeds", type=SeedRange(), default="100-105", show_default=True)
@click.option("--streams", default=",".join(STREAMS), show_default=True)
@click.option("--set", "options", type=Options(), default="{}", help="Options of SeqDDCRP.")
@click.option("-j", "--processes", default=2, show_default=True)
@click.option("--peers", "with_peers", is_flag=True, help="Run river's clusterers, too.")
@click.option("-v", "--verbose", is_flag=True, help="Every seed, on standard error.")
def main(
    seeds: tuple[int, ...],
    streams: str,
    options: dict[str, Any],
    processes: int,
    with_peers: bool,
    verbose: bool,
) -> None:
    names = streams.split(",")
    if unknown := [name for name in names if name not in STREAMS]:
        message = f"no stream {unknown[0]!r}; there are {', '.join(STREAMS)}"
        raise click.UsageError(message)
    click.echo(
        table(seeds, names, options, processes=processes, with_peers=with_peers, verbose=verbose)
    )
    click.echo(f"\n{machine()}")


if __name__ == "__main__":
    main()
