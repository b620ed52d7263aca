"""Groups that share clusters, by Gibbs sampling, against the enumeration of all partitions."""

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from streamddcrp.data.graphs import from_parents
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.models.graph.group_gibbs import sample_group_dp
from tests.oracles import graph_crp as oracle
from tests.unit.test_group_dp import GAMMA, LAYERS, PRIOR, X, alpha_given_rows, enumerated, stream

GROUPS = {1: (2, list("abab")), 2: ((1, 1), [("u", "a"), ("v", "b"), ("u", "a"), ("u", "c")])}
S, SLOW = 20_000, 10  # draws; at most this many are worth one independent draw


def canonical(labels):
    """Labels in the order of first items."""
    names = {}
    return tuple(names.setdefault(j, len(names)) for j in labels)


def seen_from_rows(labels, n_aux, n_root):
    """What a draw says of a partition: rows, and items of root and nodes at clusters with rows."""
    first = {}
    for row, j in enumerate(labels[n_aux:]):
        first.setdefault(j, row)
    items = [first.get(j, -1) for j in labels[:n_aux]]
    nodes = [[item] for item in items[n_root:]]  # one item each
    auxiliary = [i for node in [sorted(items[:n_root]), *nodes] for i in node]
    return tuple(first[j] for j in labels[n_aux:]), tuple(auxiliary)


def check_posterior(draws, found, p, n_aux, n_root):
    """The states of S draws come as often as their probabilities say."""
    exact, seen = {}, {}
    for labels, value in zip(found, p.tolist(), strict=True):
        state = seen_from_rows(labels, n_aux, n_root)
        exact[state] = exact.get(state, 0.0) + value
    for row, items in zip(draws.labels.tolist(), draws.auxiliary.tolist(), strict=True):
        state = tuple(row), tuple(items)
        seen[state] = seen.get(state, 0.0) + 1 / S
    assert set(seen) <= set(exact)
    distance = 0.5 * sum(abs(seen.get(state, 0.0) - value) for state, value in exact.items())
    values = np.array(list(exact.values()))  # the mean distance of S / SLOW independent draws
    expected = 0.5 * np.sqrt(2 * SLOW / (math.pi * S) * values * (1 - values)).sum()
    assert distance < expected, (distance, expected)


@pytest.mark.parametrize("alpha", [0.8, GAMMA])
@pytest.mark.parametrize("layers", [1, 2])
def test_posterior_is_that_of_the_enumeration(layers, alpha):
    _, n_aux, sizes, *_ = LAYERS[layers]
    n_shared, group = GROUPS[layers]
    draws = sample_group_dp(
        X,
        PRIOR,
        group=group,
        n_shared=n_shared,
        n_chains=1,
        alpha=alpha,
        n_sweeps=S,
        burn_in=100,
        seed=5,
    )
    found, p, _ = enumerated(layers, alpha)
    check_posterior(draws, found, p, n_aux, sizes[0])


@pytest.mark.parametrize("layers", [1, 2])
def test_log_joint_is_that_of_the_enumeration(layers):
    _, n_aux, sizes, *_ = LAYERS[layers]
    n_shared, group = GROUPS[layers]
    found, p, log_z = enumerated(layers, 0.8)
    joint = {}
    for labels, value in zip(found, p.tolist(), strict=True):
        state = seen_from_rows(labels, n_aux, sizes[0])
        joint.setdefault(state, set()).add(log_z + math.log(value))
    draws = sample_group_dp(
        X, PRIOR, group=group, n_shared=n_shared, n_chains=1, alpha=0.8, n_sweeps=300, seed=6
    )
    for s in range(300):  # where items have no rows, a few partitions look alike
        known = joint[tuple(draws.labels[s].tolist()), tuple(draws.auxiliary[s].tolist())]
        assert min(abs(draws.log_joint[s] - value) for value in known) < 1e-9


def block_error(values):
    return values.reshape(100, -1).mean(axis=1).std(ddof=1) / 10


@pytest.mark.parametrize("layers", [1, 2])
def test_alpha_and_number_of_clusters_have_the_posterior_means(layers):
    n_aux = LAYERS[layers][1]
    n_shared, group = GROUPS[layers]
    found, p, _ = enumerated(layers, GAMMA)
    mean = alpha_given_rows(layers, GAMMA)
    clusters = sum(
        v * len(set(labels[n_aux:])) for labels, v in zip(found, p.tolist(), strict=True)
    )
    draws = sample_group_dp(
        X, PRIOR, group=group, n_shared=n_shared, n_chains=1, alpha=GAMMA, n_sweeps=S, seed=7
    )
    assert draws.alpha.mean() == pytest.approx(mean, abs=4 * block_error(draws.alpha))
    error = block_error(draws.n_clusters)
    assert draws.n_clusters.mean() == pytest.approx(clusters, abs=4 * error)


# new rows: the name of the group, and parents of what is added, which has no data but for the row
NEW = {
    1: [("a", [[0, 1, 2, 4]]), ("c", [[0, 1]])],
    2: [(("u", "a"), [[1, 3, 5]]), (("v", "z"), [[2]]), (("w", "a"), [[0], [7]])],
}


@pytest.mark.parametrize("layers", [1, 2])
def test_density_of_new_rows_is_the_ratio_of_evidences(layers):
    parents, n_aux, *_ = LAYERS[layers]
    n_shared, group = GROUPS[layers]
    draws = sample_group_dp(
        X, PRIOR, group=group, n_shared=n_shared, n_chains=1, alpha=0.8, n_sweeps=8000, seed=8
    )
    *_, log_z = enumerated(layers, 0.8)
    new = np.array([[1.7]])
    fields = "chain", "log_joint", "labels", "auxiliary", "n_clusters", "alpha", "root_items"
    parts = [
        replace(draws, **{name: getattr(draws, name)[a : a + 80] for name in fields})
        for a in range(0, 8000, 80)
    ]
    for name, more in NEW[layers]:
        graph = from_parents(parents + more)
        missing = np.full((len(more) - 1, 1), np.nan)
        rows = np.concatenate([np.full((n_aux, 1), np.nan), X, missing, new])
        *_, both = oracle.posterior(
            rows, parents + more, graph.cliques, graph.separators, 0.8, PRIOR
        )
        exact = math.exp(both - log_z)
        found = math.exp(draws.log_predictive(new, [name])[0])
        blocks = np.exp([part.log_predictive(new, [name])[0] for part in parts])
        assert found == pytest.approx(exact, abs=4 * blocks.std(ddof=1) / 10), name


def test_shared_clusters_are_found_and_seeds_repeat():
    rows, group, label = stream()
    given = ("normal_gamma", 0.0, 0.05, 1.5, 0.5)
    options = {"n_sweeps": 40, "burn_in": 20, "seed": 1}
    for n_shared, names in [(20, group), ((20, 10), [("x", g) for g in group])]:
        one, two = (
            sample_group_dp(rows, given, group=names, n_shared=n_shared, **options) for _ in "ab"
        )
        np.testing.assert_array_equal(one.labels, two.labels)
        np.testing.assert_array_equal(one.auxiliary, two.auxiliary)
        assert np.mean([adjusted_rand_score(label, row) for row in one.labels]) > 0.95
        assert one.groups == list(dict.fromkeys(names))
        thin = sample_group_dp(rows, given, group=names, n_shared=n_shared, thin=8, **options)
        np.testing.assert_array_equal(thin.labels, one.labels[7::8])


def test_what_is_refused():
    for options in ({"n_shared": (1, 2, 3)}, {"alpha": 0.0}, {"n_sweeps": 0}):
        with pytest.raises(ConfigError):
            sample_group_dp(X, PRIOR, group=list("abab"), **options)
    with pytest.raises(ConfigError, match="regress"):
        sample_group_dp(X, ("autoregression", 1), group=list("abab"))
    with pytest.raises(SchemaError, match="one for each of the 4 rows"):
        sample_group_dp(X, PRIOR, group=list("aba"))
    with pytest.raises(SchemaError, match="row 0, group: expected"):
        sample_group_dp(X, PRIOR, group=list("abab"), n_shared=(2, 2))
    draws = sample_group_dp(X, PRIOR, group=list("abab"), n_sweeps=2, seed=0)
    with pytest.raises(SchemaError, match="expected 1 columns"):
        draws.log_predictive([[0.0, 1.0]], ["a"])


def test_number_of_auxiliary_items_is_drawn_from_its_posterior(monkeypatch):
    """Of 1, 2 or 3 items: shares, and clusters given each, by the evidences of the enumeration."""
    monkeypatch.setattr("streamddcrp.models.graph.group_gibbs.MOST", 3)
    group, log_z, clusters = [0, 1, 0, 1], [], []
    for n in (1, 2, 3):
        parents = [list(range(i)) for i in range(n)]
        parents += [
            [*range(n), *(n + j for j in range(i) if group[j] == g)] for i, g in enumerate(group)
        ]
        graph = from_parents(parents)
        rows = np.concatenate([np.full((n, 1), np.nan), X])
        found, p, value = oracle.posterior(
            rows, parents, graph.cliques, graph.separators, 0.8, PRIOR
        )
        log_z.append(value)
        clusters.append(sum(q * len(set(z[n:])) for z, q in zip(found, p, strict=True)))
    exact = np.exp(np.array(log_z) - np.logaddexp.reduce(log_z))
    draws = sample_group_dp(
        X,
        PRIOR,
        group=list("abab"),
        n_shared="auto",
        n_chains=1,
        alpha=0.8,
        n_sweeps=S // 5,
        seed=9,
    )
    for n, share, mean in zip((1, 2, 3), exact, clusters, strict=True):
        at = draws.root_items == n
        assert at.mean() == pytest.approx(share, abs=4 * block_error(at))
        some = draws.n_clusters[at][: at.sum() // 100 * 100]
        assert some.mean() == pytest.approx(mean, abs=4 * block_error(some))
    assert "root_items" in draws.traces()
    assert draws.auxiliary.shape == (S // 5, 3)
    assert np.isfinite(draws.log_predictive(X[:2], ["a", "c"])).all()
    with pytest.raises(ConfigError, match="n_shared"):
        sample_group_dp(X, PRIOR, group=list("abab"), n_shared="many")
