"""Features on decomposable graphs: the prior by enumeration, Gibbs against enumeration."""

import math
from functools import partial
from itertools import combinations, product

import numpy as np
import pytest
from scipy.special import betaln

from streamddcrp.data.graphs import from_parents
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods import LinearGaussian
from streamddcrp.models.features.graph_ibp import (
    intensity,
    log_chance,
    log_prior,
    sample_graph_ibp,
    total,
)
from tests.oracles.feature_histories import (
    cliques_and_separators,
    evidence,
    intensities,
    log_marginal,
    window,
)

KITE = [[], [0], [0, 1], [1, 2], [1, 2], [3]]
GRAPHS = {
    "one": [[]], "apart": [[], [], []], "path": window(5, 1), "window 2": window(6, 2),
    "window 3": window(6, 3), "complete": window(5, 5), "kite": KITE,
    "star": [[], [0], [0], [0], [0]], "two parts": [[], [0], [], [2], [2, 3]],
    "tree": [[], [0], [0], [1], [1], [2]], "fan": [[], [0], [0, 1], [0, 2], [0, 3]],
    "pair": [[], [0]], "triangles": [[], [0], [0, 1], [2], [2, 3]],
    "book": [[], [0], [0, 1], [0, 1], [0, 1]],
}  # fmt: skip


@pytest.mark.parametrize("parents", GRAPHS.values(), ids=GRAPHS)
def test_prior(parents):
    """Normalisation, intensities by cliques and separators, and clique marginals."""
    graph, n, found = from_parents(parents), len(parents), intensities(parents)
    subsets = [h for m in range(1, n + 1) for h in combinations(range(n), m)]
    for h in subsets:
        assert intensity(graph, h) == pytest.approx(found.get(h, 0.0), rel=1e-12, abs=1e-15)
    assert sum(found.values()) == pytest.approx(total(graph), rel=1e-12)
    for clique in cliques_and_separators(parents)[0]:
        size = len(clique)
        for m in range(1, size + 1):
            for g in combinations(sorted(clique), m):
                mass = sum(v for h, v in found.items() if set(h) & clique == set(g))
                exact = math.factorial(m - 1) * math.factorial(size - m) / math.factorial(size)
                assert mass == pytest.approx(exact, rel=1e-12)


def test_log_prior_of_the_specification():
    Z = np.zeros((6, 4), int)
    Z[[0, 1], 0] = Z[[0, 1], 1] = Z[[1, 2, 3], 2] = Z[5, 3] = 1
    assert log_prior(from_parents(KITE), Z, 1.3) == pytest.approx(-13.431200720703, rel=1e-12)


@pytest.mark.parametrize("name", ["kite", "window 2", "path", "two parts"])
def test_gibbs_samples_the_posterior(name):
    parents = GRAPHS[name]
    rng = np.random.default_rng(1)
    X = 0.7 * rng.normal(size=(len(parents), 2))
    family = LinearGaussian(0.8, 1.0)
    _, exact = evidence(X, parents, 0.25, partial(log_marginal, family), 3)
    n = 12_000
    samples = sample_graph_ibp(X, family, graph=parents, alpha=0.25, n_sweeps=n // 4)
    shared = np.array([Z.astype(float) @ Z.T for Z in samples.features])
    batches = shared.reshape(40, n // 40, *shared.shape[1:]).mean(axis=1)
    error = batches.std(axis=0) / math.sqrt(40)
    # .01: more than three features, which the enumeration leaves out
    assert (np.abs(shared.mean(axis=0) - exact) < 4.0 * error + 0.01).all()


def test_a_finite_number_of_features():
    """All owners of two features by enumeration; the prior is beta-Bernoulli in every clique."""
    parents, K, alpha = KITE, 2, 1.5
    graph, n, each = from_parents(parents), len(parents), alpha / K
    sets = np.array(list(product([False, True], repeat=n)))
    chance = np.exp([log_chance(graph, each, owners) for owners in sets])
    assert chance.sum() == pytest.approx(1.0, rel=1e-12)
    for clique in cliques_and_separators(parents)[0]:
        m = sets[:, sorted(clique)].sum(axis=1)
        for g in range(len(clique) + 1):
            log_p = betaln(g + each, len(clique) - g + 1.0) - betaln(each, 1.0)
            assert chance[m == g].sum() == pytest.approx(
                math.comb(len(clique), g) * math.exp(log_p), rel=1e-12
            )
    X = 1.2 * np.random.default_rng(1).normal(size=(n, 2))
    family = LinearGaussian(0.8, 1.0)
    weight, shared = 0.0, np.zeros((n, n))
    for (a, p), (b, q) in product(zip(sets, chance, strict=True), repeat=2):
        Z = np.column_stack([a, b]).astype(float)
        w = p * q * math.exp(log_marginal(family, Z, X))
        weight, shared = weight + w, shared + w * Z @ Z.T
    samples = sample_graph_ibp(X, family, graph=parents, alpha=alpha, n_features=K, n_sweeps=500)
    found = np.array([Z.astype(float) @ Z.T for Z in samples.features])
    batches = found.reshape(40, len(found) // 40, n, n).mean(axis=1)
    error = batches.std(axis=0) / math.sqrt(40)
    assert (np.abs(found.mean(axis=0) - shared / weight) < 4.0 * error + 1e-3).all()
    assert samples.n_features.max() <= K


def test_unknown_noise_mass_and_ratio():
    rng = np.random.default_rng(0)
    Z = np.zeros((40, 2))
    Z[:25, 0] = Z[15:, 1] = 1.0
    X = Z @ np.array([[3.0, 0, 3, 0, 1], [0, 3, -3, 1, 0]]) + 0.3 * rng.normal(size=(40, 5))
    samples = sample_graph_ibp(X, graph=5, n_chains=1, n_sweeps=200, burn_in=100)
    found = samples.features[samples.best]
    large = found[:, found.sum(axis=0) > 5]
    np.testing.assert_array_equal(large, Z > 0)
    assert found.shape[1] <= 4  # of few owners each, if any
    again = sample_graph_ibp(X, graph=5, n_chains=1, n_sweeps=200, burn_in=100)
    np.testing.assert_array_equal(samples.log_joint, again.log_joint)


@pytest.mark.parametrize(
    ("graph", "error", "message"),
    [
        ([[], [0], [1], [0, 2]], SchemaError, "items 0 and 2 are not neighbours"),
        ([[], [1]], SchemaError, "item 1 has not arrived"),
        ([[], [0, 0]], SchemaError, "named twice"),
        (0, ConfigError, "whole number of at least 1"),
        ([[], [0]], SchemaError, "items"),
    ],
)
def test_bad_graphs(graph, error, message):
    with pytest.raises(error, match=message):
        sample_graph_ibp(np.zeros((4, 2)), graph=graph, n_sweeps=10, burn_in=1)


def test_bad_options():
    with pytest.raises(ConfigError, match="alpha must be a number"):
        sample_graph_ibp(np.zeros((3, 2)), graph=1, n_features=2)
    with pytest.raises(ConfigError, match="burn_in"):
        sample_graph_ibp(np.zeros((4, 2)), graph=1, n_sweeps=10, burn_in=-1)
    with pytest.raises(ConfigError, match="likelihood"):
        sample_graph_ibp(np.zeros((4, 2)), "normal_gamma", graph=1)
    with pytest.raises(ConfigError, match="alpha"):
        sample_graph_ibp(np.zeros((4, 2)), graph=1, alpha=-1.0)
    with pytest.raises(SchemaError):
        sample_graph_ibp([[1.0], [float("nan")]], graph=1)
