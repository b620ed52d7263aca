"""Learning a tree of components: a window that is swept, and moves that change the tree.

A move opens a path, splits or merges inner nodes, reattaches a node or drops a leaf; sweeps and the
bound then decide whether it is kept (docs/math/trees.md).
"""

import logging
from collections import deque
from copy import copy
from typing import NamedTuple, Self

import numpy as np

from streamddcrp.models.trees.component_state import NARROW, ComponentState, Prior, Stats, Weights
from streamddcrp.models.trees.tree import TINY, basis_of, event, reconstruct, with_ancestors
from streamddcrp.typing import FloatArray, IntArray

_log = logging.getLogger(__name__)

_EFFORT = 4096  # points in the window per trial of each move, or per two trials of one kind
_GLANCE = 512  # points on which moves are compared
_FEW, _MANY = 4, 8  # sweeps before moves are compared, and of the best of them on the window
_SWEEPS, _FAILURES = 10, 3  # of a refinement: between attempts to grow; in vain in a row
_WORTH = 1.0  # nats that a move must gain; less may come from missing sweeps
_EMPTY = 0.5  # expected points below which a leaf is dropped
_WIDE, _VAGUE = 50.0, 1e-3  # variances of vectors; shape of the precision and rate, in units
_SHARE, _LEAST = 0.15, 20  # points of an opened path
_TURNS = 12  # rounds of the power method


class View(NamedTuple):
    """Inputs for the moves of a tree."""

    X: FloatArray  # (N, D) the window about the mean
    below: FloatArray  # (N, K) probability that the path of a point goes through a node
    lost: FloatArray  # (N,) squared error of a point

    @classmethod
    def of(cls, tree: ComponentState) -> "View":
        X = tree.points
        q, M = tree.local(X).q, tree.weights.M
        found = reconstruct(X, q.argmax(axis=1), tree.parent, tree.level, tree.depth, M)
        below = q.copy()
        for i in range(tree.n_nodes - 1, 0, -1):
            below[:, tree.parent[i]] += below[:, i]
        return cls(X - M[0], below, ((X - found) ** 2).sum(axis=1))


def _pick(rng: np.random.Generator, pull: FloatArray) -> int | None:
    """Draw an index by weights, or None if all are zero."""
    total = pull.sum()
    return int(rng.choice(len(pull), p=pull / total)) if total > 0.0 else None


def rest_of(X: FloatArray, M: FloatArray, path: IntArray) -> FloatArray:
    """Return points minus their projection on the vectors of a path."""
    if not len(path):
        return X
    axes = basis_of(M[path + 1])
    return np.asarray(X - X @ axes.T @ axes)


def _leading(X: FloatArray, n: int) -> FloatArray:
    """Return up to n leading directions of points; (n, D)."""
    out = np.zeros((n, X.shape[1]))
    wide = X.shape[1] > len(X)
    size, axes = np.linalg.eigh(X @ X.T if wide else X.T @ X)
    r = min(n, len(size))
    size, axes = np.sqrt(np.maximum(size[::-1][:r], 0.0)), axes[:, ::-1][:, :r].T
    if wide:
        axes = axes @ X
        axes /= np.maximum(np.linalg.norm(axes, axis=1), TINY)[:, None]
    out[:r] = axes * (size / np.sqrt(len(X)))[:, None]
    return out


def _open(tree: ComponentState, view: View, rng: np.random.Generator) -> bool:
    """Open a path below an inner node, for similar points with a poor fit."""
    inner = tree.level < tree.depth
    p = _pick(rng, np.where(inner, view.lost @ view.below, 0.0))
    if p is None or (seed := _pick(rng, view.lost * view.below[:, p])) is None:
        return False
    rest = rest_of(view.X, tree.weights.M, tree.paths()[p, : tree.level[p]])
    alike = np.abs(rest @ rest[seed]) / np.maximum(np.linalg.norm(rest, axis=1), TINY)
    alike *= view.below[:, p]
    m = min(len(rest), max(_LEAST, int(_SHARE * view.below[:, p].sum())))
    some = rest[np.argsort(-alike, kind="stable")[:m]]
    tree.add(p, _leading(some, tree.depth - int(tree.level[p])), m * tree.n_seen / len(rest))
    return True


def _split(tree: ComponentState, view: View, rng: np.random.Generator) -> bool:
    """Split a node's children with a new sibling: each goes where it fits better."""
    parent, level = tree.parent, tree.level
    several = np.bincount(parent[1:], minlength=tree.n_nodes) > 1
    p = _pick(rng, np.where((level > 1) & several, view.lost @ view.below, 0.0))
    if p is None:
        return False
    children = np.flatnonzero(parent == p)
    rows = np.flatnonzero(view.below[:, children].sum(axis=1) > 0.5)
    of = view.below[np.ix_(rows, children)].argmax(axis=1)
    rest = rest_of(view.X[rows], tree.weights.M, tree.paths()[p, : level[p] - 1])
    energy = (rest**2).sum(axis=1)
    first = _pick(rng, energy)
    if first is None:
        return False
    fitted = (rest @ rest[first]) ** 2 / energy[first]
    second = _pick(rng, np.maximum(energy - fitted, 0.0) * (of != of[first]))
    if second is None:
        return False
    two = rest[[first, second]]
    for _ in range(_TURNS):
        along = rest @ (two / np.maximum(np.linalg.norm(two, axis=1), TINY)[:, None]).T
        sums = [np.bincount(of, along[:, i] ** 2, len(children)) for i in range(2)]
        here = sums[0] > sums[1]
        side = here[of]
        if side.all() or not side.any():
            return False
        two = np.stack(
            [_scaled(rest[part], along[part, i]) for i, part in enumerate((side, ~side))]
        )
    tree.set_vector(p, two[0])
    new = tree.add(int(parent[p]), two[1:])
    tree.attach(children[~here], new)
    return True


def _scaled(rest: FloatArray, along: FloatArray) -> FloatArray:
    """Return the next direction of points by the power method, if there is one."""
    v = along @ rest
    return np.asarray(v * (np.sqrt((along**2).mean()) / max(float(np.linalg.norm(v)), TINY)))


def _graft(tree: ComponentState, view: View, rng: np.random.Generator) -> bool:
    """Attach a node and its descendants to the other parent where it explains most."""
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
        rest = rest_of(view.X[rows], tree.weights.M, tree.paths()[p, : level[p]])
        v = rest[(rest**2).sum(axis=1).argmax()]
        for _ in range(_TURNS):
            along = rest @ (v / max(float(np.linalg.norm(v)), TINY))
            v = _scaled(rest, along)
        found.append((float((along**2).sum() - (rest**2).sum()), p, v))
    _, p, v = max(found, key=lambda one: one[0])
    tree.set_vector(c, v)
    tree.attach(np.array([c]), p)
    return True


def _merge(tree: ComponentState, view: View, rng: np.random.Generator) -> bool:
    """Merge two inner siblings, keeping the direction that all paths below share most.

    If paths part at once, the vector of the first node may be rotated within their span, so
    siblings with a common direction need not look alike.
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
        found.append((s[0] ** 2 / max(float(view.below[:, [i, j]].sum()), TINY), j, axes[0]))
    _, j, v = max(found, key=lambda one: one[0])
    rows = np.flatnonzero(view.below[:, [i, j]].sum(axis=1) > 0.5)
    if not len(rows):
        return False
    tree.set_vector(i, v * np.sqrt(((view.X[rows] @ v) ** 2).mean()))
    tree.attach(np.flatnonzero(parent == j), i)
    return True


def _spans(tree: ComponentState, view: View, i: int) -> FloatArray:
    """Return bases of what paths through a node add from it on, by the roots of their points."""
    M, paths, at = tree.weights.M, tree.paths(), int(tree.level[i]) - 1
    out = []
    for leaf in np.flatnonzero((paths[:, at] == i) & (tree.level == tree.depth)).tolist():
        rest = rest_of(M[paths[leaf, at:] + 1], M, paths[i, :at])
        out.append(basis_of(rest) * np.sqrt(view.below[:, leaf].sum()))
    return np.concatenate(out)


def _prune(tree: ComponentState, view: View, rng: np.random.Generator) -> bool:
    if np.count_nonzero(tree.level == tree.depth) < 2:
        return False
    shed(tree)
    return True


MOVES = (_open, _open, _split, _graft, _merge, _prune)


def shed(tree: ComponentState) -> None:
    """Drop the leaf that the bound will miss least, with nodes that led only to it.

    The cost is its points' loss, with other nodes fixed, minus its vectors' divergence.
    """
    X = tree.points
    q, w = tree.local(X, far=True).q, tree.weights
    D, var, own = X.shape[1], tree.prior.vector_var, np.diag(w.S)[1:]
    price = 0.5 * (D * (own / var - 1.0 + np.log(var / own)) + (w.M[1:] ** 2).sum(axis=1) / var)
    leaves = tree.level == tree.depth
    best = np.inf, leaves
    for leaf in np.flatnonzero(leaves).tolist():
        left = leaves & (np.arange(len(leaves)) != leaf)
        keep = with_ancestors(tree.parent, tree.level, left)
        missed = -np.log(np.maximum(q[:, keep].sum(axis=1), TINY)).sum() * tree.n_seen / len(q)
        best = min(best, (missed - price[~keep].sum(), left), key=lambda one: one[0])
    tree.keep(best[1])


_FLAT = 1e-290  # variance of points that differ at all, within float precision


def wide_prior(X: FloatArray, gamma: float) -> Prior:
    """Return a vague prior for points like these (n, D), in their unit."""
    unit = float(X.var(axis=0).mean())
    unit = unit if unit > _FLAT else 1.0
    return Prior(float(gamma), _WIDE * unit, _WIDE * unit, _VAGUE, _VAGUE * unit)


class ComponentTree(ComponentState):
    """A tree of components that learns."""

    __slots__ = ()

    @classmethod
    def founded(cls, X: FloatArray, depth: int, prior: Prior, max_nodes: int) -> Self:
        """Return a single path, the leading principal directions of the first points (n, D)."""
        n, D = X.shape
        mean = X.mean(axis=0)
        _, s, axes = np.linalg.svd(X - mean, full_matrices=False)
        r = min(depth, len(s))
        M = np.zeros((depth + 1, D))
        M[0] = mean
        M[1 : r + 1] = axes[:r] * (s[:r] / np.sqrt(n))[:, None]
        noise = max(float((s[r:] ** 2).sum()) / (n * D), 1e-3 * float((s**2).sum()) / (n * D))
        shape = prior.shape + 0.5 * n * D
        mass = np.zeros(depth)
        mass[-1] = n
        rate = shape * max(noise, 1e-12 * prior.vector_var)
        S = NARROW * prior.vector_var * np.eye(depth + 1)
        weights = Weights(M, S, shape, rate, mass)
        line = np.arange(depth)
        return cls(
            depth, prior, line - 1, line + 1, line.copy(), np.zeros(depth, np.int64), weights,
            Stats.none(depth, D), X.copy(), max_nodes, depth, n_seen=n, n_born=depth,
            events=deque((event("birth", i, 0) for i in range(depth)), maxlen=1024),
        )  # fmt: skip

    def seated(self, X: FloatArray) -> FloatArray:
        """Return rows in the window's form."""
        return X

    def absorb(self, X: FloatArray, window: int) -> None:
        """Add rows to the window; the oldest leave it."""
        self.n_seen += len(X)
        self.X = np.concatenate([self.X, self.seated(X)])
        gone = max(0, len(self.X) - window)
        if gone:
            self.past = self.past.plus(self.local(self.points[:gone]).stats)
        self.X = self.X[gone:].copy()

    def recall(self, X: FloatArray) -> None:
        """Let the window contain all points learned, so that nothing is past."""
        self.X = self.seated(X)
        self.past = self.past.times(0.0)

    def refine(self, max_sweeps: int, tol: float, seed: int) -> list[float]:
        """Sweep and `grow` until rounds gain less than a fraction ``tol``; return all bounds."""
        trace, done, failed = [self.bound()], 0, 0
        while done < max_sweeps and failed < _FAILURES:
            before = trace[-1]
            for _ in range(min(_SWEEPS, max_sweeps - done)):
                self.sweep(1)
                trace.append(self.bound())
                done += 1
            if self.grow(seed + done):
                trace.append(self.bound())
            failed = 0 if trace[-1] - before > tol * abs(before) else failed + 1
        return trace

    def grow(self, seed: int) -> bool:
        """Try changes of the tree while it grows; keep those that raise the window's bound."""
        rng = np.random.default_rng([seed, self.n_seen])
        left, grown = max(1, _EFFORT // max(len(self.X), _GLANCE)), False
        while left > 0:
            before = self.n_nodes
            grown = self._change(rng) or grown
            left -= self.n_nodes <= before
        return grown

    def _change(self, rng: np.random.Generator) -> bool:
        """Try moves on part of the window, then the best on all; `shed` excess nodes."""
        base = copy(self)
        base.X = self.X[:: -(-len(self.X) // _GLANCE)]
        base.sweep(_FEW, alone=True)
        view, now = View.of(base), base.bound()
        best, value = None, -np.inf
        for move in MOVES:
            trial = copy(base)
            if not move(trial, view, rng):
                continue
            trial.sweep(_FEW, alone=True)
            if trial.n_nodes > trial.max_nodes and trial.bound() > now:
                self._refuse()
            while trial.n_nodes > trial.max_nodes:
                shed(trial)
                trial.sweep(_FEW, alone=True)
            if (bound := trial.bound()) > value:
                best, value = trial, bound
        if best is None:
            return False
        best.X = self.X
        best.keep((best.level == best.depth) & (best.sizes() >= _EMPTY))
        if not best._beats(copy(self), _MANY):
            return False
        old = set(self.ids.tolist())
        self.parent, self.level, self.ids, self.born = best.parent, best.level, best.ids, best.born
        self.weights, self.next_id, self.X = best.weights, best.next_id, best.X
        self.changed(old)
        return True

    def _refuse(self) -> None:
        """Count a move that needs more nodes than allowed; warn the first time."""
        self.n_refused += 1
        if self.n_refused == 1:
            message = "all %d nodes are in use, and more would fit the points better: max_nodes "
            _log.warning(
                message + "sets the size of the tree; raise it for a finer one", self.max_nodes
            )

    def _beats(self, other: "ComponentTree", n: int) -> bool:
        """Sweep n times; return whether the bound exceeds another tree's after equal sweeps."""
        self.sweep(n, alone=True)
        value = self.bound() - _WORTH
        if value > other.bound():
            other.sweep(n, alone=True)
        return value > other.bound()

    def changed(self, old: set[int]) -> None:
        """Note births and deaths since ids ``old``; past points count like the window's."""
        new = set(self.ids.tolist())
        self.events.extend(event("death", i, self.n_seen) for i in sorted(old - new))
        self.events.extend(event("birth", i, self.n_seen) for i in sorted(new - old))
        self.n_pruned += len(old - new)
        self.n_born += len(new - old)
        self.past = self.local(self.points).stats.times(self.past.n / len(self.X))
