"""Gather the batches of a source by size or time, and reconnect where the connection is lost.

After a lost connection the pauses between tries grow, and it is said once.
"""

import logging
import math
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from streamddcrp_connectors.run.joining import joined
from streamddcrp_connectors.run.sources import Offset, Source

FIRST, MOST = 0.1, 5.0  # seconds between two tries
Result = TypeVar("Result")
_LOG = logging.getLogger("streamddcrp")


class Stopped(KeyboardInterrupt):
    """The run was asked to end within an epoch, which is left out."""


class Patience:
    """Repeat what needs a server until it is there.

    ``asked_to_stop`` returns the signal by which the run was asked to end, or 0. ``waiting`` is
    called with what is waited for, and with None when that is over.
    """

    def __init__(
        self,
        asked_to_stop: Callable[[], int] = lambda: 0,
        waiting: Callable[[str | None], None] = lambda _: None,
    ) -> None:
        self._asked_to_stop, self._waiting = asked_to_stop, waiting
        self._since: float | None = None
        self._pause = FIRST

    def until_done(self, work: Callable[[], Result], where: str) -> Result:
        """Call until it raises no ConnectionError; return the result.

        Stopped: the run was asked to end while it waited.
        """
        while True:
            try:
                result = work()
            except ConnectionError as error:
                self.wait(where, error)
            else:
                self.arrived(where)
                return result

    def wait(self, where: str, error: ConnectionError) -> None:
        """Say once that a server is away, and pause before the next try."""
        if self._since is None:
            self._since = time.monotonic()
            _LOG.warning("%s is not available (%s); waiting. Ctrl-C ends the run", where, error)
            self._waiting(where)
        end = time.monotonic() + self._pause
        while (rest := end - time.monotonic()) > 0:
            if number := self._asked_to_stop():
                raise Stopped(number)
            time.sleep(min(rest, 0.05))
        self._pause = min(2 * self._pause, MOST)

    def arrived(self, where: str) -> None:
        """Say that the server is back, if it was away."""
        if self._since is not None:
            _LOG.warning("%s is back after %.1f s", where, time.monotonic() - self._since)
            self._since, self._pause = None, FIRST
            self._waiting(None)


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
