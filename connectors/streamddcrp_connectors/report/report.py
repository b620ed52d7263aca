"""The command ``streamddcrp report``: results as a picture and in words."""

import os
from pathlib import Path
from typing import Any

import click

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.options import Command, shown

Made = tuple[str, list[bytes]]  # words, and the content of each file

ENDINGS = (".png", ".svg", ".txt", ".html")


@click.command(cls=Command)
@click.argument("results")
@click.option("--source", required=True, metavar="DATA", help="The data of the run.")
@shown
@click.option("--only", metavar="KEY", help="The key to report [default: all, side by side].")
@click.option("--season", metavar="PERIODS", help="Cycles subtracted, as given to run.")
@click.option("--events", metavar="FILE", help="For texts: what run --events wrote.")
@click.option(
    "--checkpoint",
    metavar="DIR",
    help="Folder given to run --checkpoint: regimes then have the names given on the live page.",
)
@click.option(
    "--out",
    metavar="DIR|PREFIX",
    help="Where the .png, .svg, .txt and .html files go: a folder, or a name without the ending "
    "[default: beside RESULTS].",
)
def report(results: str, source: str, **options: Any) -> None:
    """Show what a run found: a picture, a page, and a summary.

    RESULTS is a file that `streamddcrp run` wrote. The picture shows each column coloured by
    regime, the surprise of each row, and when each regime was first seen, came back and was last
    seen. The page (.html) has the same picture, linked to tables. The summary (.txt) goes to
    standard output, too.

    For several keys without --only, it lists those that differ from their past and those that share
    a new regime.

    For texts (--text) the picture shows the stories over time, and the page lists the words and
    typical texts of each.
    """
    words, paths = make_report(results, source, **options)
    click.echo(words, nl=False)
    click.echo(f"-> {', '.join(map(str, paths))}", err=True)


def make_report(
    results: str | os.PathLike[str],
    source: str | os.PathLike[str],
    *,
    only: str | None = None,
    season: str | None = None,
    events: str | os.PathLike[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    out: str | os.PathLike[str] | None = None,
    **named: Any,
) -> tuple[str, list[Path]]:
    """Write picture and words by the command's options; return the words and the paths.

    ``named`` holds the column options: time, key, features or text. If the files or options do not
    match, nothing is written: ConfigError, SchemaError.
    """
    from streamddcrp.plots.figures import matplotlib  # noqa: PLC0415
    from streamddcrp_connectors.report.words import jinja  # noqa: PLC0415
    from streamddcrp_connectors.run.columns import Columns  # noqa: PLC0415 -- heavy: not for --help

    matplotlib("figure")
    jinja()
    columns = Columns.of(**named)
    paths = _paths(Path(results), Path(source), out)
    if columns.text and season is not None:
        raise ConfigError("--season and --text exclude each other: texts have no seasons")
    if not columns.text:
        if events is not None:
            raise ConfigError("--events belongs to a report of texts: give --text, or leave it out")
        words, files = _of_numbers(results, source, columns, only, season, checkpoint)
    else:
        words, files = _of_texts(results, source, columns, only, events)
    for path, content in zip(paths, files, strict=True):
        path.write_bytes(content)
    return words, paths


def _of_numbers(
    results: Any, source: Any, columns: Any, only: str | None, season: str | None, folder: Any
) -> Made:
    from streamddcrp.plots.findings import find  # noqa: PLC0415
    from streamddcrp.plots.timeline import render  # noqa: PLC0415
    from streamddcrp_connectors.report.fleet import report_of_fleet  # noqa: PLC0415
    from streamddcrp_connectors.report.page import page_of_regimes  # noqa: PLC0415
    from streamddcrp_connectors.report.results import read_fleet, read_labelled  # noqa: PLC0415
    from streamddcrp_connectors.report.words import in_words  # noqa: PLC0415
    from streamddcrp_connectors.run.names import Names  # noqa: PLC0415

    names = None if folder is None else Names(Path(folder))
    if only is None and season is None and columns.key is not None:
        fleet = read_fleet(results, source, columns, names)
        if len(fleet) > 1:
            return report_of_fleet(Path(source).name, fleet)
    findings = find(read_labelled(results, source, columns, only, season, names))
    pictures = render(findings)
    words, page = in_words(findings), page_of_regimes(findings)
    return words, [*pictures.values(), words.encode(), page.encode()]


def _of_texts(results: Any, source: Any, columns: Any, only: str | None, events: Any) -> Made:
    from streamddcrp_connectors.report.page import page_of_stories  # noqa: PLC0415
    from streamddcrp_connectors.report.results import read_labelled_texts  # noqa: PLC0415
    from streamddcrp_connectors.report.stories import (  # noqa: PLC0415
        draw_stories,
        find_stories,
        find_themes,
        lines_of,
        survivors,
    )

    labelled = read_labelled_texts(results, source, columns, only, events)
    parts, surprise = find_stories(labelled, labelled.labels)
    stories = find_stories(labelled, survivors(labelled))[0] if labelled.events else parts
    pictures = draw_stories(labelled, parts)
    words = lines_of(labelled, stories)
    themes = find_themes(labelled, survivors(labelled), stories)
    page = page_of_stories(labelled, stories, parts, themes, surprise, pictures["svg"])
    return words, [*pictures.values(), words.encode(), page.encode()]


def _paths(results: Path, source: Path, out: str | os.PathLike[str] | None) -> list[Path]:
    """Name the output files, none of which may be an input."""
    prefix = results.with_suffix("") if out is None else Path(out)
    if out is not None and (prefix.is_dir() or os.fspath(out).endswith(("/", os.sep))):
        prefix = prefix / results.stem
    elif prefix.suffix.lower() in ENDINGS:
        prefix = prefix.with_suffix("")
    if not prefix.parent.is_dir():
        raise ConfigError(f"--out: there is no folder {prefix.parent}; make it first")
    paths = [prefix.with_name(prefix.name + ending) for ending in ENDINGS]
    for path in paths:
        if path.resolve() in (results.resolve(), source.resolve()):
            message = f"the report would be written over {path}; choose another name with --out"
            raise ConfigError(message)
    return paths
