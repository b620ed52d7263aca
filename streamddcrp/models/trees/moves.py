"""Moves of many documents at once, undone where they do not raise the bound."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from streamddcrp.models.trees.kernels.moves import move, put_back
from streamddcrp.models.trees.kernels.topics import BARRED, CONFINED, FORCED, N_NODES, NEXT_ID
from streamddcrp.typing import IntArray

if TYPE_CHECKING:
    from streamddcrp.models.trees.topics import TopicTree

_ROUNDS = 2  # in which the documents of a move are placed
_EFFORT = 200  # distinct words that could be moved while a move is prepared
_MEANS = 5  # rounds of two means
_OUTSIDE = 0.5  # documents of a node that left the window, at most, for it to be dissolved


class Trial:
    """Documents of the window on the move, and the way back."""

    def __init__(self, tree: "TopicTree") -> None:
        self.tree = tree
        self.rest = tree.rest_of_bound()

    def try_move(self, groups: Sequence[IntArray], *, barred: int = -1, forced: int = -1) -> float:
        """Move documents; undo it unless the bound rises. Returns by how much it rose, or 0.

        Parameters
        ----------
        groups : sequence of ndarray of int64
            Documents, in the order in which they are placed.
        barred : int
            Node that they must leave.
        forced : int
            Inner node below which the first of each group opens a path; the others follow it.
        """
        tree, which = self.tree, np.concatenate(groups)
        s, w, K, ids = tree.settings, tree.window, tree.n_nodes, int(tree.whole[NEXT_ID])
        if not tree.has_room(len(which)):
            return 0.0
        old = w.ends[which].copy(), w.own[which].copy()
        spots = _spots(tree, which)
        phi = w.phi[spots]
        real, rows = tree.real.copy(), tree.rows.copy()
        words = np.unique(w.words[spots])
        counts = tree.counts[words]
        work = tree.room_for(which)
        for group in groups:
            tree.whole[BARRED], tree.whole[FORCED] = barred, forced
            move(
                group, _ROUNDS, tree.parent, tree.level, tree.born, tree.ids, tree.counts,
                tree.rows, tree.mass, tree.whole, tree.real, w.offsets, w.words, w.counts,
                w.weights, w.ends, w.own, w.phi, s.eta, s.alpha, s.gamma, s.beam, s.rounds, s.tol,
                *work, np.zeros(4),
            )  # fmt: skip
        tree.whole[[BARRED, FORCED, CONFINED]] = -1
        touched = np.unique(np.concatenate([_above(tree.parent, old[0]),
                                            _above(tree.parent, w.ends[which])]))  # fmt: skip
        rest = tree.rest_of_bound()
        now = tree.node_bounds(touched, tree.counts[words], tree.rows)
        gain = rest - self.rest + float((now - tree.node_bounds(touched, counts, rows)).sum())
        if gain > 0.0:
            self.rest = rest
            tree.note_births(K)
            return gain
        put_back(
            which, *old, phi, tree.parent, tree.level, tree.counts, tree.rows, tree.mass, tree.real,
            w.offsets, w.words, w.counts, w.weights, w.ends, w.own, w.phi,
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


def make_moves(tree: "TopicTree", budget: float) -> None:
    """Try to do without small nodes, to make two of large ones, and to hang nodes elsewhere.

    Parameters
    ----------
    budget : float
        Distinct words of documents that may be moved for each of the three.
    """
    trial = Trial(tree)
    _spend(budget, _small_nodes(tree), lambda i: _dissolve(trial, i))
    _spend(budget, _large_nodes(tree), lambda i: _split(trial, i))
    _spend(budget, _hung_nodes(tree), lambda i: _graft(trial, i))


def _spend(budget: float, nodes: IntArray, attempt: Callable[[int], int]) -> None:
    for i in nodes.tolist():
        if budget <= 0:
            return
        budget -= _EFFORT + attempt(i)


def _small_nodes(tree: "TopicTree") -> IntArray:
    """Nodes with two documents or more, the smallest first; of a chain of only children the top."""
    K, size = tree.n_nodes, tree.sizes()
    kids = np.bincount(tree.parent[1:K], minlength=K)
    alone = np.zeros(K, dtype=bool)
    alone[1:] = kids[tree.parent[1:K]] == 1
    some = np.flatnonzero((size > 1.5) & ~(alone & (tree.parent[:K] > 0)))
    some = some[some > 0]
    return some[np.lexsort((some, size[some]))]


def _large_nodes(tree: "TopicTree") -> IntArray:
    """Leaves, and only children, with four documents or more, the largest first.

    Other inner nodes are left alone: parts of them would soon be twins that nothing joins again.
    """
    K, size = tree.n_nodes, tree.sizes()
    alone = np.bincount(tree.parent[1:K], minlength=K)[tree.parent[:K]] == 1
    some = np.flatnonzero((size > 3.5) & ((tree.level[:K] == tree.depth) | alone))
    some = some[some > 0]
    return some[np.lexsort((some, -size[some]))]


def _hung_nodes(tree: "TopicTree") -> IntArray:
    """Nodes that could hang elsewhere, with two documents or more, the smallest first."""
    size = tree.sizes()
    some = 1 + np.flatnonzero((size[1:] > 1.5) & (tree.depth > 2))
    return some[np.lexsort((some, size[some]))]


def _documents(tree: "TopicTree", node: int) -> IntArray:
    """Return the documents of the window whose path goes through a node."""
    now = tree.window.ends[: tree.window.n]
    here = now == node
    for _ in range(1, tree.depth):
        now = np.where(now > 0, tree.parent[now], -1)
        here |= now == node
    return np.flatnonzero(here)


def _spots(tree: "TopicTree", which: IntArray) -> IntArray:
    """Return where the distinct words of documents stand in the window, one after the other."""
    first, last = tree.window.offsets[which], tree.window.offsets[which + 1]
    return np.concatenate([np.arange(a, b) for a, b in zip(first, last, strict=True)])


def _length(tree: "TopicTree", which: IntArray) -> int:
    """Return the distinct words of documents, one after the other."""
    w = tree.window
    return int((w.offsets[which + 1] - w.offsets[which]).sum())


def _dissolve(trial: Trial, node: int) -> int:
    tree = trial.tree
    size = float(tree.sizes()[node])
    which = _documents(tree, node)
    have = float((tree.window.weights[which]).sum() * tree.scale)
    if not len(which) or size - have > _OUTSIDE + 0.1 * size:
        return 0
    trial.try_move([which], barred=node)
    return _length(tree, which)


def _split(trial: Trial, node: int) -> int:
    """Let the documents of a node that are most unlike the others open a sibling of it."""
    tree = trial.tree
    which = _documents(tree, node)
    if len(which) < 4:
        return 0
    group = _unlike(tree, which, int(tree.level[node]))
    if not 2 <= len(group) <= len(which) - 2:
        return 0
    trial.try_move([which[group]], forced=int(tree.parent[node]))
    return _length(tree, which[group])


def _graft(trial: Trial, node: int) -> int:
    """Let the documents of a node go together to the likeliest other parent, or to a new one.

    The documents of an inner node go to its likeliest sibling, those of each child together. Likely
    is where the words of the node, and of a leaf's parent, have a high mean probability.
    """
    tree = trial.tree
    parent, K = int(tree.parent[node]), tree.n_nodes
    kids = np.flatnonzero(tree.parent[:K] == node)
    groups = [_documents(tree, child) for child in (kids.tolist() or [node])]
    groups = [which for which in groups if len(which)]
    if sum(map(len, groups)) < 2:
        return 0
    top = node if len(kids) else parent
    others = np.flatnonzero((tree.level[:K] == tree.level[top]) & (np.arange(K) != top))
    targets = [] if len(kids) else [int(tree.parent[parent])]
    if len(kids):
        others = others[tree.parent[others] == parent]
    if len(others):
        words = np.unique(tree.window.words[_spots(tree, np.concatenate(groups))])
        some = tree.counts[words]
        own = some[:, top] if len(kids) else some[:, top] + some[:, node]
        eta = float(tree.settings.eta[tree.level[top] - 1])
        size = tree.n_words * eta + tree.scale * tree.rows[others]
        fit = (eta * own.sum() + tree.scale * (own @ some)[others]) / size
        targets.insert(0, int(others[np.argmax(fit)]))
    for target in targets:
        if trial.try_move(groups, forced=target) > 0.0:
            break
    return len(targets) * _length(tree, np.concatenate(groups))


def _unlike(tree: "TopicTree", which: IntArray, level: int) -> IntArray:
    """Return a part of some documents, told by their words from a level on; the first one leads.

    Two means by cosine, from the document that is least like all together.
    """
    w = tree.window
    spots = _spots(tree, which)
    sizes = w.offsets[which + 1] - w.offsets[which]
    own = w.counts[spots] * w.phi[spots, level - 1 :].sum(axis=1)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    rows = sparse.csr_array((own, w.words[spots], offsets), shape=(len(which), tree.n_words))
    length = np.sqrt(np.maximum(rows.multiply(rows).sum(axis=1), 1e-300))
    rows = rows.multiply(1.0 / length[:, None]).tocsr()
    lead = int(np.argmin(rows @ rows.sum(axis=0)))
    toward = rows @ rows[[lead]].toarray()[0]
    away = rows @ (rows.sum(axis=0) / len(which))
    for _ in range(_MEANS):
        here = toward > away
        here[lead] = True
        if here.all():
            break
        one, other = rows[here].sum(axis=0), rows[~here].sum(axis=0)
        toward = rows @ (one / max(float(np.linalg.norm(one)), 1e-300))
        away = rows @ (other / max(float(np.linalg.norm(other)), 1e-300))
    group = np.flatnonzero(toward > away)
    return group[np.argsort(-toward[group], kind="stable")]
