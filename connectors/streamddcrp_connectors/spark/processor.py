"""Called by Spark for each key: load the state, learn the new rows, store the state."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from streamddcrp_connectors.spark.visits import Job, State


class Outputs:
    """Convert the outputs of visits to cells and back, one row of bytes for each visit.

    The schema is the union of all outputs: ``output``, ``key``, and every column.
    """

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._fields = [(field.name, field.type) for field in schema]

    def to_bytes(self, key: str | None, outputs: dict[str, Any]) -> bytes:
        """Return the outputs of one visit as one record batch without its schema."""
        parts = []
        for name, batch in outputs.items():
            found = dict(zip(batch.schema.names, batch.columns, strict=True))
            cells = [
                _as(kind, found[field]) if field in found else pa.nulls(batch.num_rows, kind)
                for field, kind in self._fields
            ]
            cells[:2] = (pa.repeat(pa.scalar(x, pa.string()), batch.num_rows) for x in (name, key))
            parts.append(pa.record_batch(cells, schema=self._schema))
        data: bytes = pa.concat_batches(parts).serialize().to_pybytes()
        return data

    def from_batches(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for cell in batch.column("outputs"):
                yield pa.ipc.read_record_batch(cell.as_buffer(), self._schema)


class KeyedProcessor(StatefulProcessor):  # type: ignore[misc]
    """A model for each key, forgotten after ``idle`` milliseconds without rows."""

    def __init__(self, job: Job, outputs: Outputs, idle: int | None) -> None:
        self._job, self._outputs, self._idle = job, outputs, idle
        self._handle: Any = None
        self._value: Any = None

    def init(self, handle: Any) -> None:
        self._handle, self._value = handle, handle.getValueState("state", "blob binary")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802
        """Learn the rows of a key; one read and one write of its state."""
        packed = [bytes(row["rows"]) for row in rows]
        before = self._state()
        state, outputs = self._job.visit(before, packed)
        if key[0] is not None:  # rows without a key have nothing to keep
            if self._idle is not None:
                now = timerValues.getCurrentProcessingTimeInMs()
                timer = state.timer
                if timer is None:
                    timer = now + self._idle
                    self._handle.registerTimer(timer)
                state = replace(state, seen=now, timer=timer)
            self._value.update((state.to_bytes(),))
        if outputs:
            yield self._cell(key[0], outputs)

    def handleExpiredTimer(  # noqa: N802
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Any]:
        """Forget the key if no row came since; else set the timer again, once for many visits."""
        state = self._state()
        due = (state.seen or 0) + (self._idle or 0)
        if due > timerValues.getCurrentProcessingTimeInMs():
            self._handle.registerTimer(due)
            self._value.update((replace(state, timer=due).to_bytes(),))
            return
        self._value.clear()
        yield self._cell(key[0], {"event": pa.record_batch({"kind": pa.array(["expired"])})})

    def close(self) -> None:
        """Do nothing, since nothing is open."""

    def _state(self) -> State:
        value = self._value.get()
        return State() if value is None else State.from_bytes(bytes(value[0]))

    def _cell(self, key: str | None, outputs: dict[str, Any]) -> Any:
        return Row(outputs=self._outputs.to_bytes(key, outputs))


def _as(kind: Any, column: Any) -> Any:
    """Return a column with Spark's type: microseconds for time stamps."""
    return column if column.type == kind else column.cast(kind, safe=False)
