"""Moves of topic trees against the bound recomputed from the documents."""

import logging
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp, xlogy

from streamddcrp import NestedCRPTopics, fit_nested_topics
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
    for d, (a, b) in enumerate(pairwise(w.docs.offsets[: w.n + 1])):
        at, n, phi = int(w.docs.ends[d]), w.docs.counts[a:b], w.docs.phi[a:b]
        assert tree.level[at] == len(s.alpha)
        mass[at] += 1.0
        total += log_beta(s.alpha + n @ phi) - log_beta(s.alpha) - (n @ xlogy(phi, phi)).sum()
        while at >= 0:
            np.add.at(counts[at], w.docs.words[a:b], n * phi[:, tree.level[at] - 1])
            at = tree.parent[at]
    for i in range(K):
        prior = np.full(V, s.eta[tree.level[i] - 1])
        total += log_beta(prior + counts[i]) - log_beta(prior)
    return total + sticks(tree.parent[:K], tree.level[:K], mass, len(s.alpha), s.gamma)


@pytest.mark.parametrize("depth", [2, 3])
def test_moves_keep_the_bound(depth):
    X, options = corpus(60)[0], {"gamma": 0.7, "alpha": (3.0, 2.0, 1.0)[:depth], "eta": 0.2}
    fit = fit_nested_topics(X, depth=depth, n_starts=1, max_sweeps=3, **options)
    assert fit.bound_trace[-1] == pytest.approx(slow_bound(fit.model), rel=1e-9)


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
    trace = fit_nested_topics(X, **options).bound_trace
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
