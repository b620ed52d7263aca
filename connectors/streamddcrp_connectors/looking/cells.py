"""What stands in the cells of one column: numbers however written, flags, times, words."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamddcrp.data.clock import Wanted, find_kind, kind_of_numbers, parse, read_cells
from streamddcrp_connectors.looking.dialect import DIGITS, MISSING, Dialect, is_number

_FLAGS = (
    ("false", "true"), ("no", "yes"), ("off", "on"), ("f", "t"), ("n", "y"), ("closed", "open"),
    ("down", "up"), ("nok", "ok"), ("inactive", "active"), ("stopped", "running"),
)  # fmt: skip
_SENTINELS = (
    -0.99, -9.9, -9.99, -99.0, -99.9, -99.99, -200.0, -999.0, -999.9, -999.99, -9999.0,
    -9999.9, -9999.99, -99999.0, 999.0, 999.9, 999.99, 9999.0, 9999.9, 9999.99,
    99999.0, 99999.9, 999999.0, 9999999.0,
)  # fmt: skip
_SHORT = (99.0, 99.9, 99.99)  # percentages, unless other columns have marks of nines
_COUNTERS = re.compile(
    r"(|c1|#|instant|rownames|row|__index_level_0__|record|obs|seq|unnamed: 0|"
    r"(.*[_ .])?(id|idx|index|seq|no\.?|nr\.?|num|number|#)|row_?id|row_?number|[A-Za-z]+Id)",
    re.I,
)
_UNIT = r"[%€$£¥]|[A-Za-zµμ°Ω][A-Za-zµμ°Ω²³/^\d]{0,7}"
_WRITTEN = re.compile(
    rf"[-+]?[$€£¥]?\s*[-+]?[{DIGITS}]*\d[.,]?(?:[eE][-+]?\d+)?\s*(?P<unit>{_UNIT}|[*#†;])?"
)
_SIZES = {
    "": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "B": 1e9, "bn": 1e9, "Ki": 1024.0,
    "Mi": 1024.0**2, "Gi": 1024.0**3, "Ti": 1024.0**4, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "μ": 1e-6,
    "n": 1e-9, "h": 100.0, "c": 0.01,
}  # fmt: skip
_PREFIX = "|".join(sorted(_SIZES, key=len, reverse=True))
_CLOCKS = (
    r"^\d{1,2}(:\d{1,2}:\d{1,2}|[:.h]\d{2}([:.]\d{2}([.,]\d+)?)?)( ?[AaPp](\.?[Mm]\.?)?)?"
    r"( ?- ?\d{2}[:.h]\d{2})?$|^\d{2} - \d{2}$"
)
_TIME_NAMES = re.compile(
    r"((?:date|time|timestamp)s?|(?:^|[\W_])(?:at|ts|t|when|epoch|stamp|day|month|year|utc|unix|decimal|"
    r"yyyymmdd|datum|zeit|fecha|start|end|index|c\d+))"
    r"(?:$|[\W_])",
    re.I,
)
_NO_MARKS = pa.array([mark for mark in MISSING if "nan" not in mark])


class Habit(NamedTuple):
    """How a column is written."""

    kind: str = "number"  # number, flag, time, clock, counter, ramp, words or empty
    clock: str = ""  # kind of the time, if it can be one
    unit: str = ""  # behind each number, or most
    base: str | None = None  # what the unit is a multiple of; others of it are turned into it
    notes: tuple[str, ...] = ()  # letters behind some numbers, which are left out
    flags: tuple[str, ...] = ()  # the words for false and true
    sentinels: tuple[float, ...] = ()  # numbers that stand for missing ones
    marks: tuple[str, ...] = ()  # words that stand for missing values


_USUAL, _PLAIN, _NONE = Habit(), Dialect(), MappingProxyType[str, Habit]({})


class Cells:
    """How the cells of a text file are read as numbers.

    ``habits`` are those of the columns that were looked at; where cells are ``typed``, text without
    letters is not the same as no text.
    """

    def __init__(
        self, dialect: Dialect = _PLAIN, habits: Mapping[str, Habit] = _NONE, *, typed: bool = False
    ) -> None:
        self.dialect, self.habits, self.typed = dialect, habits, typed
        numbers = read_cells(pa.array(dialect.missing, pa.string()), pa.float64()).drop_null()
        self._sentinels = numbers.to_pylist()
        words = [mark.lower() for mark in dialect.missing]
        self._marks = pa.concat_arrays([_NO_MARKS, pa.array(words, pa.string())])

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
        unit = habit.unit or habit.base is not None
        odd = self.dialect.decimal == "," or self.dialect.thousands or unit or habit.flags
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
            bare, sizes = _in_unit(cells, habit)
            written = pc.coalesce(pc.cast(flags, pa.string()), self._plain(bare))
            numbers = read_cells(written, pa.float64())
            numbers = numbers if sizes is None else pc.multiply(numbers, sizes)
        sentinels = (*habit.sentinels, *self._sentinels)
        if sentinels:
            gone = pc.is_in(numbers, pa.array(sentinels, pa.float64()))
            numbers = pc.if_else(gone, pa.scalar(None, pa.float64()), numbers)
            cells = pc.if_else(gone, pa.scalar(None, pa.string()), cells)
        return numbers, cells

    def _plain(self, cells: Any) -> Any:
        """Take signs of money and of thousands off; write decimals and minus as usual."""
        cells = pc.replace_substring_regex(cells, r"^(?:\((.*\d.*)\)|(.*\d)-)$", r"-\1\2")
        cells = pc.replace_substring_regex(cells, r"^([-+]?)[$€£¥] *", r"\1")
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


def _in_unit(cells: Any, habit: Habit) -> tuple[Any, Any]:
    """Take what stands behind numbers off; return by what these are to be multiplied, if any."""
    if habit.notes:
        notes = "|".join(map(re.escape, habit.notes))
        return pc.replace_substring_regex(cells, rf"(\d[.,]?) *(?:{notes})$", r"\1"), None
    plain = pc.replace_substring_regex(cells, rf" *{re.escape(habit.unit)}$", "")
    if habit.base is None or (habit.base and pc.all(pc.not_equal(plain, cells)).as_py()):
        return plain, None
    parts = pc.extract_regex(cells, rf"^(?P<n>.*\d[.,]?) *(?P<p>{_PREFIX}){re.escape(habit.base)}$")
    places = pc.index_in(pc.struct_field(parts, "p"), pa.array([*_SIZES]))
    own = _SIZES[habit.unit.removesuffix(habit.base)]
    sizes = pc.fill_null(pa.array([size / own for size in _SIZES.values()]).take(places), 1.0)
    return pc.coalesce(pc.struct_field(parts, "n"), plain), sizes


def _unit_of(units: Mapping[str, int]) -> tuple[str, str | None, tuple[str, ...]]:
    """Return the usual unit, whose multiples others may be, or what else follows numbers.

    Examples
    --------
    >>> _unit_of({"kW": 9, "MW": 2}), _unit_of({"": 9, "M": 2, "K": 1}), _unit_of({"": 9, "e": 2})
    (('kW', 'W', ()), ('', '', ()), ('', None, ('e',)))
    """
    usual = max(units, key=lambda unit: units[unit], default="")
    bases = [
        {unit} | {unit[len(size) :] for size in _SIZES if unit.startswith(size)} for unit in units
    ]
    counts = {*units} & {"k", "K", "M"} and {*units} <= {"k", "K", "M", "G", "T", "B", "bn", ""}
    shared = {base for base in set.intersection(*bases) if base or counts} if units else set()
    if shared and {*units} != {""}:
        return usual, min(shared, key=len), ()
    others = tuple(unit for unit in units if unit)
    few = usual == "" and all(re.fullmatch("[a-z*#†;]", unit) for unit in others)
    return "", None, others if few else ()


def trimmed(cells: Any) -> Any:
    """Strip the cells; blank ones become null."""
    stripped = pc.utf8_trim_whitespace(cells)
    return pc.if_else(pc.equal(stripped, ""), pa.scalar(None, pa.string()), stripped)


def together(columns: Sequence[Any]) -> Any:
    """Put the parts of times into one column of text, with blanks between them."""
    if len(columns) == 1:
        return columns[0]
    texts = [trimmed(pc.cast(column, pa.string())) for column in columns]
    texts = [pc.replace_substring_regex(text, r"^(\d{1,4})\.0+$", r"\1") for text in texts]
    return pc.binary_join_element_wise(*(pc.utf8_lpad(text, 2, "0") for text in texts), " ")


def find_habit(name: str, cells: Any, dialect: Dialect, wanted: Wanted) -> Habit:
    """Return how a column is written, by a sample of its cells as strings.

    Examples
    --------
    >>> cells = pa.array(["3.2 kW", "-", "2.9 kW", "3.0 kW"])
    >>> find_habit("power", cells, Dialect(), Wanted())
    Habit(kind='number', clock='', unit='kW', base='W', notes=(), flags=(), ...marks=('-',))
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
    matches = [*filter(None, map(_WRITTEN.fullmatch, there.to_pylist()))]
    many = len(matches) > 0.9 * len(there)
    unit, base, notes = _unit_of(Counter(match["unit"] or "" for match in matches if many))
    habit = Habit(unit=unit, base=base, notes=notes, marks=marks)
    numbers, _ = Cells(dialect, {name: habit}).numbers(name, there)
    odd = Counter(there.filter(numbers.is_null()).to_pylist())
    marked = len(odd) < 3 and numbers.null_count < 0.5 * len(there)
    marked = marked and len(pc.unique(numbers.drop_null())) > 3  # one or two words among many
    more = [cell for cell, count in odd.items() if count > 1 or cell[0] in "?*<>~"]
    more = [cell for cell in more if not is_number(cell)][:20]
    codes = [cell for cell in odd if cell not in more and re.search("[A-Za-z]", cell)]
    if len(codes) > 2 or (numbers.null_count > 0.1 * len(there) and not marked):
        clock = find_kind(there, name, wanted)
        if clock is not None and parse(there, clock)[0].null_count <= 0.1 * len(there):
            return Habit("time", clock, marks=marks)
        clocks = pc.sum(pc.match_substring_regex(there, _CLOCKS)).as_py()
        return Habit("clock" if clocks > 0.9 * len(there) else "words", marks=marks)
    habit = habit._replace(marks=(*marks, *more))
    there, numbers = there.filter(numbers.is_valid()), numbers.drop_null()
    return _of_numbers(name, there, numbers, habit)


def _of_numbers(name: str, cells: Any, numbers: Any, habit: Habit) -> Habit:
    values = numbers.drop_null().cast(pa.float64()).to_numpy()
    values = values[~np.isnan(values)]
    clock = "number" if habit.unit else kind_of_numbers(numbers, name, cells.drop_null())
    clock = "" if clock == "number" else clock
    steps = np.diff(values)
    called = _COUNTERS.fullmatch(name)  # in other columns a few numbers may be even by chance
    even = len(steps) >= (2 if called else 20) and steps[0] != 0.0 and np.ptp(steps) == 0.0
    whole = called or not pc.any(pc.match_substring(cells, ".")).as_py()
    if not clock and even and whole and (values == np.trunc(values)).all():
        return Habit("counter" if called else "ramp", marks=habit.marks)
    if not len(values):
        return Habit("empty", marks=habit.marks)
    if clock == "year" and values.min() >= 1e11:  # 202103010000: no measurement is so written
        return Habit("time", clock, marks=habit.marks)
    return habit._replace(clock=clock, sentinels=_sentinels_of(values))


def may_be_time(name: str) -> bool:
    """Whether a column of numbers is called like a time."""
    return _TIME_NAMES.search(re.sub("(?<=[a-z])(?=[A-Z])", "_", name)) is not None


def mean_words(cells: Any) -> float:
    """Return the mean number of words in a cell."""
    cells = trimmed(pc.cast(cells, pa.string())).drop_null()
    return 1.0 + float(pc.mean(pc.count_substring_regex(cells, r"\s+")).as_py() or 0.0)


def with_short_marks(name: str, cells: Any, dialect: Dialect, habit: Habit) -> Habit:
    """Add 99 and its like to the marks of a column, in a table of which another column has some."""
    if habit.kind != "number":
        return habit
    numbers, _ = Cells(dialect, {name: habit}).numbers(name, cells)
    values = numbers.cast(pa.float64()).drop_null().to_numpy()
    return habit._replace(sentinels=habit.sentinels + _sentinels_of(values, _SHORT))


def _sentinels_of(values: Any, marks: Sequence[float] = _SENTINELS) -> tuple[float, ...]:
    """Return numbers that repeat, far from all others, as no measurement does.

    One of three nines or more, and a minus, need not repeat, if it is three times as far from the
    others as these are from each other. Small ones do so among more than twenty others only.
    """
    found: list[float] = []
    for mark in marks:
        count = int((values == mark).sum())
        rest = values[~np.isin(values, [*found, mark])]
        if not count or not len(rest):
            continue
        if count == 1:
            wide = len(rest) > 20 and rest.min() - mark > 3.0 * np.ptp(rest)
            far = wide and mark <= -99.9
        elif mark < 0:
            far = rest.min() >= mark / 10.0 and (mark <= -99.0 or len(rest) > 20)
        else:
            far = rest.max() < mark / 3.0 and (rest.min() >= 0.0 or -rest.min() < mark / 3.0)
        if far:
            found.append(mark)
    return tuple(found)
