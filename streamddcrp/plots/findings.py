"""Find what to report about a labelled series: regimes, visits, surprising moments."""

import warnings
from dataclasses import dataclass

import numpy as np

from streamddcrp.plots.segments import HOLD, Visit, visits
from streamddcrp.plots.series import Labelled
from streamddcrp.typing import FloatArray, IntArray

N_MOMENTS = 5
N_PARTS = 20  # most stretches of rows with a usual score each
N_ODD = 2  # most features named for a surprising row
FAR = 3.0  # standard deviations from which a second one is named, too
USUAL = 8  # least rows that define what is usual
MOVED = 1.0  # standard deviations by which a feature surely changed


@dataclass(frozen=True, slots=True)
class Regime:
    """A label that held."""

    label: int
    n_rows: int  # with the label, including rows outside its visits
    share: float  # the same as a share of all rows after the warm-up
    visits: tuple[Visit, ...]  # at least one, in time order
    # Over rows with the label, (D,); NaN where the feature is always missing.
    mean: FloatArray
    low: FloatArray  # 5th and 95th percentile
    high: FloatArray
    least: FloatArray
    most: FloatArray

    @property
    def first(self) -> int:
        """Index of the first row it was seen."""
        return self.visits[0].first

    @property
    def last(self) -> int:
        """Index of the last row it was seen."""
        return self.visits[-1].last

    @property
    def n_returns(self) -> int:
        """Number of times it came back."""
        return len(self.visits) - 1


@dataclass(frozen=True, slots=True)
class Findings:
    """Content of the picture and of the text."""

    series: Labelled
    early: int  # rows of the warm-up
    regimes: tuple[Regime, ...]  # in the order they were first seen
    visits: tuple[Visit, ...]  # of all regimes, in the order of time
    passing: dict[int, int]  # labels that never held, with their numbers of rows
    moments: tuple[int, ...]  # indices of the most surprising rows, in this order

    def largest(self, n: int) -> list[Regime]:
        """Return the ``n`` largest regimes, in the order they were first seen."""
        kept = sorted(self.regimes, key=lambda regime: (-regime.n_rows, regime.first))[:n]
        return sorted(kept, key=lambda regime: regime.first)

    def lasts(self, regime: Regime) -> bool:
        """Whether a regime is the current one when the series ends."""
        return bool(self.visits) and regime.label == self.visits[-1].label


def find(series: Labelled) -> Findings:
    """Find what to report about a series."""
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
    """Return the features, those that best separate the regimes first."""
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


def changed_features(findings: Findings) -> list[int]:
    """Return the features that moved between successive visits, the farthest first.

    The distance is the largest change of the mean less `FAR` standard errors, in standard
    deviations of the previous visit, blended with those of all visits as if they had `USUAL` rows
    more. Features that never moved by `MOVED` are left out.
    """
    values = findings.series.values
    pieces = [values[visit.first : visit.last + 1] for visit in findings.visits]
    if len(pieces) < 2:
        return []
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Mean of empty slice|Degrees of freedom")
        n = np.array([np.isfinite(piece).sum(axis=0) for piece in pieces])
        mean = np.array([np.nanmean(piece, axis=0) for piece in pieces])
        squares = n * np.nan_to_num([np.nanvar(piece, axis=0) for piece in pieces])
        common = squares.sum(axis=0) / n.sum(axis=0)
        spread = np.sqrt((squares + USUAL * common) / (n + USUAL))[:-1]
        away = np.abs(np.diff(mean, axis=0)) / spread - FAR * np.sqrt(1.0 / n[:-1] + 1.0 / n[1:])
    far = np.nan_to_num(away, nan=0.0, neginf=0.0).max(axis=0)
    order = np.argsort(-far, kind="stable")
    moved: list[int] = order[far[order] >= MOVED].tolist()
    return moved


def odd_features(series: Labelled, place: int) -> list[int]:
    """Return up to `N_ODD` features of a row that are farthest from the usual.

    Usual is the previous regime, if it has at least `USUAL` other rows, else the whole series.
    Distances are in standard deviations: the farthest feature is always returned, others only from
    `FAR` on.
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
    """Choose ``n`` features to show, the most important first.

    Three quarters are those that changed most between visits, even to a rare regime; then come
    those that are odd at the surprising moments. The rest are those that best separate the regimes.
    """
    changed = changed_features(findings)
    most = n - n // 4
    odd = (d for place in findings.moments for d in odd_features(findings.series, place))
    return list(dict.fromkeys([*changed[:most], *odd, *changed, *_by_distinction(findings)]))[:n]


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
    """Return up to `N_MOMENTS` rows with scores above the usual, each a local maximum.

    Usual is the median of the rows around: a young model is surprised by every row.
    """
    places = np.flatnonzero(~np.isnan(scores))
    if len(places) == 0:
        return ()
    parts = np.array_split(places, min(N_PARTS, max(len(places) // 100, 1)))
    usual = [np.median(scores[part]) for part in parts]
    scores = scores - np.interp(np.arange(len(scores)), [part.mean() for part in parts], usual)
    known = scores[places]
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
