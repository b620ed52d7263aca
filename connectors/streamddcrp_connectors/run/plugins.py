"""Sources, sinks and models by name: ours, and those of other installed packages.

A package adds one by an entry point of its own ``pyproject.toml``, in the group
``streamddcrp.sources``, ``streamddcrp.sinks`` or ``streamddcrp.models``::

    [project.entry-points."streamddcrp.sources"]
    sine = "my_package.sine:SineSource"

What needs packages that are installed only with an extra names that after the object, as in
``"streamddcrp_connectors.live.redis_streams:RedisSource [redis]"``.

The pages ``docs/how-to-add-a-source.md`` and ``docs/how-to-add-a-model.md`` say what the object has
to be. Ours, in the ``pyproject.toml`` of this package, cannot be replaced.
"""

from functools import cache
from importlib.metadata import EntryPoint, distribution, entry_points
from typing import Any

from streamddcrp.errors import ConfigError

SOURCES, SINKS, MODELS = "streamddcrp.sources", "streamddcrp.sinks", "streamddcrp.models"


def installed(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, ours first: reads all packages' metadata."""
    return ours(group) | {point.name: point for point in entry_points(group=group)} | ours(group)


def is_installed(group: str, name: str) -> bool:
    """Whether a group has an entry point of that name."""
    return name in ours(group) or name in installed(group)


@cache
def ours(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group that this package has, as its metadata list them."""
    points = distribution("streamddcrp").entry_points.select(group=group)
    return {point.name: point for point in points}


def find(group: str, name: str) -> Any:
    """Import what a name stands for; ConfigError if it is not installed, or cannot be imported."""
    points = ours(group) if name in ours(group) else installed(group)
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
