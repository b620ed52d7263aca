"""The command ``streamddcrp reproduce``: the experiments of the papers, an experiment a module."""

import click

from streamddcrp_connectors.experiments.ddcrp_language import ddcrp_language
from streamddcrp_connectors.experiments.graph import graph_images
from streamddcrp_connectors.experiments.graph_clustering import graph_clustering
from streamddcrp_connectors.experiments.ncrp import ncrp_digits, ncrp_topics
from streamddcrp_connectors.experiments.seqddcrp import seqddcrp_gaussians, seqddcrp_regimes

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
