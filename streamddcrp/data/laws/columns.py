"""The laws of columns: chosen by evidence from rows, and applied to those that come."""

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamddcrp.data.laws.filters import (
    AMONG,
    BELOW_NOISE,
    DRIFT_ONLY,
    INNOVATION,
    LEVEL,
    NOTHING,
    Filters,
    Law,
    looks,
    scale_of,
)
from streamddcrp.data.laws.held import Held
from streamddcrp.data.laws.scales import (
    AS_IT_IS,
    OF_COUNTS,
    POWERS,
    back,
    is_whole,
    log_slopes,
    onto,
    scale_by_rows,
)
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods import Likelihood
from streamddcrp.likelihoods.auto import with_numbers
from streamddcrp.records import FINITE, check_one, refuse_if
from streamddcrp.typing import FloatArray

_log = logging.getLogger(__name__)
FIRST = (32, 64, 128, 256)  # rows after which laws are chosen among all; then at `looks`
AGAIN = (512, 1024)  # rows after which all compete again in columns that may drift
LAST = 4096  # rows after which laws are kept
BEST = 6  # laws of a column that stay in the contest
FAR_LARGER = 4.0  # times, of the variance of jumps, from which on all laws compete again
DRIFT, JUMPS, CHANGE = 4.0, 5.0, 10.0  # nats: a drift, jumps beside it, another law than before
HELD = "; a value that is sent again is left out"
BLOCK, FURTHER = 16, 8  # rows of a block, and blocks over which a column that rests stays put
WALK = 6.0  # medians of a walk's steps, times the root of their number, that it hardly gets to
LASTING = 0.99  # phi from which a drift is of the kind that lasts


@dataclass(slots=True)
class Contest:
    """K laws that compete in each of D columns: their ``filters``, and ``score`` (D K,) of each."""

    filters: Filters
    score: FloatArray

    @classmethod
    def of(cls, n_columns: int) -> "Contest":
        """Return a contest before its first row."""
        return cls(Filters.of(BEST * n_columns), np.zeros(BEST * n_columns))

    def begin(
        self, X: FloatArray, options: Sequence[str], *, from_scratch: bool, again: bool
    ) -> None:
        """Hold a contest of all laws over rows (N, D), ``again`` where a column may drift.

        Else only where jumps are far too large.
        """
        for d, option in enumerate(options):
            among, at = AMONG[option], BEST * d
            all_compete = from_scratch or (again and self._may_drift(d))
            known = 0.0 if all_compete else FAR_LARGER * self.filters.laws.law[at, 2]
            scale = scale_of(X[:, d], known)
            if scale is None and not all_compete:
                continue
            self.filters.columns.n[at : at + BEST] = -1
            if scale is None:
                continue
            filters, score = Filters.of(len(among)), np.zeros(len(among))
            for k, law in enumerate(among):
                filters.begin(k, law, scale, NOTHING)
            filters.step(np.repeat(X[:, d, None], len(among), axis=1), score)
            credits = [
                _credit(one, law.drifts, law.jumps, law.trend)
                for one, law in zip(score, among, strict=True)
            ]
            for to, k in enumerate(_finalists(among, credits), start=at):
                self.filters.take(to, filters, k)
                self.score[to] = score[k]

    def _may_drift(self, d: int) -> bool:
        """Whether a drift has told a column better than levels, so that a finer one may."""
        at = slice(BEST * d, BEST * (d + 1))
        drifts = self.filters.laws.law[at, 1] > 0.0
        score = np.where(self.filters.columns.n[at] >= 0, self.score[at], -np.inf)
        best = [score[of].max(initial=-np.inf) for of in (drifts, ~drifts)]
        return bool(best[0] > best[1])

    def step(self, X: FloatArray) -> None:
        """Let the laws foresee and learn rows (N, D)."""
        self.filters.step(np.repeat(X, BEST, axis=1), self.score)

    def best(self, before: Sequence[Law | None]) -> list[Law | None]:
        """Return the law of each column; another one than before must lead it clearly."""
        laws = self.filters.laws
        (phi, q, _, _, trend, _), jumps = laws.law.T, laws.kind[:, 0]
        old = np.repeat([law or (np.nan,) * 4 for law in before], BEST, axis=0)
        same = (old == np.column_stack([phi, q, jumps, trend])).all(axis=1)
        credits = _credit(self.score, q > 0.0, jumps, trend) + CHANGE * same
        known = self.filters.columns.n.reshape(-1, BEST) >= 0
        best = np.where(known, credits.reshape(-1, BEST), -np.inf).argmax(axis=1)
        return [
            laws.of(BEST * d + k) if known[d].any() else None for d, k in enumerate(best.tolist())
        ]


def _finalists(laws: Sequence[Law], credits: Sequence[float]) -> list[int]:
    """Return the places of the best laws of each kind: what rows show later, none has shown yet."""
    order, found = np.argsort(np.negative(credits)).tolist(), list[int]()
    kinds = {_kind(law) for law in laws if law.drifts}
    for kind in sorted(kinds):
        found.append(next(k for k in order if laws[k].drifts and _kind(laws[k]) == kind))
    return [k for k in order if not laws[k].drifts] + found


def _kind(law: Law) -> tuple[bool, bool, bool]:
    """Return whether a law jumps, whether it has a trend, and without jumps whether it lasts."""
    return law.jumps, law.trend, law.jumps or law.phi >= LASTING


def _credit(score: Any, drifts: Any, jumps: Any, trend: Any) -> Any:
    """Return log scores less what laws have to lead by, by what they do."""
    return score - (DRIFT + JUMPS * (jumps > trend)) * drifts


class Laws:
    """The laws of a stream's columns; ``given``: name to "auto", "level" or "slow"."""

    def __init__(self, given: Mapping[Any, str] | None = None) -> None:
        self._given = {str(name): str(law) for name, law in (given or {}).items()}
        for name, law in self._given.items():
            if law not in AMONG:
                known = ", ".join(map(repr, AMONG))
                raise ConfigError(
                    f"columns: the law of {name!r} must be one of {known}; got {law!r}"
                )
        self.held = Held()
        self._filters: Filters | None = None  # None: nothing is subtracted
        self._contest: Contest | None = None
        self._chosen: list[Law | None] = []  # None: the column rests, or may have no law
        self._scales: FloatArray | None = None  # of the contest; None: all as they are
        self._in_use: FloatArray | None = None  # of the columns that something is subtracted from
        self._resting = set[int]()  # columns that are levels, though a drift predicts their rows
        self._said: list[tuple[Law, int, int]] = []  # what the log has been told
        self.n_looked = 0  # rows after which laws were chosen last

    @property
    def in_use(self) -> bool:
        """Whether something is subtracted from a column, or its repeats are left out."""
        return self.subtracts or self.held.any

    @property
    def subtracts(self) -> bool:
        """Whether something is subtracted from a column."""
        return self._filters is not None

    def check(self, names: Sequence[Any]) -> None:
        """Refuse laws of columns that are not there."""
        for name in self._given:
            if name not in map(str, names):
                raise SchemaError(
                    f"columns: there is no column {name!r} among {', '.join(map(str, names))}"
                )

    @property
    def next_look(self) -> int | None:
        """After how many rows laws are chosen next; None: never."""
        if self.n_looked < FIRST[-1]:
            return next(n for n in FIRST if n > self.n_looked)
        return looks(self.n_looked) if self.n_looked < LAST else None

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        parts = [self._filters, None if self._contest is None else self._contest.filters]
        return sum(part.nbytes for part in parts if part is not None)

    def settle(self) -> None:
        """Choose no other laws any more."""
        self.n_looked, self._contest = LAST, None

    def step(self, X: FloatArray) -> FloatArray:
        """Return rows (N, D), each less what its columns' laws foresee; learn them."""
        if self._contest is not None:
            self._contest.step(onto(X, self._scales))
        return X if self._filters is None else self._less(self._filters, X)

    def _less(self, filters: Filters, X: FloatArray) -> FloatArray:
        net = filters.step(onto(X, self._in_use), np.zeros(X.shape[1]))
        return back(net, X, self._in_use)

    def less(self, x: FloatArray) -> FloatArray:
        """Return a row (D,) less what would be subtracted from it; learn nothing."""
        if self._filters is None:
            return x
        return back(onto(x, self._in_use) - self._filters.ahead(), x, self._in_use)

    def log_factors(self, X: FloatArray, net: FloatArray) -> float:
        """Return the log of what densities of rows (N, D) are multiplied by, less foreseen."""
        return float((log_slopes(X, self._in_use) - log_slopes(net, self._in_use)).sum())

    def as_numbers(self, family: Likelihood) -> Likelihood:
        """Return a family by which columns that something is subtracted from are numbers."""
        if self._filters is None:
            return family
        return with_numbers(family, self._filters.laws.kind[:, 1] > 0)

    def look_for_held(self, X: FloatArray, free: Sequence[bool], names: Sequence[Any]) -> bool:
        """Judge by rows (N, D) which ``free`` columns hold values; return whether that changed."""
        given = [self._given.get(str(name)) for name in names]
        may = [ok and law != "level" for ok, law in zip(free, given, strict=True)]
        return self.held.look(X, may)

    def look(
        self,
        X: FloatArray,
        n_rows: int,
        free: Sequence[bool],
        names: Sequence[Any],
        *,
        from_scratch: bool,
    ) -> bool:
        """Choose laws after ``n_rows`` rows by the last ones (N, D); return whether any changed.

        `begin` uses them. ``free`` (D,): which columns may have a law. ``from_scratch``: judge all
        laws by these rows only.
        """
        before, planned = self._chosen or [None] * X.shape[1], self._planned(X.shape[1])
        given = [self._given.get(str(name), "auto") for name in names]
        pairs = zip(given, free, strict=True)
        options = [option if is_free else "level" for option, is_free in pairs]
        if self._contest is None:
            self._contest = Contest.of(X.shape[1])
        from_scratch = from_scratch or n_rows <= FIRST[-1]
        if from_scratch:
            self._scale_by(X, options)
        X = onto(X, self._scales)
        self._contest.begin(X, options, from_scratch=from_scratch, again=n_rows in AGAIN)
        self._chosen = self._contest.best(before)
        for d, law in enumerate(self._chosen):
            if options[d] == "auto" and law is not None and law.drifts:
                rests = _rests(X[:, d], known=d in self._resting)
                if rests or _hardly_drifts(X[:, d], law):
                    self._chosen[d] = LEVEL
                    self._resting.add(d)
                else:
                    self._resting.discard(d)
        self.n_looked = min(n_rows, LAST)
        if self.n_looked == LAST:
            self._contest = None
        return planned != self._planned(X.shape[1])

    def _scale_by(self, X: FloatArray, options: Sequence[str]) -> None:
        """Choose by rows (N, D) the scales on which laws compete."""
        found = [
            scale_by_rows(x, whole=is_whole(x)) if option != "level" else (AS_IT_IS, 0.0)
            for x, option in zip(X.T, options, strict=True)
        ]
        self._scales = np.array(found).T if any(p != AS_IT_IS for p, _ in found) else None

    def _planned(self, n_columns: int) -> list[tuple[Law, int, float]]:
        """Return what is planned for each column, and the power of its scale."""
        powers = [AS_IT_IS] * n_columns if self._scales is None else self._scales[0].tolist()
        plan = self._plan(n_columns)
        return [(*one, power * one[1]) for one, power in zip(plan, powers, strict=True)]

    @property
    def is_given(self) -> bool:
        """Whether a column is slow because a user says so."""
        return "slow" in self._given.values()

    def leave(self) -> None:
        """Subtract nothing: the tables tell the rows as well without."""
        self._filters = self._in_use = None

    def begin(self, X: FloatArray) -> FloatArray:
        """Use the laws chosen last from rows (N, D) on; return these less what they foresee."""
        filters, self._in_use = Filters.of(X.shape[1]), None
        if self._scales is not None:
            used = [subtracted > 0 for _, subtracted in self._plan(X.shape[1])]
            scales = np.where(used, self._scales, [[AS_IT_IS], [0.0]])
            self._in_use = None if (scales[0] == AS_IT_IS).all() else scales
        Z = onto(X, self._in_use)
        for d, (law, subtracted) in enumerate(self._plan(X.shape[1])):
            scale = scale_of(Z[:, d])
            if subtracted and scale is not None:
                filters.begin(d, law, scale, subtracted)
        if not filters.laws.kind[:, 1].any():
            self.leave()
            return X
        self._filters = filters
        return self._less(filters, X)

    def say(self, names: Sequence[Any]) -> None:
        """Write to the log which laws are others than it says."""
        if self.n_looked >= FIRST[-1]:
            plan = self._used(len(names))
            for d, (name, said) in enumerate(self.in_words(names).items()):
                if plan[d] != (self._said[d] if self._said else (LEVEL, NOTHING, 0)):
                    _log.info("column %r is %s", name, said)
            self._said = plan

    def _plan(self, n_columns: int) -> list[tuple[Law, int]]:
        """Return the laws of the columns that drift, and what is subtracted from each column.

        What drifts may confirm a change, but names no regime beside what rests between jumps. Where
        no column rests, one that drifts and jumps goes on as it is: only its level names regimes.
        """
        rests, found = LEVEL in self._chosen, list[tuple[Law, int]]()
        for law in self._chosen or [None] * n_columns:
            if law is None or not law.drifts:
                found.append((LEVEL, NOTHING))
                continue
            foreseen = rests or law.trend or not law.jumps
            found.append((law, INNOVATION) if foreseen else (LEVEL, NOTHING))
        return found

    def _used(self, n_columns: int) -> list[tuple[Law, int, int]]:
        """Return of each column its law, what is subtracted, and whether it is held."""
        plan = self._plan(n_columns)
        if self._filters is None:
            plan = [(LEVEL, NOTHING)] * n_columns
        held = self.held.columns.tolist() or [0] * n_columns
        return [(*one, is_held) for one, is_held in zip(plan, held, strict=True)]

    def in_words(self, names: Sequence[Any]) -> dict[Any, str]:
        """Say the law of each column."""
        return {
            name: ("level" if self._filters is None else _said(self._filters, d)) + HELD * is_held
            for d, (name, (_, _, is_held)) in enumerate(
                zip(names, self._used(len(names)), strict=True)
            )
        }

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return arrays and JSON values, for a checkpoint."""
        arrays: dict[str, Any] = {}
        if self._filters is not None:
            arrays |= self._filters.arrays("law.")
            if self._in_use is not None:
                arrays["law.scales"] = self._in_use.copy()
        if self._contest is not None:
            arrays |= self._contest.filters.arrays("contest.law.")
            arrays["contest.law.score"] = self._contest.score.copy()
        if self._scales is not None:
            arrays["contest.law.scales"] = self._scales.copy()
        if self.held.any:
            arrays |= self.held.arrays()
        resting = {"resting": sorted(self._resting)} if self._resting else {}
        return arrays, {"looked": self.n_looked, "chosen": self._chosen} | resting

    def restore(self, arrays: Mapping[str, Any], meta: Mapping[str, Any], n_columns: int) -> None:
        """Take up what `state` returned; raises CheckpointError."""
        looked = meta["looked"]
        refuse_if(type(looked) is not int or not 0 <= looked <= LAST, "rows of laws")
        self.n_looked = looked
        known = {(*law,): law for law in AMONG["auto"]}
        chosen = [None if law is None else known.get((*law,)) for law in meta["chosen"]]
        refuse_if([law and [*law] for law in chosen] != meta["chosen"], "laws")
        refuse_if(len(chosen) not in (0, n_columns), "laws")
        resting = meta.get("resting", [])
        is_list = type(resting) is list and all(type(d) is int for d in resting)
        refuse_if(not is_list or not all(0 <= d < len(chosen) for d in resting), "laws")
        self._chosen, self._resting = chosen, set(resting)
        self.held.restore(arrays, n_columns)
        if "law.laws.law" in arrays:
            self._filters = Filters.of(n_columns)
            self._in_use = _stored_scales("law.scales", arrays, n_columns)
            self._filters.restore(arrays, "law.")
        self._scales = _stored_scales("contest.law.scales", arrays, n_columns)
        if "contest.law.score" in arrays:
            score = arrays["contest.law.score"]
            check_one("contest.law.score", score, (BEST * n_columns,), np.float64, FINITE)
            self._contest = Contest(Filters.of(BEST * n_columns), score.copy())
            self._contest.filters.restore(arrays, "contest.law.")
        self._said = self._used(n_columns) if looked >= FIRST[-1] else []


def _stored_scales(name: str, arrays: Mapping[str, Any], n_columns: int) -> FloatArray | None:
    """Return scales as they are stored, if they are; raises CheckpointError."""
    if name not in arrays:
        return None
    check_one(name, arrays[name], (2, n_columns), np.float64, FINITE)
    power, added = arrays[name]
    refuse_if(not np.isin(power, POWERS).all() or not np.isin(added, (0.0, OF_COUNTS)).all(), name)
    return np.array(arrays[name])


def _rests(x: FloatArray, *, known: bool) -> bool:
    """Whether a column (N,) rests between jumps, although a drift predicts its rows better.

    Medians of blocks come further than a walk of their steps gets, and move little more over eight
    blocks than over one. A column ``known`` to rest does, until its moves grow as those of a walk.
    """
    x = x[np.isfinite(x)]
    if len(x) < 2 * FURTHER * BLOCK:
        return False
    usual = np.median(x[len(x) % BLOCK :].reshape(-1, BLOCK), axis=1)
    step, later = (float(np.median(np.abs(usual[k:] - usual[:-k]))) for k in (1, FURTHER))
    far = float(np.ptp(usual)) > WALK * math.sqrt(len(usual)) * step
    return later < FURTHER**0.5 * step if known else far and later < FURTHER**0.25 * step


def _hardly_drifts(x: FloatArray, law: Law) -> bool:
    """Whether a column (N,) jumps, and drifts less than its noise, which splits no regime."""
    scale = scale_of(x)
    if scale is None or law.trend or not law.jumps:
        return False
    filters = Filters.of(1)
    filters.begin(0, law, scale, DRIFT_ONLY)
    drift = x - filters.step(x[:, None], np.zeros(1))[:, 0]
    learned, squares = filters.columns.noise[0].tolist()
    return bool(np.nanvar(drift) < BELOW_NOISE * squares / learned)


def _said(filters: Filters, d: int) -> str:
    """Say the law of a column in words."""
    law, known = filters.laws.of(d), filters.columns
    if not law.drifts:
        return "level"
    noise = float(known.noise[d, 1] / known.noise[d, 0])
    what = "random walk" if law.phi == 1.0 else f"autoregression ({law.phi:g})"
    what = f"trend ({law.phi:g})" if law.trend else what
    steps = f"{what}, steps of sd {math.sqrt(noise * law.q):.3g}, noise {math.sqrt(noise):.3g}"
    return f"slow: {steps}"
