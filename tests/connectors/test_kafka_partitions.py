"""All partitions of a Kafka topic in one order, which no crash changes."""

import json
import random
from contextlib import closing

import pytest

from streamddcrp.errors import SchemaError
from streamddcrp_connectors.live import kafkamerge
from streamddcrp_connectors.live.kafkatopic import Topic
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.config import recipe_for
from streamddcrp_connectors.run.loop import open_store, run
from streamddcrp_connectors.run.models import Models
from streamddcrp_connectors.run.sinks import open_sink
from streamddcrp_connectors.run.sources import open_source

from .brokers import Kafka
from .live import COLUMNS, drive, expected, made, meanwhile
from .test_kafka import address, outages, produce, read, stamped, taken
from .toy import Toy

kafka = pytest.importorskip("confluent_kafka")


@pytest.fixture(scope="module")
def broker():
    server = Kafka()
    yield server
    server.stop()


@pytest.fixture
def topic(request):
    """Name a topic that no other test has."""
    return request.node.name.replace("_", "-")


def in_order(messages):
    """Merge slowly: of the first messages of all partitions the earliest, again and again."""
    parts = {}
    for text in messages:
        _, _, stamp, _, partition = text.decode().split()
        parts.setdefault(int(partition), []).append((int(stamp), int(partition), text))
    found = []
    while any(parts.values()):
        first = min(part[0][:2] for part in parts.values() if part)
        found.append(parts[first[1]].pop(0)[2])
    return found


def test_partitions_are_merged_by_time(broker, topic):
    broker.tell("topic", topic, 3)
    draw = random.Random(0)
    first = [(draw.choice([0, 0, 0, 1]), draw.randrange(1000, 1020)) for _ in range(40)]
    sent = stamped(broker, topic, first)  # the last partition stays empty
    wanted = in_order(sent)
    for size in (1, 7, 1000):
        source = open_source(address(broker, topic, ""), COLUMNS, batch_rows=size)
        source._most = size
        stream, found, places = source.after(None), [], []
        while len(found) < 40:
            messages, at = next(stream)
            assert len(messages) <= size
            found += messages
            places.append((len(found), at))
        assert found == wanted
        for n, at in places[1 :: max(len(places) // 4, 1)]:
            again = source.after(json.loads(json.dumps(at)))
            assert taken(again, 40 - n)[0] == wanted[n:]
        source.close()
    begun = places[0][1]  # when the round had begun
    later = stamped(broker, topic, [(2, 1), (1, 1), (0, 1)])  # earlier than all by their stamps
    source = open_source(address(broker, topic, ""), COLUMNS)
    found, at = taken(source.after(begun), 43)
    assert found[:40] == wanted
    assert found[40:] == in_order(later)
    assert sum(at["at"]) == 43
    source.close()
    with pytest.raises(SchemaError, match="is to be read next: messages were lost"):
        next(source.after({"at": [99, 0, 0], "end": [99, 0, 0]}))
    source = open_source(address(broker, topic, "?from=new"), COLUMNS)
    stream = source.after(None)
    next(stream)
    newest = stamped(broker, topic, [(1, 5)])
    assert taken(stream, 1)[0] == newest
    source.close()


def test_a_topic_that_gets_more_partitions(broker, topic, monkeypatch):
    broker.tell("topic", topic, 3)
    sent = stamped(broker, topic, [(0, 1), (1, 2), (2, 3)])
    source = open_source(address(broker, topic), COLUMNS)
    _, at = taken(source.after(None), 1)  # when it had only the first
    source.close()
    look, known = Topic.look, [2]
    monkeypatch.setattr(Topic, "look", lambda self, client: min(look(self, client), *known))
    monkeypatch.setattr(kafkamerge, "LOOK", 0.1)
    source = open_source(address(broker, topic, ""), COLUMNS)
    stream = source.after(at)
    assert taken(stream, 1)[0] == sent[1:2]
    known[0] = 3
    assert taken(stream, 1)[0] == sent[2:]
    source.close()


def by_key(text):
    return ["x", "y", "zz"].index(json.loads(text)["k"])


def killed_among_partitions(broker, topic, folder, n, kills, away=0, seed=0):
    """Each key has a partition, as usual: what comes of it does not depend on the others."""
    columns = Columns("t", "k", ("a", "b"))
    broker.tell("topic", topic, 3)
    texts = made(n)
    place = address(broker, topic, "")
    sink = address(broker, f"{topic}-out", "")
    sending = meanwhile(produce, broker, topic, texts, 0.15 * kills / n, by_key)
    with sending, meanwhile(outages, broker, away, seed):
        drive(folder / "job", place, n, kills=kills, seed=seed, sink=sink, key="k")
    found, (out, _) = read(broker, f"{topic}-out"), expected(folder / "alone", texts, columns)
    assert [row.pop("row") for row in found] == list(range(n))
    for row in out:
        del row["row"]
    for key in ("x", "y", "zz"):
        assert [r for r in found if r["key"] == key] == [r for r in out if r["key"] == key]


def test_killed_among_partitions(broker, topic, tmp_path):
    killed_among_partitions(broker, topic, tmp_path, 300, 3)


@pytest.mark.slow
def test_killed_fifty_times_among_partitions(broker, topic, tmp_path):
    killed_among_partitions(broker, topic, tmp_path, 6000, 50, away=5, seed=1)


class CrashError(Exception):
    """The end of a process."""


def test_results_that_were_sent_settle_the_order(broker, topic, tmp_path, monkeypatch):
    """Though what comes then has earlier time stamps, and no commit had the results."""
    broker.tell("topic", topic, 2)
    texts = [json.dumps({"t": 0.0, "a": i, "b": 1}) for i in range(3)]

    def send(number, partition, stamp):
        producer = kafka.Producer({"bootstrap.servers": broker.hosts})
        producer.produce(topic, texts[number], partition=partition, timestamp=stamp)
        assert producer.flush(60) == 0

    def go(n):
        def ended(summary):
            if summary.rows >= n:
                raise KeyboardInterrupt

        source = open_source(address(broker, topic, ""), COLUMNS)
        sink = open_sink(address(broker, f"{topic}-out", ""), None, None)
        with open_store(tmp_path / "ck") as store, closing(source):
            run(source, recipe_for(Toy, {}, Toy.from_bytes), sink, store=store, progress=ended)

    save = Models.save

    def crash(models, cursor):
        if cursor["rows"]:
            raise CrashError
        save(models, cursor)

    send(0, 1, 20)
    send(1, 1, 30)
    monkeypatch.setattr(Models, "save", crash)
    with pytest.raises(CrashError):
        go(2)
    monkeypatch.setattr(Models, "save", save)
    assert read(broker, f"{topic}-out")
    send(2, 0, 10)
    go(3)
    assert read(broker, f"{topic}-out") == expected(tmp_path / "alone", texts)[0]
