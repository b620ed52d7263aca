"""A job on a Spark cluster of this machine, with executor and driver killed: the run's own bits."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from streamddcrp import EmbeddingStream
from streamddcrp.checkpoint import SqliteStore
from streamddcrp_connectors.spark.visits import State
from tests.connectors.servers import free_port
from tests.connectors.test_visits import measurements, titles

pyspark = pytest.importorskip("pyspark", reason="the extra [spark] is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java, which Spark needs"),
]
ROOT = Path(__file__).resolve().parents[2]
CLASS = "org.apache.spark.deploy."
PATIENCE = 900  # seconds, for each of three waits


class Cluster:
    """A master and two workers with a core each, on loopback."""

    def __init__(self, folder):
        self.port, self.folder, self.processes = free_port(), folder, []
        self.env = os.environ | {
            "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "512m",
            "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT}/connectors",
        }  # fmt: skip
        self.url = f"spark://127.0.0.1:{self.port}"
        web = ["--webui-port", str(free_port())]
        self._daemon("master.Master", "--host", "127.0.0.1", "--port", str(self.port), *web)
        self.workers = [
            self._daemon(
                "worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g",
                "--work-dir", str(folder / f"worker{i}"), "--webui-port", str(free_port()),
                self.url,
            )
            for i in range(2)
        ]  # fmt: skip

    def _start(self, command, name, **more):
        with (self.folder / name).open("ab") as log:
            return subprocess.Popen(command, env=self.env, stdout=log, stderr=log, **more)

    def _daemon(self, name, *options):
        spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
        process = self._start([spark_class, CLASS + name, *options], "daemons.log")
        self.processes.append(process)
        return process

    def submit(self, job):
        settings = {
            "spark.executor.memory": "600m", "spark.driver.memory": "1g",
            "spark.executorEnv.PYTHONPATH": self.env["PYTHONPATH"],
        }  # fmt: skip
        conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        command = [sys.executable, "-m", "streamddcrp_connectors", "submit", job, *conf]
        command += ["--master", self.url, "--partitions", "4"]
        return self._start(command, "submit.log", cwd=job.parent)

    def stop(self):
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path)
    yield made
    made.stop()


def children(pid):
    """Return the processes that a process has started, and theirs."""
    found = subprocess.run(
        ["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False
    )
    ours = [int(word) for word in found.stdout.split()]
    return [*ours, *(later for child in ours for later in children(child))]


def wait_for(path, job):
    end = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < end, f"{path} does not come"
        assert job.poll() is None, (job.args, path)
        time.sleep(0.2)


def kernels():
    """Return the compiled kernels and when they were written."""
    from streamddcrp.kernel_folders import cache_root

    return {path: path.stat().st_mtime for path in cache_root().rglob("*.nbi")}


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
@pytest.mark.timeout(5 * PATIENCE)
@pytest.mark.parametrize(
    ("table", "options"),
    [
        (measurements(1000, 12), 'model = "model.toml"\nfeatures = ["x"]'),
        (titles(200, 6), 'text = "x"\nmodel = "model.toml"'),
    ],
    ids=["1,000 keys of SeqDDCRP", "200 keys of TextStream"],
)
def test_killed_in_mid_stream(cluster, tmp_path, table, options):
    x = table.column("x").to_pylist()
    is_text = isinstance(x[0], str)
    if not is_text:
        x[77] = float("inf")
    pq.write_table(table.set_column(2, "x", pa.array(x)), tmp_path / "fleet.parquet")
    given = 'likelihood = ["normal_gamma", 0.0, 0.05, 1.5, 0.5]\nwindow = 16\n'
    stories = 'model = "text"\nlag = 8\nbirths = 1\n'
    (tmp_path / "model.toml").write_text(stories if is_text else given)
    job = tmp_path / "job.toml"
    job.write_text(
        f'source = "fleet.parquet"\ntime = "t"\nby = "key"\n{options}\n'
        f'batch-rows = {len(table) // 4}\nsink = "out"\ncheckpoint = "state"\n'
        'on-error = "dead-letter=refused.jsonl"\nevents = "events.parquet"\n'
    )
    program = [sys.executable, "-m", "streamddcrp_connectors"]
    warmup = [*program, "warmup", "text" if is_text else "seqddcrp"]
    subprocess.run(warmup, env=cluster.env, check=True)  # as the page on Spark says
    compiled = kernels()
    run = [*program, "run", "--config", "job.toml", "--sink", "run.parquet", "--checkpoint", "run"]
    subprocess.run(run, cwd=tmp_path, env=cluster.env, check=True)

    out = tmp_path / "out"
    driver = cluster.submit(job)
    wait_for(out / "batch=0" / "_SUCCESS", driver)
    executor = next(pid for pid in children(cluster.workers[0].pid))
    os.kill(executor, signal.SIGKILL)
    wait_for(out / "batch=1" / "_SUCCESS", driver)
    for pid in (driver.pid, *children(driver.pid)):
        with suppress(ProcessLookupError):  # one that ended by itself
            os.kill(pid, signal.SIGKILL)
    driver.wait()
    assert not (out / "batch=3").exists()
    again = cluster.submit(job)
    assert again.wait(PATIENCE) == 0, (tmp_path / "submit.log").read_text()[-3000:]

    assert kernels() == compiled  # nothing was compiled after the warm-up
    found = ds.dataset(out, partitioning="hive").to_table()
    expected = pq.read_table(tmp_path / "run.parquet")
    if is_text:  # a run ends, and then writes the labels that are still open; a stream does not
        expected = expected.filter(pa.compute.field("row").is_valid())
    results = part(found, "result", expected.schema.names)
    assert results == sorted(expected.to_pylist(), key=lambda row: row["row"])
    events = pq.read_table(tmp_path / "events.parquet")
    assert by_key(part(found, "event", events.schema.names)) == by_key(events.to_pylist())
    assert events.num_rows > 100
    refused = part(found, "refused", ["row", "reason"])
    assert [row["row"] for row in refused] == ([] if is_text else [77])
    with SqliteStore(tmp_path / "run" / "state.sqlite") as store:
        states = dict(store.states("model"))
    assert states_of(tmp_path / "state") == states


def part(found, output, names):
    rows = found.filter(pa.compute.field("output") == output).select(names).to_pylist()
    return sorted(rows, key=lambda row: row.get("row", 0))


def by_key(events):
    return sorted(map(repr, events))


@contextmanager
def session(cores):
    """A session in this process."""
    from pyspark.sql import SparkSession

    from streamddcrp_connectors.spark import SETTINGS

    builder = SparkSession.builder.master(f"local[{cores}]").config("spark.ui.enabled", "false")
    more = {"spark.driver.host": "127.0.0.1", "spark.sql.shuffle.partitions": "2"}
    for name, value in (SETTINGS | more).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def states_of(checkpoint):
    """Read the models of all keys from Spark's store."""
    with session(1) as spark:
        reader = spark.read.format("statestore").option("stateVarName", "state")
        rows = reader.option("path", str(checkpoint)).load().collect()
        return {row.key.key: State.from_bytes(bytes(row.value.blob)).model for row in rows}


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_features_are_computed_before_one_model(tmp_path, monkeypatch):
    """By `mapInArrow`, wherever the rows lie; then one model learns them all, in their order."""
    from pyspark.sql.functions import lit

    from streamddcrp_connectors.spark import keyed
    from streamddcrp_connectors.spark.job import finished

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{ROOT}/connectors")
    n = 600
    draw = np.random.default_rng(0)
    words = ["aab" if i // 60 % 2 else "bbc" for i in range(n)]
    texts = [word + "abc"[draw.integers(3)] for word in words]
    (tmp_path / "in").mkdir()
    for part in range(3):  # each a trigger
        rows = range(200 * part, 200 * part + 200)
        table = pa.table({"n": rows, "text": texts[rows.start : rows.stop]})
        pq.write_table(table.take(draw.permutation(200)), tmp_path / "in" / f"{part}.parquet")
        os.utime(tmp_path / "in" / f"{part}.parquet", (part, part))

    def embed(batches):
        for batch in batches:
            texts = batch.column("text").to_pylist()
            counts = np.array([[text.count(c) for c in "abc"] for text in texts], float)
            names = ["n", "x0", "x1", "x2"]
            yield pa.RecordBatch.from_arrays([batch.column("n"), *map(pa.array, counts.T)], names)

    model = EmbeddingStream()
    with session(2) as spark:
        read = spark.readStream.schema("n long, text string").option("maxFilesPerTrigger", 1)
        rows = read.parquet(str(tmp_path / "in"))
        features = rows.mapInArrow(embed, "n long, x0 double, x1 double, x2 double")
        out = keyed(features.withColumn("all", lit("one")), model, by="all", number="n")
        stream = out.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        stream = stream.option("checkpointLocation", str(tmp_path / "state"))
        finished(stream.trigger(availableNow=True))
    whole = next(embed([pa.RecordBatch.from_pydict({"n": range(n), "text": texts})]))
    alone = model.clone().step_many(whole.drop_columns(["n"]))
    found = ds.dataset(tmp_path / "out", format="parquet").to_table()
    assert part_of(found, alone.schema.names) == alone.to_pylist()


def part_of(found, names):
    return [{name: row[name] for name in names} for row in part(found, "result", ["row", *names])]
