"""Gibbs steps for past rows: the features of a row of the window, given everything else."""

import math

import numpy as np

from streamddcrp.compilation import uncounted
from streamddcrp.likelihoods.kernels.linear_gaussian import add_row, project, remove_row
from streamddcrp.models.features.kernels import slots
from streamddcrp.models.features.kernels.histories import history_odds, log_alone
from streamddcrp.models.features.kernels.weigh import child, enumerate_row, normalise
from streamddcrp.numerics import dot
from streamddcrp.particles.kernels.random import add_wrapping, hash_of, uniform

ONE = np.uint64(1)


@uncounted
def rejuvenate(config, state, i):
    """Resample ``config.moves`` rows, one at random of each part of the window, by Gibbs steps.

    Irreversible changes are left out: a feature remains if its other owners have all left the
    window, or if its history would become disconnected. Features of this row alone are resampled
    jointly with the others, as is the number of new ones.
    """
    rows, counts, work = state.rows, state.counts, state.scratch
    t = counts[slots.N_SEEN]
    n_window = min(t + 1, config.order)
    work.has_odds[:] = 0
    for step in range(config.moves):
        u = uniform(config.seed, t, i, slots.ROW, step)
        row = t - min(int((step + u) / config.moves * n_window), n_window - 1)
        if rows.whole[row % len(rows.x)]:
            resample_row(config, state, i, t, row, step)


@uncounted
def resample_row(config, state, i, t, row, step):
    """Resample the features of a row of the window; ``step`` indexes the draws of an arrival.

    All features are resampled in random groups, each jointly given the others; the last group
    includes whether the row has a feature of its own, and its scale. ``work.has_odds`` marks the
    features for which ``work.row_odds`` holds the odds at all rows of the window. The particle's
    moments change only if the features of the row do.
    """
    particles, rows, sums, work = state.particles, state.rows, state.sums, state.scratch
    n_owners, owners = particles.n_owners[i], particles.owners[i]
    cov, mean = particles.cov[i], particles.mean[i]
    at = row - max(t + 1 - config.order, 0)
    x = rows.x[row % len(rows.x)]
    D = len(x)
    mask = owners[row % len(owners)]
    n_slots, n_on, own, n_free = 0, 0, 0, 0
    for a in range(slots.live_slots(particles, i, work.slots)):
        k = work.slots[a]
        has = k > 0 and (mask >> np.uint64(k)) & ONE
        if has and n_owners[k] == 1 and particles.first[i, k] == row:
            if own > 0:
                return
            own = k
            continue
        work.slots[n_slots] = k
        n_slots += 1
        if k == 0 or has:
            work.on[n_on] = k
            n_on += 1
        if k == 0 or (has and n_owners[k] == 1):  # its other owners have left the window
            continue
        if work.has_odds[k] == 0:
            history_odds(config, particles, i, t, k, work.row_odds[k])
            work.has_odds[k] = 1
        odds = work.row_odds[k, at]
        if -np.inf < odds < np.inf:
            work.free[n_free] = k
            work.odds[n_free] = odds
            n_free += 1
    noise = 1.0
    if own > 0:
        noise += 1.0 / config.ratios[particles.scale[i, own]]
    taken, square = project(cov, mean, work.slots, n_slots, work.on, n_on, x, work.v, work.e)
    c = noise - taken
    shape, rate = 0.0, particles.rate[i]
    if sums[slots.SHAPE] > 0.0:
        shape = sums[slots.SHAPE] - 0.5 * D
        rate = max(rate - square / (2.0 * c), slots.ROUNDING * rate)
    if n_free > slots.MOST_TOGETHER:
        _shuffle(work.free, work.odds, n_free, uniform(config.seed, t, i, slots.SUBSET, step))
    log_rate = math.log(config.alpha) + log_alone(config, t, row)
    n_options = slots.list_scales(config, log_rate, work.log_option, work.extra)
    if n_slots == min(config.most_slots, len(n_owners)):  # no room for its own feature
        n_options = 1
    # the row's remainder, and its covariance with each feature, without the row
    left = 1.0 + taken / c
    for d in range(D):
        work.residual[d] = left * work.e[d]
    for a in range(n_slots):
        work.shared[work.slots[a]] = left * work.v[work.slots[a]]
    s, now, option = 1.0 + left * taken, mask & ~(ONE << np.uint64(own)), 0
    u = uniform(config.seed, t, i, slots.CHOICE, step)
    for start in range(0, max(n_free, 1), slots.MOST_TOGETHER):
        n, last = min(slots.MOST_TOGETHER, n_free - start), start + slots.MOST_TOGETHER >= n_free
        square = _prepare_flips(cov, mean, c, now, start, n, work)
        n_children = enumerate_row(
            s if last else s + noise - 1.0, square, D, n, work.lean, 0.0, n_options if last else 1,
            shape, rate, work,
        )  # fmt: skip
        normalise(work.log_weight, n_children, work.weight, work.spare)
        chosen = 0
        while chosen < n_children - 1 and u >= work.weight[chosen]:
            u -= work.weight[chosen]
            chosen += 1
        u /= work.weight[chosen]  # given the choice, uniform again
        flips, option = child(chosen, n)
        for f in range(n):
            if (flips >> f) & 1:
                k = work.free[start + f]
                now ^= ONE << np.uint64(k)
                s += _flip(cov, c, now, n_slots, k, work.mean[f], work)
    if own == 0 and option == 0 and now == mask:
        return
    remove_row(cov, mean, work.slots, n_slots, work.on, n_on, x, noise, work.v, work.e)
    _put(config, state, i, row, mask, now, option, n_free, own, x, rate)


@uncounted
def _shuffle(a, b, n, u):
    """Put pairs in a random order given by the digits of ``u``."""
    for f in range(n - 1):
        u *= n - f
        g = f + min(int(u), n - f - 1)
        u -= int(u)
        a[f], a[g] = a[g], a[f]
        b[f], b[g] = b[g], b[f]


@uncounted
def _prepare_flips(cov, mean, c, now, start, n, work):
    """As `prepare_row` for features to be added or removed, without the row.

    ``now``: the features of the row; ``work.mean`` gets the loadings as `remove_row` would leave
    them, ``work.lean`` the log odds of each change. Returns the square of the remainder.
    """
    free, v, e, residual, loading = work.free, work.v, work.e, work.residual, work.mean
    D = len(e)
    for f in range(n):
        j = free[start + f]
        gain = v[j] / c
        sign = -1.0 if (now >> np.uint64(j)) & ONE else 1.0
        for d in range(D):
            loading[f, d] = mean[j, d] - gain * e[d]
        work.lean[f] = sign * work.odds[start + f]
        work.pull[f] = -sign * dot(loading[f], residual, D)
        work.link[f] = sign * work.shared[j]
        for g in range(f + 1):
            k = free[start + g]
            both = -sign if (now >> np.uint64(k)) & ONE else sign
            work.gram[f, g] = both * dot(loading[f], loading[g], D)
            work.spread[f, g] = both * (cov[j, k] + gain * v[k])
    return dot(residual, residual, D)


@uncounted
def _flip(cov, c, now, n_slots, k, loading, work):
    """Add a feature to ``now``, or remove it; return the change of the row's variance."""
    sign, gain = 1.0 if (now >> np.uint64(k)) & ONE else -1.0, work.v[k] / c
    for d in range(len(work.e)):
        work.residual[d] -= sign * loading[d]
    more = 2.0 * sign * work.shared[k] + cov[k, k] + gain * work.v[k]
    for a in range(n_slots):
        j = work.slots[a]
        work.shared[j] += sign * (cov[j, k] + gain * work.v[j])
    return more


@uncounted
def _put(config, state, i, row, mask, wanted, option, n_free, own, x, rate):
    particles, sums, work = state.particles, state.sums, state.scratch
    n_owners, owners = particles.n_owners[i], particles.owners[i]
    row_hash = hash_of(row, config.seed)
    if own > 0:
        n_owners[own] = 0
        owners[row % len(owners)] &= ~(ONE << np.uint64(own))
    if option > 0:  # a new one, or its own again with a newly drawn scale
        if own > 0:
            k = own
            particles.scale[i, k] = option - 1
            _renew(config, particles, i, k, work)
        else:
            k = slots.allocate(config, particles, i, row, wanted, option - 1, work.slots)
            particles.hash[i, k] = row_hash
        work.has_odds[k] = 0
        wanted |= ONE << np.uint64(k)
        n_owners[k] = 1
    for f in range(n_free):
        k = work.free[f]
        had, has = (mask >> np.uint64(k)) & ONE, (wanted >> np.uint64(k)) & ONE
        if had != has:
            work.has_odds[k] = 0
        if has and not had:
            n_owners[k] += 1
            particles.hash[i, k] = add_wrapping(particles.hash[i, k], row_hash)
            particles.first[i, k] = min(particles.first[i, k], row)
        elif had and not has:
            n_owners[k] -= 1
            particles.hash[i, k] = add_wrapping(particles.hash[i, k], add_wrapping(~row_hash, ONE))
            if particles.first[i, k] == row:
                u = row + 1
                while not (owners[u % len(owners)] >> np.uint64(k)) & ONE:
                    u += 1
                particles.first[i, k] = u
    owners[row % len(owners)] = wanted
    n_slots = slots.live_slots(particles, i, work.slots)
    n_on = 0
    for a in range(n_slots):
        k = work.slots[a]
        if k == 0 or (wanted >> np.uint64(k)) & ONE:
            work.on[n_on] = k
            n_on += 1
    s, square = add_row(
        particles.cov[i], particles.mean[i], work.slots, n_slots, work.on, n_on, x, work.v, work.e
    )
    if sums[slots.SHAPE] > 0.0:
        particles.rate[i] = rate + square / (2.0 * s)


@uncounted
def _renew(config, particles, i, k, work):
    """Reset a feature of a single row to its prior."""
    n = slots.live_slots(particles, i, work.slots)
    cov, mean = particles.cov[i], particles.mean[i]
    for a in range(n):
        cov[work.slots[a], k] = 0.0
        cov[k, work.slots[a]] = 0.0
    cov[k, k] = 1.0 / config.ratios[particles.scale[i, k]]
    mean[k] = 0.0
