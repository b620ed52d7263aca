"""Alarms against their slow twin, and at the rate that was asked for."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.signal import lfilter

from streamddcrp import Alarm, SeqDDCRP
from streamddcrp.errors import CheckpointError, ConfigError, SchemaError
from tests.oracles.alarms import alarms as slow_alarms


def starts(alarm, quiet=10):
    """Return the number of alarms, and of rows at which one could have begun.

    Those are the rows with none above the threshold among the ``quiet`` rows before.
    """
    rows = np.arange(len(alarm))
    last = np.maximum.accumulate(np.where(alarm, rows, -quiet - 1))
    free = rows - np.r_[-quiet - 1, last[:-1]] > quiet
    return int((alarm & free).sum()), int(free.sum())


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
    mean, threshold, alarm = Alarm(rate, average).step_many(scores)
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


def autocorrelated(rng, n, phi):
    return lfilter([math.sqrt(1.0 - phi * phi)], [1.0, -phi], rng.normal(size=n))


IN_CONTROL = {
    "Gaussian": lambda rng, n: rng.normal(size=n),
    "surprise in five dimensions": lambda rng, n: 0.5 * rng.chisquare(5.0, n),
    "Cauchy": lambda rng, n: rng.standard_cauchy(n),
    "autocorrelated": lambda rng, n: autocorrelated(rng, n, 0.9),
    "volatile": lambda rng, n: rng.normal(size=n) * np.exp(0.5 * autocorrelated(rng, n, 0.9)),
}


def check_rate(scores, rate, average=1):
    """Alarms begin at the rate asked for.

    A row exceeds the k-th largest of m exchangeable ones with probability k / (m + 1), which lies
    between 10 / 11 of the rate, just before k rises to 11, and the rate; and loses at most one
    alarm for each of the smaller k. Alarms repel each other, because each lifts the threshold, so
    their number varies less than a binomial one; 4.5 of its standard deviations stand for one
    error in 150,000.
    """
    found, free = starts(Alarm(rate, average).step_many(scores).alarm, max(average, 10))
    most = rate * free
    spread = 4.5 * math.sqrt(most)
    assert most * 10 / 11 - 10 - spread < found < most + spread


@pytest.mark.parametrize("average", [1, 10])
@pytest.mark.parametrize("rate", [0.01, 0.001])
@pytest.mark.parametrize("name", IN_CONTROL)
def test_alarms_begin_at_the_rate(name, rate, average):
    check_rate(IN_CONTROL[name](np.random.default_rng(1), 400_000), rate, average)


def test_alarms_begin_at_the_rate_on_the_surprise_of_a_stream_with_regimes():
    rng = np.random.default_rng(2)
    visits = np.repeat(rng.integers(0, 4, 1200), rng.integers(20, 200, 1200))[:100_000]
    X = np.array([0.0, 12.0, -9.0, 25.0])[visits, None] + rng.normal(size=(100_000, 1))
    model = SeqDDCRP(window=16, sweep_every=16)
    scores = model.step_many(X)["score"].to_numpy(zero_copy_only=False)
    check_rate(scores, 0.001)
    check_rate(scores, 0.01, average=5)


def test_the_tail_is_extrapolated_at_the_rate_if_it_is_exponential():
    # One row after 100 others: rate 0.005 has no order statistic yet.
    rng, n, rate = np.random.default_rng(3), 20_000, 0.005
    found = 0
    for _ in range(n):
        alarm = Alarm(rate)
        found += int(alarm.step_many(rng.exponential(size=101)).alarm[-1])
    # the formula is exact for the 20 largest of infinitely many rows; for 100, to O(1/100)
    assert abs(found - n * rate) < 4.5 * math.sqrt(n * rate) + 0.02 * n * rate


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


@pytest.mark.parametrize("n_before", [30, 300, 3000])
def test_a_giant_does_not_blind(n_before):
    rng = np.random.default_rng(6)
    alarm = Alarm(0.001)
    alarm.step_many(rng.exponential(size=n_before))
    alarm.step_many([1e12, *rng.exponential(size=200), math.inf, *rng.exponential(size=50)])
    assert alarm.threshold < 30.0
    assert alarm.step_many([100.0]).alarm[0]


def test_the_threshold_follows_slow_changes():
    # The scale doubles in 40 times 10 / rate rows, the least it looks back.
    n, rate = 400_000, 0.001
    scale = np.linspace(1.0, 2.0, n)
    scores = scale * np.random.default_rng(7).exponential(size=n)
    found, _ = starts(Alarm(rate).step_many(scores).alarm)
    assert 0.8 * rate * n < found < 1.6 * rate * n


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
