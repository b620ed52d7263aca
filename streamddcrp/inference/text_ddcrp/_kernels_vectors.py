"""The same engine over unit vectors: a Gaussian likelihood about a story's mean direction.

With sigma = (1 - rho) / rho, kappa = D / (1 - rho), v = 1 / (m_k + sigma) and S_k the sum of the
vectors of table k, log P(x | k) = -(kappa / 2) |x - v S_k|^2 / (1 + v) - (D / 2) log(1 + v) up to a
constant; rho is the expected cosine of two vectors of one story.
"""

import math

import numpy as np
from numba import njit

from streamddcrp._numerics import UNCOUNTED, uncounted_njit

__all__ = ["predict_vector", "step_vectors"]

# counts
N_SEEN = 0
NEXT_ID = 1
N_SLOTS = 2
N_LIVE = 3
# sums
GROWTH = 0
COSINES = 1  # sum of the mean cosines of vectors with the others of their story
N_COSINES = 2  # and of how many
SURPRISE = 3

LARGEST_RHO = 0.95
LEAST_RHO = 0.05


@uncounted_njit
def dot(a, b):
    total = 0.0
    for d in range(len(a)):
        total += a[d] * b[d]
    return total


@uncounted_njit
def current_rho(config, sums):
    """Return rho: as given, or the mean within stories so far."""
    if config.rho > 0.0:
        return config.rho
    return min(max(sums[COSINES] / sums[N_COSINES], LEAST_RHO), LARGEST_RHO)


@uncounted_njit
def log_odds(config, tables, counts, sums, x, own, own_weight, out):
    """Write log F_k / alpha + tau (l_k - l_new) for each slot, -inf where it is free.

    ``own`` is the slot that ``x`` sits in with stored weight ``own_weight``: it counts without it.
    """
    rho, D = current_rho(config, sums), len(x)
    sigma, kappa = (1.0 - rho) / rho, D / (1.0 - rho)
    v = 1.0 / sigma
    new = -0.5 * kappa / (1.0 + v) - 0.5 * D * math.log1p(v)
    for k in range(counts[N_SLOTS]):
        m, mass, square = tables.size[k], tables.mass[k], tables.square[k]
        product = dot(x, tables.total[k]) if m > 0 else 0.0
        if k == own:
            m, mass = m - 1, mass - own_weight
            square, product = square - 2.0 * product + 1.0, product - 1.0
        if m <= 0:
            out[k] = -np.inf
            continue
        v = 1.0 / (m + sigma)
        distance = 1.0 - 2.0 * v * product + v * v * square
        like = -0.5 * kappa * distance / (1.0 + v) - 0.5 * D * math.log1p(v)
        prior = max(mass / sums[GROWTH], 1e-100) / config.alpha
        out[k] = math.log(prior) + config.temper * (like - new)


@uncounted_njit
def best_slot(tables, counts, odds):
    best = -1
    for k in range(counts[N_SLOTS]):
        if odds[k] > 0.0:
            ties = best >= 0 and odds[k] == odds[best]
            if best < 0 or odds[k] > odds[best] or (ties and tables.id[k] < tables.id[best]):
                best = k
    return best


@uncounted_njit
def open_table(tables, counts, i):
    k = 0
    while k < counts[N_SLOTS] and tables.size[k] > 0:
        k += 1
    counts[N_SLOTS] = max(counts[N_SLOTS], k + 1)
    counts[N_LIVE] += 1
    tables.id[k] = counts[NEXT_ID]
    counts[NEXT_ID] += 1
    tables.mass[k] = tables.square[k] = 0.0
    tables.in_window[k] = 0
    tables.born[k] = tables.last_seen[k] = i
    for d in range(tables.total.shape[1]):
        tables.total[k, d] = 0.0
    return k


@uncounted_njit
def add(tables, counts, k, x, weight, sign):
    """Add a vector to a table, or take it out."""
    tables.square[k] += 1.0 + 2.0 * sign * dot(x, tables.total[k])
    for d in range(len(x)):
        tables.total[k, d] += sign * x[d]
    tables.mass[k] = max(tables.mass[k] + sign * weight, 0.0)
    tables.size[k] += int(sign)
    tables.in_window[k] += int(sign)
    if tables.size[k] == 0:
        counts[N_LIVE] -= 1


@uncounted_njit
def describe(config, tables, counts, sums, odds, out):
    """Write label, probability, score, p_new, p_change (unknown) and the number of tables."""
    best, top, total, mass = best_slot(tables, counts, odds), 0.0, 0.0, 0.0
    for k in range(counts[N_SLOTS]):
        top = max(top, odds[k])
    for k in range(counts[N_SLOTS]):
        total += math.exp(odds[k] - top)
        if tables.size[k] > 0:
            mass += tables.mass[k] / sums[GROWTH]
    total += math.exp(-top)
    out[0] = tables.id[best] if best >= 0 else counts[NEXT_ID]
    out[1] = (math.exp(odds[best] - top) if best >= 0 else math.exp(-top)) / total
    out[2] = -(math.log(total) + top + math.log(config.alpha / (config.alpha + mass)))
    out[3] = math.exp(-top) / total
    out[4], out[5], out[6] = np.nan, counts[N_LIVE], np.nan
    return best


@njit(cache=True, **UNCOUNTED)
def predict_vector(config, tables, counts, sums, odds, x, out):
    """Predict a unit vector and change nothing; leaves the log-odds in ``odds``."""
    growth = sums[GROWTH]
    sums[GROWTH] = growth * math.exp(1.0 / config.decay)
    log_odds(config, tables, counts, sums, x, -1, 0.0, odds)
    describe(config, tables, counts, sums, odds, out)
    sums[GROWTH] = growth


@njit(cache=True, **UNCOUNTED)
def step_vectors(config, tables, window, counts, sums, odds, X, done, out):
    """Predict and learn unit vectors ``done`` .. N - 1; return how many are done."""
    n_ages, size = len(config.ages), len(window.table)
    for row in range(done, len(X)):
        if counts[N_SLOTS] + n_ages + 1 > len(tables.id):
            return row
        i, x = counts[N_SEEN], X[row]
        at = i % size
        sums[GROWTH] *= math.exp(1.0 / config.decay)
        if sums[GROWTH] > 1e100:
            for k in range(counts[N_SLOTS]):
                tables.mass[k] /= sums[GROWTH]
            for j in range(size):
                window.weight[j] /= sums[GROWTH]
            sums[GROWTH] = 1.0
        log_odds(config, tables, counts, sums, x, -1, 0.0, odds)
        k = describe(config, tables, counts, sums, odds, out[row])
        sums[SURPRISE] += out[row, 2]
        if k < 0:
            k = open_table(tables, counts, i)
        add(tables, counts, k, x, sums[GROWTH], 1.0)
        tables.last_seen[k] = i
        window.table[at], window.weight[at] = k, sums[GROWTH]
        for d in range(len(x)):
            window.x[at, d] = x[d]
        for r in range(n_ages):
            j = i - config.ages[r]
            if j < 0:
                break
            at, last = j % size, r == n_ages - 1
            y, weight, old = window.x[at], window.weight[at], window.table[at]
            log_odds(config, tables, counts, sums, y, old, weight, odds)
            k = best_slot(tables, counts, odds)
            if last and tables.size[old] > 1:
                others = dot(y, tables.total[old]) - 1.0
                sums[COSINES] += others / (tables.size[old] - 1)
                sums[N_COSINES] += 1.0
            if k < 0 and tables.size[old] == 1:
                k = old
            if k != old:
                add(tables, counts, old, y, weight, -1.0)
                if k < 0:
                    k = open_table(tables, counts, j)
                add(tables, counts, k, y, weight, 1.0)
                tables.last_seen[k] = max(tables.last_seen[k], j)
            window.table[at] = k
            if last:
                out[row, 6] = tables.id[k]
                tables.in_window[k] -= 1
        if (i + 1) % 50 == 0:
            for k in range(counts[N_SLOTS]):
                gone = tables.mass[k] < 1e-3 * sums[GROWTH] and tables.in_window[k] == 0
                if tables.size[k] > 0 and gone:
                    tables.size[k] = 0
                    counts[N_LIVE] -= 1
        counts[N_SEEN] = i + 1
    return len(X)
