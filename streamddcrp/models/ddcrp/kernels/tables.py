"""Tables of one particle: weights, draws, opening and closing, and the update of a link.

``p`` is the particle, ``i`` a customer among the recent ones, ``k`` a table, K their number.
"""

import math

from streamddcrp.compilation import inner
from streamddcrp.likelihoods.kernels import families
from streamddcrp.numerics import NO_DECAY, add
from streamddcrp.particles.kernels.names import FIRST, LOG_EVIDENCE, N_SEEN, name_of

# sums (float64): time of the last customer that left, at which `Tables.carried` holds
CARRIED_AT = LOG_EVIDENCE + 1
N_SUMS = LOG_EVIDENCE + 2

UNLINKED = -1  # link to a customer that has left the ring


@inner
def carried_factor(config, sums, t):
    """How much of the carried weights is left at time ``t``."""
    if not config.carried or config.decay_code == NO_DECAY:
        return 1.0
    return math.exp(-(t - sums[CARRIED_AT]) / config.decay_scale)


@inner
def masses_of(state, i, p, K, factor, out_mass):
    """Sum the weights of customer i's links to the earlier customers of each table."""
    counts, ring, recent, tables = state.counts, state.ring, state.recent, state.tables
    mask = len(ring.t) - 1
    weight = recent.weight[i % len(recent.weight)]
    for k in range(K):
        out_mass[k] = tables.carried[p, k] * factor
    for j in range(counts[FIRST], i):
        out_mass[ring.label[p, j & mask]] += weight[j & mask]


@inner
def recall_weight(config, particles, tables, p):
    """Weight of an opening with the parameter of a table, for each time that it was opened.

    The opener of a table takes an old parameter in proportion to that, a new one to gamma.
    """
    if config.gamma == math.inf:
        return 0.0
    total = config.gamma
    for k in range(particles.n_tables[p]):
        total += tables.openings[p, k]
    return config.alpha / total


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
def draw_link(state, i, p, k, factor, uniform):
    """Draw whom customer i links to at table k, in proportion to the decay."""
    counts, ring, recent, tables = state.counts, state.ring, state.recent, state.tables
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
    particles.opened[p] += 1
    tables.name[p, k] = name
    tables.retained[p, k] = 0
    tables.openings[p, k] = 1.0
    tables.carried[p, k] = 0.0
    tables.stats[p, k] = 0.0
    return k


@inner
def copy_table(tables, p, k, to, m):
    """Write table k of particle p over table m of particle ``to``."""
    tables.name[to, m] = tables.name[p, k]
    tables.retained[to, m] = tables.retained[p, k]
    tables.openings[to, m] = tables.openings[p, k]
    tables.carried[to, m] = tables.carried[p, k]
    tables.stats[to, m] = tables.stats[p, k]
    tables.post[to, m] = tables.post[p, k]


@inner
def close_table(particles, tables, ring, p, k, first, stop):
    """Remove a table without members in the ring; those behind it move up."""
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


@inner
def _mark_followers(ring, p, i, stop, out_inside):
    """Mark i and the customers below it, all later, in one pass; return how many."""
    mask = len(ring.t) - 1
    out_inside[0] = True
    size = 1
    for j in range(i + 1, stop):
        link = ring.link[p, j & mask]
        out_inside[j - i] = i <= link < j and out_inside[link - i]
        size += out_inside[j - i]
    return size


@inner
def update(config, state, p, i, u_table, u_link):
    """Resample the link of customer i given all other links: collapsed Gibbs.

    With S the customers below i, i included, and T_k the tables without them, i links to itself
    with weight alpha m(S), to some member of table k with weight s_k m(T_k + S) / m(T_k).
    """
    particles, tables, ring, recent = state.particles, state.tables, state.ring, state.recent
    names, counts, sums, scratch = state.names, state.counts, state.sums, state.scratch
    stop, mask, L = counts[N_SEEN], len(ring.t) - 1, len(recent.x)
    family, hyper = config.family, config.hyper
    stats, post, taken = tables.stats[p], tables.post[p], scratch.taken
    mass, score = scratch.mass, scratch.score
    K = particles.n_tables[p]
    old = ring.label[p, i & mask]
    opens = ring.link[p, i & mask] == i  # then S is the whole table
    size = _mark_followers(ring, p, i, stop, scratch.inside)
    x = recent.x[i % L]
    factor = carried_factor(config, sums, ring.t[i & mask])
    masses_of(state, i, p, K, factor, mass)
    # cut
    if opens:
        taken[:] = stats[old]
    else:
        taken[:] = 0.0
        for j in range(i, stop):
            if scratch.inside[j - i]:
                families.add_stats(family, hyper, recent.x[j % L], 1.0, taken)
        scratch.kept_stats[:] = stats[old]
        scratch.kept_post[:] = post[old]
        add(stats[old], -1.0, taken)
        families.posterior(family, hyper, stats[old], post[old])
    # score
    if size == 1:
        own = families.log_predictive(family, hyper, scratch.prior_post, x)
        families.log_predictives(family, hyper, post, x, K, score)
    else:
        families.posterior(family, hyper, taken, scratch.taken_post)
        own = scratch.taken_post[0]
        for k in range(K):
            if mass[k] > 0.0:
                scratch.joint[:] = stats[k]
                add(scratch.joint, 1.0, taken)
                families.posterior(family, hyper, scratch.joint, scratch.joint_post)
                score[k] = scratch.joint_post[0] - post[k, 0]
    top = own
    for k in range(K):
        if mass[k] > 0.0:
            top = max(top, score[k])
    for k in range(K):
        mass[k] = mass[k] * math.exp(score[k] - top) if mass[k] > 0.0 else 0.0
    k = draw_table(u_table, config.alpha * math.exp(own - top), mass, K)
    if k < 0:
        ring.link[p, i & mask] = i
    else:
        ring.link[p, i & mask] = draw_link(state, i, p, k, factor, u_link)
    # join
    if k == old:
        stats[old] = scratch.kept_stats
        post[old] = scratch.kept_post
        return
    if k < 0:
        if opens:
            return
        k = open_table(particles, tables, p, name_of(i, recent.name, names, counts))
    add(stats[k], 1.0, taken)
    families.posterior(family, hyper, stats[k], post[k])
    tables.retained[p, k] += size
    tables.retained[p, old] -= size
    for j in range(i, stop):
        if scratch.inside[j - i]:
            ring.label[p, j & mask] = k
    if opens:
        particles.opened[p] -= 1  # as if it had never been
        close_table(particles, tables, ring, p, old, counts[FIRST], stop)
