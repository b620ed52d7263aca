"""Moves of topic trees and starts from draws, against the bound recomputed from the documents."""

import logging
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp, xlogy

from streamddcrp import NestedCRPTopics, fit_nested_topics, sample_nested_topics
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.models.trees.tree import sticks
from tests.conformance.streams import corpus
from tests.oracles.nested_crp import log_joint, trees


def log_beta(x):
    return float(gammaln(x).sum() - gammaln(x.sum()))


def slow_bound(model):
    """The bound of a model whose documents are all in the window, from these and nothing else."""
    tree = model._tree
    w, s, K, V = tree.window, tree.settings, tree.n_nodes, tree.n_words
    counts, mass, total = np.zeros((K, V)), np.zeros(K), 0.0
    for d, (a, b) in enumerate(pairwise(w.offsets[: w.n + 1])):
        at, n, phi = int(w.ends[d]), w.counts[a:b], w.phi[a:b]
        assert tree.level[at] == len(s.alpha)
        mass[at] += 1.0
        total += log_beta(s.alpha + n @ phi) - log_beta(s.alpha) - (n @ xlogy(phi, phi)).sum()
        while at >= 0:
            np.add.at(counts[at], w.words[a:b], n * phi[:, tree.level[at] - 1])
            at = tree.parent[at]
    for i in range(K):
        prior = np.full(V, s.eta[tree.level[i] - 1])
        total += log_beta(prior + counts[i]) - log_beta(prior)
    return total + sticks(tree.parent[:K], tree.level[:K], mass, len(s.alpha), s.gamma)


@pytest.mark.parametrize("depth", [2, 3])
def test_a_fit_from_draws_begins_where_they_are(depth):
    X = corpus(60)[0]
    options = {"gamma": 0.7, "alpha": (3.0, 2.0, 1.0)[:depth]}
    draws = sample_nested_topics(
        X, depth=depth, eta=0.2, n_sweeps=6, burn_in=6, thin=2, seed=1, **options
    )
    fit = fit_nested_topics(X, start=draws, eta=0.2, max_sweeps=0, **options)
    assert fit.bound_trace[0] == pytest.approx(slow_bound(fit.model), rel=1e-10)
    theirs = draws.paths[draws.best]
    assert fit.model.n_nodes == draws.n_nodes[draws.best] == len(np.unique(theirs))
    same = theirs[:, None] == theirs
    np.testing.assert_array_equal(fit.paths[:, None] == fit.paths, same)
    tokens = np.bincount(draws.levels[draws.best], minlength=depth)
    tree = fit.model._tree
    held = np.bincount(tree.level[: tree.n_nodes] - 1, tree.rows[: tree.n_nodes])
    assert held == pytest.approx(tokens, abs=1e-9)
    more = fit_nested_topics(X, start=draws, eta=0.2, max_sweeps=3, **options)
    assert (np.diff(more.bound_trace) > 0.0).all()
    assert more.bound_trace[-1] == pytest.approx(slow_bound(more.model), rel=1e-9)
    again = NestedCRPTopics.from_bytes(more.model.to_bytes())
    again.learn_many(X[:5])  # a model like any other


def test_a_fit_from_draws_of_others_is_refused():
    X = corpus(20)[0]
    draws = sample_nested_topics(X, n_sweeps=2, burn_in=0, thin=2, seed=0)
    for other in (X[::-1], X[:-1], ["a few words"] * 20):
        with pytest.raises(SchemaError, match="not of these documents"):
            fit_nested_topics(other, start=draws)
    with pytest.raises(ConfigError, match="3 levels, depth is 2"):
        fit_nested_topics(X, start=draws, depth=2)
    with pytest.raises(ConfigError, match="max_nodes is 6"):
        fit_nested_topics(X, start=draws, max_nodes=6)


def test_the_bound_is_below_the_evidence_of_all_trees_and_levels():
    """Three documents of two or three words: every tree, every level of every word."""
    texts, V, gamma, eta, alpha = [(0, 0, 1), (0, 2), (1, 1)], 3, 0.8, 0.4, (2.0, 1.0)
    X = np.array([np.bincount(text, minlength=V) for text in texts])
    logs = []
    for tree in trees((0, 1, 2), 2):
        for flat in np.ndindex((2,) * 7):
            levels = [flat[:3], flat[3:5], flat[5:]]
            logs.append(log_joint(tree, levels, texts, gamma, eta, alpha, V))
    evidence = logsumexp(logs)
    options = {"depth": 2, "gamma": gamma, "eta": eta, "alpha": alpha}
    draws = sample_nested_topics(
        X, depth=2, gamma=gamma, eta=eta, alpha=alpha, n_chains=1, n_sweeps=2, burn_in=0, thin=1
    )
    for start in (None, draws):
        trace = fit_nested_topics(X, start=start, **options).bound_trace
        assert (trace < evidence).all()
        assert trace[-1] > evidence - 6.0  # no tree of fewer states is worse than one path each


def test_a_tree_without_room_says_so_once(caplog):
    subjects = np.repeat(np.eye(40), 5, axis=1) / 5.0  # of five words each
    X = np.random.default_rng(0).multinomial(30, np.concatenate([subjects] * 5))
    model = NestedCRPTopics(max_nodes=20)
    with caplog.at_level(logging.WARNING, logger="streamddcrp"):
        model.learn_many(X)
    assert model.n_nodes <= 20
    assert [r.message for r in caplog.records if "max_nodes" in r.message] == [
        "almost all of the 20 nodes that max_nodes allows are in use, so the smallest topics are "
        "removed; raise max_nodes for a finer tree, or eta for a coarser one"
    ]
