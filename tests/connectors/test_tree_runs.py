"""Trees under the command: rows, events, keys, a run in two parts."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from streamddcrp import NestedCRPTopics
from streamddcrp_connectors.cli import main

THEMES = ("oil prices opec barrel crude", "cup final goal team match", "vote election party poll")


@pytest.fixture
def texts():
    rng = np.random.default_rng(0)
    picks = (rng.choice(THEMES[k].split(), 12) for k in rng.integers(0, 3, 120).tolist())
    return [" ".join(words) for words in picks]


@pytest.fixture
def invoke(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        done = CliRunner().invoke(main, ["run", *map(str, arguments)])
        assert done.exit_code == 0, done.output
        return done

    return call


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_topics(invoke, texts, tmp_path):
    write(tmp_path / "x.jsonl", [{"x": text, "at": i / 7} for i, text in enumerate(texts)])
    options = ("x.jsonl", "--text", "x", "--time", "at", "--model", "nested-topics")
    done = invoke(*options, "--sink", "out.jsonl", "--events", "events.jsonl", "--progress")
    assert "120" in done.stderr
    model = NestedCRPTopics()
    expected = model.step_many(texts)
    rows = lines_of(tmp_path / "out.jsonl")
    for name in ("label", "n_tables"):
        assert [row[name] for row in rows] == expected[name].to_pylist()
    events = [
        (e["index"], e["kind"], e["label"], e["into"]) for e in lines_of(tmp_path / "events.jsonl")
    ]
    assert events == [(e.index, e.kind, e.label, e.into) for e in model.events()]
    assert {0} < {index for index, *_ in events} <= set(range(120))


def test_topics_of_keys(invoke, texts, tmp_path):
    write(tmp_path / "x.jsonl", [{"x": text, "k": "ab"[i % 2]} for i, text in enumerate(texts)])
    options = ("x.jsonl", "--text", "x", "--key", "k", "--model", "nested-topics")
    invoke(*options, "--sink", "out.jsonl", "--progress")
    rows = [row for row in lines_of(tmp_path / "out.jsonl") if row["key"] == "b"]
    expected = NestedCRPTopics().step_many(texts[1::2])
    assert [row["label"] for row in rows] == expected["label"].to_pylist()


def test_components_in_two_parts(invoke, tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3, 8))[rng.integers(0, 3, 400)] + rng.normal(0.0, 0.1, (400, 8))
    names = [f"x{d}" for d in range(8)]
    lines = [json.dumps(dict(zip(names, x, strict=True))) + "\n" for x in X.tolist()]
    options = ("--model", "nested-components", "--events")
    (tmp_path / "x.jsonl").write_text("".join(lines))
    whole = ("--sink", "whole.jsonl", "--batch-rows", 100, "--checkpoint", "once")
    invoke("x.jsonl", *options, "e1.jsonl", *whole)
    (tmp_path / "x.jsonl").write_text("".join(lines[:200]))
    parts = ("--sink", "parts.jsonl", "--batch-rows", 100, "--checkpoint", "kept")
    invoke("x.jsonl", *options, "e2.jsonl", *parts)
    (tmp_path / "x.jsonl").write_text("".join(lines))
    invoke("x.jsonl", *options, "e2.jsonl", *parts)
    for one, other in (("whole", "parts"), ("e1", "e2")):
        content = (tmp_path / f"{one}.jsonl").read_bytes()
        assert content
        assert content == (tmp_path / f"{other}.jsonl").read_bytes()
