"""The law of features on a decomposable graph: Poisson numbers of each history."""

import math
from collections.abc import Iterable, Sequence

import numpy as np

from streamddcrp.data.graphs import DecomposableGraph
from streamddcrp.errors import ConfigError
from streamddcrp.typing import ArrayLike, IntArray


def total(graph: DecomposableGraph) -> float:
    """Return the sum of all intensities: the expected number of features over alpha."""
    return sum(1.0 / (1 + len(mine)) for mine in graph.parents)


def intensity(graph: DecomposableGraph, history: Iterable[int]) -> float:
    """Return the expected number of features with these owners, over alpha.

    Item after item in the perfect ordering: 1 / q for the first owner, m / q for one with m owners
    among its q - 1 parents, (q - m) / q for who is none; 0 where owners are not connected.

    Examples
    --------
    >>> from streamddcrp.data.graphs import from_parents
    >>> path = from_parents([[], [0], [1]])
    >>> intensity(path, [0, 1]), intensity(path, [0, 2]), total(path)
    (0.25, 0.0, 2.0)
    """
    owners, value, begun = set(history), 1.0, False
    if not owners:
        message = "a history needs at least one owner"
        raise ConfigError(message)
    for k in graph.order.tolist():
        q, m = 1 + len(graph.parents[k]), len(graph.parents[k] & owners)
        if k not in owners:
            value *= (q - m) / q
        elif m > 0:
            value *= m / q
        elif begun:
            return 0.0
        else:
            value, begun = value / q, True
    return value


def log_prior(graph: DecomposableGraph, Z: ArrayLike, alpha: float) -> float:
    """Log probability of a feature matrix (N, K) up to the order of its columns."""
    histories = [tuple(np.flatnonzero(z).tolist()) for z in np.asarray(Z).T if z.any()]
    log_p = -alpha * total(graph)
    for h in set(histories):
        m, rate = histories.count(h), alpha * intensity(graph, h)
        if rate == 0.0:
            return -math.inf
        log_p += m * math.log(rate) - math.lgamma(m + 1)
    return log_p


def flat(
    graph: DecomposableGraph,
) -> tuple[IntArray, IntArray, IntArray, IntArray, IntArray, IntArray, IntArray]:
    """Return signs of cliques (1) and separators (-1), members, sets of each item, neighbours."""
    sets = [sorted(one) for one in graph.cliques + graph.separators]
    signs = [1] * len(graph.cliques) + [-1] * len(graph.separators)
    holders: list[list[int]] = [[] for _ in graph.parents]
    near: list[list[int]] = [[] for _ in graph.parents]
    for s, items in enumerate(sets):
        for k in items:
            holders[k].append(s)
    for k, mine in enumerate(graph.parents):
        near[k] += sorted(mine)
        for j in mine:
            near[j].append(k)
    return np.array(signs), *_flat(sets), *_flat(holders), *_flat(near)


def _flat(lists: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int64)
    return offsets, np.array([k for one in lists for k in one], dtype=np.int64)
