"""Collapsed Gibbs sampling of a tree of topics: the chain, its draws, and what they predict."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from streamddcrp.arguments import as_list, checked, generator, number_array
from streamddcrp.cards import ResultCard
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.estimator.sweeps import checked_sweeps, kept_sweeps
from streamddcrp.models.trees.kernels.gibbs import complete, log_joint, sweep
from streamddcrp.models.trees.tree import slots_of
from streamddcrp.records import empty, resized
from streamddcrp.typing import ArrayLike, FloatArray, IntArray
from streamddcrp.validation import positive, whole

_FIRST = 3  # visits to a document when it is assigned for the first time


class Corpus(NamedTuple):
    """Tokens of N documents: those of document d are words[first[d]:first[d + 1]], in order."""

    words: IntArray
    first: IntArray
    n_words: int


def as_corpus(counts: Any, n_words: int | None = None) -> Corpus:
    """Return the tokens of whole counts (N, V), dense or scipy sparse; refuse others by row."""
    try:
        X = sparse.csr_array(counts, dtype=np.float64)
    except (TypeError, ValueError):
        message = "documents: expected counts of words, an array or sparse matrix (N, V)"
        raise SchemaError(message) from None
    if X.ndim != 2 or X.shape[1] < 1 or (n_words is not None and X.shape[1] != n_words):
        wanted = "V >= 1" if n_words is None else f"V = {n_words}"
        message = f"documents: expected counts (N, V) with {wanted}, got shape {X.shape}"
        raise SchemaError(message)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    bad = np.flatnonzero(~((X.data >= 0.0) & (np.floor(X.data) == X.data)))
    if len(bad):
        row = int(np.searchsorted(X.indptr, bad[0], side="right")) - 1
        word, value = X.indices[bad[0]], X.data[bad[0]]
        message = f"row {row}, word {word}: {value} is not a count; give a whole number >= 0"
        raise SchemaError(message, row=row)
    n = X.data.astype(np.int64)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(n)])
    words = np.repeat(X.indices.astype(np.int64), n)
    return Corpus(words, ends[X.indptr].astype(np.int64), X.shape[1])


class State(NamedTuple):
    """Nodes in K slots, the root in slot 0."""

    parent: Annotated[IntArray, "K", -1]
    level: Annotated[IntArray, "K", -1]  # 0: the root; -1: the slot is free
    docs: Annotated[FloatArray, "K"]  # documents through a node
    tokens: Annotated[FloatArray, "K"]
    counts: Annotated[FloatArray, "V K"]  # tokens of each word

    @classmethod
    def root(cls, n_words: int, n_slots: int) -> "State":
        """Return a tree of the root alone."""
        state = empty(cls, {"V": n_words, "K": n_slots})
        state.level[0] = 0
        return state

    @classmethod
    def of(cls, corpus: Corpus, path: IntArray, z: IntArray) -> "State":
        """Return the tree of documents with these paths and levels."""
        N, L = path.shape
        state = cls.root(corpus.n_words, int(path.max(initial=0)) + 4 * L)
        for l in range(L):
            state.level[path[:, l]] = l
            np.add.at(state.docs, path[:, l], 1.0)
            if l:
                state.parent[path[:, l]] = path[:, l - 1]
        node = path[np.repeat(np.arange(N), np.diff(corpus.first)), z]
        np.add.at(state.tokens, node, 1.0)
        np.add.at(state.counts, (corpus.words, node), 1.0)
        return state


@dataclass(frozen=True, slots=True)
class NestedTopicSamples(ResultCard):
    """S draws of the paths of N documents and the levels of T tokens.

    Attributes
    ----------
    paths : ndarray of int32, shape (S, N, L)
        Nodes of every document, the root (0) first. A node keeps its number from draw to draw while
        it lives; numbers of dead ones are used again.
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
        last, burn_in = whole("last", last, 1), whole("burn_in", burn_in)
        n_draws = whole("n_draws", n_draws, 1)
        seen = as_corpus(observed, self.corpus.n_words)
        held = as_corpus(held_out, self.corpus.n_words)
        if len(seen.first) != len(held.first):
            message = f"observed has {len(seen.first) - 1} rows, held_out {len(held.first) - 1}"
            raise ConfigError(message)
        rng = generator(seed)
        prob = np.zeros(len(held.words))
        some = range(max(0, len(self.paths) - last), len(self.paths))
        for s in some:
            complete(
                rng, burn_in, n_draws, seen.words, seen.first, held.words, held.first, prob,
                self.alpha, self._prior, *self._state(s),
            )  # fmt: skip
        each = np.concatenate([np.zeros(1), np.cumsum(np.log(prob / (len(some) * n_draws)))])
        return np.asarray(each[held.first[1:]] - each[held.first[:-1]])

    @checked
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
            ``id``, ``level`` (1 at the root), ``weight`` (documents through the node), ``words``
            (pairs of word and probability, the likeliest first; only such as occur there),
            ``children`` (the largest first).
        """
        state = self._state(self.best if draw is None else draw)
        total = self.eta * self.corpus.n_words
        names = None if names is None else as_list("names", names)
        if names is not None and len(names) != self.corpus.n_words:
            message = f"names: expected {self.corpus.n_words}, got {len(names)}"
            raise ConfigError(message)

        def node(k: int) -> dict[str, Any]:
            prob = (self.eta + state.counts[:, k]) / (total + state.tokens[k])
            top = np.argsort(-prob, kind="stable")[:n_words]
            top = top[state.counts[top, k] > 0.0].tolist()
            below = np.flatnonzero((state.parent == k) & (state.level > 0))
            below = below[np.argsort(-state.docs[below], kind="stable")]
            return {
                "id": k,
                "level": int(state.level[k]) + 1,
                "weight": float(state.docs[k]),
                "words": [(w if names is None else names[w], float(prob[w])) for w in top],
                "children": [node(child) for child in below.tolist()],
            }

        return node(0)

    @property
    def _prior(self) -> tuple[float, float, float]:
        return self.gamma, self.eta, self.eta * self.corpus.n_words

    def _state(self, draw: int) -> State:
        path, z = self.paths[draw].astype(np.int64), self.levels[draw].astype(np.int64)
        return State.of(self.corpus, path, z)


@checked
def sample_nested_topics(
    documents: Any,
    *,
    depth: int = 3,
    gamma: float = 1.0,
    eta: float = 0.3,
    alpha: tuple[float, ...] = (5.0, 2.0, 1.0),
    paths: ArrayLike | None = None,
    n_sweeps: int = 200,
    burn_in: int = 200,
    thin: int = 10,
    seed: int | None = None,
    progress: bool = False,
) -> NestedTopicSamples:
    """Sample the paths of documents down a tree of topics, and the levels of their tokens.

    Parameters
    ----------
    documents : array_like or scipy sparse of whole numbers, shape (N, V)
        Counts of words.
    depth : int, default 3
        Levels L of the tree, the root among them.
    gamma : float, default 1.0
        Concentration: how readily a document leaves the branches there are.
    eta : float, default 0.3
        Prior weight of each word in a topic; smaller means more, sharper topics.
    alpha : tuple of L floats, default (5.0, 2.0, 1.0)
        Prior weights of the levels in a document, the root first.
    paths : array_like of int, shape (N, L), optional
        Where the chain starts: nodes of each document by any numbers, the root first, such as the
        paths of another fit. Default: documents are assigned one after the other.
    n_sweeps : int, default 200
        Sweeps after the burn-in.
    burn_in : int, default 200
        Sweeps before the first draw.
    thin : int, default 10
        Sweeps for each draw that is kept.
    seed : int, optional
    progress : bool, default False
        Show a progress bar.

    Returns
    -------
    NestedTopicSamples

    Raises
    ------
    ConfigError
        An option is out of range.
    SchemaError
        A count is negative or not whole, or the paths are no tree; the message names the row.

    Notes
    -----
    A sweep costs O(T K) for T tokens and K nodes, memory is V K numbers; a draw takes a byte
    per token. Equal seeds give equal bits.

    Examples
    --------
    >>> import numpy as np
    >>> from streamddcrp import sample_nested_topics
    >>> sport, food = [9, 9, 8, 0, 0, 0], [9, 0, 0, 9, 8, 0]
    >>> X = np.array([sport, food, sport, food])
    >>> draws = sample_nested_topics(X, depth=2, alpha=(1.0, 1.0), n_sweeps=500, seed=0)
    >>> node = draws.paths[:, :, 1]
    >>> (node[:, :, None] == node[:, None]).mean(axis=0)[0] > 0.5  # who shares the first's topic
    array([ True, False,  True, False])
    """
    depth, gamma, eta = whole("depth", depth, 2), positive("gamma", gamma), positive("eta", eta)
    n_sweeps, burn_in, thin = checked_sweeps(n_sweeps, burn_in, thin)
    weights = np.array([positive("alpha", a) for a in alpha])
    if len(weights) != depth:
        message = f"alpha must be {depth} positive numbers, one for each level; got {alpha!r}"
        raise ConfigError(message)
    corpus = as_corpus(documents)
    N, T = len(corpus.first) - 1, len(corpus.words)
    if N == 0:
        message = "documents: there are none; give at least one row"
        raise SchemaError(message)
    rng = generator(seed)
    prior = gamma, eta, eta * corpus.n_words
    z = rng.choice(depth, T, p=weights / weights.sum())
    path = np.full((N, depth), -1)
    state = State.root(corpus.n_words, 16 * depth)
    if paths is not None:
        path[:] = _as_paths(paths, N, depth)
        state = State.of(corpus, path, z)

    def go(rounds: int) -> None:
        nonlocal state
        d = 0
        while d < N:
            d = sweep(rng, d, rounds, corpus.words, corpus.first, z, path, weights, prior, *state)
            if d < N:
                n_words, slots = state.counts.shape
                state = resized(state, {"V": n_words, "K": 2 * slots})

    go(_FIRST)
    S = n_sweeps // thin
    drawn, levels = np.empty((S, N, depth), np.int32), np.empty((S, T), np.int8)
    trace, n_nodes = np.empty(S), np.empty(S, np.int64)
    for s in kept_sweeps(partial(go, 1), S, burn_in, thin, progress=progress):
        drawn[s], levels[s] = path, z
        trace[s] = log_joint(corpus.first, z, path, weights, prior, *state)
        n_nodes[s] = (state.level >= 0).sum()
    return NestedTopicSamples(drawn, levels, trace, n_nodes, corpus, gamma, eta, weights)


def _as_paths(paths: ArrayLike, N: int, L: int) -> IntArray:
    """Return slots for the nodes of given paths."""
    nodes = number_array("paths", paths, ndim=None, whole=True)
    if nodes.shape != (N, L) or nodes.dtype.kind not in "iu":
        message = (
            f"paths: expected whole numbers of shape ({N}, {L}), one path a document; got shape "
            f"{nodes.shape} and type {nodes.dtype}"
        )
        raise SchemaError(message)
    if len(np.unique(nodes[:, 0])) > 1:
        row = int(np.flatnonzero(nodes[:, 0] != nodes[0, 0])[0])
        message = f"paths, row {row}: begins at {nodes[row, 0]}, row 0 at {nodes[0, 0]}; one root"
        raise SchemaError(message, row=row)
    return slots_of(nodes)
