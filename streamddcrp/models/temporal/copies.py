"""Copies in epochs of texts: a text and its copies are one row of the engine, evidence once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import numpy as np

from streamddcrp import records as rec
from streamddcrp.data.copies import CopyIndex
from streamddcrp.data.documents import Bags
from streamddcrp.data.kernels.copies import PEEK
from streamddcrp.models.temporal.emissions.bags import as_rows
from streamddcrp.typing import FloatArray, IntArray


class _Stored(NamedTuple):
    """What `Copies.arrays` returns: the rows of T texts of C epochs, and copies of S ids."""

    epoch: Annotated[IntArray, "C"]
    size: Annotated[IntArray, "C", rec.up_to("T")]
    row: Annotated[IntArray, "T", rec.index("T")]
    id: Annotated[IntArray, "S"]
    copies: Annotated[IntArray, "S"]


@dataclass(slots=True)
class Copies:
    """The engine's row of each text of the window's epochs with copies and of the open one."""

    of: dict[int, IntArray] = field(default_factory=dict)
    left: dict[int, int] = field(default_factory=dict)  # copies of earlier epochs, by live id
    index: CopyIndex = field(default_factory=lambda: CopyIndex(exact=True))  # of the open epoch,
    q: list[FloatArray] = field(default_factory=list)  # and the assignment of each of its rows

    def find(self, X: Any, epoch: int) -> tuple[int, float]:
        """Return the row that a text (1, V) copies, -1: none, and its surprise."""
        [source], [surprise] = self.index.find(as_rows(X), PEEK)
        return -1 if source < 0 else int(self.of[epoch][source]), float(surprise)

    def note(self, X: Any, epoch: int) -> tuple[Any, FloatArray]:
        """Note texts (N, V); return which are originals, and the surprise of the copies."""
        source, surprise = self.index.find(as_rows(X))
        new, known = source < 0, self.of.get(epoch, np.zeros(0, np.int64))
        rows = self.of[epoch] = np.append(known, len(self.q) - 1 + np.cumsum(new))
        rows[len(known) :][~new] = rows[source[~new]]
        return new, surprise

    def close(self, epoch: int) -> None:
        """End the open epoch."""
        if len(self.of.get(epoch, ())) == len(self.q):
            self.of.pop(epoch, None)
        self.index, self.q = CopyIndex(exact=True), []

    def leave(self, epoch: int, labels: IntArray, live: Sequence[int]) -> None:
        """Count the copies of an epoch that leaves the window, by the labels of its texts."""
        counts = self._count(self.left, self.of.pop(epoch, None), labels)
        self.left = {i: n for i, n in counts.items() if i in live}

    def labels_of(self, epoch: int, labels: IntArray) -> IntArray:
        """Return the labels of an epoch's texts by those of its rows."""
        return labels[self.of[epoch]] if epoch in self.of else labels

    def count(self, parts: Iterable[tuple[int, IntArray]]) -> dict[int, int]:
        """Return the copies by id, with those of the window by the labels of its texts."""
        counts = self.left
        for epoch, labels in parts:
            counts = self._count(counts, self.of.get(epoch), labels)
        return counts

    @staticmethod
    def _count(counts: dict[int, int], of: Any, labels: IntArray) -> dict[int, int]:
        if of is None:
            return counts
        ids, more = np.unique(labels[~_are_new(of)], return_counts=True)
        pairs = zip(ids.tolist(), more.tolist(), strict=True)
        return counts | {i: counts.get(i, 0) + n for i, n in pairs}

    def arrays(self) -> dict[str, Any]:
        """Return what a checkpoint holds."""
        of = self.of
        stored = _Stored(
            np.array(list(of), np.int64),
            np.array([*map(len, of.values())], np.int64),
            np.concatenate([np.zeros(0, np.int64), *of.values()]),
            np.array(list(self.left), np.int64),
            np.array(list(self.left.values()), np.int64),
        )
        return {f"copies.{name}": array for name, array in stored._asdict().items()}

    @classmethod
    def restored(cls, arrays: Mapping[str, Any], sizes: Mapping[int, int], number: int) -> "Copies":
        """Rebuild from `arrays`; ``sizes``: rows of the engine by epoch, ``number``: the open one.

        The words of the open epoch are still to be noted: `restore_words`.
        """
        total = arrays["copies.row"].size
        rec.check(_Stored, arrays, {"T": total}, "copies.")
        stored = _Stored(*(arrays[f"copies.{name}"] for name in _Stored._fields))
        rec.refuse_if(int(stored.size.sum()) != total, "copies.size")
        rec.refuse_if(bool((stored.copies < 0).any()), "copies.copies")
        ends = np.cumsum(stored.size).tolist()
        rows = [stored.row[a:z] for a, z in zip([0, *ends], ends, strict=False)]
        self = cls(dict(zip(stored.epoch.tolist(), rows, strict=True)))
        self.left = dict(zip(stored.id.tolist(), stored.copies.tolist(), strict=True))
        rec.refuse_if(len(self.of) < stored.epoch.size, "copies.epoch")  # one twice
        rec.refuse_if(len(self.left) < stored.id.size, "copies.id")
        for epoch, of in self.of.items():  # each row begins in order
            n = sizes.get(epoch, 0)
            right = n > 0 and len(of) and int(_are_new(of).sum()) == n == int(of.max()) + 1
            rec.refuse_if(not right, "copies.row")
        rec.refuse_if((number in self.of) != (sizes.get(number, 0) > 0), "copies.epoch")
        return self

    def restore_words(self, X: Any, epoch: int) -> None:
        """Note the rows (N, V) of the open epoch; none may be a copy of another."""
        rows, new = as_rows(X), np.append(_are_new(self.of.get(epoch, ())), True)
        offsets = rows.offsets[np.cumsum(new) - new]  # a copy has no words
        source, _ = self.index.find(Bags(offsets, rows.words, rows.counts))
        rec.refuse_if(bool((source >= 0).any()), "open.words")


def _are_new(of: Any) -> Any:
    """Return which texts begin a row, by the row of each."""
    return np.diff(np.maximum.accumulate(np.append(-1, of))) > 0
