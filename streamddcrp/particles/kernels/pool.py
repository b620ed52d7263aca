"""Clusters that particles share: one copy of the statistics of equal sets of members.

A particle holds places of a pool. What many particles do to the same cluster is done once, to a
copy that all of them then hold, and the place of a cluster that no particle holds is free again. So
a copied particle costs a few integers, and a predictive density is computed once per cluster, not
once per particle.
"""

import math

from streamddcrp.compilation import uncounted
from streamddcrp.likelihoods.kernels.families import add_stats, log_predictive, posterior
from streamddcrp.numerics import copy_row
from streamddcrp.particles.kernels.random import hash_of

EMPTY = 0  # place of the cluster without members, from which new ones are made
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
    """Count one holder less; without holders the place is free."""
    pool.holders[e] -= 1
    if pool.holders[e] == 0:
        pool.free[pool.n_free[0]] = e
        pool.n_free[0] += 1


# The functions below take arrays, not named tuples of them: passing a tuple, array by array, costs
# more than the work. Densities and statistics are computed in two of them only, because code that
# knows all families takes long to compile.


@uncounted
def held_clusters(weight, entry, n_tables, least, seen, stamp, which):
    """List the clusters, the empty one first, of particles above a weight; return how many."""
    which[0] = EMPTY
    n = 1
    for p in range(len(weight)):
        if weight[p] > least:
            for k in range(n_tables[p]):
                e = entry[p, k]
                if e >= 0 and seen[e] != stamp:
                    seen[e] = stamp
                    which[n] = e
                    n += 1
    return n


@uncounted
def score_clusters(family, hyper, post, members, x, i, which, n, score, successor_mixed):
    """Log densities of row ``x`` at clusters ``which[:n]``, and their hashes with item i."""
    change = hash_of(i, MEMBER)
    for j in range(n):
        e = which[j]
        score[e] = log_predictive(family, hyper, post[e], x)
        successor_mixed[e] = hash_of(members[e] ^ change, CLUSTER)


@uncounted
def relative_liks(which, n, score, lik, successor):
    """Write densities relative to the largest one, return its log; reset the successors."""
    top = score[which[0]]
    for j in range(n):
        top = max(top, score[which[j]])
    for j in range(n):
        lik[which[j]] = math.exp(score[which[j]] - top)
        successor[which[j]] = -1
    return top


@uncounted
def extend_clusters(
    family, hyper, stats, post, members, mixed, name, x, sign, i, which, n, successor
):
    """Write clusters with item i in them, or (``sign`` -1) without, to their ``successor``."""
    change = hash_of(i, MEMBER)
    for j in range(n):
        e = which[j]
        new = successor[e]
        copy_row(stats[new], stats[e])
        add_stats(family, hyper, x, sign, stats[new])
        posterior(family, hyper, stats[new], post[new])
        members[new] = members[e] ^ change
        mixed[new] = hash_of(members[new], CLUSTER)
        name[new] = name[e]


@uncounted
def alter(family, hyper, pool, memo, e, i, x, sign):
    """Return a new cluster: e with item i, row ``x``, or (``sign`` -1) without it."""
    memo.which[0] = e
    memo.successor[e] = take(pool)
    extend_clusters(
        family, hyper, pool.stats, pool.post, pool.members, pool.mixed, pool.name, x, sign, i,
        memo.which, 1, memo.successor,
    )  # fmt: skip
    return memo.successor[e]
