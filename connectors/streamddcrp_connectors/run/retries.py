"""Waiting for a server: try again with growing pauses, and say so once."""

import logging
import time
from collections.abc import Callable
from typing import TypeVar

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
