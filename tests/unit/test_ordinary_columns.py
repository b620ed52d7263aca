"""Rounded, correlated, repeated and skewed columns, each formula against a slow twin."""

import itertools
from dataclasses import replace
from importlib import resources

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import integrate
from sklearn.metrics import adjusted_rand_score

from streamddcrp import SeqDDCRP
from streamddcrp.errors import ConfigError
from streamddcrp.likelihoods import BetaBernoulli, GammaPoisson, NormalGamma, choose_likelihood
from streamddcrp.likelihoods.columns import (
    LONGEST,
    column_cells,
    column_powers,
    column_shares,
    column_steps,
    columns,
)
from streamddcrp.likelihoods.kernels import families
from streamddcrp.likelihoods.plane import Plane, find_plane
from streamddcrp.likelihoods.warp import Warp, far_runs, find_warp
from streamddcrp.models.seqddcrp.kernels.layout import FOLLOWED, N_ROWS, REDRAWN

X = np.array([[0.3, 1.0], [-1.2, 0.2], [0.5, -0.4], [0.1, np.nan]])
STEP = (0.4, 0.0)
WARPS = [
    Warp(1.0, 2.0, 0.5), Warp(0.0, 1.0, 0.0), Warp(-1.0, 0.5, 2.0), Warp(0.0, 1.0, 2.5),
    Warp(0.0, 1.0, -1.0), Warp(1.0, 2.0, 1.0, 1.0, -0.7, 0.1), Warp(0.0, 1.0, 1.0, -1.0, -2.0, 3.0),
    Warp(1.0, 2.0, tail=0.5), Warp(0.0, 1.0, tail=4.0), Warp(0.0, 1.0, 0.5, low=-1.0, high=1.5),
    Warp(1.0, 2.0, 1.0, 1.0, -0.7, 0.1, low=-0.7, high=2.0), Warp(1.0, 2.0, tail=2.0, low=-1.0),
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


def test_copies_of_a_column_with_their_share_are_one_column():
    plain = NormalGamma(0.1, 0.3, 2.0, 0.7, 0.4, 0.8)
    copies = NormalGamma(0.1, 0.3, 2.0, 0.7, 0.4, 0.8, None, (0.25, 0.25, 0.5))
    rows = X[:, :1]
    stats, three = (
        family.suffstats(np.repeat(rows, n, axis=1)).sum(axis=0)
        for family, n in ((plain, 1), (copies, 3))
    )
    assert_allclose(copies.log_marginal(three), plain.log_marginal(stats), rtol=1e-12)
    for x in (rows[0], np.array([7.0])):
        for method in ("log_predictive", "expected_log_lik"):
            one, all_three = (
                getattr(family, method)(np.repeat(x, n), s)
                for family, n, s in ((plain, 1, stats), (copies, 3, three))
            )
            assert_allclose(all_three, one, rtol=1e-12)


@pytest.mark.parametrize(
    ("family", "rows"),
    [
        (gaussian(step=STEP, power=(0.5, 1.0), share=(0.3, 0.8)), X),
        (GammaPoisson(1.5, (0.8, 2.0), (0.3, 0.8)), np.array([[2.0, 0.0], [0.0, np.nan], [7, 1]])),
        (BetaBernoulli(0.5, 0.7, (0.3, 0.8)), np.array([[1.0, 0.0], [0.0, np.nan], [1, 1]])),
    ],
    ids=lambda case: type(case).__name__,
)
def test_a_share_is_a_weight_of_the_column_and_of_its_prior(family, rows):
    """Against each column by itself; natural parameters against the expectation."""
    stats = family.suffstats(rows).sum(axis=0)
    _, hyper, post = family._posteriors(stats)
    natural = np.empty(len(stats))
    families.natural_parameters(family.family, hyper, post[0], natural)
    own = [
        replace(family, **{name: np.atleast_1d(columns(getattr(family, name) or 0.0, 2))[j]
                           for name in family._columns if name != "share"}, share=1.0)
        for j in range(2)
    ]  # fmt: skip
    alone = [one.suffstats(rows[:, [j]]).sum(axis=0) for j, one in enumerate(own)]
    parts = [one.log_marginal(s)[0] for one, s in zip(own, alone, strict=True)]
    assert_allclose(family.log_marginal(stats)[0], np.dot(family.share, parts), rtol=1e-12)
    for x in rows:
        expected = family.expected_log_lik(x, stats)[0]
        assert_allclose(natural @ family.suffstats(x), expected, rtol=1e-10)
        for method in ("log_predictive", "expected_log_lik"):
            parts = [
                getattr(one, method)(x[[j]], s)[0]
                for j, (one, s) in enumerate(zip(own, alone, strict=True))
            ]
            assert_allclose(
                getattr(family, method)(x, stats)[0], np.dot(family.share, parts), rtol=1e-12
            )


def factors(rng, n, D=12, Q=2, noise=0.3):
    """Rows of which Q factors move all columns, in units of very different size."""
    rows = rng.normal(size=(n, Q)) @ rng.normal(size=(Q, D)) + noise * rng.normal(size=(n, D))
    return 10.0 ** (np.arange(D) % 4 - 2) * rows + 5.0


def test_a_plane_has_coordinates_and_remainders():
    rng = np.random.default_rng(0)
    rows = factors(rng, 256)
    plane = find_plane(rows)
    assert plane.n_axes == 2
    assert_allclose(plane.axes @ plane.axes.T, np.eye(2), atol=1e-12)
    images = plane.apply(rows)
    Z = (rows - plane.center) / plane.scale
    assert_allclose(images[:, :2], Z @ plane.axes.T, atol=1e-12)
    left = plane.scale * (Z - Z @ plane.axes.T @ plane.axes)
    assert_allclose(images[:, 2:] / plane.scale, left / plane.scale, atol=1e-12)
    assert_allclose(plane.inverse(images) / plane.scale, rows / plane.scale, rtol=1e-12)
    variance = images.var(axis=0)[None]
    exact = rows.var(axis=0)  # coordinates and remainders are uncorrelated in these rows
    assert_allclose(plane.variances(variance)[0], exact, rtol=1e-10)
    rest = np.linalg.eigvalsh(np.corrcoef(rows.T))[:-2].sum()
    assert_allclose((images[:, 2:] / plane.scale).var(axis=0).sum(), rest, rtol=1e-10)


def test_missing_values_are_taken_from_the_plane():
    rng = np.random.default_rng(1)
    rows = factors(rng, 256)
    plane = find_plane(rows)
    holes = rows[:40].copy()
    holes[:, 3] = holes[::2, 7] = np.nan
    images = plane.apply(holes)
    for x, image in zip(holes, images, strict=True):
        known = ~np.isnan(x)
        y = ((x - plane.center) / plane.scale)[known]
        V = plane.axes[:, known]
        exact = np.linalg.solve(V @ V.T, V @ y)  # least squares
        # an error shrinks by 1 - the smallest eigenvalue of V V' a round
        rate = 1.0 - np.linalg.eigvalsh(V @ V.T)[0]
        size = np.abs(V @ y).max() + np.abs(exact).max()
        assert np.abs(image[:2] - exact).max() <= 2.0 * size * rate**16 + 1e-9
        assert np.isnan(image[2:]).tolist() == (~known).tolist()
    assert np.isnan(plane.apply(np.full((1, 12), np.nan))).all()


def test_cells_of_columns_are_cells_of_their_coordinates():
    """The mean square about a point, over all corners of three nodes a column, is exact."""
    plane = Plane(np.zeros(3), np.array([1.0, 2.0, 0.5]), np.array([[0.6, 0.0, 0.8]]))
    step, x = np.array([0.4, 0.2, 0.1]), np.array([[0.3, -1.0, 0.7]])
    nodes, weights = np.polynomial.legendre.leggauss(3)
    square = 0.0
    for at in itertools.product(range(3), repeat=3):
        u = x + 0.5 * step * nodes[list(at)]
        square += np.prod(0.5 * weights[list(at)]) * (plane.apply(u)[0, 0] - 0.9) ** 2
    cell = plane.steps(step)[0] ** 2 / 12.0
    assert_allclose((plane.apply(x)[0, 0] - 0.9) ** 2 + cell, square, rtol=1e-12)


def test_columns_without_common_directions_have_no_plane():
    rng = np.random.default_rng(0)
    # the largest eigenvalue passes its limit in one set of columns in six, by a little
    assert sum(find_plane(rng.normal(size=(256, 12))) is not None for _ in range(40)) <= 15
    for _ in range(10):
        family = NormalGamma().tempered(rng.normal(size=(256, 12)))
        assert family.plane is None
    assert NormalGamma().tempered(factors(rng, 256, D=3)).plane is None
    flat = np.column_stack([factors(rng, 256), np.full(256, 3.0)])
    family = NormalGamma().tempered(flat).scaled(flat)
    assert np.isfinite(family.log_predictive(flat[0], np.zeros((1, family.n_stats(13))))).all()


@pytest.mark.parametrize(
    "plane", [[[0.0, 0.0]], [[0.0], [1.0], [2.0]], [[0.0], [0.0], [1.0]], "xy"]
)
def test_planes_are_checked(plane):
    with pytest.raises(ConfigError, match="plane must"):
        NormalGamma(0.0, 0.5, 3.0, 1.0, plane=plane)


def test_columns_that_move_together_do_not_outvote_clusters(caplog):
    """Four clusters in two factors; thirty columns repeat them, with heavy tails of their own."""
    rng = np.random.default_rng(5)
    truth = rng.integers(4, size=1200)
    factor = 5.0 * np.array([[0, 0], [0, 1], [1, 0], [1, 1]])[truth] + rng.normal(size=(1200, 2))
    rows = factor @ rng.normal(size=(2, 30)) + 0.5 * rng.standard_t(4.0, size=(1200, 30))
    rows[rng.random(rows.shape) < 0.01] = np.nan
    with caplog.at_level("INFO"):
        model = SeqDDCRP()
        out = model.step_many(rows)
    assert "move together" in caplog.text
    label = out["label"].to_numpy()[256:]
    assert adjusted_rand_score(truth[256:], label) > 0.9
    pieces = SeqDDCRP()
    parts = [pieces.step_many(part)["label"].to_numpy() for part in np.split(rows, [3, 250, 700])]
    pieces = SeqDDCRP.from_bytes(pieces.to_bytes())
    assert (np.concatenate(parts) == out["label"].to_numpy()).all()
    assert pieces.score_one(dict(enumerate(rows[0]))) == model.score_one(dict(enumerate(rows[0])))
    assert {f"mean_{j}" for j in range(30)} <= set(model.summary().column_names)


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


def test_slopes_of_one_row_are_those_of_many_to_the_last_bit():
    rows = np.random.default_rng(11).normal(size=(400, len(WARPS)))
    family = NormalGamma(0.0, 0.5, 3.0, 1.0, warp=WARPS, power=tuple(np.linspace(0.3, 1.0, 12)))
    one_by_one = np.concatenate([family.log_slopes(row[None]) for row in rows])
    assert one_by_one.tobytes() == family.log_slopes(rows).tobytes()


def test_maps_are_found_where_there_is_skew():
    rng = np.random.default_rng(0)
    skewed = find_warp(rng.lognormal(size=200))
    assert skewed is not None
    assert skewed.side == 1.0
    assert find_warp(-rng.lognormal(size=200)).side == -1.0
    assert sum(find_warp(rng.normal(size=200)) is not None for _ in range(20)) <= 1
    assert find_warp(np.round(rng.lognormal(size=200))) is None
    assert find_warp(np.full(200, 3.0)) is None


def test_maps_are_found_where_tails_are_heavy():
    rng = np.random.default_rng(0)
    found = [find_warp(rng.standard_t(2.0, size=256)) for _ in range(20)]
    assert sum(warp is not None and warp.tail > 0.0 for warp in found) >= 15
    x = np.array([-1e90, -1e8, -3.0, 0.0, 3.0, 1e8, 1e90])
    image, log_slope = found[0].apply(x)
    assert (np.diff(image) > 0.0).all()
    assert (np.isfinite(log_slope)).all()


def test_far_values_in_runs_are_a_regime_and_no_tail():
    rng = np.random.default_rng(5)
    x = rng.normal(size=400)
    x[100:120] -= 50.0 * rng.random(20) + 5.0
    x[300:312] -= 60.0
    x[[40, 50, 60, 61]] -= 20.0  # chance explains these
    inside = np.zeros(400, dtype=bool)
    inside[100:120] = inside[300:312] = True
    assert far_runs(x).tolist() == inside.tolist()
    lonely = [far_runs(rng.standard_t(2.0, size=256)).any() for _ in range(100)]
    assert sum(lonely) <= 5  # 2 % of such series, on both sides together
    warp = find_warp(x)
    assert warp is not None
    assert warp.tail > 0.0
    assert warp.low > -30.0  # beyond the four, it is a line: the regime stays far
    assert np.ptp(np.diff(warp.apply(np.array([-30.0, -45.0, -60.0]))[0])) < 1e-9


@pytest.mark.parametrize("dither", [0.0, 0.005])
def test_interruptions_are_a_regime(dither):
    """An interruption is no heavy tail, whether rounding rules out maps or not."""
    path = resources.files("river") / "datasets" / "water-flow.csv"
    flow = np.loadtxt(str(path), delimiter=",", skiprows=1, usecols=1)[:, None]
    flow += np.random.default_rng(0).uniform(-dither, dither, flow.shape)
    labels = SeqDDCRP(season=None).step_many(flow)["label"].to_numpy()
    usual = np.bincount(labels).argmax()
    assert (labels[94:110] != usual).all()  # rows below 90
    assert (labels[213:221] != usual).all()  # between two stages of the first rows
    assert (labels[875:887] != usual).all()
    assert (labels[flow[:, 0] > 95.0] == usual).mean() > 0.95


@pytest.mark.parametrize("warp", [[(1.0,)], [(0.0, 0.0, 1, 0.0, 0.0, 1, 0.0, -1, 1)], "log", []])
def test_maps_are_checked(warp):
    with pytest.raises(ConfigError, match="warp must be None or the 9 numbers"):
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
    for name, found in cases.items():
        for column in found:
            family, _ = choose_likelihood(np.asarray(column, dtype=float)[:, None])
            assert type(family).__name__ == name


def test_columns_that_repeat_each_other_count_in_part():
    rng = np.random.default_rng(0)
    free = rng.normal(size=(256, 8))
    assert_allclose(column_powers(free), 1.0)
    assert_allclose(column_shares(free), 1.0)
    twice = np.repeat(free[:, :2], 5, axis=1) + 0.02 * rng.normal(size=(256, 10))
    assert (column_shares(twice) < 0.35).all()
    resting = np.column_stack([twice, np.zeros(256), np.full(256, 7.0)])
    assert_allclose(column_shares(resting), [*column_shares(twice), 1.0, 1.0])
    ramps = free.copy()
    ramps[100:108] += 40.0 * np.arange(1.0, 9.0)[:, None]  # on the way from one state to another
    assert_allclose(column_shares(ramps), 1.0)
    family = NormalGamma().tempered(np.column_stack([factors(rng, 256), np.zeros(256)]))
    assert family.share[-1] == 1.0  # though it lies in the plane of no other
    assert_allclose(family.share[family._plane.n_axes : -1], 1.0 / 13.0)
    jumps = free[:, :1] + 8.0 * (np.arange(256) // 64 % 2)[:, None]  # regimes are no memory
    assert_allclose(column_powers(jumps), 1.0)
    slow = free[:, :1].copy()
    for i in range(1, len(slow)):
        slow[i] += 0.95 * slow[i - 1]
    assert (1.0 - LONGEST) / (1.0 + LONGEST) <= column_powers(slow)[0] < 0.25


@pytest.mark.parametrize("kind", ["rounded", "slow", "skewed", "heavy"])
def test_one_regime_of_ordinary_rows_stays_one(kind, caplog):
    rng = np.random.default_rng(12)
    x = rng.normal(size=1500)
    if kind == "rounded":
        x = np.round(2.0 * x) / 2.0
    elif kind == "slow":
        for i in range(1, len(x)):
            x[i] += 0.9 * x[i - 1]
    elif kind == "heavy":
        x = rng.standard_t(2.0, size=len(x))
    else:
        x = rng.gamma(2.0, size=len(x))
    with caplog.at_level("INFO"):
        label = SeqDDCRP().step_many(x[:, None])["label"].to_numpy()
    said = {
        "rounded": "to steps of 0.5", "slow": "is slow", "skewed": "is skewed",
        "heavy": "has heavy tails",
    }  # fmt: skip
    assert said[kind] in caplog.text
    assert (np.diff(label[256:]) != 0).sum() <= 2


def test_the_cell_of_a_column_at_rest_has_the_prior_variance_of_a_table():
    X = np.random.default_rng(0).normal(size=(40, 4))
    X[:, 1], X[:, 2], X[1:, 3] = 7.0, np.nan, np.nan
    cells = column_cells(X)
    family = NormalGamma().scaled(X)
    assert_allclose(cells[1] ** 2 / 12.0, family.rate[1] / family.shape)
    assert cells[[0, 2, 3]].tolist() == [0.0, 0.0, 0.0]  # of one value or none nothing is known
    assert family.remarks(["a", "b", "c", "d"]) == []


@pytest.mark.parametrize("n_resting", [1, 3, 10])
def test_columns_at_rest_do_not_hide_regimes(n_resting):
    rng = np.random.default_rng(n_resting)
    truth = np.arange(1200) // 400 % 2
    X = rng.normal(size=(1200, 6))
    X[:, :2] += 3.0 * truth[:, None]
    X = np.column_stack([X, np.tile(rng.integers(0, 100, n_resting), (1200, 1))])
    label = SeqDDCRP().step_many(X)["label"].to_numpy()
    assert adjusted_rand_score(truth[256:], label[256:]) > 0.9


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
        rho = state.sums[REDRAWN] / state.sums[FOLLOWED]
        if rho >= 0.5:
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


def test_integers_and_floats_give_the_same_model():
    rng = np.random.default_rng(2)
    state = np.repeat([0, 1, 0], 150)
    columns = {
        "level": np.round(rng.normal(20.0 + 9.0 * state)), "faults": rng.poisson(1.0 + 4.0 * state),
        "open": rng.random(450) < 0.2 + 0.6 * state, "signed": rng.integers(-2, 3, 450),
    }  # fmt: skip
    outs = [
        SeqDDCRP().step_many(pa.table({n: v.astype(kind) for n, v in columns.items()}))
        for kind in ("int64", "float64", "int8")
    ]
    for out in outs[1:]:
        assert out["label"].to_pylist() == outs[0]["label"].to_pylist()
        assert out["score"].to_pylist() == outs[0]["score"].to_pylist()
    rate = SeqDDCRP()
    rate.step_many(pa.table({"rate": (rng.random(300) < 0.3).astype(float)}))
    rate.step_many(pa.table({"rate": [0.25, 7.5]}))  # a column of zeros and ones so far
