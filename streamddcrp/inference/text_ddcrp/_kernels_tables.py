"""Postings: which table holds which word how often, by word and by table.

The postings of a word stand in a block of a power of two, those of a table are chained. A word
that few tables hold has its postings side by side; one of a good part of the tables is wide: that
of the table in slot k stands at place k of the block, and places without one count zero. So words
that are everywhere are found in one step, and weighed by columns. A posting moves when its block is
enlarged or, if not wide, when another one is deleted.
"""

import numpy as np

from streamddcrp._numerics import leaf_njit, uncounted_njit
from streamddcrp.inference.text_ddcrp._kernels_layout import (
    N_LIVE,
    N_SLOTS,
    N_SUMS,
    N_WORDS,
    NEXT_ID,
    POSTINGS_END,
    SUM_DF,
    TOTAL,
    TOTALS,
)

__all__ = [
    "find",
    "free_table",
    "hand_over",
    "insert",
    "is_live",
    "lift",
    "new_table",
    "places",
    "put_back",
    "room_needed",
    "take_out",
    "tidy_word",
]


LEAST_WIDE = 16  # tables with a wide word
WIDE = 4  # one in so many slots, or more, holds a word that gets wide,
NARROW = 16  # and fewer one that does not stay so


@leaf_njit
def places(words, counts, w):
    """Return how many places of the block of a word are to be looked at."""
    return min(1 << words.room[w], counts[N_SLOTS]) if words.wide[w] else words.df[w]


@leaf_njit
def find(words, postings, w, k):
    """Return the posting of word ``w`` in table ``k``, or -1."""
    start = words.start[w]
    if words.wide[w]:
        return start + k if k < 1 << words.room[w] and postings.table[start + k] == k else -1
    for p in range(start, start + words.df[w]):
        if postings.table[p] == k:
            return p
    return -1


@uncounted_njit
def room_needed(words, counts, doc, U):
    """Return how many new postings four insertions of a document may take at most."""
    need, slots = 0, counts[N_SLOTS] + 4
    for j in range(U):
        w = doc[j]
        room, df = 1 << words.room[w] if words.room[w] >= 0 else 0, words.df[w] + 4
        wide = words.wide[w] or (df >= LEAST_WIDE and WIDE * df >= counts[N_SLOTS])
        if not words.wide[w] and df > room:
            need += 2 * room + 16
        if wide and slots > room:  # twice, if the slots pass a power of two meanwhile
            need += 4 * slots
    return need


@leaf_njit
def move(postings, tables, p, q):
    """Let posting ``p`` stand at ``q``."""
    k, after, before = postings.table[p], postings.after[p], postings.before[p]
    postings.table[q], postings.copies[q], postings.word[q] = (
        k,
        postings.copies[p],
        postings.word[p],
    )
    postings.after[q], postings.before[q] = after, before
    if after >= 0:
        postings.before[after] = q
    if before >= 0:
        postings.after[before] = q
    else:
        tables.head[k] = q


@uncounted_njit
def resettle(words, postings, tables, counts, w, new, wide):
    """Give a word another block, of size 2^new, wide or not."""
    q = postings.blocks[new]
    if q >= 0:
        postings.blocks[new] = postings.after[q]
    else:
        q = counts[POSTINGS_END]
        counts[POSTINGS_END] += 1 << new
    if wide:
        for j in range(q, q + (1 << new)):
            postings.table[j], postings.copies[j] = -1, 0
    old, start, n = words.room[w], words.start[w], 0
    if old >= 0:
        for p in range(start, start + (1 << old if words.wide[w] else words.df[w])):
            k = postings.table[p]
            if k >= 0:
                move(postings, tables, p, q + (k if wide else n))
                n += 1
        postings.after[start], postings.blocks[old] = postings.blocks[old], start
    words.start[w], words.room[w], words.wide[w] = q, new, wide


@leaf_njit
def make_room(words, postings, tables, counts, w, k):
    """Let there be a place for one more posting of a word, in table ``k``; return it."""
    df, room, wide = words.df[w], words.room[w], words.wide[w]
    wide = wide or (df >= LEAST_WIDE and WIDE * df >= counts[N_SLOTS])
    if wide and (not words.wide[w] or k >= 1 << room):
        room = 0
        while 1 << room < counts[N_SLOTS]:
            room += 1
        resettle(words, postings, tables, counts, w, room, True)
    elif not wide and (room < 0 or df == 1 << room):
        resettle(words, postings, tables, counts, w, room + 1, False)
    return words.start[w] + (k if wide else df)


@leaf_njit
def append(words, postings, tables, counts, w, k):
    """Let table ``k`` hold word ``w``, which it did not, once."""
    p, head = make_room(words, postings, tables, counts, w, k), tables.head[k]
    postings.table[p], postings.copies[p], postings.word[p] = k, 1, w
    postings.after[p], postings.before[p] = head, -1
    if head >= 0:
        postings.before[head] = p
    tables.head[k] = p
    tables.n_words[k] += 1
    words.df[w] += 1
    counts[SUM_DF] += 1
    if words.df[w] == 1:
        counts[N_WORDS] += 1


@leaf_njit
def delete(words, postings, tables, counts, p):
    """Take a posting away; if its word is not wide, the last one takes its place."""
    k, w = postings.table[p], postings.word[p]
    after, before = postings.after[p], postings.before[p]
    if after >= 0:
        postings.before[after] = before
    if before >= 0:
        postings.after[before] = after
    else:
        tables.head[k] = after
    tables.n_words[k] -= 1
    words.df[w] -= 1
    counts[SUM_DF] -= 1
    last = words.start[w] + words.df[w]
    if words.wide[w]:
        postings.table[p], postings.copies[p] = -1, 0
        if NARROW * words.df[w] < counts[N_SLOTS]:
            narrow(words, postings, tables, w)
    elif p != last:
        move(postings, tables, last, p)
    if words.df[w] == 0:
        counts[N_WORDS] -= 1


@uncounted_njit
def narrow(words, postings, tables, w):
    """Let the postings of a wide word stand side by side, in the same block."""
    q = start = words.start[w]
    for p in range(start, start + (1 << words.room[w])):
        if postings.table[p] >= 0:
            if p != q:
                move(postings, tables, p, q)
            q += 1
    words.wide[w] = False


@uncounted_njit
def hand_over(words, postings, tables, k, other):
    """Let the first posting of table ``k`` be one of another table, which lacks its word."""
    w = postings.word[tables.head[k]]
    if words.wide[w] and other >= 1 << words.room[w]:
        narrow(words, postings, tables, w)
    p = tables.head[k]
    if words.wide[w]:
        q, p = p, words.start[w] + other
        move(postings, tables, q, p)
        postings.table[q], postings.copies[q] = -1, 0
    after, head = postings.after[p], tables.head[other]
    tables.head[k], tables.head[other] = after, p
    if after >= 0:
        postings.before[after] = -1
    postings.table[p], postings.after[p], postings.before[p] = other, head, -1
    if head >= 0:
        postings.before[head] = p
    tables.n_words[k] -= 1
    tables.n_words[other] += 1


@uncounted_njit
def tidy_word(words, postings, w):
    """Give a word's block back if nothing holds the word; return whether that is so."""
    if words.df[w] > 0 or words.held[w] > 0:
        return False
    room = words.room[w]
    if room >= 0:
        start = words.start[w]
        postings.after[start], postings.blocks[room] = postings.blocks[room], start
        words.room[w], words.wide[w] = -1, False
    return True


@uncounted_njit
def insert(words, postings, tables, counts, k, doc, U):
    """Add the words of a document to a table."""
    for j in range(U):
        p = find(words, postings, doc[j], k)
        if p >= 0:
            postings.copies[p] += 1
        else:
            append(words, postings, tables, counts, doc[j], k)
    tables.n_tokens[k] += U
    tables.size[k] += 1


@uncounted_njit
def take_out(words, postings, tables, counts, k, doc, U):
    """Take the words of a document out of its table."""
    for j in range(U):
        p = find(words, postings, doc[j], k)
        postings.copies[p] -= 1
        if postings.copies[p] == 0:
            delete(words, postings, tables, counts, p)
    tables.n_tokens[k] -= U
    tables.size[k] -= 1


@uncounted_njit
def lift(words, postings, tables, counts, scratch, k, doc, U):
    """Take a document out of its table for the while it is weighed: postings may count zero."""
    for j in range(U):
        w = doc[j]
        p = find(words, postings, w, k)
        scratch.at[j] = p
        postings.copies[p] -= 1
        if postings.copies[p] == 0:
            scratch.gone[j] = 1
            tables.n_words[k] -= 1
            counts[SUM_DF] -= 1
            if words.df[w] == 1:
                counts[N_WORDS] -= 1
    tables.n_tokens[k] -= U
    tables.size[k] -= 1


@uncounted_njit
def put_back(words, postings, tables, counts, scratch, k, doc, U):
    """Undo `lift`."""
    for j in range(U):
        postings.copies[scratch.at[j]] += 1
        if scratch.gone[j] == 1:
            scratch.gone[j] = 0
            tables.n_words[k] += 1
            counts[SUM_DF] += 1
            if words.df[doc[j]] == 1:
                counts[N_WORDS] += 1
    tables.n_tokens[k] += U
    tables.size[k] += 1


@uncounted_njit
def new_table(tables, counts, row, t):
    """Open an empty table for a document; return its slot."""
    free = counts[N_SLOTS] - counts[N_LIVE]
    if free > 0:
        k = np.int64(tables.free[free - 1])
    else:
        k = counts[N_SLOTS]
        counts[N_SLOTS] += 1
    tables.live[counts[N_LIVE]], tables.place[k] = k, counts[N_LIVE]
    counts[N_LIVE] += 1
    tables.id[k] = counts[NEXT_ID]
    counts[NEXT_ID] += 1
    tables.mass[k], tables.head[k], tables.next_merge[k] = 0.0, -1, 3
    tables.n_tokens[k] = tables.n_words[k] = tables.size[k] = tables.in_window[k] = 0
    tables.born[k], tables.last_seen[k] = row, row
    tables.born_t[k], tables.last_t[k] = t, t
    tables.told[k] = False
    tables.fit[k], tables.rival[k] = -np.inf, -1
    return k


@leaf_njit
def is_live(tables, counts, k):
    """Tell whether there is a table in slot ``k``."""
    return tables.place[k] < counts[N_LIVE] and tables.live[tables.place[k]] == k


@uncounted_njit
def free_table(tables, counts, sums, k):
    """Give the slot of a table without words back."""
    sums[TOTAL] -= tables.mass[k]
    tables.mass[k] = 0.0
    G = tables.masses.shape[0]
    for g in range(G):
        sums[N_SUMS + TOTALS * G + g] -= tables.masses[g, k]
        tables.masses[g, k] = 0.0
    last = counts[N_LIVE] - 1
    moved = tables.live[last]
    tables.live[tables.place[k]], tables.place[moved] = moved, tables.place[k]
    counts[N_LIVE] = last
    tables.free[counts[N_SLOTS] - last - 1] = k
