"""A source of messages that are numbered by their server.

A source of one more server subclasses `MessageSource` and says how to read on after a place.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from streamddcrp_connectors.live.payloads import Payloads
from streamddcrp_connectors.run.address import Address
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.sources import Offset


class MessageSource(ABC):
    """Rows of messages, of JSON or Arrow; the offset is ``{"row", "kind", "at"}``.

    Parameters
    ----------
    batch_rows : int
        About the most rows that are taken at once; ``_most`` is how many messages that may be, as
        those before have shown.
    """

    replayable: ClassVar[bool] = True
    live: ClassVar[bool] = True

    def __init__(self, address: Address, columns: Columns, batch_rows: int) -> None:
        self.name = address.name
        self.n_rows: int | None = None
        self.columns = columns
        self._payloads = Payloads(columns, self.name)
        self._batch_rows = batch_rows
        self._most = 1

    def identity(self) -> dict[str, Any]:
        """Say what a checkpoint must agree with."""
        return {"path": self.name, "format": self.name.partition(":")[0]}

    def read_after(self, offset: Offset | None) -> Iterator[tuple[Any, Offset]]:
        """Yield the batches after ``offset``, each with its own offset; None: nothing came."""
        row, kind, at = 0, None, None
        if offset is not None:
            row, kind, at = offset["row"], offset["kind"], offset["at"]
        for messages, then in self.messages_after(at):
            batch, kind = self._payloads.decode(messages, kind)
            row += batch.num_rows
            if messages:
                rows_each = max(batch.num_rows / len(messages), 1.0)
                self._most = max(int(self._batch_rows / rows_each), 1)
            yield (batch if batch.num_rows else None), {"row": row, "kind": kind, "at": then}

    @abstractmethod
    def messages_after(self, at: Any) -> Iterator[tuple[Sequence[bytes], Any]]:
        """Connect, and yield the messages after a place, with the place after the last of them.

        Parameters
        ----------
        at : JSON value
            A place that was yielded before; None: where the address says that a job begins.

        Yields
        ------
        messages : sequence of bytes
            At most ``_most``, as soon as there is one; empty when `POLL` seconds brought none.

        Raises
        ------
        ConnectionError
            The server cannot be reached; the runner waits and calls again.
        ConfigError
            It refuses, for a reason that does not pass by waiting.
        """

    @abstractmethod
    def close(self) -> None:
        """Disconnect."""
