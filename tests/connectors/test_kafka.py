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


def produce(broker, topic, messages, pause=0.0, partition=lambda _: 0):
    settings = {"bootstrap.servers": broker.hosts, "linger.ms": 0, "enable.idempotence": True}
    producer = kafka.Producer(settings)
    for message in messages:
        producer.produce(topic, message, partition=partition(message))
        producer.poll(0)
        time.sleep(pause)
    assert producer.flush(120) == 0


def stamped(broker, topic, messages):
    """Send messages of (partition, time stamp); return them as they are read."""
    producer = kafka.Producer({"bootstrap.servers": broker.hosts, "linger.ms": 0})
    for number, (partition, stamp) in enumerate(messages):
        text = b"%d at %d in %d" % (number, stamp, partition)
        producer.produce(topic, text, partition=partition, timestamp=stamp)
        assert producer.flush(60) == 0
    return [b"%d at %d in %d" % (n, t, p) for n, (p, t) in enumerate(messages)]


def outages(broker, n, seed):
    """Let the broker be away, again and again."""
    draw = random.Random(seed)
    for _ in range(n):
        time.sleep(draw.uniform(0.5, 1.5))
        broker.tell("down")
        time.sleep(draw.uniform(0.0, 0.5))
        broker.tell("up")


def read(broker, topic):
    """Return all messages, by the library's own consumer."""
    consumer = kafka.Consumer({"bootstrap.servers": broker.hosts, "group.id": "reader"})
    consumer.assign([kafka.TopicPartition(topic, 0, 0)])
    found = []
    while some := consumer.consume(10_000, 1.0):
        found += [json.loads(message.value()) for message in some]
    consumer.close()
    return found


def killed(broker, topic, folder, n, kills, away=0, seed=0):
    texts = made(n)
    produce(broker, topic, texts[:1])
    sink = address(broker, f"{topic}-out", "")
    sending = meanwhile(produce, broker, topic, texts[1:], 0.15 * kills / n)
    with sending, meanwhile(outages, broker, away, seed):
        drive(folder / "job", address(broker, topic), n, kills=kills, seed=seed, sink=sink)
    out, events = expected(folder / "alone", texts)
    assert read(broker, f"{topic}-out") == out
    path = folder / "job" / "events.jsonl"
    assert [json.loads(line) for line in path.read_text().splitlines()] == events


def test_killed(broker, topic, tmp_path):
    killed(broker, topic, tmp_path, 300, 3)


@pytest.mark.slow
def test_killed_fifty_times(broker, topic, tmp_path):
    killed(broker, topic, tmp_path, 6000, 50, away=5, seed=1)


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
    assert taken(source.after(None), 20) == ([b"%d" % i for i in range(20)], 20)
    assert taken(source.after(13), 7)[0] == [b"%d" % i for i in range(13, 20)]
    with pytest.raises(SchemaError, match="holds the offsets 0 to 20, and 21 is to be read next"):
        next(source.after(21))
    source.close()


def test_from_new(broker, topic):
    produce(broker, topic, [b"old"])
    source = open_source(address(broker, topic, "?partition=0&from=new"), COLUMNS)
    _, at = next(source.after(None))
    produce(broker, topic, [b"new"])
    assert taken(source.after(at), 1)[0] == [b"new"]
    source.close()


def test_one_partition_of_many(broker, topic):
    produce(broker, topic, [b"x"], partition=lambda _: 1)  # the broker makes four
    source = open_source(address(broker, topic, "?partition=1"), COLUMNS)
    assert taken(source.after(None), 1)[0] == [b"x"]
    source.close()
    source = open_source(address(broker, topic, "?partition=9"), COLUMNS)
    with pytest.raises(ConfigError, match="has no such partition"):
        next(source.after(None))
    source.close()


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
    stream = source.after(None)
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
    found = again(lambda: taken(source.after(at), 1)[0])
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
        next(source.after(None))
    source.close()
    sink = open_sink(f"kafka://127.0.0.1:{free_port()}/a", None, "output")
    with pytest.raises(ConnectionError):
        sink.rewind(None)
    sink.finish()


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("kafka://h", "must be kafka://host/TOPIC"),
        ("kafka://h/t?partition=x", "partition must be a whole number"),
        ("kafka://h/t?security=x", "security must be"),
        ("kafka://h/t?from=x", "from must be"),
    ],
)
def test_addresses_that_cannot_be_used(spec, match):
    with pytest.raises(ConfigError, match=match):
        open_source(spec, COLUMNS)


def test_users_and_passwords(monkeypatch):
    from streamddcrp_connectors.live.kafkatopic import client_settings
    from streamddcrp_connectors.run.address import Address

    monkeypatch.setenv("PW", "s3cret")
    address = Address.parse("kafka://me@h/t?password_env=PW", port=9092)
    found = client_settings(address)
    assert found["security.protocol"] == "sasl_ssl"
    assert (found["sasl.username"], found["sasl.password"]) == ("me", "s3cret")
    assert "s3cret" not in address.name
