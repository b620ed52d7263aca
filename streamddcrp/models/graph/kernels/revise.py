"""Items of the window, once more: Gibbs steps for them (window graphs), and other values."""

import math

import numpy as np

from streamddcrp.compilation import entry as entry_kernel
from streamddcrp.compilation import uncounted
from streamddcrp.likelihoods.kernels import families
from streamddcrp.models.graph.kernels import children
from streamddcrp.numerics import copy_row
from streamddcrp.particles.kernels.names import LOG_EVIDENCE, N_SEEN, name_of
from streamddcrp.particles.kernels.pool import EMPTY, alter, drop, score_clusters
from streamddcrp.particles.kernels.random import draw_log, hash_of, uniform


@uncounted
def _neighbours(particles, p, i, n):
    """Members of i's table before and after it; -1 for none in memory."""
    R = particles.label.shape[1]
    k = particles.label[p, i % R]
    before, after = i - 1, i + 1
    first = max(n - R + 1, 0)
    while before >= first and particles.label[p, before % R] != k:
        before -= 1
    while after < n and particles.label[p, after % R] != k:
        after += 1
    return (before if before >= first else -1), (after if after < n else -1)


@uncounted
def _log_new(config, met):
    """Log of `new_weight`; -inf if no cluster may be opened."""
    weight = children.new_weight(config, met)
    return math.log(weight) if weight > 0.0 else -np.inf


@uncounted
def _prior_terms(config, particles, p, i, n, tables, scratch):
    """Compute docs/math/graphs.md (6) at each table k: log counts, and clusters i would open.

    With a discount the logs hold all factors, including those of opened clusters. The return value
    is then the log for a table of i's own, else 0. With the labels of the whole graph, a member
    that sees no label opens none; none of the ``tables`` other tables has i's own label.
    """
    R, r, K = particles.label.shape[1], config.r, particles.n_tables[p]
    d, near, log_count, opens = config.discount, scratch.near, scratch.log_count, scratch.opens
    near[:K] = 0
    for u in range(max(i - r, 0), i):
        near[particles.label[p, u % R]] += 1
    whole, met = config.whole_graph, 0
    for k in range(K):
        met += near[k] > 0
    if whole:
        met = tables
    fresh = _log_new(config, met) if d != 0.0 else 0.0
    for k in range(K):
        seen = near[k] > 0 or whole
        log_count[k] = math.log(near[k] - d) if seen else fresh
        opens[k] = not seen
    for u in range(i + 1, min(i + r, n - 1) + 1):
        # the window of u is that of u - 1, and u - 1 itself, without u - 1 - r
        if u - 1 != i:
            k = particles.label[p, (u - 1) % R]
            met += near[k] == 0
            near[k] += 1
        if u - 1 - r >= 0:
            k = particles.label[p, (u - 1 - r) % R]
            near[k] -= 1
            met -= near[k] == 0
        k = particles.label[p, u % R]
        if near[k] > 0 or whole:
            log_count[k] += math.log((near[k] + 1.0 - d) / (near[k] - d))
            continue
        opens[k] -= 1
        if d != 0.0:
            for j in range(K):
                if j != k:
                    log_count[j] += _log_new(config, met + (near[j] == 0))
            log_count[k] += math.log(1.0 - d)
            fresh += _log_new(config, met + 1)
    return fresh


@uncounted
def revise(config, state, p, i, move):
    """Resample the table of item i from its full conditional, which leaves the target invariant.

    i stays if its table would otherwise be dead or disconnected, which a whole-graph one never is.
    """
    particles, pool, memo, grid = state.particles, state.pool, state.memo, state.grid
    names, recent, counts, scratch = state.names, state.recent, state.counts, state.scratch
    n, R, entry = counts[N_SEEN], particles.label.shape[1], particles.entry
    x = recent.x[i % len(recent.x)]
    old = particles.label[p, i % R]
    e = entry[p, old]
    alone = pool.stats[e, 0] < 1.5
    before, after = _neighbours(particles, p, i, n)
    if not config.whole_graph:
        if not alone and particles.near[p, old] == 1:
            return
        if before >= 0 and after >= 0 and after - before > config.r:
            return
    K = particles.n_tables[p]
    # the table without i; then the densities at all tables
    left = -1 if alone else alter(config, pool, memo, e, i, x, -1.0)
    which, score = memo.which, memo.score
    which[0] = EMPTY
    size = 1
    for k in range(K):
        there = left if k == old else entry[p, k]
        if there >= 0:
            which[size] = there
            size += 1
    score_clusters(config, pool, memo, x, i, size)
    fresh = _prior_terms(config, particles, p, i, n, size - 1, scratch)
    others = particles.opened[p] - (1 if alone else scratch.opens[old])
    stamp, log_weight = counts[children.STAMP], scratch.log_weight
    for k in range(K):
        there = left if k == old else entry[p, k]
        log_weight[k] = -np.inf
        if there >= 0:
            opened = children.log_opened(config, grid, others + scratch.opens[k], stamp)
            log_weight[k] = score[there] + scratch.log_count[k] + opened
    log_weight[K] = score[EMPTY] + children.log_opened(config, grid, others + 1, stamp) + fresh
    k = draw_log(log_weight, K + 1, uniform(config.seed, n, p, children.REVISE_WHERE, move))
    if left >= 0:
        pool.holders[left] += 1
    if k == old or (alone and k == K):
        if left >= 0:
            drop(pool, left)
        return
    now_opened = others + (1 if k == K else scratch.opens[k])
    key = particles.key[p]
    if len(config.nodes) > 0:
        key ^= hash_of(particles.opened[p], children.OPENED) ^ hash_of(now_opened, children.OPENED)
    particles.opened[p] = now_opened
    # the table it leaves
    key ^= pool.mixed[e]
    particles.near[p, old] -= 1
    particles.held[p, old] -= 1
    if left >= 0:
        key ^= pool.mixed[left]
        if names.opener[pool.name[e]] == i:
            pool.name[left] = name_of(after, recent.name, names, counts)
    entry[p, old] = left
    drop(pool, e)
    # the table it joins
    there = EMPTY if k == K else entry[p, k]
    joined = alter(config, pool, memo, there, i, x, 1.0)
    if k == K or i < names.opener[pool.name[there]]:
        pool.name[joined] = name_of(i, recent.name, names, counts)
    if k == K:
        k = children.free_slot(particles, p, particles.held)
        particles.near[p, k] = 0
    else:
        key ^= pool.mixed[there]
        drop(pool, there)
    pool.holders[joined] += 1
    particles.key[p] = key ^ pool.mixed[joined]
    entry[p, k] = joined
    particles.label[p, i % R] = k
    particles.near[p, k] += 1
    particles.held[p, k] += 1


@uncounted
def reweigh(config, state, i, old, new):
    """Give item i the row ``new`` for ``old`` in its clusters; reweigh the particles by the change.

    All particles with a cluster agree on its members, so it changes in place. docs/math/graphs.md.
    """
    particles, pool, gain = state.particles, state.pool, state.memo.score
    family, hyper, R = config.family, config.hyper, particles.label.shape[1]
    top, total = -np.inf, 0.0
    for p in range(len(particles.weight)):
        if particles.weight[p] > 0.0:
            gain[particles.entry[p, particles.label[p, i % R]]] = np.inf  # not yet known
    for p in range(len(particles.weight)):
        e = particles.entry[p, particles.label[p, i % R]]
        if particles.weight[p] <= 0.0 or gain[e] < np.inf:
            continue
        gain[e] = families.exchange(family, hyper, pool.stats[e], pool.post[e], old, new)
        top = max(top, gain[e])
    for p in range(len(particles.weight)):
        if particles.weight[p] > 0.0:
            e = particles.entry[p, particles.label[p, i % R]]
            particles.weight[p] *= math.exp(gain[e] - top)
            total += particles.weight[p]
    for p in range(len(particles.weight)):
        particles.weight[p] /= total
    state.sums[LOG_EVIDENCE] += top + math.log(total)
    state.counts[children.STAMP] += 1  # what was cached of the clusters is void
    children.weigh_names(state)


@entry_kernel
def amend(config, state, i, old, new):
    """As `reweigh`, for an item of the window that may be resampled."""
    reweigh(config, state, i, old, new)
    x = state.recent.x
    if i >= state.counts[N_SEEN] - len(x):
        copy_row(x[i % len(x)], new)
