"""Distances and candidates against dense twins; bad input is refused in words."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist

from streamddcrp.decay import Exponential, LinearWindow, Logistic, NoDecay, Window
from streamddcrp.errors import ConfigError, OrderError, SchemaError
from streamddcrp.models.ddcrp.distances import Distances
from tests.oracles.links import prior_links

DECAYS = [NoDecay(), Window(2.5), Exponential(1.3), Logistic(2.0), LinearWindow(3.0)]
FIVE = np.ones((5, 5))


def dense_log_prior(D, decay, alpha, sequential):
    out = np.array(decay.log_weight(D))
    n = len(out)
    if sequential:
        out[np.triu_indices(n, 1)] = -np.inf
    np.fill_diagonal(out, np.log(alpha))
    out[out < np.log(1e-12 * alpha)] = -np.inf
    return out - np.logaddexp.reduce(out, axis=1)[:, None]


def check(distances, D, decay, alpha):
    got = distances.candidates(decay, alpha)
    expected = dense_log_prior(D, decay, alpha, distances.sequential)
    np.testing.assert_allclose(got.log_prior(), expected, atol=1e-12)
    assert got.weight.size == 0 or (got.weight.min() > 0 and got.weight.max() == 1.0)
    i, j = np.divmod(np.arange(D.size), len(D))
    np.testing.assert_allclose(distances.between(i, j), D.ravel(), rtol=1e-12)
    other = got.with_alpha(3.0 * alpha)
    kept = got.log_prior() > -np.inf
    expected = dense_log_prior(np.where(kept, D, np.inf), decay, 3 * alpha, distances.sequential)
    np.testing.assert_allclose(other.log_prior(), expected, atol=1e-12)


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 12),
    decay=st.sampled_from(DECAYS),
    alpha=st.floats(0.01, 50.0),
    sequential=st.booleans(),
)
def test_every_kind_equals_its_dense_matrix(seed, n, decay, alpha, sequential):
    rng = np.random.default_rng(seed)
    index = np.arange(float(n))
    check(Distances.by_index(n, sequential=sequential), cdist(*2 * [index[:, None]]), decay, alpha)
    t = np.cumsum(rng.choice([0.0, 0.4, 3.0], n))
    t = t if sequential else rng.permutation(t)
    gaps = cdist(*2 * [t[:, None]])
    check(Distances.by_time(t, sequential=sequential), gaps, decay, alpha)
    Z = rng.normal(size=(n, 2))
    for metric in ("euclidean", "cityblock", "chebyshev"):
        distances = Distances.by_covariates(Z, metric, sequential=sequential)
        check(distances, cdist(Z, Z, metric), decay, alpha)
    D = np.round(rng.uniform(0, 4, (n, n)), 1)
    D[rng.random((n, n)) < 0.2] = np.inf
    np.fill_diagonal(D, 0.0)
    check(Distances.by_matrix(D, sequential=sequential), D, decay, alpha)
    i, j = np.nonzero(np.isfinite(D))
    stored = sp.coo_array((D[i, j], (i, j)), (n, n))
    check(Distances.by_matrix(stored, sequential=sequential), D, decay, alpha)
    called = Distances.by_function(lambda i, j: D[i, j], n, sequential=sequential)
    check(called, D, decay, alpha)
    edges = rng.random((n, n)) < 0.15
    hops = shortest_path(sp.csr_array(edges), directed=False, unweighted=True)
    check(Distances.by_hops(sp.csr_array(edges), sequential=sequential), hops, decay, alpha)


@given(decay=st.sampled_from(DECAYS), alpha=st.floats(0.01, 50.0), n=st.integers(1, 9))
def test_sequential_prior_is_that_of_the_decays(decay, alpha, n):
    got = Distances.by_index(n).candidates(decay, alpha).log_prior()
    np.testing.assert_allclose(got, prior_links(decay, alpha, n), atol=1e-11)


def test_index_distance_takes_memory_of_the_window_alone():
    candidates = Distances.by_index(100_000).candidates(("logistic", 560.0), 1.0)
    assert candidates.shared
    assert 560 < candidates.weight.size < 600
    assert not candidates.counted
    assert candidates.start.size == candidates.customer.size == 0
    crp = Distances.by_time(np.linspace(0, 1, 500)).candidates("none", 0.5)
    assert crp.counted


def test_weights_far_below_one_do_not_underflow():
    t = [0.0, 2000.0, 2001.0]
    candidates = Distances.by_time(t).candidates(("exponential", 2.0), 1e-290)
    assert candidates.row(1)[1].size == 0  # exp(-1000) is less than 1e-12 alpha
    near = Distances.by_time([0.0, 1280.0]).candidates(("exponential", 2.0), 1e-270)
    np.testing.assert_allclose(near.row(1)[1], [-640.0])
    assert near.own[1] == pytest.approx(1e-270 / np.exp(-640.0))


def test_a_function_that_falls_and_rises_again_keeps_its_gap():
    candidates = Distances.by_index(6).candidates(lambda d: (d != 3.0) * 1.0, 0.5)
    assert not candidates.shared
    assert candidates.row(4)[0].tolist() == [0, 2, 3]


class Graph:
    """What is used of a networkx graph."""

    def nodes(self):
        return ["a", "b", "c", "d"]

    def edges(self):
        return [("a", "b"), ("b", "a"), ("c", "c"), ("b", "c")]


def test_graph_by_name_of_vertices():
    distances = Distances.by_hops(Graph())
    candidates = distances.candidates(("window", 1.5), 1.0)
    assert [candidates.row(i)[0].tolist() for i in range(4)] == [[1], [0, 2], [1], []]
    assert distances.between(np.array([0, 0, 3]), np.array([2, 3, 3])).tolist() == [2, np.inf, 0]
    assert candidates.log_mass[3] == -np.inf
    assert candidates.log_prior()[3, 3] == 0.0


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Distances.by_matrix(np.ones((2, 3))), SchemaError, "square"),
        (lambda: Distances.by_matrix([[0.0, np.nan], [1, 0]]), SchemaError, "row 0, column 1"),
        (lambda: Distances.by_matrix([[0.0, 1], [-1.0, 0]]), SchemaError, "row 1, column 0"),
        (lambda: Distances.by_matrix(sp.csr_array([[0.0, -1], [1, 0]])), SchemaError, "row 0"),
        (lambda: Distances.by_matrix([["a", "b"], ["c", "d"]]), SchemaError, "numbers"),
        (lambda: Distances.by_hops(sp.csr_array((3, 2))), SchemaError, "square"),
        (lambda: Distances.by_time([0.0, 2.0, 1.0]), OrderError, "row 2"),
        (lambda: Distances.by_time([0.0, np.nan]), SchemaError, "row 1"),
        (lambda: Distances.by_covariates([[0.0], [np.inf]]), SchemaError, "row 1"),
        (lambda: Distances.by_covariates([[0.0]], "cosine"), ConfigError, "metric"),
        (lambda: Distances.by_index(0), ConfigError, "customers"),
        (lambda: Distances.by_function(3, 2), ConfigError, "function"),
        (
            lambda: Distances.by_function(lambda i, j: 1.0, 3).candidates("none", 1),
            ConfigError,
            "vectorize",
        ),
        (
            lambda: Distances.by_function(lambda i, j: i - 2.0 * j, 3).candidates("none", 1),
            SchemaError,
            "row 0, column 1",
        ),
        (
            lambda: Distances.by_function(lambda i, j: {}[0], 3).candidates("none", 1),
            ConfigError,
            "KeyError",
        ),
        (lambda: Distances.by_hops(np.eye(2)).candidates("none", 0.0), ConfigError, "isolated"),
        (lambda: Distances.by_matrix(FIVE).candidates("none", np.nan), ConfigError, "alpha"),
        (
            lambda: Distances.by_matrix(FIVE).candidates(lambda d: 1.0 - 2.0 * (d == 1.0), 1),
            ConfigError,
            "negative",
        ),
    ],
)
def test_bad_input_is_named(make, error, words):
    with pytest.raises(error, match=words):
        make()
