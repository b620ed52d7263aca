"""Malformed sources: odd headers, other line ends, flipped bits, wrong types."""

import time
from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from streamddcrp.errors import ConfigError, SchemaError, StreamDDCRPError
from streamddcrp_connectors.run.columns import MOST_FEATURES, Columns, refusals
from streamddcrp_connectors.run.config import find_recipe
from streamddcrp_connectors.run.sources import open_source


def opened(path, **more):
    return open_source(path, Columns(**more))


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (b"a,b\r1,2\r3,4\r", "carriage returns"),
        (b"a," + b"b" * 200_000 + b"\n1,2\n", "cannot be read"),
        (b"a,__refused__\n1,2\n", "must not be called"),
        (b"a,b,a\n1,2,3\n", "occurs twice"),
    ],
)
def test_odd_headers(tmp_path, content, match):
    path = tmp_path / "odd.csv"
    path.write_bytes(content)
    with pytest.raises(SchemaError, match=match):
        opened(path)


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_a_million_columns(tmp_path, suffix):
    names = [f"c{i}" for i in range(1_000_000)]
    path = tmp_path / f"wide.{suffix}"
    cells = ",".join(names) + "\n" + ",".join("1" for _ in names) + "\n"
    rows = "{" + ",".join(f'"{name}":1' for name in names) + "}\n"
    path.write_text(cells if suffix == "csv" else rows)
    begun = time.process_time()
    with pytest.raises(SchemaError, match="1,000,000 columns"):
        opened(path)
    # 0.5 to 0.9 s where nothing else runs; a quadratic look at 10^6 names takes hours
    assert time.process_time() - begun < 10.0
    with closing(opened(path, features=("c3", "c999999"))) as source:
        batch, _ = next(source.read_after(None))
        assert batch.to_pylist() == [{"c3": 1.0, "c999999": 1.0}]


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


def test_true_is_no_number_in_json_either(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": 1}\n{"a": true}\n{"a": 2}\n')
    source = opened(path)
    batch, refused = refusals(next(source.read_after(None))[0])
    source.close()
    assert batch.column("a").to_pylist() == [1.0, None, 2.0]
    assert list(refused) == [1]
    assert "got true" in refused[1].reason


def test_every_flipped_bit_of_a_page_with_a_checksum_is_noticed(tmp_path):
    rng = np.random.default_rng(0)
    table, path = pa.table({"a": rng.normal(size=4000)}), tmp_path / "p.parquet"
    pq.write_table(table, path, write_page_checksum=True, compression="none", use_dictionary=False)
    good = path.read_bytes()
    for at in rng.integers(100, 30_000, 30).tolist():
        bad = bytearray(good)
        bad[at] ^= 1 << int(rng.integers(8))
        path.write_bytes(bad)
        source = opened(path)
        with pytest.raises(SchemaError, match="damaged"):
            list(source.read_after(None))
        source.close()


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
