"""The outputs of a run: results, events, alarms, refused rows."""

import contextlib
import json
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from streamddcrp.errors import CheckpointError, ConfigError
from streamddcrp_connectors.run.columns import Refusal
from streamddcrp_connectors.run.gather import Patience
from streamddcrp_connectors.run.log import Log
from streamddcrp_connectors.run.sinks import Sink
from streamddcrp_connectors.run.sources import Source

try:
    import fcntl
except ImportError:  # not on Windows, where an open file is locked anyway
    fcntl = None  # type: ignore[assignment]

_PATIENCE = 0.5  # seconds: a run that was just killed may still be ending


class Lock:
    """Hold a file ``.NAME.lock`` beside an output until `release`, or the end of the process.

    Another run that holds it is a ConfigError.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._path = path.with_name(f".{path.name}.lock")
        self._file: BinaryIO | None = None
        if fcntl is None:
            return
        end = time.monotonic() + _PATIENCE
        while self._file is None:
            try:
                self._file = self._taken()
            except OSError as error:
                if not isinstance(error, BlockingIOError):
                    raise ConfigError(f"cannot write {name}: {error.strerror or error}") from error
                if time.monotonic() > end:
                    raise ConfigError(
                        f"{name} is being written by another run, {self._holder()}: end that run "
                        "first, or choose another file"
                    ) from None
                time.sleep(0.02)

    def release(self) -> None:
        if self._file is not None:
            with contextlib.suppress(FileNotFoundError):
                self._path.unlink()
            self._file.close()
            self._file = None

    def _taken(self) -> BinaryIO | None:
        """Open and lock the file; None if its holder removed it meanwhile."""
        file = self._path.open("a+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not self._path.exists() or not os.path.samestat(
                os.fstat(file.fileno()), self._path.stat()
            ):
                file.close()
                return None
            file.truncate(0)
            file.write(f"process {os.getpid()}".encode())
            file.flush()
        except BaseException:
            file.close()
            raise
        return file

    def _holder(self) -> str:
        try:
            return self._path.read_text(encoding="utf-8", errors="replace")[:40] or "just begun"
        except OSError:
            return "just ended"


NAME = "refused.jsonl"  # in the folder of a checkpoint
_SAID = 20  # rows that are logged
_LOG = logging.getLogger("streamddcrp.run")


class DeadLetters:
    """Write refused rows to a file as ``{"row", "reason", "values"}``, and count them.

    The file is cut back with the checkpoint like a file sink, so each refused row is in it once.

    Without a file the first of them are logged with their values; also with ``say``: nobody asked
    for the file.
    """

    def __init__(self, path: str | Path | None, *, say: bool = False) -> None:
        self.name = "the log" if path is None else str(path)
        self.identity = "" if path is None else os.path.realpath(path)
        self._log = None if path is None else Log(Path(path))
        self._said = 0 if say or path is None else _SAID

    def rewind(self, position: Any) -> None:
        if self._log is not None:
            self._log.rewind(position)

    def sync(self) -> Any:
        return None if self._log is None else self._log.sync()

    def close(self) -> None:
        if self._log is not None:
            self._log.close()

    def write(self, refused: Mapping[int, Refusal]) -> None:
        """Take refused rows, in the order of their numbers."""
        rows = sorted(refused)
        for row in rows[: max(_SAID - self._said, 0)]:
            more = "; no more of them are shown" if self._said == _SAID - 1 else ""
            values = json.dumps(refused[row].values) if self._log is None else self.name
            _LOG.warning("set aside row %d: %s (%s)%s", row, refused[row].reason, values, more)
            self._said += 1
        if self._log is not None:
            lines = [
                json.dumps(
                    {"row": row, "reason": refused[row].reason, "values": refused[row].values}
                )
                for row in rows
            ]
            self._log.append("".join(line + "\n" for line in lines).encode())


Cursor = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Outputs:
    """Sinks that are placed, synced and ended together."""

    sink: Sink
    events: Sink | None
    dead_letters: DeadLetters | None
    alarms: Sink | None = None
    _locks: list[Lock] = field(default_factory=list)

    @property
    def sinks(self) -> dict[str, Sink]:
        """The sinks there are, under their names in a cursor."""
        named = {"sink": self.sink, "events": self.events, "alarms": self.alarms}
        return {name: sink for name, sink in named.items() if sink is not None}

    @property
    def _all(self) -> dict[str, Sink | DeadLetters]:
        return self.sinks | ({} if self.dead_letters is None else {"dead": self.dead_letters})

    @property
    def live(self) -> bool:
        """Whether one of them sends only when it is synced."""
        return any(getattr(sink, "live", False) for sink in self.sinks.values())

    @property
    def waiting(self) -> bool:
        """Whether one of them has to be synced again, though nothing came."""
        return any(getattr(sink, "waiting", False) for sink in self.sinks.values())

    @property
    def undelivered(self) -> int:
        """Messages that nobody took so far."""
        return sum(getattr(sink, "undelivered", 0) for sink in self.sinks.values())

    def check_distinct(self, source: Source) -> None:
        """Refuse to write over what is read, or twice to one file."""
        words = {"events": "file of events", "alarms": "file of alarms"}
        paths = {"source": source.identity().get("path")}
        paths |= {words.get(name, name): sink.identity for name, sink in self.sinks.items()}
        if self.dead_letters is not None and self.dead_letters.identity:
            paths["file of refused rows"] = self.dead_letters.identity
        for what, path in paths.items():
            for other, same in paths.items():
                if what < other and path == same and not str(path).startswith("http"):
                    message = f"{path} is both the {what} and the {other}; choose different files"
                    raise ConfigError(message)

    def rewind(self, cursor: Cursor, patience: Patience, *, overwrite: bool = False) -> None:
        """Stand where a cursor says, alone.

        Refused: another run writes to one of the files; or one holds something that no checkpoint
        recorded, unless ``overwrite``.
        """
        for name, output in self._all.items():
            if output.identity.startswith(os.sep):
                self._locks.append(Lock(Path(output.identity), output.name))
                if cursor.get(name) is None and not overwrite:
                    _refuse_to_overwrite(output)
        for name, sink in self.sinks.items():
            patience.until_done(partial(sink.rewind, cursor.get(name)), sink.name)
        if self.dead_letters is None:
            return
        name, length = cursor["dead"] or (self.dead_letters.identity, None)
        if name != self.dead_letters.identity:
            kept = self.dead_letters.name
            raise CheckpointError(f"the checkpoint keeps its refused rows in {name}, not in {kept}")
        self.dead_letters.rewind(length)

    def sync(self, patience: Patience) -> Cursor:
        """Force what was written to the disk, or to its server; return the positions."""
        found: Cursor = {
            name: patience.until_done(sink.sync, sink.name) for name, sink in self.sinks.items()
        }
        if self.dead_letters is not None:
            found["dead"] = [self.dead_letters.identity, self.dead_letters.sync()]
        return found

    def write(self, results: Any, events: Any, alarms: Any, refused: Mapping[int, Refusal]) -> None:
        """Write what came of a batch; results, events and alarms may be None."""
        if results is not None:
            self.sink.write(results)
        if self.events is not None and events is not None:
            self.events.write(events)
        if self.alarms is not None and alarms is not None:
            self.alarms.write(alarms)
        if self.dead_letters is not None:
            self.dead_letters.write(refused)

    def finish(self) -> None:
        for sink in self.sinks.values():
            sink.finish()

    @contextmanager
    def closing(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            for sink in self.sinks.values():
                sink.abandon()
            raise
        finally:
            if self.dead_letters is not None:
                self.dead_letters.close()
            for lock in self._locks:
                lock.release()


def _refuse_to_overwrite(output: Sink | DeadLetters) -> None:
    path = Path(output.identity)
    size = path.stat().st_size if path.is_file() else 0
    if size:
        raise ConfigError(
            f"{output.name} holds {size:,} bytes already, with no checkpoint to go on from: name "
            "another file, or give --overwrite if they may be deleted"
        )
