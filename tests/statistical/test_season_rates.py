"""How often seasons are found where none is, and how near they come where one is."""

import numpy as np
import pytest

from benchmarks.seasons import WITHOUT, rms, seasonal, subtracted, without

SEEDS = range(101, 161, 2)  # not those of the benchmark


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in WITHOUT if kind != "stochastic cycle"])
def test_nothing_is_found_where_nothing_is(kind):
    """The lead of 5 nats has a probability of e^-5 in a stream: 2 of 30 are 1 in 50."""
    used = [np.mean(subtracted("auto", without(kind, seed))[0] != 0.0) for seed in SEEDS]
    assert sum(share > 0.02 for share in used) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("kind", WITHOUT)
@pytest.mark.parametrize("period", [(24.0, 168.0), 50.0])
def test_a_given_period_costs_little_where_it_is_not(kind, period):
    gone = []
    for seed in SEEDS:
        y = without(kind, seed)
        gone.append(rms(subtracted(period, y)[0]) / np.std(y))
    assert np.median(gone) < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("auto", [False, True])
def test_most_of_a_season_is_subtracted(auto):
    left, right = [], 0
    for seed in SEEDS:
        series = seasonal(seed)
        season, model = subtracted("auto" if auto else series.periods, series.y)
        last = 2 * len(season) // 3
        truth = series.season - series.season.mean()
        left.append(rms(season[last:] - truth[last:]) / max(1.0, rms(truth)))
        near = [min(abs(p / q - 1) for q in series.periods) < 0.02 for p in model.periods]
        right += bool(near) and all(near)
    assert np.median(left) < 0.25
    assert right >= (21 if auto else 30)  # of 30
