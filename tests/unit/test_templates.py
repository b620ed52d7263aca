"""Templates of machine messages."""

import numpy as np
import pytest

from streamddcrp import TextStream
from streamddcrp.data.templates import Templates
from streamddcrp.data.texts import read_texts
from streamddcrp.errors import CheckpointError


def numbers(templates, lines, **options):
    found = templates.numbered(read_texts(lines), **options)
    ends = zip(found.offsets[:-1].tolist(), found.offsets[1:].tolist(), strict=True)
    return [found.data[a:z].tobytes().split(b"a")[0].decode() for a, z in ends]


def test_tokens_with_digits_are_variable_and_others_are_not():
    templates = Templates()
    lines = ["job 1 opened", "job 22 closed", "job x3 opened", "job 4 closed now", "", "= ,"]
    assert numbers(templates, lines) == ["#0", "#1", "#0", "#2", "", ""]
    assert templates.spelled("#0a #0b") == "job <*> opened"
    assert templates.spelled("#1a") == "job <*> closed"
    assert templates.line("#1a #1c") == "job 22 closed"
    assert numbers(templates, ["job 5 opened", "what is this"], learn=False) == ["#0", "#-1"]
    assert numbers(templates, ["next 1"]) == ["#3"]


def test_a_place_of_many_values_is_variable():
    templates = Templates()
    users = ["ann", "bob", "cid", "dan", "eve", "ann", "bob"]
    assert numbers(templates, [f"login of user {user}" for user in users]) == [
        "#0", "#1", "#2", "#0", "#0", "#0", "#0",
    ]  # fmt: skip
    assert templates.spelled("#0a") == "login of user <*>"


def test_many_templates_are_kept_and_the_oldest_forgotten(monkeypatch):
    monkeypatch.setattr("streamddcrp.data.templates._MOST", 256)
    templates = Templates()
    names = [a + b for a in "bcdfghjklmnpqrstvwxz" for b in "aeiouy"]
    lines = [f"{a}{b} happened" for a in names for b in names[:4]]
    assert numbers(templates, lines) == [f"#{i}" for i in range(len(lines))]
    again = numbers(templates, lines[-100:])
    assert again == [f"#{i}" for i in range(len(lines) - 100, len(lines))]
    assert numbers(templates, lines[:1]) == [f"#{len(lines)}"]
    copy = Templates.restore(templates.state())
    assert numbers(copy, lines[-50:], learn=False) == again[-50:]


def test_a_state_that_no_stream_leaves_is_refused():
    templates = Templates()
    numbers(templates, ["one two", "three four"])
    for name, value in (("number", 0), ("shown_length", 300), ("length", -1)):
        state = templates.state()
        state[f"templates.{name}"][:] = value
        with pytest.raises(CheckpointError):
            Templates.restore(state)


def test_two_messages_are_two_stories():
    """Three words of four, or one of three, are shared: one story, but two templates."""
    rng = np.random.default_rng(0)
    said = ["heartbeat ok from node", "temperature alarm on node"]
    lines = [said[i] for i in rng.integers(0, 2, 600)]
    model = TextStream(scale="template", lag=50)
    for a in range(0, 600, 100):
        model.learn_many(lines[a : a + 100])
        model = TextStream.from_bytes(model.to_bytes())
    labels = model.final_labels(window=True)["label"].to_pylist()
    assert len(set(zip(lines, labels, strict=True))) == 2
    assert set(model.summary()["words"].to_pylist()) == set(said)
    assert {event.words for event in model.events()} == set(said)
    assert model.trajectories()["words"].to_pylist()[0] in said
    assert model.predict_one(said[0]) == labels[lines.index(said[0])]
    assert [part.name for part in model.explain_one(said[1]).parts] == [said[1]]
    assert model.score_one("disk failed") > model.score_one(said[0]) + 3.0
