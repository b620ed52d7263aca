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

    @property
    def unordered(self) -> bool:
        return self.found is not None and self.found.unordered


def look(schema: Any, batches: Callable[[], Iterator[Any]], columns: Columns, where: str) -> Typed:
    """Choose the columns that were not named, by the first rows."""
    columns = columns.check(schema.names, where)
    try:
        first = next(iter(batches()), None)
        if first is not None:
            first.validate(full=True)
        texts = [] if first is None else [_as_text(column) for column in first.columns]
    except (pa.ArrowException, OSError) as error:
        raise SchemaError(f"{where} is damaged after row 0: {error}") from error
    dialect = Dialect(missing=columns.reading.missing or ())
    if first is None or not first.num_rows:
        columns = columns.resolve(schema.names, where)
        _check_types(schema, columns, where)
        return Typed(columns, Cells(dialect, typed=True))
    table = pa.record_batch(texts, names=schema.names)
    key = columns.key
    columns, found = chosen(columns, table, dialect, where)
    _check_types(schema, columns, where)
    said = said_of(table, found, columns.reading.clock, key)
    kind = found.kind if len(columns.times) > 1 else None
    return Typed(columns, Cells(dialect, found.habits, typed=True), kind, found, said)


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
    names = list(columns.raw)
    none = pa.record_batch([pa.nulls(0, schema.field(name).type) for name in names], names=names)
    try:
        canonical(none, columns, None, cells=Cells())
    except SchemaError as error:
        raise SchemaError(f"{where}: {error}") from error
