"""Parts of raw texts that are not words: links, "RT @name:", tickers; and dotted initials.

Each function gets the byte position at which an ASCII word or a sign begins.
"""

import numpy as np

from streamddcrp.compilation import leaf, uncounted
from streamddcrp.numerics import natural

MOST_INITIALS = 16
COLON, DOT, HYPHEN, SLASH, DOLLAR, LESS, MORE = 0x3A, 0x2E, 0x2D, 0x2F, 0x24, 0x3C, 0x3E


@leaf
def _byte(data, i, stop):
    """Return the byte at ``i``, 0 at the end."""
    return np.int64(data[natural(i)]) if i < stop else np.int64(0)


@leaf
def _is_letter(b):
    return 0x61 <= b | 0x20 <= 0x7A and b < 0x80


@leaf
def _is_digit(b):
    return 0x30 <= b <= 0x39


@uncounted
def _end_of_link(data, i, stop):
    """Return the end of a link: at a blank, a quote, a bracket or a non-ASCII letter."""
    while i < stop:
        b = data[i]
        if b <= 0x20 or b >= 0x80 or b in (0x22, LESS, MORE):
            break
        i += 1
    return i


@uncounted
def skip_link(data, i, end, stop):
    """Return the end of a link (https://, www. or host/path) beginning at ``i``, or -1."""
    if data[end] == COLON:
        is_link = _byte(data, end + 1, stop) == SLASH and _byte(data, end + 2, stop) == SLASH
        return _end_of_link(data, end, stop) if is_link else -1
    is_www = end == i + 3 and data[i] | 0x20 == 0x77 and data[i + 1] | 0x20 == 0x77
    if is_www and data[i + 2] | 0x20 == 0x77:
        return _end_of_link(data, end, stop)
    label, letters, dots, b = 0, 0, 0, np.int64(0)  # length and letters of the last label
    while i < stop:
        b = np.int64(data[i])
        if b == DOT:
            if label == 0:
                return -1
            label, letters, dots = 0, 0, dots + 1
        elif _is_letter(b) or _is_digit(b) or b == HYPHEN:
            label, letters = label + 1, letters + _is_letter(b)
        else:
            break
        i += 1
    host = dots > 0 and 2 <= label <= 24 and letters == label
    return _end_of_link(data, i, stop) if host and i < stop and b == SLASH else -1


@uncounted
def skip_retweet(data, end, stop):
    """Return the end of an "RT @name:" whose first word ends at ``end``, or -1."""
    i = end
    while i < stop and data[i] == 0x20:
        i += 1
    if i == end or _byte(data, i, stop) != 0x40:
        return -1
    begin = i = i + 1
    while i < stop and (_is_letter(data[i]) or _is_digit(data[i]) or data[i] == 0x5F):
        i += 1
    if i == begin:
        return -1
    return i + 1 if _byte(data, i, stop) == COLON else i


@uncounted
def skip_ticker(data, i, stop):
    """Return the end of a ticker beginning at ``i``, $IBM or <IBM.N>, or -1."""
    bracket, begin, n = data[i] == LESS, i + 1, 0
    i = begin
    while i < stop and n <= 10:
        b = np.int64(data[i])
        if not (0x41 <= b <= 0x5A or (n > 0 and (b == DOT or (bracket and _is_digit(b))))):
            break
        i, n = i + 1, n + 1
    if bracket:
        return i + 1 if 1 <= n <= 10 and _byte(data, i, stop) == MORE else -1
    while n > 0 and data[i - 1] == DOT:
        i, n = i - 1, n - 1
    after = _byte(data, i, stop)
    inside = _is_letter(after) or _is_digit(after) or after >= 0x80
    return i if 1 <= n <= 8 and not inside else -1


@uncounted
def read_initials(data, i, stop, word):
    """Read dotted letters, as U.S., into ``word``; return their end and number."""
    n = 0
    while n < 2 * MOST_INITIALS and _is_letter(_byte(data, i, stop)):
        b = _byte(data, i + 1, stop)
        if b != DOT and (n == 0 or _is_letter(b) or _is_digit(b) or b >= 0x80):
            break
        word[n], word[n + 1] = data[i] | 0x20, DOT
        n += 2
        i += 1
        if b != DOT:
            break
        i += 1
    if n < 4:
        return i, 0
    s = _byte(data, i + 2, stop)
    if _byte(data, i, stop) == 0x27 and _byte(data, i + 1, stop) | 0x20 == 0x73:
        i += 0 if _is_letter(s) or _is_digit(s) or s >= 0x80 else 2
    return i, n
