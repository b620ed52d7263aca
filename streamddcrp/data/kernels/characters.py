"""Characters of UTF-8, and letters with their marks."""

import numpy as np

from streamddcrp.compilation import leaf, uncounted
from streamddcrp.numerics import natural

LONGEST = 64  # bytes of a word
# Roles of a character; the bits below hold its lower-case code point. Without a bit it separates.
JOINS = 1 << 21  # may stand in a word
BEGINS = 1 << 22  # may also begin one
UNSPACED = 1 << 23  # of a script without spaces
MARK = 1 << 24  # belongs to the character before it
IGNORED = 1 << 25  # is skipped
ALONE = 1 << 26  # a word by itself: an emoji


@uncounted
def code_point(data, i, stop):
    """Decode a multi-byte character at ``i``: code point, or -1, and number of bytes."""
    b = np.int64(data[i])
    if 0xC2 <= b < 0xE0:
        width, point, least = 2, b & 0x1F, 0x80
    elif 0xE0 <= b < 0xF0:
        width, point, least = 3, b & 0x0F, 0x800
    elif 0xF0 <= b < 0xF5:
        width, point, least = 4, b & 0x07, 0x10000
    else:
        return -1, 1
    if i + width > stop:
        return -1, 1
    for j in range(i + 1, i + width):
        b = np.int64(data[j])
        if b & 0xC0 != 0x80:
            return -1, 1
        point = point << 6 | b & 0x3F
    if point < least:
        return -1, 1
    return point, width


@uncounted
def append(word, n, point):
    """Append a character to ``n`` bytes of a word; return the new length, n if it is full."""
    if point < 0x80:
        if n + 1 > LONGEST:
            return n
        word[n] = point
        return n + 1
    width = 2 if point < 0x800 else (3 if point < 0x10000 else 4)
    if n + width > LONGEST:
        return n
    for j in range(n + width - 1, n, -1):
        word[j] = 0x80 | point & 0x3F
        point >>= 6
    word[n] = (0xF00 >> width) & 0xFF | point
    return n + width


@uncounted
def compose(pairs, composed, point, mark):
    """Return the letter composed of a letter and the mark after it, or -1."""
    key, low, high = point << 21 | mark, 0, len(pairs)
    while low < high:
        middle = (low + high) >> 1
        if pairs[middle] < key:
            low = middle + 1
        else:
            high = middle
    return np.int64(composed[low]) if low < len(pairs) and pairs[low] == key else np.int64(-1)


@leaf
def kind_of(characters, point):
    """Return a character's role."""
    if 0 <= point < len(characters):
        return np.int64(characters[natural(point)])
    if 0x20000 <= point < 0x32000:  # ideographs beyond the table
        return point | JOINS | BEGINS | UNSPACED
    return np.int64(0)


@leaf
def read_ascii(data, i, stop, table, eights):
    """Read ASCII letters into ``eights``; return where they end, and how many count."""
    n, eight, shift = 0, np.uint64(0), np.uint64(0)
    while i < stop:
        letter = np.uint64(table[data[natural(i)]]) & np.uint64(0x7F)
        if letter == 0:
            break
        i += 1
        if n < LONGEST:
            eight |= letter << shift
            shift += np.uint64(8)
            n += 1
            if shift == 64:
                eights[natural((n >> 3) - 1)] = eight
                eight, shift = np.uint64(0), np.uint64(0)
    if shift > 0:
        eights[natural(n >> 3)] = eight
    return i, n
