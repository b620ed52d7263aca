"""One document after the other: assigned on arrival, visited again later, then final."""

import math

import numpy as np

from streamddcrp.compilation import entry, leaf, uncounted
from streamddcrp.contract import LABEL, LABEL_PROB, P_CHANGE, RETURN, SCORE
from streamddcrp.data.kernels import words as reading
from streamddcrp.data.kernels.copies import N_HASHES, codes_of
from streamddcrp.data.kernels.pieces import DUE, lacks_pieces, learn_pieces
from streamddcrp.models.text.kernels import copies, layout, moves
from streamddcrp.models.text.kernels import tables as index
from streamddcrp.models.text.kernels.again import places_of, read_again
from streamddcrp.models.text.kernels.boilerplate import find_boilerplate, set_aside, surprise_aside
from streamddcrp.models.text.kernels.clock import advance, elapsed, learn_scales, mix
from streamddcrp.models.text.kernels.events import BORN, NAMED, grown, report, spell, texts_of
from streamddcrp.models.text.kernels.evidence import best_of, describe, learn_concentration, weigh
from streamddcrp.models.text.kernels.seating import lift_all, reassign, recall_words, seat, visit
from streamddcrp.models.text.kernels.silence import SWEEP, breaks_silence
from streamddcrp.models.text.kernels.split import try_split
from streamddcrp.models.text.kernels.themes import settle_story, theme_of, weigh_themes
from streamddcrp.numerics import natural

SURE = 0.999  # probability of the table of a document that is visited only once more, at the end,
CERTAIN = 1.0 - 1e-9  # and of one that need not be, if two others are still there
GLUE = 0.1  # part of all words that was found to be boilerplate: it may have held stories together
BETWEEN_UNUSED = 512  # documents between two looks for words


@leaf
def show(text, out):
    """Copy bytes, with a blank between words of a list."""
    for j in range(len(text)):
        out[j] = text[j] if text[j] != reading.BETWEEN else 32


@uncounted
def enter(words, window, counts, sums, scratch, U, every, old, room, t, data, start, n_shown):
    """Keep a new document in the window: its words, with boilerplate, and its first bytes.

    A copy of ``old`` gets the words of that one.
    """
    at, mask = counts[layout.N_SEEN] % len(window.table), len(window.text) - 1
    begin, was = counts[layout.TEXT_END], old % len(window.table)
    counts[layout.NEWEST] = counts[layout.N_SEEN]
    if old >= 0:
        U, every = window.length[was], window.length[was] + window.aside[was]
    for j in range(every):
        w = window.text[window.start[was] + j & mask] if old >= 0 else scratch.read[j]
        window.text[natural(begin + j & mask)] = w
        words.held[natural(w)] += 1
    if old >= 0:
        codes_of(window.text, begin, U, every, scratch.codes[0], scratch.codes[1])
    for r in range(N_HASHES):
        bucket = scratch.codes[0, r] % len(window.table)
        window.older[at, r], window.newest[bucket, r] = window.newest[bucket, r], at
    window.start[at], window.length[at], window.aside[at] = begin, U, every - U
    counts[layout.TEXT_END] += room
    begin, size = counts[layout.SHOWN_END], len(window.shown)
    first = begin % size
    n = min(n_shown, size - first)
    show(data[start : start + n], window.shown[first : first + n])
    show(data[start + n : start + n_shown], window.shown[: n_shown - n])
    window.shown_start[at], window.shown_length[at] = begin, n_shown
    counts[layout.SHOWN_END] += n_shown
    window.weight[at], window.t[at], window.table[at] = sums[layout.GROWTH], t, -1
    window.copies[at], window.newer[at] = 0, -1
    G = window.weights.shape[1]
    for g in range(G):
        window.weights[at, g] = sums[layout.N_SUMS + layout.GROWTHS * G + g]


@uncounted
def place(config, words, postings, tables, window, events, counts, sums, scratch, doc, U, old, out):
    """Assign the newest document of the window, and write what was predicted for it."""
    n, top = weigh(config, words, postings, tables, counts, sums, scratch, doc, U, True)
    k, rival = best_of(tables, scratch, n)
    describe(config, words, tables, counts, sums, scratch, doc, U, top, k, out)
    i = counts[layout.N_SEEN]
    at = i % len(window.table)
    if U == 0:
        out[LABEL], out[LABEL_PROB], out[P_CHANGE], counts[layout.LAST] = -1.0, np.nan, np.nan, -1
        window.sure[at] = 2
        return
    if old >= 0:
        copies.follow(tables, scratch.weight, top, k, window.table[old % len(window.table)], out)
        k = window.table[old % len(window.table)]
        if breaks_silence(tables, sums, k, i):
            report(words, postings, tables, window, events, counts, sums, k, RETURN, tables.id[k])
        copies.take_place(words, tables, window, counts, sums, i, old)
        kind = grown(config, tables, k, texts_of(tables, k))
        if kind >= 0:
            report(words, postings, tables, window, events, counts, sums, k, kind, -1)
        counts[layout.LAST], window.sure[at] = k, 0
        out[layout.THEME] = theme_of(tables, k)
        return
    if k >= 0 and scratch.weight[k] > math.exp(-top):
        learn_concentration(config, words, postings, tables, counts, sums, k, doc, U)
        moves.remember_rival(tables, scratch.weight, k, rival)
        if tables.masses.shape[0] > 0:
            learn_scales(tables, sums, k)
    else:
        k = index.new_table(tables, counts, i, window.t[at])
        tables.theme[k] = weigh_themes(
            config, words, postings, tables, counts, sums, scratch, -1, doc, U
        )
    seat(config, words, postings, tables, window, events, counts, sums, scratch, i, k, doc, U)
    counts[layout.LAST] = window.table[at]
    out[layout.THEME] = theme_of(tables, counts[layout.LAST])
    window.sure[at] = int(out[LABEL_PROB] > SURE) + int(out[LABEL_PROB] > CERTAIN)


@uncounted
def leave(config, words, postings, tables, window, archive, events, counts, sums, scratch, i):
    """Make the label of document ``i`` final; return its table, or -1."""
    at = i % len(window.table)
    j = copies.newest_of(window, counts, i)
    k = window.table[j % len(window.table)]
    U = recall_words(window, scratch, j % len(window.table))
    counts[layout.SHOWN_FIRST] += window.shown_length[at]
    if k < 0:
        return -1
    if window.shown_length[at] > 0 and U > 0:
        start, n = window.shown_start[at], window.shown_length[at]
        fit = moves.typicality(words, postings, tables, k, scratch.doc, U)
        moves.keep_example(tables, k, window.shown, start, n, fit, j)
    if tables.reported[k] == BORN:
        tables.reported[k] = NAMED
        old = moves.recognise(config, words, postings, tables, archive, counts, sums, k)
        if old >= 0:
            report(words, postings, tables, window, events, counts, sums, k, RETURN, old)
    return k


@uncounted
def forget(words, postings, tables, window, counts, lexicon, i):
    """Forget the words of document ``i``, which is the oldest of the window."""
    at, mask = i % len(window.table), len(window.text) - 1
    every = window.length[at] + window.aside[at]
    for j in range(every):
        w = window.text[(window.start[at] + j) & mask]
        words.held[w] -= 1
        words.last[w] = counts[layout.N_SEEN]
        if index.tidy_word(words, postings, w):
            reading.release_word(lexicon, w)
    counts[layout.TEXT_FIRST] += places_of(window, counts, i)
    if window.table[at] >= 0:
        tables.in_window[window.table[at]] -= 1
    window.length[at], window.aside[at], window.table[at] = 0, 0, -1


@uncounted
def too_short(
    config, words, postings, tables, window, events, counts, scratch, doc, U, room, n_shown
):
    """Return which arrays are too short to learn a document, as a sum of their codes."""
    need, longest, i = index.room_needed(words, counts, doc, U), 0, counts[layout.N_SEEN]
    listed = index.list_room(U)
    for r in range(len(config.ages)):
        if i >= config.ages[r]:
            at = (i - config.ages[r]) % len(window.table)
            n = window.length[at]
            longest = max(longest, n)
            if n <= len(scratch.doc):
                recall_words(window, scratch, at)
                need += index.room_needed(words, counts, scratch.doc, n)
                listed += index.list_room(n)
    n, n_events = len(config.ages), counts[layout.N_LIVE] + 6 * len(config.ages) + 8
    short = index.lacking(postings, tables, events, counts, need, listed, n + 1, n_events)
    if counts[layout.TEXT_END] - counts[layout.TEXT_FIRST] + room > len(window.text):
        short += layout.SHORT_TEXT
    if counts[layout.SHOWN_END] - counts[layout.SHOWN_FIRST] + n_shown > len(window.shown):
        short += layout.SHORT_SHOWN
    if longest > len(scratch.doc):
        short += layout.SHORT_DOCUMENT
    return short


@uncounted
def learn(
    config, words, postings, tables, window, archive, events, counts, sums, scratch, lexicon, U,
    every, old, out,
):  # fmt: skip
    """Assign the newest document, a copy of ``old`` or -1, then visit those whose turn it is."""
    i, doc = counts[layout.N_SEEN], scratch.read
    out[layout.THEME] = out[layout.FINAL_THEME] = np.nan
    place(config, words, postings, tables, window, events, counts, sums, scratch, doc, U, old, out)
    out[SCORE] += surprise_aside(words, sums, doc, U, every - U)
    out[layout.FINAL_LABEL] = np.nan
    sums[layout.SURPRISE] += out[SCORE]
    for r in range(len(config.ages)):
        j = i - config.ages[r]
        if j < 0:
            break
        last = r == len(config.ages) - 1
        if window.sure[j % len(window.table)] > 0 and not last:
            continue
        visit(config, words, postings, tables, window, events, counts, sums, scratch, j, last)
        if last:
            k = leave(
                config, words, postings, tables, window, archive, events, counts, sums, scratch, j
            )
            out[layout.FINAL_LABEL] = tables.id[k] if k >= 0 else -1.0
            if k >= 0 and tables.theme[k] < 0:
                settle_story(config, words, postings, tables, counts, sums, scratch, k)
            out[layout.FINAL_THEME] = theme_of(tables, k)
    spell(events, counts, lexicon)
    oldest = i + 1 - len(window.table)
    if oldest >= 0:
        forget(words, postings, tables, window, counts, lexicon, oldest)
    if (i + 1) % SWEEP == 0:
        moves.retire(
            config, words, postings, tables, window, archive, events, counts, sums, lexicon
        )
    if (i + 1) % BETWEEN_UNUSED == 0:
        moves.forget_unused(config, words, postings, tables, counts, sums, lexicon)
    counts[layout.N_SEEN] = i + 1
    if i + 1 >= counts[layout.NEXT_LOOK]:
        glue = find_boilerplate(words, postings, tables, window, counts, sums)
        if glue > GLUE:
            lift_all(config, words, postings, tables, window, events, counts, sums, scratch)


@entry
def step_documents(
    config, words, postings, tables, window, archive, events, counts, sums, scratch, halves,
    lexicon, listed, data, offsets, t, done, out,
):  # fmt: skip
    """Predict and learn documents ``done`` .. N - 1 in order; return how many are done.

    The arrays have to grow first if ``scratch.short[0]`` is not zero. ``lexicon``: words by number,
    and numbers by word; ``listed``: whether document i, ``data[offsets[i]:offsets[i + 1]]``, is
    words with a byte between.
    """
    doc = scratch.read
    scratch.short[0] = 0
    for row in range(done, len(offsets)):
        scratch.short[0] = reassign(
            config, words, postings, tables, window, events, counts, sums, scratch
        )
        if counts[layout.SPLIT_DUE] >= 0 and not scratch.short[0]:
            try_split(
                config, words, postings, tables, window, events, counts, sums, halves,
                scratch.log_gamma, scratch.short,
            )  # fmt: skip
        spell(events, counts, lexicon)
        for r in range(len(config.ages) if row > 0 else 0):  # once an arrival
            j = counts[layout.N_SEEN] - config.ages[r]
            if j >= 0 and not scratch.short[0]:
                scratch.short[0] = read_again(
                    words, postings, tables, window, events, counts, scratch, lexicon, j
                )
        if scratch.short[0] or row == len(offsets) - 1:
            return row
        start, stop = offsets[row], offsets[row + 1]
        n_bytes = stop - start
        n_shown, most = min(n_bytes, layout.SHOWN), min(layout.MOST_WORDS, n_bytes // 2 + 1)
        if not reading.has_room(lexicon, n_bytes, layout.MOST_WORDS) or len(words.df) < len(
            lexicon.length
        ):
            scratch.short[0], scratch.short[1] = layout.SHORT_WORDS, most
            return row
        if len(doc) < most:
            scratch.short[0], scratch.short[1] = layout.SHORT_DOCUMENT, most
            return row
        every = reading.read_document(data, start, stop, listed, lexicon, doc[: layout.MOST_WORDS])
        U, room = set_aside(words, doc, every), every
        old = copies.find_copy(
            config, words, postings, tables, window, counts, sums, scratch, doc, U, every
        )
        if old >= 0:
            at = old % len(window.table)
            room = window.length[at] + window.aside[at]
        if lexicon.piece_sums[DUE] > 0 and n_bytes <= layout.SHOWN:  # it will be read again
            room = max(room, most)
        short = too_short(
            config, words, postings, tables, window, events, counts, scratch, doc, U, room, n_shown
        )
        if len(archive.id) < min(
            counts[layout.N_ARCHIVED] + counts[layout.N_LIVE], layout.MOST_ARCHIVED
        ):
            short += layout.SHORT_ARCHIVE
        if lacks_pieces(lexicon):
            short += layout.SHORT_WORDS
            scratch.short[1] = most
        if short:
            scratch.short[0] = short
            reading.forget_new(lexicon, doc, every)
            return row
        learn_pieces(lexicon)
        if old >= 0:
            reading.forget_new(lexicon, doc, every)
        if old < 0 or config.clocked or config.clocks == 2:  # copies are no time that passes
            advance(config, tables, window, counts, sums, t[row])
        enter(
            words, window, counts, sums, scratch, U, every, old, room, t[row], data, start, n_shown
        )
        learn(
            config, words, postings, tables, window, archive, events, counts, sums, scratch,
            lexicon, U, every, old, out[row],
        )  # fmt: skip
    return len(offsets) - 1  # N = 0


@entry
def predict_document(
    config, words, postings, tables, window, counts, sums, scratch, lexicon, listed, data, t, out
):
    """Predict a document at time ``t``; masses and sums are to be restored afterwards."""
    doc = scratch.read
    every = reading.find_document(data, 0, len(data), listed, lexicon, doc[: layout.MOST_WORDS])
    U = set_aside(words, doc, every)
    old = copies.find_copy(
        config, words, postings, tables, window, counts, sums, scratch, doc, U, every
    )
    if old >= 0 and not config.clocked and config.clocks < 2:
        pass  # no time goes by
    elif tables.masses.shape[0] > 0:
        mix(config, tables, window, counts, sums, t, True)
    else:
        exponent, sums[layout.ALPHA] = elapsed(config, window, counts, sums, t)
        sums[layout.GROWTH] *= math.exp(min(exponent, 200.0))
    n, top = weigh(config, words, postings, tables, counts, sums, scratch, doc, U, True)
    k = best_of(tables, scratch, n)[0]
    describe(config, words, tables, counts, sums, scratch, doc, U, top, k, out)
    out[SCORE] += surprise_aside(words, sums, doc, U, every - U)
    if old >= 0:
        copies.follow(tables, scratch.weight, top, k, window.table[old % len(window.table)], out)
    if U == 0:
        out[LABEL], out[LABEL_PROB], out[P_CHANGE] = -1.0, np.nan, np.nan
