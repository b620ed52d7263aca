"""CPU seconds a sweep: `fit_seqddcrp` against the dense Algorithm 1 of the paper.

Same process, same data, same model: the regime stream under exponential decay a = 4, alpha = 0.1,
Normal-Gamma tables. *First sweep*: one call with `max_sweeps=1`, set-up and result included, when
every customer still has a table. *Mean*: a whole converged fit divided by its sweeps, without
merges (the dense form makes none) and with them. *Later*: what one more sweep costs. The dense form
corrects all of R at every link, or only the block that can change (`dense_algorithm1`). Then
`fit_seqddcrp` alone at N where a dense matrix would not fit, with the peak memory of a fresh
process.
"""

from __future__ import annotations

import multiprocessing as mp
import statistics
import time
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.machine import machine, markdown, peak_mebibytes, spread
from benchmarks.streams import regimes
from research.benchmarks.dense_algorithm1 import (
    DenseAlgorithm1,
    NormalWishartTables,
    link_log_prior,
)
from research.stick_breaking import GaussianPrior
from streamddcrp import fit_seqddcrp
from streamddcrp.likelihoods import NormalGamma

FloatArray = NDArray[np.float64]

ALPHA, SCALE = 0.1, 4.0
MEAN, KAPPA, SHAPE, RATE = 15.0, 0.01, 0.8, 1.0 / 1.1  # the paper's Gamma prior of the precision


def fit(X: FloatArray, max_sweeps: int, **options: Any) -> Any:
    """`fit_seqddcrp` on the regime stream."""
    family = NormalGamma(MEAN, KAPPA, SHAPE, RATE)
    decay = ("exponential", SCALE)
    return fit_seqddcrp(X, family, alpha=ALPHA, decay=decay, max_sweeps=max_sweeps, **options)


def ours_per_sweep(X: FloatArray, max_sweeps: int, *, merge: bool) -> tuple[float, Any]:
    """CPU seconds a sweep, the whole call divided by its sweeps, and the fit."""
    start = time.process_time()
    result = fit(X, max_sweeps, merge=merge)
    return (time.process_time() - start) / result.n_sweeps, result


def ours_later_sweep(X: FloatArray) -> float:
    """CPU seconds of one more sweep once ten have thinned the tables out."""
    seconds, sweeps = [], []
    for max_sweeps in (10, 40):
        start = time.process_time()
        sweeps.append(fit(X, max_sweeps, tol=0.0, merge=False).n_sweeps)
        seconds.append(time.process_time() - start)
    return (seconds[1] - seconds[0]) / max(1, sweeps[1] - sweeps[0])


def dense_per_sweep(X: FloatArray, sweeps: int, *, full: bool) -> tuple[list[float], float]:
    """CPU seconds of each of the first sweeps, and the bound after them."""
    prior = GaussianPrior(np.array([MEAN]), KAPPA, np.array([[2.0 * RATE]]), 2.0 * SHAPE)
    log_prior = link_log_prior(len(X), ALPHA, lambda gap: np.exp(-gap / SCALE))
    model = DenseAlgorithm1(log_prior, NormalWishartTables(X, prior), full_update=full)
    seconds = []
    for _ in range(sweeps):
        start = time.process_time()
        model.sweep()
        seconds.append(time.process_time() - start)
    return seconds, model.bound()


def _alone(pipe: Any, n: int, max_sweeps: int) -> None:
    fit(regimes(100)[0], 3)
    before = peak_mebibytes()
    X, _ = regimes(n)
    start = time.process_time()
    result = fit(X, max_sweeps)
    seconds = time.process_time() - start
    pipe.send((seconds, result.n_sweeps, float(result.bound_trace[-1]), peak_mebibytes() - before))


def alone(n: int, max_sweeps: int) -> tuple[float, int, float, float]:
    """CPU seconds, sweeps, bound and peak MiB over the warm start of one fit in a new process."""
    context = mp.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_alone, args=(sender, n, max_sweeps))
    process.start()
    sender.close()
    out: tuple[float, int, float, float] = receiver.recv()
    process.join()
    return out


def against_dense(sizes: tuple[int, ...], runs: int) -> str:
    header = (
        "N", "ours, first sweep", "ours, mean", "ours, mean with merges", "ours, a later sweep",
        "dense, full rank-1", "dense, block rank-1", "full / mean", "block / mean",
        "full / later", "bound: ours, merged (sweeps)", "bound: dense after 5",
    )  # fmt: skip
    rows = []
    for n in sizes:
        X, _ = regimes(n)
        fit(X, 500)  # compiles
        first = [ours_per_sweep(X, 1, merge=False)[0] for _ in range(runs)]
        plain = [ours_per_sweep(X, 500, merge=False) for _ in range(runs)]
        merged = [ours_per_sweep(X, 500, merge=True) for _ in range(runs)]
        mean = [seconds for seconds, _ in plain]
        later = [ours_later_sweep(X) for _ in range(runs)]
        block, bound = dense_per_sweep(X, 5, full=False)
        full, _ = dense_per_sweep(X, 3 if n > 400 else 5, full=True)
        rows.append(
            (
                str(n),
                spread(first),
                spread(mean),
                spread([seconds for seconds, _ in merged]),
                spread(later),
                spread(full),
                spread(block),
                f"{statistics.median(full) / statistics.median(mean):.0f}",
                f"{statistics.median(block) / statistics.median(mean):.0f}",
                f"{statistics.median(full) / statistics.median(later):.0f}",
                *(
                    f"{r.bound:.2f}, {m.bound:.2f} ({r.n_sweeps}, {m.n_sweeps})"
                    for (_, r), (_, m) in [(plain[-1], merged[-1])]
                ),
                f"{bound:.2f}",
            )
        )
    return markdown(header, rows)


def growth(sizes: tuple[int, ...], runs: int, max_sweeps: int) -> str:
    header = (
        "N", "CPU s a sweep, mean of a whole fit", "sweeps", "CPU s in all",
        "a sweep's cost against the row above",
        "peak MiB over a warm start",
    )  # fmt: skip
    rows = []
    above: tuple[int, float] | None = None
    for n in sizes:
        results = [alone(n, max_sweeps) for _ in range(runs)]
        each = [seconds / sweeps for seconds, sweeps, _, _ in results]
        middle = statistics.median(each)
        ratio = "" if above is None else f"{middle / above[1]:.1f} for {n / above[0]:.0f} x N"
        above = (n, middle)
        rows.append(
            (
                f"{n:,}",
                spread(each),
                str(results[0][1]),
                spread([r[0] for r in results]),
                ratio,
                spread([r[3] for r in results], ".0f"),
            )
        )
    return markdown(header, rows)


@click.command("batch_speed", help="Seconds a sweep against the dense Algorithm 1; growth with N.")
@click.option("--size", "sizes", multiple=True, type=int, default=(200, 400, 800))
@click.option("--large", multiple=True, type=int, default=(10_000, 100_000))
@click.option("--runs", default=5, show_default=True)
@click.option("--max-sweeps", default=20, show_default=True, help="Of the large fits.")
def main(sizes: tuple[int, ...], large: tuple[int, ...], runs: int, max_sweeps: int) -> None:
    click.echo("Regime stream, exponential decay a = 4, alpha = 0.1; CPU seconds, ")
    click.echo("median (min to max), one thread.\n")
    with threadpool_limits(1):
        click.echo(against_dense(sizes, runs))
        click.echo("")
        click.echo(growth(large, max(1, runs // 2 + 1), max_sweeps))
    click.echo(f"\n{machine()}")
