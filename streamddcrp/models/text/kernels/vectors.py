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

Where all vectors have a direction in common, a background mu with b = |mu|^2, theta is N(mu, ..)
and the variances are those of what is left: the same holds for x' = (x - mu) / sqrt(1 - b). Of
stories are kept S and mu S, so that mu may change; see `kernels.background`.
"""

import math

import numpy as np

from streamddcrp.compilation import entry, leaf, uncounted
from streamddcrp.contract import DEATH, LABEL, LABEL_PROB, LIVE_TABLES, P_CHANGE, P_NEW, SCORE
from streamddcrp.data.kernels.boilerplate import next_look
from streamddcrp.models.text.kernels.background import dot, find_background, is_zero
from streamddcrp.models.text.kernels.clock import (
    advance,
    elapsed,
    learn_scales,
    mix,
    shift,
    weight_now,
)
from streamddcrp.models.text.kernels.events import BORN, UNKNOWN, grown, happened
from streamddcrp.models.text.kernels.layout import (
    ALPHA,
    BACKGROUND,
    FINAL_LABEL,
    GROWTH,
    GROWTHS,
    N_LIVE,
    N_SEEN,
    N_SLOTS,
    N_SUMS,
    N_VECTORS,
    NEWEST,
    NEXT_ID,
    NEXT_LOOK,
    SURPRISE,
    TOTAL,
    TOTALS,
)
from streamddcrp.models.text.kernels.tables import extend

SWEEP = 50  # vectors between two looks for tables to retire
FAR = 60.0  # log-odds, from which on no digit of a probability changes


@leaf
def centred(square, m, toward, b):
    """Return |S'|^2 of a sum S of m vectors, with |S|^2 and mu S."""
    return (square - 2.0 * m * toward + m * m * b) / (1.0 - b)


@leaf
def squares(m, toward, b):
    """Return the sum of |x'|^2 over m unit vectors x with sum S, mu S = ``toward``."""
    return (m - 2.0 * toward + m * b) / (1.0 - b)


@uncounted
def prepare(config, D, m, Q, base, slope):
    """Write log J of m vectors with sum of squares Q for each rho, as base + slope |S|^2."""
    for g in range(len(config.rho)):
        rho = config.rho[g]
        sigma, scale = (1.0 - rho) / rho, 0.5 * config.temper * D
        rest = m * math.log1p(-rho) + math.log1p(m / sigma) + Q / (1.0 - rho) - Q
        base[g], slope[g] = -scale * rest, scale / ((m + sigma) * (1.0 - rho))


@uncounted
def log_joint(config, base, slope, square, excess, least):
    """Return log of the mean over rho of J; roughly where it is below ``least``.

    ``excess``: what the sum of squares is larger than ``base`` was prepared for, by tau D / 2.
    """
    top, total, rho = -np.inf, 0.0, config.rho
    for g in range(len(base)):
        top = max(top, base[g] + slope[g] * square - excess * rho[g] / (1.0 - rho[g]))
    if top < least:
        return top
    for g in range(len(base)):
        more = excess * rho[g] / (1.0 - rho[g])
        total += math.exp(base[g] + slope[g] * square - more - top)
    return top + math.log(total / len(base))


@uncounted
def log_odds(config, tables, counts, sums, background, x, own, own_weight, out):
    """Write log F_k / alpha + log P(x | k) / P(x | new) for each slot, -inf where it is free.

    ``own`` is the slot of ``x``, with stored weight ``own_weight``: it counts without it.
    """
    b, alpha = sums[BACKGROUND], sums[ALPHA]
    along = dot(x, background) if b > 0.0 else 0.0
    own_square, S = squares(1, along, b), tables.masses.shape[0]
    excess = 0.5 * config.temper * len(x) * (own_square - 1.0) if b > 0.0 else 0.0
    for k in range(counts[N_SLOTS]):
        m, mass, square = tables.size[k], tables.mass[k], tables.square[k]
        toward = tables.toward[k]
        if m == 0 or (k == own and m == 1):
            out[k] = -np.inf
            continue
        if k == own:  # J with it is known, and the one without it is not
            product, mass = dot(x, tables.total[k]), mass - own_weight
            G = len(config.rho)
            spare = N_SUMS + N_VECTORS * S
            base, slope = sums[spare : spare + G], sums[spare + G :]
            toward -= along
            prepare(config, len(x), m - 1, squares(m - 1, toward, b), base, slope)
            square = centred(square - 2.0 * product + 1.0, m - 1, toward, b)
            like = tables.joint[k] - log_joint(config, base, slope, square, 0.0, -np.inf)
        else:
            square += 2.0 * dot(x, tables.total[k]) + 1.0
            square = centred(square, m + 1, toward + along, b)
            before = tables.joint[k]
            base, slope = tables.base[k], tables.slope[k]
            like = log_joint(config, base, slope, square, excess, before - FAR) - before
        out[k] = math.log(max(mass / sums[GROWTH], 1e-100) / alpha) + like


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
    tables.mass[k] = tables.square[k] = tables.toward[k] = 0.0
    for g in range(tables.masses.shape[0]):
        tables.masses[g, k] = 0.0
    tables.in_window[k], tables.reported[k] = 0, UNKNOWN
    tables.born[k] = tables.last_seen[k] = i
    tables.born_t[k] = tables.last_t[k] = t
    for d in range(tables.total.shape[1]):
        tables.total[k, d] = 0.0
    return k


@uncounted
def set_joint(config, tables, sums, k):
    """Set what follows from the vectors of a table: log J, and its terms with one more."""
    m, D, b, toward = tables.size[k], tables.total.shape[1], sums[BACKGROUND], tables.toward[k]
    base, slope, Q = tables.base[k], tables.slope[k], squares(m, toward, b)
    prepare(config, D, m, Q, base, slope)
    square = centred(tables.square[k], m, toward, b)
    tables.joint[k] = log_joint(config, base, slope, square, 0.0, -np.inf)
    prepare(config, D, m + 1, Q + 1.0, base, slope)


@uncounted
def add(config, tables, window, counts, sums, background, k, at, sign):
    """Add a vector of the window to a table, or take it out."""
    x, weight, mass = window.x[at], window.weight[at], tables.mass[k]
    tables.square[k] += 1.0 + 2.0 * sign * dot(x, tables.total[k])
    if sums[BACKGROUND] > 0.0:
        tables.toward[k] += sign * dot(x, background)
    for d in range(len(x)):
        tables.total[k, d] += sign * x[d]
    tables.mass[k] = max(mass + sign * weight, 0.0)
    sums[TOTAL] += tables.mass[k] - mass
    if tables.masses.shape[0] > 0:
        shift(tables.masses, window.weights, sums, k, at, sign)
    tables.size[k] += int(sign)
    tables.in_window[k] += int(sign)
    set_joint(config, tables, sums, k)
    if tables.size[k] == 0:
        free(tables, counts, sums, k)


@uncounted
def note(tables, window, events, counts, sums, k, kind):
    """Record an event of table ``k``."""
    share = tables.mass[k] / max(sums[TOTAL], 1e-300)
    happened(tables, window, events, counts, k, kind, -1, share)


@uncounted
def seat(config, tables, window, events, counts, sums, background, i, k):
    """Put vector ``i`` of the window into table ``k``, or into a new one where k < 0."""
    at = i % len(window.table)
    t = window.t[at]
    if k < 0:
        k = open_table(tables, counts, i, t)
    add(config, tables, window, counts, sums, background, k, at, 1.0)
    extend(tables, k, i, t)
    window.table[at] = k
    kind = grown(config, tables, k)
    if kind >= 0:
        note(tables, window, events, counts, sums, k, kind)


@uncounted
def describe_zero(config, tables, counts, sums, odds, out):
    """Write the predictions for a vector without a direction: nothing but the prior."""
    mass, alpha = 0.0, sums[ALPHA]
    for k in range(counts[N_SLOTS]):
        weight = tables.mass[k] / sums[GROWTH] if tables.size[k] > 0 else 0.0
        odds[k] = math.log(weight / alpha) if weight > 0.0 else -np.inf
        mass += weight
    out[LABEL], out[LABEL_PROB], out[SCORE] = -1.0, np.nan, 0.0
    out[P_NEW] = alpha / (alpha + mass)
    out[P_CHANGE], out[LIVE_TABLES], out[FINAL_LABEL] = np.nan, counts[N_LIVE], np.nan


@uncounted
def describe(config, tables, counts, sums, background, x, odds, out):
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
    out[SCORE] = -(math.log(total) + top + math.log(sums[ALPHA] / (sums[ALPHA] + mass)))
    b = sums[BACKGROUND]
    if b > 0.0:  # what the background is worth to a story of its own
        Q = squares(1, dot(x, background), b)
        out[SCORE] += 0.5 * config.temper * len(x) * (math.log1p(-b) + Q - 1.0)
    out[P_NEW] = math.exp(-top) / total
    out[P_CHANGE], out[LIVE_TABLES], out[FINAL_LABEL] = np.nan, counts[N_LIVE], np.nan
    return best


@uncounted
def free(tables, counts, sums, k):
    """Free the slot of a table."""
    sums[TOTAL] -= tables.mass[k]
    tables.mass[k], tables.size[k] = 0.0, 0
    S = tables.masses.shape[0]
    for g in range(S):
        sums[N_SUMS + TOTALS * S + g] -= tables.masses[g, k]
        tables.masses[g, k] = 0.0
    counts[N_LIVE] -= 1


@uncounted
def look(config, tables, window, events, counts, sums, background, odds):
    """Look for a background. Where there is one now, assign again all labels that are not final."""
    known = sums[BACKGROUND]
    b = find_background(tables, window, counts, known, background)
    if b == 0.0 and known == 0.0:
        return
    seen = counts[N_SEEN]
    first = max(0, seen - config.ages[-1]) if known == 0.0 else seen
    for i in range(first, seen):
        at = i % len(window.table)
        k = window.table[at]
        if k >= 0:
            if tables.size[k] == 1 and tables.reported[k] >= BORN:
                note(tables, window, events, counts, sums, k, DEATH)
            add(config, tables, window, counts, sums, background, k, at, -1.0)
    sums[BACKGROUND] = b
    for k in range(counts[N_SLOTS]):
        if tables.size[k] > 0:
            tables.toward[k] = dot(tables.total[k], background)
            set_joint(config, tables, sums, k)
    for i in range(first, seen):
        at = i % len(window.table)
        if window.table[at] >= 0:
            if tables.masses.shape[0] > 0:
                window.weight[at] = weight_now(window.weights, sums, at)
            log_odds(config, tables, counts, sums, background, window.x[at], -1, 0.0, odds)
            k = best_slot(tables, counts, odds)
            seat(config, tables, window, events, counts, sums, background, i, k)


@entry
def predict_vector(config, tables, window, counts, sums, background, odds, x, t, out):
    """Predict a unit vector at time ``t``; masses and sums are to be restored afterwards.

    Leaves the log-odds in ``odds``.
    """
    if tables.masses.shape[0] > 0:
        mix(config, tables, window, counts, sums, t, True)
    else:
        exponent, sums[ALPHA] = elapsed(config, window, counts, sums, t)
        sums[GROWTH] *= math.exp(min(exponent, 200.0))
    if is_zero(x):
        describe_zero(config, tables, counts, sums, odds, out)
    else:
        log_odds(config, tables, counts, sums, background, x, -1, 0.0, odds)
        describe(config, tables, counts, sums, background, x, odds, out)


@entry
def step_vectors(
    config, tables, window, events, counts, sums, background, odds, X, t, done, out
):  # fmt: skip
    """Predict and learn unit vectors ``done`` .. N - 1; return how many are done."""
    n_ages, size, learned = len(config.ages), len(window.table), tables.masses.shape[0] > 0
    for row in range(done, len(X)):
        i, x = counts[N_SEEN], X[row]
        room = n_ages + 1
        if i + 1 >= counts[NEXT_LOOK] and sums[BACKGROUND] == 0.0:
            room += min(i + 1, config.ages[-1])  # to assign all again
        if counts[N_SLOTS] + room > len(tables.id):
            return row
        at = i % size
        advance(config, tables, window, counts, sums, t[row])
        window.weight[at], window.t[at], window.table[at] = sums[GROWTH], t[row], -1
        for g in range(tables.masses.shape[0]):
            window.weights[at, g] = sums[N_SUMS + GROWTHS * tables.masses.shape[0] + g]
        counts[NEWEST] = i
        for d in range(len(x)):
            window.x[at, d] = x[d]
        if is_zero(x):
            describe_zero(config, tables, counts, sums, odds, out[row])
        else:
            log_odds(config, tables, counts, sums, background, x, -1, 0.0, odds)
            k = describe(config, tables, counts, sums, background, x, odds, out[row])
            sums[SURPRISE] += out[row, SCORE]
            if k >= 0 and learned:
                learn_scales(tables, sums, k)
            seat(config, tables, window, events, counts, sums, background, i, k)
        for r in range(n_ages):
            j = i - config.ages[r]
            if j < 0:
                break
            at, last = j % size, r == n_ages - 1
            old = window.table[at]
            if old < 0:
                out[row, FINAL_LABEL] = -1.0 if last else np.nan
                continue
            if learned:
                window.weight[at] = weight_now(window.weights, sums, at)
            y, weight = window.x[at], window.weight[at]
            log_odds(config, tables, counts, sums, background, y, old, weight, odds)
            k = best_slot(tables, counts, odds)
            if k < 0 and tables.size[old] == 1:
                k = old
            if k != old:
                if tables.size[old] == 1 and tables.reported[old] >= BORN:
                    note(tables, window, events, counts, sums, old, DEATH)
                add(config, tables, window, counts, sums, background, old, at, -1.0)
                seat(config, tables, window, events, counts, sums, background, j, k)
            if last:
                k = window.table[at]
                out[row, FINAL_LABEL] = tables.id[k]
                tables.in_window[k] -= 1
        if (i + 1) % SWEEP == 0:
            least = config.retire * sums[ALPHA] / config.alpha * sums[GROWTH]
            for k in range(counts[N_SLOTS]):
                if tables.size[k] > 0 and tables.mass[k] < least and tables.in_window[k] == 0:
                    if tables.reported[k] >= BORN:
                        note(tables, window, events, counts, sums, k, DEATH)
                    free(tables, counts, sums, k)
        counts[N_SEEN] = i + 1
        if i + 1 >= counts[NEXT_LOOK]:
            look(config, tables, window, events, counts, sums, background, odds)
            counts[NEXT_LOOK] = next_look(i + 1)
    return len(X)
