"""The decay learned: how the weight of a document falls is a mixture of exponentials.

A document that came D before weighs f(D) = sum over g of v_g exp(-D / a_g), with scales a_g an
octave apart, in documents and, where there are times, in time as well; sum of v_g = 1. So the mass
of table k is F_k = sum of v_g F_kg, and each F_kg decays by itself. A document that comes to a
table that is there comes to table k with probability F_k / F; the log-likelihood of v has the
derivatives F_kg / F_k - F_g / F, where F_g = sum over k of F_kg. At each such document

    v_g <- v_g (1 + r F_kg / (E_g F_k)) / (1 + r F_g / (E_g F)),    E_g = a_g / sum of v_h a_h,

a step of the EM algorithm on line, as r / E_g F_kg / F_k v_g is r times the probability that the
document follows one at scale g, whose mean is w_g = v_g a_g / sum of v_h a_h. Towards the prior
w_g are pulled as by three documents in a thousand.
"""

import math

from streamddcrp._numerics import leaf_njit, uncounted_njit
from streamddcrp.inference.text_ddcrp._kernels_layout import (
    ALPHA,
    GROWTHS,
    MIXED,
    N_SEEN,
    N_SLOTS,
    N_SUMS,
    SHARES,
    START,
    TIME,
    TOTAL,
    TOTALS,
    UNIT,
)

__all__ = ["advance_scales", "learn_scales", "mix", "shift", "weight_now"]

RATE, PULL = 0.005, 0.003  # r, and that of the prior
CALIBRATE = 500  # documents whose mean distance in time is the unit of time


@leaf_njit
def distance(config, sums, t, g):
    """Return the time from the last document to ``t`` by scale ``g``; the unit may not be known."""
    if config.timed[g] and sums[UNIT] > 0.0:
        return (t - sums[TIME]) / (sums[UNIT] * config.scales[g])
    return 1.0 / config.scales[g]


@uncounted_njit
def mix(config, tables, window, counts, sums, t, ahead):
    """Let masses, their total and alpha be those of now or, with ``ahead``, of time ``t``."""
    G, slots, reach = len(config.scales), counts[N_SLOTS], 0.0
    sums[TOTAL] = 0.0
    mass, rate, past = tables.mass, 1.0, min(counts[N_SEEN], len(window.t) - 1)
    span = t - window.t[(counts[N_SEEN] - past) % len(window.t)]
    if sums[UNIT] > 0.0 and span > 0.0:
        rate = past * sums[UNIT] / span
    mass[:slots] = 0.0
    for g in range(G):
        share, masses = sums[N_SUMS + SHARES * G + g], tables.masses[g]
        growth = sums[N_SUMS + GROWTHS * G + g]
        if ahead:
            growth *= math.exp(min(distance(config, sums, t, g), 200.0))
        now = share / growth
        sums[N_SUMS + MIXED * G + g] = now
        sums[TOTAL] += now * sums[N_SUMS + TOTALS * G + g]
        for k in range(slots):
            mass[k] += now * masses[k]
        at_most = 1.0 + 2.0 * sums[N_SUMS + TOTALS * G + g] * now / (share * config.scales[g])
        reach += share * config.scales[g] * (min(rate, at_most) if config.timed[g] else 1.0)
    if config.share > 0.0:  # as many births whatever is learned
        sums[ALPHA] = config.share * min(max(reach, 1.0), 1e5)


@uncounted_njit
def advance_scales(config, tables, window, counts, sums, t):
    """Let the time be ``t``: what arrived before weighs less, at each scale by its own measure."""
    G, seen = len(config.scales), counts[N_SEEN]
    if seen == 0:
        sums[START] = t
    for g in range(G):
        at, exponent = N_SUMS + GROWTHS * G + g, distance(config, sums, t, g)
        if exponent < 200.0:
            sums[at] *= math.exp(exponent)
            if sums[at] < 1e100:
                continue
            factor = 1.0 / sums[at]
        else:
            factor = math.exp(-min(exponent, 700.0)) / sums[at]
        sums[at] = 1.0
        sums[N_SUMS + TOTALS * G + g] *= factor
        for k in range(counts[N_SLOTS]):
            tables.masses[g, k] *= factor
        for i in range(len(window.weight)):
            window.weights[i, g] *= factor
    mix(config, tables, window, counts, sums, t, False)
    sums[TIME] = t
    if sums[UNIT] == 0.0 and seen >= CALIBRATE:
        sums[UNIT] = (t - sums[START]) / seen


@leaf_njit
def weight_now(window, sums, at):
    """Return what a document of the window weighs now."""
    G, weight = window.weights.shape[1], 0.0
    for g in range(G):
        weight += sums[N_SUMS + MIXED * G + g] * window.weights[at, g]
    return weight


@leaf_njit
def shift(tables, window, sums, k, at, sign):
    """Add the weights of a document of the window to those of table ``k``, or take them away."""
    G = window.weights.shape[1]
    for g in range(G):
        before = tables.masses[g, k]
        tables.masses[g, k] = max(before + sign * window.weights[at, g], 0.0)
        sums[N_SUMS + TOTALS * G + g] += tables.masses[g, k] - before


@uncounted_njit
def learn_scales(config, tables, sums, k):
    """Learn from a document that comes to table ``k`` at which scales weights fall."""
    G, reach, whole = len(config.scales), 0.0, 0.0
    mass, total = max(tables.mass[k], 1e-100), max(sums[TOTAL], 1e-100)
    for g in range(G):
        reach += sums[N_SUMS + SHARES * G + g] * config.scales[g]
    for g in range(G):
        at, per = N_SUMS + SHARES * G + g, reach / config.scales[g]
        step = RATE * per / sums[N_SUMS + GROWTHS * G + g]
        share = sums[at] * (1.0 + step * tables.masses[g, k] / mass)
        share /= 1.0 + step * sums[N_SUMS + TOTALS * G + g] / total
        sums[at] = share + RATE * PULL * (config.prior[g] * per - share)
        whole += sums[at]
    for g in range(G):
        sums[N_SUMS + SHARES * G + g] /= whole
