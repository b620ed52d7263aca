"""The outputs of a run: results, events, alarms, refused rows."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from streamddcrp.errors import CheckpointError, ConfigError
from streamddcrp_connectors.run.columns import Refusal
from streamddcrp_connectors.run.deadletters import DeadLetters
from streamddcrp_connectors.run.lock import Lock
from streamddcrp_connectors.run.retries import Patience
from streamddcrp_connectors.run.sinks import Sink
from streamddcrp_connectors.run.sources import Source

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

    def identities(self) -> dict[str, str]:
        return {name: sink.identity for name, sink in self.sinks.items()}

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
