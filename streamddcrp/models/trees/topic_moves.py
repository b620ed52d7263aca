"""Moves of many documents of the window at once, undone unless the bound rises.

Siblings are merged; nodes dissolved, split, and attached elsewhere: docs/math/trees.md (5), (8).
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy import sparse

from streamddcrp.models.trees.kernels.gain import fit_eta, merge_gains, sibling_products
from streamddcrp.models.trees.kernels.topics import LOCAL, N_NODES, NEXT_ID, SCALE, move, put_back
from streamddcrp.models.trees.topic_tree import CHUNK, FIRST_TIDY, FULL, TopicTree
from streamddcrp.models.trees.tree import event, merged, sorted_order, sticks, with_ancestors
from streamddcrp.typing import FloatArray, IntArray

_ALIKE = 3  # partners of a node to try
_EFFORT = 200  # distinct words considered while a move is prepared
_MEANS = 5  # rounds of 2-means
_ROOMY = 0.75  # of max_nodes: down to where small paths are removed
_FOLD = 1e-30
_MOVED = 32  # words of documents that a kind of move may cost per new document
_ETA_ROUNDS = 5  # most rounds of learning the prior of words
_CLOSE = 1e-2  # relative change at which they stop
_OUTSIDE = 0.5  # most past documents of a node to be dissolved


def tidy_if_due(tree: TopicTree) -> bool:
    """Drop empty nodes at the end of a chunk, or tidy up if due; return whether it was."""
    if tree.n_seen == tree.next_tidy:
        tidy(tree)
        tree.next_tidy = tree.n_seen + _spell(tree)
        return True
    if tree.n_seen % CHUNK == 0:
        tree.reorder(tree.sizes() > 0.5)
    return False


def _spell(tree: TopicTree) -> int:
    """Return the number of documents between tidyings."""
    return min(tree.settings.window, max(FIRST_TIDY, tree.n_seen))


def tidy(tree: TopicTree, budget: float | None = None) -> None:
    """Drop empty paths; merge, dissolve and split nodes if that raises the bound.

    ``budget``: distinct words of documents that each kind of move may cost. Default: in proportion
    to the documents since the last time, with one round of merges.
    """
    every = _spell(tree)
    tree.trim()
    _fold(tree)
    tree.reorder(worth_keeping(tree))
    while merge_siblings(tree) and budget is not None:
        pass
    make_moves(tree, _MOVED * every if budget is None else budget)
    tree.reorder(worth_keeping(tree))
    fit_eta(
        tree.counts, tree.rows, tree.level, tree.n_nodes, max(tree.n_words, 1), tree.scale,
        tree.settings.eta, _ETA_ROUNDS, _CLOSE, tree.learned_eta,
    )  # fmt: skip


def _fold(tree: TopicTree) -> None:
    """Multiply the raw statistics by their scale before that underflows."""
    if tree.scale >= _FOLD:
        return
    scale, tree.real[SCALE] = tree.scale, 1.0
    for array in (tree.counts, tree.rows, tree.mass, tree.window.docs.weights):
        np.multiply(array, scale, out=array)
    tree.real[LOCAL] *= scale


def worth_keeping(tree: TopicTree) -> np.ndarray:
    """Return which nodes stay (K,): those with enough documents for their age and the room."""
    K, s = tree.n_nodes, tree.settings
    size = tree.sizes()
    old = tree.born[:K] <= tree.n_seen - s.window
    small = (size < 0.5) | (old & (size < 1.5))
    if K - small.sum() > FULL * s.max_nodes:
        leaves = np.flatnonzero((tree.level[:K] == tree.depth) & ~small)
        leaves = leaves[np.lexsort((leaves, size[leaves], ~old[leaves]))]
        small[leaves[: int(K - small.sum() - _ROOMY * s.max_nodes)]] = True
    leaves = (tree.level[:K] == tree.depth) & ~small
    return with_ancestors(tree.parent[:K], tree.level[:K], leaves)


class Trial:
    """Documents of the window being moved, and their old places."""

    def __init__(self, tree: TopicTree) -> None:
        self.tree = tree
        self.rest = tree.rest_of_bound()

    def try_move(self, groups: Sequence[IntArray], *, barred: int = -1, forced: int = -1) -> float:
        """Move documents; undo it unless the bound rises. Return the gain, or 0.

        The documents of ``groups`` are placed in order. They must leave the node ``barred``; the
        first of each group opens a path below the inner node ``forced``, and the others follow it.
        """
        tree, which = self.tree, np.concatenate(groups)
        w, K, ids = tree.window.docs, tree.n_nodes, int(tree.whole[NEXT_ID])
        if not _make_room(tree, len(which)):
            return 0.0
        old = w.ends[which].copy(), w.own[which].copy()
        spots = _spots(tree, which)
        phi = w.phi[spots]
        real, rows = tree.real.copy(), tree.rows.copy()
        words = np.unique(w.words[spots])
        counts = tree.counts[words]
        for group in groups:
            move(group, barred, forced, tree.arrays, w, tree.settings)
        new = tree.n_nodes
        ends = np.zeros(new, dtype=bool)
        ends[np.concatenate([old[0], w.ends[which]])] = True
        touched = np.flatnonzero(with_ancestors(tree.parent[:new], tree.level[:new], ends))
        rest = tree.rest_of_bound()
        now = tree.node_bounds(touched, tree.counts[words], tree.rows)
        gain = rest - self.rest + float((now - tree.node_bounds(touched, counts, rows)).sum())
        if gain > 0.0:
            self.rest = rest
            tree.note_births(K)
            return gain
        put_back(which, *old, phi, tree.arrays, w)
        tree.counts[words, K:new] = 0.0
        tree.rows[K:new] = tree.mass[K:new] = 0.0
        tree.whole[N_NODES], tree.whole[NEXT_ID] = K, ids
        tree.real[:] = real
        return 0.0


def _make_room(tree: TopicTree, n: int) -> bool:
    while tree.n_nodes + n * tree.depth > len(tree.parent) < tree.settings.max_nodes:
        tree.make_nodes()
    return len(tree.parent) >= tree.n_nodes + tree.depth


def make_moves(tree: TopicTree, budget: float) -> None:
    """Dissolve small nodes, split large ones and graft others, within ``budget`` words each."""
    trial = Trial(tree)
    _spend(budget, _small_nodes(tree), lambda i: _dissolve(trial, i))
    _spend(budget, _large_nodes(tree), lambda i: _split(trial, i))
    if tree.depth > 2:
        _spend(budget, _by_size(tree.sizes(), tree.sizes() > 1.5), lambda i: _graft(trial, i))


def _spend(budget: float, nodes: IntArray, attempt: Callable[[int], int]) -> None:
    for i in nodes.tolist():
        if budget <= 0:
            return
        budget -= _EFFORT + attempt(i)


def _by_size(size: FloatArray, good: np.ndarray, sign: float = 1.0) -> IntArray:
    """Return nodes except the root, smallest first, or with ``sign`` -1 largest first."""
    some = 1 + np.flatnonzero(good[1:])
    return some[np.lexsort((some, sign * size[some]))]


def _only_children(parent: IntArray) -> np.ndarray:
    """Return which nodes have no siblings, (K,) of bool; undefined for the root."""
    return np.asarray(np.bincount(parent[1:], minlength=len(parent))[parent] == 1)


def _small_nodes(tree: TopicTree) -> IntArray:
    """Nodes with at least two documents, smallest first; the top one of a chain."""
    parent, size = tree.parent[: tree.n_nodes], tree.sizes()
    return _by_size(size, (size > 1.5) & ~(_only_children(parent) & (parent > 0)))


def _large_nodes(tree: TopicTree) -> IntArray:
    """Leaves and only children with at least four documents, largest first: avoids twins."""
    K, size = tree.n_nodes, tree.sizes()
    leaves = tree.level[:K] == tree.depth
    return _by_size(size, (size > 3.5) & (leaves | _only_children(tree.parent[:K])), -1.0)


def _documents(tree: TopicTree, node: int) -> IntArray:
    """Return the documents of the window whose path goes through a node."""
    now = tree.window.docs.ends[: tree.window.n]
    here = now == node
    for _ in range(1, tree.depth):
        now = np.where(now > 0, tree.parent[now], -1)
        here |= now == node
    return np.flatnonzero(here)


def _spots(tree: TopicTree, which: IntArray) -> IntArray:
    """Return the positions in the window of documents' distinct words, concatenated."""
    first, last = tree.window.docs.offsets[which], tree.window.docs.offsets[which + 1]
    return np.concatenate([np.arange(a, b) for a, b in zip(first, last, strict=True)])


def _length(tree: TopicTree, which: IntArray) -> int:
    w = tree.window.docs
    return int((w.offsets[which + 1] - w.offsets[which]).sum())


def _dissolve(trial: Trial, node: int) -> int:
    tree = trial.tree
    size = float(tree.sizes()[node])
    which = _documents(tree, node)
    have = float((tree.window.docs.weights[which]).sum() * tree.scale)
    if not len(which) or size - have > _OUTSIDE + 0.1 * size:
        return 0
    trial.try_move([which], barred=node)
    return _length(tree, which)


def _split(trial: Trial, node: int) -> int:
    """Let a node's least typical documents open a sibling of it."""
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
    """Move a node's documents together to the likeliest other parent, or to a new one.

    The documents of an inner node go to its likeliest sibling, each child's together. The
    likelihood is the mean probability of the words of the node, and of a leaf's parent.
    """
    tree = trial.tree
    parent, K = int(tree.parent[node]), tree.n_nodes
    children = np.flatnonzero(tree.parent[:K] == node)
    groups = [_documents(tree, child) for child in (children.tolist() or [node])]
    groups = [which for which in groups if len(which)]
    if sum(map(len, groups)) < 2:
        return 0
    top = node if len(children) else parent
    others = np.flatnonzero((tree.level[:K] == tree.level[top]) & (np.arange(K) != top))
    targets = [] if len(children) else [int(tree.parent[parent])]
    if len(children):
        others = others[tree.parent[others] == parent]
    if len(others):
        words = np.unique(tree.window.docs.words[_spots(tree, np.concatenate(groups))])
        some = tree.counts[words]
        own = some[:, top] if len(children) else some[:, top] + some[:, node]
        eta = float(tree.settings.eta[tree.level[top] - 1])
        size = tree.n_words * eta + tree.scale * tree.rows[others]
        fit = (eta * own.sum() + tree.scale * (own @ some)[others]) / size
        targets.insert(0, int(others[np.argmax(fit)]))
    for target in targets:
        if trial.try_move(groups, forced=target) > 0.0:
            break
    return len(targets) * _length(tree, np.concatenate(groups))


def _unlike(tree: TopicTree, which: IntArray, level: int) -> IntArray:
    """Return one cluster of documents by 2-means on words, with cosine; the first leads."""
    w = tree.window.docs
    spots = _spots(tree, which)
    sizes = w.offsets[which + 1] - w.offsets[which]
    own = w.counts[spots] * w.phi[spots, level - 1 :].sum(axis=1)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    words, at = np.unique(w.words[spots], return_inverse=True)
    rows = sparse.csr_array((own, at, offsets), shape=(len(which), len(words)))
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


def merge_siblings(tree: TopicTree) -> bool:
    """Merge siblings if the bound rises, best pairs first; return whether any were merged."""
    used: set[int] = set()
    for _, i, j in sorted(_best_merges(tree), reverse=True):
        if not used & {i, j}:
            _merge(tree, i, j)
            used |= {i, j}
    if used:
        K = tree.n_nodes
        keep = tree.rows[:K] >= 0.0  # `_merge` marks removed rows
        tree.rows[:K] = np.maximum(tree.rows[:K], 0.0)
        tree.take(sorted_order(tree.parent[:K], tree.level[:K], tree.mass[:K], keep))
    return bool(used)


def _best_merges(tree: TopicTree) -> list[tuple[float, int, int]]:
    s, K, V = tree.settings, tree.n_nodes, tree.n_words
    parent, level, mass = tree.parent[:K], tree.level[:K], tree.mass[:K] * tree.scale
    before = sticks(parent, level, mass, tree.depth, s.gamma)
    cosines = np.zeros((K, K))
    sibling_products(parent, tree.counts, V, cosines)
    length = np.sqrt(np.maximum(np.diag(cosines), 1e-300))
    cosines /= np.outer(length, length)
    pairs = set()
    for p in range(K):
        children = np.flatnonzero(parent == p)
        near = np.argsort(-cosines[np.ix_(children, children)], axis=1, kind="stable")
        for x, close in enumerate(near[:, : _ALIKE + 1].tolist()):
            pairs |= {(int(children[min(x, y)]), int(children[max(x, y)])) for y in close if y != x}
    one, other = np.array(sorted(pairs), np.int64).reshape(-1, 2).T
    gains = np.empty(len(one))
    merge_gains(tree.counts[:V], tree.rows, level, one, other, tree.scale, s.eta, V, gains)
    found = []
    for i, j, gain in zip(one.tolist(), other.tolist(), gains.tolist(), strict=True):
        if gain <= 0.0:  # the sticks can add only little
            continue
        now = sticks(*_after_merge(parent, level, mass, i, j), tree.depth, s.gamma)
        total = gain + now - before
        if total > 0.0:
            found.append((total, i, j))
    return found


def _merge(tree: TopicTree, i: int, j: int) -> None:
    """Merge node j into its sibling i; slot j is marked as removed."""
    K = tree.n_nodes
    tree.counts[:, i] += tree.counts[:, j]
    tree.rows[i] += tree.rows[j]
    tree.parent[:K], tree.mass[:K] = merged(tree.parent[:K], tree.mass[:K], i, j)
    tree.copied[i] += tree.copied[j]
    tree.rows[j] = -1.0
    ends = tree.window.docs.ends[: tree.window.n]
    ends[ends == j] = i
    tree.n_merged += 1
    tree.events.append(event("merge", int(tree.ids[j]), tree.n_seen, int(tree.ids[i])))


def _after_merge(
    parent: IntArray, level: IntArray, mass: FloatArray, i: int, j: int
) -> tuple[IntArray, IntArray, FloatArray]:
    parent, mass = merged(parent, mass, i, j)
    keep = np.ones(len(parent), dtype=bool)
    keep[j] = False
    order = sorted_order(parent, level, mass, keep)
    return order.parent, order.level, mass[order.slots]
