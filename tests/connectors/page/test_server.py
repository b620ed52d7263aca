"""Who is let in, what is sent, what outlives the process; without a browser."""

import asyncio
import io
import json
import os
import re
import socket
import struct
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

from streamddcrp.errors import CheckpointError, ConfigError, MissingExtraError
from streamddcrp_connectors.page import observer
from streamddcrp_connectors.page.access import Access, token_of
from streamddcrp_connectors.page.observer import WAITING, LivePage, place
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.config import recipe_for
from streamddcrp_connectors.run.loop import Epoch, Summary, open_store, run
from streamddcrp_connectors.run.names import FILE, Names
from streamddcrp_connectors.run.sinks import open_sink
from streamddcrp_connectors.run.sources import open_source
from tests.connectors.toy import Toy

from .conftest import LIMIT
from .feeding import FEATURES

pytest.importorskip("tornado")
ROWS = 3000


def ask(port, path, *, method="GET", **headers):
    """Send a request as it stands; return the status, the head and the body."""
    headers = {"Host": f"127.0.0.1:{port}", "Connection": "close"} | headers
    lines = [f"{method} {path} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items() if v)]
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as link:
        link.sendall("\r\n".join([*lines, "", ""]).encode())
        got = b""
        while part := link.recv(1 << 16):
            got += part
            head, ended, body = got.partition(b"\r\n\r\n")
            size = re.search(rb"Content-Length: (\d+)", head)
            if ended and len(body) >= int(size[1] if size else 0):
                break
    head, _, body = got.partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode(), body


def cookie(feeder):
    return {"Cookie": f"streamddcrp-{feeder.port}={feeder.token}"}


UPGRADE = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
           "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}  # fmt: skip


def test_only_who_has_the_token_is_let_in(shared):
    page = shared
    port = page.port
    assert ask(port, "/")[0] == 403
    assert ask(port, "/?token=wrong")[0] == 403
    assert ask(port, "/", Cookie=f"streamddcrp-{port}=wrong")[0] == 403
    assert ask(port, "/page.js?token=")[0] == 403
    status, head, _ = ask(port, f"/?token={page.token}")
    assert status == 302
    assert "HttpOnly" in head
    assert "SameSite=Strict" in head
    assert "Location: /\r\n" in head
    for path in ("/", "/page.js", "/page.css"):
        status, head, body = ask(port, path, **cookie(page))
        assert status == 200
        assert "script-src 'self'" in head
        assert b"http://" not in body.replace(b"http://www.w3.org", b"")  # nothing from elsewhere
        assert b"https://" not in body
    assert ask(port, "/socket", **UPGRADE)[0] == 403
    assert ask(port, "/socket", **UPGRADE | cookie(page))[0] == 101
    assert ask(port, "/shown?begin=0&end=1&key=")[0] == 403


@pytest.mark.parametrize("path", ["/", "/socket", "/shown?begin=0&end=9"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": ""},
        {"Host": "10.0.0.1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://127.0.0.1.evil.example:{port}"},
    ],
)
def test_pages_of_others_are_refused(shared, path, headers):
    page = shared
    headers = {k: v.format(port=page.port) for k, v in headers.items()}
    more = UPGRADE if path == "/socket" else {}
    assert ask(page.port, path, **cookie(page) | more | headers)[0] in (400, 403)


def test_no_path_leads_elsewhere(shared):
    page = shared
    for path in (
        "/../process.py", "/%2e%2e/process.py", "/static/../../kept.py", "//etc/passwd",
        "/..%2f..%2f..%2fetc/passwd", "/page.js/../../process.py", "/page-token", "/index.html.bak",
        "/pageXjs",
    ):  # fmt: skip
        status, _, body = ask(page.port, path, **cookie(page))
        assert status in (400, 404), path
        assert b"import" not in body
    assert ask(page.port, "/", method="POST", **cookie(page))[0] in (403, 405)


def test_a_host_with_a_name_is_ours_only_if_it_is_named():
    local = Access("127.0.0.1", 80, "secret")
    assert local.host_is_ours("[::1]:80")
    assert not local.host_is_ours("192.168.1.5")
    assert not local.host_is_ours("[")
    public = Access("0.0.0.0", 80, "secret")
    assert public.host_is_ours("192.168.1.5:80")
    assert not public.host_is_ours("rebound.example")
    assert not local.origin_is_ours("http://localhost:81", "localhost:80")
    assert local.token_is_ours("secret")
    assert not local.token_is_ours("sécret")


class Talk:
    """A browser's side of the websocket."""

    def __init__(self, feeder):
        from tornado.httpclient import HTTPRequest
        from tornado.websocket import websocket_connect

        self.loop = asyncio.new_event_loop()
        request = HTTPRequest(f"ws://127.0.0.1:{feeder.port}/socket", headers=cookie(feeder))
        try:
            self.link = self.loop.run_until_complete(self._wait(websocket_connect, request))
        except BaseException:
            self.loop.close()
            raise
        self.got = []

    async def _wait(self, call, *args):
        return await asyncio.wait_for(call(*args), LIMIT)

    def write(self, text):
        self.loop.run_until_complete(self._wait(self.link.write_message, text))

    def say(self, **content):
        self.write(json.dumps(content))

    def show(self, **want):
        self.say(do="show", **({"id": 1, "key": "", "span": None, "end": None, "most": 600} | want))

    def next(self, kind, good=lambda frame: True):
        """Return the next frame of a kind; acknowledge binary ones."""
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            frame = self.loop.run_until_complete(self._wait(self.link.read_message))
            if isinstance(frame, bytes):
                size = struct.unpack("<I", frame[:4])[0]
                header = json.loads(frame[4 : 4 + size])
                at, columns = 4 + size, {}
                for name, n in header["columns"]:
                    columns[name] = np.frombuffer(frame, "<f8", n, at)
                    at += 8 * n
                frame = header | {"columns": columns}
                self.say(do="got")
            elif frame is None:
                return None
            else:
                frame = json.loads(frame)
            if frame["type"] == kind and good(frame):
                return frame
        pytest.fail(f"no frame {kind}")

    def close(self):
        self.loop.run_until_complete(self._closed())
        self.loop.close()

    async def _closed(self):
        # outside of a running loop, tornado would make another one, which nobody closes
        self.link.close()
        await asyncio.sleep(0)


@pytest.fixture
def talk():
    made = []

    def make(feeder):
        made.append(Talk(feeder))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_what_was_fed_is_what_is_sent(feeder, talk):
    page = feeder()
    page.feed(ROWS, events=page.happen(("birth", 1, 200, None), ("merge", 1, 900, 2)))
    browser = talk(page)
    assert browser.next("hello", lambda f: f["job"])["job"]["features"] == list(FEATURES)
    browser.show()
    tables, view = browser.next("tables"), browser.next("view")
    assert view["level"] == 2
    columns = view["columns"]
    assert len(columns["begin"]) == -(-ROWS // 16) == len(columns["mean0"])
    assert columns["begin"][0] == 1772352000000.0
    assert columns["end"][-1] - columns["begin"][0] == 100 * (ROWS - 1)
    assert set(columns["label"]) == set(range(5))
    birth, merge = (event for event in tables["events"] if event["kind"] not in ("alarm", "over"))
    assert (birth["kind"], merge["kind"]) == ("birth", "merge")
    assert birth["between"] == [birth["t"] - 100.0, birth["t"]]
    assert merge["between"] is None
    assert sum(regime["rows"] for regime in tables["regimes"]) == ROWS
    page.feed(7)
    more = browser.next("view")
    assert more["from"] == ROWS // 16  # what has changed, and no more
    assert more["columns"]["end"][-1] > columns["end"][-1]
    assert len(more["columns"]["end"]) <= 2


@pytest.mark.parametrize(
    "said",
    ["{", "[]", '{"do": "name", "label": "x"}', '{"do": "show", "most": 1e400}',
     '{"do": "show", "span": "x", "end": [1], "most": -5, "key": {"a": 1}}', "[" * 5000,
     '{"do": "name", "key": "nobody", "label": 1, "name": "x"}'],
)  # fmt: skip
def test_nonsense_harms_nobody(shared, talk, said):
    strange, usual = talk(shared), talk(shared)
    strange.write(said)
    usual.show()
    assert len(usual.next("view")["columns"]["begin"]) == 300


@pytest.mark.parametrize("goes", ["the browser", "the page"])
def test_an_end_while_a_frame_is_sent_is_no_error(goes):
    """A browser that reads nothing, and a frame that no buffer of the system can hold."""
    from streamddcrp_connectors.page.process import Page, served

    wrong, page = [], Page(None)
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as browser:
        port = listening.getsockname()[1]
        listening.setblocking(False)
        browser.connect(("127.0.0.1", port))
        headers = {"Host": f"127.0.0.1:{port}", "Cookie": f"streamddcrp-{port}=secret"} | UPGRADE
        lines = ["GET /socket HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items())]
        browser.sendall("\r\n".join([*lines, "", ""]).encode())

        async def end():
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _, said: wrong.append(said))
            async with served(listening, Access("127.0.0.1", port, "secret"), page):
                while not page.hub._browsers:
                    await asyncio.sleep(0.01)
                (shown,) = page.hub._browsers
                shown.link.send(bytes(1 << 26))
                await asyncio.sleep(0)
                assert shown.link._sent
                if goes == "the browser":
                    browser.close()
                    while page.hub._browsers:
                        await asyncio.sleep(0.01)

        asyncio.run(asyncio.wait_for(end(), LIMIT))
    assert not wrong


def test_an_interrupt_of_the_run_is_none_of_the_page(feeder):
    """Ctrl-C goes to a group of processes; one that still imports would print a traceback."""
    assert os.getpgid(feeder().page._process.pid) != os.getpgrp()


def test_names_and_history_outlive_the_process(feeder, talk, tmp_path):
    page = feeder(tmp_path)
    page.feed(ROWS)
    browser = talk(page)
    browser.show()
    before = browser.next("view")
    browser.say(do="name", key="", label=3, name="clea\u202ening <b>")
    assert browser.next("tables", lambda f: f["names"])["names"] == {"3": "clea ning <b>"}
    browser.say(do="acknowledge", key="", by=" Ann\n")
    seen = browser.next("tables", lambda f: any(e["kind"] == "acknowledged" for e in f["events"]))
    assert seen["events"][-1]["why"] == "Ann"
    for wrong in ({"weekly": "daily"}, {"from": "soon"}, {"hours": -1}, {"hours": "x"}):
        browser.say(do="silence", key="*", **wrong)
        assert browser.next("answer")["wrong"]
    browser.say(do="silence", key="*", hours=2, by="Ann", reason="cleaning")
    assert browser.next("answer")["wrong"] == ""
    (silence,) = browser.next("silences", lambda f: f["silences"])["silences"]
    assert silence["until"] == "2026-03-01T10:04:59+00:00"  # two hours after the last row
    browser.say(do="silence", key="*", weekly="Sat 22:00 - Sun 06:00")
    browser.next("silences", lambda f: len(f["silences"]) == 2)
    browser.say(do="hear", place=1, by="Bob")
    assert browser.next("silences", lambda f: len(f["silences"]) == 1)["silences"] == [silence]
    page.page.close()
    assert oct((tmp_path / "page-token").stat().st_mode & 0o777) == "0o600"
    again = feeder(tmp_path)
    assert again.token == page.token
    browser = talk(again)
    browser.show()
    silences, tables = browser.next("silences"), browser.next("tables")
    after = browser.next("view")
    for name, cells in before["columns"].items():
        np.testing.assert_equal(cells, after["columns"][name])
    assert silences["silences"] == [silence]
    assert after["now"]["silent"] == "cleaning, Ann"
    assert tables["names"] == {"3": "clea ning <b>"}
    assert seen["events"][-1] in tables["events"]
    assert tables["rows"] == ROWS
    again.n = ROWS - 500  # a run that goes on before where the page was
    again.feed(1000)
    rows = browser.next("tables", lambda f: f["rows"] > ROWS)
    assert sum(regime["rows"] for regime in rows["regimes"]) == ROWS + 500


def test_a_damaged_history_is_refused_and_names_too(tmp_path):
    (tmp_path / FILE).write_text('{"names": 3}')
    with pytest.raises(CheckpointError, match="names of regimes"):
        Names(tmp_path)
    names = Names(None)
    names.give("", 1, "x" * 500)
    assert len(names.of("")[1]) == 60
    names.give("", 1, " ")
    assert names.of("") == {}
    assert token_of(None) != token_of(None)


@pytest.mark.parametrize("span", [100 * 50, 100 * (ROWS - 1)])
def test_what_is_shown_can_be_downloaded(feeder, talk, span):
    page = feeder()
    page.feed(ROWS)
    browser = talk(page)
    browser.show()
    end = browser.next("view")["span"][1]
    path = f"/shown?key=&begin={end - span}&end={end}&as="
    status, head, body = ask(page.port, path + "csv", **cookie(page))
    assert status == 200
    assert "attachment" in head
    table = pacsv.read_csv(io.BytesIO(body))
    with pa.ipc.open_file(io.BytesIO(ask(page.port, path + "arrow", **cookie(page))[2])) as file:
        arrow = file.read_all()
    assert table.column_names == arrow.column_names
    assert table.num_rows == arrow.num_rows
    if span == 5000:
        assert table.column_names == ["time", "label", "score", "threshold", "alarms", *FEATURES]
        assert arrow.num_rows == 51
    else:
        assert "mean flow" in table.column_names
    assert ask(page.port, "/shown?key=&begin=x&end=1", **cookie(page))[0] == 400
    assert ask(page.port, "/shown?key=no&begin=0&end=1", **cookie(page))[0] == 404
    assert ask(page.port, path + "exe", **cookie(page))[0] == 400


def test_the_run_never_waits(monkeypatch):
    """A page that reads nothing: batches are dropped and counted, and the run comes to its end."""
    real = subprocess.Popen
    monkeypatch.setattr(
        observer.subprocess,
        "Popen",
        lambda command, **more: real([sys.executable, "-c", "input()"], **more),
    )
    from .feeding import NO_EVENTS, Feeder, Stories

    feeder = Feeder()
    rows = feeder.batch(2000)
    for _ in range(400):
        feeder.page.epoch(Epoch(*rows, NO_EVENTS, None, 0, Stories([]), Summary()))
    assert feeder.page._put - feeder.page._written < WAITING + (1 << 20)
    assert feeder.page._dropped > 0
    feeder.page._process.kill()
    feeder.page.close()


def test_a_watched_run_writes_what_an_unwatched_one_does(good, tmp_path):
    """And the observer sees each row once, with its result."""
    seen = []

    class Watcher:
        def epoch(self, epoch):
            numbers = epoch.rows.numbers.tolist()
            assert numbers == epoch.results.column("row").to_pylist()
            seen.extend(numbers)

    for name, watchers in (("alone", ()), ("watched", [Watcher()])):
        source = open_source(good, Columns("t", None, ("a", "b")), batch_rows=7)
        with open_store(tmp_path / name) as store:
            sink = open_sink(tmp_path / f"{name}.jsonl", None, tmp_path / name)
            recipe = recipe_for(Toy, {}, Toy.from_bytes)
            run(source, recipe, sink, store=store, watchers=watchers)
        source.close()
    assert seen == list(range(60))
    assert (tmp_path / "alone.jsonl").read_bytes() == (tmp_path / "watched.jsonl").read_bytes()


@pytest.mark.parametrize("at", ["nowhere:x", "host:99999", ":80", ""])
def test_a_place_that_is_none_is_refused(at):
    with pytest.raises(ConfigError, match="HOST:PORT"):
        place(at)


def test_a_place_that_is_taken_is_refused(monkeypatch):
    monkeypatch.setattr(observer, "PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}: another program"):
            LivePage(f"127.0.0.1:{port}", None)
    with pytest.raises(ConfigError, match="cannot serve"):
        LivePage("no.such.host.invalid:80", None)


def test_without_the_extra_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(observer.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'streamddcrp\[live\]'"):
        LivePage("127.0.0.1:0", None)
