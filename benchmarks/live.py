"""Live streams between real servers on this machine: time to an answer, and rows a second.

The servers (nats-server, redis-server) are started on free ports and end with the benchmark. Every
run has a checkpoint. A rate counts processor time of the job, all its threads, after the first
tenth of the rows, in which the prior is chosen: on a machine that others use as well the clock says
little. A time to an answer goes from before a row is sent to after its result has been read from
the same server; the job is another process.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from streamddcrp import SeqDDCRP
from streamddcrp_connectors.run.columns import Columns, arrow_stream
from streamddcrp_connectors.run.loop import open_store, run
from streamddcrp_connectors.run.models import Recipe
from streamddcrp_connectors.run.sinks import open_sink
from streamddcrp_connectors.run.sources import open_source
from tests.connectors.servers import Nats, Redis

FEATURES = ("a", "b", "c", "d")
COLUMNS = Columns("t", None, FEATURES)
COMMAND = "from streamddcrp_connectors.__main__ import main; main()"


class Stopwatch:
    """Note when batches are done."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, float, int]] = []

    def epoch(self, epoch: object) -> None:
        self.seen.append((time.process_time(), time.perf_counter(), epoch.summary.rows))  # type: ignore[attr-defined]

    @property
    def rates(self) -> tuple[float, float]:
        """Rows a second of the processor, and of the clock."""
        cpu, clock, rows = self.seen[-1]
        first = next(item for item in self.seen if item[2] >= rows / 10)
        return (rows - first[2]) / (cpu - first[0]), (rows - first[2]) / (clock - first[1])


def table(n: int) -> pa.Table:
    """Rows of four features in three regimes."""
    draw = np.random.default_rng(0)
    X = draw.normal(size=(n, 4)) + 6.0 * (np.arange(n) // 5000 % 3)[:, None]
    return pa.table({"t": np.arange(n, dtype=float), **dict(zip(FEATURES, X.T, strict=True))})


def rate(folder: Path, source: str, sink: str) -> tuple[float, float]:
    """Run until the source is idle; return the rates."""
    folder.mkdir()
    watch = Stopwatch()
    opened = open_source(source, COLUMNS, batch_rows=1000)
    with open_store(folder / "ck") as store:
        out = open_sink(sink.replace("FOLDER", str(folder)), None, folder / "ck")
        recipe = Recipe(SeqDDCRP, SeqDDCRP.from_bytes)
        run(opened, recipe, out, store=store, watchers=[watch], idle=1.0)
    opened.close()
    return watch.rates


def answers_of_nats(server: Nats, n: int, send: object) -> list[float]:
    """Send ``n`` rows, ten a second; return the seconds until each result was read."""
    import nats  # noqa: PLC0415

    sent, got = {}, {}

    async def work() -> None:
        client = await nats.connect(f"nats://127.0.0.1:{server.port}")
        stream = client.jetstream()

        async def came(message: object) -> None:
            got[json.loads(message.data)["row"]] = time.perf_counter()  # type: ignore[attr-defined]

        await stream.subscribe("out", ordered_consumer=True, cb=came)
        for number in range(n):
            sent[number] = time.perf_counter()
            await stream.publish("in", send(number))  # type: ignore[operator]
            await asyncio.sleep(0.1)
        await asyncio.sleep(2.0)
        await client.close()

    asyncio.run(work())
    return [got[number] - sent[number] for number in range(n)]


def answers_of_redis(server: Redis, n: int, send: object) -> list[float]:
    """Do the same on Redis."""
    sent, got = {}, {}
    client = server.client

    def read() -> None:
        last = "0-0"
        reader = server.client
        while len(got) < n:
            for _, entries in reader.xread({"out": last}, block=4000) or []:
                for last, fields in entries:  # noqa: B007 -- the last stays
                    got[json.loads(fields[b"data"])["row"]] = time.perf_counter()

    thread = threading.Thread(target=read)
    thread.start()
    for number in range(n):
        sent[number] = time.perf_counter()
        client.xadd("in", {"data": send(number)})  # type: ignore[operator]
        time.sleep(0.1)
    thread.join(10.0)
    return [got[number] - sent[number] for number in range(n)]


def waits(folder: Path, server: Nats | Redis, source: str, n: int) -> list[float]:
    """Start a job, and return the seconds to an answer after the first 30 rows."""
    folder.mkdir()
    command = [sys.executable, "-c", COMMAND, "run", source, "--time", "t", "--features"]
    command += [",".join(FEATURES), "--sink", server.url("out"), "--checkpoint", "ck"]
    rows = table(n + 30).to_pylist()

    def send(number: int) -> bytes:
        return json.dumps(rows[number]).encode()

    job = subprocess.Popen(command, cwd=folder, env=dict(os.environ), stderr=subprocess.DEVNULL)
    try:
        time.sleep(8.0)
        ask = answers_of_nats if isinstance(server, Nats) else answers_of_redis
        return ask(server, n + 30, send)[30:]  # type: ignore[arg-type]
    finally:
        job.send_signal(signal.SIGTERM)
        job.wait(20.0)


def spread(values: list[float]) -> str:
    """Return median (least .. most)."""
    return f"{np.median(values):,.0f} ({min(values):,.0f} .. {max(values):,.0f})"


Figure = float | tuple[float, float]  # by the processor's time, and by the clock


def noting(found: dict[str, list[float]], digits: int) -> Callable[[str, Figure], None]:
    """What prints a figure as it is measured, and keeps it under its name."""

    def note(name: str, value: Figure) -> None:
        if isinstance(value, tuple):
            note(f"{name}, by the clock", value[1])
            value = value[0]
        found.setdefault(name, []).append(value)
        click.echo(f"{name}: {value:,.{digits}f}  (load {os.getloadavg()[0]:.1f})")

    return note


@click.command("live")
@click.option("--rows", default=100_000, show_default=True)
@click.option("--answers", default=100, show_default=True, help="Rows of a measurement of time.")
@click.option("--repeats", default=3, show_default=True)
def main(rows: int, answers: int, repeats: int) -> None:
    """Measure live streams on the servers that are installed."""
    root = Path(tempfile.mkdtemp())
    data = table(rows)
    pq.write_table(data, root / "rows.parquet")
    rows_json = [json.dumps(row).encode() for row in data.to_pylist()]
    ten = [b"\n".join(rows_json[i : i + 10]) for i in range(0, rows, 10)]
    arrow = [arrow_stream([part]) for part in data.to_batches(max_chunksize=500)]
    found: dict[str, list[float]] = {}
    note = noting(found, 0)

    for repeat in range(repeats):
        place = root / str(repeat)
        place.mkdir()
        note("parquet -> file", rate(place / "p", str(root / "rows.parquet"), "FOLDER/out.jsonl"))
        for kind in (Nats, Redis):
            if shutil.which(kind.program) is None:
                continue
            name = kind.__name__.lower()
            server = kind(place / name)
            try:
                for what, messages in (("json", rows_json), ("json x 10", ten), ("arrow", arrow)):
                    key = f"in{len(messages)}"
                    if kind is Nats:
                        server.make(key.upper(), key)
                    server.publish(key, messages)
                    source = server.url(key.upper() if kind is Nats else key)
                    value = rate(place / f"{name} {what}", source, "FOLDER/out.jsonl")
                    note(f"{name} {what} -> file", value)
                if kind is Nats:
                    server.make("OUT", "out")
                    server.make("IN", "in")
                value = rate(place / f"to {name}", str(root / "rows.parquet"), server.url("other"
                    if kind is Redis else "out"))  # fmt: skip
                note(f"parquet -> {name}", value)
                if kind is Nats:
                    server.do(lambda stream: stream.purge_stream("OUT"))
                source = server.url("IN" if kind is Nats else "in")
                seconds = waits(place / f"{name} waits", server, source, answers)
                for share in (50, 99):
                    value = 1000 * float(np.percentile(seconds, share))
                    note(f"{name} answer, {share} %, ms", value)
            finally:
                server.stop(signal.SIGTERM)
    click.echo()
    for name, values in found.items():
        click.echo(f"| {name} | {spread(values)} |")
    shutil.rmtree(root)


if __name__ == "__main__":
    main()
