"""Rounded, correlated, repeated and skewed columns, each formula against a slow twin."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import integrate

from streamddcrp import SeqDDCRP
from streamddcrp.errors import ConfigError
from streamddcrp.likelihoods import NormalGamma, choose_likelihood
from streamddcrp.likelihoods.columns import LONGEST, column_powers, column_steps
from streamddcrp.likelihoods.warp import Warp, find_warp
from streamddcrp.models.seqddcrp.kernels.layout import N_ROWS

X = np.array([[0.3, 1.0], [-1.2, 0.2], [0.5, -0.4], [0.1, np.nan]])
STEP = (0.4, 0.0)
WARPS = [
    Warp(1.0, 2.0, 0.5), Warp(0.0, 1.0, 0.0), Warp(-1.0, 0.5, 2.0), Warp(0.0, 1.0, 2.5),
    Warp(0.0, 1.0, -1.0), Warp(1.0, 2.0, 1.0, 1.0, -0.7, 0.1), Warp(0.0, 1.0, 1.0, -1.0, -2.0, 3.0),
]  # fmt: skip


def gaussian(**more):
    return NormalGamma(0.1, 0.3, 2.0, (0.7, 1.3), **more)


def over_the_cell(value, x):
    """Mean of ``value`` over the cell about the row x; three nodes are exact for squares."""
    nodes, weights = np.polynomial.legendre.leggauss(3)
    return sum(
        0.5 * w * value(x + np.array([0.5 * STEP[0] * u, 0.0]))
        for u, w in zip(nodes, weights, strict=True)
    )


def test_statistics_and_expectations_are_means_over_the_cell():
    plain, rounded = gaussian(), gaussian(step=STEP)
    stats = rounded.suffstats(X).sum(axis=0)
    expected = sum(over_the_cell(plain.suffstats, x) for x in X)
    assert_allclose(stats, expected, rtol=1e-12)
    assert_allclose(rounded.log_marginal(stats), plain.log_marginal(expected), rtol=1e-12)
    for x in X:
        mean = over_the_cell(lambda u: plain.expected_log_lik(u, expected), x)
        assert_allclose(rounded.expected_log_lik(x, stats), mean, rtol=1e-12)


def test_the_predictive_bounds_the_log_probability_of_the_cell():
    plain, rounded = gaussian(), gaussian(step=STEP)
    stats = rounded.suffstats(X).sum(axis=0)
    for x in X:
        value = rounded.log_predictive(x, stats)[0]
        density = lambda u, x=x: np.exp(plain.log_predictive(np.array([u, x[1]]), stats)[0])  # noqa: E731
        cell = integrate.quad(density, x[0] - 0.2, x[0] + 0.2)[0] / 0.4
        assert value <= np.log(cell) + 1e-12
        assert value >= np.log(cell) - 0.1


def test_a_power_is_a_weight_of_the_column():
    plain, tempered = gaussian(), gaussian(power=(0.5, 0.25))
    stats = tempered.suffstats(X).sum(axis=0)
    whole = plain.suffstats(X).sum(axis=0)
    assert_allclose(stats[1:].reshape(3, 2), whole[1:].reshape(3, 2) * [0.5, 0.25], rtol=1e-14)
    x = np.array([0.7, np.nan])
    for method in ("log_predictive", "expected_log_lik"):
        left, right = (getattr(family, method)(x, stats) for family in (tempered, plain))
        assert_allclose(left, 0.5 * right, rtol=1e-12)


@pytest.mark.parametrize("warp", WARPS)
@given(z=st.floats(-20.0, 20.0))
def test_maps_rise_have_these_slopes_and_can_be_undone(warp, z):
    x = np.array([z, z + 1e-5])
    image, log_slope = warp.apply(x)
    assert image[1] > image[0]
    # the slope changes by a share of 1e-4 at most over the gap; differences lose some digits
    assert_allclose(log_slope[0], np.log((image[1] - image[0]) / 1e-5), atol=1e-3)
    assert_allclose(warp.inverse(image), x, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("warp", WARPS[:2] + WARPS[5:])
def test_the_density_of_a_mapped_column_is_one_of_its_values(warp):
    family = NormalGamma(0.0, 0.5, 3.0, 1.0, warp=[warp])
    stats = family.suffstats([[0.3], [1.2], [0.5], [0.1]]).sum(axis=0)
    density = lambda x: np.exp(family.log_predictive(np.array([x]), stats)[0])  # noqa: E731
    parts = np.concatenate([-np.geomspace(1e4, 0.01, 40), [0.0], np.geomspace(0.01, 1e4, 40)])
    total = sum(integrate.quad(density, a, b)[0] for a, b in itertools.pairwise(parts))
    assert 0.98 < total < 1.0 + 1e-6  # a log scale leaves some mass beyond 1e4
    rows = family.sample(np.random.default_rng(0), stats, size=2000)
    median = family.point_estimates(stats)["mean"][0, 0]
    assert np.isfinite(rows).all()
    assert 0.2 < np.mean(rows < median) < 0.8  # given one draw of the parameter


def test_maps_are_found_where_there_is_skew():
    rng = np.random.default_rng(0)
    skewed = find_warp(rng.lognormal(size=200))
    assert skewed is not None
    assert skewed.side == 1.0
    assert find_warp(-rng.lognormal(size=200)).side == -1.0
    assert sum(find_warp(rng.normal(size=200)) is not None for _ in range(20)) <= 1
    assert find_warp(np.round(rng.lognormal(size=200))) is None
    assert find_warp(np.full(200, 3.0)) is None


@pytest.mark.parametrize("warp", [[(1.0,)], [(0.0, 0.0, 1.0, 0.0, 0.0, 1.0)], "log", []])
def test_maps_are_checked(warp):
    with pytest.raises(ConfigError, match="warp must be None or the 6 numbers"):
        NormalGamma(0.0, 0.5, 3.0, 1.0, warp=warp)


def test_steps_are_those_of_the_grid():
    rng = np.random.default_rng(0)
    smooth = rng.normal(size=256)
    X = np.column_stack([smooth, np.round(smooth, 1), np.round(4.0 * smooth) / 4.0, smooth > 0.0])
    assert_allclose(column_steps(X), [0.0, 0.1, 0.25, 1.0], rtol=1e-6)


def test_whole_numbers_are_counts_only_if_they_vary_like_counts():
    rng = np.random.default_rng(0)
    cases = {
        "GammaPoisson": [rng.poisson(4.0, 64), rng.poisson(np.repeat([1.0, 6.0], 32))],
        "NormalGamma": [
            np.round(rng.normal(5.0, 0.7, 64)), np.tile([0, 9, 0, 8], 16),
            np.round(rng.normal(size=64)), np.tile([-1, 0, 1, 0], 16),
        ],
    }  # fmt: skip
    for name, columns in cases.items():
        for column in columns:
            family, _ = choose_likelihood(np.asarray(column, dtype=float)[:, None])
            assert type(family).__name__ == name


def test_columns_that_repeat_each_other_count_in_part():
    rng = np.random.default_rng(0)
    free = rng.normal(size=(256, 8))
    assert_allclose(column_powers(free), 1.0)
    twice = np.repeat(free[:, :2], 5, axis=1) + 0.02 * rng.normal(size=(256, 10))
    assert (column_powers(twice) < 0.35).all()
    jumps = free[:, :1] + 8.0 * (np.arange(256) // 64 % 2)[:, None]  # regimes are no memory
    assert_allclose(column_powers(jumps), 1.0)
    slow = free[:, :1].copy()
    for i in range(1, len(slow)):
        slow[i] += 0.95 * slow[i - 1]
    assert (1.0 - LONGEST) / (1.0 + LONGEST) <= column_powers(slow)[0] < 0.25


@pytest.mark.parametrize("kind", ["rounded", "slow", "skewed"])
def test_one_regime_of_ordinary_rows_stays_one(kind, caplog):
    rng = np.random.default_rng(12)
    x = rng.normal(size=1500)
    if kind == "rounded":
        x = np.round(2.0 * x) / 2.0
    elif kind == "slow":
        for i in range(1, len(x)):
            x[i] += 0.9 * x[i - 1]
    else:
        x = rng.gamma(2.0, size=len(x))
    with caplog.at_level("INFO"):
        label = SeqDDCRP().step_many(x[:, None])["label"].to_numpy()
    said = {"rounded": "in steps of 0.5", "slow": "repeat each other", "skewed": "is skewed"}
    assert said[kind] in caplog.text
    assert (np.diff(label[256:]) != 0).sum() <= 2


def test_settled_labels_are_the_most_probable_path():
    """Against all sequences of tables over a short window."""
    rng = np.random.default_rng(1)
    family = NormalGamma(0.0, 0.05, 1.5, 1.0)
    model = SeqDDCRP(
        likelihood=family, alpha=0.1, window=6, sweep_every=1, look_back=4, learn_prior=False
    )
    level = np.repeat([0.0, 3.0, 0.0, 3.0, 0.0], [30, 20, 10, 3, 2])
    sticky = 0
    for x in (level + rng.normal(size=len(level)))[:, None]:
        model.learn_many(x[None])
        state = model._stream.state
        w, K = int(state.counts[N_ROWS]), state.n_tables
        rho = np.exp(state.rows.log_birth[w - 1])
        if rho >= 0.2:
            continue
        sticky += 1
        stats = state.table.stats[:K]
        live = np.flatnonzero(stats[:, 0] >= 0.5)
        lik = np.array([family.log_predictive(row, stats) for row in state.rows.x[:w]])
        beta = np.maximum(state.atoms.beta[:K], 1e-6)
        first = np.log(np.maximum(state.rows.probs[:K, 0], 1e-6))

        def score(path, rho=rho, lik=lik, beta=beta, first=first):
            total = first[path[0]] + lik[0, path[0]]
            for r in range(1, len(path)):
                k = path[r]
                move = np.log(rho * beta[k])
                # to stay is the better of staying and moving to where one is
                total += max(np.log1p(-rho), move) if k == path[r - 1] else move
                total += lik[r, k]
            return total

        if len(live) ** w > 5000:
            continue
        best = max(itertools.product(live, repeat=w), key=score)
        at = {int(i): m for m, i in enumerate(state.table.ids[:K])}
        found = tuple(at[int(i)] for i in model.recent_labels())
        assert score(found) == pytest.approx(score(best), rel=1e-12)
    assert sticky > 20
