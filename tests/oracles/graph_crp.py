"""Partitions of small graphs, enumerated: the Markov combination written down as it stands."""

import math
from itertools import combinations

import numpy as np


def window(n, r):
    return [list(range(max(k - r, 0), k)) for k in range(n)]


KITE = [[], [0], [0, 1], [1, 2], [1, 2], [3]]
GRAPHS = {
    "one item": [[]],
    "no edge": [[], [], []],
    "pair": [[], [0]],
    "path of 3": window(3, 1),
    "path of 5": window(5, 1),
    "window 2": window(6, 2),
    "window 3": window(6, 3),
    "complete": window(5, 5),
    "star": [[], [0], [0], [0], [0]],
    "tree": [[], [0], [0], [1], [1], [2]],
    "two parts": [[], [0], [0, 1], [], [3], [3, 4]],
    "diamond": [[], [0], [0, 1], [0, 1]],
    "kite": KITE,
    "book": [[], [0], [0, 1], [0, 1], [0, 1], [0, 1]],
}


def partitions(n):
    """Yield every partition of n items as labels, named in the order of their first items."""

    def grow(labels, k):
        if len(labels) == n:
            yield tuple(labels)
            return
        for j in range(k + 1):
            yield from grow([*labels, j], max(k, j + 1))

    yield from grow([], 0)


def edges(parents):
    return {frozenset((j, k)) for k, mine in enumerate(parents) for j in mine}


def is_connected(some, near):
    some = set(some)
    if not some:
        return True
    found, rest = {min(some)}, [min(some)]
    while rest:
        i = rest.pop()
        for j in some - found:
            if frozenset((i, j)) in near:
                found.add(j)
                rest.append(j)
    return found == some


def maximal_cliques(parents):
    """By brute force over all sets."""
    n, near = len(parents), edges(parents)
    sets = [
        frozenset(some)
        for size in range(1, n + 1)
        for some in combinations(range(n), size)
        if all(frozenset(pair) in near for pair in combinations(some, 2))
    ]
    return {c for c in sets if not any(c < other for other in sets)}


def log_crp(labels, some, alpha):
    """Log of prod_j Gamma(n_j) / (alpha)_n over a set of items."""
    counts = np.unique([labels[i] for i in some], return_counts=True)[1] if some else []
    rising = math.lgamma(alpha + len(some)) - math.lgamma(alpha)
    return sum(math.lgamma(c) for c in counts) - rising


def log_prior(labels, parents, cliques, separators, alpha):
    """Caron and Doucet 2009, eq. 7."""
    near = edges(parents)
    for j in set(labels):
        if not is_connected([i for i, label in enumerate(labels) if label == j], near):
            return -math.inf
    total = len(set(labels)) * math.log(alpha)
    total += sum(log_crp(labels, c, alpha) for c in cliques)
    return total - sum(log_crp(labels, s, alpha) for s in separators)


def log_partition(labels, some, alpha, discount=0.0, n_clusters=None):
    """Log probability of the partition of a set of items, of Pitman-Yor or, eq. 3, of Dirichlet."""
    counts = np.unique([labels[i] for i in some], return_counts=True)[1].tolist() if some else []
    n, k = len(some), len(counts)
    if n_clusters is not None:
        if k > n_clusters:
            return -math.inf
        share = alpha / n_clusters
        total = math.lgamma(n_clusters + 1) - math.lgamma(n_clusters - k + 1)
        total += math.lgamma(alpha) - math.lgamma(alpha + n)
        return total + sum(math.lgamma(c + share) - math.lgamma(share) for c in counts)
    total = sum(math.log(alpha + j * discount) for j in range(k))
    total -= sum(math.log(alpha + i) for i in range(n))
    return total + sum(math.log(i - discount) for c in counts for i in range(1, c))


def log_combination(labels, parents, cliques, separators, alpha, **law):
    """Markov combination of the partitions of cliques: as eq. 7, of any exchangeable partition."""
    near = edges(parents)
    for j in set(labels):
        if not is_connected([i for i, label in enumerate(labels) if label == j], near):
            return -math.inf
    total = sum(log_partition(labels, c, alpha, **law) for c in cliques)
    if total == -math.inf:
        return total
    return total - sum(log_partition(labels, s, alpha, **law) for s in separators)


def log_labels(labels, some, alpha, n_clusters):
    """Log probability of the labels of a set of items, of `n_clusters` (eq. 2)."""
    counts = [sum(labels[i] == j for i in some) for j in set(labels)]
    share, n = alpha / n_clusters, len(some)
    total = math.lgamma(alpha) - math.lgamma(alpha + n)
    return total + sum(math.lgamma(c + share) - math.lgamma(share) for c in counts)


def log_whole(labels, parents, cliques, separators, alpha, n_clusters):
    """Caron and Doucet 2009, eq. 6: the labels are of the whole graph; any partition may be."""
    k = len(set(labels))
    if k > n_clusters:
        return -math.inf
    total = math.lgamma(n_clusters + 1) - math.lgamma(n_clusters - k + 1)
    total += sum(log_labels(labels, c, alpha, n_clusters) for c in cliques)
    return total - sum(log_labels(labels, s, alpha, n_clusters) for s in separators)


def posterior(X, parents, cliques, separators, alpha, likelihood, **law):
    """All partitions with their probabilities, and the log evidence."""
    rows = likelihood.suffstats(X)
    found, log_p = [], []
    prior = log_combination if law else log_prior
    if law.pop("whole_graph", False):
        prior = log_whole
    for labels in partitions(len(parents)):
        value = prior(labels, parents, cliques, separators, alpha, **law)
        if value == -math.inf:
            continue
        stats = [rows[np.array(labels) == j].sum(axis=0) for j in sorted(set(labels))]
        found.append(labels)
        log_p.append(value + likelihood.log_marginal(stats).sum())
    log_p = np.array(log_p)
    log_z = np.logaddexp.reduce(log_p)
    return found, np.exp(log_p - log_z), float(log_z)
