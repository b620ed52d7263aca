"""What ``streamddcrp run --check`` does: read ten rows, say what a run would do, write nothing."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.run.job import describe, find_cursor
from streamddcrp_connectors.run.loop import STORE_NAME, numbered, open_store
from streamddcrp_connectors.run.models import Recipe
from streamddcrp_connectors.run.outputs import Outputs
from streamddcrp_connectors.run.plugins import SOURCES, find
from streamddcrp_connectors.run.sources import Source

ROWS = 10
_PATIENCE = 5.0  # seconds for rows of a live source
_CONNECTING = 3.0  # seconds


def refuse_once(spec: str) -> None:
    """Refuse a source that gives each message only once: nobody may read of it but the run."""
    scheme, found, _ = spec.partition("://")
    if found and getattr(find(SOURCES, scheme), "gives_once", False):
        message = f"{scheme} gives each message only once: --check cannot read ten rows of it"
        raise ConfigError(message)


def check(source: Source, recipe: Recipe, outputs: Outputs, folder: Path | None) -> Iterator[str]:
    """Yield, line by line, what a run would do; raise where it would be refused.

    Servers of outputs are connected to, without a login.
    """
    recipe.make()
    outputs.check_distinct(source)
    job = describe(source, recipe, outputs)
    columns = source.columns
    used = {"time": columns.time, "key": columns.key, "features": ", ".join(columns.features or ())}
    yield f"source: {source.name}"
    yield f"columns: {'; '.join(f'{name} {value}' for name, value in used.items() if value)}"
    yield from _rows(source, stop=outputs.dead_letters is None)
    options = "".join(
        f", {name} {value}" for name, value in job["model"].get("options", {}).items()
    )
    yield f"model: {job['model'].get('class')}{options}"
    for name, sink in outputs.sinks.items():
        _reach(sink)
        yield f"{name}: {sink.name}"
    if folder is not None and (folder / STORE_NAME).exists():
        with open_store(folder) as store:
            row = find_cursor(store, job)["rows"]
        yield f"checkpoint: {folder}, goes on at row {row:,}"
    else:
        yield f"checkpoint: {'none' if folder is None else f'{folder}, a new job'}"


def _rows(source: Source, *, stop: bool) -> Iterator[str]:
    """Read the first rows, and say how many can be used; ``stop``: a run ends at the first bad."""
    n_rows, first, refused = 0, None, []
    end = time.monotonic() + _PATIENCE
    for batch, offset in source.read_after(None):
        if batch is not None:
            rows, bad = numbered(source, batch, offset)
            n_rows += batch.num_rows
            refused += [f"row {row}: {bad[row].reason}" for row in sorted(bad)]
            first = rows.values(0) if first is None and len(rows) else first
        if n_rows >= ROWS or time.monotonic() > end:
            break
    if refused and (stop or len(refused) == n_rows):
        raise SchemaError(f"{source.name}: {refused[0]}")
    yield f"rows read: {n_rows}, refused: {len(refused)}"
    yield from refused[:ROWS]
    if first is not None:
        yield f"first row: {', '.join(f'{name} {value}' for name, value in first.items())}"


def _reach(sink: Any) -> None:
    """Connect to a sink's servers."""
    problem = None
    for at in getattr(sink, "hosts", ()):
        try:
            socket.create_connection(at, _CONNECTING).close()
        except OSError as error:
            problem = error
        else:
            return
    if problem is not None:
        raise ConfigError(f"{sink.name} cannot be reached: {problem}")
