"""Held values: told from levels by evidence, against a slow twin, and left out."""

import logging

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from streamddcrp import SeqDDCRP
from streamddcrp.data.laws.columns import Laws
from streamddcrp.data.laws.held import LEAD, Held, evidence
from streamddcrp.errors import CheckpointError
from tests.oracles import laws as twin


def machine(n, seed):
    """A machine's states; its speed, and a sensor of another rate that sends its value again."""
    rng = np.random.default_rng(seed)
    state = np.searchsorted(np.sort(rng.choice(n, n // 100, replace=False)), np.arange(n)) % 2
    slow = 3.0 * state + rng.normal(size=n)
    return state, np.column_stack([8.0 * state + rng.normal(size=n), slow[np.arange(n) // 7 * 7]])


@pytest.mark.parametrize("step", [0.0, 0.1, 0.5])
def test_the_evidence_for_held_values_is_that_of_its_twin(step):
    rng = np.random.default_rng(6)
    y = np.repeat(rng.normal(size=80) * 3.0, rng.geometric(0.4, 80))
    y = np.round(y / step) * step if step else y
    y[[3, 50]] = np.nan
    terms = 80 * np.log(17.0) * np.finfo(float).eps  # of which each is at most log(17 / 2)
    assert evidence(y) == pytest.approx(twin.held_evidence(y), abs=80 * terms)


@pytest.mark.parametrize("seed", range(5))
def test_held_values_are_told_from_levels_grids_and_zeros(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=1000)
    held = [np.repeat(x, 2)[:1000], np.repeat(x.round(1), 20)[:1000], np.repeat(x, 50)[:1000]]
    valve = np.array([0.0, 30.0, 0.0, -25.0])[np.arange(1000) // 40 % 4]
    rain = np.where(np.repeat(rng.random(200) < 0.7, 5), 0.0, rng.gamma(0.7, 5.0, 1000))
    stuck = np.where((np.arange(1000) > 400) & (np.arange(1000) < 600), 7.0, x)
    others = [x, x.round(1), valve, rain, stuck, np.clip(x, -1.0, 1.0), rng.poisson(30.0, 1000)]
    assert min(map(evidence, held)) > LEAD
    assert max(evidence(y * 1.0) for y in others) < -LEAD


def test_a_held_value_is_left_out_and_one_that_is_missing_is_not_sent():
    held = Held()
    held.columns = np.array([1, 0])
    x = np.array([2.0, 2.0, np.nan, 2.0, 3.0, 3.0, 2.0])
    X = np.column_stack([x, x])
    whole = held.begin(X)
    np.testing.assert_array_equal(whole[:, 0], [2.0, np.nan, np.nan, np.nan, 3.0, np.nan, 2.0])
    assert np.isnan(held.step(X[-1:], learn=False)[0, 0])
    parts = Held()
    parts.columns = held.columns
    found = [parts.begin(X[:1]), *(parts.step(row[None]) for row in X[1:])]
    np.testing.assert_array_equal(np.concatenate(found), whole)


def test_a_sensor_that_sends_its_value_again_does_not_hide_the_regimes(caplog):
    for seed in (3, 4):
        state, X = machine(2000, seed)
        with caplog.at_level(logging.INFO):
            model = SeqDDCRP()
            label = model.step_many(X)["label"].to_numpy()
        assert adjusted_rand_score(state, label) > 0.85
        assert model.column_laws()["1"] == "level; a value that is sent again is left out"
        assert "column '1' is level; a value that is sent again is left out" in caplog.text


def test_by_level_a_user_says_that_repeats_count():
    _, X = machine(600, 3)
    model = SeqDDCRP(columns={"1": "level"})
    model.learn_many(X)
    assert model.column_laws()["1"] == "level"


def test_rows_with_held_values_are_the_same_however_they_are_cut():
    _, X = machine(900, 5)
    whole, parts = SeqDDCRP(), SeqDDCRP()
    whole.learn_many(X)
    for part in np.split(X, [50, 63, 64, 65, 300, 301, 700]):
        parts.learn_many(part)
        parts = SeqDDCRP.from_bytes(parts.to_bytes())
    assert parts.to_bytes() == whole.to_bytes()
    sent = {0: X[-1, 0], 1: X[-1, 1]}
    assert whole.score_one(sent) == whole.score_one({0: X[-1, 0]})
    assert whole.score_one(sent) != whole.score_one(sent | {1: X[-1, 1] + 1e-9})


def test_a_stored_held_column_is_checked():
    _, X = machine(600, 3)
    model = SeqDDCRP()
    model.learn_many(X)
    arrays, meta = model._laws.state()
    arrays["held.columns"][0] = 2
    with pytest.raises(CheckpointError):
        Laws().restore(arrays, meta, 2)
