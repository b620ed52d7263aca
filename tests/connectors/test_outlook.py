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
from streamddcrp import Alarm
from streamddcrp.errors import ConfigError
from streamddcrp_connectors.cli import main
from streamddcrp_connectors.live.webhook import WebhookSink
from streamddcrp_connectors.run.alarming import Alarming
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.models import Rows
from streamddcrp_connectors.run.runner import Epoch, Summary
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


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_alarms_begin_once_whatever_the_batches(size):
    scores = np.random.default_rng(1).exponential(size=900)
    scores[[500, 501, 502, 510, 521, 700]] += 50
    whole = Alarm(0.001).step_many(scores).alarm
    expected = [i for i in np.flatnonzero(whole) if not whole[max(i - 10, 0) : i].any()]
    alarming, found = Alarming(0.001), []
    for start in range(0, 900, size):
        part = scores[start : start + size]
        results = pa.record_batch({"row": np.arange(start, start + len(part)), "score": part})
        found += alarming.begun(results).column("row").to_pylist()
        again = Alarming(0.001)
        again.restore(json.loads(json.dumps(alarming.state())))
        alarming = again
    assert found == expected
    assert {500, 521, 700} <= set(found)
    assert 510 not in found


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
        assert body["score"] == scores[body["row"]] > body["threshold"]
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
        epoch = Epoch(given, batch(0, 1), events, batch(1), 3, None, Summary(tables=4), 0.03)
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
