"""Arrow Flight: ``flight://host:8815/STREAM``.

The source repeats ``DoGet`` calls with the JSON ticket ``{"stream": NAME, "after": n}``. The server
answers with the rows that it has after the first n, always the same ones in the same order.

The sink sends by ``DoExchange`` to a server that follows the protocol of our own service
(`flightserver`). The path of the descriptor is the stream and the job. The server first sends the
note ``{"rows": n}``: it has stored n rows of the job. Each batch carries ``{"first": n}``, the
number of its first row; the answer ``{"first", "rows"}`` confirms that all of it is stored.
"""

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyarrow import ArrowException, flight

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.live.counted import CountedSink
from streamddcrp_connectors.live.messages import TableSource
from streamddcrp_connectors.run.address import Address, host_port
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.gather import POLL
from streamddcrp_connectors.run.sources import Offset

PORT = 8815
_ANSWER = 30.0  # seconds for one call
_PASSING = (flight.FlightUnavailableError, flight.FlightTimedOutError, flight.FlightCancelledError)
_REFUSED = (flight.FlightUnauthenticatedError, flight.FlightUnauthorizedError)
_LOG = logging.getLogger("streamddcrp")


class FlightClient:
    """A connection to ``flight://host[:port]/STREAM``, opened when needed.

    Options: ``tls=yes``, ``ca=FILE``; ``token_env``, ``token_file``: sent as
    ``authorization: Bearer TOKEN``.
    """

    def __init__(self, spec: str) -> None:
        options = ["tls", "ca"]
        self.address = address = Address.parse(spec, port=PORT, options=options, secrets=["token"])
        self.name, self.stream = address.name, address.require("STREAM")
        scheme = "grpc+tls" if address.with_tls else "grpc+tcp"
        self._where = f"{scheme}://{host_port(*address.hosts[0])}"
        self._more = {}
        if "ca" in address.options:
            address.tls  # noqa: B018 -- whether the file holds certificates
            self._more = {"tls_root_certs": Path(address.options["ca"]).read_bytes()}
        token = address.secret("token")
        self._head = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        self._client: Any = None

    def call(self, method: str, what: Any) -> Any:
        if self._client is None:
            self._client = flight.connect(self._where, **self._more)
        options = flight.FlightCallOptions(headers=self._head, timeout=_ANSWER)
        return getattr(self._client, method)(what, options)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    @contextmanager
    def guarded(self) -> Iterator[None]:
        try:
            yield
        except ConnectionError:
            self.close()
            raise
        except _PASSING as error:
            self.close()
            raise ConnectionError(_first(error)) from error
        except _REFUSED as error:
            raise ConfigError(f"{self.name} refuses the token: {_first(error)}") from error
        except (ArrowException, flight.FlightError, OSError, KeyError) as error:
            raise ConfigError(f"{self.name}: {_first(error)}") from error


class FlightSource(TableSource):
    """Rows of a stream; the place is the number of rows read."""

    def __init__(self, spec: str, columns: Columns, batch_rows: int) -> None:
        self._server = FlightClient(spec)
        super().__init__(self._server.name, columns, batch_rows)

    def read_after(self, offset: Offset | None) -> Iterator[tuple[Any, Offset]]:
        return super().read_after(offset and {"at": offset["row"], **offset})  # none in 0.1

    def after(self, at: Any) -> Iterator[tuple[Any, int]]:
        at = at or 0
        while True:
            before = at
            for raw in self._get(at):
                at += raw.num_rows
                yield raw, at
            if at == before:
                time.sleep(POLL)
                yield None, at

    def close(self) -> None:
        self._server.close()

    def _get(self, row: int) -> Iterator[Any]:
        """Yield the available rows after the first ``row``, in pieces."""
        ticket = json.dumps({"stream": self._server.stream, "after": row}).encode()
        with self._server.guarded():
            reader = self._server.call("do_get", flight.Ticket(ticket))
            names = list(self.columns.resolve(reader.schema.names, self.name).names)
        while True:
            with self._server.guarded():
                try:
                    raw = reader.read_chunk().data
                except StopIteration:
                    return
                raw = raw.select(names)
                raw.validate(full=True)
            for start in range(0, raw.num_rows, self._batch_rows):
                yield raw.slice(start, self._batch_rows)


class FlightSink(CountedSink):
    """Send rows as Arrow batches of an exchange."""

    def __init__(self, spec: str, folder: Any, what: str) -> None:
        self._server = FlightClient(spec)
        super().__init__(self._server.address, what)

    def arrived(self, job: str, recorded: int) -> int:
        with self._server.guarded():
            writer, reader = self._exchange(job)
            n_rows = int(self._note(reader, "rows")["rows"])
            writer.close()
            return n_rows

    def send(self, job: str, first: int, batch: Any) -> None:
        """Send a batch; the server takes it only if it follows the stored rows."""
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
        """Read the note that comes with the next answer."""
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


def _first(error: Exception) -> str:
    """Return the informative line of an error: gRPC adds places in its own sources."""
    return str(error).partition(". gRPC client debug context")[0].partition("\n")[0]
