"""The temporal mixture under the command: epochs, texts, late rows, restarts."""

import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from streamddcrp_connectors.cli import main


@pytest.fixture
def invoke(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        return CliRunner().invoke(main, ["run", *map(str, arguments)])

    return call


@pytest.fixture
def numbers(tmp_path):
    lines = [
        f"2026-01-{1 + i // 10:02d}T{i % 10:02d}:00:00,{9 * (i % 2)}.{i % 7}" for i in range(120)
    ]
    path = tmp_path / "rows.csv"
    path.write_text("when,x\n" + "\n".join(lines) + "\n")
    return path


def texts(folder, kind):
    rng = random.Random(0)
    stories = [[f"{name}{w}" for w in range(30)] for name in ("oil", "cup")]
    rows = [
        {"day": i // 25, "said": " ".join(rng.choices(stories[i % 2], k=12)) if i % 11 else ""}
        for i in range(150)
    ]
    path = folder / f"texts.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        path.write_text("day,said\n" + "".join(f"{r['day']},{r['said']}\n" for r in rows))
    return path


def lines(result):
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_epochs_are_cut_by_the_clock_whatever_the_batches(invoke, numbers):
    arguments = [numbers, "--time", "when", "--model", "temporal-dpm", "--epoch", "1d"]
    out = lines(invoke(*arguments))
    assert [line["row"] for line in out] == list(range(120))
    assert len({line["label"] for line in out[50:]}) == 2
    assert lines(invoke(*arguments, "--batch-rows", 7)) == out


def test_a_checkpoint_goes_on_within_an_epoch(invoke, numbers, tmp_path):
    arguments = ["--time", "when", "--model", "temporal-dpm", "--epoch", "1d", "--batch-rows", 8]
    whole = lines(invoke(numbers, *arguments))
    all_lines = numbers.read_text().splitlines(keepends=True)
    more = [*arguments, "--sink", "out.jsonl", "--checkpoint", "ck"]
    for n in (70, len(all_lines)):
        numbers.write_text("".join(all_lines[:n]))
        assert invoke(numbers, *more).exit_code == 0
    written = (tmp_path / "out.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in written] == whole


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_texts(invoke, tmp_path, kind):
    path = texts(tmp_path, kind)
    out = lines(invoke(path, "--time", "day", "--text", "said", "--model", "temporal-dpm"))
    assert len(out) == 150
    assert out[-1]["label"] != out[-2]["label"]
    assert all(line["score"] is not None for line in out)
    (tmp_path / "csv").mkdir()
    same = texts(tmp_path / "csv", "csv")
    assert lines(invoke(same, "--time", "day", "--text", "said", "--model", "temporal-dpm")) == out


def test_late_rows_are_set_aside(invoke, numbers, tmp_path):
    rows = numbers.read_text().splitlines(keepends=True)
    rows.insert(61, "2026-01-02T00:00:00,1.0\n")
    numbers.write_text("".join(rows))
    arguments = [numbers, "--time", "when", "--model", "temporal-dpm", "--epoch", "1d"]
    stopped = invoke(*arguments, "--on-error", "stop")
    assert stopped.exit_code == 2
    assert "is late" in stopped.stderr
    out = lines(invoke(*arguments, "--on-error", "dead-letter=late.jsonl"))
    assert len(out) == 120
    (dead,) = (tmp_path / "late.jsonl").read_text().splitlines()
    assert json.loads(dead)["row"] == 60


def test_epochs_by_count_need_no_times(invoke, numbers, tmp_path):
    arguments = [numbers, "--features", "x", "--model", "temporal-dpm"]
    refused = invoke(*arguments)
    assert refused.exit_code == 2
    assert "--time" in refused.stderr
    out = lines(invoke(*arguments, "--epoch", "10 rows"))
    (tmp_path / "model.toml").write_text('model = "temporal-dpm"\nepoch = ["rows", 10]\nlag = 3\n')
    assert lines(invoke(numbers, "--features", "x", "--model", "model.toml")) == out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "seqddcrp", "--epoch", "1d"], "has no epochs"),
        (["--model", "temporal-dpm", "--epoch", "soon"], "epoch must be"),
        (["--model", "temporal-dpm", "--text", "x", "--features", "x"], "exclude"),
        (["--model", "temporal-dpm", "--text", "y"], "no column 'y'"),
    ],
)
def test_wrong_options_are_named(invoke, numbers, arguments, words):
    result = invoke(numbers, "--time", "when", *arguments)
    assert result.exit_code == 2
    assert words in result.stderr


def test_epochs_ask_for_the_model_that_has_them(invoke, numbers):
    arguments = [numbers, "--time", "when", "--epoch", "1 day"]
    assert lines(invoke(*arguments)) == lines(invoke(*arguments, "--model", "temporal-dpm"))


def test_a_column_of_texts_alone_is_taken_without_being_named(invoke, tmp_path):
    arguments = [texts(tmp_path, "parquet"), "--time", "day", "--epoch", 1]
    assert lines(invoke(*arguments)) == lines(invoke(*arguments, "--text", "said"))
