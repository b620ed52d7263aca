"""Formats that are not tables, written as lines of one: libsvm, XML, months of days, mailboxes."""

import calendar
import csv
import io
import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
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
