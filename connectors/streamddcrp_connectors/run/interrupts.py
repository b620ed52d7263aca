"""Ctrl-C and SIGTERM between epochs, never within one."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self


class Interrupts:
    """Raise KeyboardInterrupt on SIGINT and SIGTERM, but not inside `held`.

    A signal that comes inside is raised at the end of the block; a second one at once. Does nothing
    outside the main thread.
    """

    def __init__(self) -> None:
        self._held = False
        self._waiting = False
        self._before: dict[int, object] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    @property
    def waiting(self) -> bool:
        """Whether a signal came inside `held`."""
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
            self._waiting = False
            raise KeyboardInterrupt

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._held and not self._waiting:
            self._waiting = True
        else:
            raise KeyboardInterrupt
