"""The command ``streamddcrp bench``: the repository's benchmarks, run from its folder."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import click

REFUSED = 2


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[NAME] [OPTIONS]")
def bench(arguments: tuple[str, ...]) -> None:
    """Measure the library against its peers.

    NAME is one benchmark; without it all are run. `streamddcrp bench --help` lists the names.

    The benchmarks are a part of the repository, not of the installed package: run this in the root
    of a clone.
    """
    missing = None
    if not Path("benchmarks", "engine.py").is_file():
        missing = (
            f"the benchmarks are not in {Path.cwd()}: they come with the repository, not with the "
            "installed package; clone it and run this (or `make bench`) in its root"
        )
    elif importlib.util.find_spec("sklearn") is None:
        missing = "the benchmarks need scikit-learn: pip install --group test"
    if missing:
        click.echo(f"streamddcrp: {missing}", err=True)
        sys.exit(REFUSED)
    sys.exit(subprocess.call([sys.executable, "-m", "benchmarks", *arguments]))
