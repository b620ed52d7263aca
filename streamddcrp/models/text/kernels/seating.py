"""Documents of the window in their tables: in, out, visited again."""

import math

from streamddcrp.compilation import uncounted
from streamddcrp.contract import RETURN
from streamddcrp.models.text.kernels import tables as index
from streamddcrp.models.text.kernels.clock import shift, weight_now
from streamddcrp.models.text.kernels.events import BORN, CLOSED, grown, report, texts_of
from streamddcrp.models.text.kernels.evidence import best_of, weigh
from streamddcrp.models.text.kernels.layout import LAST, N_SEEN, REASSIGN, SPLIT_DUE, TOTAL
from streamddcrp.models.text.kernels.moves import remember_rival, try_merge
from streamddcrp.models.text.kernels.silence import breaks_silence
from streamddcrp.numerics import natural

LIFTED = -2  # in place of the slot of a table


@uncounted
def seat(config, words, postings, tables, window, events, counts, sums, scratch, i, k, doc, U):
    """Put document ``i`` into table ``k``."""
    at = i % len(window.table)
    if breaks_silence(tables, sums, k, i):
        report(words, postings, tables, window, events, counts, sums, k, RETURN, tables.id[k])
    index.insert(words, postings, tables, counts, k, doc, U)
    tables.mass[k] += window.weight[at]
    if tables.masses.shape[0] > 0:
        shift(tables.masses, window.weights, sums, k, at, 1.0)
    sums[TOTAL] += window.weight[at]
    tables.in_window[k] += 1
    tables.copies[k] += window.copies[at]
    window.table[at] = k
    index.extend(tables, k, i, window.t[at])
    kind = grown(config, tables, k, texts_of(tables, k))
    if kind >= 0:
        report(words, postings, tables, window, events, counts, sums, k, kind, -1)
    if tables.size[k] >= tables.next_split[k] and counts[SPLIT_DUE] < 0:
        counts[SPLIT_DUE] = k
    if tables.size[k] >= tables.next_merge[k]:
        try_merge(config, words, postings, tables, window, events, counts, sums, scratch, k)


@uncounted
def recall_words(window, scratch, at):
    """Copy the words of a document of the window into ``scratch.doc``; return how many."""
    U, start, mask = window.length[at], window.start[at], len(window.text) - 1
    for j in range(U):
        scratch.doc[j] = window.text[natural(start + j & mask)]
    return U


@uncounted
def unseat(words, postings, tables, window, events, counts, sums, at, doc, U):
    """Take a document out of its table, which may leave that one free."""
    k = window.table[at]
    if tables.size[k] == 1 and tables.reported[k] >= BORN and not tables.closed[k]:
        report(words, postings, tables, window, events, counts, sums, k, CLOSED, -1)
    mass = tables.mass[k]
    index.take_out(words, postings, tables, counts, k, doc, U)
    tables.in_window[k] -= 1
    tables.copies[k] -= window.copies[at]
    tables.mass[k] = max(mass - window.weight[at], 0.0)
    sums[TOTAL] += tables.mass[k] - mass
    if tables.masses.shape[0] > 0:
        shift(tables.masses, window.weights, sums, k, at, -1.0)
    if tables.size[k] == 0:
        if counts[LAST] == k:
            counts[LAST] = -1
        index.free_table(tables, counts, sums, k)


@uncounted
def visit(config, words, postings, tables, window, events, counts, sums, scratch, i, last):
    """Reassign document ``i`` of the window where another table is better; ``last``: finally."""
    at = i % len(window.table)
    U, old = recall_words(window, scratch, at), window.table[at]
    if U == 0:
        return
    if tables.masses.shape[0] > 0:
        window.weight[at] = weight_now(window.weights, sums, at)
    doc, mass = scratch.doc, tables.mass[old]
    if last and window.sure[at] == 2 and tables.size[old] > 2:
        return
    index.lift(words, postings, tables, counts, scratch, old, doc, U)
    alone = tables.size[old] == 0
    bonus = math.exp(config.dissolve) if last and tables.size[old] + tables.copies[old] < 2 else 1.0
    tables.mass[old] = max(mass - window.weight[at], 0.0)
    n, top = weigh(config, words, postings, tables, counts, sums, scratch, doc, U, False)
    index.put_back(words, postings, tables, counts, scratch, old, doc, U)
    k, rival = best_of(tables, scratch, n)
    if k >= 0 and scratch.weight[k] * bonus > math.exp(-top):
        remember_rival(tables, scratch.weight, k, rival)
    elif alone:
        k = old
    else:
        k = index.new_table(tables, counts, i, window.t[at])
        tables.theme[k] = tables.theme[old]
    tables.mass[old] = mass
    if k == old:
        return
    unseat(words, postings, tables, window, events, counts, sums, at, doc, U)
    seat(config, words, postings, tables, window, events, counts, sums, scratch, i, k, doc, U)


@uncounted
def lift_all(config, words, postings, tables, window, events, counts, sums, scratch):
    """Take all documents whose labels are not final out of their tables, for `reassign`."""
    seen = counts[N_SEEN]
    counts[REASSIGN] = max(0, seen - config.ages[-1])
    for i in range(counts[REASSIGN], seen):
        at = i % len(window.table)
        U = window.length[at]
        if U == 0 or window.table[at] < 0:
            continue
        recall_words(window, scratch, at)
        if tables.masses.shape[0] > 0:
            window.weight[at] = weight_now(window.weights, sums, at)
        unseat(words, postings, tables, window, events, counts, sums, at, scratch.doc, U)
        window.table[at], window.sure[at] = LIFTED, 0


@uncounted
def reassign(config, words, postings, tables, window, events, counts, sums, scratch):
    """Assign the documents that were lifted, in order; return which arrays are too short."""
    doc = scratch.doc
    while counts[REASSIGN] < counts[N_SEEN]:
        i = counts[REASSIGN]
        at = i % len(window.table)
        if window.table[at] == LIFTED:
            U = recall_words(window, scratch, at)
            need, listed = index.room_needed(words, counts, doc, U), index.list_room(U)
            short = index.lacking(postings, tables, events, counts, need, listed, 1, 6)
            if short:
                return short
            n, top = weigh(config, words, postings, tables, counts, sums, scratch, doc, U, False)
            k, rival = best_of(tables, scratch, n)
            if k >= 0 and scratch.weight[k] > math.exp(-top):
                remember_rival(tables, scratch.weight, k, rival)
            else:
                k = index.new_table(tables, counts, i, window.t[at])
            seat(
                config, words, postings, tables, window, events, counts, sums, scratch, i, k, doc, U
            )
        counts[REASSIGN] += 1
    return 0
