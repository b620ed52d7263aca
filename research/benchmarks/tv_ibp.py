"""How well and how fast does the time-varying Indian buffet process find causes?

Quality: the images of Caron and Doucet (2009) as in ``streamddcrp reproduce graph-images``, by
particles and rows resampled, with CPU time; and causes of which each is on in half of the rows:
200 rows of 30 columns, standard normal loadings, noise of a fifteenth. Memory: what a long stream
adds to the state.
"""

from __future__ import annotations

import time
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.machine import machine, markdown, spread
from research.graph_images import features_of, images, matched
from streamddcrp.models.features.tv_ibp import TimeVaryingIBP

FloatArray = NDArray[np.float64]
SETTINGS: tuple[tuple[int, int], ...] = ((10, 5), (50, 20), (100, 20), (200, 20))


def quality(seeds: range) -> None:
    header = (
        "particles",
        "rows resampled",
        "Z accuracy",
        "RMSE of Y",
        "features of 5 rows",
        "ms a row",
    )
    click.echo(markdown(header, []))
    for n_particles, moves in SETTINGS:
        found: dict[str, list[float]] = {"z": [], "y": [], "k": [], "s": []}
        for seed in seeds:
            X, Z, Y, _ = images(seed)
            model = TimeVaryingIBP(n_particles=n_particles, moves=moves, seed=seed)
            begun = time.process_time()
            model.learn_many(X)
            found["s"].append((time.process_time() - begun) * 1e3 / len(X))
            on = features_of(model)
            loading, _, accuracy = matched(on, X, Z, Y)
            found["z"].append(float(accuracy.mean()))
            found["y"].append(float(np.sqrt(((loading - Y) ** 2).mean(axis=1)).mean()))
            found["k"].append(float((on.sum(axis=0) >= 5).sum()))
        row = (
            str(n_particles), str(moves), spread(found["z"], ".3f"), spread(found["y"], ".3f"),
            spread(found["k"], ".0f"), spread(found["s"], ".1f"),
        )  # fmt: skip
        click.echo(markdown(row, []).splitlines()[0])


def dense(
    n_causes: int, seed: int, n_rows: int = 200, share: float = 0.5
) -> tuple[FloatArray, FloatArray]:
    """Rows that are sums of causes each on in a share of them, and what the causes look like."""
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(n_causes, 30))
    Z = rng.random((n_rows, n_causes)) < share
    return Z @ Y + rng.normal(size=(n_rows, 30)) / 15.0, Y


def overlapping(seeds: range) -> None:
    header = "causes", "live features", "causes found", "nats a row", "ms a row"
    click.echo("\n" + markdown(header, []))
    for n_causes in (3, 6, 11):
        found: dict[str, list[float]] = {"live": [], "found": [], "nats": [], "ms": []}
        for seed in seeds:
            X, Y = dense(n_causes, seed)
            model = TimeVaryingIBP(seed=seed)
            begun = time.process_time()
            out = model.step_many(X)
            found["ms"].append((time.process_time() - begun) * 1e3 / len(X))
            table = model.summary()
            looks = np.column_stack([table[f"loading_{d}"] for d in range(X.shape[1])])
            size = (Y**2).sum(axis=1)  # of what is left unexplained; its absence is as good
            gap = np.minimum(*(((looks[:, None] - s * Y) ** 2).sum(axis=2) for s in (1, -1))) / size
            found["live"].append(float(len(looks)))
            found["found"].append(float((gap.min(axis=0) < 0.1).sum()))
            found["nats"].append(
                -float(np.mean(out["score"].to_numpy(zero_copy_only=False)[-100:]))
            )
        row = (
            str(n_causes),
            *(
                spread(v, "." + d)
                for v, d in zip(found.values(), ("0f", "0f", "1f", "1f"), strict=True)
            ),
        )
        click.echo(markdown(row, []).splitlines()[0])


def memory(n_rows: int) -> None:
    model: Any = TimeVaryingIBP(n_particles=5, moves=1)
    X, sizes = images(0)[0], []
    for _ in range(n_rows // len(X)):
        model.learn_many(X)
        sizes.append((model.nbytes, len(model.to_bytes())))
    early, late = np.array(sizes[len(sizes) // 4]), np.array(sizes[-1])
    click.echo(
        f"\nState after {n_rows // 4:,} rows {early[0] / 1e3:.0f} kB in memory, "
        f"{early[1] / 1e3:.0f} kB saved; after {n_rows:,} rows {late[0] / 1e3:.0f} and "
        f"{late[1] / 1e3:.0f} kB."
    )


@click.command("tv_ibp", help="Quality, speed and memory of the time-varying IBP.")
@click.option("--seeds", default=5, show_default=True)
@click.option("--first", default=0, show_default=True, help="The first of the seeds.")
@click.option("--long", default=100_000, show_default=True, help="Rows for memory.")
def main(seeds: int, first: int, long: int) -> None:
    """Print a table and a line."""
    click.echo(machine())
    with threadpool_limits(1):
        TimeVaryingIBP(warmup=1).learn_many(np.zeros((1, 36)))  # compiles
        quality(range(first, first + seeds))
        overlapping(range(first, first + seeds))
        memory(long)


if __name__ == "__main__":
    main()
