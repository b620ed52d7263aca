"""Every source: the same rows, places to go on from, bounded memory, and clear refusals."""

import io
import itertools
import json
import os
import threading
import time
import tracemalloc
from contextlib import closing, suppress
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.sources import open_source

from .data import NAMES, WRITERS, as_arrow, rows
from .live import drive, expected, meanwhile
from .test_servers import until

COLUMNS = Columns("t", "k", ("a", "b"))
TABLE = rows(40)


@pytest.fixture(params=sorted(WRITERS))
def path(request, tmp_path):
    return WRITERS[request.param](tmp_path / f"rows.{request.param}", TABLE)


def read(source, offset=None, *, close=True):
    try:
        return [item for item in source.read_after(offset) if item[0] is not None]
    finally:
        if close:
            source.close()


def as_rows(batches):
    return [row for batch, _ in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("batch_rows", [1, 7, 1000])
def test_all_formats_give_the_same_rows(path, batch_rows):
    source = open_source(path, COLUMNS, batch_rows=batch_rows)
    batches = read(source, close=False)
    assert as_rows(batches) == TABLE
    assert batches[-1][1]["row"] == len(TABLE)
    assert all(batch.num_rows <= batch_rows for batch, _ in batches)
    assert source.n_rows in (None, len(TABLE))
    assert source.replayable
    assert as_rows(read(source)) == TABLE  # again, from the start


def test_every_offset_is_a_place_to_go_on(path):
    batches = read(open_source(path, COLUMNS, batch_rows=9))
    for _, offset in batches:
        stored = json.loads(json.dumps(offset))
        assert len(json.dumps(stored)) < 200
        for batch_rows in (4, 100):
            rest = read(open_source(path, COLUMNS, batch_rows=batch_rows), stored)
            assert as_rows(rest) == TABLE[offset["row"] :]
            assert not rest or rest[-1][1] == batches[-1][1]


def test_the_format_is_found_without_an_ending(path, tmp_path):
    bare = tmp_path / "bare"
    path.rename(bare)
    assert as_rows(read(open_source(bare, COLUMNS))) == TABLE


def test_features_default_to_all_others(path):
    with closing(open_source(path, Columns("t", "k"))) as source:
        assert source.columns == COLUMNS


def test_order_of_the_named_columns_is_kept(path):
    batch, _ = read(open_source(path, Columns(None, None, ("b", "a"))))[0]
    assert batch.schema.names == ["b", "a"]


@pytest.mark.parametrize("columns", [Columns("t", "k", ("a", "c")), Columns("when", None, ("a",))])
def test_unknown_columns_are_named_with_those_there(path, columns):
    if path.suffix == ".jsonl":
        pytest.skip("each object has its own columns")
    with pytest.raises(ConfigError, match=r"no column '(c|when)'; it has t, k, a, b"):
        open_source(path, columns)


def test_unknown_columns_of_json_lines_are_named(tmp_path):
    path = WRITERS["jsonl"](tmp_path / "rows.jsonl", TABLE)
    with pytest.raises(ConfigError, match=r"no column 'when'; it has t, k, a, b"):
        open_source(path, Columns("when"))


def test_repeated_columns_are_refused_or_numbered(tmp_path):
    table = pa.table([pa.array([1.0]), pa.array([2.0])], names=["a", "a"])
    pq.write_table(table, tmp_path / "rows.parquet")
    (tmp_path / "rows.csv").write_text("a,a\n1,2\n")
    (tmp_path / "rows.jsonl").write_text('{"a": 1, "a": 2}\n{"a": 1}\n')
    with pytest.raises(SchemaError, match="'a' occurs twice"):
        open_source(tmp_path / "rows.parquet", Columns())
    source = open_source(tmp_path / "rows.csv", Columns())
    assert source.columns.features == ("a", "a_2")
    assert "columns of one name are numbered: a_2" in source.understood[0]
    source.close()


def test_replaced_files_are_noticed(path):
    _, offset = read(open_source(path, COLUMNS, batch_rows=9))[-1]
    other = [{**TABLE[0], "a": 77.0}, *TABLE[1:3]]
    WRITERS[path.suffix[1:]](path, other)
    with pytest.raises(SchemaError, match="was it replaced"):
        read(open_source(path, COLUMNS), offset)


def test_replaced_files_of_one_length_are_noticed(path):
    """Same path, same size, same number of rows, same first line."""
    batches = read(open_source(path, COLUMNS, batch_rows=9))
    size = path.stat().st_size
    other = [{**row, "a": row["a"] if i != 5 else TABLE[6]["a"]} for i, row in enumerate(TABLE)]
    WRITERS[path.suffix[1:]](path, other)
    if path.suffix != ".parquet":
        data = path.read_bytes()
        path.write_bytes(data[:size].ljust(size, b"\n"))
    with pytest.raises(SchemaError, match="was it replaced"):
        read(open_source(path, COLUMNS), batches[-1][1])


@pytest.mark.parametrize("kind", ["parquet", "arrow", "arrows"])
def test_truncated_files_are_refused(tmp_path, kind):
    path = WRITERS[kind](tmp_path / f"rows.{kind}", TABLE)
    data = path.read_bytes()
    for length in {1, 5, 9, len(data) // 2, len(data) - 1} - (
        {len(data) - 1} if kind == "arrows" else set()
    ):
        path.write_bytes(data[:length])
        with pytest.raises(SchemaError, match=r"whole|damaged"):
            read(open_source(path, COLUMNS, format="parquet" if kind == "parquet" else "arrow"))


@pytest.mark.parametrize("kind", ["parquet", "arrow", "arrows"])
def test_damaged_files_never_crash_the_reader(tmp_path, kind):
    path = WRITERS[kind](tmp_path / f"rows.{kind}", TABLE)
    data = path.read_bytes()
    draw = np.random.default_rng(3)
    for place in draw.integers(len(data), size=60):
        damaged = bytearray(data)
        damaged[place] ^= 1 << draw.integers(8)
        path.write_bytes(bytes(damaged))
        with suppress(SchemaError, ConfigError):
            read(open_source(path, COLUMNS, format="parquet" if kind == "parquet" else "arrow"))


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.parquet", "rows.arrow", "rows"])
def test_empty_files_are_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(SchemaError, match="is empty"):
        open_source(tmp_path / name, COLUMNS)


def test_a_header_alone_is_no_rows(tmp_path):
    (tmp_path / "rows.csv").write_text("t,k,a,b")
    assert read(open_source(tmp_path / "rows.csv", COLUMNS)) == []
    WRITERS["parquet"](tmp_path / "rows.parquet", [])
    assert read(open_source(tmp_path / "rows.parquet", COLUMNS)) == []


def test_missing_and_unreadable_files(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        open_source(tmp_path / "absent.csv", COLUMNS)
    with pytest.raises(ConfigError, match="is a folder"):
        open_source(tmp_path, COLUMNS)


@pytest.mark.parametrize("magic", [b"\x1f\x8b", b"(\xb5\x2f\xfd", b"BZh9"])
def test_packed_files_that_are_none_are_refused(tmp_path, magic):
    path = tmp_path / "rows.gz"
    path.write_bytes(magic + b"rest")
    with pytest.raises(SchemaError, match=r"rows\.gz is damaged"):
        open_source(path, COLUMNS)


def test_impossible_options(tmp_path):
    path = WRITERS["parquet"](tmp_path / "rows.parquet", TABLE)
    with pytest.raises(ConfigError, match="only CSV and JSON lines can be followed"):
        open_source(path, COLUMNS, follow=True)
    with pytest.raises(ConfigError, match="format must be one of"):
        open_source(path, COLUMNS, format="xml")
    with pytest.raises(ConfigError, match="batch_rows"):
        open_source(path, COLUMNS, batch_rows=0)
    with pytest.raises(ConfigError, match="standard input is read as it comes"):
        open_source("-", COLUMNS, follow=True)


class Piped:
    """Standard input in the place of sys.stdin."""

    def __init__(self, data):
        self.buffer = io.BytesIO(data)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("features", [("a", "b"), None])
def test_standard_input(tmp_path, monkeypatch, kind, given, features):
    data = WRITERS[kind](tmp_path / "rows", TABLE).read_bytes()
    monkeypatch.setattr("sys.stdin", Piped(b"\n" + data if kind == "jsonl" else data))
    source = open_source(
        "-", Columns("t", "k", features), format=kind if given else None, batch_rows=9
    )
    assert not source.replayable
    assert as_rows(read(source)) == TABLE


@pytest.mark.parametrize(
    ("data", "error", "match"),
    [
        (b"", SchemaError, "standard input is empty"),
        (b"\n\n", SchemaError, "standard input is empty"),
        (b"PAR1....", ConfigError, "can carry CSV or JSON lines, not parquet"),
        (b"\x1f\x8b123\n", ConfigError, "holds no lines, but gzip"),
        (b"{oops\n[1]\n", SchemaError, "no JSON object to take the features from"),
    ],
)
def test_bad_standard_input(monkeypatch, data, error, match):
    monkeypatch.setattr("sys.stdin", Piped(data))
    with pytest.raises(error, match=match):
        open_source("-", Columns())


def test_rows_before_the_first_object_are_not_lost(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('\noops\n{"a": 1}\n{"a": 2}\n')
    batches = read(open_source(path, Columns()))
    assert batches[0][0].column("a").to_pylist() == [None, 1.0, 2.0]
    assert batches[0][1]["row"] == 3


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_following_a_growing_file(tmp_path, kind):
    data = WRITERS[kind](tmp_path / "whole", TABLE).read_bytes()
    path = tmp_path / f"rows.{kind}"
    path.write_bytes(b"")

    def write():
        with path.open("ab", buffering=0) as file:
            for start in range(0, len(data), 37):
                file.write(data[start : start + 37])

    writer = threading.Timer(0.1, write)
    writer.start()
    source = open_source(path, COLUMNS, follow=True, idle=0.5, batch_rows=9)
    batches = read(source)
    writer.join()
    assert as_rows(batches) == TABLE
    rest = read(open_source(path, COLUMNS, follow=True, idle=0.0), batches[2][1])
    assert as_rows(rest) == TABLE[batches[2][1]["row"] :]


def test_a_named_pipe_is_read_like_standard_input(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = WRITERS["csv"](tmp_path / "rows.csv", TABLE).read_bytes()

    writer = threading.Thread(target=pipe.write_bytes, args=(data,), daemon=True)
    writer.start()
    source = open_source(pipe, COLUMNS)
    assert not source.replayable
    assert as_rows(read(source)) == TABLE


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "arrow"])
def test_memory_does_not_grow_with_the_file(tmp_path, kind):
    """The most that is held while reading is the same for a file four times as long."""
    peaks = []
    for n in (40_000, 160_000):
        path = tmp_path / f"rows.{kind}"
        if kind == "csv":
            path.write_text("a,b\n" + "1.25,2.5\n" * n)
        elif kind == "jsonl":
            path.write_text('{"a": 1.25, "b": 2.5}\n' * n)
        else:
            values = np.random.default_rng(0).normal(size=n)
            table = pa.table({"a": values, "b": values})
            if kind == "parquet":
                pq.write_table(table, path, use_dictionary=False, data_page_size=1 << 14)
            else:
                with pa.ipc.new_file(path, table.schema) as writer:
                    writer.write_table(table, max_chunksize=5000)
            del table
        pool = pa.default_memory_pool()
        peak = 0
        tracemalloc.start()
        before = pool.bytes_allocated()
        with closing(open_source(path, Columns(), batch_rows=500)) as source:
            for _ in source.read_after(None):
                peak = max(peak, pool.bytes_allocated() - before)
        peaks.append(peak + tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0] + 150_000, peaks


def test_names_of_the_test_data():
    assert as_arrow(TABLE).column_names == list(NAMES)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_week_of_a_log_that_is_rotated_and_four_kills_are_as_one_file(tmp_path, kind):
    """Twenty rotations: the log is renamed, or copied and cut."""
    table = rows(10_080)  # a row a minute
    path = tmp_path / f"log.{kind}"
    write, out = WRITERS[kind], tmp_path / "job" / "out.jsonl"
    parts = [table[i : i + 240] for i in range(0, len(table), 240)]
    write(path, parts[0])

    def add(part):
        lines = write(tmp_path / "part", part).read_text().splitlines(keepends=True)
        with path.open("a") as file:
            file.writelines(lines[kind == "csv" :])

    def n_learned():
        return out.read_bytes().count(b"\n") if out.exists() else 0

    def work():
        until(n_learned)  # what was rotated before the job began is not of the job
        for number, part in enumerate(parts[1:], 1):
            if number % 2:
                add(part)
                continue
            time.sleep(0.02)  # a step of the clock by which files are ordered
            older = path.with_name(f"{path.name}.{number}")
            if number % 4:
                path.rename(older)
            else:
                older.write_bytes(path.read_bytes())
            write(path, part)

    with meanwhile(work):
        got = drive(
            tmp_path / "job", str(path), len(table), follow=True, kills=4, longest=1.0, batch=100
        )
    assert got == expected(tmp_path / "alone", [json.dumps(row) for row in table])


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_files_that_follow_each_other_are_read_like_one(tmp_path, kind):
    head = "t,a\n" if kind == "csv" else ""
    line = "{0},{0}\n" if kind == "csv" else '{{"t": {0}, "a": {0}}}\n'
    found, offset, written = [], None, 0

    def write(path, n):
        nonlocal written
        with path.open("a") as file:
            file.write("".join(line.format(i) for i in range(written, written + n)))
        written += n

    paths = [tmp_path / f"day-{number}.{kind}" for number in range(5)]
    paths[0].write_text(head)
    write(paths[0], 5)
    follow = partial(
        open_source,
        f"{tmp_path}/day-*.{kind}",
        Columns("t", None, ("a",)),
        follow=True,
        idle=0.3,
        batch_rows=4,
    )
    for path, after in itertools.pairwise(paths):
        steps = [(write, path, 3), (after.touch,), (after.write_text, head), (write, after, 6)]
        with closing(follow()) as source:
            for batch, then in source.read_after(offset):
                offset = then
                if batch is not None:
                    found += batch.column("t").to_pylist()
                elif steps:
                    step, *given = steps.pop(0)
                    step(*given)
        assert not steps
    assert found == [float(i) for i in range(written)]
    if kind == "csv":
        (tmp_path / "day-9.csv").write_text("b,t\n1,2\n")
        with closing(follow()) as source, pytest.raises(SchemaError, match=r"day-9.csv begins"):
            list(source.read_after(offset))
    with pytest.raises(ConfigError, match="no file matches"):
        open_source(f"{tmp_path}/night-*.{kind}", Columns(), follow=True)
