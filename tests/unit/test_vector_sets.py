"""The best partition of vectors, against the evidence of all partitions of some few of them."""

import math

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import multivariate_normal

from streamddcrp.compilation import entry
from streamddcrp.models.text.embedding_stream import Sets
from streamddcrp.models.text.kernels.agreement import MOVES, beyond_chance, compare
from streamddcrp.models.text.kernels.gaps import close_gaps, gap, sum_products
from streamddcrp.models.text.kernels.sets import dimensions, partition, prepare_sets
from streamddcrp.records import empty


@entry
def best_partition(sets, n, half, rho, alpha):
    """`partition` with one alpha."""
    prepare_sets(sets, n, half, rho)
    return partition(sets, n, alpha, alpha, alpha)


@entry
def gap_between(sets, n, k, l):
    """`gap`."""
    sum_products(sets, n)
    return gap(sets, n, k, l)


@entry
def n_closed(sets, n):
    """`close_gaps`."""
    return close_gaps(sets, n)


@entry
def found_twice(sets, first, second, h):
    """`beyond_chance`."""
    return beyond_chance(sets, first, second, h)


@entry
def compared(rhos, parts, sets, n, half, alpha, found):
    """`compare` with one alpha."""
    return compare(rhos, parts, sets, n, half, alpha, alpha, alpha, found)


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


def test_a_gap_is_measured_on_the_line_between_two_means():
    """By the vectors themselves, each left out of the mean of its own set; two laws against one."""
    labels = [0] * 9 + [1] * 6 + [2] * 5
    X, D = unit_vectors(3, labels, 20, 0.3), np.array(labels)
    sets = sets_of(X)
    sets.z[:] = labels
    p = {}
    for i, k in enumerate(labels[:15]):
        others = np.arange(20) != i
        p[i] = X[i] @ (X[(D == 0) & others].mean(0) - X[(D == 1) & others].mean(0)), k
    values, side = (np.array(column) for column in zip(*p.values(), strict=True))
    within = np.concatenate([values[side == k] - values[side == k].mean() for k in (0, 1)]).var()
    nats = 7.5 * np.log(values.var() / within) - 9 * np.log(15 / 9) - 6 * np.log(15 / 6)
    assert gap_between(sets, 20, 0, 1) == pytest.approx(nats - np.log(15), rel=1e-9)


def test_parts_of_a_story_are_joined_and_stories_are_not():
    """Two stories that spread in three dimensions of their own, each cut where it is widest."""
    rng = np.random.default_rng(4)
    y, z = np.repeat([0, 1], 60), rng.normal(size=(120, 3))
    X = rng.normal(0.0, 0.04, (120, 100)) + np.eye(100)[y]
    for k in (0, 1):
        X[y == k, 10 + 3 * k : 13 + 3 * k] += 0.5 * z[y == k]
    sets = sets_of(X / np.linalg.norm(X, axis=1)[:, None])
    sets.z[:] = 2 * y + (z[:, 0] > 0.0)
    assert n_closed(sets, 120) == 2  # that stay
    np.testing.assert_array_equal(sets.z == sets.z[0], y == 0)


def test_what_labels_share_is_counted_beyond_chance():
    """Against the entropies of labels and of pairs; nothing for one set, or for other labels."""
    rng = np.random.default_rng(7)
    z = rng.integers(0, 6, 200)
    told = np.where(rng.random(200) < 0.8, z, rng.integers(0, 6, 200))
    sets = sets_of(np.eye(200))

    def entropy(labels):
        p = np.unique(labels, return_counts=True)[1] / len(labels)
        return -(p * np.log(p)).sum()

    def shared(move):
        moved = np.roll(z, -move)
        return entropy(told) + entropy(moved) - entropy(10 * told + moved)

    moves = [r * 200 // (MOVES + 1) for r in range(1, MOVES + 1)]
    expected = shared(0) - np.mean([shared(move) for move in moves])
    assert found_twice(sets, told, z, 200) == pytest.approx(expected, rel=1e-9)
    assert found_twice(sets, np.zeros(200, np.int64), z, 200) == pytest.approx(0.0, abs=1e-12)
    alone = np.arange(200)
    assert found_twice(sets, alone, alone, 200) == pytest.approx(0.0, abs=1e-12)
    # the plug-in estimate is too large by 25 / 400 nats for 6 x 6 cells, which are taken away
    assert abs(found_twice(sets, rng.integers(0, 6, 200), z, 200)) < 25 / 400


def test_settings_are_those_that_both_halves_find():
    """Ten stories of the cosine .25 whose texts are sent on twice: evidence wants the copies."""
    rng = np.random.default_rng(8)
    y = np.tile(np.arange(100) % 10, 3)
    X = unit_vectors(9, y[:100].tolist(), 60, 0.25)[np.arange(300) % 100]
    X = X + rng.normal(0.0, 0.4 / math.sqrt(60), X.shape)
    X /= np.linalg.norm(X, axis=1)[:, None]
    order = rng.permutation(300)
    rhos, parts, found = np.array([0.8, 0.25]), np.ones(1), np.zeros(2)
    sets = sets_of(X[order])
    assert compared(rhos, parts, sets, 300, 30.0, 10.0, found) == 1
    evidence = [best_partition(sets, 300, 30.0, rho, 10.0)[0] for rho in rhos]
    assert evidence[0] > evidence[1]
    assert found[0] < found[1] < math.log(10)  # the entropy of the stories
    before = found.copy()
    compared(rhos, parts, sets, 300, 30.0, 10.0, found)
    np.testing.assert_allclose(found, before, rtol=0.05)  # a mean, of the same vectors
