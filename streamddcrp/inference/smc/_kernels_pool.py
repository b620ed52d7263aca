"""Clusters that particles share: one copy of the statistics of equal sets of members.

A particle holds places of a pool. What many particles do to the same cluster is done once, to a
copy that all of them then hold, and a cluster that nobody holds any more gives its place back. So a
copied particle costs a few integers, and a predictive density is computed once a cluster, not once
a particle.
"""

from streamddcrp._numerics import inner_njit
from streamddcrp.inference.smc._kernels_random import hash_of
from streamddcrp.likelihoods._kernels import add_stats, log_predictive, posterior

__all__ = ["altered", "born", "drop", "heir_of", "hold", "newborn_of", "score_of"]

MEMBER, CLUSTER = 1, 2  # what is hashed


@inner_njit
def _take(pool, memo):
    """Take a free place; the caller has made sure that there is one."""
    pool.n_free[0] -= 1
    e = pool.free[pool.n_free[0]]
    pool.holders[e] = 0
    memo.scored[e] = -1
    memo.heir[e] = -1
    return e


@inner_njit
def hold(pool, e):
    """Count one more holder."""
    pool.holders[e] += 1


@inner_njit
def drop(pool, e):
    """Count one holder less; the place is free after the last one."""
    pool.holders[e] -= 1
    if pool.holders[e] == 0:
        pool.free[pool.n_free[0]] = e
        pool.n_free[0] += 1


@inner_njit
def _mixed(members):
    return hash_of(members, CLUSTER)


@inner_njit
def altered(family, hyper, pool, memo, e, i, x, sign, name):
    """Copy cluster ``e`` with member i, row ``x``, added (``sign`` 1) or taken out (-1)."""
    new = _take(pool, memo)
    pool.stats[new] = pool.stats[e]
    add_stats(family, hyper, x, sign, pool.stats[new])
    posterior(family, hyper, pool.stats[new], pool.post[new])
    pool.members[new] = pool.members[e] ^ hash_of(i, MEMBER)
    pool.mixed[new] = _mixed(pool.members[new])
    pool.name[new] = name
    return new


@inner_njit
def born(family, hyper, pool, memo, i, x, name):
    """Make a cluster of member i, row ``x``, alone."""
    new = _take(pool, memo)
    pool.stats[new] = 0.0
    add_stats(family, hyper, x, 1.0, pool.stats[new])
    posterior(family, hyper, pool.stats[new], pool.post[new])
    pool.members[new] = hash_of(i, MEMBER)
    pool.mixed[new] = _mixed(pool.members[new])
    pool.name[new] = name
    return new


@inner_njit
def newborn_of(i):
    """Mixed hash of the cluster of member i alone."""
    return _mixed(hash_of(i, MEMBER))


@inner_njit
def score_of(family, hyper, pool, memo, e, i, x, stamp):
    """Log predictive density of row ``x`` of arrival i, computed once a ``stamp``.

    Leaves in ``memo.heir_mixed`` the mixed hash of the cluster with i in it.
    """
    if memo.scored[e] != stamp:
        memo.scored[e] = stamp
        memo.heir[e] = -1
        memo.score[e] = log_predictive(family, hyper, pool.post[e], x)
        memo.heir_mixed[e] = _mixed(pool.members[e] ^ hash_of(i, MEMBER))
    return memo.score[e]


@inner_njit
def heir_of(family, hyper, pool, memo, e, i, x):
    """Cluster ``e`` with arrival i in it, made once after each `score_of`."""
    if memo.heir[e] < 0:
        memo.heir[e] = altered(family, hyper, pool, memo, e, i, x, 1.0, pool.name[e])
    return memo.heir[e]
