"""Decode messages: JSON objects, or Arrow IPC streams of rows.

The first bytes tell them apart. A JSON message is one object, or one on each line; each non-blank
line is a row. An Arrow message is a complete IPC stream of any number of rows. A message that
cannot be read, or would take too much memory, counts as one refused row, so that it can be set
aside.
"""

import itertools
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.live.unpacked import check_rows, check_stream
from streamddcrp_connectors.run.columns import Columns, Refusal, TimeKind, assemble, canonical
from streamddcrp_connectors.run.joining import joined
from streamddcrp_connectors.run.jsonrows import JsonRows

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
            raw = pa.record_batch([_whole(table.column(name)) for name in found.names], names=names)
            batch, then = canonical(raw, self.columns, kind)
        except (pa.ArrowException, OSError, SchemaError, ConfigError) as error:
            return self._refused(n_rows, str(error), repr(message[:_SHOWN])), kind
        if kind is not None and then != kind:
            reason = f"the time is of kind {then}, that of earlier rows {kind}"
            return self._refused(n_rows, reason, {}), kind
        return batch, then

    def _refused(self, n_rows: int, reason: str, shown: Any) -> Any:
        """Return refused rows; nulls take the types of the rows beside them."""
        nothing = [pa.nulls(n_rows) for _ in self.columns.names]
        refused = dict.fromkeys(range(n_rows), Refusal(f"message: {reason}", shown))
        return assemble(self.columns, nothing, refused, lambda _: {})


def _whole(column: Any) -> Any:
    whole = column.combine_chunks()
    return pa.concat_arrays(whole.chunks) if isinstance(whole, pa.ChunkedArray) else whole
