"""The best partition of vectors, against the evidence of all partitions of some few of them."""

import math

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import multivariate_normal

from streamddcrp.compilation import entry
from streamddcrp.models.text.embedding_stream import Sets
from streamddcrp.models.text.kernels.sets import dimensions, partition, prepare_sets
from streamddcrp.records import empty


@entry
def best_partition(sets, n, half, rho, alpha):
    """`partition` with one alpha."""
    prepare_sets(sets, n, half, rho)
    return partition(sets, n, alpha, alpha, alpha)


@entry
def n_dimensions(sets, n, most):
    """`dimensions`."""
    return dimensions(sets, n, most)


def unit_vectors(seed, labels, D, rho):
    rng = np.random.default_rng(seed)
    means = rng.normal(0.0, math.sqrt(rho / D), (max(labels) + 1, D))
    X = means[labels] + rng.normal(0.0, math.sqrt((1.0 - rho) / D), (len(labels), D))
    return X / np.linalg.norm(X, axis=1)[:, None]


def sets_of(X):
    sets = empty(Sets, {"N": len(X), "B": len(X) + 1})
    sets.gram[:] = X @ X.T
    return sets


def partitions(n):
    """All partitions of n things, as labels in order of appearance."""
    if n == 0:
        yield []
        return
    for rest in partitions(n - 1):
        for k in range(max(rest, default=-1) + 2):
            yield [*rest, k]


def log_density(X, rho):
    m, D = X.shape
    cov = (rho + (1.0 - rho) * np.eye(m)) / D
    return multivariate_normal(np.zeros(m), cov).logpdf(X.T).sum()


def evidence(X, labels, rho, alpha):
    """log p(z) plus the log density of all vectors, against each in a story of its own."""
    total = -sum(math.log(alpha + i) for i in range(len(X)))
    for k in range(max(labels) + 1):
        own = X[np.array(labels) == k]
        alone = multivariate_normal(np.zeros(X.shape[1]), np.eye(X.shape[1]) / X.shape[1])
        total += math.log(alpha) + gammaln(len(own))
        total += log_density(own, rho) - np.sum(alone.logpdf(own))
    return total


@pytest.mark.parametrize("seed", range(6))
def test_the_best_of_all_partitions_is_found(seed):
    rho, alpha, D = 0.5, 2.0, 24
    X = unit_vectors(seed, [0, 1, 0, 2, 1, 0, 1], D, rho)
    sets = sets_of(X)
    found, _ = best_partition(sets, len(X), 0.5 * D, rho, alpha)
    best = max(evidence(X, labels, rho, alpha) for labels in partitions(len(X)))
    _, labels = np.unique(sets.z, return_inverse=True)
    assert found == pytest.approx(evidence(X, labels.tolist(), rho, alpha), rel=1e-9)
    assert found == pytest.approx(best, rel=1e-9)


def test_a_set_is_found_that_no_pair_speaks_for():
    """Forty vectors of the cosine .15 among noise: a pair of them is worth less than alpha."""
    X = unit_vectors(0, [0] * 40 + list(range(1, 161)), 100, 0.15)
    sets = sets_of(X)
    best_partition(sets, 200, 50.0, 0.15, 12.0)
    own = np.bincount(sets.z[:40]).max()
    assert own >= 36
    assert np.bincount(sets.z[40:], minlength=200).max() <= 12


@pytest.mark.parametrize(("D", "n_stories"), [(50, 300), (100, 5), (200, 2)])
def test_independent_dimensions_are_counted(D, n_stories):
    """The variance of products of vectors of different stories is 1 / D; a third may be of one."""
    rng = np.random.default_rng(2)
    X = unit_vectors(1, rng.integers(0, n_stories, 300).tolist(), D, 0.4)
    wide = np.hstack([X, np.zeros((300, 2 * D))])
    found = n_dimensions(sets_of(wide), 300, 3.0 * D)
    assert 0.7 * D < found < 1.3 * D
