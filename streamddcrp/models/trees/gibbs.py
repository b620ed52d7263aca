"""Collapsed Gibbs sampling of a tree of topics: the chain, its draws, and their predictions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.arguments import as_list, checked
from streamddcrp.data.documents import sparse_rows
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.estimator.sweeps import Draws, Plan
from streamddcrp.models.trees.kernels.gibbs import log_joint, sweep
from streamddcrp.models.trees.tree import by_level
from streamddcrp.records import empty, resized
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import positive, whole

_FIRST = 3  # visits to a document when it is assigned for the first time


class Corpus(NamedTuple):
    """Tokens of N documents: those of document d are words[first[d]:first[d + 1]], in order."""

    words: IntArray
    first: IntArray
    n_words: int


def as_corpus(counts: Any, n_words: int | None = None) -> Corpus:
    """Return the tokens of whole counts (N, V), dense or scipy sparse; refuse others by row."""
    X = sparse_rows(counts, "documents").astype(np.float64)
    if X.shape[1] < 1 or (n_words is not None and X.shape[1] != n_words):
        wanted = "V >= 1" if n_words is None else f"V = {n_words}"
        raise SchemaError(f"documents: expected counts (N, V) with {wanted}, got shape {X.shape}")
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    bad = np.flatnonzero(~((X.data >= 0.0) & (np.floor(X.data) == X.data)))
    if len(bad):
        row = int(np.searchsorted(X.indptr, bad[0], side="right")) - 1
        word, value = X.indices[bad[0]], X.data[bad[0]]
        raise SchemaError(
            f"row {row}, word {word}: {value} is not a count; give a whole number >= 0", row=row
        )
    n = X.data.astype(np.int64)
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(n)])
    words = np.repeat(X.indices.astype(np.int64), n)
    return Corpus(words, ends[X.indptr].astype(np.int64), X.shape[1])


class Seats(NamedTuple):
    """Where the documents of a corpus are: the nodes of their paths, and the levels of tokens."""

    words: IntArray
    first: IntArray
    z: IntArray  # (T,)
    path: IntArray  # (N, L) slots, -1 before a document is assigned


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
class NestedTopicSamples(Draws):
    """Draws of the paths of N documents and the levels of T tokens.

    Attributes
    ----------
    paths : ndarray of int32, shape (S, N, L)
        Nodes of every document, root (0) first. A live node keeps its number between draws; numbers
        of dead ones are reused.
    levels : ndarray of int8, shape (S, T)
        Levels, 0 to L - 1, of the tokens of all documents in sequence, sorted by word in each.
    n_nodes : ndarray of int64, shape (S,)
        Nodes of the tree, the root among them. ``log_joint`` is log p(paths) + log p(levels) +
        log p(words | paths, levels).
    corpus : Corpus
    gamma : float
    eta, alpha : ndarray of float64, shape (L,)
    """

    _traced = ("n_nodes",)

    paths: NDArray[np.int32]
    levels: NDArray[np.int8]
    n_nodes: IntArray
    corpus: Corpus
    gamma: float
    eta: FloatArray
    alpha: FloatArray

    @checked
    def tree(
        self, draw: int | None = None, *, names: Sequence[Any] | None = None, n_words: int = 10
    ) -> dict[str, Any]:
        """Return the tree of a draw, by default the `best`, as nested dictionaries.

        ``id``, ``level`` (1 at the root), ``weight`` (documents through the node), ``words``
        (``n_words`` pairs of word and probability, likeliest first, for words that occur there),
        ``children`` (largest first). ``names`` are of the V words; default: their numbers.
        """
        state = self._state(self.best if draw is None else draw)
        names = None if names is None else as_list("names", names)
        if names is not None and len(names) != self.corpus.n_words:
            raise ConfigError(f"names: expected {self.corpus.n_words}, got {len(names)}")

        def node(k: int) -> dict[str, Any]:
            prob = self.eta[state.level[k]] + state.counts[:, k]
            prob /= prob.sum()
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

    def _state(self, draw: int) -> State:
        path, z = self.paths[draw].astype(np.int64), self.levels[draw].astype(np.int64)
        return State.of(self.corpus, path, z)


@checked
def sample_nested_topics(
    documents: Any,
    *,
    depth: int = 3,
    gamma: float = 1.0,
    eta: float | Sequence[float] = 0.3,
    alpha: Sequence[float] = (5.0, 2.0, 1.0),
    n_chains: int = 4,
    n_sweeps: int = 200,
    burn_in: int = 200,
    thin: int = 10,
    seed: int | None = 0,
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
        Concentration: how readily a document leaves existing branches.
    eta : float or tuple of L floats, default 0.3
        Prior weight of each word in a topic, or for each level; smaller means more, sharper topics.
    alpha : tuple of L floats, default (5.0, 2.0, 1.0)
        Prior weights of the levels in a document, the root first.
    n_chains, n_sweeps, burn_in, thin, seed, progress
        As for `sample_ddcrp`.

    Notes
    -----
    A sweep costs O(T K) for T tokens and K nodes, memory is V K numbers; a draw takes a byte per
    token. Equal seeds give equal bits.

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
    depth, gamma = whole("depth", depth, 2), positive("gamma", gamma)
    plan = Plan.checked(n_chains, n_sweeps, burn_in, thin)
    etas, weights = by_level("eta", eta, depth), by_level("alpha", alpha, depth)
    corpus = as_corpus(documents)
    if len(corpus.first) == 1:
        raise SchemaError("documents: there are none; give at least one row")
    prior = gamma, etas, etas * corpus.n_words
    drawn = plan.run(lambda rng: _Chain(corpus, prior, weights, rng), seed, progress=progress)
    joint, path, levels, n_nodes = map(np.array, drawn)
    return NestedTopicSamples(
        plan.chain, joint, path, levels, n_nodes, corpus, gamma, etas, weights
    )


class _Chain:
    """The state of the sampler; at first documents are assigned one by one."""

    def __init__(
        self, corpus: Corpus, prior: tuple[float, FloatArray, FloatArray], alpha: FloatArray,
        rng: np.random.Generator,
    ) -> None:  # fmt: skip
        self.prior, self.alpha, self.rng, depth = prior, alpha, rng, len(alpha)
        z = rng.choice(depth, len(corpus.words), p=alpha / alpha.sum())
        path = np.full((len(corpus.first) - 1, depth), -1)
        self.seats = Seats(corpus.words, corpus.first, z, path)
        self.state = State.root(corpus.n_words, 16 * depth)
        self.sweep(_FIRST)

    def sweep(self, rounds: int = 1) -> None:
        """Draw the path and the levels of every document ``rounds`` times."""
        d, n = 0, len(self.seats.path)
        while d < n:
            d = sweep(self.rng, d, rounds, self.seats, self.alpha, self.prior, self.state)
            if d < n:
                n_words, slots = self.state.counts.shape
                self.state = resized(self.state, {"V": n_words, "K": 2 * slots})

    def draw(self) -> tuple[Any, ...]:
        """Return log joint, paths, levels, and number of nodes."""
        joint = log_joint(self.seats, self.alpha, self.prior, self.state)
        n_nodes = int((self.state.level >= 0).sum())
        return joint, self.seats.path.astype(np.int32), self.seats.z.astype(np.int8), n_nodes
