"""What draws of a tree of topics are compared by: held-out words, and a fit that begins there."""

from typing import Any

import numpy as np
from scipy import sparse

from research.kernels.completion import complete as add_completions
from streamddcrp import NestedCRPTopics
from streamddcrp.arguments import generator
from streamddcrp.data.documents import Bags, read_bags, sparse_rows
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.models.trees.batch import NestedTopicsFit, climb
from streamddcrp.models.trees.gibbs import NestedTopicSamples, as_corpus
from streamddcrp.models.trees.kernels.gain import local_bound
from streamddcrp.models.trees.kernels.topics import N_NODES, N_SEEN, N_WORDS, NEXT_ID, put_back
from streamddcrp.models.trees.topic_tree import TopicTree
from streamddcrp.typing import FloatArray, IntArray


def complete(
    draws: NestedTopicSamples, observed: Any, held_out: Any, *, last: int = 5, burn_in: int = 10,
    n_draws: int = 20, seed: int | None = None,
) -> FloatArray:  # fmt: skip
    """Sum log p(word | observed words) over the held-out tokens of M new documents, (M,), in nats.

    Averaged over the ``last`` draws of the tree of every chain; for each, over ``n_draws`` rounds
    of a document's path and levels after ``burn_in`` of them.
    """
    seen = as_corpus(observed, draws.corpus.n_words)
    held = as_corpus(held_out, draws.corpus.n_words)
    if len(seen.first) != len(held.first):
        raise ConfigError(
            f"observed has {len(seen.first) - 1} rows, held_out {len(held.first) - 1}"
        )
    rng, prob = generator(seed), np.zeros(len(held.words))
    prior = draws.gamma, draws.eta, draws.eta * draws.corpus.n_words
    some = np.arange(len(draws)).reshape(draws.n_chains, -1)[:, -last:].ravel().tolist()
    for s in some:
        add_completions(
            rng, burn_in, n_draws, seen.words, seen.first, held.words, held.first, prob,
            draws.alpha, prior, *draws._state(s),
        )  # fmt: skip
    each = np.concatenate([np.zeros(1), np.cumsum(np.log(prob / (len(some) * n_draws)))])
    return np.asarray(each[held.first[1:]] - each[held.first[:-1]])


def fit_from(
    draws: NestedTopicSamples, counts: Any, *, max_sweeps: int = 20, tol: float = 1e-4,
    **options: Any,
) -> NestedTopicsFit:  # fmt: skip
    """Fit a tree as `fit_nested_topics` does, but from the paths and levels of the best draw.

    "Var. inference (G)" of Wang and Blei (2009). ``counts`` (N, V): those that were sampled.
    """
    counts, draw, corpus = sparse_rows(counts), draws.best, draws.corpus
    given = as_corpus(counts)
    same = all(np.array_equal(*pair) for pair in zip(given[:2], corpus[:2], strict=True))
    if given.n_words != corpus.n_words or not same:
        raise SchemaError("these draws are not of these documents; give the matrix of their counts")
    N, depth = draws.paths.shape[1:]
    model = NestedCRPTopics(**{"depth": depth, **options, "window": N})
    if model.depth != depth:
        raise ConfigError(f"the draws have {depth} levels, depth is {model.depth}")
    doc, z = np.repeat(np.arange(N), np.diff(corpus.first)), draws.levels[draw]
    levels = [
        sparse.csr_array(
            (np.ones(int((z == l).sum())), (doc[z == l], corpus.words[z == l])),
            shape=(N, corpus.n_words),
        )
        for l in range(depth)
    ]
    plant(model, counts, draws.paths[draw].astype(np.int64), levels)
    return climb(model, np.arange(N), max_sweeps, tol)


def plant(model: NestedCRPTopics, counts: Any, paths: IntArray, levels: Any) -> None:
    """Start a model from documents that are placed already; nothing may have been learned.

    ``counts`` (N, V); ``paths`` (N, depth): nodes by any numbers, root first; ``levels``: of each
    level the counts of the words there, sparse (N, V).
    """
    bags = model._encode(read_bags(counts), learn=True)
    rows = np.repeat(np.arange(len(paths)), np.diff(bags.offsets))
    columns = np.array(model._vocabulary.words, np.int64)[bags.words]
    phi = np.stack([np.asarray(at[rows, columns]).ravel() for at in levels], axis=1)
    _plant(model._tree, bags, _slots_of(paths), phi / bags.counts[:, None])


def _slots_of(nodes: IntArray) -> IntArray:
    """Return slots for the nodes of paths (N, L), the root in 0, parents before children."""
    out, n = np.zeros(nodes.shape, np.int64), 1
    for l in range(1, nodes.shape[1]):  # a node is what lies at the end of a prefix
        prefix = np.stack([out[:, l - 1], nodes[:, l]], axis=1)
        _, number = np.unique(prefix, axis=0, return_inverse=True)
        out[:, l] = n + number.ravel()
        n = int(out.max()) + 1
    return out


def _plant(tree: TopicTree, bags: Bags, slots: IntArray, phi: FloatArray) -> None:
    """Learn documents where they are said to belong; the tree must be a root.

    ``slots`` (N, L): of the nodes on their paths, as of `_slots_of`; ``phi`` (words, L): levels
    of ``bags.words``.
    """
    (N, L), K = slots.shape, int(slots.max()) + 1
    while K > len(tree.parent) < tree.settings.max_nodes:
        tree.make_nodes()
    if len(tree.parent) < K:
        raise ConfigError(f"the tree to start from has {K} nodes, max_nodes is {len(tree.parent)}")
    for l in range(1, L):
        tree.parent[slots[:, l]], tree.level[slots[:, l]] = slots[:, l - 1], l + 1
    tree.ids[:K] = np.arange(K)
    V = int(bags.words.max(initial=-1)) + 1
    tree.make_words(max(V, len(tree.counts)))
    tree.whole[[N_NODES, NEXT_ID, N_WORDS, N_SEEN]] = K, K, V, N
    w = tree.window
    w.append(bags, np.zeros(N, np.int64), N)
    w.docs.weights[:N] = 1.0
    own, alpha = np.zeros(N), tree.settings.alpha
    for d in range(N):
        spots = slice(bags.offsets[d], bags.offsets[d + 1])
        n = bags.counts[spots]
        own[d] = local_bound(n, phi[spots], alpha, n @ phi[spots], L, tree.settings.eta, V)
    ends = np.where(np.diff(bags.offsets) > 0, slots[:, -1], -1)
    put_back(np.arange(N), ends, own, phi, tree.arrays, w.docs)
    tree.note_births(1)
    tree.next_tidy = N + tree.settings.window
