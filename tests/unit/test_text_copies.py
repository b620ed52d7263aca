"""Copies of texts, exact and near: one author's evidence, however often they are sent on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamddcrp import TextStream
from streamddcrp.errors import CheckpointError

THEMES = ("oil prices opec barrel market", "cup final goal team coach",
          "vote election party poll seat", "storm flood rain wind coast")  # fmt: skip


def texts(n, seed=0):
    """Three words of a theme, and two of their own."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("bdfgklmnprstvz"))
    own = [" ".join(map("".join, x)) for x in rng.choice(letters, (n, 2, 7))]
    theme = [str(x).split() for x in rng.choice(THEMES, n)]
    return [" ".join([*rng.choice(theme[i], 3, replace=False), own[i]]) for i in range(n)]


@pytest.mark.parametrize("options", [{}, {"decay": None}, {"scale": "topic"}])
def test_copies_that_follow_their_text_change_nothing_but_the_counts(options):
    """Before any text is visited again: scores, stories, weights and words are the same."""
    rows, times = texts(49, 3), 4  # after 50 of them boilerplate is looked for
    once, often = TextStream(lag=5000, **options), TextStream(lag=5000, **options)
    alone = once.step_many(rows)
    out = often.step_many(np.repeat(rows, times).tolist())
    for name in ("label", "score", "p_new"):
        expected = np.array(alone[name].to_pylist())
        assert np.allclose(np.array(out[name].to_pylist())[::times], expected, atol=1e-9)
    assert out["label"].to_pylist() == np.repeat(alone["label"].to_pylist(), times).tolist()
    a, b = once.summary().to_pylist(), often.summary().to_pylist()
    for one, many in zip(a, b, strict=True):
        assert many["rows"] == times * one["rows"]
        assert (one["copies"], many["copies"]) == (0, (times - 1) * one["rows"])
        for name in ("id", "words"):
            assert many[name] == one[name]
        assert many["weight"] == pytest.approx(one["weight"])
    born = {e.label: e for e in often.events() if e.kind == "birth"}
    assert {(e.size, e.copies) for e in born.values()} == {(3, 2)}
    assert often.boilerplate == {}


def test_a_copy_makes_its_text_as_new_as_itself():
    """Its weight is that of a text that comes now, in time as well."""
    model, new = (TextStream(decay=("time", 10.0), alpha=1.0) for _ in range(2))
    model.learn_many(["oil prices rise", "oil prices rise"], [0.0, 30.0])
    new.learn_many(["oil prices rise"], [30.0])
    assert model.summary()["weight"][0].as_py() == pytest.approx(1.0)
    assert model.score_one("oil", 31.0) == pytest.approx(new.score_one("oil", 31.0), abs=1e-6)


@settings(deadline=None, max_examples=25)
@given(
    st.lists(st.integers(0, 25), min_size=1, max_size=150), st.integers(1, 12), st.integers(0, 3)
)
def test_texts_and_their_copies_have_one_label(order, lag, seed):
    """Through visits, merges and splits, restored at any place; each text is counted once."""
    known = texts(26, seed)
    rows = [known[i] for i in order]
    model, twin = TextStream(lag=lag, decay=20.0, scale="story"), None
    for a in range(0, len(rows), 17):
        model.learn_many(rows[a : a + 17])
        twin = TextStream.from_bytes(model.to_bytes())
        assert twin.to_bytes() == model.to_bytes()
        labels = twin.open_labels()["label"].to_pylist()
        mine = list(zip(rows[: a + 17][-len(labels) :], labels, strict=True))
        assert len(set(mine)) == len({text for text, _ in mine})
        table = twin.summary()
        live = set(table["id"].to_pylist())
        assert all(label in live for label in labels)
        assert sum(table["rows"].to_pylist()) <= twin.n_seen
        assert (table["copies"].to_numpy() < table["rows"].to_numpy()).all()
        assert model.predict_one(rows[min(a + 16, len(rows) - 1)]) == labels[-1]
    final = model.final_labels(window=True)
    assert final["row"].to_pylist() == list(range(len(rows)))


def sent_on(rows, seed, change):
    """A fifth of the texts sent on five times, each time changed; and which text each one is."""
    rng, n = np.random.default_rng(seed), len(rows)
    sent = np.repeat(np.flatnonzero(rng.random(n) < 0.2), 5)
    at = np.concatenate([np.arange(float(n)), sent + rng.exponential(50.0, len(sent))])
    order = np.argsort(at, kind="stable")
    every = rows + [change(rng, rows[i]) for i in sent.tolist()]
    return [every[i] for i in order], np.concatenate([np.arange(n), sent])[order]


def changed(rng, text):
    """A text sent on: with a name before and a link behind, and another word in it."""
    words, made = text.split(), "".join(rng.choice(list("aeiou"), 9))
    words[rng.integers(len(words))] = made
    return f"RT @{made}: {' '.join(words)} https://t.co/{made}"


@pytest.mark.parametrize("change", [lambda rng, text: text, changed])
def test_copies_leave_the_stories_of_the_others_as_they_are(change):
    """Exact ones and near ones: the stories of the rest stay what they were."""
    more = [" ".join(text.split()[3:]) for text in texts(1200, 1)]
    rows = [f"{text} {own}" for text, own in zip(texts(1200), more, strict=True)]
    every, which = sent_on(rows, 0, change)
    once, often = TextStream(lag=200), TextStream(lag=200)
    once.learn_many(rows)
    often.learn_many(every)
    alone = once.final_labels(window=True)["label"].to_numpy()
    labels = often.final_labels(window=True)["label"].to_numpy()
    assert len(set(alone)) == 4
    assert len(set(labels)) == len(set(zip(alone[which].tolist(), labels.tolist(), strict=True)))
    assert len(set(labels)) == 4
    table = often.summary()
    assert sum(table["copies"].to_pylist()) > 0.95 * (len(every) - len(rows))


def test_short_texts_of_common_words_are_no_copies():
    rng = np.random.default_rng(0)
    places = ["".join(x) for x in rng.choice(list("bdfgklmnprstvz"), (400, 6))]
    model = TextStream()
    model.learn_many([f"weather {place} today" for place in places])
    assert sum(model.summary()["copies"].to_pylist()) == 0


@pytest.mark.parametrize("name", ["newer", "newest", "older", "copies"])
def test_altered_copies_are_refused_or_harmless(name):
    model = TextStream(lag=5, scale="story")
    model.learn_many(texts(12) * 2)
    for value in (-1, 0, 3, 20, 23, 10**6, 2**52):
        arrays, meta = model._state()
        array = arrays[f"window.{name}"]
        array[:] = min(value, np.iinfo(array.dtype).max)
        try:
            other = TextStream._from_state(arrays, meta)
        except CheckpointError:
            continue
        other.learn_many(texts(40))
        assert other.final_labels(window=True).num_rows == 64
