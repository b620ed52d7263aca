"""How unlike its past each stream is now, and which streams share something new."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy

from streamddcrp.contract import Part, said_of_change

SAME = 8.0  # rows within which regimes count as starting together
OVERDUE = 0.05  # probability of a stay below which it lasts longer than usual


def chance_of_stay(n: float, total: float, rows: int) -> float:
    """Return the probability of a stay of ``rows`` or more after ``n`` stays of ``total`` rows.

    The mean of (1 - rate)^rows under equation (9) of ``docs/math/states_over_tables.md``; NaN if no
    stay has ended yet.
    """
    if n == 0:
        return math.nan
    a, b = n + 0.5, total - n + 0.5
    return float(np.exp(scipy.special.betaln(a, b + rows) - scipy.special.betaln(a, b)))


@dataclass(frozen=True, slots=True)
class Standing:
    """The present state of a stream."""

    key: Any  # text, a whole number or None
    state: int
    rows: int  # duration of the stay so far
    since: float  # its start, NaN if unknown; the row's number if rows have no times
    # Of the rows before the stay, those in this state: 0 for a new one; 1 if it outlasted them all.
    share: float
    longer: float  # probability of a stay this long; NaN if no stay in this state has ended
    reasons: tuple[Part, ...]  # as in an `Event`, relative to the previous state
    pace: float = 1.0  # usual time between rows
    name: str | None = None  # given to the state by users, as its verdict
    verdict: str = "normal"
    number: int | None = None  # as in summary()

    @property
    def why(self) -> str:
        """The three largest reasons in words."""
        return said_of_change(self.reasons[:3])

    @property
    def _moved(self) -> tuple[str, bool] | None:
        part = self.reasons[0] if self.reasons else None
        return None if part is None else (part.name, part.value > part.expected)


def ranked(standings: Sequence[Standing]) -> tuple[list[Standing], list[int | None]]:
    """Order streams by how unusual their state is; number groups that share a new state.

    A group has at least two streams whose state is new, began within `SAME` rows of the first, and
    moved the same column most, in the same direction.
    """
    ordered = sorted(standings, key=lambda one: (one.share, one.rows, str(one.key)))
    new = [one for one in ordered if one.share == 0.0 and not math.isnan(one.since)]
    new.sort(key=lambda one: one.since)
    within = SAME * float(np.median([one.pace for one in ordered])) if ordered else 0.0
    groups: list[list[Standing]] = []
    for one in new:
        for group in groups:
            if one._moved == group[0]._moved and one.since <= group[0].since + within:
                group.append(one)
                break
        else:
            groups.append([one])
    shared = [group for group in groups if len(group) > 1]
    number = {id(one): n for n, group in enumerate(shared, start=1) for one in group}
    return ordered, [number.get(id(one)) for one in ordered]
