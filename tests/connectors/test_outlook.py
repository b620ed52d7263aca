"""Alarms, their way to a web address, and counts for Prometheus."""

import http.server
import json
import re
import threading
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

import streamddcrp
from streamddcrp.checkpoint import SqliteStore
from streamddcrp.errors import ConfigError
from streamddcrp.monitor.alarm import Alarms
from streamddcrp_connectors.cli import main
from streamddcrp_connectors.live.webhook import WebhookSink
from streamddcrp_connectors.run.alarming import Alarming, AlarmRule
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.models import Rows
from streamddcrp_connectors.run.runner import Epoch, Summary
from streamddcrp_connectors.run.silences import Silences
from tests.conftest import REPOSITORY

from .data import rows, write_csv
from .toy import Toy


@contextmanager
def listening(answers):
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

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
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


def test_what_is_refused_is_posted_again_with_its_id(monkeypatch):
    with listening([503, 500, 200, 302]) as (address, posts):
        sink = WebhookSink(f"{address}/secret?room=1", "alarms")
        assert sink.name == address
        sink.rewind(None)
        sink.write(batch(7, 8))
        while sink.sync()["waiting"]:
            sink._next_try = 0.0
        sink.finish()
    assert [body["row"] for _, _, body in posts] == [7, 7, 7, 8, 8]
    assert {path for path, _, _ in posts} == {"/secret?room=1"}
    ids = [body["id"] for _, _, body in posts]
    assert ids == [headers["Idempotency-Key"] for _, headers, _ in posts]
    assert len(set(ids)) == 2


def test_what_could_not_be_delivered_is_in_the_checkpoint(monkeypatch):
    monkeypatch.setenv("TOKEN", "t0ken")
    with listening([503]) as (address, posts):
        sink = WebhookSink(f"{address}/?token_env=TOKEN", "alarms")
        sink.rewind(None)
        sink.write(batch(7))
        position = json.loads(json.dumps(sink.sync()))
        assert "t0ken" not in json.dumps(position) + sink.name
        sink.abandon()  # the process dies
        again = WebhookSink(f"{address}/?token_env=TOKEN", "alarms")
        again.rewind(position)
        assert again.waiting
        again.write(batch(8))
        assert again.sync()["waiting"] == []
    assert [body["row"] for _, _, body in posts] == [7, 7, 8]
    assert posts[0][2] == posts[1][2]
    assert posts[0][1]["Authorization"] == "Bearer t0ken"


def test_nobody_listens(monkeypatch, caplog):
    sink = WebhookSink("http://127.0.0.1:9", "alarms")
    sink.rewind(None)
    for number in range(1001):
        sink.write(batch(number))
        if number < 1000:
            assert len(sink.sync()["waiting"]) == number + 1
    with pytest.raises(ConnectionError, match="1,001 rows are waiting"):
        sink.sync()
    assert sum("does not accept rows" in record.getMessage() for record in caplog.records) == 1


@pytest.mark.parametrize("group", [None, "3"])
@pytest.mark.parametrize("size", [1, 7, 1000])
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
                cells |= {"key": keys[part]} if keyed else {}
                results = pa.record_batch(cells)
                found += alarming.tell(results, alarming.judge(results)).to_pylist()
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
    if group:
        assert first["text"] == "3 of 3 keys (pump) began something new within 3: a, b, c"
    else:
        assert first["text"] == "pump a began something new"
    over = next(row for row in found if row["began"] == 600 and row["status"] == "resolved")
    assert over["row"] > 601 + 30


def test_silent_alarms_are_counted(tmp_path):
    path = tmp_path / "silences.toml"
    path.write_text(
        '[[silence]]\nkey = "p*"\nuntil = 1970-01-01T00:10:00Z\nreason = "cleaning"\n'
        '[[silence]]\nkey = "q"\nweekly = "Thu 01:00 - Thu 02:00"\n'
    )
    silences = Silences(path)
    keys = ["p1", "p1", "q", "q", "r"]
    assert silences.cover(keys, [599, 600, 3600, 7200, 0]).tolist() == [
        True,
        False,
        True,
        False,
        False,
    ]
    path.write_text('[[silence]]\nkey = "r"\nweekly = "Sun 23:00 - Mon 01:00"\n')
    monday = 4 * 86_400
    assert silences.cover(["r"] * 3, [monday - 1, monday + 3599, monday + 3600]).tolist() == [
        1,
        1,
        0,
    ]
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
        assert body["score"] == scores[body["row"]]
        assert (body["score"] > body["threshold"]) == (body["status"] == "firing")
    events = [body for path, _, body in posts if path == "/events"]
    assert {body["kind"] for body in events} <= {"birth", "merge"}


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
