"""What users see of any model: predictions by name, summaries, events."""

import logging
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp.contract import (
    KINDS,
    LABEL,
    LABEL_PROB,
    LIVE_TABLES,
    P_CHANGE,
    P_NEW,
    SCORE,
    Event,
    EventRing,
)
from streamddcrp.likelihoods import Likelihood
from streamddcrp.typing import FloatArray, IntArray

_log = logging.getLogger(__name__)


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
    """Return the summary of a model that has learned nothing; ``more`` columns after weight."""
    arrivals = {"born": pa.int64(), "last_seen": pa.int64()}
    kinds = {"id": pa.int64(), "weight": pa.float64(), **more, **arrivals}
    return pa.schema(list(kinds.items())).empty_table()


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
    log: EventRing, made: int, read: int, first_time: float, time_unit: float
) -> list[Event]:
    """Return the events after the first ``read`` of the ``made`` ones."""
    lost = made - read - len(log.kind)
    if lost > 0:
        _log.warning("%d events were overwritten; call events() more often", lost)
    found = []
    for number in range(max(read, made - len(log.kind)), made):
        i = number % len(log.kind)
        t = first_time + float(log.t[i]) * time_unit
        if log.kind[i] < len(KINDS):  # others are housekeeping
            into = int(log.into[i]) if log.into[i] >= 0 else None
            found.append(Event(KINDS[log.kind[i]], int(log.label[i]), int(log.arrival[i]), t, into))
    return found


_MOST_LABELS = 100_000


class FinalLabels:
    """The labels that became final since they were taken last, 100,000 at most."""

    def __init__(self) -> None:
        self._labels = array("q")

    @property
    def nbytes(self) -> int:
        """Bytes that they take."""
        return 8 * len(self._labels)

    def add(self, labels: IntArray) -> None:
        """Append labels."""
        self._labels.frombytes(labels.tobytes())
        if len(self._labels) > 2 * _MOST_LABELS:
            del self._labels[:-_MOST_LABELS]

    def last(self) -> IntArray:
        """Return them."""
        return np.array(self._labels[-_MOST_LABELS:], dtype=np.int64)

    def take(self) -> IntArray:
        """Return them and forget them."""
        labels = self.last()
        self._labels = array("q")
        return labels
