r"""Read times as people write them: detect a column's kind from a sample, then parse its cells.

A kind is a word: ``number``; ``timestamp`` and ``instant``, ISO 8601 without and with a zone, which
Arrow reads; ``s``, ``ms``, ``us`` and ``ns`` since 1970, ``excel``, days of a spreadsheet,
``years``, with their fractions, and ``twelfths``, years whose fractions are months;
``year``, ``short``, ``week``, ``doy``, ``day``, ``month`` or ``name`` for dates that begin with a
year, with two digits of it, with a year and its week or day, a day or a month, or name the month,
and ``%d/%m/%Y`` for one format. Their parts are put into ISO's order for Arrow to read. ``day/48``
is a day and the number of one of its 48 periods, as electricity is accounted for.
A suffix ``@Europe/Madrid`` gives the clock's zone. A suffix ``#`` gives the last instant read,
which resolves the hour that occurs twice in autumn.
"""

import re
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamddcrp.errors import ConfigError

TYPES = {
    "number": pa.float64(),
    "timestamp": pa.timestamp("ns"),
    "instant": pa.timestamp("ns", "UTC"),
}
_YEARS = "years", "twelfths"
UNITS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}  # in nanoseconds
_DAY = 86_400 * 10**9
_EXCEL = 25_569  # days from the first day of a spreadsheet to 1970
_SPAN = 631_152_000, 4_102_444_800  # seconds of the years 1990 to 2099
_MONTHS = (  # in English, and where other languages begin them otherwise
    "jan ene gen", "feb fev fév", "mar mär mrt mrz", "apr abr avr", "may mai mag maj mei",
    "jun giu", "jul lug", "aug ago aoû", "sep set", "oct okt ott out", "nov", "dec dez dic déc",
)  # fmt: skip
MONTHS = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
MONTHS |= {"juin": 6, "juil": 7}
_CLOCK = (
    r"(?P<H>\d{1,2})(?:[:h. ]?(?P<M>\d{2})(?:[:. ]?(?P<S>\d{2})(?:[.,:](?P<f>\d{1,9}))?)?)?"
    r"(?: *(?P<p>[AaPp])(?:\.?[Mm]\.?)?)?"
)
_ABBREVIATIONS = {  # of zones, in their most common meaning: CST is US central time
    "CET": "+01", "CEST": "+02", "MEZ": "+01", "MESZ": "+02", "EET": "+02",
    "EEST": "+03", "WET": "Z", "WEST": "+01",
    "BST": "+01", "MSK": "+03", "EST": "-05", "EDT": "-04", "CST": "-06", "CDT": "-05",
    "MST": "-07", "MDT": "-06", "PST": "-08", "PDT": "-07", "JST": "+09", "AEST": "+10",
    "AEDT": "+11", "UTC": "Z", "GMT": "Z",
}  # fmt: skip
_NAMES = "|".join(_ABBREVIATIONS)
_STATED = re.compile(  # in the name of a column
    r"(?:(?i:UTC|GMT)|[(\[]) ?(?P<sign>[-+])(?P<H>0?\d|1[0-4])(?::?(?P<M>[0-5]\d))?(?!\d)"
    rf"|[(\[](?P<zone>{_NAMES})(?P<other>/(?:{_NAMES}))?[)\]]"
    r"|(?P<place>(?:Europe|America|Asia|Africa|Australia|Pacific|Atlantic)/\w+)"
)
_ZONE = (
    rf" *(?P<z>Z|{_NAMES}|(?:UTC|GMT)?[-+]\d{{2}}:?\d{{2}}|[-+]\d{{2}})?(?: ?\(?[A-Z]{{3,4}}\)?)?"
    r"(?: ?(?:[-/]|as of|to) ?\d{1,4}[-/. :h].{2,}| - ?\d\d)?$"  # the end of an interval
)
_TIME = r"(?:[T :_@-]+" + _CLOCK + ")?" + _ZONE
_Y = r"(?P<y>\d{4}|\d{2})"
_D, _M = r"(?P<d>\d{1,2})", r"(?P<m>\d{1,2})"
_SIGNS = ("[-/.]", _Y), (" ", _Y), (":", r"(?P<y>\d{4})")  # 1-2 13:00 names no year
_WEEKDAY = r"^(?:[A-Z][a-z]{2,8},? +)?"
_NAMED = r"(?P<m>[Jj]ui[ln]|[A-Za-zäéû]{3})[a-zûé]{0,7}\.?"
_FORMS = {
    "year": (
        r"^(?P<y>\d{4})[-/. ](?P<m>\d{1,2})(?:[-/. ](?P<d>\d{1,2}))?" + _TIME,
        r"^(?P<y>(?:1[5-9]|20|21)\d{2})(?P<m>\d{2})(?P<d>\d{2})" + _TIME.replace("+", "*", 1),
        r"^(?P<y>\d{4}):(?P<m>\d{2}):(?P<d>\d{2})" + _TIME,
        r"^(?P<y>(?:1[5-9]|20|21)\d{2})(?P<m>\d{2})$",
        r"^(?P<y>\d{4})[- ]?[mM]{1,2}(?P<m>\d{1,2})$",
        r"^(?P<y>\d{4})[- ]?[qQ](?P<q>[1-4])$",
    ),
    "short": (r"^(?P<y>\d\d)(?P<m>\d\d)(?P<d>\d\d)(?: " + _CLOCK + ")?$",),
    "doy": (r"^(?P<y>\d{4}) (?P<j>\d{1,3})" + _TIME,),
    "week": (r"^(?P<y>\d{4})(?: |[- ]?[wW])(?P<w>\d{1,2})(?:[- ](?P<d>[1-7]))?$",),
    "day": (
        *(f"^{_D}{sign}{_M}{sign}{year},?{_TIME}" for sign, year in _SIGNS),
        r"^(?P<d>\d\d)(?P<m>\d\d)(?P<y>\d\d)(?: " + _CLOCK + ")?$",
    ),
    "month": tuple(f"^{_M}{sign}{_D}{sign}{year},?{_TIME}" for sign, year in _SIGNS),
    "name": (
        _WEEKDAY + r"(?P<d>\d{1,2})[-/. ]{0,2}" + _NAMED + "[-/., ]*" + _Y + _TIME,
        _WEEKDAY + _NAMED + r"[- ]+(?P<d>\d{1,2})(?:, *| +|-)(?P<y>\d{4}),?" + _TIME,
        "^" + _NAMED + r"[-/., ]*(?P<y>\d{4})$",
        r"^(?P<y>\d{4})[-/. ]" + _NAMED + r"(?:[-/. ](?P<d>\d{1,2}))?" + _TIME,
        _WEEKDAY + _NAMED + r" +(?P<d>\d{1,2}) +(?P<H>\d{1,2}):(?P<M>\d{2}):(?P<S>\d{2})"
        r"(?: (?P<z>" + _NAMES + r"|(?:UTC|GMT)?[-+]\d{2}:?\d{2})| [A-Z]{3,4})? (?P<y>\d{4})$",
        _WEEKDAY + _NAMED + r" +(?P<d>\d{1,2}) +" + _CLOCK + r" (?P<y>\d{4}) (?P<z>[-+]\d{4})$",
    ),
}
_COUNTED = {"week": "week|wk", "doy": "doy|day_?of_?year|jday|yday"}  # as columns are called
_PERIODS = r"^(?P<d>.*\S) +(?P<k>\d{1,3})$"  # a day, and the number of a period of it
_NUMERIC = r"^[-+]?(\d*\.?\d*([eE][-+]?\d+)?|0[xX][\da-fA-F]+|[a-zA-Z]+)$"  # and some that are none
_NAIVE = r"^\d{4}-\d{2}-\d{2}([T ][\d:.]+)?$"
_ZONED = r"^\d{4}-\d{2}-\d{2}[T ][\d:.]+(Z|[-+]\d{2}(:?\d{2})?)$"
_DIRECTIVES = {
    "Y": r"(?P<y>\d{4})", "y": r"(?P<y>\d{2})", "m": r"(?P<m>\d{1,2})", "d": r"(?P<d>\d{1,2})",
    "b": "(?P<m>[A-Za-z]{3})", "B": "(?P<m>[A-Za-z]{3})[a-z]*", "a": "[A-Za-z]{3}",
    "A": "[A-Za-z]+", "H": r"(?P<H>\d{1,2})", "I": r"(?P<H>\d{1,2})", "M": r"(?P<M>\d{1,2})",
    "S": r"(?P<S>\d{1,2})", "f": r"(?P<f>\d{1,9})", "p": r"(?P<p>[AaPp])\.?[Mm]\.?",
    "z": r"(?P<z>Z|UTC|GMT|[-+]\d{2}:?\d{2}|[-+]\d{2})", "Z": "[A-Za-z/_]+", "%": "%",
}  # fmt: skip


class Wanted(NamedTuple):
    """What the user stated about the times of a source."""

    format: str | None = None  # as for strptime
    unit: str | None = None  # s, ms, us, ns or excel, for numeric times; None: as they are
    zone: str | None = None  # zone of the clock, for times without a zone
    day_first: bool | None = None  # whether 1/2/2021 is 1 February
    commas: bool = False  # decimal commas; ambiguous dates then have the day first

    def check(self) -> None:
        """Raise ConfigError if one of them is invalid."""
        if self.unit not in (None, "excel", "none", *UNITS):
            raise ConfigError(
                f"--time-unit must be s, ms, us, ns, excel or none, got {self.unit!r}"
            )
        if self.format is not None:
            _pattern(self.format)
        if self.zone is not None:
            try:
                pc.assume_timezone(pa.array([0], pa.timestamp("ns")), self.zone)
            except pa.ArrowException:
                raise ConfigError(
                    f"--time-zone must be a name such as Europe/Madrid, got {self.zone!r}"
                ) from None


def find_kind(cells: Any, name: str = "", wanted: Wanted = Wanted()) -> str | None:  # noqa: B008
    """Return the kind that reads most of the cells; None if no kind reads any.

    ``cells`` is a sample of trimmed strings, null where empty. ``name`` is the column's name:
    serial days of a spreadsheet need the word "date" in it.

    >>> find_kind(pa.array(["3/1/2021", "17/1/2021"])), find_kind(pa.array(["1704067200000"]))
    ('day', 'ms')
    """
    cells = cells.drop_null()
    if not len(cells):
        return None
    kind = wanted.format or _best(cells, name, wanted)
    if kind in (None, "number"):
        return kind
    zone = wanted.zone or ("" if kind in (*UNITS, *_YEARS) else _zone_in(name))
    zoned = kind == "instant" or kind.endswith("Z") or "%z" in kind
    return f"{kind}@{zone}" if zone and not zoned else kind


def _zone_in(name: str) -> str:
    """Return the zone that a column's name states, UTC apart.

    Examples
    --------
    >>> _zone_in("time (UTC+2)"), _zone_in("Time [CET]"), _zone_in("MTU (CET/CEST)")
    ('+02:00', '+01:00', 'CET')
    """
    found = _STATED.search(name)
    if found is None:
        return ""
    if found["place"]:
        with suppress(ConfigError):
            Wanted(zone=found["place"]).check()
            return found["place"]
        return ""
    if found["other"]:  # summer time, too
        return found["zone"] if found["zone"] in ("CET", "EET", "WET") else ""
    if found["sign"]:
        return f"{found['sign']}{found['H']:>02}:{found['M'] or '00'}"
    offset = _ABBREVIATIONS.get(found["zone"], "Z")
    return "" if offset == "Z" else f"{offset}:00"


def _best(cells: Any, name: str, wanted: Wanted) -> str | None:
    for form, called in _COUNTED.items():
        if re.search(called, name.lower()) and not parse(cells, form)[0].null_count:
            return form
    if name.lower().endswith("period") and (kind := _in_periods(cells, wanted)):
        return kind
    numbers = read_cells(cells, pa.float64())
    if wanted.unit is not None and numbers.null_count < len(cells):
        return "number" if wanted.unit == "none" else wanted.unit
    read = {"number": numbers}
    if numbers.null_count:
        read |= {kind: read_cells(cells, TYPES[kind]) for kind in ("timestamp", "instant")}
        if min(column.null_count for column in read.values()):
            unwanted = "doy", {True: "month", False: "day", None: ""}[wanted.day_first]
            some = cells.take(np.linspace(0, len(cells) - 1, min(len(cells), 30)).astype(int))
            forms = [form for form in _FORMS if form not in unwanted and _may_be(some, form)]
            forms = [form + zone for zone in ("", "Z") for form in forms]
            read |= {form: parse(cells, form)[0] for form in forms}
    kind = min(read, key=lambda kind: read[kind].null_count)
    if read[kind].null_count == len(cells):
        return None
    if kind == "short" and "day" in read and read["day"].null_count == read[kind].null_count:
        return min(kind, "day", key=lambda form: _roughness(read[form]))
    other = kind.replace("day", "month")
    if other != kind and other in read and read[other].null_count == read[kind].null_count:
        dots = wanted.commas or "." in cells[0].as_py()
        kind = min(kind, other, key=lambda k: (*_roughness(read[k]), (k != other) != dots))
    return kind_of_numbers(numbers, name, cells) if kind == "number" else kind


def day_and_periods(form: str) -> tuple[str, str]:
    """Return how a day is written, and the number of its periods, "" if it is not cut."""
    day, _, n = form.partition("/") if "%" not in form else (form, "", "")
    return day, n


def _in_periods(cells: Any, wanted: Wanted) -> str | None:
    """Return the kind of days and their periods, if these count to the hours of a day, or so."""
    parts = pc.extract_regex(cells, _PERIODS)
    most = pc.max(pc.cast(pc.struct_field(parts, "k"), pa.int64())).as_py() or 0
    n = next((n for n in (24, 48, 96) if n - n // 24 <= most <= n + n // 24), 0)  # summer time
    day = _best(pc.struct_field(parts, "d"), "", wanted) if n and not parts.null_count else None
    return f"{day}/{n}" if day not in (None, "number") else None


def _of_periods(cells: Any, kind: str) -> Any:
    """Read days and numbers of periods: without a zone, those beyond the usual are the last."""
    form, _, zone = kind.partition("@")
    day, n = day_and_periods(form)
    parts = pc.extract_regex(pc.cast(cells, pa.string()), _PERIODS)
    days, _ = parse(pc.struct_field(parts, "d"), f"{day}@{zone.partition('#')[0]}".rstrip("@"))
    before = pc.subtract(pc.cast(pc.struct_field(parts, "k"), pa.int64()), 1)
    before = before if zone else pc.min_element_wise(before, int(n) - 1, skip_nulls=False)
    return pc.add(days.cast(pa.int64()), pc.multiply(before, _DAY // int(n))).cast(days.type)


def _may_be(cells: Any, form: str) -> bool:
    patterns = [*map(re.compile, _FORMS[form])]
    return any(pattern.match(cell) for cell in _two(cells).to_pylist() for pattern in patterns)


def _two(cells: Any) -> Any:
    """Write the parts of clocks with two digits: 0:0:5 as 0:00:05."""
    return pc.replace_substring_regex(cells, r":(\d)\b", r":0\1")


def is_ambiguous(cells: Any) -> bool:
    """Whether days and months of all cells can be swapped, and neither way is smoother."""
    by_day, by_month = (parse(cells.drop_null(), kind)[0] for kind in ("day", "month"))
    same = by_day.null_count == by_month.null_count < len(by_day)
    return same and _roughness(by_day) == _roughness(by_month) and by_day != by_month


def _roughness(times: Any) -> tuple[int, int]:
    steps = np.diff(times.drop_null().cast(pa.int64()).to_numpy())
    return int((steps < 0).sum()), int(np.abs(steps).max(initial=0))


def kind_of_numbers(numbers: Any, name: str = "", cells: Any = None) -> str:
    """Infer the unit of numbers from their size: seconds to nanoseconds, or spreadsheet days.

    ``cells`` are the numbers as written, since 20210105 is a date; ``name`` is the column's.
    """
    values = numbers.drop_null().cast(pa.float64(), safe=False).to_numpy()
    if not len(values) or not np.isfinite(values).all():
        return "number"
    low, high = float(values.min()), float(values.max())
    for unit, size in UNITS.items():
        if _SPAN[0] * 10**9 <= low * size and high * size <= _SPAN[1] * 10**9:
            hours = unit == "s" and cells is not None and len(cells) > 2 and low >= 1_900_010_100
            return "year" if hours and not parse(cells, "year")[0].null_count else unit
    whole = cells is not None and bool((values == np.trunc(values)).all())
    if cells is not None and low >= 1700 and high <= 2200:
        return _in_years(values, name, whole=whole)
    if whole and low >= 190001:
        months = np.diff(values // 100 * 12 + values % 100)
        follow = (len(months) > 1 and set(np.abs(months)) == {1.0}) or "month" in name.lower()
        short = high <= 999999 and (high >= 210013 or len(values) < 3 or not follow)
        if not short and not parse(cells, "year")[0].null_count:
            return "year"
    called = name == "c1" or re.search("date|datum|day|ymd", name.lower())
    six = _of_six_digits(values, cells) if whole and called and high <= 991231 else ""
    serial = "date" in name.lower() and low >= 14_612 and high <= 73_051  # the years 1940 to 2099
    return six or ("excel" if serial else "number")


def _of_six_digits(values: Any, cells: Any) -> str:
    """Return what dates in order, as 210105, 050121 or 202101, are: numbers if it is not clear."""
    forms = "year", "short", "day"
    read = {form: parse(cells, form)[0] for form in forms[int(values.max() >= 210013) :]}
    even = {f: _roughness(times) for f, times in read.items() if not times.null_count}
    kind = min(even, key=even.__getitem__, default="")
    if "year" in even:  # 202001 may be in January or on 1 October
        kind = "year" if len({*(values // 100)}) > 1 else "number"
    return "number" if kind in even and even[kind][0] else kind


def _in_years(values: Any, name: str, *, whole: bool) -> str:
    """Return what numbers in the size of years are: years, years with fractions, or numbers.

    Fractions of years are in order, and are no months behind a point.
    """
    steps = np.diff(values)
    called = name == "c1" or re.search("time|date|year|decimal", name.lower())
    if whole:
        follow = called and len(steps) > 1 and set(steps) == {1.0}
        return "%Y" if follow or "year" in name.lower() else "number"
    even = len(steps) > 1 and ((steps > 0.0).all() or (steps < 0.0).all())
    even = even and np.abs(steps).max() <= 1.0 and (values % 1.0).max() > 0.13
    months = np.abs(values * 12.0 - np.rint(values * 12.0)).max() < 0.01
    return _YEARS[int(months)] if called and even else "number"


def parse(cells: Any, kind: str) -> tuple[Any, str]:
    """Read strings or numbers as times of a kind; return them and the kind for later cells.

    Unreadable cells become null. Times are float64 or timestamp[ns], in UTC for zoned cells.
    """
    form, _, clock = kind.partition("@")
    if day_and_periods(form)[1]:
        return _of_periods(cells, kind), kind
    if form in TYPES:
        times = read_cells(cells, TYPES[form])
    elif form in (*UNITS, "excel", *_YEARS):
        times = _counted(read_cells(cells, pa.float64()), cells, form)
    else:
        times = _read_form(cells, form)
    zone, _, last = clock.partition("#")
    if not zone:
        return times, kind
    resolved, at = _in_zone(times, zone, int(last) if last else None)
    return resolved, kind if at is None else f"{form}@{zone}#{at}"


def read_cells(cells: Any, to: Any) -> Any:
    """Parse strings with Arrow; unreadable ones become null."""
    try:
        return pc.cast(cells, to, safe=False)
    except pa.ArrowInvalid:
        pass
    if pa.types.is_string(cells.type):  # a quick test for most unreadable ones
        dated = pa.types.is_timestamp(to)
        pattern = _NUMERIC if not dated else _NAIVE if to.tz is None else _ZONED
        kept = pc.match_substring_regex(cells, pattern)
        cells = pc.if_else(kept, cells, pa.scalar(None, pa.string()))
    try:
        return pc.cast(cells, to, safe=False)
    except pa.ArrowInvalid:
        return pa.array([_read_one(cell, to) for cell in cells], to)


def _read_one(cell: Any, to: Any) -> Any:
    try:
        return pc.cast(cell, to, safe=False)
    except pa.ArrowInvalid:
        return pa.scalar(None, to)


def _counted(numbers: Any, cells: Any, unit: str) -> Any:
    """Turn counts of a unit into time stamps, exact to the nanosecond for whole counts."""
    values = numbers.to_numpy(zero_copy_only=False)
    lost = ~np.isfinite(values)
    if unit in _YEARS:
        years = np.clip(np.where(lost, 1970.0, values), 1678.0, 2261.0)
        starts = (np.floor(years).astype(int) + np.array([[-1970], [-1969]])).astype("M8[Y]")
        begun, end = starts.astype("M8[s]").astype(np.int64)
        ticks = (begun + np.rint(years % 1.0 * (end - begun)).astype(np.int64)) * 10**9
        if unit == "twelfths":
            months = (np.rint(years * 12.0).astype(int) - 1970 * 12).astype("M8[M]")
            ticks = months.astype("M8[ns]").astype(np.int64)
    elif unit == "excel":
        days = np.clip(np.where(lost, 0.0, values) - _EXCEL, -106_000.0, 106_000.0)
        ticks = np.rint(days * 86_400e3).astype(np.int64) * 10**6
    else:
        whole = read_cells(cells, pa.int64()) if not pa.types.is_floating(cells.type) else None
        if whole is not None and whole.null_count == numbers.null_count:
            ticks = whole.fill_null(0).to_numpy(zero_copy_only=False).astype(object) * UNITS[unit]
            ticks = ticks.astype(np.float64) if max(abs(ticks), default=0) >= 2**63 else ticks
        else:
            size = min(10**6, UNITS[unit])  # float resolution in this century
            floats = np.rint(np.where(lost, 0.0, values) * size)
            lost |= np.abs(floats) * (UNITS[unit] // size) >= 2.0**63
            ticks = np.where(lost, 0.0, floats).astype(np.int64) * (UNITS[unit] // size)
    lost |= np.abs(ticks.astype(np.float64)) >= 2.0**63
    return pa.array(np.where(lost, 0, ticks).astype(np.int64), pa.timestamp("ns"), mask=lost)


def _read_form(cells: Any, form: str) -> Any:
    """Put the parts of dates into ISO's order for Arrow to read."""
    cells = pc.cast(cells, pa.string())
    zoned = form.endswith("Z") or "%z" in form
    patterns = _FORMS.get(form.rstrip("Z")) or (_pattern(form),)
    cells = _two(cells) if form.rstrip("Z") in _FORMS else cells
    times = pa.nulls(len(cells), TYPES["instant" if zoned else "timestamp"])
    for pattern in patterns:
        iso, next_day = _iso(cells, pattern)
        found = read_cells(iso, times.type)
        if pc.any(next_day).as_py():
            later = pc.if_else(next_day, _DAY, 0).cast(pa.int64())
            found = pc.add(found.cast(pa.int64()), later).cast(found.type)
        times = pc.coalesce(times, found)
        if times.null_count == cells.null_count:
            break
    return times


def _iso(cells: Any, pattern: str) -> tuple[Any, Any]:
    parts = pc.extract_regex(cells, pattern)
    n, there = len(cells), {field.name for field in parts.type}

    def part(name: str, default: str = "") -> Any:
        if name not in there:
            return pa.array([default] * n, pa.string())
        found = pc.struct_field(parts, name)
        return pc.if_else(pc.equal(found, ""), default, found)

    def two(name: str, default: str) -> Any:
        return pc.utf8_lpad(part(name, default), 2, "0")

    year = part("y")
    century = pc.if_else(pc.less(year, "69"), "20", "19")
    year = pc.if_else(pc.equal(pc.utf8_length(year), 2), _join(century, year), year)
    month = part("m", "1")
    named = pc.index_in(pc.utf8_lower(month), pa.array([*MONTHS]))
    month = pc.coalesce(pa.array([str(m) for m in MONTHS.values()]).take(named), month)
    if "q" in there:
        quarter = pc.index_in(part("q"), pa.array(["1", "2", "3", "4"]))
        month = pc.cast(pc.add(pc.multiply(quarter, 3), 1), pa.string())
    month = pc.utf8_lpad(month, 2, "0")
    hour = two("H", "00")
    if "p" in there:
        half = pc.utf8_lower(part("p"))
        hour = pc.if_else(pc.and_(pc.equal(hour, "12"), pc.not_equal(half, "")), "00", hour)
        afternoon = pc.fill_null(pc.equal(half, "p"), False)
        late = pc.cast(
            pc.add(pc.cast(pc.if_else(afternoon, hour, "0"), pa.int32()), 12), pa.string()
        )
        hour = pc.if_else(afternoon, late, hour)
    next_day = pc.fill_null(pc.equal(hour, "24"), False)
    hour = pc.if_else(next_day, "00", hour)
    fraction = part("f")
    dot = pc.if_else(pc.equal(fraction, ""), "", ".")
    zone = part("z")
    zone = pc.replace_substring_regex(zone, r"^(?:UTC|GMT)([-+])", r"\1")
    named = pc.index_in(zone, pa.array([*_ABBREVIATIONS]))
    zone = pc.coalesce(pa.array([*_ABBREVIATIONS.values()]).take(named), zone)
    zone = pc.replace_substring_regex(zone, r"^([-+]\d{2}):?(\d{2})?$", r"\1:\2")
    zone = pc.replace_substring_regex(zone, ":$", ":00")
    clock = _join(hour, pa.scalar(":"), two("M", "00"), pa.scalar(":"), two("S", "00"))
    date = _join(year, pa.scalar("-"), month, pa.scalar("-"), two("d", "01"))
    if {"w", "j"} & there:
        date = _counted_days(year, part("w", "0"), part("j" if "j" in there else "d", "1"))
    return _join(date, pa.scalar("T"), clock, dot, fraction, zone), next_day


def _counted_days(years: Any, weeks: Any, days: Any) -> Any:
    """Return days of ISO's weeks, of which the first has the year's fourth day; 0: of the year."""
    year, week, day = (
        pc.fill_null(pc.cast(part, pa.int64()), 0).to_numpy() for part in (years, weeks, days)
    )
    first = (year - 1970).astype("M8[Y]").astype("M8[D]")
    monday = first + 3 - (first.astype(int) + 6) % 7
    dates = np.where(week > 0, monday + 7 * (week - 1), first) + day - 1
    good = pc.and_(years.is_valid(), pa.array((day > 0) & (day < 367) & (week < 54)))
    return pc.if_else(good, pa.array(np.datetime_as_string(dates)), pa.scalar(None, pa.string()))


def _join(*parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, "")


def _pattern(format: str) -> str:
    """Turn a strptime format into a regular expression."""
    found = []
    for literal, directive in re.findall(r"([^%]+)|%-?(.)", format):
        if literal:
            found.append(re.escape(literal).replace(r"\ ", " +"))
        elif directive in _DIRECTIVES:
            found.append(_DIRECTIVES[directive])
        else:
            known = " ".join(f"%{letter}" for letter in _DIRECTIVES)
            raise ConfigError(f"--time-format: %{directive} is not known; there are {known}")
    pattern = "^" + "".join(found) + "$"
    with suppress(re.error):
        if "y" in re.compile(pattern).groupindex:
            return pattern
    raise ConfigError(
        f"--time-format must name each part of a date once, and the year, got {format!r}"
    )


def _in_zone(times: Any, zone: str, last: int | None) -> tuple[Any, int | None]:
    """Convert local times; the hour that occurs twice continues from the row before."""
    first, second = (
        pc.assume_timezone(times, zone, ambiguous=which, nonexistent="earliest")
        for which in ("earliest", "latest")
    )
    ticks = first.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).copy()
    late = second.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    there = np.flatnonzero(times.is_valid().to_numpy(zero_copy_only=False))
    before = dict(zip(there[1:].tolist(), there[:-1].tolist(), strict=True))
    for row in np.flatnonzero(ticks != late).tolist():
        known = ticks[before[row]] if row in before else last
        if known is not None and ticks[row] < known:
            ticks[row] = late[row]
    lost = np.ones(len(ticks), bool)
    lost[there] = False
    at = int(ticks[there[-1]]) if len(there) else last
    return pa.array(ticks, pa.timestamp("ns", "UTC"), mask=lost), at
