"""Rows of each label along a stream in bounded memory, as a stream graph shows them.

The rings of chunks follow `pyramid`: a chunk of level k has CHUNK * 4**k rows, and stores its most
frequent labels sparsely.
"""

from dataclasses import dataclass, field

import numpy as np

from streamddcrp.typing import FloatArray, IntArray

CHUNK = 16  # rows of the finest chunks
STEP = 4
LEVELS = 10
ROOM = 512  # chunks of a level
WIDE = 48  # labels of a chunk; all other rows count under SMALL
SMALL = -1

Chunk = tuple[float, float, dict[int, int]]  # times of its ends, rows by label


@dataclass
class Volumes:
    """Numbers of rows by label and time.

    Examples
    --------
    >>> volumes = Volumes()
    >>> t = np.arange(64.0)
    >>> volumes.learn(np.repeat([3, 5], 32), t)
    >>> begin, end, counts = volumes.view(0.0, 63.0, 4, {})
    >>> begin.tolist(), {label: n.tolist() for label, n in counts.items()}
    ([0.0, 16.0, 32.0, 48.0], {3: [16, 16, 0, 0], 5: [0, 0, 16, 16]})
    """

    levels: list[list[Chunk]] = field(default_factory=lambda: [[]])
    counts: list[int] = field(default_factory=lambda: [0])  # chunks that each level ever had
    open: Chunk | None = None
    in_open: int = 0  # its rows

    def learn(self, label: IntArray, t: FloatArray) -> None:
        """Take rows: labels (N,), none below 0, and times (N,) that never decrease."""
        start = 0
        while start < len(label):
            n = min(CHUNK - self.in_open, len(label) - start)
            ids, rows = np.unique(label[start : start + n], return_counts=True)
            new = (
                float(t[start]),
                float(t[start + n - 1]),
                dict(zip(ids.tolist(), rows.tolist(), strict=True)),
            )
            self.open = new if self.open is None else _joined([self.open, new])
            self.in_open += n
            start += n
            if self.in_open == CHUNK:
                self._close(0, self.open)
                self.open, self.in_open = None, 0

    def _close(self, level: int, chunk: Chunk) -> None:
        if level == len(self.levels):
            self.levels.append([])
            self.counts.append(0)
        ring = self.levels[level]
        ring.append(chunk)
        self.counts[level] += 1
        if len(ring) > ROOM:
            del ring[0]
        if self.counts[level] % STEP == 0 and level + 1 < LEVELS:
            self._close(level + 1, _joined(ring[-STEP:]))

    def view(
        self, begin: float, end: float, most: int, became: dict[int, int]
    ) -> tuple[FloatArray, FloatArray, dict[int, IntArray]]:
        """Return about ``most`` chunks within a time span: begins, ends, rows (M,) by label.

        ``became`` maps merged labels to their present ones. The largest label comes first. The rows
        of many small labels count under `SMALL`.
        """
        found: list[Chunk] = []
        for level, ring in enumerate(self.levels):
            found = [
                chunk for chunk in ring + self._tail(level) if chunk[1] >= begin and chunk[0] <= end
            ]
            reaches = self.counts[level] == len(ring) or (ring and ring[0][0] <= begin)
            if reaches and len(found) <= most:
                break
        total: dict[int, IntArray] = {}
        for i, (_, _, rows) in enumerate(found):
            for label, n in rows.items():
                now = became.get(label, label)
                total.setdefault(now, np.zeros(len(found), np.int64))[i] += n
        order = sorted(total, key=lambda label: -int(total[label].sum()))
        starts, ends = (np.array([chunk[k] for chunk in found]) for k in (0, 1))
        return starts, ends, {label: total[label] for label in order}

    def _tail(self, level: int) -> list[Chunk]:
        """Return the rows not yet in a complete chunk of a level, as one chunk."""
        rest: list[Chunk] = []
        for finer in range(level - 1, -1, -1):
            n = self.counts[finer] - STEP * self.counts[finer + 1]
            rest += self.levels[finer][len(self.levels[finer]) - n :]
        rest += [] if self.open is None else [self.open]
        return [_joined(rest)] if rest else []


def _joined(chunks: list[Chunk]) -> Chunk:
    total: dict[int, int] = {}
    for _, _, rows in chunks:
        for label, n in rows.items():
            total[label] = total.get(label, 0) + n
    if len(total) > WIDE:
        kept = sorted((label for label in total if label >= 0), key=lambda x: -total[x])[:WIDE]
        rest = sum(total.values()) - sum(total[label] for label in kept)
        total = {label: total[label] for label in kept} | {SMALL: rest}
    return chunks[0][0], chunks[-1][1], total
