"""The language model as a stream: any cutting, any stop and restore, the same bits."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamddcrp.errors import CheckpointError, SchemaError
from streamddcrp.models.language.base_measure import BaseMeasure
from streamddcrp.models.language.estimator import LinkLanguageModel

DECAYS = st.sampled_from(
    [
        ("exponential", 7.0),
        ("none",),
        ("window", 5),
        ("window", 1),
        ("logistic", 6.0, 2.0),
        ("linear_window", 9.5),
    ]
)


@st.composite
def streams(draw):
    n = draw(st.integers(1, 80))
    words = draw(st.lists(st.integers(0, 5), min_size=n, max_size=n))
    gaps = st.lists(st.sampled_from([0.0, 0.3, 1.0, 7.5, 1e4]), min_size=n, max_size=n)
    t = draw(st.none() | gaps.map(np.cumsum))
    ends = draw(st.lists(st.integers(0, n), max_size=6))  # of documents
    cuts = draw(st.lists(st.integers(0, n), max_size=6))
    return np.array(words), t, sorted(set(ends)), sorted(set(cuts))


def follow(model, words, t, ends, cuts, restore):
    """Learn in pieces; begin documents; perhaps stop and restore at every piece."""
    out = []
    places = sorted({0, len(words), *ends, *cuts})
    for low, high in pairwise(places):
        if low in ends:
            model.new_document()
        out.append(model.step_many(words[low:high], None if t is None else t[low:high]))
        if restore:
            model = LinkLanguageModel.from_bytes(model.to_bytes())
    return model, np.concatenate(
        [np.array([b["score"], b["p_new"], b["n_tables"]]) for b in out], 1
    )


@given(streams(), DECAYS, st.booleans(), st.booleans())
def test_any_cutting_gives_the_same_bits(stream, decay, restore, texts):
    words, t, ends, cuts = stream
    tokens = np.array([f"w{w}" for w in words]) if texts else words
    options = {"alpha": 0.8, "decay": decay, "base_measure": 6}
    whole, expected = follow(LinkLanguageModel(**options), tokens, t, ends, [], False)
    cut, found = follow(LinkLanguageModel(**options), tokens, t, ends, cuts, restore)
    ones, single = follow(LinkLanguageModel(**options), tokens, t, ends, range(len(words)), False)
    for made, output in ((cut, found), (ones, single)):
        assert np.array_equal(output, expected)
        assert made.objective == whole.objective
        assert made.n_tables == whole.n_tables
        later = None if t is None else t[-1] + 1.0
        assert made.predict_proba_one(later) == whole.predict_proba_one(later)


@given(streams(), DECAYS)
def test_the_next_token_has_a_distribution(stream, decay):
    words, t, ends, _ = stream
    model, _ = follow(LinkLanguageModel(decay=decay, base_measure=6), words, t, ends, [], False)
    probs = model.predict_proba_one(None if t is None else t[-1] + 0.3)
    assert sum(probs.values()) == pytest.approx(1.0, rel=1e-12)
    assert min(probs.values()) > 0.0


def test_a_stored_model_goes_on(tmp_path):
    """With words the base measure lists and words it has not, saved in the middle of a document."""
    given = BaseMeasure.from_counts(["yes no no maybe"], n_words=5)
    model = LinkLanguageModel(base_measure=given, decay=("logistic", 3.0), alpha=0.5)
    model.learn_many("no never no yes")
    model.save(tmp_path / "model")
    stored = LinkLanguageModel.load(tmp_path / "model")
    for made in (model, stored):
        made.learn_many("never no always no")
    assert stored.to_bytes() == model.to_bytes()
    assert stored.predict_proba_one() == model.predict_proba_one()
    with pytest.raises(SchemaError, match="'sometimes'"):
        stored.learn_many("sometimes")
    with pytest.raises(CheckpointError, match="truncated"):
        LinkLanguageModel.from_bytes(model.to_bytes()[:-1])
