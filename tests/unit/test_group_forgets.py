"""What `GroupDP` forgets: groups exactly, by enumeration; clusters as a slow twin does it."""

import math
from functools import cache

import numpy as np
import pytest

from streamddcrp import GroupDP
from streamddcrp.data.graphs import from_parents
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.graph.config import concentration
from streamddcrp.models.graph.group_state import (
    Config,
    arrays_of,
    dense,
    empty_state,
    state_from_arrays,
)
from streamddcrp.models.graph.groups import GroupEngine, RowGroups, step
from streamddcrp.particles.kernels.names import N_NAMES
from tests.oracles import graph_crp as oracle

PRIOR = NormalGamma(0.0, 0.5, 2.0, 1.0)
GIVEN = ("normal_gamma", 0.0, 0.05, 1.5, 0.5)
GAMMA = ("gamma", 2.0, 1.5)
# the rows of the first group have no values, and are forgotten when the third comes
X = np.array([np.nan, np.nan, 0.3, -1.2, 2.4, 0.1])[:, None]
NAMES = ["q", "q", "v", "v", "w", "v"]
LAYERS = {  # without the first group: parents; auxiliary items in all, of root and nodes; groups
    1: ([[], [0], [0, 1], [0, 1, 2], [0, 1], [0, 1, 2, 3]], 2, (2, 0), [(g,) for g in NAMES]),
    2: ([[], [0], [0], [1], [1, 3], [2], [1, 3, 4]], 3, (1, 1), [(g, g) for g in NAMES]),
}


def config_of(sizes, alpha, prior=PRIOR, *, markov=False, n_particles=3, moves=0, seed=0, **limits):
    value, nodes, log_prior = concentration(alpha)
    return Config(
        prior.family, prior.hyper(1), value, *sizes, n_particles, markov, moves, seed, nodes,
        np.log(nodes), log_prior, **limits,
    )  # fmt: skip


@cache
def enumerated(layers, alpha):
    """Evidence without the first group, and the mean of alpha given the rows."""
    parents, n_aux, *_ = LAYERS[layers]
    rows, graph = np.concatenate([np.full((n_aux, 1), np.nan), X[2:]]), from_parents(parents)
    value, nodes, log_prior = concentration(alpha)
    values = nodes.tolist() or [value]
    weight = log_prior if len(nodes) else np.zeros(1)
    weight = np.exp(
        weight
        + [
            oracle.posterior(rows, parents, graph.cliques, graph.separators, a, PRIOR)[2]
            for a in values
        ]
    )
    return float(weight.sum()), float(weight @ values / weight.sum())


@pytest.mark.parametrize("alpha", [0.8, GAMMA])
@pytest.mark.parametrize("moves", [0, 2])
@pytest.mark.parametrize("layers", [1, 2])
def test_a_forgotten_group_might_never_have_come(layers, moves, alpha):
    """Evidence and mean of alpha are those of the other rows alone, without bias."""
    _, _, sizes, paths = LAYERS[layers]
    z, mean_alpha = enumerated(layers, alpha)
    found = []
    for seed in range(1000):
        config = config_of(sizes, alpha, moves=moves, seed=seed, max_groups=2)
        engine = GroupEngine(PRIOR, config, empty_state(config), 1)
        engine.step(X, np.arange(6.0), RowGroups(paths))
        assert [path[-1] for path in engine.paths] == ["v", "w"]
        values, weight = engine.alpha_weights()
        ratio = math.exp(engine.log_evidence) / z
        found.append([ratio, ratio * (values @ weight)])
    error = np.std(found, axis=0) / math.sqrt(len(found))
    assert (np.abs(np.mean(found, axis=0) - [1.0, mean_alpha]) < 3 * error).all()


def without_cluster(config, state):
    """Return names, rows, items and alpha's likelihood of each particle, and forget a cluster.

    From matrices, and from the numbers of items that each row has seen, counted again.
    """
    particles, names, pool = state.particles, state.names, state.pool
    A, G = state.groups.n.tolist()
    K = int(particles.n_tables.max())
    held, rate = {}, {}
    for p in np.flatnonzero(particles.weight > 0):
        own = dense(state.own, p, K + 1 if config.markov else G, K)
        entry = particles.entry[p, :K]
        opener = [int(names.opener[pool.name[e]]) if e >= 0 else -1 for e in entry]
        held[p] = [opener, own, dense(state.aux, p, A, K), int(particles.last[p])]
        for g, k in np.argwhere(own):  # in this order, since ties are near
            rate[opener[k]] = rate.get(opener[k], 0.0) + particles.weight[p] * own[g, k]
    seen = dict(zip(names.opener.tolist(), names.last_seen.tolist(), strict=True))
    for opener in rate:
        rate[opener] /= state.n_seen - max(opener, seen[opener])
    if len(rate) > config.max_tables:
        gone = min(rate, key=lambda opener: (rate[opener], opener))
        for one in held.values():
            opener, own = one[:2]
            if gone in opener:
                k = opener.index(gone)
                opener[k] = -1
                own[:, k] = 0
                if config.markov:
                    own[0] += own[k + 1]
                    own[k + 1] = 0
                one[3] = -1 if one[3] == k else one[3]
    return held


def seen_by_rows(config, node, own, n_nodes):
    """Numbers of items that rows and auxiliary items see."""
    seen = [*range(config.n_root)]
    for _ in range(1, n_nodes):
        seen += range(config.n_root, config.n_root + config.n_node)
    for g, size in enumerate(own.sum(axis=1).tolist()):
        m = config.n_node if not config.markov and node[g] > 0 else config.n_root
        seen += range(m, m + size)
    return np.array(seen)


KINDS = {
    "groups": ((4, 0), 0.8, False), "groups, alpha": ((4, 0), GAMMA, False),
    "nodes, alpha": ((4, 3), GAMMA, False),
    "chain": ((4, 0), 0.8, True), "chain, alpha": ((4, 0), GAMMA, True),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_clusters_are_forgotten_as_by_a_slow_twin(kind):
    """After each row: the same as without a limit, less one cluster where they are too many."""
    sizes, alpha, markov = KINDS[kind]
    rng = np.random.default_rng(0)
    rows = 30.0 * rng.integers(0, 12, (150, 1)) + rng.normal(size=(150, 1))
    group, node = np.arange(150) % 3 * (not markov), np.array([1, 1, 2] if sizes[1] else [0, 0, 0])
    node = node[:1] if markov else node
    prior = NormalGamma(0.0, 1e-4, 50.0, 50.0)  # narrow clusters
    config = config_of(sizes, alpha, prior, markov=markov, n_particles=4, moves=2, max_tables=5)
    free = config._replace(max_tables=1 << 20)
    state, n_forgotten = empty_state(config), 0
    for i in range(150):
        one = rows[[i]], np.array([float(i)]), group[[i]], node
        before = state_from_arrays(config, arrays_of(state), 3, 3, apart=True)
        before, expected_out = step(free, before, *one)
        state, out = step(config, state, *one)
        np.testing.assert_array_equal(out, expected_out)
        n_forgotten += before.counts[N_NAMES] > 5
        expected, found = without_cluster(config, before), without_cluster(config, state)
        assert state.counts[N_NAMES] <= 5
        assert found.keys() == expected.keys()
        for p, (opener, own, aux, last) in found.items():
            assert opener == expected[p][0]
            assert last == expected[p][3]
            np.testing.assert_array_equal(own, expected[p][1])
            np.testing.assert_array_equal(aux, expected[p][2])
            if len(config.nodes):
                base = state.grid.base[min(p, len(state.grid.base) - 1)]
                seen = seen_by_rows(config, node, own, len(aux))
                log_base = config.log_prior - np.log(config.nodes[:, None] + seen).sum(axis=1)
                # of numbers up to 2,000 that were changed 300 times
                np.testing.assert_allclose(base, log_base, rtol=1e-12, atol=300 * 2e3 * 2.3e-16)
    assert n_forgotten > 20


def stream(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.choice([-30.0, 0.0, 30.0, 60.0, 90.0, 120.0], (n, 1)) + rng.normal(size=(n, 1))
    return X, [f"g{g}" for g in rng.integers(0, 7, n)]


@pytest.mark.parametrize("alpha", [1.0, GAMMA])
@pytest.mark.parametrize("n_shared", [4, (4, 3)])
def test_a_forgotten_group_is_one_that_nobody_knows(n_shared, alpha):
    X, names = stream(400)
    model = GroupDP(likelihood=GIVEN, n_shared=n_shared, alpha=alpha, max_groups=3, max_tables=6)
    group = names if n_shared == 4 else [("u" if g < "g4" else "v", g) for g in names]
    for a in range(0, 400, 40):
        model.learn_many(X[a : a + 40], group=group[a : a + 40])
        known = set(model.groups)
        assert len(known) == 3
        assert group[a + 39] in known
        for x in ({0: 0.0}, {0: 33.0}):
            new = {model.score_one(x, group=g) for g in group if g not in known}
            if n_shared == 4:
                assert new == {model.score_one(x, group="z")}
        p = model.predict_proba_one({0: 0.0}, group=group[0])
        assert sum(p.values()) == pytest.approx(1.0)
        state = model._engine.state
        assert state.counts[N_NAMES] <= 6
        for p in np.flatnonzero(state.particles.weight > 0):
            K = state.particles.entry.shape[1]
            own = dense(state.own, p, len(known), K).sum(axis=0)
            np.testing.assert_array_equal(state.particles.entry[p] >= 0, own > 0)


@pytest.mark.parametrize("options", [
    {"max_groups": 2}, {"max_tables": 4}, {"max_groups": 2, "max_tables": 4, "alpha": GAMMA},
    {"markov": True, "max_tables": 4, "alpha": GAMMA},
    {"n_shared": (4, 3), "max_groups": 2, "max_tables": 4, "alpha": GAMMA},
])  # fmt: skip
def test_cutting_and_restart_change_no_bit(options):
    X, group = stream(300, 1)
    if "n_shared" in options:
        group = [("u" if g < "g3" else g, g) for g in group]
    group = None if "markov" in options else group
    part = (lambda a, z: None) if group is None else (lambda a, z: group[a:z])
    whole = GroupDP(**({"likelihood": GIVEN, "n_shared": 5, "n_particles": 6} | options))
    model = whole.clone()
    out, events = whole.step_many(X, group=group), whole.events()
    for a in range(0, 300, 23):
        got = model.step_many(X[a : a + 23], group=part(a, a + 23))
        assert got["score"].equals(out["score"][a : a + 23])
        events = events[len(model.events()) :]
        model = type(model).from_bytes(model.to_bytes())
        assert model.groups
    assert events == []
    assert model.to_bytes() == whole.to_bytes()


@pytest.mark.parametrize(("option", "most"), [("max_groups", 10), ("max_tables", 20)])
def test_memory_is_bounded(option, most, caplog):
    """Each row is of a cluster of its own, and new groups come: the log says what is forgotten."""
    narrow = ("normal_gamma", 0.0, 1e-12, 50.0, 50.0)
    model = GroupDP(likelihood=narrow, n_particles=5, **{option: most})
    sizes = []
    for a in range(0, 1500, 300):
        i = np.arange(a, a + 300)
        group = i if option == "max_groups" else i % 3
        model.learn_many(1e3 * i[:, None].astype(float), group=group.astype(str).tolist())
        sizes.append(len(model.to_bytes()))
    assert max(sizes[1:]) < 1.2 * min(sizes[1:])
    assert len(model.groups) == (10 if option == "max_groups" else 3)
    assert {event.kind for event in model.events()} == {"birth", "death"}
    said = [record for record in caplog.records if "least missed" in record.message]
    assert len(said) == 1
    assert option in said[0].message
