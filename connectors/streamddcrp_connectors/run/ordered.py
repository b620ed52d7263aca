"""The rows of a whole file in the order of their times, where the file has them in another."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.run.joining import joined
from streamddcrp_connectors.run.sources import Offset, Source


class OrderedSource:
    """Reads all rows of a source, which has a time and an end, then yields them by time.

    They keep their numbers. The offset is ``{"row", "of"}``: how many rows were yielded, and the
    place at which the source ended.
    """

    replayable = True

    def __init__(self, source: Source, batch_rows: int) -> None:
        if source.columns.time is None or not source.replayable or getattr(source, "live", False):
            source.close()
            message = "--late sort needs a file that is whole, and a time: name it with --time"
            raise ConfigError(message)
        self._source, self._batch_rows = source, batch_rows
        self.name, self.columns, self.n_rows = source.name, source.columns, source.n_rows
        said = f"all rows are read, then sorted by {source.columns.time}; they keep their numbers"
        self.understood = [*getattr(source, "understood", []), said]
        self.numbers: Any = np.empty(0, np.int64)

    def identity(self) -> dict[str, Any]:
        return self._source.identity() | {"sorted": True}

    def read_after(self, offset: Offset | None) -> Iterator[tuple[Any, Offset]]:
        parts = [*self._source.read_after(None)]
        if not parts:
            return
        batch, end = joined([part for part, _ in parts]), parts[-1][1]
        if offset is not None and offset["of"] != end:
            message = f"{self.name} has changed since its rows were sorted: was it replaced?"
            raise SchemaError(message)
        times = batch.column(self.columns.time)
        lost = times.is_null().to_numpy(zero_copy_only=False)
        if pa.types.is_timestamp(times.type):
            times = times.cast(pa.int64())
        ticks = times.fill_null(0).to_numpy(zero_copy_only=False)
        rows = np.arange(len(ticks))
        known = np.flatnonzero(~lost)
        newest_first = len(known) and ticks[known[0]] > ticks[known[-1]]
        self.numbers = np.lexsort((-rows if newest_first else rows, ticks, lost))
        for begin in range(0 if offset is None else offset["row"], len(rows), self._batch_rows):
            stop = min(begin + self._batch_rows, len(rows))
            yield batch.take(pa.array(self.numbers[begin:stop])), {"row": stop, "of": end}

    def close(self) -> None:
        self._source.close()
