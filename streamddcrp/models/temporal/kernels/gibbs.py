"""Gibbs sampling of chains: every weight is a ratio of joint densities.

Without a row a chain may fall into two parts that are too far apart; then these are two chains, and
the row may join either, both again, or any pair that it bridges. `rejoin` moves a chain's part from
an epoch on to another chain, or swaps it between two, which single rows cannot do.
"""

import math

import numpy as np

from streamddcrp.compilation import kernel
from streamddcrp.models.temporal.kernels import chains as chain
from streamddcrp.particles.kernels.random import draw_log


@kernel
def _free(used):
    for k in range(len(used)):
        if not used[k]:
            return k
    return -1


@kernel
def draw_seats(law, rows, chains, rng, t, start):
    """Draw chains of rows of epoch t from ``start`` on (-1: none yet) while two slots are free."""
    T, C = chains.sizes.shape
    F = len(law.kappa)
    chain.survey(chains, t, t + 1)
    used, stale = np.empty(C, np.bool_), np.ones(C, np.bool_)
    n_free = 0
    for k in range(C):
        used[k] = chains.last[k] >= 0 or chains.next[k] < T or chains.sizes[t, k] > 0.0
        n_free += not used[k]
    D = len(law.noise)
    # of every chain: log prior of one more row, evidence of those from t on, or moments in t
    terms, kept = np.empty((C, 2 + 2 * D)), np.empty(2 + 2 * D)
    weight = np.empty(C * C + C + 1)
    heads, tails = np.empty(len(weight), np.int64), np.empty(len(weight), np.int64)
    for i in range(start, rows.first[t + 1]):
        if n_free < 2:
            return i
        old, whole, fresh = chains.c[i], True, False
        if old >= 0:
            fresh, kept[:] = not stale[old], terms[old]
            chain.add(law, rows, chains, t, i, old, -1.0)
            stale[old] = True
            if chains.sizes[t, old] == 0.0:
                if chains.last[old] < 0 and chains.next[old] == T:
                    used[old] = False
                    n_free += 1
                elif chains.last[old] >= 0 and T > chains.next[old] > chains.last[old] + F:
                    k = _free(used)
                    chain.swap_tails(rows, chains, old, k, t + 1)
                    used[k], stale[k], whole = True, True, False
                    n_free -= 1
        new = _free(used)
        n = 0
        for k in range(C):
            is_near = used[k] and (
                chains.sizes[t, k] > 0.0
                or chains.next[k] <= min(t + F, T - 1)
                or (chains.last[k] >= 0 and chains.last[k] + F >= t)
            )
            if is_near:
                # the row would not change when the chain was born
                lives = chains.last[k] >= 0 or chains.sizes[t, k] > 0.0
                if stale[k]:
                    if law.kind == chain.GAUSSIAN and lives:
                        chain.smoothed(law, chains, k, t, terms[k, 2 : 2 + D], terms[k, 2 + D :])
                    elif law.kind != chain.WORDS:
                        terms[k, 1] = chain.tail(law, rows, chains, k, k, t, -1)
                    terms[k, 0] = chain.log_counts(law, chains, k, k, t, t + F, 1.0)
                    terms[k, 0] -= chain.log_counts(law, chains, k, k, t, t + F, 0.0)
                    stale[k] = False
                if law.kind == chain.WORDS:
                    weight[n] = terms[k, 0] + chain.word_gain(law, rows, chains, k, t, i)
                elif law.kind == chain.GAUSSIAN and lives:
                    weight[n] = terms[k, 0] + chain.mean_gain(
                        law, rows.X[i], terms[k, 2 : 2 + D], terms[k, 2 + D :]
                    )
                else:
                    weight[n] = (
                        terms[k, 0] + chain.tail(law, rows, chains, k, k, t, i) - terms[k, 1]
                    )
                heads[n] = tails[n] = k
                n += 1
        weight[n] = law.log_alpha + chain.tail(law, rows, chains, new, new, t, i)
        heads[n] = tails[n] = new
        n += 1
        for a in range(C):
            ends = used[a] and chains.last[a] >= 0 and chains.last[a] + F >= t
            if not ends or chains.sizes[t, a] > 0.0 or chains.next[a] < T:
                continue
            for b in range(C):
                begins = used[b] and chains.last[b] < 0 and chains.sizes[t, b] == 0.0
                if begins and chains.last[a] + F < chains.next[b] <= min(t + F, T - 1):
                    weight[n] = (
                        chain.log_counts(law, chains, a, b, t, t + F, 1.0)
                        - chain.log_counts(law, chains, b, b, t, t + F, 0.0)
                        + chain.tail(law, rows, chains, a, b, t, i)
                        - chain.tail(law, rows, chains, b, b, t, -1)
                    )
                    heads[n], tails[n] = a, b
                    n += 1
        j = draw_log(weight, n, rng.random())
        a, b = heads[j], tails[j]
        if a != b:
            chain.swap_tails(rows, chains, a, b, t + 1)
            used[b] = False
            n_free += 1
        if not used[a]:
            used[a] = True
            n_free -= 1
        chains.c[i] = a
        chain.add(law, rows, chains, t, i, a, 1.0)
        stale[a] = True
        if a == b == old and whole and fresh:
            terms[a], stale[a] = kept, False
    return rows.first[t + 1]


@kernel
def rejoin(law, rows, chains, rng, t, start):
    """Draw the continuations of chains from epoch t on; return the number done, -1: all.

    It is less than all if no slot is free. First each chain's part from t on goes to a chain that
    ends before, to its own or to a new one; then two chains may swap theirs. The former are ordered
    by their first rows, which are constant, not by slots, which are not.
    """
    T, C = chains.sizes.shape
    F = len(law.kappa)
    chain.survey(chains, t, t)
    used, met = np.empty(C, np.bool_), np.zeros(C, np.bool_)
    for k in range(C):
        used[k] = chains.last[k] >= 0 or chains.next[k] < T
    weight, heads, leader = np.empty(C + 1), np.empty(C + 1, np.int64), np.empty(C, np.int64)
    n_tails = 0
    for i in range(rows.first[t], len(chains.c)):
        k = chains.c[i]
        if k >= 0 and not met[k]:
            met[k] = True
            leader[n_tails] = i
            n_tails += 1
    for j in range(start, n_tails):
        k = chains.c[leader[j]]
        new = k if chains.last[k] < 0 else _free(used)
        if new < 0:
            return j
        n = 0
        for h in range(C):
            stays = h == k or (used[h] and chains.next[h] == T)
            fits = chains.last[h] >= 0 and chains.last[h] + F >= chains.next[k]
            if h == new or (stays and fits):
                weight[n] = chain.log_counts(law, chains, h, k, t, t + F - 1, 0.0)
                weight[n] += chain.tail(law, rows, chains, h, k, t, -1)
                heads[n] = h
                n += 1
        if n > 1:
            h = heads[draw_log(weight, n, rng.random())]
            if h != k:
                chain.swap_tails(rows, chains, k, h, t)
                used[h], used[k] = True, chains.last[k] >= 0
    for a in range(C):
        for b in range(a):
            goes = min(chains.last[a], chains.last[b]) >= 0
            fits = max(chains.next[a], chains.next[b]) < T
            fits = fits and chains.last[a] + F >= chains.next[b]
            if goes and fits and chains.last[b] + F >= chains.next[a]:
                gain = 0.0
                for head, k, sign in ((a, b, 1.0), (b, a, 1.0), (a, a, -1.0), (b, b, -1.0)):
                    gain += sign * chain.log_counts(law, chains, head, k, t, t + F - 1, 0.0)
                    gain += sign * chain.tail(law, rows, chains, head, k, t, -1)
                if rng.random() * (1.0 + math.exp(-abs(gain))) < math.exp(min(gain, 0.0)):
                    chain.swap_tails(rows, chains, a, b, t)
    return -1


@kernel
def draw_paths(law, chains, rng, path, out):
    """Draw the means of all live Gaussian chains given their rows.

    ``path`` (T, C, D) out: the means; ``out`` (3, 2, D) out: values, steps and births, and the sums
    of their squares about the means, of the steps, and of the means at birth.
    """
    T, C, D = path.shape
    mean, var = np.empty(T), np.empty(T)
    out[:] = 0.0
    chain.survey(chains, 0, 0)
    for k in range(C):
        for d in range(D if chains.next[k] < T else 0):
            b, end = chains.next[k], chains.end[k]
            for e in range(b, end + 1):
                m, P = 0.0, law.birth_var[d]
                if e > b:
                    m, P = mean[e - 1], var[e - 1] + law.drift[d]
                n = chains.stats[e, k, d]
                if n > 0.0:
                    gain = P / (P + law.noise[d] / n)
                    m += gain * (chains.stats[e, k, D + d] / n - m)
                    P = gain * law.noise[d] / n
                mean[e], var[e] = m, P
            later = 0.0
            for e in range(end, b - 1, -1):
                m, P = mean[e], var[e]
                if e < end:
                    J = P / (P + law.drift[d])
                    m += J * (later - m)
                    P *= 1.0 - J
                phi = rng.normal(m, math.sqrt(max(P, 0.0)))
                path[e, k, d] = phi
                n, total = chains.stats[e, k, d], chains.stats[e, k, D + d]
                out[0, 0, d] += n
                square = chains.stats[e, k, 2 * D + d]
                out[0, 1, d] += max(square - phi * (2.0 * total - n * phi), 0.0)
                if e < end:
                    out[1, 0, d] += 1.0
                    out[1, 1, d] += (later - phi) ** 2
                later = phi
            out[2, 0, d] += 1.0
            out[2, 1, d] += later * later
