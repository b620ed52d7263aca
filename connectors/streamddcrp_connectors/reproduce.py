"""The command ``streamddcrp reproduce``: the papers' experiments, which come with a clone."""

import os
import subprocess
import sys
from pathlib import Path

import click

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.options import Command

_OWN_CLONE = Path(__file__).resolve().parents[2]  # set in an editable installation


@click.command(
    cls=Command,
    hidden=True,  # of use in a clone only; docs/papers.md describes it
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[NAME] [OPTIONS]")
def reproduce(arguments: tuple[str, ...]) -> None:
    """Repeat the experiments of the papers, in a clone of the repository.

    `streamddcrp reproduce --help` lists them. They are not in the installed package: run this in
    the root of a clone, or install one by `pip install --editable`.
    """
    for clone in (Path.cwd(), _OWN_CLONE):
        if (clone / "research" / "reproduce.py").is_file():
            paths = [str(clone), *filter(None, [os.environ.get("PYTHONPATH")])]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
            command = [sys.executable, "-m", "research.reproduce", *arguments]
            sys.exit(subprocess.call(command, env=environment))
    raise ConfigError(
        f"the experiments are not in {Path.cwd()}: they come with the repository, not with the "
        "installed package; clone it and run this in its root"
    )
