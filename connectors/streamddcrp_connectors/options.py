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


class Names(click.ParamType):  # type: ignore[type-arg]
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


# What was read of a source whose results are shown.
shown = options(
    click.option("--time", metavar="COL", help="Column of the time in DATA, as given to run."),
    click.option(
        "--by", "--key", "key", metavar="COL", help="Column of the key in DATA, as given to run."
    ),
    click.option(
        "--features", metavar="A,B,C", type=Names(), help="Columns to show [default: all others]."
    ),
    click.option("--text", metavar="COL", help="Column of the texts in DATA, as given to run."),
)

# The same of rows that others send.
sent = options(
    click.option("--time", metavar="COL", help="Column of the time."),
    click.option(
        "--by", "--key", "key", metavar="COL", help="Column of the key: a model for each."
    ),
    click.option("--features", metavar="A,B,C", type=Names(), help="Columns to cluster by."),
    click.option("--text", metavar="COL", help="Column of texts, instead of features."),
)
