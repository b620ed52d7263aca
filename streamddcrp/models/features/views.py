"""The user's view of features: predictions by name, labels of their sets, events."""

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamddcrp.contract import LIVE_TABLES, P_NEW, SCORE, EventRing
from streamddcrp.models.features.engine import FeatureEngine, Reported
from streamddcrp.models.features.kernels.slots import N_EVENTS
from streamddcrp.records import check, declared
from streamddcrp.typing import FloatArray, IntArray

ON = 0.5  # probability above which a row has a feature
PIECE = 16  # rows whose events surely fit in the ring
REMEMBERED = 65_536  # rows after which an unused combination is forgotten
_STEPS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))


class Combinations:
    """Labels of sets of features: the arrival index of the first row with the set.

    Sets unused for 65,536 rows are forgotten, so memory does not grow with the stream.
    """

    key: Annotated[NDArray[np.uint64], "N"]
    label: Annotated[IntArray, "N"]
    last: Annotated[IntArray, "N"]

    def __init__(self) -> None:
        self.key, self.label, self.last = (np.empty(0, f.dtype) for f in declared(Combinations))

    def labels(self, ids: IntArray, rows: IntArray, *, learn: bool = True) -> IntArray:
        """Return labels of sets of ids (N, F), -1: none, in rows (N,); ``learn``: remember them."""
        n_old, N = len(self.key), len(ids)
        key = np.concatenate([self.key, _keys(ids)])
        at = np.concatenate([self.last, rows])
        order = np.lexsort((at, key))
        key, at = key[order], at[order]
        fresh = np.ones(n_old + N, np.bool_)
        fresh[1:] = (key[1:] != key[:-1]) | (at[1:] - at[:-1] > REMEMBERED)
        known = np.concatenate([self.label, np.full(N, -1)])[order]
        start = np.maximum.accumulate(np.where(fresh, np.arange(n_old + N), 0))
        named = np.where(known >= 0, known, at)[start]
        out = np.empty(n_old + N, np.int64)
        out[order] = named
        if learn and N:
            last = np.ones(n_old + N, np.bool_)
            last[:-1] = key[1:] != key[:-1]
            last &= rows[-1] + 1 - at <= REMEMBERED
            self.key, self.label, self.last = key[last], named[last], at[last]
        return out[n_old:]

    def of_rows(
        self, reported: Reported, first: int, *, learn: bool = True
    ) -> tuple[IntArray, FloatArray]:
        """Label rows from ``first`` on, new sets by index; also return the probabilities."""
        out, ids, probs = reported
        on = np.where(probs > ON, ids, -1)
        started = ~np.isnan(out[:, SCORE])
        new = started & (out[:, P_NEW] > ON)
        plain = started & ~new
        rows = first + np.arange(len(out))
        labels = np.where(new, rows, 0)
        sure = np.where(ids >= 0, np.maximum(probs, 1.0 - probs), 1.0).prod(axis=1)
        sure *= np.maximum(out[:, P_NEW], 1.0 - out[:, P_NEW])
        # collected or new rows have sets of their own, which are not remembered
        labels[plain] = self.labels(on[plain], rows[plain], learn=learn)
        return labels, sure

    def arrays(self) -> dict[str, Any]:
        return {f"combinations.{f.name}": getattr(self, f.name) for f in declared(Combinations)}

    def restore(self, arrays: Mapping[str, Any]) -> None:
        """Take the state of `arrays`; raises CheckpointError."""
        check(Combinations, arrays, {}, "combinations.")
        for f in declared(Combinations):
            setattr(self, f.name, arrays[f"combinations.{f.name}"])


def _keys(ids: IntArray) -> NDArray[np.uint64]:
    """Hash sets: the sum of the hashes of what is in them."""
    x = (ids + 1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in _STEPS:
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    x ^= x >> np.uint64(31)
    keys: NDArray[np.uint64] = np.where(ids >= 0, x, np.uint64(0)).sum(axis=1, dtype=np.uint64)
    return keys


def predictions(labels: IntArray, sure: FloatArray, reported: Reported) -> pa.RecordBatch:
    """Return the predictions of rows by name; NaN is null."""
    out, ids, probs = reported
    waits = np.isnan(out[:, SCORE])
    on = probs > ON
    offsets = np.concatenate([[0], np.cumsum(on.sum(axis=1))]).astype(np.int32)
    floats = {"label_prob": sure, "score": out[:, SCORE], "p_new": out[:, P_NEW]}
    columns: dict[str, Any] = {"label": pa.array(labels)}
    columns |= {name: pa.array(np.ascontiguousarray(v), mask=waits) for name, v in floats.items()}
    columns["n_tables"] = pa.array(np.where(waits, 0.0, out[:, LIVE_TABLES]).astype(np.int64))
    for name, values in (("features", ids[on]), ("feature_probs", probs[on])):
        columns[name] = pa.ListArray.from_arrays(pa.array(offsets), pa.array(values))
    return pa.RecordBatch.from_pydict(columns)


def events_of(of: FeatureEngine) -> tuple[EventRing, int]:
    """Return the last events, and the number of all events."""
    return of.state.events, int(of.state.counts[N_EVENTS])
