"""A direction that all vectors have in common, which hides stories.

Where the vectors of different stories have the expected cosine b, that of a story of everything is
as large as that of a real one, and all stories become one. b is estimated by the vectors of
different tables,

    b = (|S|^2 - sum of |S_k|^2) / (N^2 - sum of m_k^2),    S = sum of S_k, N = sum of m_k,

so that a large story is no background, and neither are a few; its direction is that of the sum of
the tables' means. Little of it does no harm, and to take it away costs: stories of one field are
near each other for a reason. So a background is one from `LEAST` on, three quarters of the smallest
cosine that vectors of a story are expected to have, until it is less than `GONE`.

Where there are fewer than `FEWEST` tables, that may be its work already, or there may be one story.
Of the newest vectors, less their mean, the cosines of pairs are then looked at. Noise of any shape
is as often on one side as on the other, so that of one story their third moment is zero; stories
behind a background, whose vectors are pairwise near, make it positive. There is one if it is, by
more than chance, and nearly all pairs have a cosine of `LEAST`; their mean is b. All labels that
are not final are then assigned again.
"""

import math

from streamddcrp.compilation import leaf, uncounted
from streamddcrp.models.text.kernels.layout import N_SEEN, N_SLOTS

LEAST, GONE = 0.15, 0.1
FEWEST = 5  # tables
LEAST_PAIRED, MOST_PAIRED = 50, 100  # vectors
NEARLY_ALL = 0.9  # pairs
SAME = 1e-12  # squares of what is left of vectors that are all the same
LEAST_SKEW = 0.4  # third moment of cosines, by their second to the power of 3/2


@leaf
def is_zero(x):
    """Return whether a vector has no direction."""
    zero = True
    for d in range(len(x)):
        zero &= x[d] == 0.0
    return zero


@uncounted
def dot(a, b):
    """Return the product; four sums at a time, for each addition waits for the one before."""
    s, t, u, v, whole = 0.0, 0.0, 0.0, 0.0, len(a) - len(a) % 4
    for d in range(0, whole, 4):
        s += a[d] * b[d]
        t += a[d + 1] * b[d + 1]
        u += a[d + 2] * b[d + 2]
        v += a[d + 3] * b[d + 3]
    for d in range(whole, len(a)):
        s += a[d] * b[d]
    return (s + t) + (u + v)


@uncounted
def common_cosine(tables, counts, out):
    """Write the sum of the tables' means; return b, and the number of tables."""
    out[:] = 0.0
    n, pairs, squares, b, K = 0.0, 0.0, 0.0, 0.0, 0
    for k in range(counts[N_SLOTS]):  # the sum of all vectors
        m = tables.size[k]
        if m > 0:
            n, pairs, squares = n + m, pairs + m * m, squares + tables.square[k]
            K += 1
            for d in range(len(out)):
                out[d] += tables.total[k, d]
    for d in range(len(out)):
        b += out[d] * out[d]
        out[d] = 0.0
    for k in range(counts[N_SLOTS]):
        if tables.size[k] > 0:
            for d in range(len(out)):
                out[d] += tables.total[k, d] / tables.size[k]
    return (b - squares) / max(n * n - pairs, 1.0), K


@uncounted
def hidden_cosine(window, counts, out):
    """Write the mean of the newest vectors; return b if there are stories behind it, else 0."""
    size, n, newest, length = len(window.t), 0, counts[N_SEEN] - 1, 0.0
    ages = min(counts[N_SEEN], size, MOST_PAIRED)
    out[:] = 0.0
    for age in range(ages):
        at = (newest - age) % size
        if window.table[at] >= 0:
            n += 1
            for d in range(len(out)):
                out[d] += window.x[at, d]
    for d in range(len(out)):
        out[d] /= max(n, 1)
        length += out[d] * out[d]
    pairs, near, mean, second, third = 0, 0, 0.0, 0.0, 0.0
    for age in range(ages):
        x = window.x[(newest - age) % size]
        if window.table[(newest - age) % size] < 0:
            continue
        along = dot(x, out)
        for other in range(age):
            y = window.x[(newest - other) % size]
            if window.table[(newest - other) % size] < 0:
                continue
            cosine, toward = dot(x, y), dot(y, out)
            pairs, near, mean = pairs + 1, near + (cosine >= LEAST), mean + cosine
            lengths = (1.0 - 2.0 * along + length) * (1.0 - 2.0 * toward + length)
            rest = 0.0
            if lengths > SAME:
                rest = (cosine - along - toward + length) / math.sqrt(lengths)
                rest += 1.0 / max(n - 1, 1)  # less their mean, they are that much apart
            second, third = second + rest * rest, third + rest**3
    if n < LEAST_PAIRED or near < NEARLY_ALL * pairs:
        return 0.0
    skew = third / pairs / max((second / pairs) ** 1.5, 1e-12)
    return mean / pairs if skew > LEAST_SKEW else 0.0


@uncounted
def find_background(tables, window, counts, known, out):
    """Write mu, 0 where there is none, and return b = |mu|^2; ``known``: what it is now."""
    b, K = common_cosine(tables, counts, out)
    if K < FEWEST:
        b = hidden_cosine(window, counts, out)
    if b < (GONE if known > 0.0 else LEAST):
        out[:] = 0.0
        return 0.0
    b, length = min(b, 0.9), 0.0
    for d in range(len(out)):
        length += out[d] * out[d]
    for d in range(len(out)):
        out[d] *= math.sqrt(b / max(length, 1e-300))
    return b
