"""Forget groups and clusters, as if their rows had never arrived."""

import math

from streamddcrp.compilation import entry, uncounted
from streamddcrp.models.graph.kernels import cells
from streamddcrp.models.graph.kernels.auxiliary import base_row
from streamddcrp.models.graph.kernels.children import weigh_names
from streamddcrp.particles.kernels.names import N_SEEN, refresh_names
from streamddcrp.particles.kernels.pool import drop


@uncounted
def _resize(config, grid, p, before, after):
    """Change a clique's number of items in the likelihood of alpha."""
    row = base_row(grid, p)
    for j in range(len(config.nodes)):
        alpha = config.nodes[j]
        grid.base[row, j] += math.lgamma(alpha + before) - math.lgamma(alpha + after)


@uncounted
def _items_above(config, groups, g):
    """Auxiliary items seen by the rows of a group."""
    return config.n_root if config.n_node == 0 or groups.node[g] == 0 else config.n_node


@uncounted
def _empty_table(config, state, p, k):
    particles, pool = state.particles, state.pool
    if config.gamma < math.inf:
        particles.n_aux[p, k] = 0
    drop(pool, particles.entry[p, k])
    particles.entry[p, k] = -1
    if particles.last[p] == k:
        particles.last[p] = -1
    for r in range(particles.label.shape[1]):
        if particles.label[p, r] == k:
            particles.label[p, r] = -1


@uncounted
def _forget_rows(config, state, p, k):
    """Forget the rows at a table as if they had never arrived; its auxiliary items stay.

    In a Markov chain the next rows then follow nothing known, like the first row.
    """
    own, groups, grid = state.own, state.groups, state.grid
    for c in range(own.n[p]):
        if cells.table_of(own.cell[p, c]) == k:
            g = cells.row_of(own.cell[p, c])
            m = _items_above(config, groups, g) + cells.row_total(own, p, g)
            _resize(config, grid, p, m, m - own.items[p, c])
    cells.drop_table(own, p, k)
    if config.markov:
        m, first, after = config.n_root, cells.row_total(own, p, 0), cells.row_total(own, p, k + 1)
        _resize(config, grid, p, m + after, m)
        _resize(config, grid, p, m + first, m + first + after)
        cells.join_first(own, p, k + 1)
    _empty_table(config, state, p, k)


@uncounted
def _least_missed(state):
    """Return the name of the cluster with the fewest rows relative to its absence."""
    particles, own, pool = state.particles, state.own, state.pool
    names, counts = state.names, state.counts
    rows = state.scratch.at_name
    rows[:] = 0.0
    for p in range(len(particles.weight)):
        if particles.weight[p] > 0.0:
            for c in range(own.n[p]):
                e = particles.entry[p, cells.table_of(own.cell[p, c])]
                rows[pool.name[e]] += particles.weight[p] * own.items[p, c]
    chosen, least = -1, math.inf
    for g in range(len(rows)):
        opener = names.opener[g]
        if opener >= 0:
            rate = rows[g] / (counts[N_SEEN] - max(opener, names.last_seen[g]))
            if rate < least or (rate == least and opener < names.opener[chosen]):
                chosen, least = g, rate
    return chosen


@uncounted
def forget_cluster(config, state):
    """Forget the rows of that cluster in all particles."""
    particles, pool = state.particles, state.pool
    name = _least_missed(state)
    for p in range(len(particles.weight)):
        for k in range(particles.n_tables[p]):
            e = particles.entry[p, k]
            if e >= 0 and pool.name[e] == name:
                _forget_rows(config, state, p, k)


@entry
def forget_group(config, state, g, also_node, t):
    """Forget the rows of a group, except in clusters with rows of other groups.

    ``also_node``: the node above has no other group, so its auxiliary items are removed, too.
    """
    particles, own, aux = state.particles, state.own, state.aux
    groups, grid, names = state.groups, state.grid, state.names
    events, counts, scratch = state.events, state.counts, state.scratch
    a, m = groups.node[g], _items_above(config, groups, g)
    n_counted = 0
    for p in range(len(particles.weight)):
        if particles.weight[p] <= 0.0:
            continue
        if (
            n_counted < len(grid.base) and config.gamma == math.inf
        ):  # once, if one row serves all particles
            n_counted += 1
            _resize(config, grid, p, m + cells.row_total(own, p, g), m)
            if also_node:
                _resize(config, grid, p, config.n_root + config.n_node, config.n_root)
        if also_node:
            at = cells.place_of(aux, p, cells.TABLES * a)
            k = cells.table_at(aux, p, at, a)
            while k < cells.TABLES:
                particles.n_aux[p, k] -= aux.items[p, at]
                at += 1
                k = cells.table_at(aux, p, at, a)
            cells.drop_row(aux, p, a)
        cells.drop_row(own, p, g)
        scratch.n_users[:] = 0
        for c in range(own.n[p]):
            scratch.n_users[cells.table_of(own.cell[p, c])] += 1
        for k in range(particles.n_tables[p]):
            if particles.entry[p, k] >= 0 and scratch.n_users[k] == 0:
                _empty_table(config, state, p, k)
    groups.n[1] -= 1
    for i in range(g, groups.n[1]):
        groups.node[i], groups.size[i] = groups.node[i + 1], groups.size[i + 1]
        groups.seen[i] = groups.seen[i + 1]
    groups.size[groups.n[1]] = 0
    if also_node:
        groups.n[0] -= 1
        for i in range(groups.n[1]):
            groups.node[i] -= groups.node[i] > a
    weigh_names(state)
    refresh_names(names, events, counts, counts[N_SEEN], t)
