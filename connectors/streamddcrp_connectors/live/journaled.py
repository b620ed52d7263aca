"""A source whose messages come to a port or a subscription, by way of a journal."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.live.journal import Journal
from streamddcrp_connectors.live.messages import MessageSource
from streamddcrp_connectors.run.address import Address
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.gather import POLL
from streamddcrp_connectors.run.sources import Offset

OPTIONS = ("journal", "journal_mb")  # that each such address has
LEAST_MB = 16
_TAKEN = 1 << 24  # bytes of messages that are decoded at once


class JournaledSource(MessageSource):
    """Messages that cannot be asked for again: kept in a journal until a checkpoint covers them.

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
        """Trim what no run needs again."""
        if offset["at"] is not None:
            self._journal.trim(offset["at"])

    @abstractmethod
    def receive(self, *, drained: bool) -> None:
        """Start to receive; raise as `after` does if messages cannot come.

        ``drained``: all that came is read, so an error holds nothing back.
        """

    def close(self) -> None:
        self._journal.close()
