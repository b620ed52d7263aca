"""What a run does, for Prometheus: counts, a histogram of times, and how it stands now."""

import time
from typing import Any

import prometheus_client as prometheus
import pyarrow as pa
import pyarrow.compute as pc

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.run.loop import Epoch

_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class Metrics:
    """Serve the numbers of a run at ``http://HOST:PORT/metrics``.

    Parameters
    ----------
    address : str
        ``HOST:PORT``; without a host, this machine only.

    Raises
    ------
    ConfigError
        The address cannot be used.
    """

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        registry = prometheus.CollectorRegistry()
        self._rows = prometheus.Counter("streamddcrp_rows", "Rows learned.", registry=registry)
        self._refused = prometheus.Counter(
            "streamddcrp_refused_rows", "Rows that were set aside.", registry=registry
        )
        self._alarms = prometheus.Counter(
            "streamddcrp_alarms", "Alarms that began.", registry=registry
        )
        self._events = prometheus.Counter(
            "streamddcrp_events", "Births, returns, merges, splits, deaths.", ["kind"],
            registry=registry,
        )  # fmt: skip
        self._tables = prometheus.Gauge(
            "streamddcrp_tables", "Live tables of the models in memory.", registry=registry
        )
        self._seconds = prometheus.Histogram(
            "streamddcrp_batch_seconds", "From a batch's arrival to its commit.",
            buckets=_BUCKETS, registry=registry,
        )  # fmt: skip
        waiting = prometheus.Gauge(
            "streamddcrp_waiting", "1 while a server is away.", registry=registry
        )
        lag = prometheus.Gauge(
            "streamddcrp_lag_seconds", "From the time stamp of the last row until now.",
            registry=registry,
        )  # fmt: skip
        self._summary: Any = None
        self._last: float | None = None
        waiting.set_function(lambda: float(bool(self._summary and self._summary.waiting_for)))
        lag.set_function(lambda: float("nan") if self._last is None else time.time() - self._last)
        try:
            self._server, self._thread = prometheus.start_http_server(
                int(port), addr=host.strip("[]") or "127.0.0.1", registry=registry
            )
        except (ValueError, OverflowError, OSError) as error:
            message = f"--metrics must be HOST:PORT of this machine, got {address!r}: {error}"
            raise ConfigError(message) from error

    def epoch(self, epoch: Epoch) -> None:
        """Count a batch."""
        self._summary = summary = epoch.summary
        self._rows.inc(0 if epoch.results is None else epoch.results.num_rows)
        self._refused.inc(epoch.refused)
        self._tables.set(summary.tables)
        self._seconds.observe(epoch.seconds)
        if epoch.judged is not None:
            self._alarms.inc(int(epoch.judged.began.sum()))
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
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(1.0)
