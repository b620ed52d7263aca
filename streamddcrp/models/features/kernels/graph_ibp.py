"""A Gibbs sweep over the items of a decomposable graph."""

import math

import numpy as np

from streamddcrp.compilation import inner, kernel
from streamddcrp.likelihoods.kernels import linear_gaussian as gauss
from streamddcrp.particles.kernels.random import draw_log, uniform

MOST_OWN = 8  # features of a single item


@kernel
def sweep(X, Z, n_owners, graph, prior, noise, seed, number):
    """Resample the features of every item in order, ``Z`` (N, K); ``graph``: see `flat`.

    ``prior``: alpha, and alpha / K where all K columns are features, else 0. ``noise``: variance
    over that of loadings; shape, 0 if it is known, and rate.
    """
    N, D = X.shape
    K = Z.shape[1]
    ratio, shape, rate = noise
    alpha, each = prior
    cov, mean = np.zeros((K, K)), np.zeros((K, D))
    slots, on = np.zeros(K, np.int64), np.zeros(K, np.int64)
    v, e, odds = np.zeros(K), np.zeros(D), np.zeros(K)
    weight, seen, todo = np.zeros(MOST_OWN + 1), np.zeros(N, np.bool_), np.zeros(N, np.int64)
    n_slots = 0
    for k in range(K):
        if n_owners[k] > 0 or each > 0.0:
            gauss.begin_feature(cov, mean, slots, n_slots, k, ratio)
            slots[n_slots] = k
            n_slots += 1
    for i in range(N):
        n_on = _on(Z, i, slots, n_slots, on)
        s, square = gauss.add_row(cov, mean, slots, n_slots, on, n_on, X[i], v, e)
        if shape > 0.0:
            rate += square / (2.0 * s)
    full_shape = shape + 0.5 * N * D if shape > 0.0 else 0.0
    for i in range(N):
        n_on, n_own, n_slots = 0, 0, 0
        for k in range(K):
            if each == 0.0 and Z[i, k] and n_owners[k] == 1:
                n_own += 1
                Z[i, k] = False
                n_owners[k] = 0
            elif each > 0.0 or n_owners[k] > 0:
                slots[n_slots] = k
                n_slots += 1
                if Z[i, k]:
                    on[n_on] = k
                    n_on += 1
        spread = 1.0 + n_own / ratio
        s, square = gauss.remove_row(cov, mean, slots, n_slots, on, n_on, X[i], spread, v, e)
        left = full_shape
        if shape > 0.0:
            rate -= square / (2.0 * s)
            left -= 0.5 * D
        # one feature after another, with the item's own ones unchanged
        for a in range(n_slots):
            k = slots[a]
            odds[k] = _log_odds(Z, i, k, graph, each, seen, todo)
            if odds[k] == np.inf:
                continue
            if odds[k] == -np.inf:
                if Z[i, k]:
                    Z[i, k] = False
                    n_owners[k] -= 1
                continue
            gain = odds[k]
            for side in range(2):
                has = side == 1
                if Z[i, k] != has:
                    n_owners[k] += 1 if has else -1
                    Z[i, k] = has
                n_on = _on(Z, i, slots, n_slots, on)
                s, square = _fit(cov, mean, on, n_on, X[i], e)
                one = gauss.log_density(s + spread, square, D, left, rate)
                gain += one if has else -one
            u = uniform(seed, number, i, 0, k)
            if not u < 1.0 / (1.0 + math.exp(-max(min(gain, 700.0), -700.0))):
                Z[i, k] = False
                n_owners[k] -= 1
        n_on = _on(Z, i, slots, n_slots, on)
        s, square = _fit(cov, mean, on, n_on, X[i], e)
        own = alpha * _alone(i, graph)
        most = min(MOST_OWN, K - n_slots)
        for n in range(most + 1):
            prior = n * math.log(own) - math.lgamma(n + 1.0)
            weight[n] = prior + gauss.log_density(s + 1.0 + n / ratio, square, D, left, rate)
        n_new = draw_log(weight, most + 1, uniform(seed, number, i, 1, 0))
        for k in range(K):
            if n_new > 0 and n_owners[k] == 0:
                gauss.begin_feature(cov, mean, slots, n_slots, k, ratio)
                slots[n_slots] = k
                n_slots += 1
                Z[i, k] = True
                n_owners[k] = 1
                n_new -= 1
        n_on = _on(Z, i, slots, n_slots, on)
        s, square = gauss.add_row(cov, mean, slots, n_slots, on, n_on, X[i], v, e)
        if shape > 0.0:
            rate += square / (2.0 * s)


@inner
def _on(Z, i, slots, n_slots, on):
    n = 0
    for a in range(n_slots):
        if Z[i, slots[a]]:
            on[n] = slots[a]
            n += 1
    return n


@inner
def _fit(cov, mean, on, n_on, x, e):
    """Return z' cov z and ||x - z' mean||^2."""
    s, square = 0.0, 0.0
    for d in range(len(x)):
        e[d] = x[d]
    for a in range(n_on):
        for b in range(n_on):
            s += cov[on[a], on[b]]
        for d in range(len(x)):
            e[d] -= mean[on[a], d]
    for d in range(len(x)):
        square += e[d] * e[d]
    return s, square


@inner
def _alone(i, graph):
    """Return lambda, docs/math/graphs.md (10), of a feature that item i alone has."""
    value = 1.0
    for h in range(graph.holder_at[i], graph.holder_at[i + 1]):
        s = graph.holders[h]
        size = graph.set_at[s + 1] - graph.set_at[s]
        value *= 1.0 / size if graph.signs[s] > 0 else float(size)
    return value


@inner
def _log_odds(Z, i, k, graph, each, seen, todo):
    """Log prior odds that item i has feature k; inf if it must, -inf if it cannot."""
    near_at, near, set_at, touches = graph.near_at, graph.near, graph.set_at, False
    for j in range(near_at[i], near_at[i + 1]):
        touches |= Z[near[j], k]
    if each == 0.0 and not touches:
        return -np.inf
    if each == 0.0 and Z[i, k] and not _connected_without(Z, i, k, near_at, near, seen, todo):
        return np.inf
    value = 0.0
    for h in range(graph.holder_at[i], graph.holder_at[i + 1]):
        s = graph.holders[h]
        size = set_at[s + 1] - set_at[s]
        n = 0
        for m in range(set_at[s], set_at[s + 1]):
            if graph.sets[m] != i and Z[graph.sets[m], k]:
                n += 1
        owners = n + each if each > 0.0 else max(n, 1)
        value += graph.signs[s] * (math.log(owners) - math.log(size - n))
    return value


@inner
def _connected_without(Z, i, k, near_at, near, seen, todo):
    """Whether the owners of a feature except item i are connected."""
    n, start = 0, -1
    for j in range(len(Z)):
        seen[j] = False
        if j != i and Z[j, k]:
            n += 1
            start = j
    if n <= 1:
        return True
    todo[0], n_todo, reached = start, 1, 1
    seen[start] = True
    while n_todo > 0:
        n_todo -= 1
        at = todo[n_todo]
        for m in range(near_at[at], near_at[at + 1]):
            j = near[m]
            if j != i and Z[j, k] and not seen[j]:
                seen[j] = True
                reached += 1
                todo[n_todo] = j
                n_todo += 1
    return reached == n
