"""Draws from the posterior of a tree of topics."""

from typing import Any

import numpy as np
from tqdm import tqdm

from streamddcrp.compilation import compiled
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.models.trees.gibbs_corpus import as_corpus
from streamddcrp.models.trees.gibbs_samples import NestedTopicSamples
from streamddcrp.models.trees.gibbs_state import State
from streamddcrp.models.trees.kernels.gibbs import log_joint, sweep
from streamddcrp.typing import ArrayLike, IntArray

_FIRST = 3  # visits to a document when it is seated for the first time


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
        paths of another fit. Default: documents are seated one after the other.
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
    a token. Equal seeds give equal bits.

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
    _check(depth, gamma, eta, alpha, n_sweeps, burn_in, thin)
    corpus = as_corpus(documents)
    N, T = len(corpus.first) - 1, len(corpus.words)
    if N == 0:
        message = "documents: there are none; give at least one row"
        raise SchemaError(message)
    rng = np.random.default_rng(seed)
    weights = np.array(alpha, np.float64)
    law = float(gamma), float(eta), float(eta) * corpus.n_words
    z = rng.choice(depth, T, p=weights / weights.sum())
    path = np.full((N, depth), -1)
    state = State.root(corpus.n_words, 16 * depth)
    if paths is not None:
        path[:] = _as_paths(paths, N, depth)
        state = State.of(corpus, path, z)

    def go(rounds: int) -> None:
        d = 0
        while d < N:
            d = sweep(
                rng, d, rounds, corpus.words, corpus.first, z, path, weights, law, *state.arrays
            )
            if d < N:
                state.grow()

    with compiled(sweep):
        go(_FIRST)
    S = n_sweeps // thin
    drawn, levels = np.empty((S, N, depth), np.int32), np.empty((S, T), np.int8)
    trace, n_nodes = np.empty(S), np.empty(S, np.int64)
    with tqdm(total=burn_in + S * thin, unit=" sweeps", disable=not progress) as bar:
        for n in range(-burn_in, S * thin):
            go(1)
            bar.update()
            if n < 0 or (n + 1) % thin:
                continue
            s = n // thin
            drawn[s], levels[s] = path, z
            trace[s] = log_joint(corpus.first, z, path, weights, law, *state.arrays)
            n_nodes[s] = (state.level >= 0).sum()
            bar.set_postfix(nodes=int(n_nodes[s]), refresh=False)
    return NestedTopicSamples(
        drawn, levels, trace, n_nodes, corpus, float(gamma), float(eta), weights
    )


def _as_paths(paths: ArrayLike, N: int, L: int) -> IntArray:
    """Return slots for the nodes of given paths."""
    nodes = np.asarray(paths)
    if nodes.shape != (N, L) or nodes.dtype.kind not in "iu":
        message = (
            f"paths: expected whole numbers of shape ({N}, {L}), one path a document; got shape "
            f"{nodes.shape} and type {nodes.dtype}"
        )
        raise SchemaError(message)
    out = np.zeros((N, L), np.int64)
    if len(np.unique(nodes[:, 0])) > 1:
        row = int(np.flatnonzero(nodes[:, 0] != nodes[0, 0])[0])
        message = f"paths, row {row}: begins at {nodes[row, 0]}, row 0 at {nodes[0, 0]}; one root"
        raise SchemaError(message, row=row)
    n = 1
    for l in range(1, L):  # a node is what lies at the end of a prefix
        prefix = np.stack([out[:, l - 1], nodes[:, l]], axis=1)
        _, number = np.unique(prefix, axis=0, return_inverse=True)
        out[:, l] = n + number.ravel()
        n = int(out.max()) + 1
    return out


def _check(
    depth: Any, gamma: Any, eta: Any, alpha: Any, n_sweeps: Any, burn_in: Any, thin: Any
) -> None:
    for name, value, least in (
        ("depth", depth, 2), ("n_sweeps", n_sweeps, 1), ("burn_in", burn_in, 0), ("thin", thin, 1)
    ):  # fmt: skip
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            message = f"{name} must be a whole number >= {least}, got {value!r}"
            raise ConfigError(message)
    for name, value in (("gamma", gamma), ("eta", eta)):
        if not 0.0 < value < np.inf:
            message = f"{name} must be a positive number, got {value!r}"
            raise ConfigError(message)
    if len(alpha) != depth or not all(0.0 < a < np.inf for a in alpha):
        message = f"alpha must be {depth} positive numbers, one for each level; got {alpha!r}"
        raise ConfigError(message)
    if thin > n_sweeps:
        message = f"thin is {thin}, more than n_sweeps, {n_sweeps}: no draw would be kept"
        raise ConfigError(message)
