"""The command ``streamddcrp report``: results as a picture and in words."""

import os
import sys
from pathlib import Path

import click

from streamddcrp.errors import ConfigError, StreamDDCRPError

__all__ = ["make_report", "report"]

REFUSED = 2
ENDINGS = (".png", ".svg", ".txt")


@click.command()
@click.argument("results")
@click.option("--source", required=True, metavar="DATA", help="The series RESULTS are about.")
@click.option("--time", metavar="COL", help="Column of the time in DATA, as given to run.")
@click.option(
    "--by", "--key", "key", metavar="COL", help="Column of the key in DATA, as given to run."
)
@click.option("--only", metavar="KEY", help="Which key to report, where there are several.")
@click.option("--features", metavar="A,B,C", help="Columns to show [default: all others].")
@click.option(
    "--out",
    metavar="DIR|PREFIX",
    help="Where the .png, .svg and .txt go: a folder, or their name without the ending "
    "[default: beside RESULTS].",
)
def report(
    results: str,
    source: str,
    time: str | None,
    key: str | None,
    only: str | None,
    features: str | None,
    out: str | None,
) -> None:
    """Show what a run found: a picture, and what is in it in words.

    RESULTS is a file that `streamddcrp run` wrote. The picture shows each feature coloured by
    regime, the surprise of each row, and when each regime was first seen, came back and was last
    seen. The words go to standard output too.
    """
    names = None if features is None else tuple(map(str.strip, features.split(",")))
    try:
        words, paths = make_report(
            results, source, time=time, key=key, only=only, features=names, out=out
        )
    except (StreamDDCRPError, OSError) as error:
        click.echo(f"streamddcrp: {error}", err=True)
        sys.exit(REFUSED)
    click.echo(words, nl=False)
    click.echo(f"-> {', '.join(map(str, paths))}", err=True)


def make_report(
    results: str | os.PathLike[str],
    source: str | os.PathLike[str],
    *,
    time: str | None = None,
    key: str | None = None,
    only: str | None = None,
    features: tuple[str, ...] | None = None,
    out: str | os.PathLike[str] | None = None,
) -> tuple[str, list[Path]]:
    """Read results and series, and write picture and words.

    Parameters
    ----------
    results, source : str or path-like
    time, key : str, optional
        Columns of ``source``.
    only : str, optional
        The key to report.
    features : tuple of str, optional
        Columns to show; None: all but the time and the key.
    out : str or path-like, optional
        Folder or prefix of the files made.

    Returns
    -------
    words : str
    paths : list of Path
        The PNG, the SVG and the text.

    Raises
    ------
    ConfigError, SchemaError
        The files or the options do not fit together. Nothing was written.
    MissingExtraError
        matplotlib is not installed.
    """
    from .columns import Columns  # noqa: PLC0415 -- heavy: not for --help
    from .findings import find  # noqa: PLC0415
    from .picture import matplotlib, render  # noqa: PLC0415
    from .results import read_labelled  # noqa: PLC0415
    from .words import in_words  # noqa: PLC0415

    matplotlib("figure")
    paths = _paths(Path(results), Path(source), out)
    findings = find(read_labelled(results, source, Columns(time, key, features), only))
    pictures = render(findings)
    words = in_words(findings)
    for path, content in zip(paths, (*pictures.values(), words.encode()), strict=True):
        path.write_bytes(content)
    return words, paths


def _paths(results: Path, source: Path, out: str | os.PathLike[str] | None) -> list[Path]:
    """Name the files to write, none of which may be one that is read."""
    prefix = results.with_suffix("") if out is None else Path(out)
    if out is not None and (prefix.is_dir() or os.fspath(out).endswith(("/", os.sep))):
        prefix = prefix / results.stem
    elif prefix.suffix.lower() in ENDINGS:
        prefix = prefix.with_suffix("")
    if not prefix.parent.is_dir():
        message = f"--out: there is no folder {prefix.parent}; make it first"
        raise ConfigError(message)
    paths = [prefix.with_name(prefix.name + ending) for ending in ENDINGS]
    for path in paths:
        if path.resolve() in (results.resolve(), source.resolve()):
            message = f"the report would be written over {path}; choose another name with --out"
            raise ConfigError(message)
    return paths
