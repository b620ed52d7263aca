"""The speed benchmark's peer computes what it claims to."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.streams import regimes
from research.benchmarks.dense_algorithm1 import (
    DenseAlgorithm1,
    KnownVarianceTables,
    NormalWishartTables,
    link_log_prior,
)
from research.stick_breaking import GaussianPrior, log_marginal

PRIOR = GaussianPrior(np.zeros(1), 0.1, np.array([[2.0]]), 3.0)
ORACLE_X = np.array([[0.3], [-0.2], [4.1], [0.1], [3.8], [4.4]])


def exponential(scale):
    return lambda gap: np.exp(-gap / scale)


@pytest.mark.parametrize(
    ("decay", "expected"),
    [
        (None, -14.5241377484),
        (exponential(2.0), -14.6103573449),
        (lambda gap: (gap < 3.0).astype(float), -14.1964555742),
    ],
)
def test_converges_to_the_known_bound(decay, expected):
    model = DenseAlgorithm1(link_log_prior(6, 0.5, decay), NormalWishartTables(ORACLE_X, PRIOR))
    for _ in range(300):
        model.sweep(np.arange(6)[::-1])
    assert model.bound() == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("full_update", [True, False])
@pytest.mark.parametrize("family", ["normal_wishart", "known_variance"])
def test_reachability_stays_the_inverse_and_the_bound_never_falls(family, full_update):
    X, _ = regimes(80, seed=1)
    tables = (
        NormalWishartTables(X, PRIOR)
        if family == "normal_wishart"
        else KnownVarianceTables(X, variance=2.0, spread=100.0)
    )
    log_prior = link_log_prior(80, 0.1, exponential(4.0))
    model = DenseAlgorithm1(log_prior, tables, seed=2, full_update=full_update)
    bounds = [model.bound()]
    for _ in range(8):
        model.sweep()
        bounds.append(model.bound())
    inverse = np.linalg.inv(np.eye(80) - np.tril(model.links, -1))
    np.testing.assert_allclose(model.R, inverse, atol=1e-12)
    assert np.diff(bounds).min() > -1e-9 * abs(bounds[-1])


def test_evidence_is_the_log_marginal_of_soft_statistics():
    X, _ = regimes(40, seed=3)
    Z = np.random.default_rng(0).dirichlet(np.ones(4), size=40)
    tables = NormalWishartTables(X, PRIOR)
    tables.refit(Z)
    np.testing.assert_allclose(tables.evidence(), log_marginal(X, Z, PRIOR), rtol=1e-10)
