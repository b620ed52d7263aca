"""The first rows of a stream choose its model: priors compete, and the log score decides.

Nothing is known of the data at first, and a prior that is too broad or too narrow, too ready or too
slow to open tables, costs the whole stream. So a model is rebuilt from all rows so far after 8,
16, 32, .. rows, up to the end of the warm-up: one for each candidate prior, scaled by those rows,
and the one that has predicted them best, each row by those before it, predicts and learns until the
next stage. The sum of these log scores is an estimate of the log evidence, and candidates are
compared by it rather than by their bounds: where tables overlap, a bound also pays for not knowing
who sits where, so it prefers one broad table to many long after the broad one predicts worse.

Of a few rows, many tables are easily right by chance. So a candidate must lead those that open
tables most seldom; and one that expects every other row to open a table, which hardly looks at
their order, waits for some rows.
"""

import logging
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamddcrp.contract import BIRTH, DEATH, LABEL, LIVE_TABLES, MERGE, N_OUTPUTS, SCORE, record
from streamddcrp.data import typical_gap
from streamddcrp.data.seasons.subtracted import Subtraction
from streamddcrp.decay import Decay
from streamddcrp.likelihoods import Likelihood
from streamddcrp.likelihoods.columns import TABLE_VARIANCE
from streamddcrp.likelihoods.warp import FEWEST_ROWS
from streamddcrp.models.seqddcrp.config import Candidate, Config, Preset, halo_of, make_config
from streamddcrp.models.seqddcrp.engine import Engine
from streamddcrp.models.seqddcrp.kernels.layout import LAST_TIME, N_EVENTS, NEXT_ID, REGIME
from streamddcrp.models.seqddcrp.state import State, empty_state
from streamddcrp.typing import FloatArray, IntArray

_log = logging.getLogger(__name__)

FIRST_STAGE = 8  # rows
BLIND = 0.3  # probability of opening a table from which a candidate is blind to order
FEW = 64  # rows before which blind candidates are not tried
LEAD = 5.0  # nats by which blind candidates, and warped columns, must lead
SMALL_LEAD = 2.0  # nats by which others must lead those that open tables most seldom
BROAD = 0.2  # spread from which candidates are tried with warped columns
_GAPS = np.arange(1.0, 65.0)
_MOST_MASS = 10.0  # of the decay weight of earlier arrivals, where alpha's start is set from it


def stages(last: int) -> list[int]:
    """Return after how many rows the model is rebuilt; ``last`` is the last of them."""
    doubling = [FIRST_STAGE << k for k in range(last.bit_length()) if FIRST_STAGE << k < last]
    return [*doubling, last]


@dataclass(slots=True)
class WarmUp:
    """The rows so far, and the model that leads.

    Attributes
    ----------
    last : int
        Rows after which the leader is kept for good.
    parts, times, labels : list of ndarray
        Chunks of rows, their times, and the labels they were given.
    """

    last: int
    parts: list[FloatArray] = field(default_factory=list)
    times: list[FloatArray] = field(default_factory=list)
    labels: list[FloatArray] = field(default_factory=list)

    @property
    def n_rows(self) -> int:
        """Number of rows so far."""
        return sum(map(len, self.parts))

    @property
    def rows_to_go(self) -> int:
        """Number of rows to the next stage."""
        return next(s for s in stages(self.last) if s > self.n_rows) - self.n_rows

    @property
    def at_stage(self) -> bool:
        """Whether a model is to be built now."""
        return self.n_rows in stages(self.last)

    @property
    def is_over(self) -> bool:
        """Whether the last stage has been reached."""
        return self.n_rows >= self.last

    @property
    def nbytes(self) -> int:
        """Bytes that the rows so far take."""
        return sum(part.nbytes for part in (*self.parts, *self.times, *self.labels))

    def rows(self, n_features: int) -> FloatArray:
        """Return the rows so far; words that came later are missing in earlier ones."""
        rows = np.full((self.n_rows, n_features), np.nan)
        done = 0
        for X in self.parts:
            rows[done : done + len(X), : X.shape[1]] = X
            done += len(X)
        return rows

    def take(
        self, leader: Engine | None, X: FloatArray, net: FloatArray, t: FloatArray
    ) -> FloatArray:
        """Let the leader predict and learn rows, net of seasons, up to the next stage at most."""
        if leader is None:
            out = np.full((len(X), N_OUTPUTS), np.nan)
            out[:, LABEL], out[:, LIVE_TABLES] = 0, 1
        else:
            out = leader.step(net, t)
        self.parts.append(X.copy())
        self.times.append(t.copy())
        self.labels.append(out[:, LABEL].copy())
        return out

    def lead(
        self,
        build: Callable[[Candidate, FloatArray, FloatArray, bool], Engine | None],
        candidates: tuple[Candidate, ...],
        leader: Engine | None,
        names: list[str],
        season: Subtraction | None = None,
    ) -> Engine:
        """Build a model for each candidate from all rows so far and return the best one.

        The rows are taken less the seasons as they are known now. ``build`` returns None where the
        rows ask for no warp, or the family has none. The best one's tables take over the ids of
        those tables of the leader whose rows they hold.
        """
        width = max(X.shape[1] for X in self.parts)
        rows, times = self.rows(width), np.concatenate(self.times)
        if season is not None:
            rows = rows - season.at(times)
        trials: list[tuple[float, Candidate, Engine, FloatArray]] = []

        def compare(chosen: Iterable[Candidate], handicap: float, *, warped: bool) -> None:
            for candidate in chosen:
                if candidate.opening >= BLIND and self.n_rows < FEW:
                    continue
                engine = build(candidate, rows, times, warped)
                if engine is None:
                    return
                out = engine.step(rows, times)
                score = -float(out[:, SCORE].sum()) - handicap - _handicap(candidate, candidates)
                trials.append((score, candidate, engine, out[:, LABEL]))

        compare(candidates, 0.0, warped=False)
        if self.n_rows >= FEWEST_ROWS:
            leading = max(trials, key=_first)[1]
            broad = [candidate for candidate in candidates if candidate.spread >= BROAD]
            compare(dict.fromkeys([leading, *broad]), LEAD, warped=True)
        reached, chosen, best, labels = max(trials, key=_first)
        _log.info(
            "prior by the first %d rows: opening %g, spread %g (log score %.1f; others: %s)",
            self.n_rows, chosen.opening, chosen.spread, reached,
            ", ".join(f"{other.opening:g}/{other.spread:g} {b:.1f}" for b, other, _, _ in trials),
        )  # fmt: skip
        for remark in best.likelihood.remarks(names):
            _log.info("%s", remark)
        old = None if leader is None else leader.state
        _take_over_ids(old, np.concatenate(self.labels), best.state, labels)
        return best


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an engine is made from the options of a model and its first rows.

    Attributes
    ----------
    alpha, time_unit : float or None
        None: learned; from the first rows.
    settings : dict
        What the options fix of `make_config`.
    """

    decay: Decay
    preset: Preset
    alpha: float | None
    time_unit: float | None
    settings: dict[str, Any]
    temper: bool
    warp: bool

    def config(self, hyper: FloatArray, family: int, *, clocked: bool, opening: float) -> Config:
        """Return checked settings, with alpha started so that a row opens a table as expected."""
        alpha, rate = self.alpha or 1.0, math.inf
        if self.alpha is None:
            alpha = opening * min(float(np.sum(self.decay.weight(_GAPS))), _MOST_MASS)
            rate = 1.0 / alpha
        decay = (self.decay.code, self.decay.location, self.decay.scale)
        tied, halo = halo_of(self.decay, alpha, self.settings["window"], clocked=clocked)
        return make_config(
            family=family, hyper=hyper, decay=decay, alpha=alpha, alpha_rate=rate, tied=tied,
            halo=halo, **self.settings,
        )  # fmt: skip

    def start(
        self, likelihood: Likelihood, n_features: int, opening: float, first_time: float | None,
        unit: float = 1.0,
    ) -> Engine:  # fmt: skip
        """Return an engine before its first row; without ``first_time`` rows come without times."""
        hyper, clocked = likelihood.hyper(n_features), first_time is not None
        config = self.config(hyper, likelihood.family, clocked=clocked, opening=opening)
        return Engine(
            likelihood, self.decay, clocked, first_time or 0.0, unit, config, empty_state(config),
            n_features, opening,
        )  # fmt: skip

    def candidates(self, family: Likelihood) -> tuple[Candidate, ...]:
        """Return the priors to be compared: those that differ in what the user left open."""
        found: dict[tuple[str, float], Candidate] = {}
        for candidate in self.preset.candidates:
            opening = candidate.opening if self.alpha is None else math.nan
            spread = candidate.spread if family.free_spread else 0.0
            found.setdefault((str(opening), spread), candidate)
        return tuple(found.values())

    def build(
        self, candidate: Candidate, family: Likelihood, rows: FloatArray, times: FloatArray,
        names: list[str], first_time: float | None, *, warped: bool = False,
    ) -> Engine | None:  # fmt: skip
        """Return an engine of which scale and time unit are taken from the first rows.

        None with ``warped``, where no column of the rows asks for a warp.
        """
        if warped:
            plain, family = family, family.warped(rows) if self.warp else family
            if family is plain:
                return None
        likelihood = family.scaled(rows, names)
        if self.temper:
            likelihood = likelihood.tempered(rows)
        if family.free_spread:
            likelihood = likelihood.spread_by(candidate.spread / TABLE_VARIANCE)
        unit = 1.0 if self.time_unit is None else self.time_unit
        if first_time is not None and self.time_unit is None:
            unit = typical_gap(times)
        return self.start(likelihood, rows.shape[1], candidate.opening, first_time, unit)


def _first(trial: tuple[float, Candidate, Engine, FloatArray]) -> float:
    return trial[0]


def _handicap(candidate: Candidate, candidates: Sequence[Candidate]) -> float:
    """Nats by which a candidate must lead those that open tables most seldom."""
    if candidate.opening >= BLIND:
        return LEAD
    least = min(other.opening for other in candidates)
    return SMALL_LEAD if candidate.opening > least else 0.0


def _take_over_ids(
    old: State | None, old_labels: FloatArray, new: State, new_labels: FloatArray
) -> None:
    """Rename the tables of ``new`` after those of ``old`` that hold the same rows; report the rest.

    Each pair of tables is matched once, those with most rows in common first. A table of ``old``
    without a match has merged into the one that most of its rows are at now.
    """
    alive = {0} if old is None else set(old.table.ids[: old.n_tables].tolist())
    shared = Counter(
        zip(old_labels.astype(int).tolist(), new_labels.astype(int).tolist(), strict=True)
    )
    name: dict[int, int] = {}
    taken: set[int] = set()
    for (was, now), _ in shared.most_common():
        if was in alive and was not in taken and now not in name:
            name[now] = was
            taken.add(was)
    next_id = 1 if old is None else int(old.counts[NEXT_ID])
    ids: IntArray = new.table.ids[: new.n_tables]
    born = new.table.born[: new.n_tables]
    seen = new.table.last_seen[: new.n_tables]
    births = []
    last, now_t = len(new_labels) - 1, float(new.sums[LAST_TIME])
    for m, now in enumerate(ids.tolist()):
        if now not in name:
            name[now] = next_id
            next_id += 1
        if seen[m] >= 0 and (old is None or name[now] not in taken):
            births.append((name[now], int(born[m])))
        ids[m] = name[now]
    new.counts[NEXT_ID] = next_id
    new.counts[REGIME] = name.get(int(new.counts[REGIME]), -1)
    new.counts[N_EVENTS] = 0
    if old is not None:
        new.counts[N_EVENTS] = old.counts[N_EVENTS]
        for target, source in zip(new.events, old.events, strict=True):
            target[:] = source
        for m, was in enumerate(old.table.ids[: old.n_tables].tolist()):
            if was not in taken and old.table.last_seen[m] >= 0:
                stays = Counter({now: n for (w, now), n in shared.items() if w == was})
                into = name.get(stays.most_common(1)[0][0], -1) if stays else -1
                kind = DEATH if into < 0 else MERGE
                record(new.events, new.counts, N_EVENTS, kind, was, into, last, now_t)
    for label, arrival in births:
        record(new.events, new.counts, N_EVENTS, BIRTH, label, -1, arrival, now_t)
