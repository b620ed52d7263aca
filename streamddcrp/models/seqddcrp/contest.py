"""A contest of priors: each predicts the first rows, and the best log score wins.

The reach of links is chosen in the same way, for the best three of these priors. If regimes last,
links reach a row or two, and the next row is expected at the last row's table. If rows come in no
order, links reach far, and the next row is expected at the tables in proportion to their rows. A
longer reach than the initial one must lead, because it is slow to notice a shifted level. A reach
shorter than the memory of the noise is not tried: its tables would follow the noise. A reach
longer than the first rows is not tried either: there it only makes a new table likelier.

With few rows, many tables can easily fit by chance. A candidate must therefore lead those that open
tables most rarely and, up to row 63, those that expect one broad table. A candidate that expects
every other row to open a table hardly uses the order of rows, so it waits for some rows.

A prior drops out if it trails the best earlier one at the same row by 20 nats, or by 10 nats per
column if that is more: with more columns, a prior loses more before its tables are known.

A contest proceeds in steps, so that it can be spread over later rows. It has three rounds: the
candidates of the preset; the leading and the broad ones with warped columns; the best three of all
with other reaches of links. Each round depends on the previous one's result.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from streamddcrp.contract import LABEL, SCORE
from streamddcrp.decay import Decay, Exponential
from streamddcrp.likelihoods import Likelihood
from streamddcrp.likelihoods.auto import with_correlations
from streamddcrp.likelihoods.columns import TABLE_VARIANCE, column_powers
from streamddcrp.likelihoods.warp import FEWEST_ROWS
from streamddcrp.models.seqddcrp.config import Candidate
from streamddcrp.models.seqddcrp.engine import Engine, given_weights, note_times, run
from streamddcrp.models.seqddcrp.kernels.layout import N_COLUMNS, N_SEEN
from streamddcrp.models.seqddcrp.recipe import Recipe
from streamddcrp.models.seqddcrp.state import State, grown
from streamddcrp.typing import FloatArray

BLIND = 0.3  # probability of opening a table above which a candidate ignores the order
FEW = 64  # rows before which such candidates are not tried
LEAD = 5.0  # nats by which blind candidates, and warped columns, must lead
SMALL_LEAD = 2.0  # nats for those that open tables more often than others, or reach further
BROAD_LEAD = 4.0  # nats for narrower ones than the broadest up to row 63; 2: tables of slow noise
LEADERS = 3  # candidates for which other reaches of links are tried
BROAD = 0.2  # spread from which candidates are tried with warped columns
HOPELESS = 10.0  # nats for each column, of at least two, behind the best at which a prior drops out
PIECE = 32  # rows between a prior's comparisons with the best
COST = 16  # fixed cost of a row, in columns
SMALL = 6144  # rows times columns of a contest finished within one row: 256 rows of 8 columns
STEP = 1 << 14  # rows times columns learned by priors per new row: 1,024 rows


class Ready(NamedTuple):
    """Rows in the kernels' form for one family."""

    rows: FloatArray  # (N, hyper[0])
    past: FloatArray | None  # the part needed for the next rows
    slopes: FloatArray | None  # (N,), log slopes of a map, added to each row's log density


class Entry(NamedTuple):
    """A participating prior."""

    candidate: Candidate
    prior: Likelihood
    decay: Decay
    ready: Ready
    start: float  # log score to start from: its handicap


class Trial(NamedTuple):
    """A prior that has predicted all rows."""

    entry: Entry
    surprise: FloatArray  # (N,), of each row
    credit: FloatArray  # (N,), the log score after each row, minus handicaps

    @property
    def score(self) -> float:
        """Log score of all rows, minus handicaps."""
        return float(self.credit[-1])

    def __str__(self) -> str:
        """Describe the prior and its score, for the log."""
        opening, spread = self.entry.candidate
        return f"{opening:g}/{spread:g}/{self.entry.decay.scale:g} {self.score:.1f}"


class Contest:
    """A contest of priors over first rows, with seasons subtracted, and their times.

    ``first_time``: as for `Recipe.start`; ``n_before``: earlier rows of the stream; ``opening``:
    priors with this opening probability go first, which only affects how early others drop out.
    ``trials``: of priors that finished; ``best``, its ``engine``, and its ``labels`` (N,) on
    arrival.
    """

    best: Trial
    engine: Engine
    labels: FloatArray

    def __init__(
        self, recipe: Recipe, family: Likelihood, rows: FloatArray, times: FloatArray,
        names: Sequence[str], first_time: float | None, n_before: int, opening: float | None,
    ) -> None:  # fmt: skip
        self.recipe, self.family, self.rows, self.times = recipe, family, rows, times
        self.names, self.first_time, self.n_before = names, first_time, n_before
        self.unit = recipe.unit(times, first_time)
        self.candidates = sorted(recipe.candidates(family), key=lambda c: c.opening != opening)
        self.trials: list[Trial] = []
        self._waiting: deque[Entry] = deque()
        self._n_rounds = 0
        self._old: State | None = None  # of a prior that lost, for reuse
        self._hopeless = HOPELESS * max(2, rows.shape[1])

    @property
    def n_rows(self) -> int:
        """Number of the stream's rows up to the contest's last one."""
        return self.n_before + len(self.rows)

    @property
    def is_over(self) -> bool:
        """Whether all priors have predicted all rows or dropped out."""
        return self._n_rounds == len(_ROUNDS) and not self._waiting

    @property
    def nbytes(self) -> int:
        """Bytes that its arrays take."""
        kept = sum(one.surprise.nbytes + one.credit.nbytes for one in self.trials)
        return kept + self.rows.nbytes + self.times.nbytes + (self.engine.nbytes if kept else 0)

    def go(self, *, at_once: bool = False) -> None:
        """Do as much work as one row may wait for, or all of it."""
        size, done = len(self.rows) * (COST + self.rows.shape[1]), 0
        most = math.inf if at_once or size <= SMALL else STEP
        while done < most and not self.is_over:
            if self._waiting:
                self._try(self._waiting.popleft())
            else:
                _ROUNDS[self._n_rounds](self)
                self._n_rounds += 1
            done += size
        self._old = None
        if self.is_over:
            state = self.engine.state
            self.engine.state = grown(state, self.engine.config, len(state.table.ids))

    def _call_all(self) -> None:
        self._call(self.candidates, self.family, 0.0)

    def _call_warped(self) -> None:
        if not self.recipe.warp or self.n_rows < FEWEST_ROWS:
            return
        warped = self.family.warped(self.rows)
        if warped is not self.family:
            broad = [candidate for candidate in self.candidates if candidate.spread >= BROAD]
            chosen = dict.fromkeys([self.best.entry.candidate, *broad])
            self._call(chosen, warped, -LEAD)

    def _call_correlated(self) -> None:
        """Add candidates with dependent columns within tables.

        Scores of downweighted columns are not log densities. Candidates with dependent columns are
        therefore compared with fully weighted ones and, if these lose, with downweighted ones.
        """
        if not self.recipe.correlate:
            return
        found, n_free = with_correlations(self.family, self.rows, self.labels)
        if not n_free:
            return
        start = -LEAD - n_free  # the bias from numbers fitted to rows (Akaike, IEEE TAC 19, 1974)
        longest = tuple(sorted(self.recipe.reaches)[-1:])  # as what the winner may grow to
        plain = replace(self.recipe, temper=False, warp=False, reaches=longest, correlate=False)
        width = self.rows.shape[1]
        in_part, in_full = (
            one.fitted(self.family, self.rows, self.names).hyper(width)
            for one in (self.recipe, plain)
        )
        if np.array_equal(in_part, in_full):
            self._call(self.recipe.candidates(found), found, start)
            return
        rival = Contest(
            plain, self.family, self.rows, self.times, self.names, self.first_time, self.n_before,
            None,
        )  # fmt: skip
        rival._call(plain.candidates(found), found, start)
        rival.go(at_once=True)
        full = [one for one in rival.trials if one.entry.start <= start]
        if rival.best in full:
            self.trials, self.best, self.engine = full, rival.best, rival.engine
            self.labels = rival.labels

    def _call_reaches(self) -> None:
        reaches = self.recipe.reaches[1:]
        if not reaches:
            return
        memory = 1.0 / column_powers(self.rows).min()
        for trial in sorted(self.trials, key=_score, reverse=True)[:LEADERS]:
            for reach in reaches:
                if memory <= reach <= self.n_rows:
                    lead = SMALL_LEAD if reach > self.recipe.decay.scale else 0.0
                    start = trial.entry.start - lead
                    self._waiting.append(
                        trial.entry._replace(decay=Exponential(reach), start=start)
                    )

    def _call(self, candidates: Iterable[Candidate], family: Likelihood, start: float) -> None:
        """Add a family's candidates, from this log score on."""
        fitted = self.recipe.fitted(family, self.rows, self.names)
        least = min(candidate.opening for candidate in self.candidates)
        broadest = max(one.spread for one in self.candidates) if self.n_rows < FEW else 0.0
        trying = [c for c in candidates if c.opening < BLIND or self.n_rows >= FEW]
        priors = {
            spread: fitted.spread_by(spread / TABLE_VARIANCE, self.rows)
            for spread in {c.spread for c in trying if family.free_spread}
        }
        rows, past = fitted.prepare(self.rows)
        ready = Ready(np.ascontiguousarray(rows), past, fitted.log_slopes(self.rows))
        for candidate in trying:
            prior = priors.get(candidate.spread, fitted)
            handicap = _handicap(candidate.opening, least)
            handicap += BROAD_LEAD * (candidate.spread < broadest)
            entry = Entry(candidate, prior, self.recipe.decay, ready, start - handicap)
            self._waiting.append(entry)

    def _try(self, entry: Entry) -> None:
        """Let a prior predict the rows until it drops out."""
        width, n_rows = self.rows.shape[1], len(self.rows)
        engine = self.recipe.start(
            entry.prior, width, entry.candidate.opening, entry.decay, self.first_time, self.unit,
            n_rows=n_rows, old=self._old,
        )  # fmt: skip
        engine.state.counts[N_SEEN] = self.n_before
        ready = entry.ready
        rows = ready.rows.copy()  # an engine may impute missing values
        engine.past, times = ready.past, engine.in_time(self.times)
        given = given_weights(
            entry.decay, engine.config, engine.state, times, clocked=self.first_time is not None
        )
        out = np.empty((n_rows, N_COLUMNS))
        for done in range(0, n_rows, PIECE):
            upto = min(done + PIECE, n_rows)
            engine.state = run(
                engine.config, engine.state, rows[:upto], times[:upto], given, out, done
            )
            if ready.slopes is not None:
                out[done:upto, SCORE] -= ready.slopes[done:upto]
            if self.trials and upto < n_rows:
                credit = entry.start - out[:upto, SCORE].sum()
                if self.best.credit[upto - 1] - credit > self._hopeless:
                    self._old = engine.state
                    return
        surprise = out[:, SCORE]
        trial = Trial(entry, surprise, entry.start - np.cumsum(surprise))
        self._old = engine.state
        if not self.trials or trial.score > self.best.score:
            note_times(engine.state, [self.n_before, 0, 0], self.times, times)
            self._old = self.engine.state if self.trials else None
            self.best, self.engine, self.labels = trial, engine, out[:, LABEL]
        self.trials.append(trial)


_ROUNDS: tuple[Callable[[Contest], None], ...] = (
    Contest._call_all, Contest._call_warped, Contest._call_correlated, Contest._call_reaches,
)  # fmt: skip


def _score(trial: Trial) -> float:
    return trial.score


def _handicap(opening: float, least: float) -> float:
    """Nats by which a candidate must lead those that open tables most rarely."""
    if opening >= BLIND:
        return LEAD
    return SMALL_LEAD if opening > least else 0.0
