"""Texts read in another way: without the stop words of their language, or as templates.

What decides: `streamddcrp.data.languages`, `streamddcrp.models.text.lines`.
"""

import numpy as np

from streamddcrp.compilation import entry, uncounted
from streamddcrp.data.kernels.boilerplate import MOST_READ
from streamddcrp.data.kernels.words import find_word, release_word
from streamddcrp.models.text.kernels.again import places_of
from streamddcrp.models.text.kernels.boilerplate import leave_out
from streamddcrp.models.text.kernels.events import spell
from streamddcrp.models.text.kernels.layout import ASIDE, N_SEEN, REASSIGN, TEXT_END, TEXT_FIRST
from streamddcrp.models.text.kernels.seating import LIFTED, lift_all
from streamddcrp.models.text.kernels.tables import tidy_word

GLUE = 0.1  # part of all words that was left out: it may have held stories together
_UNKNOWN, _IN_NONE, _LETTER = -1, -2, -3  # in place of a word of the lists


@uncounted
def place_in_lists(lexicon, lists, w):
    """Return the index in the lists of a word, `_IN_NONE`, or `_LETTER` if it has one character."""
    n = np.int64(lexicon.length[w])
    characters = 0
    for j in range(n):
        byte = lexicon.letters[w, j >> 3] >> np.uint64((j & 7) << 3) & np.uint64(0xC0)
        characters += byte != np.uint64(0x80)
    if characters == 1:
        return _LETTER
    v = find_word(lists, lexicon.letters[w], n)
    return v if v >= 0 else _IN_NONE


@entry
def count_listed(words, window, counts, lexicon, lists, holds, listed, sizes):
    """Count words of lists in the newest texts; return in how many texts.

    ``lexicon, lists``: words of the texts, and of the lists; ``holds`` (V, L): which list holds
    which word. ``listed`` (N, L) becomes the words of each text in each list, the newest text
    first, and ``sizes`` (N,) those that have more than one character.
    """
    seen, size, mask = counts[N_SEEN], len(window.table), len(window.text) - 1
    words.listed[:] = _UNKNOWN
    n, read = 0, 0
    while n < min(seen, size - 1, len(sizes)) and read < MOST_READ:
        at = (seen - 1 - n) % size
        every = window.length[at] + window.aside[at]
        sizes[n] = 0
        listed[n] = 0
        for j in range(every):
            w = window.text[(window.start[at] + j) & mask]
            if words.listed[w] == _UNKNOWN:
                words.listed[w] = place_in_lists(lexicon, lists, w)
            v = words.listed[w]
            sizes[n] += v != _LETTER
            if v >= 0:
                for g in range(holds.shape[1]):
                    listed[n, g] += holds[v, g]
        n, read = n + 1, read + every
    words.listed[:] = 0
    return n


@uncounted
def drop_from_texts(words, window, counts):
    """Take the marked words, which are behind the others, out of the ring; return their part."""
    seen, size, mask = counts[N_SEEN], len(window.table), len(window.text) - 1
    end, before, lost = counts[TEXT_FIRST], 0, 0
    for i in range(max(0, seen + 1 - size), seen):
        at = i % size
        start, every = window.start[at], window.length[at] + window.aside[at]
        unused = places_of(window, counts, i) - every
        before += every
        window.start[at] = end
        for j in range(every):
            w = window.text[(start + j) & mask]
            if words.mark[w] > 0:
                window.aside[at] -= 1
                words.held[w] -= 1
                lost += 1
            else:
                window.text[end & mask] = w
                end += 1
        end += unused
    counts[TEXT_END] = end
    return lost / max(before, 1)


@uncounted
def drop_from_archive(words, archive):
    """Take the marked words out of the archived tables."""
    for a in range(len(archive.n)):
        n = 0
        for j in range(archive.n[a]):
            w = archive.word[a, j]
            if words.mark[w] > 0:
                words.held[w] -= 1
            else:
                archive.word[a, n], archive.copies[a, n] = w, archive.copies[a, j]
                archive.weight[a, n] = archive.weight[a, j]
                n += 1
        archive.n[a] = n


@entry
def leave_words_out(
    config, words, postings, tables, window, archive, events, counts, sums, scratch, lexicon, which
):
    """Take words, which are stop words from now on, out of everything.

    Where they were a good part of all, the texts whose labels are not final are lifted for
    `reassign`. There must be room for an event of each live table.
    """
    spell(events, counts, lexicon)
    for j in range(len(which)):
        w = which[j]
        if words.held[w] > 0 or words.df[w] > 0:
            leave_out(words, postings, tables, window, counts, w)
        words.mark[w] = 1
    part = drop_from_texts(words, window, counts)
    drop_from_archive(words, archive)
    for j in range(len(which)):
        words.mark[which[j]] = 0
        tidy_word(words, postings, which[j])
    sums[ASIDE] = 0.0
    for w in range(len(words.aside)):
        sums[ASIDE] += words.aside[w]
    if part > GLUE:
        lift_all(config, words, postings, tables, window, events, counts, sums, scratch)
        spell(events, counts, lexicon)


@entry
def exchange_words(
    config, words, postings, tables, window, events, counts, sums, scratch, lexicon, new, ends
):
    """Lift the texts whose labels are not final, and give them other words, for `reassign`.

    The words of the first are ``new[:ends[1]]``. There must be room for an event of each live
    table, and for the words in the ring.
    """
    spell(events, counts, lexicon)
    lift_all(config, words, postings, tables, window, events, counts, sums, scratch)
    spell(events, counts, lexicon)
    seen, size, mask = counts[N_SEEN], len(window.table), len(window.text) - 1
    first = counts[REASSIGN]
    for w in new:
        words.held[w] += 1
    for i in range(first, seen):
        at = i % size
        for j in range(window.length[at] + window.aside[at]):
            w = window.text[(window.start[at] + j) & mask]
            words.held[w] -= 1
            words.last[w] = seen
            if tidy_word(words, postings, w):
                release_word(lexicon, w)
    words.aside[:] = 0.0
    end = window.start[first % size] if first < seen else counts[TEXT_END]
    for i in range(first, seen):
        at, n = i % size, ends[i - first + 1] - ends[i - first]
        for j in range(n):
            window.text[(end + j) & mask] = new[ends[i - first] + j]
        window.start[at], window.length[at], window.aside[at] = end, n, 0
        window.table[at], window.sure[at] = LIFTED if n > 0 else -1, 0
        window.copies[at], window.newer[at] = 0, -1
        end += n
    counts[TEXT_END] = end
