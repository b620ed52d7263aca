"""What is to be seen in a labelled series: regimes, their visits, surprising moments."""

import warnings
from dataclasses import dataclass

import numpy as np

from streamddcrp.plots.segments import HOLD, Visit, visits
from streamddcrp.plots.series import Labelled
from streamddcrp.typing import FloatArray, IntArray

N_MOMENTS = 5
N_ODD = 2  # features named of a surprising row, at most
FAR = 3.0  # standard deviations from which on the second is named, too
USUAL = 8  # rows, at least, that say what is usual


@dataclass(frozen=True, slots=True)
class Regime:
    """A label that held."""

    label: int
    n_rows: int  # with the label, those outside its visits included
    share: float  # the same as a share of all rows after the warm-up
    visits: tuple[Visit, ...]  # at least one, in the order of time
    # Over rows with the label, (D,); NaN where the feature is always missing.
    mean: FloatArray
    low: FloatArray  # 5th and 95th percentile
    high: FloatArray
    least: FloatArray
    most: FloatArray

    @property
    def first(self) -> int:
        """Place of the row it was first seen."""
        return self.visits[0].first

    @property
    def last(self) -> int:
        """Place of the row it was last seen."""
        return self.visits[-1].last

    @property
    def n_returns(self) -> int:
        """Number of times it came back."""
        return len(self.visits) - 1


@dataclass(frozen=True, slots=True)
class Findings:
    """What the picture shows and the words say."""

    series: Labelled
    early: int  # rows of the warm-up
    regimes: tuple[Regime, ...]  # in the order they were first seen
    visits: tuple[Visit, ...]  # of all regimes, in the order of time
    passing: dict[int, int]  # labels that never held, and their numbers of rows
    moments: tuple[int, ...]  # places of the most surprising rows, the most surprising first

    def largest(self, n: int) -> list[Regime]:
        """Return the ``n`` regimes with most rows, in the order they were first seen."""
        kept = sorted(self.regimes, key=lambda regime: (-regime.n_rows, regime.first))[:n]
        return sorted(kept, key=lambda regime: regime.first)

    def lasts(self, regime: Regime) -> bool:
        """Whether a regime is the current one when the series ends."""
        return bool(self.visits) and regime.label == self.visits[-1].label


def find(series: Labelled) -> Findings:
    """Find what is to be reported about a series."""
    warm = ~np.isnan(series.scores)
    places = np.flatnonzero(warm)
    labels = series.labels[places]
    stays = [
        Visit(visit.label, int(places[visit.first]), int(places[visit.last]))
        for visit in visits(labels)
    ]
    by_label: dict[int, list[Visit]] = {}
    for stay in stays:
        by_label.setdefault(stay.label, []).append(stay)
    regimes = [
        _regime(label, places[labels == label], len(places), theirs, series.values)
        for label, theirs in by_label.items()
    ]
    kinds, counts = np.unique(labels, return_counts=True)
    return Findings(
        series=series,
        early=len(series) - len(places),
        regimes=tuple(regimes),
        visits=tuple(stays),
        passing={
            label: n
            for label, n in zip(kinds.tolist(), counts.tolist(), strict=True)
            if label not in by_label
        },
        moments=_moments(series.scores),
    )


def _by_distinction(findings: Findings) -> list[int]:
    """Return the features, those first that tell the regimes apart best."""
    D = len(findings.series.features)
    between = np.zeros(D)
    values = findings.series.values
    total = np.array([np.nanvar(column) if _any(column) else 0.0 for column in values.T])
    centre = np.array([np.nanmean(column) if _any(column) else 0.0 for column in values.T])
    for regime in findings.regimes:
        between += regime.share * np.nan_to_num(regime.mean - centre) ** 2
    gain = np.divide(between, total, out=np.full(D, -1.0), where=total > 0)  # at rest: last
    order: list[int] = np.argsort(-gain, kind="stable").tolist()
    return order


def _by_change(findings: Findings) -> list[int]:
    """Return the features that moved from one visit to the next, the farthest first.

    By the distance of the means in standard deviations of the visit before, at the change where it
    is largest; those that never moved by `FAR` of them are left out.
    """
    values = findings.series.values
    far = np.zeros(values.shape[1])
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Mean of empty slice|Degrees of freedom")
        pieces = [values[visit.first : visit.last + 1] for visit in findings.visits]
        means = [np.nanmean(piece, axis=0) for piece in pieces]
        for k in range(1, len(pieces)):
            spread = np.nanstd(pieces[k - 1], axis=0)
            away = np.abs(means[k] - means[k - 1]) / np.where(spread > 0.0, spread, np.nan)
            far = np.fmax(far, away)
    order = np.argsort(-far, kind="stable")
    moved: list[int] = order[far[order] >= FAR].tolist()
    return moved


def odd_features(series: Labelled, place: int) -> list[int]:
    """Return the features of a row that are farthest from the usual, at most `N_ODD` of them.

    Usual is the regime that was there just before, if it has `USUAL` other rows at least, else the
    whole series. Far is counted in standard deviations: the farthest is always returned, others
    only from `FAR` on.
    """
    row = series.values[place]
    known = np.flatnonzero(~np.isnan(row))
    warm = ~np.isnan(series.scores)
    warm[place] = False
    before = warm & (series.labels == series.labels[max(place - 1, 0)])
    usual = series.values[before if before.sum() >= USUAL else np.arange(len(series)) != place]
    far = np.zeros(len(known))
    for k, d in enumerate(known.tolist()):
        column = usual[~np.isnan(usual[:, d]), d]
        if len(column):
            away, spread = abs(row[d] - column.mean()), column.std()
            far[k] = away / spread if spread > 0 else np.inf if away > 0 else 0.0
    order = np.argsort(-far, kind="stable")[:N_ODD].tolist()
    return sorted(int(known[k]) for k in order if k == order[0] or far[k] >= FAR)


def telling_features(findings: Findings, n: int) -> list[int]:
    """Choose ``n`` features to show, in their own order.

    First those that are odd at the surprising moments, so that what went wrong is seen, half of
    them at most; then, to three quarters, those that changed most from one visit to the next, be it
    to a regime that is seldom seen; then those that tell the regimes apart best.
    """
    odd: dict[int, None] = {}
    for place in findings.moments:
        odd.update(dict.fromkeys(odd_features(findings.series, place)))
    chosen = list(odd)[: max(n // 2, 1)]
    changed = [d for d in _by_change(findings) if d not in chosen]
    chosen += changed[: max(n - n // 4 - len(chosen), 0)]
    ranked = _by_distinction(findings)
    return sorted([*chosen, *(d for d in ranked if d not in chosen)][:n])


def _regime(
    label: int, rows: IntArray, n_all: int, stays: list[Visit], values: FloatArray
) -> Regime:
    table = np.full((5, values.shape[1]), np.nan)
    for d, column in enumerate(values[rows].T):
        known = column[~np.isnan(column)]
        if len(known):
            table[:, d] = [known.mean(), *np.percentile(known, [5, 95, 0, 100])]
    return Regime(label, len(rows), len(rows) / n_all, tuple(stays), *table)


def _moments(scores: FloatArray) -> tuple[int, ...]:
    """Return up to `N_MOMENTS` rows of high score, each the highest for a while around it."""
    known = scores[~np.isnan(scores)]
    if len(known) == 0:
        return ()
    apart = max(HOLD, len(scores) // 100)
    high = np.flatnonzero(scores >= np.percentile(known, 95))
    found: list[int] = []
    for place in high[np.argsort(-scores[high], kind="stable")].tolist():
        around = scores[max(0, place - apart) : place + apart + 1]
        if scores[place] < np.nanmax(around) or any(abs(place - other) <= apart for other in found):
            continue
        found.append(place)
        if len(found) == N_MOMENTS:
            break
    return tuple(found)


def _any(column: FloatArray) -> bool:
    return bool((~np.isnan(column)).any())
