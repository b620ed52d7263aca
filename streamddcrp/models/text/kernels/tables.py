"""Postings: which table holds which word how often; words of tables.

The postings of a word stand in a block of a power of two. A word that few tables hold has its
postings side by side; one of a good part of the tables is wide: that of the table in slot k is at
place k of the block, and places without one count zero. So words that are everywhere are found
in one step, and weighed by columns. A posting moves when its block is enlarged or, if not wide,
when another one is deleted.

The words of a table are in ``postings.word``, in chained pieces of `PIECE` places: the first of
them points to the next piece, the others hold words. Only the first piece of a table is not full. A
posting knows where its word is in the list of its table.
"""

import numpy as np

from streamddcrp.compilation import leaf, uncounted
from streamddcrp.models.text.kernels import layout
from streamddcrp.numerics import natural

LEAST_WIDE = 16  # tables with a wide word
WIDE = 4  # one in so many slots, or more, holds a word that gets wide,
NARROW = 16  # and fewer one that does not stay so
PIECE = 16  # places of a piece of a table's list of words
FULL = PIECE - 1  # words of one


@leaf
def places(words, counts, w):
    """Return how many places of the block of a word may hold postings."""
    w = natural(w)
    return (
        min(1 << words.room[w], counts[layout.N_SLOTS]) if words.wide[w] else np.int64(words.df[w])
    )


@leaf
def find(words, postings, w, k):
    """Return the posting of word ``w`` in table ``k``, or -1."""
    w, table = natural(w), postings.table
    start = words.start[w]
    if words.wide[w]:
        return start + k if k < 1 << words.room[w] and table[natural(start + k)] == k else -1
    for p in range(natural(start), natural(start + words.df[w])):
        if table[p] == k:
            return np.int64(p)
    return -1


@uncounted
def room_needed(words, counts, doc, U):
    """Return how many new postings four insertions of a document may take at most."""
    need, slots = 0, counts[layout.N_SLOTS] + 4
    for j in range(U):
        w = natural(doc[j])
        room, df = 1 << words.room[w] if words.room[w] >= 0 else 0, words.df[w] + 4
        wide = words.wide[w] or (df >= LEAST_WIDE and WIDE * df >= counts[layout.N_SLOTS])
        if not words.wide[w] and df > room:
            need += 2 * room + 16
        if wide and slots > room:  # twice, if the slots pass a power of two meanwhile
            need += 4 * slots
    return need


@leaf
def lacking(postings, tables, events, counts, n_postings, n_listed, n_tables, n_events):
    """Return, as a sum of codes, which arrays are too short for so many more entries."""
    short = 0
    ends = counts[layout.POSTINGS_END] + n_postings, counts[layout.LISTS_END] + n_listed
    if max(ends[0], ends[1]) > len(postings.table):
        short += layout.SHORT_POSTINGS
    if counts[layout.N_LIVE] + n_tables > len(tables.id):
        short += layout.SHORT_TABLES
    if len(events.kind) < min(counts[layout.N_EVENTS] + n_events, layout.MOST_EVENTS):
        short += layout.SHORT_EVENTS
    return short


@leaf
def move(postings, p, q):
    """Move posting ``p`` to ``q``."""
    postings.table[q], postings.copies[q], postings.at[q] = (
        postings.table[p],
        postings.copies[p],
        postings.at[p],
    )


@uncounted
def resettle(words, postings, counts, w, new, wide):
    """Give a word another block, of size 2^new, wide or not."""
    q = postings.blocks[new]
    if q >= 0:
        postings.blocks[new] = postings.at[q]
    else:
        q = counts[layout.POSTINGS_END]
        counts[layout.POSTINGS_END] += 1 << new
    if wide:
        for j in range(q, q + (1 << new)):
            postings.table[j], postings.copies[j] = -1, 0
    old, start, n = words.room[w], words.start[w], 0
    if old >= 0:
        for p in range(start, start + (1 << old if words.wide[w] else words.df[w])):
            k = postings.table[p]
            if k >= 0:
                move(postings, p, q + (k if wide else n))
                n += 1
        postings.at[start], postings.blocks[old] = postings.blocks[old], start
    words.start[w], words.room[w], words.wide[w] = q, new, wide


@leaf
def make_room(words, postings, counts, w, k):
    """Make room for one more posting of a word, in table ``k``; return its place."""
    df, room, wide = words.df[w], words.room[w], words.wide[w]
    wide = wide or (df >= LEAST_WIDE and WIDE * df >= counts[layout.N_SLOTS])
    if wide and (not words.wide[w] or k >= 1 << room):
        room = 0
        while 1 << room < counts[layout.N_SLOTS]:
            room += 1
        resettle(words, postings, counts, w, room, True)
    elif not wide and (room < 0 or df == 1 << room):
        resettle(words, postings, counts, w, room + 1, False)
    return words.start[w] + (k if wide else df)


@leaf
def list_room(n):
    """Return how many places of lists ``n`` more words of a table may take at most."""
    return PIECE * (n // FULL + 2)


@leaf
def enlist(postings, tables, counts, k, w):
    """Append a word to the list of a table; return its place there."""
    n, head = tables.n_words[k] % FULL, tables.head[k]
    if n == 0:
        piece = counts[layout.LISTS_FREE]
        if piece >= 0:
            counts[layout.LISTS_FREE] = postings.word[piece]
        else:
            piece = counts[layout.LISTS_END]
            counts[layout.LISTS_END] += PIECE
        postings.word[piece], tables.head[k] = head, piece
        head = piece
    postings.word[head + 1 + n] = w
    tables.n_words[k] += 1
    return head + 1 + n


@uncounted
def strike(words, postings, tables, counts, k, at):
    """Take a word out of the list of a table: the last one takes its place."""
    head = tables.head[k]
    last = head + 1 + (tables.n_words[k] - 1) % FULL
    if at != last:
        w = postings.word[last]
        postings.word[at], postings.at[find(words, postings, w, k)] = w, at
    tables.n_words[k] -= 1
    if tables.n_words[k] % FULL == 0:
        tables.head[k] = postings.word[head]
        postings.word[head], counts[layout.LISTS_FREE] = counts[layout.LISTS_FREE], head


@uncounted
def list_words(postings, tables, k, out):
    """Write the words of a table, the newest piece first; return how many."""
    piece, left, n = tables.head[k], tables.n_words[k], 0
    while left > 0:
        m = (left - 1) % FULL + 1
        for j in range(m):
            out[n + j] = postings.word[piece + 1 + j]
        piece, n, left = postings.word[piece], n + m, left - m
    return n


@uncounted
def release_list(postings, tables, counts, k):
    """Empty the list of words of a table."""
    while tables.head[k] >= 0:
        head = tables.head[k]
        tables.head[k] = postings.word[head]
        postings.word[head], counts[layout.LISTS_FREE] = counts[layout.LISTS_FREE], head
    tables.n_words[k] = 0


@leaf
def append(words, postings, tables, counts, w, k):
    """Add word ``w``, which table ``k`` does not hold, to it once."""
    p = make_room(words, postings, counts, w, k)
    postings.table[p], postings.copies[p] = k, 1
    postings.at[p] = enlist(postings, tables, counts, k, w)
    words.df[w] += 1
    counts[layout.SUM_DF] += 1
    if words.df[w] == 1:
        counts[layout.N_WORDS] += 1


@leaf
def drop(words, postings, counts, w, p):
    """Take a posting of a word away; if it is not wide, the last one takes its place."""
    words.df[w] -= 1
    counts[layout.SUM_DF] -= 1
    last = words.start[w] + words.df[w]
    if words.wide[w]:
        postings.table[p], postings.copies[p] = -1, 0
        if NARROW * words.df[w] < counts[layout.N_SLOTS]:
            narrow(words, postings, w)
    elif p != last:
        move(postings, last, p)
    if words.df[w] == 0:
        counts[layout.N_WORDS] -= 1


@uncounted
def narrow(words, postings, w):
    """Put the postings of a wide word side by side, in the same block."""
    q = start = words.start[w]
    for p in range(start, start + (1 << words.room[w])):
        if postings.table[p] >= 0:
            if p != q:
                move(postings, p, q)
            q += 1
    words.wide[w] = False


@uncounted
def pour_words(words, postings, tables, counts, k, other):
    """Move all words of table ``k`` to another one."""
    n = list_words(postings, tables, k, words.listed)
    release_list(postings, tables, counts, k)
    for j in range(n):
        w = words.listed[j]
        p, q = find(words, postings, w, other), find(words, postings, w, k)
        if p >= 0:
            postings.copies[p] += postings.copies[q]
            drop(words, postings, counts, w, q)
            continue
        if words.wide[w] and other >= 1 << words.room[w]:
            narrow(words, postings, w)
            q = find(words, postings, w, k)
        if words.wide[w]:
            p = words.start[w] + other
            move(postings, q, p)
            postings.table[q], postings.copies[q], q = -1, 0, p
        postings.table[q] = other
        postings.at[q] = enlist(postings, tables, counts, other, w)


@uncounted
def tidy_word(words, postings, w):
    """Free the block of a word that nothing holds; return whether that is so."""
    if words.df[w] > 0 or words.held[w] > 0:
        return False
    room = words.room[w]
    if room >= 0:
        start = words.start[w]
        postings.at[start], postings.blocks[room] = postings.blocks[room], start
        words.room[w], words.wide[w] = -1, False
    words.aside[w] = 0.0
    return True


@uncounted
def insert(words, postings, tables, counts, k, doc, U):
    """Add the words of a document to a table."""
    for j in range(U):
        p = find(words, postings, doc[j], k)
        if p >= 0:
            postings.copies[natural(p)] += 1
        else:
            append(words, postings, tables, counts, doc[j], k)
    tables.n_tokens[k] += U
    tables.size[k] += 1


@uncounted
def take_out(words, postings, tables, counts, k, doc, U):
    """Take the words of a document out of its table."""
    for j in range(U):
        p = natural(find(words, postings, doc[j], k))
        postings.copies[p] -= 1
        if postings.copies[p] == 0:
            strike(words, postings, tables, counts, k, postings.at[p])
            drop(words, postings, counts, doc[j], p)
    tables.n_tokens[k] -= U
    tables.size[k] -= 1


@uncounted
def lift(words, postings, tables, counts, scratch, k, doc, U):
    """Take a document out of its table while it is weighed: postings may count zero."""
    for j in range(U):
        p = find(words, postings, doc[j], k)
        left = postings.copies[natural(p)] - 1
        scratch.at[j], scratch.gone[j], postings.copies[natural(p)] = p, left == 0, left
        if left == 0:
            tables.n_words[k] -= 1
            counts[layout.SUM_DF] -= 1
            if words.df[natural(doc[j])] == 1:
                counts[layout.N_WORDS] -= 1
    tables.n_tokens[k] -= U
    tables.size[k] -= 1


@uncounted
def put_back(words, postings, tables, counts, scratch, k, doc, U):
    """Undo `lift`."""
    for j in range(U):
        postings.copies[natural(scratch.at[j])] += 1
        if scratch.gone[j] == 1:
            scratch.gone[j] = 0
            tables.n_words[k] += 1
            counts[layout.SUM_DF] += 1
            if words.df[natural(doc[j])] == 1:
                counts[layout.N_WORDS] += 1
    tables.n_tokens[k] += U
    tables.size[k] += 1


@uncounted
def new_table(tables, counts, row, t):
    """Open an empty table for a document; return its slot."""
    free = counts[layout.N_SLOTS] - counts[layout.N_LIVE]
    if free > 0:
        k = np.int64(tables.free[free - 1])
    else:
        k = counts[layout.N_SLOTS]
        counts[layout.N_SLOTS] += 1
    tables.live[counts[layout.N_LIVE]], tables.place[k] = k, counts[layout.N_LIVE]
    counts[layout.N_LIVE] += 1
    tables.id[k] = counts[layout.NEXT_ID]
    counts[layout.NEXT_ID] += 1
    tables.mass[k], tables.head[k], tables.next_merge[k] = 0.0, -1, 3
    tables.next_split[k] = 8
    tables.n_tokens[k] = tables.n_words[k] = tables.size[k] = tables.in_window[k] = 0
    tables.copies[k] = 0
    tables.born[k], tables.last_seen[k] = row, row
    tables.born_t[k], tables.last_t[k] = t, t
    tables.reported[k] = tables.quiet[k] = tables.longest[k] = 0
    tables.closed[k], tables.theme[k] = False, -1
    tables.fit[k], tables.rival[k] = -np.inf, -1
    return k


@leaf
def extend(tables, k, i, t):
    """Let the span of table ``k`` hold document ``i`` at time ``t``."""
    if tables.last_seen[k] < i:
        tables.last_seen[k], tables.last_t[k] = i, t
    if tables.born[k] > i:
        tables.born[k], tables.born_t[k] = i, t


@leaf
def is_live(tables, counts, k):
    """Return whether there is a table in slot ``k``."""
    return tables.place[k] < counts[layout.N_LIVE] and tables.live[tables.place[k]] == k


@uncounted
def free_table(tables, counts, sums, k):
    """Free the slot of a table without words."""
    sums[layout.TOTAL] -= tables.mass[k]
    tables.mass[k] = 0.0
    G = tables.masses.shape[0]
    for g in range(G):
        sums[layout.N_SUMS + layout.TOTALS * G + g] -= tables.masses[g, k]
        tables.masses[g, k] = 0.0
    last = counts[layout.N_LIVE] - 1
    moved = tables.live[last]
    tables.live[tables.place[k]], tables.place[moved] = moved, tables.place[k]
    counts[layout.N_LIVE] = last
    tables.free[counts[layout.N_SLOTS] - last - 1] = k
