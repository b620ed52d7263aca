"""Sources, sinks and models by name: ours, and those of other installed packages.

A package adds one by an entry point of its own ``pyproject.toml``, in the group
``streamddcrp.sources``, ``streamddcrp.sinks`` or ``streamddcrp.models``::

    [project.entry-points."streamddcrp.sources"]
    sine = "my_package.sine:SineSource"

The pages ``docs/how-to-add-a-source.md`` and ``docs/how-to-add-a-model.md`` say what the object has
to be. Ours cannot be replaced, and are found even where the installed metadata lack them.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from streamddcrp.errors import ConfigError

__all__ = ["MODELS", "SINKS", "SOURCES", "find", "installed"]

SOURCES, SINKS, MODELS = "streamddcrp.sources", "streamddcrp.sinks", "streamddcrp.models"
_RUN = "streamddcrp_connectors.run"
_OURS = {
    SOURCES: {
        "csv": f"{_RUN}.sources:open_csv",
        "jsonl": f"{_RUN}.sources:open_jsonl",
        "parquet": f"{_RUN}.sources:ParquetSource",
        "arrow": f"{_RUN}.sources:ArrowSource",
        "folder": f"{_RUN}.folder:FolderSource",
    },
    SINKS: {
        "jsonl": f"{_RUN}.sinks:open_jsonl",
        "parquet": f"{_RUN}.sinks:open_parquet",
        "arrow": f"{_RUN}.sinks:open_arrow",
    },
    MODELS: {
        "seqddcrp": "streamddcrp:SeqDDCRP",
        "ddcrp": "streamddcrp:DDCRPSampler",
        "text": "streamddcrp:TextStream",
        "embeddings": "streamddcrp:EmbeddingStream",
        "temporal-dpm": "streamddcrp:TemporalDPM",
        "graph-crp": "streamddcrp:GraphCRP",
        "tv-ibp": "streamddcrp:TimeVaryingIBP",
        "nested-topics": "streamddcrp:NestedCRPTopics",
        "nested-components": "streamddcrp:NestedCRPComponents",
    },
}


def installed(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, ours first."""
    ours = {name: EntryPoint(name, value, group) for name, value in _OURS[group].items()}
    return ours | {point.name: point for point in entry_points(group=group)} | ours


def find(group: str, name: str) -> Any:
    """Import what a name stands for.

    Raises
    ------
    ConfigError
        Nothing of that name is installed, or it cannot be imported.
    """
    points = installed(group)
    what = group.rpartition(".")[2].removesuffix("s")
    if name not in points:
        message = f"there is no {what} {name!r}; installed are {', '.join(points)}"
        raise ConfigError(message)
    try:
        return points[name].load()
    except (ImportError, AttributeError) as error:
        message = f"the {what} {name!r} cannot be imported from {points[name].value}: {error}"
        raise ConfigError(message) from error
