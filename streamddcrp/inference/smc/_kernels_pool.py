"""Clusters that particles share: one copy of the statistics of equal sets of members.

A particle holds places of a pool. What many particles do to the same cluster is done once, to a
copy that all of them then hold, and a cluster that nobody holds any more gives its place back. So a
copied particle costs a few integers, and a predictive density is computed once a cluster, not once
a particle.
"""

from streamddcrp._numerics import inner_njit
from streamddcrp.inference.smc._kernels_random import hash_of
from streamddcrp.likelihoods._kernels import add_stats, log_predictive, posterior

__all__ = [
    "altered",
    "born",
    "drop",
    "extend_clusters",
    "hold",
    "newborn_of",
    "score_clusters",
    "take",
]

MEMBER, CLUSTER = 1, 2  # what is hashed


@inner_njit
def take(pool):
    """Take a free place; the caller has made sure that there is one."""
    pool.n_free[0] -= 1
    e = pool.free[pool.n_free[0]]
    pool.holders[e] = 0
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
def altered(family, hyper, pool, e, i, x, sign, name):
    """Copy cluster ``e`` with member i, row ``x``, added (``sign`` 1) or taken out (-1)."""
    new = take(pool)
    pool.stats[new] = pool.stats[e]
    add_stats(family, hyper, x, sign, pool.stats[new])
    posterior(family, hyper, pool.stats[new], pool.post[new])
    pool.members[new] = pool.members[e] ^ hash_of(i, MEMBER)
    pool.mixed[new] = _mixed(pool.members[new])
    pool.name[new] = name
    return new


@inner_njit
def born(family, hyper, pool, i, x, name):
    """Make a cluster of member i, row ``x``, alone."""
    new = take(pool)
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


# The two functions below take arrays, not named tuples of them: with many clusters the passing of a
# tuple, array by array, costs more than the work.


@inner_njit
def score_clusters(family, hyper, post, members, x, i, which, n, score, heir_mixed):
    """Log predictive densities of row ``x`` at the first ``n`` clusters of the list ``which``.

    ``heir_mixed`` gets the mixed hashes of the clusters with arrival i in them.
    """
    more = hash_of(i, MEMBER)
    for j in range(n):
        e = which[j]
        score[e] = log_predictive(family, hyper, post[e], x)
        heir_mixed[e] = _mixed(members[e] ^ more)


@inner_njit
def extend_clusters(
    family, hyper, stats, post, members, mixed, name, x, i, which, n, heir, heir_mixed
):
    """Write cluster e with arrival i to place ``heir[e]``, for ``n`` of the list ``which``."""
    more = hash_of(i, MEMBER)
    for j in range(n):
        e = which[j]
        new = heir[e]
        stats[new] = stats[e]
        add_stats(family, hyper, x, 1.0, stats[new])
        posterior(family, hyper, stats[new], post[new])
        members[new] = members[e] ^ more
        mixed[new] = heir_mixed[e]
        name[new] = name[e]
