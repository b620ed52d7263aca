"""Convert Arrow tables, data frames and arrays to float matrices, with no Python per row."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy
from numpy.typing import NDArray

from streamddcrp.data.times import as_times
from streamddcrp.data.vectorizer import Vectorizer
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.typing import FloatArray

_NOT_A_ROW = "row {}: expected a dict of features, got a {}"
_TYPES = ("bool", "int", "float")  # each includes those before it


class Batch(NamedTuple):
    """Rows in the order of a schema."""

    X: FloatArray  # (N, D); NaN where a value is missing
    types: list[str]  # bool, int or float: each column's original type; bool if it is empty


def read_batch(batch: object, vectorizer: Vectorizer, *, learn: bool = True) -> Batch:
    """Convert a batch to floats in the schema's order; nulls and NaN are missing values.

    ``batch``: Arrow data (C stream or array interface), frames and lazy frames that narwhals reads,
    a dict of columns, a list of dicts, or an array_like (N, D), also masked or sparse, with columns
    0 .. D - 1. ``learn``: whether the schema may learn. SchemaError if a column is not numeric,
    occurs twice, or holds infinity.
    """
    rows = sliceable(batch)
    if isinstance(rows, pa.Table):
        return _from_arrow(rows, vectorizer, learn=learn)
    if isinstance(rows, pa.Array | pa.ChunkedArray) and hasattr(rows.type, "value_field"):
        with suppress(ValueError):  # rows of different lengths
            rows = np.stack(rows.to_numpy(zero_copy_only=False))
    if isinstance(rows, pa.Array | pa.ChunkedArray):
        raise SchemaError(
            f"batch: expected named columns, got one column of {rows.type}; make it a table of one "
            "column, series.to_frame()"
        )
    if _are_dicts(rows):
        return _from_dicts(rows, vectorizer, learn=learn)
    X = as_matrix(_unmasked(rows))
    kind = {"b": "bool", "i": "int", "u": "int"}.get(np.asarray(rows).dtype.kind, "float")
    names = list(range(X.shape[1]))
    known = vectorizer.columns
    if known is not None and known != tuple(names):
        raise SchemaError(
            f"batch: an array with columns 0 to {X.shape[1] - 1} does not fit the schema "
            f"{list(known)}; pass a table with these columns, or an array of that width to a "
            "model that has only seen arrays"
        )
    check_matrix(X)
    vectorizer.align(names, len(X), learn=learn)
    return Batch(X, [kind] * X.shape[1])


def _unmasked(X: object) -> object:
    if not isinstance(X, np.ma.MaskedArray) or X.dtype.kind not in "biuf":
        return X
    return np.where(np.ma.getmaskarray(X), np.nan, X.data)


def sliceable(batch: object, name: str = "batch") -> Any:
    """Return a batch with a length and row slices: a table, an array or a list."""
    rows = as_arrow(batch)
    if is_sparse(rows):
        return rows.toarray()
    has = hasattr(rows, "__len__") and hasattr(rows, "__getitem__")
    if not has or isinstance(rows, type) or getattr(rows, "ndim", 1) == 0:
        raise SchemaError(
            f"{name}: expected a table, or an array of shape (N, D), got {batch!r:.40}"
        )
    return rows


def is_sparse(x: Any) -> bool:
    """Return whether this is a sparse array of scipy, which takes long to import."""
    return hasattr(x, "toarray") and bool(scipy.sparse.issparse(x))


def as_arrow(batch: Any) -> Any:
    """Return frames and dicts of columns as tables, series as arrays, others unchanged."""
    if hasattr(batch, "dims") and hasattr(batch, "to_pandas"):  # xarray
        named = getattr(batch, "ndim", 1) == 1 or batch.dims[1] in batch.coords
        batch = batch.to_pandas() if named else batch.values
    if isinstance(batch, np.ndarray):
        if batch.dtype.names:
            return _of_columns({name: batch[name] for name in batch.dtype.names})
        return _native(batch)
    if isinstance(batch, pa.Table | pa.Array | pa.ChunkedArray | list | tuple | str):
        whole = pa.types.is_struct(getattr(batch, "type", None) or pa.null())
        return pa.Table.from_struct_array(batch) if whole else batch
    if isinstance(batch, Mapping):
        return _of_columns(batch)
    try:
        if hasattr(batch, "__arrow_c_stream__") or hasattr(batch, "__arrow_c_array__"):
            with suppress(OSError):  # a series of times or categories of polars before 1.34
                return _from_interface(batch)
        import narwhals.stable.v1 as nw  # noqa: PLC0415 -- slow, and rarely needed

        frame = nw.from_native(batch, pass_through=True, allow_series=True)
        if isinstance(frame, nw.LazyFrame):
            frame = frame.collect()
        return frame.to_arrow() if isinstance(frame, nw.DataFrame | nw.Series) else batch
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SchemaError(f"batch: Arrow cannot hold it: {error}") from None


def _native(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array in native byte order; an object matrix of numbers as numbers."""
    if array.dtype.kind == "O" and array.ndim == 2:
        with suppress(ValueError):
            cells = [[np.nan if cell is None else cell for cell in row] for row in array.tolist()]
            plain = np.array(cells)
            if plain.shape == array.shape and plain.dtype.kind in "fiub":
                return plain
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _from_interface(batch: Any) -> Any:
    stream = hasattr(batch, "__arrow_c_stream__")
    if hasattr(batch, "index") and hasattr(batch, "columns"):  # whatever its index holds
        return pa.Table.from_pandas(batch, preserve_index=False).replace_schema_metadata(None)
    if getattr(batch, "ndim", 2) == 2:
        with suppress(pa.ArrowInvalid):  # a series is not a table
            return pa.table((pa.table if stream else pa.record_batch)(batch))
    return pa.chunked_array(batch) if stream else pa.array(batch)


def named_columns(batch: object) -> pa.Table | None:
    """Return a batch with named columns as a table, or None for an array."""
    rows = sliceable(batch)
    if isinstance(rows, pa.Table):
        return rows
    if not _are_dicts(rows):
        return None
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise SchemaError(_NOT_A_ROW.format(i, type(row).__name__), row=i)
    names = dict.fromkeys(name for row in rows for name in row)
    return _of_columns({name: [row.get(name) for row in rows] for name in names})


def _of_columns(columns: Mapping[Any, Any]) -> Any:
    try:
        return pa.table({str(name): _column_of(column) for name, column in columns.items()})
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaError(
            f"batch: a dict has to hold columns of equal length ({error}); "
            "pass a single row to learn_one"
        ) from None


def _column_of(values: Any) -> Any:
    if isinstance(values, str | bytes):
        raise TypeError(f"got {values!r:.40}")
    return as_arrow(values)


def _are_dicts(rows: object) -> bool:
    return isinstance(rows, list | tuple) and bool(rows) and isinstance(rows[0], Mapping)


def _from_dicts(rows: Sequence[Any], vectorizer: Vectorizer, *, learn: bool) -> Batch:
    """Read rows as if one by one: the first fixes the schema if there is none."""
    if vectorizer.columns is None and not learn:
        vectorizer = Vectorizer()
    read, types = [], None
    for i, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise SchemaError(_NOT_A_ROW.format(i, type(row).__name__), row=i)
        try:
            read.append(vectorizer.transform(row, learn=learn or vectorizer.columns is None))
        except SchemaError as error:
            raise SchemaError(f"row {i}, {error}", row=i) from None
        types = widest(types, row_types(row, vectorizer.columns or ()))
    return Batch(np.stack(read), types or [])


def _refuse_words(table: Any) -> None:
    for name, kind in zip(table.column_names, table.schema.types, strict=True):
        if not (_is_number(kind) or pa.types.is_null(kind)):
            raise SchemaError(
                f"column {name!r}: expected numbers, got {kind}; drop or encode the column, "
                "and pass times as t"
            )


def _from_arrow(table: Any, vectorizer: Vectorizer, *, learn: bool) -> Batch:
    _refuse_words(table)
    order = vectorizer.align(table.column_names, table.num_rows, learn=learn)
    X = np.full((table.num_rows, len(order)), np.nan)
    for d, position in enumerate(order):
        if position >= 0:
            X[:, d] = _column(table.column(int(position)))
    check_matrix(X, vectorizer.columns or tuple(sorted(table.column_names)))
    types = [
        "bool" if position < 0 else _type(table.schema.field(int(position)).type)
        for position in order
    ]
    return Batch(X, types)


def _type(kind: Any) -> str:
    if pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return "bool"
    return "int" if pa.types.is_integer(kind) else "float"


def first_null(column: Any) -> int:
    """Return the first empty row of an Arrow column."""
    return int(np.asarray(column.is_null().to_numpy(zero_copy_only=False)).argmax())


def _is_number(kind: Any) -> bool:
    tests = pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal
    return any(test(kind) for test in tests)


def _column(column: Any) -> FloatArray:
    """Return a column as floats, NaN for null."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    if column.type != pa.float64():
        column = column.cast(pa.float64(), safe=False)
    return np.asarray(column.to_numpy())


def row_types(x: Mapping[Any, Any], columns: Sequence[Any]) -> list[str]:
    """Return the types of one row's values, in column order."""
    return [_TYPES[_width(x.get(column))] for column in columns]


def _width(value: Any) -> int:
    if value is None or isinstance(value, bool | np.bool_):
        return 0
    return 1 if isinstance(value, int | np.integer) else 2


def widest(types: Sequence[str] | None, more: Sequence[str]) -> list[str]:
    """Return for each column the smallest type that holds both."""
    if types is None:
        return list(more)
    return [max(pair, key=_TYPES.index) for pair in zip(types, more, strict=True)]


def batch_times(t: object, n_rows: int) -> FloatArray:
    """Convert the times of a batch (numbers, time stamps, an Arrow array) to floats."""
    t = as_arrow(t)
    if isinstance(t, (pa.Array, pa.ChunkedArray)):
        if t.null_count:
            row = first_null(t)
            raise SchemaError(f"row {row}, time: missing; every row needs a time", row=row)
        kind = t.type
        if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind) or _is_number(kind)):
            raise SchemaError(
                f"t: expected numbers or time stamps, got {kind}; convert text first, for instance "
                "with pandas.to_datetime"
            )
        t = t.to_numpy() if isinstance(t, pa.ChunkedArray) else t.to_numpy(zero_copy_only=False)
    return as_times(t, n_rows)


def as_matrix(values: object) -> FloatArray:
    """Return rows (N, D) as a contiguous matrix of floats, without a copy if they are one.

    SchemaError unless they have two dimensions and are numbers or truth values.
    """
    try:
        X = np.asarray(values)
    except ValueError as error:
        raise SchemaError(f"batch: expected rows of equal length ({error})") from None
    if X.dtype.kind not in "fiub":
        raise SchemaError(
            f"batch: expected numbers, got an array of type {X.dtype}; convert text and objects "
            f"first, or pass a table with named columns"
        )
    if X.ndim != 2:
        msg = f"batch: expected two dimensions (rows, features), got shape {X.shape}"
        if X.ndim == 1:
            msg += "; a single row is values.reshape(1, -1), a single feature values.reshape(-1, 1)"
        raise SchemaError(msg)
    return np.require(X, np.float64, ["C", "A", "W"])  # kernels are compiled for such arrays


def check_matrix(
    X: FloatArray, columns: Sequence[str | int] | None = None, *, complete: bool = False
) -> None:
    """Refuse infinity in rows (N, D), with ``complete`` also NaN: SchemaError, with ``row``.

    ``columns`` are names for the message, by default numbers.
    """
    wrong = ~np.isfinite(X) if complete else np.isinf(X)
    if not wrong.any():
        return
    i, d = (int(index) for index in np.unravel_index(int(wrong.argmax()), wrong.shape))
    name = d if columns is None else columns[d]
    way_out = "leave the row out" if complete else "drop or clip what has overflowed"
    raise SchemaError(f"row {i}, column {name!r}: {X[i, d]} is not finite; {way_out}", row=i)


def as_observations(X: object) -> FloatArray:
    """Return the rows (N, D) of a whole data set, an array or a table, its columns in order.

    Masked, null and NaN values are missing. ConfigError if there are no rows, SchemaError for an
    infinite value.
    """
    table = named_columns(X)
    if table is None:
        rows = as_matrix(_unmasked(sliceable(X)))
    else:
        _refuse_words(table)
        columns = [_column(column) for column in table.columns]
        rows = np.column_stack(columns) if columns else np.empty((table.num_rows, 0))
    check_matrix(rows, None if table is None else table.column_names)
    if len(rows) == 0:
        raise ConfigError("X has no rows; at least one observation is needed")
    return rows
