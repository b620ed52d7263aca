"""The same engine over unit vectors: a Gaussian likelihood about a story's mean direction.

A story has a mean theta ~ N(0, rho / D I) and vectors x ~ N(theta, (1 - rho) / D I), so that rho is
the expected cosine of two of its vectors. With S the sum of its m vectors and sigma =
(1 - rho) / rho, the density of all of them against each in a story of its own is

    log J = -(D / 2) [m log(1 - rho) + log(1 + m / sigma)
                      + (m - |S|^2 / (m + sigma)) / (1 - rho) - m],

tempered by tau: as if the D dimensions were worth tau D independent ones. rho of a story is
one of ``config.rho`` with equal probabilities a priori, and summed out: the density of a further
vector is the ratio of the means of J over them, after and before it. A density of its own does not
depend on rho, so that scores under different settings of it can be compared.
"""

import math

import numpy as np

from streamddcrp.compilation import entry, leaf, uncounted
from streamddcrp.contract import (
    BIRTH,
    DEATH,
    LABEL,
    LABEL_PROB,
    LIVE_TABLES,
    P_CHANGE,
    P_NEW,
    SCORE,
)
from streamddcrp.models.text.kernels.layout import (
    FINAL_LABEL,
    GROWTH,
    N_LIVE,
    N_SEEN,
    N_SLOTS,
    NEXT_ID,
)
from streamddcrp.models.text.kernels.tables import extend, report

# sums; the first is GROWTH
SURPRISE = 1
SPARE = 2  # and on, 2 G numbers: work space for a story with one vector less

FAR = 60.0  # log-odds, from which on no digit of a probability changes


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
def prepare(config, D, m, base, slope):
    """Write log J of m vectors for each rho, as base + slope |S|^2."""
    for g in range(len(config.rho)):
        rho = config.rho[g]
        sigma, scale = (1.0 - rho) / rho, 0.5 * config.temper * D
        rest = m * math.log1p(-rho) + math.log1p(m / sigma) + m / (1.0 - rho) - m
        base[g], slope[g] = -scale * rest, scale / ((m + sigma) * (1.0 - rho))


@uncounted
def log_joint(base, slope, square, least):
    """Return log of the mean over rho of J; roughly where it is below ``least``."""
    top, total = -np.inf, 0.0
    for g in range(len(base)):
        top = max(top, base[g] + slope[g] * square)
    if top < least:
        return top
    for g in range(len(base)):
        total += math.exp(base[g] + slope[g] * square - top)
    return top + math.log(total / len(base))


@uncounted
def log_odds(config, tables, counts, sums, x, own, own_weight, out):
    """Write log F_k / alpha + log P(x | k) / P(x | new) for each slot, -inf where it is free.

    ``own`` is the slot of ``x``, with stored weight ``own_weight``: it counts without it.
    """
    for k in range(counts[N_SLOTS]):
        m, mass, square = tables.size[k], tables.mass[k], tables.square[k]
        if m == 0 or (k == own and m == 1):
            out[k] = -np.inf
            continue
        if k == own:  # J with it is known, and the one without it is not
            product, mass = dot(x, tables.total[k]), mass - own_weight
            G = len(config.rho)
            base, slope = sums[SPARE : SPARE + G], sums[SPARE + G :]
            prepare(config, len(x), m - 1, base, slope)
            like = tables.joint[k] - log_joint(base, slope, square - 2.0 * product + 1.0, -np.inf)
        else:
            square += 2.0 * dot(x, tables.total[k]) + 1.0
            before = tables.joint[k]
            like = log_joint(tables.base[k], tables.slope[k], square, before - FAR) - before
        out[k] = math.log(max(mass / sums[GROWTH], 1e-100) / config.alpha) + like


@uncounted
def best_slot(tables, counts, odds):
    """Return the slot of the largest positive log-odds, the older of equal ones, or -1."""
    best = -1
    for k in range(counts[N_SLOTS]):
        if odds[k] > 0.0:
            ties = best >= 0 and odds[k] == odds[best]
            if best < 0 or odds[k] > odds[best] or (ties and tables.id[k] < tables.id[best]):
                best = k
    return best


@uncounted
def open_table(tables, counts, i, t):
    """Open an empty table in the first free slot; return it."""
    k = 0
    while k < counts[N_SLOTS] and tables.size[k] > 0:
        k += 1
    counts[N_SLOTS] = max(counts[N_SLOTS], k + 1)
    counts[N_LIVE] += 1
    tables.id[k] = counts[NEXT_ID]
    counts[NEXT_ID] += 1
    tables.mass[k] = tables.square[k] = 0.0
    tables.in_window[k] = tables.reported[k] = 0
    tables.born[k] = tables.last_seen[k] = i
    tables.born_t[k] = tables.last_t[k] = t
    for d in range(tables.total.shape[1]):
        tables.total[k, d] = 0.0
    return k


@uncounted
def add(config, tables, counts, k, x, weight, sign):
    """Add a vector to a table, or take it out."""
    tables.square[k] += 1.0 + 2.0 * sign * dot(x, tables.total[k])
    for d in range(len(x)):
        tables.total[k, d] += sign * x[d]
    tables.mass[k] = max(tables.mass[k] + sign * weight, 0.0)
    tables.size[k] += int(sign)
    tables.in_window[k] += int(sign)
    base, slope, D = tables.base[k], tables.slope[k], len(x)
    prepare(config, D, tables.size[k], base, slope)
    tables.joint[k] = log_joint(base, slope, tables.square[k], -np.inf)
    prepare(config, D, tables.size[k] + 1, base, slope)
    if tables.size[k] == 0:
        counts[N_LIVE] -= 1


@uncounted
def seat(config, tables, window, counts, i, k):
    """Put vector ``i`` of the window into table ``k``, or into a new one where k < 0."""
    at = i % len(window.table)
    t = window.t[at]
    if k < 0:
        k = open_table(tables, counts, i, t)
    add(config, tables, counts, k, window.x[at], window.weight[at], 1.0)
    extend(tables, k, i, t)
    window.table[at] = k


@leaf
def is_zero(x):
    """Return whether a vector has no direction."""
    zero = True
    for d in range(len(x)):
        zero &= x[d] == 0.0
    return zero


@uncounted
def describe_zero(config, tables, counts, sums, odds, out):
    """Write the predictions for a vector without a direction: nothing but the prior."""
    mass = 0.0
    for k in range(counts[N_SLOTS]):
        weight = tables.mass[k] / sums[GROWTH] if tables.size[k] > 0 else 0.0
        odds[k] = math.log(weight / config.alpha) if weight > 0.0 else -np.inf
        mass += weight
    out[LABEL], out[LABEL_PROB], out[SCORE] = -1.0, np.nan, 0.0
    out[P_NEW] = config.alpha / (config.alpha + mass)
    out[P_CHANGE], out[LIVE_TABLES], out[FINAL_LABEL] = np.nan, counts[N_LIVE], np.nan


@uncounted
def describe(config, tables, counts, sums, odds, out):
    """Write the predictions by column of the output; P_CHANGE is unknown."""
    best, top, total, mass = best_slot(tables, counts, odds), 0.0, 0.0, 0.0
    for k in range(counts[N_SLOTS]):
        top = max(top, odds[k])
    for k in range(counts[N_SLOTS]):
        total += math.exp(odds[k] - top)
        if tables.size[k] > 0:
            mass += tables.mass[k] / sums[GROWTH]
    total += math.exp(-top)
    out[LABEL] = tables.id[best] if best >= 0 else counts[NEXT_ID]
    out[LABEL_PROB] = (math.exp(odds[best] - top) if best >= 0 else math.exp(-top)) / total
    out[SCORE] = -(math.log(total) + top + math.log(config.alpha / (config.alpha + mass)))
    out[P_NEW] = math.exp(-top) / total
    out[P_CHANGE], out[LIVE_TABLES], out[FINAL_LABEL] = np.nan, counts[N_LIVE], np.nan
    return best


@entry
def predict_vector(config, tables, counts, sums, odds, x, out):
    """Predict a unit vector and change nothing; leaves the log-odds in ``odds``."""
    growth = sums[GROWTH]
    sums[GROWTH] = growth * math.exp(1.0 / config.decay)
    if is_zero(x):
        describe_zero(config, tables, counts, sums, odds, out)
    else:
        log_odds(config, tables, counts, sums, x, -1, 0.0, odds)
        describe(config, tables, counts, sums, odds, out)
    sums[GROWTH] = growth


@entry
def step_vectors(config, tables, window, events, counts, sums, odds, X, t, done, out):
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
        window.weight[at], window.t[at], window.table[at] = sums[GROWTH], t[row], -1
        for d in range(len(x)):
            window.x[at, d] = x[d]
        if is_zero(x):
            describe_zero(config, tables, counts, sums, odds, out[row])
        else:
            log_odds(config, tables, counts, sums, x, -1, 0.0, odds)
            k = describe(config, tables, counts, sums, odds, out[row])
            sums[SURPRISE] += out[row, SCORE]
            seat(config, tables, window, counts, i, k)
        for r in range(n_ages):
            j = i - config.ages[r]
            if j < 0:
                break
            at, last = j % size, r == n_ages - 1
            y, weight, old = window.x[at], window.weight[at], window.table[at]
            if old < 0:
                out[row, FINAL_LABEL] = -1.0 if last else np.nan
                continue
            log_odds(config, tables, counts, sums, y, old, weight, odds)
            k = best_slot(tables, counts, odds)
            if k < 0 and tables.size[old] == 1:
                k = old
            if k != old:
                add(config, tables, counts, old, y, weight, -1.0)
                seat(config, tables, window, counts, j, k)
            if last:
                k = window.table[at]
                out[row, FINAL_LABEL] = tables.id[k]
                tables.in_window[k] -= 1
                if not tables.reported[k]:
                    tables.reported[k] = 1
                    report(tables, events, counts, k, BIRTH, -1)
        if (i + 1) % 50 == 0:
            for k in range(counts[N_SLOTS]):
                gone = tables.mass[k] < 1e-3 * sums[GROWTH] and tables.in_window[k] == 0
                if tables.size[k] > 0 and gone:
                    if tables.reported[k]:
                        report(tables, events, counts, k, DEATH, -1)
                    tables.size[k] = 0
                    counts[N_LIVE] -= 1
        counts[N_SEEN] = i + 1
    return len(X)
