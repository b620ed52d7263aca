"""The peer's bound against Monte Carlo, enumeration and its own coordinate ascent."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from research.stick_breaking import (
    Factors,
    GaussianPrior,
    collapsed_elbo,
    elbo,
    log_crp,
    log_marginal,
    optimal_factors,
    polish,
    tight_elbo,
    update_resp,
)

PRIOR_2D = GaussianPrior(np.array([0.3, -0.2]), 0.2, np.array([[2.0, 0.3], [0.3, 1.5]]), 4.5)
PRIOR_1D = GaussianPrior(np.zeros(1), 0.1, np.array([[2.0]]), 3.0)
ORACLE_X = np.array([[0.3], [-0.2], [4.1], [0.1], [3.8], [4.4]])


def some_data(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) + 3.0 * rng.integers(0, 2, size=(n, 1))


def set_partitions(n: int):
    """Every partition of range(n) as a label vector in order of appearance."""
    labels = [[0]]
    for _ in range(1, n):
        labels = [[*head, k] for head in labels for k in range(max(head) + 2)]
    return [np.array(row) for row in labels]


def log_evidence(X: np.ndarray, prior: GaussianPrior, alpha: float) -> float:
    """Exact log evidence of the DP mixture by enumeration of partitions."""
    terms = []
    for labels in set_partitions(len(X)):
        resp = np.eye(labels.max() + 1)[labels]
        terms.append(log_crp(resp.sum(axis=0), alpha) + log_marginal(X, resp, prior).sum())
    return float(logsumexp(terms))


def log_joint_minus_log_q(
    X: np.ndarray, q: Factors, prior: GaussianPrior, alpha: float, rng: np.random.Generator
) -> float:
    """One draw of log p(x, z, v, mu, Lambda) - log q(z, v, mu, Lambda), densities from scipy."""
    T = q.resp.shape[1]
    z = np.array([rng.choice(T, p=row / row.sum()) for row in q.resp])
    v = rng.beta(q.stick[:, 0], q.stick[:, 1])
    log_pi = np.append(np.log(v), 0.0) + np.append(0.0, np.cumsum(np.log1p(-v)))
    out = log_pi[z].sum() - np.log(q.resp[np.arange(len(X)), z]).sum()
    out += stats.beta.logpdf(v, 1.0, alpha).sum()
    out -= stats.beta.logpdf(v, q.stick[:, 0], q.stick[:, 1]).sum()
    for k in range(T):
        posterior = stats.wishart(q.dof[k], np.linalg.inv(q.scatter[k]))
        precision = np.atleast_2d(posterior.rvs(random_state=rng))
        cov = np.linalg.inv(precision)
        mu = rng.multivariate_normal(q.mean[k], cov / q.kappa[k])
        out += stats.wishart.logpdf(precision, prior.dof, np.linalg.inv(prior.scatter))
        out += stats.multivariate_normal.logpdf(mu, prior.mean, cov / prior.kappa)
        out -= posterior.logpdf(precision)
        out -= stats.multivariate_normal.logpdf(mu, q.mean[k], cov / q.kappa[k])
        out += stats.multivariate_normal.logpdf(X[z == k], mu, cov).sum() if (z == k).any() else 0.0
    return float(out)


@pytest.mark.parametrize("tight", [True, False])
def test_elbo_is_the_monte_carlo_mean(tight):
    rng = np.random.default_rng(5)
    X = some_data(6, 1)
    resp = rng.dirichlet(np.ones(3), size=len(X))
    q = optimal_factors(X, resp, PRIOR_2D, 0.7)
    if not tight:
        # Any other member of the family: its bound must be right too, not only the best one.
        other = optimal_factors(X, rng.dirichlet(np.ones(3), size=len(X)), PRIOR_2D, 0.7)
        q = Factors(resp, other.stick, other.mean, other.kappa, 1.3 * other.scatter, other.dof)
    draws = [log_joint_minus_log_q(X, q, PRIOR_2D, 0.7, rng) for _ in range(1500)]
    error = np.std(draws, ddof=1) / np.sqrt(len(draws))
    assert error < 0.2
    assert abs(np.mean(draws) - elbo(X, q, PRIOR_2D, 0.7)) < 4.0 * error


def test_evidence_of_blocks_and_of_the_mixture():
    resp = np.eye(2)[[0, 0, 1, 0, 1, 1]]
    np.testing.assert_allclose(
        log_marginal(ORACLE_X, resp, PRIOR_1D), [-3.8447123415, -5.5907847284], rtol=1e-10
    )
    assert log_evidence(ORACLE_X, PRIOR_1D, 0.5) == pytest.approx(-14.1135128151, abs=1e-9)


@pytest.mark.parametrize("alpha", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("n", [2, 4, 6])
def test_never_above_the_log_evidence(n, alpha):
    # alpha / (1 + alpha) to the power T - 1 of the prior mass is cut off: nothing at T = 60.
    rng = np.random.default_rng(n)
    for X, prior in ((ORACLE_X[:n], PRIOR_1D), (some_data(n, n), PRIOR_2D)):
        exact = log_evidence(X, prior, alpha)
        for concentration in (0.02, 1.0):
            resp = rng.dirichlet(np.full(60, concentration), size=n)
            assert tight_elbo(X, resp, prior, alpha) <= exact
            best = polish(X, resp, prior, alpha)
            assert best.bound <= exact


def test_polished_bound_is_close_to_the_evidence_where_one_partition_dominates():
    exact = log_evidence(ORACLE_X, PRIOR_1D, 0.1)
    resp = np.pad(np.eye(2)[[0, 0, 1, 0, 1, 1]], ((0, 0), (0, 48)))
    best = polish(ORACLE_X, resp, PRIOR_1D, 0.1)
    assert exact - 2.0 < best.bound <= exact


@pytest.mark.parametrize("order_sticks", [True, False])
def test_coordinate_ascent_never_lowers_the_bound(order_sticks):
    X = some_data(60, 3)
    resp = np.random.default_rng(0).dirichlet(np.full(12, 0.3), size=len(X))
    fit = polish(X, resp, PRIOR_2D, 0.5, order_sticks=order_sticks, max_rounds=200)
    assert len(fit.trace) > 10
    assert np.diff(fit.trace).min() >= -1e-10 * abs(fit.bound)
    assert tight_elbo(X, fit.resp, PRIOR_2D, 0.5) == pytest.approx(fit.bound, rel=1e-12)


def test_both_forms_of_the_tight_bound_agree():
    X = some_data(30, 4)
    resp = np.random.default_rng(1).dirichlet(np.full(7, 0.5), size=len(X))
    resp[:, 3] = 0.0
    resp /= resp.sum(axis=1, keepdims=True)
    for alpha in (0.1, 3.0):
        whole = tight_elbo(X, resp, PRIOR_2D, alpha)
        assert whole == pytest.approx(collapsed_elbo(X, resp, PRIOR_2D, alpha), rel=1e-12)


def test_best_factors_beat_their_neighbours():
    X = some_data(25, 6)
    resp = np.random.default_rng(2).dirichlet(np.ones(4), size=len(X))
    q = optimal_factors(X, resp, PRIOR_2D, 0.4)
    best = elbo(X, q, PRIOR_2D, 0.4)
    for name in ("stick", "mean", "kappa", "scatter", "dof"):
        for factor in (0.97, 1.03):
            moved = Factors(**{**vars(q), name: factor * getattr(q, name)})
            assert elbo(X, moved, PRIOR_2D, 0.4) < best
    better = Factors(**{**vars(q), "resp": update_resp(X, q)})
    assert elbo(X, better, PRIOR_2D, 0.4) > best


def test_dropping_unused_components_is_exact():
    X = some_data(20, 7)
    used = np.random.default_rng(3).dirichlet(np.ones(3), size=len(X))
    few = np.pad(used, ((0, 0), (0, 1)))
    many = np.pad(used, ((0, 0), (0, 47)))
    assert tight_elbo(X, few, PRIOR_2D, 0.1) == pytest.approx(
        tight_elbo(X, many, PRIOR_2D, 0.1), rel=1e-12
    )


def test_priors_mean_the_same_to_scikit_learn():
    """One round of ours from scikit-learn's own parameters lands on its parameters."""
    mixture = pytest.importorskip("sklearn.mixture")
    X = some_data(80, 8)
    fit = mixture.BayesianGaussianMixture(
        n_components=3,
        weight_concentration_prior_type="dirichlet_process",
        weight_concentration_prior=0.4,
        mean_prior=PRIOR_2D.mean,
        mean_precision_prior=PRIOR_2D.kappa,
        covariance_prior=PRIOR_2D.scatter,
        degrees_of_freedom_prior=PRIOR_2D.dof,
        reg_covar=0.0,
        tol=1e-10,
        max_iter=5000,
        random_state=0,
    ).fit(X)
    q = optimal_factors(X, fit.predict_proba(X), PRIOR_2D, 0.4)
    np.testing.assert_allclose(q.mean, fit.means_, rtol=1e-4)
    np.testing.assert_allclose(q.kappa, fit.mean_precision_, rtol=1e-4)
    np.testing.assert_allclose(q.dof, fit.degrees_of_freedom_, rtol=1e-4)
    np.testing.assert_allclose(q.scatter / q.dof[:, None, None], fit.covariances_, rtol=1e-4)
    np.testing.assert_allclose(q.stick.T, np.array(fit.weight_concentration_)[:, :-1], rtol=1e-4)
