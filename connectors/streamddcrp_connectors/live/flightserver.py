"""A model as an Arrow Flight service: rows in, results out, by ``DoExchange``.

The path of the descriptor is the client's name. The server first sends the JSON note ``{"rows":
n}``: it has answered n rows of this client, and expects row n next. Each batch carries the JSON
``{"first": n}``. Its answer has the results of the accepted rows, with ``{"first", "rows",
"refused"}``; see `answers`.
"""

import hmac
import json
import queue
import threading
from concurrent.futures import Future
from typing import Any

from pyarrow import ArrowException, flight

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.live.answers import Answer, Answers
from streamddcrp_connectors.run.address import host_port, is_loopback

EXCHANGES = 64  # at the same time
MAX_NAME = 64


class _Tokens(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Refuse calls that do not bring the token."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._wanted = f"Bearer {token}".encode()

    def start_call(self, info: Any, headers: Any) -> None:
        (given,) = headers.get("authorization", [""])[:1] or [""]
        if not hmac.compare_digest(given.encode(), self._wanted):
            message = "a token is needed: authorization: Bearer TOKEN"
            raise flight.FlightUnauthenticatedError(message)


class FlightService(flight.FlightServerBase):  # type: ignore[misc]
    """Receive batches in the threads of calls, and answer them in that of `answer_until`.

    ``port`` 0 picks a free one. A host reachable from other machines needs a token.
    """

    def __init__(self, host: str, port: int, token: str | None) -> None:
        if token is None and not is_loopback(host):
            raise ConfigError(
                f"{host}:{port} would answer anyone who reaches it: give a token, --token-env NAME "
                "or --token-file FILE, or listen on 127.0.0.1"
            )
        self._work: queue.Queue[tuple[Future[Any], str, Any]] = queue.Queue(EXCHANGES)
        self._room = threading.BoundedSemaphore(EXCHANGES)
        more = {} if token is None else {"middleware": {"token": _Tokens(token)}}
        where = host_port(host, port)
        try:
            super().__init__(f"grpc+tcp://{where}", **more)
        except (ArrowException, OSError) as error:
            raise ConfigError(f"cannot listen on {where}: {error}") from error

    def answer_until(self, answers: Answers, seconds: float) -> None:
        """Answer a batch that comes within ``seconds``; errors go to its client."""
        try:
            future, client, batch = self._work.get(timeout=seconds)
        except queue.Empty:
            return
        try:
            if batch is None:
                future.set_result(answers.count(client))
            else:
                future.set_result(answers.answer(client, *batch))
        except (SchemaError, ConfigError, ArrowException) as error:
            future.set_exception(flight.FlightServerError(str(error)))
        except BaseException as error:
            future.set_exception(flight.FlightUnavailableError("the service ends"))
            raise error

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        client = b"/".join(descriptor.path or []).decode(errors="replace")
        if not client or len(client) > MAX_NAME or not client.isprintable():
            message = f"the path must name the client, by 1 to {MAX_NAME} letters"
            raise flight.FlightServerError(message)
        if not self._room.acquire(blocking=False):
            raise flight.FlightUnavailableError(f"{EXCHANGES} exchanges are open")
        try:
            writer.write_metadata(_json({"rows": self._ask(client, None)}))
            self._exchange(client, reader, writer)
        finally:
            self._room.release()

    def _exchange(self, client: str, reader: Any, writer: Any) -> None:
        schema = None
        while True:
            try:
                chunk = reader.read_chunk()
            except StopIteration:
                return
            if chunk.data is None or chunk.data.num_rows == 0:
                continue
            answer: Answer = self._ask(client, (_first(chunk.app_metadata), chunk.data))
            if answer.results is None:
                writer.write_metadata(_json(answer.note))
                continue
            if schema is None:
                schema = answer.results.schema
                writer.begin(schema)
            writer.write_with_metadata(answer.results, _json(answer.note))

    def _ask(self, client: str, batch: Any) -> Any:
        future: Future[Any] = Future()
        self._work.put((future, client, batch))
        return future.result()


def _first(note: Any) -> int | None:
    """Read the number of the first row from a batch's note."""
    if note is None:
        return None
    try:
        first = json.loads(note.to_pybytes())["first"]
    except (ValueError, KeyError, TypeError) as error:
        message = 'the metadata of a batch must be empty or {"first": NUMBER}'
        raise flight.FlightServerError(message) from error
    if not isinstance(first, int) or isinstance(first, bool) or first < 0:
        message = f"the number of the first row must be a whole number from 0, got {first!r}"
        raise flight.FlightServerError(message)
    return first


def _json(note: Any) -> bytes:
    return json.dumps(note).encode()
