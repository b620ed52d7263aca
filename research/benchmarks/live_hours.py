"""Eight hours of a live stream at ten rows a second in one run: memory, and bytes of the journal.

288,000 rows from each server to a file, with a checkpoint, as fast as they go. Memory is that of
the job's process alone, after each tenth of the rows. A message holds ten rows; a table's row is
one.
"""

from __future__ import annotations

import http.client
import json
import multiprocessing
import os
import signal
import tempfile
import time
from pathlib import Path

import click

from benchmarks.live import COLUMNS, table
from streamddcrp import SeqDDCRP
from streamddcrp_connectors.run.loop import open_store, run
from streamddcrp_connectors.run.models import Recipe
from streamddcrp_connectors.run.sinks import open_sink
from streamddcrp_connectors.run.sources import open_source
from tests.connectors.brokers import Mosquitto, Postgres
from tests.connectors.servers import Nats, Redis, free_port

ROWS, EACH = 288_000, 10


class Watch:
    """Notes memory and journal as rows come in."""

    def __init__(self, inbox: Path, rows: int) -> None:
        self.inbox, self.rows = inbox, rows
        self.memory: list[float] = []
        self.journal = 0

    def epoch(self, epoch: object) -> None:
        done = epoch.summary.rows  # type: ignore[attr-defined]
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        if done >= len(self.memory) * self.rows // 10:
            self.memory.append(pages * os.sysconf("SC_PAGESIZE") / 2**20)
        held = sum(path.stat().st_size for path in self.inbox.glob("*.journal"))
        self.journal = max(self.journal, held)
        if done >= self.rows:
            os.kill(os.getpid(), signal.SIGTERM)


def job(source: str, folder: str, rows: int, pipe: object) -> None:
    """Run until all rows are there."""
    watch = Watch(Path(folder, "inbox"), rows)
    opened = open_source(source, COLUMNS, batch_rows=1000)
    begun = time.process_time()
    with open_store(Path(folder, "ck")) as store:
        out = open_sink(Path(folder, "out.jsonl"), None, Path(folder, "ck"))
        recipe = Recipe(SeqDDCRP, SeqDDCRP.from_bytes)
        summary = run(opened, recipe, out, store=store, watchers=[watch])
    opened.close()
    seconds = time.process_time() - begun
    pipe.send((summary.rows, watch.memory, watch.journal, seconds))  # type: ignore[attr-defined]


def messages(rows: int) -> list[bytes]:
    lines = [json.dumps(row).encode() for row in table(rows).to_pylist()]
    return [b"\n".join(lines[at : at + EACH]) for at in range(0, rows, EACH)]


def post(port: int, bodies: list[bytes]) -> None:
    """Post ten messages at a time, again and again where the journal is full."""
    waited = 0
    link = http.client.HTTPConnection("127.0.0.1", port)
    for at in range(0, len(bodies), 10):
        while True:
            try:
                link.request("POST", "/rows", b"\n".join(bodies[at : at + 10]))
                answer = link.getresponse()
                answer.read()
            except OSError:
                link.close()
                time.sleep(0.2)
                continue
            if answer.status == 200:
                break
            waited += 1
            time.sleep(0.05)
    click.echo(f"  the journal was full {waited} times")


def publish(broker: Mosquitto, bodies: list[bytes]) -> None:
    from paho.mqtt import client as paho
    from paho.mqtt.enums import CallbackAPIVersion

    client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.max_queued_messages_set(0)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    sent = [client.publish("rows", body, qos=1) for body in bodies]
    for message in sent:
        message.wait_for_publish()
    client.disconnect()
    client.loop_stop()


def measure(name: str, folder: Path, rows: int) -> None:
    """Start a server and a job, and say what was found."""
    server = feed = None
    if name == "nats":
        server = Nats(folder / "server")
        server.make("IN", "in")
        server.publish("in", messages(rows))
        source = server.url("IN")
    elif name == "redis":
        server = Redis(folder / "server")
        server.publish("in", messages(rows))
        source = server.url("in")
    elif name == "postgresql":
        (folder / "server").mkdir()
        server = Postgres(folder / "server")
        server.do("create table rows (id bigserial primary key, t float8, a float8, b float8, "
                  "c float8, d float8)")  # fmt: skip
        with server.connect() as link, link.cursor().copy("copy rows (t,a,b,c,d) from stdin") as to:
            for row in table(rows).to_pylist():
                to.write_row(tuple(row.values()))
        source = f"postgresql://postgres@127.0.0.1:{server.port}/postgres/rows?order=id"
    elif name == "mqtt":
        server = Mosquitto(folder / "server", "allow_anonymous true", "max_inflight_messages 1000")
        source = f"mqtt://127.0.0.1:{server.port}/rows?journal={folder}/inbox&journal_mb=16"
        feed = lambda: publish(server, messages(rows))  # noqa: E731
    else:
        port = free_port()
        source = f"http-push://127.0.0.1:{port}/rows?journal={folder}/inbox&journal_mb=16"
        feed = lambda: post(port, messages(rows))  # noqa: E731
    here, there = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(
        target=job, args=(source, str(folder), rows, there)
    )
    process.start()
    try:
        if feed is not None:
            time.sleep(15)  # until it listens, or has subscribed
            feed()
        done, memory, journal, seconds = here.recv()
        process.join()
    finally:
        if server is not None:
            server.stop()
    shown = " ".join(f"{mb:.0f}" for mb in memory)
    click.echo(f"{name}: {done:,} rows, {seconds:.0f} s of the processor; MiB after each tenth: "
               f"{shown}; journal at most {journal / 2**20:.1f} MiB")  # fmt: skip


@click.command("live_hours")
@click.option("--rows", default=ROWS, show_default=True)
@click.argument("names", nargs=-1)
def main(rows: int, names: tuple[str, ...]) -> None:
    """Measure each source, or those that are named."""
    for name in names or ("nats", "redis", "postgresql", "mqtt", "http-push"):
        with tempfile.TemporaryDirectory() as folder:
            os.chmod(folder, 0o755)
            measure(name, Path(folder), rows)


if __name__ == "__main__":
    main()
