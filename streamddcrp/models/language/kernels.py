"""Compiled passes over tokens: weights of equal words before each, and derived quantities.

``match`` is sum_{j<i, w_j=w_i} f_ij and ``weight`` is F_i = sum_{j<i} f_ij, j in the same document.
"""

import math

import numpy as np

from streamddcrp.compilation import inner, kernel


@kernel
def fade(word, t, scale, mass, seen, total, out_match, out_weight):
    """Exponential decay: one sum per word and a total, faded when read.

    ``mass[v]`` is the weight of word v at time ``seen[v]``; ``total`` is F and its time. An
    infinite scale is no decay, without rounding.
    """
    all_mass, now = total[0], total[1]
    for i in range(word.size):
        v = word[i]
        all_mass *= math.exp((now - t[i]) / scale)
        now = t[i]
        own = mass[v] * math.exp((seen[v] - now) / scale)
        out_match[i] = own
        out_weight[i] = all_mass
        mass[v] = own + 1.0
        seen[v] = now
        all_mass += 1.0
    total[0], total[1] = all_mass, now


@kernel
def fade_documents(word, t, starts, scale, mass, seen, out_match, out_weight):
    """`fade` over separate documents; ``mass`` is zero before and after."""
    total = np.empty(2)
    for d in range(starts.size - 1):
        low, high = starts[d], starts[d + 1]
        if low == high:
            continue
        total[0], total[1] = 0.0, t[low]
        for i in range(low, high):
            seen[word[i]] = t[low]
        own = slice(low, high)
        fade(word[own], t[own], scale, mass, seen, total, out_match[own], out_weight[own])
        for i in range(low, high):
            mass[word[i]] = 0.0


@kernel
def fade_slopes(word, t, starts, scale, work, out_match, out_weight):
    """Differentiate what `fade_documents` gives by the scale a: sums of f_ij d_ij / a^2.

    A sum of f d fades over a gap h as e^{-h/a} (sum of f d + h sum of f). ``work`` (3, V).
    """
    mass, slope, seen = work[0], work[1], work[2]
    for d in range(starts.size - 1):
        low, high = starts[d], starts[d + 1]
        for i in range(low, high):
            v = word[i]
            mass[v] = slope[v] = 0.0
            seen[v] = t[low]
        all_mass = all_slope = 0.0
        for i in range(low, high):
            v = word[i]
            gap = t[i] - t[max(i - 1, low)]
            left = math.exp(-gap / scale)
            all_slope = left * (all_slope + gap * all_mass)
            all_mass *= left
            gap = t[i] - seen[v]
            left = math.exp(-gap / scale)
            slope[v] = left * (slope[v] + gap * mass[v])
            mass[v] *= left
            out_match[i] = slope[v] / scale / scale
            out_weight[i] = all_slope / scale / scale
            mass[v] += 1.0
            seen[v] = t[i]
            all_mass += 1.0


@inner
def _walk_back(place, low, here, table, previous, mask):
    """Sum the weights at ``here`` of a word's places, from its latest one down to ``low``."""
    own = 0.0
    while place >= low:
        own += table[here - place]
        place = previous[place & mask]
    return own


@kernel
def look_back(word, n, start, weights, last, previous, out_match, out_weight):
    """Any decay of the index distance: each word's earlier places, the latest first.

    ``n, start``: place of the first of ``word`` in the stream, and of the first token of its
    document. ``weights``, (W + 1,) each: f(d), and f(1) + ... + f(d). ``last`` (V,): latest place
    of each word, -1 for none. ``previous``, of a power of two of entries, at least W: at place p
    modulo that, the place before p of p's word.
    """
    table, prefix = weights
    width, mask = table.size - 1, previous.size - 1
    for i in range(word.size):
        v, here = word[i], n + i
        low = max(start, here - width)
        out_match[i] = _walk_back(last[v], low, here, table, previous, mask)
        out_weight[i] = prefix[min(here - start, width)]
        previous[here & mask] = last[v]
        last[v] = here


@kernel
def look_back_at(word, n, start, table, last, previous, out_match):
    """Compute `look_back` as if each word were the next token."""
    low, mask = max(start, n - table.size + 1), previous.size - 1
    for i in range(word.size):
        out_match[i] = _walk_back(last[word[i]], low, n, table, previous, mask)


@kernel
def within_reach(word, at, first, weights, out_match, out_weight):
    """Sum given weights: token ``at + i`` reaches back to ``first[i]``, oldest first."""
    k = 0
    for i in range(first.size):
        v, own, total = word[at + i], 0.0, 0.0
        for j in range(first[i], at + i):
            total += weights[k]
            if word[j] == v:
                own += weights[k]
            k += 1
        out_match[i] = own
        out_weight[i] = total


@kernel
def score(match, weight, g, alpha, totals, out_log_prob, out_open, out_tables):
    """docs/math/ddcrp.md (9): log p(w_i | w_<i), p(c_i = i | w), running expected number of tables.

    ``totals`` takes up the log evidence and the mean and variance of the number of tables.
    """
    evidence, mean, variance = totals[0], totals[1], totals[2]
    for i in range(match.size):
        opening = alpha * g[i]
        either = opening + match[i]
        q = opening / either
        out_log_prob[i] = math.log(either / (alpha + weight[i]))
        out_open[i] = q
        evidence += out_log_prob[i]
        mean += q
        variance += q * (1.0 - q)
        out_tables[i] = mean
    totals[0], totals[1], totals[2] = evidence, mean, variance


@kernel
def surface(match, weight, g, starts, alphas, out):
    """Log evidence of each document at each alpha; ``out`` has shape (documents, alphas)."""
    for d in range(starts.size - 1):
        for a in range(alphas.size):
            alpha, total = alphas[a], 0.0
            for i in range(starts[d], starts[d + 1]):
                total += math.log((alpha * g[i] + match[i]) / (alpha + weight[i]))
            out[d, a] = total


@kernel
def gradient(match, weight, match_slope, weight_slope, g, alpha, out):
    """Log evidence and its derivatives, docs/math/ddcrp.md (10), by log alpha and the decay."""
    value = by_alpha = by_parameter = 0.0
    for i in range(match.size):
        opening = alpha * g[i]
        either, total = opening + match[i], alpha + weight[i]
        value += math.log(either / total)
        by_alpha += opening / either - alpha / total
        by_parameter += match_slope[i] / either - weight_slope[i] / total
    out[0], out[1], out[2] = value, by_alpha, by_parameter
