"""One document after the other: placed on arrival, visited again later, then final."""

import math

import numpy as np
from numba import njit

from streamddcrp._numerics import uncounted_njit
from streamddcrp.inference.text_ddcrp._kernels import best_of, describe, weigh, word_scale
from streamddcrp.inference.text_ddcrp._kernels_layout import (
    B_TABLES,
    B_TOKENS,
    BIRTH,
    CONCENTRATION,
    FINAL_LABEL,
    GROWTH,
    LABEL,
    LAST,
    MOST_EVENTS,
    N_EVENTS,
    N_LIVE,
    N_SEEN,
    POSTINGS_END,
    SHORT_DOCUMENT,
    SHORT_EVENTS,
    SHORT_POSTINGS,
    SHORT_TABLES,
    SHORT_TEXT,
    TEXT_END,
    TEXT_FIRST,
    TIME,
    TOTAL,
)
from streamddcrp.inference.text_ddcrp._kernels_moves import record, retire, try_merge
from streamddcrp.inference.text_ddcrp._kernels_tables import (
    find,
    free_table,
    insert,
    new_table,
    room_needed,
    take_out,
    tidy_word,
)

__all__ = ["predict_document", "step_documents"]

SWEEP = 50  # documents between two looks for tables to retire


@uncounted_njit
def advance(config, tables, window, counts, sums, t):
    """Let the time be ``t``: what arrived before weighs less."""
    elapsed = 1.0 if not config.clocked else (t - sums[TIME]) if counts[N_SEEN] > 0 else 0.0
    sums[TIME] = t
    exponent = elapsed / config.decay
    if exponent < 200.0:
        sums[GROWTH] *= math.exp(exponent)
        if sums[GROWTH] < 1e100:
            return
        factor = 1.0 / sums[GROWTH]
    else:
        factor = math.exp(-min(exponent, 700.0)) / sums[GROWTH]
    sums[GROWTH], total = 1.0, 0.0
    for i in range(counts[N_LIVE]):
        k = tables.live[i]
        tables.mass[k] *= factor
        total += tables.mass[k]
    for i in range(len(window.weight)):
        window.weight[i] *= factor
    sums[TOTAL] = total


@uncounted_njit
def learn_concentration(config, words, postings, tables, counts, sums, k, doc, U):
    """Move B towards the stationary point of the predictive density of a document in its table."""
    B, d, scale = sums[CONCENTRATION], config.discount, word_scale(config, counts)
    spread = B + d * tables.n_words[k]
    news = 0.0
    for j in range(U):
        p = find(words, postings, doc[j], k)
        if p >= 0:
            p_w = (words.df[doc[j]] + config.smoothing) * scale
            news += B * p_w / (spread * p_w + max(postings.count[p] - d, 0.0))
        else:
            news += B / spread
    sums[B_TABLES] += news
    sums[B_TOKENS] += U / (B + tables.n_tokens[k] + 0.5 * U)
    sums[CONCENTRATION] = max(1.0, sums[B_TABLES] / sums[B_TOKENS])


@uncounted_njit
def seat(config, words, postings, tables, window, events, counts, sums, scratch, i, k, doc, U):
    """Put document ``i`` into table ``k``."""
    at = i % len(window.table)
    insert(words, postings, tables, counts, k, doc, U)
    tables.mass[k] += window.weight[at]
    sums[TOTAL] += window.weight[at]
    tables.in_window[k] += 1
    window.table[at] = k
    if tables.last_seen[k] < i:
        tables.last_seen[k], tables.last_t[k] = i, window.t[at]
    if tables.born[k] > i:
        tables.born[k], tables.born_t[k] = i, window.t[at]
    if tables.size[k] >= tables.next_merge[k]:
        row, t = counts[N_SEEN], sums[TIME]
        try_merge(config, words, postings, tables, window, events, counts, sums, scratch, k, row, t)


@uncounted_njit
def recall_words(window, scratch, at):
    """Copy the words of a document of the window; return how many they are."""
    U, mask = window.length[at], len(window.text) - 1
    for j in range(U):
        scratch.doc[j] = window.text[(window.start[at] + j) & mask]
    return U


@uncounted_njit
def place(config, words, postings, tables, window, events, counts, sums, scratch, doc, U, t, out):
    """Seat a new document and write what was predicted for it."""
    i, mask = counts[N_SEEN], len(window.text) - 1
    at = i % len(window.table)
    window.start[at], window.length[at], window.t[at] = counts[TEXT_END], U, t
    window.weight[at], window.table[at] = sums[GROWTH], -1
    for j in range(U):
        window.text[(counts[TEXT_END] + j) & mask] = doc[j]
        words.held[doc[j]] += 1
    counts[TEXT_END] += U
    n, top = weigh(config, words, postings, tables, counts, sums, scratch, doc, U)
    k = best_of(tables, scratch, n)
    describe(config, words, tables, counts, sums, scratch, doc, U, n, top, k, out)
    if U == 0:
        out[LABEL] = -1.0
        counts[LAST] = -1
        return
    if k >= 0 and scratch.weight[k] > math.exp(-top):
        learn_concentration(config, words, postings, tables, counts, sums, k, doc, U)
    else:
        k = new_table(tables, counts, i, t)
    seat(config, words, postings, tables, window, events, counts, sums, scratch, i, k, doc, U)
    counts[LAST] = window.table[at]


@uncounted_njit
def visit(config, words, postings, tables, window, events, counts, sums, scratch, i, last):
    """Let document ``i`` of the window choose its table again, for the last time or not."""
    at = i % len(window.table)
    U, old = recall_words(window, scratch, at), window.table[at]
    if U == 0:
        return
    doc = scratch.doc
    take_out(words, postings, tables, counts, old, doc, U)
    tables.in_window[old] -= 1
    if tables.size[old] == 0:
        sums[TOTAL] -= tables.mass[old]
        tables.mass[old] = 0.0
    else:
        tables.mass[old] = max(tables.mass[old] - window.weight[at], 0.0)
        sums[TOTAL] -= window.weight[at]
    bonus = math.exp(config.dissolve) if last and tables.size[old] < 2 else 1.0
    n, top = weigh(config, words, postings, tables, counts, sums, scratch, doc, U)
    k = best_of(tables, scratch, n)
    if k < 0 or scratch.weight[k] * bonus <= math.exp(-top):
        k = old if tables.size[old] == 0 else new_table(tables, counts, i, window.t[at])
    if tables.size[old] == 0 and k != old:
        if counts[LAST] == old:
            counts[LAST] = -1
        free_table(tables, counts, sums, old)
    seat(config, words, postings, tables, window, events, counts, sums, scratch, i, k, doc, U)


@uncounted_njit
def leave(words, postings, tables, window, events, counts, scratch, i):
    """Let the label of document ``i`` be final; it leaves the window. Return the label."""
    at = i % len(window.table)
    U, k = recall_words(window, scratch, at), window.table[at]
    counts[TEXT_FIRST] += U
    for j in range(U):
        words.held[scratch.doc[j]] -= 1
        tidy_word(words, postings, scratch.doc[j])
    window.length[at], window.table[at] = 0, -1
    if k < 0:
        return -1
    tables.in_window[k] -= 1
    if not tables.told[k]:
        tables.told[k] = True
        record(events, counts, BIRTH, tables.id[k], -1, tables.born[k], tables.born_t[k])
    return tables.id[k]


@uncounted_njit
def too_short(config, words, postings, tables, window, events, counts, scratch, doc, U):
    """Return which arrays are too short to learn a document, as a sum of their codes."""
    need, longest, i = room_needed(words, doc, U), U, counts[N_SEEN]
    for r in range(len(config.ages)):
        if i >= config.ages[r]:
            at = (i - config.ages[r]) % len(window.table)
            n = window.length[at]
            longest = max(longest, n)
            if n <= len(scratch.doc):
                recall_words(window, scratch, at)
                need += room_needed(words, scratch.doc, n)
    short = 0
    if counts[POSTINGS_END] + need > len(postings.table):
        short += SHORT_POSTINGS
    if counts[N_LIVE] + len(config.ages) + 1 > len(tables.id):
        short += SHORT_TABLES
    if counts[TEXT_END] - counts[TEXT_FIRST] + U > len(window.text):
        short += SHORT_TEXT
    if longest > len(scratch.doc):
        short += SHORT_DOCUMENT
    n_events = counts[N_EVENTS] + counts[N_LIVE] + 2 * len(config.ages) + 2
    if len(events.kind) < min(n_events, MOST_EVENTS):
        short += SHORT_EVENTS
    return short


@njit(cache=True, _nrt=False)
def step_documents(
    config, words, postings, tables, window, events, counts, sums, scratch, indptr, indices, t,
    done, out,
):  # fmt: skip
    """Predict and learn documents ``done`` .. N - 1 in order.

    Returns
    -------
    int
        How many are done: less than N where the arrays have to grow first.
    """
    for row in range(done, len(indptr) - 1):
        doc = indices[indptr[row] : indptr[row + 1]]
        U = len(doc)
        scratch.short[0] = too_short(
            config, words, postings, tables, window, events, counts, scratch, doc, U
        )
        if scratch.short[0]:
            return row
        step_one(
            config, words, postings, tables, window, events, counts, sums, scratch, doc, U, t[row],
            out[row],
        )  # fmt: skip
    return len(indptr) - 1


@uncounted_njit
def step_one(
    config, words, postings, tables, window, events, counts, sums, scratch, doc, U, t, out
):
    """Learn one document for which there is room."""
    advance(config, tables, window, counts, sums, t)
    place(config, words, postings, tables, window, events, counts, sums, scratch, doc, U, t, out)
    i, out[FINAL_LABEL] = counts[N_SEEN], np.nan
    for r in range(len(config.ages)):
        j = i - config.ages[r]
        if j >= 0:
            last = r == len(config.ages) - 1
            visit(config, words, postings, tables, window, events, counts, sums, scratch, j, last)
            if last:
                out[FINAL_LABEL] = leave(
                    words, postings, tables, window, events, counts, scratch, j
                )
    if (i + 1) % SWEEP == 0:
        retire(config, words, postings, tables, events, counts, sums, i)
    counts[N_SEEN] = i + 1


@njit(cache=True, _nrt=False)
def predict_document(config, words, postings, tables, counts, sums, scratch, doc, t, out):
    """Predict a document at time ``t`` and change nothing; return the number of tables weighed.

    Words that are not known are -1. Leaves the slots in ``scratch.touched``, their
    weights in ``scratch.weight``.
    """
    U, growth = len(doc), sums[GROWTH]
    if counts[N_SEEN] > 0:
        elapsed = (t - sums[TIME]) if config.clocked else 1.0
        sums[GROWTH] = growth * math.exp(min(elapsed / config.decay, 200.0))
    n, top = weigh(config, words, postings, tables, counts, sums, scratch, doc, U)
    k = best_of(tables, scratch, n)
    describe(config, words, tables, counts, sums, scratch, doc, U, n, top, k, out)
    if U == 0:
        out[LABEL] = -1.0
    sums[GROWTH] = growth
    return n, top
