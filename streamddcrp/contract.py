"""The interface between engines and everything around them: read this first.

Each model is a folder in `streamddcrp.models`. Its engine holds a state of arrays and offers

    step(rows, t) -> out      predict each row, then learn it; ``out`` has shape (N, N_OUTPUTS)
    predict(row, t) -> out    what `step` would output for one row; changes nothing

The columns of ``out`` are named below, for all models alike. Kernels write table events (births,
returns, deaths, merges, splits) into an `EventRing`, and `streamddcrp.estimator.views` turns them
into `Event` objects. The classes in `streamddcrp.estimator` turn an engine into a river estimator:
they read batches, check rows and times, and save and load.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, Protocol, runtime_checkable

from streamddcrp.compilation import entry
from streamddcrp.records import MOST, REAL, Within, empty
from streamddcrp.typing import FloatArray, IntArray

# Columns of a step's output; a model may append its own.
LABEL = 0  # id of the most probable table
LABEL_PROB = 1  # its probability
SCORE = 2  # -log predictive density, nats
P_NEW = 3  # probability of a new table
P_CHANGE = 4  # probability that the regime changed within the last rows
LIVE_TABLES = 5  # number of live tables before the row
N_OUTPUTS = 6

LIVE = 0.5  # least expected rows, or particle weight, of a live table

# Kinds of events. Codes from SWEEP_UP on are internal and are not reported.
KINDS = ("birth", "return", "death", "merge", "split")  # in the order of the codes
BIRTH, RETURN, DEATH, MERGE, SPLIT = range(5)
SWEEP_UP = 5  # merge of a table that never got an arrival
RESTART = 6  # of a shadow
FADE = 7  # an atom came back after ``into`` rows and was partly forgotten
SWAP = 8  # exchange of ids after a split: the larger part keeps the old one
FORGET = 9  # a split forgets the rows before its halves
EVENT_CAPACITY = 256
PIECE = 64  # rows whose events always fit in a ring


class Part(NamedTuple):
    """A column or word of a row with its contribution to the surprise, or a fact of a regime.

    Attributes
    ----------
    name : str
    value : float
        Value in the row; for a regime, its mean.
    expected, sd : float
        Predictive mean and standard deviation in the units of the value, NaN if the model gives
        none. In the reasons of an event, those of the previous regime.
    surprise : float
        -log p(value | the other parts), nats.
    excess : float
        The surprise minus its expectation. In the reasons of an event, surprise and excess are the
        part's share of the symmetric Kullback-Leibler divergence of the two predictives.
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
        """Standard deviations between value and expectation, NaN if unknown."""
        return (self.value - self.expected) / self.sd if self.sd > 0.0 else math.nan

    def __str__(self) -> str:
        """Describe the part in words."""
        return f"{self.name}{':' if math.isnan(self.expected) else ''} {self._words}"

    @property
    def _words(self) -> str:
        if math.isnan(self.expected):
            return f"{self.excess:.3g} nats"
        off = self.deviations
        what = "as usual by itself" if self.excess >= 1.0 else "as usual"
        if abs(off) >= 0.95:
            far = f"{abs(off):.{0 if abs(off) >= 9.95 else 1}f} standard deviations"
            what = f"{far} {'high' if off > 0.0 else 'low'}"
        return f"{_short(self.value)}, expected {_pair(self.expected, self.sd)}: {what}"


def _short(value: float) -> str:
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"


def _pair(value: float, sd: float) -> str:
    """Write a value to the precision of its standard deviation."""
    if not sd > 0.0 or not math.isfinite(value + sd):
        return _short(value)
    digits = min(max(-math.floor(math.log10(sd)) + (1 if sd < 0.095 else 0), 0), 12)
    digits = max(digits, 0 if sd >= 9.5 else 1)
    return f"{value:.{digits}f} ± {sd:.{digits}f}"


def said(parts: Iterable[Part]) -> str:
    """Describe parts in one line."""
    return "; ".join(map(str, parts))


def said_of_change(parts: Iterable[Part]) -> str:
    """Describe a change of parts in one line: "flow 102.0 ± 1.1 to 24.2 ± 0.8"."""
    return "; ".join(
        f"{part.name} {_pair(part.expected, part.sd)} to {_pair(part.value, part.spread)}"
        for part in parts
    )


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a table.

    Attributes
    ----------
    kind : {"birth", "return", "death", "merge", "split"}
        "birth": the first arrival assigned to the table. "return": the same after an absence longer
        than the window. "death": the table left memory; its id is never reused. "merge": the table
        joined another one. "split": it was part of another one.
    label : int
        Id of the table.
    index : int
        Arrival index, from 0, of the row that the event is about. Events come in the order in which
        they were noticed; a birth may be noticed some rows after its first row.
    t : float
        Time of that row as given, or the row's number if rows have no times.
    into : int, optional
        For "merge", the id of the table it joined; for "split", of the one it came from.
    key : str or int, optional
        The stream of the event, in a model with many streams (`Keyed`).
    noticed : float, optional
        Time of the row at which it was noticed, if that is not ``t``.
    reasons : tuple of Part
        Columns in which the regime differs most from its predecessor or from the one it was part
        of: at most five, largest first, each with the present mean as value and the previous mean
        as expected value. For births, returns and splits of a `SeqDDCRP` they rest on the regime's
        first three to eight rows, recorded as these arrive, or on all its rows if none were
        recorded. Empty if the regime no longer exists. Comparisons of events ignore reasons.
    unlike : tuple of Part
        For a return, the columns in which the regime differs from its earlier visits.
    between : tuple of float, optional
        Times between which the regime's first row lies with probability 0.95, given the rows known
        when the reasons were recorded. For births and returns of a `SeqDDCRP` with known reasons
        and a single previous regime.
    number : int, optional
        The regime's number in `SeqDDCRP.summary`, reports and on the page, if it has one when the
        event is read.

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
    number: int | None = field(default=None, compare=False, kw_only=True)

    @property
    def why(self) -> str:
        """The three largest reasons in words, or an empty text."""
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
    """The interface through which `streamddcrp.estimator` drives engines of numeric rows.

    Models with side inputs (parents, groups) take them after the times. Engines of texts, epochs,
    trees and features have other methods, and these columns.
    """

    @property
    def state(self) -> Memory:
        """The state; `step` may replace it with a larger one."""
        ...

    def step(self, X: FloatArray, t: FloatArray) -> FloatArray:
        """Predict, then learn rows (N, D) at times (N,); return (N, N_OUTPUTS) or more columns."""
        ...

    def predict(self, x: FloatArray, t: float) -> tuple[FloatArray, object]:
        """Predict a row (D,): the outputs and the table probabilities. Changes nothing."""
        ...
