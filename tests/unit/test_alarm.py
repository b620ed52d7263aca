"""Alarms against their slow twin; their rate is checked in tests/statistical."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streamddcrp import Alarm
from streamddcrp.errors import CheckpointError, ConfigError, SchemaError
from tests.oracles.alarms import FleetTwin
from tests.oracles.alarms import alarms as slow_alarms


@given(
    seed=st.integers(0, 2**32 - 1),
    rate=st.sampled_from([0.3, 0.07, 0.01, 0.005, 0.001]),
    average=st.integers(1, 6),
    ties=st.booleans(),
)
@example(seed=1113940817, rate=0.01, average=1, ties=True)
def test_equals_its_slow_twin(seed, rate, average, ties):
    rng = np.random.default_rng(seed)
    scores = rng.standard_t(2.0, 900)
    scores[rng.integers(0, 900, 5)] = np.nan
    scores[300:340] += rng.integers(0, 3) * 5.0
    scores = np.round(scores) if ties else scores
    mean, threshold, alarm, *_ = Alarm(rate, average).step_many(scores)
    slow_mean, slow_threshold, slow_alarm = slow_alarms(scores, rate, average)
    # Sums of at most 20 numbers in another order. Where a mean equals its threshold but for that,
    # one of the two may alarm, and they calibrate on other scores from there on.
    differ = np.flatnonzero(alarm != slow_alarm)
    upto = differ[0] + 1 if differ.size else len(scores)
    np.testing.assert_allclose(mean[:upto], slow_mean[:upto], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(threshold[:upto], slow_threshold[:upto], rtol=1e-12, atol=1e-12)
    assert not differ.size or abs(mean - threshold)[differ[0]] < 1e-12


@settings(max_examples=10)
@given(
    seed=st.integers(0, 2**32 - 1),
    rate=st.sampled_from([0.07, 0.001, 1e-6]),
    average=st.integers(1, 3),
    regimes=st.booleans(),
)
def test_with_keys_it_equals_its_slow_twin(seed, rate, average, regimes):
    rng = np.random.default_rng(seed)
    n = 4000
    keys = rng.integers(0, 1 + rng.integers(1, 12), n)
    scores = rng.exponential(size=n) + 5.0 * keys
    scores[rng.integers(0, n, 5)] = np.nan
    scores[300:330] += 20.0
    labels = (rng.random(n) < 0.02).cumsum() // (1 + (rng.random(n) < 0.3))
    found = Alarm(rate, average).step_many(scores, keys=keys, labels=labels if regimes else None)
    twin = FleetTwin(rate, average)
    given = (keys, scores, labels) if regimes else (keys, scores)
    slow = [np.array(column) for column in zip(*map(twin.step, *given), strict=True)]
    # sums of at most 1,000 numbers below 100 in another order
    np.testing.assert_allclose(found.score, slow[0], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.threshold, slow[1], rtol=1e-10, atol=1e-10)
    for name, wanted in zip(("alarm", "began", "ended"), slow[2:], strict=True):
        np.testing.assert_array_equal(getattr(found, name), wanted)


def test_a_fleet_that_fails_together_alarms_once_for_each():
    rng = np.random.default_rng(3)
    n_keys, n = 40, 400
    keys = np.tile([f"m{i}" for i in range(n_keys)], n)
    scores = rng.exponential(size=(n, n_keys)) + rng.normal(0.0, 9.0, n_keys)
    usual = Alarm(0.001).step_many(scores.ravel(), keys=keys).began.sum()
    # 16 expected; a Poisson number of 16 is at most 34 with probability 1 - 2e-5
    assert usual <= 34
    broken = [1, 4, 9, 11, 30]
    scores[300:340, broken] += 25.0  # in the same second
    scores[20:60, 17] += 25.0  # young: 20 rows
    judged = Alarm(0.001).step_many(scores.ravel(), keys=keys)
    began = judged.began.reshape(n, n_keys)
    assert began[300, broken].all()
    assert began[20, 17]
    assert judged.ended.reshape(n, n_keys)[340:360, broken].any(axis=0).all()


def test_surprises_that_come_in_runs_do_not_add_up():
    rng = np.random.default_rng(0)
    scores = np.empty((1000, 400))
    row = rng.standard_normal(400)
    for i in range(1000):
        scores[i] = row = 0.9 * row + math.sqrt(1.0 - 0.81) * rng.standard_normal(400)
    keys = np.tile(np.arange(400), 1000)
    found = Alarm(1e-4).step_many(scores.ravel(), keys=keys, labels=np.zeros(400_000, int))
    assert found.began.sum() <= 60  # 40 are asked for; of Poisson's law one in a thousand is above


def test_a_small_fleet_does_not_wait_for_a_rate_that_it_cannot_tell_yet():
    rng = np.random.default_rng(1)
    scores = rng.exponential(size=(850, 10))
    scores[800:, :5] += 40.0  # five of ten fail at once
    keys, labels = np.tile(np.arange(10), 850), np.zeros((850, 10), int)
    labels[800:, :5] = 1
    found = Alarm(1e-6).step_many(scores.ravel(), keys=keys, labels=labels.ravel())
    began = found.began.reshape(850, 10)
    assert began[800, :5].all()
    assert began[:800].sum() <= 1  # .1 / m at the m-th row: .1 log(7360 / 3000) are expected


def test_one_false_alarm_in_a_time():
    rng = np.random.default_rng(4)
    t = np.cumsum(rng.exponential(2.0, size=40_000))  # seconds
    scores = rng.exponential(size=40_000)
    for per, rows in (("hour", 1800), ("900 rows", 900), ("10min", 300)):
        began = Alarm(per=per).step_many(scores, t=t).began.sum()
        wanted = 40_000 / rows
        # Poisson, within 4 sd; the pace is known to 1 / sqrt(100) at first, 1 % later
        assert abs(began - wanted) <= 4.0 * math.sqrt(wanted) + 1
    alarm = Alarm(per="hour")
    parts = [alarm.step_many(scores[a : a + 999], t=t[a : a + 999]) for a in range(0, 9990, 999)]
    whole = Alarm(per="hour").step_many(scores[:9990], t=t[:9990])
    np.testing.assert_array_equal(np.concatenate([p.threshold for p in parts]), whole.threshold)
    again = Alarm.from_bytes(alarm.to_bytes())
    assert again.to_bytes() == alarm.to_bytes()
    assert again.threshold == alarm.threshold
    with pytest.raises(SchemaError, match="needs one"):
        alarm.step_many([1.0])
    with pytest.raises(ConfigError):
        Alarm(per="soon")


def test_keys_are_kept_one_by_one_or_together():
    rng = np.random.default_rng(8)
    scores, keys = rng.exponential(size=900), rng.integers(0, 15, 900)
    alarm = Alarm(0.01)
    alarm.step_many(scores[:600], keys=keys[:600])
    whole = Alarm.from_bytes(alarm.to_bytes())
    apart = Alarm.from_bytes(alarm.to_bytes(keys=False))
    apart.join(alarm.parts(map(str, range(15))))
    for other in (whole, apart):
        out = other.step_many(scores[600:], keys=keys[600:])
        expected = Alarm(0.01).step_many(scores, keys=keys)
        np.testing.assert_array_equal(out.threshold, expected.threshold[600:])
    assert whole.rows_of(3) == (keys == 3).sum()
    assert whole.threshold_of("new") < math.inf
    with pytest.raises(SchemaError, match="2 for 1"):
        whole.step_many([1.0], keys=["a", "b"])
    unkeyed = Alarm(0.01)
    unkeyed.step_many(scores)
    with pytest.raises(SchemaError, match="make a new Alarm"):
        unkeyed.step_many([1.0], keys=["a"])


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


def test_verdicts_on_regimes_hold_alarms_back_or_raise_them():
    scores = np.random.default_rng(8).exponential(size=600)
    scores[[300, 400, 500]] = 30.0
    verdicts = np.full(600, "normal", "U7")
    verdicts[300:320], verdicts[450:460] = "planned", "fault"
    judged = Alarm(0.001).step_many(scores, verdicts=verdicts)
    assert np.flatnonzero(judged.began).tolist() == [400, 450, 500]
    assert judged.alarm[450:460].all()
    assert np.flatnonzero(judged.ended).tolist() == [410, 469, 510]
    plain = Alarm(0.001)
    halves = [plain.step_many(scores[:455], verdicts=verdicts[:455])]
    halves.append(plain.step_many(scores[455:], verdicts=verdicts[455:]))
    for name in judged._fields:
        both = np.concatenate([getattr(half, name) for half in halves])
        np.testing.assert_array_equal(both, getattr(judged, name))
    kept = np.flatnonzero(verdicts == "normal")  # planned rows and faults do not calibrate
    other = Alarm(0.001)
    other.step_many(scores[kept][:330])
    assert judged.threshold[350] == other.step_many([0.0]).threshold[0]
    for wrong in (["fault"], ["odd"] * 600):
        with pytest.raises(SchemaError, match="verdicts must be 600 of normal, planned, fault"):
            plain.step_many(scores, verdicts=wrong)


def test_a_new_regime_that_stays_is_told_from_an_odd_row():
    """The score of its first row passes no threshold; with labels its next ones do."""
    rng = np.random.default_rng(3)
    scores = 4.0 + rng.exponential(size=3000)
    labels = np.zeros(3000, int)
    odd, stays = 1500, 2500
    scores[[odd, stays]] = np.sort(scores)[-3] - 0.1  # no higher than the highest
    labels[odd], labels[stays:] = 1, 2
    assert not Alarm(1e-4).step_many(scores).began[odd:].any()
    judged = Alarm(1e-4).step_many(scores, labels=labels)
    (began,) = np.flatnonzero(judged.began[odd:]) + odd
    assert stays < began <= stays + 3
    excess = scores[stays] - scores[odd + 20 : stays].mean()
    # level and excess are means of about 2,500 exponentials: four of their standard errors, thrice
    np.testing.assert_allclose(
        judged.score[began] - scores[odd + 20 : stays].mean(),
        (began - stays + 1) * excess - (began - stays) + judged.score[stays] - scores[stays],
        atol=0.3,
    )
    ended = np.flatnonzero(judged.ended)
    # up to 20 rows are new, as what is usual rises meanwhile, and ten must be quiet
    assert len(ended) == 1
    assert stays + 20 < ended[0] <= stays + 20 + 9


def test_a_drift_is_found_that_no_row_tells_of():
    rng = np.random.default_rng(6)
    scores = 4.0 + rng.exponential(size=20_000)
    labels = np.zeros(20_000, int)
    scores[15_000:15_012] = 9.0  # 12 rows of five nats over the lowest: one in 150
    assert not Alarm(1e-4).step_many(scores).alarm[15_000:15_012].any()
    judged = Alarm(1e-4).step_many(scores, labels=labels)
    assert judged.began[15_000:15_012].sum() == 1
    others = np.r_[judged.began[:15_000], judged.began[15_050:]]
    assert others.sum() <= 8  # 2 are asked for; Poisson, but for 1 in 4,000


def test_a_failure_that_comes_back_alarms_as_the_first_did():
    """The model knows it again, so its score is as usual; but it is no usual regime."""
    rng = np.random.default_rng(4)
    scores, labels = 4.0 + rng.exponential(size=4000), np.zeros(4000, int)
    for begin, label, first in ((100, 1, 20.0), (1000, 2, 20.0), (2000, 2, 5.0), (3000, 1, 5.0)):
        labels[begin : begin + 80], scores[begin] = label, first
    judged = Alarm(1e-3).step_many(scores, labels=labels)
    others = judged.began & (np.arange(4000) != 1000) & (np.arange(4000) != 2000)
    assert judged.began[[1000, 2000]].all()
    assert judged.score[2000] == pytest.approx(judged.score[1000], abs=0.5)
    assert others.sum() <= 7  # 4 are expected; what was seen among the first 200 rows is usual
    labels[1100:1700] = 2  # so often that it is usual
    assert not Alarm(1e-3).step_many(scores, labels=labels).began[2000]


def test_a_regime_that_varies_more_is_no_alarm_without_an_end_and_hides_no_failure():
    """By day scores are 12 nats higher; the failures are another 15 above these."""
    rng = np.random.default_rng(9)
    day = np.arange(12_000) % 1000 >= 600
    scores, failures = rng.exponential(size=12_000) + 12.0 * day, [5700, 8700, 11_700]
    for begin in failures:
        scores[begin : begin + 10] += 15.0
    judged = Alarm(1e-3).step_many(scores, labels=day.astype(int))
    assert judged.began[failures].all()
    assert judged.alarm[:1000].sum() <= 100  # rows that tell what is usual by day
    later = np.r_[2000:12_000]
    assert judged.began[later].sum() <= 3 + 15  # 10 are expected; Poisson, but for 1 in 20
    assert judged.alarm[later].sum() < 400


def test_a_row_as_usual_but_for_a_fraction_of_a_nat_is_no_alarm():
    """Of a flat line the score falls as the model learns: it is never far from usual."""
    scores = -0.9 + 1e-3 * np.sin(np.arange(4000) / 300.0)
    assert not Alarm(1e-3).step_many(scores, labels=np.zeros(4000, int)).alarm.any()


@pytest.mark.parametrize("length", [1, 10])
def test_one_event_does_not_set_the_threshold(length):
    """However large it is, and though there is no threshold yet."""
    rng = np.random.default_rng(5)
    scores = rng.exponential(size=400)
    usual = Alarm(0.002).step_many(scores).threshold[-1]
    scores[50 : 50 + length] = 90.0
    alarm = Alarm(0.002)
    judged = alarm.step_many(scores)
    assert judged.threshold[-1] < 1.25 * usual
    assert not judged.began[:100].any()
    assert alarm.step_many([2.0 * usual]).began[0]


def test_scores_that_are_others_for_good_are_soon_usual():
    """Though there was no threshold yet when they rose."""
    rng = np.random.default_rng(6)
    scores = rng.exponential(size=1000) + 20.0 * (np.arange(1000) >= 60)
    judged = Alarm(0.01).step_many(scores)
    assert judged.threshold[250] < np.inf
    assert judged.began[250:].sum() <= 20  # 7.5 are expected


def test_labels_are_checked_and_kept():
    alarm = Alarm()
    with pytest.raises(SchemaError, match="labels: got shape"):
        alarm.step_many([1.0, 2.0], labels=[1])
    rng = np.random.default_rng(0)
    scores, labels = rng.exponential(size=900), np.arange(900) // 290
    whole = Alarm().step_many(scores, labels=labels)
    first = Alarm()
    first.step_many(scores[:587], labels=labels[:587])
    rest = Alarm.from_bytes(first.to_bytes()).step_many(scores[587:], labels=labels[587:])
    np.testing.assert_array_equal(rest.score, whole.score[587:])
    np.testing.assert_array_equal(rest.threshold, whole.threshold[587:])


def test_a_regime_that_begins_without_a_score_is_saved_and_loaded():
    scores, labels = np.r_[np.full(7, np.nan), np.ones(20)], np.repeat([0, 1], [25, 2])
    alarm = Alarm(0.01)
    alarm.step_many(scores, labels=labels)
    again = Alarm.from_bytes(alarm.to_bytes())
    assert again.to_bytes() == alarm.to_bytes()


@pytest.mark.parametrize("score", [math.inf, -math.inf, math.nan])
def test_a_regime_may_begin_with_any_score_and_the_state_is_kept(score):
    rng = np.random.default_rng(12)
    scores, labels = rng.exponential(size=420), np.zeros(420, np.int64)
    scores[[300, 301, 302]], labels[300:] = score, 1
    whole = Alarm(0.01).step_many(scores, labels=labels)
    for cut in (300, 301, 302, 350):
        alarm = Alarm(0.01)
        alarm.step_many(scores[:cut], labels=labels[:cut])
        again = Alarm.from_bytes(alarm.to_bytes()).step_many(scores[cut:], labels=labels[cut:])
        for mine, all_of_it in zip(again, whole, strict=True):
            np.testing.assert_array_equal(mine, all_of_it[cut:])
    assert whole.alarm[300] == (score > 0)
    assert not whole.alarm[380:].all()


@pytest.mark.parametrize("cut", [1, 7, 5000])
def test_an_alarm_that_does_not_end_is_said_once(cut, caplog):
    rng = np.random.default_rng(13)
    keys = np.array(list("abc"))[rng.integers(0, 3, 5000)]
    scores = rng.exponential(size=5000)
    scores[(keys == "b") & (np.arange(5000) >= 900)] += np.arange(900, 5000)[keys[900:] == "b"]
    alarm = Alarm(0.01)
    for begin in range(0, 5000, cut):
        alarm.step_many(scores[begin : begin + cut], keys=keys[begin : begin + cut])
    (record,) = caplog.records
    assert record.message.startswith("an alarm goes on for")


def test_the_first_regime_of_a_young_key_is_not_new():
    """One odd row opened a table; the rows after it are at the first one again."""
    scores = 3.0 + np.random.default_rng(0).exponential(size=60)
    labels = np.zeros(60, int)
    scores[9], labels[9] = 16.0, 1
    judged = Alarm(0.001).step_many(scores, keys=["a"] * 60, labels=labels)
    assert judged.score[20:].max() < 10.0
