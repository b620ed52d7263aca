"""Rows of text: tables, JSON lines and plain lines from a file, a growing file, or a pipe."""

import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from glob import escape, glob
from itertools import accumulate
from pathlib import Path
from typing import Any, BinaryIO

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.looking.cells import Cells
from streamddcrp_connectors.looking.dialect import SAMPLE, Dialect, find_dialect
from streamddcrp_connectors.looking.survey import TAIL, Survey, said_of, said_of_times
from streamddcrp_connectors.run.columns import MOST_FEATURES, Columns, chosen, refusals
from streamddcrp_connectors.run.contents import SUFFIXES, packing
from streamddcrp_connectors.run.csvrows import CsvRows
from streamddcrp_connectors.run.jsonrows import JsonRows, is_measured
from streamddcrp_connectors.run.linerows import TEXT, TIME, LineRows, may_be_lines
from streamddcrp_connectors.run.lines import (
    LineReader,
    RotatedError,
    check_fingerprint,
    fingerprint,
    reading,
)
from streamddcrp_connectors.run.places import Place, is_pattern

Offset = dict[str, Any]
_LOG = logging.getLogger("streamddcrp.run")

_BLANK = b"\xef\xbb\xbf \t\r\n"
_TITLE = re.compile(r"[^\d,;\t|]*[^\W\d_]{3}[^\d,;\t|]*")  # one cell of words


def sniff(head: bytes, name: str) -> str:
    """Return the format that the first bytes show."""
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    kind = packing(head)
    if kind not in (None, "json") or (kind and head.lstrip(_BLANK).startswith(b"[")):
        raise ConfigError(f"{name} holds no lines, but {kind}: write it to a file, and read that")
    return "jsonl" if head.lstrip(_BLANK).startswith(b"{") or is_measured(head) else "csv"


class TextSource:
    """Each line one row. The offset is ``{"byte", "row", "kind", "head", "last"}``.

    That is: position, rows so far, kind of the time column, and digests of what was read, by which
    a file that was replaced is recognised; of a `Place`, digests and size of the file as it lies
    there. ``looked`` says how many bytes showed how the file is written, if it was shorter than
    the sample: a run that goes on looks at the same bytes.

    Parameters
    ----------
    origin : str, Path, Place or binary file
        A regular file can be replayed; a pipe cannot. A `Place` is read from its start to its end,
        and read over to go on in it. With ``follow`` a pattern stands for files that follow each
        other in the order of their names, all with the same header.
    batch_rows : int
        Most rows in a batch. A pipe and a growing file hand over the lines there are.
    follow, idle : bool, float
        As for `LineReader`.
    """

    def __init__(
        self,
        origin: str | Path | Place | BinaryIO,
        columns: Columns,
        *,
        format: str | None,
        batch_rows: int,
        follow: bool = False,
        idle: float | None = None,
    ) -> None:
        origin = Path(origin) if isinstance(origin, str) else origin
        self.replayable = isinstance(origin, Place)
        self.n_rows: int | None = None
        self.live = follow
        self._batch_rows = batch_rows
        self._place = origin if isinstance(origin, Place) else None
        self._owned: Any = None
        stream: Any = origin
        self.name = "standard input"
        if isinstance(origin, Place):
            self.name = origin.name
            self._seen = origin.fingerprint()
            stream = self._owned = origin.unpacked()
        elif isinstance(origin, Path):
            self.name = str(origin)
            self._path = origin
            self._many = follow and is_pattern(self.name) and not origin.exists()
            if self._many:
                files = self._generations()
                if not files:
                    raise ConfigError(f"no file matches {origin}")
                self._path = files[0]
            self.replayable = self._path.is_file()
            stream = self._owned = self._path.open("rb", buffering=0)
        newest = self._newest if follow else None
        live = not self.replayable
        self._reader = LineReader(
            stream, self.name, live=live, follow=follow, idle=idle, newest=newest
        )
        try:
            self._asked = columns, format
            self._sample = self._reader.peek(SAMPLE)
            self._look(columns, format)
            self._reader.skip(self._start)
        except BaseException:
            self.close()
            raise

    def _look(self, columns: Columns, format: str | None) -> None:
        """See by the first lines how the file is written, and which columns it has."""
        sample = self._sample
        self._packed_in: list[str] = getattr(self._owned, "said", [])
        if not sample.strip(_BLANK):
            raise SchemaError(f"{self.name} is empty: it holds no rows")
        self._format = format or sniff(sample.lstrip(_BLANK), self.name)
        self._rows: CsvRows | JsonRows | LineRows
        self._start, self._end, self.kind = 0, len(sample), columns.reading.clock.format
        self._found: Survey | None = None
        if self._format == "csv":
            dialect = self._look_at_table(columns)
            if dialect.ragged and format is None and not columns.names:
                self._look_at_lines(columns)
                return
            names = self._rows.names
            said = ", ".join(filter(None, [dialect.said(), self._rows.said, self._end_of_table()]))
        elif self._format == "jsonl":
            self._rows = JsonRows()
            names = self._rows.names_of(sample)
            dialect = self._rows.dialect(sample, columns.reading)
            said = dialect.said()
            if not names and not columns.features:
                raise SchemaError(
                    f"{self.name} holds no JSON object to take the features from; name the features"
                )
            names = [
                *names,
                *(name for name in columns.raw if name not in names and columns.features),
            ]
        elif self._format == "lines":
            self._look_at_lines(columns)
            return
        else:
            message = f"{self.name} can carry CSV or JSON lines, not {self._format}; make it a file"
            raise ConfigError(message)
        self.understood = [*self._packed_in, *([f"{self.name}: {said}"] if said else [])]
        try:
            columns = columns.check(names, self.name)
            if columns.features or len(names) <= MOST_FEATURES + 10:
                wanted = () if columns.text or not columns.features else columns.raw
                table = self._rows.sample(sample[self._start : self._end], wanted)
                columns = self._choose(columns, table, dialect)
            if columns.text and not self._asked[0].text and self._may_be_lines(names):
                self._look_at_lines(self._asked[0])
            else:
                self.columns = columns.resolve(names, self.name)
        except ConfigError:
            if not self._may_be_lines(names):
                raise
            self._look_at_lines(columns)

    def _choose(self, columns: Columns, table: Any, dialect: Dialect) -> Columns:
        """Choose the columns by a sample; note what is said of it, and how cells are read."""
        named = columns
        columns, found = chosen(columns, table, dialect, self.name)
        self.kind, self._found = found.kind, found
        self._rows.cells = Cells(dialect, found.habits)
        if isinstance(self._rows, CsvRows):
            clocks = (name for name in found.left_out if found.habits[name].kind == "clock")
            self._rows.clock = next(clocks, None)
        self.understood += said_of(table, found, columns.reading.clock, named.key)
        if columns.text and not named.text:
            self.understood.append(f"{columns.names[-1]}: its cells are texts")
        return columns

    def _may_be_lines(self, names: Sequence[str]) -> bool:
        """Whether what was cut like a table may be lines of text."""
        columns, format = self._asked
        unnamed = not columns.key and (columns.text or not columns.features)
        free = len(names) == 1 and {*columns.names} <= {TIME, TEXT}
        free = free or may_be_lines(self._sample, self.name, names)
        return unnamed and format is None and self._format == "csv" and free

    def _look_at_table(self, columns: Columns) -> Dialect:
        """See how the cells of a table are written, and where its rows begin."""
        sample = self._sample
        dialect = find_dialect(sample, columns.reading.dialect())
        lines = sample.split(b"\n")
        at = dialect.skip
        end = at + dialect.header
        while dialect.header and b"\n".join(lines[at:end]).count(b'"') % 2 and end < len(lines):
            end += 1
        header = b"\n".join(lines[at:end]) if dialect.header else b""
        self._start = len(b"\n".join(lines[: end + dialect.extra])) + 1 if end else 0
        self._start = min(self._start, len(sample))
        self._rows = CsvRows(
            header, self.name, dialect, header if columns.reading.skip else sample[: self._start]
        )
        return dialect

    def _end_of_table(self) -> str:
        """See whether a table ends at the title of another one with the same names; say so."""
        names = self._sample[: self._start].strip().rpartition(b"\n")[2].strip()
        title = rb"\n\s*\n((?:[^\d\n]*[A-Za-z]{3}[^\d\n]*\n\s*)+?)" + re.escape(names) + rb"\s*\n"
        found = re.compile(title).search(self._sample, self._start) if names else None
        if found is None or self.live or not self.replayable:
            return ""
        self._end = found.start() + 1
        shown = " ".join(found[1].decode(errors="replace").split())
        return f"the table ends above {shown!r}: what follows is left out"

    def _look_at_lines(self, columns: Columns) -> None:
        self._format, self._start = "lines", 0
        self._rows = LineRows(self._sample, columns, self.name)
        self.columns = self._rows.columns
        self.kind, self.understood = None, [*self._packed_in, self._rows.said]
        if self._rows.kind is not None:
            times = Survey({}, self.columns.times, self._rows.kind, (), {})
            table = self._rows.sample(self._sample)
            self.understood.append(said_of_times(table, times, columns.reading.clock))

    def identity(self) -> dict[str, Any]:
        return {"path": os.path.realpath(self.name), "format": self._format}

    def read_after(self, offset: Offset | None) -> Iterator[tuple[Any, Offset]]:
        batches = self._read_after(offset)
        whole = self._format == "csv" and self.replayable and not self.live
        return self._without_tail(batches) if whole else batches

    def _without_tail(self, batches: Iterator[tuple[Any, Offset]]) -> Iterator[tuple[Any, Offset]]:
        """Leave out what stands below a table, such as totals: no rows, the last not of numbers."""
        held: list[tuple[Any, Offset, int]] = []
        n_below = 0
        for batch, at in batches:
            n = _n_below(batch, self.columns)
            n_below = n_below * (n == batch.num_rows) + n
            if n_below == n or n_below > TAIL:
                yield from ((before, there) for before, there, _ in held)
                held = []
            if n:
                held.append((batch, at, n))
            else:
                yield batch, at
        if held and held[0][1]["row"] > held[0][2] and n_below <= TAIL:
            first, last = (refusals(batch)[1] for batch, *_ in (held[0], held[-1]))
            title = first.get(len(held[0][0]) - held[0][2])
            below = [*last.values()][-1:]
            words = below and (
                isinstance(below[0].values, dict) or re.search(r"[^\W\d_]{3}", below[0].values)
            )
            named = title and isinstance(title.values, str) and _TITLE.fullmatch(title.values)
            if words or named or not below:
                _LOG.warning("%s: lines below the table left out: %d", self.name, n_below)
                gone = accumulate(n for *_, n in held)
                held = [(batch[: len(batch) - n], at | {"row": at["row"] - less}, n)
                        for (batch, at, n), less in zip(held, gone, strict=True)]  # fmt: skip
        yield from ((batch, at) for batch, at, _ in held if batch.num_rows)

    def _read_after(self, offset: Offset | None) -> Iterator[tuple[Any, Offset]]:
        byte, row, kind = self._start, 0, self.kind
        if offset is not None:
            byte, row, kind = offset["byte"], offset["row"], offset["kind"]
            if offset.get("looked", len(self._sample)) < len(self._sample):
                self._sample = self._sample[: offset["looked"]]
                self._look(*self._asked)
        if self._place is not None:
            if (byte, offset) != (self._reader.position, None):
                self._go_to(self._place, byte, offset)
        elif self.replayable:
            if offset is not None:
                self._find(byte, offset)
            self._reader.seek(byte)

        def here() -> Offset:
            seen: Offset = {"looked": len(self._sample)} if len(self._sample) < SAMPLE else {}
            if self._place is not None:
                seen |= self._seen
            elif self.replayable:
                seen |= fingerprint(reading(self._owned.fileno()), byte)
            return {"byte": byte, "row": row, "kind": kind} | seen

        at = offset  # where the run would go on: of a new file, only once a row of it was read
        while True:
            try:
                for block in self._blocks():
                    if not block:
                        yield None, here() if at is None or at is offset else at
                        continue
                    rows = self._of_table(byte, block)
                    byte += len(block)
                    batch, kind = self._rows.decode(rows, self.columns, kind)
                    if batch.num_rows:
                        row += batch.num_rows
                        at = here()
                        yield batch, at
            except RotatedError as error:
                known, at = at, (here() if at is None or at is offset else at)
                byte = self._next(error, known)
            else:
                return

    def _generations(self) -> list[Path]:
        """Return the files that are followed, in order: those of a pattern by their names.

        Else the file and those it was before, renamed, the oldest first.
        """
        path = Path(self.name)
        if self._many:
            found = sorted(map(Path, glob(self.name)))
            return [one for one in found if one.name[0] != "_" and one.suffix not in SUFFIXES]
        found = [path, *path.parent.glob(f"{escape(path.name)}[.-]*")]
        kept = [(one.stat().st_mtime_ns, one != path, one) for one in found if one.is_file()]
        return [one for *_, one in sorted(kept) if one.suffix not in SUFFIXES]

    def _newest(self) -> Path:
        """Return the file to which lines are added now."""
        return max(self._generations(), default=self._path) if self._many else Path(self.name)

    def _find(self, byte: int, offset: Offset) -> None:
        """Open the file that was read before; of one that is followed, whatever its name is now."""
        try:
            number = self._owned.fileno()
            check_fingerprint(reading(number), os.fstat(number).st_size, byte, offset, self.name)
        except SchemaError:
            for path in self._generations() if self.live else []:
                with suppress(SchemaError), path.open("rb") as file:
                    number, size = file.fileno(), path.stat().st_size
                    check_fingerprint(reading(number), size, byte, offset, self.name)
                    self._open(path)
                    return
            raise

    def _open(self, path: Path) -> None:
        self._owned.close()
        self._path = path
        self._owned = path.open("rb", buffering=0)
        self._reader.go_on(self._owned, 0)

    def _next(self, why: RotatedError, known: Offset | None) -> int:
        """Go on in the copy of a file that was cut, or in the file that came next; say where."""
        if why.cut and known is not None:
            with suppress(SchemaError):
                self._find(known["byte"], known)
                self._reader.seek(known["byte"])
                return int(known["byte"])
        old, paths = self._path, self._generations()
        opened = os.fstat(self._owned.fileno())
        same = [os.path.samestat(opened, path.stat()) for path in paths]
        if True in same:
            cut = opened.st_size < self._reader.position
            after = same.index(True) + (not cut)
        elif self._many:
            after = sum(path <= self._path for path in paths)
        else:
            after = len(paths)
        self._open(paths[min(after, len(paths) - 1)])
        said = f"{old} was read" if self._many else why
        _LOG.info("%s: going on with %s", said, self._path)
        return 0

    def _of_table(self, byte: int, block: bytes) -> bytes:
        """Return a block less the header of a next file, and less what is below the table."""
        head, begin = self._sample[: self._start], 0
        if byte == 0 and block.startswith(head):
            begin = len(head)
        elif byte == 0 and self._many:
            message = f"{self._path} begins otherwise than the files before: {head[:80]!r} expected"
            raise SchemaError(message)
        end = len(block) if self._end == len(self._sample) else max(self._end - byte, 0)
        return block[begin:end]

    def _blocks(self) -> Iterator[bytes]:
        """Yield the lines of whole rows: a quoted cell may go on in the next line."""
        held = b""
        for block in self._reader.blocks(self._batch_rows):
            lines = held + block
            n = self._rows.settled(lines) if block else 0
            held = lines[n:]
            if n or not block:
                yield lines[:n]
        if held and not self.live:
            yield held

    def _go_to(self, place: Place, byte: int, offset: Offset | None) -> None:
        """Read on at a byte of what a file holds, if it is the one that was read before."""
        if offset is not None:
            place.check(offset)
        self._owned.close()
        self._owned = place.unpacked(byte)
        self._reader.go_on(self._owned, byte)

    def close(self) -> None:
        if self._owned is not None:
            self._owned.close()


def _n_below(batch: Any, columns: Columns) -> int:
    """Count the rows at the end of a batch that are not cut alike, or have no time.

    Of several columns without a time: nor a number.
    """
    batch, refused = refusals(batch)
    needed = (columns.features or ()) if columns.time is None else [columns.time]
    several, n = len(columns.names) > 1, 0
    while (row := batch.num_rows - 1 - n) in refused or (
        row >= 0 and several and columns.time is None and not columns.text
    ):
        uneven = row in refused and isinstance(refused[row].values, str)
        if not uneven and (not several or any(batch.column(name)[row].is_valid for name in needed)):
            break
        n += 1
    return n
