"""A row that is learned right after it was predicted is weighed once; nothing else may tell."""

import numpy as np
import pytest

from streamddcrp import SeqDDCRP

GIVEN = ("normal_gamma", 0.0, 0.05, 1.5, 0.5)
ROWS = np.random.default_rng(0).normal([[0.0], [6.0], [-5.0]], 1.0, (3, 40)).T.reshape(-1)


def learned(between, t=None, **options):
    """Return the state after all rows, with something done before each is learned."""
    model = SeqDDCRP(likelihood=GIVEN, window=16, sweep_every=4, look_back=8, **options)
    for i, y in enumerate(ROWS):
        time = None if t is None else t[i]
        between(model, {"y": y}, time, i)
        model.learn_one({"y": y}, time)
    return model.to_bytes()


BETWEEN = {
    "itself": lambda m, x, t, i: m.predict_one(x, t),
    "another": lambda m, x, t, i: (m.predict_one(x, t), m.predict_one({"y": x["y"] + 1.0}, t)),
    "its path": lambda m, x, t, i: (m.predict_one(x, t), i and m.recent_labels()),
    "its bound": lambda m, x, t, i: (m.predict_proba_one(x, t), m.objective, m.summary()),
    "one before": lambda m, x, t, i: m.predict_one({"y": ROWS[i - 1]}, t),
}


@pytest.mark.parametrize("t", [None, np.arange(len(ROWS)) ** 1.5], ids=["counted", "clocked"])
@pytest.mark.parametrize("what", BETWEEN)
def test_predictions_change_nothing_that_is_learned(what, t):
    options = {} if t is None else {"time_unit": 3.0}
    plainly = learned(lambda m, x, t, i: None, t, **options)
    assert learned(BETWEEN[what], t, **options) == plainly


def test_what_is_said_of_a_row_is_what_was_predicted():
    one, other = (SeqDDCRP(likelihood=GIVEN, window=16, sweep_every=4) for _ in range(2))
    for y in ROWS:
        label, score = one.predict_one({0: y}), one.score_one({0: y})
        assert one.step_many(np.array([[y]])).equals(other.step_many(np.array([[y]])))
        assert np.isfinite(score)
        assert label >= 0
    assert one.to_bytes() == other.to_bytes()
