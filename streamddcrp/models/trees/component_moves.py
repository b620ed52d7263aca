"""Moves of a tree of components: paths are opened, nodes split or hung elsewhere, leaves given up.

Each only changes the tree; sweeps and the bound then tell whether that was good.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from streamddcrp.models.trees.loadings import reconstruct
from streamddcrp.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from streamddcrp.models.trees.components import ComponentTree

_SHARE, _LEAST = 0.15, 20  # points of a path that is opened
_TURNS = 12  # rounds of the power method
_SAME = 1e-10  # length of a direction, in that of the longest, below which it is none
_TINY = 1e-300


class View(NamedTuple):
    """What the moves of a tree look at.

    Attributes
    ----------
    X : ndarray, shape (N, D)
        The window about the mean.
    below : ndarray, shape (N, K)
        Probability that the path of a point goes through a node.
    lost : ndarray, shape (N,)
        Squared error of a point.
    """

    X: FloatArray
    below: FloatArray
    lost: FloatArray

    @classmethod
    def of(cls, tree: "ComponentTree") -> "View":
        """Look at a tree."""
        q, M = tree.local(tree.X).q, tree.weights.M
        told = reconstruct(tree.X, q.argmax(axis=1), tree.parent, tree.level, tree.depth, M)
        below = q.copy()
        for i in range(tree.n_nodes - 1, 0, -1):
            below[:, tree.parent[i]] += below[:, i]
        return cls(tree.X - M[0], below, ((tree.X - told) ** 2).sum(axis=1))


def _pick(rng: np.random.Generator, pull: FloatArray) -> int | None:
    """Draw a place by weights, or None if there is no weight."""
    total = pull.sum()
    return int(rng.choice(len(pull), p=pull / total)) if total > 0.0 else None


def _rest(X: FloatArray, M: FloatArray, path: IntArray) -> FloatArray:
    """Return points less what the vectors of a path can say."""
    if not len(path):
        return X
    _, s, axes = np.linalg.svd(M[path + 1], full_matrices=False)
    axes = axes[s > _SAME * max(s[0], _TINY)]
    out: FloatArray = X - X @ axes.T @ axes
    return out


def _leading(X: FloatArray, n: int) -> FloatArray:
    """Return the n leading directions of points, as long as points are along them; (n, D)."""
    out = np.zeros((n, X.shape[1]))
    wide = X.shape[1] > len(X)
    size, axes = np.linalg.eigh(X @ X.T if wide else X.T @ X)
    r = min(n, len(size))
    size, axes = np.sqrt(np.maximum(size[::-1][:r], 0.0)), axes[:, ::-1][:, :r].T
    if wide:
        axes = axes @ X
        axes /= np.maximum(np.linalg.norm(axes, axis=1), _TINY)[:, None]
    out[:r] = axes * (size / np.sqrt(len(X)))[:, None]
    return out


def _open(tree: "ComponentTree", view: View, rng: np.random.Generator) -> bool:
    """Open a path below an inner node, for points alike that are told badly."""
    inner = tree.level < tree.depth
    p = _pick(rng, np.where(inner, view.lost @ view.below, 0.0))
    if p is None or (seed := _pick(rng, view.lost * view.below[:, p])) is None:
        return False
    rest = _rest(view.X, tree.weights.M, tree.paths()[p, : tree.level[p]])
    alike = np.abs(rest @ rest[seed]) / np.maximum(np.linalg.norm(rest, axis=1), _TINY)
    alike *= view.below[:, p]
    m = min(len(rest), max(_LEAST, int(_SHARE * view.below[:, p].sum())))
    some = rest[np.argsort(-alike, kind="stable")[:m]]
    tree.add(p, _leading(some, tree.depth - int(tree.level[p])), m * tree.n_seen / len(rest))
    return True


def _split(tree: "ComponentTree", view: View, rng: np.random.Generator) -> bool:
    """Part the children of a node between it and a new sibling, each with a direction of its own.

    Two directions in turns: every child goes where its points are told better.
    """
    parent, level = tree.parent, tree.level
    several = np.bincount(parent[1:], minlength=tree.n_nodes) > 1
    p = _pick(rng, np.where((level > 1) & several, view.lost @ view.below, 0.0))
    if p is None:
        return False
    children = np.flatnonzero(parent == p)
    rows = np.flatnonzero(view.below[:, children].sum(axis=1) > 0.5)
    of = view.below[np.ix_(rows, children)].argmax(axis=1)
    rest = _rest(view.X[rows], tree.weights.M, tree.paths()[p, : level[p] - 1])
    energy = (rest**2).sum(axis=1)
    first = _pick(rng, energy)
    if first is None:
        return False
    told = (rest @ rest[first]) ** 2 / energy[first]
    second = _pick(rng, np.maximum(energy - told, 0.0) * (of != of[first]))
    if second is None:
        return False
    two = rest[[first, second]]
    for _ in range(_TURNS):
        along = rest @ (two / np.maximum(np.linalg.norm(two, axis=1), _TINY)[:, None]).T
        sums = [np.bincount(of, along[:, i] ** 2, len(children)) for i in range(2)]
        here = sums[0] > sums[1]
        side = here[of]
        if side.all() or not side.any():
            return False
        two = np.stack([
            _scaled(rest[part], along[part, i]) for i, part in enumerate((side, ~side))
        ])  # fmt: skip
    tree.turn(p, two[0])
    new = tree.add(int(parent[p]), two[1:])
    tree.hang(children[~here], new)
    return True


def _scaled(rest: FloatArray, along: FloatArray) -> FloatArray:
    """Return the next direction of points by the power method, as long as points are along it."""
    v = along @ rest
    out: FloatArray = v * (np.sqrt((along**2).mean()) / max(float(np.linalg.norm(v)), _TINY))
    return out


def _graft(tree: "ComponentTree", view: View, rng: np.random.Generator) -> bool:
    """Hang a node, and what is below it, below the other parent with which it tells most."""
    level, parent = tree.level, tree.parent
    elsewhere = (parent > 0) & (np.bincount(level)[level[parent]] > 1)
    c = _pick(rng, np.where(elsewhere, view.lost @ view.below, 0.0))
    if c is None:
        return False
    rows = np.flatnonzero(view.below[:, c] > 0.5)
    others = np.flatnonzero((level == level[parent[c]]) & (np.arange(len(level)) != parent[c]))
    if not len(rows):
        return False
    found = []
    for p in others.tolist():
        rest = _rest(view.X[rows], tree.weights.M, tree.paths()[p, : level[p]])
        v = rest[(rest**2).sum(axis=1).argmax()]
        for _ in range(_TURNS):
            along = rest @ (v / max(float(np.linalg.norm(v)), _TINY))
            v = _scaled(rest, along)
        found.append((float((along**2).sum() - (rest**2).sum()), p, v))
    _, p, v = max(found, key=lambda one: one[0])
    tree.turn(c, v)
    tree.hang(np.array([c]), p)
    return True


def _merge(tree: "ComponentTree", view: View, rng: np.random.Generator) -> bool:
    """Make one of two inner siblings, with the direction that all paths below them share most.

    Of paths that part at once the vectors of the first node may be turned at will within their
    span, so that siblings with a common direction need not look alike.
    """
    level, parent = tree.level, tree.parent
    one_of = (parent >= 0) & (np.bincount(parent[1:], minlength=len(parent))[parent] > 1)
    i = _pick(rng, (one_of & (level < tree.depth)).astype(np.float64))
    if i is None:
        return False
    found = []
    for j in np.flatnonzero((parent == parent[i]) & (np.arange(len(parent)) != i)).tolist():
        rows = np.concatenate([_spans(tree, view, i), _spans(tree, view, j)])
        _, s, axes = np.linalg.svd(rows, full_matrices=False)
        found.append((s[0] ** 2 / max(float(view.below[:, [i, j]].sum()), _TINY), j, axes[0]))
    _, j, v = max(found, key=lambda one: one[0])
    rows = np.flatnonzero(view.below[:, [i, j]].sum(axis=1) > 0.5)
    if not len(rows):
        return False
    tree.turn(i, v * np.sqrt(((view.X[rows] @ v) ** 2).mean()))
    tree.hang(np.flatnonzero(parent == j), i)
    return True


def _spans(tree: "ComponentTree", view: View, i: int) -> FloatArray:
    """Return bases of what paths through a node say from it on, by the roots of their points."""
    M, paths, at = tree.weights.M, tree.paths(), int(tree.level[i]) - 1
    out = []
    for leaf in np.flatnonzero((paths[:, at] == i) & (tree.level == tree.depth)).tolist():
        rest = _rest(M[paths[leaf, at:] + 1], M, paths[i, :at])
        _, s, axes = np.linalg.svd(rest, full_matrices=False)
        out.append(axes[s > _SAME * max(s[0], _TINY)] * np.sqrt(view.below[:, leaf].sum()))
    return np.concatenate(out)


def _prune(tree: "ComponentTree", view: View, rng: np.random.Generator) -> bool:
    """Give a leaf up."""
    if np.count_nonzero(tree.level == tree.depth) < 2:
        return False
    shed(tree)
    return True


MOVES = (_open, _open, _split, _graft, _merge, _prune)


def shed(tree: "ComponentTree") -> None:
    """Give up the leaf that the bound will miss least, with the nodes that only led to it.

    What its points lose, other nodes as they are, less the divergence that its vectors cost.
    """
    q, w = tree.local(tree.X, far=True).q, tree.weights
    D, var, own = tree.X.shape[1], tree.prior.vector_var, np.diag(w.S)[1:]
    price = 0.5 * (D * (own / var - 1.0 + np.log(var / own)) + (w.M[1:] ** 2).sum(axis=1) / var)
    leaves = tree.level == tree.depth
    best = np.inf, leaves
    for leaf in np.flatnonzero(leaves).tolist():
        left = leaves & (np.arange(len(leaves)) != leaf)
        keep = tree.leading_to(left)
        missed = -np.log(np.maximum(q[:, keep].sum(axis=1), _TINY)).sum() * tree.n_seen / len(q)
        best = min(best, (missed - price[~keep].sum(), left), key=lambda one: one[0])
    tree.keep(best[1])
