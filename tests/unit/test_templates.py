"""Templates of machine messages."""

import numpy as np
import pytest

from streamddcrp import TextStream
from streamddcrp.data.templates import Templates, spelled_out
from streamddcrp.data.texts import read_texts
from streamddcrp.errors import CheckpointError


def numbers(templates, lines, **options):
    found = spelled_out(templates.numbers(read_texts(lines), **options))
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
    covered = Templates.restore(templates.state()).numbers(read_texts(["login of user fay"]))
    assert covered.tolist() == [[0, 2, 1]]


def test_true_and_false_are_values():
    templates = Templates()
    assert numbers(templates, ["lid open: true", "lid open: false"]) == ["#0", "#0"]
    assert templates.spelled("#0a") == "lid open: <*>"


def test_lines_of_a_template_that_was_known_late_are_one_story():
    names = ["ann", "bob", "cid", "dan", "eve", "fay"]
    lines = [f"login of user {names[i % 6]}" for i in range(300)]
    model = TextStream(scale="template")
    model.learn_many([line for one in lines for line in (one, "disk is full")])
    labels = model.final_labels(window=True)["label"].to_pylist()
    assert len(set(labels[::2])) == len(set(labels[1::2])) == 1
    assert sorted(model.summary()["words"].to_pylist()) == ["disk is full", "login of user <*>"]


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


def lines_of(n, seed=0):
    """Messages of a machine, and which of five kinds each is."""
    rng = np.random.default_rng(seed)
    kinds = ("connection from 10.0.0.{} closed", "connection from 10.0.0.{} opened",
             "disk sd{} is full", "disk sd{} is mounted", "job {} has ended")  # fmt: skip
    y = rng.integers(0, 5, n)
    return [kinds[k].format(rng.integers(200)) for k in y], y


def headlines(n, seed=1):
    """Texts of six words, four of ten of one of eight stories, in any order."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("bdfgklmnprstvz"))
    words = ["".join(x) for x in rng.choice(letters, (80 + n, 6))]
    rows = []
    for i in range(n):
        own = rng.choice(10, 4, replace=False) + 10 * rng.integers(8)
        rows.append(" ".join(rng.permutation([*(words[w] for w in own), words[80 + i], "the"])))
    return rows


def test_two_messages_are_two_stories_by_default():
    rng = np.random.default_rng(0)
    said = np.array(["heartbeat ok from node", "temperature alarm on node"])
    for lines in (said, np.array([f"{x} {k}" for x in said for k in range(6)])):
        row = rng.integers(0, len(lines), 600)
        model = TextStream()
        model.learn_many(lines[row].tolist())
        labels = model.final_labels(window=True)["label"].to_pylist()
        kind = (row >= len(lines) // 2).tolist()
        assert len(set(zip(kind, labels, strict=True))) == len(set(labels)) == 2
        ended = {e.label for e in model.events() if e.kind in ("merge", "closed")}
        assert ended.isdisjoint(labels)


@pytest.mark.parametrize("lag", [500, 20])
def test_lines_are_found_and_cutting_and_restoring_change_nothing(lag):
    lines, y = lines_of(300)
    model, twin = TextStream(lag=lag), TextStream(lag=lag)
    model.learn_many(lines)
    for row, line in enumerate(lines):
        twin.learn_one(line)
        if row % 23 == 0 or row in (15, 16, 31, 32):
            twin = TextStream.from_bytes(twin.to_bytes())
    assert model.to_bytes() == twin.to_bytes()
    labels = model.final_labels(window=True)["label"].to_numpy()
    late = slice(32 if lag < 32 else 0, None)
    assert len(set(zip(y[late].tolist(), labels[late].tolist(), strict=True))) == 5
    names = {row["words"] for row in model.summary().to_pylist() if row["rows"] > 20}
    assert "connection from <*> closed" in names
    assert model.predict_one("disk sd999 is full") == labels[np.flatnonzero(y == 2)[-1]]


def test_headlines_are_no_lines_even_if_each_comes_five_times():
    rows = headlines(1100)
    rng = np.random.default_rng(2)
    five = np.argsort(np.repeat(np.arange(220.0), 5) + rng.exponential(10.0, 1100)) // 5
    for texts in (rows, [rows[i] for i in five]):
        model, plain = TextStream(), TextStream(scale="story")
        model.learn_many(texts)
        plain.learn_many(texts)
        assert model.final_labels(window=True).equals(plain.final_labels(window=True))
        assert TextStream.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
        assert model.nbytes == plain.nbytes


def test_words_count_again_where_templates_turn_out_too_many(caplog):
    caplog.set_level("INFO")
    model = TextStream()
    model.learn_many(lines_of(1024)[0])
    lists = TextStream.from_bytes(model.to_bytes())
    model.learn_many(headlines(2000))
    assert "words count again" in caplog.text
    assert model.predict_one(headlines(2000)[-1]) == model.open_labels()["label"][-1].as_py()
    assert TextStream.from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
    lists.learn_many([["oil", "prices"], ["oil", "price"]])
    assert "oil" in lists.summary()["words"].to_pylist()[-1]


@pytest.mark.parametrize(("name", "value"), [("form", -3), ("score", np.nan)])
def test_altered_lines_are_refused(name, value):
    model = TextStream()
    model.learn_many(lines_of(10)[0])
    arrays, meta = model._state()
    arrays[f"lines.{name}"][3] = value
    with pytest.raises(CheckpointError):
        TextStream._from_state(arrays, meta)
    for part in ({"found": 1, "known": 5}, {"found": True, "known": 5}, {"found": False}):
        with pytest.raises((CheckpointError, KeyError)):
            TextStream._from_state(model._state()[0], meta | {"lines": part})
