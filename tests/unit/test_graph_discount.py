"""Pitman-Yor and Dirichlet weights of the graph-CRP against the Markov combination of cliques."""

import math
from itertools import product

import numpy as np
import pytest

from streamddcrp import GraphCRP
from streamddcrp.contract import P_NEW
from streamddcrp.data.graphs import from_parents
from streamddcrp.errors import ConfigError
from tests.oracles import graph_crp as oracle
from tests.unit.test_graph_crp import PRIOR, X, learn, settings, stream

LAWS = {
    "small discount": {"discount": 0.25},
    "large discount": {"discount": 0.9},
    "one cluster": {"n_clusters": 1},
    "two clusters": {"n_clusters": 2},
    "three clusters": {"n_clusters": 3},
}
WHOLE = {f"{k} in all": {"n_clusters": k, "whole_graph": True} for k in (1, 2, 3)}
laws = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
graphs = {
    "window": ({"window": 2}, oracle.window(6, 2)),
    "kite": ({"window": 6, "given": True}, oracle.KITE),
}


def enumerated(parents, **law):
    graph = from_parents(parents)
    return oracle.posterior(X, parents, graph.cliques, graph.separators, 0.8, PRIOR, **law)


@laws
@pytest.mark.parametrize("name", ["path of 5", "window 2", "tree", "two parts", "kite", "book"])
def test_every_clique_has_the_law_of_its_own(name, law):
    """The combination sums to 1; summed out, a clique has its exchangeable partition."""
    parents = oracle.GRAPHS[name]
    graph = from_parents(parents)
    log_p = {
        labels: oracle.log_combination(labels, parents, graph.cliques, graph.separators, 0.8, **law)
        for labels in oracle.partitions(len(parents))
    }
    assert sum(math.exp(v) for v in log_p.values()) == pytest.approx(1.0, rel=1e-12)
    for clique in graph.cliques:
        some, found = sorted(clique), {}
        for labels, value in log_p.items():
            mine = [labels[i] for i in some]
            key = tuple(mine.index(label) for label in mine)
            found[key] = found.get(key, 0.0) + math.exp(value)
        for key, p in found.items():
            expected = math.exp(oracle.log_partition(key, list(range(len(key))), 0.8, **law))
            assert p == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("name", oracle.GRAPHS)
def test_labels_of_the_whole_graph_have_the_law_of_their_definition(name):
    """Eq. 5 over all labellings sums to 1, and is the product of the weights over the parents.

    Eq. 6 is its sum over the labellings of a partition.
    """
    parents, alpha, K = oracle.GRAPHS[name], 0.8, 3
    graph, of_partition = from_parents(parents), {}
    for labels in product(range(K), repeat=len(parents)):
        log_p = sum(oracle.log_labels(labels, c, alpha, K) for c in graph.cliques)
        log_p -= sum(oracle.log_labels(labels, s, alpha, K) for s in graph.separators)
        of_item = [
            (sum(labels[j] == labels[k] for j in mine) + alpha / K) / (alpha + len(mine))
            for k, mine in enumerate(parents)
        ]
        assert math.exp(log_p) == pytest.approx(math.prod(of_item), rel=1e-10)
        key = tuple(list(dict.fromkeys(labels)).index(label) for label in labels)
        of_partition[key] = of_partition.get(key, 0.0) + math.exp(log_p)
    assert sum(of_partition.values()) == pytest.approx(1.0, rel=1e-10)
    for key, p in of_partition.items():
        log_p = oracle.log_whole(key, parents, graph.cliques, graph.separators, alpha, K)
        assert math.exp(log_p) == pytest.approx(p, rel=1e-10)


@pytest.mark.parametrize("law", [*LAWS.values(), *WHOLE.values()], ids=[*LAWS, *WHOLE])
@pytest.mark.parametrize("name", graphs)
def test_evidence_and_partitions_are_exact_while_all_children_fit(name, law):
    options, parents = graphs[name]
    config = settings(n_particles=200, **options, **law)
    state, _ = learn(config, X, parents if config.given else None)
    found, probs, log_z = enumerated(parents, **law)
    assert state.log_evidence == pytest.approx(log_z, abs=1e-10)
    label = state.particles.label
    together = state.particles.weight[label[:, 5 % label.shape[1]] == label[:, 4 % label.shape[1]]]
    expected = sum(p for q, p in zip(found, probs, strict=True) if q[4] == q[5])
    assert together.sum() == pytest.approx(expected, abs=1e-10)


WAYS = {
    "plain": {},
    "revised": {"rejuvenate": 2},
    "revised twice": {"rejuvenate": 2, "moves": 2},
    "parents": {"window": 6, "given": True},
}


@pytest.mark.parametrize(
    "law",
    [{"discount": 0.5}, {"n_clusters": 2}, {"n_clusters": 3}, WHOLE["2 in all"], WHOLE["3 in all"]],
    ids=str,
)
@pytest.mark.parametrize("way", WAYS)
def test_evidence_has_no_bias(way, law):
    parents = oracle.KITE if way == "parents" else None
    log_z = enumerated(parents or oracle.window(6, 2), **law)[2]
    ratio = np.array(
        [
            math.exp(
                learn(settings(n_particles=3, seed=s, **WAYS[way], **law), X, parents)[
                    0
                ].log_evidence
                - log_z
            )
            for s in range(600)
        ]
    )
    assert ratio.std() > 0
    assert ratio.mean() == pytest.approx(1.0, abs=3 * ratio.std() / math.sqrt(len(ratio)))


def test_no_discount_is_the_chinese_restaurant_process():
    """As d goes to 0, and as the clusters become many."""
    log_z = enumerated(oracle.window(6, 2))[2]
    for law in ({"discount": 1e-9}, {"n_clusters": 10**9}):
        state, _ = learn(settings(n_particles=200, **law))
        assert state.log_evidence == pytest.approx(log_z, abs=1e-7)


@pytest.mark.parametrize("rejuvenate", [0, 5])
def test_no_window_has_more_clusters(rejuvenate):
    config = settings(n_particles=20, window=10, n_clusters=2, rejuvenate=rejuvenate)
    state, out = learn(config, stream(150))
    label = state.particles.label[state.particles.weight > 0]
    last = label[:, np.arange(139, 150) % label.shape[1]]  # the last item and its parents
    assert max(len(np.unique(row)) for row in last) == 2
    assert np.isfinite(out[1:]).all()
    _, out = learn(settings(n_particles=5, window=10, n_clusters=1), stream(50))
    assert (out[1:, P_NEW] == 0.0).all()


def test_a_row_far_from_all_clusters_that_may_be():
    """No cluster may be opened: the row is scored by those there are, however poor the fit."""
    given = ("normal_gamma", 0.0, 0.05, 500.0, 0.5)
    model = GraphCRP(likelihood=given, alpha=1.0, n_clusters=1, n_particles=3)
    model.learn_many([[0.0]] * 2000 + [[1e6]])
    assert math.isfinite(model.log_evidence)
    assert model.n_tables == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"discount": 1.0}, "below 1"),
        ({"discount": -0.1}, "discount must be a positive number or 0"),
        ({"discount": math.nan}, "discount must be"),
        ({"discount": "half"}, "discount must be"),
        ({"n_clusters": 0}, "n_clusters must be"),
        ({"n_clusters": 2.5}, "n_clusters must be"),
        ({"n_clusters": 2, "discount": 0.5}, "leave one of them out"),
        ({"whole_graph": True}, "say how many"),
        ({"whole_graph": True, "discount": 0.5}, "say how many"),
        ({"discount": 0.5, "alpha": ("gamma", 1.0, 1.0)}, "set alpha to a number"),
        ({"n_clusters": 3, "alpha": ("gamma", 1.0, 1.0)}, "set alpha to a number"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        settings(**options)


def test_a_cluster_of_the_whole_graph_comes_back():
    """Silent for longer than the window, it has its id and all its members still."""
    rows = np.concatenate([stream(30), stream(30) + 40.0, stream(30)])
    given = ("normal_gamma", 0.0, 0.05, 1.5, 0.5)
    model = GraphCRP(likelihood=given, alpha=1.0, n_clusters=6, whole_graph=True, window=5)
    out = model.step_many(rows)
    label = out["label"].to_numpy()
    assert (np.isin(label[60:], label[:30])).all()
    assert not np.isin(label[30:60], label[:30]).any()
    assert model.n_tables <= 6


STATES = [{"discount": 0.3}, {"n_clusters": 2, "rejuvenate": 2}]
STATES.append({"n_clusters": 30, "rejuvenate": 2, "whole_graph": True})


@pytest.mark.parametrize("options", STATES)
def test_states_keep_the_option(options):
    given = ("normal_gamma", 0.0, 0.05, 1.5, 0.5)
    model = GraphCRP(likelihood=given, alpha=0.5, n_particles=9, window=10, **options)
    model.learn_many(stream(60))
    again = GraphCRP.from_bytes(model.to_bytes())
    assert again.get_params() == model.get_params()
    for one in (model, again):
        one.learn_many(stream(60, 1))
    assert again.to_bytes() == model.to_bytes()
