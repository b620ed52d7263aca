"""One table, written in every dialect alone, in pairs and at random, is read back the same."""

import gzip
import itertools
from contextlib import closing
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamddcrp.data.clock import Wanted, find_kind, parse
from streamddcrp_connectors.run.columns import Columns, Reading, refusals
from streamddcrp_connectors.run.joining import joined
from streamddcrp_connectors.run.sources import open_source

N = 60
START = datetime(2021, 1, 5)
STAMPS = [START + timedelta(hours=7 * i) for i in range(N)]
_rng = np.random.default_rng(4)
FLOW = [round(float(x), 3) for x in _rng.normal(1500, 900, N)]
LEVEL = [None if i % 7 == 3 else round(float(x), 2) for i, x in enumerate(_rng.normal(5, 2, N))]

TIMES = {
    "iso": "%Y-%m-%d %H:%M:%S", "slashes": "%Y/%m/%d %H:%M", "dots": "%d.%m.%Y %H:%M",
    "month first": "%m/%d/%Y %H:%M:%S", "day first": "%d/%m/%Y %H:%M", "names": "%b %d %Y %H:%M",
    "half days": "%m/%d/%Y %I:%M %p", "digits": "%Y%m%d%H%M%S", "log": "%d/%b/%Y:%H:%M:%S",
    "zone": "%Y-%m-%dT%H:%M:%SZ", "short year": "%d.%m.%y %H:%M",
}  # fmt: skip
TWO = {"two columns": ("%Y-%m-%d", "%H:%M"), "two numbers": ("%y%m%d", "%H%M%S")}
EPOCHS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DIALECTS = {  # each changes some of how the table is written
    **{f"time {name}": {"time": name} for name in [*TIMES, *EPOCHS, "excel", *TWO]},
    "semicolons": {"sep": ";"}, "tabs": {"sep": "\t"},
    "bars": {"sep": "|"}, "blanks": {"sep": " "},
    "decimal comma": {"decimal": ","}, "thousands": {"thousands": ","},
    "narrow blanks": {"thousands": "\u202f"}, "apostrophes": {"thousands": "\u2019"},
    "no header": {"header": ""},
    "units": {"units": True}, "comments": {"comment": True}, "preamble": {"preamble": True},
    "Latin-1": {"encoding": "latin-1"}, "bom": {"encoding": "utf-8-sig"}, "crlf": {"end": "\r\n"},
    "blank lines": {"blank": True}, "quotes": {"quote": True}, "notes": {"note": True},
    "NA": {"missing": "NA"}, "?": {"missing": "?"}, "-": {"missing": "-"},
    "-999": {"missing": "-999"}, "null": {"missing": "null"}, "percent": {"unit": "%"},
    "kW": {"unit": " kW"}, "row names": {"names": True}, "plus": {"plus": True},
    "gzip": {"pack": True}, "no last line feed": {"open": True}, "trailing": {"trailing": True},
}  # fmt: skip


def number(value, how):
    text = f"{value:,.3f}" if how.get("thousands") else repr(value)
    group = how.get("thousands", ",")
    if how.get("decimal") == ",":
        text = text.translate(str.maketrans(",.", ("." if group == "," else group) + ","))
    else:
        text = text.replace(",", group)
    return ("+" if how.get("plus") and value > 0 else "") + text + how.get("unit", "")


def stamp(time, how):
    style = how.get("time", "iso")
    seconds = int((time - datetime(1970, 1, 1)).total_seconds())
    if style in EPOCHS:
        return [str(seconds * EPOCHS[style])]
    if style == "excel":
        return [repr(round(seconds / 86_400 + 25_569, 6)).replace(".", how.get("decimal", "."))]
    if style in TWO:
        return [time.strftime(form) for form in TWO[style]]
    return [time.strftime(TIMES[style])]


def written(how):
    """The table as bytes."""
    sep, missing = how.get("sep", ","), how.get("missing", "NA" if how.get("sep") == " " else "")
    two = how.get("time") in TWO
    header = ["date", "time"] if two else ["date"]
    header += ["flow", "level"] + (["note"] if how.get("note") else [])
    rows = []
    for i in range(N):
        row = [*stamp(STAMPS[i], how), number(FLOW[i], how)]
        row.append(missing if LEVEL[i] is None else number(LEVEL[i], how))
        row += [f'said {i % 3},\n"so"'] if how.get("note") else []
        rows.append(row)
    if how.get("units"):
        rows.insert(0, ["UTC"] * (1 + two) + ["m³/h", "°C"] + ["text"] * bool(how.get("note")))
    if how.get("header", "yes"):
        rows.insert(0, header)
    if how.get("names"):
        rows = [["" if row is rows[0] and how.get("header", "yes") else str(i), *row]
                for i, row in enumerate(rows)]  # fmt: skip

    def cell(text):
        if how.get("quote") or any(sign in text for sign in (sep, '"', "\n")):
            return '"' + text.replace('"', '""') + '"'
        return text

    lines = [sep.join(map(cell, row)) + (sep if how.get("trailing") else "") for row in rows]
    if how.get("comment"):
        lines = ["# made by a logger", *lines[:20], "# restarted", *lines[20:]]
    if how.get("preamble"):
        lines = ["Station: Zürich", "Exported yesterday", "", *lines]
    if how.get("blank"):
        lines.insert(9, "")
    end = how.get("end", "\n")
    data = end.join(lines) + ("" if how.get("open") else end)
    data = data.encode(how.get("encoding", "utf-8"), "replace")
    return gzip.compress(data) if how.get("pack") else data


def fits(how):
    """Whether what is written can be told at all."""
    sep = how.get("sep", ",")
    blanks = sep == " " and (
        how.get("time", "iso") not in (*EPOCHS, "digits", "excel", "log", "zone", *TWO)
        or {"units", "preamble", "note", "quote", "trailing", "names"} & {*how}
        or how.get("unit") == " kW"
    )
    nameless = "header" in how and {
        "units", "names", "note", "trailing",
    } & {*how}  # fmt: skip
    excel = how.get("time") == "excel" and {"header", "decimal"} & {*how}  # "date" tells them
    both = "names" in how and {"trailing", "units"} & {*how}
    latin = how.get("encoding") == "latin-1" and how.get("thousands", ",") > "~"
    unit = "unit" in how and how.get("missing") == "-999"  # -999 without its unit
    return not (blanks or nameless or excel or both or unit or latin)


def read(path, columns=None, **more):
    with closing(open_source(path, columns or Columns(), **more)) as source:
        batches = [batch for batch, _ in source.read_after(None) if batch is not None]
        found = [refusals(batch) for batch in batches]
        assert not any(refused for _, refused in found), found[0][1]
        return source, joined([batch for batch, _ in found])


def check(path, how, **more):
    source, table = read(path, **more)
    names = source.columns.features
    flow, level = names[:2]
    assert table.num_rows == N, source.understood
    times = table.column(source.columns.time).cast(pa.timestamp("us")).to_pylist()
    off = [abs((a.replace(tzinfo=None) - b).total_seconds()) for a, b in
           zip(times, STAMPS, strict=True)]  # fmt: skip
    assert max(off) < (60 if how.get("time") == "excel" else 1e-9)
    assert table.column(flow).to_pylist() == FLOW
    assert [x if x is None or x == x else None for x in table.column(level).to_pylist()] == LEVEL
    assert names in (("flow", "level"), ("c2", "c3"), ("c3", "c4"))
    return source


def case(*names):
    how = {}
    for name in names:
        if {*how} & {*DIALECTS[name]}:
            return None
        how |= DIALECTS[name]
    return how if fits(how) else None


SINGLE = [(name,) for name in DIALECTS]
PAIRS = list(itertools.combinations(DIALECTS, 2))


@pytest.mark.parametrize("names", SINGLE, ids=" and ".join)
def test_each_dialect_alone(tmp_path, names):
    how = case(*names) or {**DIALECTS[names[0]], "time": "zone"}
    path = tmp_path / "rows.csv"
    path.write_bytes(written(how))
    check(path, how)
    if not how.get("pack") and not how.get("open"):
        check(path, how, follow=True, idle=0.0, batch_rows=7)


@pytest.mark.parametrize(
    "pairs",
    [pytest.param(PAIRS[::6], id="some"), pytest.param(PAIRS, marks=pytest.mark.slow, id="all")],
)
def test_dialects_in_pairs(tmp_path, pairs):
    """Of 792 files that can be told, 132 each time."""
    read_so, wrong = 0, []
    for names in pairs:
        how = case(*names)
        if how is None:
            continue
        path = tmp_path / "rows.csv"
        path.write_bytes(written(how))
        read_so += 1
        try:
            check(path, how)
        except Exception as error:  # all are gathered
            wrong.append((names, str(error)[:150]))
    assert read_so > 120
    assert not wrong, f"{len(wrong)} of {read_so}: {wrong[:40]}"


@given(st.sets(st.sampled_from(sorted(DIALECTS)), min_size=2, max_size=5), st.integers(1, 70))
@example({"time names", "tabs", "-", "Latin-1"}, 7)
@settings(max_examples=40)
def test_any_dialect_and_any_batches(tmp_path_factory, names, batch_rows):
    how = case(*sorted(names))
    if how is not None:
        path = tmp_path_factory.mktemp("dialects") / "rows.csv"
        path.write_bytes(written(how))
        check(path, how, batch_rows=batch_rows)
        if not {"pack", "open"} & {*how}:
            check(path, how, batch_rows=batch_rows, follow=True, idle=0.0)


def test_what_is_said_goes_before_what_is_found(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text("x;1,5;2\ny;2,5;-7\nz;3,5;4\n")
    reading = Reading(sep=";", decimal=",", header=False, missing=("-7",))
    _, table = read(path, Columns(reading=reading))
    assert table.to_pylist() == [
        {"c2": 1.5, "c3": 2},
        {"c2": 2.5, "c3": None},
        {"c2": 3.5, "c3": 4},
    ]


@pytest.mark.parametrize(
    ("form", "step", "kind"),
    [("%y%m%d", 1, "short"), ("%d%m%y", 1, "day"), ("%Y%m", 10, "year"), ("%Y%m%d", 1, "year")],
)
@pytest.mark.parametrize("start", [datetime(2021, 1, 5), datetime(1998, 3, 1)])
def test_days_of_six_digits(form, step, kind, start):
    days = [start + timedelta(days=step * i) for i in range(90)]
    cells = pa.array([day.strftime(form) for day in days])
    assert find_kind(cells, "date") == kind
    found = [time.strftime(form) for time in parse(cells, kind)[0].to_pylist()]
    assert found == cells.to_pylist()


def test_six_digits_that_may_be_months_or_days_are_numbers():
    assert find_kind(pa.array(["201001", "201001", "201003"]), "date") == "number"


@pytest.mark.parametrize(
    ("name", "zone"),
    [("time (UTC+2)", "@+02:00"), ("Time [CET]", "@+01:00"), ("t (CET/CEST)", "@CET"),
     ("Europe/Zurich", "@Europe/Zurich"), ("Date/Time", ""), ("time (UTC)", ""), ("t (s-1)", "")],
)  # fmt: skip
def test_a_zone_in_the_name_of_a_column(name, zone):
    cells = pa.array(["2021-03-13 10:00", "2021-03-13 11:00"])
    assert find_kind(cells, name) == f"timestamp{zone}"
    assert find_kind(cells, name, Wanted(zone="Asia/Tokyo")) == "timestamp@Asia/Tokyo"
    assert find_kind(pa.array(["2021-03-13T10:00:00Z"]), name) == "instant"
