"""Time-varying clustering after Caron and Doucet (2009) as a command."""

import click

from .seqddcrp import _show

__all__ = ["graph_clustering"]


@click.command("graph-clustering")
@click.option(
    "--out", default="graph-clustering", show_default=True, metavar="DIR", help="For the figure."
)
@click.option("--seeds", default=5, show_default=True, type=click.IntRange(1), help="Data sets.")
@click.option("--particles", default=100, show_default=True, type=click.IntRange(1))
def graph_clustering(out: str, seeds: int, particles: int) -> None:
    """Clusters that come and go: the graph-CRP of Caron and Doucet (2009) with windows.

    Five Gaussians in two dimensions are on and off in four stretches of 500 rows. Labels and log
    densities are those predicted before each row is learned; the oracle knows which Gaussians are
    on. Windows of several lengths beside the Dirichlet process, which forgets nothing.
    """
    from .graph_clustering_numbers import run  # noqa: PLC0415 -- heavy: not for --help

    _show(out, lambda folder: run(folder, seeds, particles))
