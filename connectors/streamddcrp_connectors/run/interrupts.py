"""Let Ctrl-C, SIGTERM and SIGHUP take effect between epochs, never within one."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self

LIMIT = 4.0  # seconds after SIGTERM


class Interrupts:
    """Raise KeyboardInterrupt, with the signal, on SIGINT and SIGTERM, but not inside `held`.

    A signal that comes inside is raised at the end of the block; a second one at once. SIGHUP, at
    which daemons read their files again, sets ``reload``. Does nothing outside the main thread.

    ``safe``: there is a checkpoint, so `LIMIT` seconds after SIGTERM the process ends with status
    0, whatever it is doing; the next start goes on where the last commit was.
    """

    def __init__(self, *, safe: bool = False) -> None:
        self.reload = False  # asked for, and not done yet
        self._safe = safe
        self._held = False
        self._waiting = 0
        self._before: dict[int, object] = {}
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for name in ("SIGINT", "SIGTERM", "SIGHUP"):
                if (number := getattr(signal, name, None)) is not None:
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    @property
    def waiting(self) -> int:
        """The signal that came inside `held`, or 0."""
        return self._waiting

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let a signal wait until the end of the block."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._waiting:
            number, self._waiting = self._waiting, 0
            raise KeyboardInterrupt(number)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == getattr(signal, "SIGHUP", None):
            self.reload = True
            return
        if number == signal.SIGTERM and self._safe and self._timer is None:
            self._timer = threading.Timer(LIMIT, os._exit, (0,))
            self._timer.daemon = True
            self._timer.start()
        if self._held and not self._waiting:
            self._waiting = number
        else:
            raise KeyboardInterrupt(number)
