"""The concentration: fixed, or integrated out on a grid given the clusters a particle opened.

The likelihood of alpha is alpha^k prod_m (alpha + m)^(-c_m), with k clusters opened and c_m
arrivals with m parents. ``grid.base`` holds log prior - sum_m c_m log(alpha + m) at the nodes,
the same for all particles; a particle adds k log alpha. Without nodes alpha is fixed.
"""

import math

import numpy as np

from streamddcrp.compilation import uncounted

NEGLIGIBLE = -45.0  # log weight of a node beside the heaviest


@uncounted
def _at(config, grid, k, m, stamp):
    """Place of what is known for k clusters, worked out at most once a stamp."""
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
        if gap > NEGLIGIBLE:
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
    """Take note of an arrival with m parents."""
    for g in range(len(config.nodes)):
        grid.base[g] -= math.log(config.nodes[g] + m)
