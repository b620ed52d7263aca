"""Compiled gains of the bound, for documents on a path's topics, topics, pairs of topics."""

import math

import numpy as np

from streamddcrp.compilation import inner, kernel
from streamddcrp.numerics import digamma, exp_all

TINY = 1e-12


@inner
def _series(r):
    return 1.0 + r * (
        1.0 / 24.0
        - r * (37.0 / 5760.0 - r * (10313.0 / 2903040.0 - r * (5509121.0 / 1393459200.0)))
    )


@inner
def exp_digamma(x):
    """exp(psi(x)) for x > 0, to 1e-8: the asymptotic series, four steps of recurrence before it."""
    t, y = x * (x + 3.0), x + 3.5
    P = t * (t + 2.0)
    one = 1.0 / (P * y * y)
    return y * _series(one * P) * math.exp(-(2.0 * x + 3.0) * (2.0 * t + 2.0) * one * y * y)


@inner
def log_gamma_rise(x, d):
    """Log Gamma(x + d) - log Gamma(x) for x > 0, d >= 0, to 1e-10."""
    if d < TINY:
        return 0.0
    y = x + d
    late = 0.0
    if x < 6.0:
        t, s = x * (x + 5.0), y * (y + 5.0)  # x (x + 1) .. (x + 5) = t (t + 4) (t + 6)
        late = math.log(t * (t + 4.0) * (t + 6.0) / (s * (s + 4.0) * (s + 6.0)))
        x += 6.0
        y += 6.0
    r, s = 1.0 / x, 1.0 / y
    r2, s2 = r * r, s * s
    tails = s * (1.0 / 12.0 - s2 * (1.0 / 360.0 - s2 * (1.0 / 1260.0 - s2 / 1680.0)))
    tails -= r * (1.0 / 12.0 - r2 * (1.0 / 360.0 - r2 * (1.0 / 1260.0 - r2 / 1680.0)))
    return (x - 0.5) * math.log1p(d * r) + d * (math.log(y) - 1.0) + tails + late


@inner
def log_beta_gain(alpha, more):
    """Log B(alpha + more) - log B(alpha), both (L,)."""
    out, a, n = 0.0, 0.0, 0.0
    for l in range(len(alpha)):
        out += log_gamma_rise(alpha[l], more[l])
        a += alpha[l]
        n += more[l]
    return out - log_gamma_rise(a, n)


@inner
def start(n, lam, total, alpha, phi, at_level):
    """Guess phi prop. to alpha (lam + n / 2) / (Lam + N / 2); return the log likelihood there."""
    U, L = lam.shape
    N, whole, out = 0.0, 0.0, 0.0
    for u in range(U):
        N += n[u]
    part = np.empty(L)
    for l in range(L):
        part[l] = alpha[l] / (total[l] + 0.5 * N)
        whole += alpha[l]
        at_level[l] = 0.0
    for u in range(U):
        norm = 0.0
        for l in range(L):
            phi[u, l] = part[l] * (lam[u, l] + 0.5 * n[u])
            norm += phi[u, l]
        out += n[u] * math.log(norm)
        for l in range(L):
            phi[u, l] /= norm
            at_level[l] += n[u] * phi[u, l]
    return out - N * math.log(whole)


@inner
def meet(n, lam, total, alpha, rounds, tol, phi, at_level):
    """Iterate docs/math/trees.md (7): psi(alpha + N) + psi(lam + n phi) - psi(Lam + N) + const."""
    U, L = lam.shape
    part, new, many = np.empty(L), np.empty(L), np.empty(U * L)
    late, work = np.empty(U * L), np.empty(U * L)
    flat_lam, flat_phi = lam.reshape(U * L), phi.reshape(U * L)
    for u in range(U):
        for l in range(L):
            many[u * L + l] = n[u]
    for _ in range(rounds):
        N = 0.0
        for l in range(L):
            part[l] = exp_digamma(alpha[l] + at_level[l]) / exp_digamma(total[l] + at_level[l])
            N += at_level[l]
            new[l] = 0.0
        for i in range(U * L):  # exp_digamma of all, vectorisable to four at once
            x = flat_lam[i] + many[i] * flat_phi[i]
            t, y = x * (x + 3.0), x + 3.5
            P = t * (t + 2.0)
            one = 1.0 / (P * y * y)
            late[i] = -(2.0 * x + 3.0) * (2.0 * t + 2.0) * one * y * y
            flat_phi[i] = y * _series(one * P)
        exp_all(late, U * L, work)
        for u in range(U):
            norm = 0.0
            for l in range(L):
                phi[u, l] *= part[l] * late[u * L + l]
                norm += phi[u, l]
            norm = 1.0 / norm
            for l in range(L):
                phi[u, l] *= norm
                new[l] += n[u] * phi[u, l]
        moved = 0.0
        for l in range(L):
            moved += abs(new[l] - at_level[l])
            at_level[l] = new[l]
        if moved < tol * N:
            break


@inner
def evidence_gain(n, lam, total, alpha, phi, at_level):
    """Gain of the bound by a document and the topics of one path: docs/math/trees.md (6)."""
    out = log_beta_gain(alpha, at_level)
    for l in range(len(alpha)):
        out -= log_gamma_rise(total[l], at_level[l])
    for u in range(len(n)):
        for l in range(len(alpha)):
            p = phi[u, l]
            if p > TINY:
                out += log_gamma_rise(lam[u, l], n[u] * p) - n[u] * p * math.log(p)
    return out


@inner
def local_bound(n, phi, alpha, at_level, first_fresh, eta, V):
    """Return a document's own part of the bound; topics from ``first_fresh`` on are not stored."""
    L = len(alpha)
    out = log_beta_gain(alpha, at_level)
    for l in range(first_fresh, L):
        out += at_level[l] * (digamma(eta[l]) - digamma(V * eta[l]))
    for u in range(len(n)):
        for l in range(L):
            p = phi[u, l]
            if p > TINY:
                out -= n[u] * p * math.log(p)
    return out


@kernel
def node_bounds(level, which, counts, rows, scale, eta, V, out):
    """Evidence of some nodes' topics: out[i] = lB(eta + s_i) - lB(eta) for i of ``which``."""
    for i in which:
        out[i] = -log_gamma_rise(V * eta[level[i] - 1], scale * rows[i])
    for v in range(counts.shape[0]):
        for i in which:
            if counts[v, i] > 0.0:
                out[i] += log_gamma_rise(eta[level[i] - 1], scale * counts[v, i])


@kernel
def merge_gains(counts, rows, level, one, other, scale, eta, V, out):
    """Gain, docs/math/trees.md (8), by one node of two: g(s_i + s_j) - g(s_i) - g(s_j)."""
    for p in range(len(one)):
        e, more = eta[level[one[p]] - 1], scale * rows[other[p]]
        out[p] = log_gamma_rise(V * e, more)
        out[p] -= log_gamma_rise(V * e + scale * rows[one[p]], more)
    for v in range(counts.shape[0]):
        row = counts[v]
        for p in range(len(one)):
            a, b = scale * row[one[p]], scale * row[other[p]]
            if a > 0.0 and b > 0.0:
                e = eta[level[one[p]] - 1]
                out[p] += log_gamma_rise(e + a, b) - log_gamma_rise(e, b)


@kernel
def sibling_products(parent, counts, V, out):
    """Add the scalar products of siblings' words to ``out`` (K, K), squares on its diagonal."""
    K, m = len(out), 0
    here = np.empty(K, np.int64)
    for v in range(V):
        row, m = counts[v], 0
        for i in range(1, K):
            if row[i] > 0.0:
                for k in range(m):
                    if parent[here[k]] == parent[i]:
                        out[i, here[k]] += row[i] * row[here[k]]
                        out[here[k], i] = out[i, here[k]]
                out[i, i] += row[i] * row[i]
                here[m] = i
                m += 1


@kernel
def reorder(counts, V, K, slots):
    """Copy column ``slots[i]`` of ``counts`` to column i, of K; clear the others."""
    row, n = np.empty(K), len(slots)
    for v in range(V):
        for i in range(K):
            row[i] = counts[v, i]
        for i in range(n):
            counts[v, i] = row[slots[i]]
        for i in range(n, K):
            counts[v, i] = 0.0


@kernel
def fit_eta(counts, rows, level, K, V, scale, mode, rounds, tol, eta):
    """Raise the evidence of the topics' words times p(eta), a level by itself, by fixed points.

    eta <- (1 + eta sum psi(eta + s) - psi(eta)) / (1 / mode + V sum psi(V eta + N) - psi(V eta)),
    Minka's bound, which never lowers it, under Gamma(2, rate 1 / mode), whose mode is ``mode``
    (L,); ``eta`` (L,): where to start, updated.
    """
    L = len(eta)
    up, down = np.empty(L), np.empty(L)
    for _ in range(rounds):
        for l in range(L):
            up[l], down[l] = 1.0, 1.0 / mode[l]
        for i in range(K):
            l = level[i] - 1
            down[l] += V * (digamma(V * eta[l] + scale * rows[i]) - digamma(V * eta[l]))
        for v in range(V):
            for i in range(K):
                if counts[v, i] > 0.0:
                    e = eta[level[i] - 1]
                    up[level[i] - 1] += e * (digamma(e + scale * counts[v, i]) - digamma(e))
        moved = 0.0
        for l in range(L):
            new = up[l] / down[l]
            moved = max(moved, abs(new - eta[l]) / eta[l])
            eta[l] = new
        if moved < tol:
            break
