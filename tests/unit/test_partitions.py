"""Similarity and the estimate of least loss, against definitions and all partitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.partitions import labels_of_links, point_estimate, similarity_matrix
from tests.oracles.enumeration import tables


def all_partitions(n):
    """Restricted growth strings: 1, 2, 5, 15, 52, 203, 877 of them."""
    found = [[0]]
    for _ in range(n - 1):
        found = [[*labels, k] for labels in found for k in range(max(labels) + 2)]
    return np.array(found)


def expected_losses(loss, labels, estimates, weights):
    """Of estimates (E, N): of pairs by Binder, of entropies by the variation of information."""
    one, two = (z[:, :, None] == z[:, None, :] for z in (labels, estimates))
    if loss == "binder":
        apart = (one[:, None] != two).sum(axis=(-1, -2))
        return weights @ apart / max(labels.shape[1] * (labels.shape[1] - 1), 1)
    joint, alone, own = (-np.log(e.mean(-1)).mean(-1) for e in (one[:, None] & two, one, two))
    return weights @ (2.0 * joint - alone[:, None] - own)


def samples(seed, n_max=7, s_max=12):
    rng = np.random.default_rng(seed)
    n, s = rng.integers(1, n_max + 1), rng.integers(1, s_max + 1)
    labels = rng.integers(0, rng.integers(1, n + 1), (s, n))
    return labels, rng.dirichlet(np.full(s, 0.7)) + 1e-3


seeds = st.integers(0, 2**32 - 1)


@given(seeds)
def test_similarity_by_definition(seed):
    labels, weights = samples(seed)
    weights /= weights.sum()
    n = labels.shape[1]
    same = weights @ (labels[:, :, None] == labels[:, None, :]).reshape(len(labels), -1)
    assert_allclose(similarity_matrix(labels, weights), same.reshape(n, n), atol=1e-12)


@pytest.mark.parametrize("loss", ["vi", "binder"])
@given(seed=seeds)
def test_estimate_is_the_best_of_all_partitions(loss, seed):
    labels, weights = samples(seed)
    estimate = point_estimate(labels, loss, weights=weights)
    every = all_partitions(labels.shape[1])
    found, *others = expected_losses(loss, labels, np.array([estimate, *every]), weights)
    assert found <= min(others) + 1e-12
    assert_array_equal(estimate, tables_of(estimate))


def tables_of(labels):
    """The smallest index of each table."""
    return np.array([np.flatnonzero(labels == k)[0] for k in labels])


@pytest.mark.parametrize("loss", ["vi", "binder"])
def test_estimate_recovers_noisy_copies(loss):
    """Far more tables than any start but the samples has room for, and samples of equal weight."""
    rng = np.random.default_rng(1)
    truth = np.arange(120) // 3
    labels = np.array([np.where(rng.random(120) < 0.05, rng.integers(0, 40, 120), truth)
                       for _ in range(40)])  # fmt: skip
    assert_array_equal(point_estimate(labels, loss), tables_of(truth))
    assert_array_equal(point_estimate(labels, loss, seed=3), tables_of(truth))


def test_binder_prefers_tables_that_no_sample_has():
    labels = [[0, 0, 2], [0, 1, 0], [0, 1, 1]]
    assert_array_equal(point_estimate(labels, "binder"), [0, 1, 2])


@given(seeds)
def test_labels_of_links(seed):
    rng = np.random.default_rng(seed)
    n, s = rng.integers(1, 12), rng.integers(1, 6)
    links = rng.integers(0, n, (s, n))
    assert_array_equal(labels_of_links(links), [tables(tuple(row)) for row in links])
    assert_array_equal(labels_of_links(links[0]), tables(tuple(links[0])))


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: labels_of_links([0, 3, 1]), SchemaError, "customer 1 links to 3"),
        (lambda: labels_of_links([0.0, 0.5]), SchemaError, "whole numbers"),
        (lambda: similarity_matrix([[0.5]]), SchemaError, "whole numbers"),
        (lambda: similarity_matrix(np.zeros((0, 3), int)), SchemaError, "at least 1"),
        (lambda: similarity_matrix([[0, 1]], [-1.0]), SchemaError, "weights"),
        (lambda: similarity_matrix([[0, 1]], [np.nan]), SchemaError, "weights"),
        (lambda: point_estimate([[0, 1]], "rand"), ConfigError, "'vi' or 'binder'"),
        (lambda: point_estimate([[0, 1]], n_starts=0), ConfigError, "n_starts"),
    ],
)
def test_refusals(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()
