"""Models by key on Apache Spark, with the states and results of `streamddcrp.Keyed`.

::

    canonical rows --pack--> (key, rows as Arrow) --shuffle--> a visit of each key --unpack--> rows

* `streamddcrp_connectors.spark.frames`: `keyed`, for data frames, and what Spark calls.
* `streamddcrp_connectors.spark.visits`: the work of a visit, independent of Spark.
* `streamddcrp_connectors.spark.job`: the command ``streamddcrp submit``.
"""

from importlib import import_module
from typing import Any

from streamddcrp.errors import MissingExtraError

__all__ = ["SETTINGS", "keyed"]


def __getattr__(name: str) -> Any:
    """Import a name that needs pyspark on demand, or say how to install that."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(needing_spark("frames"), name)


def needing_spark(module: str) -> Any:
    """Import a module of this package that needs pyspark, or say how to install that."""
    try:
        return import_module(f"{__name__}.{module}")
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"Spark needs the package {error.name}: pip install 'streamddcrp[spark]', and Java 17 "
            "or 21 on every machine (java -version; on Debian: apt-get install "
            "openjdk-17-jre-headless)"
        ) from error
