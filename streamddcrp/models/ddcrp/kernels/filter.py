"""One arrival, compiled: predict, seat it in all particles, resample, forget."""

import math

import numpy as np

from streamddcrp.compilation import inner, kernel
from streamddcrp.contract import LABEL, LABEL_PROB, LIVE_TABLES, P_CHANGE, P_NEW, SCORE
from streamddcrp.likelihoods.kernels import families
from streamddcrp.models.ddcrp.kernels import tables as seating
from streamddcrp.numerics import log_decay
from streamddcrp.particles.kernels import names as naming
from streamddcrp.particles.kernels import resample

CORRECTABLE = 64  # rows in the ring where tables carry the weight of all


@inner
def _link_weights(config, state, t, given, b):
    """Weights of the links of the next arrival, at time ``t``, to the customers in the ring."""
    counts, times, out = state.counts, state.ring.t, state.scratch.link_weight
    n, mask = counts[naming.N_SEEN], len(times) - 1
    if config.carried:
        return
    row = min(b, given.shape[0] - 1)
    for j in range(counts[naming.FIRST], n):
        at = j & mask
        distance = t - times[at]
        if config.given:
            out[at] = given[row, n - j - 1] if n - j <= given.shape[1] else 0.0
        elif distance > config.reach:
            out[at] = 0.0
        else:
            log_weight = log_decay(
                config.decay_code, config.decay_location, config.decay_scale, distance
            )
            out[at] = math.exp(log_weight)


@inner
def _best_gain(particles, scratch):
    """Largest gain of a particle that still has weight."""
    top = -np.inf
    for p in range(len(particles.weight)):
        if particles.weight[p] > 0.0:
            top = max(top, scratch.gain[p])
    return top


@kernel
def predict(config, state, x, t, given, b, out):
    """Predict a row at time ``t``, docs/math/ddcrp.md (6), by particle; changes ``scratch``."""
    particles, tables, names = state.particles, state.tables, state.names
    counts, sums, scratch = state.counts, state.sums, state.scratch
    n = counts[naming.N_SEEN]
    mass, score, at_name = scratch.mass, scratch.score, scratch.at_name
    at_name[:] = 0.0
    _link_weights(config, state, t, given, b)
    factor = seating.carried_factor(config, sums, t)
    own = families.log_predictive(config.family, config.hyper, scratch.prior_post, x)
    for p in range(len(particles.weight)):
        K = particles.n_tables[p]
        seating.masses_of(config, state, p, K, factor, mass)
        families.log_predictives(config.family, config.hyper, tables.post[p], x, K, score)
        again = seating.recall_weight(config, particles, tables, p)
        opening = config.gamma * again if again > 0.0 else config.alpha
        top, links = own, opening
        for k in range(K):
            opens = again * tables.openings[p, k]
            mass[k] += opens
            scratch.again[p, k] = opens / mass[k] if opens > 0.0 else 0.0
            if mass[k] > 0.0:
                top = max(top, score[k])
                links += mass[k]
        weight = scratch.weight[p]
        scratch.new[p] = opening * math.exp(own - top)
        total = scratch.new[p]
        for k in range(K):
            weight[k] = mass[k] * math.exp(score[k] - top) if mass[k] > 0.0 else 0.0
            total += weight[k]
        scratch.total[p] = total
        scratch.gain[p] = top + math.log(total / links)
    top = _best_gain(particles, scratch)
    density = 0.0
    for p in range(len(particles.weight)):
        density += particles.weight[p] * math.exp(scratch.gain[p] - top)
    # a particle's table probabilities are weighted by its weight times its density
    new, stays = 0.0, 0.0
    for p in range(len(particles.weight)):
        share = particles.weight[p] * math.exp(scratch.gain[p] - top) / density
        total = scratch.total[p]
        new += share * (scratch.new[p] / total)
        for k in range(particles.n_tables[p]):
            at_name[tables.name[p, k]] += share * (scratch.weight[p, k] / total)
        if particles.last[p] >= 0:
            stays += share * (scratch.weight[p, particles.last[p]] / total)
    label, best = naming.best_name(names, at_name, new, n)
    out[LABEL] = label
    out[LABEL_PROB] = best
    out[SCORE] = -(top + math.log(density))
    out[P_NEW] = new
    out[P_CHANGE] = max(1.0 - stays, 0.0) if n > 0 else np.nan
    out[LIVE_TABLES] = counts[naming.N_LIVE]


@inner
def _seat(config, state, x, p, uniforms, at):
    particles, tables, scratch = state.particles, state.tables, state.scratch
    n = state.counts[naming.N_SEEN]
    k = seating.draw_table(uniforms[at], scratch.new[p], scratch.weight[p], particles.n_tables[p])
    if k < 0:
        name = naming.name_of(n, scratch.name, state.names, state.counts)
        k = seating.open_table(particles, tables, p, name)
    elif config.gamma < math.inf and uniforms[at + 1] < scratch.again[p, k]:
        tables.openings[p, k] += 1.0
    families.add_stats(config.family, config.hyper, x, 1.0, tables.stats[p, k])
    families.posterior(config.family, config.hyper, tables.stats[p, k], tables.post[p, k])
    tables.retained[p, k] += 1
    state.ring.label[p, n & (len(state.ring.t) - 1)] = k
    particles.last[p] = k


@inner
def _reweight(state):
    """Multiply the weights by the predictive densities, add their sum to the evidence."""
    particles, sums, scratch = state.particles, state.sums, state.scratch
    weight, gain = particles.weight, scratch.gain
    top = _best_gain(particles, scratch)
    total = 0.0
    for p in range(len(weight)):
        weight[p] *= math.exp(gain[p] - top)
        total += weight[p]
    sums[naming.LOG_EVIDENCE] += top + math.log(total)
    for p in range(len(weight)):
        weight[p] /= total


@inner
def _note_seats(state):
    particles, tables, names = state.particles, state.tables, state.names
    counts, scratch = state.counts, state.scratch
    at_name = scratch.at_name
    at_name[:] = 0.0
    best = -1
    for p in range(len(particles.weight)):
        g = tables.name[p, particles.last[p]]
        at_name[g] += particles.weight[p]
        if best < 0 or at_name[g] > at_name[best]:
            best = g
    names.last_seen[best] = counts[naming.N_SEEN]


@inner
def _copy(state, p, to, stop):
    """Copy particle p to particle ``to``, entries in use only."""
    particles, tables, ring, counts = state.particles, state.tables, state.ring, state.counts
    mask = len(ring.t) - 1
    particles.last[to] = particles.last[p]
    particles.opened[to] = particles.opened[p]
    K = particles.n_tables[p]
    particles.n_tables[to] = K
    for k in range(K):
        seating.copy_table(tables, p, k, to, k)
    for j in range(counts[naming.FIRST], stop):
        ring.label[to, j & mask] = ring.label[p, j & mask]


@inner
def _resample(state, stop, uniform):
    """Draw P particles by weight; copies take the places of those not drawn."""
    particles, scratch = state.particles, state.scratch
    P = len(particles.weight)
    resample.systematic(particles.weight, uniform, scratch.offspring)
    resample.ancestors_of(scratch.offspring, scratch.ancestor)
    resample.place_children(scratch.ancestor, P, scratch.used, scratch.place)
    for p in range(P):
        if scratch.place[p] != scratch.ancestor[p]:
            _copy(state, scratch.ancestor[p], scratch.place[p], stop)
    particles.weight[:] = 1.0 / P


@inner
def _forget(config, state):
    """Remove customers beyond the reach of links from the ring; close unreachable tables.

    Where tables carry the weight of their members, the ring keeps the last ones to be corrected.
    The next arrival is ``n``. Its time is unknown, so the last one's is used.
    """
    particles, tables, ring = state.particles, state.tables, state.ring
    counts, sums = state.counts, state.sums
    n, mask = counts[naming.N_SEEN], len(ring.t) - 1
    if config.carried:
        last = (n - 1) & mask
        factor = seating.carried_factor(config, sums, ring.t[last])
        for p in range(len(particles.weight)):
            for k in range(particles.n_tables[p]):
                tables.carried[p, k] *= factor
            tables.carried[p, ring.label[p, last]] += 1.0
        sums[seating.CARRIED_AT] = ring.t[last]
    while counts[naming.FIRST] < n:
        e = counts[naming.FIRST]
        at = e & mask
        if config.carried:
            near = n - e <= CORRECTABLE
        elif config.clocked:
            near = ring.t[(n - 1) & mask] - ring.t[at] <= config.reach
        else:
            near = n - e <= len(config.by_gap)
        if near:
            break
        for p in range(len(particles.weight)):
            tables.retained[p, ring.label[p, at]] -= 1
        counts[naming.FIRST] += 1
    for p in range(len(particles.weight)):
        k = 0
        while k < particles.n_tables[p]:
            out_of_reach = tables.retained[p, k] == 0 and tables.carried[p, k] < config.least
            if out_of_reach and config.gamma == math.inf:
                seating.close_table(particles, tables, ring, p, k, counts[naming.FIRST], n)
            else:
                k += 1


@inner
def _weigh_names(state):
    """Weigh the tables over the particles."""
    particles, tables, names, counts = state.particles, state.tables, state.names, state.counts
    names.weight[:] = 0.0
    names.n_holders[:] = 0
    counts[naming.MOST_TABLES] = 0
    for p in range(len(particles.weight)):
        counts[naming.MOST_TABLES] = max(counts[naming.MOST_TABLES], particles.n_tables[p])
        for k in range(particles.n_tables[p]):
            names.weight[tables.name[p, k]] += particles.weight[p]
            names.n_holders[tables.name[p, k]] += 1


@kernel
def step_rows(config, state, X, t, uniforms, given, start, out):
    """Predict and learn rows from ``start`` on; return the first one without room.

    ``uniforms`` : (N, 1 + P U), for resampling, then each particle's table and perhaps opening.
    """
    particles, ring, names, counts = state.particles, state.ring, state.names, state.counts
    per_particle = 2 if config.gamma < math.inf else 1
    mask = len(ring.t) - 1
    for b in range(start, X.shape[0]):
        n = counts[naming.N_SEEN]
        if (
            n - counts[naming.FIRST] > mask
            or counts[naming.MOST_TABLES] + 1 > state.tables.name.shape[1]
            or counts[naming.N_NAMES] + 1 > len(names.opener)
        ):
            return b
        predict(config, state, X[b], t[b], given, b, out[b])
        ring.t[n & mask] = t[b]
        state.scratch.name[0] = -1
        for p in range(len(particles.weight)):
            _seat(config, state, X[b], p, uniforms[b], 1 + p * per_particle)
        _reweight(state)
        _note_seats(state)
        if resample.effective_size(particles.weight) < 0.5 * len(particles.weight):
            _resample(state, n + 1, uniforms[b, 0])
        counts[naming.N_SEEN] = n + 1
        _forget(config, state)
        _weigh_names(state)
        naming.refresh_names(names, state.events, counts, n + 1, t[b])
    return X.shape[0]


@kernel
def amend(config, state, i, old, new):
    """Give customer i of the ring the row ``new`` for ``old``; reweigh the particles by the change.

    docs/math/ddcrp.md (6).
    """
    particles, tables, gain = state.particles, state.tables, state.scratch.gain
    family, hyper, at = config.family, config.hyper, i & (len(state.ring.t) - 1)
    for p in range(len(particles.weight)):
        k = state.ring.label[p, at]
        stats, post = tables.stats[p, k], tables.post[p, k]
        gain[p] = families.exchange(family, hyper, stats, post, old, new)
    _reweight(state)
    _weigh_names(state)
