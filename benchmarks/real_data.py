"""Real series with known changes or anomalies, from the folder of shared data.

Each loader returns series in alphabetical order. Where something was tuned, it was on the even
ones (the first, the third ..), so that the odd ones show what it is worth.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, parquet

from benchmarks.streams import DATA

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

SENSORS = (
    "accelerometer1rms", "accelerometer2rms", "current", "pressure", "temperature", "thermocouple",
    "voltage", "volume_flow_raterms",
)  # fmt: skip
ROOM = ("temperature", "humidity", "light", "co2", "humidity_ratio")


@dataclass(frozen=True)
class Series:
    """Rows (N, D), NaN where missing, and what is known of them.

    `changes` has a list for each annotator, `states` (N,) the true state of each row, `anomaly`
    (N,) whether a row is anomalous, or within a window around an anomaly.
    """

    name: str
    X: FloatArray
    changes: list[list[int]] = field(default_factory=list)
    states: IntArray | None = None
    anomaly: BoolArray | None = None


def tcpd() -> list[Series]:
    """Turing change point data set, 16 freely redistributable series, five annotators each."""
    table = _read("tcpd/series.parquet")
    notes = json.loads((DATA / "tcpd" / "annotations.json").read_text(encoding="utf-8"))
    found = []
    for name, part in _groups(table, "series"):
        seq, dim = part["seq"].to_numpy(), part["dim"].to_numpy()
        X = np.full((seq.max() + 1, dim.max() + 1), np.nan)
        X[seq, dim] = part["value"].to_numpy()
        found.append(Series(name, X, list(notes[name].values())))
    return found


def tssb() -> list[Series]:
    """Time series segmentation benchmark, every second of its 75 series."""
    found = []
    for row in _read("tssb/tssb.parquet").to_pylist():
        X, changes = np.array(row["values"]), row["change_points"]
        lengths = np.diff([0, *changes, len(X)])
        states = np.repeat(row["segment_states"], lengths)
        found.append(Series(row["series"], X[:, None], [changes], states))
    return found


def occupancy() -> list[Series]:
    """Occupancy of a room by five of its sensors, one series."""
    table = _read("occupancy/occupancy.parquet")
    X, states = _matrix(table, ROOM), table["label"].to_numpy()
    return [Series("occupancy", X, [(np.flatnonzero(np.diff(states)) + 1).tolist()], states)]


def skab() -> list[Series]:
    """Skoltech anomaly benchmark: a water-circulation test bed.

    16 runs in which a valve is closed for a while, and last one without anomalies.
    """
    return [
        Series(name, _matrix(part, SENSORS), anomaly=part["anomaly"].to_numpy() > 0)
        for name, part in _groups(_read("skab/skab.parquet"), "run")
    ]


def nab() -> list[Series]:
    """Numenta anomaly benchmark: realKnownCause and the artificial series, 18 of 58."""
    return [
        Series(name, _matrix(part, ["value"]), anomaly=part["anomaly_window"].to_numpy(False))
        for name, part in _groups(_read("nab/nab.parquet"), "series")
    ]


def _read(path: str) -> Any:
    return parquet.read_table(DATA / path)


def _groups(table: Any, column: str) -> list[tuple[str, Any]]:
    """Parts of a table by the value of a column, by value; rows in their order."""
    names = sorted(set(table[column].to_pylist()))
    return [(name, table.filter(compute.equal(table[column], name))) for name in names]


def _matrix(table: Any, columns: Any) -> FloatArray:
    return np.column_stack([table[name].cast(pa.float64()).to_numpy() for name in columns])


def as_table(X: FloatArray) -> Any:
    """Rows as an Arrow table with nulls where a value is missing."""
    return pa.table({str(d): pa.array(X[:, d], mask=np.isnan(X[:, d])) for d in range(X.shape[1])})
