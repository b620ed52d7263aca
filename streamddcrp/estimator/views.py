"""The user's view of a model: predictions by name, summaries, events."""

import logging
import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp import contract
from streamddcrp.contract import Engine, Event
from streamddcrp.errors import SchemaError
from streamddcrp.estimator.interrupts import pause
from streamddcrp.likelihoods import Likelihood
from streamddcrp.records import MOST, Within, check_one
from streamddcrp.typing import FloatArray, IntArray

_log = logging.getLogger(__name__)
_OURS = {  # columns of results
    "time", "key", "label", "label_prob", "score", "p_new", "p_change", "n_tables", "final_row",
    "final_label", "features", "feature_probs", "threshold", "alarm", "began", "ended", "why",
}  # fmt: skip
_NOT_OF_ARROW = {"Y", "M", "W", "h", "m"}  # time units that Arrow lacks


def predictions(out: FloatArray) -> pa.RecordBatch:
    """Return the outputs of a step, shape (N, 6), by name; NaN is null."""
    floats = {
        "label_prob": contract.LABEL_PROB,
        "score": contract.SCORE,
        "p_new": contract.P_NEW,
        "p_change": contract.P_CHANGE,
    }
    columns = {"label": pa.array(out[:, contract.LABEL].astype(np.int64))}
    for name, at in floats.items():
        values = np.ascontiguousarray(out[:, at])
        if at != contract.SCORE:  # rounding may put a probability 1e-16 outside [0, 1]
            values = np.clip(values, 0.0, 1.0)
        columns[name] = pa.array(values, mask=np.isnan(values))
    columns["n_tables"] = pa.array(out[:, contract.LIVE_TABLES].astype(np.int64))
    return pa.RecordBatch.from_pydict(columns)


def with_times(results: pa.RecordBatch, t: Any) -> pa.RecordBatch:
    """Prepend the given times to the results; without times, do nothing."""
    if t is None:
        return results
    if isinstance(t, pa.ChunkedArray):
        t = t.combine_chunks()
    if not isinstance(t, pa.Array):
        values = np.asarray(t)
        if values.dtype.kind == "M" and np.datetime_data(values.dtype)[0] in _NOT_OF_ARROW:
            values = values.astype("datetime64[s]")
        if not values.dtype.isnative:
            values = values.astype(values.dtype.newbyteorder("="))
        t = pa.array(list(values) if values.dtype == object else values)
    return pa.record_batch([t, *results.columns], names=["time", *results.schema.names])


def index_of(batch: Any, wanted: bool) -> pa.RecordBatch | None:
    """Return a pandas index as Arrow stores it, if requested.

    Raises SchemaError if the batch has no index, before anything is learned.
    """
    if not wanted:
        return None
    batch = batch.to_pandas() if hasattr(batch, "dims") else batch  # of xarray
    frame = batch.to_frame() if getattr(batch, "ndim", 2) == 1 else batch
    try:
        kept = [None if name in _OURS else name for name in frame.index.names]
        return pa.RecordBatch.from_pandas(frame.iloc[:, :0].rename_axis(kept))
    except (AttributeError, TypeError, ValueError, pa.ArrowException) as error:
        raise SchemaError(
            f"index: expected a frame of pandas whose index Arrow can hold; {error}"
        ) from None


def with_index(index: pa.RecordBatch | None, results: pa.RecordBatch) -> pa.RecordBatch:
    """Append an index to results; `to_pandas` restores it."""
    if index is None:
        return results
    schema = pa.schema([*results.schema, *index.schema], metadata=index.schema.metadata)
    return pa.RecordBatch.from_arrays([*results.columns, *index.columns], schema=schema)


def empty_table(**kinds: pa.DataType) -> pa.Table:
    """Return a table without rows whose columns have these types."""
    return pa.schema(list(kinds.items())).empty_table()


def no_tables(**more: pa.DataType) -> pa.Table:
    """Return the summary of an untrained model, with ``more`` columns after weight."""
    whole = pa.int64()
    return empty_table(id=whole, weight=pa.float64(), **more, born=whole, last_seen=whole)


def with_parameters(
    columns: dict[str, Any], stats: FloatArray, likelihood: Likelihood, features: Sequence[str]
) -> pa.Table:
    """Return a summary: ``columns``, then parameters of tables with statistics ``stats`` (K, P)."""
    for name, values in likelihood.point_estimates(stats).items():
        for d, feature in enumerate(features):
            if not np.isnan(values[:, d]).all():  # a column without this parameter
                columns[f"{name}_{feature}"] = np.ascontiguousarray(values[:, d])
    return pa.table(columns)


class Backlog:
    """Events of the last learning call, kept before later rows overwrite them.

    An engine writes events into rings. A long batch is learned in pieces, and the rings are copied
    after each piece. All events of a call are therefore kept, and earlier ones while the rings hold
    them. This log is not part of the state.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[int, int, Any]] = []  # ranges of event numbers, and rings
        self.reasons: dict[Any, Any] = {}  # of events, by kind, label, into and arrival
        self.noted = 0  # notes copied so far

    def begin(self) -> None:
        """Forget earlier calls' events, but keep as many reasons as the rings have room for."""
        self._parts = []
        for mark in [*self.reasons][: -contract.EVENT_CAPACITY]:
            del self.reasons[mark]

    def keep(self, log: Any, made: int) -> None:
        """Copy the newest of the ``made`` events, a named tuple of rings with a ``kind``."""
        upto, room = self._parts[-1][1] if self._parts else 0, len(log.kind)
        start = max(upto, made - room)
        if start < made:
            places = np.arange(start, made) % room
            rings = (ring[places] if len(ring) == room else ring for ring in log)
            self._parts.append((start, made, type(log)(*rings)))

    def since(self, log: Any, made: int, read: int) -> Iterator[tuple[Any, int]]:
        """Yield a ring and a position in it for each event after the first ``read``."""
        at, lost, room = read, 0, len(log.kind)
        for start, stop, rings in [*self._parts, (max(0, made - room), made, None)]:
            lost += max(start - at, 0)
            for number in range(max(start, at), stop):
                held = number >= made - room  # an event's note may come later
                yield (log, number % room) if held else (rings, number - start)
            at = max(at, stop)
        if lost:
            _log.warning("%d events were overwritten; call events() more often", lost)


def events_since(
    log: Any, made: int, read: int, first_time: float, time_unit: float, backlog: Backlog
) -> list[Event]:
    """Return the events after the first ``read`` of the ``made`` ones, from rings of them."""
    found = []
    for of, i in backlog.since(log, made, read):
        if of.kind[i] < len(contract.KINDS):  # others are internal
            into = int(of.into[i]) if of.into[i] >= 0 else None
            noticed = first_time + float(of.t[i]) * time_unit
            t, between = noticed, None
            if hasattr(of, "begun"):
                t, first, last = float(of.begun[i]), float(of.earliest[i]), float(of.latest[i])
                between = None if math.isnan(first) else (first, last)
            what = contract.KINDS[of.kind[i]], int(of.label[i]), int(of.arrival[i]), t, into
            late = None if noticed == t else noticed
            found.append(Event(*what, noticed=late, between=between))
    return found


def in_pieces(
    backlog: Backlog, engine: Engine, counter: int, X: FloatArray, t: FloatArray, *side: Any
) -> FloatArray:
    """Let an engine learn rows in pieces, so that its rings lose no event.

    ``counter`` is the index of the event count in the state's counters.
    """
    step: Callable[..., FloatArray] = engine.step
    if len(X) <= contract.PIECE:
        return np.asarray(step(X, t, *side))
    parts = []
    for a in range(0, len(X), contract.PIECE):
        if a:
            pause()
        z = a + contract.PIECE
        parts.append(step(X[a:z], t[a:z], *(one.rows(a, z) for one in side)))
        backlog.keep(engine.state.events, int(engine.state.counts[counter]))
    return np.concatenate(parts)


_MOST_LABELS = 100_000


class FinalLabels:
    """Labels that became final since they were last taken, at most 100,000."""

    def __init__(self) -> None:
        self._labels = array("q")

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return 8 * len(self._labels)

    def add(self, labels: IntArray) -> None:
        """Append labels."""
        self._labels.frombytes(labels.tobytes())
        if len(self._labels) > 2 * _MOST_LABELS:
            del self._labels[:-_MOST_LABELS]

    def restore(self, labels: IntArray) -> None:
        """Restore what `last` returned; raises CheckpointError."""
        check_one("finals", labels, (len(labels),), np.int64, Within(-1, MOST))
        self.add(labels)

    def last(self) -> IntArray:
        """Return the labels."""
        return np.array(self._labels[-_MOST_LABELS:], dtype=np.int64)

    def take(self) -> IntArray:
        """Return the labels and clear them."""
        labels = self.last()
        self._labels = array("q")
        return labels
