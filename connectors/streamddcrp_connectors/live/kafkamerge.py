"""Several partitions of a Kafka topic as one stream.

Partitions have no common order, and arrival order varies, so they are read in rounds. A round is
what each partition held when it began, up to an offset ``end``. Its messages are merged by time
stamp and, if equal, by partition number; each partition keeps its order. A round is first yielded
without messages. The runner commits that before the first row, so the same rows come in the same
order after a crash.
"""

import time
from collections import deque
from collections.abc import Callable, Generator
from heapq import heapify, heappop, heapreplace
from typing import Any

from confluent_kafka import KafkaError

from streamddcrp_connectors.live.kafkatopic import ANSWER, Topic
from streamddcrp_connectors.run.gather import POLL

GATHER = 0.002  # seconds to wait for more messages after the first
LOOK = 30.0  # seconds between two counts of the partitions
_QUEUED = 1 << 16  # KiB that the clients of all partitions fetch ahead


Rounds = Generator[tuple[list[bytes], Any], None, Any]


def merged(topic: Topic, at: Any, most: Callable[[], int], *, new: bool) -> Rounds:
    """Yield the messages of all partitions after a place, each time with the next place.

    ``at`` may be an offset, if the topic had a single partition. ``most`` returns how many messages
    may be yielded at once.
    """
    while True:  # once more each time the topic gets more partitions
        topic.close()
        at = yield from _rounds(topic, at, most, new)


def _rounds(topic: Topic, at: Any, most: Callable[[], int], new: bool) -> Rounds:
    """Yield messages until the topic has more partitions; return the place."""
    ends = at if isinstance(at, dict) else {"at": [], "end": []}
    if isinstance(at, int):
        ends = {"at": [at], "end": [at]}
    with topic.guarded():
        client = topic.consumer()
        n = topic.look(client)
        added = [None] * (n - len(ends["at"]))
        partitions = [
            _Partition(topic, number, *where, n=n, new=new and at is None)
            for number, where in enumerate(
                zip(ends["at"] + added, ends["end"] + added, strict=True)
            )
        ]
    seconds, due = ANSWER, time.monotonic() + LOOK
    while True:
        messages: list[bytes] = []
        with topic.guarded():
            if all(one.at == one.end for one in partitions):
                if time.monotonic() > due:
                    due = time.monotonic() + LOOK
                    if topic.look(client) > n:
                        return _place(partitions)
                for one in partitions:
                    one.look(seconds)
                seconds = 0.0
                if all(one.at == one.end for one in partitions):
                    for one in partitions:
                        one.fetch(most(), 0.0)
                    time.sleep(POLL / 5)
            else:
                for one in partitions:
                    if one.lacking:
                        one.fetch(most(), POLL)
                messages = _next(partitions, most())
        yield messages, _place(partitions)


def _place(partitions: list["_Partition"]) -> dict[str, list[int]]:
    return {"at": [one.at for one in partitions], "end": [one.end for one in partitions]}


def _next(partitions: list["_Partition"], most: int) -> list[bytes]:
    """Return the round's next messages that no other can precede."""
    found: list[bytes] = []
    if not any(one.lacking for one in partitions):
        heads = [one.head for one in partitions if one.head is not None]
        heapify(heads)
        while heads and len(found) < most:
            one = heads[0][2]
            found.append(one.take())
            if one.head is not None:
                heapreplace(heads, one.head)
            elif one.lacking:
                break
            else:
                heappop(heads)
    for one in partitions:
        if one.head is None and not one.lacking:
            one.at = one.end
    return found


class _Partition:
    """The position in one partition, read by a client of its own."""

    def __init__(
        self, topic: Topic, number: int, at: int | None, end: int | None, *, n: int, new: bool
    ) -> None:
        self.number, self._topic = number, topic
        self._client = topic.consumer(
            **{"enable.partition.eof": True, "queued.max.messages.kbytes": _QUEUED // n}
        )
        self.at = topic.begin(self._client, at, new=new, number=number)
        self.end = self.at if end is None else end
        self._known = self.at  # earlier ones are all held
        self._held: deque[Any] = deque()
        self._client.assign([topic.at(self.at, number)])

    @property
    def head(self) -> tuple[int, int, "_Partition"] | None:
        """The time stamp of the round's next message, for comparison."""
        if self._held and self._held[0].offset() < self.end:
            return self._held[0].timestamp()[1], self.number, self
        return None

    @property
    def lacking(self) -> bool:
        """Whether the round still expects a message."""
        return not self._held and max(self.at, self._known) < self.end

    def take(self) -> bytes:
        message = self._held.popleft()
        self.at = message.offset() + 1
        return message.value() or b"?"

    def fetch(self, most: int, seconds: float) -> None:
        """Wait for messages, unless ``most`` are already held."""
        if len(self._held) >= most:
            return
        first = self._client.poll(seconds)
        found = [] if first is None else [first, *self._client.consume(most, GATHER)]
        for message in found:
            if message.error() is None:
                self._held.append(message)
                continue
            self._topic.refuse(message.error(), self.at)
            if message.error().code() == KafkaError._PARTITION_EOF:
                self._known = message.offset()
        if not found:
            self._topic.check()

    def look(self, seconds: float) -> None:
        """End the round at the partition's present end; 0 s: as in the latest messages."""
        where = self._topic.at(number=self.number)
        how = {"timeout": seconds} if seconds else {"cached": True}
        _, high = self._client.get_watermark_offsets(where, **how)
        self.end = max(self.end, high)
