"""CSV and JSON lines to batches: one line is one row, however the text is cut."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp_connectors.run.columns import REFUSED, Columns, canonical, refusals
from streamddcrp_connectors.run.csvrows import CsvRows
from streamddcrp_connectors.run.jsonrows import JsonRows
from streamddcrp_connectors.run.textsource import sniff

COLUMNS = Columns("t", "k", ("a", "b"))
HEADER = b"t,k,a,b,more\n"


def whole(batch):
    """A canonical batch as plain rows, marks and texts of refusals included (NaN as text).

    Flags as 0 and 1, which they are beside numbers of other batches.
    """
    clean, refused = refusals(batch)
    columns = [
        [
            repr(float(value) if value is True or value is False else value)
            for value in column.to_pylist()
        ]
        if not pa.types.is_timestamp(column.type)
        else column.cast(pa.string()).to_pylist()
        for column in clean.columns
    ]
    rows = [list(row) for row in zip(*columns, strict=True)]
    return [refused.get(i, row) for i, row in enumerate(rows)]


def one_by_one(rows, lines, columns):
    """Decode lines as they come, and those at the end that may be part of a longer row."""
    kind, found, held = None, [], b""
    for line in [*lines, None]:
        block = held + (line or b"")
        settled = len(block) if line is None else rows.settled(block)
        batch, kind = rows.decode(block[:settled], columns, kind)
        found, held = found + whole(batch), block[settled:]
    return found, kind


cell = st.one_of(
    st.sampled_from(
        [
            "",
            "1",
            "2.5",
            "-3e4",
            " 7 ",
            "nan",
            "inf",
            "abc",
            "true",
            "False",
            "é",
            '"',
            '"x"',
            '"a,b"',
            '""',
            '"1"',
            "\r",
            "2024-01-01",
            "2024-01-01T10:00:00Z",
            "x\ry",
            '5" pipe',
            '"open',
            "0x10",
            "1e999",
            "\x00",
            "1_0",
        ]
    ),
    st.text('01.,"ab \r', max_size=4),
)
csv_line = st.one_of(
    st.lists(cell, min_size=5, max_size=5).map(",".join),
    st.lists(cell, max_size=6).map(",".join),
    st.builds("{},k,{},{},z".format, st.sampled_from(["1", "2"]), cell, cell),
).map(lambda line: line.encode() + b"\n")
odd_line = st.sampled_from([b"1,\xff,2,3,4\n", b"\n", b"\r\n", b" \n", b"1,k,1,2,x\r\n"])


@given(st.lists(csv_line | odd_line, max_size=12), st.data())
def test_csv_rows_do_not_depend_on_the_cut(lines, data):
    rows = CsvRows(HEADER, "test")
    expected, kind = one_by_one(rows, lines, COLUMNS)
    cut = data.draw(st.integers(0, len(lines)))
    found, last = one_by_one(rows, [b"".join(lines[:cut]), b"".join(lines[cut:])], COLUMNS)
    assert found == expected
    assert last == kind
    rows_of = sum(line not in (b"\n", b"\r\n") for line in lines)
    assert len(found) <= rows_of
    assert len(found) == rows_of or b'"' in b"".join(lines)


value = st.one_of(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    st.sampled_from(
        ["2024-01-01", "2024-01-01T10:00:00Z", "5", "\ud800", 10**400, 2**53 + 1, [1], {}]
    ),
)
json_line = st.one_of(
    st.fixed_dictionaries({"t": value, "k": value, "a": value, "b": value}).map(json.dumps),
    st.fixed_dictionaries(
        {"t": st.floats(), "k": st.text(max_size=2), "a": st.floats(), "b": st.none()}
    ).map(json.dumps),
    st.dictionaries(st.sampled_from(["t", "k", "a", "b", "\ud800"]), value).map(json.dumps),
    st.text('{}[]:,"at1 ', max_size=8),
    st.sampled_from(['{"t":1,"t":2}', "[" * 100_000, "{", "null", "1" * 5000, "\\ud800"]),
).map(lambda line: line.encode() + b"\n")


@given(st.lists(json_line | odd_line, max_size=12), st.data())
def test_json_rows_do_not_depend_on_the_cut(lines, data):
    rows = JsonRows()
    expected, kind = one_by_one(rows, lines, COLUMNS)
    cut = data.draw(st.integers(0, len(lines)))
    found, last = one_by_one(rows, [b"".join(lines[:cut]), b"".join(lines[cut:])], COLUMNS)
    assert found == expected
    assert last == kind
    assert len(found) == sum(bool(line.strip()) for line in lines)


def decode_csv(text, columns=COLUMNS, header=HEADER, kind=None):
    return refusals(CsvRows(header, "test").decode(text, columns, kind)[0])


def test_csv_cells():
    batch, refused = decode_csv(b'1,x,0.5,,z\n2, y ," 3 ","",z\n3,"a,b",nan,-inf,z\n')
    assert not refused
    assert batch.schema.names == ["t", "k", "a", "b"]
    assert batch.schema.types == [pa.float64(), pa.string(), pa.float64(), pa.float64()]
    assert batch.column("t").to_pylist() == [1.0, 2.0, 3.0]
    assert batch.column("k").to_pylist() == ["x", " y ", "a,b"]
    assert batch.column("a").to_pylist()[:2] == [0.5, 3.0]
    assert batch.column("a").null_count == 0  # the text nan is a NaN, not a missing value
    assert np.isnan(batch.column("a")[2].as_py())
    assert batch.column("b").to_pylist() == [None, None, -np.inf]


def test_csv_refusals_name_the_rule_and_keep_the_text():
    text = (
        b"1,x,1,1,z\n"
        b"1,x,abc,1,z\n"
        b"1,x,1\n"
        b",x,1,1,z\n"
        b'1,x,"1,1,z\n'
        b"1,,1,1,z\n"
        b"soon,x,1,1,z\n"
        b"1,\xff,1,1,z\n"
        b"1,x,1,1,z\r1,x,1,1,z\n"
        b"1,x,1,1,z\n"
    )
    batch, refused = decode_csv(text)
    assert batch.num_rows == 10
    assert sorted(refused) == [1, 2, 3, 4, 5, 6, 7, 8]
    reasons = {row: refusal.reason for row, refusal in refused.items()}
    assert reasons[1] == "column 'a' must be a number, or empty where missing, got 'abc'"
    assert refused[1].values == {"t": "1", "k": "x", "a": "abc", "b": "1"}
    assert reasons[2] == "3 cells where the header names 5 columns"
    assert refused[2].values == "1,x,1"
    assert reasons[3] == "column 't' is empty; each row needs a time"
    assert reasons[4] == "a quote is not closed on its line"
    assert reasons[5] == "column 'k' is empty; each row needs a key"
    assert reasons[6].startswith("column 't' must be a number or a time stamp")
    assert reasons[7].startswith("not UTF-8 text")
    assert reasons[8].startswith("a carriage return")


def test_one_column_csv():
    batch, refused = decode_csv(b'1\n \n""\n\n2\n', Columns(features=("a",)), b"a\n")
    assert not refused
    assert batch.column("a").to_pylist() == [1.0, None, None, 2.0]


@pytest.mark.parametrize(
    ("cells", "kind", "type_", "lost"),
    [
        (["1", "2.5"], "number", pa.float64(), []),
        (["2024-01-01", "2024-01-01 10:00:00.25"], "timestamp", pa.timestamp("ns"), []),
        (
            ["2024-01-01T00:00:00+02:00", "2024-01-01T10:00:00Z"],
            "instant",
            pa.timestamp("ns", "UTC"),
            [],
        ),
        (["1", "2024-01-01", "3"], "number", pa.float64(), [1]),
        (
            ["soon", "2024-01-01", "3", "2024-01-01T10:00:00Z"],
            "timestamp",
            pa.timestamp("ns"),
            [0, 2, 3],
        ),
    ],
)
def test_the_first_readable_time_decides_the_kind(cells, kind, type_, lost):
    columns = Columns("t", None, ("a",))
    text = "".join(f"{cell},1\n" for cell in cells).encode()
    batch, found = CsvRows(b"t,a\n", "test").decode(text, columns, None)
    clean, refused = refusals(batch)
    assert found == kind
    assert clean.column("t").type == type_
    assert sorted(refused) == lost
    lines = "".join(
        json.dumps({"t": cell if kind != "number" or "-" in cell else float(cell), "a": 1}) + "\n"
        for cell in cells
    ).encode()
    batch, found = JsonRows().decode(lines, columns, None)
    clean, refused = refusals(batch)
    assert (found, clean.column("t").type, sorted(refused)) == (kind, type_, lost)


@pytest.mark.parametrize(
    ("header", "match"),
    [
        (b"\n", "is empty"),
        (b",,\n", "is empty"),
        (b"\xff,a\n", "not UTF-8"),
        (b"t;k;a;b\n", "no column 't'; it has t;k;a;b"),
    ],
)
def test_bad_headers(header, match):
    with pytest.raises((SchemaError, ConfigError), match=match):
        COLUMNS.resolve(CsvRows(header, "test").names, "test")


def test_header_of_other_programs():
    assert CsvRows(b'\xef\xbb\xbft, "k" ,"a b"\r\n', "test").names == ["t", '"k"', "a b"]


def decode_json(*rows):
    text = "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)
    return refusals(JsonRows().decode(text.encode(), COLUMNS, None)[0])


def test_json_cells():
    batch, refused = decode_json(
        {"t": 1, "k": "x", "a": 0.5, "b": None, "other": [1]},
        {"t": 2, "k": 7, "a": 1, "b": 2**70},
        '{"t": 3, "k": "", "a": NaN, "b": -Infinity}',
    )
    assert not refused
    assert batch.column("k").to_pylist() == ["x", "7", ""]
    assert batch.column("a").to_pylist()[:2] == [0.5, 1.0]
    assert np.isnan(batch.column("a")[2].as_py())
    assert batch.column("b").to_pylist() == [None, float(2**70), -np.inf]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"t": 1', "not valid JSON: Expecting ',' delimiter at character 7"),
        ("[1]", "not a JSON object of column names and values"),
        (
            '{"t": 1, "k": "x", "a": 1}',
            "no column 'b'; write null where a value is missing, or give --missing-columns null",
        ),
        ('{"t": 1, "t": 2}', "column 't' occurs twice"),
        (
            '{"t": 1, "k": "x", "a": "1", "b": 1}',
            "column 'a' must be a number, or null where missing, got \"1\"",
        ),
        (
            '{"t": 1, "k": 1.5, "a": 1, "b": 1}',
            "column 'k' must be text or a whole number, got 1.5",
        ),
        ('{"t": null, "k": "x", "a": 1, "b": 1}', "column 't' is empty; each row needs a time"),
        ('{"t": true, "k": "x", "a": 1, "b": 1}', None),
        ('{"t": 1, "k": "\\ud800", "a": 1, "b": 1}', None),
        ("[" * 100_000, "too deeply nested JSON"),
    ],
)
def test_json_refusals(line, reason):
    fine = {"t": 1, "k": "x", "a": 1, "b": 1}
    batch, refused = decode_json(fine, line, fine)
    assert batch.num_rows == 3
    assert list(refused) == [1]
    if reason is not None:
        assert refused[1].reason == reason


def typed(**columns):
    return pa.record_batch(list(columns.values()), names=list(columns))


def test_typed_columns():
    batch = typed(
        t=pa.array([1, 2], pa.int32()),
        k=pa.array(["x", "y"]).dictionary_encode(),
        a=pa.array([True, None]),
        b=pa.array([1, 2], pa.decimal128(5, 1)),
    )
    made, kind = canonical(batch, COLUMNS, None)
    assert kind == "number"
    assert made.to_pylist() == [
        {"t": 1.0, "k": "x", "a": 1, "b": 1.0},
        {"t": 2.0, "k": "y", "a": None, "b": 2.0},
    ]
    assert made.schema.types == [pa.float64(), pa.string(), pa.bool_(), pa.float64()]
    views = typed(k=pa.array(["x"], pa.string_view()), a=pa.nulls(1))
    made, _ = canonical(views, Columns(None, "k", ("a",)), None)
    assert made.to_pylist() == [{"k": "x", "a": None}]


@pytest.mark.parametrize(
    ("column", "kind", "text"),
    [
        (pa.array([0], pa.timestamp("s")), "timestamp", "1970-01-01 00:00:00.000000000"),
        (
            pa.array([1], pa.timestamp("us", "Europe/Paris")),
            "instant",
            "1970-01-01 00:00:00.000001000Z",
        ),
        (pa.array(["2024-01-01T01:00+01"]), "instant", "2024-01-01 00:00:00.000000000Z"),
        (pa.array(["2024-01-01"], pa.large_string()), "timestamp", "2024-01-01 00:00:00.000000000"),
        (pa.array([1], pa.date32()), "timestamp", "1970-01-02 00:00:00.000000000"),
    ],
)
def test_typed_times(column, kind, text):
    made, found = canonical(typed(t=column, a=pa.array([1.0])), Columns("t", None, ("a",)), None)
    assert found == kind
    assert made.column("t").cast(pa.string()).to_pylist() == [text]


@pytest.mark.parametrize(
    ("name", "column", "match"),
    [
        ("a", pa.array(["1"]), "'a' has type string; a feature must be numeric"),
        ("a", pa.array([[1.0]]), "'a' has type list"),
        ("t", pa.array([True]), "'t' has type bool; the time must be"),
        ("t", pa.array([1], pa.duration("s")), "'t' has type duration"),
        ("t", pa.array([10**12], pa.timestamp("s")), "outside the years"),
        ("k", pa.array([1.5]), "'k' has type double; a key must be"),
    ],
)
def test_unusable_types(name, column, match):
    fine = {"t": pa.array([1.0]), "k": pa.array(["x"]), "a": pa.array([1.0]), "b": pa.array([1.0])}
    with pytest.raises(SchemaError, match=match):
        canonical(typed(**{**fine, name: column}), COLUMNS, None)


def test_null_time_and_key_are_refused_rows():
    batch = typed(
        t=pa.array([None, 1], pa.timestamp("ns")),
        k=pa.array(["x", None]),
        a=pa.array([np.nan, 1.0]),
        b=pa.array([np.inf, 1.0]),
    )
    _, refused = refusals(canonical(batch, COLUMNS, None)[0])
    assert refused[0].reason == "column 't' is empty; each row needs a time"
    assert refused[0].values == {"t": None, "k": "x", "a": "nan", "b": "inf"}
    assert refused[1].reason == "column 'k' is empty; each row needs a key"
    assert refused[1].values["t"] == "1970-01-01 00:00:00.000000001"


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Columns("a", None, ("a",)), "'a' is named twice"),
        (lambda: Columns("a", "a"), "'a' is named twice"),
        (lambda: Columns(features=("a", "a")), "'a' is named twice"),
        (lambda: Columns(features=()), "no feature is named"),
        (
            lambda: COLUMNS.resolve(["t", "k", "a"], "here"),
            "here has no column 'b'; it has t, k, a",
        ),
        (lambda: Columns("t").resolve(["t"], "here"), "no column left for the features"),
    ],
)
def test_bad_columns(make, match):
    with pytest.raises(ConfigError, match=match):
        make()


def test_features_default_to_the_other_columns():
    assert Columns("t", "k").resolve(["b", "t", "a", "k"], "here").features == ("b", "a")
    with pytest.raises(SchemaError, match="occurs twice"):
        Columns("t").resolve(["t", "a", "a"], "here")
    assert REFUSED not in Columns("t").resolve(["t", "a"], "here").names


@pytest.mark.parametrize(
    ("cells", "said"),
    [(b'1,"1,5"', "say --decimal"), (b'1,"1.234,5"', "say --decimal"), (b"1,soon", "got 'soon'")],
)
def test_a_refused_cell_says_how_to_write_it(cells, said):
    batch, _ = CsvRows(b"t,a\n", "here").decode(cells + b"\n", Columns("t", None, ("a",)), None)
    _, refused = refusals(batch)
    assert said in refused[0].reason


@pytest.mark.parametrize(
    ("head", "said"),
    [(b'[{"a": 1}]', "but json"), (b"[", "but json"), (b"PK\x03\x04..", "but zip")],
)
def test_a_file_of_another_kind_is_named(head, said):
    with pytest.raises(ConfigError, match=said):
        sniff(head, "rows.json")
    assert sniff(b"[a],b", "rows.csv") == "csv"


def test_a_column_that_comes_late_is_named_once(caplog):
    rows = JsonRows()
    assert rows.names_of(b'{"a": 1}\n{"a": 2}\n') == ["a"]
    for _ in range(2):
        batch, _ = rows.decode(
            b'{"a": 3, "b": 1}\n{"b": 2, "a": 4}\n', Columns(features=("a",)), None
        )
        assert batch.num_rows == 2
    assert caplog.text.count("left out: b, which the first rows lack") == 1
