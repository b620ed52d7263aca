"""The Indian buffet process on a decomposable graph, by Poisson counts of histories.

Slow and obvious: a history is a set of owners; K_h ~ Poisson(alpha lambda_h), independently.
"""

import math
from itertools import combinations, combinations_with_replacement, product

import numpy as np


def cliques_and_separators(parents):
    """Families and their parents, as sets; equal ones cancel. Of a perfect ordering."""
    cliques = [frozenset([k, *pa]) for k, pa in enumerate(parents)]
    separators = [frozenset(pa) for pa in parents]
    for s in list(separators):
        if s in cliques:
            cliques.remove(s)
            separators.remove(s)
    return cliques, [s for s in separators if s]


def window(n, r):
    return [list(range(max(0, k - r), k)) for k in range(n)]


def connected(history, parents):
    items = set(history)
    reached, todo = set(), [min(items)]
    while todo:
        k = todo.pop()
        reached.add(k)
        near = {j for j in items if j in parents[k] or k in parents[j]}
        todo += list(near - reached)
    return reached == items


def intensity(history, parents):
    """lambda_h by products over the cliques and separators that it meets."""
    if not connected(history, parents):
        return 0.0
    cliques, separators = cliques_and_separators(parents)
    value = 1.0
    for sets, sign in ((cliques, 1), (separators, -1)):
        for s in sets:
            n = len(s & set(history))
            if n:
                term = math.factorial(n - 1) * math.factorial(len(s) - n) / math.factorial(len(s))
                value *= term**sign
    return value


def intensities(parents):
    n = len(parents)
    subsets = [h for m in range(1, n + 1) for h in combinations(range(n), m)]
    found = {h: intensity(h, parents) for h in subsets}
    return {h: value for h, value in found.items() if value > 0.0}


def evidence(X, parents, alpha, log_marginal, most):
    """Log evidence, sum over all multisets of at most ``most`` features, and the mean of Z Z'."""
    n = len(parents)
    found = intensities(parents)
    histories = list(found)
    total = sum(found.values())
    logs, grams = [], []
    for size in range(most + 1):
        for chosen in combinations_with_replacement(range(len(histories)), size):
            log_p = -alpha * total
            for j in set(chosen):
                m = chosen.count(j)
                log_p += m * math.log(alpha * found[histories[j]]) - math.lgamma(m + 1)
            Z = np.zeros((n, size))
            for a, j in enumerate(chosen):
                Z[list(histories[j]), a] = 1.0
            logs.append(log_p + log_marginal(Z, X))
            grams.append(Z @ Z.T)
    log_z = np.logaddexp.reduce(logs)
    weights = np.exp(np.array(logs) - log_z)
    return float(log_z), np.tensordot(weights, np.array(grams), axes=1)


def log_marginal(family, Z, X):
    """Log density of rows given features of ratios that are equally probable, each by itself."""
    logs = [
        family.log_density(Z, X, np.array(r)) for r in product(family.ratios, repeat=Z.shape[1])
    ]
    return float(np.logaddexp.reduce(logs) - Z.shape[1] * np.log(len(family.ratios)))
