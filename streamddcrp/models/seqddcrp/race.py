"""The race of priors on the first rows: each predicts them all, and the best log score wins.

How far links reach is chosen likewise, for the best three of these priors: a row or two where
regimes last, so that the next row is expected where the last one sits, and to many where rows come
in no order, so that it is expected at the tables in proportion to their rows. A reach that is
longer than at the start must lead, for it is slow to see that a level has shifted. One that is
shorter than the memory of the noise is left out: its tables would follow the noise.

Of a few rows, many tables are easily right by chance. So a candidate must lead those that open
tables most seldom; and one that expects every other row to open a table, which hardly looks at
their order, waits for some rows.

A prior gives up that trails the best one of those before it at the same row: by 20 nats, or by 10
for each column if that is more, since what a prior loses until its tables are known grows with
their columns.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from streamddcrp.contract import LABEL, SCORE
from streamddcrp.decay import Decay, Exponential
from streamddcrp.likelihoods import Likelihood
from streamddcrp.likelihoods.columns import TABLE_VARIANCE, column_powers
from streamddcrp.likelihoods.warp import FEWEST_ROWS, far_runs
from streamddcrp.models.seqddcrp.config import Candidate
from streamddcrp.models.seqddcrp.engine import Engine, given_weights, run
from streamddcrp.models.seqddcrp.kernels.layout import N_COLUMNS, N_SEEN
from streamddcrp.models.seqddcrp.recipe import Recipe
from streamddcrp.models.seqddcrp.state import grown
from streamddcrp.typing import FloatArray

BLIND = 0.3  # probability of opening a table from which a candidate is blind to order
FEW = 64  # rows before which blind candidates are not tried
LEAD = 5.0  # nats by which blind candidates, and warped columns, must lead
SMALL_LEAD = 2.0  # nats for those that open tables less seldom than others, or reach further
LEADERS = 3  # candidates for which other reaches of links are tried
BROAD = 0.2  # spread from which candidates are tried with warped columns
HOPELESS = 10.0  # nats for each column, of two or more, behind the best at which a trial gives up
PIECE = 32  # rows after which a trial looks how far it is behind


class Ready(NamedTuple):
    """Rows as the kernels read them for one family."""

    rows: FloatArray  # (N, hyper[0])
    past: FloatArray | None  # what the next rows need of them
    slopes: FloatArray | None  # (N,), what a map adds to the log density of each row


class Trial(NamedTuple):
    """A prior that has predicted all rows."""

    candidate: Candidate
    prior: Likelihood
    decay: Decay
    ready: Ready
    surprise: FloatArray  # (N,), of each row
    credit: FloatArray  # (N,), the log score after each row, less handicaps

    @property
    def score(self) -> float:
        """Log score of all rows, less handicaps."""
        return float(self.credit[-1])

    def __str__(self) -> str:
        """Say what the prior is, and its score, for the log."""
        opening, spread = self.candidate
        return f"{opening:g}/{spread:g}/{self.decay.scale:g} {self.score:.1f}"


class Race:
    """Priors that compete on the first rows of a stream.

    Parameters
    ----------
    recipe : Recipe
    rows : ndarray of float64, shape (N, D)
    times : ndarray of float64, shape (N,)
    n_seen : int
        Number of rows so far, of which these are the last.
    first_time : float or None
        As for `Recipe.start`.

    Attributes
    ----------
    trials : list of Trial
        Those that have not given up.
    best : Trial
    engine : Engine
        That of the best trial.
    labels : ndarray of float64, shape (N,)
        What it said of the rows as they came.
    """

    best: Trial
    engine: Engine
    labels: FloatArray

    def __init__(
        self, recipe: Recipe, rows: FloatArray, times: FloatArray, n_seen: int,
        first_time: float | None,
    ) -> None:  # fmt: skip
        self.recipe, self.rows, self.times = recipe, rows, times
        self.n_seen, self.first_time = n_seen, first_time
        self.unit = recipe.unit(times, first_time)
        self.trials: list[Trial] = []
        self._hopeless = HOPELESS * max(2, rows.shape[1])

    def run(self, family: Likelihood, names: Sequence[str], opening: float | None) -> None:
        """Let all priors compete; those begin that open tables with probability ``opening``.

        Which ones begin decides only how early others give up.
        """
        candidates = sorted(self.recipe.candidates(family), key=lambda c: c.opening != opening)
        least = min(candidate.opening for candidate in candidates)
        nothing, everywhere = np.zeros(len(self.rows)), np.ones(len(self.rows))
        self._compare(candidates, least, family, names, nothing, everywhere)
        if self.recipe.warp and self.n_seen >= FEWEST_ROWS:
            warped = family.warped(self.rows)
            if warped is not family:
                broad = [candidate for candidate in candidates if candidate.spread >= BROAD]
                chosen = dict.fromkeys([self.best.candidate, *broad])
                runs = far_runs(self.rows).any(axis=1)  # no evidence for tails: as without maps
                start = nothing - (LEAD + np.cumsum(np.where(runs, self.best.surprise, 0.0)))
                self._compare(chosen, least, warped, names, start, np.where(runs, 0.0, 1.0))
        self._try_reaches()
        state = self.engine.state
        self.engine.state = grown(state, self.engine.config, len(state.table.ids))

    def _compare(
        self, candidates: Iterable[Candidate], least: float, family: Likelihood,
        names: Sequence[str], start: FloatArray, counts: FloatArray,
    ) -> None:  # fmt: skip
        """Try candidates of a family: credit at the start (N,), and which rows count (N,)."""
        fitted = self.recipe.fitted(family, self.rows, names)
        trying = [c for c in candidates if c.opening < BLIND or self.n_seen >= FEW]
        priors = {
            spread: fitted.spread_by(spread / TABLE_VARIANCE, self.rows)
            for spread in {c.spread for c in trying if family.free_spread}
        }
        rows, past = fitted.prepare(self.rows)
        ready = Ready(np.ascontiguousarray(rows), past, fitted.log_slopes(self.rows))
        for candidate in trying:
            prior = priors.get(candidate.spread, fitted)
            handicap = _handicap(candidate.opening, least)
            self._try(candidate, prior, self.recipe.decay, ready, start - handicap, counts)

    def _try_reaches(self) -> None:
        """Try how far links reach, for the leaders."""
        reaches = self.recipe.reaches[1:]
        if not reaches:
            return
        memory = 1.0 / column_powers(self.rows).min()
        everywhere = np.ones(len(self.rows))
        for trial in sorted(self.trials, key=_score, reverse=True)[:LEADERS]:
            start = trial.credit + np.cumsum(trial.surprise)
            for reach in reaches:
                if reach >= memory:
                    lead = SMALL_LEAD if reach > self.recipe.decay.scale else 0.0
                    self._try(
                        trial.candidate, trial.prior, Exponential(reach), trial.ready,
                        start - lead, everywhere,
                    )  # fmt: skip

    def _try(
        self, candidate: Candidate, prior: Likelihood, decay: Decay, ready: Ready,
        start: FloatArray, counts: FloatArray,
    ) -> None:  # fmt: skip
        """Let a prior predict the rows, until it is hopeless."""
        width, n_rows = self.rows.shape[1], len(self.rows)
        engine = self.recipe.start(
            prior, width, candidate.opening, decay, self.first_time, self.unit, n_rows=n_rows
        )
        engine.state.counts[N_SEEN] = self.n_seen - n_rows
        engine.past, times = ready.past, engine.in_time(self.times)
        given = given_weights(
            decay, engine.config, engine.state, times, clocked=self.first_time is not None
        )
        out = np.empty((n_rows, N_COLUMNS))
        for done in range(0, n_rows, PIECE):
            upto = min(done + PIECE, n_rows)
            engine.state = run(
                engine.config, engine.state, ready.rows[:upto], times[:upto], given, out, done
            )
            if ready.slopes is not None:
                out[done:upto, SCORE] -= ready.slopes[done:upto]
            if self.trials and upto < n_rows:
                credit = start[upto - 1] - out[:upto, SCORE] @ counts[:upto]
                if self.best.credit[upto - 1] - credit > self._hopeless:
                    return
        surprise = out[:, SCORE]
        trial = Trial(
            candidate, prior, decay, ready, surprise, start - np.cumsum(surprise * counts)
        )
        if not self.trials or trial.score > self.best.score:
            self.best, self.engine, self.labels = trial, engine, out[:, LABEL]
        self.trials.append(trial)


def _score(trial: Trial) -> float:
    return trial.score


def _handicap(opening: float, least: float) -> float:
    """Nats by which a candidate must lead those that open tables most seldom."""
    if opening >= BLIND:
        return LEAD
    return SMALL_LEAD if opening > least else 0.0
