"""The filter of the time-varying Indian buffet process against enumeration."""

from functools import partial

import numpy as np
import pytest

from streamddcrp.likelihoods import LinearGaussian
from streamddcrp.models.features.engine import predict_rows, start, step
from streamddcrp.models.features.kernels.rejuvenate import _prepare_flips, resample_row
from streamddcrp.models.features.kernels.slots import LOG_EVIDENCE, N_ACTIVE
from streamddcrp.models.features.kernels.weigh import _thin, enumerate_row
from streamddcrp.models.features.state import arrays_of, empty_state, make_config, state_from_arrays
from tests.oracles.feature_histories import evidence, intensities, log_marginal, window
from tests.oracles.plain import plain
from tests.unit.test_feature_histories import log_prior

X = np.array([(0.9, -0.4), (1.1, 0.2), (-0.3, 1.5), (0.2, 1.0)])
KNOWN = LinearGaussian(0.5, 1.0)
GRID = LinearGaussian(ratio=(0.2, 2.0))
KITE = [[], [0], [0, 1], [1, 2], [1, 2], [3]]


def configured(ratios, **options):
    """Settings, of the engine's own among them."""
    own = {name: options.pop(name) for name in ("n_children", "most_new") if name in options}
    return make_config(ratios=ratios, **options)._replace(**own)


def filtered(X, likelihood, **options):
    options = {"n_particles": 4, "moves": 0, "seed": 0, "alpha": 0.8} | options
    config = configured(likelihood.ratios, **options)
    state = empty_state(config, likelihood, X.shape[1])
    return config, *step(config, state, X, np.arange(float(len(X))))


def test_intensities_of_the_specification():
    found = intensities(KITE)
    assert len(found) == 41
    assert sum(found.values()) == pytest.approx(3.0)
    for history, value in {(0,): 1 / 3, (1,): 4 / 27, (0, 1): 2 / 27, (1, 2, 3): 1 / 54}.items():
        assert found[history] == pytest.approx(value)
    assert sum(intensities(window(6, 2)).values()) == pytest.approx(17 / 6)


@pytest.mark.parametrize(
    ("n", "r", "cap", "log_z"),
    [
        (1, 2, 3, -2.501372076013),
        (4, 2, 2, -11.260980654688),
        (4, 2, 3, -11.208024516277),
        (3, 1, 3, -8.873604490616),
        (3, 2, 4, -9.153496195193),
    ],
)
def test_with_many_particles_the_filter_is_exact(n, r, cap, log_z):
    _, state, _ = filtered(X[:n], KNOWN, window=r, n_particles=3000, n_children=256, most_new=cap)
    # nothing is resampled away before the last row, so nothing is random
    assert state.sums[LOG_EVIDENCE] == pytest.approx(log_z, abs=1e-8)


@pytest.mark.parametrize(
    ("likelihood", "moves"), [(KNOWN, 0), (KNOWN, 2), (GRID, 0), (GRID, 2)]
)  # fmt: skip
def test_evidence_is_unbiased(likelihood, moves):
    exact, _ = evidence(X, window(4, 2), 0.3, partial(log_marginal, likelihood), 3)
    runs = [
        filtered(
            X, likelihood, window=2, alpha=0.3, n_particles=6, n_children=4, moves=moves,
            seed=seed,
        )[1].sums[LOG_EVIDENCE]
        for seed in range(1000)
    ]  # fmt: skip
    ratio = np.exp(np.array(runs) - exact)
    # 2 %: more than three features in all, which the enumeration leaves out
    assert -3.0 * ratio.std() < (ratio.mean() - 1.0) * len(ratio) ** 0.5
    assert ratio.mean() - 1.0 < 3.0 * ratio.std() / len(ratio) ** 0.5 + 0.02


@pytest.mark.parametrize("levels", [1, 12])
def test_a_start_by_annealing_is_unbiased(levels):
    """Evidence, and the sum of Z Z' that it weighs."""
    exact, shared = evidence(X, window(4, 4), 0.3, partial(log_marginal, GRID), 3)
    times, found = np.arange(4.0), []
    for seed in range(800):
        config = make_config(
            ratios=GRID.ratios, window=4, alpha=0.3, n_particles=3, moves=1, seed=seed
        )
        state = start(config, GRID, X, times, runs=3, levels=levels)
        ratio = np.exp(state.sums[LOG_EVIDENCE] - exact)
        found.append(np.append(ratio, ratio * gram(state, 4)))
    found = np.array(found)
    error = found.std(axis=0) / len(found) ** 0.5
    gap = found.mean(axis=0) - np.append(1.0, shared)
    # 2 % and .04: more than three features in all, which the enumeration leaves out
    assert (gap > -4.0 * error).all()
    assert (gap < 4.0 * error + np.append(0.02, np.full(16, 0.04))).all()


def test_rows_drawn_anew_keep_the_posterior():
    """The mean of Z Z' over particles, before and after the last row's Gibbs steps."""
    _, exact = evidence(X, window(4, 4), 0.3, partial(log_marginal, KNOWN), 4)
    found = []
    for seed in range(120):
        config, state, _ = filtered(
            X[:3], KNOWN, window=4, alpha=0.3, n_particles=300, n_children=64, seed=seed
        )
        state, _ = step(config._replace(moves=4), state, X[3:], np.array([3.0]))
        found.append(gram(state, 4))
    found = np.array(found)
    error = found.std(axis=0) / len(found) ** 0.5
    assert (np.abs(found.mean(axis=0) - exact) < 4.0 * error + 5e-3).all()


def gram(state, n):
    particles, total = state.particles, np.zeros((n, n))
    for i in range(state.counts[N_ACTIVE]):
        masks = particles.owners[i, :n]
        live = np.flatnonzero(particles.n_owners[i] > 0).astype(np.uint64)
        Z = ((masks[:, None] >> live) & np.uint64(1)).astype(float)
        total += particles.weight[i] * Z @ Z.T
    return total


def test_a_row_drawn_anew_is_weighed_as_all_rows_are():
    """Every choice for groups of two features and one of its own, against all rows and priors."""
    _, X = causes(3, n=40)
    n, G = len(X), len(GRID.ratios)
    options = {"window": 60, "alpha": 2.0, "n_particles": 2, "moves": 5}
    config, state, _ = filtered(X, GRID, **options)
    particles, compared = state.particles, []

    def check(i, row, now, group, work, n_options, n_children):
        masks, own = particles.owners[i, :n].copy(), masks_own(particles, i, row)
        found = np.empty(n_children)
        for c in range(n_children):
            flips, option = c & ((1 << len(group)) - 1), c >> len(group)
            changed = sum(1 << k for f, k in enumerate(group) if flips >> f & 1)
            masks[row] = np.uint64(now ^ changed)
            ratios, columns = [], []
            for k in np.flatnonzero(particles.n_owners[i]).tolist():
                if k != own:
                    columns.append((masks >> np.uint64(k)) & np.uint64(1))
                    ratios.append(GRID.ratios[particles.scale[i, k]])
            prior = sum(log_prior(column.astype(bool), 60) for column in columns)
            alone = np.arange(n) == row
            if n_options > 1 and option > 0:
                columns.append(alone)
                ratios.append(GRID.ratios[option - 1])
                prior += np.log(config.alpha / G) + log_prior(alone, 60)
            elif n_options == 1 and own > 0:
                columns.append(alone)
                ratios.append(GRID.ratios[particles.scale[i, own]])
            Z = np.column_stack(columns).astype(float)
            found[c] = prior + GRID.log_density(Z, X, np.array(ratios))
        weights = work.log_weight[:n_children]
        # moments hold within 1e-10, and some 100 degrees of freedom multiply their error
        np.testing.assert_allclose(weights - weights[0], found - found[0], atol=1e-7)
        compared.append((len(group), n_options))

    for i in range(state.counts[N_ACTIVE]):
        state.scratch.has_odds[:] = 0
        for row in range(0, n, 3):
            at = {}

            def flips(cov, mean, c, now, start, m, work, at=at):
                at["now"], at["group"] = int(now), work.free[start : start + m].tolist()
                return plain(_prepare_flips)(cov, mean, c, now, start, m, work)

            def weigh(*given, at=at, i=i, row=row):
                n_options, work = given[6], given[9]
                made = plain(enumerate_row)(*given)
                check(i, row, at["now"], at["group"], work, n_options, made)
                return made

            draw = plain(resample_row, MOST_TOGETHER=2, _prepare_flips=flips, enumerate_row=weigh)
            draw(config, state, i, n - 1, row, row)
    assert {(2, 1), (2, 1 + G)} <= set(compared)


def masks_own(particles, i, row):
    """Slot of the feature that a row alone has, or 0."""
    alone = (particles.n_owners[i] == 1) & (particles.first[i] == row)
    return int(np.flatnonzero(alone)[0]) if alone.any() else 0


def test_thinned_children_weigh_the_same_in_the_mean():
    """Over draws on a grid, each weight comes back within a step of it, and light ones go."""
    weight = np.array([0.9, 0.0989, 9e-4, 1e-4, 1e-4, 0.0])
    n, mean, left = 4096, np.zeros(6), []
    for u in (np.arange(n) + 0.5) / n:
        out, child = np.zeros(6), np.zeros(6, np.int64)
        left.append(plain(_thin)(weight, 6, 0, u, out, child))
        mean[child[: left[-1]]] += out[: left[-1]] / n
    np.testing.assert_allclose(mean, weight, atol=1e-3 / n)
    assert np.mean(left) < 3.2


def causes(seed, n=150, D=5):
    rng = np.random.default_rng(seed)
    Z = rng.random((n, 3)) < np.where(np.arange(n)[:, None] < n // 2, [0.5, 0.5, 0], [0, 0.5, 0.5])
    return Z, Z @ (2.0 * rng.normal(size=(3, D))) + 0.3 * rng.normal(size=(n, D))


@pytest.mark.parametrize("missing", [False, True])
def test_any_cutting_and_restart_give_the_same_bits(missing):
    _, X = causes(0)
    if missing:
        X[np.random.default_rng(1).random(X.shape) < 0.1] = np.nan
    options = {"window": 15, "alpha": 2.0, "n_particles": 12, "moves": 4}
    config, whole, _ = filtered(X, GRID, **options)
    _, state, _ = filtered(X[:7], GRID, **options)
    for part in np.array_split(np.arange(7, len(X)), 5):
        state = state_from_arrays(config, arrays_of(state))
        state, _ = step(config, state, X[part], part.astype(float))
    kept, other = arrays_of(whole), arrays_of(state)
    for name, values in kept.items():
        assert values.tobytes() == other[name].tobytes(), name


def test_posterior_of_loadings_is_that_of_all_rows():
    """Rows added, drawn anew and rescaled many times over: no error has crept in."""
    _, X = causes(3, n=40)
    likelihood = LinearGaussian(ratio=0.5)
    _, state, _ = filtered(X, likelihood, window=60, n_particles=5, moves=30)
    particles = state.particles
    for i in range(state.counts[N_ACTIVE]):
        live = np.flatnonzero(particles.n_owners[i] > 0)
        Z = ((particles.owners[i, :40, None] >> live.astype(np.uint64)) & np.uint64(1)).astype(
            float
        )
        cov = np.linalg.inv(Z.T @ Z + 0.5 * np.eye(len(live)))
        np.testing.assert_allclose(particles.cov[i][np.ix_(live, live)], cov, atol=1e-10)
        np.testing.assert_allclose(particles.mean[i, live], cov @ Z.T @ X, atol=1e-9)
        rate = 0.5 + 0.5 * LinearGaussian._residual(Z, X, np.full(len(live), 0.5))
        assert particles.rate[i] == pytest.approx(rate, rel=1e-10)
        np.testing.assert_array_equal(particles.n_owners[i, live], Z.sum(axis=0))
        np.testing.assert_array_equal(particles.first[i, live], Z.argmax(axis=0))


def test_predicting_changes_nothing_and_agrees_with_learning():
    _, X = causes(3)
    config, state, _ = filtered(X[:60], GRID, window=20, n_particles=10, moves=3)
    before = arrays_of(state)
    (out, ids, probs), fit = predict_rows(config, state, X[60:61])
    for name, values in arrays_of(state).items():
        assert values.tobytes() == before[name].tobytes(), name
    assert fit.shape == (1, 5)
    assert np.all((probs >= 0.0) & (probs <= 1.0 + 1e-12))
    _, (learned, same_ids, same_probs) = step(config, state, X[60:61], np.array([60.0]))
    np.testing.assert_array_equal(out, learned)
    np.testing.assert_array_equal(ids, same_ids)
    np.testing.assert_array_equal(probs, same_probs)


def test_more_features_than_are_enumerated():
    rng = np.random.default_rng(4)
    Z = rng.random((120, 11)) < 0.5
    X = Z @ (3.0 * rng.normal(size=(11, 30))) + 0.2 * rng.normal(size=(120, 30))
    _, state, (out, _, _) = filtered(
        X, LinearGaussian(), window=60, alpha=3.0, n_particles=20, moves=10
    )
    assert np.isfinite(out[:, 0]).all()
    assert state.particles.n_owners.shape[1] > 8  # slots have been added
