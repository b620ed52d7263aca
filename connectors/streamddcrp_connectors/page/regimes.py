"""Facts about each label of a stream: its rows, times and values."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from streamddcrp.typing import FloatArray, IntArray
from streamddcrp_connectors.report.words import number

MOST = 256  # labels kept, the most recently seen
TOLD = 3  # columns named
APART = 0.7  # standard deviations beyond which a column is named


@dataclass
class Facts:
    """Facts of a label."""

    label: int
    rows: int
    first: float
    last: float
    sums: FloatArray  # (3, D) over values present: their number, their sum, the sum of squares


@dataclass
class Regimes:
    """Facts of the ``most`` most recently seen labels."""

    columns: tuple[str, ...]
    most: int = MOST
    facts: dict[int, Facts] = field(default_factory=dict)
    centre: FloatArray | None = None  # the first values, subtracted before summing

    def learn(self, label: IntArray, t: FloatArray, values: FloatArray) -> None:
        """Take rows: labels (N,), those below 0 left out, times (N,) and values (N, D)."""
        taken = np.flatnonzero(label >= 0)
        if not len(taken):
            return
        if self.centre is None:
            self.centre = np.nan_to_num(values[taken[0]])
        net = values - self.centre
        known = np.isfinite(net)
        net = np.where(known, net, 0.0)
        parts = np.stack([known, net, net * net])
        for one in np.unique(label[taken]).tolist():
            rows = np.flatnonzero(label == one)
            first, last = t[rows[[0, -1]]].tolist()
            self._add(Facts(one, len(rows), first, last, parts[:, rows].sum(axis=1)))

    def _add(self, new: Facts) -> None:
        old = self.facts.get(new.label)
        if old is not None:
            last = max(old.last, new.last)
            new = Facts(new.label, old.rows + new.rows, old.first, last, old.sums + new.sums)
        self.facts[new.label] = new
        if len(self.facts) > self.most:
            del self.facts[min(self.facts, key=lambda label: self.facts[label].last)]

    def joined(self, label: int, into: int) -> None:
        """Add the rows of a merged label to the label that it joined."""
        mine = self.facts.pop(label, None)
        if mine is not None:
            self._add(replace(mine, label=into))

    def table(self, most: int, also: Sequence[int] = ()) -> list[dict[str, Any]]:
        """Return ``most`` labels seen last, latest first, then those of ``also``.

        Of each: label, rows, first, last, words.
        """
        order = sorted(self.facts.values(), key=lambda facts: -facts.last)
        whole = np.sum([one.sums for one in order], axis=0)
        return [
            {
                "label": one.label, "rows": one.rows, "first": one.first, "last": one.last,
                "words": self._words(one, whole),
            }
            for n, one in enumerate(order)
            if n < most or one.label in also
        ]  # fmt: skip

    def telling(self, most: int) -> list[int]:
        """Return up to ``most`` columns whose means differ most between labels, in their order.

        The measure is the share of a column's variance between the labels' means, as in reports.
        """
        D = len(self.columns)
        if most >= D or not self.facts:
            return list(range(min(D, most)))
        sums = np.array([one.sums for one in self.facts.values()])
        known, total, centre = sums[:, 0], sums[:, 1], _moments(sums.sum(axis=0))
        apart = known * (total / np.maximum(known, 1.0) - centre[0]) ** 2
        between = apart.sum(axis=0) / np.maximum(known.sum(axis=0), 1.0)
        share = np.divide(between, centre[1] ** 2, out=np.zeros(D), where=centre[1] > 0)
        return sorted(np.argsort(-share, kind="stable")[:most].tolist())

    def _words(self, mine: Facts, whole: FloatArray) -> str:
        """Describe how a label differs, by column, in standard deviations of all rows."""
        if self.centre is None or not self.columns:
            return ""
        mean, _ = _moments(mine.sums)
        if len(self.facts) == 1:
            cells = zip(self.columns[:TOLD], (mean + self.centre)[:TOLD], strict=False)
            return ", ".join(f"{name} {number(x)}" for name, x in cells)
        (there, _), (_, spread) = _moments(whole - mine.sums), _moments(whole)
        far = np.divide(mean - there, spread, out=np.zeros(len(mean)), where=spread > 0)
        far[mine.sums[0] == 0] = 0.0
        parts = []
        for d in np.argsort(-np.abs(far), kind="stable")[:TOLD].tolist():
            if abs(far[d]) >= APART:
                here, elsewhere = (number(float(x[d] + self.centre[d])) for x in (mean, there))
                how = "high" if far[d] > 0 else "low"
                parts.append(f"{self.columns[d]} {how}: {here} (others {elsewhere})")
        return "; ".join(parts) or "much like the others"


def _moments(sums: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation (D,) of the rows that have these sums."""
    known, total, square = sums
    mean = total / np.maximum(known, 1.0)
    return mean, np.sqrt(np.maximum(square / np.maximum(known, 1.0) - mean**2, 0.0))
