"""All ways in which a row can have features: their weights, one drawn or a few kept."""

import math

import numpy as np

from streamddcrp.compilation import uncounted
from streamddcrp.likelihoods.kernels.linear_gaussian import log_density
from streamddcrp.numerics import dot

ONE = np.uint64(1)
NONE = np.uint64(0)


@uncounted
def prepare_row(cov, mean, x, seen, n_dims, forced, n_forced, free, n_free, work):
    """Project a row on the free features, once for all combinations of them.

    ``work.residual`` is what the forced features leave of the row; ``work.pull`` (F,) the gradient
    of ``||e||^2 / 2``, ``work.gram`` (F, F) the products of loadings; ``work.link`` (F,) the
    covariance with the forced ones, ``work.spread`` (F, F) that of the free ones. ``seen`` (D,) is
    1 where the row has a value, else 0 (``x`` is 0 there).

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
        for d in range(D):
            masked[d] = mean[j, d] * seen[d]
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
            out[n] = (
                log_p
                + log_new[k]
                + log_density(s + extra[k], max(square, 0.0), n_dims, shape, rate)
            )
            n += 1
    return n


@uncounted
def normalise(log_weight, n, weight):
    """Write normalised weights; return the log of their sum, -inf or NaN where there is none."""
    top = -np.inf
    for c in range(n):
        top = max(top, log_weight[c])
    total = 0.0
    for c in range(n):
        weight[c] = math.exp(log_weight[c] - top)
        total += weight[c]
    for c in range(n):
        weight[c] /= total
    return top + math.log(total)
