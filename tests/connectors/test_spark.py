"""What needs Spark's Python package, but no Java: timers, and a run's sources."""

import json
import pickle

import pyarrow as pa
import pytest

from tests.connectors.data import WRITERS, rows
from tests.connectors.test_visits import MODEL, SparkOwn, job_for, packed

pytest.importorskip("pyspark", reason="the extra [spark] is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support:FutureWarning")
SCHEMA = pa.schema({"t": pa.float64(), "x": pa.float64()})
DAY = 86_400_000


def test_idle_keys_are_forgotten():
    """One timer for many visits; a key that comes back starts over."""
    from pyspark.sql import Row
    from pyspark.sql.streaming.tws_tester import TwsTester

    from streamddcrp_connectors.spark.frames import KeyedProcessor

    outputs = SparkOwn(job_for(MODEL), SCHEMA).outputs
    processor = KeyedProcessor(job_for(MODEL), outputs, DAY)
    tester = TwsTester(processor, timeMode="ProcessingTime")

    def learn(row):
        table = pa.table({"key": ["a"], "t": [float(row)], "x": [1.0]})
        ((_, cell),) = packed(table, row)
        return read(tester.test("a", [Row(rows=cell)]))

    def read(out):
        cells = pa.record_batch({"outputs": pa.array([row.outputs for row in out], pa.binary())})
        return [row for batch in outputs.from_batches([cells]) for row in batch.to_pylist()]

    def timers():
        tester.handle.setGroupingKey("a")
        return list(tester.handle.listTimers())

    assert not read(tester.setProcessingTime(1000))
    learn(0)
    assert timers() == [1000 + DAY]
    assert not read(tester.setProcessingTime(DAY // 2))
    learn(1)
    assert timers() == [1000 + DAY]
    assert not read(tester.setProcessingTime(1000 + DAY))
    assert timers() == [DAY // 2 + DAY]
    (event,) = read(tester.setProcessingTime(2 * DAY))
    assert (event["output"], event["key"], event["kind"]) == ("event", "a", "expired")
    assert timers() == []
    assert tester.peekValueState("state", "a") is None
    assert [row["output"] for row in learn(0)] == ["result"]  # not refused as a repetition


def by_key(batches):
    """Return the rows of each key, however they are cut."""
    found = {}
    for row in (row for batch in batches for row in batch.to_pylist()):
        found.setdefault(row["key"], []).extend(
            pa.ipc.open_stream(row["rows"]).read_all().to_pylist()
        )
    return found


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_batch_of_a_source_is_read_again(tmp_path, kind):
    """Between two offsets always the same rows, also by a copy of the reader."""
    from pyspark import cloudpickle

    from streamddcrp_connectors.request import Request
    from streamddcrp_connectors.spark.job import _Reader

    source = tmp_path / f"in.{kind}"
    WRITERS[kind](source, rows(50))
    reader = _Reader(Request(str(source), time="t", key="k", batch_rows=20))
    start, n = reader.initialOffset(), 0
    while True:
        batches, end = reader.read(start)
        found = list(batches)
        if end == start:
            break
        start, end = json.loads(json.dumps([start, end]))
        other = pickle.loads(cloudpickle.dumps(reader))
        again = by_key(other.readBetweenOffsets(start, end))
        other.stop()
        assert by_key(found) == again
        n += sum(map(len, again.values()))
        reader.commit(end)
        start = end
    reader.stop()
    assert (found, n) == ([], 50)


def test_a_source_is_read_as_the_job_says(tmp_path):
    from streamddcrp_connectors.request import Request
    from streamddcrp_connectors.spark.job import _Reader

    (tmp_path / "in.csv").write_text("t,k,a\n1,x,777\n2,x,2\n")
    reader = _Reader(Request(str(tmp_path / "in.csv"), time="t", key="k", missing="777"))
    batches, _ = reader.read(reader.initialOffset())
    reader.stop()
    assert [row["a"] for row in by_key(batches)["x"]] == [None, 2.0]
