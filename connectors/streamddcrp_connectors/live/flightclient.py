"""What the source and the sink of Arrow Flight share: a server, and its errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyarrow import ArrowException, flight

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.run.address import Address

PORT = 8815
_ANSWER = 30.0  # seconds for one call
_PASSING = (flight.FlightUnavailableError, flight.FlightTimedOutError, flight.FlightCancelledError)
_REFUSED = (flight.FlightUnauthenticatedError, flight.FlightUnauthorizedError)


class FlightClient:
    """A connection that is made when it is needed.

    Parameters
    ----------
    spec : str
        ``flight://host[:port]/STREAM``; ``tls=yes``, ``ca=FILE``; ``token_env``, ``token_file``:
        sent as ``authorization: Bearer TOKEN``.

    Attributes
    ----------
    address : Address
    stream : str
    """

    def __init__(self, spec: str) -> None:
        self.address = address = Address.parse(
            spec, port=PORT, options=["tls", "ca"], secrets=["token"]
        )
        self.name, self.stream = address.name, address.path
        if len(address.hosts) != 1 or not self.stream:
            raise ConfigError(f"{self.name} must be flight://host/STREAM")
        host, port = address.hosts[0]
        scheme = "grpc+tls" if address.with_tls else "grpc+tcp"
        self._where = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
        self._more = _certificates(address)
        token = address.secret("token")
        self._head = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        self._client: Any = None

    def call(self, method: str, what: Any) -> Any:
        """Begin a call, which may take half a minute."""
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
        """Turn the library's errors into those that the runner knows."""
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


def _certificates(address: Address) -> dict[str, bytes]:
    """Return those that a server's is checked against, if not those of this machine."""
    if "ca" not in address.options:
        return {}
    address.tls  # noqa: B018 -- whether the file holds certificates
    return {"tls_root_certs": Path(address.options["ca"]).read_bytes()}


def _first(error: Exception) -> str:
    """Return the line of an error that says something: gRPC adds where it is in its own sources."""
    return str(error).partition(". gRPC client debug context")[0].partition("\n")[0]
