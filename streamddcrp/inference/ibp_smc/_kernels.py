"""One arrival of the time-varying Indian buffet process: children, resampling, update.

A particle's features stand in slots; slot 0 is the baseline, which every row has (its prior
variance is 0 where there is none). ``owners`` holds, for the last 2 r + 1 rows, the features a row
has as bits. A feature without an owner among the last r rows is dead and leaves its slot.
"""

import math

import numpy as np
from numba import njit

from streamddcrp._numerics import inner_njit
from streamddcrp.inference.ibp_smc._kernels_enumerate import enumerate_row, normalise, prepare_row
from streamddcrp.inference.ibp_smc._kernels_layout import (
    ALL,
    FEW,
    IMPUTE,
    LIVE,
    LOG_DENSITY,
    LOG_EVIDENCE,
    MERGE,
    MOST_ENUMERATED,
    N_ACTIVE,
    N_FEATURES,
    N_SEEN,
    P_NEW,
    PROPOSAL,
    SHAPE,
)
from streamddcrp.inference.ibp_smc._kernels_names import name_features
from streamddcrp.inference.ibp_smc._kernels_rejuvenate import rejuvenate
from streamddcrp.inference.ibp_smc._kernels_scales import rescale
from streamddcrp.inference.ibp_smc._kernels_slots import (
    add_scales,
    allocate,
    draw_scales,
    live_slots,
    log_poisson,
)
from streamddcrp.inference.smc._kernels_copies import place_children
from streamddcrp.inference.smc._kernels_merge import merge_equal
from streamddcrp.inference.smc._kernels_random import add_wrapping, gamma, hash_of, normal, uniform
from streamddcrp.inference.smc._kernels_resample import optimal
from streamddcrp.likelihoods._kernels_linear_gaussian import add_row, log_constant, log_density

__all__ = ["predict", "step_rows"]

ONE = np.uint64(1)
NONE = np.uint64(0)


@njit(cache=True)
def step_rows(
    config, particles, rows, names, counts, sums, work, X, seen, t, done, out, out_id, out_prob
):
    """Predict and learn rows ``done`` on; return how many are done, fewer where slots run out.

    Parameters
    ----------
    X : ndarray of float64, shape (N, D)
        0 where a value is missing.
    seen : ndarray of float64, shape (N, D)
        1 where there is a value.
    t : ndarray of float64, shape (N,)
        Times; they are written beside events.
    out : ndarray of float64, shape (N, 3)
    out_id, out_prob : ndarray, shape (N, 64)
        Public ids of the live features (-1 behind the last) and the probability of each.
    """
    for n in range(done, len(X)):
        if not _room(config, particles, counts):
            return n
        n_dims = int(seen[n].sum())
        n_pool = _children(config, particles, counts, sums, work, X[n], seen[n], n_dims)
        _tell(particles, names, counts, work, out[n], out_id[n], out_prob[n])
        _settle(config, particles, rows, counts, sums, work, X[n], seen[n], n_dims, n_pool)
        if config.n_redrawn > 0:
            for i in range(counts[N_ACTIVE]):
                rejuvenate(config, particles, rows, counts, sums, work, i)
                rescale(config, particles, counts, sums, work, i)
        counts[N_SEEN] += 1
        name_features(config, particles, names, counts, work, t[n])
    return len(X)


@njit(cache=True)
def predict(config, particles, names, counts, sums, work, X, seen, out, out_id, out_prob, out_fit):
    """Predict rows (N, D), each as if it came next, and learn nothing.

    ``out_fit`` (N, D) : the rows without their noise, as the features explain them.
    """
    for n in range(len(X)):
        n_dims = int(seen[n].sum())
        _children(config, particles, counts, sums, work, X[n], seen[n], n_dims)
        _tell(particles, names, counts, work, out[n], out_id[n], out_prob[n])
        out_fit[n] = 0.0
        for i in range(counts[N_ACTIVE]):
            w = math.exp(work.total[i] - work.increment[0])
            for k in range(particles.n_owners.shape[1]):
                p = work.marginal[i, k] if k > 0 else 1.0
                if k == 0 or particles.n_owners[i, k] > 0:
                    for d in range(X.shape[1]):
                        out_fit[n, d] += w * p * particles.mean[i, k, d]


@inner_njit
def _room(config, particles, counts):
    """Whether every particle has slots for as many new features as a row may bring."""
    n_new = _most_new(config, counts[N_SEEN])
    K = particles.n_owners.shape[1]
    if config.most_slots <= K:
        return True
    for i in range(counts[N_ACTIVE]):
        n = 0
        for k in range(1, K):
            n += particles.n_owners[i, k] > 0
        if 1 + n + n_new > K:
            return False
    return True


@inner_njit
def _most_new(config, t):
    """How many new features a row may have: the Poisson tail beyond is below 1e-8."""
    rate = config.alpha / (min(t, config.order) + 1.0)
    n, p = 0, math.exp(-rate)
    tail = 1.0 - p
    while tail > 1e-8 and n < config.most_new:
        n += 1
        p *= rate / n
        tail -= p
    return max(n, 1)


@inner_njit
def _children(config, particles, counts, sums, work, x, seen, n_dims):
    """Make the children of all particles, a few of each; return how many.

    ``work.pool_*`` holds their particles, features, numbers of new ones and weights, which are
    normalised by their sum; ``work.total`` (P,) the log of each particle's weight times density;
    ``work.marginal`` (P, K) the probabilities of its features, slot 0 that of a new one.
    """
    t = counts[N_SEEN]
    q = min(t, config.order) + 1.0
    n_most = _most_new(config, t)
    n_pool = 0
    for i in range(counts[N_ACTIVE]):
        slots, n_slots = work.slots, live_slots(particles, i, work.slots)
        n_new = min(n_most, config.most_slots - n_slots) + 1
        log_poisson(config.alpha / q, n_new, work.log_new)
        draw_scales(config, t, i, 0, n_new - 1, work.scale[i])
        add_scales(config, work.scale[i], n_new - 1, work.extra)
        log_prior = 0.0
        for a in range(1, n_slots):
            m = particles.n_owners[i, slots[a]]
            work.odds[a - 1] = math.log(m) - math.log(q - m)
            log_prior += math.log((q - m) / q)
        cov, mean = particles.cov[i], particles.mean[i]
        shape, rate = sums[SHAPE], particles.rate[i]
        forced = work.forced
        forced[0] = 0
        n_forced, n_free = 1, n_slots - 1
        for f in range(n_free):
            work.free[f] = slots[f + 1]
        if n_free > MOST_ENUMERATED:
            correction, n_forced, n_free = _propose(
                config, cov, mean, x, seen, n_dims, n_free, t, i, shape, rate, work
            )
            log_prior += correction
        s, square = prepare_row(
            cov, mean, x, seen, n_dims, forced, n_forced, work.free, n_free, work
        )
        n = enumerate_row(
            s, square, n_dims, n_free, work.odds, log_prior, n_new, work.log_new, work.extra,
            shape, rate, work,
        )  # fmt: skip
        total = normalise(work.log_weight, n, work.weight)
        work.total[i] = math.log(particles.weight[i]) + total + log_constant(n_dims, shape, rate)
        always = NONE
        for a in range(1, n_forced):
            always |= ONE << np.uint64(forced[a])
        _marginals(particles, i, n, n_new, n_free, forced, n_forced, work)
        few = optimal(
            work.weight, n, config.n_children, uniform(config.seed, t, i, FEW, 0), work.few,
            work.few_weight,
        )  # fmt: skip
        for m in range(few):
            c = work.few[m]
            bits, mask = work.subset[c // n_new], always
            for f in range(n_free):
                if (bits >> np.uint64(f)) & ONE:
                    mask |= ONE << np.uint64(work.free[f])
            work.pool_parent[n_pool] = i
            work.pool_mask[n_pool] = mask
            work.pool_new[n_pool] = c % n_new
            work.pool_weight[n_pool] = work.few_weight[m]
            n_pool += 1
    top = -np.inf
    for i in range(counts[N_ACTIVE]):
        top = max(top, work.total[i])
    total = 0.0
    for i in range(counts[N_ACTIVE]):
        total += math.exp(work.total[i] - top)
    for m in range(n_pool):
        work.pool_weight[m] *= math.exp(work.total[work.pool_parent[m]] - top) / total
    work.increment[0] = top + math.log(total)
    return n_pool


@inner_njit
def _propose(config, cov, mean, x, seen, n_dims, n_free, t, i, shape, rate, work):
    """Draw all free features but the eight most doubtful ones; return the log weight of the draw.

    Two rounds of setting each feature as it is more probable, then each one's log odds given the
    others. Drawn ones that are on join the forced ones. Returns the correction of the log prior and
    the new numbers of forced and of free features.
    """
    forced = work.forced
    s, square = prepare_row(cov, mean, x, seen, n_dims, forced, 1, work.free, n_free, work)
    pull, link, gram, spread = work.pull, work.link, work.gram, work.spread
    for f in range(n_free):
        work.chosen[f] = 0
    for _ in range(2):
        for f in range(n_free):
            sign = -1.0 if work.chosen[f] else 1.0
            other = max(square + 2.0 * sign * pull[f] + gram[f, f], 0.0)
            s_other = s + 2.0 * sign * link[f] + spread[f, f]
            gain = log_density(s_other, other, n_dims, shape, rate) - log_density(
                s, max(square, 0.0), n_dims, shape, rate
            )
            work.lean[f] = work.odds[f] + sign * gain
            if (work.lean[f] > 0.0) != (work.chosen[f] == 1):
                work.chosen[f] = 1 - work.chosen[f]
                square, s = other, s_other
                for g in range(n_free):
                    pull[g] += sign * gram[f, g]
                    link[g] += sign * spread[f, g]
    for f in range(n_free):
        work.chosen[f] = 0
    for _ in range(MOST_ENUMERATED):
        best = -1
        for f in range(n_free):
            if work.chosen[f] == 0 and (best < 0 or abs(work.lean[f]) < abs(work.lean[best])):
                best = f
        work.chosen[best] = 1
    log_weight, n_forced, n_left = 0.0, 1, 0
    for f in range(n_free):
        j, odds = work.free[f], work.odds[f]
        if work.chosen[f]:
            work.free[n_left] = j
            work.odds[n_left] = odds
            n_left += 1
            continue
        p = min(max(1.0 / (1.0 + math.exp(-max(min(work.lean[f], 50.0), -50.0))), 0.02), 0.98)
        if uniform(config.seed, t, i, PROPOSAL, f) < p:
            log_weight += odds - math.log(p)
            forced[n_forced] = j
            n_forced += 1
        else:
            log_weight -= math.log(1.0 - p)
    return log_weight, n_forced, n_left


@inner_njit
def _marginals(particles, i, n, n_new, n_free, forced, n_forced, work):
    """Sum the weights of children that have a feature, of those that have a new one in slot 0."""
    marginal = work.marginal[i]
    marginal[:] = 0.0
    for c in range(n // n_new):
        total = 0.0
        for k in range(n_new):
            total += work.weight[c * n_new + k]
        marginal[0] += total - work.weight[c * n_new]
        bits = work.subset[c]
        for f in range(n_free):
            if (bits >> np.uint64(f)) & ONE:
                marginal[work.free[f]] += total
    for a in range(1, n_forced):
        marginal[forced[a]] = 1.0


@inner_njit
def _tell(particles, names, counts, work, out, out_id, out_prob):
    """Write what the row looks like before it is learned."""
    n_told = 0
    for g in range(len(names.label)):
        work.place_of[g] = -1
        if names.label[g] >= 0 and names.weight[g] >= LIVE and n_told < len(out_id):
            work.place_of[g] = n_told
            out_id[n_told] = names.label[g]
            out_prob[n_told] = 0.0
            n_told += 1
    out_id[n_told:] = -1
    out[LOG_DENSITY] = work.increment[0]
    out[P_NEW] = 0.0
    out[N_FEATURES] = n_told
    for i in range(counts[N_ACTIVE]):
        w = math.exp(work.total[i] - work.increment[0])
        out[P_NEW] += w * work.marginal[i, 0]
        for k in range(1, particles.n_owners.shape[1]):
            g = particles.name[i, k]
            if g >= 0 and work.place_of[g] >= 0:
                out_prob[work.place_of[g]] += w * work.marginal[i, k]


@inner_njit
def _settle(config, particles, rows, counts, sums, work, x, seen, n_dims, n_pool):
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
    rows.x[at] = x
    rows.whole[at] = n_dims == len(x)


@inner_njit
def _key(particles, work, m, row_hash):
    """Hash of all features there ever were, by their owners: what the future depends on."""
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


@inner_njit
def _copy(particles, source, target):
    K = particles.n_owners.shape[1]
    particles.rate[target] = particles.rate[source]
    particles.past[target] = particles.past[source]
    particles.owners[target] = particles.owners[source]
    for k in range(K):
        n = particles.n_owners[source, k]
        particles.n_owners[target, k] = n
        if n > 0 or k == 0:
            particles.scale[target, k] = particles.scale[source, k]
            particles.first[target, k] = particles.first[source, k]
            particles.name[target, k] = particles.name[source, k]
            particles.hash[target, k] = particles.hash[source, k]
            particles.mean[target, k] = particles.mean[source, k]
            particles.cov[target, k] = particles.cov[source, k]


@inner_njit
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


@inner_njit
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
    filled = x
    if n_dims < len(x):
        filled = _impute(config, cov, mean, sums, particles.rate[i], work, t, i, x, seen, n_dims,
                         n_slots, n_on)  # fmt: skip
        particles.past[i] = add_wrapping(particles.past[i], hash_of(row_hash, i))
    s, square = add_row(cov, mean, work.slots, n_slots, work.on, n_on, filled, work.v, work.e)
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


@inner_njit
def _impute(config, cov, mean, sums, rate, work, t, i, x, seen, n_dims, n_slots, n_on):
    """Draw what is missing of a row from its predictive density given the rest of the row."""
    D = len(x)
    s, square = 1.0, 0.0
    for d in range(D):
        fitted = 0.0
        for a in range(n_on):
            fitted += mean[work.on[a], d]
        work.filled[d] = x[d] if seen[d] > 0.0 else fitted
        square += (work.filled[d] - fitted) ** 2
    for a in range(n_on):
        for b in range(n_on):
            s += cov[work.on[a], work.on[b]]
    variance = rate
    if sums[SHAPE] > 0.0:
        shape = sums[SHAPE] + 0.5 * n_dims
        variance = (rate + 0.5 * square / s) / gamma(shape, config.seed, t, i, IMPUTE, len(x))
    scale = math.sqrt(variance * s)
    for d in range(D):
        if seen[d] == 0.0:
            work.filled[d] += scale * normal(config.seed, t, i, IMPUTE, d)
    return work.filled
