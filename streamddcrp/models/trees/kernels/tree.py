"""Compiled sums over the paths of an infinite tree, of which a finite part is kept.

Nodes stand in slots. A parent comes before its children, and the order of siblings is the order of
their sticks; so one pass upwards in the slots and one downwards see everything (no recursion).
Slot 0 is the root. An *endpoint* is a node taken for all paths whose deepest kept node it is: a
leaf for itself, an inner node for the paths that leave the kept tree below it.
"""

import math

import numpy as np

from streamddcrp.compilation import inner, kernel
from streamddcrp.numerics import digamma


@kernel
def fresh_level(gamma):
    """Log of the sum of exp E log p over the infinitely many children of a node that has none kept.

    log R = E log v - log(1 - exp E log(1 - v)) under Beta(1, gamma); R < 1.
    """
    return digamma(1.0) - digamma(1.0 + gamma) - math.log(-math.expm1(-1.0 / gamma))


@kernel
def subtree_sums(parent, K, own, out):
    """Sum ``own`` (K,) over each node and all below it."""
    for i in range(K):
        out[i] = own[i]
    for i in range(K - 1, 0, -1):
        out[parent[i]] += out[i]


@kernel
def beta_parameters(parent, K, mass, gamma, size, a, b):
    """Parameters of q(v) = Beta(a, b) from the endpoint masses (K,); ``size`` gets subtree sums.

    a_i = 1 + N_i;  b_i = gamma + N of the younger siblings + the mass that leaves below the parent.
    """
    subtree_sums(parent, K, mass, size)
    for i in range(K):
        b[i] = gamma + mass[i]  # at first: what the next older child of i has behind it
    for i in range(K - 1, 0, -1):
        a[i] = 1.0 + size[i]
        b[i] = b[parent[i]]
        b[parent[i]] += size[i]
    a[0], b[0] = 1.0, gamma


@kernel
def log_path_chances(parent, level, K, L, a, b, gamma, lookahead, out):
    """Log prior of every endpoint, (K,): from E[v] (they sum to 1) or from E log v (to less).

    leaf: sum over its steps of log v_i + sum over older siblings of log(1 - v_j); an inner
    endpoint adds log(1 - v_j) of all its children, and log R a fresh level (0 with E[v]).
    """
    fresh = 0.0 if lookahead else fresh_level(gamma)
    behind = np.zeros(K)  # sum of log(1 - v) of the children met so far
    out[0] = 0.0
    for i in range(1, K):
        p = parent[i]
        if lookahead:
            total = math.log(a[i] + b[i])
            stay, leave = math.log(a[i]) - total, math.log(b[i]) - total
        else:
            total = digamma(a[i] + b[i])
            stay, leave = digamma(a[i]) - total, digamma(b[i]) - total
        out[i] = out[p] + stay + behind[p]
        behind[p] += leave
    for i in range(K):
        if level[i] < L:
            out[i] += behind[i] + (L - level[i]) * fresh


@kernel
def softmax(scores, n, out):
    """Turn log scores into probabilities; return the log of their sum."""
    top = -np.inf
    for i in range(n):
        top = max(top, scores[i])
    total = 0.0
    for i in range(n):
        out[i] = math.exp(scores[i] - top)
        total += out[i]
    for i in range(n):
        out[i] /= total
    return top + math.log(total)


@inner
def _log_beta(a, b):
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


@kernel
def stick_bound(parent, level, K, L, mass, gamma, size, a, b):
    """All terms of the sticks at the optimum of q(v), and the fresh levels of inner endpoints.

    sum_i lnB(a_i, b_i) - lnB(1, gamma) + sum_p m_p (L - level p) log R; fills ``size, a, b``.
    """
    beta_parameters(parent, K, mass, gamma, size, a, b)
    fresh = fresh_level(gamma)
    total = 0.0
    for i in range(K):
        if i:
            total += _log_beta(a[i], b[i]) + math.log(gamma)
        if level[i] < L:
            total += mass[i] * (L - level[i]) * fresh
    return total
