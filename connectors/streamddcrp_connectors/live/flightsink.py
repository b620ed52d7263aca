"""Results to an Arrow Flight server: ``flight://host:8815/STREAM``.

The server speaks as our own service does (`flightserver`), by ``DoExchange``. The path of the
descriptor is the stream and the job. The server first sends the note ``{"rows": n}``: so many rows
of the job it has for good. Beside each batch stands ``{"first": n}``, the number of its first row;
the answer ``{"first", "rows"}`` says that the server has them for good, all or none.
"""

import json
import logging
from typing import Any

from pyarrow import flight

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.live.counted import CountedSink
from streamddcrp_connectors.live.flightclient import FlightClient

_LOG = logging.getLogger("streamddcrp")


class FlightSink(CountedSink):
    """Rows as Arrow batches of an exchange.

    Parameters
    ----------
    spec : str
        As `FlightClient` takes it.
    """

    def __init__(self, spec: str, folder: Any, what: str) -> None:
        self._server = FlightClient(spec)
        super().__init__(self._server.address, what)

    def arrived(self, job: str, recorded: int) -> int:
        """Ask how many rows of the job there are."""
        with self._server.guarded():
            writer, reader = self._exchange(job)
            n_rows = int(self._note(reader, "rows")["rows"])
            writer.close()
            return n_rows

    def send(self, job: str, first: int, batch: Any) -> None:
        """Send a batch, which the server takes only if it follows what it has."""
        with self._server.guarded():
            writer, reader = self._exchange(job)
            if self._note(reader, "rows")["rows"] != first:
                message = f"{self.name}: another run writes the rows of this job; end it first"
                raise ConfigError(message)
            writer.begin(batch.schema)
            writer.write_with_metadata(batch, json.dumps({"first": first}).encode())
            note = self._note(reader, "first", "rows")
            if (note["first"], note["rows"]) != (first, batch.num_rows):
                last = first + batch.num_rows - 1
                raise ConfigError(f"{self.name} answers {note} to rows {first} to {last}")
            if note.get("refused"):
                row, reason = next(iter(note["refused"].items()))
                _LOG.warning("%s refused rows, such as %s: %s", self.name, row, reason)
            writer.close()

    def finish(self) -> None:
        self._server.close()

    def _exchange(self, job: str) -> Any:
        descriptor = flight.FlightDescriptor.for_path(self._server.stream, job)
        return self._server.call("do_exchange", descriptor)

    def _note(self, reader: Any, *names: str) -> dict[str, Any]:
        """Read what stands beside the next answer."""
        try:
            note = reader.read_chunk().app_metadata
        except StopIteration as error:
            raise ConnectionError("the exchange ended without an answer") from error
        try:
            found: dict[str, Any] = json.loads(note.to_pybytes())
            return found | {name: int(found[name]) for name in names}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"{self.name} does not say how many rows it has; see docs/live.md"
            raise ConfigError(message) from error
