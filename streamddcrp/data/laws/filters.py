"""Filters of columns by their laws: what they know, how they begin, step and are stored."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from streamddcrp import records as rec
from streamddcrp.compilation import entry_point
from streamddcrp.data.laws.kernels import LEVELS, NEVER, SLOTS, shift_laws, step_laws
from streamddcrp.typing import FloatArray, IntArray

FEWEST = 32  # values from which a column may have a law
ROUNDED = 0.9  # share of different values, below which a column is taken for rounded or held
OFTEN = 0.1  # least share of values that differ from the one before, for the noise to be seen
LEAST_NOISE = 1e-280  # variance
GAUSSIAN = 0.954  # median distance of two values with noise of variance 1
LEAST_SHARE = 1e-4  # of a column's variance that is noise
JUMP_VARIANCE = 50.0  # least variance of a jump
BELOW_NOISE = 1.0  # variance of a drift, over that of the noise, that splits no regime
NOTHING, INNOVATION, DRIFT_ONLY = 0, 1, 2  # what is subtracted: .., drift and level, drift


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


LEVEL, STILL = Law(0.0, 0.0, jumps=True), Law(0.0, 0.0, jumps=False)
_DRIFTS = [
    Law(phi, q, jumps=jumps)
    for phi in (0.9, 0.95, 0.975, 0.99, 1.0)
    for q in (0.003, 0.03, 0.3, 3.0, 30.0)
    for jumps in (False, True)
    if q > BELOW_NOISE * (1.0 - phi * phi)
]
_TRENDS = [Law(phi, q, jumps=True, trend=True) for phi in (0.9, 0.97, 0.99) for q in (0.0003, 0.01)]
AMONG: dict[str, list[Law]] = {
    "auto": [LEVEL, STILL, *_DRIFTS, *_TRENDS],
    "level": [LEVEL],
    "slow": [law for law in _DRIFTS if not law.jumps],
}


class State(NamedTuple):
    """What the filters of the columns know: drift, level and their covariance, by hypothesis."""

    guess: Annotated[FloatArray, "D S 5", rec.FINITE]
    log_w: Annotated[FloatArray, "D S", NEVER, rec.Within(NEVER, 1e-6)]
    label: Annotated[IntArray, "D S", -1, rec.index("L", none=True)]
    age: Annotated[IntArray, "D S"]  # rows since the last jump
    level: Annotated[FloatArray, "D L 2", rec.FINITE]
    last: Annotated[IntArray, "D L"]
    n_levels: Annotated[IntArray, "D", rec.up_to("L")]
    noise: Annotated[FloatArray, "D 2", 1e-300, rec.Within(1e-300, 1e300)]
    lost: Annotated[IntArray, "D"]  # outliers in succession
    jumps: Annotated[FloatArray, "D", rec.Within(0.0, rec.MOST)]
    n: Annotated[IntArray, "D", -1]  # values learned; -1: the column has no law


class Rules(NamedTuple):
    """The laws of the columns."""

    law: Annotated[FloatArray, "D 6", rec.FINITE]  # phi, q, jump, center, trend, least noise
    kind: Annotated[IntArray, "D 2", rec.Within(0, 1)]  # whether it jumps, what is subtracted

    def of(self, d: int) -> Law:
        """Return the law of a column."""
        phi, q, _, _, trend, _ = self.law[d].tolist()
        return Law(phi, q, jumps=bool(self.kind[d, 0]), trend=bool(trend))


class Scratch(NamedTuple):
    """Work space of the kernel."""

    seen: FloatArray  # (SLOTS, 3)


@dataclass(slots=True)
class Filters:
    """Laws and what their filters know, with the work space of the kernel."""

    laws: Rules
    columns: State
    scratch: Scratch

    @classmethod
    def of(cls, n_columns: int) -> "Filters":
        """Return the filters of columns without laws."""
        lengths = lengths_of(n_columns)
        return cls(
            rec.empty(Rules, lengths), rec.empty(State, lengths), Scratch(np.zeros((SLOTS, 3)))
        )

    def begin(self, d: int, law: Law, scale: "Scale", subtracted: int) -> None:
        """Give a column a law, before its first value."""
        jump = scale.jump * (1.0 - law.phi) ** 2 if law.trend else scale.jump
        self.laws.law[d] = law.phi, law.q, jump, scale.center, law.trend, scale.least
        self.laws.kind[d] = law.jumps, subtracted
        state, drift = self.columns, law.q / (1.0 - law.phi**2) if law.phi < 1.0 else 0.0
        state.log_w[d, 0], state.n[d] = 0.0, 0
        state.guess[d, 0] = 0.0, scale.center, drift, 0.0, scale.jump
        state.noise[d] = 2.0, 2.0 * scale.noise

    def step(self, X: FloatArray, score: FloatArray) -> FloatArray:
        """Return rows less what the laws foresee; add up the log scores (D,) of the columns."""
        out = np.empty(X.shape)
        rows = np.ascontiguousarray(X)
        entry_point(step_laws)(*self.laws, self.columns, *self.scratch, rows, out, score)
        return out

    def ahead(self) -> FloatArray:
        """Return what is subtracted from the next row, (D,)."""
        out = np.empty(len(self.laws.law))
        shift_laws(*self.laws, self.columns, out)
        return out

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return rec.nbytes_of(self)

    def arrays(self, part: str) -> dict[str, Any]:
        """Return copies of the arrays, for a checkpoint; their names begin with ``part``."""
        found = rec.arrays_of(self, lengths_of(len(self.laws.law)))
        return {part + name: array for name, array in found.items()}

    def take(self, k: int, other: "Filters", at: int) -> None:
        """Take over a column of another group."""
        mine, theirs = (*self.laws, *self.columns), (*other.laws, *other.columns)
        for target, source in zip(mine, theirs, strict=True):
            target[k] = source[at]

    def restore(self, arrays: Mapping[str, Any], part: str = "") -> None:
        """Take up stored arrays, whose names begin with ``part``; raises CheckpointError."""
        mine = {name.removeprefix(part): x for name, x in arrays.items() if name.startswith(part)}
        rec.restore(self, lengths_of(len(self.laws.law)), mine)
        law = self.laws.law
        least = [0.0, 0.0, 0.0, -np.inf, 0.0, 0.0]
        in_range = (law >= least) & (law <= [1.0, 1e6, 1e300, np.inf, 1.0, 1e280])
        rec.refuse_if(not in_range.all(), "laws")


class Scale(NamedTuple):
    """What a filter expects at first: the variance of noise, that of jumps over it, the level.

    ``least``: of the noise, that of a value within the interval that it is rounded to.
    """

    noise: float
    jump: float
    center: float
    least: float


def lengths_of(n_columns: int) -> dict[str, int]:
    """Return the lengths of the axes."""
    return {"D": n_columns, "S": SLOTS, "L": LEVELS}


def scale_of(y: FloatArray, least_jump: float = 0.0) -> Scale | None:
    """Return the scale of values (N,); None where they are too few or hardly move.

    None as well where the variance of jumps is at most ``least_jump`` times that of the noise.
    """
    y = y[np.isfinite(y)]
    if len(y) < FEWEST or not np.ptp(y) > 1e-14 * np.abs(y).max():
        return None
    steps, variance = np.abs(np.diff(y)), float(y.var())
    moved = steps[steps > 0.0]
    usual = _median(steps if 2 * len(moved) > len(steps) else moved) / GAUSSIAN
    if len(moved) < OFTEN * len(steps):
        usual = 0.0
    noise = max(usual**2, LEAST_SHARE * variance)
    if least_jump >= JUMP_VARIANCE and 2.0 * variance <= least_jump * noise:
        return None
    distinct = np.unique(y)
    cell = _median(np.diff(distinct)) if len(distinct) < ROUNDED * len(y) else 0.0
    least = cell * cell / 12.0
    noise = max(noise, least)
    if not LEAST_NOISE < noise < 1.0 / LEAST_NOISE:  # squares would be lost
        return None
    jump = max(JUMP_VARIANCE, 2.0 * variance / noise)
    return Scale(noise, jump, _median(y), least) if jump > least_jump else None


def _median(y: FloatArray) -> float:
    """Return the median of known values; NumPy's own takes longer where they are few."""
    half = len(y) // 2
    if len(y) % 2:
        return float(np.partition(y, half)[half])
    below, above = np.partition(y, (half - 1, half))[half - 1 : half + 1].tolist()
    return float(0.5 * (below + above))
