"""The command ``streamddcrp demo``: from a series to a picture of its regimes, in one go."""

import shlex
import shutil
import sys
from importlib import resources
from pathlib import Path

import click

from streamddcrp.errors import ConfigError, StreamDDCRPError

__all__ = ["demo"]

REFUSED = 2
TIME = "Time"


@click.command()
@click.option(
    "--out", default="demo", show_default=True, metavar="DIR", help="Folder for the files."
)
def demo(out: str) -> None:
    """Run on a real series and draw what is found: two months of water flow in a pipeline.

    It does what the two commands it prints do. The series comes with river; nothing is downloaded.
    """
    try:
        code = _demo(Path(out))
    except (StreamDDCRPError, OSError) as error:
        click.echo(f"streamddcrp: {error}", err=True)
        code = REFUSED
    sys.exit(code)


def _demo(folder: Path) -> int:
    from streamddcrp_connectors.report.picture import matplotlib  # noqa: PLC0415
    from streamddcrp_connectors.report.report import make_report  # noqa: PLC0415
    from streamddcrp_connectors.run.command import Request, execute  # noqa: PLC0415 -- heavy: not for --help

    matplotlib("figure")  # what is missing is better said before the work than after it
    data = _series(folder)
    results = folder / "water-flow.parquet"
    click.echo(f"{data}: water flow in a pipeline, hourly, March to May 2022 (from river)\n")
    _show("run", str(data), "--time", TIME, "--sink", str(results))
    code = execute(Request(str(data), time=TIME, sink=str(results), progress=False))
    if code:
        return code
    _show("report", str(results), "--source", str(data), "--time", TIME)
    words, paths = make_report(results, data, time=TIME)
    click.echo(f"\n{words}")
    click.echo(f"The picture: {paths[0]} and {paths[1]}; these words: {paths[2]}")
    return 0


def _series(folder: Path) -> Path:
    """Put the series into the folder, making it if need be."""
    origin = resources.files("river") / "datasets" / "water-flow.csv"
    if not origin.is_file():
        message = "this installation of river has no datasets/water-flow.csv; reinstall river"
        raise ConfigError(message)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        message = f"--out must name a folder, but {folder} is a file"
        raise ConfigError(message) from error
    target = folder / "water-flow.csv"
    with origin.open("rb") as read, target.open("wb") as write:
        shutil.copyfileobj(read, write)
    return target


def _show(*words: str) -> None:
    click.echo(f"$ streamddcrp {shlex.join(words)}")
