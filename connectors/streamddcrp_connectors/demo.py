"""The command ``streamddcrp demo``: from a series to a picture of its regimes, in one go."""

import shlex
import shutil
import sys
from importlib import resources
from pathlib import Path
from time import sleep
from typing import Any

import click

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.options import INTERRUPTED, Command
from streamddcrp_connectors.request import Request

TIME = "Time"
ROWS, PAUSE = 2, 0.1  # of a live demo: rows at a time, and seconds between them


@click.command(cls=Command)
@click.option(
    "--out", default="demo", show_default=True, metavar="DIR", help="Folder for the files."
)
@click.option(
    "--live",
    is_flag=False,
    flag_value="127.0.0.1:8765",
    metavar="[HOST:PORT]",
    help="Play the series in a minute, on a live page [default address: 127.0.0.1:8765].",
)
def demo(out: str, live: str | None) -> None:
    """Run on a real series, and draw what is found.

    The series is two months of water flow in a pipeline. It comes with river; nothing is
    downloaded. The demo prints the two commands that it runs, so that you can type them, too.
    """
    sys.exit(_demo(Path(out)) if live is None else _play(Path(out), live))


def _demo(folder: Path) -> int:
    from streamddcrp.plots.figures import matplotlib  # noqa: PLC0415
    from streamddcrp_connectors.report.report import make_report  # noqa: PLC0415
    from streamddcrp_connectors.run.command import execute  # noqa: PLC0415 -- heavy: not for --help

    matplotlib("figure")  # report a missing module before the work, not after
    data = _series(folder)
    results = folder / "water-flow.parquet"
    click.echo(
        f"{data}: hourly water flow in a pipeline, March to May 2022 (it comes with river).\n"
        "Nothing about it is given in advance: which regimes there are, such as normal flow and\n"
        "interruptions, is learned row by row. The commands, which you can also type:\n"
    )
    _show("run", str(data), "--time", TIME, "--sink", str(results), "--overwrite")
    request = Request(str(data), time=TIME, sink=str(results), progress=False, overwrite=True)
    code = execute(request)
    if code:
        return code
    _show("report", str(results), "--source", str(data), "--time", TIME)
    words, paths = make_report(results, data, time=TIME)
    click.echo(f"\n{words}")
    click.echo(f"Picture: {paths[0]} (and .svg). These words: {paths[2]}.")
    click.echo(f"To read in a browser, with tables: {paths[3]}")
    click.echo(
        "Your own file: streamddcrp run FILE.csv --sink found.parquet, then\n"
        "streamddcrp report found.parquet --source FILE.csv"
    )
    return 0


class _Pace:
    """Let a run pause after each batch."""

    def epoch(self, _: Any) -> None:
        sleep(PAUSE)

    def wait(self) -> None:
        click.echo("That was all; the page stays until Ctrl-C.")


def _play(folder: Path, at: str) -> int:
    """Show the series on a live page, some rows at a time."""
    from streamddcrp_connectors.page.observer import opened  # noqa: PLC0415
    from streamddcrp_connectors.run.command import execute  # noqa: PLC0415

    data = _series(folder)
    click.echo(f"{data}: water flow in a pipeline, two months in a minute; end with Ctrl-C")
    results = str(folder / "water-flow.jsonl")
    request = Request(
        str(data), time=TIME, sink=results, batch_rows=ROWS, progress=False, overwrite=True
    )
    with opened(at, None) as page:
        code = execute(request, [_Pace(), page])
    return 0 if code == INTERRUPTED else code


def _series(folder: Path) -> Path:
    """Write the series to the folder, which is created if missing."""
    origin = resources.files("river") / "datasets" / "water-flow.csv"
    if not origin.is_file():
        message = "this installation of river has no datasets/water-flow.csv; reinstall river"
        raise ConfigError(message)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise ConfigError(f"--out must name a folder, but {folder} is a file") from error
    target = folder / "water-flow.csv"
    with origin.open("rb") as read, target.open("wb") as write:
        shutil.copyfileobj(read, write)
    return target


def _show(*words: str) -> None:
    click.echo(f"$ streamddcrp {shlex.join(words)}")
