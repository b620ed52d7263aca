"""The experiment of Caron and Doucet (2009) on images as a command; what is heavy is imported."""

import click

from .seqddcrp import _show

__all__ = ["graph_images"]


@click.command("graph-images")
@click.option(
    "--out", default="graph-images", show_default=True, metavar="DIR", help="For the figures."
)
@click.option("--seeds", default=5, show_default=True, type=click.IntRange(1), help="Data sets.")
def graph_images(out: str, seeds: int) -> None:
    """Features that switch on and off: Section 4.2, Figures 3 and 4 of Caron and Doucet (2009)."""
    from .graph_images import run  # noqa: PLC0415 -- heavy: not for --help

    _show(out, lambda folder: run(folder, seeds))
