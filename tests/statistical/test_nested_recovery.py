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
        model = NestedCRPTopics()
        model.learn_many(X[order])
        assert model.n_nodes <= 25
        fit = fit_nested_topics(X[order])
        for name, one in (("pass", model), ("fit", fit.model)):
            found[name].append(adjusted_rand_score(new_paths, one.paths_many(new)[:, -1]))
    assert paths.max() == 5
    assert np.median(found["pass"]) > 0.85  # the specification, 14.5
    assert np.median(found["fit"]) > 0.85


@pytest.mark.parametrize(("depth", "nodes", "most"), [(2, 9, 620.0), (3, 13, 520.0)])
def test_digits_in_one_pass_are_rebuilt_as_well_as_by_the_prototype(depth, nodes, most):
    """Errors of the images learned: 587 and 479 there; principal components: 865 and 721."""
    X = load_digits().data[:1200]
    model = NestedCRPComponents(depth=depth, max_nodes=nodes)
    model.learn_many(X)
    assert model.n_nodes == nodes
    assert ((X - model.reconstruct_many(X)) ** 2).sum(axis=1).mean() < most


def turning(n, start, seed=0, V=2000):
    """Documents of thirty words: a common topic, and one of six; each topic's words turn slowly."""
    rng = np.random.default_rng([seed, start])
    out = []
    for d in range(start, start + n):
        k = int(rng.integers(6))
        shift = d // 50
        words = [*rng.integers(0, 40, 15), *(40 + (300 * k + shift + rng.integers(0, 30, 15)) % V)]
        out.append(dict.fromkeys(map(int, words), 1))
    return out


@pytest.mark.slow
def test_memory_is_flat_over_a_hundred_thousand_documents_of_a_turning_vocabulary():
    model = NestedCRPTopics(window=256, max_nodes=64, max_words=1500)
    sizes = []
    for start in range(0, 100_000, 5_000):
        model.learn_many(turning(5_000, start))
        model.events()
        sizes.append(len(model.to_bytes()))
    assert model.n_nodes <= 64
    assert max(sizes[10:]) <= 1.1 * max(sizes[5:10])  # settled: the second half as the first
