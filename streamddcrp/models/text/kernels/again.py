"""Texts of scripts without spaces, read again: their words are known better when more have come.

A text that was cut when its words were new keeps words that no later text has. So it is cut again
before each visit, by what came besides: of each count one is left out, the text's own
(leave-one-out, as a Gibbs sampler does). Otherwise a text confirms its own cuts. Its new words take
the place of the old ones in its table. Only a text that is kept whole can be read again; it gets
more places in the ring of words than it has words, and that tells it from the others.
"""

from streamddcrp.compilation import leaf, uncounted
from streamddcrp.data.kernels.pieces import DUE, OWN, UNIT
from streamddcrp.data.kernels.words import forget_new, has_room, read_document, release_word
from streamddcrp.models.text.kernels import layout
from streamddcrp.models.text.kernels import tables as index
from streamddcrp.models.text.kernels.boilerplate import set_aside
from streamddcrp.models.text.kernels.copies import is_same
from streamddcrp.models.text.kernels.seating import recall_words


@leaf
def places_of(window, counts, i):
    """Return how many places in the ring of words document ``i`` has."""
    size = len(window.table)
    end = window.start[(i + 1) % size] if i < counts[layout.NEWEST] else counts[layout.TEXT_END]
    return end - window.start[i % size]


@uncounted
def _exchange(words, postings, tables, window, counts, scratch, lexicon, at, U, every):
    """Give a document of the window, and its table, the words in ``scratch.read``."""
    doc, k, start, mask = scratch.read, window.table[at], window.start[at], len(window.text) - 1
    n_old = recall_words(window, scratch, at)
    index.take_out(words, postings, tables, counts, k, scratch.doc, n_old)
    for j in range(every):
        words.held[doc[j]] += 1
    index.insert(words, postings, tables, counts, k, doc, U)
    for j in range(n_old + window.aside[at]):
        w = window.text[start + j & mask]
        words.held[w] -= 1
        if index.tidy_word(words, postings, w):
            release_word(lexicon, w)
    for j in range(every):
        window.text[start + j & mask] = doc[j]
    window.length[at], window.aside[at], window.sure[at] = U, every - U, 0


@uncounted
def read_again(words, postings, tables, window, events, counts, scratch, lexicon, i):
    """Cut document ``i`` of the window again, if its script has no spaces; idempotent.

    Returns codes of arrays that are too short, summed; then nothing was changed.
    """
    at, doc = i % len(window.table), scratch.read
    n_bytes, first = window.shown_length[at], window.shown_start[at]
    room, most = places_of(window, counts, i), n_bytes // 2 + 1
    if window.table[at] < 0 or room == window.length[at] + window.aside[at]:
        return 0
    scratch.short[1] = most
    if not has_room(lexicon, n_bytes, layout.MOST_WORDS) or len(words.df) < len(lexicon.length):
        return layout.SHORT_WORDS
    if len(doc) < most:
        return layout.SHORT_DOCUMENT
    for j in range(n_bytes):
        scratch.bytes[j] = window.shown[(first + j) % len(window.shown)]
    lexicon.piece_sums[OWN] = UNIT
    every = read_document(scratch.bytes, 0, n_bytes, False, lexicon, doc[:most])
    lexicon.piece_sums[OWN], lexicon.piece_sums[DUE] = 0, 0
    U = set_aside(words, doc, every)
    same = window.length[at] == U and window.aside[at] == every - U
    if U == 0 or every > room or (same and is_same(window, at, doc, every)):
        forget_new(lexicon, doc, every)
        return 0
    need = index.room_needed(words, counts, doc, U)
    short = index.lacking(postings, tables, events, counts, need, index.list_room(U), 0, 0)
    if short:
        forget_new(lexicon, doc, every)
        return short
    _exchange(words, postings, tables, window, counts, scratch, lexicon, at, U, every)
    return 0
