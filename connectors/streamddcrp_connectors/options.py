"""Options that several commands have: what is read of a source, and how it is written."""

import csv
import io
from collections.abc import Sequence
from typing import Any

import click


def names_in(text: str) -> tuple[str, ...]:
    """Return the names in a list with commas; one with a comma of its own stands in quotes."""
    return tuple(name.strip() for name in next(csv.reader([text], skipinitialspace=True)) or [""])


def names_out(names: Sequence[str]) -> str:
    """Write what `names_in` reads."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(names)
    return text.getvalue()


def _known_source(name: str | None) -> str | None:
    from streamddcrp_connectors.run.plugins import SOURCES, installed, is_installed  # noqa: PLC0415 -- as below

    if name is not None and not is_installed(SOURCES, name):
        message = f"must be one of {', '.join(installed(SOURCES))}, got {name!r}"
        raise click.BadParameter(message)
    return name


def written(command: Any) -> Any:
    """Add the options that say how a source is written."""
    options = [
        click.option("--sep", metavar="CHAR", help="Between cells: , ; | tab or blanks."),
        click.option("--decimal", metavar="CHAR", help="Before decimals: . or ,"),
        click.option(
            "--missing", metavar="A,B",
            help="Marks of missing values beside the usual ones (NA, ?, -, ...), as in -999,off.",
        ),
        click.option(
            "--missing-columns", type=click.Choice(["refuse", "null"]), default="refuse",
            show_default=True, help="What to do with a JSON object that lacks a column.",
        ),
        click.option(
            "--header/--no-header", default=None, help="Whether the first line names the columns."
        ),
        click.option("--encoding", metavar="NAME", help="Of the text, such as latin-1."),
        click.option("--skip", type=click.IntRange(0), metavar="N", help="Lines to leave out."),
        click.option("--time-format", metavar="FORMAT", help="Of the times, as in %d/%m/%Y %H:%M."),
        click.option(
            "--time-unit", metavar="UNIT",
            help="Of times that are numbers since 1970: s, ms, us, ns; excel for days of a "
            "spreadsheet; none for numbers as they are.",
        ),
        click.option(
            "--time-zone", metavar="NAME", help="Where the clock stood, as in Europe/Madrid."
        ),
        click.option(
            "--day-first/--month-first", default=None, help="Whether 1/2/2024 is in February."
        ),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


def chosen(command: Any) -> Any:
    """Add the options that say what is read of a source."""
    options = [
        click.option(
            "--time",
            metavar="COL",
            help="Column of times: numbers or time stamps; or date,time [default, where no "
            "features are named: a column of times in whose order the rows are].",
        ),
        click.option(
            "--by",
            "--key",
            "key",
            metavar="COL",
            help="Column of keys: each key gets its own model.",
        ),
        click.option(
            "--features", metavar="A,B,C", help="Columns to cluster by [default: all of numbers]."
        ),
        click.option(
            "--text",
            metavar="COL",
            help="Column of texts, for text, temporal-dpm and nested-topics. They are taken as "
            "English; stop_words = 'auto' in the file of --model recognises other languages.",
        ),
        click.option(
            "--format",
            "format_",
            metavar="NAME",
            callback=lambda _ctx, _option, name: _known_source(name),
            help="Format of the source: csv, jsonl, lines, parquet, arrow, or another installed "
            "source [default: by the scheme before ://, the ending of the name, or first bytes].",
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command
