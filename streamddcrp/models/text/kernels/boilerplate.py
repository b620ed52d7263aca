"""Boilerplate in the text engine: set aside when a text is read, taken out of tables when found.

How it is found: `streamddcrp.data.kernels.boilerplate`. Its surprise is that of words that come in
their part of all words.
"""

import math

from streamddcrp.compilation import uncounted
from streamddcrp.data.kernels.boilerplate import choose, next_look
from streamddcrp.models.text.kernels.layout import ASIDE, N_LIVE, N_SEEN, NEXT_LOOK
from streamddcrp.models.text.kernels.tables import drop, find, strike


@uncounted
def set_aside(words, doc, n):
    """Put boilerplate behind the other words of a document; return how many these are."""
    j = 0
    while j < n:
        w = doc[j]
        if w >= 0 and words.aside[w] > 0.0:
            n -= 1
            for i in range(j, n):
                doc[i] = doc[i + 1]
            doc[n] = w
        else:
            j += 1
    return n


@uncounted
def surprise_aside(words, sums, doc, U, n_aside):
    """Return the surprise of ``n_aside`` words behind the U others, and of these being none."""
    out = -U * math.log1p(-sums[ASIDE])
    for j in range(U, U + n_aside):
        out -= math.log(words.aside[doc[j]])
    return out


@uncounted
def leave_out(words, postings, tables, window, counts, w):
    """Take a word out of all tables, and put it behind the others in the texts of the window."""
    for i in range(counts[N_LIVE]):
        k = tables.live[i]
        p = find(words, postings, w, k)
        if p >= 0:
            tables.n_tokens[k] -= postings.copies[p]
            strike(words, postings, tables, counts, k, postings.at[p])
            drop(words, postings, counts, w, p)
    text, mask = window.text, len(window.text) - 1
    for at in range(len(window.table)):
        start, last, j = window.start[at], window.length[at] - 1, 0
        while j <= last and text[(start + j) & mask] != w:
            j += 1
        if j <= last:
            for i in range(j, last):
                text[(start + i) & mask] = text[(start + i + 1) & mask]
            text[(start + last) & mask] = w
            window.length[at] -= 1
            window.aside[at] += 1


@uncounted
def find_boilerplate(words, postings, tables, window, counts, sums):
    """Set boilerplate of the newest texts aside; return what part of all words is newly found."""
    seen = counts[N_SEEN]
    counts[NEXT_LOOK] = next_look(seen)
    sums[ASIDE], fresh = choose(words, window, seen)
    for w in range(len(words.aside)):
        if words.aside[w] < 0.0:
            words.aside[w] *= -1.0
            leave_out(words, postings, tables, window, counts, w)
    return fresh
