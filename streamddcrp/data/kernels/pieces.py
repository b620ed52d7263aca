"""Words of scripts without spaces: a unigram model of pieces, learned by online EM.

The model draws the pieces of a run of characters one after another from a Chinese restaurant
process over pieces of one to `LONGEST_PIECE` characters. A piece seen n times among N has
probability (n + alpha p0) / (N + alpha), where p0 is the prior probability of the piece by its
length (geometric) and its characters' frequencies. Forward and backward sums over all segmentations
give the expected count of each piece, which is added once the text is learned. A run is cut
wherever a boundary is more likely than not, which minimises the expected number of wrong ones, and
where a piece would be too long.

To a unigram model, words that go together are one piece. A piece is therefore cut in two if both
halves are at least as frequent and a b / N, the expected number of chance neighbours, is `LINKED`
times alpha p0, the model's prior mass of the piece. The halves are those with the largest a b, and
the second may be cut again. Counts stay with the whole piece.

Counts are whole numbers of 1 / `UNIT`, so sums do not depend on the order. Pieces and characters
are keyed by a 63-bit hash, odd for pieces, in an open-addressing table. Above `MOST_PIECES` entries
all counts are halved and those below a half are dropped, which favours new ones. Memory is bounded,
nothing is random, and the cuts between batches do not matter. A run of R characters takes O(R).

P. Liang and D. Klein, Online EM for unsupervised models, NAACL 2009; S. Goldwater, T. Griffiths and
M. Johnson, A Bayesian framework for word segmentation, Cognition 112, 2009.
"""

import numpy as np

from streamddcrp.compilation import kernel, leaf, uncounted
from streamddcrp.data.kernels import characters
from streamddcrp.numerics import natural

LONGEST_PIECE = 8  # characters
MOST_UNITS = 128  # characters of a run that are segmented at a time
MOST_DUE = 1 << 13  # counts added by a text; the rest of a longer one is left out
MOST_PIECES = 1 << 16
UNIT = 256
ALPHA = 3000.0  # of the Chinese restaurant process
LINKED = 20.0  # factor, see above
ENDS = 0.2  # probability that a new piece ends after a character
CHARACTERS = 4096.0  # assumed alphabet, each with prior weight 1
PIECES, LETTERS, LISTED, DUE, OWN = 0, 1, 2, 3, 4  # places in ``piece_sums``
_PIECE, _LETTER = 0x9AE16A3B2F90404F, 0xC3A5C85C97CB3127  # seeds of hashes


@leaf
def mixed(h, code):
    """Mix a number into a hash."""
    h = (h ^ np.uint64(code)) * np.uint64(0x9E3779B97F4A7C15)
    return h ^ h >> np.uint64(29)


@leaf
def _key(h, odd):
    """Return a hash as a nonzero key."""
    return np.int64(h >> np.uint64(1)) & ~np.int64(1) | np.int64(2) | odd


@leaf
def _find(keys, key):
    """Return the place of a key, or of the hole for it."""
    mask = len(keys) - 1
    place = key >> 24 & mask
    while keys[natural(place)] != 0 and keys[natural(place)] != key:
        place = place + 1 & mask
    return place


@leaf
def _count(words, key):
    if len(words.piece_keys) == 0:
        return np.int64(0)
    place = natural(_find(words.piece_keys, key))
    return words.piece_counts[place] if words.piece_keys[place] != 0 else np.int64(0)


@uncounted
def _add_due(words, key, count):
    due = words.piece_sums[DUE]
    if due < len(words.due_keys):
        words.due_keys[due], words.due_counts[due] = key, count
        words.piece_sums[DUE] = due + 1


@uncounted
def read_run(data, i, stop, words, R):
    """Append characters of scripts without spaces to the ``R`` of the run.

    Returns the run's end or the next character without room; R; and whether the run continues.
    """
    run, starts, word = words.run, words.starts, words.word
    while i < stop:
        point, width = characters.code_point(data, i, stop)
        kind = characters.kind_of(words.characters, point)
        if kind & characters.UNSPACED == 0 and kind & characters.IGNORED == 0:
            break
        if R == MOST_UNITS and kind & characters.UNSPACED:
            return i, R, True
        i += width
        if kind & characters.IGNORED:
            continue
        last, before, full = kind & characters.JOINS - 1, 0, False
        n = characters.append(word, 0, last)
        while i < stop:  # its marks
            point, width = characters.code_point(data, i, stop)
            kind = characters.kind_of(words.characters, point)
            if kind & (characters.MARK | characters.IGNORED) == 0:
                break
            i += width
            if kind & characters.IGNORED or full:
                continue
            letter = characters.compose(words.pairs, words.composed, last, point)
            if letter >= 0:
                n, last = characters.append(word, before, letter), letter
                full = n == before
            else:
                last, before = kind & characters.JOINS - 1, n
                n = characters.append(word, n, last)
                full = n == before
        code = np.uint64(n)
        for j in range(n):
            run[starts[R] + j] = word[j]
            code = mixed(code, word[j])
        words.codes[R] = code
        starts[R + 1] = starts[R] + n
        R += 1
    return i, R, False


@uncounted
def cut_run(words, R):
    """Segment the run of ``R`` characters in ``words.codes``; note the counts to add.

    ``words.boundary[j]`` becomes the probability that a piece ends before character j, and
    ``words.often[i, k]`` the expected count of the piece from i to i + k. The count
    ``words.piece_sums[OWN]`` is subtracted from each piece's count.
    """
    weights, keys, scale, boundary = words.weights, words.hashes, words.scale, words.boundary
    prior, total = ALPHA * UNIT, words.piece_sums[PIECES] + ALPHA * UNIT
    letters, own = words.piece_sums[LETTERS] + CHARACTERS * UNIT, words.piece_sums[OWN]
    for i in range(R):
        key = _key(mixed(np.uint64(_LETTER), words.codes[i]), 0)
        words.rates[i] = (_count(words, key) + UNIT) / letters
        _add_due(words, key, UNIT)
        h = np.uint64(_PIECE)
        for k in range(min(LONGEST_PIECE, R - i)):  # of the piece from i to i + k
            h = mixed(h, words.codes[i + k])
            keys[i, k] = _key(h, 1)
    for j in range(R):  # weights of pieces ending with j, over all segmentations
        new, ahead, total_j = prior * ENDS, 1.0, 0.0
        for k in range(min(LONGEST_PIECE, j + 1)):
            i = j - k
            new *= words.rates[i]
            words.often[i, k] = max(_count(words, keys[i, k]) - own, 0)
            weight = (words.often[i, k] + new) / total * ahead
            weights[i, k] = weight
            total_j += weight
            new *= 1.0 - ENDS
            ahead /= scale[i - 1] if i > 0 else 1.0
        scale[j] = total_j
        for k in range(min(LONGEST_PIECE, j + 1)):
            weights[j - k, k] /= total_j
    boundary[R] = 1.0
    for i in range(R - 1, -1, -1):
        part = 0.0
        for k in range(min(LONGEST_PIECE, R - i)):
            expected = weights[i, k] * boundary[i + k + 1]
            part += expected
            count = np.int64(expected * UNIT + 0.5)
            if count > 0:
                _add_due(words, keys[i, k], count)
        boundary[i] = part


@uncounted
def first_word(words, begin, end):
    """Return the end of the first word of the piece from ``begin`` to ``end``."""
    often, made_up, best, at = words.often, ALPHA * ENDS, 0.0, end
    for j in range(begin, end):
        made_up *= words.rates[j] * (1.0 - ENDS if j > begin else 1.0)
    least = max(often[begin, end - begin - 1], 1.0)
    for j in range(begin + 1, end):
        a, b = often[begin, j - begin - 1], often[j, end - j - 1]
        if min(a, b) >= least and a * b > best:
            best, at = a * b, j
    return at if best > LINKED * made_up * UNIT * words.piece_sums[PIECES] else end


@uncounted
def copy_piece(words, begin, end):
    """Copy whole characters of the run, at most `LONGEST` bytes; return the bytes copied."""
    first = words.starts[begin]
    n = min(words.starts[end] - first, characters.LONGEST)
    while 0 < n < words.starts[end] - first and words.run[first + n] & 0xC0 == 0x80:
        n -= 1
    for j in range(n):
        words.word[j] = words.run[first + j]
    return n


@leaf
def lacks_pieces(words):
    """Return whether there are counts to add and no table for them."""
    return words.piece_sums[DUE] > 0 and len(words.piece_keys) == 0


@uncounted
def learn_pieces(words):
    """Add the last text's counts; `lacks_pieces` must be false."""
    sums, keys, counts = words.piece_sums, words.piece_keys, words.piece_counts
    for d in range(sums[DUE]):
        enter_piece(words, words.due_keys[d], words.due_counts[d])
    sums[DUE] = 0
    while sums[LISTED] > MOST_PIECES:
        for place in range(len(keys)):
            counts[place] >>= 1
        place = 0
        while place < len(keys):
            if keys[place] != 0 and counts[place] < UNIT // 2:
                _drop(words, place)  # another one may be here now
            else:
                place += 1
        sums[PIECES], sums[LETTERS] = 0, 0
        for place in range(len(keys)):
            if keys[place] != 0:
                sums[PIECES if keys[place] & 1 else LETTERS] += counts[place]


@uncounted
def enter_piece(words, key, count):
    """Add to the count of a key."""
    place = _find(words.piece_keys, key)
    if words.piece_keys[place] == 0:
        words.piece_keys[place] = key
        words.piece_sums[LISTED] += 1
    words.piece_counts[place] += count
    words.piece_sums[PIECES if key & 1 else LETTERS] += count


@uncounted
def _drop(words, hole):
    keys, counts = words.piece_keys, words.piece_counts
    mask = len(keys) - 1
    place = hole + 1 & mask
    while keys[place] != 0:  # later ones move up, unless before their place
        ideal = keys[place] >> 24 & mask
        if (place - ideal & mask) >= (place - hole & mask):
            keys[hole], counts[hole] = keys[place], counts[place]
            hole = place
        place = place + 1 & mask
    keys[hole], counts[hole] = 0, 0
    words.piece_sums[LISTED] -= 1


@kernel
def enter_pieces(words, keys, counts):
    """Fill an empty table with the pieces of a checkpoint."""
    for d in range(len(keys)):
        enter_piece(words, keys[d], counts[d])
