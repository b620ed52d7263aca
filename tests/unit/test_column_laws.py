"""Laws of columns: their filters against slow twins, which law is chosen, what comes of it."""

import logging
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from scipy.signal import lfilter
from sklearn.metrics import adjusted_rand_score

from streamddcrp import SeqDDCRP
from streamddcrp.data.laws.columns import Laws
from streamddcrp.data.laws.filters import (
    AMONG,
    INNOVATION,
    LEVEL,
    NOTHING,
    Filters,
    Law,
    Scale,
    scale_of,
)
from streamddcrp.data.laws.rivals import Rivals
from streamddcrp.data.laws.scales import back, is_whole, log_slopes, onto, scale_by_rows
from streamddcrp.errors import CheckpointError, ConfigError, SchemaError
from streamddcrp.likelihoods.columns import column_powers, column_steps
from streamddcrp.models.seqddcrp.contest import Contest
from streamddcrp.models.seqddcrp.warmup import JUDGED, WarmUp
from tests.oracles import laws as twin

STILL = [law for law in AMONG["auto"] if not law.jumps]
SCALE = Scale(2.0, 50.0, 3.0, 0.0)


def drifting(n, phi, seed, amplitude=1.0, noise=0.3):
    rng = np.random.default_rng(seed)
    drift = lfilter([1.0], [1.0, -phi], rng.normal(size=n))
    scale = amplitude * np.sqrt(1.0 - phi * phi) if phi < 1.0 else amplitude
    return scale * drift + noise * rng.normal(size=n)


def pump(n, seed):
    """A pump's states, which last about a hundred rows, and its flow."""
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.choice(np.arange(10, n), n // 100, replace=False))
    state = np.searchsorted(cuts, np.arange(n), side="right") % 2
    return state, 10.0 * state + rng.normal(size=n)


def foreseen(law, y, cuts=()):
    """What one law has foreseen, in pieces."""
    filters, score, out = Filters.of(1), np.zeros(1), []
    filters.begin(0, law, SCALE, INNOVATION)
    for part in np.split(y, cuts):
        out.append(part - filters.step(part[:, None], score)[:, 0] + SCALE.center)
    return np.concatenate(out), score[0], filters


# -- the filters -----------------------------------------------------------------------------------


@pytest.mark.parametrize("law", [*STILL, Law(0.0, 0.0, jumps=False)])
def test_without_jumps_a_law_is_the_regression_on_its_past(law):
    """With q = 0 it is a Student's t regression on a constant, else a Kalman filter."""
    y = SCALE.center + drifting(60, max(law.phi, 0.5), 3)
    expected = twin.one_step(y, SCALE.center, twin.covariance(law, SCALE.jump, len(y)))
    found, score, _ = foreseen(law, y)
    # a system of n equations is solved for each value; its condition is at most n times V
    near = 60 * SCALE.jump * (1.0 + law.q) * 60 * np.finfo(float).eps
    np.testing.assert_allclose(found, [mean for mean, _ in expected], rtol=0, atol=near * 10)
    assert score == pytest.approx(twin.scores(y, expected, SCALE.noise).sum(), abs=near * 1e3)


@pytest.mark.parametrize("law", [law for law in AMONG["auto"] if law.trend])
def test_a_trend_is_the_regression_on_its_past(law):
    y = SCALE.center + np.cumsum(drifting(40, 0.9, 5, noise=0.0))
    jump = SCALE.jump * (1.0 - law.phi) ** 2
    cov = twin.covariance(law, 0.0, len(y)) + SCALE.jump  # the level is unknown by as much
    expected = [mean for mean, _ in twin.one_step(y, SCALE.center, cov)]
    found, _, filters = foreseen(law._replace(jumps=False), y)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7)
    assert filters.laws.law[0, 2] == pytest.approx(jump)


@pytest.mark.parametrize("law", AMONG["auto"])
def test_weights_stay_a_distribution_and_nothing_depends_on_the_cuts(law):
    y = drifting(300, 0.9, 7) + 8.0 * (np.arange(300) > 140) - 30.0 * (np.arange(300) == 250)
    y[[20, 21, 200]] = np.nan
    found, score, filters = foreseen(law, y)
    parts, again, other = foreseen(law, y, [1, 2, 64, 199, 201])
    np.testing.assert_array_equal(found, parts)
    assert score == again
    for a, b in zip(filters.columns, other.columns, strict=True):
        np.testing.assert_array_equal(a, b)
    assert np.exp(filters.columns.log_w[0]).sum() == pytest.approx(1.0, abs=1e-12)
    assert (filters.columns.guess[0, :, [2, 4]] >= -1e-9).all()
    ahead = filters.ahead()
    net = filters.step(np.array([[5.0]]), np.zeros(1))
    assert net[0, 0] == 5.0 - ahead[0]


def test_a_jump_is_seen_at_once_and_an_old_level_comes_back():
    rng = np.random.default_rng(1)
    y = SCALE.center + rng.normal(size=160) + 20.0 * (np.arange(160) // 40 % 2)
    found, _, filters = foreseen(LEVEL, y)
    means = SCALE.center + 20.0 * (np.arange(160) // 40 % 2)
    late = np.arange(160) % 40 >= 3
    # four standard errors of a mean of three values and more
    assert abs(found - means)[late].max() < 4.0 / np.sqrt(3.0) + 1.0
    assert filters.columns.n_levels[0] == 2


# -- the choice ------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", [law for law in AMONG["auto"] if law.drifts and law.phi >= 0.95])
def test_a_law_finds_back_to_a_column_that_has_moved_on(law):
    """A vessel that is heated after 400 rows at rest: its first rows tell nothing of such steps."""
    heated = np.repeat([0.0, 22.0, 0.0, 30.0, 5.0, 22.0], [400, 600, 300, 600, 300, 600])
    noise = np.random.default_rng(0).normal(size=len(heated))
    y = lfilter([1 / 60], [1, -59 / 60], heated) + 0.07 * noise
    filters, score = Filters.of(1), np.zeros(1)
    scale = scale_of(y[:400])
    filters.begin(0, law, scale, INNOVATION)
    left = filters.step(y[:, None], score)[:, 0] - scale.center
    apart = np.flatnonzero(np.diff(np.abs(left) > 2.0, prepend=False, append=False))
    lost = np.diff(apart)[::2]  # rows until the column, which moves on by 30 degrees, is found
    assert lost.max(initial=0) <= (10 if law.jumps and not law.trend else 60)


def chosen(y):
    laws = Laws()
    laws.look(y[:, None], len(y), [True], ["y"], from_scratch=True)
    laws.begin(y[:, None])
    return laws.in_words(["y"])["y"]


@pytest.mark.parametrize("seed", range(4))
def test_laws_are_chosen_by_evidence(seed):
    rng = np.random.default_rng(seed)
    assert chosen(pump(512, seed)[1]) == "level"
    assert chosen(rng.normal(size=512)) == "level"
    assert chosen(rng.lognormal(size=512)) == "level"
    assert chosen(drifting(512, 0.995, seed, 3.0)).startswith("slow: ")
    assert chosen(drifting(512, 1.0, seed)).startswith("slow: ")
    assert chosen(np.full(512, 7.0)) == "level"


@pytest.mark.parametrize("phi", [0.99, 0.999])
def test_a_slow_sensor_does_not_hide_a_pump(phi):
    state, flow = pump(2000, 11)
    X = np.column_stack([flow, drifting(2000, phi, 12, 3.0)])
    model = SeqDDCRP()
    label = model.step_many(X)["label"].to_numpy()
    assert adjusted_rand_score(state, label) > 0.9
    assert [law.split(",")[0][:4] for law in model.column_laws().values()] == ["leve", "slow"]


@pytest.mark.parametrize("phi", [0.9, 0.95, 0.975])
def test_sensors_that_forget_sooner_are_one_state_too(phi):
    """Tables of their values would be right now and then, and switch 30 to 90 times in 1,000."""
    X = np.column_stack([drifting(1500, phi, seed) for seed in range(3)])
    state = SeqDDCRP().step_many(X)["state"].to_numpy()[300:]
    assert np.count_nonzero(np.diff(state)) <= 4


def test_crisp_columns_are_learned_as_they_are():
    """To the bit: the same as where all are said to be levels."""
    state, flow = pump(900, 21)
    X = np.column_stack([flow, -2.0 * state + np.random.default_rng(5).normal(size=900)])
    one, other = SeqDDCRP(), SeqDDCRP(columns={"0": "level", "1": "level"})
    assert one.step_many(X).equals(other.step_many(X))
    assert set(one.column_laws().values()) == {"level"}


@pytest.mark.parametrize("seed", [0, 1])
def test_a_column_that_lags_and_rests_names_regimes_beside_another(seed):
    rng = np.random.default_rng(seed)
    state = np.repeat([0, 1, 2, 0, 1, 2], 600)
    level, breaks = np.array([0.0, 300.0, 150.0])[state], np.zeros(3600)
    breaks[[*range(330, 350), *range(1230, 1260), *range(1900, 1915)]] = 50.0
    noise = lfilter([0.9], [1.0, -0.8], rng.normal(size=3600))
    speed = lfilter([0.1], [1.0, -0.9], level) + noise
    found = SeqDDCRP().step_many(np.c_[speed, breaks + rng.normal(size=3600)])["state"]
    assert adjusted_rand_score(state, found.to_numpy()) > 0.65


@pytest.mark.parametrize(("swing", "law"), [(0.7, "leve"), (6.0, "slow")])
def test_a_column_that_hardly_drifts_names_regimes_beside_one_that_rests(swing, law):
    """A drift predicts both columns, but less what is foreseen no level is left."""
    state, valve = pump(2000, 1)[0], pump(2000, 101)[1]
    drift = swing * np.sin(2.0 * np.pi * np.arange(2000) / 300.0)
    flow = 40.0 * state + drift + np.random.default_rng(1).normal(size=2000)
    model = SeqDDCRP(season=None)
    label = model.step_many(np.c_[valve, flow])["label"].to_numpy()
    assert [said[:4] for said in model.column_laws().values()] == ["leve", law]
    both = 2 * state + (valve > 5.0)
    assert (adjusted_rand_score(both, label) > 0.9) == (law == "leve")


def test_a_law_can_be_given():
    y = np.random.default_rng(3).normal(size=(300, 2))
    model = SeqDDCRP(columns={0: "slow"})
    model.learn_many(y)
    assert [law[:5] for law in model.column_laws().values()] == ["slow:", "level"]
    with pytest.raises(ConfigError, match="columns: the law of 'a' must be one of"):
        SeqDDCRP(columns={"a": "fast"})
    with pytest.raises(SchemaError, match="columns: there is no column 'a' among 0"):
        SeqDDCRP(columns={"a": "slow"}).learn_many(y)
    with pytest.raises(ConfigError, match="columns: laws of columns need"):
        SeqDDCRP(columns={"a": "slow"}, likelihood=("normal_gamma",))


def test_the_log_says_what_was_found(caplog):
    with caplog.at_level(logging.INFO):
        SeqDDCRP().learn_many(drifting(400, 1.0, 2)[:, None])
    said = [record.getMessage() for record in caplog.records]
    assert sum(line.startswith("column '0' is slow: ") for line in said) in {1, 2}


def test_any_cutting_and_any_restart_gives_the_same():
    _, flow = pump(700, 31)
    X = np.column_stack([flow, drifting(700, 0.995, 32, 3.0)])
    X[np.random.default_rng(1).random(X.shape) < 0.03] = np.nan
    whole, parts, out = SeqDDCRP(), SeqDDCRP(), []
    expected = whole.step_many(X)
    for part in np.split(X, [1, 63, 65, 130, 257, 300, 301, 333, 600]):
        out.append(parts.step_many(part))
        parts = SeqDDCRP.from_bytes(parts.to_bytes())
    for name in expected.schema.names:
        found = np.concatenate([one[name].to_numpy(zero_copy_only=False) for one in out])
        np.testing.assert_array_equal(found, expected[name].to_numpy(zero_copy_only=False))
    assert whole.to_bytes() == parts.to_bytes()
    assert whole.column_laws() == parts.column_laws()
    row = {0: 1.0, 1: 2.0}
    assert whole.predict_one(row) == parts.predict_one(row)


def test_a_law_is_judged_once_and_as_by_all_priors(monkeypatch):
    """Whole contests of both views give the same verdict as those that end once one leads."""
    lead, right, asked = WarmUp.leads, [], Counter()

    def judged(self, recipe, rivals, names, first_time, least):
        plain, scores = replace(recipe, reaches=(), temper=False, warp=False, correlate=False), []
        for family, X in rivals:
            n = min(len(X), JUDGED)
            times = np.arange(self.n_rows - n, self.n_rows, dtype=float)
            whole = Contest(
                plain, family.on_grid(X[-n:]), X[-n:], times, names, None, self.n_rows - n, None
            )
            whole.go(at_once=True)
            scores.append(whole.best.score)
        by = scores[1] - scores[0]
        for needed in (-1e4, by - 1e-6, by + 1e-6, least):
            found = lead(self, recipe, rivals, names, first_time, needed)
            right.append(found == (by > needed))
        asked[self.n_rows] += 1
        return found

    monkeypatch.setattr(WarmUp, "leads", judged)
    rng = np.random.default_rng(3)
    walk = np.append(np.zeros(300), np.cumsum(0.5 * rng.normal(size=300)))
    model = SeqDDCRP()
    model.learn_many((walk + rng.normal(size=600))[:, None])
    assert "slow" in model.column_laws()["0"]
    assert all(right)
    assert {*asked.values()} == {1}


def test_a_prediction_is_that_of_the_next_row():
    _, flow = pump(500, 41)
    X = np.column_stack([flow, drifting(500, 1.0, 42)])
    model = SeqDDCRP()
    model.learn_many(X[:-1])
    score = model.score_one({0: X[-1, 0], 1: X[-1, 1]})
    assert model.step_many(X[-1:])["score"][0].as_py() == pytest.approx(score, rel=1e-12)


def test_scores_are_densities_of_the_rows():
    """A row less what its past foresees has the same density: they integrate to one."""
    y = drifting(400, 1.0, 52)[:, None]
    model = SeqDDCRP(temper=False)
    model.learn_many(y)
    grid = np.linspace(y[-1, 0] - 60.0, y[-1, 0] + 60.0, 4001)
    density = np.exp([-model.score_one({0: v}) for v in grid])
    # the prior of a new table is a Student's t whose tails lie beyond the grid
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(
    ("name", "bad"),
    [("law.laws.law", -1.0), ("law.columns.label", 40), ("law.columns.n_levels", 9)],
)
def test_a_forged_state_is_refused(name, bad):
    model = SeqDDCRP()
    model.learn_many(drifting(300, 1.0, 4)[:, None])
    arrays, meta = model._state()
    arrays[name][..., 0] = bad
    with pytest.raises(CheckpointError):
        SeqDDCRP()._laws.restore(arrays, meta["laws"], 1)


# -- seasons ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("cuts", [(), (5, 31, 40, 150)])
def test_a_plan_is_no_season_and_a_cycle_is_one(cuts):
    rng, n = np.random.default_rng(2), 1000
    turn = 2.0 * np.pi * np.arange(n) / 100.0
    plan = np.where(np.sin(turn + 0.05 * rng.normal(size=n).cumsum()) > 0.0, 10.0, 0.0)
    season = np.column_stack([5.0 * np.sin(turn), 3.0 * np.sin(turn)])
    X = np.column_stack([plan, 3.0 * np.sin(turn)]) + rng.normal(size=(n, 2))
    rivals = Rivals(2, 150)
    for rows, net in zip(np.split(X, cuts), np.split(X - season, cuts), strict=True):
        rivals.step(rows, net)
    assert rivals.leads[0] < -10.0
    assert rivals.leads[1] > 10.0
    rivals.lift(-5.0)
    assert rivals.leads[0] == pytest.approx(-5.0)
    assert rivals.leads[1] > 10.0
    assert set(rivals.filters.laws.kind[:, 1].tolist()) == {NOTHING}


def test_a_scale_is_that_of_the_noise():
    rng = np.random.default_rng(4)
    y = np.repeat([0.0, 30.0, -5.0], 100) + 2.0 * rng.normal(size=300)
    scale = scale_of(y)
    # a median of 299 differences: its relative error is about 1 / sqrt(299)
    assert scale.noise == pytest.approx(4.0, rel=6.0 / np.sqrt(299))
    assert scale_of(y[:31]) is None
    assert scale_of(np.full(100, 3.0)) is None


# -- families chosen by the model ------------------------------------------------------------------


def odd_counts(n, at):
    rng = np.random.default_rng(8)
    X = np.column_stack([rng.poisson(3.0, n), rng.normal(size=n), rng.random(n) < 0.3]) * 1.0
    X[at, 0] = -1.0
    return X


def test_an_automatic_choice_refuses_no_number(caplog):
    X = odd_counts(600, 410)
    whole, parts = SeqDDCRP(), SeqDDCRP()
    with caplog.at_level(logging.INFO):
        out = whole.step_many(X)
    assert sum("'0' is no count or flag" in one.getMessage() for one in caplog.records) == 1
    for part in np.split(X, [100, 409, 410, 411, 500]):
        parts.learn_many(part)
        parts = SeqDDCRP.from_bytes(parts.to_bytes())
    assert parts.to_bytes() == whole.to_bytes()
    assert len(out) == whole.n_seen == 600
    kinds = {at: type(part).__name__ for part, at in whole._family.parts}
    assert kinds == {(0, 1): "NormalGamma", (2,): "GammaPoisson"}
    before = SeqDDCRP().step_many(X[:410])
    assert before.equals(out.slice(0, 410))


def test_long_after_the_choice_an_odd_value_is_missing(caplog):
    X = odd_counts(4200, [4150, 4160])
    model, other = SeqDDCRP(), SeqDDCRP()
    with caplog.at_level(logging.WARNING):
        model.learn_many(X)
    assert sum("count as missing" in one.getMessage() for one in caplog.records) == 1
    X[[4150, 4160], 0] = np.nan
    other.learn_many(X)
    assert model.to_bytes() == other.to_bytes()


def test_a_family_of_the_user_still_refuses():
    model = SeqDDCRP(likelihood="gamma_poisson")
    with pytest.raises(SchemaError, match="row 410, column '0': GammaPoisson expects counts"):
        model.learn_many(odd_counts(600, 410)[:, :1])


# -- noise as it comes -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["lognormal", "negative binomial"])
def test_skewed_whole_numbers_are_no_regimes(kind):
    rng = np.random.default_rng(3)
    y = rng.lognormal(2.0, 0.8, 1500).round()
    y = y if kind == "lognormal" else rng.negative_binomial(1, 0.1, 1500) * 1.0
    label = SeqDDCRP().step_many(y[:, None])["label"].to_numpy()[300:]
    assert np.mean(np.diff(label) != 0) < 0.005


def test_values_sent_again_are_no_grid_and_count_once():
    x = np.random.default_rng(5).normal(size=200)
    twice = np.repeat(x, 2)[:, None]
    assert column_steps(twice)[0] == column_steps(x[:, None])[0] == 0.0
    # exactly twice the rows
    assert column_powers(twice)[0] == 0.5 * column_powers(x[:, None])[0]
    grid = x.round(1)[:, None]
    assert column_steps(grid)[0] == pytest.approx(0.1)


# -- scales ----------------------------------------------------------------------------------------

WANDERS = drifting(600, 0.98, 7, noise=0.0)


@pytest.mark.parametrize(
    ("x", "power"),
    [
        (10.0 + WANDERS, 1.0),
        (np.random.default_rng(8).poisson(6.0 * np.exp(0.6 * WANDERS)), 0.5),
        (np.exp(WANDERS), 0.0),
    ],
)
def test_laws_compete_on_the_scale_on_which_a_column_moves_alike(x, power):
    x = x.astype(float)
    found = scale_by_rows(x, whole=is_whole(x))
    assert found == (power, 0.5 if power == 0.5 else 0.0)


@pytest.mark.parametrize(("power", "added"), [(1.0, 0.0), (0.5, 0.5), (0.0, 0.0)])
def test_a_scale_is_undone_and_its_slope_is_that_of_differences(power, added):
    X, scales, h = np.linspace(0.2, 9.0, 12)[:, None], np.array([[power], [added]]), 1e-5
    np.testing.assert_allclose(back(onto(X, scales), X, scales), X, rtol=1e-12)
    slopes = (onto(X + h, scales) - onto(X - h, scales)) / (2.0 * h)
    np.testing.assert_allclose(np.exp(log_slopes(X, scales)), slopes, rtol=1e-7)


@pytest.mark.parametrize("seed", [0, 3])  # at 1 and 2 tables tell 300 rows as well
def test_counts_whose_rate_wanders_have_a_law(seed):
    rate = 5.0 * np.exp(0.5 * drifting(300, 0.98, seed, noise=0.0))
    x = np.random.default_rng([seed, 1]).poisson(rate).astype(float)
    model = SeqDDCRP()
    model.learn_many(x[:, None])
    assert model.column_laws()["0"].startswith("slow")
