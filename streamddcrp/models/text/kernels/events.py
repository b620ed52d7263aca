"""Events of stories, each with what a reader wants to know of the story at that moment.

An event is of the newest document, so that events come in the order of time. A story of two
documents is a candidate, and born once it has enough. The words of an event are noted by number,
and spelled before any word can be forgotten.
"""

import math

from streamddcrp.compilation import leaf, uncounted
from streamddcrp.contract import BIRTH, record
from streamddcrp.models.text.kernels import layout
from streamddcrp.models.text.kernels.tables import find, list_words

UNKNOWN, NOTICED, BORN = 0, 1, 2  # has been reported: nothing, a candidate, its birth;
NAMED = 3  # this, too, and a label of it is final
LEAST_NOTICED = 2  # documents of a candidate
MANY = 10  # stories, from which on a word that most have does not name one
CANDIDATE, CLOSED = 7, 8  # kinds of events, beside those of `streamddcrp.contract`
BLANK = 32


@uncounted
def happened(tables, window, events, counts, k, kind, into, share):
    """Record an event of table ``k``, which has a ``share`` of the mass; return its place."""
    newest, size = counts[layout.NEWEST], len(window.t)
    at, n, t = (
        counts[layout.N_EVENTS] % len(events.kind),
        min(newest + 1, size),
        window.t[newest % size],
    )
    span = t - window.t[(newest + 1 - n) % size]
    record(events, counts, layout.N_EVENTS, kind, tables.id[k], into, newest, t)
    events.size[at] = tables.size[k]
    events.rate[at] = share * ((n - 1) / span if span > 0.0 else math.nan)
    events.first[at], events.last[at] = tables.born[k], tables.last_seen[k]
    return at


@leaf
def texts_of(tables, k):
    """Return how many documents table ``k`` has, copies of others among them."""
    return tables.size[k] + tables.copies[k]


@leaf
def grown(config, tables, k, size):
    """Return what is to be reported of a table because of its ``size``: a kind, or -1."""
    known = tables.reported[k]
    if known < BORN and size >= config.births:
        tables.reported[k] = BORN
        return BIRTH
    if known == UNKNOWN and size >= LEAST_NOTICED:
        tables.reported[k] = NOTICED
        return CANDIDATE
    return -1


@leaf
def of_trade(df, n):
    """Return whether most of ``n`` stories have a word that ``df`` of them have."""
    return 2 * df > n >= MANY


@uncounted
def note_words(words, postings, tables, events, counts, k, at):
    """Note the words that set a table apart: c_kw log((c_kw / n_k) / p_w) is largest.

    Words of the trade are left out where there are others.
    """
    gain, word, n = events.gain, events.word[at], 0
    listed, plain = list_words(postings, tables, k, words.listed), False
    for j in range(listed):
        plain |= not of_trade(words.df[words.listed[j]], counts[layout.N_LIVE])
    for j in range(listed):
        w = words.listed[j]
        copies = postings.copies[find(words, postings, w, k)]
        if copies == 0 or (plain and of_trade(words.df[w], counts[layout.N_LIVE])):
            continue
        part = copies * counts[layout.SUM_DF] / (tables.n_tokens[k] * words.df[w])
        new = copies * math.log(part)
        if n == layout.N_SAID and new <= gain[n - 1]:
            continue
        i = min(n, layout.N_SAID - 1)
        n = i + 1
        while i > 0 and gain[i - 1] < new:
            gain[i], word[i] = gain[i - 1], word[i - 1]
            i -= 1
        gain[i], word[i] = new, w
    events.n_words[at], events.said_length[at] = n, 0


@uncounted
def note_example(tables, window, events, counts, k, at):
    """Copy the beginning of the most typical text of a table, or else of its newest one."""
    best, out, size = 0, events.example[at], len(window.table)
    for e in range(layout.N_EXAMPLES):
        if tables.fit[k, e] > tables.fit[k, best]:
            best = e
    n = 0
    if tables.fit[k, best] > -math.inf:
        n = min(tables.example_length[k, best], len(out))
        for j in range(n):
            out[j] = tables.example[k, best, j]
    else:
        i, mask = counts[layout.NEWEST], len(window.shown) - 1
        oldest = max(tables.born[k], i + 1 - size)
        while i > oldest and window.table[i % size] != k:
            i -= 1
        if window.table[i % size] == k:
            n = min(window.shown_length[i % size], len(out))
            for j in range(n):
                out[j] = window.shown[(window.shown_start[i % size] + j) & mask]
    events.example_length[at] = n


@uncounted
def report(words, postings, tables, window, events, counts, sums, k, kind, into):
    """Record an event of table ``k``, with its words and an example."""
    share = tables.mass[k] / sums[layout.TOTAL] if sums[layout.TOTAL] > 0.0 else 0.0
    at = happened(tables, window, events, counts, k, kind, into, share)
    events.size[at], events.copies[at] = texts_of(tables, k), tables.copies[k]
    note_words(words, postings, tables, events, counts, k, at)
    note_example(tables, window, events, counts, k, at)


@uncounted
def spell(events, counts, lexicon):
    """Write out the words of the events since the last time, as many as there is room for."""
    end = counts[layout.N_EVENTS]
    for number in range(max(counts[layout.N_SPELLED], end - len(events.kind)), end):
        at = number % len(events.kind)
        said, n = events.said[at], 0
        for i in range(events.n_words[at]):
            w = events.word[at, i]
            length = lexicon.length[w]
            if n + (i > 0) + length > len(said):
                break
            if i > 0:
                said[n] = BLANK
                n += 1
            for j in range(length):
                said[n + j] = (lexicon.letters[w, j >> 3] >> ((j & 7) << 3)) & 255
            n += length
        events.said_length[at] = n
    counts[layout.N_SPELLED] = end
