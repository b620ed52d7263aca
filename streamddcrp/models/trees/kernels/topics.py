"""Compiled documents on a tree of topics: where a document belongs, and learning one after another.

Statistics are raw: ``scale`` times them is what they stand for, so that forgetting costs nothing.
They stand word by word, ``counts`` (V, K), as a document needs all nodes of a few words.
"""

import math

import numpy as np

from streamddcrp.compilation import inner, kernel
from streamddcrp.models.trees.kernels.gain import TINY, evidence_gain, log_beta_gain, meet, start
from streamddcrp.models.trees.kernels.tree import beta_parameters, log_path_chances, softmax
from streamddcrp.numerics import digamma

# places in the array of whole numbers of a state
N_NODES, NEXT_ID, N_WORDS, NEXT_VISIT, N_SEEN = 0, 1, 2, 3, 4
# A node that no document may go through, an endpoint that it must take, a node that it must go
# through; -1: none.
BARRED, FORCED, CONFINED = 5, 6, 7
# and of floats: what the raw statistics are to be multiplied by; the documents' part of the bound
SCALE, LOCAL = 0, 1

_FEW = 6  # rounds for every endpoint that is looked at
_SLACK, _LEAST_SLACK = 0.2, 10.0  # nats that more rounds cannot make good: a word; of any document


@kernel
def rank_leaves(parent, level, K, L, words, n, counts, rows, scale, eta, V, alpha, prior, out):
    """Score every leaf by its prior and the plain likelihood at the expected levels.

    out_k = prior_k + sum_u n_u log sum_l E[theta_l] E[beta_lu] for leaves, -inf for others.
    """
    weight, extra, product = np.empty(K), np.empty(K), np.ones(K)
    share, above, up = np.empty(K), np.empty(K), np.empty(K)
    whole, inner, n_inner = alpha.sum(), np.empty(K, np.int64), 0
    for i in range(K):
        l = level[i] - 1
        weight[i] = alpha[l] / whole / (V * eta[l] + scale * rows[i]) * V
        extra[i] = weight[i] * eta[l]
        weight[i] *= scale
        out[i] = prior[i] if level[i] == L else -np.inf
        if level[i] < L:
            inner[n_inner] = i
            n_inner += 1
    for u in range(len(words)):
        row = counts[words[u]]
        above[0] = extra[0] + weight[0] * row[0]
        for j in range(1, n_inner):
            i = inner[j]
            above[i] = above[parent[i]] + extra[i] + weight[i] * row[i]
        for i in range(1, K):
            up[i] = above[parent[i]]
        times = int(n[u])
        if n[u] == 1.0:
            for i in range(1, K):
                product[i] *= up[i] + extra[i] + weight[i] * row[i]
        elif times == n[u] and times <= 4:
            for i in range(1, K):
                share[i] = up[i] + extra[i] + weight[i] * row[i]
            for _ in range(times):
                for i in range(1, K):
                    product[i] *= share[i]
        else:
            for i in range(1, K):
                out[i] += n[u] * math.log(up[i] + extra[i] + weight[i] * row[i])
        if u % 8 == 7:
            for i in range(K):
                if not 1e-100 < product[i] < 1e100:
                    out[i] += math.log(product[i])
                    product[i] = 1.0
    for i in range(K):
        out[i] += math.log(product[i])


@inner
def _bar(parent, K, barred, confined, is_in, score):
    """Let no leaf at or below one node be chosen, or none that is not below another."""
    for i in range(K):
        is_in[i] = i in (barred, confined) or (i > 0 and is_in[parent[i]])
        if is_in[i] == (barred >= 0):
            score[i] = -np.inf


@inner
def _candidates(parent, level, K, L, score, beam, chosen, is_in):
    """Choose the best leaves and every node above them, the root first; return how many."""
    for i in range(K):
        is_in[i] = False
    is_in[0] = True
    E = 1
    chosen[0] = 0
    for _ in range(beam):
        best = -1
        for i in range(K):
            if level[i] == L and not is_in[i] and (best < 0 or score[i] > score[best]):
                best = i
        if best < 0:
            break
        i = best
        while not is_in[i]:
            is_in[i] = True
            chosen[E] = i
            E += 1
            i = parent[i]
    return E


@inner
def _gather(parent, level, end, words, counts, rows, scale, eta, V, path, lam, total):
    """Fill the path of an endpoint, slot -1 where no node is kept, and its Dirichlet parameters."""
    L = len(path)
    for l in range(L):
        path[l] = -1
    i = end
    while i >= 0:
        path[level[i] - 1] = i
        i = parent[i]
    for l in range(L):
        i = path[l]
        total[l] = V * eta[l] + (scale * rows[i] if i >= 0 else 0.0)
        for u in range(len(words)):
            lam[u, l] = eta[l] + (scale * counts[words[u], i] if i >= 0 else 0.0)


@kernel
def place(
    parent, level, K, L, words, n, counts, rows, mass, scale, eta, V, alpha, gamma, beam, rounds,
    tol, barred, forced, confined, chosen, chances, levels, phis,
):  # fmt: skip
    """Find where a document belongs: the lookahead score of the likeliest endpoints.

    Returns
    -------
    E : int
        Endpoints that were looked at; ``chosen`` (E,) are their slots, ``chances`` (E,) their
        probabilities, ``levels`` (E, L) the expected words at each level, ``phis`` (E, U, L).
    evidence : float
        Log of the sum of prior times exp(gain): a lower bound of the document's log probability.
    """
    U = len(words)
    size, a, b, prior = np.empty(K), np.empty(K), np.empty(K), np.empty(K)
    beta_parameters(parent, K, mass[:K] * scale, gamma, size, a, b)
    log_path_chances(parent, level, K, L, a, b, gamma, True, prior)
    score, is_in = np.empty(K), np.empty(K, np.bool_)
    rank_leaves(parent, level, K, L, words, n, counts, rows, scale, eta, V, alpha, prior, score)
    if forced >= 0:
        E, chosen[0] = 1, forced
    else:
        if barred >= 0 or confined >= 0:
            _bar(parent, K, barred, confined, is_in, score)
        E = _candidates(parent, level, K, L, score, beam, chosen, is_in)
    path, lam, total = np.empty(L, np.int64), np.empty((E, U, L)), np.empty((E, L))
    g = np.empty(E)
    best, N = -np.inf, 0.0
    for u in range(U):
        N += n[u]
    for e in range(E):
        _gather(
            parent, level, chosen[e], words, counts, rows, scale, eta, V, path, lam[e], total[e]
        )
        g[e] = prior[chosen[e]] + start(n, lam[e], total[e], alpha, phis[e, :U], levels[e])
        best = max(best, g[e])
    for now in (_FEW, rounds - _FEW):  # the others are out of the race
        least, best = best - max(_SLACK * N, _LEAST_SLACK), -np.inf
        for e in range(E):
            if g[e] < least:
                g[e] = -np.inf
                continue
            meet(n, lam[e], total[e], alpha, now, tol, phis[e, :U], levels[e])
            g[e] = evidence_gain(n, lam[e], total[e], alpha, phis[e, :U], levels[e])
            g[e] += prior[chosen[e]]
            best = max(best, g[e])
    if confined >= 0:
        for e in range(E):
            i = chosen[e]
            while i > confined:
                i = parent[i]
            if i != confined:
                g[e] = -np.inf
    return E, softmax(g, E, chances)


@inner
def _add(parent, level, end, weight, words, n, phi, counts, rows):
    """Add a document's share of the words of an endpoint's nodes, or take it away."""
    i = end
    while i >= 0:
        l = level[i] - 1
        total = 0.0
        for u in range(len(words)):
            x = weight * n[u] * phi[u, l]
            new = counts[words[u], i] + x
            counts[words[u], i] = new if new > TINY else 0.0
            total += x
        rows[i] = max(0.0, rows[i] + total)
        i = parent[i]


@inner
def _local_bound(n, phi, alpha, at_level, first_fresh, eta, V):
    """Return what a document adds to the bound by itself.

    Words at levels from ``first_fresh`` on are of topics that are not kept: E log beta is then
    psi(eta) - psi(V eta).
    """
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


@inner
def put(parent, level, counts, rows, mass, real, words, n, weight, end, own, phi):
    """Put a document into the statistics, or with a weight below 0 take it out."""
    if end >= 0:
        _add(parent, level, end, weight, words, n, phi, counts, rows)
        mass[end] = max(0.0, mass[end] + weight)
        real[LOCAL] += weight * own


@kernel
def visit(
    d, parent, level, born, ids, counts, rows, mass, whole, real, words, n, weights, ends, own, phi,
    eta, alpha, gamma, beam, rounds, tol, chosen, chances, levels, phis, out,
):  # fmt: skip
    """Put document d where it belongs, taking it out first where it has been put before.

    Parameters
    ----------
    words, n : ndarray, shape (U,)
    weights : ndarray, shape (documents,)
        Of the documents in the raw statistics.
    ends, own : ndarray, shape (documents,)
        Their endpoints (-1: none), and their own part of the bound; updated.
    phi : ndarray, shape (U, L)
        The levels of its words; updated.
    out : ndarray, shape (4,)
        Gets the id of its likeliest endpoint, the chance of it, the evidence, the chance of a new
        path.
    """
    L = len(alpha)
    put(parent, level, counts, rows, mass, real, words, n, -weights[d], ends[d], own[d], phi)
    K, V = whole[N_NODES], whole[N_WORDS]
    E, evidence = place(
        parent, level, K, L, words, n, counts, rows, mass, real[SCALE], eta, V, alpha, gamma, beam,
        rounds, tol, whole[BARRED], whole[FORCED], whole[CONFINED], chosen, chances, levels, phis,
    )  # fmt: skip
    best, p_new = 0, 0.0
    for e in range(E):
        if chances[e] > chances[best]:
            best = e
        if level[chosen[e]] < L:
            p_new += chances[e]
    if level[chosen[best]] < L and K + L - level[chosen[best]] <= len(parent):
        while level[chosen[best]] < L:  # a new path
            parent[K], level[K] = chosen[best], level[chosen[best]] + 1
            ids[K], born[K] = whole[NEXT_ID], whole[N_SEEN]
            whole[NEXT_ID] += 1
            chosen[best] = K
            K += 1
        whole[N_NODES] = K
    out[0], out[1], out[2], out[3] = ids[chosen[best]], chances[best], evidence, p_new
    for u in range(len(n)):
        for l in range(L):
            phi[u, l] = phis[best, u, l]
    end = chosen[best]
    ends[d], own[d] = end, _local_bound(n, phi, alpha, levels[best], level[end], eta, V)
    put(parent, level, counts, rows, mass, real, words, n, weights[d], end, own[d], phi)


@kernel
def learn(
    first, last, fresh, window, revisits, kappa, most, parent, level, born, ids, counts, rows, mass,
    whole, real, offsets, words, n, weights, ends, own, phi, eta, alpha, gamma, beam, rounds, tol,
    chosen, chances, levels, phis, out,
):  # fmt: skip
    """Learn documents one after another, and after each visit some that came before it again.

    With ``fresh`` False the documents are known and are visited once each.

    Returns
    -------
    int
        The document before which there was no room for a new path, or ``last``. There is never
        room for more than ``most`` nodes.
    """
    for d in range(first, last):
        if whole[N_NODES] + len(alpha) > len(parent) < most:
            return d
        if fresh:
            whole[N_SEEN] += 1
            rho_t = 1.0
            if kappa < 1.0:  # a natural-gradient step rho = t^-kappa on averages, t items expected
                t = whole[N_SEEN]
                rho_t = float(t) ** (1.0 - kappa)
                if t > 1:
                    real[SCALE] *= (t - rho_t) / (t - 1.0)
            weights[d] = rho_t / real[SCALE]
            for at in range(offsets[d], offsets[d + 1]):
                whole[N_WORDS] = max(whole[N_WORDS], words[at] + 1)
        oldest = max(0, d + 1 - window)
        for r in range(revisits + 1):
            i = d
            if r:
                if not oldest <= whole[NEXT_VISIT] < d:
                    whole[NEXT_VISIT] = oldest
                i = whole[NEXT_VISIT]
                whole[NEXT_VISIT] += 1
            at, to = offsets[i], offsets[i + 1]
            if at < to:
                visit(
                    i, parent, level, born, ids, counts, rows, mass, whole, real, words[at:to],
                    n[at:to], weights, ends, own, phi[at:to], eta, alpha, gamma, beam, rounds, tol,
                    chosen, chances, levels, phis,
                    out[d - first if r == 0 else len(out) - 1],
                )  # fmt: skip
    return last
