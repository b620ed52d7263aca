"""Alarms, their way to a web address, and counts for Prometheus."""

import http.server
import json
import re
import shutil
import socket
import socketserver
import subprocess
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import streamddcrp
from streamddcrp.checkpoint import SqliteStore
from streamddcrp.contract import Part
from streamddcrp.errors import ConfigError
from streamddcrp.estimator.reasons import explanation
from streamddcrp.monitor.alarm import Alarms
from streamddcrp_connectors.cli import main
from streamddcrp_connectors.live import pagers
from streamddcrp_connectors.live.pagers import open_sink
from streamddcrp_connectors.run.alarming import Alarming, AlarmRule
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.loop import Epoch, Summary
from streamddcrp_connectors.run.models import Rows
from streamddcrp_connectors.run.silences import Silences
from tests.conftest import REPOSITORY

from .data import rows, write_csv
from .servers import free_port
from .toy import Toy


@contextmanager
def listening(answers, port=0):
    """Serve a web address that answers with these codes, then with 200; yield it and the posts."""
    posts = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posts.append((self.path, dict(self.headers), json.loads(body)))
            self.send_response(answers.pop(0) if answers else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", posts
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def batch(*numbers):
    return pa.record_batch({"row": pa.array(numbers, pa.int64()), "score": [0.5] * len(numbers)})


def delivered(sink):
    """Wait until nothing waits."""
    end = time.monotonic() + 120
    while sink.sync()["waiting"]:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_what_may_pass_is_posted_again_with_its_id():
    with listening([503, 500, 200, 302, 429]) as (address, posts):
        sink = open_sink(f"{address}/secret?room=1", None, "alarms")
        assert sink.name == address
        sink.rewind(None)
        sink.write(batch(7, 8))
        delivered(sink)
        sink.finish()
    assert [body["row"] for _, _, body in posts] == [7, 7, 7, 8, 8, 8]
    assert {path for path, _, _ in posts} == {"/secret?room=1"}
    ids = [body["id"] for _, _, body in posts]
    assert ids == [headers["Idempotency-Key"] for _, headers, _ in posts]
    assert len(set(ids)) == 2
    assert sink.undelivered == 0


def test_what_is_refused_is_set_aside_and_the_rest_arrives(tmp_path, caplog):
    with listening([400, 200, 404]) as (address, posts):
        sink = open_sink(address, tmp_path, "alarms")
        sink.rewind(None)
        sink.write(batch(1, 2, 3, 4))
        delivered(sink)
        sink.finish()
    assert [body["row"] for _, _, body in posts] == [1, 2, 3, 4]
    aside = map(json.loads, (tmp_path / "alarms-undelivered.jsonl").read_text().splitlines())
    assert [(line["reason"][:8], line["message"]["row"]) for line in aside] == [
        ("HTTP 400", 1), ("HTTP 404", 3),
    ]  # fmt: skip
    assert sink.undelivered == 2
    assert sum("not delivered" in record.getMessage() for record in caplog.records) == 1


def test_what_could_not_be_delivered_is_in_the_checkpoint(monkeypatch, tmp_path):
    monkeypatch.setenv("TOKEN", "t0ken")
    with listening([503]) as (address, posts):
        sink = open_sink(f"{address}/?token_env=TOKEN", tmp_path, "alarms")
        sink.rewind(None)
        sink.write(batch(7))
        position = json.loads(json.dumps(sink.sync()))
        assert "t0ken" not in json.dumps(position) + sink.name
        sink.abandon()  # the process dies
        again = open_sink(f"{address}/?token_env=TOKEN", tmp_path, "alarms")
        again.rewind(position)
        again.write(batch(8))
        delivered(again)
        again.finish()
    assert [body["row"] for _, _, body in posts][-2:] == [7, 8]
    assert posts[0][2] == posts[-2][2]
    assert posts[0][1]["Authorization"] == "Bearer t0ken"


def test_learning_never_waits_for_a_pager(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(pagers, "_PATIENCE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as hangs:  # it accepts, and answers nothing
        sink = open_sink(f"http://127.0.0.1:{hangs.getsockname()[1]}", tmp_path, "alarms")
        sink.rewind(None)
        begun = time.monotonic()
        for number in range(1200):
            sink.write(batch(number))
            if number % 100 == 0:
                assert len(sink.sync()["waiting"]) == min(number + 1, 1000)
        assert len(sink.sync()["waiting"]) == 1000
        sink.finish()
        assert time.monotonic() - begun < 4.0  # its time-out is 5 seconds
    aside = (tmp_path / "alarms-undelivered.jsonl").read_text().splitlines()
    assert [json.loads(line)["message"]["row"] for line in aside] == [*range(200)]
    assert sink.undelivered == 1200
    assert "1000 messages wait for the next run" in caplog.text


def test_a_pager_that_is_away_for_an_hour_of_alarms(tmp_path):
    """An alarm a second, a commit a minute: what waits is bounded, the rest is set aside."""
    port = free_port()
    sink = open_sink(f"http://127.0.0.1:{port}", tmp_path, "alarms")
    sink.rewind(None)
    kept = []
    for second in range(3600):
        sink.write(batch(second))
        if second % 60 == 59:
            kept.append(len(json.dumps(sink.sync())))
    assert max(kept) < 100 * 1000  # bytes of a checkpoint
    aside = (tmp_path / "alarms-undelivered.jsonl").read_text().splitlines()
    assert [json.loads(line)["message"]["row"] for line in aside] == [*range(2600)]
    with listening([], port) as (_, posts):
        delivered(sink)
        sink.finish()
    assert [body["row"] for _, _, body in posts] == [*range(2600, 3600)]
    assert sink.undelivered == 2600


ALARM = {"id": "a:0", "row": 3, "time": "2026-11-27T00:10:00Z", "key": "m3", "score": 19.7,
         "threshold": 8.97, "status": "firing", "began": 3, "n": 2, "keys": "m3, m5",
         "text": "machine: 2 of 20 began something new within 10s: flow low (m3, m5)"}  # fmt: skip


def told(row):
    return pa.RecordBatch.from_pylist([{k: v for k, v in row.items() if k != "id"}])


def test_a_chat_gets_a_text():
    with listening([]) as (address, posts):
        sink = open_sink(f"{address}/hook?template=slack", None, "alarms")
        sink.rewind(None)
        sink.write(told(ALARM))
        sink.finish()
    ((path, _, body),) = posts
    assert path == "/hook"
    lines = body["text"].splitlines()
    assert lines[0] == f":rotating_light: {ALARM['text']}"
    assert lines[1] == "2026-11-27T00:10:00Z, surprise 19.7 (threshold 8.97)"
    with pytest.raises(ConfigError, match="template must be one of json, slack, alertmanager"):
        open_sink(f"{address}/hook?template=fax", None, "alarms")


def test_mail_arrives_or_is_refused_for_good(tmp_path):
    with mail_server() as (port, mails):
        address = f"smtp://127.0.0.1:{port}/?to=ops@example.com&from=plant@example.com"
        sink = open_sink(address, tmp_path, "alarms")
        sink.rewind(None)
        sink.write(told(ALARM))
        sink.finish()
        refused = open_sink(address.replace("ops@", "nobody@"), tmp_path, "alarms")
        refused.rewind(None)
        refused.write(told(ALARM))
        refused.finish()
    (mail,) = mails
    assert f"Subject: {ALARM['text']}" in mail.replace("\r\n ", " ").replace("\n ", " ")
    assert "threshold: 8.97" in mail
    assert (sink.undelivered, refused.undelivered) == (0, 1)
    with pytest.raises(ConfigError, match="needs"):
        open_sink("smtp://127.0.0.1/?to=ops@example.com", None, "alarms")


@contextmanager
def mail_server():
    """Serve SMTP on a free port, refusing nobody@; yield the port and the mails."""
    mails = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            self.wfile.write(b"220 here\r\n")
            for line in self.rfile:
                word = line.upper().split(b":")[0].split()[0]
                if word == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                    mails.append(b"".join(iter(self.rfile.readline, b".\r\n")).decode())
                if b"nobody@" in line:
                    self.wfile.write(b"550 no such person\r\n")
                else:
                    self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 fine\r\n")
                if word == b"QUIT":
                    return

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server.server_address[1], mails
        finally:
            server.shutdown()
            thread.join()


def test_alertmanager_shows_alarms_and_their_end(tmp_path):
    program = shutil.which("prometheus-alertmanager")
    if program is None:
        pytest.skip("needs Debian's prometheus-alertmanager")
    config = tmp_path / "config.yml"
    config.write_text("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n")
    port = free_port()
    server = subprocess.Popen(
        [program, f"--config.file={config}", f"--storage.path={tmp_path / 'data'}",
         f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address="],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip

    def shown():
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v2/alerts", timeout=5) as answer:
            return sorted(alarm["labels"]["key"] for alarm in json.load(answer))

    try:
        sink = open_sink(
            f"http://127.0.0.1:{port}/api/v2/alerts?template=alertmanager", tmp_path, "alarms"
        )
        sink.rewind(None)
        sink.write(told(ALARM))  # before it listens
        delivered(sink)
        assert shown() == ["m3", "m5"]
        sink.write(told(ALARM | {"status": "resolved", "keys": "m5"}))
        delivered(sink)
        sink.finish()
        assert shown() == ["m3"]
    finally:
        server.kill()
        server.wait()
    assert sink.undelivered == 0


@pytest.mark.parametrize("group", [None, "3"])
@pytest.mark.parametrize("size", [1, 7])
def test_messages_are_the_same_whatever_the_batches(size, group, tmp_path):
    rng = np.random.default_rng(1)
    scores = rng.exponential(size=900)
    scores[[600, 601, 602, 615, 616, 700]] += 50
    keys = np.tile(["a", "b", "c"], 300)

    def told(size, *, keyed):
        alarming, found = Alarming(AlarmRule(0.001, group=group, by="pump")), []
        with SqliteStore(tmp_path / f"{size}-{keyed}-{group}") as store:
            for start in range(0, 900, size):
                part = slice(start, min(start + size, 900))
                cells = {"row": np.arange(part.start, part.stop), "score": scores[part]}
                cells["time"] = np.arange(part.start, part.stop) // 3 * 1.0
                cells |= {"state": [int(row < 610) for row in cells["row"]]}
                cells |= {"key": keys[part]} if keyed else {}
                results = pa.record_batch(cells)
                judged = alarming.judge(results)
                rows = results["row"].filter(pa.array(judged.began)).to_pylist()
                parts = [Part("flow", row, 0.0, 1.0, excess=9.0) for row in rows]
                causes = [explanation([part], 9.0, 9.0, regime=1) for part in parts]
                found += alarming.tell(results, judged, causes).to_pylist()
                state = json.loads(json.dumps(alarming.save(store)))
                store.commit("model", {}, "run", state)
                alarming = Alarming(AlarmRule(0.001, group=group, by="pump"))
                alarming.restore(state, store)
            rest = alarming.release()
        return found + ([] if rest is None else rest.to_pylist())

    for keyed in (False, True):
        found = told(size, keyed=keyed)
        sort = lambda row: (row["row"], row["status"])  # noqa: E731
        assert sorted(found, key=sort) == sorted(told(900, keyed=keyed), key=sort)
    first = next(row for row in found if row["row"] == 600)
    assert (first["status"], first["threshold"] < 20) == ("firing", True)
    why = "flow 600, expected 0.0 ± 1.0: 600 standard deviations high"
    several = "pump: 3 of 3 began something new within 3: flow high in all (a, b, c)"
    assert first["text"] == (several if group else f"pump a began something new: {why}")
    over = next(row for row in found if row["began"] == 600 and row["status"] == "resolved")
    assert over["row"] > 601 + 30
    said = "pump: 2 of 3 are calm again within 3, not as before in all (a, b)"
    assert over["text"] == (said if group else "pump a is calm again, not as before")


def test_silent_alarms_are_counted_and_logged(tmp_path, caplog):
    path = tmp_path / "silences.toml"
    path.write_text(
        '[[silence]]\nkey = "p*"\nuntil = 1970-01-01T00:10:00Z\nreason = "cleaning"\n'
        '[[silence]]\nkey = "q"\nweekly = "Thu 01:00 - Thu 02:00"\nby = "Ann"\n'
    )
    silences = Silences(path)
    keys = ["p1", "p1", "q", "q", "r"]
    assert silences.cover(keys, [599, 600, 3600, 7200, 0]) == ["cleaning", None, "Ann", None, None]
    path.write_text('[[silence]]\nkey = "r"\nweekly = "Sun 23:00 - Mon 01:00"\nby = "Ann"\n')
    monday = 4 * 86_400
    told = silences.cover(["r"] * 3, [monday - 1, monday + 3599, monday + 3600])
    assert told == ["Ann", "Ann", None]
    path.write_text('[[silence]]\nkey = "b"\nreason = "cleaning"\nby = "Ann"\n')
    caplog.set_level("INFO", "streamddcrp.run")
    alarming = Alarming(AlarmRule(0.01, silences=str(path), by="pump"))
    scores = np.random.default_rng(1).exponential(size=600)
    scores[[500, 501]] = 50.0
    results = pa.record_batch(
        {"row": np.arange(600), "key": np.tile(["a", "b"], 300), "score": scores}
    )
    judged = alarming.judge(results)
    news = alarming.tell(results, judged, [None] * int(judged.began.sum()))
    assert "b" not in news.column("key").to_pylist()
    assert 500 in news.column("row").to_pylist()
    silent = judged.began & (np.arange(600) % 2 == 1)
    assert alarming.n_silenced == silent.sum() >= 1
    said = [record.getMessage() for record in caplog.records]
    assert said[-1] == "an alarm of pump b at row 501 is silent (cleaning, Ann)"
    for wrong in ('weekly = "daily"', "when = 3", 'from = "soon"'):
        path.write_text(f"[[silence]]\n{wrong}\n# {wrong}")
        with pytest.raises(ConfigError, match="cannot read the silences"):
            Silences(path)


def test_a_run_posts_its_alarms_and_counts_them(monkeypatch, tmp_path):
    pytest.importorskip("prometheus_client")
    monkeypatch.setattr(streamddcrp, "SeqDDCRP", Toy)
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "rows.csv", rows(400))
    with listening([]) as (address, posts):
        arguments = ["run", "rows.csv", "--time", "t", "--features", "a,b", "--sink", "out.jsonl"]
        arguments += ["--alarms", address, "--alarm-rate", "0.02", "--events", f"{address}/events"]
        arguments += ["--metrics", "127.0.0.1:0", "--checkpoint", "ck"]
        done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.stderr
    scores = [json.loads(line)["score"] for line in Path("out.jsonl").read_text().splitlines()]
    alarms = [body for path, _, body in posts if path == "/"]
    assert len(alarms) > 0
    for body in alarms:
        assert body["score"] >= scores[body["row"]]  # more where a regime is new and stays
        assert (body["score"] > body["threshold"]) == (body["status"] == "firing")
    events = [body for path, _, body in posts if path == "/events"]
    assert {body["kind"] for body in events} <= {"birth", "merge"}


def asked(port, path):
    """Return the status of an answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_metrics_are_served_and_the_dashboard_knows_their_names():
    pytest.importorskip("prometheus_client")
    from streamddcrp_connectors.live.metrics import Metrics

    metrics = Metrics("127.0.0.1:0")
    try:
        port = metrics._server.server_port
        times = pa.array([1.5e18, 1.6e18]).cast(pa.int64()).cast(pa.timestamp("ns", "UTC"))
        given = Rows(np.arange(2), pa.record_batch({"t": times, "a": [1.0, 2.0]}), Columns("t"))
        events = pa.record_batch({"kind": ["birth", "merge", "birth"]})
        judged = Alarms.none(np.zeros(2))
        judged.began[1] = True
        epoch = Epoch(given, batch(0, 1), events, None, 3, None, Summary(tables=4), 0.03, judged)
        assert asked(port, "readyz") == 503
        metrics.begin(epoch.summary)
        assert asked(port, "readyz") == 503
        epoch.summary.committed = time.monotonic()
        assert asked(port, "readyz") == asked(port, "healthz") == 200
        epoch.summary.waiting_for = "nats"
        assert (asked(port, "readyz"), asked(port, "healthz")) == (503, 200)
        epoch.summary.waiting_for, epoch.summary.alive = None, time.monotonic() - 301
        assert asked(port, "healthz") == 503
        metrics.epoch(epoch)
        metrics.epoch(epoch)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
    finally:
        metrics.close()
    values = dict(re.findall(r"^(\w+(?:{[^}]*})?) (\S+)$", text, re.MULTILINE))
    assert float(values["streamddcrp_rows_total"]) == 4
    assert float(values["streamddcrp_refused_rows_total"]) == 6
    assert float(values["streamddcrp_alarms_total"]) == 2
    assert float(values['streamddcrp_events_total{kind="birth"}']) == 4
    assert float(values["streamddcrp_tables"]) == 4
    assert float(values['streamddcrp_batch_seconds_bucket{le="0.02"}']) == 0
    assert float(values['streamddcrp_batch_seconds_bucket{le="0.05"}']) == 2
    assert float(values["streamddcrp_lag_seconds"]) > 1e8
    assert float(values["streamddcrp_waiting"]) == 0
    assert float(values["streamddcrp_calibrating"]) == 1  # no threshold was finite
    dashboard = (REPOSITORY / "docs" / "grafana-dashboard.json").read_text()
    named = set(re.findall(r"streamddcrp_\w+", dashboard))
    assert len(named) == 8
    assert named <= {name.partition("{")[0] for name in values}


@pytest.mark.parametrize("address", ["9100x", "127.0.0.1:", "127.0.0.1:99999", "8.8.8.8:9100"])
def test_unusable_addresses_of_metrics(address):
    pytest.importorskip("prometheus_client")
    from streamddcrp_connectors.live.metrics import Metrics

    with pytest.raises(ConfigError, match="--metrics must be HOST:PORT of this machine"):
        Metrics(address)
