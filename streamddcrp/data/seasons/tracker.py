"""The season of each column for periods that are known: settings, state, steps."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np

from streamddcrp.data.seasons.kernels import N_GAINS, seasons_at, step_seasons
from streamddcrp.records import Array, arrays_of, empty, nbytes_of, restore
from streamddcrp.typing import FloatArray, IntArray

FIRST_HARMONICS, HARMONICS = 12, 24  # at most, of the shortest period and of longer ones
NYQUIST = 0.48  # cycles per row that a harmonic stays below
MEMORY_PERIODS = 8  # of the longest period: amplitudes may change within a few of them ..
MEMORY_COEFFICIENTS = 25  # .. rows per coefficient at least: 2 % more variance for p / (2 N)
HUBER = 1.345  # errors beyond so many deviations weigh less: 95 % efficient under a normal law
PRIOR = 10.0  # variance of a coefficient, in units of the noise
NEEDED = 5.0  # nats: under the level's law, e^-5 bounds the chance that a season ever comes so far
MOST = 50.0  # nats of lead that are remembered: a season that ends is noticed within so many
LEAST_ROWS = 50  # of the memory of a variance


class Setting(NamedTuple):
    """Numbers that the kernels need."""

    forget: float  # share of the past forgotten with each value
    filter: float  # pace of the slow mean that the high-pass filter subtracts
    huber: float
    rate: float  # pace of variances
    keep: float  # discount of the scores by which the levels are mixed
    needed: float  # lead from which on a season is used
    most: float  # largest lead
    prior: float
    first: int  # values after which the lead is counted
    lag: int  # values after which the season on trial is replaced


class State(NamedTuple):
    """What is known of the columns."""

    coefficient: Annotated[FloatArray, "D P"]
    spread: Annotated[FloatArray, "D P P"]  # covariance of the coefficients over the scale
    slow: Annotated[FloatArray, "D"]  # mean that the filter subtracts, and that of the basis
    slow_z: Annotated[FloatArray, "D P"]
    scale: Annotated[FloatArray, "D"]  # variance of the errors
    judged: Annotated[FloatArray, "D P"]  # coefficients on trial, and those that come next
    pending: Annotated[FloatArray, "D P"]
    levels: Annotated[FloatArray, "D 2 3 G"]  # without and with season: level, variance, log weight
    lead: Annotated[FloatArray, "D"]
    n: Annotated[IntArray, "D"]  # values learned


@dataclass(slots=True)
class Memory:
    """The state and the work space beside it."""

    season: State
    scratch: FloatArray  # (4, P)


def places(rows: Sequence[float], harmonics: int = HARMONICS) -> tuple[IntArray, int]:
    """Return where the harmonics of periods, in rows and rising, stand, and how many numbers.

    Longer periods than the first have at most ``harmonics`` of them. A frequency that several
    periods have belongs to the first of them.
    """
    most = [FIRST_HARMONICS, *[harmonics] * (len(rows) - 1)]
    place = np.full((len(rows), max(most)), -1, dtype=np.int64)
    taken: list[float] = []
    for k, period in enumerate(rows):
        for j in range(1, most[k] + 1):
            frequency = j / period
            known = any(abs(frequency - other) < 1e-9 for other in taken)
            if frequency < NYQUIST and not known:
                place[k, j - 1] = 2 * len(taken)
                taken.append(frequency)
    return place, 2 * len(taken)


def setting_for(rows: Sequence[float], n_numbers: int) -> Setting:
    """Return the settings for periods of so many rows, rising, with so many coefficients."""
    shortest, longest = rows[0], rows[-1]
    memory = max(MEMORY_PERIODS * longest, MEMORY_COEFFICIENTS * n_numbers)
    rate = 1.0 / max(longest, LEAST_ROWS)
    return Setting(
        forget=1.0 / memory, filter=1.0 - math.exp(-2.0 * math.pi / longest), huber=HUBER,
        rate=rate, keep=1.0 - rate / 3.0, needed=NEEDED, most=MOST, prior=PRIOR,
        first=math.ceil(2.0 * shortest), lag=max(4, round(shortest)),
    )  # fmt: skip


class Tracker:
    """Seasons of D columns with given periods.

    Parameters
    ----------
    periods : sequence of float
        Rising, in the unit of the times.
    gap : float
        Usual distance of two rows in that unit.
    n_columns : int
    harmonics : int
        At most, of a longer period than the shortest.

    Notes
    -----
    O(P^2) time a row and column and O(D P^2) memory, with P twice the number of harmonics.
    """

    def __init__(
        self, periods: Sequence[float], gap: float, n_columns: int, harmonics: int = HARMONICS
    ) -> None:
        self.periods = np.array(periods, dtype=np.float64)
        self.gap = gap
        rows = (self.periods / gap).tolist()
        self.place, n_numbers = places(rows, harmonics)
        self.setting = setting_for(rows, n_numbers)
        self._lengths = {"D": n_columns, "P": n_numbers, "G": N_GAINS}
        self.memory = Memory(empty(State, self._lengths), np.zeros((4, n_numbers)))
        self.state.spread[:] = PRIOR * np.eye(n_numbers)

    @property
    def state(self) -> State:
        """What is known of the columns."""
        return self.memory.season

    @property
    def in_use(self) -> list[bool]:
        """Whether the season of each column is subtracted."""
        used: list[bool] = (self.state.lead > self.setting.needed).tolist()
        return used

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return nbytes_of(self.memory)

    def step(self, X: FloatArray, t: FloatArray) -> FloatArray:
        """Return rows (N, D) at times (N,), less the season where it is in use; learn them."""
        out = np.empty(X.shape)
        step_seasons(
            self.setting, self.place, self.state, self.memory.scratch, np.ascontiguousarray(X),
            self._turns(t), out,
        )  # fmt: skip
        return out

    def at(self, t: FloatArray) -> FloatArray:
        """Return the seasons in use at times (N,), shape (N, D)."""
        out = np.empty((len(t), self._lengths["D"]))
        seasons_at(self.setting, self.place, self.state, self.memory.scratch, self._turns(t), out)
        return out

    def _turns(self, t: FloatArray) -> FloatArray:
        turns = t[:, None] / self.periods
        return np.asarray(turns - np.floor(turns))

    def arrays(self) -> dict[str, Any]:
        """Return copies of the arrays, for a checkpoint."""
        found: dict[str, Any] = arrays_of(self.memory, self._lengths)
        del found["scratch"]
        return found

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Take up what `arrays` returned; raises CheckpointError."""
        restore(self.memory, self._lengths, {"scratch": self.memory.scratch, **arrays})
