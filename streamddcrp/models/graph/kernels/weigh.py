"""Children of all particles for one arrival: where it may sit, and with what weight.

The likelihood of the concentration is alpha^k prod_m (alpha + m)^(-c_m), with k clusters opened and
c_m arrivals with m parents. ``grid.base`` holds log prior - sum_m c_m log(alpha + m) at the nodes,
the same for all particles; a particle adds k log alpha. Without nodes alpha is fixed.
"""

import math

import numpy as np

from streamddcrp.compilation import uncounted
from streamddcrp.models.graph.kernels.children import NEGLIGIBLE, OPENED, STAMP, report
from streamddcrp.particles.kernels.names import N_SEEN
from streamddcrp.particles.kernels.pool import EMPTY
from streamddcrp.particles.kernels.random import hash_of

LEAST_LOG_WEIGHT = -45.0  # of a node, relative to the heaviest one


@uncounted
def _at(config, grid, k, m, stamp):
    """Find the cached sums over the grid for k clusters, computed at most once per stamp."""
    at = k % len(grid.stamp)
    if grid.stamp[at] == stamp and grid.k[at] == k:
        return at
    nodes, log_nodes, base = config.nodes, config.log_nodes, grid.base
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
    grid.log_total[at] = top + math.log(total)
    grid.join[at] = join / total
    grid.new[at] = new / total
    return at


@uncounted
def factors(config, grid, k, m, stamp):
    """E[1 / (alpha + m)] and E[alpha / (alpha + m)] given k clusters."""
    if len(config.nodes) == 0:
        return 1.0 / (config.alpha + m), config.alpha / (config.alpha + m)
    at = _at(config, grid, k, m, stamp)
    return grid.join[at], grid.new[at]


@uncounted
def log_opened(config, grid, k, stamp):
    """Log of the factor of the prior that depends on the number k of clusters opened."""
    if len(config.nodes) == 0:
        return k * math.log(config.alpha)
    return grid.log_total[_at(config, grid, k, 0, stamp)]


@uncounted
def count_parents(config, grid, m):
    """Multiply the likelihood of alpha by the factor of an arrival with m parents."""
    for g in range(len(config.nodes)):
        grid.base[g] -= math.log(config.nodes[g] + m)


@uncounted
def _children(
    config, particles, pool, memo, grid, children, scratch, parents, n, stamp, keyed, sums
):  # fmt: skip
    """List the children with their weights and keys; return how many there are.

    ``sums`` gets the weights of all, of those at new tables, and of those at the last item's table.
    The key of a child is the hash of what the future depends on, once the arrival sits there.
    """
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
    newborn, own_lik = successor_mixed[EMPTY], lik[EMPTY]
    size, total, new, stays = 0, 0.0, 0.0, 0.0
    join, opens = factors(config, grid, 0, m, stamp)
    for p in range(len(weight)):
        w = weight[p]
        if w <= NEGLIGIBLE:
            continue
        K = n_tables[p]
        if learned:
            join, opens = factors(config, grid, opened[p], m, stamp)
        if given:
            counted[:K] = 0
            for i in parents:
                counted[label[p, i % R]] += 1
        base, left = key[p], -1  # left: the table that dies when an item leaves the window
        if keyed and leaving >= 0:
            k = label[p, leaving]
            if near[p, k] == 1:
                left = k
                base ^= mixed[entry[p, k]]
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
            if parents_here == 0:
                continue
            here = w * join * parents_here * lik[e]
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
def weigh(
    config, particles, pool, memo, grid, names, counts, children, scratch, parents, keyed, top, out
):
    """List the children of all particles for an arrival that has been scored; return how many.

    A child sits the arrival at a table with n_k > 0 of its m parents, with weight
    w_p E[n_k / (alpha + m)] p(x | table), or at a new one, w_p E[alpha / (alpha + m)] p(x). Their
    sum is the predictive density; the weights are then normalised. ``top`` : log of the largest
    density of a table. ``out`` : label, its probability, -log density, probability of a new table,
    of another table than the last row's, live tables.
    """
    n = counts[N_SEEN]
    at_name, sums = scratch.at_name, scratch.sums
    at_name[:] = 0.0
    size = _children(
        config, particles, pool, memo, grid, children, scratch, parents, n, counts[STAMP], keyed,
        sums,
    )  # fmt: skip
    report(names, counts, children, at_name, size, top, sums[0], sums[1], sums[2], out)
    return size
