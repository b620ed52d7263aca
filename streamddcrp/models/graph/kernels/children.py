"""What `GraphCRP` and `GroupDP` have in common: constants, scores, children, names of tables."""

import math

import numpy as np

from streamddcrp.compilation import uncounted
from streamddcrp.contract import LABEL, LABEL_PROB, LIVE_TABLES, P_CHANGE, P_NEW, SCORE
from streamddcrp.particles.kernels.names import MOST_TABLES, N_LIVE, N_SEEN, best_name, name_of
from streamddcrp.particles.kernels.names import N_COUNTS as _COMMON
from streamddcrp.particles.kernels.pool import (
    EMPTY,
    extend_clusters,
    held_clusters,
    relative_liks,
    score_clusters,
    take,
)

OPTIMAL = 0
SYSTEMATIC = 1
STRATIFIED = 2
N_BEST = 3

# purposes of random numbers: of items, and of groups
RESAMPLE, MERGE, CHOOSE, REVISE_WHICH, REVISE_WHERE = range(5)
FIRST_DRAW, WHICH_EMPTY, WHICH_NODE, WHICH_ITEM, WHERE = range(1, 6)

# counts, after those of all particle filters
STAMP = _COMMON  # of the last scores; no two alike within a process
N_COUNTS = _COMMON + 1

NEGLIGIBLE = 1e-250  # weight of a particle that is left out
OPENED = 3  # hashes the number of clusters a particle opened, where alpha depends on it


@uncounted
def score_arrival(config, particles, pool, memo, counts, x):
    """Score the arrival at all clusters; return the log of the largest density."""
    counts[STAMP] += 1
    which, score = memo.which, memo.score
    size = held_clusters(
        particles.weight, particles.entry, particles.n_tables, NEGLIGIBLE, memo.seen, counts[STAMP],
        which,
    )  # fmt: skip
    score_clusters(
        config.family, config.hyper, pool.post, pool.members, x, counts[N_SEEN], which, size, score,
        memo.successor_mixed,
    )  # fmt: skip
    return relative_liks(which, size, score, memo.lik, memo.successor)


@uncounted
def report(names, counts, children, at_name, size, top, total, new, stays, out):
    """Normalise the weights of tables and children; write the prediction in ``out``.

    ``total``, ``new``, ``stays`` : weights of all children, of those at new tables, and of those at
    the table of the row before. ``top`` : log of the largest density of a table.
    """
    n, weight = counts[N_SEEN], children.weight
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
def extend_joined(config, particles, pool, memo, names, recent_name, counts, children, x):
    """Make, of each cluster that a child joins, the one with the arrival in it."""
    n, to, place, successor = counts[N_SEEN], children.to, children.place, memo.successor
    size = 0
    for c in range(children.n[0]):
        e = particles.entry[place[c], to[c]] if to[c] >= 0 else EMPTY
        if successor[e] < 0:
            successor[e] = take(pool)
            memo.which[size] = e
            size += 1
    extend_clusters(
        config.family, config.hyper, pool.stats, pool.post, pool.members, pool.mixed, pool.name,
        x, 1.0, n, memo.which, size, successor,
    )  # fmt: skip
    if successor[EMPTY] >= 0:
        pool.name[successor[EMPTY]] = name_of(n, recent_name, names, counts)


@uncounted
def weigh_names(particles, pool, names, counts):
    """Sum the weights of the particles that have each table, and count them."""
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
