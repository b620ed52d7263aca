"""Trees find what made the data: hierarchical bars, digits."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from streamddcrp.estimators.nested_batch import fit_nested_topics
from streamddcrp.estimators.nested_components import NestedCRPComponents
from streamddcrp.estimators.nested_topics import NestedCRPTopics

ROWS = [[5 * r + c for c in range(5)] for r in range(5)]
COLUMNS = [[5 * r + c for r in range(5)] for c in range(5)]
CELLS = [*ROWS[:4], *COLUMNS, ROWS[4]]
PATHS = [(0, 1, 4), (0, 1, 5), (0, 2, 6), (0, 2, 7), (0, 3, 8), (0, 3, 9)]
CHANCES = (0.25, 0.2, 0.2, 0.15, 0.1, 0.1)


def bars(D, seed):
    """Documents on a 5 x 5 grid; root and level 2 are rows, leaves mostly columns."""
    rng = np.random.default_rng(seed)
    topics = np.zeros((10, 25))
    for k, cells in enumerate(CELLS):
        topics[k, cells] = 0.2
    X, paths = np.zeros((D, 25)), np.zeros(D, np.int64)
    for d in range(D):
        paths[d] = rng.choice(6, p=CHANCES)
        theta = rng.dirichlet((5, 3, 2))
        levels = rng.multinomial(rng.integers(60, 121), theta)
        for level, n in enumerate(levels):
            X[d] += rng.multinomial(n, topics[PATHS[paths[d]][level]])
    return X, paths


@pytest.mark.slow
def test_bars_in_one_pass_and_fitted():
    X, paths = bars(1000, 0)
    new, new_paths = bars(300, 99)
    found = {"pass": [], "fit": []}
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(1000)
        model = NestedCRPTopics(eta=0.1, alpha=(5, 3, 2))
        model.learn_many(X[order])
        assert model.n_nodes <= 25
        fit = fit_nested_topics(X[order], eta=0.1, alpha=(5, 3, 2))
        for name, one in (("pass", model), ("fit", fit.model)):
            found[name].append(adjusted_rand_score(new_paths, one.paths_many(new)[:, -1]))
    assert paths.max() == 5
    assert np.median(found["pass"]) > 0.65
    assert np.median(found["fit"]) > 0.85


@pytest.mark.parametrize(("depth", "nodes"), [(2, 9), (3, 13)])
def test_digits_in_one_pass_are_told_better_than_by_as_many_principal_components(depth, nodes):
    X = load_digits().data
    model = NestedCRPComponents(depth=depth, max_nodes=nodes)
    model.learn_many(X[:1200])
    assert model.n_nodes <= nodes
    new = X[1200:]
    lost = ((new - model.reconstruct_many(new)) ** 2).sum(axis=1).mean()
    axes = np.linalg.svd(X[:1200] - X[:1200].mean(axis=0), full_matrices=False)[2][:depth]
    flat = new - X[:1200].mean(axis=0)
    flat = ((flat - flat @ axes.T @ axes) ** 2).sum(axis=1).mean()
    assert lost < 0.85 * flat
