"""The command ``streamddcrp reproduce``: the experiments of the papers, an experiment a module."""

import click

from .experiments.ddcrp_language import ddcrp_language
from .experiments.graph import graph_images
from .experiments.graph_clustering import graph_clustering
from .experiments.ncrp import ncrp_digits, ncrp_topics
from .experiments.seqddcrp import seqddcrp_gaussians, seqddcrp_regimes

__all__ = ["reproduce"]


@click.group()
def reproduce() -> None:
    """Repeat an experiment of the papers: its tables beside what was published, and its figures."""


for _experiment in (
    ddcrp_language,
    graph_clustering,
    graph_images,
    ncrp_digits,
    ncrp_topics,
    seqddcrp_gaussians,
    seqddcrp_regimes,
):
    reproduce.add_command(_experiment)
