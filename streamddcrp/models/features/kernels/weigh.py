"""All ways in which a row can have features, and the children of all particles for a row."""

import math

import numpy as np

from streamddcrp.compilation import uncounted
from streamddcrp.likelihoods.kernels.linear_gaussian import (
    add_log_densities,
    log_constant,
    log_density,
)
from streamddcrp.models.features.kernels.histories import log_poisson
from streamddcrp.models.features.kernels.slots import (
    FEW,
    MOST_ENUMERATED,
    N_ACTIVE,
    N_SEEN,
    PROPOSAL,
    SHAPE,
    add_scales,
    draw_scales,
    live_slots,
)
from streamddcrp.numerics import copy_row, dot, exp_all, floor_and_sum, largest
from streamddcrp.particles.kernels.random import uniform
from streamddcrp.particles.kernels.resample import optimal

ONE = np.uint64(1)
NONE = np.uint64(0)


@uncounted
def prepare_row(cov, mean, x, seen, n_dims, forced, n_forced, free, n_free, work):
    """Project a row on the free features, once for all combinations of them.

    ``work.residual`` is what the forced features leave of the row; ``work.pull`` (F,) the gradient
    of ``||e||^2 / 2``, ``work.gram`` (F, F) the products of loadings; ``work.link`` (F,) the
    covariance with the forced ones, ``work.spread`` (F, F) that of the free ones. ``seen`` (D,) is
    1 where the row has a value, else 0 (``x`` is 0 there); it is read only if ``n_dims`` < D.

    Returns
    -------
    s, square : float
        1 + z' cov z and ||e||^2 of a row with the forced features alone.
    """
    D = len(x)
    residual, masked = work.residual, work.masked
    for d in range(D):
        residual[d] = x[d]
    for a in range(n_forced):
        for d in range(D):
            residual[d] -= mean[forced[a], d]
    if n_dims < D:
        for d in range(D):
            residual[d] *= seen[d]
    s = 1.0
    for a in range(n_forced):
        for b in range(n_forced):
            s += cov[forced[a], forced[b]]
    for f in range(n_free):
        j = free[f]
        if n_dims < D:
            for d in range(D):
                masked[d] = mean[j, d] * seen[d]
        else:
            copy_row(masked, mean[j])
        work.pull[f] = -dot(masked, residual, D)
        for g in range(f + 1):
            product = dot(masked, mean[free[g]], D)
            work.gram[f, g] = product
            work.gram[g, f] = product
            work.spread[f, g] = cov[j, free[g]]
            work.spread[g, f] = cov[j, free[g]]
        link = 0.0
        for a in range(n_forced):
            link += cov[j, forced[a]]
        work.link[f] = link
    return s, dot(residual, residual, D)


@uncounted
def enumerate_row(
    s, square, n_dims, n_free, log_odds, log_prior, n_new, log_new, extra, shape, rate, work
):
    """Weigh all subsets of the free features with 0 .. n_new - 1 new ones, in Gray code's order.

    Child ``c`` has the subset ``work.subset[c // n_new]`` (a bit a free feature) and
    ``c % n_new`` new features; ``work.log_weight[c]`` is its log prior plus log density, but for
    the density's constant. ``extra`` (n_new,) is what k new ones add to s. Flipping a
    bit costs O(F). Returns the number of children.
    """
    wide, squares = work.wide, work.squares
    pull, link, gram, spread = work.pull, work.link, work.gram, work.spread
    out, subsets = work.log_weight, work.subset
    subset, n, log_p = NONE, 0, log_prior
    for code in range(1 << n_free):
        if code > 0:
            f = 0
            while not (code >> f) & 1:
                f += 1
            bit = ONE << np.uint64(f)
            sign = -1.0 if subset & bit else 1.0
            subset ^= bit
            square += 2.0 * sign * pull[f] + gram[f, f]
            s += 2.0 * sign * link[f] + spread[f, f]
            log_p += sign * log_odds[f]
            for g in range(n_free):
                pull[g] += sign * gram[f, g]
                link[g] += sign * spread[f, g]
        subsets[code] = subset
        for k in range(n_new):
            out[n] = log_p + log_new[k]
            wide[n] = s + extra[k]
            squares[n] = max(square, 0.0)
            n += 1
    add_log_densities(wide, squares, n, n_dims, shape, rate, work.spare, out)
    return n


@uncounted
def normalise(log_weight, n, weight, spare):
    """Write normalised weights; return the log of their sum, NaN where there is none."""
    top = largest(log_weight, n)
    if top == -np.inf:
        weight[:n] = np.nan
        return np.nan
    for c in range(n):
        weight[c] = log_weight[c] - top
    exp_all(weight, n, spare)
    total = floor_and_sum(weight, 0, n, 0.0)
    for c in range(n):
        weight[c] /= total
    return top + math.log(total)


@uncounted
def most_new(config, t):
    """How many new features a row may have: the Poisson tail beyond is below 1e-8."""
    rate = config.alpha / (min(t, config.order) + 1.0)
    n, p = 0, math.exp(-rate)
    tail = 1.0 - p
    while tail > 1e-8 and n < config.most_new:
        n += 1
        p *= rate / n
        tail -= p
    return max(n, 1)


@uncounted
def weigh(config, particles, counts, sums, work, x, seen, n_dims):
    """Make the children of all particles, a few of each; return how many.

    ``work.pool_*`` holds their particles, features, numbers of new ones and weights, which are
    normalised by their sum; ``work.total`` (P,) the log of each particle's weight times density;
    ``work.marginal`` (P, K) the probabilities of its features, slot 0 that of a new one.
    """
    t = counts[N_SEEN]
    q = min(t, config.order) + 1
    n_most = most_new(config, t)
    log_poisson(math.log(config.alpha / q), n_most + 1, work.log_new)
    n_pool = 0
    for i in range(counts[N_ACTIVE]):
        slots, n_slots = work.slots, live_slots(particles, i, work.slots)
        n_new = min(n_most, config.most_slots - n_slots) + 1
        draw_scales(config, t, i, 0, n_new - 1, work.scale[i])
        add_scales(config, work.scale[i], n_new - 1, work.extra)
        log_prior = 0.0
        for a in range(1, n_slots):
            m = particles.n_owners[i, slots[a]]
            work.odds[a - 1] = config.log[m] - config.log[q - m]
            log_prior += config.log[q - m] - config.log[q]
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
        total = normalise(work.log_weight, n, work.weight, work.spare)
        work.total[i] = math.log(particles.weight[i]) + total + log_constant(n_dims, shape, rate)
        always = NONE
        for a in range(1, n_forced):
            always |= ONE << np.uint64(forced[a])
        _marginals(i, n, n_new, n_free, forced, n_forced, work)
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


@uncounted
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


@uncounted
def _marginals(i, n, n_new, n_free, forced, n_forced, work):
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
