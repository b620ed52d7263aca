"""Partitions of decomposable graphs against enumeration: the law, its cliques, its conditionals."""

import math
from itertools import pairwise

import numpy as np
import pytest

from streamddcrp.data.graphs import decomposable, from_parents, log_prior
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.graph.config import make_config
from streamddcrp.models.graph.gibbs import _Chain, sample_graph_crp
from tests.oracles import graph_crp as oracle

ALPHA = 0.7
PRIOR = NormalGamma(0.0, 0.5, 2.0, 1.0)


def law(parents, alpha=ALPHA):
    """Probabilities of all partitions."""
    graph = from_parents(parents)
    return {p: math.exp(log_prior(graph, p, alpha)) for p in oracle.partitions(len(parents))}


def canonical(labels):
    names = {}
    return tuple(names.setdefault(j, len(names)) for j in labels)


@pytest.mark.parametrize("parents", oracle.GRAPHS.values(), ids=oracle.GRAPHS)
def test_law_of_partitions(parents):
    graph = from_parents(parents)
    assert set(graph.cliques) == oracle.maximal_cliques(parents)
    probs = law(parents)
    for labels, p in probs.items():
        expected = oracle.log_prior(labels, parents, graph.cliques, graph.separators, ALPHA)
        assert p == pytest.approx(math.exp(expected), rel=1e-12)
    assert math.fsum(probs.values()) == pytest.approx(1.0, rel=1e-13)
    expected = sum(ALPHA / (ALPHA + len(mine)) for mine in parents)
    mean = math.fsum(p * len(set(labels)) for labels, p in probs.items())
    assert mean == pytest.approx(expected, rel=1e-12)
    for clique in graph.cliques:
        found = {}
        for labels, p in probs.items():
            key = canonical(labels[i] for i in sorted(clique))
            found[key] = found.get(key, 0.0) + p
        for labels, p in found.items():
            crp = oracle.log_crp(labels, range(len(labels)), ALPHA)
            crp += len(set(labels)) * math.log(ALPHA)
            assert p == pytest.approx(math.exp(crp), rel=1e-12)


@pytest.mark.parametrize("parents", oracle.GRAPHS.values(), ids=oracle.GRAPHS)
def test_ordering_of_a_graph_given_by_edges_does_not_matter(parents):
    n = len(parents)
    moved = np.random.default_rng(1).permutation(n)
    pairs = [[moved[i] for i in edge] for edge in oracle.edges(parents)]
    graph, known = decomposable(n, pairs), from_parents(parents)
    as_sets = [{frozenset(moved[list(c)].tolist()) for c in known.cliques}, set(graph.cliques)]
    assert as_sets[0] == as_sets[1]
    for labels in oracle.partitions(n):
        there = np.empty(n, int)
        there[moved] = labels
        value = log_prior(known, labels, ALPHA)
        assert log_prior(graph, there, ALPHA) == pytest.approx(value, rel=1e-12)


def test_known_probabilities():
    path = law(oracle.window(3, 1))
    a = ALPHA
    assert path[0, 0, 0] == pytest.approx((a + 1) ** -2)
    assert path[0, 1, 0] == 0.0
    assert path[0, 1, 2] == pytest.approx(a**2 * (a + 1) ** -2)
    kite = from_parents(oracle.KITE)
    known = {
        "000000": -1.961570279475,
        "011112": -3.368067347913,
        "012345": -5.824386540849,
        "001111": -4.397686765094,
        "000101": -3.011392403974,
    }
    for labels, value in known.items():
        assert log_prior(kite, list(labels), a) == pytest.approx(value, abs=1e-12)
    support = [p for p in law(oracle.KITE).values() if p > 0]
    assert len(support) == 70
    sizes = {1: 2**5, 2: 89, 3: 150}
    for r, size in sizes.items():
        assert sum(p > 0 for p in law(oracle.window(6, r)).values()) == size


def conditional(parents, labels, k):
    """Law of item k's cluster under the kernel, from a grid of uniform numbers, without data."""
    n, grid = len(parents), 400
    config = make_config(
        family=PRIOR.family, hyper=PRIOR.hyper(1), window=1, given=True, alpha=ALPHA, n_particles=1
    )
    chain = _Chain(
        from_parents(parents), np.full((n, 1), np.nan), config, ALPHA, np.random.default_rng()
    )
    found = {}
    for i in range(grid):
        chain.begin(np.array(labels))

        class Fixed:
            def random(self, size, u=(i + 0.5) / grid):
                return np.full(size, u)

        chain.rng = Fixed()
        chain._sweep(np.array([k]))
        key = canonical(chain.labels)
        found[key] = found.get(key, 0) + 1 / grid
    return found


@pytest.mark.parametrize("name", ["path of 5", "window 2", "tree", "two parts", "kite", "book"])
def test_full_conditionals(name):
    parents = oracle.GRAPHS[name]
    probs = {p: v for p, v in law(parents).items() if v > 0}
    n = len(parents)
    rng = np.random.default_rng(2)
    some = [list(probs)[i] for i in rng.choice(len(probs), min(12, len(probs)), replace=False)]
    for labels in some:
        k = int(rng.integers(n))
        rest = canonical(labels[:k] + labels[k + 1 :])
        same = {p: v for p, v in probs.items() if canonical(p[:k] + p[k + 1 :]) == rest}
        total = sum(same.values())
        found = conditional(parents, labels, k)
        assert set(found) <= set(same)
        for p, v in same.items():
            assert found.get(p, 0.0) == pytest.approx(v / total, abs=1.5 / 400)


def test_known_conditionals():
    near = pytest.approx
    start = (0, 0, 0, 1, 0, 1)
    found = conditional(oracle.KITE, start, 1)
    assert found[start] == near(0.7017543860, abs=2e-3)
    assert found[0, 1, 0, 1, 0, 1] == near(0.1754385965, abs=2e-3)
    assert found[0, 1, 0, 2, 0, 2] == near(0.1228070175, abs=2e-3)
    assert conditional(oracle.KITE, (0,) * 6, 3) == {(0,) * 6: near(1.0)}
    path = conditional(oracle.window(3, 1), (0, 1, 2), 1)
    assert path[0, 0, 1] == path[0, 1, 1] == near(1 / (ALPHA + 2), abs=2e-3)


@pytest.mark.parametrize("name", ["kite", "tree", "window 2", "two parts"])
def test_gibbs_with_a_discount_has_the_posterior_of_the_enumeration(name):
    parents = oracle.GRAPHS[name]
    X = np.array([0.3, -1.2, 0.1, 2.4, 2.0, -0.7])[:, None]
    graph = from_parents(parents)
    found, probs, log_z = oracle.posterior(
        X, parents, graph.cliques, graph.separators, 0.8, PRIOR, discount=0.4
    )
    draws = sample_graph_crp(
        X, PRIOR, parents=parents, alpha=0.8, discount=0.4, n_chains=1, n_sweeps=20_000, seed=9
    )
    exact = dict(zip(found, probs.tolist(), strict=True))
    seen = {}
    for row, log_joint in zip(draws.labels.tolist(), draws.log_joint, strict=True):
        state = canonical(row)
        if state not in seen:
            assert log_joint == pytest.approx(log_z + math.log(exact[state]), abs=1e-9)
        seen[state] = seen.get(state, 0.0) + 1 / len(draws.labels)
    distance = 0.5 * sum(abs(seen.get(p, 0.0) - v) for p, v in exact.items())
    # the mean distance of a tenth as many independent draws
    values = np.array(list(exact.values()))
    expected = 0.5 * np.sqrt(2 * values * (1 - values) / (math.pi * 2_000)).sum()
    assert distance < expected, (distance, expected)


def test_gibbs_has_the_posterior_of_the_enumeration():
    parents = oracle.KITE
    X = np.array([0.3, -1.2, 0.1, 2.4, 2.0, -0.7])[:, None]
    graph = from_parents(parents)
    found, probs, log_z = oracle.posterior(X, parents, graph.cliques, graph.separators, 0.8, PRIOR)
    assert log_z == pytest.approx(-12.368078784960, abs=1e-9)
    draws = sample_graph_crp(
        X, PRIOR, parents=parents, alpha=0.8, n_chains=1, n_sweeps=20_000, seed=3
    )
    exact = dict(zip(found, probs, strict=True))
    seen = {}
    for row in draws.labels.tolist():
        seen[canonical(row)] = seen.get(canonical(row), 0) + 1 / len(draws.labels)
    distance = 0.5 * sum(abs(seen.get(p, 0.0) - v) for p, v in exact.items())
    assert set(seen) <= set(exact)
    # independent draws differ by 0.5 sum sqrt(2 p (1-p) / (pi S)) on average: .019; here correlated
    assert distance < 0.04
    together = np.mean(draws.labels[:, 3] == draws.labels[:, 4])
    assert together == pytest.approx(0.4467914301, abs=0.02)
    assert draws.n_clusters.mean() == pytest.approx(3.1995813614, abs=0.06)
    i = int(draws.log_joint.argmax())
    best = found[int(probs.argmax())]
    assert draws.log_joint[i] == pytest.approx(log_z + math.log(probs.max()), abs=1e-9)
    assert canonical(draws.labels[i]) == best


def test_alpha_is_drawn_from_its_posterior():
    """Without data: 8 items, window 2, alpha ~ Gamma(2, 1); moments of the prior come back."""
    draws = sample_graph_crp(
        np.ma.masked_invalid(np.full((8, 1), np.nan)), PRIOR, parents=oracle.window(8, 2),
        alpha=("gamma", 2.0, 1.0), n_chains=1, n_sweeps=20_000, seed=4,
    )  # fmt: skip
    # sd of alpha is sqrt(2); an autocorrelation time of 8 leaves 2,500 draws
    assert draws.alpha.mean() == pytest.approx(2.0, abs=4 * math.sqrt(2 / 2500))
    three = draws.alpha[draws.n_clusters == 3]
    assert three.mean() == pytest.approx(1.2961319121, abs=4 * 0.79 / math.sqrt(len(three) / 8))


def test_seeds_and_thinning():
    X = np.random.default_rng(5).normal(size=(20, 1))
    options = {"parents": oracle.window(20, 3), "n_chains": 1, "n_sweeps": 20, "burn_in": 5}
    one, two = (sample_graph_crp(X, PRIOR, seed=1, **options) for _ in range(2))
    np.testing.assert_array_equal(one.labels, two.labels)
    thin = sample_graph_crp(X, PRIOR, seed=1, thin=5, **options)
    np.testing.assert_array_equal(thin.labels, one.labels[4::5])
    assert all((np.diff(np.flatnonzero(row == j)) <= 3).all() for row in one.labels for j in row)


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ({"edges": [[0, 1], [1, 2], [2, 3], [3, 0]]}, "not decomposable"),
        ({"edges": [[0, 4]]}, r"edge 0 is \[0, 4\]"),
        ({"edges": [[1, 1]]}, r"edge 0 is \[1, 1\]"),
        ({"parents": [[], [0], [1], [0, 2]]}, "items 0 and 2 are not neighbours"),
        ({"parents": [[], [2], [0], []]}, "row 1, parents: item 2 has not arrived"),
        ({"parents": [[], [0]]}, "one list for each of the 4 rows"),
    ],
)
def test_graphs_that_are_refused(graph, message):
    with pytest.raises(SchemaError, match=message):
        sample_graph_crp(np.zeros((4, 1)), PRIOR, n_sweeps=1, **graph)


def test_options_that_are_refused():
    path = {"edges": list(pairwise(range(3)))}
    with pytest.raises(ConfigError, match="edges or by parents"):
        sample_graph_crp(np.zeros((3, 1)), PRIOR)
    with pytest.raises(ConfigError, match="n_sweeps"):
        sample_graph_crp(np.zeros((3, 1)), PRIOR, n_sweeps=0, **path)
    with pytest.raises(ConfigError, match="alpha"):
        sample_graph_crp(np.zeros((3, 1)), PRIOR, alpha=-1.0, **path)
    with pytest.raises(ConfigError, match="set alpha to a number"):
        sample_graph_crp(np.zeros((3, 1)), PRIOR, discount=0.3, **path)
