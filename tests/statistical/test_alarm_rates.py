"""Alarms begin at the rate that was asked for, and find what lasts."""

import math

import numpy as np
import pyarrow.compute
import pyarrow.parquet
import pytest
from scipy.signal import lfilter

from streamddcrp import Alarm, RegimeAnomalyDetector, SeqDDCRP


def starts(alarm, quiet=10):
    """Return the number of alarms, and of rows at which one could have begun.

    Those are the rows with none above the threshold among the ``quiet`` rows before.
    """
    rows = np.arange(len(alarm))
    last = np.maximum.accumulate(np.where(alarm, rows, -quiet - 1))
    free = rows - np.r_[-quiet - 1, last[:-1]] > quiet
    return int((alarm & free).sum()), int(free.sum())


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


@pytest.mark.parametrize("labels", [None, np.zeros(400_000, int)], ids=["rows", "sums"])
def test_alarms_of_many_keys_begin_at_the_rate(labels):
    """Keys of too few rows borrow at 1 in 20,000, and become judged by themselves at 1 in 1,000."""
    scores = np.random.default_rng(5).exponential(size=400_000)
    keys = np.tile(np.arange(400), 1000).astype(str)
    for rate in (0.001, 0.00005):
        found = int(Alarm(rate).step_many(scores, keys=keys, labels=labels).began.sum())
        wanted = rate * len(scores)
        # of rows that add up one is counted, so fewer begin; 4.5 standard deviations of a Poisson
        assert 0.7 * wanted - 4.5 * math.sqrt(wanted) < found < wanted + 4.5 * math.sqrt(wanted)


def test_the_threshold_follows_slow_changes():
    # The scale doubles in 40 times 10 / rate rows, the least it looks back.
    n, rate = 400_000, 0.001
    scale = np.linspace(1.0, 2.0, n)
    scores = scale * np.random.default_rng(7).exponential(size=n)
    found, _ = starts(Alarm(rate).step_many(scores).alarm)
    assert 0.8 * rate * n < found < 1.6 * rate * n


def test_a_valve_half_closed_is_found(shared_data):
    """SKAB, one setting for all runs: the target is F1 above 0.70, false alarms below 10 %."""
    table = pyarrow.parquet.read_table(
        shared_data / "skab" / "skab.parquet", filters=[("group", "=", "valve1")]
    )
    found, odd = [], []
    for run in table["run"].unique().to_pylist():
        rows = table.filter(pyarrow.compute.equal(table["run"], run))
        detector = RegimeAnomalyDetector(
            SeqDDCRP(likelihood=("autoregression", 1)), average=20, reference_after=200
        )
        out = detector.step_many(rows.select(rows.column_names[4:12]))
        alarm = out["alarm"].to_numpy(zero_copy_only=False).copy()
        alarm[:400] = False  # as is usual for these data
        found.append(alarm)
        odd.append(rows["anomaly"].to_numpy() == 1)
    found, odd = np.concatenate(found), np.concatenate(odd)
    hits = (found & odd).sum()
    assert 2 * hits / (found.sum() + odd.sum()) > 0.7
    assert (found & ~odd).sum() < 0.1 * (~odd).sum()
