"""Trees find what made the data: hierarchical bars, digits."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from streamddcrp.models.trees.batch import fit_nested_topics
from streamddcrp.models.trees.nested_components import NestedCRPComponents
from streamddcrp.models.trees.nested_topics import NestedCRPTopics

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


SCALE, NOISE, DIMENSIONS = (3.0, 2.5, 2.0), 0.3, 30


def planted(seed, N):
    """Points on a tree of components with nine paths, three below each of three nodes."""
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(n, DIMENSIONS)) for n in (1, 3, 9)]
    parts = [s * V / np.linalg.norm(V, axis=1)[:, None] for s, V in zip(SCALE, parts, strict=True)]
    W = np.stack([np.stack([parts[0][0], parts[1][k // 3], parts[2][k]]) for k in range(9)])
    of = rng.choice(9, p=rng.dirichlet(np.full(9, 5.0)), size=N)
    X = np.einsum("nl,nld->nd", rng.normal(size=(N, 3)), W[of])
    noise = NOISE / np.sqrt(DIMENSIONS)
    return X + rng.normal(size=DIMENSIONS) + noise * rng.normal(size=X.shape), of, W, noise


def span(W):
    axes = np.linalg.svd(W, full_matrices=False)[2]
    return axes.T @ axes


@pytest.mark.parametrize(
    ("n_seeds", "N"), [(2, 600), pytest.param(5, 2000, marks=pytest.mark.slow)]
)
def test_planted_trees_of_components_come_back(n_seeds, N):
    """As many nodes, and the subspace of every path as near as so many points can tell it.

    A subspace of L directions with singular values s_l, estimated from n points with noise, is off
    by 2 sum_l noise^2 (D - L) / (n s_l^2) in squared Frobenius norm of projectors: a sum of
    L (D - L) = 81 squares, so that twice as much is more than six standard deviations away.
    """
    extra = []
    for seed in range(n_seeds):
        X, of, W, noise = planted(seed, N)
        model = NestedCRPComponents()
        model.learn_many(X)
        model.refine()
        extra.append(model.n_nodes - 13)
        paths, nodes = model.paths_many(X), model.summary()
        vectors = dict(zip(nodes["id"].to_pylist(), nodes["vector"].to_pylist(), strict=True))
        for k in range(9):
            mine = paths[of == k]
            ids, n = np.unique(mine[:, -1], return_counts=True)
            path = mine[mine[:, -1] == ids[n.argmax()]][0]
            found = span(np.array([vectors[i] for i in path.tolist()]))
            s = np.linalg.svd(W[k], compute_uv=False)
            expected = 2.0 * (noise**2 * (DIMENSIONS - 3) / (n.max() * s**2)).sum()
            assert ((found - span(W[k])) ** 2).sum() < 2.0 * expected
    assert np.median(extra) == 0
    assert set(extra) <= {0, 1}  # one leaf found twice, at most


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
