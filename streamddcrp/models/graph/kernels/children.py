"""Children of all particles for an arrival: tables, weights and names.

`GraphCRP` and `GroupDP` share the constants, the scores and the treatment of children. The
likelihood of the concentration is docs/math/graphs.md (5), with k clusters opened and c_m arrivals
with m parents. A row of ``grid.base`` holds log prior - sum_m c_m log(alpha + m) at the nodes.
There is one row for all particles or, in a Markov chain, where the c_m differ, one for each; a
particle adds k log alpha. Without nodes alpha is fixed.
"""

import math

import numpy as np

from streamddcrp.compilation import uncounted
from streamddcrp.contract import LABEL, LABEL_PROB, LIVE_TABLES, P_CHANGE, P_NEW, SCORE
from streamddcrp.particles.kernels import pool as pools
from streamddcrp.particles.kernels.names import MOST_TABLES, N_LIVE, N_SEEN, best_name, name_of
from streamddcrp.particles.kernels.names import N_COUNTS as _COMMON
from streamddcrp.particles.kernels.random import hash_of, uniform
from streamddcrp.particles.kernels.resample import optimal, place_children

# purposes of random numbers: of items, and of groups
RESAMPLE, MERGE, _, REVISE_WHICH, REVISE_WHERE = range(5)
FIRST_DRAW, WHICH_EMPTY, WHICH_NODE, WHICH_ITEM, WHERE = range(1, 6)

# counts, after those of all particle filters
STAMP = _COMMON  # of the last scores; no two alike within a process
N_COUNTS = _COMMON + 1

NEGLIGIBLE = 1e-250  # weight below which a particle is left out
LEAST = 1e-200  # sum of the children's weights below which densities are rescaled
OPENED = 3  # hashes a particle's number of opened clusters, if alpha depends on it


@uncounted
def score_arrival(config, state, x):
    """Score the arrival at all clusters; return the log of the largest density."""
    memo, counts = state.memo, state.counts
    counts[STAMP] += 1
    size = pools.held_clusters(state.particles, memo, NEGLIGIBLE, counts[STAMP])
    pools.score_clusters(config, state.pool, memo, x, counts[N_SEEN], size)
    return pools.relative_liks(memo, size)


@uncounted
def compare_anew(state, size):
    """Make densities relative to the largest one of the children; return its log.

    The largest of all may belong to a table that no child joins, and let the others underflow.
    """
    memo, children, entry = state.memo, state.children, state.particles.entry
    score, top = memo.score, -np.inf
    for c in range(size):
        k = children.table[c]
        top = max(top, score[entry[children.parent[c], k] if k >= 0 else pools.EMPTY])
    for c in range(size):
        if children.table[c] >= 0:
            e = entry[children.parent[c], children.table[c]]
            memo.lik[e] = math.exp(score[e] - top)
    # positive even if no child opens a table
    memo.lik[pools.EMPTY] = math.exp(min(score[pools.EMPTY] - top, 0.0))
    return top


@uncounted
def report(state, size, top, total, new, stays, out):
    """Normalise the weights of tables and children; write the prediction in ``out``.

    ``total, new, stays`` : weights of all children, at new tables, at the last row's table.
    """
    at_name, n = state.scratch.at_name, state.counts[N_SEEN]
    for g in range(len(at_name)):
        at_name[g] /= total
    for c in range(size):
        state.children.weight[c] /= total
    out[LABEL], out[LABEL_PROB] = best_name(state.names, at_name, new / total, n)
    out[SCORE] = -(top + math.log(total))
    out[P_NEW] = new / total
    out[P_CHANGE] = max(1.0 - stays / total, 0.0) if n > 0 else np.nan
    out[LIVE_TABLES] = state.counts[N_LIVE]


@uncounted
def choose(config, state, size):
    """Choose the surviving children by optimal resampling: their weights, tables, places."""
    children, n, P = state.children, state.counts[N_SEEN], len(state.particles.weight)
    u = uniform(config.seed, n, 0, RESAMPLE, 0)
    kept = optimal(children.weight, size, P, u, children.chosen, children.kept_weight)
    total = 0.0
    for c in range(kept):
        children.ancestor[c] = children.parent[children.chosen[c]]
        children.to[c] = children.table[children.chosen[c]]
        total += children.kept_weight[c]
    for c in range(kept):
        children.kept_weight[c] /= total
    children.n[0] = kept
    place_children(children.ancestor, kept, children.used, children.place)


@uncounted
def free_slot(particles, p, items):
    """Place for a new table: one without data, and without ``items`` (P, K) that outlast them."""
    k, K = 0, particles.n_tables[p]
    while k < K and (particles.entry[p, k] >= 0 or items[p, k] > 0):
        k += 1
    if k == K:
        particles.n_tables[p] = K + 1
    items[p, k] = 0
    return k


@uncounted
def extend_joined(config, state, recent_name, x):
    """Extend each cluster that a child joins by the arrival."""
    pool, memo, counts, children = state.pool, state.memo, state.counts, state.children
    n, to, successor = counts[N_SEEN], children.to, memo.successor
    size = 0
    for c in range(children.n[0]):
        e = state.particles.entry[children.place[c], to[c]] if to[c] >= 0 else pools.EMPTY
        if successor[e] < 0:
            successor[e] = pools.take(pool)
            memo.which[size] = e
            size += 1
    pools.extend_clusters(config, pool, memo, x, 1.0, n, size)
    if successor[pools.EMPTY] >= 0:
        pool.name[successor[pools.EMPTY]] = name_of(n, recent_name, state.names, counts)


@uncounted
def weigh_names(state):
    """Sum the weights of the particles with each table, and count them."""
    particles, names, most = state.particles, state.names, 0
    names.weight[:] = 0.0
    names.n_holders[:] = 0
    for p in range(len(particles.weight)):
        if particles.weight[p] <= 0.0:
            continue
        most = max(most, particles.n_tables[p])
        for k in range(particles.n_tables[p]):
            if particles.entry[p, k] >= 0:
                g = state.pool.name[particles.entry[p, k]]
                names.weight[g] += particles.weight[p]
                names.n_holders[g] += 1
    state.counts[MOST_TABLES] = most


LEAST_LOG_WEIGHT = -45.0  # of a node, relative to the heaviest one
CACHED = 16  # numbers of clusters of each row with their own cache places


@uncounted
def sums_at(config, grid, row, k, m, stamp):
    """Find the sums over row ``row`` of ``grid.base`` for k clusters, cached by stamp."""
    at = (k + CACHED * row) % len(grid.stamp)
    if grid.stamp[at] == stamp and grid.k[at] == k and grid.row[at] == row:
        return at
    nodes, log_nodes, base = config.nodes, config.log_nodes, grid.base[row]
    top = -np.inf
    for g in range(len(nodes)):
        top = max(top, base[g] + k * log_nodes[g])
    total, join, new = 0.0, 0.0, 0.0
    for g in range(len(nodes)):
        gap = base[g] + k * log_nodes[g] - top
        if gap > LEAST_LOG_WEIGHT:
            weight = math.exp(gap)
            total += weight
            join += weight / (nodes[g] + m)
            new += weight * nodes[g] / (nodes[g] + m)
    grid.stamp[at] = stamp
    grid.k[at] = k
    grid.row[at] = row
    grid.log_total[at] = top + math.log(total)
    grid.join[at] = join / total
    grid.new[at] = new / total
    return at


@uncounted
def factors(config, grid, row, k, m, stamp):
    """E[1 / (alpha + m)] and E[alpha / (alpha + m)] given k clusters."""
    if len(config.nodes) == 0:
        return 1.0 / (config.alpha + m), config.alpha / (config.alpha + m)
    at = sums_at(config, grid, row, k, m, stamp)
    return grid.join[at], grid.new[at]


@uncounted
def new_weight(config, met):
    """Weight of a new cluster beside ``met`` clusters of the parents, with a discount."""
    if config.n_clusters > 0:  # exactly 0 if all are met
        return -config.discount * max(config.n_clusters - met, 0)
    return config.alpha + config.discount * met


@uncounted
def log_opened(config, grid, k, stamp):
    """Log of the prior's factor that depends on the number k of opened clusters alone."""
    if config.discount != 0.0:
        return 0.0
    if len(config.nodes) == 0:
        return k * math.log(config.alpha)
    return grid.log_total[sums_at(config, grid, 0, k, 0, stamp)]


@uncounted
def count_parents(config, grid, row, m):
    """Multiply the likelihood of alpha by the factor of an arrival with m parents."""
    for g in range(len(config.nodes)):
        grid.base[row, g] -= math.log(config.nodes[g] + m)


@uncounted
def _children(config, state, parents, keyed):
    """List children with weights and keys, hashes of all that the future depends on.

    Returns their number, and the sums of weights: all, at new tables, at the last row's table.
    """
    particles, pool, memo, grid = state.particles, state.pool, state.memo, state.grid
    children, counted, at_name = state.children, state.scratch.near, state.scratch.at_name
    n, stamp = state.counts[N_SEEN], state.counts[STAMP]
    label, opened, near = particles.label, particles.opened, particles.near
    learned, given, R = len(config.nodes) > 0, config.given, label.shape[1]
    m = len(parents) if given else min(n, config.r)
    last = (n - 1) % R
    leaving = (n - config.r) % R if n >= config.r else -1
    newborn = memo.successor_mixed[pools.EMPTY]
    size, total, new, stays = 0, 0.0, 0.0, 0.0
    at_name[:] = 0.0
    join, opens = factors(config, grid, 0, 0, m, stamp)
    for p in range(len(particles.weight)):
        w = particles.weight[p]
        if w <= NEGLIGIBLE:
            continue
        K, entry = particles.n_tables[p], particles.entry[p]
        if learned:
            join, opens = factors(config, grid, 0, opened[p], m, stamp)
        if given:
            counted[:K] = 0
            for i in parents:
                counted[label[p, i % R]] += 1
        if config.discount != 0.0:
            met = 0
            for k in range(K):
                here = counted[k] if given else near[p, k]
                met += entry[k] >= 0 and (here > 0 or config.whole_graph)
            opens = join * new_weight(config, met)
        base, left = particles.key[p], -1  # left: the table that dies when an item leaves
        if keyed and leaving >= 0 and not config.whole_graph:
            k = label[p, leaving]
            if near[p, k] == 1:
                left = k
                base ^= pool.mixed[entry[k]]
        if opens > 0.0:
            child = w * opens * memo.lik[pools.EMPTY]
            new += child
            total += child
            children.parent[size], children.table[size], children.weight[size] = p, -1, child
            if keyed:
                children.key[size] = base ^ newborn
                if learned:
                    change = hash_of(opened[p], OPENED) ^ hash_of(opened[p] + 1, OPENED)
                    children.key[size] ^= change
            size += 1
        last_table = label[p, last] if n > 0 else -1
        for k in range(K):
            e = entry[k]
            if e < 0:
                continue
            here = counted[k] if given else near[p, k]
            if here == 0 and not config.whole_graph:
                continue
            child = w * join * (here - config.discount) * memo.lik[e]
            at_name[pool.name[e]] += child
            if k == last_table:
                stays += child
            total += child
            children.parent[size], children.table[size], children.weight[size] = p, k, child
            if keyed:
                children.key[size] = base ^ memo.successor_mixed[e]
                if k != left:
                    children.key[size] ^= pool.mixed[e]
            size += 1
    return size, total, new, stays


@uncounted
def weigh(config, state, parents, keyed, top, out):
    """List the children, docs/math/graphs.md (3), of a scored arrival; return their number.

    A child puts the arrival at a table or opens one. The sum of their weights is the predictive
    density; they are then normalised. ``top`` : log of the largest density of a table.
    """
    size, total, new, stays = 0, 0.0, 0.0, 0.0
    for _ in range(2):
        size, total, new, stays = _children(config, state, parents, keyed)
        if total > LEAST:
            break
        top = compare_anew(state, size)
    report(state, size, top, total, new, stays, out)
    return size
