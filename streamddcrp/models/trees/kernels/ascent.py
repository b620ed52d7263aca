"""Compiled local steps of coordinate ascent, with expected log parameters of topics and sticks."""

import math

import numpy as np

from streamddcrp.compilation import inner, kernel
from streamddcrp.models.trees.kernels.tree import endpoint_scores, softmax, subtree_sums
from streamddcrp.numerics import digamma

_FLOOR = 1e-300


@inner
def _log_beta(x):
    total, out = 0.0, 0.0
    for l in range(len(x)):
        total += x[l]
        out += math.lgamma(x[l])
    return out - math.lgamma(total)


@inner
def _settle(n, score, alpha, rounds, tol, phi, r):
    """Fit levels to a path, ``score`` (U, L) the expected log words; return the bound.

    r = alpha + n phi;  log phi = psi(r) + score + const.
    """
    U, L = score.shape
    N, whole = 0.0, 0.0
    for u in range(U):
        N += n[u]
    for l in range(L):
        whole += alpha[l]
    for l in range(L):
        r[l] = alpha[l] + N * alpha[l] / whole
    part, new = np.empty(L), np.empty(L)
    for _ in range(rounds):
        for l in range(L):
            part[l] = digamma(r[l])
            new[l] = alpha[l]
        for u in range(U):
            top, norm = -np.inf, 0.0
            for l in range(L):
                top = max(top, part[l] + score[u, l])
            for l in range(L):
                phi[u, l] = math.exp(part[l] + score[u, l] - top)
                norm += phi[u, l]
            for l in range(L):
                phi[u, l] /= norm
                new[l] += n[u] * phi[u, l]
        moved = 0.0
        for l in range(L):
            moved += abs(new[l] - r[l])
            r[l] = new[l]
        if moved < tol * N:
            break
    out = _log_beta(r) - _log_beta(alpha)
    for u in range(U):
        for l in range(L):
            if phi[u, l] > 0.0:
                out += n[u] * phi[u, l] * (score[u, l] - math.log(max(phi[u, l], _FLOOR)))
    return out


@kernel
def path_step(
    offsets, words, n, parent, level, L, prior, elog, fresh, alpha, rounds, tol, q, counts,
):  # fmt: skip
    """Place documents with levels conditional on the path; return the sum of log Z.

    Parameters
    ----------
    prior : ndarray, shape (K,)
        Expected log prior of the endpoints.
    elog : ndarray, shape (V, K)
        Expected log probability of words in topics; ``fresh`` (L,) in a topic that is not kept.
    q : ndarray, shape (N, K)
        Gets the endpoint probabilities.
    counts : ndarray, shape (V, K)
        Expected words of the nodes are added.
    """
    K, total = len(parent), 0.0
    longest = 0
    for d in range(len(offsets) - 1):
        longest = max(longest, offsets[d + 1] - offsets[d])
    score, r = np.empty((longest, L)), np.empty(L)
    phi, log_s = np.empty((K, longest, L)), np.empty(K)
    for d in range(len(offsets) - 1):
        at, U = offsets[d], offsets[d + 1] - offsets[d]
        for k in range(K):
            for l in range(level[k], L):
                for u in range(U):
                    score[u, l] = fresh[l]
            i = k
            while i >= 0:
                for u in range(U):
                    score[u, level[i] - 1] = elog[words[at + u], i]
                i = parent[i]
            log_s[k] = prior[k] + _settle(
                n[at : at + U], score[:U], alpha, rounds, tol, phi[k, :U], r
            )
        total += softmax(log_s, K, q[d])
        for k in range(K):
            i = k
            while i >= 0:
                for u in range(U):
                    counts[words[at + u], i] += q[d, k] * n[at + u] * phi[k, u, level[i] - 1]
                i = parent[i]
    return total


@kernel
def factorised_step(
    offsets, words, n, parent, level, L, prior, elog, fresh, alpha, rounds, tol, q, counts,
):  # fmt: skip
    """Place documents with path and levels independent, as in the paper; return their bound.

    As `path_step`. In turns: r = alpha + n phi; log S from sum_u n_u phi_ul E log beta;
    log phi_ul = psi(r_l) - psi(sum r) + sum_i Q_i E log beta_iu + (1 - sum Q) fresh_l.
    """
    K, bound = len(parent), 0.0
    node, out_of_tree, log_s, Q = np.empty(K), np.empty(L), np.empty(K), np.empty(K)
    r, mass, entry = np.empty(L), np.empty(L), np.empty(L)
    base = _log_beta(alpha)
    for d in range(len(offsets) - 1):
        at, U = offsets[d], offsets[d + 1] - offsets[d]
        phi = np.full((U, L), 1.0 / L)
        before = -np.inf
        now = 0.0
        for _ in range(rounds):
            total_r = 0.0
            for l in range(L):
                r[l], out_of_tree[l] = alpha[l], 0.0
                for u in range(U):
                    r[l] += n[at + u] * phi[u, l]
                    out_of_tree[l] += n[at + u] * phi[u, l] * fresh[l]
                total_r += r[l]
            for i in range(K):
                node[i] = 0.0
                for u in range(U):
                    node[i] += n[at + u] * phi[u, level[i] - 1] * elog[words[at + u], i]
            endpoint_scores(parent, level, K, L, prior, node, out_of_tree, log_s)
            now = softmax(log_s, K, q[d])
            subtree_sums(parent, K, q[d], Q)
            # KL(Dir(r) || Dir(alpha)) and the words' terms at the phi that q was found with
            now += _log_beta(r) - base
            shift = digamma(total_r)
            for l in range(L):
                elt = digamma(r[l]) - shift
                mass[l] = 0.0
                now += (alpha[l] - r[l]) * elt
                for u in range(U):
                    if phi[u, l] > 0.0:
                        now += n[at + u] * phi[u, l] * (elt - math.log(max(phi[u, l], _FLOOR)))
            if now - before < tol * abs(now):
                break
            before = now
            for i in range(K):
                mass[level[i] - 1] += Q[i]
            for u in range(U):
                top, norm = -np.inf, 0.0
                for l in range(L):
                    entry[l] = digamma(r[l]) - shift + (1.0 - mass[l]) * fresh[l]
                for i in range(K):
                    entry[level[i] - 1] += Q[i] * elog[words[at + u], i]
                for l in range(L):
                    top = max(top, entry[l])
                for l in range(L):
                    phi[u, l] = math.exp(entry[l] - top)
                    norm += phi[u, l]
                for l in range(L):
                    phi[u, l] /= norm
        bound += now
        for i in range(K):
            for u in range(U):
                counts[words[at + u], i] += Q[i] * n[at + u] * phi[u, level[i] - 1]
    return bound
