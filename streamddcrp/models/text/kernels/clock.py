"""What time does to weights: those of documents fall, that of a new table follows the rate.

Where the decay is learned, it is a mixture of exponentials: a document that came D before weighs
f(D) = sum over g of v_g exp(-D / a_g), with scales a_g an octave apart, in documents and, where
there are times, in time as well; sum of v_g = 1. So the mass of table k is F_k = sum of v_g F_kg,
and each F_kg decays by itself. A document that comes to an existing table comes to table k with
probability F_k / F; the log-likelihood of v has the derivatives F_kg / F_k - F_g / F, where F_g =
sum over k of F_kg. At each such document

    v_g <- v_g (1 + r F_kg / (E_g F_k)) / (1 + r F_g / (E_g F)),    E_g = a_g / sum of v_h a_h,

a step of the EM algorithm on line, as r / E_g F_kg / F_k v_g is r times the probability that the
document follows one at scale g, whose mean is w_g = v_g a_g / sum of v_h a_h. Towards the prior
w_g are pulled as by three documents in a thousand.
"""

import math

from streamddcrp.compilation import leaf, uncounted
from streamddcrp.models.text.kernels import layout

RATE, PULL = 0.005, 0.003  # r, and that of the prior
CALIBRATE = 500  # documents whose mean distance in time is the unit of time


@leaf
def distance(sums, t, G, g):
    """Return the time from the last document to ``t`` by scale ``g``; the unit may not be known."""
    scale = sums[layout.N_SUMS + layout.SCALES * G + g]
    if sums[layout.N_SUMS + layout.TIMED * G + g] > 0.0 and sums[layout.UNIT] > 0.0:
        return (t - sums[layout.TIME]) / (sums[layout.UNIT] * scale)
    return 1.0 / scale


@leaf
def grown(growth, exponent):
    """Return what a document weighs now, and a factor of the stored weights, mostly 1."""
    if exponent >= 200.0:
        return 1.0, math.exp(-min(exponent, 700.0)) / growth
    growth *= math.exp(exponent)
    return (growth, 1.0) if growth < 1e100 else (1.0, 1.0 / growth)


@uncounted
def mix(config, tables, window, counts, sums, t, ahead):
    """Set masses, their total and alpha to those of now or, with ``ahead``, of time ``t``."""
    G, slots, reach = tables.masses.shape[0], counts[layout.N_SLOTS], 0.0
    sums[layout.TOTAL] = 0.0
    mass, rate, past = tables.mass, 1.0, min(counts[layout.N_SEEN], config.ages[-1])
    span = t - window.t[(counts[layout.N_SEEN] - past) % len(window.t)]
    if sums[layout.UNIT] > 0.0 and span > 0.0:
        rate = past * sums[layout.UNIT] / span
    mass[:slots] = 0.0
    for g in range(G):
        share, masses = sums[layout.N_SUMS + layout.SHARES * G + g], tables.masses[g]
        growth = sums[layout.N_SUMS + layout.GROWTHS * G + g]
        if ahead:
            growth *= math.exp(min(distance(sums, t, G, g), 200.0))
        now = share / growth
        sums[layout.N_SUMS + layout.MIXED * G + g] = now
        total = now * sums[layout.N_SUMS + layout.TOTALS * G + g]
        sums[layout.TOTAL] += total
        for k in range(slots):
            mass[k] += now * masses[k]
        expected = share * sums[layout.N_SUMS + layout.SCALES * G + g]
        if sums[layout.N_SUMS + layout.TIMED * G + g] > 0.0:  # a burst counts as it comes
            expected = min(rate * expected, expected + 2.0 * total)
        reach += expected
    if config.share > 0.0:  # as many births whatever is learned
        sums[layout.ALPHA] = config.share * min(max(reach, 1.0), 1e5)


@uncounted
def advance_scales(config, tables, window, counts, sums, t):
    """Move on to time ``t``: what arrived before weighs less, at each scale by its own measure."""
    G, seen = tables.masses.shape[0], counts[layout.N_SEEN]
    if seen == 0:
        sums[layout.START] = t
    for g in range(G):
        at = layout.N_SUMS + layout.GROWTHS * G + g
        sums[at], factor = grown(sums[at], distance(sums, t, G, g))
        if factor == 1.0:
            continue
        sums[layout.N_SUMS + layout.TOTALS * G + g] *= factor
        for k in range(counts[layout.N_SLOTS]):
            tables.masses[g, k] *= factor
        for i in range(len(window.weight)):
            window.weights[i, g] *= factor
    mix(config, tables, window, counts, sums, t, False)
    sums[layout.TIME] = t
    if sums[layout.UNIT] == 0.0 and seen >= CALIBRATE:
        sums[layout.UNIT] = (t - sums[layout.START]) / seen


@uncounted
def weight_now(weights, sums, at):
    """Return what a document of the window weighs now."""
    G, weight = weights.shape[1], 0.0
    for g in range(G):
        weight += sums[layout.N_SUMS + layout.MIXED * G + g] * weights[at, g]
    return weight


@uncounted
def shift(masses, weights, sums, k, at, sign):
    """Add the weights of a document of the window to those of table ``k``, or take them away."""
    G = weights.shape[1]
    for g in range(G):
        before = masses[g, k]
        masses[g, k] = max(before + sign * weights[at, g], 0.0)
        sums[layout.N_SUMS + layout.TOTALS * G + g] += masses[g, k] - before


@uncounted
def learn_scales(tables, sums, k):
    """Learn the scales at which weights fall from a document that comes to table ``k``."""
    G, reach, whole = tables.masses.shape[0], 0.0, 0.0
    mass, total = max(tables.mass[k], 1e-100), max(sums[layout.TOTAL], 1e-100)
    shares = sums[layout.N_SUMS + layout.SHARES * G :]
    scales = sums[layout.N_SUMS + layout.SCALES * G :]
    for g in range(G):
        reach += shares[g] * scales[g]
    for g in range(G):
        per = reach / scales[g]
        step = RATE * per / sums[layout.N_SUMS + layout.GROWTHS * G + g]
        share = shares[g] * (1.0 + step * tables.masses[g, k] / mass)
        share /= 1.0 + step * sums[layout.N_SUMS + layout.TOTALS * G + g] / total
        prior = sums[layout.N_SUMS + layout.PRIOR * G + g]
        shares[g] = share + RATE * PULL * (prior * per - share)
        whole += shares[g]
    for g in range(G):
        shares[g] /= whole


@uncounted
def elapsed(config, window, counts, sums, t):
    """Return the time since the last document, in units of the decay, and alpha as it is then."""
    seen = counts[layout.N_SEEN]
    if not config.clocked:
        return 1.0 / config.decay, sums[layout.ALPHA]
    if seen == 0:
        return 0.0, sums[layout.ALPHA]
    alpha, past = sums[layout.ALPHA], min(seen, config.ages[-1])
    span = t - window.t[(seen - past) % len(window.t)]
    if config.share > 0.0 and span > 0.0:  # as many births whatever the rate of arrivals
        alpha = config.share * min(max(past * config.decay / span, 1.0), 1e5)
    return (t - sums[layout.TIME]) / config.decay, alpha


@uncounted
def advance(config, tables, window, counts, sums, t):
    """Move on to time ``t``: what arrived before weighs less."""
    if tables.masses.shape[0] > 0:
        advance_scales(config, tables, window, counts, sums, t)
        return
    exponent, sums[layout.ALPHA] = elapsed(config, window, counts, sums, t)
    sums[layout.TIME] = t
    sums[layout.GROWTH], factor = grown(sums[layout.GROWTH], exponent)
    if factor == 1.0:
        return
    total = 0.0
    for k in range(counts[layout.N_SLOTS]):
        tables.mass[k] *= factor
        total += tables.mass[k]
    for i in range(len(window.weight)):
        window.weight[i] *= factor
    sums[layout.TOTAL] = total
