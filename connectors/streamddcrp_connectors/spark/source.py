"""Any source of a run as a Spark source, read by the driver and packed by key."""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from streamddcrp.cached import Cached
from streamddcrp_connectors.request import Request
from streamddcrp_connectors.run.command import columns_of, opened_as
from streamddcrp_connectors.run.gather import Patience, gathered
from streamddcrp_connectors.run.sources import Source
from streamddcrp_connectors.spark.frames import PACKED
from streamddcrp_connectors.spark.visits import pack


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
