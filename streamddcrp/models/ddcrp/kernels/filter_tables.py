"""Tables of one particle: their weights for a customer, draws among them, opening and closing."""

import math

from streamddcrp.compilation import inner
from streamddcrp.models.ddcrp.kernels.filter_layout import CARRIED_AT, UNLINKED
from streamddcrp.numerics import NO_DECAY
from streamddcrp.particles.kernels.layout import FIRST


@inner
def carried_factor(config, sums, t):
    """How much of the carried weights is left at time ``t``."""
    if not config.carried or config.decay_code == NO_DECAY:
        return 1.0
    return math.exp(-(t - sums[CARRIED_AT]) / config.decay_scale)


@inner
def masses_of(config, counts, ring, recent, tables, i, p, K, factor, out_mass):
    """Sum the weights of customer i's links to the earlier customers of each table."""
    mask = len(ring.t) - 1
    weight = recent.weight[i % len(recent.weight)]
    for k in range(K):
        out_mass[k] = tables.carried[p, k] * factor
    for j in range(counts[FIRST], i):
        out_mass[ring.label[p, j & mask]] += weight[j & mask]


@inner
def draw_table(uniform, new, weight, K):
    """Draw a table in proportion to ``weight`` (K,); -1: a new one, of weight ``new``."""
    total = new
    for k in range(K):
        total += weight[k]
    rest = uniform * total - new
    chosen = -1
    if rest >= 0.0:
        for k in range(K):
            if weight[k] > 0.0:
                chosen = k
                rest -= weight[k]
                if rest < 0.0:
                    break
    return chosen


@inner
def draw_link(config, counts, ring, recent, tables, i, p, k, factor, uniform):
    """Draw whom customer i links to at table k, in proportion to the decay."""
    mask = len(ring.t) - 1
    weight = recent.weight[i % len(recent.weight)]
    total = tables.carried[p, k] * factor
    for j in range(counts[FIRST], i):
        if ring.label[p, j & mask] == k:
            total += weight[j & mask]
    rest = uniform * total - tables.carried[p, k] * factor
    link = UNLINKED
    if rest >= 0.0:
        for j in range(counts[FIRST], i):
            if ring.label[p, j & mask] == k and weight[j & mask] > 0.0:
                link = j
                rest -= weight[j & mask]
                if rest < 0.0:
                    break
    return link


@inner
def open_table(particles, tables, p, name):
    """Open an empty table; return its place, behind the others."""
    k = particles.n_tables[p]
    particles.n_tables[p] = k + 1
    tables.name[p, k] = name
    tables.retained[p, k] = 0
    tables.carried[p, k] = 0.0
    tables.stats[p, k] = 0.0
    return k


@inner
def close_table(particles, tables, ring, p, k, first, stop):
    """Remove a table without members in the ring; those behind it move up."""
    mask = len(ring.t) - 1
    particles.n_tables[p] -= 1
    for m in range(k, particles.n_tables[p]):
        tables.name[p, m] = tables.name[p, m + 1]
        tables.retained[p, m] = tables.retained[p, m + 1]
        tables.carried[p, m] = tables.carried[p, m + 1]
        tables.stats[p, m] = tables.stats[p, m + 1]
        tables.post[p, m] = tables.post[p, m + 1]
    for j in range(first, stop):
        if ring.label[p, j & mask] > k:
            ring.label[p, j & mask] -= 1
    if particles.last[p] == k:
        particles.last[p] = -1
    elif particles.last[p] > k:
        particles.last[p] -= 1
