"""Copies of texts: the words of an earlier one, but for some that were changed.

Near copies share the two words that a hash puts first, for some of several hashes. How likely a
text is one is (5) of docs/math/texts.md.
"""

import math

import numpy as np

from streamddcrp.compilation import entry, leaf, uncounted
from streamddcrp.numerics import copy_row, natural

MASK = (1 << 52) - 1
ODD = 0x2545F4914F6CD
COPIED, CHANGED = 0.1, 0.1  # part of the texts that are copies, and of their words changed
NEAREST = 3  # texts of the same code that are compared
N_HASHES = 5  # codes of a text: one of all words, and of the first two by four hashes
WITNESSES = 64  # newest texts with a word that say which words come with it
N_SEEN, N_WHOLE, N_PLACES = 0, 1, 2  # texts; originals in reach; words in the index
PEEK, LEARN, KNOWN = 0, 1, 2  # what is done with a text: KNOWN is learned and no copy


@leaf
def hash_of(w):
    """Return a number below 2^52 for a word."""
    x = ((np.int64(w) + 1) * 0x9E3779B97F4A7) & MASK
    return (x ^ (x >> 27)) * 0x3F58476D1CE4D & MASK


@leaf
def codes_of(text, start, U, every, codes, second):
    """Write numbers that texts share: of the same words, and of the first two by some hashes.

    These are of the first ``U`` of ``every`` words in a ring; ``second`` is work space.
    """
    mask, whole = len(text) - 1, np.int64(0)
    codes[:], second[:] = MASK, MASK
    for j in range(every):
        x = hash_of(text[natural(start + j & mask)])
        whole = (whole + x) & MASK
        for r in range(1, N_HASHES if j < U else 1):
            x = x * ODD & MASK
            if x < codes[r]:
                codes[r], second[r] = x, codes[r]
            elif x < second[r]:
                second[r] = x
    codes[0], second[0] = whole, 0
    for r in range(N_HASHES):
        codes[r] = 3 * codes[r] + second[r]


@leaf
def odds_of_copy(shared, changed, n):
    """Return (5) without the probabilities of the shared words, for one of ``n`` texts."""
    known = shared * math.log(1.0 - CHANGED) + changed * math.log(CHANGED)
    return known + math.log(COPIED / n)


@uncounted
def _compare(index, at, size):
    """Return how many words the new text and text ``at`` share, and how many are in one alone."""
    shared = 0.0
    for p in range(index.start[at], index.start[at] + index.length[at]):
        shared += min(index.times[p], index.amount[index.slot[index.text[p]]])
        size += index.times[p]
    return shared, size - 2.0 * shared


@uncounted
def _gain(index, at, U, size, n, first, exact):
    """Return (5) for the new text, whose words are in ``slot``, and text ``at``."""
    text, start, length = index.text, index.start[at], index.length[at]
    shared, changed = _compare(index, at, size)
    if 2.0 * changed > shared:
        return 0.0
    if exact and changed == 0:
        return math.inf
    odds = out = odds_of_copy(shared, changed, n)
    for j in range(length):
        s = index.slot[text[start + j]]
        if s > 0:
            index.told[s] = index.held[text[start + j]] / n
            out -= math.log(index.told[s])
    if out <= 0.0:
        return 0.0
    for s in range(U + 1):
        index.mean[s] = 0.0
    both = 0
    for i in range(length):  # a word that comes with the others says less
        own = index.slot[text[start + i]]
        if own == 0:
            continue
        index.counted[: U + 1] = 0
        n_with, seen, p = 1, 0, index.last[text[start + i]]
        while p >= 0 and seen < WITNESSES and index.owner[p] >= first:
            r, seen = index.owner[p], seen + 1
            if r != at:
                n_with += 1
                for j in range(index.length[r]):
                    index.counted[index.slot[text[index.start[r] + j]]] += 1
            p = index.before[p]
        both += 1
        index.counted[own] = 0
        for s in range(1, U + 1):
            index.mean[s] += index.counted[s] / n_with
    for j in range(length):
        s = index.slot[text[start + j]]
        if s > 0:
            odds -= math.log(max(index.told[s], index.mean[s] / max(both - 1, 1)))
    return odds


@uncounted
def _copied(index, numbers, end, U, size, first, exact):
    """Return the text that the new one at ``end`` copies, -1: none, and the surprise of that."""
    codes, n, best, most, surprise = index.codes[0], numbers[N_WHOLE], -1, 0.0, 0.0
    for j in range(U):
        index.slot[index.text[end + j]], index.amount[1 + j] = 1 + j, index.times[end + j]
    for r in range(N_HASHES):
        at, left = index.newest[codes[r] % len(index.newest), r], NEAREST
        while at >= first and left > 0 and n > 0:
            if index.code[at, r] == codes[r] and at != best:
                gain, left = _gain(index, at, U, size, n, first, exact), left - 1
                if gain > most or (gain == most and at > best >= 0):
                    best, most = at, gain
            at = index.older[at, r]
    if best >= 0:
        _, changed = _compare(index, best, size)
        surprise = math.log(n / COPIED) - changed * math.log(CHANGED)
        for j in range(index.length[best]):
            index.slot[index.text[index.start[best] + j]] *= -1
        for j in range(U):
            if index.slot[index.text[end + j]] > 0:  # a word of the new one alone
                surprise += math.log(n / max(index.held[index.text[end + j]], 1))
    for j in range(U):
        index.slot[index.text[end + j]] = 0
    return best, surprise


@uncounted
def _link(index, i):
    for r in range(N_HASHES):
        bucket = index.code[i, r] % len(index.newest)
        index.older[i, r], index.newest[bucket, r] = index.newest[bucket, r], i


@entry
def link_again(index, n):
    """Link the first ``n`` texts by their codes, after ``newest`` has changed its length."""
    index.newest[:] = -1
    for i in range(n):
        if index.length[i] > 0:
            _link(index, i)


@entry
def find_copies(index, bags, numbers, reach, exact, mode, source, surprise):
    """Write the number of the text that each one copies, -1: none, and its surprise in nats.

    Only the last ``reach`` texts are known. ``exact``: texts of the same words are copies however
    likely these are.
    """
    offsets, words = bags.offsets, bags.words
    for d in range(len(offsets) - 1):
        i, end, U = numbers[N_SEEN], numbers[N_PLACES], offsets[d + 1] - offsets[d]
        source[d], surprise[d], size = -1, 0.0, 0.0
        for j in range(U):
            index.text[end + j] = words[offsets[d] + j]
            index.times[end + j] = bags.counts[offsets[d] + j]
            size += index.times[end + j]
        codes_of(index.text, end, U, U, index.codes[0], index.codes[1])
        if mode != KNOWN and U > 0:
            first = max(0, i + 1 - reach)
            source[d], surprise[d] = _copied(index, numbers, end, U, size, first, exact)
        if mode == PEEK:
            continue
        index.start[i], index.length[i] = end, 0
        if U > 0 and source[d] < 0:
            index.length[i] = U
            copy_row(index.code[i], index.codes[0])
            _link(index, i)
            for p in range(end, end + U):
                w = index.text[p]
                index.before[p], index.last[w], index.owner[p] = index.last[w], p, i
                index.held[w] += 1
            numbers[N_PLACES] += U
            numbers[N_WHOLE] += 1
        numbers[N_SEEN] += 1
        gone = i + 1 - reach
        if gone >= 0 and index.length[gone] > 0:
            for p in range(index.start[gone], index.start[gone] + index.length[gone]):
                index.held[index.text[p]] -= 1
            numbers[N_WHOLE] -= 1
