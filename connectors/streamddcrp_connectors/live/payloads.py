"""Decode messages: JSON objects, or Arrow IPC streams of rows.

The first bytes tell them apart. A JSON message is one object, or one on each line; each non-blank
line is a row. An Arrow message is a complete IPC stream of any number of rows. A message that
cannot be read, or would take too much memory, counts as one refused row, so that it can be set
aside.

A few kilobytes can unpack to gigabytes: compressed buffers, columns of nulls or runs, dictionaries
with one long text. A compressed buffer begins with its length (Columnar Format 1.5, "IPC Streaming
Format" and "Serialization and Interprocess Communication"), so it is refused before it is unpacked.
"""

import itertools
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.run.columns import Columns, Refusal, TimeKind, assemble, canonical
from streamddcrp_connectors.run.joining import joined
from streamddcrp_connectors.run.jsonrows import JsonRows

LARGEST = 1 << 26  # bytes of a message when unpacked
MOST_ROWS = 1 << 20
_HEADER, _BATCH_OF_DICTIONARY, _BUFFERS, _COMPRESSION = 2, 1, 2, 3  # places in the format's tables
_ARROW = b"\xff\xff\xff\xff"
_SHOWN = 200  # bytes shown of an unreadable message


class Payloads:
    """Turn messages into canonical batches; the columns have features.

    Examples
    --------
    >>> payloads = Payloads(Columns(time="t", features=("a",)))
    >>> batch, kind = payloads.decode([b'{"t": 1, "a": 2}', b'{"t": 3, "a": null}'], None)
    >>> batch.to_pylist(), kind
    ([{'t': 1.0, 'a': 2.0}, {'t': 3.0, 'a': None}], 'number')
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._json = JsonRows()

    def decode(
        self, messages: Iterable[bytes], kind: TimeKind | None
    ) -> tuple[Any, TimeKind | None]:
        """Return the rows of messages as one batch, perhaps empty, and the kind of their times.

        ``kind`` is that of earlier messages, if known.
        """
        made = []
        for is_arrow, group in itertools.groupby(messages, lambda data: data[:4] == _ARROW):
            if is_arrow:
                for message in group:
                    batch, kind = self._decode_arrow(message, kind)
                    made.append(batch)
            else:
                batch, kind = self._json.decode(b"\n".join(group), self.columns, kind)
                made.append(batch)
        if not made:
            made.append(self._refused(0, "", None))
        return joined(made), kind

    def _decode_arrow(self, message: bytes, kind: TimeKind | None) -> tuple[Any, TimeKind | None]:
        n_rows = 1  # for an unreadable message
        try:
            check_stream(message)
            with pa.ipc.open_stream(pa.py_buffer(message)) as reader:
                table = reader.read_all()
            check_rows(table)
            table.validate(full=True)
            n_rows = table.num_rows
            names = list(self.columns.names)
            found = self.columns.resolve(table.column_names, "the message")
            cells = [table.column(name).combine_chunks() for name in found.names]
            raw = pa.record_batch(cells, names=names)
            return canonical(raw, self.columns, kind)
        except (pa.ArrowException, OSError, SchemaError, ConfigError) as error:
            return self._refused(n_rows, str(error), repr(message[:_SHOWN])), kind

    def _refused(self, n_rows: int, reason: str, shown: Any) -> Any:
        """Return refused rows; nulls take the types of the rows beside them."""
        nothing = [pa.nulls(n_rows) for _ in self.columns.names]
        refused = dict.fromkeys(range(n_rows), Refusal(f"message: {reason}", shown))
        return assemble(self.columns, nothing, refused, lambda _: {})


def check_stream(message: bytes) -> None:
    """Refuse an IPC stream whose compressed buffers declare a size above `LARGEST`.

    Raises pyarrow.ArrowException if the message is not an IPC stream.
    """
    total = 0
    for part in pa.ipc.MessageReader.open_stream(pa.py_buffer(message)):
        if part.body is not None:
            total += _unpacked(memoryview(part.metadata), part.body, part.type)
        if total > LARGEST:
            raise SchemaError(_too_large("unpacks to", total))


def check_rows(table: Any) -> None:
    """Refuse a table whose columns, as plain numbers and texts, exceed `LARGEST`."""
    if table.num_rows > MOST_ROWS:
        raise SchemaError(f"it has {table.num_rows:,} rows; a message may have {MOST_ROWS:,}")
    total = 8 * table.num_rows * table.num_columns
    for column in table.columns if total <= LARGEST else ():
        total += sum(map(_letters, column.chunks))
    if total > LARGEST:
        raise SchemaError(_too_large("holds", total))


def _letters(cells: Any) -> int:
    """Return the bytes of an array of texts, counting repeats."""
    if pa.types.is_dictionary(cells.type):
        words = cells.dictionary
        if not pa.types.is_string(words.type):
            return 0  # not read as text
        return pc.sum(pc.binary_length(words).take(cells.indices).cast(pa.int64())).as_py() or 0
    if cells.type == pa.string_view():  # 16 bytes each; the first four are the length
        lengths = np.frombuffer(cells.buffers()[1] or b"", "<i4")[::4]
        return int(lengths[cells.offset : cells.offset + len(cells)].sum(dtype=np.int64))
    return 0  # no larger than the message


def _too_large(what: str, total: int) -> str:
    return f"it {what} {total:,} bytes; a message may hold {LARGEST:,}: send fewer rows at once"


def _unpacked(metadata: memoryview, body: Any, kind: str) -> int:
    """Return the bytes of a message's buffers; Arrow has verified its flatbuffer."""
    batch = _table(metadata, _field(metadata, _table(metadata, 0), _HEADER))
    if kind == "dictionary":
        batch = _table(metadata, _field(metadata, batch, _BATCH_OF_DICTIONARY))
    if not _field(metadata, batch, _COMPRESSION):
        return int(body.size)
    buffers = _table(metadata, _field(metadata, batch, _BUFFERS))
    n = struct.unpack_from("<I", metadata, buffers)[0]
    places = np.frombuffer(metadata, "<i8", 2 * n, buffers + 4).reshape(n, 2).tolist()
    total = 0
    for start, length in places:
        if 0 <= start <= body.size - 8 and length >= 8:
            total += max(struct.unpack_from("<q", body, start)[0], length)
    return total


def _table(data: memoryview, at: int) -> int:
    """Follow a reference of a flatbuffer."""
    found: int = at + struct.unpack_from("<I", data, at)[0]
    return found


def _field(data: memoryview, table: int, number: int) -> int:
    """Return the place of a table's field; 0 if it is not there."""
    places: int = table - struct.unpack_from("<i", data, table)[0]
    at = 4 + 2 * number
    if at >= struct.unpack_from("<H", data, places)[0]:
        return 0
    offset: int = struct.unpack_from("<H", data, places + at)[0]
    return table + offset if offset else 0
