"""NATS JetStream: ``nats://host:4222/STREAM?subject=a.b``.

The server numbers the messages of a stream, and that number is our place. The source reads by an
ordered consumer, which lives in the server's memory and leaves nothing there. The sink publishes a
JSON message for each row with the id ``JOB:NUMBER``. The server drops a message whose id it got
within the last minutes; after a longer absence the sink looks up the number of its last row in the
stream.
"""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js.api import ConsumerConfig, DeliverPolicy

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.live.counted import CountedSink
from streamddcrp_connectors.live.messages import MessageSource
from streamddcrp_connectors.run.address import Address, host_port
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.gather import POLL
from streamddcrp_connectors.run.sinks import json_lines

PORT = 4222
_TIMEOUT = 5.0  # seconds for an answer of the server
_UNANSWERED = 512  # messages without an answer of the server
_ID, _AFTER = "Nats-Msg-Id", "Nats-Expected-Last-Msg-Id"
_LASTING = (nats.js.errors.APIError, nats.errors.BadSubjectError, nats.errors.MaxPayloadError)
_WRONG_LAST = 10070  # error code: another message is the last one
Result = TypeVar("Result")


class _Connection:
    """A connection served by a thread, so that it answers pings at any time."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._loop: asyncio.AbstractEventLoop
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)), daemon=True)
        self._thread.start()
        ready.wait()
        try:
            self.client = self.wait(self._connected())
            self.stream = self.client.jetstream(timeout=_TIMEOUT)
        except BaseException:
            self._stop()
            raise

    async def _serve(self, ready: threading.Event) -> None:
        """Let the loop run until `_stop`; the tasks that the client left are cancelled then."""
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        ready.set()
        await self._ended.wait()

    def wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine in the thread, and wait for it."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except (nats.errors.Error, OSError, EOFError) as error:
            raise _meaning(error, self._address.name) from error

    def close(self) -> None:
        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(self.client.close(), self._loop).result(0.5)
        self._stop()

    def _stop(self) -> None:
        with contextlib.suppress(RuntimeError):  # already closed
            self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(1.0)

    async def _connected(self) -> Any:
        address = self._address
        tls = address.tls
        scheme = "nats" if tls is None else "tls"
        password, token = address.secret("password"), address.secret("token")
        client = Client()
        try:
            await client.connect(
                [f"{scheme}://{host_port(*host)}" for host in address.hosts],
                tls=tls,
                user=address.user,
                password=password,
                token=token,
                allow_reconnect=False,  # the runner waits, and reports it
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=2,
                error_cb=_quiet,
                ping_interval=10,
                max_outstanding_pings=2,
            )
        except BaseException:
            # after a failed handshake, closing may hang
            with contextlib.suppress(Exception):
                await asyncio.wait_for(client.close(), 1.0)
            raise
        return client


async def _quiet(_: Exception) -> None:
    """Ignore connection errors, which the calls that use it raise as well."""


def _meaning(error: Exception, name: str) -> Exception:
    """Translate a client error into one that makes the run wait, or end with a message."""
    errors = nats.js.errors
    said = getattr(error, "description", None) or str(error).removeprefix("nats: ")
    if isinstance(error, TimeoutError | nats.errors.TimeoutError):
        return ConnectionError("no answer")
    if isinstance(error, errors.ServiceUnavailableError):  # or the stream is full
        return ConnectionError(said or "JetStream is not ready")
    if isinstance(error, errors.NotFoundError):
        said = f"{said or 'no such stream'}; make it first"
    elif isinstance(error, errors.NoStreamResponseError):
        said = "no stream takes this subject; make one first"
    elif "CERTIFICATE_VERIFY_FAILED" in said:
        said = "the server's certificate is not known; name its ca=FILE"
    elif "authorization" in said.lower():
        return ConfigError(f"{name} refuses the user, password or token")
    elif not isinstance(error, _LASTING):
        return ConnectionError(said or type(error).__name__)
    return ConfigError(f"{name}: {said}")


async def _taken(inbox: asyncio.Queue[Any], most: int) -> list[Any]:
    """Return the available messages; wait `POLL` seconds for a first one."""
    messages = []
    with contextlib.suppress(TimeoutError):
        messages.append(await asyncio.wait_for(inbox.get(), POLL))
        while len(messages) < most and not inbox.empty():
            messages.append(inbox.get_nowait())
    return messages


class NatsSource(MessageSource):
    """Messages of a stream, ``nats://[user@]host[:port]/STREAM``.

    Options: ``subject`` (default: all of the stream), ``from=start|new``, ``tls=yes``, ``ca=FILE``;
    ``password_env``, ``password_file``, ``token_env``, ``token_file``.
    """

    def __init__(self, spec: str, columns: Columns, batch_rows: int) -> None:
        self._address = address = Address.parse(
            spec, port=PORT, options=["subject", "from", "tls", "ca"]
        )
        super().__init__(address, columns, batch_rows)
        address.require("STREAM", one_host=False)
        self._new = address.begins_new
        self._connection: _Connection | None = None

    def after(self, at: Any) -> Iterator[tuple[Sequence[bytes], Any]]:
        """Connect, and yield the messages after a sequence number."""
        self.close()
        self._connection = connection = _Connection(self._address)
        inbox: asyncio.Queue[Any] = asyncio.Queue(self._batch_rows)  # a full one stops the server
        at = connection.wait(self._subscribed(connection, inbox, at))
        yield [], at
        while True:
            messages = connection.wait(_taken(inbox, self._most))
            if not messages and not connection.client.is_connected:
                raise ConnectionError("the connection is lost")
            if messages:
                at = messages[-1].metadata.sequence.stream
            yield [message.data for message in messages], at

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def _subscribed(
        self, connection: _Connection, inbox: asyncio.Queue[Any], at: int | None
    ) -> int:
        """Start reading after a number, which is looked up if None; return the number."""
        stream = self._address.path
        state = (await connection.stream.stream_info(stream)).state
        if at is None:
            at = state.last_seq if self._new else max(state.first_seq - 1, 0)
        if at > state.last_seq:
            raise SchemaError(
                f"{self.name} ends with message {state.last_seq}, but {at} was read of it: it lost "
                "messages, or was made again. Start with a new checkpoint folder"
            )
        if state.messages and at + 1 < state.first_seq:
            raise SchemaError(
                f"{self.name} begins with message {state.first_seq}, but {at} was the last that "
                "was read: those between are gone. Start with a new checkpoint folder"
            )
        where = ConsumerConfig(deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=at + 1)
        subject = self._address.options.get("subject", ">")
        await connection.stream.subscribe(
            subject, stream=stream, ordered_consumer=True, config=where, cb=inbox.put
        )
        first: int = at
        return first


class NatsSink(CountedSink):
    """Rows as JSON messages of a subject that a stream stores."""

    def __init__(self, spec: str, folder: Any, what: str) -> None:
        self._address = address = Address.parse(spec, port=PORT, options=["tls", "ca"])
        super().__init__(address, what)
        address.require("SUBJECT", one_host=False)
        self._connection: _Connection | None = None

    def arrived(self, job: str, recorded: int) -> int:
        """Search back from the stream's end for the last row of the job."""
        self.finish()
        self._connection = connection = _Connection(self._address)
        return connection.wait(self._arrived_in(connection, job))

    async def _arrived_in(self, connection: _Connection, job: str) -> int:
        subject, stream = self._address.path, connection.stream
        name = await stream.find_stream_name_by_subject(subject)
        try:
            message = await stream.get_last_msg(name, subject)
        except nats.js.errors.NotFoundError:
            return 0
        if (number := _number(message, job)) is not None:
            return number + 1
        if self._fresh:
            self.say_not_alone()
            return 0
        return await self._searched(connection, name, job)

    async def _searched(self, connection: _Connection, name: str, job: str) -> int:
        """Read the whole subject, because others wrote to it after the job."""
        subscription = await connection.stream.subscribe(
            self._address.path, stream=name, ordered_consumer=True,
            config=ConsumerConfig(deliver_policy=DeliverPolicy.ALL, headers_only=True),
        )  # fmt: skip
        found = 0
        while True:
            try:
                message = await subscription.next_msg(timeout=_TIMEOUT)
            except nats.errors.TimeoutError:
                return found
            if (number := _number(message, job)) is not None:
                found = number + 1
            if message.metadata.num_pending == 0:
                return found

    def send(self, job: str, first: int, batch: Any) -> None:
        """Publish the rows; return when the server has stored them."""
        connection = self._connection
        if connection is None:
            raise ConnectionError("not connected")
        connection.wait(self._published(connection, job, first, batch))

    async def _published(self, connection: _Connection, job: str, first: int, batch: Any) -> None:
        """Publish rows in order, several of them before the server answers.

        Each row except the first must follow the one before, so none is stored after a refused one.
        If another writer intervenes, the rest is sent again.
        """
        lines, sent = json_lines(batch).splitlines(), 0
        while sent < len(lines):
            work: list[Coroutine[Any, Any, Any]] = []
            for number, line in enumerate(lines[sent : sent + _UNANSWERED], first + sent):
                headers = {_ID: f"{job}:{number}"}
                headers |= {_AFTER: f"{job}:{number - 1}"} if work else {}
                work.append(connection.stream.publish(self._address.path, line, headers=headers))
            for answer in await asyncio.gather(*work, return_exceptions=True):
                if getattr(answer, "err_code", None) == _WRONG_LAST:
                    break
                if isinstance(answer, BaseException):
                    raise answer
                sent += 1

    def finish(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _number(message: Any, job: str) -> int | None:
    whose, _, number = (message.headers or {}).get(_ID, "").rpartition(":")
    return int(number) if whose == job and number.isdecimal() else None
