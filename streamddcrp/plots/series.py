"""A series of rows with their labels, as the time line draws it, and its times in words."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamddcrp.cached import Cached
from streamddcrp.plots.segments import Numbers
from streamddcrp.typing import FloatArray, IntArray

_UNITS = (
    ("D", 86_400_000_000_000),
    ("m", 60_000_000_000),
    ("s", 10**9),
    ("ms", 10**6),
    ("us", 10**3),
)
_SPANS = (("years", 365.25 * 86400), ("days", 86400.0), ("hours", 3600.0), ("minutes", 60.0))


@dataclass(frozen=True)
class Clock:
    """The times of the rows of a series.

    >>> import numpy as np
    >>> clock = Clock(np.array(["2024-05-01T08:00", "2024-05-03T20:30"], dtype="datetime64[ns]"))
    >>> clock.at(1), clock.span(0, 1)
    ('2024-05-03 20:30', '2.5 days')
    >>> Clock(np.arange(3)).at(2)
    'row 2'
    """

    times: Any  # (N,) float64, datetime64[ns], or int64 row numbers if there are no times
    utc: bool = False  # time stamps had a zone and are in UTC

    @property
    def stamped(self) -> bool:
        """Whether the times are time stamps."""
        return bool(np.issubdtype(self.times.dtype, np.datetime64))

    @property
    def counts_rows(self) -> bool:
        """Whether the row numbers are the only times."""
        return bool(np.issubdtype(self.times.dtype, np.integer))

    def at(self, i: int) -> str:
        """Write the time of row ``i``."""
        if self.stamped:
            return str(np.datetime_as_string(self.times[i], self._unit)).replace("T", " ")
        if self.counts_rows:
            return f"row {self.times[i]}"
        return f"{float(self.times[i]):.{self._decimals}f}"

    def span(self, i: int, j: int) -> str:
        """Write the time from row ``i`` to row ``j``; empty if rows have no times."""
        if self.counts_rows:
            return ""
        if not self.stamped:
            return f"{float(self.times[j]) - float(self.times[i]):.{self._decimals}f} long"
        seconds = float(self._ticks[j] - self._ticks[i]) / 1e9
        unit, size = next(((u, s) for u, s in _SPANS if seconds >= 1.95 * s), ("seconds", 1.0))
        value = seconds / size
        short = f"{value:.1f}".removesuffix(".0") if value < 9.95 else f"{value:,.0f}"
        return f"{short} {unit.removesuffix('s') if short == '1' else unit}"

    @Cached
    def _unit(self) -> Any:
        """Coarsest unit in which all time stamps are whole, or that is a tenth of their step."""
        steps = np.diff(self._ticks)
        step = np.median(steps[steps > 0]) if (steps > 0).any() else 0
        units = (name for name, n in _UNITS if not (self._ticks % n).any() or 10 * n <= step)
        return next(units, "ns")

    @Cached
    def _decimals(self) -> int:
        """Decimals that distinguish the times of neighbouring rows; 0 if all are whole."""
        steps = np.diff(self.times)
        steps = steps[steps > 0]
        if len(steps) == 0 or not (self.times % 1).any():
            return 0
        return min(max(1 - math.floor(math.log10(float(np.median(steps)))), 1), 12)

    @Cached
    def _ticks(self) -> IntArray:
        ticks: IntArray = self.times.astype("datetime64[ns]").astype(np.int64)
        return ticks


@dataclass(frozen=True, slots=True)
class Cause:
    """A latent feature and the rows that have it."""

    id: int
    on: NDArray[np.bool_]  # (N,)


@dataclass(frozen=True, slots=True)
class Labelled:
    """A series with a label and a score for each row."""

    name: str  # with the key if there are several
    features: tuple[str, ...]
    values: FloatArray  # (N, D); NaN where missing
    labels: IntArray  # (N,)
    scores: FloatArray  # (N,); NaN in the model's warm-up, when labels have no meaning
    clock: Clock
    causes: tuple[Cause, ...] = ()  # latent features of the rows, if the model has them
    measured: FloatArray | None = None  # original values, if ``values`` have seasons subtracted
    names: Mapping[int, str] = field(default_factory=dict)  # names of regimes, by label
    note: str = ""  # a remark below its name
    cut: bool = False  # whether earlier rows are missing
    numbers: Mapping[int, int] | None = None  # of regimes; none if rows are missing

    def __post_init__(self) -> None:
        if self.numbers is None:
            numbers = Numbers()
            if not self.cut:
                numbers.see(self.labels[~np.isnan(self.scores)])
            object.__setattr__(self, "numbers", numbers.of)

    def __len__(self) -> int:
        return len(self.labels)

    def name_of(self, label: int) -> str:
        """Return the regime of a label, with its name if it has one."""
        name, number = self.names.get(label), (self.numbers or {}).get(label)
        what = f"id {label}" if number is None else f"regime {number}"
        return what + (f" ({name})" if name else "")
