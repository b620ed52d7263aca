"""Which children go on, and how a particle learns a row."""

import math

import numpy as np

from streamddcrp.compilation import uncounted
from streamddcrp.likelihoods.kernels.linear_gaussian import add_row
from streamddcrp.models.features.kernels.slots import (
    ALL,
    IMPUTE,
    LOG_EVIDENCE,
    MERGE,
    N_ACTIVE,
    N_SEEN,
    SHAPE,
    allocate,
)
from streamddcrp.numerics import copy_row
from streamddcrp.particles.kernels.random import add_wrapping, gamma, hash_of, normal, uniform
from streamddcrp.particles.kernels.resample import merge_equal, optimal, place_children

ONE = np.uint64(1)


@uncounted
def settle(config, particles, rows, counts, sums, work, x, seen, n_dims, n_pool):
    """Choose the children that go on, and make them particles that have learned the row."""
    t = counts[N_SEEN]
    row_hash = hash_of(t, config.seed)
    if config.merge and n_pool > 1:
        for m in range(n_pool):
            work.pool_key[m] = _key(particles, work, m, row_hash)
        merge_equal(work.pool_key, work.pool_weight, n_pool, work.table, config.seed, t, MERGE)
    n = optimal(
        work.pool_weight, n_pool, config.n_particles, uniform(config.seed, t, 0, ALL, 0),
        work.child, work.child_weight,
    )  # fmt: skip
    for m in range(n):
        work.ancestor[m] = work.pool_parent[work.child[m]]
    place_children(work.ancestor, n, work.used, work.place)
    for m in range(n):
        if work.place[m] != work.ancestor[m]:
            _copy(particles, work.ancestor[m], work.place[m])
    for m in range(n):
        i, c = work.place[m], work.child[m]
        particles.weight[i] = work.child_weight[m]
        _learn(
            config, particles, sums, work, i, t, x, seen, n_dims, work.pool_mask[c],
            work.pool_new[c], work.scale[work.ancestor[m]], row_hash,
        )  # fmt: skip
    _close_gaps(particles, work, n)
    counts[N_ACTIVE] = n
    total = 0.0
    for i in range(n):
        total += particles.weight[i]
    for i in range(n):
        particles.weight[i] /= total
    sums[LOG_EVIDENCE] += work.increment[0]
    if sums[SHAPE] > 0.0:
        sums[SHAPE] += 0.5 * len(x)
    at = t % len(rows.x)
    copy_row(rows.x[at], x)
    rows.whole[at] = n_dims == len(x)


@uncounted
def _key(particles, work, m, row_hash):
    """Hash of the owners of all features so far: what the future depends on."""
    i, mask = work.pool_parent[m], work.pool_mask[m]
    key = particles.past[i]
    for n in range(work.pool_new[m]):
        key = add_wrapping(key, hash_of(row_hash, 1 + work.scale[i, n]))
    for k in range(1, particles.n_owners.shape[1]):
        if particles.n_owners[i, k] > 0:
            own = particles.hash[i, k]
            if (mask >> np.uint64(k)) & ONE:
                own = add_wrapping(own, row_hash)
            key = add_wrapping(key, hash_of(own, 1 + particles.scale[i, k]))
    return key


@uncounted
def _copy(particles, source, target):
    K = particles.n_owners.shape[1]
    particles.rate[target] = particles.rate[source]
    particles.past[target] = particles.past[source]
    copy_row(particles.owners[target], particles.owners[source])
    for k in range(K):
        n = particles.n_owners[source, k]
        particles.n_owners[target, k] = n
        if n > 0 or k == 0:
            particles.scale[target, k] = particles.scale[source, k]
            particles.first[target, k] = particles.first[source, k]
            particles.name[target, k] = particles.name[source, k]
            particles.hash[target, k] = particles.hash[source, k]
            copy_row(particles.mean[target, k], particles.mean[source, k])
            copy_row(particles.cov[target, k], particles.cov[source, k])


@uncounted
def _close_gaps(particles, work, n):
    """Move the particles that go on to the first places."""
    free = 0
    for m in range(len(work.used)):
        if m < n or not work.used[m]:
            continue
        while work.used[free]:
            free += 1
        _copy(particles, m, free)
        particles.weight[free] = particles.weight[m]
        work.used[free] = True
        work.used[m] = False


@uncounted
def _learn(config, particles, sums, work, i, t, x, seen, n_dims, mask, n_new, scales, row_hash):
    """Give a particle the row with the features of ``mask`` and new ones; let go of row t - r."""
    n_owners, owners, cov, mean = (
        particles.n_owners[i], particles.owners[i], particles.cov[i], particles.mean[i],
    )  # fmt: skip
    for n in range(n_new):
        mask |= ONE << np.uint64(allocate(config, particles, i, t, mask, scales[n], work.slots))
    n_slots, n_on = 0, 0
    for k in range(len(n_owners)):
        on = k == 0 or (mask >> np.uint64(k)) & ONE
        if on or n_owners[k] > 0:
            work.slots[n_slots] = k
            n_slots += 1
        if on:
            work.on[n_on] = k
            n_on += 1
            if k > 0:
                particles.hash[i, k] = add_wrapping(particles.hash[i, k], row_hash)
                n_owners[k] += 1
    copy_row(work.filled, x)
    if n_dims < len(x):
        _impute(config, cov, mean, sums, particles.rate[i], work, t, i, seen, n_dims, n_on)
        particles.past[i] = add_wrapping(particles.past[i], hash_of(row_hash, i))
    s, square = add_row(cov, mean, work.slots, n_slots, work.on, n_on, work.filled, work.v, work.e)
    if sums[SHAPE] > 0.0:
        particles.rate[i] += square / (2.0 * s)
    owners[t % len(owners)] = mask
    leaving = t - config.order
    if leaving >= 0:
        gone = owners[leaving % len(owners)]
        for k in range(1, len(n_owners)):
            if (gone >> np.uint64(k)) & ONE:
                n_owners[k] -= 1
                if n_owners[k] == 0:
                    particles.name[i, k] = -1
                    particles.past[i] = add_wrapping(
                        particles.past[i], hash_of(particles.hash[i, k], 1 + particles.scale[i, k])
                    )


@uncounted
def _impute(config, cov, mean, sums, rate, work, t, i, seen, n_dims, n_on):
    """Draw what is missing of ``work.filled`` from its predictive density given the rest."""
    D = len(seen)
    s, square = 1.0, 0.0
    for d in range(D):
        fitted = 0.0
        for a in range(n_on):
            fitted += mean[work.on[a], d]
        if seen[d] == 0.0:
            work.filled[d] = fitted
        square += (work.filled[d] - fitted) ** 2
    for a in range(n_on):
        for b in range(n_on):
            s += cov[work.on[a], work.on[b]]
    variance = rate
    if sums[SHAPE] > 0.0:
        shape = sums[SHAPE] + 0.5 * n_dims
        variance = (rate + 0.5 * square / s) / gamma(shape, config.seed, t, i, IMPUTE, D)
    scale = math.sqrt(variance * s)
    for d in range(D):
        if seen[d] == 0.0:
            work.filled[d] += scale * normal(config.seed, t, i, IMPUTE, d)
