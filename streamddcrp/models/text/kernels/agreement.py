"""Which settings find sets of vectors that other vectors have, too.

Vectors of texts have nearer copies at every level, so evidence alone goes on to sets of a few. And
within a story vectors spread in fewer dimensions than those of different ones, so a model of one
spread for all cuts it along them. What one half of the vectors shows of such sets, the other half
does not: the partition of one half says nothing of where it cuts. So the two halves are clustered
on their own, and each says to which of its sets a vector of the other half belongs. By how much
those who know this label know the set that the vector has in its own half,

    I(label, set) - the mean of I where the labels are moved on,

is how many nats a vector the settings find twice. It is small where stories are mixed, because
there is little to say, and where they are cut at random, because little of it is true.
"""

import math

from streamddcrp.compilation import uncounted
from streamddcrp.models.text.kernels.sets import joint, partition, prepare_sets
from streamddcrp.numerics import copy_first

MOVES = 8  # of labels, whose agreement is by chance
RATE = 0.5  # weight of the last look
CLEARLY = 1.6  # sqrt(h) nats a vector by which a setting is better than that of most evidence


@uncounted
def information(fit, first, second, h, move):
    """Return the mutual information of two labels of ``h`` vectors, one of them moved on."""
    for i in range(h):
        fit.u[i], fit.v[i] = 0.0, 0.0
    for i in range(h):
        fit.u[first[i]] += 1.0
        fit.v[second[i]] += 1.0
        fit.cross[first[i], second[(i + move) % h]] = 0.0
    for i in range(h):
        fit.cross[first[i], second[(i + move) % h]] += 1.0
    out = 0.0
    for i in range(h):
        k, l = first[i], second[(i + move) % h]
        out += math.log(h * fit.cross[k, l] / (fit.u[k] * fit.v[l])) / h
    return out


@uncounted
def beyond_chance(fit, first, second, h):
    """Return their mutual information less what it is by chance."""
    out = information(fit, first, second, h, 0)
    for r in range(1, MOVES + 1):
        out -= information(fit, first, second, h, r * h // (MOVES + 1)) / MOVES
    return out


@uncounted
def assign_other_half(fit, h, out):
    """Write to ``out`` the best set of the first ``h`` vectors for each of the next ones."""
    for i in range(h):
        fit.along[:h] = 0.0
        for j in range(h):
            fit.along[fit.z[j]] += fit.gram[h + i, j]
        best, most = 0, -math.inf
        for k in range(h):
            m = fit.size[k]
            if m == 0:
                continue
            odds = math.log(m) - fit.joint[k]
            odds += joint(fit, m + 1, fit.square[k] + 2.0 * fit.along[k] + 1.0)
            if odds > most:
                best, most = k, odds
        out[i] = best


@uncounted
def swap_halves(fit, h):
    """Put the second ``h`` vectors before the first ones."""
    for i in range(h):
        for j in range(h):
            a, b = fit.gram[i, j], fit.gram[i, h + j]
            fit.gram[i, j], fit.gram[i, h + j] = fit.gram[h + i, h + j], fit.gram[h + i, j]
            fit.gram[h + i, h + j], fit.gram[h + i, j] = a, b


@uncounted
def agreement(fit, h, half, rho, alpha, least, most):
    """Return how many nats a vector both halves, of ``h`` vectors each, find."""
    prepare_sets(fit, h, half, rho)
    partition(fit, h, alpha, least, most)
    assign_other_half(fit, h, fit.told)
    copy_first(fit.best, fit.z, h)
    swap_halves(fit, h)
    partition(fit, h, alpha, least, most)
    out = beyond_chance(fit, fit.told, fit.z, h)
    assign_other_half(fit, h, fit.told)
    return 0.5 * (out + beyond_chance(fit, fit.told, fit.best, h))


@uncounted
def compare(rhos, parts, fit, n, half, alpha, least, most, found):
    """Note how much each setting, rho by rho, finds twice in ``n`` vectors; return the best."""
    best, P = 0, len(parts)
    for g in range(len(found)):
        again = agreement(
            fit, n // 2, half * parts[g % P], rhos[g // P], 0.5 * alpha, 0.5 * least, 0.5 * most
        )
        found[g] = again if found[g] == 0.0 else found[g] + RATE * (again - found[g])
        if found[g] > found[best]:
            best = g
    return best
