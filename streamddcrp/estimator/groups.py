"""A batch with the rows of many keys, split by key and put together again."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamddcrp.data.batches import as_table, batch_times
from streamddcrp.errors import SchemaError, StreamDDCRPError
from streamddcrp.typing import FloatArray, IntArray

Key = str | int


class Groups:
    """The rows of a batch by key, each key's in their order. O(N log N), with no Python per row.

    Parameters
    ----------
    batch : object with the Arrow C stream or array interface
        N rows.
    t : array_like of shape (N,), optional
    by : str
        Column of the key: text or whole numbers.

    Attributes
    ----------
    keys : list of str or int
        In the order they first appear.
    column : pyarrow.Array, shape (N,)
        The key of each row.
    rows : pyarrow.RecordBatch
        All rows without their keys, by key.

    Raises
    ------
    SchemaError
        If there is no such column, a key is missing, or it is neither text nor a whole number.
    """

    def __init__(self, batch: object, t: object, by: str) -> None:
        if not (hasattr(batch, "__arrow_c_stream__") or hasattr(batch, "__arrow_c_array__")):
            message = (
                f"batch: a {type(batch).__name__} has no column {by!r}, the key; hand over a table "
                "with named columns"
            )
            raise SchemaError(message)
        table = as_table(batch)
        if table.column_names.count(by) != 1 or table.num_columns < 2:
            message = (
                f"batch: expected one column {by!r}, the key, and others to learn from; the "
                f"columns are {', '.join(map(repr, table.column_names)) or 'none'}"
            )
            raise SchemaError(message)
        self.column = _as_keys(table.column(by), by)
        codes = self.column.dictionary_encode()
        index = codes.indices.to_numpy()
        self.keys: list[Key] = codes.dictionary.to_pylist()
        self._order: IntArray = np.argsort(index, kind="stable")
        self._bounds: IntArray = np.r_[0, np.bincount(index, minlength=len(self.keys)).cumsum()]
        table = table.drop_columns(by)
        if len(self.keys) > 1:
            table = table.take(pa.array(self._order))
        arrays = [column.combine_chunks() for column in table.columns]
        self.rows = pa.record_batch(arrays, schema=table.schema)
        self._times: FloatArray | None = None
        if t is not None:
            self._times = batch_times(t, len(index))[self._order]

    def __iter__(self) -> Iterator[tuple[Key, Any, FloatArray | None]]:
        """Yield each key with its rows and their times."""
        for i, key in enumerate(self.keys):
            start, stop = self._bounds[i], self._bounds[i + 1]
            times = None if self._times is None else self._times[start:stop]
            yield key, self.rows.slice(start, stop - start), times

    def row(self, key: Key, row: int) -> int:
        """Return the number within the batch of a row of a key."""
        return int(self._order[self._bounds[self.keys.index(key)] + row])

    def gather(self, parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Put one result a key together, in the order of the batch's rows, behind their keys."""
        results = pa.concat_batches(parts)
        if len(parts) > 1:
            results = results.take(pa.array(np.argsort(self._order)))
        return pa.record_batch(
            [self.column, *results.columns], names=["key", *results.schema.names]
        )


@contextmanager
def naming(key: Key, groups: Groups | None = None) -> Iterator[None]:
    """Name the key, and the row within the batch, in an error of a model."""
    try:
        yield
    except SchemaError as error:
        row = error.row
        if groups is not None and row is not None:
            row = groups.row(key, row)
        text = re.sub(r"^row \d+\b[:,]? *", "", str(error))
        place = f"key {key!r}" if row is None else f"row {row}, key {key!r}"
        message = f"{place}: {text}"
        raise type(error)(message, row=row) from error
    except StreamDDCRPError as error:
        error.add_note(f"key {key!r}")
        raise


def check_key(key: object) -> Key:
    """Return a key as text or a whole number; refuse anything else."""
    if isinstance(key, str) and key.isascii():
        return str(key)
    try:
        if isinstance(key, str):
            return key.encode().decode()
        if isinstance(key, int | np.integer) and not isinstance(key, bool):
            return int(np.int64(key))
        problem = "missing" if key is None else f"{key!r} is a {type(key).__name__}"
    except (UnicodeError, OverflowError):
        problem = f"{key!r} cannot be stored"
    message = f"{problem}; a key must be text or a whole number of at most 64 bits"
    raise SchemaError(message)


def _as_keys(column: Any, by: str) -> Any:
    """Return the keys of a batch as one array of strings or of int64."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if column.null_count:
        row = int(np.asarray(column.is_null().to_numpy()).argmax())
        message = f"row {row}, column {by!r}: missing; every row needs a key"
        raise SchemaError(message, row=row)
    whole = pa.types.is_integer(kind)
    if not (whole or kind in (pa.string(), pa.large_string(), pa.string_view())):
        message = f"column {by!r} has type {kind}; a key must be text or a whole number"
        raise SchemaError(message)
    try:
        keys = pc.cast(column, kind).cast(pa.int64() if whole else pa.string())
    except pa.ArrowInvalid as error:
        message = f"column {by!r}: {error}"
        raise SchemaError(message) from error
    return keys.combine_chunks()
