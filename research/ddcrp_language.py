"""The language model of Blei and Frazier (2011) on the Associated Press articles."""

import sys
import time
from pathlib import Path

import click

from streamddcrp.errors import StreamDDCRPError

REFUSED = 2
INSTEAD = """\
The 2,246 articles of the Associated Press are not a part of the package.
They are ap.txt in example/ap.tgz of lda-c (https://github.com/blei-lab/lda-c): --data ap.txt.
A text of your own does as well: --data FILE, a Parquet file with a column 'text', or a text file
in UTF-8 whose documents are set apart by blank lines."""


class PositiveNumbers(click.ParamType[tuple[float, ...]]):
    """Positive numbers, separated by commas."""

    name = "numbers"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, ...]:
        """Read them."""
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(float(part) for part in str(value).split(","))
        except ValueError:
            numbers = ()
        if not numbers or not all(0 < number < float("inf") for number in numbers):
            self.fail(f"{value!r} is not a list of positive numbers like 10,30,100", param, ctx)
        return numbers


@click.command("ddcrp-language")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Parquet file with a column 'text', or a text file, documents set apart by blank lines "
    "[default: ap/docs.parquet in $STREAMDDCRP_SHARED or shared/data beside the clone].",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default="ddcrp-language",
    show_default=True,
    metavar="DIR",
    help="Folder for the table and the figures.",
)
@click.option(
    "--parameters",
    type=PositiveNumbers(),
    default="10,30,100,300,1000",
    show_default=True,
    help="Decay parameters a of the grid, in tokens.",
)
@click.option(
    "--alphas",
    type=PositiveNumbers(),
    default="10,30,100,300,1000",
    show_default=True,
    help="Concentrations of the grid.",
)
@click.option(
    "--base",
    type=click.Choice(["corpus", "others"]),
    default="corpus",
    show_default=True,
    help="Word frequencies g: of the whole corpus, as in the papers, or for each document of the "
    "other documents only.",
)
@click.option("--seed", default=0, show_default=True, help="Of the draws and random starts.")
@click.option(
    "--progress/--no-progress", default=None, help="Progress bar [default: on a terminal]."
)
def ddcrp_language(
    data: Path | None,
    out: Path,
    parameters: tuple[float, ...],
    alphas: tuple[float, ...],
    base: str,
    seed: int,
    progress: bool | None,
) -> None:
    """Bayes factors of window, exponential and logistic decay against the CRP, exactly.

    Every token of a document links to an earlier equal word or opens a table whose word has the
    base measure g (Blei and Frazier 2011, language modelling; Bartunov and Vetrov 2014, section
    5.1). Evidence and posterior are in closed form, so nothing converges and nothing is estimated;
    draws (a Gibbs sweep is an independent one here) and mean-field updates are run beside them to
    show it.

    Words are letters and digits in lower case; stop words stay, nothing is stemmed and no rare word
    is left out. Distance counts tokens. Each document is a process of its
    own.
    """
    try:
        _reproduce(data, out, parameters, alphas, base, seed, progress)
    except (StreamDDCRPError, OSError) as error:
        click.echo(f"streamddcrp: {error}", err=True)
        sys.exit(REFUSED)


def _reproduce(
    data: Path | None,
    out: Path,
    parameters: tuple[float, ...],
    alphas: tuple[float, ...],
    base: str,
    seed: int,
    progress: bool | None,
) -> None:
    from tqdm import tqdm

    from streamddcrp.plots.figures import matplotlib

    from .data import make_folder, read_documents, shared_file
    from .ddcrp_language_figures import draw_all
    from .ddcrp_language_numbers import measure, read_corpus
    from .ddcrp_language_words import in_words

    matplotlib("figure")  # what is missing is better said before the work than after it
    path = data or shared_file("ap/docs.parquet", INSTEAD)
    folder = make_folder(out)
    start = time.perf_counter()
    corpus = read_corpus(read_documents(path), base)
    shown = sys.stderr.isatty() if progress is None else progress
    with tqdm(unit=" models", file=sys.stderr, disable=not shown) as bar:
        numbers = measure(corpus, parameters, alphas, seed, bar)
    words = in_words(numbers, path.name, base, time.perf_counter() - start)
    click.echo(words)
    table = folder / "ddcrp-language.md"
    table.write_text(words, encoding="utf-8")
    made = [table, *draw_all(numbers, folder)]
    click.echo("Written: " + ", ".join(map(str, made)))
