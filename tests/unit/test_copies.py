"""Copies of documents, against the equation written out for all pairs of texts."""

import math

import numpy as np
import pytest

from streamddcrp import NestedCRPTopics
from streamddcrp.data.copies import CopyIndex
from streamddcrp.data.documents import Vocabulary, encode
from streamddcrp.data.kernels.copies import PEEK


def sent_on(n, seed=0, share=0.4):
    """Documents of five subjects, some of them copies with a word changed; and their originals."""
    rng, documents, first = np.random.default_rng(seed), [], []
    for i in range(n):
        if i > 9 and rng.random() < share:
            first.append(first[int(rng.integers(max(0, i - 60), i))])
            words = documents[first[-1]].split()
            if rng.random() < 0.5:
                words[int(rng.integers(len(words)))] = f"new{i}"
        else:
            first.append(i)
            subject = rng.integers(5)
            words = [f"s{subject}w{w}" for w in rng.integers(0, 40, 9)]
            words += [*(f"c{w}" for w in rng.integers(0, 30, 4)), f"u{i}"]
        documents.append(" ".join(words))
    return documents, np.array(first)


def bags(documents):
    counted = [[(word, float(text.count(word))) for word in dict.fromkeys(text)]
               for text in map(str.split, documents)]  # fmt: skip
    return encode(Vocabulary(), counted, learn=True), [dict(text) for text in counted]


def slow(new, other, known):
    """The odds (5) of a copy, less for words that come with the others anyway."""
    both = set(new) & set(other)
    shared = sum(min(new[w], other[w]) for w in both)
    changed = sum(new.values()) + sum(other.values()) - 2.0 * shared
    if 2.0 * changed > shared:
        return -math.inf
    odds = math.log(0.1 / len(known)) + shared * math.log(0.9) + changed * math.log(0.1)
    rest = [text for text in known if text is not other]
    for w in both:
        given = []
        for v in both - {w}:
            with_v = [text for text in rest if v in text]
            given.append(sum(w in text for text in with_v) / (len(with_v) + 1))
        part = max(sum(w in text for text in known) / len(known), np.mean(given))
        odds -= math.log(part)
    return odds


@pytest.mark.parametrize("reach", [25, 1 << 40])
def test_found_copies_have_the_largest_odds_above_zero(reach):
    documents, first = sent_on(160)
    rows, texts = bags(documents)
    source, surprise = CopyIndex(exact=False, reach=reach).find(rows)
    alive, missed = [], 0
    for i, text in enumerate(texts):
        known = [texts[j] for j in alive if j > i - reach]
        odds = [slow(text, other, known) for other in known]
        best = max(odds, default=-math.inf)
        if source[i] >= 0:
            assert slow(text, texts[source[i]], known) == pytest.approx(best)
            assert best > 0.0
            alone = [w for w in text if w not in texts[source[i]]]
            held = [max(sum(w in other for other in known), 1) for w in alone]
            changed = sum(abs(text.get(w, 0.0) - texts[source[i]].get(w, 0.0))
                          for w in {*text, *texts[source[i]]})  # fmt: skip
            said = math.log(len(known) / 0.1) + changed * math.log(10.0)
            said += sum(math.log(len(known) / n) for n in held)
            assert surprise[i] == pytest.approx(said)
        else:
            missed += best > 0.0
            alive.append(i)
    assert missed <= 5
    assert (source >= 0).sum() > 25
    assert (first[source[source >= 0]] == first[source >= 0]).all()


def test_cuts_and_looking_change_nothing():
    rows, _ = bags(sent_on(200, 1)[0])
    whole, parts = CopyIndex(exact=True, reach=50), CopyIndex(exact=True, reach=50)
    source, surprise = whole.find(rows)
    for i in range(200):
        at = slice(rows.offsets[i], rows.offsets[i + 1])
        one = rows._replace(
            offsets=rows.offsets[i : i + 2] - rows.offsets[i], words=rows.words[at],
            counts=rows.counts[at],
        )  # fmt: skip
        for mode in (PEEK, 1):
            found = parts.find(one, mode)
            assert (found[0][0], found[1][0]) == (source[i], surprise[i])


def test_documents_that_differ_in_how_often_words_come_are_no_copies():
    rng = np.random.default_rng(0)
    law = np.repeat(np.eye(4), 6, axis=1) / 6.0  # each subject has six words, which all come
    counts = np.array([rng.multinomial(40, law[i % 4]) for i in range(400)])
    model = NestedCRPTopics()
    model.learn_many(counts)
    assert sum(model.summary()["copies"].to_pylist()) == 0


def test_copies_in_a_tree_count_once_and_go_where_their_original_is():
    documents, first = sent_on(500)
    new = first == np.arange(500)
    often, once = NestedCRPTopics(window=1000), NestedCRPTopics(window=1000)
    out = often.step_many(documents)
    once.learn_many([documents[i] for i in np.flatnonzero(new)])
    found = often._tree.window.docs.source[:500] > 0
    assert (out["p_new"].to_numpy()[found] == 0.0).all()
    assert found[new].sum() == 0
    assert found.sum() > 0.85 * (~new).sum()
    paths, summary = often.window_paths(), often.summary().to_pydict()
    assert (paths[found] == paths[first[found]]).all()
    assert summary["copies"][0] == found.sum()
    assert summary["weight"][0] == pytest.approx(500 - found.sum())
    below = [i for i, parent in enumerate(summary["parent"]) if parent == 0]
    assert sum(summary["copies"][i] for i in below) == found.sum()
    assert often.n_seen == 500
    assert once.summary()["copies"][0].as_py() == 0


def test_copies_in_a_tree_survive_restarts_forgotten_words_and_a_small_window():
    documents, _ = sent_on(700, 2)
    whole, model = NestedCRPTopics(window=40), NestedCRPTopics(window=40)
    expected = whole.step_many(documents)
    rng, a = np.random.default_rng(0), 0
    while a < len(documents):
        n = int(rng.integers(1, 60))
        out = model.step_many(documents[a : a + n])
        rows = expected.slice(a, n)
        for name in ("label", "score", "p_new"):
            assert out[name].equals(rows[name])
        model, a = NestedCRPTopics.from_bytes(model.to_bytes()), a + n
    assert model.summary().equals(whole.summary())
    assert 0 < whole.summary()["copies"][0].as_py() < 700
