"""A tree of topics as it learns: statistics, the documents of the window, and tidying up."""

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from scipy.special import digamma

from streamddcrp.models.trees.kernels.gain import fit_eta, node_bounds, reorder
from streamddcrp.models.trees.kernels.predict import complete_many, place_many
from streamddcrp.models.trees.kernels.topics import (
    LOCAL,
    N_NODES,
    N_SEEN,
    N_WORDS,
    NEXT_VISIT,
    SCALE,
    learn,
)
from streamddcrp.models.trees.merges import merge_siblings
from streamddcrp.models.trees.moves import make_moves
from streamddcrp.models.trees.settings import Change, Settings
from streamddcrp.models.trees.tree import paths_of, sizes_of, sorted_order, sticks
from streamddcrp.models.trees.window import Window
from streamddcrp.typing import FloatArray, IntArray

_FIRST_TIDY = 64  # documents
_CHUNK = 64  # documents that are learned at once, before nodes that nobody takes go
_FULL, _ROOMY = 0.9, 0.75  # of max_nodes: from where small paths give way, and until when
_FOLD = 1e-30
_MOVED = 32  # words of documents that a kind of move may cost, for each new document
_ETA_ROUNDS = 5  # at most, of learning the prior of words
_CLOSE = 1e-2  # and until it changes by less than this part
_FINE = 1e-4  # for predictions: words that move between levels in the last round


@dataclass(slots=True)
class TopicTree:
    """State: arrays in slots, capacity beyond the K nodes and V words in use.

    Attributes
    ----------
    parent, level, born, ids : ndarray of int64, shape (capacity,)
    counts : ndarray, shape (words, capacity)
        Raw statistics; ``real[SCALE]`` times them are expected counts.
    rows, mass : ndarray, shape (capacity,)
        Raw sums over words, and raw endpoint masses.
    whole, real : ndarray
        Counters; scale and the documents' part of the bound.
    learned_eta : ndarray, shape (L,)
        Prior of words in topics as the topics themselves show it; for completion.
    """

    settings: Settings
    parent: IntArray
    level: IntArray
    born: IntArray
    ids: IntArray
    counts: FloatArray
    rows: FloatArray
    mass: FloatArray
    whole: IntArray
    real: FloatArray
    window: Window
    learned_eta: FloatArray
    next_tidy: int = _FIRST_TIDY
    changes: deque[Change] = field(default_factory=lambda: deque(maxlen=1024))
    n_born: int = 0
    n_merged: int = 0
    n_pruned: int = 0

    @classmethod
    def empty(cls, settings: Settings, n_words: int = 0) -> "TopicTree":
        """Return a tree that is a root."""
        L = len(settings.alpha)
        cap = min(64, settings.max_nodes)
        zeros = np.zeros(cap, np.int64)
        level = np.ones(cap, np.int64)
        parent = np.full(cap, -1)
        whole = np.array([1, 1, n_words, 0, 0, -1, -1, -1])
        return cls(
            settings, parent, level, zeros.copy(), zeros.copy(), np.zeros((max(n_words, 64), cap)),
            np.zeros(cap), np.zeros(cap), whole, np.array([1.0, 0.0]), Window.empty(L),
            settings.eta.copy(),
        )  # fmt: skip

    # -- reading ---------------------------------------------------------------------------------

    @property
    def n_nodes(self) -> int:
        """Nodes."""
        return int(self.whole[N_NODES])

    @property
    def n_words(self) -> int:
        """Words."""
        return int(self.whole[N_WORDS])

    @property
    def depth(self) -> int:
        """Levels."""
        return len(self.settings.alpha)

    @property
    def n_seen(self) -> int:
        """Documents learned."""
        return int(self.whole[N_SEEN])

    @property
    def next_stop(self) -> int:
        """Documents that will have been learned when nodes go next."""
        return min(self.n_seen - self.n_seen % _CHUNK + _CHUNK, self.next_tidy)

    @property
    def scale(self) -> float:
        """What the raw statistics are to be multiplied by."""
        return float(self.real[SCALE])

    def sizes(self) -> FloatArray:
        """Return the documents through each node, (K,)."""
        K = self.n_nodes
        return sizes_of(self.parent[:K], self.mass[:K]) * self.scale

    def paths(self) -> IntArray:
        """Return the slots on the way to each node, (K, L), -1 below it."""
        return paths_of(self.parent[: self.n_nodes], self.level[: self.n_nodes], self.depth)

    def bound(self) -> float:
        """Return the evidence lower bound of what was learned, sticks and topics at their optimum.

        Documents that left the window count as they were placed last.
        """
        nodes = np.arange(self.n_nodes)
        return self.rest_of_bound() + float(self.node_bounds(nodes, self.counts, self.rows).sum())

    def node_bounds(self, which: IntArray, counts: FloatArray, rows: FloatArray) -> FloatArray:
        """Return what the topics of some nodes explain, (K,), 0 for the others.

        ``counts`` (.., K) and ``rows`` (K,) are raw, of some words or all, and of all words.
        """
        out = np.zeros(self.n_nodes)
        V = max(self.n_words, 1)
        node_bounds(self.level, which, counts, rows, self.scale, self.settings.eta, V, out)
        return out

    def rest_of_bound(self) -> float:
        """Return the bound but for `node_bounds`."""
        K = self.n_nodes
        mass = self.mass[:K] * self.scale
        stick = sticks(self.parent[:K], self.level[:K], mass, self.depth, self.settings.gamma)
        return float(stick + self.scale * self.real[LOCAL])

    def place_many(
        self, offsets: IntArray, words: IntArray, n: FloatArray
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        """Find where documents belong; learn nothing.

        Returns
        -------
        slots : ndarray, shape (N,)
            Of the likeliest node.
        out : ndarray, shape (N, 3)
            Its probability, the log evidence, the chance of a new path.
        levels : ndarray, shape (N, L)
            Expected proportions of levels.
        """
        s, N = self.settings, len(offsets) - 1
        slots, out, levels = np.zeros(N, np.int64), np.zeros((N, 3)), np.zeros((N, self.depth))
        place_many(
            self.parent, self.level, self.counts, self.rows, self.mass, self.whole, self.real,
            offsets, words, n, s.eta, s.alpha, s.gamma, s.beam, s.rounds, _FINE, slots, out, levels,
        )  # fmt: skip
        return slots, out, levels

    def complete_many(
        self, offsets: IntArray, words: IntArray, n: FloatArray, held_offsets: IntArray,
        held: IntArray, held_n: FloatArray,
    ) -> FloatArray:  # fmt: skip
        """Return the log probability of held-out words given others of the documents, (N,)."""
        s, out = self.settings, np.zeros(len(offsets) - 1)
        complete_many(
            self.parent, self.level, self.counts, self.rows, self.mass, self.whole, self.real,
            offsets, words, n, held_offsets, held, held_n, self.learned_eta, s.alpha, s.gamma,
            s.beam, s.rounds, _FINE, out,
        )  # fmt: skip
        return out

    def keep_words(self, used: np.ndarray) -> None:
        """Forget the words that are not ``used`` (V,), none of which is in the window."""
        V, w = self.n_words, self.window
        kept = self.counts[:V][used]
        self.rows -= self.counts[:V][~used].sum(axis=0)
        np.maximum(self.rows, 0.0, out=self.rows)
        self.counts[: len(kept)] = kept
        self.counts[len(kept) : V] = 0.0
        self.whole[N_WORDS] = len(kept)
        at = int(w.offsets[w.n])
        w.words[:at] = (np.cumsum(used) - 1)[w.words[:at]]

    # -- learning --------------------------------------------------------------------------------

    def learn(self, offsets: IntArray, words: IntArray, n: FloatArray) -> FloatArray:
        """Learn documents in their order; words ``words[offsets[d]:offsets[d + 1]]``, counts ``n``.

        Returns
        -------
        ndarray, shape (N, 4)
            On arrival: id of the likeliest node, its probability, log evidence, chance of a new
            path.
        """
        N, done = len(offsets) - 1, 0
        out = np.zeros((N, 4))
        self._make_words(int(words.max(initial=-1)) + 1)
        while done < N:
            stop = min(N, done + self.next_stop - self.n_seen)
            at, to = offsets[done], offsets[stop]
            first = self._append(offsets[done : stop + 1] - at, words[at:to], n[at:to])
            out[done:stop] = self._run(first, first + stop - done, fresh=True)
            done = stop
            if self.n_seen == self.next_tidy:
                self.tidy()
                every = min(self.settings.window, max(_FIRST_TIDY, self.n_seen))
                self.next_tidy = self.n_seen + every
            elif self.n_seen % _CHUNK == 0:
                self._reorder(self.sizes() > 0.5)
        return out

    def _append(self, offsets: IntArray, words: IntArray, n: FloatArray) -> int:
        """Add documents to the window; return the place of the first."""
        gone = self.window.make_room(len(offsets) - 1, len(words), self.settings.window)
        self.whole[NEXT_VISIT] -= gone
        return self.window.append(offsets, words, n)

    def _trim(self) -> None:
        """Let go of the documents before the window, of which some may still be in memory."""
        self.whole[NEXT_VISIT] -= self.window.forget(self.settings.window)

    def revisit(self) -> None:
        """Place every document of the window again."""
        self._trim()
        self._run(0, self.window.n, fresh=False)

    def _run(self, first: int, last: int, *, fresh: bool) -> FloatArray:
        s, w = self.settings, self.window
        work = self.room_for(np.arange(last))
        parts = []
        while first < last:
            before = self.n_nodes
            out = np.zeros((last - first + 1, 4))
            at = learn(
                first, last, fresh, s.window, s.revisits if fresh else 0, s.kappa, s.max_nodes,
                self.parent, self.level, self.born, self.ids, self.counts, self.rows, self.mass,
                self.whole, self.real, w.offsets, w.words, w.counts, w.weights, w.ends, w.own,
                w.phi, s.eta, s.alpha, s.gamma, s.beam, s.rounds, s.tol, *work, out,
            )  # fmt: skip
            self.note_births(before)
            parts.append(out[: at - first])
            first = at
            if first < last:
                self._make_nodes()
        return np.concatenate(parts) if parts else np.zeros((0, 4))

    def note_births(self, before: int) -> None:
        """Remember the nodes in slots from ``before`` on."""
        self.n_born += self.n_nodes - before
        for i in range(before, self.n_nodes):
            self.changes.append(Change("birth", int(self.ids[i]), int(self.born[i])))

    def room_for(self, which: IntArray) -> tuple[IntArray, FloatArray, FloatArray, FloatArray]:
        """Return work space for placing some documents of the window."""
        E = self.settings.beam * (self.depth - 1) + 1
        longest = int(np.diff(self.window.offsets)[which].max(initial=0))
        return (
            np.empty(E, np.int64), np.empty(E), np.empty((E, self.depth)),
            np.empty((E, longest, self.depth)),
        )  # fmt: skip

    def has_room(self, n: int) -> bool:
        """Make room for the paths of n documents, if there can be."""
        while self.n_nodes + n * self.depth > len(self.parent) < self.settings.max_nodes:
            self._make_nodes()
        return len(self.parent) >= self.n_nodes + self.depth

    def _make_nodes(self) -> None:
        """Make room for as many nodes again."""
        old = len(self.parent)
        new = min(2 * old, self.settings.max_nodes)
        for name in ("parent", "level", "born", "ids", "rows", "mass"):
            array = getattr(self, name)
            setattr(self, name, np.concatenate([array, np.zeros(new - old, array.dtype)]))
        counts = np.zeros((len(self.counts), new))
        counts[:, :old] = self.counts
        self.counts = counts

    def _make_words(self, n_words: int) -> None:
        """Make room for words."""
        if n_words > len(self.counts):
            counts = np.zeros((max(n_words, 2 * len(self.counts)), self.counts.shape[1]))
            counts[: len(self.counts)] = self.counts
            self.counts = counts

    # -- tidying up ------------------------------------------------------------------------------

    def tidy(self, budget: float | None = None) -> None:
        """Drop paths nobody takes, merge, dissolve and split nodes where that raises the bound.

        ``budget``: distinct words of documents that each kind of move may cost. Default: so many
        for each document since the last time, and one round of merges.
        """
        every = min(self.settings.window, max(_FIRST_TIDY, self.n_seen))
        self._trim()
        if self.scale < _FOLD:
            self._fold()
        self._reorder(self._worth_keeping())
        while merge_siblings(self) and budget is not None:
            pass
        make_moves(self, _MOVED * every if budget is None else budget)
        self._reorder(self._worth_keeping())
        K, V = self.n_nodes, max(self.n_words, 1)
        fit_eta(
            self.counts, self.rows, self.level, K, V, self.scale, self.settings.eta, _ETA_ROUNDS,
            _CLOSE, self.learned_eta,
        )  # fmt: skip

    def _fold(self) -> None:
        scale, self.real[SCALE] = self.scale, 1.0
        for array in (self.counts, self.rows, self.mass, self.window.weights):
            np.multiply(array, scale, out=array)
        self.real[LOCAL] *= scale

    def _worth_keeping(self) -> np.ndarray:
        """Tell which nodes stay.

        A path goes when fewer than half a document is on it, or fewer than two and the window has
        passed on since it was born; and when there are almost ``max_nodes``, the smallest go.
        """
        K, s = self.n_nodes, self.settings
        size = self.sizes()
        old = self.born[:K] <= self.n_seen - s.window
        small = (size < 0.5) | (old & (size < 1.5))
        if K - small.sum() > _FULL * s.max_nodes:
            leaves = np.flatnonzero((self.level[:K] == self.depth) & ~small)
            leaves = leaves[np.lexsort((leaves, size[leaves], ~old[leaves]))]
            small[leaves[: int(K - small.sum() - _ROOMY * s.max_nodes)]] = True
        keep: np.ndarray = (self.level[:K] == self.depth) & ~small
        keep[0] = True
        for i in range(K - 1, 0, -1):
            keep[self.parent[i]] |= keep[i]
        return keep

    def _reorder(self, keep: np.ndarray | None = None) -> None:
        """Put the nodes in order, without those that are not kept."""
        K = self.n_nodes
        order = sorted_order(self.parent[:K], self.level[:K], self.mass[:K], keep)
        n = len(order.slots)
        if n < K:
            gone = np.setdiff1d(np.arange(K), order.slots)
            self._let_go(gone)
        mass = np.zeros(n)
        np.add.at(mass, order.to, self.mass[:K])
        self.take(order.slots, order.parent, order.level, order.to)
        self.mass[:n] = mass

    def _let_go(self, gone: IntArray) -> None:
        """Count the words of nodes that are dropped, the window's by document, as of fresh ones."""
        for i in gone.tolist():
            self.changes.append(Change("death", int(self.ids[i]), self.n_seen))
        self.n_pruned += len(gone)
        w, fresh = self.window, _log_fresh(self.settings.eta, max(self.n_words, 1))
        self.real[LOCAL] += float((self.rows[gone] * fresh[self.level[gone] - 1]).sum())
        paths = self.paths()
        for d in np.flatnonzero(np.isin(w.ends[: w.n], gone)).tolist():
            spots = slice(w.offsets[d], w.offsets[d + 1])
            w.own[d] += w.counts[spots] @ w.phi[spots] @ (fresh * np.isin(paths[w.ends[d]], gone))

    def take(self, slots: IntArray, parent: IntArray, level: IntArray, to: IntArray) -> None:
        """Let new slots hold the nodes of old ones."""
        K, n = self.n_nodes, len(slots)
        reorder(self.counts, self.n_words, K, slots)
        for array in (self.rows, self.mass, self.ids, self.born):
            array[:n] = array[slots]
            array[n:K] = 0
        self.parent[:n], self.level[:n] = parent, level
        self.whole[N_NODES] = n
        ends = self.window.ends[: self.window.n]
        ends[ends >= 0] = to[ends[ends >= 0]]


def _log_fresh(eta: FloatArray, V: int) -> FloatArray:
    """Return E log of a word's probability in a topic that is not kept, by level."""
    out: FloatArray = digamma(eta) - digamma(V * eta)
    return out
