"""Read back what sinks wrote: tables, and the events of a run."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa

from streamddcrp.contract import KINDS, Event
from streamddcrp.errors import ConfigError, SchemaError

_COLUMNS = ("index", "kind", "label", "into")


def read_written(path: Path, columns: list[str] | None = None) -> Any:
    """Read a Parquet, JSON lines or Arrow file whole, as a table."""
    if path.suffix in (".parquet", ".pq"):
        from pyarrow import parquet  # noqa: PLC0415 -- heavy

        return parquet.read_table(path, columns=columns)
    if path.suffix in (".arrow", ".feather", ".ipc"):
        with pa.memory_map(os.fspath(path)) as source:
            return pa.ipc.open_file(source).read_all()
    from pyarrow import json  # noqa: PLC0415

    return json.read_json(path) if path.stat().st_size else pa.table({})


def read_events(
    path: str | os.PathLike[str], key: str | None, n_rows: int
) -> tuple[tuple[Event, str | None], ...]:
    """Read what ``run --events`` wrote, of one key, each event with its reasons in words.

    Candidates, which may dissolve, are left out. The results have ``n_rows`` rows of that key;
    events of other results are refused.
    """
    name = os.fspath(path)
    try:
        table = read_written(Path(path))
    except (OSError, pa.ArrowInvalid) as error:
        raise ConfigError(f"cannot read the events {name}: {error}") from error
    if not len(table):
        return ()
    missing = [column for column in _COLUMNS if column not in table.column_names]
    if missing:
        message = f"{name} is not what `run --events` writes: it has no column {missing[0]!r}"
        raise ConfigError(message)
    of_keys = "key" in table.column_names
    found = []
    for row, cells in enumerate(table.to_pylist()):
        if of_keys and str(cells["key"]) != key:
            continue
        kind, label, index, into = (cells[column] for column in ("kind", "label", "index", "into"))
        whole = isinstance(index, int) and isinstance(label, int) and isinstance(into, int | None)
        if not whole or kind not in (*KINDS, "candidate", "closed") or not 0 <= index < n_rows:
            message = f"{name}: row {row} is not an event of these results of {n_rows:,} rows"
            raise SchemaError(message, row=row)
        if kind != "candidate":
            found.append((Event(kind, label, index, float(index), into), cells.get("why")))
    return tuple(found)
