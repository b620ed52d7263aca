"""The same engine over unit vectors: a Gaussian likelihood about a story's mean direction.

A story has a mean theta ~ N(0, rho / D I) and vectors x ~ N(theta, (1 - rho) / D I), so that rho is
the expected cosine of two of its vectors. With S the sum of its m vectors and sigma =
(1 - rho) / rho, the density of all of them against each in a story of its own is

    log J = -(D / 2) [m log(1 - rho) + log(1 + m / sigma)
                      + (m - |S|^2 / (m + sigma)) / (1 - rho) - m],

tempered by tau: as if the D dimensions were worth tau D independent ones. A density of its own does
not depend on rho, so that scores under different settings of it can be compared.

Where all vectors have a direction in common, a background mu with b = |mu|^2, theta is N(mu, ..)
and the variances are those of what is left: the same holds for x' = (x - mu) / sqrt(1 - b). Of
stories are kept S and mu S, so that mu may change; see `kernels.background`.
"""

import math

import numpy as np

from streamddcrp.compilation import entry, leaf, uncounted
from streamddcrp.contract import LABEL, LABEL_PROB, LIVE_TABLES, P_CHANGE, P_NEW, RETURN, SCORE
from streamddcrp.models.text.kernels import layout
from streamddcrp.models.text.kernels.background import dot, is_zero
from streamddcrp.models.text.kernels.clock import elapsed, mix, shift
from streamddcrp.models.text.kernels.events import BORN, CLOSED, UNKNOWN, grown, happened
from streamddcrp.models.text.kernels.silence import breaks_silence
from streamddcrp.models.text.kernels.tables import extend

# In sums, of vectors: as learned; alpha is times the third. Before them, how good settings were.
RHO, TEMPER, FACTOR, FOUND = -3, -2, -1, -3


@leaf
def centred(square, m, toward, b):
    """Return |S'|^2 of a sum S of m vectors, with |S|^2 and mu S."""
    return (square - 2.0 * m * toward + m * m * b) / (1.0 - b)


@leaf
def squares(m, toward, b):
    """Return the sum of |x'|^2 over m unit vectors x with sum S, mu S = ``toward``."""
    return (m - 2.0 * toward + m * b) / (1.0 - b)


@leaf
def terms(sums, D, m, Q):
    """Return base and slope in log J = base + slope |S|^2 of m vectors with sum of squares Q."""
    rho, scale = sums[RHO], 0.5 * sums[TEMPER] * D
    sigma = (1.0 - rho) / rho
    rest = m * math.log1p(-rho) + math.log1p(m / sigma) + Q / (1.0 - rho) - Q
    return -scale * rest, scale / ((m + sigma) * (1.0 - rho))


@uncounted
def log_odds(config, tables, counts, sums, background, x, own, own_weight, out):
    """Write log F_k / alpha + log P(x | k) / P(x | new) by slot, -inf if free; x not in its own."""
    b, alpha, D = sums[layout.BACKGROUND], sums[layout.ALPHA] * sums[FACTOR], len(x)
    along = dot(x, background) if b > 0.0 else 0.0
    # What the sum of squares is larger than the terms were prepared for.
    excess = 0.5 * sums[TEMPER] * D * (squares(1, along, b) - 1.0) * sums[RHO] / (1.0 - sums[RHO])
    for k in range(counts[layout.N_SLOTS]):
        m, mass, square = tables.size[k], tables.mass[k], tables.square[k]
        toward = tables.toward[k]
        if m == 0 or (k == own and m == 1):
            out[k] = -np.inf
            continue
        product = dot(x, tables.total[k])
        if k == own:  # J with it is known, and the one without it is not
            mass -= own_weight
            toward -= along
            base, slope = terms(sums, D, m - 1, squares(m - 1, toward, b))
            square = centred(square - 2.0 * product + 1.0, m - 1, toward, b)
            like = tables.joint[k] - base - slope * square
        else:
            square = centred(square + 2.0 * product + 1.0, m + 1, toward + along, b)
            like = tables.base[k] + tables.slope[k] * square - excess - tables.joint[k]
        out[k] = math.log(max(mass / sums[layout.GROWTH], 1e-100) / alpha) + like


@uncounted
def best_slot(tables, counts, odds):
    """Return the slot of the largest positive log-odds, the older of equal ones, or -1."""
    best = -1
    for k in range(counts[layout.N_SLOTS]):
        if odds[k] > 0.0:
            ties = best >= 0 and odds[k] == odds[best]
            if best < 0 or odds[k] > odds[best] or (ties and tables.id[k] < tables.id[best]):
                best = k
    return best


@uncounted
def open_table(tables, counts, i, t):
    """Open an empty table in the first free slot; return it."""
    k = 0
    while k < counts[layout.N_SLOTS] and tables.size[k] > 0:
        k += 1
    counts[layout.N_SLOTS] = max(counts[layout.N_SLOTS], k + 1)
    counts[layout.N_LIVE] += 1
    tables.id[k] = counts[layout.NEXT_ID]
    counts[layout.NEXT_ID] += 1
    tables.mass[k] = tables.square[k] = tables.toward[k] = 0.0
    tables.masses[:, k] = 0.0
    tables.in_window[k], tables.reported[k] = 0, UNKNOWN
    tables.quiet[k], tables.longest[k], tables.closed[k] = 0, 0, False
    tables.born[k] = tables.last_seen[k] = i
    tables.born_t[k] = tables.last_t[k] = t
    tables.total[k] = 0.0
    return k


@uncounted
def set_joint(tables, sums, k):
    """Set what follows from the vectors of a table: log J, and its terms with one more."""
    m, D, b, toward = (
        tables.size[k],
        tables.total.shape[1],
        sums[layout.BACKGROUND],
        tables.toward[k],
    )
    Q = squares(m, toward, b)
    base, slope = terms(sums, D, m, Q)
    tables.joint[k] = base + slope * centred(tables.square[k], m, toward, b)
    tables.base[k], tables.slope[k] = terms(sums, D, m + 1, Q + 1.0)


@uncounted
def add(tables, window, counts, sums, background, k, at, sign):
    """Add a vector of the window to a table, or take it out."""
    x, weight, mass = window.x[at], window.weight[at], tables.mass[k]
    tables.square[k] += 1.0 + 2.0 * sign * dot(x, tables.total[k])
    if sums[layout.BACKGROUND] > 0.0:
        tables.toward[k] += sign * dot(x, background)
    for d in range(len(x)):
        tables.total[k, d] += sign * x[d]
    tables.mass[k] = max(mass + sign * weight, 0.0)
    sums[layout.TOTAL] += tables.mass[k] - mass
    if tables.masses.shape[0] > 0:
        shift(tables.masses, window.weights, sums, k, at, sign)
    tables.size[k] += int(sign)
    tables.in_window[k] += int(sign)
    set_joint(tables, sums, k)
    if tables.size[k] == 0:
        free(tables, counts, sums, k)


@uncounted
def note(tables, window, events, counts, sums, k, kind, into):
    """Record an event of table ``k``."""
    share = tables.mass[k] / max(sums[layout.TOTAL], 1e-300)
    happened(tables, window, events, counts, k, kind, into, share)


@uncounted
def seat(config, tables, window, events, counts, sums, background, i, k):
    """Put vector ``i`` of the window into table ``k``, or into a new one where k < 0."""
    at = i % len(window.table)
    t = window.t[at]
    if k < 0:
        k = open_table(tables, counts, i, t)
    if breaks_silence(tables, sums, k, i):
        note(tables, window, events, counts, sums, k, RETURN, tables.id[k])
    add(tables, window, counts, sums, background, k, at, 1.0)
    extend(tables, k, i, t)
    window.table[at] = k
    kind = grown(config, tables, k, tables.size[k])
    if kind >= 0:
        note(tables, window, events, counts, sums, k, kind, -1)
    return k


@uncounted
def move(config, tables, window, events, counts, sums, background, i, k):
    """Put vector ``i`` of the window into another table, ``k``, or a new one; return it."""
    at = i % len(window.table)
    old = window.table[at]
    if tables.size[old] == 1 and tables.reported[old] >= BORN and not tables.closed[old]:
        note(tables, window, events, counts, sums, old, CLOSED, -1)
    add(tables, window, counts, sums, background, old, at, -1.0)
    return seat(config, tables, window, events, counts, sums, background, i, k)


@uncounted
def describe_zero(config, tables, counts, sums, odds, out):
    """Write the predictions for a vector without a direction: nothing but the prior."""
    mass, alpha = 0.0, sums[layout.ALPHA] * sums[FACTOR]
    for k in range(counts[layout.N_SLOTS]):
        weight = tables.mass[k] / sums[layout.GROWTH] if tables.size[k] > 0 else 0.0
        odds[k] = math.log(weight / alpha) if weight > 0.0 else -np.inf
        mass += weight
    out[LABEL], out[LABEL_PROB], out[SCORE] = -1.0, np.nan, 0.0
    out[P_NEW] = alpha / (alpha + mass)
    out[P_CHANGE], out[LIVE_TABLES], out[layout.FINAL_LABEL] = np.nan, counts[layout.N_LIVE], np.nan


@uncounted
def describe(config, tables, counts, sums, background, x, odds, out):
    """Write the predictions by column of the output; P_CHANGE is unknown."""
    best, top, total, mass = best_slot(tables, counts, odds), 0.0, 0.0, 0.0
    alpha = sums[layout.ALPHA] * sums[FACTOR]
    for k in range(counts[layout.N_SLOTS]):
        top = max(top, odds[k])
    for k in range(counts[layout.N_SLOTS]):
        total += math.exp(odds[k] - top)
        if tables.size[k] > 0:
            mass += tables.mass[k] / sums[layout.GROWTH]
    total += math.exp(-top)
    out[LABEL] = tables.id[best] if best >= 0 else counts[layout.NEXT_ID]
    out[LABEL_PROB] = (math.exp(odds[best] - top) if best >= 0 else math.exp(-top)) / total
    out[SCORE] = -(math.log(total) + top + math.log(alpha / (alpha + mass)))
    b = sums[layout.BACKGROUND]
    if b > 0.0:  # what the background is worth to a story of its own
        Q = squares(1, dot(x, background), b)
        out[SCORE] += 0.5 * sums[TEMPER] * len(x) * (math.log1p(-b) + Q - 1.0)
    out[P_NEW] = math.exp(-top) / total
    out[P_CHANGE], out[LIVE_TABLES], out[layout.FINAL_LABEL] = np.nan, counts[layout.N_LIVE], np.nan
    return best


@uncounted
def free(tables, counts, sums, k):
    """Free the slot of a table."""
    sums[layout.TOTAL] -= tables.mass[k]
    tables.mass[k], tables.size[k] = 0.0, 0
    S = tables.masses.shape[0]
    for g in range(S):
        sums[layout.N_SUMS + layout.TOTALS * S + g] -= tables.masses[g, k]
        tables.masses[g, k] = 0.0
    counts[layout.N_LIVE] -= 1


@entry
def predict_vector(config, tables, window, counts, sums, background, odds, x, t, out):
    """Predict a unit vector at ``t``, log-odds in ``odds``; the caller restores masses and sums."""
    if tables.masses.shape[0] > 0:
        mix(config, tables, window, counts, sums, t, True)
    else:
        exponent, sums[layout.ALPHA] = elapsed(config, window, counts, sums, t)
        sums[layout.GROWTH] *= math.exp(min(exponent, 200.0))
    if is_zero(x):
        describe_zero(config, tables, counts, sums, odds, out)
    else:
        log_odds(config, tables, counts, sums, background, x, -1, 0.0, odds)
        describe(config, tables, counts, sums, background, x, odds, out)
