"""Whether a column has a season, and whether that adds to its level or multiplies it.

Traffic by night is a tenth of that by day, and so are its noise and what an accident takes from it.
A season that multiplies is one that adds to log(y + offset). Which of the two it is, the rows tell
by the density of each under the laws of levels, as in `Rivals`.
"""

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streamddcrp.data.laws.rivals import Rivals
from streamddcrp.data.seasons.tracker import NEEDED, Tracker
from streamddcrp.typing import FloatArray

CLEARLY = 10.0  # nats by which another scale must lead
SEEN = 2  # periods that the rows must hold


def offsets_of(X: FloatArray) -> FloatArray:
    """Return what makes columns of rows (N, D) positive, (D,): 1 for whole numbers, else 0.

    NaN where a column has other values below or at 0, or none.
    """
    known = np.where(np.isfinite(X), X, 1.0)
    whole = (known == np.floor(known)).all(axis=0)
    offsets = np.where(whole, 1.0, 0.0)
    return np.where((known + offsets > 0.0).all(axis=0), offsets, np.nan)


def logs(X: FloatArray, offsets: FloatArray | None) -> FloatArray:
    """Return rows (N, D) with log(y + offset) in columns with one; NaN where there is no log."""
    if offsets is None:
        return X
    above = X + offsets
    safe = np.where(above > 0.0, above, 1.0)
    found = np.where(above > 0.0, np.log(safe), np.nan)
    return np.where(np.isnan(offsets), X, found)


def values(net: FloatArray, X: FloatArray, offsets: FloatArray | None) -> FloatArray:
    """Undo `logs` of rows ``X`` after their seasons were subtracted; no log: as it is."""
    if offsets is None:
        return net
    found = np.exp(np.minimum(net, 700.0)) - offsets
    return np.where(np.isnan(offsets), net, np.where(np.isnan(net), X, found))


class Predicted(NamedTuple):
    """How well rows are predicted on a scale.

    ``tracker``: what learned them; ``scores`` (2, D): log densities of the columns under the best
    law, as they are and less their seasons, without the first rows; ``leads`` (D,): of the season,
    in which no event counts much.
    """

    tracker: Tracker
    scores: FloatArray
    leads: FloatArray

    @classmethod
    def by(
        cls, tracker: Tracker, X: FloatArray, t: FloatArray, first: int,
        offsets: FloatArray | None = None,
    ) -> Self:  # fmt: skip
        """Let a new tracker of the same periods learn rows (N, D) at times (N,)."""
        new, Y = tracker.like(), logs(X, offsets)
        rivals = Rivals(X.shape[1], first)
        rivals.step(Y, new.step(Y, t))
        if offsets is None:
            return cls(new, rivals.scores, rivals.leads)
        slopes = np.where(np.isnan(offsets), 0.0, np.nansum(Y[rivals.first :], axis=0))
        scores = np.where(np.isnan(offsets), -np.inf, rivals.scores - slopes)
        return cls(new, scores, rivals.leads)


class Choice(NamedTuple):
    """What `choose` says: a tracker; of each column (D,) its offset, and if it has a season.

    ``offsets``: NaN where the season adds, None where all do; ``predicted``: whether no law without
    a season is clearly better, None where the rows are too few.
    """

    tracker: Tracker
    offsets: FloatArray | None
    predicted: NDArray[np.bool_] | None


def choose(
    tracker: Tracker,
    X: FloatArray,
    t: FloatArray,
    now: FloatArray | None,
    *,
    all_rows: bool = False,
) -> Choice:
    """Say by rows (N, D) at times (N,) which columns have a season, and which it multiplies.

    ``now``: the offsets in use. Columns that change their scale are learned again from these rows.
    These must hold two of the longest periods, or of the shortest if they are ``all_rows`` so far.
    """
    period = tracker.periods[0 if all_rows else -1]
    if t[-1] + tracker.gap - t[0] < SEEN * period:
        return Choice(tracker, now, None)
    first = int(np.searchsorted(t, t[0] + period))
    possible = offsets_of(X)
    before = np.full(X.shape[1], np.nan) if now is None else now
    plain, scaled = (Predicted.by(tracker, X, t, first, offsets) for offsets in (None, possible))
    raw, net = np.maximum(plain.scores, scaled.scores)
    leads = np.where(scaled.scores[1] > plain.scores[1], scaled.leads, plain.leads)
    predicted = np.minimum(net - raw, leads) > -NEEDED
    multiplied = ~np.isnan(before)
    wanted = scaled.scores[1] - plain.scores[1] > np.where(multiplied, -CLEARLY, CLEARLY)
    changes = wanted != multiplied
    if not changes.any():
        return Choice(tracker, now, predicted)
    mixed = tracker.like()
    for source, columns in (
        (tracker, ~changes), (plain.tracker, changes & ~wanted), (scaled.tracker, changes & wanted)
    ):  # fmt: skip
        mixed.take(source, columns)
    offsets = np.where(wanted, np.where(multiplied, before, possible), np.nan)
    return Choice(mixed, offsets if wanted.any() else None, predicted)
