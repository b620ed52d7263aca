"""Columns that depend on each other within tables: found, chosen by the score, and missing."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from sklearn.metrics import adjusted_rand_score

from streamddcrp import SeqDDCRP
from streamddcrp.likelihoods import NormalGamma, NormalWishart
from streamddcrp.likelihoods.auto import choose_family, with_correlations
from streamddcrp.likelihoods.covariance import _depend, _fit, common_covariance
from streamddcrp.likelihoods.kernels import families

STRETCH = np.array([[0.6, -0.6], [-0.4, 0.8]])


def clusters(seed, n=600, stretch=STRETCH, K=3, apart=12.0):
    rng = np.random.default_rng(seed)
    y, D = rng.integers(K, size=n), len(stretch)
    return (apart * np.eye(K, D)[y] + rng.normal(size=(n, D))) @ stretch, y


def test_em_is_the_likelihood_of_a_gaussian_where_there_is_one_cluster():
    Z = np.random.default_rng(0).normal(size=(50, 3)) @ np.triu(np.ones((3, 3)))
    score, W = _fit(Z, np.zeros(3), Z[:1])
    assert_allclose(W, (50 * np.cov(Z.T, bias=True) + 0.3 * np.eye(3)) / 53, rtol=1e-9)
    density = stats.multivariate_normal(Z.mean(axis=0), W).logpdf(Z).sum()
    assert_allclose(score - 75.0 * np.log(2.0 * np.pi), density, rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_the_common_covariance_is_that_within_clusters(seed):
    X, _ = clusters(seed)
    true = STRETCH.T @ STRETCH
    # an entry of a sample covariance of n rows has variance (w_ij^2 + w_ii w_jj) / n; five of them
    spread = np.sqrt((true**2 + np.outer(np.diag(true), np.diag(true))) / len(X))
    assert (np.abs(common_covariance(X, np.zeros(2)) - true) < 5.0 * spread + 0.02).all()


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
