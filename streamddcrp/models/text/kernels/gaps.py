"""Sets of vectors with a gap between them, and the settings under which vectors find theirs.

Vectors of a story spread in fewer dimensions than those of different stories do, and a model of one
spread for all cuts it along them. A cut through a story leaves no gap, though. So two sets stay
apart only where the vectors, projected on the line through their means, are likelier as two normal
laws of one variance than as one. With n = m + m' vectors, of variance v in all and w within,

    n / 2 log(v / w) > m log(n / m) + m' log(n / m') + log n,

the last term for the second mean and the share. The halves of one normal law have v / w = 2.75,
where 4 is asked. A vector is compared with the others of its set, so that it is not near to itself.

Settings that the model then uses are those under which the vectors, each given the sets of all
others, are likeliest to be where they are.
"""

import math

from streamddcrp.compilation import uncounted
from streamddcrp.models.text.kernels.sets import best_alpha, joint, prepare_sets

LEAST_MEMBERS = 4  # of a set, to have a variance
TEMPERS = 4  # halvings
CLEARLY = 3.0  # nats by which settings are better than others


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
    """Merge sets of ``fit.z`` without a gap, the least apart first; return how many."""
    sum_products(fit, n)
    merged = 0
    while True:
        least, first, second = 0.0, -1, -1
        for k in range(n):
            for l in range(k):
                if min(fit.size[k], fit.size[l]) >= LEAST_MEMBERS:
                    found = gap(fit, n, k, l)
                    if found < least:
                        least, first, second = found, l, k
        if first < 0:
            return merged
        for i in range(n):
            fit.cross[i, first] += fit.cross[i, second]
            if fit.z[i] == second:
                fit.z[i] = first
        fit.size[first] += fit.size[second]
        fit.size[second] = 0
        merged += 1


@uncounted
def fit_settings(rhos, rho_now, fit, n, half, alpha, least, most):
    """Return rho, the part of ``half`` and alpha under which ``fit.z`` is likeliest, set by set."""
    K = 0
    for k in range(n):
        fit.square[k] = 0.0
        K += fit.size[k] > 0
    for i in range(n):
        fit.square[fit.z[i]] += fit.cross[i, fit.z[i]]
    alpha = best_alpha(n, K, alpha, least, most)
    top, best, part, now = -math.inf, rho_now, 1.0, -math.inf
    like, total, mine = fit.joint, fit.u, fit.v  # by g, for the part 2^-g
    for rho in rhos:
        prepare_sets(fit, n, half, rho)
        like[:TEMPERS] = 0.0
        for i in range(n):
            own = fit.z[i]
            total[:TEMPERS], mine[:TEMPERS] = alpha, alpha  # of a set of its own
            for k in range(n):
                m, along, square = fit.size[k] - (k == own), fit.cross[i, k], fit.square[k]
                if m <= 0:
                    continue
                if k == own:
                    along -= 1.0
                    square -= 2.0 * along + 1.0
                gain = joint(fit, m + 1, square + 2.0 * along + 1.0) - joint(fit, m, square)
                for g in range(TEMPERS):
                    odds = m * math.exp(min(gain * 0.5**g, 600.0))
                    total[g] += odds
                    if k == own:
                        mine[g] = odds
            for g in range(TEMPERS):
                like[g] += math.log(max(mine[g] / total[g], 1e-300))
        if rho == rho_now:
            now = like[0]
        for g in range(TEMPERS):
            if like[g] > top:
                top, best, part = like[g], rho, 0.5**g
    return (best, part, alpha) if top > now + CLEARLY else (rho_now, 1.0, alpha)
