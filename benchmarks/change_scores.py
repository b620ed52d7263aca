"""How good a segmentation is, and how good alarms are, by the published measures.

Changes are first rows of segments. *Covering* and *F1 with a margin*: van den Burg and Williams
(2020), *An evaluation of change point detection algorithms*; every row is in one segment, and the
first row counts as a change that no method misses. *NAB*: Lavin and Ahmad (2015), *Evaluating
real-time anomaly detection algorithms*, standard profile.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]

FALSE_ALARM_COST = 0.11  # of the standard profile; a hit gains up to 1, a miss costs 1


def covering(true: Collection[int], found: Collection[int], n: int) -> float:
    """Mean over rows of the best Jaccard index of their true segment with any segment found."""
    a, b = (np.array([0, *sorted(set(rows) - {0}), n]) for rows in (true, found))
    first = np.maximum(a[:-1, None], b[:-1])
    last = np.minimum(a[1:, None], b[1:])
    both = np.maximum(last - first, 0)
    length_a, length_b = np.diff(a)[:, None], np.diff(b)
    jaccard = both / (length_a + length_b - both)
    return float((np.diff(a) * jaccard.max(axis=1)).sum() / n)


def hits(true: Collection[int], found: Collection[int], margin: int) -> int:
    """How many true changes have a change found within the margin, each used once."""
    free = set(found)
    count = 0
    for row in sorted(true):
        near = [other for other in free if abs(other - row) <= margin]
        if near:
            free.remove(min(near, key=lambda other: (abs(other - row), other)))
            count += 1
    return count


def f1(annotators: Sequence[Collection[int]], found: Collection[int], margin: int) -> float:
    """Precision against the changes of all annotators, mean recall of theirs; margin in rows."""
    truths = [{0, *rows} for rows in annotators]
    guesses = {0, *found}
    precision = hits(set().union(*truths), guesses, margin) / len(guesses)
    recall = float(np.mean([hits(rows, guesses, margin) / len(rows) for rows in truths]))
    return 2 * precision * recall / (precision + recall)


class Rates(NamedTuple):
    """Rows right and wrong: F1, false alarms among normal rows, misses among anomalous ones."""

    f1: float
    false_alarms: float
    missed: float


def rates(true: BoolArray, alarm: BoolArray) -> Rates:
    """Row by row, as SKAB counts."""
    hit, false, missed = ((a & b).sum() for a, b in ((alarm, true), (alarm, ~true), (~alarm, true)))
    f = 2 * hit / max(2 * hit + false + missed, 1)
    return Rates(float(f), float(false / max((~true).sum(), 1)), float(missed / max(true.sum(), 1)))


def onsets(on: BoolArray) -> list[int]:
    """First rows of the runs of True."""
    return np.flatnonzero(on & ~np.append(False, on[:-1])).tolist()


class Windows(NamedTuple):
    """Windows hit, windows in all, alarms outside of them, and the NAB score before scaling."""

    hit: int
    windows: int
    false: int
    raw_score: float


def window_score(window: BoolArray, alarms: Collection[int]) -> Windows:
    """Judge alarms by the windows of a series: the earlier in its window, the better.

    The first alarm in a window gains s(y) = 2 / (1 + e^5y) - 1 at y = -1 (first row) to 0 (last
    row), over s(-1); a false one costs 0.11 -s(y), y in lengths of the window before it, and 0.11
    from three lengths on or where there is none; a window missed costs 1.
    """
    firsts = np.array(onsets(window), dtype=np.int64)
    lasts = len(window) - 1 - np.array(onsets(window[::-1])[::-1], dtype=np.int64)
    best = np.full(len(firsts), -1.0)
    score, false = 0.0, 0
    for row in sorted(alarms):
        before = int(np.searchsorted(firsts, row, side="right")) - 1  # the last begun
        width = max(int(lasts[before] - firsts[before]), 1) if before >= 0 else 1
        y = (row - lasts[before]) / width if before >= 0 else np.inf
        if y <= 0:
            best[before] = max(best[before], sigmoid(y) / sigmoid(-1.0))
        else:
            false += 1
            score += FALSE_ALARM_COST * (sigmoid(y) if y <= 3 else -1.0)
    return Windows(int((best >= 0).sum()), len(best), false, score + float(best.sum()))


def sigmoid(y: float) -> float:
    return float(2.0 / (1.0 + np.exp(5.0 * y)) - 1.0)


def nab(parts: Collection[Windows]) -> float:
    """Scaled score of all series: 0 for no alarm at all, 100 for alarms on all first rows alone."""
    windows = sum(part.windows for part in parts)
    return 50.0 * (sum(part.raw_score for part in parts) + windows) / windows
