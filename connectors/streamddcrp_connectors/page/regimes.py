"""Facts about each label of a stream: its rows, times and values."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from streamddcrp.typing import FloatArray, IntArray
from streamddcrp_connectors.report.words import number

MOST = 256  # labels kept, the most recently seen
TOLD = 3  # columns named
APART = 0.7  # standard deviations beyond which a column is named


class Facts(NamedTuple):
    """Facts of labels, one row each."""

    label: IntArray
    rows: IntArray
    first: FloatArray
    last: FloatArray
    known: FloatArray  # (M, D) counts of values present
    total: FloatArray  # (M, D) their sums
    square: FloatArray  # (M, D) their sums of squares


@dataclass
class Regimes:
    """Facts of the ``most`` most recently seen labels."""

    columns: tuple[str, ...]
    most: int = MOST
    facts: Facts = field(init=False)
    centre: FloatArray | None = None  # the first values, subtracted before summing

    def __post_init__(self) -> None:
        if not hasattr(self, "facts"):  # not stored
            none, times, sums = np.empty(0, np.int64), np.empty(0), np.empty((0, len(self.columns)))
            self.facts = Facts(none, none, times, times, sums, sums, sums)

    def learn(self, label: IntArray, t: FloatArray, values: FloatArray) -> None:
        """Take rows: labels (N,), those below 0 left out, times (N,) and values (N, D)."""
        taken = label >= 0
        if not taken.any():
            return
        label, t, values = label[taken], t[taken], values[taken]
        if self.centre is None:
            self.centre = np.nan_to_num(values[0])
        ids, first, at, rows = np.unique(
            label, return_index=True, return_inverse=True, return_counts=True
        )
        last = np.zeros(len(ids), np.int64)
        last[at] = np.arange(len(label))
        net = values - self.centre
        known = np.isfinite(net)
        net = np.where(known, net, 0.0)
        zeros = np.zeros((3, len(ids), values.shape[1]))
        found = Facts(ids, rows.astype(np.int64), t[first], t[last], *zeros)
        for total, cells in zip(found[4:], (known, net, net * net), strict=True):
            np.add.at(total, at, cells)
        self._add(found)

    def _add(self, new: Facts) -> None:
        old = self.facts
        place = {label: i for i, label in enumerate(old.label.tolist())}
        here = np.array([place.get(label, -1) for label in new.label.tolist()])
        both, i = here >= 0, here[here >= 0]
        old.rows[i] += new.rows[both]
        old.last[i] = new.last[both]
        for mine, theirs in zip(old[4:], new[4:], strict=True):
            mine[i] += theirs[both]
        if not both.all():
            new = Facts._make(cells[~both] for cells in new)
            pairs = zip(old, new, strict=True)
            self.facts = Facts._make(np.concatenate([a, b]) for a, b in pairs)
        if len(self.facts.label) > self.most:
            keep = np.sort(np.argsort(-self.facts.last, kind="stable")[: self.most])
            self.facts = Facts._make(cells[keep] for cells in self.facts)

    def joined(self, label: int, into: int) -> None:
        """Add the rows of a merged label to the label that it joined."""
        which = self.facts.label == label
        if which.any():
            mine = Facts._make(cells[which] for cells in self.facts)
            self.facts = Facts._make(cells[~which] for cells in self.facts)
            known = self.facts.label == into
            last = max([float(mine.last[0]), *self.facts.last[known].tolist()])
            self._add(mine._replace(label=np.array([into]), last=np.array([last])))

    def table(self, most: int, also: Sequence[int] = ()) -> list[dict[str, Any]]:
        """Return ``most`` labels seen last, latest first, then those of ``also``.

        Of each: label, rows, first, last, words.
        """
        facts = self.facts
        order = np.argsort(-facts.last, kind="stable")
        order = order[(np.arange(len(order)) < most) | np.isin(facts.label[order], also)]
        return [
            {
                "label": int(facts.label[i]),
                "rows": int(facts.rows[i]),
                "first": float(facts.first[i]),
                "last": float(facts.last[i]),
                "words": self._words(int(i)),
            }
            for i in order
        ]

    def telling(self, most: int) -> list[int]:
        """Return up to ``most`` columns whose means differ most between labels, in their order.

        The measure is the share of a column's variance between the labels' means, as in reports.
        """
        D, facts = len(self.columns), self.facts
        if most >= D or not len(facts.label):
            return list(range(min(D, most)))
        n = np.maximum(facts.known, 1)
        mean, (centre, spread) = facts.total / n, self._all(np.ones(len(n), bool))
        between = (facts.known * (mean - centre) ** 2).sum(axis=0) / np.maximum(
            facts.known.sum(axis=0), 1
        )
        share = np.divide(between, spread**2, out=np.zeros(D), where=spread > 0)
        return sorted(np.argsort(-share, kind="stable")[:most].tolist())

    def _all(self, which: Any) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation (D,) over the rows of some labels."""
        n = np.maximum(self.facts.known[which].sum(axis=0), 1)
        mean = self.facts.total[which].sum(axis=0) / n
        spread = self.facts.square[which].sum(axis=0) / n - mean**2
        return mean, np.sqrt(np.maximum(spread, 0.0))

    def _words(self, i: int) -> str:
        """Describe how a label differs, by column, in standard deviations of all rows."""
        facts = self.facts
        if self.centre is None or not self.columns:
            return ""
        n = np.maximum(facts.known[i], 1)
        mean = facts.total[i] / n
        others = np.arange(len(facts.label)) != i
        if not others.any():
            cells = zip(self.columns[:TOLD], (mean + self.centre)[:TOLD], strict=False)
            return ", ".join(f"{name} {number(x)}" for name, x in cells)
        there, _ = self._all(others)
        _, spread = self._all(np.ones(len(others), bool))
        far = np.divide(mean - there, spread, out=np.zeros(len(mean)), where=spread > 0)
        far[facts.known[i] == 0] = 0.0
        parts = []
        for d in np.argsort(-np.abs(far), kind="stable")[:TOLD].tolist():
            if abs(far[d]) >= APART:
                here, elsewhere = (number(float(x[d] + self.centre[d])) for x in (mean, there))
                how = "high" if far[d] > 0 else "low"
                parts.append(f"{self.columns[d]} {how}: {here} (others {elsewhere})")
        return "; ".join(parts) or "much like the others"
