"""HTTP push: what was answered with 200 is learned once, whatever is killed."""

import http.client
import json
import socket
import threading
import time
from contextlib import contextmanager

import pyarrow as pa
import pytest

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.live import httppush
from streamddcrp_connectors.live.httppush import HttpPushSource
from streamddcrp_connectors.run.columns import arrow_stream
from streamddcrp_connectors.run.sources import open_source

from .live import COLUMNS, drive, expected, made, meanwhile
from .servers import free_port


def ask(port, body=b"", method="POST", path="/rows", **headers):
    """Ask once on a connection of its own; return status and text."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def post(port, numbered):
    """Send bodies, each until it is taken."""
    for key, body in numbered:
        while True:
            try:
                status, _ = ask(port, body, Idempotency_Key=str(key))
            except OSError:
                status = None
            time.sleep(0.01)
            if status == 200:
                break


@contextmanager
def listening(folder, more=""):
    """Serve, and take what comes in a thread; yields the port and the messages."""
    port = free_port()
    source = open_source(f"http-push://127.0.0.1:{port}/rows?journal={folder}/j{more}", COLUMNS)
    taken, stop = [], threading.Event()

    def take():
        for messages, _ in source.after(None):
            taken.extend(messages)
            if stop.is_set() and not messages:
                return

    thread = threading.Thread(target=take)
    thread.start()
    try:
        yield port, taken
    finally:
        stop.set()
        thread.join(20)
        source.close()


def killed(tmp_path, n, kills, seed=0):
    port = free_port()
    texts = made(n)
    bodies = [(i, "\n".join(texts[i : i + 3]).encode()) for i in range(0, n, 3)]
    source = f"http-push://127.0.0.1:{port}/rows?journal={tmp_path}/journal"
    with meanwhile(post, port, bodies):
        got = drive(tmp_path / "job", source, n, kills=kills, seed=seed)
    assert got == expected(tmp_path / "alone", texts)


def test_killed(tmp_path):
    killed(tmp_path, 300, 3)


@pytest.mark.slow
def test_killed_fifty_times(tmp_path):
    killed(tmp_path, 6000, 50, seed=1)


def test_answers(tmp_path, monkeypatch):
    monkeypatch.setattr(httppush, "LARGEST", 100)
    monkeypatch.setenv("TOKEN", "s3cret")
    with listening(tmp_path, "&token_env=TOKEN") as (port, taken):
        good = {"Authorization": "Bearer s3cret"}
        assert ask(port, b"{}") == (401, "a token is needed: Authorization: Bearer TOKEN\n")
        assert ask(port, b"{}", Authorization="Bearer s3cre")[0] == 401
        assert ask(port, b"{}", path="/other", **good)[0] == 404
        assert ask(port, method="GET", **good)[0] == 405
        assert ask(port, b"{}", Origin="https://elsewhere.example", **good)[0] == 403
        assert ask(port, Transfer_Encoding="chunked", **good)[0] == 411
        assert ask(port, b"x" * 101, **good)[0] == 413
        assert ask(port, b" \n", **good) == (400, "the body holds no rows\n")
        assert ask(port, b"{}", Idempotency_Key="k" * 65, **good)[0] == 400
        assert ask(port, b'{"a": 1}', Idempotency_Key="k", **good) == (200, "taken\n")
        assert ask(port, b'{"a": 1}', Idempotency_Key="k", **good) == (200, "taken before\n")
        assert ask(port, b'{"a": 1}', **good)[0] == 200
    assert taken == [b'{"a": 1}'] * 2


def test_many_requests_on_one_connection(tmp_path):
    with listening(tmp_path) as (port, taken):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        for i in range(30):
            connection.request("POST", "/rows", b"%d" % i)
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, b"taken\n")
        connection.close()
    assert taken == [b"%d" % i for i in range(30)]


def test_full_until_the_run_has_caught_up(tmp_path):
    port = free_port()
    spec = f"http-push://127.0.0.1:{port}/rows?journal={tmp_path}/j&journal_mb=16"
    source = HttpPushSource(spec, COLUMNS, 1000)
    stream = source.after(None)
    next(stream)
    body = b"x" * (1 << 21)
    statuses = [ask(port, body)[0] for _ in range(9)]
    assert statuses == [200] * 4 + [503] * 5
    assert "is full" in ask(port, body)[1]
    for _ in range(4):
        messages, at = next(stream)
        assert messages == [body]
    source.committed({"at": at})
    assert ask(port, body)[0] == 200
    source.close()


def test_too_many_connections(tmp_path, monkeypatch):
    monkeypatch.setattr(httppush, "CONNECTIONS", 2)
    with listening(tmp_path) as (port, _):
        held = [http.client.HTTPConnection("127.0.0.1", port, timeout=20) for _ in range(2)]
        for connection in held:
            connection.request("POST", "/rows", b"{}")
            connection.getresponse().read()
        with socket.create_connection(("127.0.0.1", port), 20) as one_more:
            assert one_more.recv(12) == b"HTTP/1.1 503"
        for connection in held:
            connection.close()
        post(port, [(1, b"{}")])


def test_rows_of_both_kinds_and_poisoned_bodies(tmp_path):
    texts = made(40)
    bodies = [text.encode() for text in texts[:10]]
    table = [json.loads(text) for text in texts[10:]]
    batch = pa.RecordBatch.from_pylist(table)
    bodies += [b'{"t": 4', arrow_stream([batch])[:-30], arrow_stream([batch])]
    port = free_port()
    source = f"http-push://127.0.0.1:{port}?journal={tmp_path}/journal"
    with meanwhile(lambda: [ask(port, body, path="/") for body in waited(port, bodies)]):
        out, events = drive(tmp_path / "job", source, 42, kills=0)
    alone, alone_events = expected(tmp_path / "alone", texts)
    number = [*range(10), *range(12, 42)]
    assert out == [row | {"row": number[row["row"]]} for row in alone]
    assert events == alone_events
    dead = [json.loads(line) for line in (tmp_path / "job" / "dead.jsonl").read_text().splitlines()]
    assert [row["row"] for row in dead] == [10, 11]


def waited(port, bodies):
    """Wait until someone answers."""
    post_by = time.monotonic() + 20
    while time.monotonic() < post_by:
        try:
            ask(port, method="GET")
        except OSError:
            time.sleep(0.02)
        else:
            break
    return bodies


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("http-push://127.0.0.1:1/rows", "name a folder for them"),
        ("http-push://0.0.0.0:1/rows?journal=j", "would take rows from anyone"),
        ("http-push://127.0.0.1:1/rows?journal=j&journal_mb=x", "journal_mb must be a whole"),
        ("http-push://192.0.2.1:8090/rows?journal={0}&token_env=T", "cannot listen on"),
    ],
)
def test_addresses_that_cannot_be_used(spec, match, tmp_path, monkeypatch):
    monkeypatch.setenv("T", "t")
    with pytest.raises(ConfigError, match=match):
        open_source(spec.format(tmp_path / "j"), COLUMNS)
