"""Drifting Gaussian clusters that are born and die: the streaming temporal mixture and its peers.

Twelve streams of 40 epochs of 80 rows. *Stream*: one pass of `TemporalDPM`, all defaults but for
options given. *Gibbs*: `sample_temporal_dpm`, the infinite model, all scales drawn; labels are the
partition of least expected variation of information to the draws of the second half. *Oracle*:
labels by true centres and proportions.
Epoch ARI is the mean over epochs; pooled ARI is over all rows, so that confused identities count.
Then the cost of an epoch of 2,000 rows with 20 live clusters.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.epochs import DRIFT, agreement, drifting_gaussians
from benchmarks.machine import machine, markdown, spread
from streamddcrp import TemporalDPM, fit_temporal_dpm, point_estimate, sample_temporal_dpm
from streamddcrp.models.temporal.emissions.drift import GaussianDrift
from streamddcrp.models.temporal.engine import Engine
from streamddcrp.models.temporal.window import Settings, count_settings

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MIXED = np.array([[1.0, 0.9], [0.0, np.sqrt(0.19)]])  # columns that have a correlation of .9


def stream_labels(rows: list[FloatArray], **options: Any) -> list[IntArray]:
    """Labels of one pass of `TemporalDPM`, each epoch's as it leaves the window."""
    model = TemporalDPM(**options)
    for X in rows:
        model.learn_many(X)
    model.close()
    final = model.final_labels(window=True)
    ends = np.cumsum([len(X) for X in rows])
    return np.split(final["label"].to_numpy(), ends[:-1])


def batch_labels(rows: list[FloatArray]) -> list[IntArray]:
    """Labels of the batch fit."""
    return fit_temporal_dpm(rows).labels


def gibbs_labels(rows: list[FloatArray], n_sweeps: int, seed: int) -> list[IntArray]:
    """One partition of the draws of the second half of the sweeps, of which one in five is kept."""
    draws = sample_temporal_dpm(
        rows, n_chains=1, n_sweeps=n_sweeps // 2, burn_in=n_sweeps // 2, seed=seed
    )
    found = point_estimate(np.concatenate(draws.labels, axis=1))
    return np.split(found, np.cumsum([len(X) for X in rows])[:-1])


def wide_epochs(
    n_epochs: int, n_rows: int = 2000, n_clusters: int = 20, seed: int = 0
) -> list[FloatArray]:
    """Make rows of clusters that all live on, in a square with room for each."""
    g = np.random.default_rng(seed)
    centre = 12.0 * np.stack(np.divmod(np.arange(n_clusters), 5), axis=1)
    epochs = []
    for _ in range(n_epochs):
        centre = centre + np.sqrt(DRIFT) * g.standard_normal(centre.shape)
        epochs.append(centre[g.integers(0, n_clusters, n_rows)] + g.standard_normal((n_rows, 2)))
    return epochs


def epoch_seconds(n_epochs: int = 25) -> tuple[list[float], int]:
    """CPU seconds of epochs of 2,000 rows with a full window of lag 2, and the live components."""
    rows = wide_epochs(n_epochs)
    settings = Settings(**count_settings(None, None, None), lag=2)  # but for lag as `TemporalDPM`
    engine = Engine(settings, GaussianDrift.scaled(rows[0], 0.003))
    seconds = []
    for X in rows:
        start = time.process_time()
        engine.learn(X)
        seconds.append(time.process_time() - start)
    return seconds[5:], engine.n_components


def _timed(
    method: Callable[..., list[IntArray]], *args: Any, **options: Any
) -> tuple[list[IntArray], float]:
    start = time.process_time()
    labels = method(*args, **options)
    return labels, time.process_time() - start


@click.command("temporal_gaussian", help="Drifting clusters: ARI and time, beside Gibbs.")
@click.option("--streams", default=12, show_default=True)
@click.option("--first", default=0, show_default=True, help="Seed of the first stream.")
@click.option(
    "--gibbs", default=12, show_default=True, help="Streams for the sampler and the batch."
)
@click.option("--sweeps", default=300, show_default=True, help="Of the sampler.")
@click.option("--likelihood", default="auto", show_default=True, help="Of the stream.")
@click.option("--mixed", is_flag=True, help="Mix the columns, so that their noise is correlated.")
def main(streams: int, first: int, gibbs: int, sweeps: int, likelihood: str, mixed: bool) -> None:
    header = ("seed", "method", "epoch ARI", "pooled ARI", "CPU s")
    table = []
    results: dict[str, list[tuple[float, float, float]]] = {}
    with threadpool_limits(1):
        warm = drifting_gaussians(0, n_epochs=5).rows
        stream_labels(warm, likelihood=likelihood)
        gibbs_labels(warm, 10, 0)
        for seed in range(first, first + streams):
            data = drifting_gaussians(seed)
            rows = [X @ MIXED for X in data.rows] if mixed else data.rows
            runs = {"stream": _timed(stream_labels, rows, likelihood=likelihood)}
            if seed < first + gibbs:
                runs["batch"] = _timed(batch_labels, rows)
                runs["Gibbs"] = _timed(gibbs_labels, rows, sweeps, seed)
            runs["oracle"] = data.oracle, 0.0
            for name, (labels, seconds) in runs.items():
                result = (*agreement(data.ids, labels), seconds)
                results.setdefault(name, []).append(result)
                table.append((str(seed), name, *(f"{value:.3f}" for value in result)))
        for name in ("stream", "oracle"):
            mean = np.mean(results[name], axis=0)
            table.append(("mean", name, *(f"{value:.3f}" for value in mean)))
        for name in ("stream", "batch", "Gibbs"):
            some = results.get(name, [])[:gibbs]
            if some:
                row = (f"{value:.3f}" for value in np.mean(some, axis=0))
                table.append((f"mean of {first}-{first + len(some) - 1}", name, *row))
        click.echo(markdown(header, table))
        seconds, live = epoch_seconds()
    milliseconds = [1e3 * value for value in seconds]
    click.echo(f"\n2,000 rows, {live} live components, lag 2: {spread(milliseconds, '.1f')} ms")
    click.echo(f"\n{machine()}")
