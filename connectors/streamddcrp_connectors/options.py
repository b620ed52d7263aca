"""Shared by commands: options about a source, and the form of refusals."""

import csv
import io
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import click

from streamddcrp.errors import StreamDDCRPError

REFUSED, INTERRUPTED = 2, 130


def names_in(text: str) -> tuple[str, ...]:
    """Return the names of a comma-separated list; a name with a comma is quoted."""
    return tuple(name.strip() for name in next(csv.reader([text], skipinitialspace=True)) or [""])


def names_out(names: Sequence[str]) -> str:
    """Write a list that `names_in` reads."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(names)
    return text.getvalue()


def in_json(when: float, level: str, message: str) -> str:
    """Return a line of the log as a JSON object; ``when`` in seconds since 1970."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(when))
    return json.dumps({"time": stamp, "level": level, "message": message})


def say(line: str, form: str = "text", level: str = "INFO") -> None:
    """Print a line on standard error, for ``--log-format json`` as an object."""
    if form == "json":
        click.echo(in_json(time.time(), level, line), err=True)
    else:
        click.echo(f"streamddcrp: {line}", err=True)


class _NoPandas:
    """A finder of modules by which there is no pandas."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


def import_arrow() -> None:
    """Import pyarrow, in a new process without pandas, which takes a quarter of a start.

    pyarrow imports it at its first list, to see whether that is a series; and again when a frame
    is wanted.
    """
    if "pyarrow" in sys.modules or "pandas" in sys.modules:
        return
    finder: Any = _NoPandas
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa  # noqa: PLC0415 -- heavy: not for --help

        pa.array([])
    finally:
        sys.meta_path.remove(finder)


class Command(click.Command):
    """A command that refuses with a one-line reason and exit status 2."""

    def invoke(self, ctx: click.Context) -> Any:
        import_arrow()
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # who read our output has gone: nothing is wrong here
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(0)
        except (StreamDDCRPError, OSError) as error:
            click.echo(f"streamddcrp: {error}", err=True)
            sys.exit(REFUSED)


class Names(click.ParamType):  # type: ignore[type-arg]
    """Comma-separated names."""

    name = "names"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, ...]:
        return value if isinstance(value, tuple) else names_in(value)


def options(*given: Any) -> Callable[[Any], Any]:
    """Return a decorator that adds options to a command."""

    def add(command: Any) -> Any:
        for option in reversed(given):
            command = option(command)
        return command

    return add


def _columns(time: str, key: str, features: str, text: str) -> Callable[[Any], Any]:
    """Return the options that name the columns of rows, by their help."""
    return options(
        click.option("--time", metavar="COL", help=time),
        click.option("--by", "--key", "key", metavar="COL", help=key),
        click.option("--features", metavar="A,B,C", type=Names(), help=features),
        click.option("--text", metavar="COL", help=text),
    )


# For a source whose results are shown, and for rows that others send.
shown = _columns(
    "Column of the time in DATA, as given to run.",
    "Column of the key in DATA, as given to run.",
    "Columns to show [default: all others].",
    "Column of the texts in DATA, as given to run.",
)
sent = _columns(
    "Column of the time.",
    "Column of the key: a model for each.",
    "Columns to cluster by.",
    "Column of texts, instead of features.",
)
