"""The laws of columns: chosen by evidence from rows, and applied to those that come."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.data.laws.kernels import LEVELS, NEVER, SLOTS, shift_laws, step_laws
from streamddcrp.errors import ConfigError
from streamddcrp.records import (
    FINITE, MOST, VALUE, Within, arrays_of, check_one, empty, index, nbytes_of, refuse_if, restore,
    stored_array, up_to,
)  # fmt: skip
from streamddcrp.typing import FloatArray, IntArray

FEWEST = 32  # values from which a column may have a law
STAGES = (64, 128, 256)  # rows after which laws are chosen among all, and then by the best of them
LAST = 4096  # rows after which laws are kept
BEST = 6  # laws of a column that stay in the contest
ROUNDED = 0.9  # share of different values, below which a column is taken for rounded or held
OFTEN = 0.1  # least share of values that differ from the one before, for the noise to be seen
GAUSSIAN = 0.954  # median distance of two values with noise of variance 1
LEAST_SHARE = 1e-4  # of a column's variance that is noise
JUMP_VARIANCE = 50.0  # least variance of a jump
DRIFT, JUMPS, CHANGE = 10.0, 5.0, 10.0  # nats: a drift, jumps beside it, another law than before
BELOW_NOISE = 1.0  # variance of a drift, over that of the noise, that splits no regime
LASTING = 0.99  # phi from which a drift that also jumps says nothing by its level
NOTHING, INNOVATION, ABOUT_LEVEL = 0, 1, 2  # what is subtracted: .., drift and level, the drift


def looks(n_rows: int) -> int:
    """Return after how many rows, from the first one on, to look next: ever more seldom."""
    every = 1 << max(4, (n_rows // 16).bit_length() - 1)
    return (n_rows // every + 1) * every


class Law(NamedTuple):
    """A model of one column, whose drift is d = phi d' + N(0, q), with d' that of the row before.

    A value is level + d + noise, and the level may jump; with a trend, the level moves by d, and it
    is d that may jump.
    """

    phi: float
    q: float
    jumps: bool
    trend: bool = False

    @property
    def drifts(self) -> bool:
        """Whether there is something to subtract."""
        return self.q > 0.0


LEVEL = Law(0.0, 0.0, jumps=True)
_DRIFTS = [
    Law(phi, q, jumps=jumps)
    for phi in (0.95, 0.99, 1.0)
    for q in (0.003, 0.03, 0.3, 3.0, 30.0)
    for jumps in (False, True)
    if q > BELOW_NOISE * (1.0 - phi * phi)
]
_TRENDS = [
    Law(phi, q, jumps=True, trend=True) for phi in (0.9, 0.97, 0.99) for q in (0.0003, 0.01)
]
AMONG: dict[str, list[Law]] = {
    "auto": [LEVEL, *_DRIFTS, *_TRENDS],
    "level": [LEVEL],
    "slow": [law for law in _DRIFTS if not law.jumps],
}


class State(NamedTuple):
    """What the filters of the columns know: drift, level and their covariance, by hypothesis."""

    guess: Annotated[FloatArray, "D S 5", FINITE]
    log_w: Annotated[FloatArray, "D S", NEVER, Within(NEVER, 1e-6)]
    label: Annotated[IntArray, "D S", -1, index("L", none=True)]
    age: Annotated[IntArray, "D S"]
    level: Annotated[FloatArray, "D L 2", FINITE]
    last: Annotated[IntArray, "D L"]
    n_levels: Annotated[IntArray, "D", up_to("L")]
    noise: Annotated[FloatArray, "D 2", 1e-300, Within(1e-300, 1e300)]
    jumps: Annotated[FloatArray, "D", Within(0.0, MOST)]
    n: Annotated[IntArray, "D", -1]  # values learned; -1: the column has no law


class Rules(NamedTuple):
    """The laws of the columns."""

    law: Annotated[FloatArray, "D 5", FINITE]  # phi, q, variance of a jump, center, trend
    kind: Annotated[IntArray, "D 2", Within(0, 2)]  # whether it jumps, what is subtracted

    def of(self, d: int) -> Law:
        """Return the law of a column."""
        phi, q, _, _, trend = self.law[d].tolist()
        return Law(phi, q, jumps=bool(self.kind[d, 0]), trend=bool(trend))


@dataclass(slots=True)
class Filters:
    """Laws and what their filters know, with the work space of the kernel."""

    laws: Rules
    columns: State
    scratch: FloatArray

    @classmethod
    def of(cls, n_columns: int) -> "Filters":
        """Return the filters of columns without laws."""
        lengths = lengths_of(n_columns)
        return cls(empty(Rules, lengths), empty(State, lengths), np.zeros((SLOTS, 3)))

    def begin(self, d: int, law: Law, scale: "Scale", subtracted: int) -> None:
        """Give a column a law, before its first value."""
        jump = scale.jump * (1.0 - law.phi) ** 2 if law.trend else scale.jump
        self.laws.law[d] = law.phi, law.q, jump, scale.center, law.trend
        self.laws.kind[d] = law.jumps, subtracted
        state, drift = self.columns, law.q / (1.0 - law.phi**2) if law.phi < 1.0 else 0.0
        state.log_w[d, 0], state.n[d] = 0.0, 0
        state.guess[d, 0] = 0.0, scale.center, drift, 0.0, scale.jump
        state.noise[d] = 2.0, 2.0 * scale.noise

    def step(self, X: FloatArray, score: FloatArray) -> FloatArray:
        """Return rows less what the laws foresee; add up the log scores (D,) of the columns."""
        out = np.empty(X.shape)
        step_laws(*self.laws, self.columns, self.scratch, np.ascontiguousarray(X), out, score)
        return out

    def arrays(self, part: str) -> dict[str, Any]:
        """Return copies of the arrays, for a checkpoint; their names begin with ``part``."""
        found = arrays_of(self, lengths_of(len(self.laws.law)))
        return {part + name: array for name, array in found.items()}

    def take(self, k: int, other: "Filters", at: int) -> None:
        """Take over a column of another group."""
        for mine, theirs in zip((*self.laws, *self.columns), (*other.laws, *other.columns), strict=True):
            mine[k] = theirs[at]

    def restore(self, arrays: Mapping[str, Any], part: str = "") -> None:
        """Take up stored arrays, whose names begin with ``part``; raises CheckpointError."""
        mine = {name.removeprefix(part): x for name, x in arrays.items() if name.startswith(part)}
        restore(self, lengths_of(len(self.laws.law)), mine)
        law = self.laws.law
        in_range = (law >= [0.0, 0.0, 0.0, -np.inf, 0.0]) & (law <= [1.0, 1e6, 1e300, np.inf, 1.0])
        refuse_if(not in_range.all(), "laws")


class Scale(NamedTuple):
    """What a filter expects at first: the variance of noise, that of jumps over it, the level."""

    noise: float
    jump: float
    center: float


def lengths_of(n_columns: int) -> dict[str, int]:
    """Return the lengths of the axes."""
    return {"D": n_columns, "S": SLOTS, "L": LEVELS}


def scale_of(y: FloatArray) -> Scale | None:
    """Return the scale of values (N,); None where they are too few or hardly move."""
    y = y[np.isfinite(y)]
    if len(y) < FEWEST or not np.ptp(y) > 1e-14 * np.abs(y).max():
        return None
    steps, distinct, variance = np.abs(np.diff(y)), np.unique(y), float(y.var())
    moved = steps[steps > 0.0]
    usual = float(np.median(steps if 2 * len(moved) > len(steps) else moved)) / GAUSSIAN
    if len(moved) < OFTEN * len(steps):
        usual = 0.0
    cell = float(np.median(np.diff(distinct))) if len(distinct) < ROUNDED * len(y) else 0.0
    noise = max(usual**2, LEAST_SHARE * variance, cell * cell / 12.0)
    return Scale(noise, max(JUMP_VARIANCE, 2.0 * variance / noise), float(np.median(y)))


@dataclass(slots=True)
class Contest:
    """K laws that compete in each of D columns.

    Attributes
    ----------
    filters : Filters
        Of D times K; those of a column at rest have not begun.
    score : ndarray, shape (D K,)
        How well they have told the values.
    """

    filters: Filters
    score: FloatArray

    @classmethod
    def of(cls, X: FloatArray, options: Sequence[str]) -> "Contest":
        """Hold a contest of all laws over rows (N, D); with the best of each column it goes on."""
        best = cls(Filters.of(BEST * X.shape[1]), np.zeros(BEST * X.shape[1]))
        for d, option in enumerate(options):
            scale, among = scale_of(X[:, d]), AMONG[option]
            if scale is None:
                continue
            filters, score = Filters.of(len(among)), np.zeros(len(among))
            for k, law in enumerate(among):
                filters.begin(k, law, scale, NOTHING)
            filters.step(np.repeat(X[:, d, None], len(among), axis=1), score)
            credits = [_credit(one, law) for one, law in zip(score, among, strict=True)]
            for k, at in enumerate(_finalists(among, credits), start=BEST * d):
                best.filters.take(k, filters, at)
                best.score[k] = score[at]
        return best

    def step(self, X: FloatArray) -> None:
        """Let the laws foresee and learn rows (N, D)."""
        self.filters.step(np.repeat(X, BEST, axis=1), self.score)

    def best(self, before: Sequence[Law | None]) -> list[Law | None]:
        """Return the law of each column; another one than before must lead it clearly."""
        found: list[Law | None] = []
        for d, old in enumerate(before):
            known = [k for k in range(BEST * d, BEST * (d + 1)) if self.filters.columns.n[k] >= 0]
            laws = [self.filters.laws.of(k) for k in known]
            credits = [
                _credit(self.score[k], law) + CHANGE * (law == old)
                for k, law in zip(known, laws, strict=True)
            ]
            found.append(laws[int(np.argmax(credits))] if known else None)
        return found


def _finalists(laws: Sequence[Law], credits: Sequence[float]) -> list[int]:
    """Return the places of the best laws of each kind: what rows show later, none has shown yet."""
    order, found = np.argsort(np.negative(credits)).tolist(), list[int]()
    for jumps, trend, n in ((False, False, 2), (True, True, 2), (True, False, 2)):
        kind = [k for k in order if (laws[k].jumps, laws[k].trend) == (jumps, trend)]
        found += [k for k in kind if laws[k].drifts][:n]
    level = [k for k in order if not laws[k].drifts]
    return level + found[: BEST - 1]


def _credit(score: float, law: Law) -> float:
    """Return a log score less what a law has to lead by."""
    return score - (DRIFT + JUMPS * (law.jumps and not law.trend)) * law.drifts


class Rivals:
    """Whether columns are told better with a season or by a level that jumps, where each comes again.

    Both are filters of the level with jumps, of the values as they are and of those less the
    season: a column that only follows a plan is its levels, and no season.

    Parameters
    ----------
    n_columns : int
    first : int
        Rows from which scores count.
    """

    def __init__(self, n_columns: int, first: int) -> None:
        self.filters, self.score = Filters.of(2 * n_columns), np.zeros(2 * n_columns)
        self.rows = np.zeros((FEWEST, 2 * n_columns))  # the first ones, by which filters begin
        self.first, self.n_rows = max(first, FEWEST), 0

    def step(self, X: FloatArray, net: FloatArray) -> None:
        """Take rows (N, D) as they are and less their seasons."""
        both, n, done = np.column_stack([X, net]), self.n_rows, 0
        self.n_rows += len(X)
        if n < FEWEST:
            done = min(FEWEST - n, len(X))
            self.rows[n : n + done] = both[:done]
            if n + done < FEWEST:
                return
            for d, scale in enumerate([*map(scale_of, self.rows.T[: X.shape[1]])] * 2):
                if scale is not None:
                    self.filters.begin(d, LEVEL, scale, NOTHING)
            self.filters.step(self.rows, np.zeros_like(self.score))
        counts = max(done, min(self.first - n, len(X)))
        self.filters.step(both[done:counts], np.zeros_like(self.score))
        self.filters.step(both[counts:], self.score)

    @property
    def leads(self) -> FloatArray:
        """By how much the season tells each column better, (D,)."""
        raw, net = self.score.reshape(2, -1)
        return np.asarray(net - raw)

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return nbytes_of(self.filters) + self.score.nbytes

    def arrays(self) -> dict[str, Any]:
        """Return copies of the arrays, for a checkpoint."""
        return self.filters.arrays("rivals.") | {"rivals": self.score.copy()}

    def restore(self, arrays: Mapping[str, Any], n_rows: int) -> None:
        """Take up what `arrays` returned after so many rows; raises CheckpointError."""
        self.n_rows = n_rows
        for name, mine, within in (("score", self.score, FINITE), ("rows", self.rows, VALUE)):
            stored = stored_array(f"rivals.{name}", arrays)
            check_one(f"rivals.{name}", stored, mine.shape, np.float64, within)
            mine[:] = stored
        self.filters.restore(arrays, "rivals.")


class Laws:
    """The laws of the columns of a stream.

    Parameters
    ----------
    given : mapping of name to {"auto", "level", "slow"}, optional
    """

    def __init__(self, given: Mapping[Any, str] | None = None) -> None:
        self._given = dict(given or {})
        for name, law in self._given.items():
            if law not in AMONG:
                known = ", ".join(map(repr, AMONG))
                message = f"columns: the law of {name!r} must be one of {known}; got {law!r}"
                raise ConfigError(message)
        self._filters: Filters | None = None  # None: nothing is subtracted
        self._contest: Contest | None = None
        self._chosen: list[Law | None] = []  # None: the column rests, or may have no law
        self.n_looked = 0  # rows after which laws were chosen last

    @property
    def in_use(self) -> bool:
        """Whether something is subtracted from a column."""
        return self._filters is not None

    @property
    def next_look(self) -> int | None:
        """After how many rows laws are chosen next; None: never."""
        if self.n_looked < STAGES[-1]:
            return next(n for n in STAGES if n > self.n_looked)
        return looks(self.n_looked) if self.n_looked < LAST else None

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        parts = [self._filters, None if self._contest is None else self._contest.filters]
        return sum(nbytes_of(part) for part in parts if part is not None)

    def settle(self) -> None:
        """Choose no other laws any more."""
        self.n_looked, self._contest = LAST, None

    def step(self, X: FloatArray) -> FloatArray:
        """Return rows (N, D), each less what its columns' laws foresee; learn them."""
        if self._contest is not None:
            self._contest.step(X)
        return X if self._filters is None else self._filters.step(X, np.zeros(X.shape[1]))

    def ahead(self, n_columns: int) -> FloatArray:
        """Return what would be subtracted from the next row, (D,)."""
        out = np.zeros(n_columns)
        if self._filters is not None:
            shift_laws(*self._filters.laws, self._filters.columns, out)
        return out

    def look(
        self, X: FloatArray, n_rows: int, free: Sequence[bool], names: Sequence[Any], *, anew: bool
    ) -> bool:
        """Choose laws after so many rows; return whether any is another. `begin` uses them.

        Parameters
        ----------
        X : ndarray, shape (N, D)
            The last rows.
        n_rows : int
        free : sequence of bool, length D
            Which columns may have a law.
        names : sequence, length D
        anew : bool
            Whether to judge by these rows only, by all laws: rows before them do not count.
        """
        before = self._chosen or [None] * X.shape[1]
        if anew or self._contest is None or n_rows <= STAGES[-1]:
            pairs = zip(names, free, strict=True)
            options = [self._given.get(name, "auto") if is_free else "level" for name, is_free in pairs]
            self._contest = Contest.of(X, options)
        self._chosen = self._contest.best(before)
        self.n_looked = min(n_rows, LAST)
        if self.n_looked == LAST:
            self._contest = None
        return _plan(before) != _plan(self._chosen)

    def begin(self, X: FloatArray) -> FloatArray:
        """Use the laws chosen last, from these rows (N, D) on; return them less what they foresee."""
        filters = Filters.of(X.shape[1])
        for d, (law, subtracted) in enumerate(_plan(self._chosen)):
            scale = scale_of(X[:, d])
            if subtracted and scale is not None:
                filters.begin(d, law, scale, subtracted)
        self._filters = filters if filters.laws.kind[:, 1].any() else None
        return X if self._filters is None else self._filters.step(X, np.zeros(X.shape[1]))

    def in_words(self, names: Sequence[Any]) -> dict[Any, str]:
        """Say the law of each column."""
        if self._filters is None:
            return dict.fromkeys(names, "level")
        return {name: _said(self._filters, d) for d, name in enumerate(names)}

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return arrays and JSON values, for a checkpoint."""
        arrays: dict[str, Any] = {}
        if self._filters is not None:
            arrays |= self._filters.arrays("law.")
        if self._contest is not None:
            arrays |= self._contest.filters.arrays("contest.law.")
            arrays["contest.law.score"] = self._contest.score.copy()
        return arrays, {"looked": self.n_looked, "chosen": self._chosen}

    def restore(self, arrays: Mapping[str, Any], meta: Mapping[str, Any], n_columns: int) -> None:
        """Take up what `state` returned; raises CheckpointError."""
        looked = meta["looked"]
        refuse_if(type(looked) is not int or not 0 <= looked <= LAST, "rows of laws")
        self.n_looked = looked
        known = {(*law,): law for law in AMONG["auto"]}
        chosen = [None if law is None else known.get((*law,)) for law in meta["chosen"]]
        refuse_if([law and [*law] for law in chosen] != meta["chosen"], "laws")
        refuse_if(len(chosen) != (n_columns if looked else 0), "laws")
        self._chosen = chosen
        if "law.laws.law" in arrays:
            self._filters = Filters.of(n_columns)
            self._filters.restore(arrays, "law.")
        if "contest.law.score" in arrays:
            score = arrays["contest.law.score"]
            check_one("contest.law.score", score, (BEST * n_columns,), np.float64, FINITE)
            self._contest = Contest(Filters.of(BEST * n_columns), score.copy())
            self._contest.filters.restore(arrays, "contest.law.")


def _plan(chosen: Sequence[Law | None]) -> list[tuple[Law, int]]:
    """Return the laws of the columns that drift, and what is subtracted from each column.

    What drifts may confirm a change, but names no regime beside what rests.
    """
    rests, found = LEVEL in chosen, list[tuple[Law, int]]()
    for law in chosen:
        subtracted = NOTHING
        if law is not None and law.drifts and (rests or law.trend or law.phi >= LASTING):
            about_level = law.jumps and not law.trend and not rests
            subtracted = ABOUT_LEVEL if about_level else INNOVATION
        found.append((LEVEL if law is None or subtracted == NOTHING else law, subtracted))
    return found


def _said(filters: Filters, d: int) -> str:
    """Say the law of a column in words."""
    law, known = filters.laws.of(d), filters.columns
    if not law.drifts:
        return "level"
    noise = float(known.noise[d, 1] / known.noise[d, 0])
    what = "random walk" if law.phi == 1.0 else f"autoregression ({law.phi:g})"
    what = f"trend ({law.phi:g})" if law.trend else what
    steps = f"{what}, steps of sd {math.sqrt(noise * law.q):.3g}, noise {math.sqrt(noise):.3g}"
    jumps = ", its jumps stay in" if filters.laws.kind[d, 1] == ABOUT_LEVEL else ""
    return f"slow: {steps}{jumps}"
