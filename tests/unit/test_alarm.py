"""Alarms against their slow twin; their rate is checked in tests/statistical."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamddcrp import Alarm
from streamddcrp.errors import CheckpointError, ConfigError, SchemaError
from tests.oracles.alarms import alarms as slow_alarms


@given(
    seed=st.integers(0, 2**32 - 1),
    rate=st.sampled_from([0.3, 0.07, 0.01, 0.005, 0.001]),
    average=st.integers(1, 6),
    ties=st.booleans(),
)
def test_equals_its_slow_twin(seed, rate, average, ties):
    rng = np.random.default_rng(seed)
    scores = rng.standard_t(2.0, 900)
    scores[rng.integers(0, 900, 5)] = np.nan
    scores[300:340] += rng.integers(0, 3) * 5.0
    scores = np.round(scores) if ties else scores
    mean, threshold, alarm, *_ = Alarm(rate, average).step_many(scores)
    slow_mean, slow_threshold, slow_alarm = slow_alarms(scores, rate, average)
    # sums of at most 20 numbers in another order
    np.testing.assert_allclose(mean, slow_mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(threshold, slow_threshold, rtol=1e-12, atol=1e-12)
    differ = alarm != slow_alarm
    assert not differ.any() or np.abs(mean - threshold)[differ].max() < 1e-12


@given(data=st.data(), average=st.integers(1, 12))
def test_any_cutting_and_any_restart_give_the_same_bits(data, average):
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    scores = rng.exponential(size=400) + 8.0 * (rng.random(400) < 0.02)
    scores[rng.random(400) < 0.01] = np.nan
    whole = Alarm(0.02, average)
    expected = whole.step_many(scores)
    alarm, parts = Alarm(0.02, average), []
    cuts = sorted(data.draw(st.lists(st.integers(0, 400), max_size=5)))
    for a, b in zip([0, *cuts], [*cuts, 400], strict=True):
        for i in range(a, min(a + 2, b)):
            assert alarm.threshold == expected.threshold[i]
            if not math.isnan(scores[i]):
                assert alarm.averaged(scores[i]) == expected.score[i]
            parts.append(alarm.step_many(scores[i : i + 1]))
        parts.append(alarm.step_many(scores[min(a + 2, b) : b]))
        if data.draw(st.booleans()):
            alarm = Alarm.from_bytes(alarm.to_bytes())
    for whole_column, *columns in zip(expected, *parts, strict=True):
        np.testing.assert_array_equal(np.concatenate(columns), whole_column)
    assert alarm.to_bytes() == whole.to_bytes()


@pytest.mark.parametrize(
    ("rate", "first"), [(0.1, 9), (0.01, 99), (0.005, 100), (0.001, 100), (0.0001, 999)]
)
def test_too_few_rows_give_no_alarm(rate, first):
    alarm = Alarm(rate)
    out = alarm.step_many(np.r_[np.random.default_rng(4).random(first), 1e9])
    assert np.isinf(out.threshold[:first]).all()
    assert not out.alarm[:first].any()
    assert out.threshold[first] < 1e9
    assert out.alarm[first]
    assert Alarm(rate).threshold == math.inf


def test_an_anomaly_does_not_lift_the_threshold_however_long_it_lasts():
    rng = np.random.default_rng(5)
    alarm = Alarm(0.001, average=10)
    alarm.step_many(rng.exponential(size=5000))
    before = alarm.threshold
    on = alarm.step_many(4.0 + rng.exponential(size=50_000)).alarm
    assert on[10:].all()
    assert alarm.step_many(rng.exponential(size=30)).alarm[10:].sum() == 0
    assert alarm.threshold == pytest.approx(before, rel=0.1)


def test_a_process_that_wakes_is_not_alarmed_at_for_ever():
    # At rest for 200 rows, then 30 rows up in every 100: each rise would begin an alarm.
    rng = np.random.default_rng(7)
    awake = np.tile(np.repeat([0.0, 5.0], [70, 30]), 40)
    scores = np.concatenate([np.zeros(200), awake]) + 1e-3 * rng.exponential(size=4200)
    alarm = Alarm(0.001).step_many(scores).alarm
    began = np.flatnonzero(np.diff(alarm.astype(int)) == 1)
    assert 1 <= len(began[began < 1200]) <= 10
    assert len(began[began >= 1200]) <= 10  # 3 are asked for; 22 without the rule, in 30 rises


@pytest.mark.parametrize("n_before", [30, 300, 3000])
def test_a_giant_does_not_blind(n_before):
    rng = np.random.default_rng(6)
    alarm = Alarm(0.001)
    alarm.step_many(rng.exponential(size=n_before))
    alarm.step_many([1e12, *rng.exponential(size=200), math.inf, *rng.exponential(size=50)])
    assert alarm.threshold < 30.0
    assert alarm.step_many([100.0]).alarm[0]


def test_bad_options_scores_and_states_are_refused():
    for rate in (0.0, -0.1, 0.5, math.nan):
        with pytest.raises(ConfigError, match="rate"):
            Alarm(rate)
    with pytest.raises(ConfigError, match="average"):
        Alarm(0.01, 0)
    with pytest.raises(SchemaError, match="shape"):
        Alarm().step_many([[1.0]])
    with pytest.raises(CheckpointError):
        Alarm.from_bytes(Alarm().to_bytes()[:-1])
