"""Sinks: what is written, what a crash leaves, and the position that is recorded."""

import io
import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.json as pa_json
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamddcrp.errors import CheckpointError, ConfigError
from streamddcrp_connectors.run import sinks
from streamddcrp_connectors.run.columns import Refusal
from streamddcrp_connectors.run.outputs import DeadLetters
from streamddcrp_connectors.run.sinks import (
    JsonLinesSink,
    Log,
    StreamSink,
    TableSink,
    json_lines,
    open_sink,
)


def batch(start, n, **more):
    columns = {
        "row": pa.array(np.arange(start, start + n)),
        "x": pa.array(np.arange(n) / 8),
        **more,
    }
    return pa.record_batch(list(columns.values()), names=list(columns))


def read_back(path):
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    with pa.ipc.open_file(path) as reader:
        return reader.read_all().to_pylist()


@given(st.lists(st.floats() | st.none(), min_size=1), st.data())
def test_json_lines_hold_every_value(values, data):
    n = len(values)
    whole = data.draw(
        st.lists(st.integers(-(2**63), 2**63 - 1) | st.none(), min_size=n, max_size=n)
    )
    text = data.draw(
        st.lists(st.text(st.characters(codec="utf-8")) | st.none(), min_size=n, max_size=n)
    )
    columns = [
        pa.array(values, pa.float64()),
        pa.array(whole, pa.int64()),
        pa.array(text, pa.string()),
    ]
    lines = json_lines(pa.record_batch(columns, names=["x", "n", 'a "name"']))
    found = [json.loads(line, parse_constant=pytest.fail) for line in lines.decode().splitlines()]
    finite = [value if value is not None and np.isfinite(value) else None for value in values]
    assert [row["x"] for row in found] == finite
    assert [row["n"] for row in found] == whole
    assert [row['a "name"'] for row in found] == text
    assert lines.isascii()


def test_json_lines_are_readable_by_arrow():
    table = pa_json.read_json(io.BytesIO(json_lines(batch(0, 3))))
    assert table.to_pylist() == batch(0, 3).to_pylist()


@pytest.mark.parametrize(
    ("nanoseconds", "zone", "text"),
    [
        (0, None, "1970-01-01T00:00:00"),
        (1_500_000_000, "UTC", "1970-01-01T00:00:01.5Z"),
        (100_000_000_001, None, "1970-01-01T00:01:40.000000001"),
        (None, "UTC", None),
    ],
)
def test_time_stamps_are_iso(nanoseconds, zone, text):
    column = pa.array([nanoseconds], pa.timestamp("ns", zone))
    (line,) = json_lines(pa.record_batch([column], names=["time"])).splitlines()
    assert json.loads(line) == {"time": text}


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet", "out.arrow", "out.txt"])
@pytest.mark.parametrize("kept", [True, False])
def test_file_sinks_write_all_batches(tmp_path, name, kept):
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    target = tmp_path / name
    sink = open_sink(target, io.BytesIO(), folder if kept else None)
    sink.rewind(None)
    for start in range(0, 30, 10):
        sink.write(batch(start, 10))
        sink.sync()
    sink.finish()
    written = read_back(target.rename(tmp_path / "out.jsonl") if name == "out.txt" else target)
    assert [row["row"] for row in written] == list(range(30))
    assert len(list(tmp_path.iterdir())) == 2  # the folder of the checkpoint and the output


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet", "out.arrow"])
def test_what_was_written_after_the_record_is_cut_off(tmp_path, name):
    sink = open_sink(tmp_path / name, io.BytesIO(), tmp_path)
    sink.rewind(None)
    sink.write(batch(0, 10))
    recorded = json.loads(json.dumps(sink.sync()))
    sink.write(batch(10, 10))  # then the process dies
    sink.abandon()
    again = open_sink(tmp_path / name, io.BytesIO(), tmp_path)
    again.rewind(recorded)
    again.write(batch(10, 5))
    again.sync()
    again.finish()
    assert [row["row"] for row in read_back(tmp_path / name)] == list(range(15))
    more = open_sink(tmp_path / name, io.BytesIO(), tmp_path)
    more.rewind(recorded)
    more.finish()
    assert [row["row"] for row in read_back(tmp_path / name)] == list(range(10))


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet", "out.arrow"])
def test_a_new_run_starts_from_nothing(tmp_path, name):
    for n in (20, 10, 0):
        sink = open_sink(tmp_path / name, io.BytesIO(), None)
        sink.rewind(None)
        if n:
            sink.write(batch(0, n))
        sink.finish()
        assert [row["row"] for row in read_back(tmp_path / name)] == list(range(n))


@pytest.mark.parametrize("name", ["out.parquet", "out.arrow"])
def test_abandoned_tables_leave_the_old_file(tmp_path, name):
    target = tmp_path / name
    target.write_bytes(b"old")
    sink = open_sink(target, io.BytesIO(), None)
    sink.rewind(None)
    sink.write(batch(0, 10))
    sink.abandon()
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_tables_are_written_in_even_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(sinks, "GROUP_ROWS", 64)
    finished = []
    for sizes in ([100, 1, 49], [50] * 3):
        sink = TableSink(tmp_path / "out.parquet", None, kind="parquet")
        sink.rewind(None)
        start = 0
        for n in sizes:
            sink.write(pa.record_batch([pa.array(np.arange(start, start + n))], names=["row"]))
            start += n
        sink.finish()
        finished.append((tmp_path / "out.parquet").read_bytes())
        groups = pq.ParquetFile(tmp_path / "out.parquet")
        assert [groups.metadata.row_group(i).num_rows for i in range(3)] == [64, 64, 22]
        groups.close()
    assert finished[0] == finished[1]  # however the rows came


def test_other_columns_are_refused(tmp_path):
    sink = TableSink(tmp_path / "out.parquet", tmp_path, kind="parquet")
    sink.rewind(None)
    sink.write(batch(0, 1))
    recorded = sink.sync()
    sink.abandon()
    again = TableSink(tmp_path / "out.parquet", tmp_path, kind="parquet")
    again.rewind(recorded)
    with pytest.raises(CheckpointError, match="other columns"):
        again.write(batch(1, 1, more=pa.array([1])))
    again.abandon()


@pytest.mark.parametrize("change", ["shorten", "remove"])
def test_a_file_shorter_than_recorded_is_refused(tmp_path, change):
    path = tmp_path / "out.jsonl"
    sink = JsonLinesSink(path)
    sink.rewind(None)
    sink.write(batch(0, 10))
    recorded = sink.sync()
    sink.finish()
    if change == "shorten":
        path.write_bytes(path.read_bytes()[:-1])
    else:
        path.unlink()
    with pytest.raises(CheckpointError, match="fewer than the"):
        JsonLinesSink(path).rewind(recorded)


def test_a_file_with_other_bytes_than_recorded_is_refused(tmp_path):
    path = tmp_path / "out.jsonl"
    sink = JsonLinesSink(path)
    sink.rewind(None)
    sink.write(batch(0, 10))
    recorded = sink.sync()
    sink.finish()
    path.write_bytes(path.read_bytes().replace(b'"row": 3', b'"row": 4'))
    with pytest.raises(CheckpointError, match="does not hold what the checkpoint recorded"):
        JsonLinesSink(path).rewind(recorded)


def test_a_log_must_be_placed_before_it_is_written(tmp_path):
    with pytest.raises(RuntimeError, match="before rewind"):
        Log(tmp_path / "log").append(b"x")


def test_bytes_are_forced_to_the_disk_before_their_length_is_reported(tmp_path, monkeypatch):
    forced = []
    monkeypatch.setattr(sinks.os, "fsync", lambda number: forced.append(os.fstat(number).st_size))
    log = Log(tmp_path / "log")
    log.rewind(None)
    for n, data in enumerate([b"abc", b"", b"de"]):
        log.append(data)
        position = log.sync()
        assert position["bytes"] == [3, 3, 5][n]
        assert forced[-1] == position["bytes"]
    log.close()


def test_standard_output_is_flushed_with_each_batch():
    stream = io.BytesIO()
    sink = open_sink("-", stream, None)
    assert isinstance(sink, StreamSink)
    sink.rewind(None)
    sink.write(batch(0, 2))
    assert len(stream.getvalue().splitlines()) == 2
    assert sink.sync() is None
    sink.finish()
    assert not stream.closed


def test_devices_are_streams(tmp_path):
    sink = open_sink("/dev/null", io.BytesIO(), tmp_path)
    assert isinstance(sink, StreamSink)
    sink.write(batch(0, 2))
    sink.finish()


@pytest.mark.parametrize(
    ("name", "match"),
    [("", "is a folder"), ("absent/out.jsonl", "no folder"), ("out.csv", r"\.csv is not written")],
)
def test_unusable_sinks(tmp_path, name, match):
    with pytest.raises(ConfigError, match=match):
        open_sink(tmp_path / name, io.BytesIO(), None)


def test_unwritable_file_is_reported(tmp_path):
    with pytest.raises(ConfigError, match="cannot write"):
        Log(tmp_path).rewind(None)


def test_dead_letters_are_ordered_json(tmp_path):
    letters = DeadLetters(tmp_path / "dead.jsonl")
    letters.rewind(None)
    letters.write({7: Refusal("late", {"a": None}), 3: Refusal("odd", "1,2\udcff")})
    length = letters.sync()
    letters.write({9: Refusal("lost", None)})
    letters.close()
    letters.rewind(length)
    letters.close()
    assert [json.loads(line) for line in (tmp_path / "dead.jsonl").read_text().splitlines()] == [
        {"row": 3, "reason": "odd", "values": "1,2\udcff"},
        {"row": 7, "reason": "late", "values": {"a": None}},
    ]


def test_a_disk_that_is_full_is_reported_and_leaves_whole_lines(tmp_path):
    resource = pytest.importorskip("resource")
    log, limits = Log(tmp_path / "out.jsonl"), resource.getrlimit(resource.RLIMIT_FSIZE)
    log.rewind(None)
    log.append(b"whole\n")
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
        with pytest.raises(ConfigError, match=r"cannot write .*out\.jsonl: File too large"):
            log.append(b"half a line, and then there is no room\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    log.append(b"next\n")
    recorded = log.sync()
    log.close()
    assert log.path.read_bytes() == b"whole\nnext\n"
    log.rewind(recorded)  # the digest is that of the file
    log.close()
