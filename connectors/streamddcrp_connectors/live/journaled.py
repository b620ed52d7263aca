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
_DEFAULT_MB = 1024
_TAKEN = 1 << 24  # bytes of messages that are decoded at once


class JournaledSource(MessageSource):
    """Messages that cannot be asked for again: kept in a journal until a checkpoint covers them.

    Parameters
    ----------
    address : Address
        Its option ``journal`` names the folder, ``journal_mb`` the most megabytes on the disk.
    """

    gives_once: ClassVar[bool] = True

    def __init__(self, address: Address, columns: Columns, batch_rows: int) -> None:
        super().__init__(address, columns, batch_rows)
        folder = address.options.get("journal")
        if folder is None:
            raise ConfigError(
                f"{self.name}: messages have to be stored until they are learned; name a folder "
                "for it, ?journal=FOLDER"
            )
        megabytes = address.options.get("journal_mb", str(_DEFAULT_MB))
        if not megabytes.isdecimal() or int(megabytes) < LEAST_MB:
            raise ConfigError(
                f"{self.name}: journal_mb must be a whole number from {LEAST_MB}, got {megabytes!r}"
            )
        self._journal = Journal(Path(folder), max_bytes=int(megabytes) << 20)

    def messages_after(self, at: Any) -> Iterator[tuple[Sequence[bytes], Any]]:
        """Yield the messages of the journal."""
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
        """See to it that messages come in: start, or say what keeps them from coming.

        Parameters
        ----------
        drained : bool
            All that came is read, so that nothing is held back by an error.

        Raises
        ------
        ConnectionError, ConfigError
            As for `messages_after`.
        """

    def close(self) -> None:
        self._journal.close()
