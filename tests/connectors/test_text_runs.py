"""Texts under the command: whatever a text holds, keys, times, restarts, the report after it."""

import json
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from streamddcrp.models.text.text_stream import TextStream
from streamddcrp_connectors.cli import main

LONG = " ".join(f"w{i}" for i in range(100_000))
NO_WORDS = ("", " ", "the and of", "...", "\x00\x01\x1b", "https://t.co/x1")
WORDS = ("oil", "oil price", LONG, "oil\x00price\x07rises", "🙂 oil price")
SPACELESS = ("日本の首相が訪中した", "日本の首相が会談した", "ราคาน้ำมันขึ้น", "ราคาน้ำมันลง")
TEXTS = (*NO_WORDS, *WORDS, *SPACELESS)


@pytest.fixture
def invoke(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        return CliRunner().invoke(main, list(map(str, arguments)))

    return call


def every(result):
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def lines(result):
    """What was written for rows."""
    return [line for line in every(result) if line["row"] is not None]


def write(path, rows):
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_any_text_is_taken(invoke, tmp_path, kind):
    path = write(tmp_path / f"x.{kind}", [{"x": text} for text in TEXTS])
    out = lines(invoke("run", path, "--text", "x"))
    assert [line["row"] for line in out] == list(range(len(TEXTS)))
    labels = [line["label"] for line in out]
    assert labels[: len(NO_WORDS)] == [-1] * len(NO_WORDS)
    assert min(labels[len(NO_WORDS) :]) >= 0
    model = TextStream()
    assert labels == model.step_many(list(TEXTS))["label"].to_pylist()
    assert all(abs(line["score"]) < 1e-9 for line in out[: len(NO_WORDS)])
    assert np.isfinite([line["score"] for line in out]).all()


@pytest.mark.parametrize(
    ("given", "short", "whole"),
    [
        ((), 'decay = "1d"', 'decay = "1d"\nmodel = "text"'),
        (("--epoch", "2"), "alpha = 0.5", 'alpha = 0.5\nmodel = "temporal-dpm"'),
        (("--epoch", "2"), "epoch = 5.0", 'epoch = 2.0\nmodel = "temporal-dpm"'),
    ],
)
def test_a_file_of_options_may_leave_the_model_to_the_flags(invoke, tmp_path, given, short, whole):
    path = write(tmp_path / "x.jsonl", [{"t": i, "x": WORDS[i % 2]} for i in range(9)])
    out = []
    for options in (short, whole):
        (tmp_path / "o.toml").write_text(options)
        flags = ("--text", "x", "--time", "t", *given)
        out.append(every(invoke("run", path, "--model", "o.toml", *flags)))
    assert out[0] == out[1]


def test_an_option_of_another_model_is_refused_by_the_models_name(invoke, tmp_path):
    path = write(tmp_path / "x.jsonl", [{"x": "oil"}])
    (tmp_path / "o.toml").write_text("window = 5")
    refused = invoke("run", path, "--text", "x", "--model", "o.toml")
    assert refused.exit_code == 2
    assert "o.toml (for text): unknown option 'window'" in refused.output


@pytest.mark.parametrize("given", ["text", "features"])
def test_columns_of_the_command_go_before_those_of_its_file(invoke, tmp_path, given):
    path = write(tmp_path / "x.jsonl", [{"a": float(i), "x": WORDS[0]} for i in range(9)])
    files = {"text": 'features = ["a"]', "features": 'text = "x"'}
    (tmp_path / "job.toml").write_text(files[given])
    flags = {"text": ("--text", "x"), "features": ("--features", "a")}[given]
    both = every(invoke("run", path, *flags, "--config", "job.toml"))
    assert both == every(invoke("run", path, *flags))
    (tmp_path / "job.toml").write_text('features = ["a"]\ntext = "x"')
    refused = invoke("run", path, "--config", "job.toml")
    assert refused.exit_code == 2
    assert "exclude each other" in refused.output


def test_what_is_not_text_is_set_aside(invoke, tmp_path):
    rows = [b'{"x": "oil"}', b'{"x": null}', b'{"x": 5}', b'{"x": "\\ud800"}', b'{"y": 1}',
            b'{"x": "\xff\xfe"}', b'{"x": "oil"}']  # fmt: skip
    (tmp_path / "x.jsonl").write_bytes(b"\n".join(rows) + b"\n")
    refused = invoke("run", "x.jsonl", "--text", "x")
    assert refused.exit_code
    assert "row 2: column 'x' must be text, got 5" in refused.output
    out = lines(invoke("run", "x.jsonl", "--text", "x", "--on-error", "dead-letter=dead.jsonl"))
    assert [line["row"] for line in out] == [0, 6]
    dead = [json.loads(line) for line in (tmp_path / "dead.jsonl").read_text().splitlines()]
    assert [line["row"] for line in dead] == [1, 2, 3, 4, 5]
    assert "give '' for a text without words" in dead[0]["reason"]
    assert "UTF-8" in dead[-1]["reason"]
    (tmp_path / "x.csv").write_bytes(b'x\noil\nbad \xff\n""\n\x00\x01 oil\n')
    out = lines(invoke("run", "x.csv", "--text", "x", "--encoding", "utf-8",
                       "--on-error", "dead-letter=dead2.jsonl"))  # fmt: skip
    assert [(line["row"], line["label"] < 0) for line in out] == [(0, False), (2, True), (3, False)]
    pq.write_table(pa.table({"x": pa.array([b"oil"])}), tmp_path / "x.parquet")
    refused = invoke("run", "x.parquet", "--text", "x")
    assert refused.exit_code
    assert "must be text" in refused.output


def news(n, keys="a"):
    rng = random.Random(0)
    for i in range(n):
        about = ("oil price opec barrel", "cup final goal team")[rng.randrange(2)].split()
        words = [*rng.sample(about, 3), f"w{rng.randrange(60)}"]
        yield {"at": f"2026-03-{1 + i // 24:02d}T{i % 24:02d}:00:00", "who": rng.choice(keys),
               "x": " ".join(words)}  # fmt: skip


def test_keys_have_models_of_their_own_and_a_report_each(invoke, tmp_path):
    pytest.importorskip("matplotlib")
    rows = list(news(240, "ab"))
    path = write(tmp_path / "news.jsonl", rows)
    columns = ["--text", "x", "--time", "at", "--key", "who"]
    (tmp_path / "m.toml").write_text('model = "text"\nlag = 20\ndecay = "2d"\n')
    run = invoke("run", path, *columns, "--model", "m.toml", "--sink", "out.parquet")
    assert run.exit_code == 0, run.output
    out = pq.read_table("out.parquet").to_pylist()
    last = [line for line in out if line["row"] is None]
    out = [line for line in out if line["row"] is not None]
    for key in "ab":
        own = [row for row in rows if row["who"] == key]
        alone = TextStream(lag=20, decay="2d")
        times = np.array([row["at"] for row in own], "datetime64[us]")
        expected = alone.step_many([row["x"] for row in own], times)
        mine = [line for line in out if line["key"] == key]
        for name in ("label", "final_row", "final_label"):
            assert [line[name] for line in mine] == expected[name].to_pylist()
        ends = [(line["final_row"], line["final_label"]) for line in last if line["key"] == key]
        kept = alone.final_labels(window=True).slice(len(own) - 20).to_pylist()
        assert ends == [(line["row"], line["label"]) for line in kept]
    report = invoke("report", "out.parquet", "--source", path, *columns, "--only", "a")
    assert report.exit_code == 0, report.output
    assert "opec" in report.output


def test_a_run_that_is_cut_goes_on_where_it_was(invoke, tmp_path):
    rows = list(news(200))
    whole = lines(invoke("run", write(tmp_path / "all.jsonl", rows), "--text", "x", "--time", "at"))
    path = write(tmp_path / "part.jsonl", rows[:90])
    again = ["run", path, "--text", "x", "--time", "at", "--checkpoint", "kept", "--batch-rows", 7]
    first = lines(invoke(*again))
    write(path, rows)
    assert first + lines(invoke(*again)) == whole


def test_the_last_labels_are_written_when_a_run_ends(invoke, tmp_path):
    rows = list(news(200))
    (tmp_path / "m.toml").write_text('model = "text"\nlag = 30\n')
    options = ["--text", "x", "--model", "m.toml"]
    out = every(invoke("run", write(tmp_path / "all.jsonl", rows), *options))
    reported = {line["final_row"]: line["final_label"] for line in out}
    reported.pop(None)
    model = TextStream(lag=30)
    model.learn_many([row["x"] for row in rows])
    expected = model.final_labels(window=True)
    assert reported == dict(zip(*(expected[c].to_pylist() for c in ("row", "label")), strict=True))
    assert [line["row"] for line in out] == [*range(200), *[None] * 30]
    # of a run that goes on, they are those of its end
    whole = (tmp_path / "all.out.jsonl", tmp_path / "part.out.jsonl")
    invoke("run", tmp_path / "all.jsonl", *options, "--sink", whole[0])
    path = write(tmp_path / "part.jsonl", rows[:90])
    again = ["run", path, *options, "--checkpoint", "kept", "--sink", whole[1]]
    assert invoke(*again).exit_code == 0
    assert len(whole[1].read_text().splitlines()) == 120
    write(path, rows)
    for _ in range(2):  # the second time there is nothing new
        assert invoke(*again).exit_code == 0
        assert whole[1].read_text() == whole[0].read_text()


def test_a_decay_in_time_and_epochs(invoke, tmp_path):
    path = write(tmp_path / "news.jsonl", list(news(60)))
    (tmp_path / "m.toml").write_text('model = "text"\ndecay = "1d"\n')
    bare = write(tmp_path / "bare.jsonl", [{"x": row["x"]} for row in news(60)])
    refused = invoke("run", bare, "--text", "x", "--model", "m.toml")
    assert refused.exit_code
    assert "decay" in refused.output
    out = [
        lines(invoke("run", path, "--text", "x", *time, "--model", "m.toml"))
        for time in ((), ("--time", "at"))  # a time is found
    ]
    assert out[0] == out[1]
    assert len(out[0]) == 60
    refused = invoke("run", path, "--text", "x", "--model", "text", "--epoch", "1d")
    assert refused.exit_code
    assert "no epochs" in refused.output
    assert "temporal-dpm" in refused.output
