"""What goes wrong at a server in mid-stream: each server, each kind of trouble, nothing lost."""

import json
import re
import signal
import sqlite3
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pytest

from .brokers import Kafka as Broker
from .brokers import Mosquitto, Postgres
from .brokers import started as started_there
from .servers import free_port
from .test_mqtt import publish, subscribe
from .test_servers import (
    KEPT,
    Nats,
    Redis,
    do,
    expected,
    finish,
    heard,
    messages,
    start,
    stop,
    until,
)

__all__ = ["do"]


class Mqtt:
    """Rows from a topic to a file."""

    def __init__(self, server, folder):
        self.server, self.folder = server, folder
        self.source = f"mqtt://127.0.0.1:{server.port}/rows?journal={folder}/inbox"
        self.sink = str(folder / "out.jsonl")

    def publish(self, sent):
        publish(self.server.port, sent, topic="rows", qos=2)

    def results(self):
        path = Path(self.sink)
        return path.read_bytes().splitlines() if path.exists() else []


class Table:
    """Rows from a table to a table."""

    def __init__(self, server, folder):
        self.server = server
        where = f"postgresql://postgres@127.0.0.1:{server.port}/postgres"
        self.source, self.sink = f"{where}/rows?order=id", f"{where}/results"
        server.do("create table rows (id bigserial primary key, t float8, a float8, b float8)")

    def publish(self, sent):
        with self.server.connect() as link:
            for text in sent:
                query = "insert into rows (t, a, b) values (%(t)s, %(a)s, %(b)s)"
                link.execute(query, json.loads(text))

    def results(self):
        try:
            return self.server.read("select row from results order by row")
        except Exception:  # not made yet, or away
            return []


class Kafka:
    """From one topic to another of a broker that can be away."""

    def __init__(self, broker):
        self.server, self.broker = self, broker
        for topic in ("in", "out"):
            broker.tell("topic", topic, 1)
        self.source, self.sink = (f"kafka://{broker.hosts}/{topic}" for topic in ("in", "out"))

    def stop(self, _=None):
        self.broker.tell("down")

    def start(self):
        self.broker.tell("up")

    def publish(self, sent):
        from .test_kafka import produce

        produce(self.broker, "in", sent)

    def results(self):
        from .test_kafka import read

        return read(self.broker, "out")


class Flight:
    """From a Flight server to the receiver of the page."""

    def __init__(self, folder):
        from .test_flight_sink import Receiver

        self.server, self.port, self.sent = self, free_port(), []
        self.receiver = Receiver(folder / "received")
        self.source, self.sink = f"flight://127.0.0.1:{self.port}/rows", self.receiver.url()
        self.shelf = self.serve()

    def serve(self):
        from .test_flight import Shelf

        return Shelf(self.port, {"rows": self.rows()})

    def rows(self):
        schema = pa.schema([(name, pa.float64()) for name in ("t", "a", "b")])
        return pa.Table.from_pylist([json.loads(text) for text in self.sent], schema)

    def stop(self, _=None):
        self.shelf.shutdown()
        self.receiver.stop()

    def start(self):
        self.receiver.start()
        self.shelf = self.serve()

    def publish(self, sent):
        self.sent += sent
        self.shelf.tables["rows"] = self.rows()

    def results(self):
        try:
            return self.receiver.read()
        except sqlite3.OperationalError:  # its table is not made yet
            return []


def opened(kind, request, folder):
    """Yield a place of a kind, with a server of its own."""
    if kind in ("nats", "redis"):
        yield {"nats": Nats, "redis": Redis}[kind](request.getfixturevalue(f"{kind}_server"))
    elif kind == "mqtt":
        pytest.importorskip("paho.mqtt.client")
        for server in started_there(Mosquitto, folder / "mosquitto"):
            yield Mqtt(server, folder)
    elif kind == "postgresql":
        pytest.importorskip("psycopg")
        with tempfile.TemporaryDirectory() as base:
            for server in started_there(Postgres, Path(base)):
                yield Table(server, folder)
    elif kind == "kafka":
        pytest.importorskip("confluent_kafka")
        broker = Broker()
        yield Kafka(broker)
        broker.stop()
    else:
        place = Flight(folder)
        yield place
        place.stop()


SERVERS = ["nats", "redis", "mqtt", "postgresql"]


@pytest.fixture(params=SERVERS)
def place(request, tmp_path):
    yield from opened(request.param, request, tmp_path)


@pytest.fixture(params=[*SERVERS, "kafka", "flight"])
def away(request, tmp_path):
    """A place whose server can be away."""
    yield from opened(request.param, request, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [60])
def test_a_server_that_is_away_for_a_minute(away, tmp_path, seconds):
    """The job says so, waits, goes on by itself, and every row is there once."""
    sent = messages(600)
    whole = expected(tmp_path / "alone", sent)
    (tmp_path / "job").mkdir()
    if isinstance(away, Mqtt):
        subscribe(away.source)  # so that the broker keeps what comes before the job is there
    process = start(tmp_path / "job", away.source, "--sink", away.sink, "--checkpoint", "ck")
    away.publish(sent[:300])
    until(lambda: len(away.results()) == 300)
    away.server.stop(signal.SIGINT if isinstance(away, Mqtt | Table) else signal.SIGKILL)
    said = heard(process, "is not available")
    time.sleep(seconds)
    away.server.start()
    said += heard(process, "is back after")
    begun = time.monotonic()
    away.publish(sent[300:])
    until(lambda: len(away.results()) >= 600)
    took = time.monotonic() - begun
    process.send_signal(signal.SIGTERM)
    code, _, err = finish(process)
    assert code == 0, err
    assert "Traceback" not in said + err
    assert len(re.findall("is not available", said)) <= 2  # source and sink: once each
    if isinstance(away, Table):
        whole = [str(row) for row in range(600)]
    elif isinstance(away, Kafka | Flight):
        whole = [json.loads(line) for line in whole]
    assert away.results() == whole
    assert took < 30, f"300 rows {took:.1f} s after {said.splitlines()[-1]}"


def test_the_schema_changes_in_mid_stream(place, tmp_path, do):
    """Rows that lack a column are set aside by name; those that have more are read."""
    if isinstance(place, Table):
        pytest.skip("a table that changes: test_postgres.py")
    arguments = [place.source, "--sink", "out.jsonl", *KEPT, "--on-error", "dead-letter=bad.jsonl"]
    do(*arguments)  # makes the session
    changed = [
        b'{"t": 3, "a": 1.5}',
        b'{"t": 3, "a": 2.5, "b": 1, "new": 7}',
        b'{"t": "2024-01-01", "a": 2.5, "b": 1}',
        b'{"t": 3, "a": "high", "b": 1}',
    ]
    place.publish([*messages(4), *changed, *messages(2, 8)])
    code, err = do(*arguments[:-4], "--idle", 2, *arguments[-2:])
    assert code == 0, err
    bad = [json.loads(line) for line in (tmp_path / "bad.jsonl").read_text().splitlines()]
    assert [row["row"] for row in bad] == [4, 6, 7]
    reasons = ["no column 'b'", "column 't' must be", "column 'a' must be"]
    for row, words in zip(bad, reasons, strict=True):
        assert words in row["reason"]
    kept = [json.loads(line)["row"] for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert kept == [0, 1, 2, 3, 5, 8, 9]


def test_a_full_stream_is_waited_for(nats_server, tmp_path):
    """The job says why it waits, and goes on when there is room."""
    from nats.js.api import DiscardPolicy, StreamConfig

    place = Nats(nats_server)

    def limit(n):
        config = StreamConfig(name="OUT", subjects=["out"], max_msgs=n, discard=DiscardPolicy.NEW)
        nats_server.do(lambda stream: stream.update_stream(config))

    limit(25)
    place.publish(messages(40))
    process = start(tmp_path, place.source, "--sink", place.sink, "--checkpoint", "ck")
    assert "maximum messages exceeded" in heard(process, "is not available")
    assert len(place.results()) == 25
    limit(-1)
    heard(process, "is back after")
    until(lambda: len(place.results()) >= 40)
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == 0
    assert [json.loads(line)["row"] for line in place.results()] == list(range(40))


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (("config", "set", "maxmemory", "1"), ("config", "set", "maxmemory", "0"), "'maxmemory'"),
        (("replicaof", "127.0.0.1", "1"), ("replicaof", "no", "one"), "read only replica"),
    ],
)
def test_a_server_that_takes_no_results_is_waited_for(redis_server, tmp_path, before, after, words):
    """It has no memory left, or is not the master any more."""
    place, order = Redis(redis_server), redis_server.client.execute_command
    place.publish(messages(40))
    order("config", "set", "replica-serve-stale-data", "yes")
    order(*before)
    process = start(tmp_path, place.source, "--sink", place.sink, "--checkpoint", "ck")
    assert words in heard(process, "is not available")
    assert place.results() == []
    order(*after)
    heard(process, "is back after")
    until(lambda: len(place.results()) >= 40)
    assert stop(process)[1] < 2.0
    assert [json.loads(line)["row"] for line in place.results()] == list(range(40))
