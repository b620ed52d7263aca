"""Whether a stored state holds together: every place that another array names is there, once.

A kernel follows places from array to array without looking; so a state that was read is walked once
before it is used. ``taken`` (P,), ``pieces`` (P,), ``held`` (W,), ``stamp`` (K,) are work space,
zero at first.
"""

from streamddcrp.compilation import entry, uncounted
from streamddcrp.models.text.kernels import layout
from streamddcrp.models.text.kernels.tables import FULL, PIECE, find

MOST_ROOM = 30  # log2 of the size of a block


@uncounted
def slots_hold(tables, counts, stamp):
    """Whether the slots are live or free, each once; marks the live ones."""
    live, slots = counts[layout.N_LIVE], counts[layout.N_SLOTS]
    for j in range(live):
        k = tables.live[j]
        if k >= slots or stamp[k] != 0 or tables.place[k] != j:
            return False
        stamp[k] = 1
    for j in range(slots - live):
        k = tables.free[j]
        if k >= slots or stamp[k] != 0:
            return False
        stamp[k] = -1
    return True


@uncounted
def _block_holds(words, postings, counts, w, stamp, last):
    """Whether the postings of a word stand in its block, one a table."""
    start, df, size = words.start[w], words.df[w], 1 << words.room[w]
    n = 0
    for p in range(start, start + (size if words.wide[w] else df)):
        k = postings.table[p]
        if words.wide[w] and k == -1:
            continue
        if k < 0 or k >= counts[layout.N_SLOTS] or stamp[k] <= 0 or last[k] == w + 1:
            return False
        if postings.copies[p] < 1 or (words.wide[w] and k != p - start):
            return False
        last[k] = w + 1
        n += 1
    return n == df


@uncounted
def blocks_hold(words, postings, counts, n_words, stamp, last, taken):  # noqa: PLR0911
    """Whether blocks lie apart, within what is in use, and hold what their words say."""
    end, total = counts[layout.POSTINGS_END], 0
    for w in range(n_words):
        room, start = words.room[w], words.start[w]
        total += words.df[w]
        if room < 0:
            if words.df[w] != 0 or words.wide[w]:
                return False
            continue
        if room > MOST_ROOM or start < 0 or start + (1 << room) > end:
            return False
        if not words.wide[w] and words.df[w] > 1 << room:
            return False
        for p in range(start, start + (1 << room)):
            if taken[p] != 0:
                return False
            taken[p] = 1
        if not _block_holds(words, postings, counts, w, stamp, last):
            return False
    for b in range(len(postings.blocks)):
        p = postings.blocks[b]
        while p >= 0:
            if b > MOST_ROOM or p + (1 << b) > end:
                return False
            for q in range(p, p + (1 << b)):
                if taken[q] != 0:
                    return False
                taken[q] = -1
            p = postings.at[p]
    return total == counts[layout.SUM_DF]


@uncounted
def lists_hold(words, postings, tables, counts, n_words, pieces):
    """Whether each table lists the words it holds, and each posting knows its place there."""
    end, total = counts[layout.LISTS_END], 0
    for j in range(counts[layout.N_LIVE]):
        k = tables.live[j]
        piece, left = tables.head[k], tables.n_words[k]
        total += left
        while left > 0:
            if piece < 0 or piece % PIECE != 0 or piece + PIECE > end or pieces[piece] != 0:
                return False
            pieces[piece] = 1
            m = (left - 1) % FULL + 1
            for at in range(piece + 1, piece + 1 + m):
                w = postings.word[at]
                if w < 0 or w >= n_words or words.room[w] < 0:
                    return False
                p = find(words, postings, w, k)
                if p < 0 or postings.at[p] != at:
                    return False
            piece, left = postings.word[piece], left - m
        if piece != -1:
            return False
    piece = counts[layout.LISTS_FREE]
    while piece >= 0:
        if piece % PIECE != 0 or piece + PIECE > end or pieces[piece] != 0:
            return False
        pieces[piece] = 1
        piece = postings.word[piece]
    return total == counts[layout.SUM_DF]


@uncounted
def window_holds(  # noqa: PLR0911
    words, postings, tables, window, counts, n_words, stamp, copies, held
):
    """Whether the documents lie in the rings, and their tables hold their words."""
    size = len(window.text)
    text, shown = (
        counts[layout.TEXT_END] - counts[layout.TEXT_FIRST],
        counts[layout.SHOWN_END] - counts[layout.SHOWN_FIRST],
    )
    if not (0 <= text <= size and 0 <= shown <= len(window.shown)):
        return False
    for at in range(len(window.table)):
        k, U, every = window.table[at], window.length[at], window.length[at] + window.aside[at]
        n, first = window.shown_length[at], window.shown_start[at]
        if n > 0 and (first < 0 or first + n > counts[layout.SHOWN_END]):
            return False
        if k < 0 < U:
            return False
        if k >= 0:
            if k >= counts[layout.N_SLOTS] or stamp[k] <= 0 or tables.in_window[k] < 1:
                return False
            tables.in_window[k] -= 1
        start = window.start[at]
        if every > 0 and not counts[layout.TEXT_FIRST] <= start <= counts[layout.TEXT_END] - every:
            return False
        for j in range(every):
            w = window.text[(start + j) & (size - 1)]
            if w < 0 or w >= n_words:
                return False
            held[w] += 1
            if j < U:
                p = find(words, postings, w, k) if words.room[w] >= 0 else -1
                if p < 0 or copies[p] >= postings.copies[p]:
                    return False
                copies[p] += 1
    return True


@uncounted
def texts_lie_apart(window, counts):
    """Whether the words of the documents follow each other in the ring, all places in use."""
    seen, size = counts[layout.N_SEEN], len(window.table)
    end, oldest = counts[layout.TEXT_FIRST], max(0, seen + 1 - size)
    for i in range(oldest, seen):
        at = i % size
        if window.start[at] < end or (i == oldest and window.start[at] != end):
            return False
        end = window.start[at] + window.length[at] + window.aside[at]
    return end <= counts[layout.TEXT_END] and (oldest < seen or end == counts[layout.TEXT_END])


@uncounted
def tables_hold(tables, window, counts):
    """Count the documents of the window again, which `window_holds` has taken off; compare."""
    right = True
    for j in range(counts[layout.N_LIVE]):
        right = right and tables.in_window[tables.live[j]] == 0
    for at in range(len(window.table)):
        if window.table[at] >= 0:
            tables.in_window[window.table[at]] += 1
    return right


@uncounted
def archive_holds(words, archive, n_words, held):
    """Whether the archive names words that are there, and the words know who holds them."""
    for a in range(len(archive.n)):
        for j in range(archive.n[a]):
            w = archive.word[a, j]
            if w >= n_words:
                return False
            held[w] += 1
    wrong = 0
    for w in range(n_words):
        wrong += held[w] != words.held[w]
    return wrong == 0


@entry
def is_sound(
    words, postings, tables, window, archive, counts, n_words, stamp, last, taken, pieces, copies,
    held,
):  # fmt: skip
    """Whether all parts of a state belong together; no number in it changes."""
    if not slots_hold(tables, counts, stamp):
        return False
    if not blocks_hold(words, postings, counts, n_words, stamp, last, taken):
        return False
    if not lists_hold(words, postings, tables, counts, n_words, pieces):
        return False
    if (
        not texts_lie_apart(window, counts)
        or not window_holds(words, postings, tables, window, counts, n_words, stamp, copies, held)
        or not tables_hold(tables, window, counts)
    ):
        return False
    return archive_holds(words, archive, n_words, held)
