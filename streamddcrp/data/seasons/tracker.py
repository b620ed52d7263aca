"""The season of each column for periods that are known: settings, state, steps."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.data.seasons.kernels import N_GAINS, better, seasons_at, step_seasons, write_season
from streamddcrp.records import Array, arrays_of, empty, nbytes_of, restore
from streamddcrp.typing import FloatArray, IntArray

FIRST_HARMONICS, HARMONICS = 12, 24  # at most, of the shortest period and of longer ones
NYQUIST = 0.48  # cycles per row that a harmonic stays below
MEMORY_PERIODS = 8  # of the longest period: amplitudes may change within a few of them ..
MEMORY_COEFFICIENTS = 25  # .. rows per coefficient at least: 2 % more variance for p / (2 N)
JUMP = 0.001  # probability, in a row, that the level jumps ..
JUMP_VARIANCE = 100.0  # .. by this variance at least, in units of the noise
HIGHEST = 0.99  # correlation of successive residuals
PRIOR = 10.0  # variance of a first harmonic, in units of the noise; of harmonic j: over j^2
NEEDED = 5.0  # nats: under the level's law, e^-5 bounds the chance that a season ever comes so far
MOST = 50.0  # nats of lead that are remembered: a season that ends is noticed within so many
LEAST_ROWS = 50  # of the memory of a variance


class Setting(NamedTuple):
    """Numbers that the kernels need."""

    forget: float  # share of the past forgotten with each value
    wander: float  # variance by which the level changes with each value, in units of the noise
    chance: float  # that the level jumps in a row
    jump: float  # least variance of a jump, in units of the noise
    highest: float  # largest correlation of successive residuals
    rate: float  # pace of variances
    keep: float  # discount of the scores by which the levels are mixed
    judges: bool  # whether the lead is counted
    most: float  # largest lead
    first: int  # values after which the lead is counted
    lag: int  # values after which the season on trial is replaced


class State(NamedTuple):
    """What is known of the columns: by the filters with jumps, then by those without."""

    coefficient: Annotated[FloatArray, "2D Q"]  # the level first
    spread: Annotated[FloatArray, "2D Q Q"]  # covariance of the coefficients over the scale
    scale: Annotated[FloatArray, "2D"]  # variance of the errors
    residual: Annotated[FloatArray, "2D"]  # the last one
    moments: Annotated[FloatArray, "2D 2"]  # mean square of residuals, mean product of successive
    correlation: Annotated[FloatArray, "2D"]  # of successive residuals
    last: Annotated[FloatArray, "2D"]  # the last value, and the basis of its row
    last_z: Annotated[FloatArray, "2D Q"]
    judged: Annotated[FloatArray, "D Q"]  # coefficients on trial, and those that come next
    pending: Annotated[FloatArray, "D Q"]
    levels: Annotated[FloatArray, "D 2 3 G"]  # without and with season: level, variance, log weight
    slow: Annotated[FloatArray, "2D"]  # mean of the values less their season ..
    miss: Annotated[FloatArray, "2D"]  # .. and mean distance from it
    lead: Annotated[FloatArray, "D"]
    n: Annotated[IntArray, "2D"]  # values learned
    age: Annotated[IntArray, "D"]  # values since the level jumped


class Scratch(NamedTuple):
    """Work space of the kernels."""

    rows: FloatArray  # (2 + 2 D, Q)
    foreseen: FloatArray  # (3, D)


@dataclass(slots=True)
class Memory:
    """The state and the work space beside it."""

    season: State
    scratch: Scratch


def places(rows: Sequence[float], harmonics: int = HARMONICS) -> tuple[IntArray, int]:
    """Return where the harmonics of rising periods stand, and how many numbers, the level's first.

    Periods after the first have at most ``harmonics``; a shared frequency is the earlier period's.
    """
    most = [FIRST_HARMONICS, *[harmonics] * (len(rows) - 1)]
    place = np.full((len(rows), max(most)), -1, dtype=np.int64)
    taken: list[float] = []
    for k, period in enumerate(rows):
        for j in range(1, most[k] + 1):
            frequency = j / period
            known = any(abs(frequency - other) < 1e-9 for other in taken)
            if frequency < NYQUIST and not known:
                place[k, j - 1] = 1 + 2 * len(taken)
                taken.append(frequency)
    return place, 1 + 2 * len(taken)


def priors(place: IntArray, n_numbers: int) -> FloatArray:
    """Return the variances (Q,) of level and harmonics before the first value.

    A cycle with edges has harmonics of amplitude 1 / j. Were all thought as large, the first rows
    of a smooth cycle would pass for jumps.
    """
    variance = np.full(n_numbers, JUMP_VARIANCE)
    for k, j in np.argwhere(place >= 0):
        variance[place[k, j] : place[k, j] + 2] = PRIOR / (j + 1.0) ** 2
    return variance


def setting_for(rows: Sequence[float], n_numbers: int, *, judges: bool) -> Setting:
    """Return the settings for periods of so many rows, rising, with so many coefficients."""
    shortest, longest = rows[0], rows[-1]
    memory = max(MEMORY_PERIODS * longest, MEMORY_COEFFICIENTS * n_numbers)
    rate = 1.0 / max(longest, LEAST_ROWS)
    return Setting(
        forget=1.0 / memory, wander=longest**-2.0, chance=JUMP, jump=JUMP_VARIANCE, highest=HIGHEST,
        rate=rate, keep=1.0 - rate / 3.0, judges=judges, most=MOST,
        first=math.ceil(2.0 * shortest), lag=max(4, round(shortest)),
    )  # fmt: skip


class Tracker:
    """Seasons of D columns with given rising ``periods``, in the unit of the times.

    ``gap``: usual distance of two rows; ``harmonics``: most of a period longer than the shortest;
    ``judges``: whether to count by how much the season leads, for periods that are only supposed.
    O(Q^2) time a row and column and O(D Q^2) memory, Q twice the number of harmonics and 1.
    """

    def __init__(
        self, periods: Sequence[float], gap: float, n_columns: int, harmonics: int = HARMONICS,
        *, judges: bool = False,
    ) -> None:  # fmt: skip
        self.periods = np.array(periods, dtype=np.float64)
        self.gap, self._most = gap, harmonics
        rows = (self.periods / gap).tolist()
        self.place, n_numbers = places(rows, harmonics)
        self.setting = setting_for(rows, n_numbers, judges=judges)
        self._lengths = {"D": n_columns, "2D": 2 * n_columns, "Q": n_numbers, "G": N_GAINS}
        scratch = Scratch(np.zeros((2 + 2 * n_columns, n_numbers)), np.zeros((3, n_columns)))
        self.memory = Memory(empty(State, self._lengths), scratch)
        self.prior = priors(self.place, n_numbers)
        self.state.spread[:] = np.diag(self.prior)

    @property
    def state(self) -> State:
        """What is known of the columns."""
        return self.memory.season

    def like(self) -> "Tracker":
        """Return a tracker of the same periods that has learned nothing."""
        new = Tracker(self.periods.tolist(), self.gap, self._lengths["D"], self._most)
        new.setting = self.setting
        return new

    def take(self, other: "Tracker", columns: NDArray[np.bool_]) -> None:
        """Take over what another tracker of the same periods knows of some columns (D,)."""
        for mine, theirs in zip(self.state, other.state, strict=True):
            at = np.resize(columns, len(mine))  # twice, where the filters are
            mine[at] = theirs[at]

    @property
    def in_use(self) -> list[bool]:
        """Whether there is something to subtract from each column."""
        now = np.empty_like(self.state.coefficient[0])
        used = []
        for d in range(self._lengths["D"]):
            write_season(self.state, d, now)
            used.append(bool(now.any()))
        return used

    @property
    def leads(self) -> bool:
        """Whether "level + season" has predicted some column clearly better than "level"."""
        return bool((self.state.lead > NEEDED).any())

    def shares(self) -> FloatArray:
        """Return the season's share (D,) in the variance of each column about its level."""
        now = np.empty_like(self.state.coefficient[0])
        found = np.zeros(self._lengths["D"])
        for d in range(len(found)):
            write_season(self.state, d, now)
            power = 0.5 * float(now @ now)
            if power > 0.0:
                found[d] = power / (power + self.state.moments[better(self.state, d), 0])
        return found

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return nbytes_of(self.memory)

    def step(self, X: FloatArray, t: FloatArray, trial: FloatArray | None = None) -> FloatArray:
        """Return rows (N, D) less the season and learn them.

        ``trial`` (N, D) becomes the rows less the season on trial, where it is judged.
        """
        X, out = np.ascontiguousarray(X), np.empty(X.shape)
        step_seasons(
            self.setting, self.place, self.prior, self.state, *self.memory.scratch,
            X, self._turns(t), out, np.empty(X.shape) if trial is None else trial,
        )  # fmt: skip
        return out

    def at(self, t: FloatArray) -> FloatArray:
        """Return the seasons at times (N,), shape (N, D)."""
        out = np.empty((len(t), self._lengths["D"]))
        seasons_at(self.place, self.state, self.memory.scratch.rows, self._turns(t), out)
        return out

    def _turns(self, t: FloatArray) -> FloatArray:
        turns = t[:, None] / self.periods
        return np.asarray(turns - np.floor(turns))

    def arrays(self) -> dict[str, Any]:
        """Return copies of the arrays, for a checkpoint."""
        return arrays_of(self.memory, self._lengths)

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Take up what `arrays` returned; raises CheckpointError."""
        restore(self.memory, self._lengths, arrays)
