"""Compiled predictions of many documents: their paths, and words that are still to come."""

import math

import numpy as np

from streamddcrp.compilation import kernel
from streamddcrp.models.trees.kernels.topics import N_NODES, N_WORDS, SCALE, place


@kernel
def place_many(
    parent, level, counts, rows, mass, whole, real, offsets, words, n, eta, alpha, gamma, beam,
    rounds, tol, out_slot, out, out_levels,
):  # fmt: skip
    """Place documents without learning them.

    ``out_slot`` (N,): slot of the likeliest node; ``out`` (N, 3): its probability, the log
    evidence, the chance of a new path; ``out_levels`` (N, L): expected proportions of levels.
    """
    L, V = len(alpha), max(whole[N_WORDS], 1)
    C = beam * (L - 1) + 1
    longest = 0
    for d in range(len(offsets) - 1):
        longest = max(longest, offsets[d + 1] - offsets[d])
    chosen, chances = np.empty(C, np.int64), np.empty(C)
    levels, phis = np.empty((C, L)), np.empty((C, longest, L))
    for d in range(len(offsets) - 1):
        at, to = offsets[d], offsets[d + 1]
        E, evidence = place(
            parent, level, whole[N_NODES], L, words[at:to], n[at:to], counts, rows, mass,
            real[SCALE], eta, V, alpha, gamma, beam, rounds, tol, -1, -1, -1, chosen, chances,
            levels, phis,
        )  # fmt: skip
        best, p_new = 0, 0.0
        for e in range(E):
            if chances[e] > chances[best]:
                best = e
            if level[chosen[e]] < L:
                p_new += chances[e]
        out_slot[d] = chosen[best]
        out[d, 0], out[d, 1], out[d, 2] = chances[best], evidence, p_new
        for l in range(L):
            out_levels[d, l] = 0.0
        for e in range(E):
            total = 0.0
            for l in range(L):
                total += alpha[l] + levels[e, l]
            for l in range(L):
                out_levels[d, l] += chances[e] * (alpha[l] + levels[e, l]) / total


@kernel
def complete_many(
    parent, level, counts, rows, mass, whole, real, offsets, words, n, held_offsets, held, held_n,
    eta, alpha, gamma, beam, rounds, tol, out,
):  # fmt: skip
    """Log probability of held-out words given others of the same document, (N,).

    log sum_k q(k) prod_j sum_l E[theta_l] E[beta_l,w_j], expectations under the posterior given
    the document's given words: they have moved the proportions, and the topics of the path.
    Held-out words below 0 are unknown, and left out.
    """
    L, V, scale = len(alpha), max(whole[N_WORDS], 1), real[SCALE]
    C = beam * (L - 1) + 1
    longest = 0
    for d in range(len(offsets) - 1):
        longest = max(longest, offsets[d + 1] - offsets[d])
    chosen, chances, score = np.empty(C, np.int64), np.empty(C), np.empty(C)
    levels, phis = np.empty((C, L)), np.empty((C, longest, L))
    own = np.full(counts.shape[0], -1)  # where a word stands among the given ones
    for d in range(len(offsets) - 1):
        at, to = offsets[d], offsets[d + 1]
        E, _ = place(
            parent, level, whole[N_NODES], L, words[at:to], n[at:to], counts, rows, mass, scale,
            eta, V, alpha, gamma, beam, rounds, tol, -1, -1, -1, chosen, chances, levels, phis,
        )  # fmt: skip
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
                    s, total = eta[l], V * eta[l] + levels[e, l]
                    if level[i] == l + 1:
                        s += scale * counts[v, i]
                        total += scale * rows[i]
                        i = max(parent[i], 0)
                    if own[v] >= 0:
                        s += n[at + own[v]] * phis[e, own[v], l]
                    p += (alpha[l] + levels[e, l]) / whole_alpha * s / total
                score[e] += held_n[j] * math.log(p)
            top = max(top, score[e])
        total = 0.0
        for e in range(E):
            total += math.exp(score[e] - top)
        out[d] = top + math.log(total)
        for u in range(at, to):
            own[words[u]] = -1
