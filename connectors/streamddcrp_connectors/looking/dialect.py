"""How the cells of a text file are written, found in its first 100 kB.

Each separator that may be meant cuts the sample into rows; the one with which most rows are of one
width, and most cells are numbers, times or missing, is taken. What stands before the first row of
that width is no table. The first row names the columns unless it is written like the rows below.
"""

import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

SAMPLE = 100_000  # bytes
SEPARATORS = {
    ",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "blanks",
    "::": "double colons",
}  # fmt: skip
MISSING = (
    "na", "n/a", "#n/a", "nan", "null", "none", "nil", "?", "-", "--", "---", ".", "*", "missing",
    "(null)", "<na>", r"\n", "-nan", "nd", "n.a.", "..", "#value!", "#div/0!", "bad", "no data",
    "mm", ":", "**", "***", "****", "*****", "nat", "unavailable", "unknown", "not available",
    "no value available", "#null!", "#num!", "-nan(ind)", "undef", "n.d.", "///",
    "[n/a]", "[not supported]",
)  # fmt: skip
_MOST_LOOKED = 10_000  # columns whose cells tell how a file is written
_COMMENTS = ("#", "%", "//")
DIGITS = r"\d.,'\u2019 \u00a0\u202f"  # and what may stand between them
_UNIT = r"(?: ?(?:[%€$£¥]|°?[A-Za-zµμΩ]{1,3}[²³]?(?:/[a-z]{1,3}[²³]?)?))?"
_NUMBER = re.compile(rf"[-+]?(?:[$€£¥] ?)?(\d[{DIGITS}]*|[.,]\d+)([eE][-+]?\d+)?{_UNIT}")
_ADDRESS = re.compile(r"(\d{1,3}\.){3}\d{1,3}")
RULE = re.compile(
    rb"(?m)^(?:[-+|=: ]*-{3}[-+|=: ]*|\(?\d+ rows?\b[^|\n]*)\r?(?:\n|\Z)"
)  # with bars
_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}$")
_HOUR = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?$")
_NOTES = re.compile("(comment|remark|note)s?", re.I)  # of columns that rows may do without
_FORMS = re.compile(r"\d+[sdn]")  # lengths and types of columns
SECOND = re.compile(r"(?m)^(\s*1\d{9}):(?=[ \t])")  # since 1970, as RRDtool writes it
_MONTH = r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*"
_DATED = re.compile(
    r"\d{1,4}[-/.]\d{1,2}([-/.]\d{1,4})?([T :][^,;|\t]*)?|\d{1,2}:\d{2}(:\d{2}[^,;|\t]*)?"
    rf"|({_MONTH}\.? \d{{1,2}}|\d{{1,2}}[ -]{_MONTH}),?[ -]\d{{2,4}}( \d{{1,2}}:\d{{2}}[^,;|\t]*)?"
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a table is written as text."""

    sep: str = ","  # between cells; a blank stands for any number of blanks and tabs
    decimal: str = "."  # before the fraction of a number: a point or a comma
    thousands: str = ""  # between groups of three digits, or nothing
    comment: str = ""  # mark at the beginning of a comment line, or empty
    encoding: str = "utf-8"  # one in which a line feed is one byte
    skip: int = 0  # lines before the header, or before the first row
    header: bool = True  # whether a line names the columns
    extra: int = 0  # lines between the header and the first row, of units
    missing: tuple[str, ...] = ()  # marks of missing values beside the usual ones
    names: tuple[str, ...] = ()  # of the columns, if they are not those of the header
    glued: bool = False  # the sign of a number may follow the number before it at once
    ragged: bool = False  # no header, and rows of too many widths for a table
    short: bool = False  # the last cells of a row may be left out: they are missing

    def said(self) -> str:
        """Say in a few words what is not as usual; nothing where all is."""
        words = [] if self.sep == "," else [f"cells between {SEPARATORS.get(self.sep, self.sep)}"]
        words += ["decimal commas"] * (self.decimal == ",")
        words += [f"thousands with {self.thousands!r}"] * bool(self.thousands)
        words += [f"text in {self.encoding}"] * (self.encoding != "utf-8")
        words += [f"lines before the table left out: {self.skip}"] * bool(self.skip)
        words += [f"comments after {self.comment!r}"] * bool(self.comment)
        below = "names in two lines" if self.names and self.header else "a line of units"
        words += [below] * (self.extra == 1)
        words += [f"{self.extra} lines below the header left out"] * (self.extra > 1)
        if not self.header and self.names[-1:] != (f"c{len(self.names)}",):
            words.append("columns named by a line above")
        elif not self.header:
            words.append(
                "no header (the columns are c1, c2, ..; --header if the first line names them)"
            )
        words += ["some rows have fewer cells: their last columns count as missing"] * self.short
        return ", ".join(words)


def find_encoding(head: bytes) -> str:
    """Return UTF-8, or Latin-1 as Windows writes it where the bytes are no UTF-8.

    A few bad bytes in what is UTF-8 elsewhere do not change it: their rows are refused.
    """
    try:
        head.decode()
    except UnicodeDecodeError as error:
        if error.start >= len(head) - 3 and error.reason == "unexpected end of data":
            return "utf-8"
        kept = head.decode("utf-8", "ignore")
        lost = head.decode("utf-8", "replace").count("\ufffd")
        if lost > sum(letter > "\x7f" for letter in kept):
            return "cp1252" if re.search(rb"[\x80-\x9f]", head) else "latin-1"
    return "utf-8"


def find_dialect(head: bytes, wanted: dict[str, Any] | None = None) -> Dialect:
    """Return how a file is written, by its beginning, up to the end of a line or of the file.

    ``wanted`` are the parts of it that are known: sep, decimal, encoding, skip, header, missing.
    """
    given = {name: value for name, value in (wanted or {}).items() if value is not None}
    found = Dialect(encoding=find_encoding(head))
    found = replace(found, **{k: v for k, v in given.items() if k not in ("skip", "header")})
    text = head.decode(found.encoding, "replace").removeprefix("\ufeff")
    if given.get("skip"):
        text = "\n".join(text.split("\n")[given["skip"] :])
    best, top = _cut(text, found.sep), -1.0
    if "sep" not in given:
        for sep in SEPARATORS:
            cut = _cut(text, sep)
            if sep == " " and cut.share < 1.0:
                apart = _cut(unglued(text), sep)
                if apart.share > cut.share:
                    cut, found = apart, replace(found, glued=True)
            worth = cut.worth - (0.02 if sep == " " else 0.0)
            if worth > top + 1e-9:
                best, top, found = cut, worth, replace(found, sep=sep)
        if top <= 0.5:
            best, found = _cut(text, ","), replace(found, sep=",")
    found = _with_header(found, best, given, text)
    below = [len(row) for row, at in zip(best.rows, best.lines, strict=True) if at >= found.skip]
    even = below.count(best.width) / max(len(below), 1)
    ragged = not found.header and even < 0.9 and not {"sep", "skip"} & {*given}
    longer = bool(best.rows) and best.width == 1 < len(best.rows[0])
    ragged |= longer and not _is_value(best.rows[-1][0])
    found = replace(found, ragged=ragged, glued=found.glued and found.sep == " ")
    arff = re.findall(r"(?im)^@attribute\s+(?:'([^']+)'|\"([^\"]+)\"|(\S+))", text)
    if len(arff) == best.width and not found.header:
        return replace(found, names=named(["".join(name) for name in arff]))
    return found


@dataclass
class _Cut:
    """The sample, cut into rows: of cells, with their first lines; of the usual width, if any."""

    rows: list[list[str]]
    lines: list[int]
    comments: list[tuple[int, str]]
    padded: set[int]  # first lines of rows that have empty cells beyond the usual width
    mark: str = ""  # of comments
    width: int = 1
    share: float = 0.0  # of rows of the usual width
    worth: float = 0.0


def _cut(text: str, sep: str) -> _Cut:
    cut, marked = _Cut([], [], [], set()), []
    lines = text.split("\n")
    if sep == " ":
        lines = [SECOND.sub(r"\1", line) for line in lines]
        parts = ((n, re.findall(r'(?:"[^"]*"|\S)+', line)) for n, line in enumerate(lines))
        read: Any = ((n, [part.strip('"') for part in cells]) for n, cells in parts)
    else:
        read = _records(text, sep)
    for number, cells in read:
        if sep == "|" and RULE.fullmatch(sep.join(cells).encode()):
            continue
        mark = cells[0].lstrip() if cells else ""
        bare = sep != " " and len(cells) > 1 and mark in _COMMENTS  # the name of a column
        if mark.startswith(_COMMENTS) and not _NUMBER.match(mark) and not bare:
            marked.append((number, cells))
            cut.comments.append(
                (number, lines[number].replace('"', "") if sep == " " else sep.join(cells))
            )
        elif any(cell.strip() for cell in cells) or len(cells) > 1:
            cut.rows.append(cells)
            cut.lines.append(number)
    if not cut.rows:
        return cut
    widths = Counter(map(len, cut.rows[-2000:]))
    cut.width = max(widths, key=lambda width: (widths[width], width))
    for place, row in enumerate(cut.rows):
        if len(row) > cut.width > 1 and not any(map(str.strip, row[cut.width :])):
            cut.rows[place] = row[: cut.width]
            cut.padded.add(cut.lines[place])
    if marked:
        _sort_out(cut, marked)
    like = [row for row in cut.rows if len(row) == cut.width]
    first = next(n for n, row in enumerate(cut.rows) if len(row) == cut.width)
    n_rows = len(cut.rows) - first
    n_short = sum(place > first for place in _shorts(cut, first)) if sep != " " else 0
    n_whole = sum(len(row) >= cut.width > 1 for row in cut.rows[first:])
    cut.share = (n_whole + n_short) * (len(like) + n_short) / n_rows**2
    cells = [cell for row in like[-200:] for cell in row[:_MOST_LOOKED]]
    if sep == " ":  # a clock belongs to the date before it; a log has marks of its own
        pairs = zip(["", *cells], cells, strict=False)
        clocks = ((cell, _DATE.match(before) and _HOUR.match(cell)) for before, cell in pairs)
        cells = [cell for cell, clock in clocks if not clock and not _is_missing(cell)]
        cells = ["," if cell[-1] in ",;" else cell for cell in cells]  # not between blanks
    kept = sum(map(_is_value, cells)) / max(len(cells), 1)
    if cut.width > 1:
        cut.worth = cut.share * (1.0 + kept) * (kept >= 0.5 or sep != " ")
    return cut


def _sort_out(cut: _Cut, marked: list[tuple[int, list[str]]]) -> None:
    """Take marked lines for rows if they are cut alike, among rows that begin with words."""
    words = not any(_is_value(row[0]) for row in cut.rows[1:200] if len(row) == cut.width)
    later = [line for line in marked if line[0] > cut.lines[0]]
    like = [line for line in later if len(line[1]) == cut.width]
    far = len(like) > 1 or (like and like[0][0] > cut.lines[min(1, len(cut.lines) - 1)])
    if words and far and 2 * len(like) >= len(later):
        numbers = {number for number, _ in like}
        cut.comments = [line for line in cut.comments if line[0] not in numbers]
        found = sorted([*zip(cut.lines, cut.rows, strict=True), *like])
        cut.lines, cut.rows = [list(part) for part in zip(*found, strict=True)]
    if words and not any(number > cut.lines[0] for number, _ in cut.comments):
        cut.mark = ""
    else:
        starts = (next(m for m in _COMMENTS if c.lstrip().startswith(m)) for _, c in cut.comments)
        cut.mark = Counter(starts).most_common(1)[0][0]


def unglued(text: str) -> str:
    """Put blanks between numbers of columns of fixed width: 10.5-20.1 becomes two."""
    return re.sub(r"(\.\d+)(?=-\d*\.\d)", r"\1 ", text)


def _records(text: str, sep: str) -> Any:
    text, sep = (text, sep) if len(sep) == 1 else (text.replace(sep, "\t"), "\t")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=sep)
    line = 0
    try:
        for cells in reader:
            yield line, cells
            line = reader.line_num
    except csv.Error:
        return


def _is_value(cell: str) -> bool:
    return _is_missing(cell) or is_number(cell) or _is_dated(cell)


def _is_dated(cell: str) -> bool:
    return bool(_DATED.fullmatch(cell.strip()))


def is_number(cell: str) -> bool:
    """Whether a cell looks like a number, in any dialect."""
    return bool(_NUMBER.fullmatch(cell.strip())) and not _ADDRESS.fullmatch(cell.strip())


def _with_header(found: Dialect, cut: _Cut, given: dict[str, Any], text: str) -> Dialect:
    """Find where the table begins, and what its first lines are."""
    found = replace(found, comment=cut.mark)
    if not cut.rows:
        return replace(found, **{k: v for k, v in given.items() if k in ("header", "skip")})
    lone = cut.width == 1 and not any(" " in cell.strip() for cell in cut.rows[0][1:])
    start = 0 if lone or "skip" in given else _first_row(cut)
    rows = cut.rows[start:]
    names = _names_above(cut, start, text, found.sep) if start else ()
    if names:
        start, rows = start - 1, cut.rows[start - 1 :]
    line = cut.lines[start]
    header = given.get("header")
    if header is None:
        header = bool(names) or _is_header(rows)
        if not header:
            noted = [note for number, note in cut.comments if number < line]
            if start and found.sep == " ":
                noted.append(text.split("\n")[cut.lines[start - 1]])
            names = _noted_names(noted, cut.width, found.sep)
    if header and found.sep == " " and not names and len(rows[0]) != cut.width:
        header, line = False, line + 1  # names of several words
    extra = _n_units(rows) if header else 0
    filled = [*map(_n_filled, rows[: extra + 1])]
    fuller = [n for n in range(extra + 1) if 2 * filled[0] <= filled[n]]
    fuller += [1] * (extra > 0 and _has_values(rows[0]) and filled[0] < filled[1])
    if fuller and "header" not in given:  # than lines above the names
        start, rows, extra = start + fuller[0], rows[fuller[0] :], extra - fuller[0]
        line = cut.lines[start]
    pairs = [*zip(*rows[:2], strict=True)] if extra else []
    if any(below.strip() and not above.strip() for above, below in pairs):
        names = tuple(" ".join(filter(None, map(str.strip, pair))) for pair in pairs)
    below = start + header + extra
    body = None if {"header", "skip"} & {*given} else _body(cut, below)
    if body is not None:
        start, below = body
        rows, line, header, names = cut.rows[start:], cut.lines[start], start < below, ()
    n_lines = 1 + "".join(rows[0]).count("\n")  # of the header
    extra = cut.lines[below] - line - n_lines if start + header < below < len(cut.rows) else 0
    names = _with_index(cut.rows[start:below], names) if header else names
    values = [row for row in cut.rows[below:] if len(row) == cut.width]
    if "decimal" not in given:
        decimal, thousands = find_decimal(values, found.sep)
        found = replace(found, decimal=decimal, thousands=thousands)
    wide = len(rows[0]) > cut.width and all(map(_NOTES.fullmatch, rows[0][cut.width :]))
    if not names and (not header or wide or line in cut.padded):
        names = tuple(rows[0][: cut.width]) if header else ("",) * cut.width
    shorts = _shorts(cut, below)
    before = next(p for p in range(start, -1, -1) if header or p - 1 not in shorts)
    line = cut.lines[before] if before < start else line
    found = replace(found, skip=given.get("skip", 0) + line, extra=extra, short=bool(shorts))
    return replace(found, header=bool(header), names=named(names))


def _with_index(rows: list[list[str]], names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names, the first as pandas writes it: alone, in a line below the others."""
    for row in rows[1:]:
        if row[0].strip() and _n_filled(row) == 1 < len(row) == len(rows[0]):
            return (row[0], *(names or rows[0])[1:])
    return names


def _shorts(cut: _Cut, first: int) -> list[int]:
    """Return the places of rows that lack their last cells, if one in fifty does, or more.

    Fewer, or a single one, are lines that were cut, which are refused. ``first`` is the place of
    the first row that may be whole.
    """
    even = [p for p in range(first, len(cut.rows)) if len(cut.rows[p]) == cut.width]
    places = [p for p in range(even[-1] if even else 0) if 1 < len(cut.rows[p]) < cut.width]
    full = _full(cut, [cut.rows[p] for p in even[-200:]]) if places else {}
    least = min(full, default=cut.width)

    def is_like(row: list[str]) -> bool:
        held = (p for p in full if p < len(row) and not _is_missing(row[p]))
        return least < len(row) and all(full[p](row[p]) for p in held)

    places = [p for p in places if is_like(cut.rows[p])]
    return places if sum(p > first for p in places) > max(1, len(even) / 50) else []


def _full(cut: _Cut, rows: list[list[str]]) -> dict[int, Any]:
    """Return the places where all rows have dates, or numbers, each with the test of it."""
    full: dict[int, Any] = {}
    for test in (_is_dated, is_number) if rows else ():
        places = range(min(cut.width, _MOST_LOOKED))
        full |= {p: test for p in places if all(test(row[p]) for row in rows)}
    return full


def _is_epoch(cell: str) -> bool:
    return bool(re.fullmatch(r"\s*1\d{9}(\.\d*)?\s*", cell))


def _names_above(cut: _Cut, start: int, text: str, sep: str) -> tuple[str, ...]:
    """Return the names right above the first row, if one is lacking or they stand above columns."""
    line, above = cut.lines[start - 1], cut.rows[start - 1]
    apart = cut.lines[start] != line + 1 or not _has_values(cut.rows[start])
    if apart or any(map(_is_value, above)):
        return ()
    names = _aligned(text.split("\n")[line:][:21]) if sep == " " else ()
    if names or not len(above) == cut.width - 1 > 1:
        return names
    firsts = [row[0] for row in cut.rows[start:] if len(row) == cut.width]
    return ("", *above) if len({*firsts}) == len(firsts) else (*above, "")


def _first_row(cut: _Cut) -> int:
    """Return the place of the first row of the table: what stands before it is narrower or a title.

    Or wider, if a header follows, or words above blanks.
    """
    last = len(cut.rows) - 1
    usual = sorted(_n_filled(row) for row in cut.rows[-200:])[len(cut.rows[-200:]) // 2]
    start = 0
    while start < last:
        row = cut.rows[start]
        title = 2 * _n_filled(row) <= usual and not _has_values(row)
        if len(row) == cut.width and not title:
            break
        if len(row) > cut.width:
            even = (p for p in range(start, last) if len(cut.rows[p]) == cut.width)
            after = next(even, last)
            header = not _has_values(cut.rows[after]) and _is_header(cut.rows[after:])
            lone = start > 0 and len(cut.rows[after - 1]) == 1 < after - start  # what counts rows
            if not header and not lone and (after > start + 1 or any(map(_is_value, row))):
                break
            start = after
            continue
        start += 1
    return start


def _body(cut: _Cut, first: int) -> tuple[int, int] | None:
    """Return the places of the header and of the first row, if the row at ``first`` is none.

    A row has numbers and dates where all rows further down have them. Right above it are its header
    and rows of words, with no numbers but those of every row unless a word stands for the date,
    above these a title; or titles alone, and the two places are one.
    """
    half = [row for row in cut.rows[len(cut.rows) // 2 :][:200] if len(row) == cut.width]
    half = [row for row in half if _n_filled(row)]
    full = _full(cut, half)
    always = {p: half[0][p] for p in full if len({row[p] for row in half}) == 1}

    def numbers(row: list[str]) -> dict[int, bool]:
        there = (p for p in full if p < len(row) and not _is_missing(row[p]))
        return {p: full[p](row[p]) for p in there}

    def is_word(row: list[str]) -> bool:
        dates = [p for p, found in numbers(row).items() if full[p] is _is_dated and not found]
        return any(not re.search(r"\d", row[p]) for p in dates)

    def is_row(row: list[str]) -> bool:
        found = numbers(row)
        return len(row) == cut.width and 2 * len(found) >= len(full) > 0 and all(found.values())

    below = next((p for p in range(first, len(cut.rows)) if is_row(cut.rows[p])), first)
    usual = sorted(map(_n_filled, half))[len(half) // 2] if half else 0
    top, counted = None, False  # counted: a title has numbers
    for place in range(below - 1, -1, -1) if first < below else ():
        row, found = cut.rows[place], numbers(cut.rows[place])
        if top is None and len(row) > cut.width and all(map(_NOTES.fullmatch, row[cut.width :])):
            return place, below
        if len(row) != cut.width or 2 * _n_filled(row) <= usual:
            if top is not None:
                break
            if found and all(found.values()):  # a damaged row
                return None
            counted = counted or any(map(is_number, row))
        elif any(
            number and full[p] is is_number and row[p] != always.get(p)
            for p, number in found.items()
            if top is not None or not is_word(row)
        ):
            header = top is not None and len(numbers(cut.rows[top])) == len(full)
            top = top if top is not None and (header or top <= first) else None
            break
        else:
            top = place
    if counted:
        return (below, below) if top is None else None
    return None if top is None else (top, below)


def _is_missing(cell: str) -> bool:
    return not cell.strip() or cell.strip().lower() in MISSING


def _n_filled(row: Sequence[str]) -> int:
    return sum(bool(cell.strip()) for cell in row)


def _noted_names(noted: Sequence[str], width: int, sep: str) -> tuple[str, ...]:
    """Return the names in the first of the last comments that name as many columns as there are."""
    names: tuple[str, ...] = ()
    for note in reversed(noted):
        title = note.lstrip("".join(_COMMENTS)).strip(" \t|")
        entry = re.match(r"[A-Za-z]+: ", title)  # "Fields: date time"
        title = title[entry.end() :] if entry else title
        ways = [title.split(), re.split(r"\t+|, *| {2,}", title)]
        ways = (
            ways
            if sep == " "
            else [next(csv.reader([title], delimiter=sep), []), *ways * bool(entry)]
        )
        if sep != " " and len(ways[0]) == width + 1:  # "fields" stands before them
            ways = [ways[0][1:]]
        found = next((way for way in ways if len(way) == width), None)
        if found is None or any(map(is_number, found)) or (entry and names):
            break
        names = tuple(name.strip(",") for name in found)
    return names


def _aligned(lines: Sequence[str]) -> tuple[str, ...]:
    """Return the words of the first line by the columns they stand above, if all end together."""
    header, *rows = (line.rstrip() for line in lines if line.strip())
    if {len(row) for row in rows} != {len(header)}:
        return ()
    spans = [cell.span() for cell in re.finditer(r"\S+", rows[0])]
    names = [""] * len(spans)
    for word in re.finditer(r"\S+", header):
        apart = [max(start - word.end(), word.start() - end) for start, end in spans]
        place = apart.index(min(apart))
        names[place] = f"{names[place]} {word[0]}".strip()
    return tuple(names)


def _has_values(row: Sequence[str]) -> bool:
    return any(cell.strip() and _is_value(cell) for cell in row)


def _is_header(rows: list[list[str]]) -> bool:
    """Whether the first row is unlike those below it."""
    first, below = rows[0], [row for row in rows[1:101] if len(row) == len(rows[0])]
    if not below:
        return not all(is_number(cell) for cell in first)
    numeric = [
        place for place in range(len(first))
        if sum(_is_value(row[place]) for row in below) > 0.8 * len(below)
        and any(row[place].strip() for row in below)
    ]  # fmt: skip
    typed = [
        place for place in numeric
        if first[place].strip() and _is_value(first[place])
        and (is_number(first[place]) or not is_number(below[0][place]))
        and _is_epoch(first[place]) <= _is_epoch(below[0][place])
    ]  # fmt: skip
    if numeric:
        second = [place for place in numeric if _is_value(below[0][place])]
        if not second and len(typed) < len(numeric):
            return True  # words below it: of units
        if not typed or 2 * len(typed) < len(numeric):
            return True
        numbers = [cell for cell in first if is_number(cell)]
        return len(numbers) >= max(len(typed), 2) and _counts(numbers)
    again = sum(
        any(row[place] == cell for row in below) for place, cell in enumerate(first) if cell
    )
    return again == 0 and len(set(first)) == len(first)


def _counts(cells: Any) -> bool:
    """Whether cells are whole numbers, each one more than the one before: names of columns."""
    try:
        numbers = [int(cell) for cell in cells]
    except ValueError:
        return False
    return all(after - before == 1 for before, after in pairwise(numbers))


def _n_units(rows: list[list[str]]) -> int:
    """Count the lines of words between the header and numbers."""
    below = [row for row in rows[4:104] if len(row) == len(rows[0])]
    if len(below) < 2:
        return 0
    if all(map(_FORMS.fullmatch, rows[1])):
        return 1
    columns = [[row[place] for row in below] for place in range(len(rows[0]))]
    numeric = [
        place for place, column in enumerate(columns)
        if all(map(_is_value, column)) and any(map(is_number, column))
    ]  # fmt: skip
    n_units = 0
    for row in rows[1:4]:
        cells = [row[place].strip() for place in numeric] if len(row) == len(rows[0]) else []
        values = [cell for cell in cells if cell.strip("-=%") and _is_value(cell)]
        if values or not any(cells):
            break
        n_units += 1
    return n_units


def find_decimal(rows: Sequence[Sequence[str]], sep: str = ",") -> tuple[str, str]:
    """Tell commas of thousands from those of decimals, and points likewise."""
    cells = [cell.strip() for row in rows[:1000] for cell in row]
    cells = [cell for cell in cells if is_number(cell) and not _DATE.match(cell)]
    cells = [cell for cell in cells if re.search(r"\d\D\d", cell)]
    if not any(re.search(r"\d[^\d.]\d", cell) or cell.count(".") > 1 for cell in cells):
        return ".", ""
    comma = point = 0
    for cell in cells:
        last = max(cell.rfind(","), cell.rfind("."))
        if last < 0:
            continue
        sign, rest = cell[last], cell[last + 1 :]
        rest = rest[: len(rest) - len(rest.lstrip("0123456789"))]  # less a unit or an exponent
        sure = (
            len(rest) != 3
            or cell.lstrip("-+")[:2] in ("0,", "0.")
            or len({*re.findall(r"\d(\D)(?=\d)", cell)}) > 1
        )
        if cell.count(sign) > 1:
            comma, point = comma + 2 * (sign == "."), point + 2 * (sign == ",")
        elif sure:
            comma, point = comma + (sign == ","), point + (sign == ".")
    if comma == point == 0:  # all of the form 1,234
        held = [cell.strip() for row in rows[:1000] for cell in row]
        numbers = [cell for cell in held if is_number(cell) and not _DATE.match(cell)]
        written = [cell for cell in numbers if "," in cell]
        dots = any(re.match(r"\d{1,2}\.\d{1,2}\.\d{2,4}( |$)", cell) for cell in held)
        comma = int((sep == ";" or dots) and len(written) >= 0.9 * len(numbers))
    decimal = "," if comma > point else "."
    signs = "." if decimal == "," else ",", "'", "\u2019", " ", "\u00a0", "\u202f"
    for sign in signs:  # the first one that stands in numbers, and before groups of three alone
        held = [cell for cell in cells if re.search(rf"\d{re.escape(sign)}\d", cell)]
        grouped = rf"[^\d]*\d{{1,3}}({re.escape(sign)}\d{{3}})+(?!\d).*"
        if held and sum(bool(re.fullmatch(grouped, cell)) for cell in held) > 0.9 * len(held):
            return decimal, sign
    return decimal, ""


def bare(name: str) -> str:
    """Return a name less blanks and single quotes around it."""
    name = name.strip()
    return name[1:-1] if len(name) > 2 and name[0] == name[-1] == "'" else name


def named(names: Sequence[str]) -> tuple[str, ...]:
    """Give a column without a name one by its place, c1, c2, .., and a name that returns a number.

    Examples
    --------
    >>> named(["temp", "", "temp"])
    ('temp', 'c2', 'temp_2')
    """
    made: dict[str, None] = {}
    for place, name in enumerate(names, 1):
        name = whole = bare(name) or f"c{place}"  # noqa: PLW2901 -- as it is to be called
        again = 1
        while name in made:
            again += 1
            name = f"{whole}_{again}"  # noqa: PLW2901 -- as above
        made[name] = None
    return tuple(made)
