"""Change detectors and anomaly scores of river, and BOCD, each at its defaults for all series.

The columns are centred and scaled by their first 50 rows, missing values repeat the value before;
a change in any column is a change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import anomaly, drift, preprocessing

from benchmarks.bocd import run_lengths

FloatArray = NDArray[np.float64]

FIRST = 50  # rows that give the scale
FALL = 12  # rows by which BOCD's run length falls where a regime has begun


def scaled(X: FloatArray) -> FloatArray:
    here = np.where(np.isnan(X), 0, np.arange(len(X))[:, None])
    filled = np.take_along_axis(X, np.maximum.accumulate(here, axis=0), axis=0)
    spread = filled[:FIRST].std(axis=0)
    return np.asarray((filled - filled[:FIRST].mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def detector(make: Callable[[], Any], X: FloatArray) -> list[int]:
    """Rows at which a drift detector of river, one a column, reports a drift."""
    found = set()
    for column in scaled(X).T:
        model = make()
        for t, x in enumerate(column.tolist()):
            model.update(x)
            if model.drift_detected:
                found.add(t)
    return sorted(found)


def bocd(X: FloatArray) -> list[int]:
    """Where the most probable run began, whenever that falls short of the run before."""
    lengths = run_lengths(scaled(X))
    rows = np.arange(len(lengths))
    fell = np.append(False, lengths[:-1] + 1 - lengths[1:] >= FALL)
    return sorted(set((rows - lengths)[fell].tolist()))


DRIFT: dict[str, Callable[[FloatArray], list[int]]] = {
    "river PageHinkley": lambda X: detector(drift.PageHinkley, X),
    "river ADWIN": lambda X: detector(drift.ADWIN, X),
    "river KSWIN": lambda X: detector(lambda: drift.KSWIN(seed=0), X),
    "BOCD": bocd,
}


def half_space_trees() -> Any:
    return preprocessing.MinMaxScaler() | anomaly.HalfSpaceTrees(seed=0)


def one_class_svm() -> Any:
    return preprocessing.StandardScaler() | anomaly.OneClassSVM()


def anomaly_scores(make: Callable[[], Any], X: FloatArray, learn: int | None = None) -> FloatArray:
    """Score of each row before it is learned.

    With `learn`, only so many first rows are learned, and NaN stands for their scores.
    """
    model, names = make(), [str(d) for d in range(X.shape[1])]
    scores = np.full(len(X), np.nan)
    for t, row in enumerate(X.tolist()):
        x = dict(zip(names, row, strict=True))
        if learn is None or t >= learn:
            scores[t] = model.score_one(x)
        if learn is None or t < learn:
            model.learn_one(x)
    return scores


ANOMALY: dict[str, Callable[[], Any]] = {
    "river HalfSpaceTrees": half_space_trees,
    "river OneClassSVM": one_class_svm,
}
