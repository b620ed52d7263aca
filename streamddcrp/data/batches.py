"""From Arrow tables, data frames and arrays to matrices of floats, with no Python per row."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from streamddcrp.data import Vectorizer, as_matrix, as_times, check_matrix
from streamddcrp.errors import SchemaError
from streamddcrp.typing import FloatArray

_TYPES = ("bool", "int", "float")  # each holds those before it


class Batch(NamedTuple):
    """Rows in the order of a schema.

    Attributes
    ----------
    X : ndarray of float64, shape (N, D)
        NaN where a value is missing.
    types : list of {"bool", "int", "float"}
        As what the values of each column came; "bool" where nothing came.
    """

    X: FloatArray
    types: list[str]


def read_batch(batch: object, vectorizer: Vectorizer, *, learn: bool = True) -> Batch:
    """Convert a batch to floats in the schema's order; nulls become NaN, other NaN are refused.

    Parameters
    ----------
    batch : object with the Arrow C stream or array interface, or array_like of shape (N, D)
        Arrow tables and batches, polars and pandas frames; a plain array has columns 0 .. D - 1.
    vectorizer : Vectorizer
    learn : bool
        Whether the schema may learn from the batch.

    Raises
    ------
    SchemaError
        If a column is not numeric, comes twice, or holds NaN or infinity.
    """
    if _is_arrow(batch):
        return _from_arrow(as_table(batch), vectorizer, learn=learn)
    X = as_matrix(batch)
    kind = {"b": "bool", "i": "int", "u": "int"}.get(np.asarray(batch).dtype.kind, "float")
    names = list(range(X.shape[1]))
    known = vectorizer.columns
    if known is not None and known != tuple(names):
        message = (
            f"batch: an array with columns 0 to {X.shape[1] - 1} does not fit the schema "
            f"{list(known)}; hand over a table with these columns, or an array of that width to a "
            "model that has only seen arrays"
        )
        raise SchemaError(message)
    check_matrix(X)
    vectorizer.align(names, len(X), learn=learn)
    return Batch(X, [kind] * X.shape[1])


def sliceable(batch: object) -> Any:
    """Return a batch in a form that has a length and slices of rows."""
    return as_table(batch) if _is_arrow(batch) else batch


def _is_arrow(batch: object) -> bool:
    return hasattr(batch, "__arrow_c_stream__") or hasattr(batch, "__arrow_c_array__")


def as_table(batch: Any) -> pa.Table:
    """Return anything with the Arrow C stream or array interface as an Arrow table."""
    if isinstance(batch, pa.RecordBatch):
        return pa.Table.from_batches([batch])
    if hasattr(batch, "__arrow_c_stream__"):
        return pa.table(batch)
    return pa.Table.from_batches([pa.record_batch(batch)])


def _from_arrow(table: Any, vectorizer: Vectorizer, *, learn: bool) -> Batch:
    for name, kind in zip(table.column_names, table.schema.types, strict=True):
        if not (_is_number(kind) or pa.types.is_null(kind)):
            message = (
                f"column {name!r}: expected numbers, got {kind}; drop or encode the column, "
                "and hand times over as t"
            )
            raise SchemaError(message)
    order = vectorizer.align(table.column_names, table.num_rows, learn=learn)
    X = np.full((table.num_rows, len(order)), np.nan)
    missing = np.ones(X.shape, dtype=np.bool_)
    for d, position in enumerate(order):
        if position >= 0:
            X[:, d], missing[:, d] = _column(table.column(int(position)))
    names = vectorizer.columns or tuple(sorted(table.column_names))
    check_matrix(X, names, missing=missing)
    types = [
        "bool" if position < 0 else _type(table.schema.field(int(position)).type)
        for position in order
    ]
    return Batch(X, types)


def _type(kind: Any) -> str:
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return "bool"
    return "int" if pa.types.is_integer(kind) else "float"


def _is_number(kind: Any) -> bool:
    tests = pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal
    return any(test(kind) for test in tests)


def _column(column: Any) -> tuple[FloatArray, NDArray[np.bool_]]:
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    if column.type != pa.float64():
        column = column.cast(pa.float64(), safe=False)
    if column.null_count == 0:
        return column.to_numpy(), np.zeros(len(column), dtype=np.bool_)
    return column.to_numpy(), np.asarray(column.is_null().to_numpy(), dtype=np.bool_)


def row_types(x: Mapping[Any, Any], columns: Sequence[Any]) -> list[str]:
    """Return as what the values of one row came, in the order of the columns."""
    return [_TYPES[_width(x.get(column))] for column in columns]


def _width(value: Any) -> int:
    if value is None or isinstance(value, bool | np.bool_):
        return 0
    return 1 if isinstance(value, int | np.integer) else 2


def widest(types: Sequence[str] | None, more: Sequence[str]) -> list[str]:
    """Return for each column the type that holds the values of both."""
    if types is None:
        return list(more)
    return [max(pair, key=_TYPES.index) for pair in zip(types, more, strict=True)]


def batch_times(t: object, n_rows: int) -> FloatArray:
    """Convert the times of a batch (numbers, time stamps, an Arrow array) to floats."""
    if isinstance(t, (pa.Array, pa.ChunkedArray)):
        if t.null_count:
            row = int(np.asarray(t.is_null().to_numpy(zero_copy_only=False)).argmax())
            message = f"row {row}, time: missing; every row needs a time"
            raise SchemaError(message, row=row)
        kind = t.type
        if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind) or _is_number(kind)):
            message = f"t: expected numbers or time stamps, got {kind}"
            raise SchemaError(message)
        t = t.to_numpy() if isinstance(t, pa.ChunkedArray) else t.to_numpy(zero_copy_only=False)
    return as_times(t, n_rows)
