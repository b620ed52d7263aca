"""A model as a Flight service: each row learned once, each answer given, whatever is killed."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import pyarrow as pa
import pytest
from pyarrow import flight

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.live.flightserver import Answers, FlightService
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.config import recipe_for
from streamddcrp_connectors.run.loop import open_store
from streamddcrp_connectors.run.sources import open_source
from tests.conftest import REPOSITORY

from .live import COLUMNS, drive, expected, made, meanwhile
from .servers import free_port
from .toy import Toy

SERVICE = """
import sys
import streamddcrp
from tests.connectors.toy import Toy
streamddcrp.SeqDDCRP = Toy
from streamddcrp_connectors.__main__ import main
main()
"""


def start(port, folder, *more, **env):
    process = subprocess.Popen(
        [sys.executable, "-c", SERVICE, "serve-flight", "--time", "t", "--features", "a,b",
         "--listen", f"127.0.0.1:{port}", "--checkpoint", str(folder), *more],
        cwd=REPOSITORY, stderr=subprocess.PIPE, text=True, env=os.environ | env,
    )  # fmt: skip
    line = process.stderr.readline()
    assert "answers on" in line, line + process.stderr.read()
    return process


class Client:
    """Send batches, one after the other, each until it is answered."""

    def __init__(self, port, name, token=None):
        self.port, self.name, self.token = port, name, token
        self.answers, self.call = {}, None

    def connect(self):
        self.client = flight.connect(f"grpc://127.0.0.1:{self.port}")
        head = [(b"authorization", f"Bearer {self.token}".encode())] if self.token else []
        descriptor = flight.FlightDescriptor.for_path(self.name)
        options = flight.FlightCallOptions(headers=head)
        self.writer, self.reader = self.client.do_exchange(descriptor, options)
        self.begun = False
        self.call = self.note(self.reader.read_chunk())["rows"]
        return self.call

    def note(self, chunk):
        return json.loads(chunk.app_metadata.to_pybytes())

    def ask(self, batch, first):
        if not self.begun:
            self.writer.begin(batch.schema)
            self.begun = True
        note = None if first is None else json.dumps({"first": first}).encode()
        if note is None:
            self.writer.write_batch(batch)
        else:
            self.writer.write_with_metadata(batch, note)
        chunk = self.reader.read_chunk()
        return self.note(chunk), chunk.data

    def close(self):
        if self.call is not None:
            self.client.close()


def batches(texts, size):
    table = [json.loads(text) for text in texts]
    schema = pa.schema(
        [("t", pa.float64()), ("k", pa.string()), ("a", pa.float64()), ("b", pa.float64())]
    )
    return [
        (i, pa.RecordBatch.from_pylist(table[i : i + size], schema))
        for i in range(0, len(table), size)
    ]


def killed(tmp_path, n, kills, seed=0):
    """Kill the service before a batch is sent, or after its answer, which is then thought lost."""
    draw, port, texts = random.Random(seed), free_port(), made(n)
    work = batches(texts, 7)
    process = start(port, tmp_path / "ck")
    client, answers = Client(port, "pump"), {}
    client.connect()
    fatal = {number: draw.random() < 0.5 for number in draw.sample(range(len(work)), kills)}
    for number, (first, batch) in enumerate(work):
        lost = fatal.get(number)
        if lost is not None:
            if lost:
                client.ask(batch, first)
            process.kill()
        while first not in answers:
            try:
                note, results = client.ask(batch, first)
            except (flight.FlightError, OSError, StopIteration):
                process.wait()
                process.stderr.close()
                process = start(port, tmp_path / "ck")
                client.close()
                assert client.connect() == first + (batch.num_rows if lost else 0)
            else:
                assert note == {"first": first, "rows": batch.num_rows, "refused": {}}
                answers[first] = results.to_pylist()
    since = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert time.monotonic() - since < 2.0
    client.close()
    process.stderr.close()
    results = [row for first in sorted(answers) for row in answers[first]]
    assert results == expected(tmp_path / "alone", texts)[0]


def test_killed(tmp_path):
    killed(tmp_path, 140, 2)


@pytest.mark.slow
def test_killed_fifty_times(tmp_path):
    killed(tmp_path, 1400, 50, seed=1)


@pytest.fixture
def answers(tmp_path):
    with open_store(tmp_path / "ck") as store:
        yield Answers(recipe_for(Toy, {}, Toy.from_bytes), COLUMNS, store)


def test_batches_that_are_sent_again(answers):
    (_, one), (_, two) = batches(made(20), 10)
    given = answers.answer("x", 0, one)
    assert answers.answer("x", 0, one).results == given.results
    assert answers.answer("x", 0, one).note == given.note
    assert answers.answer("x", 10, two).note["first"] == 10
    assert answers.count("x") == 20
    for first, batch in ((0, one), (10, two.slice(1)), (30, one)):
        with pytest.raises(SchemaError, match="but the next is 20"):
            answers.answer("x", first, batch)
    assert answers.answer("x", None, two.slice(0, 0)).note["first"] == 20


def test_refused_rows(answers):
    (_, batch) = batches(made(10), 10)[0]
    rows = batch.to_pylist()
    rows[3]["a"], rows[5]["a"], rows[7]["t"] = -1.0, float("inf"), None
    note, results = answers.answer("x", 0, pa.RecordBatch.from_pylist(rows, batch.schema))
    assert {int(row): reason for row, reason in note["refused"].items()} == {
        3: "a value is negative",
        5: "column 'a' is infinite",
        7: "column 't' is empty; each row needs a time",
    }
    assert results.column("row").to_pylist() == [0, 1, 2, 4, 6, 8, 9]
    bad = pa.RecordBatch.from_pylist(rows[5:6], batch.schema)
    assert answers.answer("x", 10, bad).results is None
    assert answers.answer("x", 10, bad).results is None  # the same once more
    with pytest.raises(ConfigError, match="no column 'a'"):
        answers.answer("x", 11, batch.select(["t", "b"]))
    times = batch.column(0).fill_null(0).cast("int64").cast("timestamp[s]")
    with pytest.raises(SchemaError, match="time is of kind timestamp"):
        answers.answer("x", 11, batch.set_column(0, "t", times))
    assert answers.count("x") == 11


def test_clients_and_keys(tmp_path):
    columns = Columns("t", "k", ("a", "b"))
    texts = made(40)
    with open_store(tmp_path / "ck") as store:
        answers = Answers(recipe_for(Toy, {}, Toy.from_bytes), columns, store, memory_limit=1)
        (_, one), (_, two) = batches(texts, 20)
        answers.answer("first", None, one)
    with open_store(tmp_path / "ck") as store:
        answers = Answers(recipe_for(Toy, {}, Toy.from_bytes), columns, store, memory_limit=1)
        again = answers.answer("second", None, two)
    whole = Answers(recipe_for(Toy, {}, Toy.from_bytes), columns)
    assert whole.answer("x", 0, pa.concat_batches([one, two])).results.slice(20).drop_columns(
        ["row"]
    ) == again.results.drop_columns(["row"])
    assert again.results.column("row").to_pylist() == list(range(20))


def test_a_token_is_asked_for(tmp_path):
    port = free_port()
    process = start(port, tmp_path / "ck", "--token-env", "TOKEN", TOKEN="s3cret")
    for token in (None, "wrong"):
        client = Client(port, "x", token)
        with pytest.raises(flight.FlightUnauthenticatedError, match="a token is needed"):
            client.connect()
    client = Client(port, "x", "s3cret")
    assert client.connect() == 0
    (_, batch) = batches(made(5), 5)[0]
    assert client.ask(batch, None)[1].num_rows == 5
    with pytest.raises(flight.FlightServerError, match="but the next is 5"):
        client.ask(batch, 9)
    client.close()
    nameless = Client(port, "x" * 65, "s3cret")
    with pytest.raises(flight.FlightServerError, match="must name the client"):
        nameless.connect()
    process.terminate()
    process.wait(20)
    assert "s3cret" not in process.stderr.read()
    process.stderr.close()


class Shelf(flight.FlightServerBase):
    """Streams of rows, read on after any of them."""

    def __init__(self, port, tables):
        super().__init__(f"grpc://127.0.0.1:{port}")
        self.tables = tables

    def do_get(self, context, ticket):
        wanted = json.loads(ticket.ticket)
        if wanted["stream"] not in self.tables:
            message = f"no stream {wanted['stream']}"
            raise KeyError(message)
        table = self.tables[wanted["stream"]]
        return flight.RecordBatchStream(
            pa.Table.from_batches(table.slice(wanted["after"]).to_batches(5), table.schema)
        )


@pytest.fixture
def shelf():
    table = pa.Table.from_batches([batch for _, batch in batches(made(200), 13)])
    with Shelf(free_port(), {"rows": table.slice(0, 120)}) as server:
        server.whole = table
        yield server


def test_a_stream_that_grows_is_read_once(shelf, tmp_path):
    def grow():
        for n in range(120, 201, 4):
            time.sleep(0.04)
            shelf.tables["rows"] = shelf.whole.slice(0, n)

    spec = f"flight://127.0.0.1:{shelf.port}/rows"
    with meanwhile(grow):
        got = drive(tmp_path / "job", spec, 200, kills=2, batch=10)
    assert got == expected(tmp_path / "alone", made(200))


@pytest.mark.slow
def test_fifty_kills_and_five_restarts_of_a_stream(tmp_path):
    n, draw = 6000, random.Random(1)
    table = pa.Table.from_batches([batch for _, batch in batches(made(n), 13)])
    port = free_port()

    def serve():
        for part in range(6):
            with Shelf(port, {}) as server:
                for more in range(100):
                    rows = n * (100 * part + more + 1) // 600
                    server.tables["rows"] = table.slice(0, rows)
                    time.sleep(draw.uniform(0.0, 0.05))
                stopped.wait(0.0 if part < 5 else 600)

    stopped = threading.Event()
    with meanwhile(serve):
        got = drive(tmp_path / "job", f"flight://127.0.0.1:{port}/rows", n, kills=50, seed=1)
        stopped.set()
    assert got == expected(tmp_path / "alone", made(n))


def test_streams_that_cannot_be_read(shelf):
    spec = f"flight://127.0.0.1:{shelf.port}/absent"
    with pytest.raises(ConfigError, match="no stream absent"):
        next(open_source(spec, COLUMNS).read_after(None))
    source = open_source(f"flight://127.0.0.1:{free_port()}/rows", COLUMNS)
    with pytest.raises(ConnectionError):
        next(source.read_after(None))
    shelf.tables["rows"] = shelf.whole.select(["t", "a"])
    source = open_source(f"flight://127.0.0.1:{shelf.port}/rows", COLUMNS)
    with pytest.raises(ConfigError, match="has no column 'b'"):
        next(source.read_after(None))
    source.close()


def test_where_it_listens():
    with pytest.raises(ConfigError, match="would answer anyone who reaches it"):
        FlightService("0.0.0.0", free_port(), None, None)
    with pytest.raises(ConfigError, match="cannot listen on"):
        FlightService("192.0.2.1", free_port(), "token", None)
