"""Rows of an Arrow Flight server: ``flight://host:8815/STREAM``.

The ticket of each ``DoGet`` is the JSON ``{"stream": NAME, "after": n}``; the server answers with
the rows that it has by then after the first n, always the same ones in the same order, and ends. It
is asked again when it has been read to the end.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyarrow import ArrowException, flight

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.live.address import Address
from streamddcrp_connectors.live.tables import TableSource
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.gather import POLL
from streamddcrp_connectors.run.sources import Offset

PORT = 8815
_ANSWER = 30.0  # seconds for one answer


class FlightSource(TableSource):
    """Rows of a stream; the offset is ``{"row", "kind"}``.

    Parameters
    ----------
    spec : str
        ``flight://host[:port]/STREAM``; ``tls=yes``, ``ca=FILE``; ``token_env``, ``token_file``:
        sent as ``authorization: Bearer TOKEN``.
    columns : Columns
        Its features are named.
    batch_rows : int
    """

    def __init__(self, spec: str, columns: Columns, batch_rows: int) -> None:
        address = Address.parse(spec, port=PORT, options=["tls", "ca"], secrets=["token"])
        super().__init__(address.name, columns, batch_rows)
        if len(address.hosts) != 1 or not address.path:
            message = f"{self.name} must be flight://host/STREAM"
            raise ConfigError(message)
        self._stream = address.path
        host, port = address.hosts[0]
        scheme = "grpc+tls" if address.with_tls else "grpc+tcp"
        self._where = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
        self._more = _certificates(address)
        token = address.secret("token")
        self._head = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        self._client: Any = None

    def read_after(self, offset: Offset | None) -> Iterator[tuple[Any, Offset]]:
        """Yield the batches after ``offset``, each with its own offset; None: nothing came."""
        row, kind = (0, None) if offset is None else (offset["row"], offset["kind"])
        while True:
            before = row
            for raw in self._after(row):
                batch, kind = self._convert(raw, kind)
                row += batch.num_rows
                yield batch, {"row": row, "kind": kind}
            if row == before:
                time.sleep(POLL)
                yield None, {"row": row, "kind": kind}

    def close(self) -> None:
        """Disconnect."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _after(self, row: int) -> Iterator[Any]:
        """Yield the rows that there are after the first ``row``, in pieces."""
        ticket = flight.Ticket(json.dumps({"stream": self._stream, "after": row}).encode())
        options = flight.FlightCallOptions(headers=self._head, timeout=_ANSWER)
        with self._guarded():
            if self._client is None:
                self._client = flight.connect(self._where, **self._more)
            reader = self._client.do_get(ticket, options)
            names = list(self.columns.resolve(reader.schema.names, self.name).names)
        while True:
            with self._guarded():
                try:
                    raw = reader.read_chunk().data
                except StopIteration:
                    return
                raw = raw.select(names)
                raw.validate(full=True)
            for start in range(0, raw.num_rows, self._batch_rows):
                yield raw.slice(start, self._batch_rows)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Turn the library's errors into those that the runner knows."""
        try:
            yield
        except (flight.FlightUnavailableError, flight.FlightTimedOutError) as error:
            self.close()
            raise ConnectionError(_first(error)) from error
        except (flight.FlightUnauthenticatedError, flight.FlightUnauthorizedError) as error:
            message = f"{self.name} refuses the token: {_first(error)}"
            raise ConfigError(message) from error
        except (ArrowException, flight.FlightError, OSError, KeyError) as error:
            message = f"{self.name}: {_first(error)}"
            raise ConfigError(message) from error


def _certificates(address: Address) -> dict[str, bytes]:
    """Return those that a server's is checked against, if not those of this machine."""
    if "ca" not in address.options:
        return {}
    address.tls  # noqa: B018 -- whether the file holds certificates
    return {"tls_root_certs": Path(address.options["ca"]).read_bytes()}


def _first(error: Exception) -> str:
    """Return the line of an error that says something: gRPC adds where it is in its own sources."""
    return str(error).partition(". gRPC client debug context")[0].partition("\n")[0]
