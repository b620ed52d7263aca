"""A tree of topics as it learns: documents are placed, and nodes are dropped, merged and moved."""

from collections.abc import Sequence

import numpy as np
from scipy.special import digamma

from streamddcrp.data.documents import Word
from streamddcrp.models.trees.kernels.gain import fit_eta
from streamddcrp.models.trees.kernels.topics import (
    LOCAL,
    N_WORDS,
    NEXT_VISIT,
    SCALE,
    complete_many,
    learn,
    place_many,
)
from streamddcrp.models.trees.topic_moves import make_moves, merge_siblings
from streamddcrp.models.trees.topic_state import FIRST_TIDY, TopicState
from streamddcrp.models.trees.tree import Change, sorted_order, with_ancestors
from streamddcrp.typing import FloatArray, IntArray

_CHUNK = 64  # documents that are learned at once, before nodes without documents go
_FULL, _ROOMY = 0.9, 0.75  # of max_nodes: from where small paths give way, and until when
_FOLD = 1e-30
_MOVED = 32  # words of documents that a kind of move may cost, for each new document
_ETA_ROUNDS = 5  # at most, of learning the prior of words
_CLOSE = 1e-2  # and until it changes by less than this part
_FINE = 1e-4  # for predictions: words that move between levels in the last round


class TopicTree(TopicState):
    """A tree of topics that learns and predicts."""

    __slots__ = ()

    @property
    def next_stop(self) -> int:
        """Documents that will have been learned when nodes go next."""
        return min(self.n_seen - self.n_seen % _CHUNK + _CHUNK, self.next_tidy)

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
        N = len(offsets) - 1
        slots, out, levels = np.zeros(N, np.int64), np.zeros((N, 3)), np.zeros((N, self.depth))
        settings = self.settings._replace(tol=_FINE)
        place_many(self.arrays, settings, offsets, words, n, slots, out, levels)
        return slots, out, levels

    def complete_many(
        self, offsets: IntArray, words: IntArray, n: FloatArray, held_offsets: IntArray,
        held: IntArray, held_n: FloatArray,
    ) -> FloatArray:  # fmt: skip
        """Return the log probability of held-out words given others of the documents, (N,)."""
        out = np.zeros(len(offsets) - 1)
        settings = self.settings._replace(tol=_FINE, eta=self.learned_eta)
        complete_many(self.arrays, settings, offsets, words, n, held_offsets, held, held_n, out)
        return out

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
        self.make_words(int(words.max(initial=-1)) + 1)
        while done < N:
            stop = min(N, done + self.next_stop - self.n_seen)
            at, to = offsets[done], offsets[stop]
            first = self._append(offsets[done : stop + 1] - at, words[at:to], n[at:to])
            out[done:stop] = self._run(first, first + stop - done, fresh=True)
            done = stop
            if self.n_seen == self.next_tidy:
                self.tidy()
                every = min(self.settings.window, max(FIRST_TIDY, self.n_seen))
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
        parts = [np.zeros((0, 4))]
        while first < last:
            before = self.n_nodes
            out = np.zeros((last - first + 1, 4))
            at = learn(first, last, fresh, self.arrays, self.window.arrays, self.settings, out)
            self.note_births(before)
            parts.append(out[: at - first])
            first = at
            if first < last:
                self.make_nodes()
        return np.concatenate(parts)

    # -- tidying up ------------------------------------------------------------------------------

    def tidy(self, budget: float | None = None) -> None:
        """Drop empty paths; merge, dissolve and split nodes where that raises the bound.

        ``budget``: distinct words of documents that each kind of move may cost. Default: so many
        for each document since the last time, and one round of merges.
        """
        every = min(self.settings.window, max(FIRST_TIDY, self.n_seen))
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
        """Return which nodes stay, (K,) of bool.

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
        leaves = (self.level[:K] == self.depth) & ~small
        return with_ancestors(self.parent[:K], self.level[:K], leaves)

    def _reorder(self, keep: np.ndarray | None = None) -> None:
        """Put the nodes in order, without those that are not kept."""
        K = self.n_nodes
        order = sorted_order(self.parent[:K], self.level[:K], self.mass[:K], keep)
        n = len(order.slots)
        if n < K:
            self._let_go(np.setdiff1d(np.arange(K), order.slots))
        mass = np.zeros(n)
        np.add.at(mass, order.to, self.mass[:K])
        self.take(order.slots, order.parent, order.level, order.to)
        self.mass[:n] = mass

    def _let_go(self, gone: IntArray) -> None:
        """Count the words of dropped nodes as of topics not kept, the window's by document."""
        for i in gone.tolist():
            self.changes.append(Change("death", int(self.ids[i]), self.n_seen))
        self.n_pruned += len(gone)
        w, eta = self.window, self.settings.eta
        fresh = digamma(eta) - digamma(max(self.n_words, 1) * eta)  # E log of a word's probability
        self.real[LOCAL] += float((self.rows[gone] * fresh[self.level[gone] - 1]).sum())
        paths = self.paths()
        for d in np.flatnonzero(np.isin(w.ends[: w.n], gone)).tolist():
            spots = slice(w.offsets[d], w.offsets[d + 1])
            w.own[d] += w.counts[spots] @ w.phi[spots] @ (fresh * np.isin(paths[w.ends[d]], gone))

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


def distinctive_words(
    tree: TopicState, names: Sequence[Word], n: int
) -> list[list[tuple[Word, float]]]:
    """Return words of each topic with their probability in it, (K) lists of ``n`` at most.

    Those with the largest part in the divergence come first: of a leaf's words from all below its
    parent; of all words below an inner node, since few are its own, from those below its parent;
    of the root's from all.
    """
    V, K = len(names), tree.n_nodes
    own = tree.counts[:V, :K] * tree.scale
    below = own.copy()
    for i in range(K - 1, 0, -1):
        below[:, tree.parent[i]] += below[:, i]
    out = []
    for i in range(K):
        mine, others = below[:, i] if i else own[:, 0], below[:, max(int(tree.parent[i]), 0)]
        some = np.flatnonzero(mine > 0.5)
        share = mine[some] / max(float(mine.sum()), 1e-300)
        rest = others[some] / max(float(others.sum()), 1e-300)
        weight = share * (np.log(share / rest) + 1e-3)
        best = some[np.lexsort((some, -weight))[:n]]
        eta = float(tree.settings.eta[tree.level[i] - 1])
        probs = (eta + own[best, i]) / (V * eta + float(own[:, i].sum()))
        out.append([(names[v], float(p)) for v, p in zip(best, probs, strict=True)])
    return out
