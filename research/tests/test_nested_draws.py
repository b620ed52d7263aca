"""Starts from draws of a tree of topics, and held-out words under them."""

import numpy as np
import pytest

from research.nested_draws import complete, fit_from
from streamddcrp import NestedCRPTopics, sample_nested_topics
from streamddcrp.errors import ConfigError, SchemaError
from tests.conformance.streams import corpus
from tests.oracles import nested_crp
from tests.unit.test_nested_gibbs import affordable, counts_of
from tests.unit.test_topic_moves import slow_bound


@pytest.mark.parametrize("depth", [2, 3])
def test_a_fit_from_draws_begins_where_they_are(depth):
    X = corpus(60)[0]
    options = {"gamma": 0.7, "alpha": (3.0, 2.0, 1.0)[:depth]}
    draws = sample_nested_topics(
        X, depth=depth, eta=0.2, n_sweeps=6, burn_in=6, thin=2, seed=1, **options
    )
    fit = fit_from(draws, X, eta=0.2, max_sweeps=0, **options)
    assert fit.bound_trace[0] == pytest.approx(slow_bound(fit.model), rel=1e-10)
    theirs = draws.paths[draws.best]
    assert fit.model.n_nodes == draws.n_nodes[draws.best] == len(np.unique(theirs))
    same = theirs[:, None] == theirs
    np.testing.assert_array_equal(fit.paths[:, None] == fit.paths, same)
    tokens = np.bincount(draws.levels[draws.best], minlength=depth)
    tree = fit.model._tree
    held = np.bincount(tree.level[: tree.n_nodes] - 1, tree.rows[: tree.n_nodes])
    assert held == pytest.approx(tokens, abs=1e-9)
    more = fit_from(draws, X, eta=0.2, max_sweeps=3, **options)
    assert (np.diff(more.bound_trace) > 0.0).all()
    assert more.bound_trace[-1] == pytest.approx(slow_bound(more.model), rel=1e-9)
    again = NestedCRPTopics.from_bytes(more.model.to_bytes())
    again.learn_many(X[:5])  # a model like any other


def test_a_fit_from_draws_of_others_is_refused():
    X = corpus(20)[0]
    draws = sample_nested_topics(X, n_sweeps=2, burn_in=0, thin=2, seed=0)
    for other in (X[::-1], X[:-1]):
        with pytest.raises(SchemaError, match="not of these documents"):
            fit_from(draws, other)
    with pytest.raises(ConfigError, match="3 levels, depth is 2"):
        fit_from(draws, X, depth=2)
    with pytest.raises(ConfigError, match="max_nodes is 6"):
        fit_from(draws, X, max_nodes=6)


def test_completion_is_the_predictive_probability():
    """One tree, one new document: the mean over its levels and paths, by enumeration."""
    texts, alpha, gamma, eta, n_words = ((0, 0), (1, 2)), (1.2, 0.7), 0.8, 0.4, 3
    draws = sample_nested_topics(
        counts_of(texts, n_words), depth=2, gamma=gamma, eta=eta, alpha=alpha, n_chains=1,
        n_sweeps=1, burn_in=20, thin=1, seed=5,
    )  # fmt: skip
    path, z = draws.paths[0], draws.levels[0]
    seen, prob = (0, 1), np.zeros(n_words)
    evidence = 0.0
    for tree in nested_crp.trees((0, 1, 2), 2):
        shape = frozenset(nested_crp.nodes_of(tree, range(3)))
        old = {(l, tuple(d for d in docs if d < 2)) for l, docs in shape}
        if {node for node in old if node[1]} != nested_crp.shape_of(path):
            continue
        for w in range(n_words):
            for levels in np.ndindex(2, 2, 2):
                held = [tuple(z[:2].tolist()), tuple(z[2:].tolist()), levels]
                joint = nested_crp.log_joint(
                    tree, held, (*texts, (*seen, w)), gamma, eta, alpha, n_words
                )
                prob[w] += np.exp(joint)
        evidence = prob.sum()
    n_draws = affordable(40_000)
    value = complete(
        draws, counts_of([seen] * n_words, n_words), np.eye(n_words, dtype=int), last=1, burn_in=20,
        n_draws=n_draws, seed=0,
    )  # fmt: skip
    # the averaged probabilities lie in (0, 1); 200 draws are worth at least one independent one
    assert np.abs(np.exp(value) - prob / evidence).max() < 5.0 * 0.5 / np.sqrt(n_draws / 10)


def test_halves_must_fit():
    draws = sample_nested_topics([[1, 2]], n_sweeps=1, burn_in=0, thin=1, seed=0)
    with pytest.raises(SchemaError, match="V = 2"):
        complete(draws, [[1]], [[1]])
    with pytest.raises(ConfigError, match="observed has 2 rows"):
        complete(draws, [[1, 0], [0, 1]], [[1, 0]])
