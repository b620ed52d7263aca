"""Seasons: the recursion against its slow twin, when one is used, how periods are found."""

import logging
import math
from datetime import datetime, timedelta
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.signal import lfilter
from sklearn.metrics import adjusted_rand_score

from streamddcrp import Keyed, RegimeAnomalyDetector, Seasonal, SeqDDCRP, change_points
from streamddcrp.data.laws.filters import looks
from streamddcrp.data.laws.rivals import SAY, Rivals
from streamddcrp.data.seasons import periods, subtracted
from streamddcrp.data.seasons.kernels import fill_basis, share_jumps, write_season
from streamddcrp.data.seasons.periods import Search, likely_period, read_periods
from streamddcrp.data.seasons.scales import choose, logs, offsets_of, values
from streamddcrp.data.seasons.tracker import Tracker, places
from streamddcrp.data.seasons.watch import on_trial
from streamddcrp.errors import ConfigError, OrderError, SchemaError
from streamddcrp.models.seqddcrp import contest
from streamddcrp.models.seqddcrp.engine import Engine
from tests.oracles import seasons as twin

EPS = np.finfo(float).eps
DAY = 86400.0
LEVEL = {0: "level"}  # no other law of its own, where only the season is looked at


def estimate_periods(X, t):
    """The periods that the rows show, at once."""
    search = Search(X, t)
    search.go(10**15)
    return search.found


def cycle(n, period=24.0, amplitude=4.0, seed=0):
    """A cycle of two harmonics and noise of deviation 1."""
    turn = 2 * np.pi * np.arange(n) / period
    wave = amplitude * (np.sin(turn) + 0.4 * np.cos(2 * turn))
    return wave + np.random.default_rng(seed).normal(size=n)


def rms(x):
    return float(np.sqrt(np.mean(np.square(x))))


def left(y, period, t=None):
    return Seasonal(period).step_many(y[:, None], t)["0"].to_numpy()


# -- the recursion ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [[24.0], [7.0, 49.0], [10.5], [24.0, 168.0], [2.5]])
def test_harmonics_are_those_of_the_twin(rows):
    place, n_numbers = places(rows)
    frequencies = twin.frequencies(rows)
    assert n_numbers == 1 + 2 * len(frequencies) > 1
    t = np.array([0.0, 1.0, 13.25, 1.7e9])
    out = np.empty((len(t), n_numbers))
    turns = t[:, None] / rows - np.floor(t[:, None] / rows)
    for i in range(len(t)):
        fill_basis(turns[i], place, out[i])
    found = [(place[k, j], (j + 1) * turns[:, k]) for k, j in np.argwhere(place >= 0)]
    for at, angle in found:
        expected = np.sin(2 * np.pi * angle), np.cos(2 * np.pi * angle)
        # each of up to 24 products adds a few roundings
        np.testing.assert_allclose(out[:, at : at + 2].T, expected, atol=24 * 8 * EPS)
    assert (out[:, 0] == 1.0).all()
    np.testing.assert_allclose(out[:3, 1:], twin.basis(t[:3], frequencies), atol=1e-12)


@pytest.mark.parametrize(("rows", "seed"), [([24.0], 0), ([7.0, 21.0], 1), ([5.5], 2)])
def test_the_recursion_is_that_of_the_two_filters(rows, seed):
    rng = np.random.default_rng(seed)
    n = 300
    y = 1e3 + cycle(n, rows[-1], 20.0, seed=seed) + 6.0 * (np.arange(n) > 150)
    y[rng.integers(100, n, 5)] += 90.0
    y[rng.integers(0, n, 20)] = np.nan
    tracker = Tracker(rows, 1.0, 1)
    basis = twin.basis(np.arange(n), twin.frequencies(rows))
    prior = np.concatenate([[100.0], np.repeat(10.0 / twin.orders(rows) ** 2, 2)])
    both = [twin.fits(y, basis, tracker.setting, prior, chance) for chance in (0.001, 0.0)]
    done, rounding = -1, [0.0, 0.0]
    for i in range(n):
        out = tracker.step(y[i : i + 1, None], np.array([float(i)]))
        assert np.isnan(out[0, 0]) == np.isnan(y[i])
        done += not np.isnan(y[i])
        if done <= 0 or np.isnan(y[i]):
            continue
        state = tracker.state
        for k, expected in enumerate(both):
            fit = expected[done - 1]
            # the twin inverts twice a row, and a row passes its rounding on to the next ones
            rounding[k] += 8 * EPS * fit.condition
            near = {"rtol": 0, "atol": rounding[k] * np.abs(fit.coefficient).max()}
            np.testing.assert_allclose(state.coefficient[k], fit.coefficient, **near)
            near = {"rtol": 0, "atol": rounding[k] * np.abs(fit.spread).max()}
            np.testing.assert_allclose(state.spread[k], fit.spread, **near)
            assert state.scale[k] == pytest.approx(fit.scale, rel=rounding[k] * 1e3)
            assert state.correlation[k] == pytest.approx(fit.correlation, abs=rounding[k] * 1e3)
        used = 1 if state.miss[1] < 0.6 * state.miss[0] else 0
        z = twin.basis([i + 1.0], twin.frequencies(rows))[0]
        season = tracker.at(np.array([i + 1.0]))[0, 0]
        expected = z @ twin.shrunk(both[used][done - 1])
        assert season == pytest.approx(expected, abs=rounding[used] * 1e4)
    assert tracker.in_use == [True]
    assert max(rounding) < 1e-6
    assert sum(fit.jump > 0.9 for fit in both[0]) >= 6  # the shift, and each of the outliers


@pytest.mark.parametrize(("n", "lag"), [(60, 24), (400, 24), (400, 12)])
def test_the_lead_is_that_of_the_two_levels(n, lag):
    y, rows = 50.0 + cycle(n) + 6.0 * (np.arange(n) > 150), np.arange(float(n))
    tracker = Tracker([24.0], 1.0, 1, judges=True)
    tracker.setting = tracker.setting._replace(lag=lag)
    z = np.column_stack([np.ones(n), twin.basis(rows, twin.frequencies([24.0]))])
    seasons, found, trial = np.zeros(z.shape), np.zeros(n), np.zeros((n, 1))
    for i in range(n):
        write_season(tracker.state, 0, seasons[i])
        tracker.step(y[i : i + 1, None], rows[i : i + 1], trial[i : i + 1])
        found[i] = tracker.state.lead[0]
    prior = np.concatenate([[100.0], np.repeat(10.0 / twin.orders([24.0]) ** 2, 2)])
    fits = twin.fits(y, z[:, 1:], tracker.setting, prior, tracker.setting.chance)
    jumped = [False, *(fit.jump > 0.5 for fit in fits)]
    assert n < 100 or any(jumped)
    expected, net = twin.lead(y, z, seasons, tracker.setting, jumped)
    np.testing.assert_allclose(trial[:, 0], net, rtol=1e-12)
    # a term's rounding, of values near 60 in units of their noise, and as many terms as rows
    np.testing.assert_allclose(found, expected, rtol=0, atol=n * 1e4 * EPS)
    assert n < 100 or abs(found).max() > 1.0


@pytest.mark.parametrize(
    "odds", [[0.3], [0.02, 40.0], [0.05, 0.1, 0.08, 3e3, 900.0, 2e4], [0.01, 5e8, 0.01], [1e-3] * 7]
)
def test_a_jump_is_shared_as_in_the_sum_over_all_sets(odds):
    expected, found = twin.shared(0.001, np.array(odds)), np.log(odds)
    share_jumps(0.001, found)
    # a sum of n logarithms, the largest near 20, in an exponent
    np.testing.assert_allclose(found, expected, rtol=len(odds) * 100 * EPS)
    beside = np.array([-np.inf, *np.log(odds), -np.inf])  # columns that say nothing
    share_jumps(0.001, beside)
    np.testing.assert_array_equal(beside, [0.0, *found, 0.0])
    for extreme in (np.array([500.0] * 9), np.array([-115.0] * 9), np.array([-np.inf])):
        share_jumps(0.001, extreme)
        assert ((extreme >= 0.0) & (extreme <= 1.0)).all()


def test_a_step_in_many_columns_is_no_season():
    """Steps of 4 deviations that are in doubt in one column are none in six."""
    rng = np.random.default_rng(8)
    turn = 2 * np.pi * (np.arange(300)[:, None] / 100.0 + rng.uniform(size=6))
    season, level = 2.0 * np.sin(turn), np.repeat([0.0, 4.0] * 3, [37, 61, 45, 70, 33, 54])[:, None]
    y, t = season + level + rng.normal(size=season.shape), np.arange(300.0)

    def error(columns):
        found = Tracker([100.0], 1.0, y[:, columns].shape[1])
        found.step(y[:, columns], t)
        left_in = found.at(t) - season[:, columns]
        return rms(left_in - left_in.mean(axis=0))

    together, alone = error([0, 1, 2, 3, 4, 5]), [error([d]) for d in range(6)]
    assert together < 0.3 < 3.0 * together < np.mean(alone)


def test_a_step_that_comes_every_week_is_learned_and_one_that_stays_is_none():
    rng = np.random.default_rng(4)
    n = 168 * 12
    day = np.arange(n) // 24 % 7
    y = cycle(n) - 10.0 * (day >= 5)
    out = left(y, [24, 168])
    assert np.std(out[168 * 6 :]) < 1.4  # 24 harmonics leave .7 of such an edge
    regimes = 6.0 * (np.cumsum(rng.random(n) < 0.01) % 2)
    out = left(cycle(n) + regimes, 24)
    noise = np.random.default_rng(0).normal(size=n)
    assert rms((out - noise - regimes)[168 * 3 :]) < 0.3


def test_what_was_subtracted_is_the_season_at_that_time():
    y = cycle(400)
    seasons = Seasonal(24)
    seasons.learn_many(y[:300, None])
    assert seasons.in_use == {0: True}
    for i in range(300, 400):
        row = seasons.transform_one({0: y[i]})
        assert seasons.step_many(y[i : i + 1, None])["0"].to_pylist() == [row[0]]


def test_the_covariance_stays_one_over_many_rows():
    """Forgetting for 200 memories long: no drift, no loss of symmetry."""
    tracker = Tracker([6.0], 1.0, 1)
    n = 200 * round(1.0 / tracker.setting.forget)
    tracker.step(cycle(n, 6.0)[:, None], np.arange(float(n)))
    spread = tracker.state.spread[0]
    assert (spread == spread.T).all()
    # white rows: eigenvalues of about 2 / memory, a little more where a row may have been a jump
    values = np.linalg.eigvalsh(spread[1:, 1:]) / tracker.setting.forget
    assert 1.0 < values.min() <= values.max() < 4.0


def test_times_that_stand_still_do_not_wind_it_up():
    tracker = Tracker([24.0], 1.0, 1)
    y = np.random.default_rng(0).normal(size=(20_000, 1))
    tracker.step(y, np.zeros(len(y)))
    tracker.step(y, np.arange(float(len(y))))
    assert np.isfinite(tracker.state.coefficient).all()
    assert (np.diag(tracker.state.spread[0]) <= 100.0 * tracker.prior * (1 + 1e-12)).all()
    assert np.abs(tracker.at(np.arange(24.0))).max() < 0.5


@pytest.mark.parametrize("scale", [1e-100, 1e97])
def test_extremes(scale):
    y = cycle(600) * scale
    usual = left(cycle(600), 24)
    np.testing.assert_allclose(left(y, 24) / scale, usual, rtol=1e-6, atol=1e-6)
    y[300] = 1e100
    y[310:320] = 0.0
    assert np.isfinite(left(y, 24)).all()


def test_columns_of_one_value_and_of_none():
    table = pa.table({"flat": np.full(300, 2.5), "none": pa.array([None] * 300, pa.float64())})
    for period in 24, "auto":
        seasons = Seasonal(period)
        out = seasons.step_many(table)
        assert (out["flat"].to_numpy() == 2.5).all()
        assert out["none"].null_count == 300
        assert seasons.in_use == {"flat": False, "none": False}


# -- when it is used, and what it leaves -----------------------------------------------------------


def test_level_stays_and_season_goes():
    y = cycle(1500)
    y[800:] += 7.0
    out = left(y, 24)
    truth = np.random.default_rng(0).normal(size=1500) + 7.0 * (np.arange(1500) >= 800)
    assert rms(out[200:] - truth[200:]) < 0.35  # of noise 1, in which 22 numbers are estimated
    assert out[850:1500].mean() - out[100:800].mean() == pytest.approx(7.0, abs=0.2)


def test_each_column_by_itself():
    X = np.column_stack([cycle(800), np.random.default_rng(1).normal(size=800)])
    seasons = Seasonal(24)
    out = seasons.step_many(X)
    assert seasons.in_use[0]
    # of noise, the 22 coefficients of 8 days would be .2; they are shrunk
    assert rms(out["1"].to_numpy()[100:] - X[100:, 1]) < 0.2
    assert rms(out["0"].to_numpy()[400:]) < 1.3 < rms(X[400:, 0]) / 2


def test_amplitudes_may_change():
    y = cycle(3000) * np.linspace(1.0, 3.0, 3000) / 3.0
    assert rms(left(y, 24)[-500:]) < 1.2
    ended = np.concatenate([cycle(1500), np.random.default_rng(3).normal(size=2500)])
    seasons = Seasonal(24)
    assert rms(seasons.step_many(ended[:, None])["0"].to_numpy()[-500:]) < 1.15


def test_a_fault_is_no_part_of_the_season():
    y = cycle(1200)
    y[600:617] += 9.0
    y[900:915] = y[900]
    usual, out = left(cycle(1200), 24), left(y, 24)
    apart = np.ones(1200, dtype=bool)
    apart[600:617] = apart[900:915] = False
    assert rms((out - usual)[apart]) < 0.2


def test_missing_rows():
    y = cycle(900)
    kept = np.flatnonzero(np.random.default_rng(5).random(900) < 0.7)
    holes = y.copy()
    holes[np.setdiff1d(np.arange(900), kept)] = np.nan
    table = pa.table({"0": pa.array(holes, from_pandas=True)})
    by_rows = Seasonal(24).step_many(table)["0"].to_numpy(zero_copy_only=False)
    by_times = left(y[kept], 24, kept.astype(float))
    assert (by_times[32:] == by_rows[kept][32:]).all()  # when the gap between rows is known
    assert rms(by_times[400:]) < 1.25


# -- periods ---------------------------------------------------------------------------------------


def test_names_of_periods():
    assert read_periods("day") == ([DAY], True)
    assert read_periods("week") == ([DAY, 7 * DAY], True)
    assert read_periods(["12h", "hour"]) == ([3600.0, 43200.0], True)
    assert read_periods((24, 168)) == ([24.0, 168.0], False)
    for bad in ("month", [], 0.0, ["day", None], True, "100 rows"):
        with pytest.raises(ConfigError, match="period"):
            Seasonal(bad)


def test_the_clock_needs_times():
    with pytest.raises(SchemaError, match="every row needs a time"):
        Seasonal("day").learn_one({"a": 1.0})
    with pytest.raises(SchemaError, match="every row needs a time"):
        SeqDDCRP(season="day").learn_one({"a": 1.0})
    seasons = Seasonal("day")
    start = datetime(2024, 3, 1)
    for i, value in enumerate(cycle(200)):
        seasons.learn_one({"a": value}, start + timedelta(hours=i))
    assert seasons.periods == (DAY,)
    assert seasons.in_use == {"a": True}
    with pytest.raises(OrderError):
        seasons.transform_one({"a": 1.0}, start)


def test_a_period_of_less_than_two_rows_is_left_out(caplog):
    with caplog.at_level(logging.WARNING, "streamddcrp"):
        out = left(cycle(100), [24, "day"], 3600.0 * np.arange(100))
    assert "a period of 24 is shorter than 2.08 usual gaps of 3600" in caplog.text
    assert len(out) == 100


@pytest.mark.parametrize("make", [Seasonal, lambda period: SeqDDCRP(season=period)])
def test_a_period_of_endless_rows_is_left_out(make, caplog):
    """Times that hardly differ."""
    t = 1e-120 * np.arange(100)
    with caplog.at_level(logging.WARNING, "streamddcrp"):
        model = make((24, 168))
        model.learn_many(cycle(100)[:, None], t)
    assert "a period of 168 is longer than 9.01e+15 usual gaps" in caplog.text
    assert type(model).from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()


@pytest.mark.parametrize(("period", "n"), [(24.0, 192), (7.0, 128), (53.2, 384), (120.0, 768)])
def test_periods_are_found(period, n, caplog):
    seasons = Seasonal()
    with caplog.at_level(logging.INFO, "streamddcrp"):
        seasons.learn_many(cycle(n, period)[:, None])
    (found,) = seasons.periods
    assert found == pytest.approx(period, rel=0.01)
    assert f"season: {found:.4g} rows, found in the first" in caplog.text


def test_a_day_and_a_week_are_found_and_named(caplog):
    t = np.arange(1600)
    y = cycle(1600) * np.where((t // 24) % 7 >= 5, 0.5, 1.0) - 5.0 * ((t // 24) % 7 >= 5)
    seasons = Seasonal()
    with caplog.at_level(logging.INFO, "streamddcrp"):
        seasons.learn_many(y[:, None], (1.7e9 + 3600.0 * t).astype("datetime64[s]"))
    assert seasons.periods == (DAY, 7 * DAY)
    assert "season: a day, found in the first" in caplog.text
    assert "season: a day and a week, found" in caplog.text


def nothing(kind, seed, n=1024):
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=n)
    if kind == "walk":
        return np.cumsum(noise)
    if kind == "autoregression":
        for i in range(1, n):
            noise[i] = 0.95 * noise[i - 1] + np.sqrt(1 - 0.95**2) * noise[i]
    if kind == "shifts":
        noise += np.cumsum(8.0 * rng.normal(size=n) * (rng.random(n) < 0.01))
    if kind == "trend":
        noise += 0.02 * np.arange(n)
    if kind == "regimes":
        noise += 6.0 * (np.cumsum(rng.random(n) < 1 / 30) % 2)
    return noise


KINDS = ("white", "walk", "autoregression", "shifts", "trend", "regimes")


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_found_where_nothing_is(kind):
    for seed in range(3):
        y = nothing(kind, seed)[:, None]
        assert estimate_periods(y, None) == []
        assert estimate_periods(y, 3600.0 * np.arange(len(y))) == []
        out = Seasonal((24, 168)).step_many(y)["0"].to_numpy()
        assert rms(out - y[:, 0]) < np.std(y) / 2.0  # a given period is believed


def test_times_that_are_no_grid():
    t = np.cumsum(np.random.default_rng(0).exponential(size=400) ** 4)
    assert estimate_periods(cycle(400)[:, None], t) == []


# -- the search in portions ------------------------------------------------------------------------


def weekly(n, columns=1):
    """A cycle of 12 rows that is weaker in a sixth of seven periods, in columns of other noise."""
    t = np.arange(n)
    y = cycle(n, 12.0) * np.where((t // 12) % 7 >= 5, 0.5, 1.0) - 5.0 * ((t // 12) % 7 >= 5)
    return y[:, None] + 0.1 * np.random.default_rng(1).normal(size=(n, columns))


@pytest.mark.parametrize("work", [1, 20_000])
@pytest.mark.parametrize("clocked", [False, True])
def test_a_search_in_portions_finds_what_it_finds_at_once(work, clocked):
    X = weekly(700, 2)
    t = 7200.0 * np.arange(700) if clocked else None
    search, portions = Search(X, t), 0
    while search.found is None:
        then = Search(X, t)  # as one that was saved goes on
        if portions:
            then.look(search.n_columns or 2)
        then.leads = search.leads[:]
        search.go(work)
        then.go(work)
        assert then.leads == search.leads
        portions += 1
    assert portions > 5
    assert search.found == estimate_periods(X, t) == ([DAY, 7 * DAY] if clocked else [84.0])


def test_no_row_does_more_than_a_portion_of_a_search(monkeypatch):
    """And a search has ended before the next begins. Work counts coefficients times values."""
    done, step = [0], Tracker.step

    def counting(tracker, X, t, trial=None):
        done[0] += X.size * len(tracker.prior)
        return step(tracker, X, t, trial)

    monkeypatch.setattr(Tracker, "step", counting)
    seasons, ends = Seasonal(), {}
    for i, x in enumerate(weekly(1200, 3).tolist(), 1):
        done[0] = 0
        before = seasons._season._search
        seasons.learn_one(dict(enumerate(x)))
        search = seasons._season._search
        largest = (search or before).n_rows * 73 if search or before else 0  # 12 and 24 harmonics
        assert done[0] <= subtracted._WORK + largest + 3 * 73
        if search is not None:
            ends[search.n_rows] = i
    assert seasons.periods == (12.0, 84.0)
    assert {512, 768, 1024} <= ends.keys()  # those before may end with their row
    for stage, then in pairwise([s for s in subtracted.STAGES if s <= 1536]):
        assert ends.get(stage, 0) < then - (then - stage) // 2


def test_columns_are_looked_at_in_portions_too(monkeypatch):
    """Wherever such a search is saved, and how rows are cut; what it finds is as at once."""
    monkeypatch.setattr(subtracted, "_WORK", 20_000)
    X = np.repeat(weekly(160, 1), 30, axis=1)
    X[:, 1:] = np.random.default_rng(2).normal(size=(160, 29))
    whole, saved, parts, looked = Seasonal(), Seasonal(), [], []
    expected = whole.step_many(X)
    parts.append(saved.step_many(X[:120]))
    for x in X[120:]:
        saved = Seasonal.from_bytes(saved.to_bytes())
        parts.append(saved.step_many(x[None]))
        search = saved._season._search
        looked.append(-1 if search is None else search.n_columns)
    most = math.ceil(20_000 / (periods._LOOK * (128 + periods._LOOK_ROWS)))
    assert looked[7:12] == [most, 2 * most, 3 * most, 0, 0]
    assert pa.Table.from_batches(parts).equals(pa.Table.from_batches([expected]).combine_chunks())
    assert saved.to_bytes() == whole.to_bytes()
    assert saved.periods == tuple(estimate_periods(X[:128], None)) == (12.0,)


def test_a_model_is_saved_in_the_midst_of_a_search(monkeypatch):
    """Whatever the cutting: before it knows, and while what it found learns the rows so far."""
    monkeypatch.setattr(subtracted, "_WORK", 40_000)
    X = weekly(450, 2)
    whole = Seasonal()
    expected = whole.step_many(X)
    saved, seasons, parts, kinds = Seasonal(), Seasonal(), [], set()
    parts.append(saved.step_many(X[:380]))
    for x in X[380:410]:
        saved = Seasonal.from_bytes(saved.to_bytes())
        parts.append(saved.step_many(x[None]))
        search = saved._season._search
        kinds.add((search is not None, saved._season._next is not None))
    parts.append(saved.step_many(X[410:]))
    seasons.learn_many(X)
    assert kinds == {(True, False), (True, True), (False, False)}
    assert pa.Table.from_batches(parts).equals(pa.Table.from_batches([expected]).combine_chunks())
    assert saved.to_bytes() == seasons.to_bytes() == whole.to_bytes()


# -- in models -------------------------------------------------------------------------------------


def shifted(n=1500):
    regime = (np.arange(n) // 500) % 2
    return cycle(n) + 7.0 * regime, regime


def test_regimes_under_a_cycle():
    y, regime = shifted()
    out = SeqDDCRP(season=24).step_many(y[:, None])
    assert adjusted_rand_score(out["label"].to_numpy()[64:], regime[64:]) > 0.9
    found, _ = change_points(out["p_change"].to_numpy(zero_copy_only=False))
    late = found[found > 200]
    assert len(late) == 2
    assert abs(late - [500, 1000]).max() <= 3
    plain = SeqDDCRP(season=None).step_many(y[:, None])
    assert adjusted_rand_score(plain["label"].to_numpy()[64:], regime[64:]) < 0.5


def test_predictions_are_of_the_time_of_the_row():
    y, _ = shifted(900)
    model = SeqDDCRP(season=24)
    model.learn_many(y[:, None], np.arange(900.0))
    usual = cycle(924)[900:] - np.random.default_rng(0).normal(size=924)[900:] + 7.0
    in_phase = [model.score_one({0: v}, 900.0 + i) for i, v in enumerate(usual)]
    out_of_phase = [model.score_one({0: v}, 912.0 + i) for i, v in enumerate(usual)]
    assert np.mean(out_of_phase) > np.mean(in_phase) + 1.0


def test_counts_have_no_season():
    for family in ("gamma_poisson", 1.0, 1.0), ("beta_bernoulli", 1.0, 1.0):
        with pytest.raises(ConfigError, match="season"):
            SeqDDCRP(likelihood=family, season=24)
    counts = np.random.default_rng(0).poisson(3.0, (300, 1))
    SeqDDCRP(season=24).learn_many(counts)


# -- without a name --------------------------------------------------------------------------------


def both(rows, gap, **options):
    """Return outputs with and without the season of the clock, and the model with it."""
    model, t = SeqDDCRP(**options), 1.7e9 + gap * np.arange(len(rows))
    return model.step_many(rows, t), SeqDDCRP(season=None, **options).step_many(rows, t), model


def test_the_day_is_found_and_the_rows_so_far_learned_again(caplog):
    y, regime = shifted()
    with caplog.at_level(logging.INFO, "streamddcrp"):
        found, plain, _ = both(y[:, None], 3600.0)
    assert "season: a day, found in the first 96 rows" in caplog.text
    labels = (out["label"].to_numpy()[64:] for out in (found, plain))
    scores = [adjusted_rand_score(found, regime[64:]) for found in labels]
    assert scores[0] > 0.9 > 0.5 > scores[1]
    assert len(set(found["label"].to_pylist()[512:])) == 2  # ids of the rows before are taken over


@pytest.mark.parametrize("kind", ["white", "walk", "regimes"])
def test_without_a_season_nothing_changes(kind):
    found, plain, model = both(nothing(kind, 5)[:, None], 3600.0)
    assert found.equals(plain)
    assert model._season is not None  # and still looks


def test_a_cycle_below_the_noise_is_left_in():
    """It leads in the end, and splits no regime."""
    y = 0.6 * cycle(3000, 24) / rms(cycle(3000, 24)) + nothing("white", 6, 3000)
    found, plain, model = both(y[:, None], 3600.0)
    assert found.equals(plain)
    assert model._season._watch.trial.state.lead.max() > model._season._watch.needed
    (share,) = model._season._watch.trial.shares()
    assert share == pytest.approx(0.36 / 1.36, abs=0.08)


@pytest.fixture(scope="module")
def requests():
    """Counts whose day multiplies them beside a level whose day adds, an hour apart; half at last.

    And the model that has learned all but the last row, with what it said.
    """
    rng, n = np.random.default_rng(3), 900
    regime = np.arange(n) >= 600
    day = np.sin(2 * np.pi * np.arange(n) / 24)
    mean = 100.0 * np.exp(0.8 * day) * np.where(regime, 0.4, 1.0)
    counts = rng.negative_binomial(20, 20.0 / (20.0 + mean)).astype(float)
    rows = np.column_stack([counts, 50.0 + 5.0 * day + rng.normal(size=n)])
    model, t = SeqDDCRP(), 1.7e9 + 3600.0 * np.arange(n)
    return rows, t, regime, model, model.step_many(rows[:-1], t[:-1])


def test_a_season_that_multiplies_is_divided_by(requests):
    rows, t, regime, model, out = requests
    np.testing.assert_array_equal(model._season.offsets, [1.0, np.nan])
    labels = out["label"].to_numpy()[256:]
    assert adjusted_rand_score(labels, regime[256:-1]) > 0.9
    net = model._season.less(rows, t)
    day = [net[:600, 0].reshape(-1, 24)[4:, hours] for hours in (slice(3, 9), slice(15, 21))]
    assert abs(day[0].std() / day[1].std() - 1.0) < 0.3  # by day and by night; 5 as measured
    row, when = rows[-1], t[-1]
    told = {part.name: part for part in model.explain_one(dict(enumerate(row)), when).parts}
    below = net[500:600, 0].mean(), net[601:899, 0].mean()
    factor = (row[0] + 1.0) / (net[-1, 0] + 1.0)
    assert factor == pytest.approx(np.exp(0.8 * np.sin(2 * np.pi * 899 / 24)), rel=0.2)
    assert told["0"].expected == pytest.approx(factor * below[1], rel=0.1)
    assert below[1] < 0.5 * below[0]


def test_a_season_that_multiplies_is_stored_and_cut(requests):
    rows, t, _, model, out = requests
    loaded = SeqDDCRP.from_bytes(model.to_bytes())
    for one in model, loaded:
        one.learn_one(dict(enumerate(rows[-1].tolist())), float(t[-1]))
    assert loaded.to_bytes() == model.to_bytes()
    other, parts = SeqDDCRP(), []
    for a, b in pairwise([0, 31, 64, 65, 300, 899]):
        parts.append(other.step_many(rows[a:b], t[a:b]))
        other = SeqDDCRP.from_bytes(other.to_bytes())
    assert pa.Table.from_batches(parts).combine_chunks().to_batches()[0].equals(out)


def test_the_scale_of_a_week_that_is_given_is_known_after_days(requests):
    """As long as no older rows would be forgotten for it."""
    rows, t, *_ = requests
    tracker = Tracker([DAY, 7 * DAY], 3600.0, 2)
    few, many = (choose(tracker, rows[:200], t[:200], None, all_rows=known) for known in (0, 1))
    assert few == (tracker, None, None)
    np.testing.assert_array_equal(many.offsets, [1.0, np.nan])
    assert many.predicted.all()
    assert not choose(tracker, rows[:47], t[:47], None, all_rows=True).predicted


def test_only_what_is_above_zero_has_a_scale():
    X = np.array([[0.0, 2.5, 0.0, -1.0, np.nan], [7.0, 0.1, 0.5, 3.0, 4.0]])
    offsets = offsets_of(X)
    np.testing.assert_array_equal(offsets, [1.0, 0.0, np.nan, np.nan, 1.0])
    np.testing.assert_allclose(values(logs(X, offsets), X, offsets), X, rtol=1e-15, atol=1e-15)
    later = np.array([[-5.0, 0.0, 1.0, 1.0, 1.0]])
    found = values(logs(later, offsets) - 2.0, later, offsets)
    np.testing.assert_allclose(found, [[-5.0, 0.0, -1.0, -1.0, 2.0 * np.exp(-2.0) - 1.0]])


def test_rounded_columns_stay_rounded_under_a_season(caplog):
    """Their values less the season lie on no grid; what is known of each is no more than before."""
    y, regime = shifted()
    with caplog.at_level(logging.INFO, "streamddcrp"):
        found, _, model = both(np.round(y[:, None]), 3600.0)
    assert "season: a day" in caplog.text
    assert "'0' is rounded to steps of 1" in caplog.text
    assert model._stream.likelihood.step == (1.0,)
    assert adjusted_rand_score(found["label"].to_numpy(), regime) > 0.9


@pytest.mark.parametrize("period", [24.0, 36.7])
def test_rows_without_times_show_their_period(period, caplog):
    n = 2000
    regime = (np.arange(n) > 500).astype(int) - (np.arange(n) > 1000)
    turn = 2.0 * np.pi * np.arange(n) / period
    y = 4.0 * np.sin(turn) + np.random.default_rng(3).normal(size=n) + 6.0 * regime
    whole, parts = SeqDDCRP(), SeqDDCRP()
    with caplog.at_level(logging.INFO, "streamddcrp"):
        label = whole.step_many(y[:, None])["label"].to_numpy()
    assert "season: " in caplog.text
    assert whole._season.tracker.periods[0] == pytest.approx(period, rel=0.01)
    assert adjusted_rand_score(label[300:], regime[300:]) > 0.8
    for part in np.split(y[:, None], [100, 255, 256, 257, 300, 700, 1201]):
        parts.learn_many(part)
        parts = SeqDDCRP.from_bytes(parts.to_bytes())
    assert parts.to_bytes() == whole.to_bytes()


@pytest.mark.parametrize("seed", range(3))
def test_noise_and_regimes_without_times_show_no_period(seed):
    rng = np.random.default_rng([seed, 44])
    stays = np.repeat(np.arange(40) % 3, rng.integers(20, 80, 40))[:1500]
    for y in (
        rng.normal(size=1500),
        rng.normal(size=1500).cumsum(),
        5.0 * stays + rng.normal(size=1500),
    ):
        model, plain = SeqDDCRP(), SeqDDCRP(season=None)
        assert model.step_many(y[:, None]).equals(plain.step_many(y[:, None]))


def test_of_a_period_and_its_multiples_the_period_is_likely():
    turn = 2.0 * np.pi * np.arange(1000) / 50.0
    rng = np.random.default_rng(7)
    X = np.column_stack([np.sin(turn) + np.sin(2.0 * turn), np.cos(turn), np.zeros(1000)])
    assert likely_period(X + 0.5 * rng.normal(size=(1000, 3))) == 50.0
    assert likely_period(rng.normal(size=(1000, 3))) is None
    assert likely_period(np.full((1000, 2), np.nan)) is None


def test_a_season_of_numbers_is_subtracted_beside_flags(caplog):
    rng = np.random.default_rng(2)
    state = (np.arange(1500) // 130) % 2
    flags = rng.random(1500) < np.where(state == 1, 0.9, 0.1)
    table = pa.table({"y": cycle(1500) + 3.0 * state, "flag": flags})
    with caplog.at_level(logging.INFO, "streamddcrp"):
        found, plain, model = both(table, 3600.0)
    assert model._season.uses.tolist() == [False, True]  # by name: the flag first
    kinds = {at: type(part).__name__ for part, at in model._stream.likelihood.parts}
    assert kinds == {(1,): "NormalGamma", (0,): "BetaBernoulli"}
    scores = [
        adjusted_rand_score(state[500:], out["label"].to_numpy()[500:]) for out in (found, plain)
    ]
    assert scores[0] > max(0.8, scores[1])


def test_a_season_of_flags_is_left_in(caplog):
    day = (np.arange(900) % 24 < 12) * 1.0
    table = pa.table({"flag": (np.random.default_rng(2).random(900) < 0.1 + 0.8 * day)})
    found, plain, model = both(table, 3600.0)
    assert found.equals(plain)
    assert model._season is None or model._season.tracker is None


def test_a_week_beside_the_day_must_lead_over_the_day():
    t = np.arange(168 * 16)
    weekend = (t // 24) % 7 >= 5
    for y, expected in (
        (cycle(len(t)) * np.where(weekend, 0.5, 1.0) - 3.0 * weekend, (DAY, 7 * DAY)),
        (cycle(len(t)), (DAY,)),
    ):
        seasons = Seasonal("calendar")
        seasons.learn_many(y[:, None], 3600.0 * t)
        assert seasons.periods == expected
    seasons = Seasonal("calendar")
    seasons.learn_many(cycle(300, 7.0)[:, None], DAY * np.arange(300))
    assert seasons.periods == (7 * DAY,)


def test_what_is_on_trial():
    assert on_trial(600.0, [], 6) == [DAY]
    assert on_trial(600.0, [DAY], 6) == [DAY, 7 * DAY]
    assert on_trial(DAY, [], 6) == [7 * DAY]
    assert on_trial(60.0, [DAY], 6) == []  # 10,080 rows
    assert on_trial(1.0, [], 6) == on_trial(7 * DAY, [], 6) == on_trial(600.0, [], 9) == []
    n, stops = 0, []
    while n < 5000:
        n = looks(n)
        stops.append(n)
    assert all(looks(n) in stops for n in range(4000))  # wherever one starts
    assert all(b - a <= max(16, a / 8) for a, b in pairwise(stops))


def late(n=1700):
    """Days of 700 rows, and their times: found after the warm-up, as two must have passed."""
    y = cycle(n, 700.0, 12.0)[:, None] + 9.0 * (np.arange(n) // 800 % 2)[:, None]
    return y, DAY / 700.0 * np.arange(n)


def test_the_last_rows_are_kept_and_their_numbers_stay():
    """A season that is found after more rows than are kept; cut and stored in between."""
    n = 2400
    y, t = late(n)
    whole, parts, out = SeqDDCRP(), SeqDDCRP(), []
    expected = whole.step_many(y, t)
    for a, b in ((0, 333), (333, 1390), (1390, 1391), (1391, 1800), (1800, n)):
        out.append(parts.step_many(y[a:b], t[a:b]))
        parts = SeqDDCRP.from_bytes(parts.to_bytes())
        assert len(parts.to_bytes()) < 600_000
    assert pa.Table.from_batches(out).equals(pa.Table.from_batches([expected]))
    assert parts.to_bytes() == whole.to_bytes()
    assert whole._season.tracker is not None
    table = whole.summary()
    assert max(table["last_seen"].to_pylist()) == n - 1
    assert min(table["born"].to_pylist()) >= 384  # 1,024 rows before the first look at two days


def rows_of_contest(X, t):
    """Return the row with which a contest for the season begins, and that with which it ends."""
    model, on = SeqDDCRP(columns=LEVEL), []
    model.learn_many(X[:1300], t[:1300])
    for i in range(1300, len(X)):
        model.learn_many(X[i : i + 1], t[i : i + 1])
        if model._early is not None and model._early.contest is not None:
            on.append(i + 1)
    assert on == [*range(on[0], on[-1] + 1)]
    return on[0], on[-1] + 1


JUDGING = 2 * 8 * 512  # rows with a season and without it, that many priors learn


def test_no_row_waits_for_more_than_one_candidate(monkeypatch):
    """Rows are counted that engines learn; with the last row of a contest those that came since."""
    X, t = late()
    begun, ended = rows_of_contest(X, t)
    assert begun > 1400
    assert 10 < ended - begun < 30
    done, step, run = [0], Engine.step, contest.run

    def counting(engine, rows, times):
        done[0] += len(rows)
        return step(engine, rows, times)

    def counting_trials(config, state, rows, times, given, out, begun):
        done[0] += len(rows) - begun
        return run(config, state, rows, times, given, out, begun)

    monkeypatch.setattr(Engine, "step", counting)
    monkeypatch.setattr(contest, "run", counting_trials)
    model = SeqDDCRP(columns=LEVEL)
    model.learn_many(X[:1300], t[:1300])
    for i in range(1300, len(X)):
        done[0] = 0
        model.learn_many(X[i : i + 1], t[i : i + 1])
        most = 1024 if begun < i + 1 <= ended else JUDGING if i + 1 == begun else 0
        late_rows = ended - begun if i + 1 == ended else 0
        assert done[0] <= 1 + most + late_rows


def test_a_contest_over_rows_is_that_at_once():
    """The old engine answers as if nothing were known; the best one has learned all rows."""
    X, t = late()
    begun, ended = rows_of_contest(X, t)
    spread, at_once = SeqDDCRP(columns=LEVEL), SeqDDCRP(columns=LEVEL)
    plain = SeqDDCRP(season=None, columns=LEVEL)
    for model in spread, at_once, plain:
        model.learn_many(X[:begun], t[:begun])
    at_once._end_contest()
    for i in range(begun, ended):
        row = X[i : i + 1], t[i : i + 1]
        asked = dict(enumerate(X[i].tolist()))
        assert spread.predict_proba_one(asked, t[i]) == plain.predict_proba_one(asked, t[i])
        if i + 1 < ended:
            assert spread.step_many(*row).equals(plain.step_many(*row))
            assert spread.summary().equals(plain.summary())
            assert spread.nbytes > at_once.nbytes
            at_once.learn_many(*row)
    last = X[ended - 1 : ended], t[ended - 1 : ended]
    spread.learn_many(*last)
    at_once.learn_many(*last)
    assert spread._early.contest is None
    named = {"table.ids", "atoms.reported", "counts"}
    found, expected = (model._stream.kept() for model in (spread, at_once))
    assert found[1] == expected[1]
    for name in found[0].keys() - named - {n for n in found[0] if n.startswith("events.")}:
        np.testing.assert_array_equal(found[0][name], expected[0][name], err_msg=name)


def test_a_model_is_saved_in_the_midst_of_a_contest():
    X, t = late(1600)
    begun, ended = rows_of_contest(X, t)
    whole, parts, out = SeqDDCRP(columns=LEVEL), SeqDDCRP(columns=LEVEL), []
    expected = whole.step_many(X, t)
    out.append(parts.step_many(X[: begun - 1], t[: begun - 1]))
    for i in range(begun - 1, ended):
        out.append(parts.step_many(X[i : i + 1], t[i : i + 1]))
        parts = SeqDDCRP.from_bytes(parts.to_bytes())
        assert (parts._early.contest is not None) == (begun <= i + 1 < ended)
    out.append(parts.step_many(X[ended:], t[ended:]))
    assert pa.Table.from_batches(out).equals(pa.Table.from_batches([expected]))
    assert parts.to_bytes() == whole.to_bytes()


def test_a_reference_ends_a_contest():
    """It is taken of the new engine, whose rows come less their season; and can be saved there."""
    X, t = late()
    begun, ended = rows_of_contest(X, t)
    detector = RegimeAnomalyDetector(SeqDDCRP(columns=LEVEL), reference_after=begun + 5)
    detector.learn_many(X[: begun + 5], t[: begun + 5])
    model = detector._model
    assert model._season is not None
    assert model._early is None
    assert begun + 5 < ended
    loaded = RegimeAnomalyDetector.from_bytes(detector.to_bytes())
    for one in detector, loaded:
        one.learn_many(X[begun + 5 :], t[begun + 5 :])
    assert loaded.to_bytes() == detector.to_bytes()


def test_a_detector_is_saved_where_its_reference_is_taken():
    """Though a season was sought up to this row."""
    X, t = np.random.default_rng(0).normal(size=(450, 1)), 3600.0 * np.arange(450)
    detector = RegimeAnomalyDetector(SeqDDCRP(), reference_after=400)
    detector.learn_many(X[:400], t[:400])
    loaded = RegimeAnomalyDetector.from_bytes(detector.to_bytes())
    for one in detector, loaded:
        one.learn_many(X[400:], t[400:])
    assert loaded.to_bytes() == detector.to_bytes()


def test_a_reference_ends_the_search():
    rows, t = cycle(400)[:, None], 3600.0 * np.arange(400)
    detector = RegimeAnomalyDetector(SeqDDCRP(), reference_after=40)  # a day needs 80
    detector.learn_many(rows, t)
    model = detector._model
    assert model._laws is None or model._laws.next_look is None
    assert model._season is None or model._season.is_over


def test_seasons_by_key_and_of_a_detector():
    y, _ = shifted(600)
    table = pa.table({"key": ["a", "b"] * 300, "x": y})
    fleet = Keyed(SeqDDCRP(season=12), by="key")
    fleet.learn_many(table)
    alone = SeqDDCRP(season=12)
    alone.learn_many(pa.table({"x": y[::2]}))
    assert fleet.model_of("a").to_bytes() == alone.to_bytes()
    rows = cycle(2000)[:, None]
    rows[1900:1920] += 3.0  # inside the range of the cycle
    found = {}
    for season in None, 24:
        detector = RegimeAnomalyDetector(
            SeqDDCRP(season=season), rate=0.002, average=10, reference_after=600
        )
        found[season] = detector.step_many(rows)["alarm"].to_numpy(zero_copy_only=False)
    assert found[24][1900:1930].sum() > found[None][1900:1930].sum() + 10
    assert found[24][700:1900].sum() <= 24  # two false alarms, each of the rows averaged


def test_holidays_of_new_york(shared_data):
    """The series of the picture: with a season, changes are those that people know of."""
    path = shared_data / "nab" / "nab.parquet"
    table = pq.read_table(path, filters=[("series", "=", "nyc_taxi")])
    values, times = table["value"].to_numpy()[:, None], table["timestamp"].to_numpy()
    known = table["anomaly_window"].to_numpy(zero_copy_only=False)
    window = np.cumsum(np.diff(known.astype(int), prepend=0) == 1) * known  # numbered, 0: outside
    late, found = 1344, {}  # after four weeks
    for season in None, "week":
        out = SeqDDCRP(season=season).step_many(values, times)
        rows, _ = change_points(out["p_change"].to_numpy(zero_copy_only=False))
        found[season] = window[rows[rows >= late]]
    assert len(set(found["week"]) - {0}) >= 3 + len(set(found[None]) - {0})  # of five
    assert np.mean(found["week"] > 0) >= 0.5


def test_one_event_proves_no_season():
    """Rows less a season that a few of them favour by far lead by 4 nats more at most."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 1))
    net = X.copy()
    X[66:70] += 40.0
    whole, pieces = Rivals(1, 32), Rivals(1, 32)
    whole.step(X, net)
    for a in range(0, 80, 7):
        pieces.step(X[a : a + 7], net[a : a + 7])
    raw, less = whole.scores
    assert less[0] - raw[0] > 2.0 * SAY
    assert whole.leads[0] == pieces.leads[0] <= SAY


def office(seed, days=42):
    """Power by levels, air that lags behind people on weekdays, weather; half hours from Monday."""
    rng, n = np.random.default_rng([seed, 79]), 48 * days
    at = np.arange(n)
    state = ((at // 48 % 7 < 5) & (at % 48 >= 16) & (at % 48 < 36)).astype(int)
    for _ in range(8):
        begin = int(rng.integers(144, n))
        state[begin : begin + int(rng.integers(20, 70))] = 2
    power = np.array([1.0, 9.0, 14.0])[state] * rng.lognormal(0.0, 0.08, n)
    people = np.array([0.0, 500.0, 250.0])[state]
    a = np.exp(-0.5)
    air = 420.0 + lfilter([1.0 - a], [1.0, -a], people) + 12.0 * rng.normal(size=n)
    drift = lfilter([1.0], [1.0, -0.98], rng.normal(0.0, np.sqrt(1.0 - 0.98**2), n))
    weather = 10.0 + 5.0 * np.sin(2.0 * np.pi * at / 48.0 - 2.0) + 1.5 * drift
    return np.column_stack([power, air, weather])[:816], 1800.0 * at[:816]


def test_a_plan_that_is_broken_loses_its_season(caplog):
    """Five equal days are a season of the air, until the week end."""
    X, t = office(1)
    whole, parts = SeqDDCRP(), SeqDDCRP()
    with caplog.at_level(logging.INFO, "streamddcrp"):
        whole.learn_many(X, t=t)
    assert "season: a day, found" in caplog.text
    assert "season: not of '1' any more" in caplog.text
    assert whole._season.uses.tolist() == [False, False, True]
    for a, b in pairwise([0, 150, 250, 300, 333, 420, 600, len(X)]):
        parts.learn_many(X[a:b], t=t[a:b])
        parts = SeqDDCRP.from_bytes(parts.to_bytes())
    assert parts.to_bytes() == whole.to_bytes()
