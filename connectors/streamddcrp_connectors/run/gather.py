"""Gather the batches of a source by size or time, and reconnect where the connection is lost."""

import math
import time
from collections.abc import Iterator
from typing import Any

from streamddcrp_connectors.run.joining import joined
from streamddcrp_connectors.run.retries import Patience
from streamddcrp_connectors.run.sources import Offset, Source

POLL = 0.05  # seconds after which a live source says that nothing came


def gathered(
    source: Source,
    offset: Offset | None,
    patience: Patience,
    batch_rows: int,
    batch_wait: float,
    idle: float | None = None,
) -> Iterator[tuple[Any, Offset]]:
    """Yield the batches of a source after ``offset``.

    Those of a live source are joined until they have ``batch_rows`` rows or the first has waited
    ``batch_wait`` seconds; a batch of None says that nothing came, and with another offset than the
    one before, that this is to be recorded before any row after it. They end after ``idle`` seconds
    without a row.
    """
    if not getattr(source, "live", False):
        yield from _connected(source, offset, patience)
        return
    held: list[Any] = []
    n_held, first = 0, 0.0
    at, since = offset, time.monotonic()
    for batch, then in _connected(source, offset, patience):
        moved, at = then != at, then
        if batch is not None and batch.num_rows:
            since = time.monotonic()
            if not held:
                first = time.monotonic()
            held.append(batch)
            n_held += batch.num_rows
        elif not held:
            yield None, at
            if idle is not None and time.monotonic() - since > idle:
                return
            continue
        elif moved:
            first = -math.inf
        if n_held >= batch_rows or time.monotonic() - first >= batch_wait:
            yield joined(held), at
            held, n_held = [], 0
    if held and at is not None:
        yield joined(held), at


def _connected(
    source: Source, offset: Offset | None, patience: Patience
) -> Iterator[tuple[Any, Offset]]:
    """Read on after the last offset whenever the connection is lost."""
    while True:
        try:
            for batch, at in source.read_after(offset):
                patience.arrived(source.name)
                offset = at
                yield batch, at
        except ConnectionError as error:
            patience.wait(source.name, error)
        else:
            return
