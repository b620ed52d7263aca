"""Siblings that become one where that raises the bound."""

from typing import TYPE_CHECKING

import numpy as np

from streamddcrp.models.trees.kernels.gain import merge_gains, sibling_products
from streamddcrp.models.trees.settings import Change
from streamddcrp.models.trees.tree import merged, sorted_order, sticks
from streamddcrp.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from streamddcrp.models.trees.topics import TopicTree

_ALIKE = 3  # partners of a node that are tried


def merge_siblings(tree: "TopicTree") -> bool:
    """Make one of siblings where the bound says so, the best pairs first; tell if any were."""
    used: set[int] = set()
    for _, i, j in sorted(_best_merges(tree), reverse=True):
        if not used & {i, j}:
            _make_one(tree, i, j)
            used |= {i, j}
    if used:
        K = tree.n_nodes
        keep = tree.rows[:K] >= 0.0  # `_make_one` marks what is gone
        tree.rows[:K] = np.maximum(tree.rows[:K], 0.0)
        order = sorted_order(tree.parent[:K], tree.level[:K], tree.mass[:K], keep)
        tree.take(order.slots, order.parent, order.level, order.to)
    return bool(used)


def _best_merges(tree: "TopicTree") -> list[tuple[float, int, int]]:
    s, K, V = tree.settings, tree.n_nodes, tree.n_words
    parent, level, mass = tree.parent[:K], tree.level[:K], tree.mass[:K] * tree.scale
    before = sticks(parent, level, mass, tree.depth, s.gamma)
    cosines = np.zeros((K, K))
    sibling_products(parent, tree.counts, V, cosines)
    length = np.sqrt(np.maximum(np.diag(cosines), 1e-300))
    cosines /= np.outer(length, length)
    pairs = set()
    for p in range(K):
        kids = np.flatnonzero(parent == p)
        near = np.argsort(-cosines[np.ix_(kids, kids)], axis=1, kind="stable")
        for x, close in enumerate(near[:, : _ALIKE + 1].tolist()):
            pairs |= {(int(kids[min(x, y)]), int(kids[max(x, y)])) for y in close if y != x}
    one, other = np.array(sorted(pairs), np.int64).reshape(-1, 2).T
    gains = np.empty(len(one))
    merge_gains(tree.counts[:V], tree.rows, level, one, other, tree.scale, s.eta, V, gains)
    found = []
    for i, j, gain in zip(one.tolist(), other.tolist(), gains.tolist(), strict=True):
        if gain <= 0.0:  # what the sticks can add is small beside this
            continue
        now = sticks(*_one(parent, level, mass, i, j), tree.depth, s.gamma)
        total = gain + now - before
        if total > 0.0:
            found.append((total, i, j))
    return found


def _make_one(tree: "TopicTree", i: int, j: int) -> None:
    """Let node j go into its sibling i; slot j is marked as gone."""
    K = tree.n_nodes
    tree.counts[:, i] += tree.counts[:, j]
    tree.rows[i] += tree.rows[j]
    tree.parent[:K], tree.mass[:K] = merged(tree.parent[:K], tree.mass[:K], i, j)
    tree.rows[j] = -1.0
    ends = tree.window.ends[: tree.window.n]
    ends[ends == j] = i
    tree.n_merged += 1
    tree.changes.append(Change("merge", int(tree.ids[j]), tree.n_seen, int(tree.ids[i])))


def _one(
    parent: IntArray, level: IntArray, mass: FloatArray, i: int, j: int
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the tree after a merge."""
    parent, mass = merged(parent, mass, i, j)
    keep = np.ones(len(parent), dtype=bool)
    keep[j] = False
    order = sorted_order(parent, level, mass, keep)
    return order.parent, order.level, mass[order.slots]
