"""What happened to tables, as a file of its own: written by run, told by the report."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.models.text.text_stream import TextStream
from streamddcrp_connectors.cli import main
from streamddcrp_connectors.report.report import make_report

THEMES = ("oil prices opec barrel", "cup final goal team", "vote election party poll")
START = datetime(2024, 1, 1, tzinfo=UTC)
N = 1500


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    rng = np.random.default_rng(0)
    rows = [
        {"at": (START + timedelta(minutes=i)).isoformat(), "k": "ab"[i % 2],
         "x": " ".join([*rng.permutation(THEMES[i // 500].split()), f"w{i % 30}"])}
        for i in range(N)
    ]  # fmt: skip
    path = tmp_path_factory.mktemp("events") / "news.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def run(*arguments):
    return CliRunner().invoke(main, ["run", *map(str, arguments), "--overwrite"])


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def expected(path):
    rows = lines_of(path)
    model = TextStream()
    model.learn_many(
        [row["x"] for row in rows], [datetime.fromisoformat(row["at"]) for row in rows]
    )
    return [(e.index, e.t, e.kind, e.label, e.into, 86_400.0 * e.rate) for e in model.events()]


def test_events_are_those_of_the_model_whatever_the_batches(source, tmp_path):
    options = (source, "--text", "x", "--time", "at")
    found = []
    for size in (64, 1000):
        path = tmp_path / f"{size}.jsonl"
        done = run(*options, "--sink", tmp_path / f"out-{size}.jsonl", "--events", path,
                   "--batch-rows", size)  # fmt: skip
        assert done.exit_code == 0, done.output
        found.append(lines_of(path))
    assert found[0] == found[1]
    names = [list(line) for line in found[0]]
    of_stories = ["size", "copies", "rate", "first", "last", "words", "example"]
    of_all = ["index", "time", "kind", "label", "into"]
    assert all(name == [*of_all, *of_stories] for name in names)
    at = [datetime.fromisoformat(line["time"]).timestamp() for line in found[0]]
    lines = zip(found[0], at, strict=True)
    events = [(e["index"], t, e["kind"], e["label"], e["into"], e["rate"]) for e, t in lines]
    assert events == expected(source)
    kinds = Counter(kind for _, _, kind, *_ in events)
    assert kinds["birth"] >= 3  # the third has no final label yet
    assert kinds["candidate"] >= 3
    assert at == sorted(at)
    for line in found[0]:
        theme = next(theme for theme in THEMES if theme.split()[0] in line["words"].split())
        assert set(theme.split()) <= set(line["example"].split())
        assert line["first"] <= line["last"] <= line["index"]
        assert line["size"] >= (3 if line["kind"] == "birth" else 1)
        assert line["rate"] > 0.0


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_events_of_keys_as_tables(source, tmp_path, ending):
    path = tmp_path / f"events.{ending}"
    done = run(source, "--text", "x", "--key", "k", "--sink", tmp_path / f"out-{ending}.jsonl",
               "--events", path)  # fmt: skip
    assert done.exit_code == 0, done.output
    if ending == "parquet":
        table = pq.read_table(path)
    else:
        with pa.ipc.open_file(path) as reader:
            table = reader.read_all()
    assert table.column_names[:5] == ["index", "time", "key", "kind", "label"]
    assert set(table["key"].to_pylist()) == {"a", "b"}
    assert max(table["index"].to_pylist()) < N // 2


def test_no_event_at_all_leaves_a_file(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"x": "oil"}\n')
    for ending in ("parquet", "jsonl"):
        done = run(tmp_path / "x.jsonl", "--text", "x", "--sink", tmp_path / f"out-{ending}.jsonl",
                   "--events", tmp_path / f"events.{ending}")  # fmt: skip
        assert done.exit_code == 0, done.output
    assert pq.read_table(tmp_path / "events.parquet").num_rows == 0
    assert (tmp_path / "events.jsonl").read_bytes() == b""


def test_what_does_not_fit_is_refused(source, tmp_path):
    done = run(source, "--text", "x", "--events", "-")
    assert done.exit_code == 2
    assert "must be a file" in done.stderr
    out = tmp_path / "out.jsonl"
    done = run(source, "--text", "x", "--sink", out, "--events", out)
    assert done.exit_code == 2
    assert "both the" in done.stderr


@pytest.fixture
def results(tmp_path):
    """Three themes, of which the second became part of the first, and the third came back."""
    texts = [f"{THEMES[i // 20]} w{i % 7}" for i in range(60)]
    texts += [f"{THEMES[1]} again w{i}" for i in range(20)]
    label = np.repeat([0, 1, 2, 3], 20)
    pq.write_table(pa.table({"t": texts}), tmp_path / "news.parquet")
    table = pa.table({"row": np.arange(80), "label": label, "score": np.full(80, 9.0)})
    pq.write_table(table, tmp_path / "out.parquet")
    events = [
        {"index": 0, "kind": "candidate", "label": 0, "into": None},
        {"index": 0, "kind": "birth", "label": 0, "into": None},
        {"index": 20, "kind": "birth", "label": 1, "into": None},
        {"index": 50, "kind": "merge", "label": 1, "into": 0},
        {"index": 60, "kind": "return", "label": 3, "into": 2},
    ]
    return tmp_path, events


def page(folder, events):
    path = folder / "events.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    _, paths = make_report(folder / "out.parquet", folder / "news.parquet", text="t", events=path)
    return paths[3].read_text()


def test_the_page_tells_of_merges_and_returns(results):
    pytest.importorskip("matplotlib")
    folder, events = results
    text = page(folder, events)
    assert "80 texts, row 0 to row 79: 3 stories" in text
    happened = text.split("What happened</h2>")[1].split("Surprising texts</h2>")[0]
    lines = [line for line in happened.splitlines() if "<tr><td" in line]
    joins = next(line for line in lines if ">joins<" in line)
    assert ">row 50<" in joins
    assert "candidate" not in text
    assert joins.index("goal") < joins.index("(now") < joins.index("opec")
    returns = next(line for line in lines if ">returns<" in line)
    assert ">row 60<" in returns
    assert returns.index("again") < returns.index("(was") < returns.index("vote")
    without = page(folder, [])
    assert "4 stories" in without
    assert ">joins<" not in without


def test_events_of_other_results_are_refused(results):
    pytest.importorskip("matplotlib")
    folder, events = results
    with pytest.raises(SchemaError, match="row 5 is not an event"):
        page(folder, [*events, {"index": 80, "kind": "death", "label": 0, "into": None}])
    with pytest.raises(SchemaError, match="is not an event"):
        page(folder, [{"index": 1, "kind": "wedding", "label": 0, "into": None}])
    with pytest.raises(ConfigError, match="no column 'into'"):
        page(folder, [{"index": 1, "kind": "death", "label": 0}])
    with pytest.raises(ConfigError, match="cannot read the events"):
        make_report(folder / "out.parquet", folder / "news.parquet", text="t", events=folder / "no")
    with pytest.raises(ConfigError, match="--events belongs"):
        make_report(folder / "out.parquet", folder / "news.parquet", events=folder / "no")
