"""Copies: documents of the words of one in the window, but for some that were changed.

A text that is sent on a thousand times says what one author said. So the newest copy takes the
place of the one before: it has its words in their table, and its weight is that of now; only the
number of copies grows. The older one has no words any more, and the label of the newest. Near
copies share the pair of words that a hash puts first, for some of several hashes; how likely a
document is one is equation (5) of docs/math/texts.md.
"""

import math

import numpy as np

from streamddcrp.compilation import leaf, uncounted
from streamddcrp.contract import LABEL, LABEL_PROB
from streamddcrp.models.text.kernels.clock import shift, weight_now
from streamddcrp.models.text.kernels.layout import CONCENTRATION, N_HASHES, N_SEEN, TOTAL
from streamddcrp.models.text.kernels.evidence import smoothing, word_scale
from streamddcrp.models.text.kernels.tables import extend, find

MASK = (1 << 52) - 1
CHANGED = 0.1  # words of a copy that were changed, a priori
PRIOR = 0.5
MOST = 8  # documents looked at by hash


@leaf
def hash_of(w):
    """Return a number below 2^52 for a word."""
    x = ((np.int64(w) + 1) * 0x9E3779B97F4A7) & MASK
    return (x ^ (x >> 27)) * 0x3F58476D1CE4D & MASK


@leaf
def codes_of(text, start, U, every, size, codes):
    """Write numbers that documents share: of the same words, and of the first two by some hashes.

    These are of the first ``U`` of ``every`` words in a ring.
    """
    mask = len(text) - 1
    codes[0] = 0
    for j in range(every):
        codes[0] = (codes[0] + hash_of(text[start + j & mask])) & MASK
    codes[0] %= size
    odd = np.int64(1)
    for r in range(1, N_HASHES):
        odd = odd * 0x2545F4914F6CD & MASK
        one = two = np.int64(MASK)
        for j in range(U):
            x = hash_of(text[start + j & mask]) * odd & MASK
            two = min(two, max(one, x))
            one = min(one, x)
        codes[r] = (3 * one + two) % size


@uncounted
def _is_same(window, at, doc, U):
    mask, j = len(window.text) - 1, 0
    while j < U and window.text[window.start[at] + j & mask] == doc[j]:
        j += 1
    return j == U == window.length[at]


@uncounted
def gain_of_copy(config, words, postings, tables, window, counts, sums, at, doc, U):
    """Return (5) for the words of ``doc``, marked, and the document of the window in slot ``at``."""
    mask, n, k = len(window.text) - 1, window.length[at], window.table[at]
    changed = U + n
    B, scale, b = sums[CONCENTRATION], word_scale(config, counts, sums), smoothing(config, sums)
    up, gain = B + config.discount * tables.n_words[k], 0.0
    per = 1.0 / (tables.n_tokens[k] + B)
    product = 1.0
    for j in range(n):
        w = window.text[window.start[at] + j & mask]
        if words.mark[w] > 0:
            p = find(words, postings, w, k)
            own = postings.copies[p] - config.discount + up * (words.df[w] + b) * scale
            product *= own * per
            changed -= 2
            if product < 1e-200:
                gain -= math.log(product)
                product = 1.0
    gain -= math.log(product)
    shared = (U + n - changed) // 2
    gain += shared * math.log(1.0 - CHANGED) + changed * math.log(CHANGED)
    return gain - math.log(min(counts[N_SEEN], len(window.table)) / PRIOR)


@uncounted
def find_copy(config, words, postings, tables, window, counts, sums, scratch, doc, U, every):
    """Return the document of the window that this one copies; -1: none."""
    size, codes = len(window.table), scratch.codes
    if not config.copies:
        codes[:] = 0
        return np.int64(-1)
    codes_of(doc, 0, U, every, size, codes)
    best, most = np.int64(-1), 0.0
    for r in range(N_HASHES if U > 1 else min(U, 1)):
        slot, before, looked = window.newest[codes[r], r], counts[N_SEEN], 0
        while slot >= 0:
            i = before - 1 - (before - 1 - slot) % size
            if i >= before or i < 0 or i <= counts[N_SEEN] - size:
                break
            at, before, slot = slot, i, window.older[slot, r]
            if window.table[at] < 0:
                continue
            if r == 0:
                if _is_same(window, at, doc, U):
                    return i
                continue
            looked += 1
            if looked > MOST:
                break
            for j in range(U):
                if doc[j] >= 0:
                    words.mark[doc[j]] = 1
            gain = gain_of_copy(config, words, postings, tables, window, counts, sums, at, doc, U)
            for j in range(U):
                if doc[j] >= 0:
                    words.mark[doc[j]] = 0
            if gain > most or (gain == most and i > best and best >= 0):
                best, most = i, gain
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
