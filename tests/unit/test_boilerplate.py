"""Words that all texts have in common are set aside, others are not."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from streamddcrp import TemporalDPM, TextStream
from streamddcrp.data.boilerplate import Boilerplate

LINK = ("https", "t", "co")
PUBLISHERS = (("daily", "planet"), ("evening", "herald", "online"), ("yahoo", "finance"), ("cnn",))


def stories(seed, n=1500, n_stories=40):
    """Texts of stories of ten words each, six of them and two of anywhere; and their stories."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, n_stories, n)
    own = [[f"s{k}w{i}" for i in range(10)] for k in range(n_stories)]
    return [
        [*rng.permutation(own[k])[:6].tolist(), *(f"any{i}" for i in rng.integers(0, 300, 2))]
        for k in z
    ], z


def with_words(kind, texts, rng):
    """Add boilerplate to texts."""
    if kind == "none":
        return texts
    if kind == "link":
        return [[*x, *LINK, f"id{i}"] for i, x in enumerate(texts)]
    if kind == "publisher":
        return [[*x, *PUBLISHERS[rng.integers(0, 4)]] for x in texts]
    if kind == "half":
        return [[*x, *(LINK if rng.random() < 0.5 else ())] for x in texts]
    return [[*x, *(f"foot{i}" for i in range(12))] for x in texts]


@pytest.mark.parametrize("kind", ["none", "link", "publisher", "half", "footer"])
def test_boilerplate_is_found_and_stories_stay_apart(kind):
    texts, z = stories(3)
    model = TextStream(lag=200)
    model.learn_many(with_words(kind, texts, np.random.default_rng(2)))
    found = model.final_labels(window=True)["label"].to_numpy()
    # It holds stories together as long as it is not found: the first texts of two of forty.
    assert adjusted_rand_score(z, found) > 0.9
    expected = {
        "none": set(),
        "link": set(LINK),
        "half": set(LINK),
        "publisher": {word for name in PUBLISHERS for word in name},
        "footer": {f"foot{i}" for i in range(12)},
    }
    assert set(model.boilerplate) == expected[kind]


def test_one_story_and_equal_texts_are_not_emptied():
    model = TextStream()
    model.learn_many(["the pump in hall three is broken"] * 400)
    assert model.boilerplate == {}
    assert model.n_tables == 1


def test_a_text_of_boilerplate_alone_has_no_story():
    texts, _ = stories(3, 600)
    model = TextStream(lag=100)
    model.learn_many(with_words("link", texts, None))
    assert model.predict_one(list(LINK)) == -1
    surprise = -sum(np.log(model.boilerplate[word]) for word in LINK)
    assert model.score_one(list(LINK)) == pytest.approx(surprise)


def test_words_that_come_out_of_use_count_again():
    texts, _ = stories(4, 3000)
    model = TextStream(lag=100)
    model.learn_many(with_words("link", texts[:1500], None))
    assert set(model.boilerplate) == set(LINK)
    model.learn_many(texts[1500:])
    assert model.boilerplate == {}


@pytest.mark.parametrize("kind", ["none", "link", "footer"])
def test_boilerplate_is_found_in_epochs_and_stories_stay_apart(kind):
    texts, z = stories(1, 900, 20)
    model = TemporalDPM(epoch="300 rows")
    rows = with_words(kind, texts, np.random.default_rng(2))
    model.learn_many(rows[:450])
    model = TemporalDPM.from_bytes(model.to_bytes())  # in the midst of an epoch
    model.learn_many(rows[450:])
    model.close()
    found = model.final_labels(window=True)["label"].to_numpy()
    assert adjusted_rand_score(z, found) > 0.9
    expected = {"none": set(), "link": set(LINK), "footer": {f"foot{i}" for i in range(12)}}
    assert set(model.boilerplate) == expected[kind]
    if expected[kind]:  # such words say nothing; their surprise is that of their part of all
        bare = model.score_one(texts[0])
        more = -np.log(list(model.boilerplate.values())).sum()
        assert model.score_one([*texts[0], *expected[kind]]) == pytest.approx(bare + more)


def test_rows_may_come_in_any_cutting_and_only_the_newest_are_looked_at():
    rng = np.random.default_rng(5)
    X = sparse.csr_array((rng.random((4_000, 60)) < 0.2).astype(float))
    whole, parts = Boilerplate(), Boilerplate()
    whole.note(X)
    for a in range(0, 4_000, 700):
        parts.note(X[a : a + 700])
    for mine, other in zip(whole._recent, parts._recent, strict=True):
        np.testing.assert_array_equal(mine, other)
    sizes, words = whole._recent
    assert len(words) == sizes.sum()
    assert (1 << 15) <= len(words) < (1 << 15) + 60
    np.testing.assert_array_equal(words[-5:], X.indices[-5:])
    used = np.zeros(60, dtype=bool)
    used[::2] = True
    whole.keep(used)
    kept = X[:, ::2]
    np.testing.assert_array_equal(whole._recent[1][-200:], kept.indices[-200:])
    assert whole._recent[0][-1] == np.diff(kept.indptr)[-1]
