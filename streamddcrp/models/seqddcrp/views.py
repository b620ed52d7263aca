"""What users see of a streaming state: live tables and events."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp.contract import KINDS, Event
from streamddcrp.likelihoods import Likelihood
from streamddcrp.models.seqddcrp.kernels.layout import (
    LABEL,
    LABEL_PROB,
    LIVE,
    LIVE_TABLES,
    N_ROWS,
    P_CHANGE,
    P_NEW,
    SCORE,
)
from streamddcrp.models.seqddcrp.state import EVENT_CAPACITY, EventLog, State
from streamddcrp.typing import FloatArray, IntArray

__all__ = [
    "events_since",
    "labels_in_window",
    "live_columns",
    "live_tables",
    "no_tables",
    "predictions",
    "with_parameters",
]

_log = logging.getLogger(__name__)


def live_columns(state: State) -> IntArray:
    """Return the columns of live tables."""
    return np.flatnonzero(state.table.stats[: state.n_tables, 0] >= LIVE)


def labels_in_window(state: State) -> IntArray:
    """Return the id of the most probable table of each row in the window, oldest first."""
    probs = state.rows.probs[: state.n_tables, : state.counts[N_ROWS]]
    ids: IntArray = state.table.ids[probs.argmax(axis=0)]
    return ids


def predictions(out: FloatArray) -> pa.RecordBatch:
    """Return the outputs of a step, shape (N, 6), by name; NaN is null."""
    floats = {"label_prob": LABEL_PROB, "score": SCORE, "p_new": P_NEW, "p_change": P_CHANGE}
    columns = {"label": pa.array(out[:, LABEL].astype(np.int64))}
    for name, at in floats.items():
        values = np.ascontiguousarray(out[:, at])
        columns[name] = pa.array(values, mask=np.isnan(values))
    columns["n_tables"] = pa.array(out[:, LIVE_TABLES].astype(np.int64))
    return pa.RecordBatch.from_pydict(columns)


def no_tables(**more: pa.DataType) -> pa.Table:
    """Return the summary of a model that has not learned anything; ``more`` columns after size."""
    arrivals = {"born": pa.int64(), "last_seen": pa.int64()}
    kinds = {"id": pa.int64(), "size": pa.float64(), **more, **arrivals}
    return pa.schema(list(kinds.items())).empty_table()


def live_tables(state: State, likelihood: Likelihood, features: Sequence[str]) -> pa.Table:
    """Return one row a live table."""
    table, live = state.table, live_columns(state)
    last_seen = table.last_seen[live]
    columns: dict[str, Any] = {
        "id": table.ids[live],
        "size": table.stats[live, 0],
        "born": table.born[live],
        "last_seen": pa.array(last_seen, mask=last_seen < 0),
    }
    return with_parameters(columns, table.stats[live], likelihood, features)


def with_parameters(
    columns: dict[str, Any], stats: FloatArray, likelihood: Likelihood, features: Sequence[str]
) -> pa.Table:
    """Return a summary: ``columns``, then parameters of tables with statistics ``stats`` (K, P)."""
    for name, values in likelihood.point_estimates(stats).items():
        for d, feature in enumerate(features):
            if not np.isnan(values[:, d]).all():  # a column without this parameter
                columns[f"{name}_{feature}"] = np.ascontiguousarray(values[:, d])
    return pa.table(columns)


def events_since(
    log: EventLog, made: int, read: int, first_time: float, time_unit: float
) -> list[Event]:
    """Return the events after the first ``read`` of the ``made`` ones."""
    lost = made - read - EVENT_CAPACITY
    if lost > 0:
        _log.warning("%d events were overwritten; call events() more often", lost)
    found = []
    for number in range(max(read, made - EVENT_CAPACITY), made):
        i = number % EVENT_CAPACITY
        t = first_time + float(log.t[i]) * time_unit
        if log.kind[i] < len(KINDS):  # others are housekeeping
            into = int(log.into[i]) if log.into[i] >= 0 else None
            found.append(Event(KINDS[log.kind[i]], int(log.label[i]), int(log.arrival[i]), t, into))
    return found
