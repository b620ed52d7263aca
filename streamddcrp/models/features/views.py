"""What users see of features: predictions, loadings, assignments, events."""

from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp.contract import Event
from streamddcrp.models.features.engine import FeatureFilter, Told
from streamddcrp.models.features.kernels.layout import (
    DEATH,
    LOG_DENSITY,
    N_EVENTS,
    N_FEATURES,
    P_NEW,
)
from streamddcrp.typing import FloatArray, IntArray

ON = 0.5  # probability from which on a row has a feature


def nothing_told(n: int, width: int = 0) -> Told:
    """Return what is told of rows in warm-up."""
    return np.full((n, 3), np.nan), np.full((n, width), -1), np.zeros((n, width))


def predictions(labels: IntArray, sure: FloatArray, told: Told) -> pa.RecordBatch:
    """Return what a step told, by name; NaN is null."""
    out, ids, probs = told
    waits = np.isnan(out[:, LOG_DENSITY])
    on = probs > ON
    offsets = np.concatenate([[0], np.cumsum(on.sum(axis=1))]).astype(np.int32)
    floats = {"label_prob": sure, "score": -out[:, LOG_DENSITY], "p_new": out[:, P_NEW]}
    columns: dict[str, Any] = {"label": pa.array(labels)}
    columns |= {name: pa.array(np.ascontiguousarray(v), mask=waits) for name, v in floats.items()}
    columns["n_tables"] = pa.array(np.where(waits, 0.0, out[:, N_FEATURES]).astype(np.int64))
    for name, values in (("features", ids[on]), ("feature_probs", probs[on])):
        columns[name] = pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))
    return pa.RecordBatch.from_pydict(columns)


def loadings(of: FeatureFilter) -> dict[int, FloatArray]:
    """Return what each feature looks like, shape (D,): live ones and the last dead ones."""
    names, scale = of.state.names, of.scales.scale
    told = min(int(of.state.counts[N_EVENTS]), len(names.event_kind))
    found = {
        int(names.event_label[e]): names.event_loading[e] * scale
        for e in range(told)
        if names.event_kind[e] == DEATH
    }
    live = np.flatnonzero(names.label >= 0)
    found |= {int(names.label[g]): names.loading[g] * scale for g in live.tolist()}
    return dict(sorted(found.items()))


def assignments(of: FeatureFilter | None) -> pa.Table:
    """Return which features the last rows have: ``row``, ``features``, ``final``."""
    if of is None:
        empty = {"row": pa.int64(), "features": pa.list_(pa.int64()), "final": pa.bool_()}
        return pa.schema(list(empty.items())).empty_table()
    rows, ids = of.settled()
    names = of.state.names
    labels = np.sort(names.label[names.label >= 0])
    recent = of.window(labels) > ON
    open_rows = np.arange(of.n_seen - len(recent), of.n_seen)
    still = open_rows > (rows[-1] if len(rows) else -1)
    sets = [[i for i in row if i >= 0] for row in ids.tolist()]
    sets += [labels[on].tolist() for on in recent[still]]
    return pa.table(
        {
            "row": np.concatenate([rows, open_rows[still]]),
            "features": pa.array([sorted(s) for s in sets], pa.list_(pa.int64())),
            "final": np.arange(len(sets)) < len(rows),
        }
    )


def events_since(of: FeatureFilter, read: int) -> tuple[list[Event], int]:
    """Return the events after the first ``read``, as far as they are kept, and their number."""
    names, n = of.state.names, int(of.state.counts[N_EVENTS])
    room, found = len(names.event_kind), []
    for e in range(max(read, n - room), n):
        kind = ("birth", "death", "merge")[int(names.event_kind[e % room])]
        into = int(names.event_into[e % room]) if kind == "merge" else None
        label, index = int(names.event_label[e % room]), int(names.event_index[e % room])
        found.append(Event(kind, label, index, float(names.event_time[e % room]), into))
    return found, n
