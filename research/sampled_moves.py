"""The rule of Wang and Blei (2009), section 3.2, for the shape of a tree of components.

Paths are opened at random, those that hold next to nothing are dropped, and those that hold the
same points are merged. Nothing is undone: the bound may fall.
"""

from typing import Any

import numpy as np

from streamddcrp.models.trees.components import ComponentTree, rest_of
from streamddcrp.models.trees.nested_components import NestedCRPComponents
from streamddcrp.typing import FloatArray

_POINTS = 5  # "several": points that may each open a path
_LEAST = 1e-6  # delta: expected points of a leaf, below which it goes
_SAME = 0.95  # J: cosine of two leaves' probabilities over all points, above which they are one
_SETTLE = 10  # sweeps after paths were opened
_MOST, _FAILURES, _TOL = 220, 3, 1e-5


def reshape(tree: ComponentTree, seed: int) -> bool:
    """Open paths, sweep, drop and merge leaves, and sweep once more; return True.

    Paths are opened by `_POINTS` random points that each draw an endpoint from q(c_n), where that
    is an inner node; and by one inner node, drawn by its expected points, for a point drawn by its
    share of them. The paper does not say with what vectors: the first new one is what the vectors
    above leave of the point, the others are 0.
    """
    rng = np.random.default_rng([seed, tree.n_seen])
    before = set(tree.ids.tolist())
    _grow(tree, rng)
    tree.sweep(_SETTLE, alone=True)
    tree.keep((tree.level == tree.depth) & (tree.weights.mass >= _LEAST))
    _merge(tree)
    tree.sweep(1, alone=True)
    tree.changed(before)
    return True


def fit_sampled(X: FloatArray, **options: Any) -> tuple[NestedCRPComponents, FloatArray]:
    """Fit a tree from one path, the principal components of all points; return it and its bounds.

    Ten sweeps and a change by turns, until three changes raise the bound by less than 1e-5 of it.
    """
    model = NestedCRPComponents(warmup=len(X), window=len(X), **options)
    model.learn_many(X)
    tree = model._tree
    trace, failed = [tree.bound()], 0
    while len(trace) < _MOST and failed < _FAILURES:
        before = trace[-1]
        for _ in range(_SETTLE):
            tree.sweep(1)
            trace.append(tree.bound())
        reshape(tree, model.seed + len(trace))
        trace.append(tree.bound())
        failed = 0 if trace[-1] - before > _TOL * abs(before) else failed + 1
    return model, np.array(trace)


def _grow(tree: ComponentTree, rng: np.random.Generator) -> None:
    q = tree.local(tree.points, far=True).q
    inner = np.flatnonzero(tree.level < tree.depth)
    some = rng.choice(len(q), min(_POINTS, len(q)), replace=False)
    seeds = [(int(rng.choice(q.shape[1], p=q[n] / q[n].sum())), int(n)) for n in some]
    mass = q[:, inner].sum(axis=0)
    if mass.sum() > 0.0:
        p = int(inner[rng.choice(len(inner), p=mass / mass.sum())])
        seeds.append((p, int(rng.choice(len(q), p=q[:, p] / q[:, p].sum()))))
    for p, n in seeds:
        missing = tree.depth - int(tree.level[p])
        if missing and tree.n_nodes + missing <= tree.max_nodes:
            M = tree.weights.M
            vectors = np.zeros((missing, M.shape[1]))
            path = tree.paths()[p, : tree.level[p]]
            vectors[0] = rest_of(tree.points[[n]] - M[0], M, path)[0]
            tree.add(p, vectors, 1.0)


def likeness(q: FloatArray) -> FloatArray:
    """Return J, (K, K): the cosines of the columns of q (N, K), 0 with an empty one."""
    length = np.linalg.norm(q, axis=0)
    unit = q / np.where(length > 0.0, length, 1.0)
    out: FloatArray = unit.T @ unit
    return out


def _merge(tree: ComponentTree) -> None:
    """Merge leaves that are alike into the larger one, the largest leaf first."""
    leaves = np.flatnonzero(tree.level == tree.depth)
    w = tree.weights
    leaves = leaves[np.argsort(-w.mass[leaves], kind="stable")]
    same = np.triu(likeness(tree.local(tree.points).q[:, leaves]) > _SAME, 1)
    mass, gone = w.mass.copy(), set[int]()
    for a, b in np.argwhere(same).tolist():
        i, j = int(leaves[a]), int(leaves[b])
        if not gone & {i, j}:
            mass[i] += mass[j]
            mass[j] = 0.0
            gone.add(j)
    if gone:
        tree.weights = w._replace(mass=mass)
        kept = np.isin(np.arange(tree.n_nodes), [*gone], invert=True)
        tree.keep((tree.level == tree.depth) & kept)
