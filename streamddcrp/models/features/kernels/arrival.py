"""Arrivals of the time-varying Indian buffet process, and annealing over the first of them.

A particle's features occupy slots; slot 0 is the baseline, which every row has (prior variance 0 if
there is none). ``owners`` holds for the last 2 r + 1 rows the features of a row as bits. A feature
without an owner among the last r rows is dead and leaves its slot.
"""

import math

import numpy as np

from streamddcrp.compilation import entry, uncounted
from streamddcrp.contract import LIVE, LIVE_TABLES, P_NEW, SCORE
from streamddcrp.likelihoods.kernels.linear_gaussian import add_row
from streamddcrp.models.features.kernels import slots
from streamddcrp.models.features.kernels.names import name_features
from streamddcrp.models.features.kernels.rejuvenate import rejuvenate, resample_row
from streamddcrp.models.features.kernels.weigh import most_new, weigh
from streamddcrp.numerics import copy_row
from streamddcrp.particles.kernels.random import add_wrapping, gamma, hash_of, normal, uniform
from streamddcrp.particles.kernels.resample import merge_equal, optimal, place_children


@entry
def step_rows(config, state, X, seen, t, done, out, out_id, out_prob):
    """Predict and learn rows from ``done`` on; return the rows done, fewer if slots run out.

    ``X`` (N, D): 0 where ``seen`` (N, D) is 0, no value. ``out_id``, ``out_prob`` (N, 64): public
    ids of the live features (-1 behind the last) and their probabilities.
    """
    particles, counts, sums, work = state.particles, state.counts, state.sums, state.scratch
    for n in range(done, len(X)):
        if not _room(config, particles, counts):
            return n
        n_dims = int(seen[n].sum())
        n_pool = weigh(config, state, X[n], seen[n], n_dims)
        _report(state, out[n], out_id[n], out_prob[n])
        keep_children(config, state, X[n], seen[n], n_dims, n_pool)
        if config.moves > 0:
            for i in range(counts[slots.N_ACTIVE]):
                rejuvenate(config, state, i)
                slots.rescale(config, particles, sums, work, i, counts[slots.N_SEEN], 0)
        counts[slots.N_SEEN] += 1
        name_features(config, state, t[n])
    return len(X)


@entry
def predict(config, state, X, seen, out, out_id, out_prob, out_fit):
    """Predict rows, each as if it came next, without learning; ``out_fit``: without noise."""
    particles, counts, work = state.particles, state.counts, state.scratch
    for n in range(len(X)):
        n_dims = int(seen[n].sum())
        weigh(config, state, X[n], seen[n], n_dims)
        _report(state, out[n], out_id[n], out_prob[n])
        out_fit[n] = 0.0
        for i in range(counts[slots.N_ACTIVE]):
            w = math.exp(work.total[i] - work.increment[0])
            for k in range(particles.n_owners.shape[1]):
                p = work.marginal[i, k] if k > 0 else 1.0
                if k == 0 or particles.n_owners[i, k] > 0:
                    for d in range(X.shape[1]):
                        out_fit[n, d] += w * p * particles.mean[i, k, d]


@uncounted
def _room(config, particles, counts):
    """Whether every particle has slots for the most new features of a row."""
    n_new = most_new(config, counts[slots.N_SEEN])
    K = particles.n_owners.shape[1]
    if config.most_slots <= K:
        return True
    for i in range(counts[slots.N_ACTIVE]):
        n = 0
        for k in range(1, K):
            n += particles.n_owners[i, k] > 0
        if 1 + n + n_new > K:
            return False
    return True


@uncounted
def _report(state, out, out_id, out_prob):
    """Write the prediction of a row: score, p_new (of a new feature), live features."""
    particles, names, counts, work = state.particles, state.names, state.counts, state.scratch
    n_live = 0
    for g in range(len(names.label)):
        work.place_of[g] = -1
        if names.label[g] >= 0 and names.weight[g] >= LIVE and n_live < len(out_id):
            work.place_of[g] = n_live
            out_id[n_live] = names.label[g]
            out_prob[n_live] = 0.0
            n_live += 1
    out_id[n_live:] = -1
    out[SCORE] = -work.increment[0]
    out[P_NEW] = 0.0
    out[LIVE_TABLES] = n_live
    for i in range(counts[slots.N_ACTIVE]):
        w = math.exp(work.total[i] - work.increment[0])
        out[P_NEW] += w * work.marginal[i, 0]
        for k in range(1, particles.n_owners.shape[1]):
            g = particles.name[i, k]
            if g >= 0 and work.place_of[g] >= 0:
                out_prob[work.place_of[g]] += w * work.marginal[i, k]
    out[P_NEW] = min(out[P_NEW], 1.0)  # weights sum to 1 within the rounding of their logs
    for place in range(n_live):
        out_prob[place] = min(out_prob[place], 1.0)


@entry
def anneal(config, state, shapes, rates, log_weight):
    """Anneal particles through priors of the noise variance; sum their log importance weights.

    After each change of prior as many random rows as the window has, and all scales, are resampled
    under it. Neal, "Annealed importance sampling", Statistics and Computing 2001. ``shapes``,
    ``rates`` (L + 1,) are of the inverse gamma priors; the particles were made under the first.
    ``log_weight`` (>= particles,): 0; afterwards the log importance weights.
    """
    particles, counts, sums, work = state.particles, state.counts, state.sums, state.scratch
    t = counts[slots.N_SEEN] - 1
    n_window = min(t + 1, config.order)
    half = sums[slots.SHAPE] - shapes[0]  # half the number of values
    step = config.moves
    for level in range(1, len(shapes)):
        a, b = shapes[level], rates[level]
        sums[slots.SHAPE] = a + half
        for i in range(counts[slots.N_ACTIVE]):
            gain = particles.rate[i] - rates[level - 1]
            log_weight[i] += _log_factor(a, b, half, gain) - _log_factor(
                shapes[level - 1], rates[level - 1], half, gain
            )
            particles.rate[i] = b + gain
            work.has_odds[:] = 0
            for k in range(n_window):
                u = uniform(config.seed, t, i, slots.ROW, step + k)
                row = t - min(int(u * n_window), n_window - 1)
                resample_row(config, state, i, t, row, step + k)
            slots.rescale(config, particles, sums, work, i, t, level)
        step += n_window


@uncounted
def _log_factor(a, b, half, gain):
    """Log of the evidence's factor that depends on the prior of the noise variance."""
    return (
        math.lgamma(a + half) - math.lgamma(a) + a * math.log(b) - (a + half) * math.log(b + gain)
    )


@entry
def rename(config, state, time):
    """Give ids to the features of particles that were joined from two runs."""
    name_features(config, state, time)


ONE = np.uint64(1)


@uncounted
def keep_children(config, state, x, seen, n_dims, n_pool):
    """Choose the surviving children, and make them particles that have learned the row."""
    particles, rows, counts = state.particles, state.rows, state.counts
    sums, work = state.sums, state.scratch
    t = counts[slots.N_SEEN]
    row_hash = hash_of(t, config.seed)
    if n_pool > 1:
        for m in range(n_pool):
            work.pool_key[m] = _key(config, particles, work, m, row_hash)
        merge_equal(
            work.pool_key, work.pool_weight, n_pool, work.table, config.seed, t, slots.MERGE
        )
    n = optimal(
        work.pool_weight, n_pool, config.n_particles, uniform(config.seed, t, 0, slots.ALL, 0),
        work.child, work.child_weight,
    )  # fmt: skip
    for m in range(n):
        work.ancestor[m] = work.pool_parent[work.child[m]]
    place_children(work.ancestor, n, work.used, work.place)
    for m in range(n):
        if work.place[m] != work.ancestor[m]:
            _copy(particles, work.ancestor[m], work.place[m])
    for m in range(n):
        particles.weight[work.place[m]] = work.child_weight[m]
        _learn(config, state, m, x, seen, n_dims, row_hash)
    _close_gaps(particles, work, n)
    counts[slots.N_ACTIVE] = n
    total = 0.0
    for i in range(n):
        total += particles.weight[i]
    for i in range(n):
        particles.weight[i] /= total
    # Light children left out or not.
    sums[slots.LOG_EVIDENCE] += work.increment[0] + math.log(total)
    if sums[slots.SHAPE] > 0.0:
        sums[slots.SHAPE] += 0.5 * len(x)
    at = t % len(rows.x)
    copy_row(rows.x[at], x)
    rows.whole[at] = n_dims == len(x)


@uncounted
def _key(config, particles, work, m, row_hash):
    """Hash of the owners of all features so far, which determines the future."""
    i, mask = work.pool_parent[m], work.pool_mask[m]
    key = particles.past[i]
    option = work.pool_new[m]
    for n in range(slots.n_new_of(config, option)):
        scale = slots.scale_of(config, option, work.scale[i], n)
        key = add_wrapping(key, hash_of(row_hash, 1 + scale))
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
    """Move the surviving particles to the first places."""
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
def _learn(config, state, m, x, seen, n_dims, row_hash):
    """Give the particle of child ``m`` the row with the child's features; drop row t - r."""
    particles, sums, work, t = (
        state.particles,
        state.sums,
        state.scratch,
        state.counts[slots.N_SEEN],
    )
    i, c, scales = work.place[m], work.child[m], work.scale[work.ancestor[m]]
    mask, option = work.pool_mask[c], work.pool_new[c]
    n_owners, owners, cov, mean = (
        particles.n_owners[i], particles.owners[i], particles.cov[i], particles.mean[i],
    )  # fmt: skip
    for n in range(slots.n_new_of(config, option)):
        scale = slots.scale_of(config, option, scales, n)
        mask |= ONE << np.uint64(slots.allocate(config, particles, i, t, mask, scale, work.slots))
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
        _impute(config, state, i, t, seen, n_dims, n_on)
        particles.past[i] = add_wrapping(particles.past[i], hash_of(row_hash, i))
    s, square = add_row(cov, mean, work.slots, n_slots, work.on, n_on, work.filled, work.v, work.e)
    if sums[slots.SHAPE] > 0.0:
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
def _impute(config, state, i, t, seen, n_dims, n_on):
    """Draw missing values of ``work.filled`` from their predictive density given the rest."""
    particles, sums, work = state.particles, state.sums, state.scratch
    cov, mean, rate, D = particles.cov[i], particles.mean[i], particles.rate[i], len(seen)
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
    if sums[slots.SHAPE] > 0.0:
        shape = sums[slots.SHAPE] + 0.5 * n_dims
        variance = (rate + 0.5 * square / s) / gamma(shape, config.seed, t, i, slots.IMPUTE, D)
    scale = math.sqrt(variance * s)
    for d in range(D):
        if seen[d] == 0.0:
            work.filled[d] += scale * normal(config.seed, t, i, slots.IMPUTE, d)
