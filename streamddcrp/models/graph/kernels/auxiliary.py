"""Auxiliary items that tie groups: drawn from the prior, then resampled."""

import math

import numpy as np

from streamddcrp.compilation import uncounted
from streamddcrp.models.graph.kernels import cells, children
from streamddcrp.particles.kernels.random import draw, draw_log, uniform


@uncounted
def n_clusters(particles, p):
    """Count the tables in use; a learned alpha depends on their number."""
    n = 0
    for k in range(particles.n_tables[p]):
        n += particles.entry[p, k] >= 0 or particles.n_aux[p, k] > 0
    return n


@uncounted
def base_row(grid, p):
    """Row of ``grid.base`` of a particle."""
    return min(p, len(grid.base) - 1)


@uncounted
def _log_new(config, state, p):
    """Log weight of a new table beside those in use."""
    particles, grid, stamp = state.particles, state.grid, state.counts[children.STAMP]
    if len(config.nodes) == 0:
        return math.log(config.alpha)
    k = n_clusters(particles, p)
    row = base_row(grid, p)
    one = children.sums_at(config, grid, row, k, 0, stamp)
    more = children.sums_at(config, grid, row, k + 1, 0, stamp)
    return grid.log_total[more] - grid.log_total[one]


@uncounted
def fill(config, state, n, a):
    """Draw the tables of node a's auxiliary items in each particle from the prior, a CRP."""
    particles, aux, grid = state.particles, state.aux, state.grid
    counts, scratch = state.counts, state.scratch
    work, items = scratch.work, scratch.items
    before = config.n_root if a > 0 else 0
    for i in range(config.n_root if a == 0 else config.n_node):
        counts[children.STAMP] += 1
        for p in range(len(particles.weight)):
            if particles.weight[p] <= 0.0:
                continue
            K = particles.n_tables[p]
            join, opens = 1.0, config.alpha
            if len(config.nodes) > 0:
                k = n_clusters(particles, p)
                join, opens = children.factors(
                    config, grid, base_row(grid, p), k, before + i, counts[children.STAMP]
                )
            cells.spread(aux, p, a, K, items)
            for k in range(K):
                work[k] = join * items[k]
            if a > 0:
                cells.spread(aux, p, 0, K, scratch.n_users)
                for k in range(K):
                    work[k] = join * (items[k] + scratch.n_users[k])
            work[K] = opens
            k = draw(work, K + 1, uniform(config.seed, n, p, children.FIRST_DRAW, i))
            if k == K:
                k = children.free_slot(particles, p, particles.n_aux)
            cells.add_to(aux, p, a, k, 1)
            particles.n_aux[p, k] += 1
        for row in range(len(grid.base)):
            children.count_parents(config, grid, row, before + i)


@uncounted
def _connects(config, state, p, a, k):
    """Whether several neighbours of a node have items at a table."""
    own, aux, groups = state.own, state.aux, state.groups
    found = 0
    if config.n_node > 0:
        for c in range(0 if a > 0 else 1, 1 if a > 0 else groups.n[0]):
            found += cells.table_at(aux, p, cells.place_of(aux, p, cells.TABLES * c + k), c) == k
    for c in range(own.n[p]):
        if cells.table_of(own.cell[p, c]) == k:
            found += config.n_node == 0 or groups.node[cells.row_of(own.cell[p, c])] == a
        if found > 1:
            return True
    return found > 1


@uncounted
def _add_items(n, k, scratch):
    """Multiply a weight by the factor of a neighbour with ``n`` items at table k."""
    items = scratch.items[k]
    scratch.n_users[k] += 1
    scratch.only[k] = n
    if items > 0:
        scratch.log_weight[k] += math.log((items + n) / items)


@uncounted
def _add_node(aux, p, a, scratch):
    """Multiply the weights by the factor of a neighbour: the auxiliary items of a node."""
    c = cells.place_of(aux, p, cells.TABLES * a)
    k = cells.table_at(aux, p, c, a)
    while k < cells.TABLES:
        _add_items(aux.items[p, c], k, scratch)
        c += 1
        k = cells.table_at(aux, p, c, a)


@uncounted
def move(config, state, p, n, number):
    """Resample the table of one auxiliary item from its full conditional: docs/math/graphs.md (8).

    It stays if it alone connects several neighbours (root and groups of a node, or nodes or groups
    of the root).
    """
    particles, own, aux = state.particles, state.own, state.aux
    groups, scratch = state.groups, state.scratch
    n_aux, K, n_nodes = particles.n_aux, particles.n_tables[p], groups.n[0]
    a = int(uniform(config.seed, n, p, children.WHICH_NODE, number) * n_nodes)
    start, size = cells.place_of(aux, p, cells.TABLES * a), 0
    while cells.table_at(aux, p, start + size, a) < cells.TABLES:
        scratch.work[size] = aux.items[p, start + size]
        size += 1
    at = start + draw(scratch.work, size, uniform(config.seed, n, p, children.WHICH_ITEM, number))
    old = cells.table_at(aux, p, at, a)
    if aux.items[p, at] == 1 and _connects(config, state, p, a, old):
        return
    items, log_weight, n_users = scratch.items, scratch.log_weight, scratch.n_users
    for k in range(K):
        items[k], n_users[k], log_weight[k] = 0, 0, -np.inf
    for c in range(start, start + size):
        k = cells.table_at(aux, p, c, a)
        items[k] = aux.items[p, c] - (k == old)
        if items[k] > 0:
            log_weight[k] = math.log(items[k])
    if a > 0:
        _add_node(aux, p, 0, scratch)
    elif config.n_node > 0:
        for c in range(1, n_nodes):
            _add_node(aux, p, c, scratch)
    for c in range(own.n[p]):
        g, k = cells.row_of(own.cell[p, c]), cells.table_of(own.cell[p, c])
        if config.n_node == 0 or groups.node[g] == a:
            _add_items(own.items[p, c], k, scratch)
    for k in range(K):
        if items[k] == 0 and n_users[k] == 1:
            log_weight[k] = math.log(scratch.only[k])
    n_aux[p, old] -= 1
    log_weight[K] = _log_new(config, state, p)
    k = draw_log(log_weight, K + 1, uniform(config.seed, n, p, children.WHERE, number))
    if k == K:
        k = children.free_slot(particles, p, particles.n_aux)
    if k != old:
        cells.take_from(aux, p, a, old)
        cells.add_to(aux, p, a, k, 1)
    n_aux[p, k] += 1
