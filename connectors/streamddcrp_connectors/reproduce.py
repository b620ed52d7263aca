"""The command ``streamddcrp reproduce``: the experiments of the papers, an experiment a module."""

import click

from .experiments.ddcrp_language import ddcrp_language

__all__ = ["reproduce"]


@click.group()
def reproduce() -> None:
    """Repeat an experiment of the papers: its tables beside what was published, and its figures."""


reproduce.add_command(ddcrp_language)
