"""A tree of components as it learns: a window that is swept, and sums of what has left it."""

from collections import deque
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np

from streamddcrp.inference.nested_crp.loadings import (
    Local,
    Prior,
    Stats,
    Weights,
    global_step,
    kl_of_all,
    local_step,
    reconstruct,
)
from streamddcrp.inference.nested_crp.settings import Change
from streamddcrp.inference.nested_crp.tree import paths_of, sizes_of, sorted_order
from streamddcrp.typing import FloatArray, IntArray

__all__ = ["ComponentTree", "wide_prior"]

_FEW, _MANY = 6, 16  # sweeps before growth is judged: of the tree as it is, and of a proposal
_TRIES = 2  # proposals at a time
_SHARE, _LEAST = 0.15, 20  # points of a proposal
_EMPTY = 0.5  # expected points below which a leaf goes
_WIDE, _VAGUE = 50.0, 1e-3  # variances of vectors; shape of the precision and rate, in units
_NARROW = 1e-7  # variance of vectors that are guessed, in prior variances


def wide_prior(X: FloatArray, gamma: float) -> Prior:
    """Return a prior that says little about points like these (n, D), in their unit."""
    unit = float(X.var(axis=0).mean())
    unit = unit if unit > 0.0 else 1.0
    return Prior(float(gamma), _WIDE * unit, _WIDE * unit, _VAGUE, _VAGUE * unit)


@dataclass(slots=True)
class ComponentTree:
    """State.

    Attributes
    ----------
    parent, level, ids, born : ndarray of int64, shape (K,)
    weights : Weights
        Posterior of everything global.
    past : Stats
        Of points that have left the window.
    X : ndarray, shape (n, D)
        The window.
    """

    depth: int
    prior: Prior
    parent: IntArray
    level: IntArray
    ids: IntArray
    born: IntArray
    weights: Weights
    past: Stats
    X: FloatArray
    max_nodes: int
    next_id: int
    n_seen: int = 0
    changes: deque[Change] = field(default_factory=lambda: deque(maxlen=1024))
    n_born: int = 0
    n_pruned: int = 0

    @classmethod
    def founded(cls, X: FloatArray, depth: int, prior: Prior, max_nodes: int) -> "ComponentTree":
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
        S = _NARROW * prior.vector_var * np.eye(depth + 1)
        weights = Weights(M, S, shape, rate, mass)
        line = np.arange(depth)
        return cls(
            depth, prior, line - 1, line + 1, line.copy(), np.zeros(depth, np.int64), weights,
            Stats.none(depth, D), X.copy(), max_nodes, depth, n_seen=n, n_born=depth,
            changes=deque((Change("birth", i, 0) for i in range(depth)), maxlen=1024),
        )  # fmt: skip

    @property
    def n_nodes(self) -> int:
        """Nodes."""
        return len(self.parent)

    def sizes(self) -> FloatArray:
        """Return the points through each node, (K,)."""
        return sizes_of(self.parent, self.weights.mass)

    def paths(self) -> IntArray:
        """Return the slots on the way to each node, (K, L), -1 below it."""
        return paths_of(self.parent, self.level, self.depth)

    def local(self, X: FloatArray) -> Local:
        """Return where points are."""
        return local_step(X, self.parent, self.level, self.depth, self.weights, self.prior)

    def sweep(self, n: int, *, alone: bool = False) -> None:
        """Sweep the window n times: coordinate ascent, the past held fixed.

        With ``alone`` the window stands for all points that were seen.
        """
        for _ in range(n):
            stats = self.local(self.X).stats
            stats = stats.times(self.n_seen / len(self.X)) if alone else self.past.plus(stats)
            self.weights = global_step(stats, self.weights, self.prior)

    def bound(self) -> float:
        """Return the bound, the window standing for all points that were seen."""
        local = self.local(self.X)
        part = float(local.log_z.sum()) * self.n_seen / max(len(self.X), 1)
        return part - kl_of_all(self.parent, self.weights, self.prior)

    def absorb(self, X: FloatArray, window: int) -> None:
        """Take more points into the window; the oldest leave it."""
        self.n_seen += len(X)
        X = np.concatenate([self.X, X])
        gone = max(0, len(X) - window)
        if gone:
            self.past = self.past.plus(self.local(X[:gone]).stats)
        self.X = X[gone:].copy()

    # -- moves -----------------------------------------------------------------------------------

    def grow(self, seed: int, tries: int = _TRIES) -> bool:
        """Try to open paths, or where there is no room to exchange one; keep what pays.

        Judged by the bound after some sweeps of the window, whose points stand for all.
        """
        rng = np.random.default_rng([seed, self.n_seen])
        base = self.copy()
        base.sweep(_FEW, alone=True)
        best, value = None, base.bound()
        for _ in range(tries):
            trial = base.copy()
            if self.max_nodes <= trial.n_nodes and not trial._drop_one(rng):
                continue
            if not trial._open(rng):
                continue
            trial.sweep(_MANY, alone=True)
            trial.prune()
            if (now := trial.bound()) > value:
                best, value = trial, now
        if best is None:
            return False
        kept = set(best.ids.tolist())
        for i in self.ids.tolist():
            if i not in kept:
                self.changes.append(Change("death", i, self.n_seen))
                self.n_pruned += 1
        before = set(self.ids.tolist())
        for i in sorted(kept - before):
            self.changes.append(Change("birth", i, self.n_seen))
            self.n_born += 1
        weight = self.past.n / len(self.X)
        self.parent, self.level, self.ids, self.born = best.parent, best.level, best.ids, best.born
        self.weights, self.next_id = best.weights, best.next_id
        self.past = self.local(self.X).stats.times(weight)
        return True

    def copy(self) -> "ComponentTree":
        """Return a copy that shares the window."""
        X, changes = self.X, self.changes
        memo = {id(X): X, id(changes): deque()}
        return deepcopy(self, memo)

    def _open(self, rng: np.random.Generator) -> bool:
        """Open a path for points of the window that are told badly; False if there is no room."""
        X, local = self.X, self.local(self.X)
        ends = local.q.argmax(axis=1)
        M, L = self.weights.M, self.depth
        lost = ((X - reconstruct(X, ends, self.parent, self.level, L, M)) ** 2).sum(axis=1)
        below = np.zeros((len(X), self.n_nodes))
        below += local.q
        for i in range(self.n_nodes - 1, 0, -1):
            below[:, self.parent[i]] += below[:, i]
        room = self.max_nodes - self.n_nodes
        pull = np.where((self.level < L) & (L - self.level <= room), lost @ below, 0.0)
        if not pull.sum() > 0.0:
            return False
        p = int(rng.choice(self.n_nodes, p=pull / pull.sum()))
        here = lost * below[:, p]
        if not here.sum() > 0.0:
            return False
        seed = int(rng.choice(len(X), p=here / here.sum()))
        path = paths_of(self.parent, self.level, L)[p, : self.level[p]]
        _, s, axes = np.linalg.svd(M[path + 1], full_matrices=False)
        axes = axes[s > 1e-10 * max(s[0], 1e-300)]
        rest = X - M[0]
        rest = rest - rest @ axes.T @ axes
        alike = np.abs(rest @ rest[seed]) / np.maximum(np.linalg.norm(rest, axis=1), 1e-300)
        alike *= below[:, p]
        m = min(len(X), max(_LEAST, int(_SHARE * below[:, p].sum())))
        some = rest[np.argsort(-alike, kind="stable")[:m]]
        n_new = L - int(self.level[p])
        _, s, axes = np.linalg.svd(some, full_matrices=False)
        new = np.zeros((n_new, X.shape[1]))
        r = min(n_new, len(s))
        new[:r] = axes[:r] * (s[:r] / np.sqrt(m))[:, None]
        self._append(p, new, m * self.n_seen / len(X))
        return True

    def _append(self, p: int, vectors: FloatArray, mass: float) -> None:
        K, n = self.n_nodes, len(vectors)
        line = np.arange(K, K + n)
        self.parent = np.concatenate([self.parent, [p], line[:-1]])
        self.level = np.concatenate([self.level, self.level[p] + 1 + np.arange(n)])
        self.ids = np.concatenate([self.ids, self.next_id + np.arange(n)])
        self.born = np.concatenate([self.born, np.full(n, self.n_seen)])
        self.next_id += n
        w = self.weights
        S = _NARROW * self.prior.vector_var * np.eye(K + n + 1)
        S[: K + 1, : K + 1] = w.S
        ends = np.concatenate([w.mass * (1.0 - mass / max(w.mass.sum(), mass)), np.zeros(n)])
        ends[-1] = mass
        self.weights = Weights(np.concatenate([w.M, vectors]), S, w.shape, w.rate, ends)
        self.past = _widened(self.past, n)

    def _drop_one(self, rng: np.random.Generator) -> bool:
        """Drop a leaf, small ones rather, with the nodes that only led to it."""
        kids = np.bincount(self.parent[1:], minlength=self.n_nodes)
        leaves = np.flatnonzero(kids == 0)
        if len(leaves) < 2:
            return False
        size = self.sizes()[leaves] + 1.0
        leaf = int(rng.choice(leaves, p=(1.0 / size) / (1.0 / size).sum()))
        keep = np.ones(self.n_nodes, dtype=bool)
        while leaf > 0 and (keep[leaf] and kids[leaf] <= 0):
            keep[leaf] = False
            leaf = int(self.parent[leaf])
            kids[leaf] -= 1
        self._reorder(keep)
        return True

    def prune(self) -> None:
        """Drop leaves without points, and put siblings in order of size."""
        size = self.sizes()
        keep = (size >= _EMPTY) | (np.arange(self.n_nodes) == 0)
        ends_in_leaf = keep & (self.level == self.depth)
        for i in range(self.n_nodes - 1, 0, -1):
            ends_in_leaf[self.parent[i]] |= ends_in_leaf[i]
        if ends_in_leaf.any():
            for i in self.ids[~ends_in_leaf].tolist():
                self.changes.append(Change("death", i, self.n_seen))
            self.n_pruned += int((~ends_in_leaf).sum())
            self._reorder(ends_in_leaf)

    def _reorder(self, keep: np.ndarray) -> None:
        order = sorted_order(self.parent, self.level, self.weights.mass, keep)
        at = np.concatenate([[0], order.slots + 1])
        w, p = self.weights, self.past
        mass, past_mass = np.zeros((2, len(order.slots)))
        np.add.at(mass, order.to, w.mass)
        np.add.at(past_mass, order.to, p.mass)
        self.weights = Weights(w.M[at], w.S[np.ix_(at, at)], w.shape, w.rate, mass)
        self.past = Stats(p.yy[np.ix_(at, at)], p.yt[at], p.tt, p.n, p.fresh, past_mass)
        self.ids, self.born = self.ids[order.slots], self.born[order.slots]
        self.parent, self.level = order.parent, order.level


def _widened(past: Stats, n: int) -> Stats:
    K1, D = past.yt.shape
    yy = np.zeros((K1 + n, K1 + n))
    yy[:K1, :K1] = past.yy
    yt = np.concatenate([past.yt, np.zeros((n, D))])
    return Stats(yy, yt, past.tt, past.n, past.fresh, np.concatenate([past.mass, np.zeros(n)]))
