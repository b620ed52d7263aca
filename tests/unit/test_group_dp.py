"""Groups that share clusters: evidence against enumeration, correlations, the estimator."""

import math
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from river import checks

from streamddcrp.data.graphs import from_parents, log_prior
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods import NormalGamma
from streamddcrp.models.graph.config import concentration
from streamddcrp.models.graph.group_dp import GroupDP
from streamddcrp.models.graph.group_state import Config, arrays_of, empty_state
from streamddcrp.models.graph.groups import GroupEngine, step
from tests.oracles import graph_crp as oracle

X = np.array([0.3, -1.2, 2.4, 0.1])[:, None]
PRIOR = NormalGamma(0.0, 0.5, 2.0, 1.0)
GIVEN = ("normal_gamma", 0.0, 0.05, 1.5, 0.5)
# auxiliary items, then rows: N_0 = 2 and groups 0 1 0 1; root and two nodes of one item each
LAYERS = {
    1: ([[], [0], [0, 1], [0, 1], [0, 1, 2], [0, 1, 3]], 2, (2, 0), [0, 1, 0, 1], [0, 0]),
    2: ([[], [0], [0], [1], [2], [1, 3], [1]], 3, (1, 1), [0, 1, 0, 2], [1, 2, 1]),
}


GAMMA = ("gamma", 2.0, 1.5)


@cache
def enumerated(layers, alpha):
    """Partitions of auxiliary items and rows, their probabilities, and the log evidence.

    Where alpha is learned, it is summed out over its values.
    """
    if alpha == GAMMA:
        _, nodes, log_prior = concentration(alpha)
        parts = [enumerated(layers, node) for node in nodes.tolist()]
        weight = np.exp(log_prior + [log_z for *_, log_z in parts])
        joint = sum(w * p for w, (_, p, _) in zip(weight, parts, strict=True))
        return parts[0][0], joint / weight.sum(), math.log(weight.sum())
    parents, n_aux, *_ = LAYERS[layers]
    rows = np.concatenate([np.full((n_aux, 1), np.nan), X])  # auxiliary items have no data
    graph = from_parents(parents)
    return oracle.posterior(rows, parents, graph.cliques, graph.separators, alpha, PRIOR)


@pytest.mark.parametrize("alpha", [0.8, GAMMA])
@pytest.mark.parametrize("moves", [0, 2])
@pytest.mark.parametrize("layers", [1, 2])
def test_evidence_has_no_bias(layers, moves, alpha):
    _, _, sizes, group, node = LAYERS[layers]
    *_, log_z = enumerated(layers, alpha)
    value, nodes, log_prior = concentration(alpha)
    ratio, mean = [], []
    for seed in range(1000):
        config = Config(
            PRIOR.family, PRIOR.hyper(1), value, *sizes, 3, False, moves, seed, nodes,
            np.log(nodes), log_prior,
        )  # fmt: skip
        state, _ = step(
            config, empty_state(config), X, np.arange(4.0), np.array(group), np.array(node)
        )
        ratio.append(math.exp(state.log_evidence - log_z))
        values, weight = GroupEngine(PRIOR, config, state, 1).alpha_weights()
        mean.append(ratio[-1] * (values @ weight))
    assert np.mean(ratio) == pytest.approx(1.0, abs=3 * np.std(ratio) / math.sqrt(len(ratio)))
    exact = alpha_given_rows(layers, alpha)
    assert np.mean(mean) == pytest.approx(exact, abs=3 * np.std(mean) / math.sqrt(len(mean)))


def alpha_given_rows(layers, alpha):
    """Posterior mean of alpha: its values with their evidences."""
    if isinstance(alpha, float):
        return alpha
    _, nodes, log_prior = concentration(alpha)
    weight = np.exp(log_prior + [enumerated(layers, node)[2] for node in nodes.tolist()])
    return float(nodes @ weight / weight.sum())


def test_alpha_is_learned():
    rows, group, _ = stream()
    model = GroupDP(likelihood=GIVEN, alpha=GAMMA, n_particles=20)
    assert model.alpha_mean == pytest.approx(2.0 / 1.5, rel=1e-4)
    before = model.correlation("a", "b")
    model.learn_many(rows, group=group)  # four clusters of 300 rows and 20 items
    assert model.alpha_mean < 1.0
    assert model.correlation("a", "b") > before


def together(parents, pairs, alpha):
    """Probability of each pair to share a cluster, by enumeration."""
    graph, found = from_parents(parents), np.zeros(len(pairs))
    for labels in oracle.partitions(len(parents)):
        p = math.exp(log_prior(graph, labels, alpha))
        found += [p * (labels[a] == labels[b]) for a, b in pairs]
    return found


def test_correlation_is_that_of_the_enumeration():
    """Pr(items of two groups together) = correlation / (1 + alpha)."""
    for n_shared, alpha, known in [
        (1, 0.7, 0.3460207612),
        (2, 0.7, 0.4357298475),
        (3, 1.5, 4 / 15),
    ]:
        aux = oracle.window(n_shared, n_shared)
        everybody = list(range(n_shared))
        (p,) = together([*aux, everybody, everybody], [(n_shared, n_shared + 1)], alpha)
        model = GroupDP(n_shared=n_shared, alpha=alpha)
        assert p == pytest.approx(known, abs=1e-9)
        assert model.correlation("a", "b") / (1 + alpha) == pytest.approx(p, rel=1e-12)
    model = GroupDP(n_shared=(2, 1), alpha=0.7)
    same, across = model.correlation(("u", 1), ("u", 2)), model.correlation(("u", 1), ("v", 1))
    assert same == pytest.approx(0.5882352941)
    p = together([[], [0], [0, 1], [2], [2]], [(3, 4)], 0.7)  # two documents of one node
    assert p[0] == pytest.approx(same / 1.7, rel=1e-12)
    two_nodes = [[], [0], [0, 1], [0, 1], [2], [3]]
    p = together(two_nodes, [(4, 5), (2, 3)], 0.7)
    assert p[0] == pytest.approx(across / 1.7, rel=1e-12)
    assert p[1] == pytest.approx(0.7407407407 / 1.7, abs=1e-9)


def stream(n=300, seed=0):
    """Three groups over four clusters; the last two groups share two of them."""
    rng = np.random.default_rng(seed)
    share = np.array([[0.7, 0.3, 0, 0], [0, 0.5, 0.5, 0], [0, 0.3, 0.4, 0.3]])
    group = rng.integers(0, 3, n)
    label = np.array([rng.choice(4, p=share[g]) for g in group])
    means = np.array([[-8.0, 0.0], [0.0, 8.0], [8.0, 0.0], [0.0, -8.0]])
    return means[label] + rng.normal(size=(n, 2)), np.array(list("abc"))[group].tolist(), label


def test_shared_clusters_are_found():
    rows, group, label = stream()
    model = GroupDP(likelihood=GIVEN, n_particles=20)
    out = model.step_many(rows, group=group)
    found = out["label"].to_numpy()[50:]
    pairs = {(int(a), int(b)) for a, b in zip(found, label[50:], strict=True)}
    assert len(pairs) == 4
    summary = model.summary().to_pydict()
    assert len(summary["id"]) == 4
    shares = np.array([[row > 0.5 for row in summary[f"weight_{g}"]] for g in "abc"])
    assert sorted(shares.sum(axis=0).tolist()) == [1, 1, 2, 3]
    np.testing.assert_allclose(model.correlations()[0, 1:], 20 / 21)
    assert model.groups == sorted(set(group), key=group.index)
    assert all(event.kind == "birth" for event in model.events())


@pytest.mark.parametrize("n_shared", [5, (4, 3)])
@pytest.mark.parametrize(("likelihood", "alpha"), [("auto", 1.0), (GIVEN, 1.0), (GIVEN, GAMMA)])
def test_cutting_and_restart_change_no_bit(n_shared, likelihood, alpha):
    rows, names, _ = stream(150, 1)
    group = [("x" if g == "a" else "y", g) for g in names] if n_shared != 5 else names
    options = {"n_shared": n_shared, "likelihood": likelihood, "n_particles": 6, "warmup": 20}
    options["alpha"] = alpha
    whole, model = GroupDP(**options), GroupDP(**options)
    expected = whole.step_many(rows, group=group)
    parts = []
    for a, b in [(0, 7), (7, 8), (8, 60), (60, 150)]:
        parts.append(model.step_many(rows[a:b], group=group[a:b]))
        model = GroupDP.from_bytes(model.to_bytes())
    assert pa.Table.from_batches(parts).combine_chunks().to_batches()[0].equals(expected)
    assert model.to_bytes() == whole.to_bytes()
    one = GroupDP(**options)
    for i, row in enumerate(rows.tolist()):
        x = dict(enumerate(row))
        if i > 20:
            assert one.score_one(x, group=group[i]) == expected["score"][i].as_py()
        one.learn_one(x, group=group[i])
    assert one.to_bytes() == whole.to_bytes()


@pytest.mark.parametrize("alpha", [1.0, GAMMA])
def test_a_group_that_nobody_knows(alpha):
    """What is predicted before the first row of a group, or node, is what its first row gets."""
    rows, group, _ = stream(100, 2)
    for n_shared, known, new in [(5, group, "z"), ((5, 4), [("u", g) for g in group], ("u", "z"))]:
        model = GroupDP(likelihood=GIVEN, n_shared=n_shared, alpha=alpha, n_particles=10)
        model.learn_many(rows, group=known)
        x = {0: 7.0, 1: 0.5}
        before, p = model.to_bytes(), model.predict_proba_one(x, group=new)
        assert sum(p.values()) == pytest.approx(1.0)
        assert model.to_bytes() == before
        score = model.score_one(x, group=new)
        out = model.step_many([[7.0, 0.5]], group=[new])
        assert out["score"][0].as_py() == score
    # a node is drawn blind: its prediction is the mean over the draws
    expected = model.score_one(x, group=("w", "z"))
    scores = []
    for seed in range(200):
        model = GroupDP(likelihood=GIVEN, n_shared=(5, 4), alpha=alpha, n_particles=10, seed=seed)
        model.learn_many(rows[:60], group=[("u", g) for g in group[:60]])
        expected = math.exp(-model.score_one(x, group=("w", "z")))
        out = model.step_many([[7.0, 0.5]], group=[("w", "z")])
        scores.append(math.exp(-out["score"][0].as_py()) - expected)
    assert np.mean(scores) == pytest.approx(0.0, abs=4 * np.std(scores) / math.sqrt(200))


@pytest.mark.parametrize("options", [
    {"n_particles": 5},
    {"likelihood": GIVEN, "n_shared": 3, "alpha": ("gamma", 1.0, 1.0)},
])  # fmt: skip
def test_river(options):
    checks.check_estimator(GroupDP(**options))


def test_what_is_refused():
    for options in ({"n_shared": 0}, {"n_shared": (1, 2, 3)}, {"alpha": 0}, {"moves": -1}):
        with pytest.raises(ConfigError):
            GroupDP(**options)
    with pytest.raises(ConfigError, match="regress"):
        GroupDP(likelihood=("autoregression", 1), warmup=2).learn_many(np.zeros((5, 1)))
    model = GroupDP(likelihood=GIVEN, n_shared=(3, 2), n_particles=3)
    model.learn_many([[0.0]], group=[("u", "a")])
    before = model.to_bytes()
    for rows, group, message in [
        ([[0.0]], ["a"], "row 0, group: expected"),
        ([[0.0], [1.0]], [("u", "a")], "one for each of the 2 rows"),
        ([[np.inf]], [("u", "a")], "inf"),
    ]:
        with pytest.raises(SchemaError, match=message):
            model.learn_many(rows, group=group)
        assert model.to_bytes() == before


def test_nodes_that_are_still_to_come_keep_their_room_when_tables_need_more():
    """One batch whose tables outgrow their room before the last of many nodes has come."""
    rng = np.random.default_rng(0)
    rows = np.concatenate(
        [rng.normal(0, 1, (5, 1)), 40.0 * np.arange(20)[:, None], np.zeros((8, 1))]
    )
    node = np.arange(1, 10)
    group = np.concatenate([np.zeros(25, int), np.arange(1, 9)])
    config, t = Config(PRIOR.family, PRIOR.hyper(1), 5.0, 2, 2, 4, False, 1, 0), np.arange(33.0)
    whole, out = step(config, empty_state(config), rows, t, group, node)
    assert whole.groups.n.tolist() == [10, 9]
    state = empty_state(config)
    for i in range(33):
        seen = 1 + group[: i + 1].max()
        state, one = step(config, state, rows[[i]], t[[i]], group[[i]], node[:seen])
        np.testing.assert_array_equal(one[0], out[i])
    kept, expected = arrays_of(state), arrays_of(whole)
    for name, values in kept.items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)


def test_a_row_beside_which_all_others_vanish():
    """The densest table, of one group, is out of another's reach: the prior is what is left."""
    near, far, found = np.zeros((200, 4)), np.full((10, 4), 1e90), []
    first = GroupDP(n_shared=1, likelihood=GIVEN).step_many(far[:1], group=["q"])
    for seed in range(8):
        model = GroupDP(n_shared=1, likelihood=GIVEN, n_particles=1, alpha=1.0, seed=seed)
        model.learn_many(np.concatenate([near, far]), group=["p"] * 210)
        out = model.step_many(far[:1], group=["q"])
        found.append(out["p_new"][0].as_py() == 1.0)
        if found[-1]:  # alpha in alpha + 1 for a new table, and as much for the one that is far
            expected = first["score"][0].as_py() + math.log(2.0)
            assert out["score"][0].as_py() == pytest.approx(expected, rel=1e-12)
    assert any(found)
