"""The tree of a chain: slots of nodes that grow when they are all taken."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from streamddcrp.models.trees.gibbs_corpus import Corpus
from streamddcrp.typing import FloatArray, IntArray


@dataclass(slots=True)
class State:
    """Nodes in K slots, the root in slot 0.

    Parameters
    ----------
    parent, level : ndarray of int64, shape (K,)
        Level 0 is the root; -1: the slot is free.
    docs, tokens : ndarray, shape (K,)
        Documents through a node, tokens at it.
    counts : ndarray, shape (V, K)
        Tokens of each word.
    """

    parent: IntArray
    level: IntArray
    docs: FloatArray
    tokens: FloatArray
    counts: FloatArray

    @classmethod
    def root(cls, n_words: int, n_slots: int) -> "State":
        """Return a tree of the root alone."""
        level = np.full(n_slots, -1)
        level[0] = 0
        return cls(
            np.full(n_slots, -1), level, np.zeros(n_slots), np.zeros(n_slots),
            np.zeros((n_words, n_slots)),
        )  # fmt: skip

    @classmethod
    def of(cls, corpus: Corpus, path: IntArray, z: IntArray) -> "State":
        """Return the tree of seated documents."""
        N, L = path.shape
        state = cls.root(corpus.n_words, int(path.max(initial=0)) + 4 * L)
        for l in range(L):
            state.level[path[:, l]] = l
            state.docs += np.bincount(path[:, l], minlength=len(state.docs))
            if l:
                state.parent[path[:, l]] = path[:, l - 1]
        node = path[np.repeat(np.arange(N), np.diff(corpus.first)), z]
        state.tokens += np.bincount(node, minlength=len(state.tokens))
        np.add.at(state.counts, (corpus.words, node), 1.0)
        return state

    def grow(self) -> None:
        """Double the slots."""
        K = len(self.level)
        self.parent = np.append(self.parent, np.full(K, -1))
        self.level = np.append(self.level, np.full(K, -1))
        self.docs = np.append(self.docs, np.zeros(K))
        self.tokens = np.append(self.tokens, np.zeros(K))
        self.counts = np.concatenate([self.counts, np.zeros_like(self.counts)], axis=1)

    @property
    def arrays(self) -> list[Any]:
        """What the kernels take."""
        return [self.parent, self.level, self.docs, self.tokens, self.counts]
