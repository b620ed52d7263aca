"""What commands share: options about a source, and how a command refuses."""

import sys
from collections.abc import Callable
from typing import Any

import click

from streamddcrp.errors import StreamDDCRPError

REFUSED, INTERRUPTED = 2, 130


class Command(click.Command):
    """A command that says in one line why it refuses, and ends with status 2."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (StreamDDCRPError, OSError) as error:
            click.echo(f"streamddcrp: {error}", err=True)
            sys.exit(REFUSED)


class _Names(click.ParamType):  # type: ignore[type-arg]
    """Names with commas between them."""

    name = "names"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        return value if isinstance(value, tuple) else tuple(map(str.strip, value.split(",")))


def options(*given: Any) -> Callable[[Any], Any]:
    """Return a decorator that adds options to a command."""

    def add(command: Any) -> Any:
        for option in reversed(given):
            command = option(command)
        return command

    return add


def _known_source(_ctx: Any, _option: Any, name: str | None) -> str | None:
    from streamddcrp_connectors.run.plugins import SOURCES, installed, is_installed  # noqa: PLC0415 -- heavy: not for --help

    if name is not None and not is_installed(SOURCES, name):
        raise click.BadParameter(f"must be one of {', '.join(installed(SOURCES))}, got {name!r}")
    return name


# How a source is written.
written = options(
    click.option("--sep", metavar="CHAR", help="Between cells: , ; | tab or blanks."),
    click.option("--decimal", metavar="CHAR", help="Before decimals: . or ,"),
    click.option(
        "--missing",
        metavar="A,B",
        help="Marks of missing values beside the usual ones (NA, ?, -, ...), as in -999,off.",
    ),
    click.option(
        "--missing-columns",
        type=click.Choice(["refuse", "null"]),
        default="refuse",
        show_default=True,
        help="What to do with a JSON object that lacks a column.",
    ),
    click.option(
        "--header/--no-header", default=None, help="Whether the first line names the columns."
    ),
    click.option("--encoding", metavar="NAME", help="Of the text, such as latin-1."),
    click.option("--skip", type=click.IntRange(0), metavar="N", help="Lines to leave out."),
    click.option("--time-format", metavar="FORMAT", help="Of the times, as in %d/%m/%Y %H:%M."),
    click.option(
        "--time-unit",
        metavar="UNIT",
        help="Of times that are numbers since 1970: s, ms, us, ns; excel for days of a "
        "spreadsheet; none for numbers as they are.",
    ),
    click.option("--time-zone", metavar="NAME", help="Where the clock stood, as in Europe/Madrid."),
    click.option(
        "--day-first/--month-first", default=None, help="Whether 1/2/2024 is in February."
    ),
)

# What is read of a source.
chosen = options(
    click.option(
        "--time",
        metavar="COL",
        help="Column of times: numbers or time stamps; or date,time [default, where no "
        "features are named: a column of times in whose order the rows are].",
    ),
    click.option(
        "--by", "--key", "key", metavar="COL", help="Column of keys: each key gets its own model."
    ),
    click.option(
        "--features",
        metavar="A,B,C",
        type=_Names(),
        help="Columns to cluster by [default: all of numbers].",
    ),
    click.option(
        "--text",
        metavar="COL",
        help="Column of texts, for text, temporal-dpm and nested-topics. They are taken as "
        "English; stop_words = 'auto' in the file of --model recognises other languages.",
    ),
    click.option(
        "--format",
        metavar="NAME",
        callback=_known_source,
        help="Format of the source: csv, jsonl, lines, parquet, arrow, or another installed "
        "source [default: by the scheme before ://, the ending of the name, or first bytes].",
    ),
)

# The same of a source whose results are shown.
shown = options(
    click.option("--time", metavar="COL", help="Column of the time in DATA, as given to run."),
    click.option(
        "--by", "--key", "key", metavar="COL", help="Column of the key in DATA, as given to run."
    ),
    click.option(
        "--features", metavar="A,B,C", type=_Names(), help="Columns to show [default: all others]."
    ),
    click.option("--text", metavar="COL", help="Column of the texts in DATA, as given to run."),
)

# The same of rows that others send.
sent = options(
    click.option("--time", metavar="COL", help="Column of the time."),
    click.option(
        "--by", "--key", "key", metavar="COL", help="Column of the key: a model for each."
    ),
    click.option("--features", metavar="A,B,C", type=_Names(), help="Columns to cluster by."),
    click.option("--text", metavar="COL", help="Column of texts, instead of features."),
)
