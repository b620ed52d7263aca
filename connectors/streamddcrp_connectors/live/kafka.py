"""Kafka: ``kafka://host:9092/TOPIC``.

A job reads one partition, whose order is the same at each reading; a topic of many is read by as
many jobs. The place is the offset, in our own checkpoint: there is no group of consumers. The sink
writes to one partition, in transactions, and says in the head of each message which row of which
job it is. A run that goes on fences off the one before, and reads what that wrote after the
recorded offset.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from streamddcrp.errors import CheckpointError, ConfigError, SchemaError
from streamddcrp_connectors.live.address import Address
from streamddcrp_connectors.live.counted import CountedSink
from streamddcrp_connectors.live.messages import MessageSource
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.gather import POLL
from streamddcrp_connectors.run.sinks import json_lines

PORT = 9092
_OPTIONS = ["partition", "security", "mechanism", "ca"]
_ANSWER = 1.5  # seconds
_GATHER = 0.002  # seconds for more messages, once there is one
_END = 4.0  # seconds for the end of a transaction
_PASSING = (
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError._STATE,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.CONCURRENT_TRANSACTIONS,
)
_FENCED = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)


def client_settings(address: Address) -> dict[str, Any]:
    """Return the settings of Kafka's library that an address stands for.

    Examples
    --------
    >>> address = Address.parse("kafka://a,b:1/t", port=9092)
    >>> client_settings(address)["bootstrap.servers"]
    'a:9092,b:1'
    """
    security = address.options.get("security", "plaintext" if address.user is None else "sasl_ssl")
    if security not in {"plaintext", "ssl", "sasl_plaintext", "sasl_ssl"}:
        message = f"{address.name}: security must be plaintext, ssl, sasl_plaintext or sasl_ssl"
        raise ConfigError(message)
    found: dict[str, Any] = {
        "bootstrap.servers": ",".join(f"{host}:{port}" for host, port in address.hosts),
        "client.id": "streamddcrp",
        "security.protocol": security,
        "log_level": 0,
        "reconnect.backoff.max.ms": 1000,
    }
    if "ca" in address.options:
        found["ssl.ca.location"] = address.options["ca"]
    if security.startswith("sasl"):
        found |= {
            "sasl.mechanism": address.options.get("mechanism", "SCRAM-SHA-256"),
            "sasl.username": address.user or "",
            "sasl.password": address.secret("password") or "",
        }
    return found


class _Topic:
    """A partition of a topic, and the errors of its brokers."""

    def __init__(self, address: Address) -> None:
        self.name, self.topic = address.name, address.path
        if not self.topic or "/" in self.topic:
            message = f"{self.name} must be kafka://host/TOPIC"
            raise ConfigError(message)
        partition = address.options.get("partition")
        if partition is not None and not partition.isdecimal():
            message = f"{self.name}: partition must be a number, got {partition!r}"
            raise ConfigError(message)
        self.partition = None if partition is None else int(partition)
        self.settings = client_settings(address) | {"error_cb": self._on_error}
        self._last: KafkaError | None = None

    def at(self, offset: int = OFFSET_INVALID) -> TopicPartition:
        """Return the partition at an offset."""
        return TopicPartition(self.topic, self.partition or 0, offset)

    def look(self, client: Any, *, only: bool = False) -> None:
        """Check that the partition is there, and ``only``: that it is the only one, or named."""
        found = client.list_topics(self.topic, timeout=_ANSWER).topics[self.topic]
        if found.error is not None:
            raise KafkaException(found.error)
        numbers = sorted(found.partitions)
        if only and self.partition is None and len(numbers) > 1:
            message = (
                f"{self.name} has {len(numbers)} partitions, which have no fixed common order: "
                "name one by ?partition=N, and start a job for each"
            )
            raise ConfigError(message)
        if (self.partition or 0) not in numbers:
            message = f"{self.name} has no such partition, but {len(numbers)} from 0"
            raise ConfigError(message)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Turn the library's errors into those that the runner knows."""
        try:
            yield
        except KafkaException as error:
            code = self._last.code() if self._last is not None else error.args[0].code()
            self._last = None
            self.fail(error.args[0] if code not in _REFUSED else KafkaError(code))

    def fail(self, error: KafkaError) -> None:
        """Raise what an error stands for."""
        code = error.code()
        if code in _PASSING or (error.retriable() and code not in _REFUSED):
            raise ConnectionError(error.str())
        if code in _FENCED:
            message = f"{self.name}: another run writes the rows of this job; end it first"
        elif code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            message = f"{self.name}: there is no such topic; make it first"
        elif code in _REFUSED:
            message = f"{self.name} refuses the user or password"
        else:
            message = f"{self.name}: {error.str()}"
        raise ConfigError(message)

    def check(self) -> None:
        """Raise if the brokers went away since the last call."""
        if self._last is not None:
            error, self._last = self._last, None
            self.fail(error)

    def _on_error(self, error: KafkaError) -> None:
        if error.code() in {KafkaError._ALL_BROKERS_DOWN, *_REFUSED}:
            self._last = error


_REFUSED = (
    KafkaError._AUTHENTICATION,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
)


class KafkaSource(MessageSource):
    """Messages of a partition.

    Parameters
    ----------
    spec : str
        ``kafka://[user@]host[:port]/TOPIC``. Options: ``partition``, ``from=start|new``;
        ``security=plaintext|ssl|sasl_plaintext|sasl_ssl``, ``mechanism``, ``ca=FILE``;
        ``password_env``, ``password_file``.
    columns : Columns
    batch_rows : int
    """

    def __init__(self, spec: str, columns: Columns, batch_rows: int) -> None:
        address = Address.parse(spec, port=PORT, options=[*_OPTIONS, "from"], secrets=["password"])
        super().__init__(address, columns, batch_rows)
        self._from = address.options.get("from", "start")
        if self._from not in {"start", "new"}:
            message = f"{self.name}: from must be start or new"
            raise ConfigError(message)
        self._topic = _Topic(address)
        self._consumer: Any = None

    def messages_after(self, at: Any) -> Iterator[tuple[Sequence[bytes], Any]]:
        """Yield the messages from an offset on."""
        self.close()
        with self._topic.guarded():
            self._consumer = consumer = _consumer(self._topic, {})
            self._topic.look(consumer, only=True)
            at = self._begin(consumer, at)
            consumer.assign([self._topic.at(at)])
        yield [], at
        while True:
            with self._topic.guarded():
                first = consumer.poll(POLL)
                found = [] if first is None else [first]
                if found and self._most > 1:
                    found += consumer.consume(self._most - 1, _GATHER)
            messages = []
            for message in found:
                if message.error() is not None:
                    self._check(message.error(), at)
                else:
                    messages.append(message.value() or b"?")
                    at = message.offset() + 1
            if not found:
                self._topic.check()
            yield messages, at

    def close(self) -> None:
        """Disconnect."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _begin(self, consumer: Any, at: int | None) -> int:
        """Return where to read on, after a check that nothing is missing."""
        low, high = consumer.get_watermark_offsets(self._topic.at(), timeout=_ANSWER)
        if at is None:
            return int(high if self._from == "new" else low)
        if not low <= at <= high:
            why = "were removed before they were read" if at < low else "were lost"
            message = (
                f"{self.name} holds the offsets {low} to {high}, and {at} is to be read next: "
                f"messages {why}. Start with a new checkpoint folder"
            )
            raise SchemaError(message)
        return at

    def _check(self, error: KafkaError, at: int) -> None:
        if error.code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:
            message = (
                f"{self.name}: offset {at} no longer exists: messages were removed before "
                "they were read. Start with a new checkpoint folder"
            )
            raise SchemaError(message)
        if error.code() != KafkaError._PARTITION_EOF:
            self._topic.fail(error)


def open_sink(spec: str, folder: Any, what: str) -> "KafkaSink":
    """Open a sink of a topic."""
    return KafkaSink(spec, what)


class KafkaSink(CountedSink):
    """Rows as JSON messages of a partition, in transactions.

    Parameters
    ----------
    spec : str
        ``kafka://[user@]host[:port]/TOPIC``, with the options of `KafkaSource` but ``from``.
    what : str
    """

    def __init__(self, spec: str, what: str) -> None:
        address = Address.parse(spec, port=PORT, options=_OPTIONS, secrets=["password"])
        super().__init__(address, what)
        self._topic = _Topic(address)
        self._producer: Any = None
        self._end: int | None = None  # of the topic, as far as its rows are counted

    def rewind(self, position: dict[str, Any] | None) -> None:
        """Stand where ``position`` says; None: a new job."""
        self._end = None if position is None else position["end"]
        super().rewind(position)

    def sync(self) -> dict[str, Any]:
        """Send what is held; return the position, with an offset before all rows to come."""
        return super().sync() | {"end": self._end}

    def arrived(self, job: str, recorded: int) -> int:
        """Fence off other runs, and count what they wrote after the recorded offset."""
        self.finish()
        with self._topic.guarded():
            self._producer = Producer(
                self._topic.settings
                | {"transactional.id": f"streamddcrp-{job}", "linger.ms": 0, "acks": "all"}
            )
            self._topic.look(self._producer)
            self._producer.init_transactions(_END)
            reader = _consumer(self._topic, {"enable.partition.eof": True})
            try:
                low, high = reader.get_watermark_offsets(self._topic.at(), timeout=_ANSWER)
                if self._end is None:
                    self._end = high
                elif not low <= self._end <= high:
                    message = (
                        f"{self.name} holds the offsets {low} to {high}, and the checkpoint "
                        f"recorded {self._end}: start again with a new checkpoint folder"
                    )
                    raise CheckpointError(message)
                reader.assign([self._topic.at(self._end)])
                return max(recorded, self._count_to(reader, job.encode(), high))
            finally:
                reader.close()

    def _count_to(self, reader: Any, job: bytes, high: int) -> int:
        """Return how many rows of a job there are, by its last message before ``high``."""
        at, n_rows = self._end or 0, 0
        end = time.monotonic() + _END
        while at < high:
            for message in reader.consume(1000, POLL):
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                at = message.offset() + (error is None)
                headers = dict((error is None and message.headers()) or [])
                if headers.get("job") == job:
                    n_rows = int(headers["row"]) + 1
            if time.monotonic() > end:
                text = "another transaction is under way, or the broker does not answer"
                raise ConnectionError(text)
        return n_rows

    def send(self, job: str, first: int, batch: Any) -> None:
        """Produce the rows, each with the job and its number, in one transaction."""
        failed: list[KafkaError] = []
        ends: list[int] = []

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                failed.append(error)
            else:
                ends.append(message.offset() + 1)

        with self._topic.guarded():
            producer, place = self._producer, self._topic.at()
            producer.begin_transaction()
            for number, line in enumerate(json_lines(batch).splitlines(), first):
                headers = {"job": job, "row": str(number)}
                while True:
                    try:
                        producer.produce(
                            place.topic, line, partition=place.partition, headers=headers,
                            on_delivery=delivered,
                        )  # fmt: skip
                    except BufferError:  # the library's queue is full
                        producer.poll(0.1)
                    else:
                        break
            producer.commit_transaction(_END)
            if failed:
                raise KafkaException(failed[0])
        self._end = max(ends)

    def finish(self) -> None:
        """Disconnect."""
        if self._producer is not None:
            self._producer.purge()
            self._producer = None


def _consumer(topic: _Topic, more: dict[str, Any]) -> Any:
    return Consumer(
        topic.settings
        | {
            "group.id": "streamddcrp",  # asked for by the library; nothing is stored
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 100,
        }
        | more
    )
