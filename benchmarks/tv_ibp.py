"""How well and how fast does the time-varying Indian buffet process find causes?

Quality: the images of Caron and Doucet (2009) as in ``streamddcrp reproduce graph-images``, at the
defaults, over seeds. Speed: CPU seconds an arrival by particles and rows drawn anew. Memory: what a
long stream adds to the state.
"""

from __future__ import annotations

import time
from typing import Any

import click
import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.machine import machine, markdown, spread
from streamddcrp.estimators.tv_ibp import TimeVaryingIBP
from streamddcrp_connectors.experiments.graph_images import features_of, images, matched

SETTINGS: tuple[tuple[int, int], ...] = ((10, 5), (50, 20), (100, 20), (200, 20))


def quality(seeds: int) -> None:
    header = "particles", "rows anew", "Z accuracy", "RMSE of Y", "features of 5 rows", "ms a row"
    click.echo(markdown(header, []))
    for n_particles, n_redrawn in SETTINGS:
        found: dict[str, list[float]] = {"z": [], "y": [], "k": [], "s": []}
        for seed in range(seeds):
            X, Z, Y, _ = images(seed)
            model = TimeVaryingIBP(n_particles=n_particles, n_redrawn=n_redrawn, seed=seed)
            begun = time.process_time()
            model.learn_many(X)
            found["s"].append((time.process_time() - begun) * 1e3 / len(X))
            on = features_of(model)
            loading, _, accuracy = matched(on, X, Z, Y)
            found["z"].append(float(accuracy.mean()))
            found["y"].append(float(np.sqrt(((loading - Y) ** 2).mean(axis=1)).mean()))
            found["k"].append(float((on.sum(axis=0) >= 5).sum()))
        row = (
            str(n_particles), str(n_redrawn), spread(found["z"], ".3f"), spread(found["y"], ".3f"),
            spread(found["k"], ".0f"), spread(found["s"], ".1f"),
        )  # fmt: skip
        click.echo(markdown(row, []).splitlines()[0])


def memory(n_rows: int) -> None:
    model: Any = TimeVaryingIBP(n_particles=5, n_redrawn=1)
    X, sizes = images(0)[0], []
    for _ in range(n_rows // len(X)):
        model.learn_many(X)
        sizes.append((model.nbytes, len(model.to_bytes())))
    early, late = np.array(sizes[len(sizes) // 4]), np.array(sizes[-1])
    click.echo(
        f"\nState after {n_rows // 4:,} rows {early[0] / 1e3:.0f} kB in memory, "
        f"{early[1] / 1e3:.0f} kB saved; after {n_rows:,} rows {late[0] / 1e3:.0f} and {late[1] / 1e3:.0f} kB."
    )


@click.command("tv_ibp", help="Quality, speed and memory of the time-varying IBP.")
@click.option("--seeds", default=5, show_default=True)
@click.option("--long", default=100_000, show_default=True, help="Rows for memory.")
def main(seeds: int, long: int) -> None:
    """Print a table and a line."""
    click.echo(machine())
    with threadpool_limits(1):
        TimeVaryingIBP(warmup=1).learn_many(np.zeros((1, 36)))  # compiles
        quality(seeds)
        memory(long)


if __name__ == "__main__":
    main()
