"""Kafka, on the broker in memory that its C library brings for tests.

That broker has no users, shows aborted messages, and fences no producer off: that one was is an
answer it is told to give.
"""

import json
import random
import time

import pyarrow as pa
import pytest

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.live import kafkamerge
from streamddcrp_connectors.live.kafkatopic import Topic
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.sinks import open_sink
from streamddcrp_connectors.run.sources import open_source

from .brokers import Kafka
from .live import COLUMNS, drive, expected, made, meanwhile
from .servers import free_port

kafka = pytest.importorskip("confluent_kafka")


@pytest.fixture(scope="module")
def broker():
    server = Kafka()
    yield server
    server.stop()


@pytest.fixture
def topic(broker, request):
    """Name a topic that no other test has; the first message makes it."""
    return "".join(c if c.isalnum() else "-" for c in request.node.name)


def address(broker, topic, more="?partition=0"):
    return f"kafka://{broker.hosts}/{topic}{more}"


def produce(broker, topic, messages, pause=0.0, partition=0):
    producer = kafka.Producer({"bootstrap.servers": broker.hosts, "linger.ms": 0})
    for message in messages:
        producer.produce(topic, message, partition=partition)
        producer.poll(0)
        time.sleep(pause)
    assert producer.flush(20) == 0


def read(broker, topic):
    """Return all messages, by the library's own consumer."""
    consumer = kafka.Consumer({"bootstrap.servers": broker.hosts, "group.id": "reader"})
    consumer.assign([kafka.TopicPartition(topic, 0, 0)])
    found = []
    while some := consumer.consume(10_000, 1.0):
        found += [json.loads(message.value()) for message in some]
    consumer.close()
    return found


def killed(broker, topic, folder, n, kills, seed=0):
    texts = made(n)
    produce(broker, topic, texts[:1])
    sink = address(broker, f"{topic}-out", "")
    with meanwhile(produce, broker, topic, texts[1:], 0.15 * kills / n):
        drive(folder / "job", address(broker, topic), n, kills=kills, seed=seed, sink=sink)
    out, events = expected(folder / "alone", texts)
    assert read(broker, f"{topic}-out") == out
    path = folder / "job" / "events.jsonl"
    assert [json.loads(line) for line in path.read_text().splitlines()] == events


def test_killed(broker, topic, tmp_path):
    killed(broker, topic, tmp_path, 300, 3)


@pytest.mark.slow
def test_killed_fifty_times(broker, topic, tmp_path):
    killed(broker, topic, tmp_path, 6000, 50, seed=1)


def taken(stream, n):
    found, at = [], None
    end = time.monotonic() + 120
    while len(found) < n and time.monotonic() < end:
        messages, at = next(stream)
        found += messages
    return found, at


def test_reading_on_after_any_offset(broker, topic):
    produce(broker, topic, [b"%d" % i for i in range(20)])
    source = open_source(address(broker, topic), COLUMNS, batch_rows=7)
    assert taken(source.messages_after(None), 20) == ([b"%d" % i for i in range(20)], 20)
    assert taken(source.messages_after(13), 7)[0] == [b"%d" % i for i in range(13, 20)]
    with pytest.raises(SchemaError, match="holds the offsets 0 to 20, and 21 is to be read next"):
        next(source.messages_after(21))
    source.close()


def test_from_new(broker, topic):
    produce(broker, topic, [b"old"])
    source = open_source(address(broker, topic, "?partition=0&from=new"), COLUMNS)
    _, at = next(source.messages_after(None))
    produce(broker, topic, [b"new"])
    assert taken(source.messages_after(at), 1)[0] == [b"new"]
    source.close()


def test_one_partition_of_many(broker, topic):
    produce(broker, topic, [b"x"], partition=1)  # the broker makes four
    source = open_source(address(broker, topic, "?partition=1"), COLUMNS)
    assert taken(source.messages_after(None), 1)[0] == [b"x"]
    source.close()
    source = open_source(address(broker, topic, "?partition=9"), COLUMNS)
    with pytest.raises(ConfigError, match="has no such partition"):
        next(source.messages_after(None))
    source.close()


def stamped(broker, topic, messages):
    """Send messages of (partition, time stamp); return them as they are read."""
    producer = kafka.Producer({"bootstrap.servers": broker.hosts, "linger.ms": 0})
    for number, (partition, stamp) in enumerate(messages):
        text = b"%d at %d in %d" % (number, stamp, partition)
        producer.produce(topic, text, partition=partition, timestamp=stamp)
        assert producer.flush(60) == 0
    return [b"%d at %d in %d" % (n, t, p) for n, (p, t) in enumerate(messages)]


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
        stream, found, places = source.messages_after(None), [], []
        while len(found) < 40:
            messages, at = next(stream)
            assert len(messages) <= size
            found += messages
            places.append((len(found), at))
        assert found == wanted
        for n, at in places[1 :: max(len(places) // 4, 1)]:
            again = source.messages_after(json.loads(json.dumps(at)))
            assert taken(again, 40 - n)[0] == wanted[n:]
        source.close()
    begun = places[0][1]  # when the round had begun
    later = stamped(broker, topic, [(2, 1), (1, 1), (0, 1)])  # earlier than all by their stamps
    source = open_source(address(broker, topic, ""), COLUMNS)
    found, at = taken(source.messages_after(begun), 43)
    assert found[:40] == wanted
    assert found[40:] == in_order(later)
    assert sum(at["at"]) == 43
    source.close()
    with pytest.raises(SchemaError, match="is to be read next: messages were lost"):
        next(source.messages_after({"at": [99, 0, 0], "end": [99, 0, 0]}))
    source = open_source(address(broker, topic, "?from=new"), COLUMNS)
    stream = source.messages_after(None)
    next(stream)
    newest = stamped(broker, topic, [(1, 5)])
    assert taken(stream, 1)[0] == newest
    source.close()


def test_a_topic_that_gets_more_partitions(broker, topic, monkeypatch):
    broker.tell("topic", topic, 3)
    sent = stamped(broker, topic, [(0, 1), (1, 2), (2, 3)])
    source = open_source(address(broker, topic), COLUMNS)
    _, at = taken(source.messages_after(None), 1)  # when it had only the first
    source.close()
    look, known = Topic.look, [2]
    monkeypatch.setattr(Topic, "look", lambda self, client: min(look(self, client), *known))
    monkeypatch.setattr(kafkamerge, "LOOK", 0.1)
    source = open_source(address(broker, topic, ""), COLUMNS)
    stream = source.messages_after(at)
    assert taken(stream, 1)[0] == sent[1:2]
    known[0] = 3
    assert taken(stream, 1)[0] == sent[2:]
    source.close()


def killed_among_partitions(broker, topic, folder, n, kills, seed=0):
    """Each key has a partition, as usual: what comes of it does not depend on the others."""
    columns = Columns("t", "k", ("a", "b"))
    broker.tell("topic", topic, 3)
    texts = made(n)

    def publish():
        for text in texts:
            partition = ["x", "y", "zz"].index(json.loads(text)["k"])
            produce(broker, topic, [text], 0.15 * kills / n, partition)

    place = address(broker, topic, "")
    sink = address(broker, f"{topic}-out", "")
    with meanwhile(publish):
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
    killed_among_partitions(broker, topic, tmp_path, 6000, 50, seed=1)


def test_rows_that_have_arrived_are_left_out(broker, topic):
    batch = pa.record_batch({"row": [0, 1]})
    first, second = (open_sink(address(broker, topic, ""), None, "output") for _ in range(2))
    first.rewind(None)
    position = first.sync()
    first.write(batch.slice(0, 1))
    first.sync()
    second.rewind(position)  # a run that died before its commit
    second.write(batch)
    assert second.sync()["rows"] == 2
    for sink in (first, second):
        sink.finish()
    assert read(broker, topic) == [{"row": 0}, {"row": 1}]


REQUESTS = {"InitProducerId": 22, "AddPartitionsToTxn": 24, "EndTxn": 26}


@pytest.mark.parametrize("asked", ["AddPartitionsToTxn", "EndTxn"])
@pytest.mark.parametrize("code", ["PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH"])
def test_a_run_that_was_fenced_off_ends(broker, topic, asked, code):
    sink = open_sink(address(broker, topic, ""), None, None)
    sink.rewind(None)
    sink.write(pa.record_batch({"row": [0]}))
    broker.tell("error", REQUESTS[asked], getattr(kafka.KafkaError, code))
    with pytest.raises(ConfigError, match="another run writes the rows of this job"):
        sink.sync()
    sink.finish()


def test_the_next_run_of_a_job_has_its_name(broker, topic):
    """So the broker fences off the one before."""
    first, second, other = (open_sink(address(broker, topic, ""), None, None) for _ in range(3))
    first.rewind(None)
    broker.tell("error", REQUESTS["InitProducerId"], kafka.KafkaError.PRODUCER_FENCED)
    with pytest.raises(ConfigError, match="another run writes the rows of this job"):
        second.rewind(first.sync())
    other.rewind(None)
    assert first._job == second._job != other._job
    for sink in (first, second, other):
        sink.finish()


def test_a_broker_that_is_away(broker, topic):
    broker.tell("topic", topic, 2)
    stamped(broker, topic, [(0, 1), (1, 1)])
    source = open_source(address(broker, topic, ""), COLUMNS)
    stream = source.messages_after(None)
    _, at = taken(stream, 2)
    sink = open_sink(address(broker, topic, ""), None, None)
    sink.rewind(None)
    sink.write(pa.record_batch({"row": [0]}))
    broker.tell("down")
    try:
        with pytest.raises(ConnectionError):
            sink.sync()
        with pytest.raises(ConnectionError):
            taken(stream, 1)
    finally:
        broker.tell("up")
    again(sink.sync)
    found = again(lambda: taken(source.messages_after(at), 1)[0])
    assert [json.loads(text) for text in found] == [{"row": 0}]
    source.close()
    sink.finish()


def again(work):
    """Do what the runner does while a server is away."""
    end = time.monotonic() + 120
    while True:
        try:
            return work()
        except ConnectionError:
            assert time.monotonic() < end
            time.sleep(0.1)


def test_what_errors_stand_for(broker, topic):
    sink = open_sink(address(broker, topic), None, "output")
    for code, match in (
        (kafka.KafkaError.PRODUCER_FENCED, "another run writes the rows of this job"),
        (kafka.KafkaError.UNKNOWN_TOPIC_OR_PART, "there is no such topic; make it first"),
        (kafka.KafkaError.SASL_AUTHENTICATION_FAILED, "refuses the user or password"),
        (kafka.KafkaError.MSG_SIZE_TOO_LARGE, "too large"),
    ):
        with pytest.raises(ConfigError, match=match):
            sink._topic.fail(kafka.KafkaError(code))
    with pytest.raises(ConnectionError):
        sink._topic.fail(kafka.KafkaError(kafka.KafkaError._TRANSPORT))


def test_nothing_listens():
    source = open_source(f"kafka://127.0.0.1:{free_port()}/a", COLUMNS)
    with pytest.raises(ConnectionError):
        next(source.messages_after(None))
    source.close()
    sink = open_sink(f"kafka://127.0.0.1:{free_port()}/a", None, "output")
    with pytest.raises(ConnectionError):
        sink.rewind(None)
    sink.finish()


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("kafka://h", "must be kafka://host/TOPIC"),
        ("kafka://h/t?partition=x", "partition must be a number"),
        ("kafka://h/t?security=x", "security must be"),
        ("kafka://h/t?from=x", "from must be"),
    ],
)
def test_addresses_that_cannot_be_used(spec, match):
    with pytest.raises(ConfigError, match=match):
        open_source(spec, COLUMNS)


def test_users_and_passwords(monkeypatch):
    from streamddcrp_connectors.live.address import Address
    from streamddcrp_connectors.live.kafkatopic import client_settings

    monkeypatch.setenv("PW", "s3cret")
    address = Address.parse("kafka://me@h/t?password_env=PW", port=9092)
    found = client_settings(address)
    assert found["security.protocol"] == "sasl_ssl"
    assert (found["sasl.username"], found["sasl.password"]) == ("me", "s3cret")
    assert "s3cret" not in address.name
