"""The rule of Wang and Blei (2009), section 3.2, for trees of components."""

from copy import copy

import numpy as np
import pytest

from streamddcrp import NestedCRPComponents, fit_nested_components
from streamddcrp.errors import ConfigError
from streamddcrp.models.trees import sampled_moves
from streamddcrp.models.trees.components import ComponentTree, wide_prior
from streamddcrp.models.trees.sampled_moves import likeness, reshape


def points(n, seed=0):
    """A common direction, and one of three others each."""
    rng = np.random.default_rng(seed)
    X = 3.0 * rng.normal(size=(n, 1)) * np.eye(6)[0]
    X += 2.0 * rng.normal(size=(n, 1)) * np.eye(6)[rng.integers(1, 4, n)]
    return X + 0.1 * rng.normal(size=X.shape)


def founded(n=200, max_nodes=8, depth=2):
    X = points(n)
    tree = ComponentTree.founded(X, depth, wide_prior(X, 1.0), max_nodes)
    tree.sweep(5)
    return tree


def unchanged(monkeypatch):
    """Let `reshape` neither open paths nor sweep."""
    monkeypatch.setattr(sampled_moves, "_grow", lambda tree, rng: None)
    monkeypatch.setattr(ComponentTree, "sweep", lambda tree, n, alone=False: None)


def test_likeness_is_the_printed_one():
    q = np.random.default_rng(0).dirichlet(np.ones(3), 20)
    want = [[a @ b / np.sqrt((a @ a) * (b @ b)) for b in q.T] for a in q.T]
    assert likeness(q) == pytest.approx(np.array(want), rel=1e-13)
    assert likeness(q * [1.0, 1.0, 0.0])[2].tolist() == [0.0, 0.0, 0.0]


def test_leaves_that_hold_the_same_points_become_one(monkeypatch):
    """Twins share every point in the same parts: J is 1. Unlike ones stay."""
    tree = founded()
    tree.add(0, tree.weights.M[2:3], 90.0)
    tree.weights.S[-1, -1] = tree.weights.S[2, 2]
    tree.add(0, 2.0 * np.eye(6)[2:3], 50.0)
    size = tree.weights.mass.sum()
    q = tree.local(tree.X).q
    alike = likeness(q)
    assert alike[1, 2] > 0.95 > alike[1, 3]
    kept = 1 if tree.weights.mass[1] >= tree.weights.mass[2] else 2
    unchanged(monkeypatch)
    assert reshape(tree, 0)
    assert tree.ids.tolist() == [0, kept, 3]
    assert tree.n_pruned == 1
    assert tree.weights.mass.sum() == pytest.approx(size, rel=1e-13)
    assert tree.weights.mass[1] == pytest.approx(size - 50.0 - tree.weights.mass[0], rel=1e-12)


@pytest.mark.parametrize(("mass", "left"), [(2e-6, 3), (5e-7, 2)])
def test_leaves_below_delta_go(monkeypatch, mass, left):
    tree = founded()
    tree.add(0, 2.0 * np.eye(6)[2:3])
    tree.weights.mass[-1] = mass
    unchanged(monkeypatch)
    reshape(tree, 0)
    assert tree.n_nodes == left


def test_paths_open_where_points_leave_the_tree():
    """With one inner node, each try opens a path below it, along what is left of one point."""
    tree = founded()
    before = tree.n_nodes
    sampled_moves._grow(tree, np.random.default_rng(0))
    assert before < tree.n_nodes <= before + 6
    assert (tree.parent[before:] == 0).all()
    root, mean = tree.weights.M[1], tree.weights.M[0]
    rest = tree.X - mean - np.outer((tree.X - mean) @ root, root) / (root @ root)
    for vector in tree.weights.M[before + 1 :]:
        assert np.abs(rest - vector).max(axis=1).min() < 1e-12


def test_the_tree_keeps_its_limit_and_its_sums():
    tree = founded(max_nodes=4, depth=3)
    for seed in range(5):
        reshape(tree, seed)
        assert tree.n_nodes <= 4
        assert tree.weights.mass.sum() == pytest.approx(len(tree.X), rel=1e-9)
    slow = copy(tree)
    slow.sweep(1)
    assert slow.bound() >= tree.bound() - 1e-9 * abs(tree.bound())


def test_sampled_moves_find_planted_directions():
    X = points(600)
    fit = fit_nested_components(X, depth=2, max_nodes=8, moves="sampled")
    error = ((X - fit.model.reconstruct_many(X)) ** 2).sum(axis=1).mean()
    assert error < 0.1  # noise off the path: 4 of 6 directions, 0.04
    assert np.isfinite(fit.bound_trace).all()
    again = fit_nested_components(X, depth=2, max_nodes=8, moves="sampled")
    assert again.model.to_bytes() == fit.model.to_bytes()
    few = fit_nested_components(X[:2], depth=2, moves="sampled")
    assert np.isfinite(few.bound_trace).all()
    with pytest.raises(ConfigError, match="moves must be one of"):
        fit_nested_components(X, moves="free")


def test_points_before_the_window_count_as_those_in_it():
    X = points(400)
    model = NestedCRPComponents(depth=2, warmup=50, window=100)
    model.learn_many(X)
    model.refine(20, moves="sampled")
    assert model.tree()["weight"] == pytest.approx(400.0, rel=1e-9)
    assert type(model).from_bytes(model.to_bytes()).to_bytes() == model.to_bytes()
