"""Tables of one particle p: weights, draws, opening and closing; k is one of its K tables."""

import math

from streamddcrp.compilation import inner
from streamddcrp.numerics import NO_DECAY
from streamddcrp.particles.kernels.names import FIRST, LOG_EVIDENCE, N_SEEN

# sums (float64): time of the last row, for which `Tables.carried` holds
CARRIED_AT = LOG_EVIDENCE + 1
N_SUMS = LOG_EVIDENCE + 2


@inner
def carried_factor(config, sums, t):
    """Share of the carried weights left at time ``t``."""
    if not config.carried or config.decay_code == NO_DECAY:
        return 1.0
    return math.exp(-(t - sums[CARRIED_AT]) / config.decay_scale)


@inner
def masses_of(config, state, p, K, factor, out_mass):
    """Sum the weights of the next arrival's links to the earlier customers of each table."""
    counts, label, weight = state.counts, state.ring.label, state.scratch.link_weight
    mask = len(weight) - 1
    for k in range(K):
        out_mass[k] = state.tables.carried[p, k] * factor
    if config.carried:
        return
    for j in range(counts[FIRST], counts[N_SEEN]):
        out_mass[label[p, j & mask]] += weight[j & mask]


@inner
def recall_weight(config, particles, tables, p):
    """Weight of reopening a table's parameter, for each earlier opening.

    The opener of a table takes an old parameter in proportion to its openings, a new one to gamma.
    """
    if config.gamma == math.inf:
        return 0.0
    total = config.gamma
    for k in range(particles.n_tables[p]):
        total += tables.openings[p, k]
    return config.alpha / total


@inner
def draw_table(uniform, new, weight, K):
    """Draw a table in proportion to ``weight`` (K,), or -1 for a new one of weight ``new``."""
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
def open_table(particles, tables, p, name):
    """Open an empty table; return its place after the others."""
    k = particles.n_tables[p]
    particles.n_tables[p] = k + 1
    particles.opened[p] += 1
    tables.name[p, k] = name
    tables.retained[p, k] = 0
    tables.openings[p, k] = 1.0
    tables.carried[p, k] = 0.0
    tables.stats[p, k] = 0.0
    return k


@inner
def copy_table(tables, p, k, to, m):
    """Copy table k of particle p to table m of particle ``to``."""
    tables.name[to, m] = tables.name[p, k]
    tables.retained[to, m] = tables.retained[p, k]
    tables.openings[to, m] = tables.openings[p, k]
    tables.carried[to, m] = tables.carried[p, k]
    tables.stats[to, m] = tables.stats[p, k]
    tables.post[to, m] = tables.post[p, k]


@inner
def close_table(particles, tables, ring, p, k, first, stop):
    """Remove a table without members in the ring; later ones move up."""
    mask = len(ring.t) - 1
    particles.n_tables[p] -= 1
    for m in range(k, particles.n_tables[p]):
        copy_table(tables, p, m + 1, p, m)
    for j in range(first, stop):
        if ring.label[p, j & mask] > k:
            ring.label[p, j & mask] -= 1
    if particles.last[p] == k:
        particles.last[p] = -1
    elif particles.last[p] > k:
        particles.last[p] -= 1
