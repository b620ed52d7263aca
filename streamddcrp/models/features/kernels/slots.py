"""Entries of the arrays of numbers, and a particle's slots for features, with the scale of each.

A scale is a ratio of noise to loading variance, from a grid.
"""

import math

import numpy as np

from streamddcrp.compilation import uncounted
from streamddcrp.likelihoods.kernels.linear_gaussian import begin_feature
from streamddcrp.particles.kernels.random import draw_log, uniform

# counts (int64)
N_SEEN = 0  # arrivals so far
N_ACTIVE = 1  # particles with a weight
N_NAMED = 2  # public ids given so far
N_EVENTS = 3  # births and deaths so far
N_COUNTS = 4

# sums (float64)
LOG_EVIDENCE = 0
SHAPE = 1  # of the noise variance; 0 if it is known
N_SUMS = 2

N_REPORTED = 64  # most features reported for a row
ROUNDING = 2.0**-52  # of a rate: an extreme row takes nearly all of it along
MOST_FEATURES = 63  # per particle, including the baseline
MOST_NEW = 12  # new features of a row
MOST_ENUMERATED = 8  # features of an arrival whose subsets are all weighed
MOST_TOGETHER = 3  # features of a past row resampled jointly

# purposes of random numbers
FEW, ALL, MERGE, ROW, CHOICE, IMPUTE, PROPOSAL, SUBSET, SCALE, RESCALE = range(10)

ONE = np.uint64(1)


@uncounted
def live_slots(particles, i, out):
    """List the baseline's slot and those of live features; return their number."""
    out[0] = 0
    n = 1
    for k in range(1, particles.n_owners.shape[1]):
        if particles.n_owners[i, k] > 0:
            out[n] = k
            n += 1
    return n


@uncounted
def allocate(config, particles, i, row, mask, scale, slots):
    """Give a row's new feature a free slot outside ``mask``, and its prior; return it."""
    n_owners, owners = particles.n_owners[i], particles.owners[i]
    n_slots, slot = 1, 0
    slots[0] = 0
    for k in range(1, len(n_owners)):
        if n_owners[k] > 0 or (mask >> np.uint64(k)) & ONE:
            slots[n_slots] = k
            n_slots += 1
        elif slot == 0:
            slot = k
    particles.scale[i, slot] = scale
    ratio = config.ratios[scale]
    begin_feature(particles.cov[i], particles.mean[i], slots, n_slots, slot, ratio)
    bit = ~(ONE << np.uint64(slot))
    for h in range(len(owners)):
        owners[h] &= bit
    particles.name[i, slot] = -1
    particles.first[i, slot] = row
    particles.hash[i, slot] = np.uint64(0)
    return slot


@uncounted
def draw_scales(config, t, i, index, n, out):
    """Draw scales of future features from the prior: indices into the ratios."""
    G = len(config.ratios)
    for k in range(n):
        u = uniform(config.seed, t, i, SCALE, index + k) if G > 1 else 0.0
        out[k] = min(int(u * G), G - 1)


@uncounted
def list_scales(config, log_rate, log_option, extra):
    """List the options of new features: none, or one of each scale; return their number.

    ``log_rate``: log of their expected number. ``log_option``: log probabilities over that of none;
    ``extra``: prior variances that the options add, in noise variances.
    """
    G = len(config.ratios)
    log_option[0], extra[0] = 0.0, 0.0
    for g in range(G):
        log_option[1 + g] = log_rate - math.log(G)
        extra[1 + g] = 1.0 / config.ratios[g]
    return 1 + G


@uncounted
def list_options(config, log_new, n_new, scales, log_option, extra):
    """List options of several new features with drawn scales, after those of `list_scales`.

    ``log_new``: log probabilities of 0, 1, .. new ones. `n_new_of` and `scale_of` read the options.
    """
    n, total = 1, 0.0
    log_option[0], extra[0] = 0.0, 0.0
    if n_new > 1:
        n = list_scales(config, log_new[1] - log_new[0], log_option, extra)
    for k in range(1, n_new):
        total += 1.0 / config.ratios[scales[k - 1]]
        if k > 1:
            log_option[n], extra[n] = log_new[k] - log_new[0], total
            n += 1
    return n


@uncounted
def n_new_of(config, option):
    """Return the number of new features of an option."""
    return min(option, max(1, option - len(config.ratios) + 1))


@uncounted
def scale_of(config, option, scales, n):
    """Return the scale of new feature ``n`` of an option."""
    return option - 1 if option <= len(config.ratios) else scales[n]


@uncounted
def rescale(config, particles, sums, work, i, t, step):
    """Resample the ratio of each live feature given everything else: one Gibbs step per feature.

    ``step`` indexes the draws of an arrival t. From ratio rho to rho + delta the evidence changes
    by the factor ((rho + delta) / rho)^(D/2) E exp(-delta ||Y_k||^2 / (2 s2)), which is a function
    of ``cov[k, k]`` and ``mean[k]``; the posterior changes by a matrix of rank one. Dead features
    are marginalised out already.
    """
    G = len(config.ratios)
    if G == 1:
        return
    cov, mean = particles.cov[i], particles.mean[i]
    n, D = live_slots(particles, i, work.slots), mean.shape[1]
    for a in range(1, n):
        k = work.slots[a]
        old, spread, square = config.ratios[particles.scale[i, k]], cov[k, k], 0.0
        for d in range(D):
            square += mean[k, d] * mean[k, d]
        for g in range(G):
            delta = config.ratios[g] - old
            wider = 1.0 + delta * spread
            gain = 0.5 * D * (math.log(config.ratios[g] / old) - math.log(wider))
            loss = delta * square / (2.0 * wider)
            if sums[SHAPE] > 0.0:
                gain -= sums[SHAPE] * math.log1p(max(loss / particles.rate[i], -1.0 + 1e-15))
            else:
                gain -= loss / particles.rate[i]
            work.lean[g] = gain
        chosen = draw_log(work.lean, G, uniform(config.seed, t, i, RESCALE, 64 * step + k))
        delta = config.ratios[chosen] - old
        if delta == 0.0:
            continue
        particles.scale[i, k] = chosen
        gain = delta / (1.0 + delta * spread)
        if sums[SHAPE] > 0.0:
            rate = particles.rate[i]
            particles.rate[i] = max(rate + 0.5 * gain * square, ROUNDING * rate)
        for b in range(n):
            work.v[work.slots[b]] = cov[work.slots[b], k]
        for d in range(D):
            work.e[d] = mean[k, d]
        for b in range(n):
            j = work.slots[b]
            for d in range(D):
                mean[j, d] -= gain * work.v[j] * work.e[d]
            for c in range(n):
                cov[j, work.slots[c]] -= gain * work.v[j] * work.v[work.slots[c]]
