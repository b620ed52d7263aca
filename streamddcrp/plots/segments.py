"""Visits of regimes: the single rule that turns labels into numbered visits."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from streamddcrp.records import MOST, refuse_if
from streamddcrp.typing import IntArray

HOLD = 3
KEPT = 4096  # labels whose numbers are known


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
    first = np.flatnonzero(np.diff(labels, prepend=labels[:1] - 1))
    n_rows = np.diff(first, append=len(labels))
    for at, n in zip(first[n_rows >= hold].tolist(), n_rows[n_rows >= hold].tolist(), strict=True):
        label = int(labels[at])
        stays = bool(found) and found[-1].label == label
        found.append(Visit(label, found.pop().first if stays else at, at + n - 1))
    return found


class Numbers:
    """Numbers that users see: regimes that lasted, in order and without gaps.

    Ids in the data also go to labels that never lasted. A regime gets its number with its first
    visit, as `visits` counts them, however its labels are cut into pieces. ``of``: the number of
    each label, by its last visit; only the last `KEPT` are known.

    >>> numbers = Numbers()
    >>> numbers.see(np.array([0, 0, 0, 7, 0, 12, 12]))
    >>> numbers.see(np.array([12, 3]))
    >>> numbers.of
    {0: 1, 12: 2}
    """

    def __init__(self) -> None:
        self.of: dict[int, int] = {}
        self.n = 0  # numbers given
        self._run = -1, 0, 0  # label and length, at most `HOLD`, of the last run; rows seen

    def see(self, labels: IntArray, upto: int = 0) -> None:
        """Add the labels of further rows; ``upto``: rows with them, nothing is added twice.

        >>> numbers = Numbers()
        >>> numbers.see(np.array([4, 4]), upto=2)
        >>> numbers.see(np.array([4]), upto=2)
        >>> numbers.of
        {}
        """
        if len(labels) == 1:
            self.add(int(labels[0]), upto)
            return
        label, length, seen = self._run
        if 0 < upto <= seen:
            return
        if len(labels):
            first = np.flatnonzero(np.diff(labels, prepend=labels[0] - 1))
            lengths = np.diff(first, append=len(labels))
            lengths[0] += length if labels[0] == label else 0
            for now in labels[first[lengths >= HOLD]].tolist():
                if next(reversed(self.of), None) != now:
                    self._visit(now)
            label, length = int(labels[-1]), min(int(lengths[-1]), HOLD)
        self._run = label, length, upto

    def add(self, label: int, upto: int = 0) -> None:
        """Add the label of one row, as `see` does."""
        last, length, seen = self._run
        if not 0 < upto <= seen:
            length = min(length + 1, HOLD) if label == last else 1
            if length == HOLD and next(reversed(self.of), None) != label:
                self._visit(label)
            self._run = label, length, upto

    def _visit(self, label: int) -> None:
        """Put a label last, with a number; an interruption leaves the old order or the new."""
        order = {other: number for other, number in self.of.items() if other != label}
        order[label] = self.of.get(label, self.n + 1)
        if len(order) > KEPT:
            del order[next(iter(order))]
        self.of, self.n = order, max(self.n, order[label])

    def state(self) -> dict[str, Any]:
        """Return JSON values, for a checkpoint."""
        return {"of": list(self.of.items()), "n": self.n, "run": self._run[:2]}

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        """Take up what `state` returned; raises CheckpointError."""
        found = cls()
        label, length = state["run"]
        found.of, found.n = {label: number for label, number in state["of"]}, state["n"]
        whole = [label, *found.of, length, found.n, *found.of.values()]
        refuse_if(not all(type(n) is int and -1 <= n <= MOST for n in whole), "numbers")
        given = set(found.of.values())
        refuse_if(not len(state["of"]) == len(found.of) == len(given) <= KEPT, "numbers")
        refuse_if(not all(1 <= number <= found.n for number in given), "numbers")
        refuse_if(not 0 <= length <= HOLD, "numbers")
        found._run = label, length, 0
        return found
