"""The sampler of topic trees against enumeration."""

import numpy as np
import pytest
from scipy import sparse

from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.models.trees.gibbs import Seats, State, sample_nested_topics
from streamddcrp.models.trees.kernels.gibbs import log_joint
from tests.oracles import nested_crp
from tests.oracles.sampling import (
    affordable,
    least_effective_size,
    total_variation,
    total_variation_bound,
)


def counts_of(texts, n_words):
    return np.array([np.bincount(text, minlength=n_words) for text in texts])


@pytest.mark.parametrize(
    ("texts", "alpha", "eta"),
    [
        (((0, 0), (1, 2), (0,)), (1.2, 0.7), 0.4),
        (((0, 1), (0, 2)), (1.0, 0.8, 0.5), (1.5, 0.4, 0.2)),
    ],
    ids=["two levels", "three levels of their own eta"],
)
def test_draws_follow_the_posterior(texts, alpha, eta):
    gamma, n_words = 0.8, 3
    found, p = nested_crp.states(texts, gamma, eta, alpha, n_words)
    place = {state: i for i, state in enumerate(found)}
    draws = sample_nested_topics(
        counts_of(texts, n_words), depth=len(alpha), gamma=gamma, eta=eta, alpha=alpha,
        n_chains=1, n_sweeps=affordable(20_000), burn_in=50, thin=1, seed=1,
    )  # fmt: skip
    at = np.array(
        [
            place[nested_crp.shape_of(path), tuple(z.tolist())]
            for path, z in zip(draws.paths, draws.levels, strict=True)
        ]
    )
    n_eff = least_effective_size([draws.log_joint, at == p.argmax(), draws.n_nodes])
    counts = np.bincount(at, minlength=len(p))
    assert total_variation(counts, p) < total_variation_bound(p, n_eff)


def test_log_joint_is_the_textbook_one():
    texts, alpha = ((0, 0, 2), (1, 2), (0,), (2, 2, 2)), (1.2, 0.7, 0.3)
    draws = sample_nested_topics(
        counts_of(texts, 3),
        gamma=0.8,
        eta=0.4,
        alpha=alpha,
        n_chains=1,
        n_sweeps=30,
        burn_in=0,
        thin=1,
        seed=2,
    )
    for path, z, value in zip(draws.paths, draws.levels, draws.log_joint, strict=True):
        tree = next(
            tree
            for tree in nested_crp.trees(tuple(range(4)), 3)
            if frozenset(nested_crp.nodes_of(tree, range(4))) == nested_crp.shape_of(path)
        )
        levels = [tuple(z[a:b].tolist()) for a, b in ((0, 3), (3, 5), (5, 6), (6, 9))]
        expected = nested_crp.log_joint(tree, levels, texts, 0.8, 0.4, alpha, 3)
        assert value == pytest.approx(expected, abs=1e-10)


def test_slots_grow_and_counts_stay_right():
    rng = np.random.default_rng(0)
    X = rng.poisson(0.4, (80, 12))
    draws = sample_nested_topics(X, gamma=20.0, n_chains=1, n_sweeps=4, burn_in=0, thin=2, seed=0)
    assert draws.n_nodes.max() > 48  # more than the slots it began with
    for s in range(2):
        path, z = draws.paths[s].astype(int), draws.levels[s].astype(int)
        state = State.of(draws.corpus, path, z)
        law = (20.0, np.full(3, 0.3), np.full(3, 0.3 * 12))
        value = log_joint(
            Seats(draws.corpus.words, draws.corpus.first, z, path), draws.alpha, law, state
        )
        assert value == pytest.approx(draws.log_joint[s], abs=1e-8)
        assert (state.level >= 0).sum() == draws.n_nodes[s]
        assert state.docs[0] == 80
        assert (state.counts.sum(axis=1) == X.sum(axis=0)).all()


def test_a_tree_says_which_words_are_where():
    X = np.kron(np.eye(2, dtype=int), np.full((5, 3), 6))
    draws = sample_nested_topics(X, n_sweeps=20, burn_in=0, thin=20, seed=0)
    path = draws.paths[0]
    assert len(np.unique(path[:5, 1])) == 1
    assert path[0, 1] != path[5, 1]
    tree = draws.tree(names=list("abcdef"), n_words=3)
    assert tree["weight"] == 10.0
    assert tree["level"] == 1
    assert {word for child in tree["children"] for word, _ in child["words"]} <= set("abcdef")
    assert sum(child["weight"] for child in tree["children"]) == 10.0


def test_equal_seeds_give_equal_bits_from_dense_and_sparse():
    X = np.random.default_rng(1).poisson(1.0, (20, 8))
    one = sample_nested_topics(X, n_sweeps=6, burn_in=2, thin=3, seed=4)
    two = sample_nested_topics(
        sparse.coo_array(X), n_sweeps=6, burn_in=2, thin=3, seed=4, progress=True
    )
    assert (one.log_joint == two.log_joint).all()


def test_documents_without_words_and_a_single_word():
    draws = sample_nested_topics(np.array([[0], [3], [0]]), n_sweeps=5, burn_in=0, thin=1, seed=0)
    assert np.isfinite(draws.log_joint).all()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"depth": 1}, "depth"),
        ({"gamma": 0.0}, "gamma"),
        ({"eta": -1.0}, "eta"),
        ({"alpha": (1.0, 1.0)}, "alpha"),
        ({"n_sweeps": 0}, "n_sweeps"),
        ({"thin": 300}, "thin"),
    ],
)
def test_options_are_refused_by_name(options, word):
    with pytest.raises(ConfigError, match=word):
        sample_nested_topics([[1]], **options)


@pytest.mark.parametrize(
    ("documents", "words"),
    [
        ([[1, 0], [0, -2]], "row 1, word 1: -2.0 is not a count"),
        ([[0.5]], "row 0, word 0"),
        (np.zeros((0, 3)), "there are none"),
        ("a text", "documents must be numbers"),
    ],
)
def test_documents_are_refused_by_row(documents, words):
    with pytest.raises(SchemaError, match=words):
        sample_nested_topics(documents)
