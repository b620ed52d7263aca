"""CSV lines to canonical batches.

The first line names the columns. An empty cell is missing; a quoted cell must end on its own line
(one line is always one row); cells are UTF-8. A line of a wrong width is a refused row.
"""

import csv
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc_csv

from streamddcrp.errors import SchemaError
from streamddcrp_connectors.run.columns import (
    Columns,
    Refusal,
    TimeKind,
    assemble,
    canonical,
    refusals,
)


class CsvRows:
    r"""Comma-separated values under one header.

    Parameters
    ----------
    header : bytes
        The first line.
    where : str
        What messages call the source.

    Examples
    --------
    >>> columns = Columns("t", None, ("a",))
    >>> batch, kind = CsvRows(b"t,a\n", "here").decode(b"1,0.5\n2,\n", columns, None)
    >>> batch.to_pylist(), kind
    ([{'t': 1.0, 'a': 0.5}, {'t': 2.0, 'a': None}], 'number')
    """

    def __init__(self, header: bytes, where: str) -> None:
        try:
            text = header.decode("utf-8-sig").strip("\r\n")
        except UnicodeDecodeError as error:
            message = (
                f"{where}: the header line is not UTF-8 text ({error.reason}); change it first: "
                f"iconv -f LATIN1 -t UTF-8 {where} (or -f UTF-16)"
            )
            raise SchemaError(message) from error
        if "\r" in text:
            message = (
                f"{where}: carriage returns inside the first line; if they end the lines, "
                f"change them first: tr '\\r' '\\n' < {where}"
            )
            raise SchemaError(message)
        try:
            self.names: list[str] = [name.strip() for name in next(csv.reader([text]), [])]
        except csv.Error as error:
            message = f"{where}: the header line cannot be read: {error}"
            raise SchemaError(message) from error
        if not any(self.names):
            message = f"{where} is empty: its first line must name the columns"
            raise SchemaError(message)
        # a last row of empty cells: a quote left open before it swallows it
        self._sentinel = b"," * (len(self.names) - 1) or b'""'

    def decode(
        self, block: bytes, columns: Columns, kind: TimeKind | None
    ) -> tuple[Any, TimeKind | None]:
        """Turn whole lines into a canonical batch."""
        if b'"' not in block and _is_clean(block):
            raw, uneven = self._parse(block, columns)
            broken: dict[int, Refusal] = {}
        else:
            lines, broken = _sound_lines(block)
            parts, uneven = self._parse_apart(lines, columns, 0)
            raw = pa.concat_batches([self._parse(b"", columns)[0], *parts])
        batch, kind = canonical(raw, columns, kind, text=True)
        if not broken and not uneven:
            return batch, kind
        n_rows = len(broken) + len(uneven) + raw.num_rows
        seen = np.delete(np.arange(n_rows), sorted(broken))  # the rows that the parser saw
        broken |= {int(seen[row]): refusal for row, refusal in uneven.items()}
        return _spread(batch, broken, columns), kind

    def _parse_apart(
        self, lines: list[bytes], columns: Columns, first: int
    ) -> tuple[list[Any], dict[int, Refusal]]:
        """Parse lines, halving them until those with an open quote stand alone."""
        if not lines:
            return [], {}
        block = b"\n".join([*lines, self._sentinel])
        reason = "a quote is not closed on its line"
        try:
            batch, uneven = self._parse(block, columns)
        except pa.ArrowInvalid as error:
            reason = f"cannot be read as CSV: {error}"
        else:
            if batch.num_rows + len(uneven) == len(lines) + 1:
                shifted = {first + row: refusal for row, refusal in uneven.items()}
                return [batch.slice(0, batch.num_rows - 1)], shifted
        if len(lines) == 1:
            return [], {first: Refusal(reason, lines[0].decode())}
        half = len(lines) // 2
        left, left_uneven = self._parse_apart(lines[:half], columns, first)
        right, right_uneven = self._parse_apart(lines[half:], columns, first + half)
        return left + right, left_uneven | right_uneven

    def _parse(self, block: bytes, columns: Columns) -> tuple[Any, dict[int, Refusal]]:
        """Parse all cells as text; lines of a wrong width are set aside."""
        uneven: dict[int, Refusal] = {}

        def set_aside(row: Any) -> str:
            found, expected = row.actual_columns, row.expected_columns
            reason = f"{found} cells where the header names {expected} columns"
            if expected == 1 and (sign := re.search(r"[;\t|]", self.names[0])):
                reason += f"; cells must be separated by commas, not {sign[0]!r}"
            uneven[row.number - 1] = Refusal(reason, row.text)
            return "skip"

        schema = pa.schema([(name, pa.string()) for name in columns.names])
        empty = pa.record_batch([pa.array([], pa.string()) for _ in schema], schema=schema)
        if not block.strip(b"\r\n"):
            return empty, {}
        table = pc_csv.read_csv(
            pa.py_buffer(block),
            read_options=pc_csv.ReadOptions(
                use_threads=False, column_names=self.names, block_size=len(block) + 1
            ),
            parse_options=pc_csv.ParseOptions(invalid_row_handler=set_aside),
            convert_options=pc_csv.ConvertOptions(
                column_types=schema,
                include_columns=list(columns.names),
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
        return pa.concat_batches([empty, *table.to_batches()]), uneven


def _is_clean(block: bytes) -> bool:
    """Return whether every line is UTF-8 and ends where it should."""
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return block.count(b"\r") == block.count(b"\r\n")


def _sound_lines(block: bytes) -> tuple[list[bytes], dict[int, Refusal]]:
    """Split into lines without blank ones, and refuse those that are no single line of text."""
    sound: list[bytes] = []
    broken: dict[int, Refusal] = {}
    for line in block.split(b"\n"):
        row = line[:-1] if line.endswith(b"\r") else line
        if not row:
            continue
        reason = "a carriage return inside the line" if b"\r" in row else ""
        try:
            row.decode()
        except UnicodeDecodeError as error:
            reason = f"not UTF-8 text ({error.reason} at byte {error.start})"
        if reason:
            broken[len(sound) + len(broken)] = Refusal(reason, row.decode(errors="replace"))
        else:
            sound.append(row)
    return sound, broken


def _spread(batch: Any, broken: dict[int, Refusal], columns: Columns) -> Any:
    """Put the rows of a batch back between the broken lines."""
    batch, refused = refusals(batch)
    n_rows = batch.num_rows + len(broken)
    places = np.delete(np.arange(n_rows), sorted(broken))
    source = np.full(n_rows, -1)
    source[places] = np.arange(batch.num_rows)
    take = pa.array(source, mask=source < 0)
    refused = {int(places[row]): refusal for row, refusal in refused.items()} | broken
    arrays = [batch.column(name).take(take) for name in columns.names]
    return assemble(columns, arrays, refused, lambda row: None)
