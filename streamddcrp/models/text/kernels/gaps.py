"""Sets of vectors with a gap between them.

Vectors of a story spread in fewer dimensions than those of different stories do, and a model of one
spread for all cuts it along them. A cut through a story leaves no gap, though. So two sets stay
apart only where the vectors, projected on the line through their means, are likelier as two normal
laws of one variance than as one. With n = m + m' vectors, of variance v in all and w within,

    n / 2 log(v / w) > m log(n / m) + m' log(n / m') + log n,

the last term for the second mean and the share. The halves of one normal law have v / w = 2.75,
where 4 is asked. A vector is compared with the others of its set, so that it is not near to itself.
"""

import math

from streamddcrp.compilation import uncounted

LEAST_MEMBERS = 4  # of a set, to have a variance


@uncounted
def sum_products(fit, n):
    """Write to ``fit.cross`` the products of vectors with sums of sets ``fit.z``; and sizes."""
    fit.size[:n] = 0
    for i in range(n):
        fit.size[fit.z[i]] += 1
        fit.cross[i, :n] = 0.0
        for j in range(n):
            fit.cross[i, fit.z[j]] += fit.gram[i, j]


@uncounted
def gap(fit, n, k, l):
    """Return how many nats two sets are likelier than one, by their projections."""
    m, o = float(fit.size[k]), float(fit.size[l])
    first, second, squares = 0.0, 0.0, 0.0
    for i in range(n):
        if fit.z[i] == k:
            p = (fit.cross[i, k] - 1.0) / (m - 1.0) - fit.cross[i, l] / o
            first += p
        elif fit.z[i] == l:
            p = fit.cross[i, k] / m - (fit.cross[i, l] - 1.0) / (o - 1.0)
            second += p
        else:
            continue
        squares += p * p
    both = m + o
    whole = squares - (first + second) ** 2 / both
    within = squares - first * first / m - second * second / o
    if within <= 1e-12 * both:
        return math.inf
    if first / m <= second / o:
        return -math.inf
    gain = 0.5 * both * math.log(whole / within)
    return gain - m * math.log(both / m) - o * math.log(both / o) - math.log(both)


@uncounted
def close_gaps(fit, n):
    """Merge sets of ``fit.z`` without a gap, the least apart first; return how many stay."""
    sum_products(fit, n)
    K = 0
    for k in range(n):
        K += fit.size[k] > 0
    while True:
        least, first, second = 0.0, -1, -1
        for k in range(n):
            for l in range(k):
                if min(fit.size[k], fit.size[l]) >= LEAST_MEMBERS:
                    found = gap(fit, n, k, l)
                    if found < least:
                        least, first, second = found, l, k
        if first < 0:
            return K
        for i in range(n):
            fit.cross[i, first] += fit.cross[i, second]
            if fit.z[i] == second:
                fit.z[i] = first
        fit.size[first] += fit.size[second]
        fit.size[second] = 0
        K -= 1
