"""A model as an Arrow Flight service: rows in, results out, by ``DoExchange``.

The path of the descriptor is the client's name. A client numbers its rows from 0, sends a batch,
waits for the answer, and sends the next. The server first sends the JSON note ``{"rows": n}``: it
has answered n rows of this client, and expects row n next. Each batch carries the JSON
``{"first": n}``. Its answer has the results of the accepted rows, with ``{"first", "rows",
"refused"}``.

One transaction stores the states, row counts and last answer to each client before the answer is
sent. A batch sent again after a lost answer therefore gets the same answer and is not learned
again.
"""

import hmac
import json
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import ArrowException, flight

from streamddcrp.checkpoint import SqliteStore
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.run.address import host_port, is_loopback
from streamddcrp_connectors.run.columns import Columns, arrow_stream, canonical, read_stream
from streamddcrp_connectors.run.job import find_cursor
from streamddcrp_connectors.run.models import Models, Recipe, Rows, usable

CLIENTS = 1000  # most clients; each keeps one answer
LARGEST = 1 << 26  # bytes of a batch
EXCHANGES = 64  # at the same time
MAX_NAME = 64
_OP = "answer"


class Answer(NamedTuple):
    """A client's answer for a batch."""

    note: Mapping[str, Any]  # ``first`` and ``rows`` as sent; ``refused``: rows with reasons
    results: Any  # record batch of the accepted rows; None: none


class Answers:
    """Learn batches of clients and answer them.

    ``store`` keeps everything; without it a repeated batch is known only while the process lives.
    """

    def __init__(
        self,
        recipe: Recipe,
        columns: Columns,
        store: SqliteStore | None = None,
        memory_limit: str | int = "1GB",
    ) -> None:
        if columns.features is None:
            raise ConfigError("name the columns of the rows: --features a,b or --text a")
        self.columns = columns
        described = {"time": columns.time, "key": columns.key, "features": columns.features}
        job = {"model": dict(recipe.description), "source": {"format": "service"}}
        job["columns"] = described | ({"text": True} if columns.text else {})
        self._cursor = find_cursor(store, json.loads(json.dumps(job)))
        self._cursor.setdefault("clients", {})
        self._cursor.setdefault("kind", None)
        self._store = store
        self._models = Models(recipe, columns.key, store, memory_limit)
        self._last: dict[str, bytes] = {}

    def count(self, client: str) -> int:
        n_rows: int = self._cursor["clients"].get(client, 0)
        return n_rows

    def answer(self, client: str, first: int | None, raw: Any) -> Answer:
        """Learn a batch and return the answer, or the answer that was given before.

        ``first`` is the number of its first row, counted from 0. With None the batch is taken as
        new, even if it was sent before. Raises SchemaError or ConfigError, and learns nothing, if
        the batch is unusable as a whole or does not follow the previous one.
        """
        count = self.count(client)
        first = count if first is None else first
        if first < count:
            answer = self._given(client)
            if answer is not None and (answer.note["first"], answer.note["rows"]) == (
                first,
                raw.num_rows,
            ):
                return answer
        if first != count:
            raise SchemaError(
                f"{client!r} sent rows {first} to {first + raw.num_rows - 1}, but the next is "
                f"{count}; only the last batch may be sent again, and as it was"
            )
        if client not in self._cursor["clients"] and len(self._cursor["clients"]) >= CLIENTS:
            raise SchemaError(f"there are {CLIENTS} clients already")
        rows, refused, kind = self._read(raw, first)
        reasons = {number: refusal.reason for number, refusal in refused.items()}
        results = None
        if len(rows):
            results = self._models.step(rows, refused)
            reasons |= {number: refusal.reason for number, refusal in refused.items()}
        note = {"first": first, "rows": raw.num_rows, "refused": dict(sorted(reasons.items()))}
        answer = Answer(json.loads(json.dumps(note)), results)
        self._keep(client, first + raw.num_rows, kind, len(reasons), answer)
        return answer

    def _read(self, raw: Any, first: int) -> tuple[Rows, dict[int, Any], Any]:
        """Return the usable rows, why others are refused, and the kind of the time."""
        if raw.nbytes > LARGEST:
            raise SchemaError(f"a batch has at most {LARGEST:,} bytes, got {raw.nbytes:,}")
        raw.validate(full=True)
        names = list(self.columns.resolve(raw.schema.names, "the batch").names)
        batch, kind = canonical(raw.select(names), self.columns, self._cursor["kind"])
        numbers = np.arange(first, first + batch.num_rows)
        return *usable(batch, numbers, self.columns), kind

    def _keep(self, client: str, count: int, kind: Any, n_refused: int, answer: Answer) -> None:
        """Store states, counts and the answer in one transaction."""
        cursor = self._cursor
        cursor["rows"] += count - self.count(client)
        cursor["refused"] += n_refused
        cursor["clients"][client], cursor["kind"] = count, kind
        blob = _encode(answer)
        if self._store is None:
            self._last[client] = blob
        else:
            self._store.put_aside(_OP, [(client, blob)])
            self._models.save(cursor)

    def _given(self, client: str) -> Answer | None:
        blob = self._last.get(client) if self._store is None else self._store.get(_OP, client)
        return None if blob is None else _decode(blob)


def _encode(answer: Answer) -> bytes:
    batch = pa.record_batch({}) if answer.results is None else answer.results
    note = json.dumps([answer.note, answer.results is not None])
    return arrow_stream([batch.replace_schema_metadata({"note": note})])


def _decode(blob: bytes) -> Answer:
    batch = read_stream(blob)
    note, taken = json.loads(batch.schema.metadata[b"note"])
    return Answer(note, batch.replace_schema_metadata(None) if taken else None)


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
    """Answer one batch at a time; an error that no client caused ends the service.

    ``port`` 0 picks a free one. A host reachable from other machines needs a token.
    """

    def __init__(self, host: str, port: int, token: str | None, answers: Answers) -> None:
        if token is None and not is_loopback(host):
            raise ConfigError(
                f"{host}:{port} would answer anyone who reaches it: give a token, --token-env NAME "
                "or --token-file FILE, or listen on 127.0.0.1"
            )
        self._answers = answers
        self.busy = threading.Lock()  # held while a batch is learned and its answer stored
        self.ended: Future[None] = Future()
        self._room = threading.BoundedSemaphore(EXCHANGES)
        more = {} if token is None else {"middleware": {"token": _Tokens(token)}}
        where = host_port(host, port)
        try:
            super().__init__(f"grpc+tcp://{where}", **more)
        except (ArrowException, OSError) as error:
            raise ConfigError(f"cannot listen on {where}: {error}") from error

    def do_exchange(self, context: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        client = b"/".join(descriptor.path or []).decode(errors="replace")
        if not client or len(client) > MAX_NAME or not client.isprintable():
            message = f"the path must name the client, by 1 to {MAX_NAME} letters"
            raise flight.FlightServerError(message)
        if not self._room.acquire(blocking=False):
            raise flight.FlightUnavailableError(f"{EXCHANGES} exchanges are open")
        try:
            writer.write_metadata(_json({"rows": self._answers.count(client)}))
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
            answer = self._answered(client, _first(chunk.app_metadata), chunk.data)
            if answer.results is None:
                writer.write_metadata(_json(answer.note))
                continue
            if schema is None:
                schema = answer.results.schema
                writer.begin(schema)
            writer.write_with_metadata(answer.results, _json(answer.note))

    def _answered(self, client: str, first: int | None, batch: Any) -> Answer:
        with self.busy:
            try:
                if not self.ended.done():
                    return self._answers.answer(client, first, batch)
            except (SchemaError, ConfigError, ArrowException) as error:
                raise flight.FlightServerError(str(error)) from error
            except BaseException as error:
                self.ended.set_exception(error)
            raise flight.FlightUnavailableError("the service ends")


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
