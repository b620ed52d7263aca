"""What the first rows of typed columns (Parquet, Arrow) show."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from streamddcrp.errors import SchemaError
from streamddcrp_connectors.looking.cells import Cells
from streamddcrp_connectors.looking.dialect import Dialect
from streamddcrp_connectors.looking.survey import Survey, said_of
from streamddcrp_connectors.run.columns import Columns, TimeKind, canonical, chosen


class Typed(NamedTuple):
    """How typed columns are read."""

    columns: Columns
    cells: Cells  # reads columns of text
    kind: TimeKind | None = None  # of the time, where it is in several columns
    found: Survey | None = None  # None: there were no rows
    understood: list[str] = []  # noqa: RUF012 -- never changed


def look(schema: Any, batches: Callable[[], Iterator[Any]], columns: Columns, where: str) -> Typed:
    """Choose the columns that were not named, by the first rows."""
    try:
        schema = flat(_none_of(schema)).schema
        names = schema.names
    except UnicodeDecodeError as error:
        raise SchemaError(f"{where} is damaged: a column's name is no text: {error}") from error
    columns = columns.check(names, where)
    try:
        first = next(iter(batches()), None)
        if first is not None:
            first.validate(full=True)
            first = flat(first)
        texts = [] if first is None else [_as_text(column) for column in first.columns]
    except (pa.ArrowException, OSError) as error:
        raise SchemaError(f"{where} is damaged after row 0: {error}") from error
    dialect = Dialect(missing=columns.reading.missing or ())
    if first is None or not first.num_rows:
        columns = columns.resolve(names, where)
        _check_types(schema, columns, where)
        return Typed(columns, Cells(dialect, typed=True))
    table = pa.record_batch(texts, names=names)
    key = columns.key
    columns, found = chosen(columns, table, dialect, where)
    _check_types(schema, columns, where)
    said = said_of(table, found, columns.reading.clock, key)
    kind = found.kind if len(columns.times) > 1 else None
    return Typed(columns, Cells(dialect, found.habits, typed=True), kind, found, said)


def flat(batch: Any) -> Any:
    """Return a batch with the fields of structs as columns, by names with dots."""
    while any(pa.types.is_struct(field.type) for field in batch.schema):
        columns: dict[str, Any] = {}
        for field, column in zip(batch.schema, batch.columns, strict=True):
            if pa.types.is_struct(field.type):
                names = (f"{field.name}.{part.name}" for part in field.type)
                columns |= dict(zip(names, column.flatten(), strict=True))
            else:
                columns[field.name] = column
        batch = pa.record_batch([*columns.values()], names=[*columns])
    return batch


def _none_of(schema: Any) -> Any:
    return pa.record_batch([pa.nulls(0, field.type) for field in schema], schema=schema)


def _as_text(column: Any) -> Any:
    """Return a column as text; lists and the like become words."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    try:
        return pc.cast(column, pa.string())
    except pa.ArrowException:
        lost = column.is_null().to_numpy(zero_copy_only=False)
        return pa.array(np.full(len(column), "a list"), pa.string(), mask=lost)


def _check_types(schema: Any, columns: Columns, where: str) -> None:
    """Refuse columns of an unusable type before any row is read."""
    try:
        canonical(_none_of(schema).select(list(columns.raw)), columns, None, cells=Cells())
    except SchemaError as error:
        raise SchemaError(f"{where}: {error}") from error
