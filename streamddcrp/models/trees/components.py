"""A tree of components as it learns: a window that is swept, and sums of what has left it."""

import logging
from collections import deque
from copy import copy
from dataclasses import dataclass, field, replace

import numpy as np

from streamddcrp.models.trees.component_moves import MOVES, View, shed
from streamddcrp.models.trees.loadings import (
    Local,
    Prior,
    Stats,
    Weights,
    global_step,
    kl_of_all,
    local_step,
)
from streamddcrp.models.trees.settings import Change
from streamddcrp.models.trees.tree import paths_of, sizes_of, sorted_order
from streamddcrp.typing import FloatArray, IntArray

_log = logging.getLogger(__name__)

_EFFORT = 4096  # points: a window of as many has one trial of each move, one of half two
_GLANCE = 512  # points on which moves are compared
_FEW, _MANY = 4, 8  # sweeps before moves are compared, and of the best of them on the window
_SWEEPS, _FAILURES = 10, 3  # of a refinement: between attempts to grow; in vain in a row
_WORTH = 1.0  # nats that a move must gain; less may be sweeps that were not done
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
    n_refused: int = 0  # moves that would have raised the bound with more nodes than may be

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

    def local(self, X: FloatArray, *, far: bool = False) -> Local:
        """Return where points are; ``far``: unlikely places, too."""
        return local_step(X, self.parent, self.level, self.depth, self.weights, self.prior, far=far)

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

    def refine(self, max_sweeps: int, tol: float, seed: int) -> list[float]:
        """Sweep and try to grow; return the bound before, after each sweep and after each growth.

        Ends when several rounds raise it by less than a part ``tol``.
        """
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

    # -- moves -----------------------------------------------------------------------------------

    def grow(self, seed: int) -> bool:
        """Try to change the tree; keep what raises the bound, the window standing for all points.

        As often as some points can be swept, and on while the tree gets larger.
        """
        rng = np.random.default_rng([seed, self.n_seen])
        left, grown = max(1, _EFFORT // max(len(self.X), _GLANCE)), False
        while left > 0:
            before = self.n_nodes
            grown = self._change(rng) or grown
            left -= self.n_nodes <= before
        return grown

    def _change(self, rng: np.random.Generator) -> bool:
        """Try some moves on a part of the window, and the best of them on all of it.

        A move may take the tree over its limit: what it will miss least is then given up.
        """
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
        self._become(best)
        return True

    def _refuse(self) -> None:
        """Count a move that must take something back; the first time say so."""
        self.n_refused += 1
        if self.n_refused == 1:
            _log.warning(
                "all %d nodes are in use, and more would tell the points better: max_nodes sets "
                "the size of the tree; raise it for a finer one",
                self.max_nodes,
            )

    def _beats(self, other: "ComponentTree", n: int) -> bool:
        """Sweep n times; tell whether the bound is above another tree's, swept as often."""
        self.sweep(n, alone=True)
        value = self.bound() - _WORTH
        if value > other.bound():
            other.sweep(n, alone=True)
        return value > other.bound()

    def _become(self, other: "ComponentTree") -> None:
        """Take over the nodes of another tree, and tell which are born and which are gone."""
        old, new = set(self.ids.tolist()), set(other.ids.tolist())
        self.changes.extend(Change("death", i, self.n_seen) for i in sorted(old - new))
        self.changes.extend(Change("birth", i, self.n_seen) for i in sorted(new - old))
        self.n_pruned += len(old - new)
        self.n_born += len(new - old)
        weight = self.past.n / len(self.X)
        self.parent, self.level = other.parent, other.level
        self.ids, self.born = other.ids, other.born
        self.weights, self.next_id = other.weights, other.next_id
        self.past = self.local(self.X).stats.times(weight)

    def add(self, p: int, vectors: FloatArray, mass: float = 0.0) -> int:
        """Add a path of nodes below p, with ``mass`` of all points; return the first one's slot."""
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
        return K

    def turn(self, i: int, vector: FloatArray) -> None:
        """Give a node another vector."""
        M = self.weights.M.copy()
        M[i + 1] = vector
        self.weights = replace(self.weights, M=M)

    def hang(self, nodes: IntArray, p: int) -> None:
        """Hang nodes, with all below them, below p; nodes that no longer lead to a leaf go."""
        self.parent = self.parent.copy()
        self.parent[nodes] = p
        self.keep(self.level == self.depth)

    def leading_to(self, leaves: np.ndarray) -> np.ndarray:
        """Return the nodes on the paths to some leaves, both (K,) of bool; the root always."""
        out = leaves.copy()
        for i in np.argsort(-self.level, kind="stable").tolist()[:-1]:
            out[self.parent[i]] |= out[i]
        out[0] = True
        return out

    def keep(self, leaves: np.ndarray) -> None:
        """Drop all leaves but some, if there are any, and put siblings in order of size."""
        if not leaves.any():
            return
        w, p = self.weights, self.past
        down = np.argsort(self.level, kind="stable")  # parents before children, whatever was hung
        back = np.argsort(down)
        parent = np.where(self.parent[down] < 0, -1, back[self.parent[down]])
        kept = self.leading_to(leaves)[down]
        order = sorted_order(parent, self.level[down], w.mass[down], kept)
        slots, to = down[order.slots], order.to[back]
        at = np.concatenate([[0], slots + 1])
        mass, past_mass = np.zeros((2, len(slots)))
        np.add.at(mass, to, w.mass)
        np.add.at(past_mass, to, p.mass)
        self.weights = Weights(w.M[at], w.S[np.ix_(at, at)], w.shape, w.rate, mass)
        self.past = Stats(p.yy[np.ix_(at, at)], p.yt[at], p.tt, p.n, p.fresh, past_mass)
        self.ids, self.born = self.ids[slots], self.born[slots]
        self.parent, self.level = order.parent, order.level


def _widened(past: Stats, n: int) -> Stats:
    K1, D = past.yt.shape
    yy = np.zeros((K1 + n, K1 + n))
    yy[:K1, :K1] = past.yy
    yt = np.concatenate([past.yt, np.zeros((n, D))])
    return Stats(yy, yt, past.tt, past.n, past.fresh, np.concatenate([past.mass, np.zeros(n)]))
