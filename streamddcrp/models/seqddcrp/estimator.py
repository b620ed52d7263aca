"""The sequential distance-dependent CRP mixture as a streaming estimator."""

import logging
import math
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
from river import base

from streamddcrp.contract import PIECE, SCORE
from streamddcrp.data import as_time
from streamddcrp.data.batches import widest
from streamddcrp.data.laws.columns import Laws
from streamddcrp.data.seasons.periods import Periods
from streamddcrp.data.seasons.subtracted import Subtraction
from streamddcrp.data.times import is_stamp
from streamddcrp.decay import DecaySpec, Exponential, make_decay
from streamddcrp.errors import ConfigError, SchemaError, StreamDDCRPError
from streamddcrp.estimator.interrupts import pause, undisturbed
from streamddcrp.estimator.reasons import Explanation
from streamddcrp.estimator.recent import Correctable
from streamddcrp.estimator.row_model import Features, Predicted
from streamddcrp.estimator.stored import check_types, refuse_unless_plain
from streamddcrp.likelihoods import (
    BetaBernoulli,
    DirichletMultinomial,
    GammaPoisson,
    Likelihood,
    LikelihoodSpec,
    NormalGamma,
    Product,
    choose_likelihood,
    likelihood_from_config,
    make_likelihood,
)
from streamddcrp.likelihoods.auto import with_numbers
from streamddcrp.models.seqddcrp.config import PRESETS
from streamddcrp.models.seqddcrp.engine import Alone, Engine, by_table
from streamddcrp.models.seqddcrp.in_season import FAMILY_ROWS, SEASON_ROWS, InSeason
from streamddcrp.models.seqddcrp.kernels.layout import FILTERED, N_COLUMNS, N_ROWS, N_SEEN, SETTLED
from streamddcrp.models.seqddcrp.recipe import Recipe
from streamddcrp.models.seqddcrp.regimes import Regimes
from streamddcrp.models.seqddcrp.views import TableViews
from streamddcrp.models.seqddcrp.warmup import WarmUp
from streamddcrp.numerics import CALLER_GIVEN
from streamddcrp.plots.segments import Numbers
from streamddcrp.records import refuse_if
from streamddcrp.typing import FloatArray, Probabilities
from streamddcrp.validation import choice, positive, whole

_log = logging.getLogger(__name__)
COUNTS = (BetaBernoulli, DirichletMultinomial, GammaPoisson, Product)  # and mixed columns
_NUMBERS = NormalGamma()
AUTO = "auto"
_BLOCK = 1024  # rows between two checks for Ctrl-C
CALENDAR = "calendar"  # by default, calendar seasons that the rows show
_PROGRESS = (
    "_first_time", "_last_time", "_clocked", "_n_seen", "_early", "_types", "_stream", "_family",
    "_season", "_laws", "_numbers", "_regimes",
)  # fmt: skip


class SeqDDCRP(Correctable, InSeason, TableViews, base.Clusterer):
    """Online clustering by the sequential distance-dependent Chinese restaurant process.

    Each arrival links to an earlier one with a probability that decays with their distance in time,
    or opens a table; linked arrivals share the parameter of a conjugate family. With recall, the
    opener of a table may reuse the parameter of an earlier one, so a returning regime gets its old
    id. Inference is variational with an exact bound and bounded memory: a window of arrivals whose
    links may still change, groups of older ones, and the tables' statistics.

    Parameters
    ----------
    preset : {"process", "short-series"}, default "process"
        The kind of stream: a process whose regimes last and return, or a series of some hundred
        points with few changes (autoregression, tables rarely opened or reused).
    likelihood : "auto", tuple or Likelihood, default "auto"
        "auto" chooses a family for each column from the warm-up rows, and logs its choice. Missing
        parameters, as in ``("autoregression", 1)``, come from the first rows.
    season : None, "calendar", "auto", str, float or list of str or float, default "calendar"
        Cycles to subtract from each column before its rows are clustered: "day", "week", one or
        several other periods, or "auto" to detect them in the first rows; see `Seasonal`. Tables
        then describe levels without the season, all columns are treated as numbers, and the warm-up
        has at least 512 rows. "calendar" subtracts a daily and a weekly cycle from up to 8 numeric
        columns once they improve predictions, with ``likelihood="auto"``; without times, the
        clearest period and seven times that. The last 1,024 rows are then learned again while
        others come. Without such a season nothing changes. None subtracts nothing.
    columns : mapping of name to {"auto", "level", "slow"}, optional
        With ``likelihood="auto"``, the law of numeric columns. "slow": the column drifts by itself,
        as temperatures do, and only what its past does not predict is clustered. "level": the
        column as it is. "auto", the default: whichever predicts its values better, judged after 32,
        64, .. 4096 rows; see `column_laws` and the log. Unless the law is "level", a resent value
        counts as missing in a column that holds its values.
    decay : "auto", tuple, str, Decay or callable, default "auto"
        How the weight of a link falls with distance; see `streamddcrp.decay`. "none" is the CRP.
        "auto" is ``("exponential", a)`` with a = 1, 8 or 32, whichever predicted the warm-up rows
        best; 8 without a warm-up. A short reach suits regimes that last, a long one rows in no
        order. 1 is not tried if a column's noise is correlated from row to row.
    alpha : float, optional
        Weight of opening a table against the decay weights of earlier arrivals. Default: learned.
    memory : float, default 250
        Number of rows beyond the window that a table remembers, a quarter of it if its level moves;
        infinity forgets nothing.
    recall : bool, default True
        False is the plain model of the paper (gamma to infinity): every table is a new one.
    warmup : int, default 256
        Rows on which several priors are tried, unless the prior is given in full: after 8, 16, 32,
        .. rows the best predictor of them takes over, and tables keep their ids. Before the eighth
        row the label is 0 and there is no score.

    Other Parameters
    ----------------
    gamma : float, optional
        Concentration of the atoms: large values make new tables rarely reuse an old parameter.
        Default: by the preset, 3 or 10.
    learn_prior : bool, default True
        Whether the base measure follows the tables (empirical Bayes); for Gaussian columns and
        regressions.
    temper : bool, default True
        With ``likelihood="auto"``: whether redundant columns and successive redundant rows are
        downweighted, as the first rows suggest. More than three numeric columns that move together
        are replaced by a few weighted sums of them and one column for the remainder. Scores and the
        bound are then those of this composite likelihood. Numeric columns have covariances within
        tables, at full weight, if these predict the first rows better: each table its own, but more
        than 12 columns share what 12 directions leave.
    warp : bool, default True
        With ``likelihood="auto"`` and up to 3 columns: whether a column with skew or heavy tails is
        transformed towards a Gaussian, if that makes the first rows more probable.
    time_unit : float, optional
        Length of the decay's unit in the units of ``t`` (seconds for time stamps). Default: the
        median gap between the warm-up rows, so that distances count typical gaps.
    window : int, default 128
        Arrivals whose links may still change. Each one costs time and memory.
    sweep_every : int, default 8
        Arrivals between blocks of evictions and sweeps.
    n_sweeps : int, default 1
        Coordinate-ascent sweeps over the window in each block.
    look_back : int, default 128
        The last 4, 8, ... arrivals, up to this many, may move to a new table together, if
        that raises the bound; 0 turns this off.
    birth_threshold : float, default 0.05
        An arrival may open a table only with at least this probability.
    max_tables : int, default 64
        Most tables in memory. With recall, absent ones stay until their room is needed.

    Notes
    -----
    If tables are often short-lived, as with outliers, a row of a table with too few rows is marked
    in the column ``outlier`` of `step_many` and gets the label of the surrounding regime. The
    column ``state`` is a steadier label: the most probable regime, by a hidden Markov model, once
    it has been so for two successive rows. Tables whose stays are alike, but for columns that
    differ from visit to visit, share a regime; see ``docs/math/regimes_over_states.md``.

    O((L + G) K) an arrival plus O(L (L + G + K) K / B) for its share of the sweeps, with L
    ``window``, B ``sweep_every``, K live tables, G <= K groups; memory O(L (L + G + K) + K P),
    whatever the length of the stream. Bartunov and Vetrov (2014), extended by atoms; the bound is
    exact for the decays and conditions listed in the documentation.

    Examples
    --------
    >>> from streamddcrp import SeqDDCRP
    >>> model = SeqDDCRP(likelihood=("normal_gamma", 0.0, 0.05, 1.5, 0.5))
    >>> for y in [0.1, -0.2, 0.3, 8.1, 7.9, 8.2, 0.2]:
    ...     model.learn_one({"y": y})
    >>> model.predict_one({"y": 8.0}), model.predict_one({"y": 0.0})
    (1, 0)
    >>> model.objective
    -20.40
    """

    def __init__(
        self,
        *,
        preset: str = "process",
        likelihood: LikelihoodSpec = AUTO,
        season: Periods = CALENDAR,
        columns: Mapping[Any, str] | None = None,
        decay: DecaySpec = AUTO,
        alpha: float | None = None,
        memory: float = 250.0,
        recall: bool = True,
        warmup: int = 256,
        gamma: float | None = None,
        learn_prior: bool = True,
        temper: bool = True,
        warp: bool = True,
        time_unit: float | None = None,
        window: int = 128,
        sweep_every: int = 8,
        n_sweeps: int = 1,
        look_back: int = 128,
        birth_threshold: float = 0.05,
        max_tables: int = 64,
    ) -> None:
        self.preset = preset
        self.decay = decay
        self.likelihood = likelihood
        self.alpha = alpha
        self.gamma = gamma
        self.learn_prior = learn_prior
        self.memory = memory
        self.recall = recall
        self.window = window
        self.sweep_every = sweep_every
        self.n_sweeps = n_sweeps
        self.look_back = look_back
        self.birth_threshold = birth_threshold
        self.max_tables = max_tables
        self.warmup = warmup
        self.temper = temper
        self.warp = warp
        self.time_unit = time_unit
        self.season = season
        self.columns = columns
        self._preset = PRESETS[choice("preset", preset, PRESETS)]
        chosen = _is_auto(decay)
        self._decay = Exponential(self._preset.reaches[0]) if chosen else make_decay(decay)
        wanted = self._preset.likelihood if _is_auto(likelihood) else likelihood
        free = _is_auto(wanted)
        self._by_clock = isinstance(season, str) and season == CALENDAR
        sought = season is not None and (free or not self._by_clock)
        self._season = Subtraction(season) if sought else None
        if free and sought and not self._by_clock:
            wanted = NormalGamma()  # without the missing values of a count or a flag
        # None: chosen automatically. Missing numbers are taken from the first rows.
        self._family: Likelihood | None = None if _is_auto(wanted) else make_likelihood(wanted)
        self._is_auto = self._family is None
        self._is_given = self._family is not None and self._family.is_scaled
        if self._season is not None and isinstance(self._family, COUNTS):
            raise ConfigError(
                f"season: a season is subtracted from numbers, not from {likelihood!r}"
            )
        self._laws = _laws_for(columns, by_rows=free)
        whole("warmup", warmup, 1)
        for name, value in (("alpha", alpha), ("time_unit", time_unit)):
            if value is not None:
                positive(name, value, "None")
        self._recipe = Recipe(
            self._decay, self._preset.reaches if chosen and not self._is_given else (),
            self._preset, alpha, time_unit,
            {
                "learn_prior": learn_prior, "memory": memory,
                "gamma": self._preset.gamma if gamma is None else gamma, "recall": recall,
                "window": window, "sweep_every": sweep_every, "n_sweeps": n_sweeps,
                "look_back": look_back, "birth_threshold": birth_threshold,
                "max_tables": max_tables,
            },
            temper=temper and free, warp=warp and free, correlate=temper and free,
        )  # fmt: skip
        self._recipe.config(np.ones(1), 0, self._decay, clocked=False, opening=0.1)  # checks
        super().__init__(
            is_open=isinstance(self._family, DirichletMultinomial)
            and self._family.n_features is None
        )
        self._stream: Engine | None = None
        self._warned_full = self._warned_odd = False  # tables all in use; values outside a family
        self._alone: Alone | None = None  # handles ordinary rows one by one
        self._early: WarmUp | None = None  # during warm-up
        self._types: list[str] | None = None  # original column types, until the family is chosen
        self._first_time, self._regimes = 0.0, Regimes.over(0)
        self._net, self._marks, self._states, self._watch = [], {}, np.empty(0), None
        self._numbers: Numbers = Numbers()  # of states that lasted

    # -- learning --------------------------------------------------------------------------------

    @property
    def _wants_types(self) -> bool:
        return self._family is None

    def _advance(self, X: FloatArray, t: FloatArray | None, types: list[str]) -> FloatArray:
        """Check rows and times, then learn all of them; raises before any change."""
        if len(X) == 0:
            return np.empty((0, N_COLUMNS))
        if self._season is not None:
            self._season.check(t)
        if self._laws is not None:
            self._laws.check(self._feature_names())
        family, reason = self._family_for(X, types)
        if family.is_scaled:
            family.hyper(X.shape[1])  # refuses a width it does not support
        self._check_times(t)
        try:
            family.check_rows(X, self._feature_names())
        except SchemaError as error:
            if not self._is_auto or isinstance(family, NormalGamma):
                raise
            return self._advance_beyond(X, t, types, error.row or 0)
        # a user's decay fails only when called; a contest, when memory runs out
        may_fail = self._decay.code == CALLER_GIVEN or (self._early is not None and len(X) > 1)
        before = {name: deepcopy(getattr(self, name)) for name in _PROGRESS} if may_fail else {}
        try:
            if reason is not None:
                _log.info("likelihood: %s", reason)
                self._family = family
            return self._accept(X, t, types)
        except (StreamDDCRPError, MemoryError):
            for name, value in before.items():
                setattr(self, name, value)
            raise

    def _advance_beyond(
        self, X: FloatArray, t: FloatArray | None, types: list[str], first: int
    ) -> FloatArray:
        """Learn rows whose first value outside the chosen families is at ``first``.

        Columns of counts or flags that turn out to be numbers become numbers, and the stored rows
        are learned again; without stored rows, their odd values count as missing.
        """
        _NUMBERS.check_rows(X, self._feature_names())  # outside every family's support
        X = X.copy()
        before = self._advance(X[:first], None if t is None else t[:first], types)
        net = self._net if first else []
        self._take_for_numbers(X[first:])
        after = self._advance(X[first:], None if t is None else t[first:], types)
        self._net = net + self._net
        return np.concatenate([before, after])

    def _take_for_numbers(self, X: FloatArray) -> None:
        """Change the families of columns that the first of the rows X does not fit."""
        assert self._family is not None  # for mypy
        names, early = self._feature_names(), self._early
        odd = ~(np.isnan(X) | self._family.suits(X))
        said = ", ".join(repr(names[j]) for j in np.flatnonzero(odd[0]))
        if early is None or self._stream is None:
            X[odd] = np.nan
            if not self._warned_odd:
                _log.warning(
                    "%s was taken for counts or flags: other values count as missing; "
                    "likelihood='normal_gamma' takes all columns for numbers",
                    said,
                )
            self._warned_odd = True
            return
        self._family = with_numbers(self._family, odd[0])
        _log.info("%s is no count or flag: from now on its values are numbers", said)
        early.begin(
            self._recipe, self._family, self._stream, names, self._origin, self._season,
            self._laws, raw=False,
        )  # fmt: skip
        self._stream = early.go_on(self._stream, names, at_once=True)

    def _family_for(self, X: FloatArray, types: list[str]) -> tuple[Likelihood, str | None]:
        """Return the family that rows must fit, and the reason if there are enough to choose it."""
        if self._family is not None:
            return self._family, None
        early = self._early or WarmUp(self.warmup)
        missing = self.warmup - early.n_rows
        if missing > len(X):
            return _NUMBERS, None
        rows = np.concatenate([early.rows(X.shape[1]), X[:missing]])
        _NUMBERS.check_rows(X[:missing], self._feature_names())  # outside every family's support
        family, reason = choose_likelihood(
            rows, types=widest(self._types, types), names=self._feature_names()
        )
        return family.unscaled(), reason

    def _accept(self, X: FloatArray, t: FloatArray | None, types: list[str]) -> FloatArray:
        """Learn checked rows; after an interruption, note those that were learned."""
        seen, last, known = self._n_seen, self._last_time, self._types
        try:
            return self._learn_checked(X, t, types)
        except BaseException:
            done = self._n_learned - seen
            by_rows = self._is_auto and self._early is not None and not self._early.is_over
            if by_rows and not self._in_season:  # later rows have influenced it
                self._types, self._family = widest(known, types), None
            self._n_seen = seen + done
            self._last_time = float(t[done - 1]) if t is not None and done > 0 else last
            raise

    @property
    def _n_learned(self) -> int:
        """Number of rows learned by the parts of the model."""
        if self._early is not None:
            return self._early.n_rows
        return 0 if self._stream is None else int(self._stream.state.counts[N_SEEN])

    def _learn_checked(self, X: FloatArray, t: FloatArray | None, types: list[str]) -> FloatArray:
        if t is not None:
            if self._clocked is None:
                self._first_time = float(t[0])
            self._last_time = float(t[-1])
        if self._clocked is None:
            self._clocked = t is not None
            self._begin(X.shape[1])
        if self._season is not None and self._season.is_over:
            self._season = None
        given = t
        if t is None:
            t = np.arange(self._n_seen, self._n_seen + len(X), dtype=np.float64)
        self._n_seen += len(X)
        waits = self._is_auto and self._early is not None and not self._in_season
        self._types = widest(self._types, types) if waits else None
        self._net = []
        done, out = 0, []
        while self._early is not None and done < len(X):
            upto = min(len(X), done + self._rows_to_go(PIECE))
            level, net = self._less_season(X, given, done, upto)
            learn = partial(self._early.take, self._stream, X[done:upto])
            learned = X[done:upto] if self._early.leads_raw else net
            rows, times = X[done:upto], t[done:upto]
            out.append(self._watched(self._stream, rows, learned, times, learn, net, level))
            self._note_reasons()
            names = self._feature_names()
            other_season = self._finds_season()
            other_law = self._finds_law(from_scratch=other_season)
            if other_season or other_law or self._early.at_stage:
                raw = other_season and self._season is not None and self._season.is_first
                self._early.begin(
                    self._recipe, self._family_by_now, self._stream, names, self._origin,
                    self._season, self._laws, raw=raw,
                )  # fmt: skip
            # until a contest ends, its leader learns rows by the old laws, which are gone
            lawful = self._laws is not None and self._laws.in_use
            self._stream = self._early.go_on(self._stream, names, at_once=other_law or lawful)
            if len(X) > PIECE:
                self._keep_events()
            if self._early.is_over:
                self._types = None
            self._forget_early_rows()
            done = upto
            if done < len(X):
                pause()
        if self._stream is not None:
            out += self._learn_blocks(self._stream, X, given, t, done)
            self._warn_when_full(self._stream)
            self._prepare_alone(self._stream)
        return out[0] if len(out) == 1 else np.concatenate(out)

    def _learn_blocks(
        self, engine: Engine, X: FloatArray, given: FloatArray | None, t: FloatArray, done: int
    ) -> list[FloatArray]:
        """Learn the rows after the first ``done``, each block by all parts of the model."""
        out, piece = [], _BLOCK if self._watch is None else PIECE
        learn = engine.step if len(X) <= PIECE else partial(engine.step, keep=self._keep_events)
        for a in range(done, len(X), _BLOCK):
            if a > done:
                pause()
            b = min(a + _BLOCK, len(X))
            with undisturbed:
                level, net = self._less_season(X, given, a, b)
                for i in range(a, b, piece):
                    if i > a:
                        pause()
                    z = min(i + piece, b)
                    rows, own = net[i - a : z - a], level[i - a : z - a]
                    out.append(self._watched(engine, X[i:z], rows, t[i:z], learn, rows, own))
        return out

    def _watched(
        self, engine: Engine | None, X: FloatArray, learned: FloatArray, t: FloatArray,
        learn: Callable[[FloatArray, FloatArray], FloatArray], net: FloatArray, level: FloatArray,
    ) -> FloatArray:  # fmt: skip
        """Let an engine learn up to 64 rows, and notify the watcher."""
        watch = self._watch
        if watch is not None:
            watch.begin(engine)
        out = learn(net, t)
        self._regimes.step(level, out, self._n_learned)
        self._number(out)
        if watch is not None:
            watch.end(X, learned, t, out)
        return out

    def _number(self, out: FloatArray) -> None:
        """Count the states of rows just learned (N, outputs), warm-up excepted."""
        states = out[~np.isnan(out[:, SCORE]), SETTLED]
        self._numbers.see(states.astype(np.int64), self._n_learned)

    def _warn_when_full(self, engine: Engine) -> None:
        if not self._warned_full and engine.n_forbidden:
            self._warned_full = True
            _log.warning(
                "all %d tables are in use: rows that wanted a new one had to join an old one; "
                "raise max_tables",
                self.max_tables,
            )

    def _plain_prior(self) -> dict[str, Any]:
        """Return the prior as options of `DDCRPSampler`, unless it is learned from the rows."""
        follows = self.learn_prior or self.memory < math.inf
        if self._stream is None or self.alpha is None or follows or not self._is_given:
            raise ConfigError(
                "model: a SeqDDCRP has an evidence where its prior does not follow the rows; give "
                "learn_prior=False, memory=float('inf'), alpha, and all numbers of the likelihood"
            )
        unit = self._stream.time_unit if self._stream.clocked else None
        gamma = self._stream.config.gamma if self._stream.config.recall else None
        prior = {"likelihood": self._stream.likelihood, "decay": self._stream.decay, "gamma": gamma}
        return prior | {"alpha": self.alpha, "time_unit": unit}

    @property
    def _n_correctable(self) -> int:
        engine, lawful = self._stream, self._laws is not None and self._laws.in_use
        if engine is None or engine.past is not None or self._in_season or lawful:
            return 0
        return min(int(engine.state.counts[N_ROWS]), self.window)

    def _correct(self, back: int, old: FloatArray, new: FloatArray) -> None:
        if not self._running.amend(back, old, new):
            raise ConfigError("old: the row was learned with other values")
        if self._early is not None:
            self._early.amend(back, new)
            if self._early.contest is not None:  # over the rows as they were
                self._end_contest()
                self._running.amend(back, old, new)

    # -- ordinary rows, one by one ---------------------------------------------------------------

    def _prepare_alone(self, engine: Engine) -> None:
        """Take ordinary rows one by one from now on, unless other parts must see them."""
        waits = self._early is not None or self._season is not None or self._laws is not None
        if waits or not Alone.takes(engine):
            self._alone = None
        elif self._alone is None or not self._alone.suits(engine):
            self._alone = Alone(engine)

    def _take_alone(self, alone: Alone, x: Features, t: Any, default: float | None) -> bool:
        """Take an ordinary row with a valid time; False for any other row."""
        values = self._vectorizer.plain(x)
        time = default if t is None else as_time(t) if self._clocked else None
        if values is None or time is None:
            return False
        if self._clocked and self._last_time is not None and time < self._last_time:
            return False
        alone.take(values, time, self._vectorizer.names)
        return True

    def _learn_row(self, x: Features, t: Any, *side: Any) -> None:
        alone, time = self._alone, None if self._clocked else float(self._n_seen)
        if alone is None or not self._take_alone(alone, x, t, time):
            super()._learn_row(x, t, *side)
            return
        try:
            alone.step()
            self._number_alone(alone)
            self._n_seen += 1
            self._warn_when_full(alone.engine)
            if t is not None:
                self._last_time, self._stamped = alone.t, is_stamp(t)
            said, recent = alone.answer, self._recent
            assert recent is not None  # for mypy
            recent.add_one(alone.values, alone.t, said[SETTLED], said[SCORE])
        except BaseException:  # Ctrl-C, which no single row delays here
            if self._n_learned >= self._n_seen:
                self._number_alone(alone)
                self._last_time = alone.t if self._clocked else None
            self._n_seen = self._n_learned
            raise

    def _number_alone(self, alone: Alone) -> None:
        """Count the state of a row just learned alone."""
        self._regimes.step(alone.row[None], alone.out, self._n_learned)
        self._numbers.add(int(alone.answer[SETTLED]), self._n_learned)

    def _predict(self, x: Features, t: Any, *side: Any) -> Predicted:
        alone, time = self._alone, self._last_time if self._clocked else float(self._n_seen)
        if alone is None or not self._take_alone(alone, x, t, time):
            return super()._predict(x, t, *side)
        alone.predict()
        return alone.answer, alone.probabilities

    def explain_one(self, x: Any, t: Any = None, **side: Any) -> Explanation:
        alone, time = self._alone, self._last_time if self._clocked else float(self._n_seen)
        if alone is None or not self._take_alone(alone, x, t, time):
            return super().explain_one(x, t)
        return self._in_words(self._feature_names(), alone.row, alone.row, alone.explain())

    def _begin(self, n_features: int) -> None:
        """Begin, at once if nothing must be learned from the first rows."""
        self._regimes = Regimes.over(self._n_levels(n_features))
        waits_for_unit = self._clocked and self.time_unit is None
        if not self._is_given:
            least = 0 if self._season is None or self._by_clock else SEASON_ROWS
            self._early = WarmUp(max(self.warmup, least))
        elif waits_for_unit:
            self._early = WarmUp(min(self.warmup, FAMILY_ROWS))
        elif self._family is not None:
            opening = self._preset.candidates[0].opening
            self._stream = self._recipe.start(
                self._family, n_features, opening, self._decay, self._origin
            )

    def _n_levels(self, n_features: int) -> int:
        """Return the number of columns with levels that regimes may share: 0 for words."""
        words = isinstance(self._family, DirichletMultinomial)
        return 0 if words or not self.recall else n_features

    def _keep(self, X: FloatArray, t: FloatArray | None, given: object, out: FloatArray) -> None:
        before = -1 if self._recent is None else self._recent.last_label
        self._states = np.append(before, out[:, FILTERED])
        super()._keep(X, t, given, out)

    def _said(self, out: FloatArray) -> tuple[FloatArray, FloatArray]:
        return out[:, SETTLED], out[:, SCORE]

    @property
    def _has_begun(self) -> bool:
        return self._stream is not None

    def _check_rows(self, X: FloatArray, names: list[str]) -> None:
        self._running.likelihood.check_rows(X, names)

    def _predict_row(self, x: FloatArray, t: float) -> tuple[FloatArray, Probabilities]:
        out, probs = self._running.predict(self._row_less_season(x, t), t)

        return out, lambda: by_table(self._running.state, probs, out)

    @property
    def _running(self) -> Engine:
        assert self._stream is not None  # for mypy
        return self._stream

    @property
    def nbytes(self) -> int:
        """Bytes of the model's arrays in memory, as `Keyed` counts them."""
        early = self._nbytes_kept + (0 if self._early is None else self._early.nbytes)
        season = 0 if self._season is None else self._season.nbytes
        laws = 0 if self._laws is None else self._laws.nbytes
        return early + season + laws + (0 if self._stream is None else self._stream.nbytes)

    # -- checkpoints -----------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays: dict[str, Any] = {}
        if self._early is not None:
            arrays |= self._early.arrays(self._vectorizer.n_features)
        meta: dict[str, Any] = {
            **self._progress(),
            "types": self._types,
            "first_time": self._first_time,
            "warmup": None if self._early is None else self._early.last,
            "family": None if self._family is None else self._family.to_config(),
            "stream": None,
            "numbers": self._numbers.state(),
        }
        arrays |= self._regimes.kept()
        if self._marks:
            meta["marks"] = [[label, *mark] for label, mark in self._marks.items()]
        if self._season is not None and not self._season.is_over:
            parts, meta["season"] = self._season.state()
            arrays |= parts
        if self._laws is not None:
            parts, meta["laws"] = self._laws.state()
            arrays |= parts
        if self._early is not None and self._early.contest is not None:
            family = self._early.contest.family.to_config()
            meta["contest"] = {"family": family, "raw": self._early.raw}
        if self._stream is not None:
            parts, meta["stream"] = self._stream.kept()
            arrays |= parts
        return arrays, meta

    def _restore(self, arrays: dict[str, Any], meta: dict[str, Any]) -> None:
        self._types, self._first_time = meta["types"], meta["first_time"]
        D = self._vectorizer.n_features
        refuse_unless_plain(meta, numbers=("first_time",))
        self._numbers = Numbers.restored(meta["numbers"])
        self._regimes = Regimes.resumed(arrays, self._n_levels(D), self._n_seen)
        for label, name, verdict in meta.get("marks", ()):
            self.mark(label, name, verdict)
        check_types(self._types, D)
        nothing = meta["warmup"] is None and meta["stream"] is None
        refuse_if(nothing and self._clocked is not None, "warm-up")
        if "season" not in meta:
            self._season = None
        elif self._season is not None:
            self._season.restore(arrays, meta["season"], D, self._last_time)
        if "laws" not in meta:
            self._laws = None
        elif self._laws is not None:
            self._laws.restore(arrays, meta["laws"], D)
        if meta["warmup"] is not None:
            refuse_unless_plain(meta, counts=("warmup",))
            goes_on = self._seeks or "contest" in meta or self._n_seen < meta["warmup"]
            refuse_if(not goes_on, "warm-up")
            possible = {self.warmup, min(self.warmup, FAMILY_ROWS), SEASON_ROWS}
            refuse_if(meta["warmup"] not in possible | {max(self.warmup, SEASON_ROWS)}, "warm-up")
            refuse_if(meta["stream"] is None and self._n_seen >= meta["warmup"], "warm-up")
            self._early = WarmUp.resumed(meta["warmup"], self._n_seen, arrays, D)
            look = None if self._laws is None else self._laws.next_look
            refuse_if(look is not None and look <= self._n_seen, "rows of laws")
        self._family = None if meta["family"] is None else likelihood_from_config(meta["family"])
        if meta["stream"] is not None:
            self._stream = self._recipe.resume(arrays, meta["stream"], self._origin, D)
            self._warned_full = self._stream.n_forbidden > 0
        if "contest" in meta:
            refuse_if(self._early is None or self._stream is None, "contest")
            assert self._early is not None  # for mypy
            assert self._stream is not None
            self._early.resume_contest(
                self._recipe, self._stream, meta["contest"], arrays, self._feature_names(),
                self._origin,
            )  # fmt: skip


def _laws_for(given: Mapping[Any, str] | None, *, by_rows: bool) -> Laws | None:
    """Return the laws of columns if the rows choose the family, else none."""
    if given and not by_rows:
        raise ConfigError("columns: laws of columns need likelihood='auto' and preset='process'")
    return Laws(given) if by_rows else None


def _is_auto(option: object) -> bool:
    return isinstance(option, str) and option == AUTO
