"""Weigh the possible features of a row; make the children of all particles."""

import math

import numpy as np

from streamddcrp.compilation import column, leaf, uncounted
from streamddcrp.likelihoods.kernels import linear_gaussian as gauss
from streamddcrp.models.features.kernels import slots as at
from streamddcrp.models.features.kernels.histories import log_poisson
from streamddcrp.numerics import copy_first, copy_row, dot, exp_all, floor_and_sum, largest, natural
from streamddcrp.particles.kernels.random import uniform
from streamddcrp.particles.kernels.resample import optimal

ONE = np.uint64(1)
NONE = np.uint64(0)
LEAST = 1e-3  # weight, relative to its particle, above which a child is surely kept at first
GOLDEN = 0.6180339887498949
CERTAIN = math.log(1000.0)  # largest log odds at which features of an arrival are drawn


@uncounted
def prepare_row(cov, mean, x, seen, n_dims, n_forced, n_free, work):
    """Project a row on the free features, once for all combinations of them.

    Returns 1 + z' cov z and ||e||^2 with the forced features alone. ``work.residual``: the row's
    remainder after these; ``work.pull`` (F,): gradient of ``||e||^2 / 2``; ``work.gram`` (F, F):
    products of loadings; ``work.link`` (F,), ``work.spread`` (F, F): covariances with the forced
    ones, and among the free. ``seen`` (D,): 1 for a value; read if ``n_dims`` < D.
    """
    D, forced, free = len(x), work.forced, work.free
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
def add_over_subsets(start, single, pair, n, out):
    """Write start + sum_f 2 single[f] + sum_fg pair[f, g] over f, g of each subset, by its bits."""
    out[0] = start
    for f in range(n):
        size = natural(1 << f)
        out[size] = 2.0 * single[f] + pair[f, f]
        for g in range(f):
            more, held = 2.0 * pair[f, g], natural(1 << g)
            for subset in range(held):
                out[size + held + subset] = out[size + subset] + more
        for subset in range(size):
            out[size + subset] += out[subset]


@uncounted
def enumerate_row(s, square, n_dims, n_free, log_odds, log_prior, n_options, shape, rate, work):
    """Weigh all subsets of free features with each option of new ones; return their number.

    `child` decodes their numbers; ``work.log_weight``: log prior plus log density up to its
    constant, with options as in `list_options`.
    """
    wide, squares, out, n = work.wide, work.squares, work.log_weight, 1 << n_free
    add_over_subsets(square, work.pull, work.gram, n_free, squares)
    add_over_subsets(s, work.link, work.spread, n_free, wide)
    out[0] = log_prior
    for f in range(n_free):
        size, odds = natural(1 << f), log_odds[f]
        for subset in range(size):
            out[size + subset] = out[subset] + odds
    for subset in range(natural(n)):
        squares[subset] = max(squares[subset], 0.0)
    for k in range(n_options - 1, -1, -1):
        more, rarer, start = work.extra[k], work.log_option[k], natural(k * n)
        for subset in range(natural(n)):
            out[start + subset] = out[subset] + rarer
            wide[start + subset] = wide[subset] + more
            squares[start + subset] = squares[subset]
    gauss.add_log_densities(wide, squares, n * n_options, n_dims, shape, rate, work.spare, out)
    return n * n_options


@leaf
def child(c, n_free):
    """Read a child: the subset of the free features as bits, and the option of new ones."""
    return c & ((1 << n_free) - 1), c >> n_free


@uncounted
def normalise(log_weight, n, weight, spare):
    """Normalise weights; return the log of their sum, NaN if it is 0."""
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
    """Largest number of new features of a row: the Poisson tail beyond is below 1e-5."""
    rate = config.alpha / (min(t, config.order) + 1.0)
    n, p = 0, math.exp(-rate)
    tail = 1.0 - p
    while tail > 1e-5 and n < config.most_new:
        n += 1
        p *= rate / n
        tail -= p
    return max(n, 1)


@uncounted
def weigh(config, state, x, seen, n_dims):
    """Make the children of all particles, a few of each; return their number.

    ``work.pool_*`` holds their particles, features, options of new ones and normalised weights;
    ``work.total`` (P,) the log of each particle's weight times density; ``work.marginal`` (P, K)
    the probabilities of its features, with a new one in slot 0.
    """
    particles, counts, sums, work = state.particles, state.counts, state.sums, state.scratch
    t = counts[at.N_SEEN]
    q = min(t, config.order) + 1
    n_most = most_new(config, t)
    log_poisson(math.log(config.alpha / q), n_most + 1, work.log_new)
    n_pool = 0
    for i in range(counts[at.N_ACTIVE]):
        slots, n_slots = work.slots, at.live_slots(particles, i, work.slots)
        n_new = min(n_most, config.most_slots - n_slots) + 1
        at.draw_scales(config, t, i, 0, n_new - 1, work.scale[i])
        n_options = at.list_options(
            config, work.log_new, n_new, work.scale[i], work.log_option, work.extra
        )
        log_prior = work.log_new[0]
        for a in range(1, n_slots):
            m = particles.n_owners[i, slots[a]]
            work.odds[a - 1] = config.log[m] - config.log[q - m]
            log_prior += config.log[q - m] - config.log[q]
        cov, mean = particles.cov[i], particles.mean[i]
        shape, rate = sums[at.SHAPE], particles.rate[i]
        forced = work.forced
        forced[0] = 0
        n_forced, n_free = 1, n_slots - 1
        for f in range(n_free):
            work.free[f] = slots[f + 1]
        if n_free > at.MOST_ENUMERATED:
            correction, n_forced, n_free = _propose(config, state, i, t, x, seen, n_dims, n_free)
            log_prior += correction
        s, square = prepare_row(cov, mean, x, seen, n_dims, n_forced, n_free, work)
        n = enumerate_row(
            s, square, n_dims, n_free, work.odds, log_prior, n_options, shape, rate, work
        )
        total = normalise(work.log_weight, n, work.weight, work.spare)
        work.total[i] = (
            math.log(particles.weight[i]) + total + gauss.log_constant(n_dims, shape, rate)
        )
        always = NONE
        for a in range(1, n_forced):
            always |= ONE << np.uint64(forced[a])
        _marginals(i, n, n_free, n_forced, work)
        u = uniform(config.seed, t, i, at.FEW, 1)
        n = _thin(work.weight, n, config.n_children, u, work.spare, work.thinned)
        few = optimal(
            work.spare, n, config.n_children, uniform(config.seed, t, i, at.FEW, 0), work.few,
            work.few_weight,
        )  # fmt: skip
        for m in range(few):
            subset, option = child(work.thinned[work.few[m]], n_free)
            work.pool_parent[n_pool] = i
            work.pool_mask[n_pool] = with_subset(always, subset, work.free, n_free)
            work.pool_new[n_pool] = option
            work.pool_weight[n_pool] = work.few_weight[m]
            n_pool += 1
    top = -np.inf
    for i in range(counts[at.N_ACTIVE]):
        top = max(top, work.total[i])
    total = 0.0
    for i in range(counts[at.N_ACTIVE]):
        total += math.exp(work.total[i] - top)
    for m in range(n_pool):
        work.pool_weight[m] *= math.exp(work.total[work.pool_parent[m]] - top) / total
    work.increment[0] = top + math.log(total)
    return n_pool


@uncounted
def _thin(weight, n, n_keep, u, out_weight, out_child):
    """Drop most children below a thousandth, without bias; return the number left.

    Applies above eight times ``n_keep``. A child of weight w stays with probability 1000 w, and
    then has weight 1/1000.
    """
    copy_first(out_weight, weight, n)
    if n > 8 * n_keep:
        _thin_out(weight, n, u, out_weight)
    left = 0
    for c in range(n):
        out_child[left] = c
        out_weight[left] = out_weight[c]
        left += out_weight[c] > 0.0
    return left


@column
def _thin_out(weight, n, u, out):
    """Set the weights of `_thin`; ``u`` plus multiples of the golden ratio are its draws."""
    for c in range(natural(n)):
        draw = u + float(c) * GOLDEN
        light = LEAST if LEAST * (draw - math.floor(draw)) < weight[c] else 0.0
        out[c] = weight[c] if weight[c] >= LEAST else light


@uncounted
def _propose(config, state, i, t, x, seen, n_dims, n_free):
    """Draw all free features except the eight most uncertain; return the draw's log weight.

    Two rounds set each feature to its more probable value, then its log odds given the others are
    computed. Drawn features that are on become forced. Returns the correction of the log prior and
    the new numbers of forced and free features.
    """
    particles, work = state.particles, state.scratch
    shape, rate, forced = state.sums[at.SHAPE], particles.rate[i], work.forced
    s, square = prepare_row(particles.cov[i], particles.mean[i], x, seen, n_dims, 1, n_free, work)
    pull, link, gram, spread = work.pull, work.link, work.gram, work.spread
    for f in range(n_free):
        work.chosen[f] = 0
    for _ in range(2):
        for f in range(n_free):
            sign = -1.0 if work.chosen[f] else 1.0
            other = max(square + 2.0 * sign * pull[f] + gram[f, f], 0.0)
            s_other = s + 2.0 * sign * link[f] + spread[f, f]
            gain = gauss.log_density(s_other, other, n_dims, shape, rate) - gauss.log_density(
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
    for _ in range(at.MOST_ENUMERATED):
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
        p = 1.0 / (1.0 + math.exp(-max(min(work.lean[f], CERTAIN), -CERTAIN)))
        if uniform(config.seed, t, i, at.PROPOSAL, f) < p:
            log_weight += odds - math.log(p)
            forced[n_forced] = j
            n_forced += 1
        else:
            log_weight -= math.log(1.0 - p)
    return log_weight, n_forced, n_left


@uncounted
def with_subset(mask, subset, free, n_free):
    """Return features as bits: those of ``mask`` and a subset of the free ones."""
    for f in range(n_free):
        if (subset >> f) & 1:
            mask |= ONE << np.uint64(free[f])
    return mask


@uncounted
def _marginals(i, n, n_free, n_forced, work):
    """Sum the weights of children that have a feature, of those that have a new one in slot 0."""
    marginal, weight, size = work.marginal[i], work.spare, natural(1 << n_free)
    marginal[:] = 0.0
    copy_first(weight, work.weight, size)
    for start in range(size, natural(n), size):
        for subset in range(size):
            weight[subset] += work.weight[start + subset]
    marginal[0] = floor_and_sum(work.weight, size, n, 0.0)
    for f in range(n_free - 1, -1, -1):  # the upper half has the last feature: it joins the lower
        half = natural(1 << f)
        total = 0.0
        for subset in range(half):
            total += weight[half + subset]
            weight[subset] += weight[half + subset]
        marginal[work.free[f]] = total
    for a in range(1, n_forced):
        marginal[work.forced[a]] = 1.0
