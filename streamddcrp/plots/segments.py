"""Visits of regimes: the single rule that turns labels into numbered visits."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from streamddcrp.typing import IntArray

HOLD = 3


@dataclass(frozen=True, slots=True)
class Visit:
    """A stretch of one regime: its first and last rows, with perhaps other labels between."""

    label: int
    first: int
    last: int


def visits(labels: IntArray, hold: int = HOLD) -> list[Visit]:
    """Cut labels (N,) into visits of regimes, in the order of time.

    A regime has arrived once its label has held for ``hold`` rows, and it stays until another label
    has; shorter runs neither end it nor count as a birth or a return. A visit begins with the first
    row of its first such run and ends with the last row of its last one. Visits therefore never
    overlap, and successive ones have different labels.

    >>> import numpy as np
    >>> for visit in visits(np.array([0, 0, 0, 7, 0, 0, 0, 1, 1, 1, 0, 0, 0])):
    ...     print(visit)
    Visit(label=0, first=0, last=6)
    Visit(label=1, first=7, last=9)
    Visit(label=0, first=10, last=12)
    """
    found: list[Visit] = []
    for first, last in _runs(labels):
        if last - first + 1 < hold:
            continue
        label = int(labels[first])
        stays = bool(found) and found[-1].label == label
        found.append(Visit(label, found.pop().first if stays else first, last))
    return found


class Numbers:
    """Numbers that users see: regimes that lasted, in order and without gaps.

    Ids in the data also go to labels that never lasted. A regime gets its number with its first
    visit, as `visits` counts them, however its labels are cut into pieces. ``lasted`` are labels
    with numbers already, in order.

    >>> numbers = Numbers()
    >>> numbers.see(np.array([0, 0, 0, 7, 0, 12, 12]))
    >>> numbers.see(np.array([12, 3]))
    >>> numbers.of
    {0: 1, 12: 2}
    """

    def __init__(self, lasted: Iterable[int] = ()) -> None:
        self.of = {label: n for n, label in enumerate(lasted, start=1)}
        self._last = np.empty(0, np.int64)

    def see(self, labels: IntArray) -> None:
        """Add the labels of further rows."""
        labels = np.concatenate([self._last, labels])
        for first, last in _runs(labels):
            if last - first + 1 >= HOLD:
                self.of.setdefault(int(labels[first]), len(self.of) + 1)
        self._last = labels[-HOLD + 1 :]


def _runs(labels: IntArray) -> list[tuple[int, int]]:
    """First and last index of each run of equal labels."""
    if len(labels) == 0:
        return []
    starts = np.concatenate([[0], np.flatnonzero(np.diff(labels)) + 1])
    ends = np.concatenate([starts[1:], [len(labels)]]) - 1
    return list(zip(starts.tolist(), ends.tolist(), strict=True))
