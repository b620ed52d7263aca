"""Where streams stand: how unlike its past each is, and which share something new."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaln

from streamddcrp.contract import Part, said_of_change

SAME = 8.0  # rows within which regimes began at the same time
OVERDUE = 0.05  # probability of a stay below which it lasts longer than usual


def chance_of_stay(n: float, total: float, rows: int) -> float:
    """Return the probability of a stay of ``rows`` or more after ``n`` stays of ``total`` in all.

    The mean of (1 - rate)^rows under equation (9) of ``docs/math/states_over_tables.md``; NaN
    where no stay has ended, so that nothing is usual.
    """
    if n == 0:
        return math.nan
    a, b = n + 0.5, total - n + 0.5
    return float(np.exp(betaln(a, b + rows) - betaln(a, b)))


@dataclass(frozen=True, slots=True)
class Standing:
    """The state that a stream is in.

    Attributes
    ----------
    key : str, int or None
    state : int
    rows : int
        That the stay has lasted.
    since : float
        When it began, NaN where that is not known; the row's number where rows have no times.
    share : float
        Of the rows before the stay, those in this state: 0 for one that is new; 1 where the stay
        has lasted longer than all before it.
    longer : float
        Probability of a stay as long as this one: near 0, it lasts longer than usual; NaN where no
        stay in this state has ended.
    reasons : tuple of Part
        As those of an `Event`, against the state before.
    pace : float
        Usual time from row to row.
    name, verdict : str
        That people gave to the state.
    """

    key: Any
    state: int
    rows: int
    since: float
    share: float
    longer: float
    reasons: tuple[Part, ...]
    pace: float = 1.0
    name: str | None = None
    verdict: str = "normal"

    @property
    def why(self) -> str:
        """The three largest reasons in words."""
        return said_of_change(self.reasons[:3])

    @property
    def _moved(self) -> tuple[str, bool] | None:
        part = self.reasons[0] if self.reasons else None
        return None if part is None else (part.name, part.value > part.expected)


def ranked(standings: Sequence[Standing]) -> tuple[list[Standing], list[int | None]]:
    """Order streams, those in the least usual state first; number groups that share a new one.

    Of a group are two streams and more whose state is new, began within `SAME` rows of the first,
    and moved the same column most, the same way.
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
