"""A contest of priors: each learns the first rows, and the one that has predicted them best wins.

It goes in steps, so that it can be spread over the rows that follow. There are three rounds: the
candidates of the preset; the leading and the broad ones with warped columns; the best three of all
with other reaches of links. Who takes part in a round is known when the one before has ended.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamddcrp.contract import SCORE
from streamddcrp.decay import Decay, Exponential
from streamddcrp.likelihoods import Likelihood
from streamddcrp.likelihoods.columns import TABLE_VARIANCE, column_powers
from streamddcrp.likelihoods.warp import FEWEST_ROWS, far_runs
from streamddcrp.models.seqddcrp.config import Candidate
from streamddcrp.models.seqddcrp.engine import Engine
from streamddcrp.models.seqddcrp.kernels.layout import N_SEEN
from streamddcrp.models.seqddcrp.recipe import Recipe
from streamddcrp.typing import FloatArray

BLIND = 0.3  # probability of opening a table from which a candidate is blind to order
FEW = 64  # rows before which blind candidates are not tried
LEAD = 5.0  # nats by which blind candidates, and warped columns, must lead
SMALL_LEAD = 2.0  # nats for those that open tables less seldom than others, or reach further
LEADERS = 3  # candidates for which other reaches of links are tried
BROAD = 0.2  # spread from which candidates are tried with warped columns


_COST = 16  # columns that a row costs whatever its columns
_SMALL = 6144  # rows times columns of a contest that one row waits for: 256 rows of 8 columns
_STEP = 1 << 14  # rows times columns that candidates learn with one row of others: 1,024 rows


@dataclass(slots=True)
class Trial:
    """A candidate on trial.

    Attributes
    ----------
    handicap : float
        Nats by which it must lead.
    counts : ndarray of bool, shape (N,), or True
        Rows whose scores count.
    other : Trial, optional
        The same candidate with another reach, whose score is the one to start from.
    engine : Engine, optional
        As long as it leads.
    out : ndarray of float64, shape (N, 7), optional
        What it has predicted.
    score : float
    """

    candidate: Candidate
    prior: Likelihood
    decay: Decay
    handicap: float
    counts: Any = True
    other: "Trial | None" = None
    engine: Engine | None = None
    out: Any = None
    score: float = -np.inf

    def judge(self) -> None:
        """Give the score, once all rows are learned."""
        if self.other is None:
            self.score = -float(self.out[:, SCORE].sum(where=self.counts))
        else:
            self.score = self.other.score + float((self.other.out - self.out)[:, SCORE].sum())
        self.score -= self.handicap


@dataclass(slots=True)
class Contest:
    """A contest over rows (N, D), less their seasons, at times (N,).

    Attributes
    ----------
    n_before : int
        Number of rows of the stream before these.
    trials : list of Trial
        Of the rounds so far; the first ``n_judged`` have their score.
    best : Trial or None
        The first of those with the highest score.
    """

    recipe: Recipe
    family: Likelihood
    rows: FloatArray
    times: FloatArray
    names: Sequence[str]
    first_time: float | None
    n_before: int
    trials: list[Trial] = field(default_factory=list)
    n_judged: int = 0
    n_rounds: int = 0
    best: Trial | None = None

    @property
    def is_over(self) -> bool:
        """Whether all candidates have learned all rows."""
        return self.n_rounds == len(_ROUNDS) and self.n_judged == len(self.trials)

    @property
    def nbytes(self) -> int:
        """Bytes that its arrays take."""
        seen = (trial.out for trial in self.trials[: self.n_judged])
        engine = None if self.best is None else self.best.engine
        kept = sum(int(array.nbytes) for array in (self.rows, self.times, *seen))
        return kept + (0 if engine is None else engine.nbytes)

    def go(self, *, at_once: bool = False) -> None:
        """Do as much as a row may wait for, or all that is left."""
        size, done = len(self.rows) * (_COST + self.rows.shape[1]), 0
        most = math.inf if at_once or size <= _SMALL else _STEP
        while done < most and not self.is_over:
            self._go()
            done += size

    def _go(self) -> None:
        """Let one candidate learn all rows, or call those of the next round."""
        if self.n_judged == len(self.trials):
            _ROUNDS[self.n_rounds](self)
            self.n_rounds += 1
            return
        trial, width = self.trials[self.n_judged], self.rows.shape[1]
        unit = self.recipe.unit(self.times, self.first_time)
        trial.engine = self.recipe.start(
            trial.prior, width, trial.candidate.opening, trial.decay, self.first_time, unit
        )
        trial.engine.state.counts[N_SEEN] = self.n_before
        trial.out = trial.engine.step(self.rows, self.times)
        trial.judge()
        self.n_judged += 1
        loser: Trial | None = trial
        if self.best is None or trial.score > self.best.score:
            self.best, loser = trial, self.best
        if loser is not None:
            loser.engine = None

    def _call(
        self, chosen: Sequence[Candidate], family: Likelihood, handicap: float, counts: Any = True
    ) -> None:
        """Put candidates on trial with a family fitted to the rows."""
        likelihood = self.recipe.fitted(family, self.rows, self.names)
        n_rows = self.n_before + len(self.rows)
        trying = [c for c in chosen if c.opening < BLIND or n_rows >= FEW]
        priors = {
            spread: likelihood.spread_by(spread / TABLE_VARIANCE, self.rows)
            for spread in {c.spread for c in trying if family.free_spread}
        }
        least = min(c.opening for c in self.recipe.candidates(self.family))
        for candidate in trying:
            prior = priors.get(candidate.spread, likelihood)
            lead = handicap + _handicap(candidate, least)
            self.trials.append(Trial(candidate, prior, self.recipe.decay, lead, counts))

    def _call_all(self) -> None:
        self._call(self.recipe.candidates(self.family), self.family, 0.0)

    def _call_warped(self) -> None:
        if not self.recipe.warp or self.n_before + len(self.rows) < FEWEST_ROWS:
            return
        warped = self.family.warped(self.rows)
        if warped is not self.family:
            leading = self._leaders(1)[0]
            candidates = self.recipe.candidates(self.family)
            broad = [candidate for candidate in candidates if candidate.spread >= BROAD]
            runs = far_runs(self.rows).any(axis=1)  # no evidence for tails: as without maps
            handicap = LEAD + float(leading.out[:, SCORE].sum(where=runs))
            self._call([*dict.fromkeys([leading.candidate, *broad])], warped, handicap, ~runs)

    def _call_reaches(self) -> None:
        reaches = self.recipe.reaches[1:]
        if not reaches:
            return
        memory = 1.0 / column_powers(self.rows).min()
        for trial in self._leaders(LEADERS):
            for reach in (reach for reach in reaches if reach >= memory):
                handicap = SMALL_LEAD if reach > self.recipe.decay.scale else 0.0
                other = Exponential(reach)
                self.trials.append(
                    Trial(trial.candidate, trial.prior, other, handicap, other=trial)
                )

    def _leaders(self, most: int) -> list[Trial]:
        return sorted(self.trials, key=lambda trial: trial.score, reverse=True)[:most]


_ROUNDS: tuple[Callable[[Contest], None], ...] = (
    Contest._call_all, Contest._call_warped, Contest._call_reaches,
)  # fmt: skip


def _handicap(candidate: Candidate, least: float) -> float:
    """Nats by which a candidate must lead those that open tables most seldom."""
    if candidate.opening >= BLIND:
        return LEAD
    return SMALL_LEAD if candidate.opening > least else 0.0
