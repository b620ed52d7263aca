"""Gibbs steps for past rows: the features of a row of the window, given everything else."""

import numpy as np

from streamddcrp.compilation import uncounted
from streamddcrp.likelihoods.kernels.linear_gaussian import add_row, remove_row
from streamddcrp.models.features.kernels.slots import (
    CHOICE,
    MOST_NEW,
    MOST_REDRAWN,
    MOST_TOGETHER,
    N_SEEN,
    ROW,
    SHAPE,
    SUBSET,
    add_scales,
    allocate,
    draw_scales,
    live_slots,
    log_poisson,
)
from streamddcrp.models.features.kernels.weigh import enumerate_row, normalise, prepare_row
from streamddcrp.particles.kernels.random import add_wrapping, hash_of, uniform

ONE = np.uint64(1)


@uncounted
def rejuvenate(config, particles, rows, counts, sums, work, i):
    """Resample ``config.moves`` rows of the window, chosen at random, by exact Gibbs steps.

    Irreversible changes are left out: a feature whose other owners have all left the window stays,
    as does one whose history would become disconnected. Features that only this row ever had are
    resampled jointly with the others, and so is the number of new ones.
    """
    t = counts[N_SEEN]
    n_window = min(t + 1, config.order)
    for step in range(config.moves):
        u = uniform(config.seed, t, i, ROW, step)
        row = t - min(int(u * n_window), n_window - 1)
        if rows.whole[row % len(rows.x)]:
            resample_row(config, particles, rows, sums, work, i, t, row, step)


@uncounted
def resample_row(config, particles, rows, sums, work, i, t, row, step):
    """Resample all features of a row of the window; ``step`` indexes the draws of an arrival."""
    n_owners, owners = particles.n_owners[i], particles.owners[i]
    cov, mean = particles.cov[i], particles.mean[i]
    x = rows.x[row % len(rows.x)]
    D = len(x)
    mask = owners[row % len(owners)]
    n_slots, n_on, n_own, n_free, n_forced = 0, 0, 0, 0, 0
    n_live = live_slots(particles, i, work.all)
    kept = np.uint64(0)
    log_prior = 0.0
    for a in range(n_live):
        k = work.all[a]
        has = k > 0 and (mask >> np.uint64(k)) & ONE
        if has and n_owners[k] == 1 and particles.first[i, k] == row:
            work.own[n_own] = k
            n_own += 1
            continue
        work.slots[n_slots] = k
        n_slots += 1
        if k == 0 or has:
            work.on[n_on] = k
            n_on += 1
        if k == 0:
            work.forced[n_forced] = k
            n_forced += 1
        elif has and n_owners[k] == 1:  # its other owners have left the window
            work.forced[n_forced] = k
            n_forced += 1
            kept |= ONE << np.uint64(k)
        else:
            without, with_it = _log_history(config, particles, i, t, row, k)
            if without == -np.inf:
                work.forced[n_forced] = k
                n_forced += 1
                kept |= ONE << np.uint64(k)
            elif with_it > -np.inf:
                work.free[n_free] = k
                work.odds[n_free] = with_it - without
                n_free += 1
    if n_own >= MOST_REDRAWN:
        return
    noise = 1.0
    for a in range(n_own):
        noise += 1.0 / config.ratios[particles.scale[i, work.own[a]]]
    s, square = remove_row(cov, mean, work.slots, n_slots, work.on, n_on, x, noise, work.v, work.e)
    shape, rate = 0.0, particles.rate[i]
    if sums[SHAPE] > 0.0:
        shape = sums[SHAPE] - 0.5 * D
        rate -= square / (2.0 * s)
    if n_free > MOST_TOGETHER:  # the others stay; chosen at random, whatever their state
        for f in range(MOST_TOGETHER):
            u = uniform(config.seed, t, i, SUBSET, step * 64 + f)
            g = f + min(int(u * (n_free - f)), n_free - f - 1)
            work.free[f], work.free[g] = work.free[g], work.free[f]
            work.odds[f], work.odds[g] = work.odds[g], work.odds[f]
        for f in range(MOST_TOGETHER, n_free):
            k = work.free[f]
            if (mask >> np.uint64(k)) & ONE:
                work.forced[n_forced] = k
                n_forced += 1
                kept |= ONE << np.uint64(k)
        n_free = MOST_TOGETHER
    n_new = min(MOST_REDRAWN, config.most_slots - n_slots + 1, len(n_owners) - n_slots + 1)
    log_poisson(config.alpha * _alone(config, t, row), n_new, work.log_new)
    draw_scales(config, t, i, (step + 1) * MOST_NEW, MOST_REDRAWN - 1, work.redrawn)
    for a in range(n_own):  # its own ones keep their scales, more would have those just drawn
        work.redrawn[a] = particles.scale[i, work.own[a]]
    add_scales(config, work.redrawn, n_new - 1, work.extra)
    for d in range(D):
        work.seen[d] = 1.0
    s, square = prepare_row(
        cov, mean, x, work.seen, D, work.forced, n_forced, work.free, n_free, work
    )
    n = enumerate_row(
        s, square, D, n_free, work.odds, log_prior, n_new, work.log_new, work.extra, shape, rate,
        work,
    )  # fmt: skip
    normalise(work.log_weight, n, work.weight)
    u, c = uniform(config.seed, t, i, CHOICE, step), 0
    while c < n - 1 and u >= work.weight[c]:
        u -= work.weight[c]
        c += 1
    _put(config, particles, sums, work, i, row, mask, kept, c, n_new, n_free, n_own, x, rate)


@uncounted
def _put(config, particles, sums, work, i, row, mask, kept, choice, n_new, n_free, n_own, x, rate):
    """Assign the features that were drawn to the row."""
    n_owners, owners = particles.n_owners[i], particles.owners[i]
    row_hash = hash_of(row, config.seed)
    bits, wanted = work.subset[choice // n_new], kept
    for f in range(n_free):
        if (bits >> np.uint64(f)) & ONE:
            wanted |= ONE << np.uint64(work.free[f])
    n_more = choice % n_new
    for a in range(n_own):  # its own features, reset to their prior, up to n_more
        k = work.own[a]
        n_owners[k] = 0
        if a >= n_more:
            owners[row % len(owners)] &= ~(ONE << np.uint64(k))
    for a in range(n_more):
        if a < n_own:
            k = work.own[a]
            _renew(config, particles, i, k, work)
        else:
            k = allocate(config, particles, i, row, wanted, work.redrawn[a], work.slots)
            particles.hash[i, k] = row_hash
        wanted |= ONE << np.uint64(k)
        n_owners[k] = 1
    for f in range(n_free):
        k = work.free[f]
        had, has = (mask >> np.uint64(k)) & ONE, (wanted >> np.uint64(k)) & ONE
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
    n_slots = live_slots(particles, i, work.slots)
    n_on = 0
    for a in range(n_slots):
        k = work.slots[a]
        if k == 0 or (wanted >> np.uint64(k)) & ONE:
            work.on[n_on] = k
            n_on += 1
    s, square = add_row(
        particles.cov[i], particles.mean[i], work.slots, n_slots, work.on, n_on, x, work.v, work.e
    )
    if sums[SHAPE] > 0.0:
        particles.rate[i] = rate + square / (2.0 * s)


@uncounted
def _renew(config, particles, i, k, work):
    """Put a feature that one row alone had back to its prior."""
    n = live_slots(particles, i, work.slots)
    cov, mean = particles.cov[i], particles.mean[i]
    for a in range(n):
        cov[work.slots[a], k] = 0.0
        cov[k, work.slots[a]] = 0.0
    cov[k, k] = 1.0 / config.ratios[particles.scale[i, k]]
    mean[k] = 0.0


@uncounted
def _alone(config, t, row):
    """Probability, per unit of alpha, of a feature that ``row`` has and no row up to t has."""
    r = config.order
    p = 1.0 / (min(row, r) + 1.0)
    for u in range(row + 1, min(row + r, t) + 1):
        q = min(u, r) + 1.0
        p *= (q - 1.0) / q
    return p


@uncounted
def _log_history(config, particles, i, t, row, k):
    """Log prior of a feature's owners up to t, without and with ``row`` among them.

    Only the terms of rows row .. min(row + r, t) that can differ: ``m / q`` for an owner with m
    owners among the r rows before it, ``(q - m) / q`` for another row, ``1 / q`` for the first.
    """
    r, log = config.order, config.log
    owners, H = particles.owners[i], particles.owners.shape[1]
    bit = ONE << np.uint64(k)
    first = particles.first[i, k]
    m, u = 0, max(0, row - r, first)
    at = u % H
    for _ in range(u, row):
        m += 1 if owners[at] & bit else 0
        at = at + 1 if at + 1 < H else 0
    begun = first < row  # without the row
    without = with_it = 0.0
    q = min(row, r) + 1
    if begun:
        if m == 0:
            return 0.0, -np.inf
        with_it += log[m] - log[q]
        without += log[q - m] - log[q]
    else:
        with_it -= log[q]
    ahead = (row + 1) % H
    behind = (row - r) % H  # not negative: Python's remainder
    for u in range(row + 1, min(row + r, t) + 1):
        # m: owners among the r rows before u, but for `row`, which is one of them
        if begun and u - 1 - r >= first and owners[behind] & bit:
            m -= 1
        behind = behind + 1 if behind + 1 < H else 0
        q = min(u, r) + 1
        if owners[ahead] & bit:
            with_it += log[m + 1] - log[q]
            if begun:
                if m == 0:
                    return -np.inf, 0.0
                without += log[m] - log[q]
            else:
                without -= log[q]
                begun = True
            m += 1
        else:
            with_it += log[q - m - 1] - log[q]
            if begun and m > 0:
                without += log[q - m] - log[q]
        ahead = ahead + 1 if ahead + 1 < H else 0
    return without, with_it
