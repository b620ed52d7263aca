"""Compiled sums over the paths of an infinite tree, of which a finite part is stored.

Nodes occupy slots. A parent precedes its children, and siblings are in the order of their sticks,
so one upward and one downward pass over the slots visit everything without recursion. Slot 0 is the
root. An *endpoint* is a node that represents all paths with it as deepest stored node: a leaf
represents itself, an inner node the paths that leave the stored tree below it.

For component trees the covariance of the loadings on a path P is Sig = (I + tau G_PP)^-1. Its
Cholesky factor R R' = Sig^-1 grows by a row from parent to child, and with it z = R^-1 h, h the
pulls of the nodes on a point: h' Sig h = z'z and log det Sig cost one row per node, however many
points there are. Equations: docs/math/trees.md.
"""

import math

import numpy as np

from streamddcrp.compilation import inner, kernel
from streamddcrp.numerics import digamma


@kernel
def fresh_level(gamma):
    """Log of the sum of exp E log p over the children of a childless node: docs/math/trees.md (2).

    log R = E log v - log(1 - exp E log(1 - v)) under Beta(1, gamma); R < 1.
    """
    return digamma(1.0) - digamma(1.0 + gamma) - math.log(-math.expm1(-1.0 / gamma))


@kernel
def subtree_sums(parent, K, own, out):
    """Sum ``own`` (K,) over each node and its descendants."""
    for i in range(K):
        out[i] = own[i]
    for i in range(K - 1, 0, -1):
        out[parent[i]] += out[i]


@kernel
def beta_parameters(parent, K, mass, gamma, size, a, b):
    """Parameters of q(v) = Beta(a, b) from the endpoint masses (K,): docs/math/trees.md (4)."""
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
    """Log prior of every endpoint, (K,), docs/math/trees.md (3): from E[v], or from E log v."""
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
    """Turn log scores into probabilities, zeros if all are -inf; return the log of their sum."""
    top = -np.inf
    for i in range(n):
        top = max(top, scores[i])
    if top == -np.inf:
        out[:n] = 0.0
        return top
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
def stick_bound(parent, level, L, mass, gamma):
    """All terms of the sticks at the optimum of q(v): docs/math/trees.md (5)."""
    K = len(parent)
    size, a, b = np.empty(K), np.empty(K), np.empty(K)
    beta_parameters(parent, K, mass, gamma, size, a, b)
    fresh = fresh_level(gamma)
    total = 0.0
    for i in range(K):
        if i:
            total += _log_beta(a[i], b[i]) + math.log(gamma)
        if level[i] < L:
            total += mass[i] * (L - level[i]) * fresh
    return total


@kernel
def factors(G, tau, paths, level, rows, log_det):
    """Fill the factors R (K, L) of all paths, and log det Sig (K,): docs/math/trees.md (9)."""
    for k in range(len(level)):
        at = level[k] - 1
        rest = 1.0 + tau * G[k + 1, k + 1]
        for j in range(at):
            above = paths[k, j]
            entry = tau * G[k + 1, above + 1]
            for m in range(j):
                entry -= rows[k, m] * rows[above, m]
            rows[k, j] = entry / rows[above, j]
            rest -= rows[k, j] ** 2
        rest = max(rest, 1.0)  # the identity adds 1: less is rounding
        rows[k, at] = math.sqrt(rest)
        log_det[k] = -math.log(rest) + (log_det[paths[k, at - 1]] if at else 0.0)


@kernel
def place_points(pull, paths, level, rows, chances, base, never, q, log_z):
    """Place points, docs/math/trees.md (10); ``pull``, h of (9), becomes z.

    log S of an endpoint is its ``chances`` (K,) + the point's ``base`` (N,) + h' Sig h / 2; fills
    its probabilities ``q`` (K, N), 0 where their log is below ``never``, and ``log_z`` (N,).
    """
    K, N = pull.shape
    for k in range(K):
        at = level[k] - 1
        for j in range(at):
            above, entry = paths[k, j], rows[k, j]
            for n in range(N):
                pull[k, n] -= entry * pull[above, n]
        scale = 1.0 / rows[k, at]
        for n in range(N):
            pull[k, n] *= scale
            q[k, n] = 0.5 * pull[k, n] ** 2
        if at:
            above = paths[k, at - 1]
            for n in range(N):
                q[k, n] += q[above, n]
    top = np.full(N, -np.inf)
    for k in range(K):
        for n in range(N):
            q[k, n] += chances[k]
            top[n] = max(top[n], q[k, n])
    total = np.zeros(N)
    for k in range(K):
        for n in range(N):
            less = q[k, n] - top[n]
            q[k, n] = math.exp(less) if less > never else 0.0
            total[n] += q[k, n]
    for n in range(N):
        log_z[n] = base[n] + top[n] + math.log(total[n])
        total[n] = 1.0 / total[n]
    for k in range(K):
        for n in range(N):
            q[k, n] *= total[n]


@kernel
def collect_loadings(z, paths, level, rows, q, least, loadings, yy):
    """Add loadings (K, N), and products to ``yy``, above ``least``: docs/math/trees.md (11)."""
    K, N = z.shape
    x = np.empty(paths.shape[1])
    inverse = np.empty((paths.shape[1], paths.shape[1]))  # of R, so that Sig = inverse' inverse
    first, second = np.empty(len(x)), np.empty((len(x), len(x)))  # moments of an endpoint
    for k in range(K):
        depth, whole = level[k], 0.0
        first[:], second[:] = 0.0, 0.0
        for n in range(N):
            share = q[k, n]
            if share <= least:
                continue
            whole += share
            for i in range(depth - 1, -1, -1):
                x[i] = z[paths[k, i], n]
                for m in range(i + 1, depth):
                    x[i] -= rows[paths[k, m], i] * x[m]
                x[i] /= rows[paths[k, i], i]
            for i in range(depth):
                part = share * x[i]
                loadings[paths[k, i], n] += part
                first[i] += part
                for j in range(i + 1):
                    second[i, j] += part * x[j]
        for i in range(depth):
            row = paths[k, i]
            inverse[i, i] = 1.0 / rows[row, i]
            for j in range(i):
                inverse[i, j] = 0.0
                for m in range(j, i):
                    inverse[i, j] -= rows[row, m] * inverse[m, j]
                inverse[i, j] *= inverse[i, i]
        for i in range(depth):
            yy[0, paths[k, i] + 1] += first[i]
            for j in range(i + 1):
                entry = 0.0
                for m in range(i, depth):
                    entry += inverse[m, i] * inverse[m, j]
                entry = second[i, j] + whole * entry
                yy[paths[k, i] + 1, paths[k, j] + 1] += entry
                if j < i:
                    yy[paths[k, j] + 1, paths[k, i] + 1] += entry
