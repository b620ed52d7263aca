"""Compiled reading of texts: UTF-8 bytes to words, words to reusable indexes.

A word occupies a row of `LONGEST` bytes, eight to a number, padded with zeros. ``slots`` is an
open-addressing table (linear probing) of ``hash << INDEX_BITS | index + 1`` (0: empty). Pure ASCII
words are read into a register, others character by character. Nothing here allocates or grows: the
caller asks `has_room` before each document. ``words`` is a `WordArrays` of ``words.py``.
"""

import numpy as np

from streamddcrp.compilation import kernel, leaf, uncounted
from streamddcrp.data.kernels import characters as chars
from streamddcrp.data.kernels import pieces, raw
from streamddcrp.numerics import natural

INDEX_BITS = 30
BETWEEN = 255  # byte between words of a list; it cannot occur in UTF-8
OPENS = 0x80  # in the byte table: may begin a word, or begins a multi-byte character
# Places in ``counts``.
USED, FREE, STOPS, DOCUMENTS, REPEATS, KEEP, USED_BEFORE, FREE_BEFORE = 0, 1, 2, 3, 4, 5, 6, 7
LINKS, RETWEETS, TICKERS = 1, 2, 4  # bits of the raw parts that are kept
STOP = 1 << 62  # in ``seen``: a stop word


@leaf
def _hash(eights, n):
    """Mix ``n`` bytes into 32 bits, eight at a time."""
    h = np.uint64(n)
    for j in range(n + 7 >> 3):
        h = (h ^ eights[natural(j)]) * np.uint64(0x9E3779B97F4A7C15)
        h ^= h >> np.uint64(32)
    return np.int64((h * np.uint64(0xD6E8FEB86659FD93)) >> np.uint64(32))


@leaf
def _same(a, b, n):
    j = 0
    while j < n + 7 >> 3 and a[natural(j)] == b[natural(j)]:
        j += 1
    return j == n + 7 >> 3


@leaf
def _take_now(words, n, out, n_out):
    """Append the index of a read word to ``out``, once per document; return the new length."""
    slots, counts, eights = words.slots, words.counts, words.eights
    mask = len(slots) - 1
    h = _hash(eights, n)
    place = h & mask
    while slots[natural(place)] != 0:
        slot = slots[natural(place)]
        if slot >> INDEX_BITS == h:
            w = natural((slot & (1 << INDEX_BITS) - 1) - 1)
            if words.length[w] == n and _same(words.letters[w], eights, n):
                seen = words.seen[w]
                if n_out == len(out) or seen == STOP:
                    return n_out
                if abs(seen) == counts[DOCUMENTS] and counts[REPEATS] == 0:
                    return n_out
                words.seen[w] = counts[DOCUMENTS]
                out[natural(n_out)] = np.int64(w)
                return n_out + 1
        place = place + 1 & mask
    if n_out == len(out):
        return n_out
    if counts[FREE] > 0:
        counts[FREE] -= 1
        new = np.int64(words.free[counts[FREE]])
    else:
        new = counts[USED]
        counts[USED] += 1
    slots[place] = h << INDEX_BITS | new + 1
    words.length[new] = n
    for j in range(n + 7 >> 3):
        words.letters[new, j] = eights[j]
    words.seen[new] = -counts[DOCUMENTS]
    out[n_out] = new
    return n_out + 1


@uncounted
def _take(words, n, out, n_out):
    """Store the word of ``n`` bytes in ``words.word``."""
    for j in range(n + 7 >> 3):
        eight = np.uint64(0)
        for i in range(min(8, n - 8 * j)):
            eight |= np.uint64(words.word[8 * j + i]) << np.uint64(8 * i)
        words.eights[j] = eight
    return _take_now(words, n, out, n_out)


@uncounted
def _take_run(data, i, stop, words, out, n_out):
    """Read the words of a run that begins at ``i``; return its end and the number of words.

    They are neighbouring pairs if the table counts repeats, else pieces or parts of pieces.
    """
    R, more, starts = 0, True, words.starts
    while more:
        first = R == 0
        i, R, more = pieces.read_run(data, i, stop, words, R)
        if words.counts[REPEATS] != 0:
            for j in range(R if first and R == 1 else R - 1):
                n_out = _take(words, pieces.copy_piece(words, j, min(j + 2, R)), out, n_out)
            n = starts[R] - starts[R - 1]
            for j in range(n):
                words.run[j] = words.run[starts[R - 1] + j]
            starts[1], R = n, 1
        else:
            pieces.cut_run(words, R)
            begin = 0
            for j in range(1, R + 1):
                if words.boundary[j] > 0.5 or j - begin == pieces.LONGEST_PIECE:
                    while begin < j:
                        end = pieces.first_word(words, begin, j)
                        n_out = _take(words, pieces.copy_piece(words, begin, end), out, n_out)
                        begin = end
            R = 0
    return i, n_out


@uncounted
def _read_text(data, start, stop, words, out):
    characters, word, table = words.characters, words.word, words.table
    n_out = 0
    n = 0  # bytes of the word so far; 0: between words
    tickers = 0  # the first is the word $, others are $$
    full = False  # a character did not fit, so the rest of the word is dropped
    last, before = np.int64(-1), 0  # last character, and the word's bytes before it
    drop = ~words.counts[KEEP]
    i = start
    while i < stop:
        if n == 0:
            b = data[natural(i)]
            if table[b] & OPENS == 0:
                i += 1
                if b in (raw.DOLLAR, raw.LESS) and drop & TICKERS != 0:
                    after = raw.skip_ticker(data, i - 1, stop)
                    if after >= 0:
                        i = after
                        if words.counts[REPEATS] == 0:
                            word[0], word[1], tickers = raw.DOLLAR, raw.DOLLAR, min(tickers + 1, 2)
                            n_out = _take(words, tickers, out, n_out)
                continue
            end, length = chars.read_ascii(data, i, stop, table, words.eights)
            if end == stop or data[natural(end)] < 0x80:
                after = -1
                if end < stop:
                    b = data[natural(end)]
                    is_rt = data[i] | 0x20 == 0x72 and end == i + 2 and data[i + 1] | 0x20 == 0x74
                    if b in (raw.COLON, raw.DOT, raw.HYPHEN) and drop & LINKS != 0:
                        after = raw.skip_link(data, i, end, stop)
                    elif is_rt and b == 0x20 and drop & RETWEETS != 0:
                        after = raw.skip_retweet(data, end, stop)
                    if after < 0 and b == raw.DOT and end == i + 1:
                        after, initials = raw.read_initials(data, i, stop, word)
                        if initials > 0:
                            n_out = _take(words, initials, out, n_out)
                        else:
                            after = -1
                if after >= 0:
                    i = after
                    continue
                n_out = _take_now(words, length, out, n_out)
                i = end + 1
                if end < stop and data[natural(end)] in (raw.DOLLAR, raw.LESS):
                    i = end
                continue
        point = np.int64(data[i])
        width = 1
        if point >= 0x80:
            point, width = chars.code_point(data, i, stop)
        i += width
        kind = chars.kind_of(characters, point)
        if kind & chars.IGNORED:
            continue
        if kind & chars.ALONE:
            if n > 0:
                n_out = _take(words, n, out, n_out)
            n_out = _take(words, chars.append(word, 0, point), out, n_out)
            n = 0
            continue
        if kind & chars.UNSPACED:
            if n > 0:
                n_out = _take(words, n, out, n_out)
            n = 0
            i, n_out = _take_run(data, i - width, stop, words, out, n_out)
            continue
        if kind & chars.MARK and n > 0 and not full:
            letter = chars.compose(words.pairs, words.composed, last, point)
            if letter >= 0:
                n, last = chars.append(word, before, letter), letter
                full = n == before
                continue
        if kind == 0 and n > 0:
            n_out = _take(words, n, out, n_out)
            n = 0
            if point in (raw.DOLLAR, raw.LESS):  # perhaps a ticker
                i -= 1
                continue
        if n == 0:
            if kind & chars.BEGINS == 0:
                continue
            full = False
        if not full:
            last, before = kind & chars.JOINS - 1, n
            n = chars.append(word, n, last)
            full = n == before
    if n > 0:
        n_out = _take(words, n, out, n_out)
    return n_out


@uncounted
def _read_list(data, start, stop, words, out):
    n_out = 0
    begin = start
    for i in range(start, stop + 1):
        if i == stop or data[i] == BETWEEN:
            n = min(i - begin, chars.LONGEST)
            while 0 < n < i - begin and data[begin + n] & 0xC0 == 0x80:  # not inside a character
                n -= 1
            if n > 0:
                for j in range(n):
                    words.word[j] = data[begin + j]
                n_out = _take(words, n, out, n_out)
            begin = i + 1
    return n_out


@uncounted
def has_room(words, n_bytes, most):
    """Return whether a document of this many bytes or different words surely fits."""
    used = words.counts[USED] - words.counts[FREE]
    return used + min(most, n_bytes // 2 + 1) <= len(words.length)


@uncounted
def read_document(data, start, stop, listed, words, out):
    """Write the indexes of the different words of ``data[start:stop]``; return their number.

    They are in order of appearance, with repeats if the table has them. Stop words and words beyond
    the room in ``out`` are left out. An unknown word gets the last released index or a new one;
    `has_room` must be true. Scripts without spaces wait for `learn_pieces`. ``listed`` means words
    separated by the byte `BETWEEN`, not a text.
    """
    counts = words.counts
    counts[DOCUMENTS] += 1
    counts[USED_BEFORE], counts[FREE_BEFORE] = counts[USED], counts[FREE]
    words.piece_sums[pieces.DUE] = 0
    if listed:
        return _read_list(data, start, stop, words, out)
    return _read_text(data, start, stop, words, out)


@uncounted
def _unlist(words, w):
    slots = words.slots
    mask = len(slots) - 1
    hole = _hash(words.letters[w], np.int64(words.length[w])) & mask
    while slots[hole] & (1 << INDEX_BITS) - 1 != w + 1:
        hole = hole + 1 & mask
    place = hole + 1 & mask
    while slots[place] != 0:  # later ones move up, unless before their place
        ideal = (slots[place] >> INDEX_BITS) & mask
        if (place - ideal & mask) >= (place - hole & mask):
            slots[hole] = slots[place]
            hole = place
        place = place + 1 & mask
    slots[hole] = 0
    words.length[w] = 0


@uncounted
def release_word(words, w):
    """Free the index of a word."""
    _unlist(words, w)
    counts = words.counts
    if w == counts[USED] - 1:
        counts[USED] -= 1
    else:
        words.free[counts[FREE]] = w
        counts[FREE] += 1


@uncounted
def find_word(words, eights, n):
    """Return the index of the word of ``n`` bytes, or -1."""
    mask = len(words.slots) - 1
    h = _hash(eights, n)
    place = h & mask
    while words.slots[place] != 0:
        slot = words.slots[place]
        if slot >> INDEX_BITS == h:
            w = (slot & (1 << INDEX_BITS) - 1) - 1
            if words.length[w] == n and _same(words.letters[w], eights, n):
                return w
        place = place + 1 & mask
    return np.int64(-1)


@uncounted
def forget_new(words, found, n):
    """Remove the last document's new words (indexes become -1); free indexes are as before."""
    counts = words.counts
    for i in range(n - 1, -1, -1):
        if words.seen[found[i]] < 0:
            _unlist(words, found[i])
            found[i] = -1
    counts[USED], counts[FREE] = counts[USED_BEFORE], counts[FREE_BEFORE]


@uncounted
def find_document(data, start, stop, listed, words, out):
    """As `read_document`, but new words get -1 and the table does not change."""
    n = read_document(data, start, stop, listed, words, out)
    forget_new(words, out, n)
    words.piece_sums[pieces.DUE] = 0
    return n


@kernel
def read_documents(data, offsets, first, listed, words, most, out, ends):
    """Read documents from ``first`` on while words and ``out`` have room; return the next one.

    ``data, offsets`` (N + 1,), ``listed``: see `read_document`; ``most`` is the number of words
    that count in a document. ``out`` receives the indexes, document after document, and ``ends`` (N
    + 1,) where each begins; its first ``first + 1`` entries are given.
    """
    for row in range(first, len(offsets) - 1):
        n_bytes = offsets[row + 1] - offsets[row]
        begin = ends[row]
        room = len(out) - begin
        if not has_room(words, n_bytes, most) or room < min(most, n_bytes // 2 + 1):
            return row
        part = out[begin : begin + most]
        n = read_document(data, offsets[row], offsets[row + 1], listed, words, part)
        if pieces.lacks_pieces(words):
            forget_new(words, part, n)
            return row
        pieces.learn_pieces(words)
        ends[row + 1] = begin + n
    return len(offsets) - 1


@kernel
def release_words(words, indexes):
    """Free the indexes of words in order."""
    for i in range(len(indexes)):
        release_word(words, indexes[i])


@kernel
def rehash(words, out_slots):
    """Fill an empty slot table with the live words."""
    mask = len(out_slots) - 1
    for w in range(words.counts[USED]):
        n = np.int64(words.length[w])
        if n > 0:
            h = _hash(words.letters[w], n)
            place = h & mask
            while out_slots[place] != 0:
                place = place + 1 & mask
            out_slots[place] = h << INDEX_BITS | w + 1
