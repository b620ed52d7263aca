"""Several files as one source: patterns, packed files, an object store, a web server."""

import bz2
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pytest

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.run.columns import Columns
from streamddcrp_connectors.run.config import recipe_for
from streamddcrp_connectors.run.loop import open_store, run
from streamddcrp_connectors.run.sinks import open_sink
from streamddcrp_connectors.run.sources import open_source

from .data import WRITERS, rows
from .stores import Store, serving
from .test_sources import as_rows, read
from .toy import Toy

COLUMNS = Columns("t", "k", ("a", "b"))
TABLE = rows(60)
PARTS = [TABLE[:25], TABLE[25:26], TABLE[26:]]
PACK = {
    "gz": gzip.compress,
    "zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
    "bz2": bz2.compress,
}


def bytes_of(folder, kind, table):
    path = WRITERS[kind](folder / f"made.{kind}", table)
    data = path.read_bytes()
    path.unlink()
    return data


@pytest.fixture
def s3(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving(Store({})) as store:
        yield store


@pytest.fixture(params=["here", "packed", "s3", "s3-packed"])
def place(request, tmp_path):
    """Yield what puts files by name, and what makes a pattern of them."""
    if request.param.startswith("s3"):
        store = request.getfixturevalue("s3")
        return (
            (lambda name, data: store.files.update({f"plant/day/{name}": data})),
            (lambda name: store.s3(f"plant/day/{name}")),
            request.param.endswith("packed"),
        )
    (tmp_path / "day").mkdir()
    return (
        (lambda name, data: (tmp_path / "day" / name).write_bytes(data)),
        (lambda name: str(tmp_path / "day" / name)),
        request.param == "packed",
    )


@pytest.mark.parametrize("kind", sorted(WRITERS))
def test_every_offset_of_several_files_is_a_place_to_go_on(place, kind, tmp_path):
    put, spec, packed = place
    if packed and kind not in ("csv", "jsonl"):
        pytest.skip("these formats pack their own columns")
    endings = [".gz", ".zst", ".bz2"] if packed else ["", "", ""]
    for number, (table, ending) in enumerate(zip(PARTS, endings, strict=True)):
        data = bytes_of(tmp_path, kind, table)
        put(f"part-{number}.{kind}{ending}", PACK[ending[1:]](data) if ending else data)
    put(f"_part-9.{kind}", b"left out")
    pattern = spec(f"part-*.{kind}" + (".*" if packed else ""))
    whole = read(open_source(pattern, COLUMNS, batch_rows=9))
    assert as_rows(whole) == TABLE
    assert {25, 26, 60} <= {offset["row"] for _, offset in whole}  # no batch is of two files
    second = next(offset for _, offset in whole if offset["row"] == 26)
    for _, offset in whole[:: 1 if "day/" in pattern else 3]:
        stored = json.loads(json.dumps(offset))
        assert len(json.dumps(stored)) < 600
        rest = read(open_source(pattern, COLUMNS, batch_rows=100), stored)
        assert as_rows(rest) == TABLE[offset["row"] :]
    name = f"part-1.{kind}{endings[1]}"
    data = bytes_of(tmp_path, kind, [{**TABLE[25], "a": 9.0}])
    put(name, PACK[endings[1][1:]](data) if packed else data)
    with pytest.raises(SchemaError, match=r"part-1.*was it replaced"):
        read(open_source(pattern, COLUMNS), second)
    put(f"part-0a.{kind}{endings[0]}", b"1")
    with pytest.raises(SchemaError, match=r"files before .*part-1.* were added or removed"):
        read(open_source(pattern, COLUMNS), second)


def test_files_that_come_later_are_read_by_the_next_run(tmp_path):
    (tmp_path / "in").mkdir()

    def once():
        source = open_source(tmp_path / "in" / "*.csv.gz", COLUMNS, batch_rows=10)
        with open_store(tmp_path / "ck") as store:
            out = open_sink(tmp_path / "out.jsonl", None, tmp_path / "ck")
            return run(source, recipe_for(Toy, {}, Toy.from_bytes), out, store=store).rows

    for number, table in enumerate(PARTS):
        data = bytes_of(tmp_path, "csv", table)
        (tmp_path / "in" / f"{number}.csv.gz").write_bytes(gzip.compress(data))
        assert once() == sum(map(len, PARTS[: number + 1]))
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["row"] for row in found] == list(range(60))


def test_a_packed_file_is_seen_by_its_first_bytes(tmp_path):
    for name, pack in PACK.items():
        path = tmp_path / f"rows-{name}"
        path.write_bytes(pack(bytes_of(tmp_path, "csv", TABLE)))
        assert as_rows(read(open_source(path, COLUMNS))) == TABLE
        with pytest.raises(ConfigError, match="only CSV and JSON lines can be"):
            open_source(path, COLUMNS, follow=True)
    packed = tmp_path / "twice.csv.gz"  # as `cat a.gz b.gz` makes it
    data = bytes_of(tmp_path, "csv", TABLE)
    packed.write_bytes(gzip.compress(data[:100]) + gzip.compress(data[100:]))
    assert as_rows(read(open_source(packed, COLUMNS))) == TABLE
    (tmp_path / "rows.xz").write_bytes(b"\xfd7zXZ\0")
    with pytest.raises(SchemaError, match="is damaged or cannot be read"):
        open_source(tmp_path / "rows.xz", COLUMNS)


def test_damaged_files_are_named_with_the_row(tmp_path):
    data = gzip.compress(bytes_of(tmp_path, "csv", rows(60_000)))
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(SchemaError, match=r"rows\.csv\.gz is damaged .*Truncated"):
        read(open_source(path, COLUMNS))


def test_refused_rows_are_named_by_file_and_row(tmp_path):
    for number, last in enumerate(["3,4", "3,x"]):
        (tmp_path / f"{number}.csv").write_text(f"t,a\n1,2\n{last}\n")
    source = open_source(tmp_path / "*.csv", Columns(None, None, ("a",)))
    match = r"1\.csv: row 1, row 3 of all,: column 'a' must be a number"
    with pytest.raises(SchemaError, match=match) as caught:
        run(
            source, recipe_for(Toy, {}, Toy.from_bytes), open_sink(tmp_path / "o.jsonl", None, None)
        )
    assert caught.value.row == 3


def test_files_that_do_not_belong_together(tmp_path):
    (tmp_path / "0.csv").write_text("t,a\n1,2\n")
    (tmp_path / "1.csv").write_text("t,c\n1,2\n")
    with pytest.raises(ConfigError, match=r"1\.csv has no column 'a'; it has t, c"):
        read(open_source(tmp_path / "*.csv", Columns("t")))
    (tmp_path / "1.csv").write_text("t,a\n2024-01-01,2\n")
    with pytest.raises(SchemaError, match=r"1\.csv: the time is of type timestamp.*double"):
        read(open_source(tmp_path / "*.csv", Columns("t")))
    with pytest.raises(ConfigError, match=r"no file matches .*\*\.json"):
        open_source(tmp_path / "*.json", Columns("t"))
    assert as_rows(read(open_source(tmp_path / "[0].csv", Columns("t")))) == [{"t": 1.0, "a": 2.0}]


def test_a_store_that_is_away_is_waited_for(s3, tmp_path):
    """Between two reads: what is away at the start is a mistake in the address, more often."""
    for number, table in enumerate(PARTS):
        s3.files[f"plant/{number}.jsonl"] = bytes_of(tmp_path, "jsonl", table)
    source = open_source(s3.s3("plant/*.jsonl"), COLUMNS, batch_rows=10)
    s3.failures = 12
    out = open_sink(tmp_path / "out.jsonl", None, None)
    assert run(source, recipe_for(Toy, {}, Toy.from_bytes), out).rows == 60


def test_what_a_store_refuses_is_said_without_secrets(s3):
    with pytest.raises(ConfigError, match=r"there is no file s3://plant/no\.csv"):
        open_source(s3.s3("plant/no.csv"), COLUMNS)
    with pytest.raises(ConfigError, match="no file matches s3://plant/no"):
        open_source(s3.s3("plant/no*.csv"), COLUMNS)
    with pytest.raises(ConfigError, match="holds a password"):
        open_source("s3://key:s3cret@plant/rows.csv", COLUMNS)


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "jsonl.zst", "parquet", "arrow"])
def test_a_web_address_is_a_file(tmp_path, monkeypatch, kind, ranges):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("TOKEN", "s3cret")
    kind, _, ending = kind.partition(".")
    data = bytes_of(tmp_path, kind, TABLE)
    name = f"rows.{kind}" + (f".{ending}" if ending else "")
    with serving(Store({name: PACK[ending](data) if ending else data}, ranges=ranges)) as store:
        source = open_source(f"{store.http(name)}?day=3", COLUMNS, batch_rows=20)
        assert source.name == store.http(name)
        whole = read(source)
        assert as_rows(whole) == TABLE
        rest = read(open_source(store.http(name), COLUMNS), whole[0][1])
        assert as_rows(rest) == TABLE[whole[0][1]["row"] :]
        with pytest.raises(ConfigError, match="404"):
            open_source(store.http("no.csv"), COLUMNS)
        store.token = "s3cret"
        with pytest.raises(ConfigError, match="401") as caught:
            open_source(store.http(name), COLUMNS)
        found = open_source(f"{store.http(name)}?token_env=TOKEN", COLUMNS)
        kept = Path(found._places[0].path)
        assert kept.exists()
        assert as_rows(read(found)) == TABLE
        assert not kept.exists()
        assert "s3cret" not in str(caught.value) + found.name
        address = store.http(name)
    with pytest.raises(ConfigError, match="cannot be fetched"):
        open_source(address, COLUMNS)
