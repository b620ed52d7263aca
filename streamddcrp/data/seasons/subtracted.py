"""Rows less their seasons: from the option of a model and its first rows on."""

import logging
import math
from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamddcrp.data.laws.filters import FEWEST, looks
from streamddcrp.data.laws.rivals import Rivals
from streamddcrp.data.seasons.periods import LEAST, Search, in_words, likely_period, read_periods
from streamddcrp.data.seasons.scales import choose, logs, offsets_of, values
from streamddcrp.data.seasons.tracker import NEEDED, Tracker
from streamddcrp.data.seasons.watch import DAY, ROWS, WIDEST, Watch, lasts, on_trial
from streamddcrp.data.times import typical_gap
from streamddcrp.errors import SchemaError
from streamddcrp.records import FINITE, MOST, VALUE, check_one, refuse_if
from streamddcrp.typing import FloatArray
from streamddcrp.validation import positive

_log = logging.getLogger(__name__)
STAGES = (128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)  # rows of estimates
PACED = (256, 384, 512, 768, 1024, 1536, 2048)  # rows without times after which to guess a period
ALIKE = 0.0025  # share by which periods may differ and be the same
_WATCHED = (("day", DAY), ("chosen", 1.0))  # of a trial, and as in a trial of the clock
_ENOUGH = 2048  # rows, for two periods
_GAP_ROWS = 32  # by which the usual distance of rows with times is known
_WORK = 300_000  # coefficients times rows that are learned for a search with each row: 10 to 30 ms


class Subtraction:
    """Learns the seasons of rows and subtracts them; ``option``: see `streamddcrp.Seasonal`.

    ``tracker``: None while, or where, there are no periods; ``is_new``: whether the last row of the
    last step changed the periods; ``is_first``: whether there were none before; ``doubted``:
    columns (D,) that the season has told worse, None but at a look.
    """

    def __init__(self, option: Any) -> None:
        self._how = option if isinstance(option, str) and option in {"auto", "calendar"} else ""
        self._given, self._needs_clock = ([], False) if self._how else read_periods(option)
        self.tracker: Tracker | None = None
        self.uses: NDArray[np.bool_] | None = None  # columns that have the season; None: all
        self.offsets: FloatArray | None = None  # of columns that it multiplies, see `scales`
        self.n_rows = 0
        self.is_new = self.is_first = False
        self.doubted: NDArray[np.bool_] | None = None
        self._judged: Rivals | None = None  # of the season in use, where it is not given
        self._kept: list[tuple[FloatArray, FloatArray]] | None = []  # until the last stage
        self._before: tuple[Any, ...] = (None,) * 4  # tracker, uses, offsets, judged
        self._watch: Watch | None = None
        self._search: Search | None = None  # in the rows up to the last stage
        self._next: Tracker | None = None  # of what was found, while it learns the rows so far ..
        self._rivals = Rivals(0, 0)  # whether columns have it
        self._learned = 0  # .. and how many it has learned

    def check(self, t: FloatArray | None) -> None:
        """Refuse rows without times where the periods are those of the clock."""
        if self._needs_clock and t is None:
            raise SchemaError(
                "t: the season's period is measured by the clock, so every row needs a time; "
                "without times give the period as a number of rows"
            )

    @property
    def is_sought(self) -> bool:
        """Whether the periods come from the rows, not from a user."""
        return bool(self._how)

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to subtract, and never will be."""
        return self.tracker is None and not self.seeks

    @property
    def seeks(self) -> bool:
        """Whether a first period may still be found."""
        waits = self.tracker is None and (self._kept is not None or self._watch is not None)
        return waits or self._judged is not None

    def rows_to_go(self, *, clocked: bool) -> int | None:
        """Return the number of rows to the next that may change the periods, if there is one."""
        if self._search is not None:
            return 1
        ahead = [stage for stage in self._stages(clocked=clocked) if stage > self.n_rows]
        if self._watch is not None or self._judged is not None:
            ahead.append(looks(self.n_rows))
        return min(ahead) - self.n_rows if ahead else None

    def _stages(self, *, clocked: bool) -> tuple[int, ...]:
        """Return after how many rows periods are chosen."""
        if self._kept is None:
            return ()
        usual = (_GAP_ROWS,) if clocked else (1,)
        if self._how == "calendar" and not clocked:
            return PACED
        return (*usual, *STAGES) if self._how == "auto" else usual

    def step(self, X: FloatArray, t: FloatArray | None) -> FloatArray:
        """Return checked rows (N, D), each less the season that the rows before it show."""
        clocked = t is not None
        times = np.arange(self.n_rows, self.n_rows + len(X), dtype=np.float64) if t is None else t
        out, done = [], 0
        while done < len(X):
            to_go = self.rows_to_go(clocked=clocked)
            upto = len(X) if to_go is None else min(len(X), done + to_go)
            out.append(self._learn(X[done:upto], times[done:upto], clocked=clocked))
            done = upto
        return np.concatenate(out) if out else X

    def _learn(self, X: FloatArray, t: FloatArray, *, clocked: bool) -> FloatArray:
        """Learn rows up to the next that may change the periods."""
        net, Y = X.copy(), logs(X, self.offsets)
        if self.tracker is not None:
            trial = Y.copy()
            net = self._in_use(values(self.tracker.step(Y, t, trial), X, self.offsets), X)
            if self._judged is not None:
                self._judged.step(Y, trial)
        look = looks(self.n_rows)
        self.n_rows += len(X)
        self.is_new, self.doubted = False, None
        if self.n_rows == look:
            self._doubt()
        if self._watch is not None:
            self._watch.step(Y, t)
            if self.n_rows == look:
                self._look(self._watch, clocked=clocked)
        if self._kept is not None:
            self._kept.append((X.copy(), t.copy()))
            stages = self._stages(clocked=clocked)
            if self.n_rows in stages:
                self._choose(clocked=clocked)
            if self._search is not None:
                self._go_on(self._search, clocked=clocked)
        return net

    def _doubt(self) -> None:
        """See which columns a season in use has told worse for a cycle or more, until it is old."""
        judged = self._judged
        if judged is None or self.tracker is None:
            return
        rows = self._periods[-1] / self.tracker.gap
        found = (judged.leads < -NEEDED) & self._used
        self.doubted = found if judged.n_rows >= judged.first + rows and found.any() else None
        if judged.n_rows >= lasts(rows):
            self._judged = None

    def leave(self, columns: NDArray[np.bool_]) -> None:
        """Subtract nothing from these columns (D,) any more; `before` returns what was."""
        self._before = self.tracker, self.uses, self.offsets, self._judged
        self.uses, self.is_new, self.is_first = self._used & ~columns, True, False
        if not self.uses.any():
            self.tracker = self.uses = self.offsets = self._judged = None

    def _look(self, watch: Watch, *, clocked: bool) -> None:
        """Use what has proved itself on the watch, and then try a longer period beside it."""
        if watch.look():
            trial, n_columns = watch.trial, len(watch.trial.state.lead)
            tracker = self._track(trial.periods.tolist(), trial.gap, n_columns)
            tracker.restore(trial.arrays())
            self._search = self._next = None
            self._kept = None if clocked else self._kept
            uses = watch.uses if self.tracker is None else self.uses
            self._use(tracker, uses, clocked=clocked)
            self._try(trial.gap, n_columns, watch.day)
        elif watch.is_over:
            self._watch = None

    def _try(self, gap: float, n_columns: int, day: float = DAY, n_chosen: float = 1.0) -> None:
        """Begin a trial of the periods beside those in use, where there are any to try."""
        periods = on_trial(gap, self._periods, n_columns, day)
        self._watch = Watch(n_columns, gap, periods, day, n_chosen) if periods else None

    def _guess(self, X: FloatArray, t: FloatArray) -> None:
        """Begin a trial of the period that rows without times show, or mend the one in use."""
        period = None
        if X.shape[1] <= WIDEST:
            period, offsets = likely_period(X), offsets_of(X)
            if period is None and not np.isnan(offsets).all():
                period = likely_period(logs(X, offsets))
        watch, used = self._watch, self._periods
        tried = used[0] if used else 0.0 if watch is None else watch.day
        if period is None or abs(period - tried) < ALIKE * period:
            return
        if used and abs(period - tried) < tried * tried / len(X):
            tracker = self._track([one * period / tried for one in used], 1.0, X.shape[1])
            tracker.step(X, t)
            self._use(tracker, self.uses, clocked=False)
        if not used or self.is_new:
            self._try(1.0, X.shape[1], period, 1.0 if used else 0.5 * len(X))
            if self._watch is not None:
                self._watch.step(X, t)

    def _use(
        self, tracker: Tracker | None, uses: NDArray[np.bool_] | None, *, clocked: bool
    ) -> None:
        """Subtract other seasons from now on, from all columns or some, and say so."""
        self.is_new, self.is_first = True, self.tracker is None
        self._before = self.tracker, self.uses, self.offsets, self._judged
        self.tracker, self.uses = tracker, None if uses is None or uses.all() else uses
        self._judged = None
        found = "none any more"
        if tracker is not None:
            found = in_words(tracker.periods.tolist(), tracker.gap, clocked=clocked)
        origin = f", found in the first {self.n_rows} rows" if self._how else ""
        _log.info("season: %s%s", found, origin)

    def _judge(self, first: int = 0) -> None:
        """Judge the season in use by the rows after the ``first`` next ones, if no user gave it."""
        self._judged = None
        if self._how and self.tracker is not None:
            self._judged = Rivals(len(self.tracker.state.lead), first)

    def _choose(self, *, clocked: bool) -> None:
        """Choose periods by the rows so far, and learn these rows by them; or begin a search."""
        X, t = self._rows()
        gap = typical_gap(t) if clocked else 1.0
        if self._how and clocked and self.n_rows == _GAP_ROWS:
            self._try(gap, X.shape[1])
            if self._watch is not None:
                self._watch.step(X, t)
        if self._how == "calendar" and not clocked:
            self._guess(X, t)
            if self.n_rows >= PACED[-1] or X.shape[1] > WIDEST:
                self._kept = None
            return
        if self._how == "auto":
            if self.n_rows in STAGES:
                self._search = Search(X, t if clocked else None, self._periods)
                self._next, self._learned = None, 0
            return
        periods = [period for period in self._given if LEAST < period / gap < MOST]
        if periods:
            tracker = self._track(periods, gap, X.shape[1])
            tracker.step(X, t)
            self._use(tracker, None, clocked=clocked)
            self._watch = None
        self._kept = None
        for period in self._given:
            if period not in periods:
                is_short = period / gap <= LEAST
                _log.warning(
                    "season: a period of %g is %s than %.3g usual gaps of %g between rows, so it "
                    "is left out", period, "shorter" if is_short else "longer",
                    LEAST if is_short else MOST, gap,
                )  # fmt: skip

    def _rows(self) -> tuple[FloatArray, FloatArray]:
        """Return the rows so far, on their scales, and times; kept as one part from now on."""
        assert self._kept is not None  # for mypy
        X, t = (np.concatenate(parts) for parts in zip(*self._kept, strict=True))
        self._kept = [(X, t)]
        return logs(X, self.offsets), t

    def _go_on(self, search: Search, *, clocked: bool) -> None:
        """Do a portion of a search; then let what it found learn the rows so far, in portions."""
        work = search.go(_WORK)
        if search.found is None or work <= 0:
            return
        before, periods = self._periods, search.found
        if not periods and self.tracker is not None and self.tracker.leads:
            periods = before  # what is of use stays; what is not, and not found again, goes
        X, t = self._rows()
        if periods != before:
            uses = None
            if periods:
                if self._next is None:
                    self._next = self._track(periods, search.gap, X.shape[1])
                    self._rivals = Rivals(X.shape[1], math.ceil(1.5 * periods[-1] / search.gap))
                if not self._learn_again(self._next, X, t, work):
                    return
                uses = self._rivals.leads > -NEEDED
            if uses is None or uses.any():
                self._use(self._next, uses, clocked=clocked)
                self._watch = None
        stage = search.n_rows
        self._search, self._next, self._learned = None, None, 0
        if stage == STAGES[-1] or (stage >= _ENOUGH and len(periods) == 2):
            self._kept = None
        if stage == STAGES[-1] and not periods:
            _log.warning("season: none found in the first %d rows", stage)

    def _learn_again(self, tracker: Tracker, X: FloatArray, t: FloatArray, work: int) -> bool:
        """Let what was found learn a portion of the rows so far; return whether it was the last."""
        portion = max(FEWEST, work // (X.shape[1] * len(tracker.prior)))
        done, self._learned = self._learned, min(self._learned + portion, len(X))
        rows = X[done : self._learned]
        self._rivals.step(rows, tracker.step(rows, t[done : self._learned]))
        return self._learned == len(X)

    @property
    def _periods(self) -> list[float]:
        """The periods in use."""
        return [] if self.tracker is None else self.tracker.periods.tolist()

    def _track(self, periods: list[float], gap: float, n_columns: int) -> Tracker:
        return Tracker(periods, gap, n_columns, judges=bool(self._how))

    def keep_to(self, numbers: NDArray[np.bool_]) -> bool:
        """Subtract from columns (D,) of numbers only; return whether any of them has the season."""
        uses = numbers if self.uses is None else numbers & self.uses
        self.uses = None if uses.all() else uses
        if not uses.any():
            self.tracker = self.uses = None
        return bool(uses.any())

    def before(self) -> "Subtraction":
        """Return the seasons as they were before the last ones were found."""
        old = copy(self)
        old.tracker, old.uses, old.offsets, _ = self._before
        return old

    def rescale(self, X: FloatArray, t: FloatArray) -> None:
        """Let rows (N, D) at times (N,) say which seasons multiply; a trial then starts again.

        Where the season has just been found, they also say which columns have it.
        """
        if self.tracker is None:
            return
        if self.is_new:
            self._judge()
        before, D = self.offsets, X.shape[1]
        self.tracker, self.offsets, predicted = choose(
            self.tracker, X, t, before, all_rows=len(X) == self.n_rows
        )
        if predicted is not None and self.is_sought and self.is_new and self.is_first:
            self.uses = None if predicted.all() else predicted
        if self.offsets is not before:
            self._judge()
            self._search, self._next, self._learned = None, None, 0
            if self._watch is not None:
                self._try(self.tracker.gap, D, self._watch.day)

    def refuse(self, *, clocked: bool) -> None:
        """Leave the seasons found last; those of the clock are tried again from here on."""
        assert self.tracker is not None  # for mypy
        gap, n_columns = self.tracker.gap, len(self.tracker.state.lead)
        self.tracker, self.uses, self.offsets, self._judged = self._before
        self._watch, self.is_new = None, False
        _log.info("season: left in, as tables tell the rows as well")
        if clocked and self.n_rows < ROWS:
            self._try(gap, n_columns)

    def stay(self) -> None:
        """Take the columns back that were left last, and ask again after twice as many rows."""
        self.tracker, self.uses, self.offsets, self._judged = self._before
        self.is_new = False
        if self._judged is not None:
            self._judge(2 * self._judged.n_rows)

    def settle(self) -> None:
        """Look for nothing any more."""
        self._kept = self._watch = self._search = self._next = self._judged = None

    def less(self, X: FloatArray, t: FloatArray) -> FloatArray:
        """Return rows (N, D) at times (N,) (or numbers of rows) less their seasons."""
        if self.tracker is None:
            return X
        net = logs(X, self.offsets) - self.tracker.at(t)
        return self._in_use(values(net, X, self.offsets), X)

    @property
    def _used(self) -> NDArray[np.bool_]:
        """The columns (D,) that the seasons are subtracted from."""
        assert self.tracker is not None  # for mypy
        every = np.ones(len(self.tracker.state.lead), np.bool_)
        return every if self.uses is None else self.uses

    def _in_use(self, net: FloatArray, X: FloatArray) -> FloatArray:
        """Return rows less their seasons in the columns that have them."""
        return net if self.uses is None else np.where(self.uses, net, X)

    def factors(self, row: FloatArray, net: FloatArray) -> FloatArray | float:
        """Return the factors by which a row (D,) was divided; 1 where its season adds."""
        if self.offsets is None:
            return 1.0
        above, below = row + self.offsets, net + self.offsets
        divided = (above > 0.0) & (below > 0.0)
        return np.where(divided, above, 1.0) / np.where(divided, below, 1.0)

    def log_factors(self, t: FloatArray) -> float:
        """Return the sum of the logs of all factors at times (N,) by which rows were divided."""
        if self.tracker is None or self.offsets is None:
            return 0.0
        found = self.tracker.at(t)[:, ~np.isnan(self.offsets) & (self.uses is None or self.uses)]
        return float(found.sum())

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        kept = sum(X.nbytes + t.nbytes for X, t in self._kept or ())
        others = (self.tracker, self._watch, self._search, self._next, self._judged)
        return kept + sum(one.nbytes for one in others if one is not None)

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return arrays and JSON values, for a checkpoint."""
        arrays: dict[str, Any] = {}
        meta: dict[str, Any] = {"rows": self.n_rows, "waits": self._kept is not None}
        if self._kept:
            X, t = zip(*self._kept, strict=True)
            arrays |= {"season.kept.x": np.concatenate(X), "season.kept.t": np.concatenate(t)}
        if self.tracker is not None:
            arrays |= self.tracker.arrays()
            meta |= {"periods": self.tracker.periods.tolist(), "gap": self.tracker.gap}
            if self.uses is not None:
                meta["uses"] = self.uses.tolist()
            if self.offsets is not None:
                arrays["season.offsets"] = self.offsets.copy()
        if self._judged is not None:
            arrays |= {f"judged.{name}": x for name, x in self._judged.arrays().items()}
            meta["judged"] = [self._judged.n_rows, self._judged.first]
        if self._search is not None:
            arrays["season.leads"] = np.array(self._search.leads)
            meta["learned"] = self._learned
            if self._search.n_columns:
                meta["looked"] = self._search.n_columns
        if self._watch is not None:
            arrays |= self._watch.arrays()
            meta |= {"watch": self._watch.n_rows, "gap": self._watch.trial.gap}
            if self._watch.day != DAY:
                meta |= {"day": self._watch.day, "chosen": self._watch.n_chosen}
        return arrays, meta

    def restore(
        self, arrays: Mapping[str, Any], meta: Mapping[str, Any], n_columns: int,
        last_time: float | None,
    ) -> None:  # fmt: skip
        """Take up `state` of rows with ``n_columns`` columns; raises CheckpointError."""
        refuse_if(type(meta["rows"]) is not int or not 0 <= meta["rows"] <= MOST, "rows of season")
        self.n_rows, self._kept = meta["rows"], [] if meta["waits"] else None
        if "season.kept.x" in arrays:
            n = len(arrays["season.kept.x"])
            check_one("season.kept.x", arrays["season.kept.x"], (n, n_columns), np.float64, VALUE)
            check_one("season.kept.t", arrays["season.kept.t"], (n,), np.float64, FINITE)
            times = arrays["season.kept.t"]
            ordered = bool((times[1:] >= times[:-1]).all())
            last = n - 1 if last_time is None else last_time
            refuse_if(n != self.n_rows or not meta["waits"] or not ordered, "rows of season")
            refuse_if(bool(times[-1:] > last), "season.kept.t")
            self._kept = [(arrays["season.kept.x"], arrays["season.kept.t"])]
        if "periods" in meta:
            periods, gap = meta["periods"], positive("gap", meta["gap"])
            rising = sorted({positive("period", period) for period in periods})
            refuse_if(not 0 < len(periods) <= 8 or rising != periods, "periods")
            refuse_if(not gap < periods[0] <= periods[-1] < MOST * gap, "periods")
            self.tracker = self._track(periods, gap, n_columns)
            self.tracker.restore(arrays)
            if "uses" in meta:
                fine = type(meta["uses"]) is list and {type(one) for one in meta["uses"]} == {bool}
                refuse_if(not fine or len(meta["uses"]) != n_columns, "columns of season")
                self.uses = np.array(meta["uses"])
            if "season.offsets" in arrays:
                offsets = arrays["season.offsets"]
                check_one("season.offsets", offsets, (n_columns,), np.float64, VALUE)
                fine = np.isnan(offsets) | (offsets == 0.0) | (offsets == 1.0)
                refuse_if(not fine.all(), "season.offsets")
                self.offsets = offsets.copy()
        if "judged" in meta:
            self._judge_on(arrays, meta["judged"], n_columns)
        if "watch" in meta:
            gap = positive("gap", meta["gap"])
            day, n_chosen = (positive(key, meta.get(key, usual)) for key, usual in _WATCHED)
            periods = on_trial(gap, self._periods, n_columns, day)
            refuse_if(not periods or n_chosen < 1.0, "periods")
            self._watch = Watch(n_columns, gap, periods, day, n_chosen)
            self._watch.restore(arrays, meta["watch"])
        clocked = last_time is not None
        if "season.leads" in arrays:
            looked = meta.get("looked", n_columns)
            self._resume(arrays["season.leads"], meta["learned"], looked, clocked=clocked)
        stays = self._kept is not None and self.rows_to_go(clocked=clocked) is None
        refuse_if(stays, "rows of season")

    def _judge_on(self, arrays: Mapping[str, Any], told: Any, n_columns: int) -> None:
        """Go on judging the season in use."""
        refuse_if(type(told) is not list or len(told) != 2, "judged")
        refuse_if(self.tracker is None or not self._how, "judged")
        n_rows, first = told
        refuse_if(type(n_rows) is not int or not 0 <= n_rows <= self.n_rows, "judged")
        refuse_if(type(first) is not int or not 0 <= first <= MOST, "judged")
        self._judged = Rivals(n_columns, first)
        mine = {name[7:]: x for name, x in arrays.items() if name.startswith("judged.")}
        self._judged.restore(mine, n_rows)

    def _resume(self, leads: FloatArray, learned: Any, looked: Any, *, clocked: bool) -> None:
        """Go on with a search from what it knew."""
        refuse_if(self._how != "auto" or not self._kept or self.n_rows < STAGES[0], "leads")
        check_one("season.leads", leads, (len(leads),), np.float64, FINITE)
        refuse_if(type(learned) is not int or not 0 <= learned < self.n_rows, "leads")
        X, t = self._rows()
        stage = max(stage for stage in STAGES if stage <= self.n_rows)
        search = self._search = Search(X[:stage], t[:stage] if clocked else None, self._periods)
        search.leads, self._learned = leads.tolist(), learned
        refuse_if(type(looked) is not int or not 0 < looked <= X.shape[1], "leads")
        search.look(looked)
        refuse_if(search.n_columns > 0 and bool(search.leads or learned), "leads")
        if search.n_columns == 0:
            search.go(0)
        if learned:
            found = search.found or []
            refuse_if(not found, "leads")
            self._next = self._track(found, search.gap, X.shape[1])
            self._rivals = Rivals(X.shape[1], math.ceil(1.5 * found[-1] / search.gap))
            self._learned = 0
            self._learn_again(self._next, X[:learned], t[:learned], MOST)
