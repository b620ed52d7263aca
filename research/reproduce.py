"""The experiments of the papers: ``python -m research.reproduce``, or ``streamddcrp reproduce``."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from research.ddcrp_language import REFUSED, ddcrp_language
from streamddcrp.errors import StreamDDCRPError

Options = Callable[[Callable[..., None]], Callable[..., None]]


def _show(out: Path, run: Callable[[Path], Iterator[str]]) -> None:
    from streamddcrp.plots.figures import matplotlib

    from .data import make_folder

    matplotlib("pyplot")  # what is missing is better said before the work than after it
    try:
        for line in run(make_folder(out)):
            click.echo(line)
    except (StreamDDCRPError, OSError) as error:
        click.echo(f"streamddcrp: {error}", err=True)
        sys.exit(REFUSED)


def _out(name: str) -> Options:
    return click.option(
        "--out", type=click.Path(path_type=Path), default=name, show_default=True, metavar="DIR",
        help="Folder for the table and the figures.",
    )  # fmt: skip


def _number(
    name: str, default: int, least: int | None = 1, help: str | None = None
) -> Options:  # fmt: skip
    kind = click.INT if least is None else click.IntRange(least)
    return click.option(f"--{name}", default=default, show_default=True, type=kind, help=help)


@click.group()
def reproduce() -> None:
    """Repeat the experiments of the papers.

    Each prints its tables beside what was published, and draws the figures.
    """


reproduce.add_command(ddcrp_language)


@reproduce.command("ddcrp-invariance")
@_out("ddcrp-invariance")
def ddcrp_invariance(out: Path) -> None:
    """Which ddCRPs are marginally invariant (Blei and Frazier 2011): all links visited.

    The defect is the largest change of the probability of a partition when one of five customers is
    left out instead of summed over. The slides state which should be zero and print no number.
    """
    from .invariance import run

    _show(out, run)


@reproduce.command("ddcrp-mixing")
@_out("ddcrp-mixing")
@_number("chains", 4)
@_number("sweeps", 200, 20, help="A fifth of them before those that count.")
@_number("seed", 0, None, help="Of data and draws.")
def ddcrp_mixing(out: Path, chains: int, sweeps: int, seed: int) -> None:
    """Links of the ddCRP beside Algorithm 3 of Neal (2000), for one CRP (Blei and Frazier 2011).

    Both draw partitions of the same rows from the same posterior. "To the top": sweeps until a
    chain, from every row alone, first reaches the median log p(x, z).
    """
    from .mixing import run

    _show(out, lambda folder: run(folder, chains, sweeps, seed))


@reproduce.command("ddcrp-documents")
@_out("ddcrp-documents")
@click.option(
    "--documents", type=click.IntRange(20), help="Of each corpus, the earliest [default: all]."
)
@_number("particles", 4)
@_number("seed", 0, None, help="Of the particles.")
def ddcrp_documents(out: Path, documents: int | None, particles: int, seed: int) -> None:
    """Mixtures of dated documents, exponential decay beside the CRP (Blei and Frazier 2011).

    Every document is predicted, then learned. Alpha and the decay are chosen on the first half of
    the documents, the second half is reported. The data are ap and sotu in $STREAMDDCRP_SHARED or
    shared/data beside the clone.
    """
    from .dated_documents import run

    _show(out, lambda folder: run(folder, documents, particles, seed))


@reproduce.command("seqddcrp-gaussians")
@_out("seqddcrp-gaussians")
@_number("seeds", 5, help="Data sets.")
@_number("starts", 100, 2, help="Random starts.")
@_number("seed", 0, None, help="Of the first data set.")
def seqddcrp_gaussians(out: Path, seeds: int, starts: int, seed: int) -> None:
    """Five Gaussians: Table 1, Figures 3 to 5 of Bartunov and Vetrov (2014).

    Scores are log likelihoods of 200 held-out rows, median (range) over data sets; ours by
    variational links and by Gibbs sampling; published: seqddCRP, seqCRP. Their rows only make sense
    from bottom to top: in the printed order R = 5 beats the true density by two hundred nats.
    """
    from .gaussians import run

    _show(out, lambda folder: run(folder, seeds, starts, seed))


@reproduce.command("seqddcrp-regimes")
@_out("seqddcrp-regimes")
@_number("rows", 1000, 20)
@_number("sweeps", 1000, 2)
@_number("chains", 5)
@_number("seed", 0, None, help="Of the data.")
def seqddcrp_regimes(out: Path, rows: int, sweeps: int, chains: int, seed: int) -> None:
    """Regimes in time: Figure 2 of Bartunov and Vetrov (2014).

    Mean log density of a held-out row against CPU seconds: variational links beside the sampler of
    the paper, which carries a parameter for each customer, and the collapsed one.
    """
    from .regimes import run

    _show(out, lambda folder: run(folder, rows, sweeps, chains, seed))


@reproduce.command("graph-clustering")
@_out("graph-clustering")
@_number("seeds", 5, help="Data sets.")
@_number("particles", 100)
@_number("seed", 0, None, help="Of the first data set.")
def graph_clustering(out: Path, seeds: int, particles: int, seed: int) -> None:
    """Clusters that come and go: the graph-CRP of Caron and Doucet (2009) with windows.

    Five Gaussians in two dimensions are on and off in four stretches of 500 rows. Labels and log
    densities are those predicted before each row is learned; the oracle knows which Gaussians are
    on. Windows of several lengths beside the Dirichlet process, which forgets nothing.
    """
    from .graph_clustering_numbers import run

    _show(out, lambda folder: run(folder, seeds, particles, seed))


@reproduce.command("graph-images")
@_out("graph-images")
@_number("seeds", 5, help="Data sets.")
@_number("seed", 0, None, help="Of the first data set.")
def graph_images(out: Path, seeds: int, seed: int) -> None:
    """Features that switch on and off: Section 4.2 of Caron and Doucet (2009), Figures 3 to 5."""
    from .graph_images import run

    _show(out, lambda folder: run(folder, seeds, seed))


@reproduce.command("ncrp-digits")
@_out("ncrp-digits")
@_number("seed", 0, None, help="Of the order of the images.")
@click.option("--small", is_flag=True, help="Take the 1,797 digits of scikit-learn instead.")
def ncrp_digits(out: Path, seed: int, small: bool) -> None:
    """Digits from trees of components: Table 2 of Wang and Blei (2009).

    Each image is rebuilt from the L components on its path; PCA has the same L for all. The data
    are optdigits in $STREAMDDCRP_SHARED or shared/data beside the clone.
    """
    from .ncrp_digits_report import run

    _show(out, lambda folder: run(folder, seed, small))


@reproduce.command("ncrp-topics")
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Parquet file with a column 'text', or a text file, documents set apart by blank lines "
    "[default: ap and newsgroups20 in $STREAMDDCRP_SHARED or shared/data beside the clone].",
)
@_out("ncrp-topics")
@click.option(
    "--sweeps", default=100, show_default=True, type=click.IntRange(20),
    help="Of the Gibbs sampler, half of them before the first draw.",
)  # fmt: skip
@click.option(
    "--folds", default=1, show_default=True, type=click.IntRange(1, 5),
    help="Of five, in each of which another fifth of the documents is for testing.",
)  # fmt: skip
@_number("seed", 0, None, help="Of the order of documents and draws.")
def ncrp_topics(data: Path | None, out: Path, sweeps: int, folds: int, seed: int) -> None:
    """Trees of topics: held-out log likelihood a word, as in Table 1 of Wang and Blei (2009).

    Of every fifth document a random half of the words is seen and the other half predicted. A
    stream that sees each document once, beside Gibbs sampling; the corpora of the paper are not
    public.
    """
    from .ncrp_topics_report import run

    _show(out, lambda folder: run(folder, data, sweeps, folds, seed))


if __name__ == "__main__":
    reproduce()
