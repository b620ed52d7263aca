"""Copies: documents of the words of one in the window, but for some that were changed.

A text that is sent on a thousand times says what one author said. So the newest copy takes the
place of the one before: it has its words in their table, and its weight is that of now; only the
number of copies grows. The older one has no words any more, and the label of the newest.
"""

import math

import numpy as np

from streamddcrp.compilation import leaf, uncounted
from streamddcrp.contract import LABEL, LABEL_PROB
from streamddcrp.data.kernels.copies import N_HASHES, NEAREST, codes_of, odds_of_copy
from streamddcrp.models.text.kernels.clock import shift, weight_now
from streamddcrp.models.text.kernels.evidence import smoothing, word_scale
from streamddcrp.models.text.kernels.layout import CONCENTRATION, N_SEEN, TOTAL
from streamddcrp.models.text.kernels.tables import extend, find
from streamddcrp.numerics import natural


@uncounted
def is_same(window, at, doc, n):
    """Whether the first ``n`` words of a document are those of one of the window."""
    start, mask, j = window.start[at], len(window.text) - 1, 0
    while j < n and window.text[start + j & mask] == doc[j]:
        j += 1
    return j == n


@uncounted
def gain_of_copy(config, words, postings, tables, window, counts, sums, at, U):
    """Return (5) for a document whose words are marked, and that of the window in slot ``at``."""
    mask, start, n, k = len(window.text) - 1, window.start[at], window.length[at], window.table[at]
    shared = 0
    for j in range(n):
        shared += words.mark[natural(window.text[natural(start + j & mask)])]
    changed = U + n - 2 * shared
    if 2 * changed > shared:
        return 0.0
    B, scale, b = sums[CONCENTRATION], word_scale(config, counts, sums), smoothing(config, sums)
    new, per = (B + config.discount * tables.n_words[k]) * scale, 1.0 / (B + tables.n_tokens[k])
    here = min(counts[N_SEEN], len(window.table))
    out = odds_of_copy(shared, changed, here)
    for j in range(n):
        w = window.text[natural(start + j & mask)]
        if words.mark[w] > 0:
            c = postings.copies[find(words, postings, w, k)]
            own = (c - config.discount + new * (words.df[w] + b)) * per
            out -= math.log(max(own, words.held[w] / here))
    return out


@uncounted
def find_copy(config, words, postings, tables, window, counts, sums, scratch, doc, U, every):
    """Return the document of the window that this one copies; -1: none."""
    size, codes, seen = len(window.table), scratch.codes[0], counts[N_SEEN]
    codes[:] = 0
    if not config.copies or U == 0:
        return np.int64(-1)
    codes_of(doc, 0, U, every, codes, scratch.codes[1])
    for r in range(N_HASHES):
        codes[r] %= size
    for j in range(U):
        if doc[j] >= 0:
            words.mark[doc[j]] = 1
    best, most, r = np.int64(-1), 0.0, 0
    while r < N_HASHES:
        at, before, left = np.int64(window.newest[codes[r], r]), seen, size if r == 0 else NEAREST
        while at >= 0 and left > 0:
            i = before - 1 - (before - 1 - at) % size
            if i < 0 or i <= seen - size:
                break
            if window.table[at] >= 0 and i != best:
                left -= 1
                if r > 0:
                    gain = gain_of_copy(
                        config, words, postings, tables, window, counts, sums, at, U
                    )
                    if gain > most or (gain == most and i > best >= 0):
                        best, most = i, gain
                elif window.length[at] == U and is_same(window, at, doc, U):
                    best, r, left = i, N_HASHES, 0
            before, at = i, np.int64(window.older[at, r]) if r < N_HASHES else np.int64(-1)
        r += 1
    for j in range(U):
        if doc[j] >= 0:
            words.mark[doc[j]] = 0
    return best


@uncounted
def take_place(words, tables, window, counts, sums, i, old):
    """Let document ``i``, the newest, take the place of its copy ``old``."""
    size, mask = len(window.table), len(window.text) - 1
    at, was = i % size, old % size
    k = window.table[was]
    for j in range(window.length[was] + window.aside[was]):
        words.held[window.text[window.start[was] + j & mask]] -= 1
    mass, weight = tables.mass[k], window.weight[was]
    if tables.masses.shape[0] > 0:
        weight = weight_now(window.weights, sums, was)
        shift(tables.masses, window.weights, sums, k, was, -1.0)
        shift(tables.masses, window.weights, sums, k, at, 1.0)
    tables.mass[k] = max(mass - weight, 0.0) + window.weight[at]
    sums[TOTAL] += tables.mass[k] - mass
    window.table[at], window.copies[at] = k, window.copies[was] + 1
    tables.copies[k] += 1
    window.table[was], window.length[was], window.aside[was] = -1, 0, 0
    window.newer[was] = i
    extend(tables, k, i, window.t[at])


@uncounted
def newest_of(window, counts, i):
    """Return the newest copy of a document, which has its words and its table."""
    size = len(window.table)
    while i < window.newer[i % size] <= counts[N_SEEN]:
        i = window.newer[i % size]
    return i


@leaf
def follow(tables, weight, top, best, k, out):
    """Predict that a document goes with its copy in table ``k``."""
    most = math.exp(-top)
    if best >= 0:
        most = max(most, weight[best])
    out[LABEL], out[LABEL_PROB] = tables.id[k], out[LABEL_PROB] * weight[k] / most
