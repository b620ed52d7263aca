"""Sweeps of the collapsed sampler of topic trees (docs/math/trees.md).

``tree``: nodes in slots 0 to K - 1, the root in slot 0: parent (K,); level (K,), 0 at the root and
-1 in a free slot; docs (K,), documents through a node; tokens (K,); counts (V, K), tokens of each
word. ``corpus``: words of document d are words[first[d]:first[d+1]], equal ones adjacent, and z
their levels; path (N, L) has the slots of its nodes, -1 before it is assigned. ``prior`` = (gamma,
eta, V eta), the latter two (L,); alpha (L,). ``work``: n_at (L,), words of the document at each
level, and arrays for fits (K + L,), prefixes (K,), weights (K + L,), levels (L,) and former levels
(longest,).
"""

import math

import numpy as np

from streamddcrp.compilation import inner, kernel
from streamddcrp.particles.kernels.random import draw_log

_FOLD = 16  # factors between 1e-6 and 1e6 multiplied per logarithm


@inner
def _fit_words(d, corpus, prior, tree, work):
    """Fill n_at, and log marginals of a level's words under every node, a new one in K + l."""
    (words, first, z, _), (_, etas, totals) = corpus, prior
    (_, level, _, tokens, counts), (n_at, fit, _, product, _, _) = tree, work
    K, L = len(level), len(n_at)
    n_at[:] = 0.0
    fit[:] = 0.0
    product[:] = 1.0
    for l in range(L):
        last, repeat, factors, eta, total = -1, 0.0, 0, etas[l], totals[l]
        for j in range(first[d], first[d + 1]):
            if z[j] != l:
                continue
            w = words[j]
            repeat = repeat + 1.0 if w == last else 0.0
            last = w
            n_at[l] += 1.0
            for k in range(K):
                if level[k] == l:
                    product[k] *= counts[w, k] + eta + repeat
            product[K + l] *= eta + repeat
            factors += 1
            if factors == _FOLD:
                _fold(l, K, level, fit, product)
                factors = 0
        _fold(l, K, level, fit, product)
        for k in range(K):
            if level[k] == l:
                base = total + tokens[k]
                fit[k] -= math.lgamma(base + n_at[l]) - math.lgamma(base)
        fit[K + l] -= math.lgamma(total + n_at[l]) - math.lgamma(total)


@inner
def _fold(l, K, level, fit, product):
    for k in range(K):
        if level[k] == l:
            fit[k] += math.log(product[k])
            product[k] = 1.0
    fit[K + l] += math.log(product[K + l])
    product[K + l] = 1.0


@inner
def _total_fits(L, parent, level, fit):
    K = len(level)
    for l in range(1, L):
        for k in range(K):
            if level[k] == l:
                fit[k] += fit[parent[k]]
    for l in range(L - 1):
        rest = 0.0
        for below in range(l + 1, L):
            rest += fit[K + below]
        for k in range(K):
            if level[k] == l:
                fit[k] += rest


@inner
def _guess_fit(d, corpus, alpha, prior, tree, work):
    """Log fit of the document under every endpoint if its levels had their prior weights.

    sum_j log sum_l alpha_l / sum(alpha) beta_l,wj, by the counts of all others.
    """
    (words, first, _, _), (_, eta, whole) = corpus, prior
    (parent, level, _, tokens, counts), (_, total, mix, product, _, _) = tree, work
    K, L = len(level), len(alpha)
    scale = alpha.sum()
    product[:] = 1.0
    total[:] = 0.0
    factors = 0
    for j in range(first[d], first[d + 1]):
        w = words[j]
        for l in range(L):
            share = alpha[l] / scale
            new = 0.0
            for below in range(l + 1, L):
                new += alpha[below] / scale * eta[below] / whole[below]
            for k in range(K):
                if level[k] == l:
                    x = share * (eta[l] + counts[w, k]) / (whole[l] + tokens[k])
                    if l > 0:
                        x += mix[parent[k]]
                    mix[k] = x
                    product[k] *= x + new
        factors += 1
        if factors == _FOLD or j == first[d + 1] - 1:
            factors = 0
            for k in range(K):
                if level[k] >= 0:
                    total[k] += math.log(product[k])
                    product[k] = 1.0


@inner
def _choose(rng, gamma, tree, work):
    """Draw an endpoint by fit and prior: log m_c / (m_p + gamma) a step, gamma for a new one."""
    (parent, level, docs, _, _), (n_at, total_fit, prefix, weight, _, _) = tree, work
    L, K = len(n_at), len(level)
    weight[:] = -np.inf
    for l in range(L):
        for k in range(K):
            if level[k] != l:
                continue
            s = 0.0
            if l > 0:
                p = parent[k]
                s = prefix[p] + math.log(docs[k] / (docs[p] + gamma))
            prefix[k] = s
            if l < L - 1:
                s += math.log(gamma / (docs[k] + gamma))
            weight[k] = s + total_fit[k]
    return draw_log(weight, K, rng.random())


@inner
def _open(d, end, path, tree):
    """Assign the path to an endpoint, with new nodes if it ends above the leaves."""
    parent, level, docs, tokens, _ = tree
    L, k = path.shape[1], end
    for l in range(level[end], -1, -1):
        path[d, l] = k
        k = parent[k]
    k, free = end, 1
    for l in range(level[end] + 1, L):
        while level[free] >= 0:
            free += 1
        parent[free], level[free], docs[free], tokens[free] = k, l, 0.0, 0.0
        path[d, l] = k = free
    _enter(d, 1.0, path, level, docs)


@inner
def _draw_levels(rng, d, times, corpus, alpha, prior, tree, work):
    """Draw the level of a token given all others: (alpha_l + n_dl) (eta + n_w) / (V eta + n)."""
    (words, first, z, path), (_, eta, whole) = corpus, prior
    (_, _, _, tokens, counts), (n_at, _, _, _, weight, _) = tree, work
    L = len(n_at)
    n_at[:] = 0.0
    for j in range(first[d], first[d + 1]):
        n_at[z[j]] += 1.0
    for _ in range(times):
        for j in range(first[d], first[d + 1]):
            w, old = words[j], z[j]
            k = path[d, old]
            n_at[old] -= 1.0
            counts[w, k] -= 1.0
            tokens[k] -= 1.0
            total = 0.0
            for l in range(L):
                k = path[d, l]
                total += (alpha[l] + n_at[l]) * (eta[l] + counts[w, k]) / (whole[l] + tokens[k])
                weight[l] = total
            u, new = rng.random() * total, 0
            while new < L - 1 and weight[new] <= u:
                new += 1
            z[j] = new
            k = path[d, new]
            n_at[new] += 1.0
            counts[w, k] += 1.0
            tokens[k] += 1.0


@inner
def _levels_in_order(rng, d, again, corpus, alpha, prior, tree, work):
    """Draw levels from the first token to the last or, with ``again``, reuse the present ones.

    Adds the tokens to the counts; returns sum_j log p(w_j | earlier tokens, path), which is log
    p(words, levels | path) minus the log probability of the draw.
    """
    (words, first, z, path), (_, eta, whole) = corpus, prior
    (_, _, _, tokens, counts), (n_at, _, _, _, cum, _) = tree, work
    L, out, scale = len(n_at), 0.0, alpha.sum()
    n_at[:] = 0.0
    for j in range(first[d], first[d + 1]):
        w, total = words[j], 0.0
        for l in range(L):
            k = path[d, l]
            total += (alpha[l] + n_at[l]) * (eta[l] + counts[w, k]) / (whole[l] + tokens[k])
            cum[l] = total
        out += math.log(total / (scale + j - first[d]))
        if not again:
            u, new = rng.random() * total, 0
            while new < L - 1 and cum[new] <= u:
                new += 1
            z[j] = new
        k = path[d, z[j]]
        n_at[z[j]] += 1.0
        counts[w, k] += 1.0
        tokens[k] += 1.0
    return out


@inner
def _count(d, sign, corpus, tree):
    """Add the tokens of a document to the counts or, with ``sign`` -1, remove them."""
    (words, first, z, path), (_, _, _, tokens, counts) = corpus, tree
    for j in range(first[d], first[d + 1]):
        k = path[d, z[j]]
        counts[words[j], k] += sign
        tokens[k] += sign


@inner
def _enter(d, sign, path, level, docs):
    """Add a document at its path or, with ``sign`` -1, remove it; empty nodes free their slots."""
    for l in range(path.shape[1]):
        k = path[d, l]
        docs[k] += sign
        if l > 0 and docs[k] == 0.0:
            level[k] = -1


@inner
def _jump(rng, d, corpus, alpha, prior, tree, work):
    """Propose path and levels of a document jointly, and accept or not (Metropolis-Hastings).

    An endpoint e is proposed with its prior times exp(guess), the levels token by token. The ratio
    of the posterior and the proposal is W(e) / exp(guess(e)), W from `_levels_in_order`.
    """
    (_, first, z, path), (_, level, docs, _, _), (_, guess, _, _, _, z_old) = corpus, tree, work
    a, b = first[d], first[d + 1]
    here, assigned, before = 0, path[d, 0] >= 0, 0.0
    if assigned:
        _count(d, -1.0, corpus, tree)
        before = _levels_in_order(rng, d, True, corpus, alpha, prior, tree, work)
        _count(d, -1.0, corpus, tree)
        _enter(d, -1.0, path, level, docs)
        for l in range(path.shape[1]):
            if level[path[d, l]] >= 0:
                here = path[d, l]
        z_old[: b - a] = z[a:b]
    _guess_fit(d, corpus, alpha, prior, tree, work)
    end = _choose(rng, prior[0], tree, work)
    gain = guess[here] - guess[end]
    _open(d, end, path, tree)
    gain += _levels_in_order(rng, d, False, corpus, alpha, prior, tree, work)
    if assigned and math.log(1.0 - rng.random()) >= gain - before:
        _count(d, -1.0, corpus, tree)
        _enter(d, -1.0, path, level, docs)
        z[a:b] = z_old[: b - a]
        _open(d, here, path, tree)
        _levels_in_order(rng, d, True, corpus, alpha, prior, tree, work)


@inner
def _visit(rng, d, corpus, alpha, prior, tree, work):
    """Draw a document's path given its levels, then both together, then the levels twice."""
    path, (parent, level, docs, _, _) = corpus[3], tree
    if path[d, 0] >= 0:
        _count(d, -1.0, corpus, tree)
        _enter(d, -1.0, path, level, docs)
        _fit_words(d, corpus, prior, tree, work)
        _total_fits(path.shape[1], parent, level, work[1])
        _open(d, _choose(rng, prior[0], tree, work), path, tree)
        _count(d, 1.0, corpus, tree)
    _jump(rng, d, corpus, alpha, prior, tree, work)
    _draw_levels(rng, d, 2, corpus, alpha, prior, tree, work)


@inner
def _work(K, L, first):
    longest = 0
    for d in range(len(first) - 1):
        longest = max(longest, first[d + 1] - first[d])
    fit, prefix, weight = np.empty(K + L), np.empty(K), np.empty(K + L)
    return np.empty(L), fit, prefix, weight, np.empty(L), np.empty(longest, np.int64)


@kernel
def sweep(rng, start, rounds, seats, alpha, prior, state):
    """Visit documents from ``start``, ``rounds`` times each, until slots run out, or to N."""
    N, L = seats.path.shape
    corpus = seats.words, seats.first, seats.z, seats.path
    tree = state.parent, state.level, state.docs, state.tokens, state.counts
    work = _work(len(state.level), L, seats.first)
    for d in range(start, N):
        if (state.level < 0).sum() < L - 1:  # slots for a whole new path
            return d
        for _ in range(rounds):
            _visit(rng, d, corpus, alpha, prior, tree, work)
    return N


@kernel
def log_joint(seats, alpha, prior, state):
    """Log p(paths) + log p(levels) + log p(words | paths, levels)."""
    first, z, path, level = seats.first, seats.z, seats.path, state.level
    docs, tokens, counts = state.docs, state.tokens, state.counts
    gamma, etas, wholes = prior
    L, out = path.shape[1], 0.0
    n_at = np.empty(L)
    for k in range(len(level)):
        if level[k] < 0:
            continue
        if level[k] < L - 1:
            out += math.lgamma(gamma) - math.lgamma(gamma + docs[k])
        if level[k] > 0:
            out += math.log(gamma) + math.lgamma(docs[k])
        eta, whole = etas[level[k]], wholes[level[k]]
        out += math.lgamma(whole) - math.lgamma(whole + tokens[k])
        for w in range(len(counts)):
            if counts[w, k] > 0.0:
                out += math.lgamma(eta + counts[w, k]) - math.lgamma(eta)
    total = alpha.sum()
    for d in range(len(path)):
        n_at[:] = 0.0
        for j in range(first[d], first[d + 1]):
            n_at[z[j]] += 1.0
        out += math.lgamma(total) - math.lgamma(total + n_at.sum())
        for l in range(L):
            out += math.lgamma(alpha[l] + n_at[l]) - math.lgamma(alpha[l])
    return out
