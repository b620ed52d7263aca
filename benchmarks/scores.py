"""How good labels and alarms are, in the order in which they came."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import adjusted_rand_score

IntArray = NDArray[np.int64]

APART, EARLY, LATE = 12, 3, 30


def windowed_ari(y: IntArray, label: IntArray, width: int = 500) -> float:
    """Mean adjusted Rand index of consecutive windows: is the moment right, names aside?"""
    starts = range(0, len(y), width)
    parts = [adjusted_rand_score(y[i : i + width], label[i : i + width]) for i in starts]
    return float(np.mean(parts))


def switches(y: IntArray) -> IntArray:
    """First rows of the true switches; a change within 12 rows of the one before is part of it."""
    changes = np.flatnonzero(np.diff(y)) + 1
    return changes[np.diff(changes, prepend=-APART) >= APART]


def apart(places: ArrayLike, rows: int = APART) -> IntArray:
    """Leave out what comes sooner than `rows` rows after the last one kept."""
    kept: list[int] = []
    for place in np.asarray(places).tolist():
        if not kept or place - kept[-1] >= rows:
            kept.append(place)
    return np.array(kept, dtype=np.int64)


def match(true: ArrayLike, alarms: ArrayLike) -> tuple[list[int], int]:
    """Delays of the hits and the number of false alarms.

    Every switch in turn takes the first alarm that is free and comes from 3 rows before it to 30
    after; what is left over is false, a second alarm for the same switch too.
    """
    free = np.asarray(alarms).tolist()
    delays = []
    for switch in np.asarray(true).tolist():
        found = next((a for a in free if switch - EARLY <= a <= switch + LATE), None)
        if found is not None:
            free.remove(found)
            delays.append(found - switch)
    return delays, len(free)
