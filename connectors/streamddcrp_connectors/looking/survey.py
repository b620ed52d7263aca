"""Which columns of a table a run uses when they are not named, and what it says of them."""

import re
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise, takewhile
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamddcrp.data.clock import (
    UNITS,
    Wanted,
    day_and_periods,
    find_kind,
    is_ambiguous,
    parse,
    read_cells,
)
from streamddcrp_connectors.looking.cells import (
    Habit,
    find_habit,
    may_be_time,
    mean_words,
    together,
    trimmed,
    with_short_marks,
)
from streamddcrp_connectors.looking.dialect import Dialect

ROWS = 3000  # of a sample that are looked at
TAIL = 20  # lines of no rows that may follow a table
_PARTS = (  # as they are called
    ("year", "yyyy", "yy", "yr"), ("month", "mon", "mo", "mm", "m", "period"),
    ("day", "dd", "dy", "d"), ("hour", "hh", "hr", "h"),
    ("minute", "min", "mn", "mm"), ("second", "sec", "ss"),
)  # fmt: skip
_COUNTED = ("doy", "dayofyear", "day_of_year", "jday", "yday"), ("week", "wk")  # of years
_DIGITS = r"^([01]?\d|2[0-4])([0-5]\d([0-5]\d)?)?$"  # of a clock
_IDS = re.compile(  # of the things that numbers tell apart
    r"(?i:(.*[\W_])?(id|(bike|user|device|station|sensor|store|site|item|trip|session)_?id))"
    r"|.*[a-z]I[dD]"
)
_ID = "an id"
_ZONE_NAMES = re.compile(r"(?i:(?:.*\W)?(?:time[ _]?zone|zeitzone|tz|utc[ _]?offset))")
_ZONE = re.compile(r"Z|(?:UTC|GMT)?[-+]\d\d:?\d\d|[A-Z]{3,4}")
_WHY = {
    "words": "words", "time": "times", "clock": "times of day", "counter": "counts the rows",
    "ramp": "counts the rows", "empty": "empty",
}  # fmt: skip


class Survey(NamedTuple):
    """What a sample shows."""

    habits: Mapping[str, Habit]
    times: tuple[str, ...]  # columns that make up the time
    kind: str | None  # how the time is written
    features: tuple[str, ...]  # columns of numbers
    left_out: Mapping[str, str]  # other columns, and why they are left out
    key: str | None = None  # a column of words, in whose blocks alone the rows are in order


def survey(
    table: Any, dialect: Dialect, wanted: Wanted, times: Sequence[str] | None, key: str | None,
    texts: Sequence[str] = (),
) -> Survey:  # fmt: skip
    """Look at a table of strings.

    ``times`` are the columns of the time; None: to be found, if the rows are in the order of one;
    empty: there is none. ``texts`` are columns that are not looked at.
    """
    table = table.slice(0, ROWS)
    names = [name for name in table.schema.names if name != key and name not in texts]
    habits = {name: find_habit(name, table.column(name), dialect, wanted) for name in names}
    if any(habit.sentinels for habit in habits.values()):
        for name, habit in habits.items():
            habits[name] = with_short_marks(name, table.column(name), dialect, habit)
    if times is None:
        times, key = _find_times(table, habits, wanted, key)
    else:
        if len(times) == 1 and _is_day(table, habits, times[0], wanted):
            times = (*times, *_clocks(table, habits, times[0])[:1])
        key = key or (_find_key(table, habits, times, wanted) if times else None)
    times = (*times, *_zones(table, times))
    kind = _kind(table, times, wanted)
    stamped = parse(_joined(table, times), kind)[0] if kind not in (None, "number") else None
    features, left_out = [], {}
    some = any(habit.kind in ("number", "flag") for habit in habits.values())
    for name in names:
        habit = habits[name]
        if name in times or name == key:
            continue
        empty = habit.kind == "empty" and not (some and _is_unnamed(name))
        cells = table.column(name)
        stamps = _is_stamps(name, cells, habit.clock) or _is_again(cells, habit.clock, stamped)
        if habit.kind == "number" and stamps:
            left_out[name] = _WHY["time"]
        elif habit.kind == "number" and _is_code(name, cells, first=name == names[0]):
            left_out[name] = _ID
        elif habit.kind in ("number", "flag") or empty:
            features.append(name)
        else:
            texts_of_words = habit.kind == "words" and _is_text(cells)
            left_out[name] = f"texts: --text {name}" if texts_of_words else _WHY[habit.kind]
    if not features:
        ramps = [name for name in left_out if habits[name].kind == "ramp"]
        features = ramps or [name for name, why in left_out.items() if why == _ID]
        left_out = {name: why for name, why in left_out.items() if name not in features}
    return Survey(habits, tuple(times), kind, tuple(features), left_out, key)


def _is_text(cells: Any) -> bool:
    """Whether cells are texts, such as headlines: mostly different, of four words and more."""
    cells = trimmed(pc.cast(cells, pa.string())).drop_null()
    return mean_words(cells) >= 4.0 and len(pc.unique(cells)) > len(cells) / 2


def _is_stamps(name: str, cells: Any, clock: str) -> bool:
    """Whether numbers of that size are other times: called so, or whole and mostly in order.

    Seconds since 1970 are so if they are both.
    """
    called = may_be_time(name)
    if clock not in UNITS or called != (clock == "s"):
        return clock in UNITS and called
    values = read_cells(trimmed(cells).drop_null(), pa.float64()).to_numpy(zero_copy_only=False)
    values = values[np.isfinite(values)]
    return bool((values == np.trunc(values)).all()) and _falls(np.diff(values)) <= len(values) / 10


def _is_again(cells: Any, clock: str, times: Any) -> bool:
    """Whether seconds since 1970 are the times of the rows once more, in any zone."""
    if clock != "s" or times is None:
        return False
    seconds = parse(trimmed(cells), clock)[0].cast(pa.int64())
    return len(pc.unique(pc.subtract(seconds, times.cast(pa.int64())).drop_null())) == 1


def _is_code(name: str, cells: Any, *, first: bool) -> bool:
    """Whether numbers name things: called an id, or one and the same that begins with a zero."""
    cells = pc.unique(trimmed(cells).drop_null())
    padded = len(cells) == 1 and re.fullmatch(r"0\d+", cells[0].as_py()) is not None
    called = _IDS.fullmatch(name) and (first or name != "id")  # idle, in the table of vmstat
    whole = pc.match_substring_regex(cells, r"^\d+(\.0)?$") if called else None
    return padded or (whole is not None and pc.all(whole).as_py())


def _zones(table: Any, times: Sequence[str]) -> list[str]:
    """Return the column that states the zone of each time, if there is one, and not all is UTC."""
    called = (name for name in table.schema.names if _ZONE_NAMES.fullmatch(name) and times)
    cells = {name: pc.unique(trimmed(table.column(name))).to_pylist() for name in called}
    zones = [name for name in cells if all(map(_ZONE.fullmatch, [c or "" for c in cells[name]]))]
    return [name for name in zones if name not in times and {*cells[name]} != {"UTC"}][:1]


def _is_unnamed(name: str) -> bool:
    return name[:1] == "c" and name[1:].isdigit()


def _joined(table: Any, names: Sequence[str]) -> Any:
    return trimmed(pc.cast(together([table.column(name) for name in names]), pa.string()))


def _kind(table: Any, names: Sequence[str], wanted: Wanted) -> str | None:
    return find_kind(_joined(table, names), " ".join(names), wanted) if names else None


def _is_day(table: Any, habits: Mapping[str, Habit], name: str, wanted: Wanted) -> bool:
    """Whether a column holds days, many of them for several rows."""
    if habits.get(name, Habit()).clock in ("", "number") or len(table) < 2:
        return False
    times = parse(_joined(table, [name]), habits[name].clock)[0].drop_null().cast(pa.int64())
    ticks = times.to_numpy()
    return bool((ticks % (86_400 * 10**9) == 0).all() and len(np.unique(ticks)) < len(ticks))


def _clocks(table: Any, habits: Mapping[str, Habit], day: str) -> list[str]:
    """Return the columns of a clock that may belong to a column of days, or of hours behind it."""
    later = [*habits][[*habits].index(day) + 1 :]
    later = [name for name in later if habits[name].kind in ("number", "ramp")]
    hours = [n for n in later if n.lower() in _PARTS[3] or n.lower().endswith("period")]
    for name in later[:1]:  # digits alone, of a column without a name, or called a time
        cells = pc.unique(trimmed(table.column(name)).drop_null())
        clocks = pc.all(pc.match_substring_regex(cells, _DIGITS)).as_py()
        long = pc.max(pc.utf8_length(cells)).as_py() or 0
        many = len(cells) > 20 or (len(cells) > 1 and long > 3)
        called = "time" in name.lower() and many
        if clocks and (called or (_is_unnamed(name) and len(cells) > 20)):
            hours.append(name)
    return [name for name, habit in habits.items() if habit.kind == "clock"] + hours


def _find_times(
    table: Any, habits: Mapping[str, Habit], wanted: Wanted, key: str | None
) -> tuple[tuple[str, ...], str | None]:
    """Return the columns of a time in whose order the rows are, as they come or by a key."""
    candidates = [
        names for parts in _find_parts(table, habits)
        for names in (*((*parts, clock) for clock in _clocks(table, habits, parts[-1])[:1]), parts)
    ]  # fmt: skip
    named = [name for name, habit in habits.items() if habit.clock and may_be_time(name)]
    dates = [name for name, habit in habits.items() if habit.kind == "time"]
    for name in dates + [name for name in named if habits[name].kind == "number"]:
        if _is_day(table, habits, name, wanted):
            candidates += [(name, clock) for clock in _clocks(table, habits, name)[:1]]
        candidates.append((name,))
    best: tuple[tuple[str, ...], str | None] = ((), key)
    near, most = best, 0
    for names in candidates:
        ticks, steps, lost = time_steps(table, names, wanted, key)
        if lost or not len(ticks) or (len(ticks) > 2 and not steps.any()):
            continue
        found = key
        if _falls(steps) and _falls(-steps):  # neither in order nor the newest first
            found = key or _find_key(table, habits, names, wanted)
            back = ticks.dtype.kind == "i" and min(_falls(steps), _falls(-steps)) < len(steps) / 50
            near = (names, key) if back and not near[0] else near
            if not found:
                continue
        if len(np.unique(ticks)) >= 2 * most:  # or it tells more of the rows apart
            best, most = (names, found), len(np.unique(ticks))
    return best if best[0] else near


def _falls(steps: Any) -> int:
    return int((steps < 0).sum())


def _find_key(
    table: Any, habits: Mapping[str, Habit], times: Sequence[str], wanted: Wanted
) -> str | None:
    """Return a column of words or ids that cuts the rows into blocks, each in time's order.

    Or each the newest first.
    """
    steps = time_steps(table, times, wanted)[1]
    falls = min(_falls(steps), _falls(-steps))
    for name, habit in habits.items():
        filled = name not in times and table.column(name).null_count == 0
        if not filled or habit.kind not in ("words", "number") or not 0 < falls < 0.1 * len(table):
            continue
        named = habit.kind == "words" or _IDS.fullmatch(name)  # others begin anew in each block
        cells = np.array(table.column(name).to_pylist(), dtype=object)
        n_blocks = 1 + int((cells[1:] != cells[:-1]).sum())
        whole = n_blocks == len({*cells}) <= len(cells) / 5
        begun = falls < n_blocks if named else falls == n_blocks - 1
        within = time_steps(table, times, wanted, name)[1] if whole and begun else np.empty(0)
        if whole and begun and not (_falls(within) and _falls(-within)):
            return name
    return None


def _find_parts(table: Any, habits: Mapping[str, Habit]) -> list[tuple[str, ...]]:
    """Return columns of year, month, day, ..., by their names, or by years and months in them."""
    for called in (_PARTS, (_PARTS[0], _COUNTED[0], *_PARTS[3:]), (_PARTS[0], _COUNTED[1])):
        parts, rest = [], iter(habits)
        for names in called:
            found = next((n for n in rest if n.strip(" ,.:").lower() in names), None)
            if found is None:
                break
            parts.append(found)
        if len(parts) > 1:
            return [tuple(parts)]
    whole = [name for name, habit in habits.items() if habit.kind in ("number", "ramp")]
    for at in range(len(whole) - 1):
        pairs = zip(whole[at:], ((1700, 2200), (1, 12), (1, 31), (0, 24)), strict=False)
        within = [*takewhile(lambda pair: _is_within(table.column(pair[0]), *pair[1]), pairs)]
        if len(within) > 1:
            return [tuple(whole[at : at + n]) for n in range(len(within), 1, -1)]
    return [  # with the names of months, if they can be read so
        (year, month) for year, month in pairwise(habits)
        if year in whole and habits[month].kind == "words"
        and _is_within(table.column(year), 1700, 2200)
    ]  # fmt: skip


def _is_within(cells: Any, low: int, high: int) -> bool:
    """Whether cells are whole numbers in a range."""
    values = read_cells(trimmed(cells), pa.float64()).to_numpy(zero_copy_only=False)
    return bool(((values == np.trunc(values)) & (values >= low) & (values <= high)).all())


def time_steps(
    table: Any, names: Sequence[str], wanted: Wanted, key: str | None = None
) -> tuple[Any, Any, int]:
    """Read the times of a sample: ticks, steps from each to the next of a key, how many are lost.

    Ticks are nanoseconds, or numbers as they are. Rows at the end without a time, such as totals,
    and times to come do not count.
    """
    cells = _joined(table, names)
    kind = find_kind(cells, " ".join(names), wanted)
    if kind is None:
        return np.empty(0), np.empty(0), len(cells)
    times, _ = parse(cells, kind)
    last = 1 + max(np.flatnonzero(times.is_valid()), default=-1)
    times = times[:last] if len(times) <= last + TAIL else times
    lost = times.null_count
    words = pc.sum(
        pc.match_substring_regex(cells[: len(times)].filter(times.is_null()), "[A-Za-z]{4}")
    )
    lost = 0 if lost == words.as_py() < last / 50 else lost  # subtotals, which will be refused
    there = times.is_valid()
    if kind != "number":
        past = pc.less(times.cast(pa.int64()), int(time.time() + 86_400) * 10**9)
        there = pc.fill_null(past, False) if pc.any(past).as_py() else there
    kept = times.filter(there)
    ticks = (kept.cast(pa.int64()) if kind != "number" else kept).to_numpy(zero_copy_only=False)
    if key is None:
        return ticks, np.diff(ticks), lost
    column = table.column(key)[: len(there)].filter(there).cast(pa.string()).to_pylist()
    keys = np.unique(np.array(column, dtype=str), return_inverse=True)[1]
    order = np.argsort(keys, kind="stable")
    return ticks, np.diff(ticks[order])[np.diff(keys[order]) == 0], lost


def said_of_times(table: Any, found: Survey, wanted: Wanted) -> str:
    """Say how the times of a sample were understood."""
    ticks, steps, lost = time_steps(table, found.times, wanted, found.key)
    name, kind = " and ".join(found.times), found.kind or ""
    if not len(ticks):
        return f"{name}: none of the first {lost} can be read"
    if len(steps) and not (steps > 0).any() and (steps < 0).any():
        ticks, steps = ticks[::-1], -steps[::-1]
        name += ", the newest first"
    usual = float(np.median(steps[steps > 0])) if (steps > 0).any() else 0.0
    words = [f"{name}: from {_stamp(ticks[0])}"]
    if usual:
        words.append(f"every {_span(usual)}")
        gaps = int((steps > 1.5 * usual).sum())
        words += [f"{gaps} gap{'s' * (gaps > 1)}"] * bool(gaps)
    same, back = int((steps == 0).sum()), int((steps < 0).sum())
    words += [f"{same} at the time of the row before"] * bool(same)
    words += [f"{back} before it"] * bool(back)
    words += [f"{lost} that cannot be read"] * bool(lost)
    form, _, zone = kind.partition("@")
    words += [_FORMS.get(form, "")] * (form in _FORMS)
    form, n = day_and_periods(form)
    words += [f"{n} periods a day"] * bool(n)
    words += [f"local time of {zone}"] * bool(zone)
    if form in ("day", "month") and is_ambiguous(_joined(table, found.times)):
        words.append("which is a guess: --day-first or --month-first says it")
    return ", ".join(words)


_FORMS = {
    "s": "in seconds since 1970", "ms": "in milliseconds since 1970",
    "us": "in microseconds since 1970", "ns": "in nanoseconds since 1970",
    "excel": "in days of a spreadsheet", "years": "in years and their fractions",
    "twelfths": "in years and months as their fractions",
    "day": "days before months", "month": "months before days",
    "dayZ": "days before months", "monthZ": "months before days",
}  # fmt: skip


def _stamp(tick: int) -> str:
    text = str(np.datetime64(int(tick), "ns").astype("datetime64[us]")).replace("T", " ")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.removesuffix(":00")


def _span(nanoseconds: float) -> str:
    seconds = nanoseconds / 1e9
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms")):
        if seconds >= size and (size != 86_400 or seconds % size == 0):
            return f"{round(seconds / size, 3):g} {unit}"
    return f"{seconds:g} s"


def said_of(table: Any, found: Survey, wanted: Wanted, key: str | None) -> list[str]:
    """Say how times were understood, which columns are left out, and what is odd in the others."""
    dated = found.times and found.kind not in (None, "number")
    lines = [said_of_times(table, found, wanted)] if dated else []
    if found.key != key:
        lines.append(
            f"{found.key}: each of its values has times of its own, and gets its own model"
        )
    if found.left_out:
        shown = [f"{name or 'no name'} ({why})" for name, why in list(found.left_out.items())[:8]]
        more = len(found.left_out) - len(shown)
        lines.append("left out: " + ", ".join(shown) + f" and {more} more" * bool(more))
    for name in found.features:
        habit = found.habits[name]
        words = [f"{habit.unit} behind the numbers"] * bool(habit.unit)
        words += ["K, M and so on are multiplied out"] * (habit.base == "" == habit.unit)
        words += [f"{', '.join(habit.notes[:8])} behind numbers is left out"] * bool(habit.notes)
        words += [f"{mark:g} is missing" for mark in habit.sentinels]
        words += [f"{' and '.join(habit.flags)} are 0 and 1"] * (
            bool(habit.flags) and habit.flags[0] != "false"
        )
        words += [f"missing as {', '.join(map(repr, habit.marks[:4]))}"] * bool(habit.marks)
        if words and len(lines) < 12:
            lines.append(f"{name}: {', '.join(words)}")
    return lines
