"""The slots in which a particle's features stand."""

import math

import numpy as np

from streamddcrp.compilation import uncounted
from streamddcrp.likelihoods.kernels.linear_gaussian import begin_feature
from streamddcrp.models.features.kernels.layout import SCALE
from streamddcrp.particles.kernels.random import uniform

ONE = np.uint64(1)


@uncounted
def live_slots(particles, i, out):
    """List the baseline's slot and those of live features; return how many."""
    out[0] = 0
    n = 1
    for k in range(1, particles.n_owners.shape[1]):
        if particles.n_owners[i, k] > 0:
            out[n] = k
            n += 1
    return n


@uncounted
def log_poisson(rate, n, out):
    """Log probabilities of 0 .. n - 1."""
    log_p = -rate
    for k in range(n):
        if k > 0:
            log_p += math.log(rate) - math.log(k)
        out[k] = log_p


@uncounted
def allocate(config, particles, i, row, mask, scale, slots):
    """Give a new feature of a row a free slot, none of ``mask``, and its prior; return it."""
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
    """Draw the scales of features to come from the prior: positions among the ratios."""
    G = len(config.ratios)
    for k in range(n):
        u = uniform(config.seed, t, i, SCALE, index + k) if G > 1 else 0.0
        out[k] = min(int(u * G), G - 1)


@uncounted
def add_scales(config, scales, n, out):
    """Write the prior variance that 0 .. n new features add to a row, in noise variances."""
    out[0] = 0.0
    for k in range(n):
        out[k + 1] = out[k] + 1.0 / config.ratios[scales[k]]
