"""Similarity, losses and the estimate, against definitions and all partitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import comb
from sklearn.metrics import mutual_info_score, rand_score

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.partitions import (
    binder_loss,
    labels_of_links,
    point_estimate,
    similarity_matrix,
    vi_loss,
)
from tests.oracles.enumeration import tables

LOSSES = {"vi": vi_loss, "binder": binder_loss}


def all_partitions(n):
    """Restricted growth strings: 1, 2, 5, 15, 52, 203, 877 of them."""
    found = [[0]]
    for _ in range(n - 1):
        found = [[*labels, k] for labels in found for k in range(max(labels) + 2)]
    return np.array(found)


def variation_of_information(a, b):
    def entropy(labels):
        return mutual_info_score(labels, labels)

    return entropy(a) + entropy(b) - 2.0 * mutual_info_score(a, b)


def samples(seed, n_max=7, s_max=12):
    rng = np.random.default_rng(seed)
    n, s = rng.integers(1, n_max + 1), rng.integers(1, s_max + 1)
    labels = rng.integers(0, rng.integers(1, n + 1), (s, n))
    return labels, rng.dirichlet(np.full(s, 0.7)) + 1e-3


seeds = st.integers(0, 2**32 - 1)


@given(seeds)
def test_losses_and_similarity_by_definition(seed):
    labels, weights = samples(seed)
    weights /= weights.sum()
    estimate = labels[-1][::-1]
    n = labels.shape[1]
    same = weights @ (labels[:, :, None] == labels[:, None, :]).reshape(len(labels), -1)
    assert_allclose(similarity_matrix(labels, weights), same.reshape(n, n), atol=1e-12)
    vi = sum(
        w * variation_of_information(z, estimate) for w, z in zip(weights, labels, strict=True)
    )
    assert_allclose(vi_loss(labels, estimate, weights), vi, atol=1e-12)
    if n > 1:
        binder = sum(
            w * (1.0 - rand_score(z, estimate)) for w, z in zip(weights, labels, strict=True)
        )
        assert_allclose(binder_loss(labels, estimate, weights), binder, atol=1e-12)
        together = estimate[:, None] == estimate[None, :]
        from_matrix = np.abs(same.reshape(n, n) - together)[np.triu_indices(n, 1)].sum()
        assert_allclose(
            binder_loss(labels, estimate, weights), from_matrix / comb(n, 2), atol=1e-12
        )


@pytest.mark.parametrize("loss", LOSSES)
@given(seed=seeds)
def test_estimate_is_the_best_of_all_partitions(loss, seed):
    labels, weights = samples(seed)
    estimate = point_estimate(labels, loss, weights=weights)
    least = min(LOSSES[loss](labels, p, weights) for p in all_partitions(labels.shape[1]))
    assert LOSSES[loss](labels, estimate, weights) <= least + 1e-12
    assert_array_equal(estimate, tables_of(estimate))


def tables_of(labels):
    """The smallest index of each table."""
    return np.array([np.flatnonzero(labels == k)[0] for k in labels])


@pytest.mark.parametrize("loss", LOSSES)
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
    assert_allclose(binder_loss(labels, [0, 1, 2]), 1.0 / 3.0)


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
        (lambda: vi_loss([[0, 1]], [0, 1, 2]), SchemaError, "estimate"),
        (lambda: point_estimate([[0, 1]], "rand"), ConfigError, "'vi' or 'binder'"),
        (lambda: point_estimate([[0, 1]], n_starts=0), ConfigError, "n_starts"),
    ],
)
def test_refusals(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()
