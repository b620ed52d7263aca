"""Model choice by the first rows of a stream: priors compete, and the log score decides.

Initially nothing is known of the data, and a prior that is too broad or too narrow, or opens tables
too readily or too slowly, costs the whole stream. A model is therefore rebuilt from all rows so far
after 8, 16, 32, .. rows, up to the end of the warm-up: one for each candidate prior, scaled by
those rows. The one that predicted them best, each row by those before it, predicts and learns until
the next stage. The sum of these log scores estimates the log evidence, and candidates are compared
by it (`contest`) rather than by their bounds: if tables overlap, a bound also pays for uncertain
seating, so it prefers one broad table to many long after the broad one predicts worse. While a long
contest runs, the old model answers; the best candidate then learns the rows that came meanwhile.
"""

import logging
import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple, Self

import numpy as np

from streamddcrp.contract import BIRTH, DEATH, LABEL, LIVE_TABLES, MERGE, SPLIT, record
from streamddcrp.data.laws.columns import Laws
from streamddcrp.data.scaled import looks_scaled_on_the_way, tell_of_constants
from streamddcrp.data.seasons.subtracted import Subtraction
from streamddcrp.likelihoods import Likelihood, likelihood_from_config
from streamddcrp.models.seqddcrp.contest import FEW, Contest
from streamddcrp.models.seqddcrp.engine import Engine, note_times
from streamddcrp.models.seqddcrp.kernels import layout as at
from streamddcrp.models.seqddcrp.kernels.known import REPORTED, STRAY, UNREPORTED
from streamddcrp.models.seqddcrp.kernels.reasons import FIRST, NOTES
from streamddcrp.models.seqddcrp.recipe import Recipe
from streamddcrp.models.seqddcrp.state import State
from streamddcrp.records import FINITE, VALUE, check, refuse_if
from streamddcrp.typing import FloatArray, IntArray

_log = logging.getLogger(__name__)

FIRST_STAGE = 8  # rows
JUDGED = 512  # last rows, on which laws are compared with tables alone
CLEAR_LEAD = 10.0  # nats by which laws, and seasons, must lead or trail there to be changed
KEPT = 1024  # rows to restart from if seasons are found after the warm-up


def _joined(parts: Iterable[FloatArray], n_features: int) -> FloatArray:
    """Return chunks of rows as one; words new in later chunks are missing in earlier ones."""
    return np.concatenate([
        X if X.shape[1] == n_features
        else np.pad(X, [(0, 0), (0, n_features - X.shape[1])], constant_values=np.nan)
        for X in (np.empty((0, n_features)), *parts)
    ])  # fmt: skip


def stages(last: int) -> list[int]:
    """Return the number of rows after which the model is rebuilt, at most ``last``."""
    doubling = [FIRST_STAGE << k for k in range(last.bit_length()) if FIRST_STAGE << k < last]
    return [*doubling, last]


class ContestRows(NamedTuple):
    """Stored rows minus their seasons: those of a contest, and those since it began."""

    x: Annotated[FloatArray, "N W", VALUE]
    late: Annotated[FloatArray, "L D", VALUE]


class EarlyRows(NamedTuple):
    """Stored rows of the warm-up."""

    x: Annotated[FloatArray, "N D", VALUE]
    t: Annotated[FloatArray, "N", FINITE]
    labels: Annotated[FloatArray, "N", FINITE]


@dataclass(slots=True)
class WarmUp:
    """The first rows and the leading model; later, while seasons are sought, the last rows.

    ``last``: rows after which the leader is final. ``n_rows``: rows so far. ``parts``, ``times``,
    ``labels``: chunks of rows, with their times and given labels; ``n_held``: rows in them, the
    oldest perhaps no longer needed. ``contest``: the running contest for the next leader; ``late``:
    rows since it began, minus seasons. ``raw``: the leader has learned rows with their seasons.
    ``proven``: number of rows when laws last led tables alone.
    """

    last: int
    n_rows: int = 0
    parts: deque[FloatArray] = field(default_factory=deque)
    times: deque[FloatArray] = field(default_factory=deque)
    labels: deque[FloatArray] = field(default_factory=deque)
    n_held: int = 0
    contest: Contest | None = None
    late: list[FloatArray] = field(default_factory=list)
    raw: bool = False
    proven: int = 0

    @property
    def rows_to_go(self) -> int | None:
        """Number of rows to the next stage; None if there is none."""
        if self.is_over:
            return None
        return next(stage for stage in stages(self.last) if stage > self.n_rows) - self.n_rows

    @property
    def at_stage(self) -> bool:
        """Whether a model is due to be built."""
        return self.n_rows <= self.last and self.n_rows in stages(self.last)

    @property
    def is_over(self) -> bool:
        """Whether the last stage has been reached."""
        return self.n_rows >= self.last

    @property
    def n_kept(self) -> int:
        """Number of rows to build a model from."""
        return min(self.n_rows, max(self.last, KEPT) + self._n_late)

    @property
    def _n_late(self) -> int:
        return sum(len(rows) for rows in self.late)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        rows = sum(part.nbytes for part in (*self.parts, *self.times, *self.labels, *self.late))
        return rows + (0 if self.contest is None else self.contest.nbytes)

    def arrays(self, n_features: int) -> dict[str, FloatArray]:
        """Return the arrays of a checkpoint; `resumed` restores them."""
        times, labels = self._last(self.times), self._last(self.labels)
        kept = {"early.x": self.rows(n_features), "early.t": times, "early.labels": labels}
        if self.contest is not None:
            late = _joined(self.late, n_features)
            kept |= {"contest.x": self.contest.rows, "contest.late": late}
        return kept

    @classmethod
    def resumed(
        cls, last: int, n_rows: int, arrays: Mapping[str, FloatArray], n_features: int
    ) -> Self:
        """Return the warm-up that `arrays` described after so many rows."""
        check(EarlyRows, arrays, {"D": n_features}, "early.")
        x, t, labels = (arrays[f"early.{name}"].copy() for name in ("x", "t", "labels"))
        early = cls(last, n_rows, deque([x]), deque([t]), deque([labels]), len(t))
        if "contest.late" in arrays:
            early.late = [arrays["contest.late"].copy()]
        refuse_if(early.n_held != early.n_kept, "warm-up")
        return early

    def resume_contest(
        self, recipe: Recipe, leader: Engine, meta: Mapping[str, Any],
        arrays: Mapping[str, FloatArray], names: list[str], first_time: float | None,
    ) -> None:  # fmt: skip
        """Repeat a checkpoint's contest: one step for each row since it began, and one more."""
        check(ContestRows, arrays, {"D": len(names)}, "contest.")
        rows, family = arrays["contest.x"].copy(), likelihood_from_config(meta["family"])
        n, width = rows.shape
        together = 0 < n == self.n_held - self._n_late and width <= len(names)
        refuse_if(not together or type(meta["raw"]) is not bool, "contest")
        family.check_rows(rows, names)
        self.raw = meta["raw"]
        self.contest = Contest(
            recipe, family, rows, self._last(self.times)[:n], names[:width], first_time,
            self.n_rows - self._n_late - n, leader.opening,
        )  # fmt: skip
        for _ in range(1 + self._n_late):
            self.contest.go()
            refuse_if(self.contest.is_over, "contest")

    def _last(self, chunks: Iterable[FloatArray]) -> FloatArray:
        return np.concatenate([*chunks])[self.n_held - self.n_kept :]

    def rows(self, n_features: int) -> FloatArray:
        """Return the stored rows; words new in later rows are missing in earlier ones."""
        return _joined(self.parts, n_features)[self.n_held - self.n_kept :]

    def take(
        self, leader: Engine | None, X: FloatArray, net: FloatArray, t: FloatArray
    ) -> FloatArray:
        """Let the leader predict and learn rows, minus seasons, at most up to the next stage."""
        if leader is None:
            out = np.full((len(X), at.N_COLUMNS), np.nan)
            out[:, [LABEL, at.FILTERED, at.SETTLED, at.OUTLIER]], out[:, LIVE_TABLES] = 0, 1
        else:
            out = leader.step(X if self.leads_raw else net, t)
        self.parts.append(X.copy())
        self.times.append(t.copy())
        self.labels.append(out[:, LABEL].copy())
        if self.contest is not None:
            self.late.append(net.copy())
        self.n_rows, self.n_held = self.n_rows + len(X), self.n_held + len(X)
        while self.n_held - len(self.times[0]) >= self.n_kept:
            self.n_held -= len(self.times[0])
            for chunks in (self.parts, self.times, self.labels):
                chunks.popleft()
        return out

    def amend(self, back: int, x: FloatArray) -> None:
        """Replace the values (D,) of the row ``back`` rows ago."""
        held = len(self.times) - 1
        while back > len(self.times[held]):
            back -= len(self.times[held])
            held -= 1
        self.parts[held] = _joined([self.parts[held]], len(x))
        self.parts[held][-back] = x

    def begin(
        self, recipe: Recipe, family: Likelihood, leader: Engine | None, names: list[str],
        first_time: float | None, season: Subtraction | None, laws: Laws | None, *, raw: bool,
    ) -> None:  # fmt: skip
        """Begin a contest over all rows so far, minus present seasons and laws.

        ``raw`` says whether the leader has learned rows with their seasons.
        """
        rows, times = self.rows(max(X.shape[1] for X in self.parts)), self._last(self.times)
        if self.n_rows == min(FEW, self.last) and looks_scaled_on_the_way(rows):
            _log.warning(
                "the rows look as if they came from a scaler that learns as it goes, such as "
                "river's StandardScaler: it pulls regimes towards each other. Leave it out; the "
                "model takes the scale of each column from its first rows"
            )
        if self.n_rows == self.last:
            tell_of_constants(rows, names)
        if laws is not None:
            rows = laws.held.begin(rows)
        if season is not None and not season.is_new:
            season.rescale(rows, times)
        net = plain = rows if season is None else season.less(rows, times)
        if laws is not None and laws.n_looked:
            least = -CLEAR_LEAD if laws.subtracts and self.n_rows > self.last else CLEAR_LEAD
            net = laws.begin(plain)
            proven = self.proven == self.n_rows and (season is None or season.tracker is None)
            if laws.subtracts and not (
                laws.is_given
                or proven
                or self._lead(recipe, family, laws, (plain, net), names, first_time, least)
            ):
                laws.leave()
                net = plain
            family = laws.as_numbers(family)
            laws.say(names)
        if not np.array_equal(net, rows, equal_nan=True):
            family, rows = family.on_grid(rows), net
        self.raw, self.late = raw or self.leads_raw, []
        self.contest = Contest(
            recipe, family, rows, times, names, first_time, self.n_rows - len(rows),
            None if leader is None else leader.opening,
        )  # fmt: skip

    def would_predict(
        self, laws: Laws, recipe: Recipe, family: Likelihood, names: list[str],
        first_time: float | None, season: Subtraction | None,
    ) -> bool:  # fmt: skip
        """Whether the chosen laws would predict the stored rows better than tables alone."""
        trial = deepcopy(laws)
        plain = self.rows_less_season(season, trial, len(names))
        net = trial.begin(plain)
        if not trial.subtracts or trial.is_given:
            return trial.subtracts
        both = plain, net
        if self._lead(recipe, family, trial, both, names, first_time, CLEAR_LEAD):
            self.proven = self.n_rows
        return self.proven == self.n_rows

    def _lead(
        self, recipe: Recipe, family: Likelihood, laws: Laws, both: tuple[FloatArray, FloatArray],
        names: list[str], first_time: float | None, least: float,
    ) -> bool:  # fmt: skip
        """Return whether rows minus what is foreseen are predicted better, of ``both`` (N, D)."""
        plain, net = both
        rivals = (family, plain), (laws.as_numbers(family), net)
        least -= laws.log_factors(plain[-JUDGED:], net[-JUDGED:])
        return self.leads(recipe, rivals, names, first_time, least)

    def leads(
        self, recipe: Recipe, rivals: Iterable[tuple[Likelihood, FloatArray]], names: list[str],
        first_time: float | None, least: float,
    ) -> bool:  # fmt: skip
        """Return whether priors predict the last stored rows better in the second view.

        ``rivals``: two views, each a family and rows (N, D); the second must lead by more than
        ``least`` nats, and its priors are tried only until one does.
        """
        recipe = replace(recipe, reaches=(), temper=False, warp=False, correlate=False)
        best: list[float] = []
        for family, X in rivals:
            n, enough = min(len(X), JUDGED), best[0] + least if best else math.inf
            contest = Contest(
                recipe, family.on_grid(X[-n:]), X[-n:], self._last(self.times)[-n:], names,
                first_time, self.n_rows - n, None,
            )  # fmt: skip
            while not contest.is_over and not (contest.trials and contest.best.score > enough):
                contest.go(at_once=not best)
            best.append(contest.best.score)
        return best[1] > best[0] + least

    def log_factors(self, season: Subtraction) -> float:
        """Return the log divisor of the densities in `leads`, for multiplicative seasons."""
        return season.log_factors(self._last(self.times)[-JUDGED:])

    def rescale(self, season: Subtraction, laws: Laws | None, n_features: int) -> None:
        """Decide from the stored rows which seasons multiply."""
        rows = self.rows(n_features)
        season.rescale(rows if laws is None else laws.held.begin(rows), self._last(self.times))

    def rows_less_season(
        self, season: Subtraction | None, laws: Laws, n_features: int
    ) -> FloatArray:
        """Return the stored rows without resent values, minus the present seasons."""
        rows = laws.held.begin(self.rows(n_features))
        return rows if season is None else season.less(rows, self._last(self.times))

    @property
    def leads_raw(self) -> bool:
        """Whether the leader learns rows with their seasons, until the contest ends."""
        return self.contest is not None and self.raw

    def go_on(
        self, leader: Engine | None, names: list[str], *, at_once: bool = False
    ) -> Engine | None:
        """Do one step or all of the contest; return the present leader.

        Without a leader the contest runs at once. When it is over, the best candidate learns the
        rows that came meanwhile and leads. Its tables take over the ids of the leader's tables that
        hold the same rows.
        """
        contest = self.contest
        if contest is None:
            return leader
        contest.go(at_once=at_once or leader is None)
        if not contest.is_over:
            return leader
        best, labels = contest.engine, contest.labels
        self._report(contest, names)
        if self.late:
            late = _joined(self.late, self.late[-1].shape[1])
            out = best.step(late, self._last(self.times)[len(labels) :])
            labels = np.concatenate([labels, out[:, LABEL]])
        old = None if leader is None else leader.state
        times = self._last(self.times)
        is_last = contest.n_rows >= self.last
        made = _take_over_ids(
            old, self._last(self.labels), best.state, labels, self.n_rows - 1, is_last=is_last
        )
        note_times(best.state, [self.n_rows - len(times), made, 0], times, best.in_time(times))
        self.contest, self.late = None, []
        return best

    def _report(self, contest: Contest, names: list[str]) -> None:
        chosen, best = contest.best.entry.candidate, contest.engine
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug(
                "prior by the first %d rows: opening %g, spread %g, reach %g (log score %.1f; "
                "others: %s)",
                contest.n_rows, chosen.opening, chosen.spread, best.decay.scale,
                contest.best.score, ", ".join(map(str, contest.trials)),
            )  # fmt: skip
        is_last = contest.n_rows >= self.last
        if is_last:
            _log.info(
                "prior chosen after %d rows: chance of a new regime %g, variance within a regime "
                "%g of the total variance",
                contest.n_rows, chosen.opening, chosen.spread,
            )  # fmt: skip
            if contest.recipe.reaches:
                _log.info("links reach back about %g rows", best.decay.scale)
        for remark in best.likelihood.remarks(names):
            _log.log(logging.INFO if is_last else logging.DEBUG, "%s", remark)


def _take_over_ids(
    old: State | None, old_labels: FloatArray, new: State, new_labels: FloatArray, last: int,
    *, is_last: bool,
) -> int:  # fmt: skip
    """Rename the tables of ``new`` after those of ``old`` that hold the same rows; report the rest.

    ``last`` is the number of the last row. Return the number of events before.

    Each pair of tables is matched once, the largest common number of rows first. A table of an
    earlier prior without a match may find one under a later prior. Under the last one, it counts as
    merged into the table with most of its rows.
    """
    before = _reported(old)
    alive = {0, *before} if old is None else {*before, *old.table.ids[: old.n_tables].tolist()}
    shared = Counter(
        zip(old_labels.astype(int).tolist(), new_labels.astype(int).tolist(), strict=True)
    )
    name: dict[int, int] = {}
    taken: set[int] = set()
    for (was, now), _ in shared.most_common():
        if was in alive and was not in taken and now not in name:
            name[now] = was
            taken.add(was)
    next_id = 1 if old is None else int(old.counts[at.NEXT_ID])
    ids: IntArray = new.table.ids[: new.n_tables]
    own = set(new.atoms.mix_id.tolist()) - {-1, *ids.tolist()}  # those of mixed states only
    name |= {label: next_id + i for i, label in enumerate(sorted(own))}
    next_id += len(own)
    born = new.table.born[: new.n_tables]
    births = []
    reported = new.atoms.reported
    now_t = float(new.sums[at.LAST_TIME])
    for m, now in enumerate(ids.tolist()):
        if now not in name:
            name[now] = next_id
            next_id += 1
        if name[now] in before:
            reported[m] = REPORTED if reported[m] >= UNREPORTED else REPORTED - STRAY
        elif reported[m] in {REPORTED, REPORTED - STRAY}:
            births.append((name[now], int(born[m])))
        ids[m] = name[now]
    new.counts[at.NEXT_ID] = next_id
    new.counts[at.REGIME] = name.get(int(new.counts[at.REGIME]), -1)
    state = -1 if old is None else int(old.counts[at.STATE])
    new.counts[at.STATE] = state if state in taken else name.get(int(new.counts[at.STATE]), -1)
    new.counts[at.LIKELY] = new.counts[at.ASKED] = -1
    new.atoms.mix_id[:] = [name.get(label, -1) for label in new.atoms.mix_id.tolist()]
    new.counts[at.N_EVENTS] = 0
    new.scratch.told[:], new.scratch.noted[:], new.events.noted[:] = -1, 0, 0
    if old is not None:
        # notes on events remain valid, by the laws of their time
        new.scratch.noted[:] = old.counts[at.N_EVENTS], old.scratch.noted[NOTES]
        new.counts[at.N_EVENTS] = old.counts[at.N_EVENTS]
        for target, source in zip(new.events, old.events, strict=True):
            target[:] = source
        numbers = np.arange(max(0, new.counts[at.N_EVENTS] - len(target)), new.counts[at.N_EVENTS])
        new.events.noted[numbers % len(target)] = (FIRST + 1) * numbers + FIRST
        for was in before if is_last else ():
            if was not in taken:
                stays = Counter({now: n for (w, now), n in shared.items() if w == was})
                into = name.get(stays.most_common(1)[0][0], -1) if stays else -1
                kind = DEATH if into < 0 else MERGE
                record(new.events, new.counts, at.N_EVENTS, kind, was, into, last, now_t)
    for label, arrival in births:
        record(new.events, new.counts, at.N_EVENTS, BIRTH, label, -1, arrival, now_t)
    return 0 if old is None else int(old.counts[at.N_EVENTS])


def _reported(state: State | None) -> list[int]:
    """Return the ids of tables known to users, including those of earlier priors."""
    if state is None:
        return []
    pairs = zip(state.table.ids, state.atoms.reported[: state.n_tables], strict=False)
    known = [int(label) for label, reported in pairs if reported in {REPORTED, REPORTED - STRAY}]
    n = state.counts[at.N_EVENTS]
    kind, label = state.events.kind[:n], state.events.label[:n]
    begun = set(label[(kind == BIRTH) | (kind == SPLIT)].tolist())
    ended = set(label[(kind == MERGE) | (kind == DEATH)].tolist())
    return [*known, *sorted(begun - ended - {*known})]
