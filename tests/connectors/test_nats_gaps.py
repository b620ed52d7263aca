"""Rows that a NATS server refuses leave no gap, although many are on their way at a time."""

import json
import threading

import pyarrow as pa
import pytest

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.run.sinks import open_sink

nats = pytest.importorskip("nats", reason="the Python package nats-py is not installed")


def limit(server, size):
    from nats.js.api import StreamConfig

    config = StreamConfig(name="OUT", subjects=["out"], max_msg_size=size)
    server.do(lambda stream: stream.update_stream(config))


def rows_of(server):
    found = [json.loads(line) for line in server.read("OUT", "out")]
    return [line["row"] for line in found if "row" in line]


def sink(server, position=None):
    made = open_sink(server.url("out"), None, None)
    made.rewind(position)
    return made


def test_a_refused_message_in_a_pipelined_window_leaves_no_gap(nats_server):
    nats_server.make("OUT", "out")
    limit(nats_server, 300)
    batch = pa.record_batch(
        {"row": range(1200), "text": ["x" * (500 if i == 700 else 5) for i in range(1200)]}
    )
    writer = sink(nats_server)
    start = writer.sync()
    writer.write(batch)
    with pytest.raises(ConfigError, match="size exceeds maximum"):
        writer.sync()
    writer.finish()
    assert rows_of(nats_server) == list(range(700))  # those after it are refused as well
    limit(nats_server, -1)
    writer = sink(nats_server, start)
    writer.write(batch.slice(0, 900))  # in other batches, as after a crash
    writer.sync()
    writer.write(batch.slice(900))
    assert writer.sync()["rows"] == 1200
    writer.finish()
    assert rows_of(nats_server) == list(range(1200))


def test_other_writers_of_the_subject_hold_nothing_up(nats_server):
    nats_server.make("OUT", "out")
    writer = sink(nats_server)
    writing = threading.Event()

    def others():
        while not writing.is_set():
            nats_server.publish("out", [b'{"from": "others"}'])

    thread = threading.Thread(target=others)
    thread.start()
    try:
        for start in range(0, 3000, 1500):
            writer.write(pa.record_batch({"row": range(start, start + 1500)}))
            writer.sync()
    finally:
        writing.set()
        thread.join()
    writer.finish()
    assert rows_of(nats_server) == list(range(3000))
