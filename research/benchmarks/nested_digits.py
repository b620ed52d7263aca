"""Digits rebuilt from trees of components: Table 2 of Wang and Blei (2009), over several orders.

Mean squared error of an image, 64 pixels of 0 to 16; PCA with as many components as a path has. The
stream sees every image once, in a random order; a tree has as many nodes as the published one. CPU
seconds, since the machine is shared; one thread.
"""

from __future__ import annotations

from collections import defaultdict

import click
from threadpoolctl import threadpool_limits

from benchmarks.machine import machine, markdown, spread
from research.ncrp_digits_numbers import PUBLISHED, Fit, digits, fits, pca_error

HEADER = ("L", "method", "nodes", "train", "test", "CPU s")


@click.command("nested_digits")
@click.option("--seeds", default=5, show_default=True, help="Orders of the images.")
def main(seeds: int) -> None:
    """Digits rebuilt from trees of components, beside PCA and the published trees."""
    data = digits()
    found: dict[tuple[int, str], list[Fit]] = defaultdict(list)
    with threadpool_limits(1):
        list(fits(data, 0, (2,)))  # compiles
        for seed in range(seeds):
            for fit in fits(data, seed):
                found[fit.depth, fit.method].append(fit)
    rows = []
    for depth, (nodes, train, test) in PUBLISHED.items():
        pca = pca_error(data, depth)
        rows.append([str(depth), "PCA", str(depth), f"{pca[0]:.1f}", f"{pca[1]:.1f}", ""])
        rows.append([str(depth), "published", str(nodes), str(train), str(test), ""])
        for (at, method), some in found.items():
            if at == depth:
                columns = zip(*(fit[2:6] for fit in some), strict=True)
                values = [
                    spread(c, form)
                    for c, form in zip(columns, (".0f", ".1f", ".1f", ".2f"), strict=True)
                ]
                rows.append([str(depth), method, *values])
    click.echo(machine())
    click.echo(f"\n{data.source}: {len(data.train):,} images learned, {len(data.test):,} tested.\n")
    click.echo(markdown(HEADER, rows))


if __name__ == "__main__":
    main()
