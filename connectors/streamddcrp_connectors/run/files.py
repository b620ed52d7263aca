"""Several files as one source, one after the other: patterns, packed files, files elsewhere."""

from collections.abc import Iterator
from typing import Any

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.places import places
from streamddcrp_connectors.run.sources import ArrowSource, ParquetSource, format_of
from streamddcrp_connectors.run.textsource import Offset, TextSource


class FilesSource:
    """The rows of all files that a pattern or address stands for, by name; see `places`.

    The offset is ``{"row", "number", "file", "time", "at"}``: rows so far, which file the last row
    was of, the type of its time, and the place in that file. Files that come later, with names
    after all others, are read by the next run. Without named features, those of the first file
    count; without a format, the ending of each name, else its first bytes.
    """

    replayable = True

    def __init__(
        self, spec: str, columns: Columns, batch_rows: int, format: str | None = None
    ) -> None:
        self._places = places(spec)
        self._columns, self._batch_rows, self._format = columns, batch_rows, format
        try:
            first = self._open(0)
        except BaseException:
            self.close()
            raise
        first.close()
        self.columns = self._columns = first.columns
        self.understood = getattr(first, "understood", [])
        self.n_rows: int | None = first.n_rows if len(self._places) == 1 else None
        self.name = spec.partition("?")[0] if "://" in spec else spec
        self._file = (self.name, 0)  # that is read, and how many rows are before it

    def where(self, row: int) -> str:
        """Say where a row is, of the file that was read last."""
        name, before = self._file
        return f"{name}: row {row - before}" + (f", row {row} of all," if before else "")

    def identity(self) -> dict[str, Any]:
        return {"path": self.name, "format": "files"}

    def read_after(self, offset: Offset | None) -> Iterator[tuple[Any, Offset]]:
        number, row, kind, at = 0, 0, None, None
        if offset is not None:
            number, row, kind, at = (offset[name] for name in ("number", "row", "time", "at"))
            if [place.name for place in self._places[number : number + 1]] != [offset["file"]]:
                message = f"{self.name}: files before {offset['file']} were added or removed since"
                raise SchemaError(message)
        while number < len(self._places):
            name = self._places[number].name
            self._file = name, row - (at["row"] if at else 0)
            source = self._open(number)
            try:
                for batch, then in source.read_after(at):
                    kind = self._same_times(batch, kind, name)
                    row = self._file[1] + then["row"]
                    place = {"number": number, "file": name, "time": kind, "at": then}
                    yield batch, {"row": row} | place
            finally:
                source.close()
            number, at = number + 1, None

    def close(self) -> None:
        """Remove what was fetched; other files are open only while they are read."""
        for place in self._places:
            if place.kept is not None:
                place.kept.close()

    def _open(self, number: int) -> Any:
        place = self._places[number]
        format, sure = (self._format, True) if self._format else format_of(place.name, place.head)
        if format in ("csv", "jsonl", "lines"):
            asked = format if sure else None
            return TextSource(place, self._columns, format=asked, batch_rows=self._batch_rows)
        if format not in ("parquet", "arrow"):
            raise ConfigError(f"{place.name}: files are csv, jsonl, parquet or arrow, not {format}")
        opener = ParquetSource if format == "parquet" else ArrowSource
        return opener(place, self._columns, self._batch_rows)

    def _same_times(self, batch: Any, kind: str | None, name: str) -> str | None:
        """Refuse a file whose times are of another kind than those before."""
        if self.columns.time is None:
            return None
        found = str(batch.schema.field(self.columns.time).type)
        if kind not in (None, found):
            message = f"{name}: the time is of type {found}, but of type {kind} in the files before"
            raise SchemaError(message)
        return found
