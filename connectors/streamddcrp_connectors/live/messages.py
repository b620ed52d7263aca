"""Live sources of messages, of messages that come only once, and of tables.

A source for another server subclasses `MessageSource` or `TableSource`, and defines how to read
after a place.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.live.journal import Journal
from streamddcrp_connectors.live.payloads import Payloads
from streamddcrp_connectors.run.address import Address
from streamddcrp_connectors.run.columns import Columns, TimeKind, canonical
from streamddcrp_connectors.run.gather import POLL
from streamddcrp_connectors.run.sources import Offset

JOURNAL = ("journal", "journal_mb")  # options of addresses with a journal
LEAST_MB = 16
_TAKEN = 1 << 24  # bytes of messages that are decoded at once


class LiveSource(ABC):
    """Rows of a server, whose columns must be named; the offset is ``{"row", "kind", "at"}``."""

    replayable: ClassVar[bool] = True
    live: ClassVar[bool] = True
    n_rows: int | None = None

    def __init__(self, name: str, columns: Columns, batch_rows: int) -> None:
        if columns.features is None:
            raise ConfigError(f"{name} has no header: name its columns, --features a,b or --text a")
        self.name, self.columns, self._batch_rows = name, columns, batch_rows

    def identity(self) -> dict[str, Any]:
        return {"path": self.name, "format": self.name.partition(":")[0]}

    def read_after(self, offset: Offset | None) -> Iterator[tuple[Any, Offset]]:
        """Yield the batches after ``offset``, each with its own offset; None if nothing came."""
        row, kind, at = 0, None, None
        if offset is not None:
            row, kind, at = offset["row"], offset["kind"], offset["at"]
        for found, then in self.after(at):
            batch = None
            if found:
                batch, kind = self._decoded(found, kind)
                row += batch.num_rows
            yield (batch or None), {"row": row, "kind": kind, "at": then}

    @abstractmethod
    def after(self, at: Any) -> Iterator[tuple[Any, Any]]:
        """Connect, and yield the data after a place together with the next place.

        Parameters
        ----------
        at : JSON value
            A place yielded before, or None for where the address says that a job begins.

        Yields
        ------
        found : sequence of bytes, or pyarrow.RecordBatch
            At most ``_most`` messages, or ``_batch_rows`` rows, as soon as there are any. No
            messages, or None, if `POLL` seconds brought nothing.

        Raises
        ------
        ConnectionError, ConfigError
            The server is unavailable and the runner retries, or it refuses.
        """

    @abstractmethod
    def _decoded(self, found: Any, kind: TimeKind | None) -> tuple[Any, TimeKind | None]:
        """Return a canonical batch, and the kind of its times."""

    @abstractmethod
    def close(self) -> None:
        """Disconnect."""


class MessageSource(LiveSource):
    """Messages of JSON or Arrow; ``_most`` of them have about ``batch_rows`` rows."""

    def __init__(self, address: Address, columns: Columns, batch_rows: int) -> None:
        super().__init__(address.name, columns, batch_rows)
        self._payloads = Payloads(columns)
        self._most = 1

    def _decoded(self, found: Any, kind: TimeKind | None) -> tuple[Any, TimeKind | None]:
        batch, kind = self._payloads.decode(found, kind)
        rows_each = max(batch.num_rows / len(found), 1.0)
        self._most = max(int(self._batch_rows / rows_each), 1)
        return batch, kind


class JournaledSource(MessageSource):
    """Messages that cannot be fetched again: a journal keeps them until a checkpoint does.

    The option ``journal`` names its folder, ``journal_mb`` the most megabytes on the disk.
    """

    gives_once: ClassVar[bool] = True

    def __init__(self, address: Address, columns: Columns, batch_rows: int) -> None:
        super().__init__(address, columns, batch_rows)
        folder = address.options.get("journal")
        if folder is None:
            raise ConfigError(
                f"{self.name}: messages are stored until they are learned; name a folder for them, "
                "?journal=FOLDER"
            )
        megabytes = address.number("journal_mb", 1024, LEAST_MB)
        self._journal = Journal(Path(folder), max_bytes=megabytes << 20)

    def after(self, at: Any) -> Iterator[tuple[Sequence[bytes], Any]]:
        at = self._journal.first if at is None else at
        while True:
            self.receive(drained=self._journal.end == at)
            messages: list[bytes] = []
            n_bytes = 0
            if self._journal.wait(at, POLL):
                for number, message in self._journal.read(at):
                    messages.append(message)
                    n_bytes += len(message)
                    at = number + 1
                    if len(messages) >= self._most or n_bytes >= _TAKEN:
                        break
            yield messages, at

    def committed(self, offset: Offset) -> None:
        """Trim messages that no run needs again."""
        if offset["at"] is not None:
            self._journal.trim(offset["at"])

    @abstractmethod
    def receive(self, *, drained: bool) -> None:
        """Start to receive; raise as `after` does if no messages can come.

        ``drained``: everything received has been read, so an error holds nothing back.
        """

    def close(self) -> None:
        self._journal.close()


class TableSource(LiveSource):
    """Rows that come as columns and keep their types."""

    def _decoded(self, found: Any, kind: TimeKind | None) -> tuple[Any, TimeKind | None]:
        return canonical(found.select(list(self.columns.names)), self.columns, kind)
