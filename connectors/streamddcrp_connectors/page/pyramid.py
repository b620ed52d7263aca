"""The history of a stream in bounded memory: fine for recent rows, coarse for old ones.

Level k is a ring of buckets of 4**k rows each. A bucket is a row of numbers, named below, then the
least, greatest and mean value of each column.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from streamddcrp.typing import FloatArray

BEGIN, END = 0, 1  # times of the first and the last row
LABEL, HELD = 2, 3  # the most frequent label (-1: none yet), and its rows
SCORE = 4  # the highest
THRESHOLD = 5  # after the last row
ALARMS = 6  # rows that alarmed
N_OWN = 7

STEP = 4  # buckets of a level in one of the next
LEVELS = 12
MOST_BYTES = 1 << 20  # of a level
LEAST, MOST = 64, 2048  # buckets of a level


class View(NamedTuple):
    """A section of the history."""

    level: int
    first: int  # number of the first bucket, counted from the start of the level
    buckets: FloatArray  # (M, F); the last one may be incomplete


@dataclass
class Pyramid:
    """Rings of buckets, at most ``most`` in a level; levels are made when first needed.

    A row costs O(columns), a level at most 1 MB.

    Examples
    --------
    >>> pyramid = Pyramid(1)
    >>> rows = np.zeros((10, N_OWN + 3))
    >>> rows[:, BEGIN] = rows[:, END] = rows[:, -1] = np.arange(10)
    >>> rows[:, HELD] = 1
    >>> pyramid.append(rows)
    >>> pyramid.view(0, 9, 3).buckets[:, [BEGIN, END, -1]]
    array([[0. , 3. , 1.5],
           [4. , 7. , 5.5],
           [8. , 9. , 8.5]])
    """

    n_columns: int
    most: int = MOST
    rings: list[FloatArray] = field(default_factory=list)  # with room for the buckets so far
    counts: list[int] = field(default_factory=list)  # buckets that each level ever had

    def __post_init__(self) -> None:
        self._width = N_OWN + 3 * self.n_columns
        room = min(MOST_BYTES // (8 * self._width), self.most)
        self._room = STEP * max(room // STEP, LEAST // STEP)

    @property
    def n_rows(self) -> int:
        return self.counts[0] if self.counts else 0

    @property
    def span(self) -> tuple[float, float]:
        """Times of the oldest known row and of the last row; NaN without rows."""
        if not self.counts:
            return np.nan, np.nan
        oldest = self._slice(len(self.rings) - 1, 0, 1)
        end = self._slice(0, self.counts[0] - 1, self.counts[0])
        if not len(oldest):
            oldest = self._slice(0, 0, 1)
        return float(oldest[0, BEGIN]), float(end[0, END])

    def append(self, rows: FloatArray) -> None:
        """Take rows (N, F), each a bucket of its own."""
        for start in range(0, len(rows), self._room // 2):
            self._push(0, rows[start : start + self._room // 2])

    def _push(self, level: int, buckets: FloatArray) -> None:
        if level == len(self.rings):
            self.rings.append(np.empty((0, self._width)))
            self.counts.append(0)
        before, ring = self.counts[level], self.rings[level]
        self.counts[level] = after = before + len(buckets)
        if len(ring) < min(after, self._room):
            more = np.full((min(2 * after, self._room) - len(ring), self._width), np.nan)
            self.rings[level] = np.concatenate([ring, more])
        self.rings[level][np.arange(before, after) % self._room] = buckets
        whole = after // STEP - before // STEP
        if whole and level + 1 < LEVELS:
            first = before // STEP * STEP
            children = self._slice(level, first, first + STEP * whole)
            groups = children.reshape(whole, STEP, self._width)
            self._push(level + 1, _joined(groups, np.ones(STEP)))

    def view(self, begin: float, end: float, most: int) -> View:
        """Return a section of the history in the finest level that needs at most ``most`` buckets.

        Levels that no longer reach back to ``begin`` are skipped. ``most`` must be at least 4, the
        most buckets of the coarsest level.
        """
        chosen = View(0, 0, np.empty((0, self._width)))
        for level, count in enumerate(self.counts):
            low = max(0, count - self._room)
            first, last = self._between(level, low, count, begin, end)
            if count == 0:
                break
            tail = self._tail(level)
            if len(tail) and not (last == count and tail[0, BEGIN] <= end):
                tail = tail[:0]
            if low == 0 or first > low or level == len(self.counts) - 1:
                found = self._slice(level, max(first, last - most), last)
                start = last - len(found)
                chosen = View(level, start, np.concatenate([found, tail]))
                if last - first + len(tail) <= most:
                    break
        return chosen

    def last(self, n: int) -> FloatArray:
        """Return the last ``n`` rows that are still known one by one, or all of them."""
        count = self.n_rows
        return self._slice(0, max(0, count - n), count) if count else np.empty((0, self._width))

    def _between(
        self, level: int, low: int, high: int, begin: float, end: float
    ) -> tuple[int, int]:
        """Return the first bucket that ends at ``begin`` or later, and the first one after."""
        order = np.arange(low, high) % self._room
        ring = self.rings[level]
        first = int(np.searchsorted(ring[order, END], begin, "left"))
        last = int(np.searchsorted(ring[order, BEGIN], end, "right"))
        return low + min(first, last), low + last

    def _slice(self, level: int, start: int, stop: int) -> FloatArray:
        low = max(0, self.counts[level] - self._room)
        found: FloatArray = self.rings[level][np.arange(max(start, low), stop) % self._room]
        return found if self.counts[level] else found[:0]

    def _tail(self, level: int) -> FloatArray:
        """Return the incomplete bucket, shape (1, F), or none."""
        parts, weights = [], []
        for finer in range(level - 1, -1, -1):
            part = self._slice(finer, self.counts[finer + 1] * STEP, self.counts[finer])
            parts.append(part)
            weights += [float(STEP**finer)] * len(part)
        rows = np.concatenate(parts) if parts else np.empty((0, self._width))
        return _joined(rows[None], np.array(weights)) if len(rows) else rows


def _joined(groups: FloatArray, weights: FloatArray) -> FloatArray:
    """Merge each group of buckets (M, G, F), with G weights, into one: (M, F)."""
    out = np.empty((groups.shape[0], groups.shape[2]))
    D = (groups.shape[2] - N_OWN) // 3
    low, high, mean = (slice(N_OWN + k * D, N_OWN + (k + 1) * D) for k in range(3))
    out[:, BEGIN], out[:, END] = groups[:, 0, BEGIN], groups[:, -1, END]
    same = groups[:, :, None, LABEL] == groups[:, None, :, LABEL]
    rows = (same * groups[:, None, :, HELD]).sum(axis=2)
    best = rows.argmax(axis=1)
    every = np.arange(len(groups))
    out[:, LABEL], out[:, HELD] = groups[every, best, LABEL], rows[every, best]
    out[:, SCORE] = np.fmax.reduce(groups[:, :, SCORE], axis=1)
    out[:, THRESHOLD] = groups[:, -1, THRESHOLD]
    out[:, ALARMS] = groups[:, :, ALARMS].sum(axis=1)
    out[:, low] = np.fmin.reduce(groups[:, :, low], axis=1)
    out[:, high] = np.fmax.reduce(groups[:, :, high], axis=1)
    known = np.isfinite(groups[:, :, mean])
    weight = known * weights[:, None]
    total = (np.where(known, groups[:, :, mean], 0.0) * weights[:, None]).sum(axis=1)
    size = weight.sum(axis=1)
    out[:, mean] = np.divide(total, size, out=np.full(size.shape, np.nan), where=size > 0)
    return out
