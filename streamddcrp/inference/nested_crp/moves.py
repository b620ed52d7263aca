"""Moves of many documents at once, undone where they do not raise the bound."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from streamddcrp.inference.nested_crp._kernels_topics import (
    BARRED,
    FORCED,
    N_NODES,
    NEXT_ID,
    move,
    put_back,
)
from streamddcrp.typing import FloatArray, IntArray

if TYPE_CHECKING:
    from streamddcrp.inference.nested_crp.topics import TopicTree

__all__ = ["dissolve_and_split"]

_ROUNDS = 2  # in which the documents of a move are placed
_OUTSIDE = 0.5  # documents of a node that left the window, at most, for it to be dissolved


class Trial:
    """Documents of the window on the move, and the way back."""

    def __init__(self, tree: "TopicTree") -> None:
        self.tree = tree
        self.nodes = tree.node_bounds(np.arange(tree.n_nodes))
        self.rest = tree.rest_of_bound()

    def try_move(self, which: IntArray, *, barred: int = -1, forced: int = -1) -> float:
        """Move documents; undo it unless the bound rises. Returns by how much it rose, or 0.

        Parameters
        ----------
        which : ndarray of int64
            Documents, in the order in which they are placed.
        barred : int
            Node that they must leave.
        forced : int
            Inner node below which the first of them opens a path.
        """
        tree = self.tree
        s, w, K, ids = tree.settings, tree.window, tree.n_nodes, int(tree.whole[NEXT_ID])
        if not tree.has_room(len(which)):
            return 0.0
        old = w.ends[which].copy(), w.shares[which].copy(), w.own[which].copy()
        spots = np.concatenate([np.arange(w.offsets[d], w.offsets[d + 1]) for d in which])
        phi = w.phi[:, spots].copy()
        real = tree.real.copy()
        tree.whole[BARRED], tree.whole[FORCED] = barred, forced
        move(
            which, int(forced >= 0), _ROUNDS, tree.parent, tree.level, tree.born, tree.ids,
            tree.counts, tree.rows, tree.mass, tree.whole, tree.real, w.offsets, w.words, w.counts,
            w.weights, w.ends, w.shares, w.own, w.phi, s.eta, s.alpha, s.gamma, s.beam, s.rounds,
            s.tol, *tree.room_for(which), np.zeros(4),
        )  # fmt: skip
        tree.whole[BARRED] = tree.whole[FORCED] = -1
        touched = np.unique(np.concatenate([_above(tree.parent, old[0]),
                                            _above(tree.parent, w.ends[which])]))  # fmt: skip
        nodes = np.concatenate([self.nodes, np.zeros(tree.n_nodes - K)])
        nodes[touched] = tree.node_bounds(touched)[touched]
        rest = tree.rest_of_bound()
        gain = float(rest - self.rest + nodes.sum() - self.nodes.sum())
        if gain > 0.0:
            self.nodes, self.rest = nodes, rest
            tree.note_births(K)
            return gain
        put_back(
            which, *old, phi, tree.parent, tree.level, tree.counts, tree.rows, tree.mass, tree.real,
            w.offsets, w.words, w.counts, w.weights, w.ends, w.shares, w.own, w.phi,
        )  # fmt: skip
        new = tree.n_nodes
        tree.counts[:, K:new] = tree.rows[K:new] = tree.mass[K:new] = 0.0
        tree.whole[N_NODES], tree.whole[NEXT_ID] = K, ids
        tree.real[:] = real
        return 0.0


def _above(parent: IntArray, ends: IntArray) -> IntArray:
    """Return all nodes on the way to endpoints."""
    now = np.unique(ends[ends >= 0])
    out = [now]
    while len(now := np.unique(parent[now[now > 0]])):
        out.append(now)
    return np.unique(np.concatenate(out))


def dissolve_and_split(tree: "TopicTree", budget: float) -> None:
    """Try to do without small nodes, and to make two of large leaves.

    Parameters
    ----------
    budget : int
        Documents that may be moved for each of the two; a node has one try.
    """
    trial = Trial(tree)
    _spend(budget, _small_nodes(tree), lambda i: _dissolve(trial, i))
    _spend(budget, _large_leaves(tree), lambda i: _split(trial, i))


def _spend(budget: float, nodes: IntArray, attempt: Callable[[int], int]) -> None:
    for i in nodes.tolist():
        if budget <= 0:
            return
        budget -= attempt(i)


def _small_nodes(tree: "TopicTree") -> IntArray:
    """Nodes with two documents or more, the smallest first; of a chain of only children the top."""
    K, size = tree.n_nodes, tree.sizes()
    kids = np.bincount(tree.parent[1:K], minlength=K)
    alone = np.zeros(K, dtype=bool)
    alone[1:] = kids[tree.parent[1:K]] == 1
    some = np.flatnonzero((size > 1.5) & ~(alone & (tree.parent[:K] > 0)))
    some = some[some > 0]
    return some[np.lexsort((some, size[some]))]


def _large_leaves(tree: "TopicTree") -> IntArray:
    size = tree.sizes()
    some = np.flatnonzero((tree.level[: tree.n_nodes] == tree.depth) & (size > 3.5))
    return some[np.lexsort((some, -size[some]))]


def _documents(tree: "TopicTree", node: int) -> IntArray:
    """Return the documents of the window whose likeliest path goes through a node."""
    K = tree.n_nodes
    below = np.zeros(K + 1, dtype=bool)  # the last for -1
    below[node] = True
    for i in range(node + 1, K):
        below[i] |= below[tree.parent[i]]
    w = tree.window
    return np.flatnonzero(below[w.ends[: w.n, 0]])


def _dissolve(trial: Trial, node: int) -> int:
    tree = trial.tree
    size = float(tree.sizes()[node])
    which = _documents(tree, node)
    have = float((tree.window.weights[which]).sum() * tree.scale)
    if not len(which) or size - have > _OUTSIDE + 0.1 * size:
        return 0
    trial.try_move(which, barred=node)
    return len(which)


def _split(trial: Trial, leaf: int) -> int:
    tree = trial.tree
    which = _documents(tree, leaf)
    if len(which) < 2:
        return 0
    unlike, alike = _unlike(tree, which, leaf)
    trial.try_move(which[np.argsort(-alike[unlike], kind="stable")], forced=int(tree.parent[leaf]))
    return len(which)


def _unlike(tree: "TopicTree", which: IntArray, leaf: int) -> tuple[int, FloatArray]:
    """Return the document of a leaf that is least like the others, and all likenesses (M, M)."""
    w = tree.window
    V = tree.n_words
    rows = np.zeros((len(which), V), np.float32)
    for row, d in zip(rows, which, strict=True):
        at = slice(w.offsets[d], w.offsets[d + 1])
        row[w.words[at]] = w.counts[at] * w.phi[0, at, -1]
    rows /= np.maximum(np.linalg.norm(rows, axis=1), 1e-30)[:, None]
    alike = (rows @ rows.T).astype(np.float64)
    np.fill_diagonal(alike, 1.0)
    return int(alike.mean(axis=0).argmin()), alike
