"""What is no table, written as lines of one: libsvm, XML, months of days, mailboxes, and JSON.

A JSON document holds lists of rows, columns side by side, or rows that hold others.
"""

import calendar
import csv
import io
import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import groupby, islice, zip_longest
from typing import Any
from xml.etree import ElementTree

import numpy as np

from streamddcrp.errors import ConfigError

_MOST_INDICES = 10_000
_RECORD = re.compile(  # of subtitles, and of git's log: what stands above its text
    rb"(?m)^(?:(?:\d+\r?\n)?(?:(\d+):)?(\d\d):(\d\d)[.,](\d{3}) --> .*\n"
    rb"|commit [0-9a-f]{7,40}\b.*\n(?:\w+: .*\n)*?Date: +(.*?)\r?\n)"
)
_SIZES = 3600, 60, 1, 0.001  # in seconds
RECORDS = re.compile(rb"(?:\xef\xbb\xbf)?(?:WEBVTT[^\0]*?)?\s*" + _RECORD.pattern[4:], re.M)


def csv_lines(rows: Iterator[Any] | Any) -> Iterator[bytes]:
    """Write rows of cells as CSV."""
    rows = iter(rows)
    while some := list(islice(rows, 1000)):
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(some)
        yield text.getvalue().encode(errors="replace")


def _sparse(file: Any, name: str) -> Iterator[bytes]:
    """Write rows of a label and ``index:value``, as of libsvm, with all their zeros."""
    with tempfile.TemporaryFile() as kept:
        shutil.copyfileobj(file, kept)
        kept.seek(0)
        pairs = (re.findall(rb" (\d+):", line.partition(b"#")[0]) for line in kept)
        indices = {int(index) for line in pairs for index in line}
        low, high = min(indices), max(indices)
        if high - low > _MOST_INDICES:
            raise ConfigError(f"{name} has {high - low + 1:,} columns of zeros: choose some first")
        kept.seek(0)
        yield from csv_lines([["label", *(f"x{index}" for index in range(low, high + 1))]])
        yield from csv_lines(filter(None, (_with_zeros(line, low, high) for line in kept)))


def _with_zeros(line: bytes, low: int, high: int) -> list[str]:
    label, *pairs = line.decode("utf-8", "replace").partition("#")[0].split() or [""]
    values = dict(pair.split(":", 1) for pair in pairs)
    label = re.sub("[,;]", "_", label)
    return [label, *(values.get(str(i), "0") for i in range(low, high + 1))] if label else []


def _tree(file: Any, name: str) -> Iterator[bytes]:
    """Write the elements of XML that are most, among those that hold others or have attributes."""
    try:
        tree = ElementTree.parse(file)
    except ElementTree.ParseError as error:
        raise ConfigError(f"{name} is XML, which cannot be read: {error}") from error
    counts = Counter(each.tag for each in tree.iter() if len(each) or each.attrib)
    tag = max(counts, key=lambda tag: counts[tag], default=None)
    for each in tree.iter(tag):
        yield json.dumps(each.attrib | dict(_held(each))).encode() + b"\n"


def _held(element: Any, above: str = "") -> Iterator[tuple[str, str | None]]:
    """Yield the texts and attributes within an element, by names with dots."""
    for each in element:
        name = above + each.tag.rpartition("}")[2]
        yield from ((f"{name}.{key}", value) for key, value in each.attrib.items())
        if len(each):
            yield from _held(each, f"{name}.")
        elif each.text:
            yield name, each.text


def _rated(file: Any, _: str) -> Iterator[bytes]:
    """Write the rows of a file that begins with a second and a rate, each with its time."""
    start, rate = (float(next(file).partition(b",")[0]) for _ in range(2))
    rows = (line for line in file if line.strip())
    for number, line in enumerate(rows):
        if not number:
            yield b"time," + b",".join(b"c%d" % n for n in range(1, line.count(b",") + 2)) + b"\n"
        yield b"%.6f,%s" % (start + number / rate, line)


def _daily(file: Any, _: str) -> Iterator[bytes]:
    """Write the months of GHCN's daily files day by day, with a column of each element."""
    for month, lines in groupby(file, lambda line: line[:17].decode()):
        year, number = int(month[11:15]), int(month[15:])
        days: list[dict[str, Any]] = [
            {"date": f"{year}-{number:02d}-{day + 1:02d}", "station": month[:11]}
            for day in range(calendar.monthrange(year, number)[1])
        ]
        for line in lines:
            for day, row in enumerate(days):
                value = int(line[21 + 8 * day : 26 + 8 * day])
                row[line[17:21].decode()] = None if value == -9999 else value
        yield "".join(json.dumps(row) + "\n" for row in days).encode()


def _mails(file: Any, _: str) -> Iterator[bytes]:
    """Write the mails of a mailbox, each with its date, sender, subject and plain text."""
    import mailbox  # noqa: PLC0415 -- slow to import

    with tempfile.NamedTemporaryFile() as kept:
        shutil.copyfileobj(file, kept)
        kept.flush()
        with closing(mailbox.mbox(kept.name)) as mails:
            for mail in mails:
                bodies = (part for part in mail.walk() if part.get_content_type() == "text/plain")
                body: Any = next((part.get_payload(decode=True) for part in bodies), b"")
                text = f"{mail['subject'] or ''}\n{body.decode('utf-8', 'replace')}"
                row = {"date": mail["date"], "from": mail["from"], "text": text}
                yield json.dumps(row, default=str).encode() + b"\n"


def _records(file: Any, _: str) -> Iterator[bytes]:
    """Write subtitles, as of 1970, and changes that git logs, each as a text with its time."""
    data = file.read()
    heads = [*_RECORD.finditer(data)]
    for head, after in zip_longest(heads, heads[1:]):
        *clock, date = head.groups()
        seconds = sum(int(n or 0) * size for n, size in zip(clock, _SIZES, strict=True))
        text = data[head.end() : after and after.start()].decode("utf-8", "replace")
        stamp = date.decode() if date else str(np.datetime64(round(1000 * seconds), "ms"))
        row = {"time": stamp, "text": " ".join(text.split())}
        yield json.dumps(row).encode() + b"\n"


WRITERS = {
    "libsvm": _sparse,
    "xml": _tree,
    "rated": _rated,
    "daily": _daily,
    "mail": _mails,
    "records": _records,
}


_MOST_SERIES = 100  # objects, each with values at the times that are given once
_Table = tuple[int, str, Callable[[], Iterator[Any]]]


def values_of(text: str) -> Any:
    """Read one value, or a list of those that follow each other."""
    decoder, values, at = json.JSONDecoder(), [], 0
    while start := re.compile(r"[\s;]*(?=[^\s;])").match(text, at):
        value, at = decoder.raw_decode(text, start.end())
        values.append(value)
    return values[0] if len(values) == 1 else values


def tables(found: Any, depth: int = 0, label: str = "") -> Iterator[_Table]:
    """Yield what may be tables within a document, with their numbers of rows and their names."""
    if isinstance(found, list):
        yield from _tables_of_list(found, depth, label)
    elif isinstance(found, dict) and any(map(is_nested, found.values())):
        columns = [*found.values()]
        rows = next((found[name] for name in ("data", "values", "rows") if name in found), None)
        cut = isinstance(rows, list) and rows and isinstance(rows[0], list) and depth < 4
        names = (_names(found, len(rows[0])) if cut else None) or found.get("columns")  # type: ignore[index]
        if isinstance(names, list) and isinstance(rows, list):  # as pandas splits
            yield 1 << 60, label, lambda: (dict(zip(names, row, strict=False)) for row in rows)
        beside = _beside(found)
        if len(beside) > 1:
            n = len(next(iter(beside.values())))
            yield n, label, lambda: _of_columns(beside, range(n))
        keys = [[*c] for c in columns if isinstance(c, dict)]
        if len(columns) == len(keys) and keys and all(each == keys[0] for each in keys):
            if len(keys[0]) > len(keys):
                indexed = {"index": {key: key for key in keys[0]}} | found
                yield len(keys[0]), label, lambda: _of_columns(indexed, keys[0])
            elif len(keys) > 1:
                yield len(keys), label, lambda: ({"index": k} | row for k, row in found.items())
        if depth < 6:
            for name, value in found.items():
                if is_nested(value):
                    yield from tables(value, depth + 1, f"{label}.{name}" if label else name)


def _tables_of_list(found: list[Any], depth: int, label: str) -> Iterator[_Table]:
    if found and (depth == 0 or is_nested(found[0])):
        yield len(found), label, partial(iter, found)
        sizes = [len(next(iter(_lists(row).values()), ())) for row in found]
        if min(sizes) and sum(sizes) >= 10 * len(found):
            yield sum(sizes), label, partial(_of_lists, found)
        objects = [row for row in found if isinstance(row, dict)]
        for name in found[0] if objects[:1] == found[:1] else ():
            held = [row[name] for row in objects if isinstance(row.get(name), list)]
            n = sum(len(rows) for rows in held if _is_rows(rows))
            if n >= 10 * len(found):  # each row of the list holds many others
                yield n, label and f"{label}.{name}", partial(_unfolded, objects, name)
    for each in found if len(found) < 5 else ():
        if len(found) == 1 or (isinstance(each, list) and each and isinstance(each[0], dict)):
            yield from tables(each, depth + 1, label)


def _names(found: Any, n: int) -> list[Any] | None:
    """Return ``n`` names of columns listed within an object, as texts or as objects with names."""
    for key, value in found.items() if isinstance(found, dict) else ():
        if isinstance(value, list) and len(value) == n > 1:
            called = re.search("name|col|field|head", key.lower())
            names = [v.get("name") if isinstance(v, dict) else called and v for v in value]
            if all(isinstance(name, str) for name in names):
                return names
        elif (within := _names(value, n)) is not None:
            return within
    return None


def _beside(found: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the lists of values, of one length, that are most within an object: columns.

    Those within a list of objects, each with a name, need others outside of it.
    """
    series = [*_series(found, (), False)]
    counts = Counter(len(held) for _, held, among in series if not among and len(held) > 1)
    n = max(counts, key=lambda n: (counts[n], n), default=0)
    kept = [(path, held) for path, held, _ in series if len(held) == n]
    last = Counter(path[-1] for path, _ in kept)
    return {path[-1] if last[path[-1]] == 1 else ".".join(path): held for path, held in kept}


def _series(
    value: Any, path: tuple[str, ...], among: bool
) -> Iterator[tuple[tuple[str, ...], list[Any], bool]]:
    """Yield the lists of values within a value, and whether they are within a list of objects."""
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _series(each, (*path, name), among)
    elif isinstance(value, list) and not any(map(is_nested, value)):
        yield path, value, among
    elif isinstance(value, list) and len(value) <= _MOST_SERIES:
        for place, each in enumerate(value):
            if isinstance(each, dict):
                words = (held for held in each.values() if isinstance(held, str))
                named = () if len(value) == 1 else (next(words, str(place)),)
                yield from _series(each, path + named, among or len(value) > 1)


def _lists(row: Any) -> dict[str, list[Any]]:
    """Return the lists of values, of one length, that an object holds side by side."""
    lists = {k: v for k, v in row.items() if isinstance(v, list)} if isinstance(row, dict) else {}
    even = len(lists) > 1 == len({*map(len, lists.values())}) and not any(
        map(_is_rows, lists.values())
    )
    return lists if even else {}


def _of_lists(found: Sequence[Any]) -> Iterator[Any]:
    for row in found:
        lists = _lists(row)
        rest = {name: value for name, value in row.items() if name not in lists}
        yield from (
            rest | dict(zip(lists, cells, strict=True))
            for cells in zip(*lists.values(), strict=True)
        )


def _unfolded(found: Sequence[Any], name: str) -> Iterator[Any]:
    """Yield the rows that each row holds by a name, with its other values beside them."""
    for row in found:
        rest = {key: value for key, value in row.items() if key != name}
        names = rest.pop("columns", None)
        for within in row.get(name) or ():
            cells = isinstance(within, list) and isinstance(names, list)
            yield rest | (dict(zip(names, within, strict=False)) if cells else as_row(within))


def _is_rows(column: Sequence[Any]) -> bool:
    return bool(column) and is_nested(column[0])


def is_nested(value: Any) -> bool:
    """Whether a value holds others."""
    return isinstance(value, dict | list)


def _of_columns(columns: Mapping[str, Any], places: Sequence[Any] | range) -> Iterator[Any]:
    return ({name: column[place] for name, column in columns.items()} for place in places)


def as_row(value: Any) -> Any:
    """Return a row as an object, whose columns without names are c1, c2, .., or value."""
    if isinstance(value, list):
        return {f"c{place}": cell for place, cell in enumerate(value, 1)}
    return value if isinstance(value, dict) else {"value": value}
