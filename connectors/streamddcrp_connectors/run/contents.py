"""Lines of text from archives, UTF-16, JSON and XML documents, workbooks and databases.

Each layer is recognised by its first bytes and taken off, until lines are left: CSV, or JSON with
one object a line. Other libraries read what they know; the result is read like any other text.
"""

import codecs
import io
import json
import lzma
import os
import re
import shutil
import sqlite3
import tarfile
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import datetime
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.run.rewritten import (
    RECORDS,
    WRITERS,
    as_row,
    csv_lines,
    is_nested,
    tables,
    values_of,
)

DAMAGED = EOFError, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error
HEAD = 1 << 16  # bytes that show what a file is
SUFFIXES = (".gz", ".zst", ".bz2", ".xz", ".zip")
_PIECE = 1 << 18
_MAGIC = {
    b"\x1f\x8b": "gzip", b"(\xb5\x2f\xfd": "zstd", b"BZh": "bz2", b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "zip", b"PK\x05\x06": "zip", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16",
    b"SQLite format 3\x00": "sqlite", b"\xd0\xcf\x11\xe0": "workbook",
    **dict.fromkeys((b"\x93NUMPY", b"\x89HDF\r\n", b"CDF", b"MATLAB 5.0", b"RDX", b"X\n\0\0",
                     b"$FL2", b"<stata_dta>", b"FLV", b"%PDF"), "binary"),
}  # fmt: skip
_BOM = rb"(?:\xef\xbb\xbf)?\s*"
_SET = rb"(?:[A-Za-z_$][\w.$ ]*= ?)?"  # to a variable, in JavaScript
_ARRAY = re.compile(_BOM + _SET + rb"\[\s*(?:[\[{\"]|[-\d.eE]+\s*,|$)")
_OPENED = re.compile(_BOM + _SET + rb"\{\s*(?:\"[^\"]*\"\s*:\s*(?:\[|\{)?[^{}]*)?,?\s*\n")
_SPARSE = re.compile(rb"(?:[-+]?[\d.,;]+(?: +qid:\d+)?(?: +\d+:[-+.\deE]+)+ *(?:#.*)?\r?\n){2}")
_TREE = re.compile(_BOM + rb"<(?:\?xml|[A-Za-z_][\w:.-]*[\s>])[^\0]*(?:/>|</|-->)")
_RATED = re.compile(  # the second at which a record began, and its rate, for each column
    rb"(1\d{9}(?:\.\d*)?)(?:, *\1)*\r?\n(\d{1,4}(?:\.\d*)?)(?:, *\2)*\r?\n(?=[-+.\d])"
)
_DAILY = re.compile(rb"(?:[A-Z]{2}[\w-]{9}\d{6}[A-Z]{3}.(?:[- \d]{4}\d.{3}){28}.*\n){2}")
_MAIL = re.compile(rb"From \S+ .*\d{4}\r?\n[\w-]+: ")
_CELL = r"'(?:[^'\\]|\\.|'')*'"
_DUMP = re.compile(
    rb"(?s)[^\0]*^(?:INSERT (?:INTO )?\S+ *(?:\([^)]*\))?\s*VALUES"
    rb"|COPY \S+ \(.*\) FROM stdin;)",
    re.M,
)
_WITHIN = rf"\((?:{_CELL}|[^()']|\([^()']*\))*\)"  # brackets, as of Decimal(9, 2)
_VALUE = rf"(?:{_CELL}|[^,()']++|{_WITHIN})*+"  # a cell
_TUPLE = re.compile(rf"\(((?:{_CELL}|[^()']++|{_WITHIN})*+)\)")
_CAST = re.compile(
    rf"\s*(?:(?i:cast|convert)\(\s*)?(?:\w*({_CELL})|([^'()\s]*))(?:\s+(?i:as)\s[^']*\))?\s*\Z"
)
_INSERT = re.compile(r"INSERT (?:IGNORE )?(?:INTO )?(\S+) *(?:\(([^)]*)\))?\s*(?:VALUES)?")
_CREATED = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?([^\s(]+)")
_COLUMN = re.compile(
    r"(?:\A|,)\s*+(?!(?:PRIMARY|UNIQUE|KEY|CONSTRAINT|CHECK|FOREIGN)\b)"
    r"[`\"\[]?+([^,`\"\]]+?)[`\"\]]? \w"
)
_BARE = str.maketrans("", "", '`"[]')
MAX_DUMPED = 1 << 24  # bytes of a line with its texts
_OTHERS = re.compile(r"(^|/)([._]|__MACOSX)|readme|license|\.(md|pdf|html?|docx?|names|png)$", re.I)


class Pieces(io.RawIOBase):
    """A stream of what an iterator yields."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._held = pieces, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._held:
            self._held = next(self._pieces, b"")
            if not self._held:
                return 0
        n = min(len(buffer), len(self._held))
        buffer[:n], self._held = self._held[:n], self._held[n:]
        return n


def packing(head: bytes) -> str | None:
    """Return what stands around the lines of a file, as its first `HEAD` bytes show; or None."""
    kind = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), None)
    if kind is not None:
        return kind
    if len(head) > 3 and b"\0" in head[:4] and not head.strip(b"\0").startswith(b"PAR1"):
        for place in (0, 1):  # of every second byte
            if not any(head[place:200:2]) and all(head[1 - place : 200 : 2]):
                return "utf-16-le" if place else "utf-16-be"
    found = {
        "tar": head[257:262] == b"ustar",
        "xml": _TREE.match(head) and b"<html" not in head[:500].lower(),
        "libsvm": _SPARSE.match(head), "rated": _RATED.match(head), "daily": _DAILY.match(head),
        "mail": _MAIL.match(head), "records": RECORDS.match(head), "dump": _DUMP.match(head),
        "json": is_document(head),
    }  # fmt: skip
    return next((kind for kind, fits in found.items() if fits), None)


def is_document(head: bytes) -> bool:
    """Whether a file is one JSON value, not one on each line."""
    if _ARRAY.match(head) or _OPENED.match(head):
        return True
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return False
    return b"\n" not in head.strip()


def unwrapped(file: Any, name: str, path: str | None, said: list[str]) -> Any:
    """Return a stream of lines of a file, which stands at its beginning.

    ``name`` is for messages; ``path`` is that of a file that lies on this machine; ``said`` gets
    what was chosen.
    """
    for _ in range(4):
        head = file.read(HEAD)
        if file.seekable():
            file.seek(0)
        else:
            file = io.BufferedReader(Pieces(chain([head], _pieces(file))), _PIECE)
        kind = packing(head)
        if kind is None:
            return file
        within, made = _layer(file, kind, name, path, said)
        if made is not None:
            return io.BufferedReader(Pieces(made), _PIECE)
        file, path = within, None
    raise ConfigError(f"{name} is packed in too many layers")


def _pieces(file: Any) -> Iterator[bytes]:
    return iter(partial(file.read, _PIECE), b"")


def _layer(
    file: Any, kind: str, name: str, path: str | None, said: list[str]
) -> tuple[Any, Iterator[bytes] | None]:
    """Return what is within one layer, or its lines."""
    if kind == "xz":
        return lzma.LZMAFile(file), None
    if kind in ("gzip", "zstd", "bz2"):
        return pa.CompressedInputStream(file, kind), None
    if kind == "tar":
        return io.BufferedReader(Pieces(_of_tar(file, name, said)), _PIECE), None
    if kind == "zip":
        archive = zipfile.ZipFile(file)
        if not {"[Content_Types].xml", "mimetype"} & {*archive.namelist()}:
            sizes = {info.filename: info.file_size for info in archive.infolist()}
            return archive.open(_member(sizes, name, said)), None
    made: Iterator[bytes]
    if kind == "sqlite":
        made = _database(path, name, said)
    elif kind == "binary":
        message = f"{name} is no text: save it as CSV or Parquet, or read it in Python"
        raise ConfigError(f"{message}, whose arrays and frames `step_many` takes")
    elif kind == "dump":
        made = _dumped(file, name, said)
    elif kind == "json":
        made = _document(file, name, said)
    elif kind in WRITERS:
        made = WRITERS[kind](io.BufferedReader(Pieces(_pieces(file)), _PIECE), name)
    elif kind.startswith("utf-16"):
        decode = codecs.getincrementaldecoder(kind)("replace").decode
        made = (decode(piece).encode() for piece in _pieces(file))
    else:
        made = _workbook(file, name, said)
    return None, made


def _of_tar(file: Any, name: str, said: list[str]) -> Iterator[bytes]:
    with tempfile.TemporaryFile() as kept:
        shutil.copyfileobj(file, kept)
        kept.seek(0)
        with tarfile.open(fileobj=kept) as tar:
            sizes = {member.name: member.size for member in tar if member.isfile()}
            within: Any = tar.extractfile(_member(sizes, name, said))
            yield from _pieces(within)


def _member(sizes: Mapping[str, int], name: str, said: list[str]) -> str:
    """Choose the largest file of an archive that may be a table."""
    filled = [member for member, size in sizes.items() if size and not member.endswith("/")]
    kept = [member for member in filled if not _OTHERS.search(member)] or filled
    if not kept:
        raise ConfigError(f"{name} is an empty archive")
    chosen = max(kept, key=lambda member: sizes[member])
    others = f", the largest of {len(kept)} files" if len(kept) > 1 else ""
    said.append(f"{name}: its file {chosen}{others}")
    return chosen


def _workbook(file: Any, name: str, said: list[str]) -> Iterator[bytes]:
    try:
        from python_calamine import CalamineError, CalamineWorkbook  # noqa: PLC0415 -- an extra
    except ModuleNotFoundError as error:
        message = f"{name} is a workbook: pip install 'streamddcrp[excel]', or save it as CSV"
        raise ConfigError(message) from error
    try:
        file.seek(0)
        book = CalamineWorkbook.from_filelike(io.BytesIO(file.read()))
        sheets = {title: book.get_sheet_by_name(title).to_python() for title in book.sheet_names}
    except CalamineError as error:
        raise ConfigError(f"{name} cannot be read as a workbook: {error}") from error
    title = max(sheets, key=lambda title: sum(map(len, sheets[title])))
    if len(sheets) > 1:
        said.append(f"{name}: its sheet {title!r}, the largest of {', '.join(map(repr, sheets))}")
    return csv_lines([_written(cell) for cell in row] for row in sheets[title])


def _written(cell: Any) -> Any:
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return int(cell)
    return cell.isoformat(" ") if isinstance(cell, datetime) else cell


def _database(path: str | None, name: str, said: list[str]) -> Iterator[bytes]:
    if path is None:
        raise ConfigError(f"{name} is an SQLite database; it has to lie on this machine, unpacked")
    address = f"file:{os.path.abspath(path).replace('%', '%25').replace('?', '%3f')}?mode=ro"
    with closing(sqlite3.connect(address, uri=True)) as found:
        try:
            names = [row[0] for row in found.execute(
                "select name from sqlite_master where type in ('table', 'view') "
                "and name not like 'sqlite_%' order by name")]  # fmt: skip
            sizes = {table: found.execute(f"select count(*) from {_quoted(table)}").fetchone()[0]
                     for table in names}  # fmt: skip
            if not sizes:
                raise ConfigError(f"{name} is a database without a table")
            table = max(sizes, key=lambda table: sizes[table])
            if len(sizes) > 1:
                said.append(f"{name}: its table {table!r}, the largest of {', '.join(names)}")
            rows = found.execute(f"select * from {_quoted(table)}")
            yield from csv_lines(iter([[column[0] for column in rows.description]]))
            yield from csv_lines(map(list, rows))
        except sqlite3.Error as error:
            raise ConfigError(f"{name} cannot be read as a database: {error}") from error


def _dumped(file: Any, name: str, said: list[str]) -> Iterator[bytes]:
    """Write the largest table of a dump of a database as statements of SQL."""
    with tempfile.TemporaryFile() as kept:
        shutil.copyfileobj(file, kept)
        sizes, names = Counter[str](), dict[str, list[str]]()
        for table, listed, rows in _statements(kept):
            sizes[table] += len(rows)
            names |= {table: listed} if listed else {}
        table = max(sizes, key=lambda table: sizes[table])
        if len(sizes) > 1:
            said.append(f"{name}: its table {table!r}, the largest of {', '.join(sizes)}")
        yield from csv_lines([names[table]] if table in names else [])
        for each, _, rows in _statements(kept):
            if each == table and rows:
                yield from csv_lines(_values(rows, name))


def _statements(file: Any) -> Iterator[tuple[str, list[str], str]]:
    """Yield, line by line, the tables of a dump, the names of their columns, and rows of them."""
    file.seek(0)
    table, copied, made, line = "", False, "", ""
    for data in file:
        line += data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
        if made or _CREATED.match(line):
            made += line
            if re.search(r"(?:;|^\)[^\n]*|^GO)\s*\Z", made, re.M):
                body = re.sub(r"\([^()]*\)", "", made.partition("(")[2])
                yield _CREATED.match(made)[1].translate(_BARE), _COLUMN.findall(body), ""  # type: ignore[index]
                made = ""
        elif copied:
            copied = line.rstrip() != r"\."
            yield table, [], line * copied
        elif found := re.match(r"COPY (\S+) (\(.*\)) FROM stdin;", line):
            table, copied = found[1].translate(_BARE), True
            yield table, _listed(found[2]), ""
        elif (begun := _INSERT.match(line)) or (table and re.match(r"[\s,]*\(", line)):
            quotes = line.replace("\\\\", "").replace("\\'", "").count("'")
            if quotes % 2 and len(line) < MAX_DUMPED:
                continue  # a text goes on in the next line
            table = begun[1].translate(_BARE) if begun else table
            rest = line[begun.end() :] if begun else line
            yield table, _listed(begun[2]) if begun and begun[2] else [], f"({rest}"
        else:
            table = ""
        line = ""


def _listed(names: str) -> list[str]:
    return [name.strip() for name in names.translate(_BARE).strip("()").split(",")]


def _values(text: str, name: str) -> Iterator[list[str]]:
    """Yield the cells of rows as statements have them, or as a copy has them: with tabs."""
    if text[0] != "(":
        yield text.rstrip("\n").replace("\\N", "").split("\t")
        return
    rows = _TUPLE.findall(text, 1)
    if re.fullmatch(r"[\s,]*(?:;|ON .*)?\s*", _TUPLE.sub("", text[1:]), re.S) is None:
        rows = [None]
    for row in rows:
        cells = row and [_CAST.match(cell) for cell in re.findall(rf"(?:\A|,)({_VALUE})", row)]
        if not cells or None in cells:
            raise ConfigError(
                f"{name} is a dump of SQL, some statements of which cannot be read: load it, and "
                "export the table as CSV"
            )
        yield [_unquoted(cell[1]) if cell[1] else cell[2].strip() for cell in cells]


def _unquoted(text: str) -> str:
    return re.sub(r"\\(.)|'(')", r"\1\2", text[1:-1])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _document(file: Any, name: str, said: list[str]) -> Iterator[bytes]:
    """Write the rows of a JSON document one a line."""
    data = file.read()
    try:
        text = re.sub(rb"\A\s*" + _SET, b"", data.removeprefix(codecs.BOM_UTF8))
        found = values_of(text.decode())
    except (ValueError, RecursionError) as error:
        if data.lstrip().startswith(b"{") and b"\n" not in data.strip():  # a row to be refused
            yield data
            return
        raise ConfigError(f"{name} is one JSON document, which cannot be read: {error}") from error
    made = sorted(tables(found), key=lambda table: -table[0])
    if not made and isinstance(found, dict) and b"\n" not in text.strip():
        yield text.strip() + b"\n"
        return
    rows = [*made[0][2]()] if made else [found]
    others = [label for n, label, _ in made[1:] if n > 1 and label]
    if others and made[0][1]:
        shown = ", ".join(others[:8])
        said.append(f"{name}: its rows are those of {made[0][1]!r}, not of {shown}")
    if all(isinstance(row, list) and not any(map(is_nested, row)) for row in rows):
        yield from csv_lines(rows)
        return
    for at in range(0, len(rows), 1000):
        yield "".join(json.dumps(as_row(row)) + "\n" for row in rows[at : at + 1000]).encode()
