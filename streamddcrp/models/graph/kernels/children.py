"""Children of all particles for an arrival: where it may sit, with what weight, and their names.

`GraphCRP` and `GroupDP` share the constants, the scores and what becomes of the children. The
likelihood of the concentration is docs/math/graphs.md (5), with k clusters opened and c_m arrivals
with m parents. A row of ``grid.base`` holds log prior - sum_m c_m log(alpha + m) at
the nodes. There is one row for all particles or, in a Markov chain, where they differ in the c_m,
one for each; a particle adds k log alpha. Without nodes alpha is fixed.
"""

import math

import numpy as np

from streamddcrp.compilation import uncounted
from streamddcrp.contract import LABEL, LABEL_PROB, LIVE_TABLES, P_CHANGE, P_NEW, SCORE
from streamddcrp.particles.kernels import pool as pools
from streamddcrp.particles.kernels.names import MOST_TABLES, N_LIVE, N_SEEN, best_name, name_of
from streamddcrp.particles.kernels.names import N_COUNTS as _COMMON
from streamddcrp.particles.kernels.random import hash_of

# purposes of random numbers: of items, and of groups
RESAMPLE, MERGE, _, REVISE_WHICH, REVISE_WHERE = range(5)
FIRST_DRAW, WHICH_EMPTY, WHICH_NODE, WHICH_ITEM, WHERE = range(1, 6)

# counts, after those of all particle filters
STAMP = _COMMON  # of the last scores; no two alike within a process
N_COUNTS = _COMMON + 1

NEGLIGIBLE = 1e-250  # weight of a particle that is left out
LEAST = 1e-200  # sum of the children's weights below which densities are compared anew
OPENED = 3  # hashes the number of clusters a particle opened, where alpha depends on it


@uncounted
def score_arrival(config, state, x):
    """Score the arrival at all clusters; return the log of the largest density."""
    particles, pool, memo, counts = state.particles, state.pool, state.memo, state.counts
    counts[STAMP] += 1
    which, score = memo.which, memo.score
    size = pools.held_clusters(
        particles.weight, particles.entry, particles.n_tables, NEGLIGIBLE, memo.seen, counts[STAMP],
        which,
    )  # fmt: skip
    pools.score_clusters(
        config.family, config.hyper, pool.post, pool.members, x, counts[N_SEEN], which, size, score,
        memo.successor_mixed,
    )  # fmt: skip
    return pools.relative_liks(which, size, score, memo.lik, memo.successor)


@uncounted
def compare_anew(state, size):
    """Write densities relative to the largest one of the children; return its log.

    The largest of all may be that of a table which no child joins; others vanish beside it.
    """
    particles, memo, children = state.particles, state.memo, state.children
    entry, score, lik = particles.entry, memo.score, memo.lik
    top = -np.inf
    for c in range(size):
        k = children.table[c]
        top = max(top, score[entry[children.parent[c], k] if k >= 0 else pools.EMPTY])
    for c in range(size):
        if children.table[c] >= 0:
            e = entry[children.parent[c], children.table[c]]
            lik[e] = math.exp(score[e] - top)
    lik[pools.EMPTY] = math.exp(
        min(score[pools.EMPTY] - top, 0.0)
    )  # above 0 where no child opens a table
    return top


@uncounted
def report(state, size, top, total, new, stays, out):
    """Normalise the weights of tables and children; write the prediction in ``out``.

    ``total``, ``new``, ``stays`` : weights of all children, of those at new tables, and of those at
    the table of the row before. ``top`` : log of the largest density of a table.
    """
    names, counts, children = state.names, state.counts, state.children
    n, weight, at_name = counts[N_SEEN], children.weight, state.scratch.at_name
    for g in range(len(at_name)):
        at_name[g] /= total
    for c in range(size):
        weight[c] /= total
    label, best = best_name(names, at_name, new / total, n)
    out[LABEL] = label
    out[LABEL_PROB] = best
    out[SCORE] = -(top + math.log(total))
    out[P_NEW] = new / total
    out[P_CHANGE] = max(1.0 - stays / total, 0.0) if n > 0 else np.nan
    out[LIVE_TABLES] = counts[N_LIVE]


@uncounted
def list_kept(children, kept):
    """List ancestors and tables of the children that stay; return the sum of their weights."""
    total = 0.0
    for c in range(kept):
        children.ancestor[c] = children.parent[children.chosen[c]]
        children.to[c] = children.table[children.chosen[c]]
        total += children.kept_weight[c]
    children.n[0] = kept
    return total


@uncounted
def extend_joined(config, state, recent_name, x):
    """Make, of each cluster that a child joins, the one with the arrival in it."""
    particles, pool, memo = state.particles, state.pool, state.memo
    names, counts, children = state.names, state.counts, state.children
    n, to, place, successor = counts[N_SEEN], children.to, children.place, memo.successor
    size = 0
    for c in range(children.n[0]):
        e = particles.entry[place[c], to[c]] if to[c] >= 0 else pools.EMPTY
        if successor[e] < 0:
            successor[e] = pools.take(pool)
            memo.which[size] = e
            size += 1
    pools.extend_clusters(
        config.family, config.hyper, pool.stats, pool.post, pool.members, pool.mixed, pool.name,
        x, 1.0, n, memo.which, size, successor,
    )  # fmt: skip
    if successor[pools.EMPTY] >= 0:
        pool.name[successor[pools.EMPTY]] = name_of(n, recent_name, names, counts)


@uncounted
def weigh_names(state):
    """Sum the weights of the particles that have each table, and count them."""
    particles, pool, names, counts = state.particles, state.pool, state.names, state.counts
    weight, entry, n_tables = particles.weight, particles.entry, particles.n_tables
    total, n_holders, name = names.weight, names.n_holders, pool.name
    total[:] = 0.0
    n_holders[:] = 0
    most = 0
    for p in range(len(weight)):
        if weight[p] <= 0.0:
            continue
        most = max(most, n_tables[p])
        for k in range(n_tables[p]):
            if entry[p, k] >= 0:
                g = name[entry[p, k]]
                total[g] += weight[p]
                n_holders[g] += 1
    counts[MOST_TABLES] = most


LEAST_LOG_WEIGHT = -45.0  # of a node, relative to the heaviest one
CACHED = 16  # numbers of clusters of each row that have places of their own in the cache


@uncounted
def sums_at(config, grid, row, k, m, stamp):
    """Find the sums over row ``row`` of ``grid.base`` for k clusters, cached for each stamp."""
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
    """Weight of a new cluster beside ``met`` clusters of the parents, where there is a discount."""
    if config.n_clusters > 0:  # exactly 0 where all are met
        return -config.discount * max(config.n_clusters - met, 0)
    return config.alpha + config.discount * met


@uncounted
def log_opened(config, grid, k, stamp):
    """Log of the factor of the prior that depends on the number k of clusters opened alone."""
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
    """List the children with their weights and keys; return how many there are.

    ``sums`` gets the weights of all, of those at new tables, and of those at the last item's table.
    The key of a child is the hash of what the future depends on, once the arrival sits there.
    """
    particles, pool, memo, grid = state.particles, state.pool, state.memo, state.grid
    children, scratch = state.children, state.scratch
    n, stamp, sums = state.counts[N_SEEN], state.counts[STAMP], scratch.sums
    weight, entry, n_tables = particles.weight, particles.entry, particles.n_tables
    near, label, opened, key = particles.near, particles.label, particles.opened, particles.key
    name, mixed, successor_mixed = pool.name, pool.mixed, memo.successor_mixed
    child_parent, child_table = children.parent, children.table
    child_weight, child_key = children.weight, children.key
    lik, at_name, counted = memo.lik, scratch.at_name, scratch.near
    learned, given, R = len(config.nodes) > 0, config.given, label.shape[1]
    m = len(parents) if given else min(n, config.r)
    last = (n - 1) % R
    leaving = (n - config.r) % R if n >= config.r else -1
    newborn, own_lik = successor_mixed[pools.EMPTY], lik[pools.EMPTY]
    size, total, new, stays = 0, 0.0, 0.0, 0.0
    join, opens = factors(config, grid, 0, 0, m, stamp)
    for p in range(len(weight)):
        w = weight[p]
        if w <= NEGLIGIBLE:
            continue
        K = n_tables[p]
        if learned:
            join, opens = factors(config, grid, 0, opened[p], m, stamp)
        if given:
            counted[:K] = 0
            for i in parents:
                counted[label[p, i % R]] += 1
        if config.discount != 0.0:
            met = 0
            for k in range(K):
                parents_here = counted[k] if given else near[p, k]
                met += entry[p, k] >= 0 and (parents_here > 0 or config.whole_graph)
            opens = join * new_weight(config, met)
        base, left = key[p], -1  # left: the table that dies when an item leaves the window
        if keyed and leaving >= 0 and not config.whole_graph:
            k = label[p, leaving]
            if near[p, k] == 1:
                left = k
                base ^= mixed[entry[p, k]]
        if opens > 0.0:
            child_parent[size] = p
            child_table[size] = -1
            child_weight[size] = w * opens * own_lik
            new += child_weight[size]
            total += child_weight[size]
            if keyed:
                child_key[size] = base ^ newborn
                if learned:
                    child_key[size] ^= hash_of(opened[p], OPENED) ^ hash_of(opened[p] + 1, OPENED)
            size += 1
        last_table = label[p, last] if n > 0 else -1
        for k in range(K):
            e = entry[p, k]
            if e < 0:
                continue
            parents_here = counted[k] if given else near[p, k]
            if parents_here == 0 and not config.whole_graph:
                continue
            here = w * join * (parents_here - config.discount) * lik[e]
            at_name[name[e]] += here
            if k == last_table:
                stays += here
            total += here
            child_parent[size] = p
            child_table[size] = k
            child_weight[size] = here
            if keyed:
                child_key[size] = base ^ successor_mixed[e]
                if k != left:
                    child_key[size] ^= mixed[e]
            size += 1
    sums[0], sums[1], sums[2] = total, new, stays
    return size


@uncounted
def weigh(config, state, parents, keyed, top, out):
    """List the children, docs/math/graphs.md (3), of an arrival that was scored; return how many.

    A child sits the arrival at a table with n_k > 0 of its m parents, with weight
    w_p E[n_k / (alpha + m)] p(x | table), or at a new one, w_p E[alpha / (alpha + m)] p(x). With a
    discount n_k is less by d, and alpha more by d for each table of parents; with the labels of the
    whole graph, where d < 0, n_k may be 0, and each table counts. The sum of the weights is the
    predictive density; they are then normalised. ``top`` : log of the largest density of a table.
    ``out`` : label, its probability, -log density, probability of a new table, of another table
    than the last row's, live tables.
    """
    at_name, sums = state.scratch.at_name, state.scratch.sums
    size = 0
    for _ in range(2):
        at_name[:] = 0.0
        size = _children(config, state, parents, keyed)
        if sums[0] > LEAST:
            break
        top = compare_anew(state, size)
    report(state, size, top, sums[0], sums[1], sums[2], out)
    return size
