"""Compiled parts of the local step of component trees.

The covariance of the loadings on a path P is Sig = (I + tau G_PP)^-1. Its Cholesky factor R R' =
Sig^-1 grows by a row from parent to child, and with it z = R^-1 h, h the pulls of the nodes on a
point: so h' Sig h = z'z and log det Sig cost a row a node, whatever the number of points.
"""

import math

import numpy as np

from streamddcrp.compilation import kernel


@kernel
def factors(G, tau, paths, level, rows, log_det):
    """Fill the rows (K, L) of the factors R of all paths, and log det Sig (K,) of every endpoint.

    ``G`` (K + 1, K + 1): M M' + D S, the mean first; ``paths`` (K, L) as of `paths_of`.
    """
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
        rest = max(rest, 1.0)  # what I adds: less is rounding
        rows[k, at] = math.sqrt(rest)
        log_det[k] = -math.log(rest) + (log_det[paths[k, at - 1]] if at else 0.0)


@kernel
def place(pull, paths, level, rows, chances, base, never, q, log_z):
    """Place points on the tree; ``pull`` (K, N), tau ((t - m_mu) . m_i - D S_i,mu), becomes z.

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
def collect(z, paths, level, rows, q, least, loadings, yy):
    """Add expected loadings (K, N), and sums of products to ``yy`` (K + 1, K + 1).

    Endpoints of probability ``least`` or less are left out.
    """
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
