"""Sources, sinks and models by name: ours, and those of other installed packages.

A package adds one by an entry point of its own ``pyproject.toml``, in the group
``streamddcrp.sources``, ``streamddcrp.sinks`` or ``streamddcrp.models``::

    [project.entry-points."streamddcrp.sources"]
    sine = "my_package.sine:SineSource"

What needs packages that are installed only with an extra names that after the object, as in
``"streamddcrp_connectors.live.redis_streams:RedisSource [redis]"``.

The pages ``docs/how-to-add-a-source.md`` and ``docs/how-to-add-a-model.md`` say what the object has
to be. Ours cannot be replaced, and are found even where the installed metadata lack them.
"""

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from streamddcrp.errors import ConfigError

__all__ = ["MODELS", "SINKS", "SOURCES", "find", "installed", "is_installed"]

SOURCES, SINKS, MODELS = "streamddcrp.sources", "streamddcrp.sinks", "streamddcrp.models"
_RUN, _LIVE = "streamddcrp_connectors.run", "streamddcrp_connectors.live"
_OURS = {
    SOURCES: {
        "csv": f"{_RUN}.sources:open_csv",
        "jsonl": f"{_RUN}.sources:open_jsonl",
        "lines": f"{_RUN}.sources:open_lines",
        "parquet": f"{_RUN}.sources:ParquetSource",
        "arrow": f"{_RUN}.sources:ArrowSource",
        "folder": f"{_RUN}.folder:FolderSource",
        "files": f"{_RUN}.files:FilesSource",
        "s3": f"{_RUN}.files:FilesSource",
        "https": f"{_RUN}.files:FilesSource",
        "http": f"{_RUN}.files:FilesSource",
        "nats": f"{_LIVE}.nats_streams:NatsSource [nats]",
        "redis": f"{_LIVE}.redis_streams:RedisSource [redis]",
        "rediss": f"{_LIVE}.redis_streams:RedisSource [redis]",
        "http-push": f"{_LIVE}.httppush:HttpPushSource",
        "mqtt": f"{_LIVE}.mqtt:MqttSource [mqtt]",
        "postgresql": f"{_LIVE}.postgres:PostgresSource [postgres]",
        "kafka": f"{_LIVE}.kafka:KafkaSource [kafka]",
        "flight": f"{_LIVE}.flight:FlightSource",
        "delta": f"{_LIVE}.delta:DeltaSource [delta]",
    },
    SINKS: {
        "jsonl": f"{_RUN}.sinks:JsonLinesSink",
        "parquet": f"{_RUN}.sinks:open_parquet",
        "arrow": f"{_RUN}.sinks:open_arrow",
        "dataset": f"{_RUN}.dataset:DatasetSink",
        "http": f"{_LIVE}.pagers:open_sink",
        "https": f"{_LIVE}.pagers:open_sink",
        "smtp": f"{_LIVE}.pagers:open_sink",
        "nats": f"{_LIVE}.nats_streams:NatsSink [nats]",
        "redis": f"{_LIVE}.redis_streams:RedisSink [redis]",
        "rediss": f"{_LIVE}.redis_streams:RedisSink [redis]",
        "postgresql": f"{_LIVE}.postgres:PostgresSink [postgres]",
        "kafka": f"{_LIVE}.kafka:KafkaSink [kafka]",
        "flight": f"{_LIVE}.flight:FlightSink",
        "delta": f"{_LIVE}.delta:DeltaSink [delta]",
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
    """Return the entry points of a group by name, ours first: reads all packages' metadata."""
    ours = _ours(group)
    return ours | {point.name: point for point in entry_points(group=group)} | ours


def is_installed(group: str, name: str) -> bool:
    """Whether a group has an entry point of that name."""
    return name in _OURS[group] or name in installed(group)


def _ours(group: str) -> dict[str, EntryPoint]:
    return {name: EntryPoint(name, value, group) for name, value in _OURS[group].items()}


def find(group: str, name: str) -> Any:
    """Import what a name stands for; ConfigError if it is not installed, or cannot be imported."""
    points = _ours(group) if name in _OURS[group] else installed(group)
    what = group.rpartition(".")[2].removesuffix("s")
    if name not in points:
        raise ConfigError(f"there is no {what} {name!r}; installed are {', '.join(points)}")
    try:
        return points[name].load()
    except (ImportError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and points[name].extras:
            extra = f"streamddcrp[{','.join(points[name].extras)}]"
            raise ConfigError(
                f"the {what} {name!r} needs the package {error.name}, which is not installed: "
                f"pip install {extra!r}"
            ) from error
        message = f"the {what} {name!r} cannot be imported from {points[name].value}: {error}"
        raise ConfigError(message) from error
