"""Compiled documents on a tree of topics: placement, learning, moves and predictions.

``tree``, ``docs`` and ``s`` are `NodeArrays`, `Documents`, `Settings` of `topic_tree`. Statistics
are raw: ``scale`` times them is their value, so forgetting costs nothing. They are stored by word,
``counts`` (V, K), because a document needs all nodes of a few words. ``work``: slots (E,),
probabilities (E,), expected words by level (E, L), levels of words (E, U, L) of E endpoints.
"""

import math

import numpy as np

from streamddcrp.compilation import inner, kernel
from streamddcrp.models.trees.kernels.gain import TINY, evidence_gain, local_bound, meet, start
from streamddcrp.models.trees.kernels.tree import beta_parameters, log_path_chances, softmax

# indices into the state's whole numbers
N_NODES, NEXT_ID, N_WORDS, NEXT_VISIT, N_SEEN = 0, 1, 2, 3, 4
# A node that no document may pass, an endpoint that it must take, a node that it must pass; -1:
# none.
BARRED, FORCED, CONFINED = 5, 6, 7
# and into its floats: the scale of the raw statistics; the documents' part of the bound
SCALE, LOCAL = 0, 1

_BEAM = 3  # leaves examined closely
_ROUNDS, _FEW = 30, 6  # most rounds for the words' levels; for every endpoint examined
_SLACK, _LEAST_SLACK = 0.2, 10.0  # nats per word, and per document, that more rounds cannot recover
_MOVE_ROUNDS = 2  # for placing the documents of a move


@inner
def _work(offsets, s):
    E, L, longest = _BEAM * (len(s.alpha) - 1) + 1, len(s.alpha), 0
    for d in range(len(offsets) - 1):
        longest = max(longest, offsets[d + 1] - offsets[d])
    return np.empty(E, np.int64), np.empty(E), np.empty((E, L)), np.empty((E, longest, L))


@inner
def _rank_leaves(tree, s, words, n, prior, out):
    """Score leaves by prior_k + sum_u n_u log sum_l E[theta_l] E[beta_lu]; others -inf."""
    parent, level, eta, alpha = tree.parent, tree.level, s.eta, s.alpha
    K, L, V, scale = tree.whole[N_NODES], len(alpha), max(tree.whole[N_WORDS], 1), tree.real[SCALE]
    weight, extra, product = np.empty(K), np.empty(K), np.ones(K)
    share, above, up = np.empty(K), np.empty(K), np.empty(K)
    whole, inner, n_inner = alpha.sum(), np.empty(K, np.int64), 0
    for i in range(K):
        l = level[i] - 1
        weight[i] = alpha[l] / whole / (V * eta[l] + scale * tree.rows[i]) * V
        extra[i] = weight[i] * eta[l]
        weight[i] *= scale
        out[i] = prior[i] if level[i] == L else -np.inf
        if level[i] < L:
            inner[n_inner] = i
            n_inner += 1
    for u in range(len(words)):
        row = tree.counts[words[u]]
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
def _bar(tree, is_in, score):
    """Exclude leaves at or below one node, or those not below another."""
    parent, barred, confined = tree.parent, tree.whole[BARRED], tree.whole[CONFINED]
    for i in range(tree.whole[N_NODES]):
        is_in[i] = i in (barred, confined) or (i > 0 and is_in[parent[i]])
        if is_in[i] == (barred >= 0):
            score[i] = -np.inf


@inner
def _candidates(parent, level, K, L, score, chosen, is_in):
    """Choose the best leaves and every node above them, root first; return their number."""
    is_in[:] = False
    is_in[0] = True
    E = 1
    chosen[0] = 0
    for _ in range(_BEAM):
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
def _gather(tree, s, end, words, path, lam, total):
    """Fill an endpoint's path, slot -1 for unstored nodes, and its Dirichlet parameters."""
    L, V, scale = len(path), max(tree.whole[N_WORDS], 1), tree.real[SCALE]
    eta, counts, rows = s.eta, tree.counts, tree.rows
    path[:] = -1
    i = end
    while i >= 0:
        path[tree.level[i] - 1] = i
        i = tree.parent[i]
    for l in range(L):
        i = path[l]
        total[l] = V * eta[l] + (scale * rows[i] if i >= 0 else 0.0)
        for u in range(len(words)):
            lam[u, l] = eta[l] + (scale * counts[words[u], i] if i >= 0 else 0.0)


@inner
def _place(tree, s, words, n, work):
    """Place a document: the lookahead scores of the likeliest endpoints.

    Fills ``work``. Returns the number of endpoints examined, and the log of the sum of prior times
    exp(gain), a lower bound of the document's log probability.
    """
    chosen, chances, levels, phis = work
    parent, level, alpha = tree.parent, tree.level, s.alpha
    K, L, U, scale = tree.whole[N_NODES], len(alpha), len(words), tree.real[SCALE]
    barred, forced, confined = tree.whole[BARRED], tree.whole[FORCED], tree.whole[CONFINED]
    size, a, b, prior = np.empty(K), np.empty(K), np.empty(K), np.empty(K)
    beta_parameters(parent, K, tree.mass[:K] * scale, s.gamma, size, a, b)
    log_path_chances(parent, level, K, L, a, b, s.gamma, True, prior)
    score, is_in = np.empty(K), np.empty(K, np.bool_)
    _rank_leaves(tree, s, words, n, prior, score)
    if forced >= 0:
        E, chosen[0] = 1, forced
    else:
        if barred >= 0 or confined >= 0:
            _bar(tree, is_in, score)
        E = _candidates(parent, level, K, L, score, chosen, is_in)
    path, lam, total = np.empty(L, np.int64), np.empty((E, U, L)), np.empty((E, L))
    g = np.empty(E)
    best, N = -np.inf, n.sum()
    for e in range(E):
        _gather(tree, s, chosen[e], words, path, lam[e], total[e])
        g[e] = prior[chosen[e]] + start(n, lam[e], total[e], alpha, phis[e, :U], levels[e])
        best = max(best, g[e])
    for now in (_FEW, _ROUNDS - _FEW):  # the others cannot win
        least, best = best - max(_SLACK * N, _LEAST_SLACK), -np.inf
        for e in range(E):
            if g[e] < least:
                g[e] = -np.inf
                continue
            meet(n, lam[e], total[e], alpha, now, s.tol, phis[e, :U], levels[e])
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
def _likeliest(level, L, E, chosen, chances):
    """Return the likeliest of the examined endpoints, and the probability of a new path."""
    best, p_new = 0, 0.0
    for e in range(E):
        if chances[e] > chances[best]:
            best = e
        if level[chosen[e]] < L:
            p_new += chances[e]
    return best, p_new


@inner
def _put(d, sign, tree, docs):
    """Add a document to the statistics, or remove it with ``sign`` -1."""
    counts, rows, level = tree.counts, tree.rows, tree.level
    i, weight = docs.ends[d], sign * docs.weights[d]
    if i < 0:
        return
    tree.mass[i] = max(0.0, tree.mass[i] + weight)
    tree.real[LOCAL] += weight * docs.own[d]
    while i >= 0:
        l = level[i] - 1
        total = 0.0
        for u in range(docs.offsets[d], docs.offsets[d + 1]):
            x = weight * docs.counts[u] * docs.phi[u, l]
            new = counts[docs.words[u], i] + x
            counts[docs.words[u], i] = new if new > TINY else 0.0
            total += x
        rows[i] = max(0.0, rows[i] + total)
        i = tree.parent[i]


@inner
def _visit(d, tree, docs, s, work, out):
    """Place document d, removing it first if it was placed before.

    ``out`` (4,): id of its likeliest endpoint, its probability, the evidence, that of a new path.
    """
    chosen, chances, levels, phis = work
    parent, level, whole, L = tree.parent, tree.level, tree.whole, len(s.alpha)
    _put(d, -1.0, tree, docs)
    at, to = docs.offsets[d], docs.offsets[d + 1]
    n, phi = docs.counts[at:to], docs.phi[at:to]
    E, evidence = _place(tree, s, docs.words[at:to], n, work)
    best, p_new = _likeliest(level, L, E, chosen, chances)
    K = whole[N_NODES]
    if level[chosen[best]] < L and K + L - level[chosen[best]] <= len(parent):
        while level[chosen[best]] < L:  # a new path
            parent[K], level[K] = chosen[best], level[chosen[best]] + 1
            tree.ids[K], tree.born[K] = whole[NEXT_ID], whole[N_SEEN]
            whole[NEXT_ID] += 1
            chosen[best] = K
            K += 1
        whole[N_NODES] = K
    end = chosen[best]
    out[0], out[1], out[2], out[3] = tree.ids[end], chances[best], evidence, p_new
    phi[:] = phis[best, : len(n)]
    docs.ends[d] = end
    docs.own[d] = local_bound(n, phi, s.alpha, levels[best], level[end], s.eta, whole[N_WORDS])
    _put(d, 1.0, tree, docs)


@kernel
def learn(first, last, fresh, widths, tree, docs, s, out):
    """Learn documents one by one; after each visit some earlier ones again.

    With ``fresh`` False the documents are known and are visited once each. ``widths``: words known
    with each. Returns the first document without room for a new path, or ``last``; there are never
    more than ``max_nodes`` nodes.
    """
    whole, real, offsets = tree.whole, tree.real, docs.offsets
    work = _work(offsets, s)
    for d in range(first, last):
        if whole[N_NODES] + len(s.alpha) > len(tree.parent) < s.max_nodes:
            return d
        if fresh:
            whole[N_SEEN] += 1
            for w in range(whole[N_WORDS], widths[d - first]):
                tree.first[w] = whole[N_SEEN]
            whole[N_WORDS] = max(whole[N_WORDS], widths[d - first])
            if docs.source[d] > 0:
                of = d - docs.source[d]
                docs.copies[of] += 1
                out[d - first, 0], out[d - first, 1] = tree.ids[docs.ends[of]], 1.0
                continue
            rho_t = 1.0
            if s.forgetting < 1.0:  # a natural-gradient step t^-forgetting on means over t items
                t = whole[N_SEEN]
                rho_t = float(t) ** (1.0 - s.forgetting)
                if t > 1:
                    real[SCALE] *= (t - rho_t) / (t - 1.0)
            docs.weights[d] = rho_t / real[SCALE]
        oldest = max(0, d + 1 - s.window)
        for r in range(s.revisits + 1 if fresh else 1):
            i = d
            if r:
                if not oldest <= whole[NEXT_VISIT] < d:
                    whole[NEXT_VISIT] = oldest
                i = whole[NEXT_VISIT]
                whole[NEXT_VISIT] += 1
            if offsets[i] < offsets[i + 1]:
                _visit(i, tree, docs, s, work, out[d - first if r == 0 else len(out) - 1])
    return last


@kernel
def move(which, barred, forced, tree, docs, s):
    """Remove some documents of the window, and place them one by one, in some rounds.

    None may pass a node ``barred``. With an endpoint ``forced`` the first one opens a path there,
    and the others must follow it below the new node, in the first round. -1: none.
    """
    whole, new = tree.whole, tree.whole[N_NODES]
    work, out = _work(docs.offsets, s), np.empty(4)
    for d in which:
        _put(d, -1.0, tree, docs)
        docs.ends[d] = -1
    whole[BARRED] = barred
    for r in range(_MOVE_ROUNDS):
        for i in range(len(which)):
            whole[FORCED] = forced if r == 0 and i == 0 else -1
            together = forced >= 0 and r == 0 and i > 0 and whole[N_NODES] > new
            whole[CONFINED] = new if together else -1
            _visit(which[i], tree, docs, s, work, out)
    whole[BARRED], whole[FORCED], whole[CONFINED] = -1, -1, -1


@kernel
def put_back(which, old_ends, old_own, old_phi, tree, docs):
    """Undo `move`: return documents to their places."""
    for d in which:
        _put(d, -1.0, tree, docs)
    start = 0
    for i in range(len(which)):
        d = which[i]
        at, to = docs.offsets[d], docs.offsets[d + 1]
        docs.phi[at:to] = old_phi[start : start + to - at]
        start += to - at
        docs.ends[d], docs.own[d] = old_ends[i], old_own[i]
        _put(d, 1.0, tree, docs)


@kernel
def place_many(tree, s, bags, out_slot, out, out_levels):
    """Place documents without learning them.

    ``out_slot`` (N,): slot of the likeliest node; ``out`` (N, 3): its probability, the log
    evidence, the probability of a new path; ``out_levels`` (N, L): expected proportions of levels.
    """
    offsets, words, n = bags.offsets, bags.words, bags.counts
    alpha, L = s.alpha, len(s.alpha)
    work = chosen, chances, levels, _ = _work(offsets, s)
    for d in range(len(offsets) - 1):
        at, to = offsets[d], offsets[d + 1]
        E, evidence = _place(tree, s, words[at:to], n[at:to], work)
        best, p_new = _likeliest(tree.level, L, E, chosen, chances)
        out_slot[d] = chosen[best]
        out[d, 0], out[d, 1], out[d, 2] = chances[best], evidence, p_new
        out_levels[d] = 0.0
        for e in range(E):
            total = 0.0
            for l in range(L):
                total += alpha[l] + levels[e, l]
            for l in range(L):
                out_levels[d, l] += chances[e] * (alpha[l] + levels[e, l]) / total


@kernel
def complete_many(tree, s, given, asked, out):
    """Log probability of held-out words given others of the same document, (N,), by the posterior.

    Held-out words below 0 are unknown, and left out.
    """
    offsets, words, n = given.offsets, given.words, given.counts
    held_offsets, held, held_n = asked.offsets, asked.words, asked.counts
    eta, alpha, L = s.eta, s.alpha, len(s.alpha)
    V, scale = max(tree.whole[N_WORDS], 1), tree.real[SCALE]
    work = chosen, chances, levels, phis = _work(offsets, s)
    score = np.empty(len(chosen))
    own = np.full(tree.counts.shape[0], -1)  # position of a word among the given ones
    for d in range(len(offsets) - 1):
        at, to = offsets[d], offsets[d + 1]
        E, _ = _place(tree, s, words[at:to], n[at:to], work)
        for u in range(at, to):
            own[words[u]] = u - at
        top = -np.inf
        for e in range(E):
            score[e] = math.log(max(chances[e], 1e-300))
            whole_alpha = 0.0
            for l in range(L):
                whole_alpha += alpha[l] + levels[e, l]
            for j in range(held_offsets[d], held_offsets[d + 1]):
                v = held[j]
                if v < 0:
                    continue
                i, p = chosen[e], 0.0
                for l in range(L - 1, -1, -1):
                    mine, total = eta[l], V * eta[l] + levels[e, l]
                    if tree.level[i] == l + 1:
                        mine += scale * tree.counts[v, i]
                        total += scale * tree.rows[i]
                        i = max(tree.parent[i], 0)
                    if own[v] >= 0:
                        mine += n[at + own[v]] * phis[e, own[v], l]
                    p += (alpha[l] + levels[e, l]) / whole_alpha * mine / total
                score[e] += held_n[j] * math.log(p)
            top = max(top, score[e])
        total = 0.0
        for e in range(E):
            total += math.exp(score[e] - top)
        out[d] = top + math.log(total)
        for u in range(at, to):
            own[words[u]] = -1
