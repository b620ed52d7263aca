"""Copies: documents of the same words, in their order, as one of the window.

A text that is sent on a thousand times says what one author said. So the newest copy takes the
place of the one before: it has its words in their table, and its weight is that of now; only the
number of copies grows. The older one has no words any more, and the label of the newest.
"""

import math

import numpy as np

from streamddcrp.compilation import leaf, uncounted
from streamddcrp.contract import LABEL, LABEL_PROB
from streamddcrp.models.text.kernels.clock import shift, weight_now
from streamddcrp.models.text.kernels.layout import N_SEEN, TOTAL
from streamddcrp.models.text.kernels.tables import extend

MASK = (1 << 52) - 1


@leaf
def code_of(doc, n):
    """Return a number that documents of the same words have."""
    code = np.int64(0)
    for j in range(n):
        x = ((np.int64(doc[j]) + 1) * 0x9E3779B97F4A7) & MASK
        code = (code + ((x ^ (x >> 27)) * 0x3F58476D1CE4D & MASK)) & MASK
    return code


@uncounted
def find_copy(window, counts, code, doc, U):
    """Return the newest document of the window with these words, of this code; -1: none."""
    size, mask = len(window.table), len(window.text) - 1
    i, before = window.newest[code % size], counts[N_SEEN]
    while U > 0 and max(counts[N_SEEN] - size, -1) < i < before:
        at = i % size
        if window.code[at] == code and window.table[at] >= 0 and window.length[at] == U:
            j = 0
            while j < U and window.text[window.start[at] + j & mask] == doc[j]:
                j += 1
            if j == U:
                return i
        i, before = window.older[at], i
    return -1


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
