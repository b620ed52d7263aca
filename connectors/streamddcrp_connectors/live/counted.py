"""A sink on a server that receives each row exactly once, by counting.

Rows of a job are numbered in the order of writing. Results do not depend on the cuts between
batches, but the cuts depend on time: after a crash the same rows may come in other batches. The
server therefore keeps *how many rows* of the job it has, in the same transaction or message as the
rows, and rows that it has already are skipped.
"""

import logging
import uuid
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import pyarrow as pa

from streamddcrp.errors import CheckpointError
from streamddcrp_connectors.run.address import Address

_LOG = logging.getLogger("streamddcrp")


class CountedSink(ABC):
    """A live sink; the position is ``{"job", "rows"}``.

    A subclass for a server says how many rows the server has, and how to send more.
    """

    live: ClassVar[bool] = True

    def __init__(self, address: Address, what: str) -> None:
        self.name = self.identity = address.name
        self.hosts = address.hosts
        self._what = what
        self._job, self._fresh = "", True
        self._rows = 0  # rows sent
        self._held: list[Any] = []
        self._arrived: int | None = None  # rows on the server, if known

    def rewind(self, position: dict[str, Any] | None) -> None:
        """Resume at ``position``; None: a new job."""
        self._fresh = position is None
        if position is None:
            position = {"job": f"{uuid.uuid4().hex[:16]}-{self._what}", "rows": 0}
        self._job, self._rows, self._held = position["job"], position["rows"], []
        self._arrived = self._count()
        self._fresh = False

    def write(self, batch: Any) -> None:
        if batch.num_rows:
            self._held.append(batch)

    def sync(self) -> dict[str, Any]:
        """Send pending rows; return the position. May be called again after ConnectionError."""
        if self._held:
            batch = pa.concat_batches(self._held)
            if self._arrived is None:
                self._arrived = self._count()
            known = min(max(self._arrived - self._rows, 0), batch.num_rows)
            if known < batch.num_rows:
                before, self._arrived = self._arrived, None
                self.send(self._job, self._rows + known, batch.slice(known))
                self._arrived = max(before, self._rows + batch.num_rows)
            self._rows += batch.num_rows
            self._held = []
        return {"job": self._job, "rows": self._rows}

    def say_not_alone(self) -> None:
        """Warn that a new job appends to existing rows: perhaps its checkpoint was lost."""
        if self._fresh:
            _LOG.warning("%s already holds rows; those of this new job are appended", self.name)

    def _count(self) -> int:
        """Ask how many rows of the job have arrived; a new job cannot have any."""
        n_rows = self.arrived(self._job, self._rows)
        if n_rows < self._rows:
            raise CheckpointError(
                f"{self.name} has {n_rows:,} of the {self._rows:,} rows that the checkpoint "
                "recorded: it lost some. Restore it, or start again with a new checkpoint folder"
            )
        return n_rows

    @abstractmethod
    def arrived(self, job: str, recorded: int) -> int:
        """Connect if necessary, and return how many rows of a job the server has.

        At least ``recorded`` rows should be there; the search may stop at that number.

        Raises
        ------
        ConnectionError
            The server is unavailable; the runner waits and retries.
        ConfigError
            The server refuses, and waiting will not help.
        """

    @abstractmethod
    def send(self, job: str, first: int, batch: Any) -> None:
        """Send rows numbered from ``first``; return when the server has stored them.

        They go in one transaction, or in order: after an error some first ones may have arrived.
        """

    @abstractmethod
    def finish(self) -> None:
        """Disconnect."""

    def abandon(self) -> None:
        self.finish()
