"""Texts of the window that are read in another way: their words are exchanged."""

from streamddcrp.compilation import entry
from streamddcrp.data.kernels.words import release_word
from streamddcrp.models.text.kernels.events import spell
from streamddcrp.models.text.kernels.layout import N_SEEN, REASSIGN, TEXT_END
from streamddcrp.models.text.kernels.seating import LIFTED, lift_all
from streamddcrp.models.text.kernels.tables import tidy_word


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
