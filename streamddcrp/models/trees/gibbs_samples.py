"""What a chain has drawn, and what it predicts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamddcrp.errors import ConfigError
from streamddcrp.models.trees.gibbs_corpus import Corpus, as_corpus
from streamddcrp.models.trees.gibbs_state import State
from streamddcrp.models.trees.kernels.gibbs import complete
from streamddcrp.typing import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class NestedTopicSamples:
    """S draws of the paths of N documents and the levels of T tokens.

    Attributes
    ----------
    paths : ndarray of int32, shape (S, N, L)
        Nodes of every document, the root (0) first. A node keeps its number from draw to draw while
        it lives; numbers of dead ones are given anew.
    levels : ndarray of int8, shape (S, T)
        Levels, 0 to L - 1, of the tokens of all documents in a row, sorted by word in each.
    log_joint : ndarray of float64, shape (S,)
        log p(paths) + log p(levels) + log p(words | paths, levels), in nats.
    n_nodes : ndarray of int64, shape (S,)
        Nodes of the tree, the root among them.
    corpus : Corpus
    gamma, eta : float
    alpha : ndarray of float64, shape (L,)
    """

    paths: NDArray[np.int32]
    levels: NDArray[np.int8]
    log_joint: FloatArray
    n_nodes: IntArray
    corpus: Corpus
    gamma: float
    eta: float
    alpha: FloatArray

    @property
    def best(self) -> int:
        """The draw with the highest log joint density."""
        return int(self.log_joint.argmax())

    def complete(
        self,
        observed: Any,
        held_out: Any,
        *,
        last: int = 5,
        burn_in: int = 10,
        n_draws: int = 20,
        seed: int | None = None,
    ) -> FloatArray:
        """Score held-out words of new documents given other words of theirs.

        Parameters
        ----------
        observed, held_out : array_like or scipy sparse of whole numbers, shape (M, V)
        last : int, default 5
            Draws of the tree, the last ones, over which probabilities are averaged.
        burn_in, n_draws : int, default 10 and 20
            For each tree: rounds of a document's path and levels before those that count, and
            those.
        seed : int, optional

        Returns
        -------
        ndarray of float64, shape (M,)
            Sums of log p(word | observed words) over the held-out tokens, in nats.
        """
        for name, value, least in (
            ("last", last, 1),
            ("burn_in", burn_in, 0),
            ("n_draws", n_draws, 1),
        ):
            if value < least:
                message = f"{name} must be a whole number >= {least}, got {value!r}"
                raise ConfigError(message)
        seen = as_corpus(observed, self.corpus.n_words)
        held = as_corpus(held_out, self.corpus.n_words)
        if len(seen.first) != len(held.first):
            message = f"observed has {len(seen.first) - 1} rows, held_out {len(held.first) - 1}"
            raise ConfigError(message)
        rng = np.random.default_rng(seed)
        prob = np.zeros(len(held.words))
        some = range(max(0, len(self.paths) - last), len(self.paths))
        for s in some:
            complete(
                rng, burn_in, n_draws, seen.words, seen.first, held.words, held.first, prob,
                self.alpha, self._law, *self._state(s).arrays,
            )  # fmt: skip
        each = np.concatenate([np.zeros(1), np.cumsum(np.log(prob / (len(some) * n_draws)))])
        return np.asarray(each[held.first[1:]] - each[held.first[:-1]])

    def tree(
        self, draw: int | None = None, *, names: Sequence[Any] | None = None, n_words: int = 10
    ) -> dict[str, Any]:
        """Return the tree of a draw as nested dictionaries.

        Parameters
        ----------
        draw : int, optional
            Default: the `best`.
        names : sequence, optional
            Of the V words; default: their numbers.
        n_words : int, default 10

        Returns
        -------
        dict
            ``id``, ``level`` (1 at the root), ``size`` (documents through the node), ``words``
            (pairs of word and probability, the likeliest first; only such as occur there),
            ``children`` (the largest first).
        """
        state = self._state(self.best if draw is None else draw)
        total = self.eta * self.corpus.n_words

        def node(k: int) -> dict[str, Any]:
            prob = (self.eta + state.counts[:, k]) / (total + state.tokens[k])
            top = np.argsort(-prob, kind="stable")[:n_words]
            top = top[state.counts[top, k] > 0.0].tolist()
            below = np.flatnonzero((state.parent == k) & (state.level > 0))
            below = below[np.argsort(-state.docs[below], kind="stable")]
            return {
                "id": k,
                "level": int(state.level[k]) + 1,
                "size": float(state.docs[k]),
                "words": [(w if names is None else names[w], float(prob[w])) for w in top],
                "children": [node(child) for child in below.tolist()],
            }

        return node(0)

    @property
    def _law(self) -> tuple[float, float, float]:
        return self.gamma, self.eta, self.eta * self.corpus.n_words

    def _state(self, draw: int) -> State:
        path, z = self.paths[draw].astype(np.int64), self.levels[draw].astype(np.int64)
        return State.of(self.corpus, path, z)
