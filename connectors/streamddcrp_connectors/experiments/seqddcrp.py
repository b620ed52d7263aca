"""The experiments of Bartunov and Vetrov (2014) as commands; what is heavy is imported by them."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from streamddcrp.errors import StreamDDCRPError

__all__ = ["seqddcrp_gaussians", "seqddcrp_regimes"]

REFUSED = 2


def _show(out: str, run: Callable[[Path], Iterator[str]]) -> None:
    from streamddcrp_connectors.report.picture import matplotlib  # noqa: PLC0415

    from .data import make_folder  # noqa: PLC0415

    matplotlib("pyplot")  # what is missing is better said before the work than after it
    try:
        for line in run(make_folder(Path(out))):
            click.echo(line)
    except StreamDDCRPError as error:
        click.echo(f"streamddcrp: {error}", err=True)
        sys.exit(REFUSED)


@click.command("seqddcrp-gaussians")
@click.option(
    "--out", default="seqddcrp-gaussians", show_default=True, metavar="DIR", help="For the figures."
)
@click.option("--seeds", default=5, show_default=True, type=click.IntRange(1), help="Data sets.")
@click.option(
    "--starts", default=100, show_default=True, type=click.IntRange(2), help="Random starts."
)
def seqddcrp_gaussians(out: str, seeds: int, starts: int) -> None:
    """Five Gaussians: Table 1, Figures 3 and 4 of Bartunov and Vetrov (2014).

    Scores are log likelihoods of 200 held-out rows, median (range) over data sets; ours by
    variational links and by Gibbs sampling; published: seqddCRP, seqCRP. Their rows only make sense
    from bottom to top: in the printed order R = 5 beats the true density by two hundred nats.
    """
    from .gaussians import run  # noqa: PLC0415 -- heavy: not for --help

    _show(out, lambda folder: run(folder, seeds, starts))


@click.command("seqddcrp-regimes")
@click.option(
    "--out", default="seqddcrp-regimes", show_default=True, metavar="DIR", help="For the figure."
)
@click.option("--rows", default=1000, show_default=True, type=click.IntRange(20))
@click.option("--sweeps", default=1000, show_default=True, type=click.IntRange(2))
@click.option("--chains", default=5, show_default=True, type=click.IntRange(1))
@click.option("--seed", default=0, show_default=True, type=int, help="Of the data.")
def seqddcrp_regimes(out: str, rows: int, sweeps: int, chains: int, seed: int) -> None:
    """Regimes in time: Figure 2 of Bartunov and Vetrov (2014).

    Mean log density of a held-out row against CPU seconds: variational links beside the sampler of
    the paper, which carries a parameter for each customer, and the collapsed one.
    """
    from .regimes import run  # noqa: PLC0415 -- heavy: not for --help

    _show(out, lambda folder: run(folder, rows, sweeps, chains, seed))
