"""The user's view of features: predictions, labels, loadings, assignments, events."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamddcrp.contract import DEATH, LIVE_TABLES, P_NEW, SCORE, EventRing
from streamddcrp.estimator.views import empty_table
from streamddcrp.models.features.engine import FeatureEngine, Reported
from streamddcrp.models.features.kernels.slots import N_EVENTS
from streamddcrp.plots.series import Cause
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


def loadings(of: FeatureEngine) -> dict[int, FloatArray]:
    """Return the loading of each feature, shape (D,): live ones and the last dead ones."""
    names, events, scale = of.state.names, of.state.events, of.scales.scale
    n_events = min(int(of.state.counts[N_EVENTS]), len(events.kind))
    found = {
        int(events.label[e]): names.gone[e] * scale
        for e in range(n_events)
        if events.kind[e] == DEATH
    }
    live = np.flatnonzero(names.label >= 0)
    found |= {int(names.label[g]): names.loading[g] * scale for g in live.tolist()}
    return dict(sorted(found.items()))


def summary(of: FeatureEngine, columns: Sequence[str]) -> pa.Table:
    """Return one row per live feature: id, prob, owners, born and its loading."""
    names, live = of.state.names, of.live()
    on = of.window(names.label[live]) if len(live) else np.zeros((0, 0))
    table: dict[str, Any] = {
        "id": names.label[live],
        "prob": np.minimum(names.weight[live], 1.0),
        "owners": on.sum(axis=0) if len(live) else np.zeros(0),
        "born": names.born[live],
    }
    loading = names.loading[live] * of.scales.scale
    for d, column in enumerate(columns):
        table[f"loading_{column}"] = np.ascontiguousarray(loading[:, d])
    return pa.table(table)


def assignments(of: FeatureEngine | None) -> pa.Table:
    """Return the features of the last rows: ``row``, ``features``, ``final``."""
    if of is None:
        return empty_table(row=pa.int64(), features=pa.list_(pa.int64()), final=pa.bool_())
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


def causes(last: pa.Table, rows: IntArray) -> tuple[Cause, ...]:
    """Return the features of some rows, from the `assignments` of the last ones."""
    at, sets = last["row"].to_numpy(), last["features"].to_pylist()
    ids = sorted({i for one in sets for i in one})
    on = (np.array([i in one for one in sets]) for i in ids)
    found = (Cause(i, np.isin(rows, at[mine])) for i, mine in zip(ids, on, strict=True))
    return tuple(cause for cause in found if cause.on.any())


def events_of(of: FeatureEngine) -> tuple[EventRing, int]:
    """Return the last events, and the number of all events."""
    return of.state.events, int(of.state.counts[N_EVENTS])
