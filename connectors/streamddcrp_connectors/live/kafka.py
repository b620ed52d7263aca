"""Messages of Kafka: ``kafka://host:9092/TOPIC``.

The place is the offset, in our own checkpoint: there is no group of consumers. Several partitions
are merged, in an order that is the same at each reading; see `kafkamerge`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.live.kafkamerge import GATHER, merged
from streamddcrp_connectors.live.kafkatopic import OPTIONS, PORT, Topic
from streamddcrp_connectors.live.messages import MessageSource
from streamddcrp_connectors.run.address import Address
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.gather import POLL


class KafkaSource(MessageSource):
    """Messages of a partition, or of all.

    Parameters
    ----------
    spec : str
        ``kafka://[user@]host[:port]/TOPIC``. Options: ``partition``, ``from=start|new``;
        ``security=plaintext|ssl|sasl_plaintext|sasl_ssl``, ``mechanism``, ``ca=FILE``;
        ``password_env``, ``password_file``.
    """

    def __init__(self, spec: str, columns: Columns, batch_rows: int) -> None:
        address = Address.parse(spec, port=PORT, options=[*OPTIONS, "from"], secrets=["password"])
        super().__init__(address, columns, batch_rows)
        self._from = address.options.get("from", "start")
        if self._from not in {"start", "new"}:
            raise ConfigError(f"{self.name}: from must be start or new")
        self._topic = Topic(address)

    def messages_after(self, at: Any) -> Iterator[tuple[Sequence[bytes], Any]]:
        """Yield the messages from an offset on, or from a place of all partitions."""
        self.close()
        topic, new = self._topic, self._from == "new"
        with topic.guarded():
            consumer = topic.consumer()
            several = topic.look(consumer) > 1 or isinstance(at, dict)
        if several and topic.partition is None:
            yield from merged(topic, at, lambda: self._most, new=new)
        with topic.guarded():
            at = topic.begin(consumer, at, new=new)
            consumer.assign([topic.at(at)])
        yield [], at
        while True:
            with topic.guarded():
                first = consumer.poll(POLL)
                found = [] if first is None else [first]
                if found and self._most > 1:
                    found += consumer.consume(self._most - 1, GATHER)
            messages = []
            for message in found:
                if message.error() is not None:
                    topic.refuse(message.error(), at)
                else:
                    messages.append(message.value() or b"?")
                    at = message.offset() + 1
            if not found:
                topic.check()
            yield messages, at

    def close(self) -> None:
        self._topic.close()
