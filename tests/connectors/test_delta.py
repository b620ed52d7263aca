"""Delta tables: rows in and out once, whatever is killed."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.sinks import open_sink
from streamddcrp_connectors.run.sources import open_source

from .live import COLUMNS, drive, expected, made, meanwhile

deltalake = pytest.importorskip("deltalake")


def append(folder, texts, size=10):
    """Append rows, a few in each version."""
    for start in range(0, len(texts), size):
        table = pa.Table.from_pylist([json.loads(text) for text in texts[start : start + size]])
        kinds = {"b": pa.float64()}
        fields = [pa.field(f.name, kinds.get(f.name, f.type)) for f in table.schema]
        deltalake.write_deltalake(folder, table.cast(pa.schema(fields)), mode="append")


def table(folder):
    """Read the files of a table; the client's threads would abort the process at its end."""
    files = deltalake.DeltaTable(folder).file_uris()
    return pq.read_table(files).sort_by("row").to_pylist()


def killed(tmp_path, n, kills, seed=0):
    texts, source, sink = made(n), tmp_path / "in", tmp_path / "out"
    append(source, texts[:20])
    with meanwhile(append, source, texts[20:]):
        drive(
            tmp_path / "job", f"delta://{source}", n, kills=kills, sink=f"delta://{sink}",
            seed=seed, batch=7,
        )  # fmt: skip
    out, events = expected(tmp_path / "alone", texts)
    assert table(sink) == out
    lines = (tmp_path / "job" / "events.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == events


def test_killed(tmp_path):
    killed(tmp_path, 300, 3)


@pytest.mark.slow
def test_killed_fifty_times(tmp_path):
    killed(tmp_path, 4000, 50, seed=1)


def taken(source, n, offset=None):
    found = []
    for batch, at in source.read_after(offset):
        found += [] if batch is None else batch.column("t").to_pylist()
        if len(found) >= n:
            return found, at
    return found, None


def test_reading_on_after_any_offset(tmp_path):
    append(tmp_path, made(25))
    source = open_source(f"delta://{tmp_path}", COLUMNS, batch_rows=3)
    whole, _ = taken(source, 25)
    offsets = []
    for batch, at in source.read_after(None):
        if batch is None:
            break
        offsets.append(at)
    assert len(offsets) == 10
    for at in offsets[:-1]:
        assert taken(source, 25 - at["row"], at)[0] == whole[at["row"] :]


def test_files_that_are_only_written_again_are_passed_over(tmp_path):
    texts = made(30)
    append(tmp_path, texts[:20])
    deltalake.DeltaTable(tmp_path).optimize.compact()
    append(tmp_path, texts[20:])
    source = open_source(f"delta://{tmp_path}", COLUMNS)
    assert taken(source, 30)[0] == [json.loads(text)["t"] for text in texts]


def test_tables_that_cannot_be_read(tmp_path):
    source = open_source(f"delta://{tmp_path}/absent", COLUMNS)
    with pytest.raises(ConfigError, match="there is no Delta table in"):
        next(source.read_after(None))
    append(tmp_path / "a", made(20))
    deltalake.DeltaTable(tmp_path / "a").delete("t = 0")
    with pytest.raises(SchemaError, match="version 2 changes or deletes rows"):
        taken(open_source(f"delta://{tmp_path}/a", COLUMNS), 99)
    (tmp_path / "a" / "_delta_log" / f"{0:020d}.json").unlink()
    with pytest.raises(SchemaError, match="version 0 was cleaned up before it was read"):
        taken(open_source(f"delta://{tmp_path}/a", COLUMNS), 99)
    rows = pa.table({"t": [1.0], "k": ["x"], "a": [1.0], "b": [1.0]})
    deltalake.write_deltalake(tmp_path / "b", rows, partition_by="k")
    with pytest.raises(SchemaError, match="is partitioned by one of the columns to read"):
        taken(open_source(f"delta://{tmp_path}/b", Columns("t", "k", ("a",))), 1)
    assert taken(open_source(f"delta://{tmp_path}/b", COLUMNS), 1)[0] == [1.0]


def test_what_has_arrived_is_left_out(tmp_path):
    batch = pa.record_batch({"row": [0, 1], "score": [0.5, None]})
    spec = f"delta://{tmp_path}/out"
    first, second = (open_sink(spec, None, "output") for _ in range(2))
    first.rewind(None)
    position = first.sync()
    first.write(batch.slice(0, 1))
    first.sync()
    second.rewind(position)  # a run that died before its commit
    second.write(batch)
    second.sync()
    assert table(tmp_path / "out") == batch.to_pylist()
    second.write(pa.record_batch({"row": [2], "other": [0.5]}))
    with pytest.raises(ConfigError, match="delta:///"):
        second.sync()


def test_one_table_is_not_both(tmp_path):
    append(tmp_path / "in", made(5))
    with pytest.raises(AssertionError, match="is both the s"):
        drive(tmp_path / "job", f"delta://{tmp_path}/in", 5, kills=0, sink=f"delta://{tmp_path}/in")
