"""The work of ``streamddcrp submit``: a run's TOML as a Spark query."""

import json
import os
import shutil
import sys
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from streamddcrp.errors import ConfigError, SchemaError, StreamDDCRPError
from streamddcrp_connectors.request import Request
from streamddcrp_connectors.run.command import opened_as, recipe_and_columns
from streamddcrp_connectors.spark.frames import SETTINGS, visited
from streamddcrp_connectors.spark.source import RunSource, batches_after

_STARTS = 20
_LOOPBACK = {  # a driver on this machine listens on it only
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}


def session(master: str | None, settings: Iterable[str]) -> SparkSession:
    """Start Spark; ConfigError if Java is missing or a setting is not NAME=VALUE."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java") is None and not (home and os.path.exists(f"{home}/bin/java")):
        raise ConfigError(
            "Spark needs Java 17 or 21, and there is no java on the path: install it (on Debian: "
            "apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else executors take another Python
    builder = SparkSession.builder.appName("streamddcrp")
    if master is not None:
        builder = builder.master(master)
    here = master is None or master.startswith("local") or "127.0.0.1" in master
    chosen = SETTINGS | {"spark.ui.showConsoleProgress": "false"} | (_LOOPBACK if here else {})
    for setting in settings:
        name, found, value = setting.partition("=")
        if not found:
            raise ConfigError(f"--conf must be NAME=VALUE, got {setting!r}")
        chosen[name] = value
    for name, value in chosen.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")  # it warns of each key that is new
    return spark


def execute(
    request: Request, spark: SparkSession, *, partitions: int | None = None,
    idle_keys: str | None = None, state_limit: str = "1MB",
) -> int:  # fmt: skip
    """Run to the end of the source or until stopped; return its number of rows so far."""
    recipe, columns = recipe_and_columns(request)
    if request.source != "-" and "://" not in request.source:
        # after a failure a worker reads it, from its own folder
        request = replace(request, source=str(Path(request.source).absolute()))
    with closing(opened_as(request, columns)) as source:
        if not source.replayable:
            message = f"{source.name} cannot be read again after a failure; write it to a file"
            raise ConfigError(message)
        ends = not (request.follow or getattr(source, "live", False))
        batches = (batch for batch, _ in batches_after(source, None, request) if batch is not None)
        first = next(batches, None)
        if first is None:
            raise SchemaError(f"{source.name} has no rows")
        columns = source.columns
    spark.conf.set(
        "spark.sql.shuffle.partitions", partitions or 2 * spark.sparkContext.defaultParallelism
    )
    spark.dataSource.register(RunSource)
    given = json.dumps(asdict(request))
    packed = spark.readStream.format("streamddcrp").option("request", given).load()
    out = visited(
        packed, recipe.make(), columns, first.slice(0, 0), numbered=True, idle=idle_keys,
        state_limit=state_limit,
    )  # fmt: skip

    def write(frame: DataFrame, batch: int) -> None:
        """Write a batch, replacing the remains of a failed attempt."""
        path = os.path.join(request.sink, f"batch={batch}")
        frame.write.mode("overwrite").partitionBy("output").parquet(path)

    stream = out.writeStream.foreachBatch(write).option("checkpointLocation", request.checkpoint)
    wait = {"availableNow": True} if ends else {"processingTime": f"{request.batch_wait} seconds"}
    return _rows(finished(stream.trigger(**wait)).lastProgress)


def finished(stream: Any) -> Any:
    """Start a query and wait for its end.

    Spark gives a Python worker ten seconds to start, a fixed limit. If a busy machine exceeds it,
    the query is started again on its checkpoint.
    """
    for attempt in range(_STARTS):
        query = stream.start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            if attempt < _STARTS - 1 and "failed to connect back" in str(error):
                continue
            message = f"Spark ended the job: {str(error).partition('=== Streaming Query')[0]}"
            raise StreamDDCRPError(message) from error
        finally:
            query.stop()
        break
    return query


def _rows(progress: Any) -> int:
    end = progress["sources"][0]["endOffset"] if progress else None
    end = json.loads(end) if isinstance(end, str) else end
    offset = json.loads(end["after"]) if end else None
    return int(offset["row"]) if offset else 0
