"""Prometheus metrics of a run: counters, a histogram of times, and the current state.

Beside ``/metrics`` there are ``/healthz`` and ``/readyz``. ``/healthz`` answers 503 when the run
has done nothing for `SILENT` seconds; ``/readyz`` does while the run catches up to where the last
run ended or waits for a server.
"""

import math
import threading
import time
from collections.abc import Iterable
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import numpy as np
import prometheus_client as prometheus
import pyarrow as pa
import pyarrow.compute as pc

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.run.loop import Epoch

_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


KEYS = 100  # keys, and columns, with a metric of their own
SILENT = 300.0  # seconds; a kernel may have to be compiled


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    timeout = 10

    def log_message(self, *_: Any) -> None:
        """Log no requests."""


class Metrics:
    """Serve the metrics of a run at ``http://HOST:PORT/metrics``.

    Without a host, only this machine can reach it.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        registry = prometheus.CollectorRegistry()
        self._summary: Any = None
        self._last: float | None = None
        self._calibrated = False

        def count(name: str, text: str, *labels: str) -> Any:
            return prometheus.Counter(f"streamddcrp_{name}", text, labels, registry=registry)

        def now(name: str, text: str, value: Any) -> None:
            gauge = prometheus.Gauge(f"streamddcrp_{name}", text, registry=registry)
            gauge.set_function(lambda: math.nan if self._summary is None else value(self._summary))

        self._rows = count("rows", "Rows learned.")
        self._refused = count("refused_rows", "Rows that were set aside.")
        self._alarms = count("alarms", "Alarms that began.")
        self._of_key = count("key_alarms", f"Alarms of keys, the first {KEYS} that had any.", "key")
        text = (
            f"Alarms that began, by the column furthest from expected, the first {KEYS} of these."
        )
        self._of_column = count("column_alarms", text, "column")
        self._events = count("events", "Births, returns, merges, splits, deaths.", "kind")
        self._seconds = prometheus.Histogram(
            "streamddcrp_batch_seconds", "From a batch's arrival to its commit.",
            buckets=_BUCKETS, registry=registry,
        )  # fmt: skip
        now("tables", "Live tables of the models in memory.", lambda run: run.tables)
        now("waiting", "1 while a server is away.", lambda run: bool(run.waiting_for))
        now("undelivered_messages", "Messages that nobody took.", lambda run: run.undelivered)
        now("silenced_alarms", "Alarms that were not told.", lambda run: run.silenced)
        now("calibrating", "1 while no row can be an alarm.", lambda _: not self._calibrated)
        now("checkpoint_age_seconds", "Since the last commit.", lambda _: self._since("committed"))
        now("lag_seconds", "From the time stamp of the last row until now.", self._lag)
        self._keys: set[str] = set()
        self._columns: set[str] = set()
        serve = prometheus.make_wsgi_app(registry)

        def answer(environ: Any, start: Any) -> Any:
            good = {"/healthz": self.healthy, "/readyz": self.ready}.get(environ["PATH_INFO"])
            if good is None:
                return serve(environ, start)
            start("200 OK" if good() else "503 Service Unavailable", [("Content-Length", "0")])
            return []

        try:
            self._server = make_server(
                host.strip("[]") or "127.0.0.1", int(port), answer, _Server, _Quiet
            )
        except (ValueError, OverflowError, OSError) as error:
            message = f"--metrics must be HOST:PORT of this machine, got {address!r}: {error}"
            raise ConfigError(message) from error
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def begin(self, summary: Any) -> None:
        self._summary = summary

    def healthy(self) -> bool:
        return self._summary is None or self._since("alive") < SILENT

    def ready(self) -> bool:
        """Whether the run has caught up and waits for no server."""
        summary = self._summary
        return summary is not None and summary.committed is not None and not summary.waiting_for

    def _lag(self, _: Any) -> float:
        return math.nan if self._last is None else time.time() - self._last

    def _since(self, what: str) -> float:
        then = getattr(self._summary, what)
        return math.nan if then is None else time.monotonic() - then

    def epoch(self, epoch: Epoch) -> None:
        self._rows.inc(0 if epoch.results is None else epoch.results.num_rows)
        self._refused.inc(epoch.refused)
        self._seconds.observe(epoch.seconds)
        if epoch.judged is not None:
            self._alarms.inc(int(epoch.judged.began.sum()))
            self._calibrated |= bool(np.isfinite(epoch.judged.threshold).any())
            if "key" in epoch.results.schema.names:
                began = epoch.results.column("key").filter(pa.array(epoch.judged.began))
                _count(self._of_key, self._keys, map(str, began.to_pylist()))
            named = (cause.parts[0].name for cause in epoch.causes if cause and cause.parts)
            _count(self._of_column, self._columns, named)
        if epoch.events is not None:
            for count in pc.value_counts(epoch.events.column("kind")).to_pylist():
                self._events.labels(count["values"]).inc(count["counts"])
        name = epoch.rows.columns.time
        if name is not None and len(epoch.rows):
            times = epoch.rows.batch.column(name)
            if pa.types.is_timestamp(times.type):
                newest = pc.max(times).cast(pa.timestamp("us", times.type.tz))
                self._last = newest.cast(pa.int64()).as_py() / 1e6

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(1.0)


def _count(counter: Any, known: set[str], names: Iterable[str]) -> None:
    """Count names up to a limit."""
    for name in names:
        if name in known or len(known) < KEYS:
            known.add(name)
            counter.labels(name).inc()
