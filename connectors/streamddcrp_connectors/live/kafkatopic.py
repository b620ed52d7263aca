"""What the source and the sink of Kafka share: a topic, its clients and their errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, TopicPartition

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.run.address import Address

PORT = 9092
OPTIONS = ["partition", "security", "mechanism", "ca"]
ANSWER = 1.5  # seconds
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
    """Return the settings of Kafka's library for an address.

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


class Topic:
    """A topic or one of its partitions, and the errors of its brokers."""

    def __init__(self, address: Address) -> None:
        self.name, self.topic = address.name, address.require("TOPIC", one_host=False)
        one = "partition" in address.options
        self.partition = address.number("partition", 0) if one else None
        self.settings = client_settings(address) | {"error_cb": self._on_error}
        self._last: KafkaError | None = None
        self._consumers: list[Any] = []

    def at(self, offset: int = OFFSET_INVALID, number: int | None = None) -> TopicPartition:
        """Return a partition at the offset ``number``, or at the start the address names."""
        if number is None:
            number = self.partition or 0
        return TopicPartition(self.topic, number, offset)

    def look(self, client: Any) -> int:
        """Return how many partitions there are; the named one must exist."""
        found = client.list_topics(self.topic, timeout=ANSWER).topics[self.topic]
        if found.error is not None:
            raise KafkaException(found.error)
        n = len(found.partitions)
        if (self.partition or 0) >= n:
            raise ConfigError(f"{self.name} has no such partition, but {n} from 0")
        return n

    def consumer(self, **more: Any) -> Any:
        """Return a consumer of committed messages; `close` closes it."""
        settings = {
            "group.id": "streamddcrp",  # asked for by the library; nothing is stored
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 30,  # a broker that does not wake for a new row answers then
        }
        self._consumers.append(Consumer(self.settings | settings | more))
        return self._consumers[-1]

    def close(self) -> None:
        for consumer in self._consumers:
            consumer.close()
        self._consumers = []

    def begin(self, consumer: Any, at: int | None, *, new: bool, number: int | None = None) -> int:
        """Return where to continue in a partition, after checking that nothing is missing."""
        low, high = consumer.get_watermark_offsets(self.at(number=number), timeout=ANSWER)
        if at is None:
            return int(high if new else low)
        if not low <= at <= high:
            why = "were removed before they were read" if at < low else "were lost"
            raise SchemaError(
                f"{self.name} holds the offsets {low} to {high}, and {at} is to be read next: "
                f"messages {why}. Start with a new checkpoint folder"
            )
        return at

    def refuse(self, error: KafkaError, at: int) -> None:
        """Raise the error that replaces a message, unless it is the end of a partition."""
        if error.code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:
            raise SchemaError(
                f"{self.name}: offset {at} no longer exists: messages were removed before "
                "they were read. Start with a new checkpoint folder"
            )
        if error.code() != KafkaError._PARTITION_EOF:
            self.fail(error)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            code = self._last.code() if self._last is not None else error.args[0].code()
            self._last = None
            self.fail(error.args[0] if code not in _REFUSED else KafkaError(code))

    def fail(self, error: KafkaError) -> None:
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
        """Raise if the brokers became unavailable since the last call."""
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
