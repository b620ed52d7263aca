"""Every source of a run as a source of Spark: read where the driver is, packed by key."""

import json
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.gather import gathered
from streamddcrp_connectors.run.retries import Patience
from streamddcrp_connectors.run.sources import Source, open_source
from streamddcrp_connectors.spark.frames import PACKED
from streamddcrp_connectors.spark.visits import pack


def opened(spec: dict[str, Any]) -> Source:
    """Open the source that ``spec`` describes in JSON values: `open_source`'s arguments."""
    columns = spec["columns"]
    features = None if columns["features"] is None else tuple(columns["features"])
    return open_source(
        spec["source"],
        Columns(columns["time"], columns["key"], features, columns["text"]),
        format=spec["format"],
        batch_rows=spec["batch_rows"],
        follow=spec["follow"],
        idle=spec["idle"],
    )


def batches_after(source: Source, offset: Any, spec: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield batches and offsets; a batch of None where a live source has nothing new."""
    return gathered(
        source, offset, Patience(), spec["batch_rows"], spec["batch_wait"], spec["idle"]
    )


class RunSource(DataSource):  # type: ignore[misc]
    """A source of a run: ``spark.readStream.format("streamddcrp").option("spec", JSON)``."""

    @classmethod
    def name(cls) -> str:
        return "streamddcrp"

    def schema(self) -> str:
        return PACKED

    def simpleStreamReader(self, schema: Any) -> Any:  # noqa: N802
        return _Reader(json.loads(self.options["spec"]))


class _Reader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Batches of a source, each one trigger; offsets are those of the source, as JSON text.

    The rows of a key are numbered by their place in the source.
    """

    def __init__(self, spec: dict[str, Any]) -> None:
        self._spec = spec
        self._at: dict[str, str] | None = None  # where the open iterator stands
        self._batches: Iterator[tuple[Any, Any]] = iter(())

    def __reduce__(self) -> Any:  # Spark sends readers about
        return type(self), (self._spec,)

    @cached_property
    def _source(self) -> Source:
        return opened(self._spec)

    def initialOffset(self) -> dict[str, str]:  # noqa: N802
        return {"after": "null"}

    def read(self, start: dict[str, str]) -> tuple[Iterator[Any], dict[str, str]]:
        """Return the next batch and the offset after it; at the end none, and the same offset."""
        if self._at != start:
            self._at = start
            self._batches = batches_after(self._source, json.loads(start["after"]), self._spec)
        batch, offset = next(self._batches, (None, None))
        if offset is None:
            return iter([]), start
        self._at = {"after": json.dumps(offset, sort_keys=True)}
        return iter([] if batch is None else [self._packed(batch, offset["row"])]), self._at

    def readBetweenOffsets(  # noqa: N802
        self, start: dict[str, str], end: dict[str, str]
    ) -> Iterator[Any]:
        """Read a batch again, after a failure."""
        last = json.loads(end["after"])["row"]
        found = []
        for batch, offset in batches_after(self._source, json.loads(start["after"]), self._spec):
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
        """Let a live source forget what is not wanted again."""
        getattr(self._source, "committed", lambda _: None)(json.loads(end["after"]))

    def stop(self) -> None:
        if "_source" in vars(self):
            self._source.close()

    def _packed(self, batch: Any, row: int) -> Any:
        numbers = pa.array(range(row - batch.num_rows, row), pa.int64())
        return pack(batch, numbers, self._spec["columns"]["key"])
