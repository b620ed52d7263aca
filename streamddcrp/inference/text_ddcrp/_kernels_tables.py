"""Postings: which table holds which word how often, by word and by table.

The postings of a word stand side by side in a block of a power of two, those of a table are
chained. A posting moves when its block is enlarged or when another one is deleted.
"""

import numpy as np

from streamddcrp._numerics import uncounted_njit
from streamddcrp.inference.text_ddcrp._kernels_layout import (
    N_LIVE,
    N_SLOTS,
    N_WORDS,
    NEXT_ID,
    POSTINGS_END,
    SUM_DF,
    TOTAL,
)

__all__ = [
    "find",
    "free_table",
    "insert",
    "lift",
    "new_table",
    "put_back",
    "room_needed",
    "take_out",
    "tidy_word",
]


@uncounted_njit
def find(words, postings, w, k):
    """Return the posting of word ``w`` in table ``k``, or -1."""
    start = words.start[w]
    for p in range(start, start + words.df[w]):
        if postings.table[p] == k:
            return p
    return -1


@uncounted_njit
def room_needed(words, doc, U):
    """Return how many new postings four insertions of a document may take at most."""
    need = 0
    for j in range(U):
        w = doc[j]
        room = 1 << words.room[w] if words.room[w] >= 0 else 0
        if words.df[w] + 4 > room:
            need += 2 * room + 16
    return need


@uncounted_njit
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
def enlarge(words, postings, tables, counts, w):
    """Give a word a block of twice the size."""
    old, new = words.room[w], words.room[w] + 1
    q = postings.blocks[new]
    if q >= 0:
        postings.blocks[new] = postings.after[q]
    else:
        q = counts[POSTINGS_END]
        counts[POSTINGS_END] += 1 << new
    start = words.start[w]
    if old >= 0:
        for j in range(words.df[w]):
            move(postings, tables, start + j, q + j)
        postings.after[start], postings.blocks[old] = postings.blocks[old], start
    words.start[w], words.room[w] = q, new


@uncounted_njit
def append(words, postings, tables, counts, w, k):
    """Let table ``k`` hold word ``w``, which it did not, once."""
    df = words.df[w]
    if words.room[w] < 0 or df == 1 << words.room[w]:
        enlarge(words, postings, tables, counts, w)
    p, head = words.start[w] + df, tables.head[k]
    postings.table[p], postings.copies[p], postings.word[p] = k, 1, w
    postings.after[p], postings.before[p] = head, -1
    if head >= 0:
        postings.before[head] = p
    tables.head[k] = p
    tables.n_words[k] += 1
    words.df[w] = df + 1
    counts[SUM_DF] += 1
    if df == 0:
        counts[N_WORDS] += 1


@uncounted_njit
def delete(words, postings, tables, counts, p):
    """Take a posting away; the last one of its word takes its place."""
    k, w = postings.table[p], postings.word[p]
    after, before = postings.after[p], postings.before[p]
    if after >= 0:
        postings.before[after] = before
    if before >= 0:
        postings.after[before] = after
    else:
        tables.head[k] = after
    last = words.start[w] + words.df[w] - 1
    if p != last:
        move(postings, tables, last, p)
    tables.n_words[k] -= 1
    words.df[w] -= 1
    counts[SUM_DF] -= 1
    if words.df[w] == 0:
        counts[N_WORDS] -= 1


@uncounted_njit
def tidy_word(words, postings, w):
    """Give a word's block back if nothing holds the word; return whether that is so."""
    if words.df[w] > 0 or words.held[w] > 0:
        return False
    room = words.room[w]
    if room >= 0:
        start = words.start[w]
        postings.after[start], postings.blocks[room] = postings.blocks[room], start
        words.room[w] = -1
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
    tables.fit[k] = -np.inf
    return k


@uncounted_njit
def free_table(tables, counts, sums, k):
    """Give the slot of a table without words back."""
    sums[TOTAL] -= tables.mass[k]
    tables.mass[k] = 0.0
    last = counts[N_LIVE] - 1
    moved = tables.live[last]
    tables.live[tables.place[k]], tables.place[moved] = moved, tables.place[k]
    counts[N_LIVE] = last
    tables.free[counts[N_SLOTS] - last - 1] = k
