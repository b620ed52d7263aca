"""Whatever a table is packed in, its rows are those of the plain file, and can be gone on with."""

import bz2
import csv
import gzip
import io
import json
import lzma
import sqlite3
import zipfile
from contextlib import closing
from datetime import datetime, timedelta

import openpyxl
import pyarrow as pa
import pytest
from click.testing import CliRunner

from streamddcrp.errors import ConfigError
from streamddcrp_connectors.cli import main
from streamddcrp_connectors.run.columns import Columns, refusals
from streamddcrp_connectors.run.contents import unwrapped
from streamddcrp_connectors.run.joining import joined
from streamddcrp_connectors.run.sources import open_source

N = 50
STAMPS = [datetime(2021, 1, 5) + timedelta(minutes=10 * i) for i in range(N)]
ROWS = [
    {"at": str(at), "temp": 20.0 + i % 7 / 8, "hum": None if i % 9 == 4 else 40.25 + i}
    for i, at in enumerate(STAMPS)
]
CSV = "at,temp,hum\n" + "".join(f"{r['at']},{r['temp']},{r['hum'] or ''}\n" for r in ROWS)
DATA = CSV.encode()


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def workbook(title):
    book = openpyxl.Workbook()
    sheet = book.active
    for line in title:
        sheet.append(line)
    for cells in (
        ["at", "temp", "hum"],
        *([at, *list(row.values())[1:]] for at, row in zip(STAMPS, ROWS, strict=True)),
    ):
        sheet.append(cells)
    book.create_sheet("notes").append(["nothing"])
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def database(tmp_path):
    path = tmp_path / "made"
    with closing(sqlite3.connect(path)) as made:
        made.execute("create table small (a)")
        made.execute("create table readings (at text, temp real, hum real)")
        made.executemany("insert into readings values (:at, :temp, :hum)", ROWS)
        made.commit()
    return path.read_bytes()


CREATE = (
    'CREATE TABLE "readings" (\n  "at" text,\n  "temp" double,\n  hum double,\n  KEY (at)\n);\n'
)
VALUES = [f"('{r['at']}',{r['temp']},{r['hum'] or 'NULL'})" for r in ROWS]
DUMPS = {
    "mysql": f"-- MySQL dump\n{CREATE}INSERT INTO \"readings\" VALUES " + ",".join(VALUES[:20])
    + ';\nINSERT INTO "readings" VALUES ' + ",\n".join(VALUES[20:]) + ";\n",
    "named": "INSERT INTO other VALUES ('it''s; (\\'', 1);\n"
    + "".join(f"INSERT INTO readings (at, temp, `hum`) VALUES\n{row};\n" for row in VALUES),
    "postgres": "--\n-- PostgreSQL dump\n--\nCOPY public.readings (at, temp, hum) FROM stdin;\n"
    + "".join(f"{r['at']}\t{r['temp']}\t{r['hum'] or chr(92) + 'N'}\n" for r in ROWS) + "\\.\n",
}  # fmt: skip
COLUMNS = {name: [row[name] for row in ROWS] for name in ROWS[0]}
DOCUMENTS = {
    "lists": [[*COLUMNS], *([*row.values()] for row in ROWS)],
    "array": ROWS, "wrapped": {"status": {"code": 1}, "data": ROWS}, "columns": COLUMNS,
    "deep": {"elevation": 3.5, "hourly_units": {"at": "iso"}, "hourly": COLUMNS},
    "pandas columns": {k: {str(i): v for i, v in enumerate(c)} for k, c in COLUMNS.items()},
    "pandas index": {str(i): row for i, row in enumerate(ROWS)},
    "pandas split": {"columns": [*COLUMNS], "index": [*range(N)],
                     "data": [[*row.values()] for row in ROWS]},
}  # fmt: skip
FILES = {
    "rows.csv.gz": gzip.compress(DATA), "rows.csv.bz2": bz2.compress(DATA),
    "rows.csv.xz": lzma.compress(DATA), "rows": gzip.compress(lzma.compress(DATA)),
    "rows.zip": zipped({"__MACOSX/rows.csv": b"\0" * 9999, "README.txt": b"x" * 9999,
                        "a/rows.csv": DATA, "b.csv": b"x\n1\n"}),
    "rows.csv": CSV.encode("utf-16"), "big.csv": CSV.encode("utf-16-be"),
    "rows.xlsx": workbook([]), "titled.xlsx": workbook([["A report"], [], ["of today"]]),
    "rows.db": None,
    "one after the other.json": "\n".join(json.dumps(row, indent=1) for row in ROWS).encode(),
    **{f"{name}.sql": text.encode() for name, text in DUMPS.items()},
    "rows.jsonl": "\n".join(map(json.dumps, ROWS)).encode(),
    **{f"{name}.json": json.dumps(found).encode() for name, found in DOCUMENTS.items()},
    **{f"{name} pretty.json": json.dumps(found, indent=1).encode()
       for name, found in DOCUMENTS.items()},
}  # fmt: skip


def table_of(source, offset=None):
    batches = [refusals(batch)[0] for batch, _ in source.read_after(offset)]
    table = joined(batches)
    return table.set_column(0, "at", table.column("at").cast(pa.timestamp("us"))).to_pylist()


@pytest.fixture
def path_of(tmp_path):
    def put(name):
        path = tmp_path / name
        path.write_bytes(FILES[name] or database(tmp_path))
        return path

    return put


@pytest.mark.parametrize("name", FILES)
def test_the_same_rows_from_everywhere(path_of, name):
    with closing(open_source(path_of(name), Columns(), batch_rows=7)) as source:
        assert (source.columns.time, source.columns.features) == ("at", ("temp", "hum"))
        rows = table_of(source)
        assert rows == [{**row, "at": at} for row, at in zip(ROWS, STAMPS, strict=True)]
        offsets = [offset for _, offset in source.read_after(None)]
        assert table_of(source, offsets[2]) == rows[21:]


def test_what_was_chosen_is_said(path_of):
    for name, said in (
        ("rows.zip", "its file a/rows.csv, the largest of 2 files"),
        ("rows.xlsx", "its sheet 'Sheet', the largest of 'Sheet', 'notes'"),
        ("rows.db", "its table 'readings', the largest of readings, small"),
    ):
        with closing(open_source(path_of(name), Columns())) as source:
            assert said in source.understood[0]


def test_geojson_has_names_with_dots(tmp_path):
    made = [
        {"type": "Feature", "id": f"ci{i}", "properties": {"mag": i / 8, "time": 1614556800000 + i},
         "geometry": {"type": "Point", "coordinates": [-116.5, 33.25, i / 4]}}
        for i in range(N)
    ]  # fmt: skip
    path = tmp_path / "all_week.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": made}))
    with closing(open_source(path, Columns(time="time"))) as source:
        assert source.columns.time == "properties.time"
        rows = joined([batch for batch, _ in source.read_after(None)]).to_pylist()
    places = ("properties.mag", *(f"geometry.coordinates.{k}" for k in range(3)))
    assert [tuple(row[name] for name in places) for row in rows] == [
        (i / 8, -116.5, 33.25, i / 4) for i in range(N)
    ]


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.json", b"[{oops", "which cannot be read"),
        ("b.json", b'{"a": [\n{oops', "cannot be read"),
        ("a.db", b"SQLite format 3\0 and no more", "cannot be read as a database"),
        ("a.sql", b"INSERT INTO a VALUES (1, now());\n", "some statements of which cannot"),
        ("a.npy", b"\x93NUMPY\1\0 of numbers", "is no text: save it as CSV"),
        ("a.xlsx", zipped({"[Content_Types].xml": b"?"}), "cannot be read as a workbook"),
    ],
)
def test_what_is_damaged_is_refused_by_name(tmp_path, name, data, said):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=said):
        open_source(path, Columns())


TEXTS = "connection accepted from worker", "disk quota exceeded on volume"


def log_of(stamp):
    lines = [f"{stamp.format(at)} node {TEXTS[i % 2]} {i}" for i, at in enumerate(STAMPS)]
    return "\n".join([*lines[:9], "  a line that goes on", *lines[9:]]) + "\n"


STYLES = {
    "iso": "{:%Y-%m-%dT%H:%M:%S}.000Z", "python": "{:%Y-%m-%d %H:%M:%S},000 -",
    "apache": '10.0.0.1 - - [{:%d/%b/%Y:%H:%M:%S} +0000] "GET / HTTP/1.1"',
    "bracket": "[{:%Y-%m-%d %H:%M:%S}]",
    "nginx": "{:%Y/%m/%d %H:%M:%S} [error]", "c": "[{:%a %b %d %H:%M:%S %Y}] [notice]",
}  # fmt: skip


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("batch_rows", [4, 1000])
def test_lines_of_a_log(tmp_path, style, batch_rows):
    path = tmp_path / "messages.log"
    path.write_text(log_of(STYLES[style]))
    with closing(open_source(path, Columns(), batch_rows=batch_rows)) as source:
        rows = joined([batch for batch, _ in source.read_after(None)]).to_pylist()
    assert [row["time"].replace(tzinfo=None) for row in rows] == [
        *STAMPS[:9], STAMPS[8], *STAMPS[9:],
    ]  # fmt: skip
    assert rows[0]["text"].endswith("node connection accepted from worker 0")
    assert "2021" not in rows[0]["text"]


def test_lines_are_clustered_as_texts(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("".join(f"{w} {i}\n" for i in range(60) for w in TEXTS))
    done = CliRunner().invoke(main, ["run", str(path), "--format", "lines"])
    assert done.exit_code == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    labels = [row["label"] for row in rows if row["row"] is not None]
    assert len(labels) == 120
    assert len(set(labels[60::2])) == len(set(labels[61::2])) == 1
    assert labels[-1] != labels[-2]


def test_a_dump_of_sql_is_read_statement_by_statement():
    texts = ["a (b), c", "it's\n); (so)", "back\\slash", None]
    rows = [[str(i), texts[i % 4], repr(i / 7)] for i in range(400)]
    parts = []
    for n, text, x in rows:
        told = "N'" + (text or "").replace("\\", "\\\\").replace("'", "''") + "'"
        parts.append(f"({n}, {told if text else 'NULL'}, CAST({x} AS Decimal(9,2)))")
    inserts = [",\n".join(parts[i : i + 100]) for i in range(0, 400, 100)]
    small = "INSERT INTO `small` VALUES (1),(2);\n"
    dump = [
        "CREATE TABLE `small` (`a` int);\n", small,
        "CREATE TABLE `t` (\n  `n` int(11) NOT NULL,\n  `note` text,\n  `x` decimal(9,2),\n"
        "  PRIMARY KEY (`n`)\n) ENGINE=InnoDB;\n",
        *(f"INSERT INTO `t` VALUES\n{insert};\n" for insert in inserts), small,
    ]  # fmt: skip
    said = []
    file = unwrapped(io.BytesIO("".join(dump).encode()), "a.sql", None, said)
    found = [*csv.reader(io.StringIO(file.read().decode(), newline=""))]
    assert found == [["n", "note", "x"], *([n, text or "NULL", x] for n, text, x in rows)]
    assert said == ["a.sql: its table 't', the largest of small, t"]
