"""The contract between engines and everything around them: read this first.

Each model is a folder in `streamddcrp.models`. Its engine holds a state of arrays and offers

    step(rows, t) -> out      predict each row, then learn it; ``out`` has shape (N, N_OUTPUTS)
    predict(row, t) -> out    what `step` would say of one row; changes nothing

The columns of ``out`` are named below, for all models alike. What happened to tables (births,
returns, deaths, merges, splits) is written by the kernels into an `EventRing`, from which
`streamddcrp.estimator.views` makes `Event` objects. The classes in `streamddcrp.estimator` turn an
engine into a river estimator: they read batches, check rows and times, and save and load.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, Protocol, runtime_checkable

from streamddcrp.compilation import entry
from streamddcrp.records import MOST, REAL, Within, empty
from streamddcrp.typing import FloatArray, IntArray

# Columns of the output of a step; a model may add its own behind them.
LABEL = 0  # id of the most probable table
LABEL_PROB = 1  # its probability
SCORE = 2  # -log predictive density, nats
P_NEW = 3  # probability of a new table
P_CHANGE = 4  # probability that the regime changed within the last rows
LIVE_TABLES = 5  # number of live tables before the row
N_OUTPUTS = 6

LIVE = 0.5  # expected rows, or weight of particles, from which a table counts as live

# Kinds of events. Codes from SWEEP_UP on are housekeeping and are not reported.
KINDS = ("birth", "return", "death", "merge", "split")  # in the order of the codes
BIRTH, RETURN, DEATH, MERGE, SPLIT = range(5)
SWEEP_UP = 5  # a merge of a table at which no arrival was ever seen
RESTART = 6  # of a shadow
FADE = 7  # an atom came back after ``into`` rows, and lost what no longer holds
SWAP = 8  # of ids after a split: the larger part keeps the old one
FORGET = 9  # a split forgets the rows from before its halves
EVENT_CAPACITY = 256
PIECE = 64  # rows that make fewer events than that


class Part(NamedTuple):
    """A part of a row, a column or a word, and what it says; or what it says of a regime.

    Attributes
    ----------
    name : str
    value : float
        Of the row; of a regime, its mean.
    expected, sd : float
        Predictive mean and standard deviation in the units of the value, NaN where a model does not
        say; in the reasons of an event, of the regime before.
    surprise : float
        -log p(value | the other parts), nats.
    excess : float
        The surprise less its expectation; in the reasons of an event, both are the part's share of
        the symmetric Kullback-Leibler divergence of the two regimes' predictives.
    spread : float
        In the reasons of an event, the predictive standard deviation of the regime.
    """

    name: str
    value: float
    expected: float = math.nan
    sd: float = math.nan
    surprise: float = math.nan
    excess: float = math.nan
    spread: float = math.nan

    @property
    def deviations(self) -> float:
        """Standard deviations from what was expected, NaN where it is not known."""
        return (self.value - self.expected) / self.sd if self.sd > 0.0 else math.nan

    def __str__(self) -> str:
        """Say it in words."""
        if math.isnan(self.expected):
            return f"{self.name}: {self.excess:.3g} nats"
        off = self.deviations
        far = f"{abs(off):.{0 if abs(off) >= 9.95 else 1}f} standard deviations"
        high = "high" if off > 0.0 else "low"
        return f"{self.name} {_short(self.value)}, expected {_pair(self.expected, self.sd)}: " + (
            f"{far} {high}" if abs(off) >= 0.95 else "as usual"
        )


def _short(value: float) -> str:
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def _pair(value: float, sd: float) -> str:
    """Write a value with as many digits as its standard deviation has."""
    if not sd > 0.0 or not math.isfinite(value + sd):
        return _short(value)
    digits = min(max(-math.floor(math.log10(sd)) + (1 if sd < 0.095 else 0), 0), 12)
    digits = max(digits, 0 if sd >= 9.5 else 1)
    return f"{value:.{digits}f} ± {sd:.{digits}f}"


def said(parts: Iterable[Part]) -> str:
    """Say parts in words, in one line."""
    return "; ".join(map(str, parts))


def said_of_change(parts: Iterable[Part]) -> str:
    """Say in one line from what to what parts changed: "flow 102.0 ± 1.1 to 24.2 ± 0.8"."""
    return "; ".join(
        f"{part.name} {_pair(part.expected, part.sd)} to {_pair(part.value, part.spread)}"
        for part in parts
    )


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a table.

    Attributes
    ----------
    kind : {"birth", "return", "death", "merge", "split"}
        "birth": an arrival was assigned to it for the first time. "return": the same, after an
        absence longer than the window. "death": the table left memory; its id is never reused.
        "merge": it is one with another table from now on. "split": it was part of another one.
    label : int
        Id of the table.
    index : int
        Arrival index, from 0, of the row that it is about. Events come in the order in which they
        were noticed, and a birth may be noticed some rows after the first row of its table.
    t : float
        Time of that row, as it was given; the row's number where rows have no times.
    into : int, optional
        For "merge", the id of the table it joined; for "split", of the one it came from.
    key : str or int, optional
        The stream it belongs to, in a model that keeps many (`Keyed`).
    noticed : float, optional
        Time of the row at which it was noticed, where that is not ``t``.
    reasons : tuple of Part
        Columns in which the regime differs from the one before it, or from the one it was part of,
        the largest difference first: at most five, each with the mean now as its value and the mean
        before as the expected one. For births, returns and splits of a `SeqDDCRP`, by the first
        three to eight rows of the regime, recorded while these come; if none were recorded, by all
        its rows. Empty if the regime is gone by then. Events are compared without their reasons.
    unlike : tuple of Part
        For a return, the columns in which the regime differs from its earlier visits.
    between : tuple of float, optional
        Times between which the first row of the regime lies with probability 0.95, given the rows
        that had come when the reasons were recorded. For births and returns of a `SeqDDCRP`, where
        reasons are known and one regime was left for another.

    Examples
    --------
    >>> Event("birth", 3, 120, 120.0).kind
    'birth'
    """

    kind: str
    label: int
    index: int
    t: float
    into: int | None = None
    key: str | int | None = None
    noticed: float | None = None
    reasons: tuple[Part, ...] = field(default=(), compare=False, kw_only=True)
    unlike: tuple[Part, ...] = field(default=(), compare=False, kw_only=True)
    between: tuple[float, float] | None = field(default=None, compare=False, kw_only=True)

    @property
    def why(self) -> str:
        """The three largest reasons in words; empty where there are none."""
        last = said_of_change(self.unlike[:3])
        said = [said_of_change(self.reasons[:3]), f"unlike its last visit: {last}" if last else ""]
        return "; ".join(filter(None, said))


class EventRing(NamedTuple):
    """The last events."""

    kind: Annotated[IntArray, "E", Within(0, FORGET)]
    label: Annotated[IntArray, "E"]
    into: Annotated[IntArray, "E", Within(-1, MOST)]  # the other table, or -1
    arrival: Annotated[IntArray, "E"]
    t: Annotated[FloatArray, "E", REAL]


def empty_events(capacity: int = EVENT_CAPACITY) -> EventRing:
    """Return a ring with room for ``capacity`` events."""
    return empty(EventRing, {"E": capacity})


@entry
def record(events, counts, at, kind, label, into, index, t):  # type: ignore[no-untyped-def]
    """Write an event over the oldest one; ``counts[at]`` is the number of events so far."""
    i = counts[at] % len(events.kind)
    events.kind[i], events.label[i], events.into[i] = kind, label, into
    events.arrival[i], events.t[i] = index, t
    counts[at] += 1


class Memory(Protocol):
    """What any engine's state has, beside its own groups of arrays."""

    @property
    def events(self) -> Any:
        """The last events: an `EventRing`, or its fields and further ones."""
        ...

    @property
    def counts(self) -> IntArray:
        """Counters, the number of events among them."""
        ...


@runtime_checkable
class Engine(Protocol):
    """What `streamddcrp.estimator` drives where rows of numbers sit at tables.

    Models with side inputs (parents, groups) take them after the times. Engines of texts, epochs,
    trees and features have methods of their own, and these columns.
    """

    @property
    def state(self) -> Memory:
        """The state; `step` may replace it by a larger one."""
        ...

    def step(self, X: FloatArray, t: FloatArray) -> FloatArray:
        """Predict, then learn rows (N, D) at times (N,); return (N, N_OUTPUTS) or more columns."""
        ...

    def predict(self, x: FloatArray, t: float) -> tuple[FloatArray, object]:
        """Predict a row (D,): the outputs, and the probabilities of the tables. Changes nothing."""
        ...
