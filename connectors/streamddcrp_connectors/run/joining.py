"""Join canonical batches of the same columns into one."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def joined(batches: Sequence[Any]) -> Any:
    """Join canonical batches of the same columns, each as flags, whole numbers or floats."""
    if len(batches) == 1:
        return batches[0]
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    for place, kinds in enumerate(zip(*(t.schema.types for t in tables), strict=False)):
        if {*kinds} - {pa.bool_(), pa.null()}:  # flags become zeros and ones, which Arrow can widen
            name = tables[0].field(place).name
            tables = [
                table.set_column(place, name, pc.cast(table.column(place), pa.int8()))
                if pa.types.is_boolean(table.schema.types[place])
                else table
                for table in tables
            ]
    table = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
    made = table.to_batches()
    return made[0] if made else batches[0]
