"""A model for each key of a Spark data frame, and what Spark calls for each."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import StringType

from streamddcrp.errors import ConfigError
from streamddcrp.estimator.by_key import bytes_of
from streamddcrp_connectors.run.columns import Columns, canonical, refusals
from streamddcrp_connectors.run.lateness import seconds_of
from streamddcrp_connectors.spark.visits import KEY, OUTPUT, Job, State, pack

PACKED = "key string, rows binary"
_STORE = "spark.sql.streaming.stateStore."
SETTINGS = {
    f"{_STORE}providerClass":
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    f"{_STORE}rocksdb.changelogCheckpointing.enabled": "true",
    "spark.python.authenticate.socketTimeout": "120s",  # a busy machine starts workers slowly
}  # fmt: skip


def keyed(
    df: DataFrame,
    model: Any,
    *,
    by: str,
    time: str | None = None,
    features: Sequence[str] | None = None,
    number: str | None = None,
    idle: str | None = None,
    state_limit: str | int = "1MB",
) -> DataFrame:
    """Give each key of a streaming or batch data frame its own copy of a model.

    Results, events and states equal those of `streamddcrp.Keyed` byte for byte, whichever machine
    has a key and whichever fails.

    Parameters
    ----------
    model : estimator
        As for `streamddcrp.Keyed`.
    by : str
        Column of the key: text or whole numbers.
    time : str, optional
        Column of the time: a time stamp or a number.
    features : sequence of str, optional
        Columns to learn from: numbers, or one of text. Default: every other column.
    number : str, optional
        Column of whole numbers that rise from row to row of a key. Spark keeps no order, so rows
        are sorted by number; a row whose number does not exceed the last is refused. Default: the
        time, which must then rise from row to row.
    idle : str, optional
        Forget a key without rows for this long by the clock, as in "30d", with an event of kind
        "expired". If the key comes back it starts over. Default: never.
    state_limit : str or int, default "1MB"
        Most bytes of a key's state; rows that would exceed it are refused. Each trigger writes the
        states of all keys with new rows.

    Returns
    -------
    pyspark.sql.DataFrame
        A row for each result, event and refused row: ``output`` ("result", "event" or "refused"),
        ``key``, and the columns of that output; other columns are null. Results have ``row`` (the
        number, if one is named), ``time``, and the columns of ``step_many``; events, as in a run,
        ``index``, ``time``, ``kind``, ``label``, ``into``; refused rows ``row``, ``reason``,
        ``values`` as JSON.

    Raises
    ------
    ConfigError
        A column is missing, or neither a time nor a number is named.

    Notes
    -----
    A visit, the rows of a key in one trigger, costs one read and one write of its state, so a
    trigger should bring many rows of a key. Set `SETTINGS` on the session.
    """
    if time is None and number is None:
        message = "name a column by time= or number=: Spark keeps no order, and rows need one"
        raise ConfigError(message)
    names = [name for name in df.columns if name != number]
    if number is not None and len(names) == len(df.columns):
        message = f"number: there is no column {number!r}; there are {', '.join(df.columns)}"
        raise ConfigError(message)
    columns = Columns(time, by, None if features is None else tuple(features))
    columns = columns.resolve(names, "the data frame")
    texts = all(isinstance(df.schema[name].dataType, StringType) for name in columns.features or ())
    columns = Columns(time, by, columns.features, texts)

    def packed(batches: Iterator[Any]) -> Iterator[Any]:
        for raw in batches:
            if raw.num_rows:
                batch, _ = canonical(raw.select(list(columns.names)), columns, None)
                order = batch.column(time) if number is None else raw.column(number)
                yield pack(batch, _as_numbers(order), by)

    used = df.select(*columns.names, *([] if number is None else [number]))
    arrow = to_arrow_schema(used.schema, timezone="UTC")
    empty, _ = canonical(pa.RecordBatch.from_pylist([], arrow), columns, None)
    return visited(
        used.mapInArrow(packed, PACKED), model, columns, empty,
        numbered=number is not None, idle=idle, state_limit=state_limit,
    )  # fmt: skip


def visited(
    packed: DataFrame,
    model: Any,
    columns: Columns,
    empty: Any,
    *,
    numbered: bool,
    idle: str | None = None,
    state_limit: str | int = "1MB",
) -> DataFrame:
    """Visit the keys of packed rows; see `keyed`. ``empty``: a canonical batch without rows."""
    empty = refusals(empty)[0].drop_columns([columns.key])
    inner = Columns(columns.time, None, columns.features, columns.text)
    fresh = model.clone().to_bytes()
    job = Job(type(model).from_bytes, fresh, inner, bytes_of(state_limit), numbered)
    fields = [pa.field(OUTPUT, pa.string()), pa.field(KEY, pa.string())]
    for output in job.schemas(empty).values():
        known = {field.name for field in fields}
        fields += [field.remove_metadata() for field in output if field.name not in known]
    stamps = [pa.types.is_timestamp(field.type) for field in fields]  # of microseconds in Spark
    fields = [field.with_type(pa.timestamp("us", field.type.tz)) if stamp else field
              for field, stamp in zip(fields, stamps, strict=True)]  # fmt: skip
    spark_schema = from_arrow_schema(pa.schema(fields))
    outputs = Outputs(to_arrow_schema(spark_schema, timezone="UTC"))
    milliseconds = None if idle is None else round(1000 * seconds_of(idle, "idle"))
    visits = packed.groupBy("key").transformWithState(
        statefulProcessor=KeyedProcessor(job, outputs, milliseconds),
        outputStructType="outputs binary",
        outputMode="Append",
        timeMode="None" if milliseconds is None else "ProcessingTime",
    )
    return visits.mapInArrow(outputs.from_batches, spark_schema)


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
                found[field].cast(kind, safe=False)  # of Spark: microseconds for time stamps
                if field in found
                else pa.nulls(batch.num_rows, kind)
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


def _as_numbers(column: Any) -> Any:
    """Return the numbers that order rows, as int64 or float64; time stamps as nanoseconds."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
    if pa.types.is_integer(column.type):
        return pc.cast(column, pa.int64())
    if pa.types.is_floating(column.type):
        return pc.cast(column, pa.float64())
    raise ConfigError(f"number: a column of type {column.type}; numbers must be whole numbers")
