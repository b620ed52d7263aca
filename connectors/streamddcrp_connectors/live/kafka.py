"""Kafka: ``kafka://host:9092/TOPIC``.

The source stores its offset in our checkpoint and joins no consumer group. It merges partitions in
an order that is the same at each reading; see `kafkamerge`.

The sink writes to one partition in transactions. The headers of each message name the job and the
row. A resumed run fences off the previous one by the job's ``transactional.id``, and reads what
that one wrote after the recorded offset.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from streamddcrp.errors import CheckpointError
from streamddcrp_connectors.live.counted import CountedSink
from streamddcrp_connectors.live.kafkamerge import GATHER, merged
from streamddcrp_connectors.live.kafkatopic import ANSWER, OPTIONS, PORT, Topic
from streamddcrp_connectors.live.messages import MessageSource
from streamddcrp_connectors.run.address import Address
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.gather import POLL
from streamddcrp_connectors.run.sinks import json_lines

_END = 4.0  # seconds to end a transaction


class KafkaSource(MessageSource):
    """Messages of one or all partitions of ``kafka://[user@]host[:port]/TOPIC``.

    Options: ``partition``, ``from=start|new``; ``security=plaintext|ssl|sasl_plaintext|sasl_ssl``,
    ``mechanism``, ``ca=FILE``; ``password_env``, ``password_file``.
    """

    def __init__(self, spec: str, columns: Columns, batch_rows: int) -> None:
        address = Address.parse(spec, port=PORT, options=[*OPTIONS, "from"], secrets=["password"])
        super().__init__(address, columns, batch_rows)
        self._topic, self._new = Topic(address), address.begins_new

    def after(self, at: Any) -> Iterator[tuple[Sequence[bytes], Any]]:
        """Yield the messages from an offset or, with several partitions, from a place."""
        self.close()
        topic, new = self._topic, self._new
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


class KafkaSink(CountedSink):
    """Rows as JSON messages of a partition, in transactions; options without ``from``."""

    def __init__(self, spec: str, folder: Any, what: str) -> None:
        address = Address.parse(spec, port=PORT, options=OPTIONS, secrets=["password"])
        super().__init__(address, what)
        self._topic = Topic(address)
        self._producer: Any = None
        self._end: int | None = None  # offset up to which rows are counted

    def rewind(self, position: dict[str, Any] | None) -> None:
        self._end = None if position is None else position["end"]
        super().rewind(position)

    def sync(self) -> dict[str, Any]:
        """Send pending rows; return the position, with an offset before all later rows."""
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
            reader = self._topic.consumer(**{"enable.partition.eof": True})
            try:
                low, high = reader.get_watermark_offsets(self._topic.at(), timeout=ANSWER)
                if self._end is None:
                    self._end = high
                elif not low <= self._end <= high:
                    raise CheckpointError(
                        f"{self.name} holds the offsets {low} to {high}, and the checkpoint "
                        f"recorded {self._end}: start again with a new checkpoint folder"
                    )
                reader.assign([self._topic.at(self._end)])
                return max(recorded, self._count_to(reader, job.encode(), high))
            finally:
                self._topic.close()

    def _count_to(self, reader: Any, job: bytes, high: int) -> int:
        """Return a job's row count, found in its last message before ``high``."""
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
        """Produce the rows in one transaction, each with its job and number."""
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
        if self._producer is not None:
            self._producer.purge()
            self._producer = None
