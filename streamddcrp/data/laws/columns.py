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
LOOKS = (64, 128, 256, 512, 1024, 2048, 4096)  # rows after which laws are chosen
ROUNDED = 0.9  # share of different values, below which a column is taken for rounded or held
OFTEN = 0.1  # least share of values that differ from the one before, for the noise to be seen
GAUSSIAN = 0.954  # median distance of two values with noise of variance 1
LEAST_SHARE = 1e-4  # of a column's variance that is noise
JUMP_VARIANCE = 50.0  # least variance of a jump
DRIFT, JUMPS, CHANGE = 10.0, 5.0, 10.0  # nats: a drift, jumps beside it, another law than before
LASTING = 0.99  # phi from which a drift that also jumps says nothing by its level
NOTHING, INNOVATION, ABOUT_LEVEL = 0, 1, 2  # what is subtracted: .., drift and level, the drift


class Law(NamedTuple):
    """A model of one column: y = level + d + noise, d = phi d' + N(0, q), and the level may jump."""

    phi: float
    q: float
    jumps: bool

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
]
AMONG: dict[str, list[Law]] = {
    "auto": [LEVEL, *_DRIFTS],
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

    law: Annotated[FloatArray, "D 4", FINITE]  # phi, q, variance of a jump, center
    kind: Annotated[IntArray, "D 2", Within(0, 2)]  # whether it jumps, what is subtracted

    def of(self, d: int) -> Law:
        """Return the law of a column."""
        phi, q = self.law[d, :2].tolist()
        return Law(phi, q, jumps=bool(self.kind[d, 0])) if self.kind[d, 1] else LEVEL


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
        self.laws.law[d] = law.phi, law.q, scale.jump, scale.center
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

    def restore(self, arrays: Mapping[str, Any], part: str = "") -> None:
        """Take up stored arrays, whose names begin with ``part``; raises CheckpointError."""
        mine = {name.removeprefix(part): x for name, x in arrays.items() if name.startswith(part)}
        restore(self, lengths_of(len(self.laws.law)), mine)
        law = self.laws.law
        in_range = (law >= [0.0, 0.0, 0.0, -np.inf]) & (law <= [1.0, 1e6, 1e300, np.inf])
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


def choose(y: FloatArray, before: Law, option: str) -> Law | None:
    """Return the law of a column by its values (N,); None where they do not move."""
    scale, among = scale_of(y), AMONG[option]
    if scale is None or len(among) == 1:
        return None if scale is None else among[0]
    bank = Filters.of(len(among))
    for k, law in enumerate(among):
        bank.begin(k, law, scale, NOTHING)
    score = np.zeros(len(among))
    bank.step(np.repeat(y[:, None], len(among), axis=1), score)
    score -= [(DRIFT + JUMPS * law.jumps) * law.drifts - CHANGE * (law == before) for law in among]
    return among[int(score.argmax())]


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
        found = arrays_of(self.filters, lengths_of(len(self.score)))
        return {f"rivals.{name}": x for name, x in found.items()} | {"rivals": self.score.copy()}

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
        self._next: list[Law | None] = []  # the laws chosen, until they come into use
        self.n_looked = 0  # rows after which laws were chosen last

    @property
    def in_use(self) -> bool:
        """Whether something is subtracted from a column."""
        return self._filters is not None

    @property
    def next_look(self) -> int | None:
        """After how many rows laws are chosen next; None: never."""
        return next((n for n in LOOKS if n > self.n_looked), None)

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return 0 if self._filters is None else nbytes_of(self._filters)

    def settle(self) -> None:
        """Choose no other laws any more."""
        self.n_looked = LOOKS[-1]

    def step(self, X: FloatArray) -> FloatArray:
        """Return rows (N, D), each less what its columns' laws foresee; learn them."""
        return X if self._filters is None else self._filters.step(X, np.zeros(X.shape[1]))

    def ahead(self, n_columns: int) -> FloatArray:
        """Return what would be subtracted from the next row, (D,)."""
        out = np.zeros(n_columns)
        if self._filters is not None:
            shift_laws(*self._filters.laws, self._filters.columns, out)
        return out

    def look(self, X: FloatArray, n_rows: int, free: Sequence[bool], names: Sequence[Any]) -> bool:
        """Choose laws after so many rows, by the last ones (N, D); return whether any is another.

        Columns that are not ``free`` have none. `begin` brings the laws into use.
        """
        self.n_looked, D = min(n_rows, LOOKS[-1]), X.shape[1]
        before = [LEVEL if self._filters is None else self._filters.laws.of(d) for d in range(D)]
        self._next = [
            choose(X[:, d], before[d], self._given.get(names[d], "auto")) if free[d] else None
            for d in range(D)
        ]
        return [law or LEVEL for law in self._next] != before

    def begin(self, X: FloatArray) -> FloatArray:
        """Use the laws chosen last, from these rows (N, D) on; return the rows less what they foresee."""
        filters, laws = Filters.of(X.shape[1]), self._next
        rests = any(law is not None and not law.drifts for law in laws)
        for d, law in enumerate(laws):
            scale = scale_of(X[:, d])
            if law is None or scale is None or not law.drifts:
                continue
            # what drifts may confirm a change, but names no regime beside what rests
            if rests or (law.phi >= LASTING and not law.jumps):
                filters.begin(d, law, scale, INNOVATION)
            elif law.phi >= LASTING:
                filters.begin(d, law, scale, ABOUT_LEVEL)
        self._filters = filters if filters.laws.kind.any() else None
        return self.step(X)

    def in_words(self, names: Sequence[Any]) -> dict[Any, str]:
        """Say the law of each column."""
        if self._filters is None:
            return dict.fromkeys(names, "level")
        return {name: _said(self._filters, d) for d, name in enumerate(names)}

    # -- checkpoints -----------------------------------------------------------------------------

    def state(self, n_columns: int) -> dict[str, Any]:
        """Return the arrays, for a checkpoint."""
        if self._filters is None:
            return {}
        return arrays_of(self._filters, lengths_of(n_columns))

    def restore(self, arrays: Mapping[str, Any], n_looked: Any, n_columns: int) -> None:
        """Take up what `state` returned; raises CheckpointError."""
        refuse_if(type(n_looked) is not int or not 0 <= n_looked <= LOOKS[-1], "rows of laws")
        self.n_looked = n_looked
        if "laws.law" in arrays:
            self._filters = Filters.of(n_columns)
            self._filters.restore(arrays)


def _said(filters: Filters, d: int) -> str:
    """Say the law of a column in words."""
    law, known = filters.laws.of(d), filters.columns
    if not law.drifts:
        return "level"
    noise = float(known.noise[d, 1] / known.noise[d, 0])
    what = "random walk" if law.phi == 1.0 else f"autoregression ({law.phi:g})"
    steps = f"{what}, steps of sd {math.sqrt(noise * law.q):.3g}, noise {math.sqrt(noise):.3g}"
    jumps = ", its jumps stay in" if filters.laws.kind[d, 1] == ABOUT_LEVEL else ""
    return f"slow: {steps}{jumps}"
