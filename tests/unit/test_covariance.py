"""Columns that depend on each other within tables: found, chosen by the score, and missing."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.metrics import adjusted_rand_score

from streamddcrp import SeqDDCRP
from streamddcrp.errors import ConfigError
from streamddcrp.likelihoods import NormalGamma, NormalWishart, covariance
from streamddcrp.likelihoods.auto import choose_family, with_correlations
from streamddcrp.likelihoods.columns import is_extreme
from streamddcrp.likelihoods.covariance import _depend, _fit, as_turned, common_covariance
from streamddcrp.likelihoods.kernels import families
from streamddcrp.likelihoods.turned import Turned

STRETCH = np.array([[0.6, -0.6], [-0.4, 0.8]])


def clusters(seed, n=600, stretch=STRETCH, K=3, apart=12.0):
    rng = np.random.default_rng(seed)
    y, D = rng.integers(K, size=n), len(stretch)
    return (apart * np.eye(K, D)[y] + rng.normal(size=(n, D))) @ stretch, y


def test_em_is_the_likelihood_of_a_gaussian_where_there_is_one_cluster():
    Z = np.random.default_rng(0).normal(size=(50, 3)) @ np.triu(np.ones((3, 3)))
    score, W = _fit(Z - Z.mean(axis=0), np.cov(Z.T, bias=True), np.ones((50, 1)))
    assert_allclose(W, np.cov(Z.T, bias=True), rtol=1e-9)
    density = stats.multivariate_normal(Z.mean(axis=0), W).logpdf(Z).sum()
    assert_allclose(score - 75.0 * np.log(2.0 * np.pi), density, rtol=1e-9)


@pytest.mark.parametrize("dof", [1, 2, 3, 10, 45, 4950, 499_500])
def test_extreme_is_what_chi_square_is_beyond_in_one_of_a_hundred(dof):
    limit = stats.chi2.isf(0.01, dof)
    for x in (-1.0, 0.0, dof, limit * (1.0 - 1e-9)):
        assert not is_extreme(x, dof)
    for x in (limit * (1.0 + 1e-9), 10.0 * limit, 1e9, np.inf):
        assert is_extreme(x, dof)
    assert not is_extreme(np.nan, dof)


@pytest.mark.parametrize("seed", range(3))
def test_the_common_covariance_is_that_within_clusters(seed):
    X, _ = clusters(seed)
    true = STRETCH.T @ STRETCH
    # an entry of a sample covariance of n rows has variance (w_ij^2 + w_ii w_jj) / n; five of them
    spread = np.sqrt((true**2 + np.outer(np.diag(true), np.diag(true))) / len(X))
    within, n_clusters = common_covariance(X, np.zeros(2))
    assert n_clusters == 3
    assert (np.abs(within - true) < 5.0 * spread + 0.02).all()


def test_columns_depend_in_all_tables_or_in_each_its_own_way():
    rng = np.random.default_rng(1)
    labels = np.repeat([0.0, 1.0], 200)
    X = rng.normal(size=(400, 2)) + 9.0 * labels[:, None]
    crossed = X.copy()
    crossed[:, 1] += np.where(labels == 0.0, 1.0, -1.0) * (crossed[:, 0] - 9.0 * labels)
    assert _depend(clusters(1)[0], clusters(1)[1])
    assert _depend(crossed, labels)
    assert not _depend(X, labels)


def test_a_covariance_is_chosen_where_it_predicts_better():
    X, y = clusters(3, 1000)
    model = SeqDDCRP()
    label = model.step_many(X)["label"].to_numpy()
    assert isinstance(model._stream.likelihood, NormalWishart)
    assert adjusted_rand_score(y[256:], label[256:]) > 0.98
    model = SeqDDCRP()
    model.step_many(clusters(3, stretch=np.eye(2))[0])
    assert isinstance(model._stream.likelihood, NormalGamma)


def test_other_columns_keep_their_family():
    X, y = clusters(4)
    rows = np.column_stack([np.zeros(len(X)), X, np.arange(len(X)) % 3])
    family = choose_family(rows, ["float"] * 3 + ["int"]).on_grid(rows)  # steps of each column
    family, n_free = with_correlations(family, rows, y)
    assert n_free == 1
    assert {type(part).__name__: tuple(at) for part, at in family.parts} == {
        "NormalWishart": (1, 2), "NormalGamma": (0,), "GammaPoisson": (3,)
    }  # fmt: skip


def test_a_missing_value_is_what_the_likeliest_table_expects():
    rng = np.random.default_rng(5)
    family = NormalWishart([0.0] * 3, 0.1, np.eye(3).tolist(), 6.0)
    tables = [rng.normal(size=(40, 3)) @ np.tril(np.ones((3, 3))) + 8.0 * k for k in range(2)]
    found = np.array([family.suffstats(rows).sum(axis=0) for rows in tables])
    _, hyper, post = family._posteriors(found)
    x = np.array([8.5, np.nan, 8.0])
    filled = x.copy()
    said = families.fill(family.family, hyper, post, filled, 2)
    # the second table: its mean, and its scatter, by rows beside the prior's
    n, r = len(tables[1]), tables[1]
    mean = r.sum(axis=0) / (n + 0.1)
    scatter = np.eye(3) + r.T @ r - (n + 0.1) * np.outer(mean, mean)
    rest, (own, others) = [0, 2], (scatter[1, 1], scatter[1][[0, 2]])
    weights = np.linalg.solve(scatter[np.ix_(rest, rest)], others)
    assert_allclose(filled[1], mean[1] + weights @ (x[rest] - mean[rest]), rtol=1e-9)
    kappa = n + 0.1
    variance = (own - weights @ others) * (kappa + 1.0) / (kappa * (n + 6.0))
    assert_allclose(said, stats.norm.logpdf(0.0, scale=np.sqrt(variance)), rtol=1e-9)


def test_many_rows_at_once_are_as_one_by_one():
    rng = np.random.default_rng(6)
    family = NormalWishart([0.3, -0.2, 0.1], 0.1, np.eye(3).tolist(), 6.0)
    X, weights = rng.normal(size=(29, 3)), rng.random(29)
    code, hyper = family.family, family.hyper(3)
    turned = np.ascontiguousarray(np.pad(X, [(0, 3), (0, 0)]).T)
    stats_of, out = np.zeros(family.n_stats(3)), np.empty(32)
    families.add_rows(code, hyper, X, turned, np.pad(weights, (0, 3)), 2, 29, stats_of)
    assert_allclose(stats_of, weights[2:] @ family.suffstats(X)[2:], rtol=1e-12)
    post = family._posteriors(stats_of)[2]
    families.expected_log_liks_of_rows(code, hyper, post[0], X, turned, 2, 29, out)
    expected = [family.expected_log_lik(x, stats_of)[0] for x in X[2:]]
    assert_allclose(out[2:29], expected, rtol=1e-12)


def turned(seed, mix=None):
    """Return a prior by a covariance within tables, and that and the one of all rows."""
    rng = np.random.default_rng(seed)
    mix = np.eye(4) if mix is None else mix
    within, between = (mix @ m @ m.T @ mix.T for m in rng.normal(size=(2, 4, 4)))
    total = within + 4.0 * between
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(covariance, "MOST_COLUMNS", 2)
        family = as_turned(mix @ np.arange(1.0, 5.0), within, total, np.zeros(4))
    return family, within, total


def test_turned_rows_have_independent_coordinates_and_the_density_of_rows():
    family, within, total = turned(0)
    axes = np.array(family.axes)
    assert_allclose(axes @ within @ axes.T, np.eye(4), atol=1e-10)
    assert_allclose(axes @ total @ axes.T, np.diag(family.scale) ** 2, atol=1e-9)
    assert [type(part) for part, _ in family.inner.parts] == [NormalWishart, NormalGamma]
    X = np.random.default_rng(1).normal(size=(9, 4))
    Z = (X - family.center) @ axes.T
    stats_of = family.inner.suffstats(Z[:8]).sum(axis=0)
    assert_allclose(family.suffstats(X[:8]).sum(axis=0), stats_of, rtol=1e-12, atol=1e-12)
    log_det = np.linalg.slogdet(axes)[1]
    expected = family.inner.log_predictive(Z[8], stats_of) + log_det
    assert_allclose(family.log_predictive(X[8], stats_of), expected, rtol=1e-12)
    own = family.inner.point_estimates(stats_of)
    back = np.linalg.inv(axes)
    assert_allclose(family.point_estimates(stats_of)["mean"], family.center + own["mean"] @ back.T)
    spread = np.diag(back @ np.diag(own["sd"][0] ** 2) @ back.T)
    assert_allclose(family.point_estimates(stats_of)["sd"][0] ** 2, spread)
    draws = family.sample(np.random.default_rng(2), 1e6 * stats_of, 4000)
    assert_allclose(draws.mean(axis=0), X[:8].mean(axis=0), atol=0.15)
    assert Turned.from_config(json.loads(json.dumps(family.to_config()))) == family


@pytest.mark.parametrize(
    "wrong",
    [
        {"at": [0]},
        {"scale": [1.0, 0.0]},
        {"axes": np.ones((2, 2))},
        {"center": [0.0]},
        {"at": "xy"},
    ],
)
def test_turns_are_checked(wrong):
    fine = {"at": [0, 1], "center": [0.0, 0.0], "scale": [1.0, 1.0], "axes": np.eye(2)}
    Turned(NormalGamma(), **fine)
    with pytest.raises(ConfigError, match="Turned:"):
        Turned(NormalGamma(), **fine | wrong)


def test_what_a_turned_row_lacks_is_what_the_others_lead_to_expect():
    family, _, total = turned(2)
    center, axes = np.array(family.center), np.array(family.axes)
    for missing in ([1], [0, 3], [0, 1, 2], []):
        x = np.random.default_rng(3).normal(size=4)
        rest = np.setdiff1d(range(4), missing)
        weights = np.linalg.solve(total[np.ix_(rest, rest)], total[np.ix_(rest, missing)]).T
        whole = x.copy()
        whole[missing] = center[missing] + weights @ (x[rest] - center[rest])
        left = total[np.ix_(missing, missing)] - weights @ total[np.ix_(rest, missing)]
        x[missing] = np.nan
        assert_allclose(family.prepare(x[None])[0][0], axes @ (whole - center), rtol=1e-8)
        said = -0.5 * np.linalg.slogdet(2.0 * np.pi * left)[1] if missing else 0.0
        log_det = np.linalg.slogdet(axes)[1]
        assert_allclose(family.log_slopes(x[None]), log_det - said, rtol=1e-8)
    nothing = np.full((1, 4), np.nan)
    assert np.isnan(family.prepare(nothing)[0]).all()
    assert family.log_slopes(nothing) == 0.0


def test_turned_rows_do_not_depend_on_units_or_mixtures_of_columns():
    mix = np.random.default_rng(5).normal(size=(4, 4)) * 10.0 ** np.arange(-2, 2)
    family, other = turned(4)[0], turned(4, mix)[0]
    X = np.random.default_rng(6).normal(size=(12, 4))
    ours, theirs = family.suffstats(X[:8]).sum(axis=0), other.suffstats(X[:8] @ mix.T).sum(axis=0)
    assert_allclose(family.log_marginal(ours), other.log_marginal(theirs), rtol=1e-7)
    for x in X[8:]:
        one, two = family.log_predictive(x, ours), other.log_predictive(mix @ x, theirs)
        assert_allclose(one - np.linalg.slogdet(mix)[1], two, rtol=1e-6)


def test_many_columns_are_turned_and_pieces_give_the_same():
    rng = np.random.default_rng(8)
    y, moved = rng.integers(4, size=700), rng.normal(size=(700, 3)) @ rng.normal(size=(3, 16))
    X = 1.2 * rng.normal(size=(4, 16))[y] + moved + 0.6 * rng.normal(size=(700, 16))
    flags = rng.random(700) < 0.2 + 0.5 * (y == 1)
    X = np.column_stack([flags, X, np.full(700, 3.5)])  # each kind keeps its family
    X[rng.random(X.shape) < 0.01] = np.nan
    model, pieces = SeqDDCRP(), SeqDDCRP()
    whole = model.step_many(X)
    family = model._stream.likelihood
    assert family.at == tuple(range(1, 17))
    assert [type(part).__name__ for part, _ in family.inner.parts] == [
        "NormalWishart", "NormalGamma", "NormalGamma", "GammaPoisson"
    ]  # fmt: skip
    assert model.explain_one(dict(enumerate(X[-1]))).parts
    assert adjusted_rand_score(y[256:], whole["label"].to_numpy()[256:]) > 0.9
    parts = [pieces.step_many(part) for part in np.split(X, [3, 250, 600])[:3]]
    pieces = SeqDDCRP.from_bytes(pieces.to_bytes())
    assert pieces._stream.config.far == model._stream.config.far == 32.0
    late = [pieces.learn_one(dict(enumerate(x))) or 0 for x in X[600:650]]
    parts.append(pieces.step_many(X[650:]))
    for name in ("label", "score"):
        found = np.concatenate([part[name].to_numpy(zero_copy_only=False) for part in parts])
        expected = np.delete(
            whole[name].to_numpy(zero_copy_only=False), np.arange(600, 600 + len(late))
        )
        np.testing.assert_array_equal(found, expected)
    assert {f"mean_{j}" for j in range(1, 17)} <= set(model.summary().column_names)


def test_values_may_grow_to_the_largest_that_are_taken():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 3))
    grown = 10.0 ** np.linspace(1.0, 98.0, 200)[:, None] * rng.normal(size=(200, 3))
    model = SeqDDCRP(likelihood="normal_wishart")
    model.step_many(X)
    assert np.isfinite(model.step_many(grown)["score"].to_numpy()).all()
