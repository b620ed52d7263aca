"""The first rows of a stream choose its model: priors compete, and the log score decides.

Nothing is known of the data at first, and a prior that is too broad or too narrow, too ready or too
slow to open tables, costs the whole stream. So a model is rebuilt from all rows so far after 8,
16, 32, .. rows, up to the end of the warm-up: one for each candidate prior, scaled by those rows,
and the one that has predicted them best, each row by those before it, predicts and learns until the
next stage. The sum of these log scores is an estimate of the log evidence, and candidates are
compared by it rather than by their bounds: where tables overlap, a bound also pays for not knowing
who sits where, so it prefers one broad table to many long after the broad one predicts worse.

How far links reach is chosen likewise, for the best three of these priors: a row or two where
regimes last, so that the next row is expected where the last one sits, and to many where rows come
in no order, so that it is expected at the tables in proportion to their rows. A reach that is
longer than at the start must lead, for it is slow to see that a level has shifted. One that is
shorter than the memory of the noise is left out: its tables would follow the noise.

Of a few rows, many tables are easily right by chance. So a candidate must lead those that open
tables most seldom; and one that expects every other row to open a table, which hardly looks at
their order, waits for some rows.
"""

import logging
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, Self

import numpy as np

from streamddcrp.contract import BIRTH, DEATH, LABEL, LIVE_TABLES, MERGE, SCORE, record
from streamddcrp.data.scaled import looks_scaled_on_the_way
from streamddcrp.data.seasons.subtracted import Subtraction
from streamddcrp.decay import Decay, Exponential
from streamddcrp.likelihoods import Likelihood
from streamddcrp.likelihoods.columns import TABLE_VARIANCE, column_powers
from streamddcrp.likelihoods.warp import FEWEST_ROWS, far_runs
from streamddcrp.models.seqddcrp.config import Candidate
from streamddcrp.models.seqddcrp.engine import Engine
from streamddcrp.models.seqddcrp.kernels.known import REPORTED, STRAY, UNREPORTED
from streamddcrp.models.seqddcrp.kernels.layout import (
    LAST_TIME,
    LIKELY,
    N_COLUMNS,
    N_EVENTS,
    N_SEEN,
    NEXT_ID,
    OUTLIER,
    REGIME,
    SETTLED,
    STATE,
)
from streamddcrp.models.seqddcrp.recipe import Recipe
from streamddcrp.models.seqddcrp.state import State
from streamddcrp.records import FINITE, VALUE, check, refuse_if
from streamddcrp.typing import FloatArray, IntArray

_log = logging.getLogger(__name__)

FIRST_STAGE = 8  # rows
KEPT = 1024  # rows from which to begin again, where seasons are found after the warm-up
BLIND = 0.3  # probability of opening a table from which a candidate is blind to order
FEW = 64  # rows before which blind candidates are not tried
LEAD = 5.0  # nats by which blind candidates, and warped columns, must lead
SMALL_LEAD = 2.0  # nats for those that open tables less seldom than others, or reach further
LEADERS = 3  # candidates for which other reaches of links are tried
BROAD = 0.2  # spread from which candidates are tried with warped columns


def stages(last: int) -> list[int]:
    """Return after how many rows the model is rebuilt; ``last`` is the last of them."""
    doubling = [FIRST_STAGE << k for k in range(last.bit_length()) if FIRST_STAGE << k < last]
    return [*doubling, last]


class EarlyRows(NamedTuple):
    """Rows of the warm-up, as they are stored."""

    x: Annotated[FloatArray, "N D", VALUE]
    t: Annotated[FloatArray, "N", FINITE]
    labels: Annotated[FloatArray, "N", FINITE]


@dataclass(slots=True)
class WarmUp:
    """The first rows and the model that leads; afterwards, while seasons are sought, the last rows.

    Attributes
    ----------
    last : int
        Rows after which the leader is kept.
    n_rows : int
        Rows so far.
    parts, times, labels : deque of ndarray
        Chunks of rows, their times, and the labels they were given.
    n_held : int
        Rows in the chunks, the first of which may hold rows that are not needed any more.
    """

    last: int
    n_rows: int = 0
    parts: deque[FloatArray] = field(default_factory=deque)
    times: deque[FloatArray] = field(default_factory=deque)
    labels: deque[FloatArray] = field(default_factory=deque)
    n_held: int = 0

    @property
    def rows_to_go(self) -> int | None:
        """Number of rows to the next stage; None if there is none."""
        if self.is_over:
            return None
        return next(stage for stage in stages(self.last) if stage > self.n_rows) - self.n_rows

    @property
    def at_stage(self) -> bool:
        """Whether a model is to be built now."""
        return self.n_rows <= self.last and self.n_rows in stages(self.last)

    @property
    def is_over(self) -> bool:
        """Whether the last stage has been reached."""
        return self.n_rows >= self.last

    @property
    def n_kept(self) -> int:
        """Number of rows from which a model is built."""
        return min(self.n_rows, max(self.last, KEPT))

    @property
    def nbytes(self) -> int:
        """Bytes that the rows take."""
        return sum(part.nbytes for part in (*self.parts, *self.times, *self.labels))

    def arrays(self, n_features: int) -> dict[str, FloatArray]:
        """Return the arrays of a checkpoint, from which `resumed` goes on."""
        times, labels = self._last(self.times), self._last(self.labels)
        return {"early.x": self.rows(n_features), "early.t": times, "early.labels": labels}

    @classmethod
    def resumed(
        cls, last: int, n_rows: int, arrays: Mapping[str, FloatArray], n_features: int
    ) -> Self:
        """Return the warm-up that `arrays` described after so many rows."""
        check(EarlyRows, arrays, {"D": n_features}, "early.")
        x, t, labels = (arrays[f"early.{name}"].copy() for name in ("x", "t", "labels"))
        early = cls(last, n_rows, deque([x]), deque([t]), deque([labels]), len(t))
        refuse_if(early.n_held != early.n_kept, "warm-up")
        return early

    def _last(self, chunks: Iterable[FloatArray]) -> FloatArray:
        return np.concatenate([*chunks])[self.n_held - self.n_kept :]

    def rows(self, n_features: int) -> FloatArray:
        """Return the rows kept; words that came later are missing in earlier ones."""
        rows = np.full((self.n_held, n_features), np.nan)
        done = 0
        for X in self.parts:
            rows[done : done + len(X), : X.shape[1]] = X
            done += len(X)
        return rows[self.n_held - self.n_kept :]

    def take(
        self, leader: Engine | None, X: FloatArray, net: FloatArray, t: FloatArray
    ) -> FloatArray:
        """Let the leader predict and learn rows, net of seasons, up to the next stage at most."""
        if leader is None:
            out = np.full((len(X), N_COLUMNS), np.nan)
            out[:, [LABEL, SETTLED, OUTLIER]], out[:, LIVE_TABLES] = 0, 1
        else:
            out = leader.step(net, t)
        self.parts.append(X.copy())
        self.times.append(t.copy())
        self.labels.append(out[:, LABEL].copy())
        self.n_rows, self.n_held = self.n_rows + len(X), self.n_held + len(X)
        while self.n_held - len(self.times[0]) >= self.n_kept:
            self.n_held -= len(self.times[0])
            for chunks in (self.parts, self.times, self.labels):
                chunks.popleft()
        return out

    def lead(
        self, recipe: Recipe, family: Likelihood, leader: Engine | None, names: list[str],
        first_time: float | None, season: Subtraction | None = None,
    ) -> Engine:  # fmt: skip
        """Build a model for each candidate from all rows so far and return the best one.

        The rows are taken less the seasons as they are known now. The best one's tables take over
        the ids of those tables of the leader whose rows they hold.
        """
        width = max(X.shape[1] for X in self.parts)
        rows, times, said = self.rows(width), self._last(self.times), self._last(self.labels)
        if self.n_rows == min(FEW, self.last) and looks_scaled_on_the_way(rows):
            _log.warning(
                "the rows look as if they came from a scaler that learns as it goes, such as "
                "river's StandardScaler: it pulls regimes towards each other. Leave it out; the "
                "model takes the scale of each column from its first rows"
            )
        if season is not None and season.tracker is not None:
            family, rows = family.on_grid(rows), rows - season.at(times)
        candidates, unit = recipe.candidates(family), recipe.unit(times, first_time)
        trials: list[tuple[float, Candidate, Engine, FloatArray]] = []

        def learned(prior: Likelihood, opening: float, decay: Decay) -> tuple[Engine, FloatArray]:
            engine = recipe.start(prior, width, opening, decay, first_time, unit)
            engine.state.counts[N_SEEN] = self.n_rows - len(rows)
            return engine, engine.step(rows, times)

        def compare(
            chosen: Iterable[Candidate], family: Likelihood, handicap: float, counts: Any = True
        ) -> None:
            likelihood = recipe.fitted(family, rows, names)
            trying = [c for c in chosen if c.opening < BLIND or self.n_rows >= FEW]
            priors = {
                spread: likelihood.spread_by(spread / TABLE_VARIANCE, rows)
                for spread in {c.spread for c in trying if family.free_spread}
            }
            for candidate in trying:
                prior = priors.get(candidate.spread, likelihood)
                engine, out = learned(prior, candidate.opening, recipe.decay)
                score = -float(out[:, SCORE].sum(where=counts))
                score -= handicap + _handicap(candidate, candidates)
                trials.append((score, candidate, engine, out))

        compare(candidates, family, 0.0)
        if recipe.warp and self.n_rows >= FEWEST_ROWS:
            warped = family.warped(rows)
            if warped is not family:
                broad = [candidate for candidate in candidates if candidate.spread >= BROAD]
                _, leading, _, out = max(trials, key=_first)
                runs = far_runs(rows).any(axis=1)  # no evidence for tails: as without maps
                handicap = LEAD + float(out[:, SCORE].sum(where=runs))
                compare(dict.fromkeys([leading, *broad]), warped, handicap, ~runs)
        reaches = recipe.reaches[1:]
        if reaches:
            memory = 1.0 / column_powers(rows).min()
            reaches = tuple(reach for reach in reaches if reach >= memory)
        for score, candidate, engine, out in sorted(trials, key=_first, reverse=True)[:LEADERS]:
            for reach in reaches:
                other, seen = learned(engine.likelihood, candidate.opening, Exponential(reach))
                gain = float((out - seen)[:, SCORE].sum())
                gain -= SMALL_LEAD if reach > recipe.decay.scale else 0.0
                trials.append((score + gain, candidate, other, seen))
        reached, chosen, best, out = max(trials, key=_first)
        _log.debug(
            "prior by the first %d rows: opening %g, spread %g, reach %g (log score %.1f; others: "
            "%s)",
            self.n_rows, chosen.opening, chosen.spread, best.decay.scale, reached,
            ", ".join(
                f"{other.opening:g}/{other.spread:g}/{engine.decay.scale:g} {b:.1f}"
                for b, other, engine, _ in trials
            ),
        )  # fmt: skip
        if self.is_over:
            _log.info(
                "prior chosen after %d rows: chance of a new regime %g, variance within a regime "
                "%g of the total variance",
                self.n_rows, chosen.opening, chosen.spread,
            )  # fmt: skip
            if recipe.reaches:
                _log.info("links reach back about %g rows", best.decay.scale)
        for remark in best.likelihood.remarks(names):
            _log.log(logging.INFO if self.is_over else logging.DEBUG, "%s", remark)
        old = None if leader is None else leader.state
        _take_over_ids(old, said, best.state, out[:, LABEL], self.n_rows - 1)
        return best


def _first(trial: tuple[float, Candidate, Engine, FloatArray]) -> float:
    return trial[0]


def _handicap(candidate: Candidate, candidates: Sequence[Candidate]) -> float:
    """Nats by which a candidate must lead those that open tables most seldom."""
    if candidate.opening >= BLIND:
        return LEAD
    least = min(other.opening for other in candidates)
    return SMALL_LEAD if candidate.opening > least else 0.0


def _take_over_ids(
    old: State | None, old_labels: FloatArray, new: State, new_labels: FloatArray, last: int
) -> None:
    """Rename the tables of ``new`` after those of ``old`` that hold the same rows; report the rest.

    ``last`` is the number of the last row.

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
    births = []
    reported, before = new.atoms.reported, _reported(old)
    now_t = float(new.sums[LAST_TIME])
    for m, now in enumerate(ids.tolist()):
        if now not in name:
            name[now] = next_id
            next_id += 1
        if name[now] in before:
            reported[m] = REPORTED if reported[m] >= UNREPORTED else REPORTED - STRAY
        elif reported[m] in {REPORTED, REPORTED - STRAY}:
            births.append((name[now], int(born[m])))
        ids[m] = name[now]
    new.counts[NEXT_ID] = next_id
    new.counts[REGIME] = name.get(int(new.counts[REGIME]), -1)
    state = -1 if old is None else int(old.counts[STATE])
    new.counts[STATE] = state if state in taken else name.get(int(new.counts[STATE]), -1)
    new.counts[LIKELY] = -1
    new.counts[N_EVENTS] = 0
    if old is not None:
        new.counts[N_EVENTS] = old.counts[N_EVENTS]
        for target, source in zip(new.events, old.events, strict=True):
            target[:] = source
        for was in before:
            if was not in taken:
                stays = Counter({now: n for (w, now), n in shared.items() if w == was})
                into = name.get(stays.most_common(1)[0][0], -1) if stays else -1
                kind = DEATH if into < 0 else MERGE
                record(new.events, new.counts, N_EVENTS, kind, was, into, last, now_t)
    for label, arrival in births:
        record(new.events, new.counts, N_EVENTS, BIRTH, label, -1, arrival, now_t)


def _reported(state: State | None) -> list[int]:
    """Return the ids of the tables that users know of."""
    if state is None:
        return []
    pairs = zip(state.table.ids, state.atoms.reported[: state.n_tables], strict=False)
    return [int(label) for label, reported in pairs if reported in {REPORTED, REPORTED - STRAY}]
