"""Results to Flight servers: that of docs/live.md as it is written there, and our own service."""

import json
import random
import sqlite3
import subprocess
import sys
import time
from contextlib import suppress

import pyarrow as pa
import pytest
from pyarrow import flight

from streamddcrp.errors import CheckpointError, ConfigError
from streamddcrp_connectors.run.sinks import open_sink
from tests.conftest import REPOSITORY
from tests.unit.test_how_to import BLOCK

from .live import drive, expected, made, meanwhile
from .servers import free_port
from .test_flight import start as start_service

RECEIVER = next(
    code
    for _, code in BLOCK.findall((REPOSITORY / "docs" / "live.md").read_text())
    if code.startswith("# receiver.py")
)


class Receiver:
    """The server of the page, in a process of its own."""

    def __init__(self, folder):
        folder.mkdir(exist_ok=True)
        self.folder, self.port = folder, free_port()
        self.start()

    def start(self):
        code = RECEIVER.replace(":8816", f":{self.port}")
        assert code != RECEIVER
        command = [sys.executable, "-c", code]
        self.process = subprocess.Popen(command, cwd=self.folder, stderr=subprocess.DEVNULL)

    def stop(self):
        self.process.kill()
        self.process.wait()

    def url(self, stream="regimes"):
        return f"flight://127.0.0.1:{self.port}/{stream}"

    def read(self, stream="regimes"):
        """Return what came for a stream, in the order of jobs and numbers."""
        base = sqlite3.connect(self.folder / "received.sqlite")
        query = "select result from results where job like ? order by job, row"
        found = [json.loads(text) for (text,) in base.execute(query, [f"{stream}/%"])]
        base.close()
        return found


@pytest.fixture
def receiver(tmp_path):
    server = Receiver(tmp_path / "received")
    yield server
    server.stop()


def until_there(sink, position=None):
    """Stand where a position says, once the server answers."""
    end = time.monotonic() + 120
    while True:
        try:
            return sink.rewind(position)
        except ConnectionError:
            assert time.monotonic() < end
            time.sleep(0.05)


def killed(receiver, folder, n, kills, restarts, seed=0):
    """Kill the job, and the server meanwhile; each result and each event must be there once."""
    folder.mkdir(exist_ok=True)
    rows = folder / "rows.jsonl"
    texts = made(n)
    rows.write_text("".join(text + "\n" for text in texts))
    draw = random.Random(seed)

    def restart():
        for _ in range(restarts):
            time.sleep(draw.uniform(0.2, 1.0))
            receiver.stop()
            time.sleep(draw.uniform(0.0, 0.2))
            receiver.start()

    with meanwhile(restart):
        urls = {"sink": receiver.url(), "events": receiver.url("events")}
        drive(folder / "job", str(rows), n, kills=kills, seed=seed, batch=7, **urls)
    out, events = expected(folder / "alone", texts)
    assert receiver.read() == out
    assert receiver.read("events") == events


def test_killed(receiver, tmp_path):
    killed(receiver, tmp_path / "job", 1000, 3, 1)


@pytest.mark.slow
def test_fifty_kills_and_five_restarts(receiver, tmp_path):
    killed(receiver, tmp_path / "job", 6000, 50, 5, seed=1)


def batch(n, start=0):
    return pa.record_batch({"row": range(start, start + n)})


def test_rows_that_have_arrived_are_left_out(receiver):
    first, second = (open_sink(receiver.url(), None, None) for _ in range(2))
    until_there(first)
    position = first.sync()
    first.write(batch(2))
    first.sync()
    until_there(second, position)  # a run that died before its commit
    second.write(batch(3))
    assert second.sync() == {"job": position["job"], "rows": 3}
    first.write(batch(2, 2))  # it lives on
    with pytest.raises(ConfigError, match="another run writes the rows of this job"):
        first.sync()
    for sink in (first, second):
        sink.finish()
    assert receiver.read() == [{"row": 0}, {"row": 1}, {"row": 2}]


def test_a_server_that_lost_rows_or_is_away(receiver):
    sink = open_sink(receiver.url(), None, None)
    until_there(sink)
    sink.write(batch(2))
    position = sink.sync()
    receiver.stop()
    sink.write(batch(2, 2))
    for _ in range(2):
        with pytest.raises(ConnectionError):
            sink.sync()
    receiver.start()
    (receiver.folder / "received.sqlite").unlink()
    with pytest.raises(CheckpointError, match="has 0 of the 2 rows that the checkpoint recorded"):
        until_there(sink, position)
    sink.finish()


class Told(flight.FlightServerBase):
    """A server that says what it was told to."""

    def __init__(self, *notes):
        super().__init__("grpc://127.0.0.1:0")
        self.notes = notes

    def do_exchange(self, context, descriptor, reader, writer):
        for note in self.notes:
            writer.write_metadata(note.encode())
        with suppress(StopIteration):
            while self.notes:
                reader.read_chunk()


@pytest.mark.parametrize(
    ("notes", "kind", "match"),
    [
        (["{}"], ConfigError, "does not say how many rows it has"),
        (["nonsense"], ConfigError, "does not say how many rows it has"),
        ([], ConnectionError, "ended without an answer"),
        (['{"rows": 0}', '{"first": 0, "rows": 1}'], ConfigError, "answers .* to rows 0 to 1"),
    ],
)
def test_what_a_server_may_not_say(notes, kind, match):
    with Told(*notes) as server:
        sink = open_sink(f"flight://127.0.0.1:{server.port}/regimes", None, None)
        with pytest.raises(kind, match=match):
            sink.arrived("job", 0), sink.send("job", 0, batch(2))
        sink.finish()


def test_results_are_rows_of_another_model(tmp_path, caplog, monkeypatch):
    """Our own service takes them, and says which it refuses."""
    port = free_port()
    monkeypatch.setenv("TOKEN", "s3cret")
    process = start_service(port, tmp_path / "ck", "--token-env", "TOKEN")
    url = f"flight://127.0.0.1:{port}/regimes"
    stranger = open_sink(url, None, None)
    with pytest.raises(ConfigError, match="refuses the token"):
        stranger.rewind(None)
    stranger.finish()
    sink = open_sink(f"{url}?token_env=TOKEN", None, None)
    sink.rewind(None)
    rows = [{"t": 1.0, "a": 1.0, "b": 2.0}, {"t": 2.0, "a": -1.0, "b": 2.0}]
    sink.write(pa.RecordBatch.from_pylist(rows))
    assert sink.sync()["rows"] == 2
    assert "refused rows, such as 1: a value is negative" in caplog.text
    process.terminate()
    process.wait(60)
    process.stderr.close()
    with pytest.raises(ConnectionError):
        sink.arrived("x", 0)
    sink.finish()
