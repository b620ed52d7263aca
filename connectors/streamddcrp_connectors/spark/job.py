"""The work of ``streamddcrp submit``: a run's TOML as a Spark query.

The driver reads any source of a run as one of Spark, and packs the rows by key.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from streamddcrp.cached import Cached
from streamddcrp.errors import ConfigError, SchemaError, StreamDDCRPError
from streamddcrp_connectors.request import Request
from streamddcrp_connectors.run.command import columns_of, opened_as, recipe_and_columns
from streamddcrp_connectors.run.gather import Patience, gathered
from streamddcrp_connectors.run.sources import Source
from streamddcrp_connectors.spark.frames import PACKED, SETTINGS, visited
from streamddcrp_connectors.spark.visits import pack

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


def batches_after(source: Source, offset: Any, request: Request) -> Iterator[tuple[Any, Any]]:
    """Yield batches and offsets; the batch is None if a live source has nothing new."""
    how = request.batch_rows, request.batch_wait, request.idle
    return gathered(source, offset, Patience(), *how)


class RunSource(DataSource):  # type: ignore[misc]
    """A source of a run: ``.format("streamddcrp").option("request", JSON)``."""

    @classmethod
    def name(cls) -> str:
        return "streamddcrp"

    def schema(self) -> str:
        return PACKED

    def simpleStreamReader(self, schema: Any) -> Any:  # noqa: N802
        given = json.loads(self.options["request"])
        features = given["features"] and tuple(given["features"])
        return _Reader(Request(**given | {"features": features}))


class _Reader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Batches of a source, one for each trigger; offsets are the source's, as JSON text.

    The rows of a key are numbered by their position in the source.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self._at: dict[str, str] | None = None  # position of the open iterator
        self._batches: Iterator[tuple[Any, Any]] = iter(())

    def __reduce__(self) -> Any:  # Spark sends readers about
        return type(self), (self._request,)

    @Cached
    def _source(self) -> Source:
        return opened_as(self._request, columns_of(self._request))

    def initialOffset(self) -> dict[str, str]:  # noqa: N802
        return {"after": "null"}

    def read(self, start: dict[str, str]) -> tuple[Iterator[Any], dict[str, str]]:
        """Return the next batch and the offset after it; at the end none, and the same offset."""
        if self._at != start:
            self._at = start
            self._batches = batches_after(self._source, json.loads(start["after"]), self._request)
        batch, offset = next(self._batches, (None, None))
        if offset is None:
            return iter([]), start
        self._at = {"after": json.dumps(offset, sort_keys=True)}
        return iter([] if batch is None else [self._packed(batch, offset["row"])]), self._at

    def readBetweenOffsets(  # noqa: N802
        self, start: dict[str, str], end: dict[str, str]
    ) -> Iterator[Any]:
        """Read a batch again after a failure."""
        last = json.loads(end["after"])["row"]
        found = []
        for batch, offset in batches_after(self._source, json.loads(start["after"]), self._request):
            if batch is not None:
                over = max(0, offset["row"] - last)
                kept = batch.slice(0, batch.num_rows - over)
                found.append(self._packed(kept, offset["row"] - over))
            if offset is not None and offset["row"] >= last:
                break
        return iter(found)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read to the end of the file."""

    def commit(self, end: dict[str, str]) -> None:
        """Let a live source forget data no longer needed."""
        getattr(self._source, "committed", lambda _: None)(json.loads(end["after"]))

    def stop(self) -> None:
        if "_source" in vars(self):
            self._source.close()

    def _packed(self, batch: Any, row: int) -> Any:
        numbers = pa.array(range(row - batch.num_rows, row), pa.int64())
        key: Any = self._request.key  # every Spark job has one
        return pack(batch, numbers, key)
