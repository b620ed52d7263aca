"""The experiments of Wang and Blei (2009) as commands; what is heavy is imported by them."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from streamddcrp.errors import StreamDDCRPError

__all__ = ["ncrp_digits", "ncrp_topics"]

REFUSED = 2


def _show(out: Path, run: Callable[[Path], Iterator[str]]) -> None:
    from streamddcrp_connectors.report.picture import matplotlib  # noqa: PLC0415

    from .data import make_folder  # noqa: PLC0415

    matplotlib("pyplot")  # what is missing is better said before the work than after it
    try:
        for line in run(make_folder(out)):
            click.echo(line)
    except (StreamDDCRPError, OSError) as error:
        click.echo(f"streamddcrp: {error}", err=True)
        sys.exit(REFUSED)


def _out(name: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--out", type=click.Path(path_type=Path), default=name, show_default=True, metavar="DIR",
        help="Folder for the table and the figures.",
    )  # fmt: skip


@click.command("ncrp-digits")
@_out("ncrp-digits")
@click.option("--seed", default=0, show_default=True, help="Of the order of the images.")
def ncrp_digits(out: Path, seed: int) -> None:
    """Digits from trees of components: Table 2 of Wang and Blei (2009).

    Each image is rebuilt from the L components on its path; PCA has the same L for all. The data
    are optdigits in $STREAMDDCRP_SHARED or ../shared/data, or, without them, the digits that
    scikit-learn brings.
    """
    from .ncrp_digits_report import run  # noqa: PLC0415 -- heavy: not for --help

    _show(out, lambda folder: run(folder, seed))


@click.command("ncrp-topics")
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Parquet file with a column 'text', or a text file, documents set apart by blank lines "
    "[default: ap and newsgroups20 in $STREAMDDCRP_SHARED or ../shared/data].",
)
@_out("ncrp-topics")
@click.option(
    "--sweeps", default=100, show_default=True, type=click.IntRange(20),
    help="Of the Gibbs sampler, half of them before the first draw.",
)  # fmt: skip
@click.option("--seed", default=0, show_default=True, help="Of the order of documents and draws.")
def ncrp_topics(data: Path | None, out: Path, sweeps: int, seed: int) -> None:
    """Trees of topics: held-out log likelihood a word, as in Table 1 of Wang and Blei (2009).

    Of every fifth document a random half of the words is seen and the other half predicted. A
    stream that sees each document once, beside Gibbs sampling; the corpora of the paper are not
    public.
    """
    from .ncrp_topics_report import run  # noqa: PLC0415 -- heavy: not for --help

    _show(out, lambda folder: run(folder, data, sweeps, seed))
