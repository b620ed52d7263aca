"""Is a random order of updates better (Bartunov and Vetrov 2014, section 4.2)?

Rows of Table 1 at R = 3 and 5, with the paper's decay and without. All ascend the same bound from
singletons: Algorithm 1 with links in a new random order each sweep (`dense_algorithm1`), until two
sweeps gain less than 1e-9 of it; and `fit_seqddcrp`, which goes forwards and backwards in turn,
without merges and with them.
"""

from __future__ import annotations

import click
import numpy as np

from benchmarks.machine import machine, markdown
from benchmarks.options import SeedRange
from benchmarks.streams import five_gaussians
from research.benchmarks.dense_algorithm1 import (
    DenseAlgorithm1,
    NormalWishartTables,
    link_log_prior,
)
from research.gaussians import ALPHA, LIKELIHOOD, PRIOR
from streamddcrp import fit_seqddcrp

SCALE, MOST = 4.0, 200  # of the decay; sweeps


def in_random_order(X: np.ndarray, seed: int, *, decays: bool) -> float:
    """Return the bound at which Algorithm 1 comes to rest."""
    decay = (lambda gap: np.exp(-gap / SCALE)) if decays else None
    model = DenseAlgorithm1(
        link_log_prior(len(X), ALPHA, decay), NormalWishartTables(X, PRIOR), seed=seed
    )
    bound, still = -np.inf, 0
    for _ in range(MOST):
        model.sweep()
        before, bound = bound, model.bound()
        still = still + 1 if bound - before <= 1e-9 * abs(bound) else 0
        if still == 2:
            break
    return bound


@click.command("random_order", help=str(__doc__).partition("\n")[0])
@click.option("--seeds", type=SeedRange(), default="0-2", show_default=True)
@click.option("--rows", default=200, show_default=True)
def main(seeds: tuple[int, ...], rows: int) -> None:
    table, gains = [], []
    for radius in (3.0, 5.0):
        for seed in seeds:
            X, _ = five_gaussians(rows, radius, seed)
            for decays in (True, False):
                decay = ("exponential", SCALE) if decays else "none"
                there_and_back, merged = (
                    fit_seqddcrp(X, LIKELIHOOD, alpha=ALPHA, decay=decay, merge=merge).bound
                    for merge in (False, True)
                )
                found = in_random_order(X, seed, decays=decays)
                gains.append([there_and_back - found, merged - found])
                bounds = [f"{bound:.2f}" for bound in (found, there_and_back, merged)]
                table.append([f"{radius:g}", str(seed), "yes" if decays else "no", *bounds])
    header = ["R", "seed", "decay", "random order", "forwards and backwards", "with merges"]
    click.echo(markdown(header, table))
    for name, gain in zip(header[4:], np.transpose(gains), strict=True):
        better, worse = gain[gain > 0.5], gain[gain < -0.5]
        ranges = [f"by {g.min():.0f} to {g.max():.0f}" if len(g) else "" for g in (better, -worse)]
        click.echo(
            f"\n{name}: better than random order in {len(better)} of {len(gain)} fits {ranges[0]}, "
            f"worse in {len(worse)} {ranges[1]}, level (within 0.5 nats) in the others"
        )
    click.echo(f"\n{machine()}")


if __name__ == "__main__":
    main()
