"""The other live streams, measured like those of `live`: journal, MQTT, Kafka, PostgreSQL.

Mosquitto and PostgreSQL are started on free ports; Kafka is the broker in memory of its C library.
"""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.live import COLUMNS, COMMAND, FEATURES, noting, rate, spread, table
from streamddcrp_connectors.live.journal import Entry, Journal
from streamddcrp_connectors.run.columns import arrow_stream
from streamddcrp_connectors.run.sources import open_source
from tests.connectors.brokers import Kafka, Mosquitto, Postgres
from tests.connectors.servers import free_port

MAKE = (
    "create table flow (id bigserial primary key, t float8, a float8, b float8, c float8, d float8)"
)


def journal(folder: Path, messages: list[bytes]) -> str:
    """Fill the journal of an HTTP source."""
    kept = Journal(folder)
    kept.put_all([Entry(message) for message in messages])
    kept.close()
    return f"http-push://127.0.0.1:{free_port()}?journal={folder}"


def mqtt(broker: Mosquitto, folder: Path, messages: list[bytes]) -> str:
    """Publish what waits for a job."""
    from tests.connectors.test_mqtt import publisher

    topic = folder.name
    source = f"mqtt://127.0.0.1:{broker.port}/{topic}?journal={folder}"
    opened = open_source(source, COLUMNS)
    next(opened.messages_after(None))  # type: ignore[attr-defined]
    opened.close()
    client, published = publisher(broker.port), []
    client.on_publish = lambda *_: published.append(1)
    for message in messages:
        client.publish(topic, message, qos=1)
    while len(published) < len(messages):
        time.sleep(0.05)
    client.disconnect()
    client.loop_stop()
    return source


def kafka(broker: Kafka, topic: str, messages: list[bytes]) -> str:
    """Fill a topic."""
    from tests.connectors.test_kafka import produce

    produce(broker, topic, messages)
    return f"kafka://{broker.hosts}/{topic}?partition=0"


def postgres(server: Postgres, data: object) -> str:
    """Fill a table; return the address of its database."""
    names = ", ".join(["t", *FEATURES])
    server.do("drop table if exists flow, results", MAKE)
    with (
        server.connect() as connection,
        connection.cursor().copy(f"copy flow ({names}) from stdin") as copy,
    ):
        for row in zip(*(data[name].to_pylist() for name in ["t", *FEATURES]), strict=True):  # type: ignore[index]
            copy.write_row(row)
    return f"postgresql://postgres@127.0.0.1:{server.port}/postgres"


def job(folder: Path, source: str, sink: str) -> subprocess.Popen[bytes]:
    """Start a job of its own."""
    folder.mkdir()
    command = [sys.executable, "-c", COMMAND, "run", source, "--time", "t", "--features"]
    command += [",".join(FEATURES), "--sink", sink, "--checkpoint", "ck"]
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL)


def waits(folder: Path, source: str, publish: Callable[[bytes], None], n: int) -> list[float]:
    """Publish rows, ten a second; return the seconds to the result of each in a file."""
    process = job(folder, source, "out.jsonl")
    answered = []
    try:
        time.sleep(8.0)
        with (folder / "out.jsonl").open() as results:
            for row in table(n + 30).to_pylist():
                since = time.perf_counter()
                publish(json.dumps(row).encode())
                while not results.readline().endswith("\n"):
                    time.sleep(0.0005)
                answered.append(time.perf_counter() - since)
                time.sleep(0.1)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
    return answered[30:]


def waits_http(folder: Path, n: int) -> tuple[list[float], list[float]]:
    """Post rows; return the seconds to 200, and to the result."""
    port, accepted = free_port(), []
    connection = http.client.HTTPConnection("127.0.0.1", port)

    def publish(row: bytes) -> None:
        since = time.perf_counter()
        connection.request("POST", "/", row)
        connection.getresponse().read()
        accepted.append(time.perf_counter() - since)

    answered = waits(folder, f"http-push://127.0.0.1:{port}?journal=j", publish, n)
    return accepted[30:], answered


def waits_mqtt(folder: Path, broker: Mosquitto, n: int) -> list[float]:
    """Publish rows to a topic."""
    from tests.connectors.test_mqtt import publisher

    client, topic = publisher(broker.port), folder.name
    source = f"mqtt://127.0.0.1:{broker.port}/{topic}?journal=j"
    try:
        return waits(folder, source, lambda row: client.publish(topic, row, qos=1), n)
    finally:
        client.disconnect()
        client.loop_stop()


def waits_flight(folder: Path, n: int) -> list[float]:
    """Let a table grow on a Flight server."""
    from tests.connectors.test_flight import Shelf

    port, rows = free_port(), []
    empty = table(0)
    with Shelf(port, {"rows": empty}) as shelf:

        def publish(row: bytes) -> None:
            rows.append(json.loads(row))
            shelf.tables["rows"] = pa.Table.from_pylist(rows, empty.schema)

        return waits(folder, f"flight://127.0.0.1:{port}/rows", publish, n)


def waits_kafka(folder: Path, broker: Kafka, n: int) -> list[float]:
    """Produce rows; return the seconds to the committed result in another topic."""
    import confluent_kafka

    start = {"bootstrap.servers": broker.hosts}
    topics = [f"{name}-{folder.name}" for name in ("rows", "results")]
    for topic in topics:
        broker.tell("topic", topic, 1)
    source, sink = (f"kafka://{broker.hosts}/{topic}" for topic in topics)
    process = job(folder, f"{source}?partition=0", sink)
    producer = confluent_kafka.Producer(start | {"linger.ms": 0})
    reader = confluent_kafka.Consumer(start | {"group.id": "reader", "fetch.wait.max.ms": 10})
    reader.assign([confluent_kafka.TopicPartition(topics[1], 0, 0)])
    seconds = []
    try:
        time.sleep(8.0)
        for row in table(n + 30).to_pylist():
            since = time.perf_counter()
            producer.produce(topics[0], json.dumps(row).encode(), partition=0)
            producer.flush()
            while reader.poll(0.1) is None:
                pass
            seconds.append(time.perf_counter() - since)
            time.sleep(0.1)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
        reader.close()
    return seconds[30:]


def waits_postgres(folder: Path, server: Postgres, n: int) -> list[float]:
    """Insert rows, ten a second; return the seconds to the result in another table."""
    place = postgres(server, table(0))
    process = job(folder, f"{place}/flow?order=id&channel=flow", f"{place}/results")
    seconds = []
    try:
        time.sleep(8.0)
        with server.connect() as connection:
            insert = "insert into flow (t, a, b, c, d) values (%s, %s, %s, %s, %s)"
            ask = "select count(*) from pg_class where relname = 'results'"
            for number, row in enumerate(table(n + 30).to_pylist()):
                since = time.perf_counter()
                with connection.transaction():
                    connection.execute(insert, list(row.values()))
                    connection.execute("notify flow")
                while not connection.execute(ask).fetchone()[0]:
                    time.sleep(0.001)
                ask = f"select count(*) from results where row = {number}"
                while not connection.execute(ask).fetchone()[0]:
                    time.sleep(0.001)
                ask = f"select count(*) from results where row = {number + 1}"
                seconds.append(time.perf_counter() - since)
                time.sleep(0.1)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
    return seconds[30:]


@click.command("brokers")
@click.option("--rows", default=30_000, show_default=True)
@click.option("--answers", default=100, show_default=True, help="Rows of a measurement of time.")
@click.option("--repeats", default=3, show_default=True)
def main(rows: int, answers: int, repeats: int) -> None:
    """Measure the streams of MQTT, HTTP push, Kafka and PostgreSQL."""
    root = Path(tempfile.mkdtemp())
    root.chmod(0o755)  # PostgreSQL runs as another user
    data = table(rows)
    pq.write_table(data, root / "rows.parquet")
    one = [json.dumps(row).encode() for row in data.to_pylist()]
    ten = [b"\n".join(one[i : i + 10]) for i in range(0, rows, 10)]
    arrow = [arrow_stream([part]) for part in data.to_batches(max_chunksize=500)]
    found: dict[str, list[float]] = {}
    note = noting(found, 1)

    def note_seconds(name: str, seconds: list[float]) -> None:
        for share in (50, 99):
            note(f"{name}, {share} %, ms", 1000 * float(np.percentile(seconds, share)))

    broker, server, memory = (
        Mosquitto(root / "m"),
        Postgres(Path(tempfile.mkdtemp(dir=root))),
        Kafka(),
    )
    out, parquet = "FOLDER/out.jsonl", str(root / "rows.parquet")
    try:
        for repeat in range(repeats):
            at = root / str(repeat)
            at.mkdir()
            note("parquet -> file", rate(at / "parquet", parquet, out))
            for kind, messages in (("json", one), ("json x 10", ten), ("arrow", arrow)):
                name = f"{len(messages)}-{repeat}"
                note(
                    f"journal {kind} -> file",
                    rate(at / f"j{kind}", journal(at / "j" / kind, messages), out),
                )
                note(
                    f"mqtt {kind} -> file",
                    rate(at / f"m{kind}", mqtt(broker, at / "m" / name, messages), out),
                )
                note(
                    f"kafka {kind} -> file",
                    rate(at / f"k{kind}", kafka(memory, name, messages), out),
                )
            place = postgres(server, data)
            note("postgres -> file", rate(at / "p", f"{place}/flow?order=id", out))
            note("parquet -> postgres", rate(at / "top", parquet, f"{place}/results"))
            note(
                "parquet -> kafka", rate(at / "tok", parquet, f"kafka://{memory.hosts}/out{repeat}")
            )
            accepted, answered = waits_http(at / "wh", answers)
            note_seconds("http: 200", accepted)
            note_seconds("http: result in the file", answered)
            note_seconds("postgres: result in a table", waits_postgres(at / "wp", server, answers))
            note_seconds("mqtt: result in the file", waits_mqtt(at / "wm", broker, answers))
            note_seconds("flight: result in the file", waits_flight(at / "wf", answers))
            away = waits_kafka(at / f"wk{repeat}", memory, answers)
            note_seconds("kafka: result in another topic", away)
    finally:
        broker.stop(signal.SIGTERM)
        server.stop(signal.SIGINT)
        memory.stop()
        shutil.rmtree(root)
    click.echo()
    for name, values in found.items():
        click.echo(f"| {name} | {spread(values)} |")


if __name__ == "__main__":
    main()
