"""Clusters shared by particles: equal sets of members have their statistics stored once.

A particle holds places of a pool. When many particles change the same cluster, one copy is changed
and all of them then hold it. The place of a cluster that no particle holds is free again. A copied
particle therefore costs a few integers, and a predictive density is computed once per cluster, not
once per particle.
"""

import math

from streamddcrp.compilation import uncounted
from streamddcrp.likelihoods.kernels.families import add_stats, log_predictive, posterior
from streamddcrp.numerics import copy_row
from streamddcrp.particles.kernels.random import hash_of

EMPTY = 0  # place of the empty cluster, from which new ones are made
MEMBER, CLUSTER = 1, 2  # what is hashed


@uncounted
def take(pool):
    """Take a free place, which must exist."""
    pool.n_free[0] -= 1
    e = pool.free[pool.n_free[0]]
    pool.holders[e] = 0
    return e


@uncounted
def drop(pool, e):
    """Decrease the holder count; at zero the place is free."""
    pool.holders[e] -= 1
    if pool.holders[e] == 0:
        pool.free[pool.n_free[0]] = e
        pool.n_free[0] += 1


@uncounted
def held_clusters(particles, memo, least, stamp):
    """List the clusters of particles above a weight, the empty one first; return their number."""
    memo.which[0] = EMPTY
    n = 1
    for p in range(len(particles.weight)):
        if particles.weight[p] > least:
            for k in range(particles.n_tables[p]):
                e = particles.entry[p, k]
                if e >= 0 and memo.seen[e] != stamp:
                    memo.seen[e] = stamp
                    memo.which[n] = e
                    n += 1
    return n


@uncounted
def score_clusters(config, pool, memo, x, i, n):
    """Log densities of row ``x`` at the first n listed clusters, and their hashes with item i."""
    change = hash_of(i, MEMBER)
    for j in range(n):
        e = memo.which[j]
        memo.score[e] = log_predictive(config.family, config.hyper, pool.post[e], x)
        memo.successor_mixed[e] = hash_of(pool.members[e] ^ change, CLUSTER)


@uncounted
def relative_liks(memo, n):
    """Make densities relative to the largest, return its log; reset the successors."""
    which, score = memo.which, memo.score
    top = score[which[0]]
    for j in range(n):
        top = max(top, score[which[j]])
    for j in range(n):
        memo.lik[which[j]] = math.exp(score[which[j]] - top)
        memo.successor[which[j]] = -1
    return top


@uncounted
def extend_clusters(config, pool, memo, x, sign, i, n):
    """Write the first n listed clusters with item i, or (``sign`` -1) without, as successors."""
    change = hash_of(i, MEMBER)
    for j in range(n):
        e = memo.which[j]
        new = memo.successor[e]
        copy_row(pool.stats[new], pool.stats[e])
        add_stats(config.family, config.hyper, x, sign, pool.stats[new])
        posterior(config.family, config.hyper, pool.stats[new], pool.post[new])
        pool.members[new] = pool.members[e] ^ change
        pool.mixed[new] = hash_of(pool.members[new], CLUSTER)
        pool.name[new] = pool.name[e]


@uncounted
def alter(config, pool, memo, e, i, x, sign):
    """Return a new cluster: e with item i, row ``x``, or (``sign`` -1) without it."""
    memo.which[0] = e
    memo.successor[e] = take(pool)
    extend_clusters(config, pool, memo, x, sign, i, 1)
    return memo.successor[e]
