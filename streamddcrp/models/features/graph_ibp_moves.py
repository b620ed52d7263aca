"""Metropolis moves of whole features: what single entries, one item at a time, seldom reach."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from streamddcrp.data.graphs import DecomposableGraph
from streamddcrp.models.features.graph_ibp_prior import intensity

Features = NDArray[np.bool_]

ROUNDS = 4  # of proposals in a sweep; one number for all states, or they would not be equally fair


def move_features(
    Z: Features,
    graph: DecomposableGraph,
    alpha: float,
    log_likelihood: Callable[[Features], float],
    rng: np.random.Generator,
    most: int,
) -> Features:
    """Propose to combine two features, and to merge two or split one; return the new Z.

    Owners are connected, so that a feature cannot fall into two or grow together item by item.

    Notes
    -----
    The target is the prior of labelled columns, ``prod_k alpha lambda(h_k) / K!``, times the
    likelihood.

    * Combine: the owners of feature a become those that have just one of a and c. It undoes itself.
    * Merge: one of the P pairs whose first ends before the second begins becomes one feature with n
      owners; split: one of the K' features is cut at one of its n - 1 places. The ratio of the
      proposals is ``P / (K' (n - 1))``; that of the K! cancels with the places a column may go.
    """
    log_p = log_likelihood(Z)
    for _ in range(ROUNDS):
        for propose in (_combine, _merge_or_split):
            proposed = propose(Z, graph, alpha, rng)
            if proposed is None or proposed[0].shape[1] > most:
                continue
            new, log_ratio = proposed
            log_new = log_likelihood(new)
            if math.log1p(-rng.random()) < log_new - log_p + log_ratio:
                Z, log_p = new, log_new
    return Z


Proposal = tuple[Features, float] | None  # with the log ratio of priors and of proposals


def _combine(
    Z: Features, graph: DecomposableGraph, alpha: float, rng: np.random.Generator
) -> Proposal:
    K = Z.shape[1]
    if K < 2:
        return None
    a, c = rng.choice(K, 2, replace=False)
    new = Z.copy()
    new[:, a] ^= Z[:, c]
    rate = _rate(new[:, a], graph, alpha)
    return (new, rate - _rate(Z[:, a], graph, alpha)) if rate > -math.inf else None


def _merge_or_split(
    Z: Features, graph: DecomposableGraph, alpha: float, rng: np.random.Generator
) -> Proposal:
    return (_merge if rng.random() < 0.5 else _split)(Z, graph, alpha, rng)


def _merge(
    Z: Features, graph: DecomposableGraph, alpha: float, rng: np.random.Generator
) -> Proposal:
    pairs = _pairs(Z)
    if not len(pairs):
        return None
    a, c = pairs[rng.integers(len(pairs))]
    new = Z.copy()
    new[:, a] |= Z[:, c]
    log_ratio = _rate(new[:, a], graph, alpha)
    if log_ratio == -math.inf:
        return None
    log_ratio -= _rate(Z[:, a], graph, alpha) + _rate(Z[:, c], graph, alpha)
    log_ratio += math.log(len(pairs))
    log_ratio -= math.log((Z.shape[1] - 1) * (int(new[:, a].sum()) - 1))
    return np.delete(new, c, axis=1), log_ratio


def _split(
    Z: Features, graph: DecomposableGraph, alpha: float, rng: np.random.Generator
) -> Proposal:
    K = Z.shape[1]
    if K == 0:
        return None
    k = rng.integers(K)
    owners = np.flatnonzero(Z[:, k])
    if len(owners) < 2:
        return None
    cut = owners[rng.integers(1, len(owners))]
    new = np.column_stack([Z, Z[:, k]])  # anywhere: the order of columns does not matter
    new[cut:, k], new[:cut, K] = False, False
    log_ratio = _rate(new[:, k], graph, alpha) + _rate(new[:, K], graph, alpha)
    if log_ratio == -math.inf:
        return None
    log_ratio += math.log(K * (len(owners) - 1)) - math.log(len(_pairs(new)))
    return new, log_ratio - _rate(Z[:, k], graph, alpha)


def _pairs(Z: Features) -> NDArray[np.int64]:
    """Pairs of features of which the first ends before the second begins."""
    first, last = Z.argmax(axis=0), len(Z) - 1 - Z[::-1].argmax(axis=0)
    return np.argwhere(last[:, None] < first[None])


def _rate(owners: NDArray[np.bool_], graph: DecomposableGraph, alpha: float) -> float:
    """Log of the expected number of features with these owners."""
    if not owners.any():
        return -math.inf
    rate = alpha * intensity(graph, np.flatnonzero(owners).tolist())
    return math.log(rate) if rate > 0.0 else -math.inf
