"""Sweeps of the collapsed sampler of topic trees.

Layout of a state. Nodes lie in slots 0 to K - 1, the root in slot 0:
parent (K,); level (K,), 0 at the root and -1 in a free slot; docs (K,), documents through a node;
tokens (K,); counts (V, K), tokens of each word. Words of document d are words[first[d]:first[d+1]],
equal ones next to each other, and z their levels; path (N, L) has the slots of its nodes, -1 before
it is seated. law = (gamma, eta, V eta); alpha (L,).
"""

import math

import numpy as np

from streamddcrp.compilation import inner, kernel
from streamddcrp.models.trees.kernels.gibbs_fit import fit_words, guess_fit, total_fits


@inner
def _choose(rng, L, gamma, parent, level, docs, total_fit, prefix, weight):
    """Draw an endpoint by its fit and its prior.

    Log prior: log m_c / (m_p + gamma) for every step; at an inner node log gamma / (m + gamma).
    """
    K, top = len(level), -np.inf
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
            top = max(top, weight[k])
    total = 0.0
    for k in range(K):
        if level[k] >= 0:
            total += math.exp(weight[k] - top)
    u, chosen = rng.random() * total, 0
    for k in range(K):
        if level[k] >= 0:
            chosen = k
            u -= math.exp(weight[k] - top)
            if u < 0.0:
                break
    return chosen


@inner
def _open(d, end, path, parent, level, docs, tokens):
    """Write the path to an endpoint, with new nodes where it ends above the leaves."""
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


@inner
def _draw_levels(rng, d, times, words, first, z, path, alpha, law, tokens, counts, n_at, weight):
    """Draw the level of a token given all others: (alpha_l + n_dl) (eta + n_w) / (V eta + n)."""
    _, eta, whole = law
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
                total += (alpha[l] + n_at[l]) * (eta + counts[w, k]) / (whole + tokens[k])
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
def _levels_in_order(rng, d, again, words, first, z, path, alpha, law, tokens, counts, n_at, cum):
    """Draw levels from the first token to the last, or with ``again`` take those there are.

    Adds the tokens to the counts; returns sum_j log p(w_j | tokens before it, path), which is
    log p(words, levels | path) less the log probability of the draw.
    """
    _, eta, whole = law
    L, out, scale = len(n_at), 0.0, alpha.sum()
    n_at[:] = 0.0
    for j in range(first[d], first[d + 1]):
        w, total = words[j], 0.0
        for l in range(L):
            k = path[d, l]
            total += (alpha[l] + n_at[l]) * (eta + counts[w, k]) / (whole + tokens[k])
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
def _clear(d, words, first, z, path, tokens, counts):
    """Take the tokens of a document out of the counts."""
    for j in range(first[d], first[d + 1]):
        k = path[d, z[j]]
        counts[words[j], k] -= 1.0
        tokens[k] -= 1.0


@inner
def _enter(d, sign, path, level, docs):
    """Count a document at its path or, ``sign`` -1, no more; empty nodes free their slots."""
    for l in range(path.shape[1]):
        k = path[d, l]
        docs[k] += sign
        if l > 0 and docs[k] == 0.0:
            level[k] = -1


@inner
def _jump(
    rng, d, words, first, z, path, alpha, law, parent, level, docs, tokens, counts, n_at, guess,
    prefix, weight, cum, z_old,
):  # fmt: skip
    """Draw path and levels of a document together, and accept or stay (Metropolis-Hastings).

    An endpoint e is proposed with its prior times exp(guess), the levels token by token. The ratio
    of the posterior and the proposal is W(e) / exp(guess(e)), W from `_levels_in_order`.
    """
    L, a, b = len(n_at), first[d], first[d + 1]
    here, seated, before = 0, path[d, 0] >= 0, 0.0
    if seated:
        _clear(d, words, first, z, path, tokens, counts)
        before = _levels_in_order(
            rng, d, True, words, first, z, path, alpha, law, tokens, counts, n_at, cum
        )  # fmt: skip
        _clear(d, words, first, z, path, tokens, counts)
        _enter(d, -1.0, path, level, docs)
        for l in range(L):
            if level[path[d, l]] >= 0:
                here = path[d, l]
        z_old[: b - a] = z[a:b]
    guess_fit(d, words, first, alpha, law, parent, level, tokens, counts, prefix, weight, guess)
    end = _choose(rng, L, law[0], parent, level, docs, guess, prefix, weight)
    gain = guess[here] - guess[end]
    _open(d, end, path, parent, level, docs, tokens)
    _enter(d, 1.0, path, level, docs)
    gain += _levels_in_order(
        rng, d, False, words, first, z, path, alpha, law, tokens, counts, n_at, cum
    )  # fmt: skip
    if seated and math.log(1.0 - rng.random()) >= gain - before:
        _clear(d, words, first, z, path, tokens, counts)
        _enter(d, -1.0, path, level, docs)
        z[a:b] = z_old[: b - a]
        _open(d, here, path, parent, level, docs, tokens)
        _enter(d, 1.0, path, level, docs)
        _levels_in_order(
            rng, d, True, words, first, z, path, alpha, law, tokens, counts, n_at, cum
        )  # fmt: skip


@inner
def _visit(
    rng, d, words, first, z, path, alpha, law, parent, level, docs, tokens, counts, n_at, fit,
    prefix, weight, cum, z_old,
):  # fmt: skip
    """Draw a document's path given its levels, then both together, then the levels twice."""
    L = path.shape[1]
    if path[d, 0] >= 0:
        _clear(d, words, first, z, path, tokens, counts)
        _enter(d, -1.0, path, level, docs)
        fit_words(d, words, first, z, law, level, tokens, counts, n_at, fit, weight)
        total_fits(L, parent, level, fit)
        end = _choose(rng, L, law[0], parent, level, docs, fit, prefix, weight)
        _open(d, end, path, parent, level, docs, tokens)
        _enter(d, 1.0, path, level, docs)
        for j in range(first[d], first[d + 1]):
            k = path[d, z[j]]
            counts[words[j], k] += 1.0
            tokens[k] += 1.0
    _jump(
        rng, d, words, first, z, path, alpha, law, parent, level, docs, tokens, counts, n_at, fit,
        prefix, weight, cum, z_old,
    )  # fmt: skip
    _draw_levels(rng, d, 2, words, first, z, path, alpha, law, tokens, counts, n_at, cum)


@inner
def _room(L, level):
    """Whether there are free slots for a whole new path."""
    free = 0
    for k in range(len(level)):
        free += level[k] < 0
        if free >= L - 1:
            return True
    return False


@inner
def _longest(first):
    most = 0
    for d in range(len(first) - 1):
        most = max(most, first[d + 1] - first[d])
    return most


@kernel
def sweep(
    rng, start, rounds, words, first, z, path, alpha, law, parent, level, docs, tokens, counts
):
    """Visit the documents from ``start`` on, each ``rounds`` times.

    Returns the document at which the slots ran out, or N.
    """
    K, L = len(level), path.shape[1]
    n_at, cum, fit = np.empty(L), np.empty(L), np.empty(K + L)
    prefix, weight = np.empty(K), np.empty(K + L)
    z_old = np.empty(_longest(first), np.int64)
    for d in range(start, len(path)):
        if not _room(L, level):
            return d
        for _ in range(rounds):
            _visit(
                rng, d, words, first, z, path, alpha, law, parent, level, docs, tokens, counts,
                n_at, fit, prefix, weight, cum, z_old,
            )  # fmt: skip
    return len(path)


@kernel
def complete(
    rng, burn_in, n_draws, words, first, held, held_first, out, alpha, law, parent, level, docs,
    tokens, counts,
):  # fmt: skip
    """Add up the probabilities of held-out tokens over draws of a document's path and levels.

    Each document is seated, drawn ``burn_in + n_draws`` times given the tree, and taken away. After
    each of the last draws the probability sum_l theta_l beta_lw of its held-out tokens ``held`` is
    added to ``out``: theta = (alpha + n_d) / sum, beta = (eta + n_w) / (V eta + n). There must be
    free slots for a path.
    """
    _, eta, whole = law
    K, L, N = len(level), len(alpha), len(first) - 1
    n_at, cum, fit = np.empty(L), np.empty(L), np.empty(K + L)
    prefix, weight = np.empty(K), np.empty(K + L)
    z, z_old = np.empty(len(words), np.int64), np.empty(_longest(first), np.int64)
    path = np.full((N, L), -1)
    for d in range(N):
        for r in range(burn_in + n_draws):
            _visit(
                rng, d, words, first, z, path, alpha, law, parent, level, docs, tokens, counts,
                n_at, fit, prefix, weight, cum, z_old,
            )  # fmt: skip
            if r < burn_in:
                continue
            scale = alpha.sum() + n_at.sum()
            for j in range(held_first[d], held_first[d + 1]):
                for l in range(L):
                    k = path[d, l]
                    beta = (eta + counts[held[j], k]) / (whole + tokens[k])
                    out[j] += (alpha[l] + n_at[l]) / scale * beta
        _clear(d, words, first, z, path, tokens, counts)
        _enter(d, -1.0, path, level, docs)


@kernel
def log_joint(first, z, path, alpha, law, parent, level, docs, tokens, counts):
    """Log p(paths) + log p(levels) + log p(words | paths, levels)."""
    gamma, eta, whole = law
    L, out = path.shape[1], 0.0
    n_at = np.empty(L)
    for k in range(len(level)):
        if level[k] < 0:
            continue
        if level[k] < L - 1:
            out += math.lgamma(gamma) - math.lgamma(gamma + docs[k])
        if level[k] > 0:
            out += math.log(gamma) + math.lgamma(docs[k])
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
