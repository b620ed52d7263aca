"""Gibbs steps for past rows: the features of a row of the window, given everything else."""

import math

import numpy as np

from streamddcrp.compilation import uncounted
from streamddcrp.likelihoods.kernels.linear_gaussian import add_row, project, remove_row
from streamddcrp.models.features.kernels.histories import history_odds, log_alone, log_poisson
from streamddcrp.models.features.kernels.slots import (
    CHOICE,
    MOST_NEW,
    MOST_REDRAWN,
    MOST_TOGETHER,
    N_SEEN,
    ROUNDING,
    ROW,
    SHAPE,
    SUBSET,
    add_scales,
    allocate,
    draw_scales,
    live_slots,
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
    work.has_odds[:] = 0
    for step in range(config.moves):
        u = uniform(config.seed, t, i, ROW, step)
        row = t - min(int(u * n_window), n_window - 1)
        if rows.whole[row % len(rows.x)]:
            resample_row(config, particles, rows, sums, work, i, t, row, step)


@uncounted
def resample_row(config, particles, rows, sums, work, i, t, row, step):
    """Resample all features of a row of the window; ``step`` indexes the draws of an arrival.

    ``work.has_odds`` says of which features ``work.row_odds`` holds the odds at all rows of the
    window. The particle's moments change only if the features of the row do.
    """
    n_owners, owners = particles.n_owners[i], particles.owners[i]
    cov, mean = particles.cov[i], particles.mean[i]
    at = row - max(t + 1 - config.order, 0)
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
            if work.has_odds[k] == 0:
                history_odds(config, particles, i, t, k, work.n_before, work.row_odds[k])
                work.has_odds[k] = 1
            odds = work.row_odds[k, at]
            if odds == np.inf:
                work.forced[n_forced] = k
                n_forced += 1
                kept |= ONE << np.uint64(k)
            elif odds > -np.inf:
                work.free[n_free] = k
                work.odds[n_free] = odds
                n_free += 1
    if n_own >= MOST_REDRAWN:
        return
    noise = 1.0
    for a in range(n_own):
        noise += 1.0 / config.ratios[particles.scale[i, work.own[a]]]
    taken, square = project(cov, mean, work.slots, n_slots, work.on, n_on, x, work.v, work.e)
    c = noise - taken
    shape, rate = 0.0, particles.rate[i]
    if sums[SHAPE] > 0.0:
        shape = sums[SHAPE] - 0.5 * D
        rate = max(rate - square / (2.0 * c), ROUNDING * rate)
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
    log_poisson(math.log(config.alpha) + log_alone(config, t, row), n_new, work.log_new)
    draw_scales(config, t, i, (step + 1) * MOST_NEW, MOST_REDRAWN - 1, work.redrawn)
    for a in range(n_own):  # its own ones keep their scales, more would have those just drawn
        work.redrawn[a] = particles.scale[i, work.own[a]]
    add_scales(config, work.redrawn, n_new - 1, work.extra)
    _remove_from_moments(cov, mean, c, n_forced, n_free, work)
    s, square = prepare_row(
        work.cov, work.mean, x, x, D, work.places, 1, work.places[1:], n_free, work
    )
    n = enumerate_row(
        s, square, D, n_free, work.odds, log_prior, n_new, work.log_new, work.extra, shape, rate,
        work,
    )  # fmt: skip
    normalise(work.log_weight, n, work.weight, work.spare)
    u, c = uniform(config.seed, t, i, CHOICE, step), 0
    while c < n - 1 and u >= work.weight[c]:
        u -= work.weight[c]
        c += 1
    if n_own == 0 and _wanted(work, kept, c, n_new, n_free) == mask and c % n_new == 0:
        return
    remove_row(cov, mean, work.slots, n_slots, work.on, n_on, x, noise, work.v, work.e)
    _put(config, particles, sums, work, i, row, mask, kept, c, n_new, n_free, n_own, x, rate)


@uncounted
def _remove_from_moments(cov, mean, c, n_forced, n_free, work):
    """Write to ``work.cov`` and ``work.mean`` what `remove_row` would leave of some moments.

    First those of the sum of all forced features, then those of the free ones.
    """
    forced, free, v, e = work.forced, work.free, work.v, work.e
    sum_v, sum_cov = 0.0, 0.0
    for d in range(len(e)):
        work.mean[0, d] = 0.0
    for a in range(n_forced):
        j = forced[a]
        sum_v += v[j]
        for b in range(n_forced):
            sum_cov += cov[j, forced[b]]
        for d in range(len(e)):
            work.mean[0, d] += mean[j, d]
    work.cov[0, 0] = sum_cov + sum_v * sum_v / c
    for d in range(len(e)):
        work.mean[0, d] -= sum_v / c * e[d]
    for f in range(n_free):
        j = free[f]
        gain, link = v[j] / c, 0.0
        for a in range(n_forced):
            link += cov[j, forced[a]]
        work.cov[f + 1, 0] = link + gain * sum_v
        for g in range(n_free):
            work.cov[f + 1, g + 1] = cov[j, free[g]] + gain * v[free[g]]
        for d in range(len(e)):
            work.mean[f + 1, d] = mean[j, d] - gain * e[d]


@uncounted
def _wanted(work, kept, choice, n_new, n_free):
    """Return the features that a choice gives to the row, as bits, but for its own."""
    bits = work.subset[choice // n_new]
    for f in range(n_free):
        if (bits >> np.uint64(f)) & ONE:
            kept |= ONE << np.uint64(work.free[f])
    return kept


@uncounted
def _put(config, particles, sums, work, i, row, mask, kept, choice, n_new, n_free, n_own, x, rate):
    """Assign the features that were drawn to the row."""
    n_owners, owners = particles.n_owners[i], particles.owners[i]
    row_hash = hash_of(row, config.seed)
    wanted = _wanted(work, kept, choice, n_new, n_free)
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
