"""What does a visit cost on Spark, and how much of that is the model?

The fleet of `benchmarks.keyed`: each trigger brings ``visit`` rows of every key. CPU seconds of the
whole tree of processes (driver, Java, Python workers), one core of Spark, from trigger ``first`` on
(Java compiles itself for the first thousands of visits), beside `Keyed` in one process on the same
batches, in the same run. The share of the model is that of the calls that `Keyed` makes, too:
restore, step, events, state.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import numpy as np
import pyarrow.parquet as pq

from benchmarks.keyed import batches
from benchmarks.machine import machine, markdown, spread
from streamddcrp import Keyed, SeqDDCRP
from streamddcrp_connectors.run.models import Models

HEADER = (
    "rows a visit", "`Keyed`: CPU ms a visit", "Spark: CPU ms a visit", "of which the model",
    "the state's read and write, wall ms", "rows a CPU second, Spark", "rows a second, Spark",
)  # fmt: skip
MODEL = {"likelihood": ("normal_gamma", 0.0, 0.05, 1.5, 0.5)}
SECONDS: dict[str, float] = {}  # of the visit in progress, in a worker
TICK = os.sysconf("SC_CLK_TCK")


def tree_seconds(pid: int) -> float:
    """Return the CPU seconds of a process and of all that it has started."""
    listed = subprocess.run(
        ["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    )
    pairs = [tuple(map(int, line.split())) for line in listed.stdout.splitlines()]
    ours, found = {pid}, 0.0
    while more := {child for child, parent in pairs if parent in ours} - ours:
        ours |= more
    for one in ours:
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        found += sum(map(int, fields[11:15])) / TICK  # its own, and those of children that ended
    return found


def timed(processor: Any, log: str) -> Any:
    """Let a processor note, for each visit, the CPU of the model and the time of its state."""
    job = processor._job

    def measure(target: Any, name: str, clock: Any, what: str) -> None:
        inner = getattr(target, name)

        def outer(*arguments: Any) -> Any:
            start = clock()
            try:
                return inner(*arguments)
            finally:
                SECONDS[what] += clock() - start

        put = setattr if isinstance(target, type) else object.__setattr__  # a job is frozen
        put(target, name, outer)

    model_class = job.restore.__self__
    clock = time.thread_time
    measure(job, "_model", clock, "model")
    if not SECONDS:  # the first task of this worker
        for target, name in ((Models, "step"), (Models, "events"), (model_class, "to_bytes")):
            measure(target, name, clock, "model")
    SECONDS.update(model=0.0, state=0.0)
    measure(processor._value, "get", time.perf_counter, "state")
    measure(processor._value, "update", time.perf_counter, "state")
    visit = processor.handleInputRows

    def handle(*arguments: Any) -> Any:
        yield from visit(*arguments)
        with open(log, "a") as file:
            file.write(f"{SECONDS['model']} {SECONDS['state']}\n")
        SECONDS.update(model=0.0, state=0.0)

    processor.handleInputRows = handle
    return processor


@contextmanager
def master(*, cluster: bool) -> Iterator[str]:
    """Yield the address of one core: of this process, or by the two commands of docs/spark.md."""
    if not cluster:
        yield "local[1]"
        return
    import pyspark  # noqa: PLC0415 -- an extra

    command = Path(pyspark.__file__).parent / "bin" / "spark-class"
    with socket.create_server(("127.0.0.1", 0)) as free:
        at = f"127.0.0.1:{free.getsockname()[1]}"
    host, port = at.split(":")
    given = (
        ("master.Master", "--host", host, "--port", port, "--webui-port", "0"),
        ("worker.Worker", "--host", host, "--cores", "1", "--webui-port", "0", f"spark://{at}"),
    )
    started = [
        subprocess.Popen(
            [command, f"org.apache.spark.deploy.{name}", *more], stderr=subprocess.DEVNULL
        )
        for name, *more in given
    ]
    try:
        yield f"spark://{at}"
    finally:
        for process in started[::-1]:
            process.terminate()
            process.wait()


def on_spark(folder: Path, first: int, at: str) -> tuple[float, float]:
    """Return CPU and wall seconds from trigger ``first`` on, counted from 0."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 -- an extra

    from streamddcrp_connectors.spark import SETTINGS, frames, keyed, processor  # noqa: PLC0415
    from streamddcrp_connectors.spark.job import finished  # noqa: PLC0415

    class Timed(processor.KeyedProcessor):
        def init(self, handle: Any) -> None:
            super().init(handle)
            timed(self, str(folder / "visits.log"))

    frames.KeyedProcessor = Timed
    builder = SparkSession.builder.master(at).config("spark.ui.enabled", "false")
    more = {"spark.sql.shuffle.partitions": "1", "spark.driver.host": "127.0.0.1"}
    more |= {"spark.executorEnv.PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    for name, value in (SETTINGS | more).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    read = spark.readStream.schema("machine long, flow double, pressure double, n long")
    df = read.option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    out = keyed(df, SeqDDCRP(**MODEL), by="machine", number="n")
    marks: list[tuple[float, float]] = []

    def write(frame: Any, batch: int) -> None:
        if batch == first:
            (folder / "visits.log").unlink()
            marks.append((tree_seconds(os.getpid()), time.perf_counter()))
        frame.write.format("noop").mode("overwrite").save()

    stream = out.writeStream.foreachBatch(write).trigger(availableNow=True)
    finished(stream.option("checkpointLocation", str(folder / "state")))
    marks.append((tree_seconds(os.getpid()), time.perf_counter()))
    spark.stop()
    (cpu, wall), (cpu_end, wall_end) = marks[0], marks[-1]
    return cpu_end - cpu, wall_end - wall


@click.command("spark", help="CPU of a visit on Spark beside Keyed. Needs the extra and Java.")
@click.option("--keys", default=200, show_default=True)
@click.option("--visits", default="50", show_default=True, help="Rows of a key in a trigger.")
@click.option("--triggers", default=6, show_default=True)
@click.option("--first", default=1, show_default=True, help="Trigger from which it is measured.")
@click.option("--cluster", is_flag=True, help="On a master and a worker, not in this process.")
def main(keys: int, visits: str, triggers: int, first: int, cluster: bool) -> None:
    """Print a table."""
    if find_spec("pyspark") is None or shutil.which("java") is None:
        click.echo("Left out: it needs pip install 'streamddcrp[spark]' and Java.")
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    click.echo(machine())
    click.echo(markdown(HEADER, []))
    for visit in map(int, visits.split(",")):
        with tempfile.TemporaryDirectory() as name:
            folder, fleet, alone = Path(name), Keyed(SeqDDCRP(**MODEL), by="machine"), []
            (folder / "in").mkdir()
            data = [
                batch.append_column("n", [np.arange(i * len(batch), (i + 1) * len(batch))])
                for i, batch in enumerate(batches(keys, visit * triggers, visit))
            ]
            for i, batch in enumerate(data):
                start = time.process_time()
                fleet.step_many(batch.drop_columns(["n"]))
                fleet.events()
                alone.append((time.process_time() - start) / keys * 1e3)
                pq.write_table(batch, folder / "in" / f"{i}.parquet")
                os.utime(folder / "in" / f"{i}.parquet", (i, i))  # the order Spark reads them in
            with master(cluster=cluster) as at:
                cpu, wall = on_spark(folder, first, at)
            inside = np.loadtxt(folder / "visits.log") * 1e3
        n = keys * (triggers - first)
        row = (
            str(visit), spread(alone[first:], ".2f"), f"{cpu / n * 1e3:.2f}",
            f"{inside[:, 0].mean():.2f} ({inside[:, 0].sum() / cpu / 10:.0f} %)",
            spread(inside[:, 1], ".2f"), f"{n * visit / cpu:,.0f}", f"{n * visit / wall:,.0f}",
        )  # fmt: skip
        click.echo(markdown(row, []).splitlines()[0])


if __name__ == "__main__":
    main()
