"""Delay Ctrl-C while a model learns, until the model is consistent.

Learning changes many arrays and a few counters. An exception from a signal handler between two
changes would leave a state that no prefix of the stream produces. Signal handlers written in Python
therefore wait while a public method learns. They run at the next `pause`, between two blocks of
rows, when everything learned has been noted, or when the method ends. Outside the main thread
Python runs no handlers, so nothing is done.
"""

import signal
import threading
from importlib import import_module
from types import FrameType
from typing import Any

# CPython's own functions under `signal`: its wrappers, which turn numbers into names, take 20 times
# as long, which would show for single rows.
_plain: Any = import_module("_signal" if signal.signal.__module__ == "signal" else "signal")
_set, _get = _plain.signal, _plain.getsignal
_CAUGHT = tuple(
    int(getattr(signal, name))
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGBREAK")
    if hasattr(signal, name)
)


def _elsewhere() -> bool:
    return threading.get_ident() != threading.main_thread().ident


class _Delay:
    """Handlers that wait while the main thread is inside a block."""

    def __init__(self) -> None:
        self._depth = 0
        self._handlers: dict[int, Any] = {}
        self._waiting: list[tuple[int, FrameType | None]] = []

    def __enter__(self) -> None:
        if _elsewhere():
            return
        self._depth += 1
        if self._depth == 1:
            try:
                for number in _CAUGHT:
                    handler = _get(number)
                    if callable(handler):
                        self._handlers[number] = handler
                        _set(number, self._note)
            except BaseException:  # from a handler not yet replaced
                self.__exit__()
                raise

    def __exit__(self, *_: object) -> None:
        if _elsewhere():
            return
        self._depth -= 1
        if self._depth == 0:
            handlers = dict(self._handlers)
            self._restore()
            self._run(handlers)

    def _restore(self) -> None:
        """Restore all handlers, even if one is called and raises."""
        if self._handlers:
            number, handler = self._handlers.popitem()
            try:
                _set(number, handler)
            finally:
                self._restore()

    def pause(self) -> None:
        """Run waiting handlers, unless nested in another model's learning."""
        if self._waiting and self._depth == 1 and not _elsewhere():
            self._run(self._handlers)

    def _run(self, handlers: dict[int, Any]) -> None:
        while self._waiting:
            number, frame = self._waiting.pop(0)
            handlers[number](number, frame)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._waiting.append((number, frame))


undisturbed = _Delay()
pause = undisturbed.pause
