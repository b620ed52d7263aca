"""What stands in the cells of one column: numbers however written, flags, times, words."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamddcrp.data.clock import Wanted, find_kind, kind_of_numbers, parse, read_cells
from streamddcrp_connectors.looking.dialect import MISSING, Dialect, is_number

_FLAGS = (
    ("false", "true"), ("no", "yes"), ("off", "on"), ("f", "t"), ("n", "y"), ("closed", "open"),
    ("down", "up"), ("nok", "ok"), ("inactive", "active"), ("stopped", "running"),
)  # fmt: skip
_SENTINELS = (
    -99.0, -99.9, -200.0, -999.0, -999.9, -999.99, -9999.0, -9999.9, -9999.99, -99999.0, 999.0,
    999.9, 999.99, 9999.0, 9999.9, 9999.99, 99999.0, 99999.9, 999999.0,
)  # fmt: skip
_COUNTERS = re.compile(
    r"(|c1|#|id|idx|index|instant|rownames|no\.?|nr\.?|num|row|row_?id|"
    r"row_?number|__index_level_0__|record|obs|seq|unnamed: 0)",
    re.I,
)
_UNIT = r"%|[A-Za-zµμ°Ω][A-Za-zµμ°Ω²³/^\d]{0,7}"
_WRITTEN = re.compile(
    r"[$€£¥]?\s*[-+]?[\d.,' ]*\d[.,]?(?:[eE][-+]?\d+)?\s*(?P<unit>" + _UNIT + ")?"
)
_CLOCKS = r"^\d{1,2}[:.]\d{2}([:.]\d{2}([.,]\d+)?)?( ?[AaPp]\.?[Mm]\.?)?$"
_TIME_NAMES = re.compile(
    r"(?:^|[_ .])(date|time|timestamp|datetime|at|ts|t|when|epoch|stamp|day|month|utc|c1)"
    r"(?:$|[_ ])",
    re.I,
)
_NO_MARKS = pa.array([mark for mark in MISSING if "nan" not in mark])


class Habit(NamedTuple):
    """How a column is written."""

    kind: str = "number"  # number, flag, time, clock, counter, words or empty
    clock: str = ""  # kind of the time, if it can be one
    unit: str = ""  # behind each number
    flags: tuple[str, ...] = ()  # the words for false and true
    sentinels: tuple[float, ...] = ()  # numbers that stand for missing ones
    marks: tuple[str, ...] = ()  # words that stand for missing values


_USUAL = Habit()


@dataclass(frozen=True)
class Cells:
    """How the cells of a text file are read as numbers."""

    dialect: Dialect = field(default_factory=Dialect)
    habits: Mapping[str, Habit] = field(default_factory=dict)  # of the columns that were looked at
    typed: bool = False  # text without letters is not the same as no text

    def __post_init__(self) -> None:
        numbers = [float(mark) for mark in self.dialect.missing if _is_float(mark)]
        object.__setattr__(self, "_sentinels", numbers)
        words = [mark.lower() for mark in self.dialect.missing]
        marks = pa.concat_arrays([_NO_MARKS, pa.array(words, pa.string())])
        object.__setattr__(self, "_marks", marks)

    _sentinels: Any = field(init=False, repr=False, default=())
    _marks: Any = field(init=False, repr=False, default=None)

    def present(self, cells: Any) -> Any:
        """Strip cells; those that are blank or stand for a missing value become null."""
        cells = trimmed(cells)
        marked = pc.is_in(pc.utf8_lower(cells), self._marks)
        return pc.if_else(marked, pa.scalar(None, pa.string()), cells)

    def numbers(self, name: str, cells: Any) -> tuple[Any, Any]:
        """Read strings as floats, or as booleans where all are flags; return the cells, too.

        A cell that held something, and whose number is null, could not be read.
        """
        habit = self.habits.get(name, _USUAL)
        odd = self.dialect.decimal == "," or self.dialect.thousands or habit.unit or habit.flags
        numbers = None
        if not odd and cells.null_count < len(cells):
            with suppress(pa.ArrowInvalid):  # plain numbers, as most columns are
                numbers = pc.cast(cells, pa.float64())
        if numbers is None:
            cells = self.present(cells)
            if habit.marks:
                marked = pc.is_in(cells, pa.array(habit.marks, pa.string()))
                cells = pc.if_else(marked, pa.scalar(None, pa.string()), cells)
            flags = pc.index_in(pc.utf8_lower(cells), pa.array(habit.flags or ("false", "true")))
            if flags.null_count == cells.null_count:
                return pc.cast(flags, pa.bool_()), cells
            written = pc.coalesce(pc.cast(flags, pa.string()), self._plain(cells, habit))
            numbers = read_cells(written, pa.float64())
        sentinels = (*habit.sentinels, *self._sentinels)
        if sentinels:
            gone = pc.is_in(numbers, pa.array(sentinels, pa.float64()))
            numbers = pc.if_else(gone, pa.scalar(None, pa.float64()), numbers)
            cells = pc.if_else(gone, pa.scalar(None, pa.string()), cells)
        return numbers, cells

    def _plain(self, cells: Any, habit: Habit) -> Any:
        """Take units, signs of money and of thousands off; write decimals with a point."""
        cells = pc.replace_substring_regex(cells, r"^([-+]?)[$€£¥] *", r"\1")
        if habit.unit:
            cells = pc.replace_substring_regex(cells, rf" *{re.escape(habit.unit)}$", "")
        comma = self.dialect.decimal == ","
        group = self.dialect.thousands or "." * comma
        if group:  # groups of three, or it is left for a refusal
            sign = re.escape(group)
            grouped = rf"^[-+]?\d{{1,3}}({sign}\d{{3}})+([^\d{sign}].*)?$"
            without = pc.replace_substring(cells, group, "")
            cells = pc.if_else(pc.match_substring_regex(cells, grouped), without, cells)
        if comma:
            points = pc.match_substring(cells, ".")
            cells = pc.if_else(points, cells, pc.replace_substring(cells, ",", "."))
            cells = pc.if_else(points, "a point", cells)
        return pc.replace_substring_regex(cells, r"^\+", "")


def _is_float(mark: str) -> bool:
    try:
        float(mark)
    except ValueError:
        return False
    return True


def trimmed(cells: Any) -> Any:
    """Strip the cells; blank ones become null."""
    stripped = pc.utf8_trim_whitespace(cells)
    return pc.if_else(pc.equal(stripped, ""), pa.scalar(None, pa.string()), stripped)


def together(columns: Sequence[Any]) -> Any:
    """Put the parts of times into one column of text, with blanks between them."""
    if len(columns) == 1:
        return columns[0]
    texts = [trimmed(pc.cast(column, pa.string())) for column in columns]
    return pc.binary_join_element_wise(*(pc.utf8_lpad(text, 2, "0") for text in texts), " ")


def find_habit(name: str, cells: Any, dialect: Dialect, wanted: Wanted) -> Habit:
    """Return how a column is written, by a sample of its cells as strings.

    Examples
    --------
    >>> cells = pa.array(["3.2 kW", "-", "2.9 kW", "3.0 kW"])
    >>> find_habit("power", cells, Dialect(), Wanted())
    Habit(kind='number', clock='', unit='kW', flags=(), sentinels=(), marks=('-',))
    """
    if dialect.decimal == "." and cells.null_count < len(cells):
        try:
            return _of_numbers(name, cells, pc.cast(trimmed(cells), pa.float64()), Habit())
        except pa.ArrowInvalid:  # not numbers alone
            pass
    plain = Cells(dialect)
    there = plain.present(cells)
    before = trimmed(cells)
    marks = tuple(pc.unique(before.filter(pc.and_(before.is_valid(), there.is_null()))).to_pylist())
    there = there.drop_null()
    if not len(there):
        return Habit("empty", marks=marks)
    words = {word.lower() for word in pc.unique(there[:1000]).to_pylist()}
    for pair in _FLAGS:
        if words <= {*pair} and (len(words) == 2 or pair[0] == "false"):
            return Habit("flag", flags=pair, marks=marks)
    units = {match["unit"] or "" for word in words if (match := _WRITTEN.fullmatch(word))}
    unit = ""
    if len(units) == 1 and all(map(_WRITTEN.fullmatch, words)) and (unit := units.pop()):
        cased = [_WRITTEN.fullmatch(cell)["unit"] for cell in there.to_pylist()]  # type: ignore[index]
        unit = cased[0] if len({*cased}) == 1 else ""
    habit = Habit(unit=unit, marks=marks)
    numbers, _ = Cells(dialect, {name: habit}).numbers(name, there)
    if numbers.null_count > 0.1 * len(there):
        clock = find_kind(there, name, wanted)
        if clock is not None and parse(there, clock)[0].null_count <= 0.1 * len(there):
            return Habit("time", clock, marks=marks)
        clocks = pc.sum(pc.match_substring_regex(there, _CLOCKS)).as_py()
        return Habit("clock" if clocks > 0.9 * len(there) else "words", marks=marks)
    odd = Counter(there.filter(numbers.is_null()).to_pylist())
    more = [cell for cell, count in odd.items() if count > 1 or cell[0] in "?*<>~"]
    more = [cell for cell in more if not is_number(cell)][:20]
    habit = habit._replace(marks=(*marks, *more))
    there, numbers = there.filter(numbers.is_valid()), numbers.drop_null()
    return _of_numbers(name, there, numbers, habit)


def _of_numbers(name: str, cells: Any, numbers: Any, habit: Habit) -> Habit:
    values = numbers.drop_null().cast(pa.float64()).to_numpy()
    clock = "" if habit.unit else _clock_of_numbers(name, cells.drop_null(), numbers)
    counts = len(values) > 2 and bool((np.diff(values) == 1).all())
    if not clock and counts and _COUNTERS.fullmatch(name):
        return Habit("counter", marks=habit.marks)
    if not len(values):
        return Habit("empty", marks=habit.marks)
    return habit._replace(clock=clock, sentinels=_sentinels_of(values))


def _clock_of_numbers(name: str, cells: Any, numbers: Any) -> str:
    kind = kind_of_numbers(numbers, name, cells)
    return "" if kind == "number" else kind


def may_be_time(name: str) -> bool:
    """Whether a column of numbers is called like a time."""
    return _TIME_NAMES.search(name) is not None


def _sentinels_of(values: Any) -> tuple[float, ...]:
    """Return numbers that repeat, far from all others, as no measurement does."""
    found: list[float] = []
    for mark in _SENTINELS:
        count = int((values == mark).sum())
        rest = values[~np.isin(values, [*found, mark])]
        if count < 2 or not len(rest):
            continue
        if mark < 0:
            far = rest.min() >= mark / 10.0
        else:
            far = rest.max() < mark / 3.0 and (rest.min() >= 0.0 or -rest.min() < mark / 3.0)
        if far:
            found.append(mark)
    return tuple(found)
