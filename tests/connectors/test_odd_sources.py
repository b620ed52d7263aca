"""Malformed sources: odd headers, other line ends, flipped bits, wrong types."""

import json
import time
from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamddcrp import SeqDDCRP
from streamddcrp.errors import ConfigError, SchemaError, StreamDDCRPError
from streamddcrp.likelihoods import BetaBernoulli
from streamddcrp_connectors.run.columns import MOST_FEATURES, Columns, refusals
from streamddcrp_connectors.run.config import find_recipe
from streamddcrp_connectors.run.joining import joined
from streamddcrp_connectors.run.sources import open_source


def opened(path, **more):
    return open_source(path, Columns(**more))


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"a,b\r1,2\r3,4\r", "carriage returns"),
        (b"a," + b"b" * 200_000 + b"\n1,2\n", "cannot be read"),
        (b"a,__refused__\n1,2\n", "must not be called"),
    ],
)
def test_odd_headers(tmp_path, content, match):
    path = tmp_path / "odd.csv"
    path.write_bytes(content)
    with pytest.raises(SchemaError, match=match):
        opened(path)


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_great_many_columns(tmp_path, suffix):
    names = [f"c{i}" for i in range(100_000)]
    path = tmp_path / f"wide.{suffix}"
    cells = ",".join(names) + "\n" + ",".join("1" for _ in names) + "\n"
    rows = "{" + ",".join(f'"{name}":1' for name in names) + "}\n"
    path.write_text(cells if suffix == "csv" else rows)
    begun = time.process_time()
    with pytest.raises(SchemaError, match="100,000 columns"):
        opened(path)
    # half a second; a quadratic look at 100,000 names takes minutes
    assert time.process_time() - begun < 10.0
    with closing(opened(path, features=("c3", "c99999"))) as source:
        batch, _ = next(source.read_after(None))
        assert batch.to_pylist() == [{"c3": 1.0, "c99999": 1.0}]


def test_as_many_columns_as_are_allowed(tmp_path):
    path = tmp_path / "wide.csv"
    for n in (MOST_FEATURES, MOST_FEATURES + 1):
        path.write_text(",".join(f"c{i}" for i in range(n)) + "\n")
        if n > MOST_FEATURES:
            with pytest.raises(SchemaError, match="--features"):
                opened(path)
        else:
            source = opened(path)
            assert len(source.columns.features) == n
            source.close()


def written(path, cells):
    """The same cells, of one column, in a file of the kind of its name; None: missing."""
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps({"a": cell, "b": 1}) + "\n" for cell in cells))
    elif path.suffix == ".csv":
        path.write_text("a,b\n" + "".join(f"{'' if c is None else c},1\n" for c in cells))
    elif path.suffix == ".parquet":
        pq.write_table(pa.table({"a": cells, "b": [1] * len(cells)}), path)
    else:
        with pa.ipc.new_file(path, pa.schema({"a": pa.array(cells).type})) as file:
            file.write_table(pa.table({"a": cells}))
    return path


FLAGS = [None] * 9 + [False, True, True, None] * 20


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet", ".arrow"])
@pytest.mark.parametrize("batch_rows", [1, 7, 1000])
def test_true_and_false_are_flags_in_all_sources(tmp_path, ending, batch_rows):
    path = written(tmp_path / f"t{ending}", FLAGS)
    model = SeqDDCRP(warmup=64)
    with closing(open_source(path, Columns(features=("a",)), batch_rows=batch_rows)) as source:
        scores = [model.step_many(batch)["score"] for batch, _ in source.read_after(None)]
    alone = SeqDDCRP(warmup=64)
    expected = alone.step_many([{"a": cell} for cell in FLAGS])["score"]
    assert isinstance(model._family, BetaBernoulli)
    assert pa.chunked_array(scores).to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
@pytest.mark.parametrize("batch_rows", [1, 3, 1000])
def test_true_is_1_beside_numbers(tmp_path, ending, batch_rows):
    path = written(tmp_path / f"t{ending}", [True, None, 0.5, False, 3])
    with closing(open_source(path, Columns(features=("a",)), batch_rows=batch_rows)) as source:
        read = [refusals(batch) for batch, _ in source.read_after(None)]
    assert not any(refused for _, refused in read)
    assert joined([batch for batch, _ in read]).column("a").to_pylist() == [1.0, None, 0.5, 0.0, 3]


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_true_is_no_time(tmp_path, ending):
    path = written(tmp_path / f"t{ending}", [True])
    with closing(opened(path, time="a", features=("b",))) as source:
        ((batch, _),) = source.read_after(None)
    assert "must be a number or a time stamp" in refusals(batch)[1][0].reason


def test_a_column_of_flags_is_no_time(tmp_path):
    path = written(tmp_path / "t.parquet", [True])
    with pytest.raises(SchemaError, match="has type bool; the time must be"):
        opened(path, time="a", features=("b",))


def test_every_flipped_bit_of_a_page_with_a_checksum_is_noticed(tmp_path):
    rng = np.random.default_rng(0)
    table, path = pa.table({"a": rng.normal(size=4000)}), tmp_path / "p.parquet"
    pq.write_table(table, path, write_page_checksum=True, compression="none", use_dictionary=False)
    good = path.read_bytes()
    for at in rng.integers(100, 30_000, 30).tolist():
        bad = bytearray(good)
        bad[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(bad)
        with pytest.raises(SchemaError, match="damaged"), closing(opened(path)) as source:
            list(source.read_after(None))


@pytest.mark.parametrize(
    "line",
    [
        "decay = {a = 1}", "window = 100000000", 'window = "x"', "likelihood = 5", "model = 5",
        "season = 1979-05-27", "warmup = [1]", "alpha = true", "max_tables = -1",
        "decay = 1979-05-27", "memory = 'x'", "gamma = []", "preset = 3",
        "likelihood = ['normal_gamma', 'x']",
    ],
)  # fmt: skip
def test_options_of_a_wrong_type(tmp_path, line):
    path = tmp_path / "model.toml"
    path.write_text(line + "\n")
    with pytest.raises(StreamDDCRPError):
        find_recipe(str(path)).make()


def test_a_column_that_is_not_there(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n")
    with pytest.raises(ConfigError, match="no column 'z'"):
        opened(path, features=("z",))


def test_a_column_whose_name_is_no_text_is_refused(tmp_path):
    path = tmp_path / "rows.arrow"
    table = pa.table({"pressure": [1.0, 2.0]})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write(table)
    path.write_bytes(path.read_bytes().replace(b"pressure", b"press\xffre"))
    with pytest.raises(SchemaError, match="a column's name is no text"):
        open_source(path, Columns())
