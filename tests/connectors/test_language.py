"""How strongly words of a stream repeat, on the command line."""

import json

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from streamddcrp import LinkLanguageModel
from streamddcrp.data import tokenize
from streamddcrp.errors import SchemaError
from streamddcrp_connectors.cli import main
from streamddcrp_connectors.run.language import Language

TEXTS = ["The pump stopped.", "", "the pump started again", "a valve is stuck; the pump stopped"]


def rows(texts):
    return pa.record_batch({"x": pa.array(texts, pa.string())})


def test_rows_are_means_of_their_words():
    model, words = Language(base_measure=100), LinkLanguageModel(base_measure=100)
    out = model.step_many(rows([*TEXTS, None])).to_pylist()
    for text, row in zip(TEXTS, out, strict=False):
        one = words.step_many(tokenize(text))
        assert row["words"] == len(one)
        if len(one):
            for name in ("score", "p_new"):
                assert row[name] == pytest.approx(np.mean(one[name]), rel=1e-12)
            assert row["n_tables"] == pytest.approx(one["n_tables"][-1].as_py(), rel=1e-12)
    assert out[1]["score"] is out[1]["p_new"] is out[4]["score"] is None
    found = model.summary().to_pylist()[0]
    assert (found["words"], found["log_evidence"]) == (14, words.log_evidence)
    assert model.n_tables == round(words.n_tables.mean)
    assert model.step_many(rows(["", None])).column("score").null_count == 2
    other = Language.from_bytes(model.to_bytes())
    assert other.step_many(rows(TEXTS)).equals(model.step_many(rows(TEXTS)))


def test_a_refused_row_is_named_and_changes_nothing():
    model = Language(base_measure=4)
    state = model.to_bytes()
    with pytest.raises(SchemaError, match="vocabulary of 4") as refused:
        model.step_many(rows(["one two", "", "three", "three four five"]))
    assert refused.value.row == 3
    assert model.to_bytes() == state
    with pytest.raises(SchemaError, match="--text"):
        model.step_many(pa.record_batch({"x": [0.5]}))


def test_a_run_in_two_parts(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    texts, found = TEXTS * 30, {}
    lines = [json.dumps({"x": text, "k": "ab"[i % 2]}) + "\n" for i, text in enumerate(texts)]
    options = ["--text", "x", "--key", "k", "--model", "language", "--batch-rows", "20"]
    for name, ends in (("whole", [120]), ("parts", [60, 120])):
        for end in ends:
            (tmp_path / "x.jsonl").write_text("".join(lines[:end]))
            more = ["--sink", f"{name}.jsonl", "--checkpoint", name]
            done = CliRunner().invoke(main, ["run", "x.jsonl", *options, *more])
            assert done.exit_code == 0, done.output
        kept = (tmp_path / f"{name}.jsonl").read_text().splitlines()
        found[name] = [json.loads(line) for line in kept]
    assert found["parts"] == found["whole"]
    expected = Language().step_many(rows(texts[1::2]))
    scores = [row["score"] for row in found["whole"] if row["key"] == "b"]
    assert scores == expected["score"].to_pylist()
