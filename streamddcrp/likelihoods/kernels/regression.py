"""Compiled REGRESSION: linear regressions, each with its noise; layout in `kernels.families`.

For each output, y = w' phi + noise with phi = (1, regressors), precision ~ Gamma(shape, rate) and
w_i ~ N(mean_i, 1 / (kappa_i precision)). A block of the row is (regressors, y); it is left out if
any of its values is missing. With v = (1, regressors, y) the statistics of a block are sum v v', a
lower triangle packed by rows that begins with the number of rows.

post: log marginal, then for each output: w (P), inverse Cholesky factor of its precision matrix
(packed), constant, exponent and coefficient of the Student t, constant of the expectation, half the
expected precision.
"""

import math

from streamddcrp.compilation import inlined, kernel, unchecked
from streamddcrp.likelihoods.kernels.special import (
    LOG_2PI,
    Array,
    factor_packed,
    invert_packed,
    log_rising,
)
from streamddcrp.numerics import digamma


@kernel
def packed_length(n: int) -> int:
    """Length of a packed triangle with n rows."""
    return n * (n + 1) // 2


@unchecked
def lr_add(hyper: Array, h: int, x: Array, c: int, weight: float, stats: Array, s: int) -> None:
    D, P = int(hyper[h + 1]), int(hyper[h + 2])
    size = packed_length(P + 1)
    for d in range(D):
        first, at = c + d * P, s + 1 + d * size
        missing = False
        for i in range(first, first + P):
            missing |= math.isnan(x[i])
        if missing:
            continue
        stats[at] += weight
        at += 1
        for i in range(first, first + P):
            scaled = weight * x[i]
            stats[at] += scaled
            at += 1
            for j in range(first, i + 1):
                stats[at] += scaled * x[j]
                at += 1


@unchecked
def lr_posterior(hyper: Array, h: int, stats: Array, s: int, post: Array, q: int) -> None:
    # About the prior mean, with r = y - mean' phi: precision matrix L L' = diag(kappa) + sum
    # phi phi', u = L^-1 sum phi r, w = mean + L'^-1 u, rate_n = rate + (sum r^2 - u'u) / 2.
    D, P = int(hyper[h + 1]), int(hyper[h + 2])
    size, triangle = packed_length(P + 1), packed_length(P)
    total = 0.0
    old_n, old_shape = -1.0, -1.0
    gammas, half, psi = 0.0, 0.0, 0.0
    for d in range(D):
        gram, w = s + 1 + d * size, q + 1 + d * (P + triangle + 5)
        mean = h + 3 + d * (2 * P + 2)
        kappa, last = mean + P, gram + triangle
        root = w + P
        log_prior = 0.0
        square = stats[last + P]
        for i in range(P):
            row = root + packed_length(i)
            r = stats[last + i]
            for j in range(i + 1):
                post[row + j] = stats[gram + packed_length(i) + j]
                r -= hyper[mean + j] * post[row + j]
            for j in range(i + 1, P):
                r -= hyper[mean + j] * stats[gram + packed_length(j) + i]
            post[row + i] += hyper[kappa + i]
            log_prior += math.log(hyper[kappa + i])
            square -= hyper[mean + i] * (stats[last + i] + r)
            post[w + i] = r
        # A pivot is a Schur complement and grows with the matrix: at least the prior's pivot.
        log_det = factor_packed(P, hyper, kappa, post, root)
        invert_packed(P, post, root)
        left = max(square, 0.0)
        for i in range(P - 1, -1, -1):
            row = root + packed_length(i)
            u = 0.0
            for j in range(i + 1):
                u += post[row + j] * post[w + j]
            if u * u > left:  # only by rounding
                u = math.copysign(math.sqrt(left), u)
            left = max(left - u * u, 0.0)
            post[w + i] = u
        # kappa_i (w_i - mean_i)^2 is at most what is left, and (L L')^-1 at most 1 / kappa: bounds
        # for tables whose statistics are all rounding error.
        for i in range(P):
            most = 1.0 / math.sqrt(hyper[kappa + i])
            step = 0.0
            for j in range(i, P):
                at = root + packed_length(j) + i
                post[at] = min(max(post[at], -most), most)
                step += post[at] * post[w + j]
            most *= math.sqrt(left + 1e-10 * max(square, 0.0))  # `left` is rounded
            post[w + i] = hyper[mean + i] + min(max(step, -most), most)
        n, shape0, rate0 = max(stats[gram], 0.0), hyper[kappa + P], hyper[kappa + P + 1]
        shape, rate = shape0 + 0.5 * n, rate0 + 0.5 * left
        if n != old_n or shape0 != old_shape:  # else as for the last output
            old_n, old_shape = n, shape0
            gammas = log_rising(shape0, 0.5 * n) - 0.5 * n * LOG_2PI
            half = log_rising(shape, 0.5)
            psi = digamma(shape)
        log_rate = math.log(rate)
        total += (
            gammas
            + shape0 * (math.log(rate0) - log_rate)
            - 0.5 * n * log_rate
            + 0.5 * (log_prior - log_det)
        )
        at = w + P + triangle
        post[at] = half - 0.5 * (log_rate + LOG_2PI)
        post[at + 1] = shape + 0.5
        post[at + 2] = 0.5 / rate
        post[at + 3] = 0.5 * (psi - log_rate - LOG_2PI)
        post[at + 4] = 0.5 * shape / rate
    post[q] = total


@inlined
def _residual(P: int, post: Array, w: int, x: Array, first: int) -> float:
    """Return y - w' phi of the block that begins at ``first``; NaN if a value is missing."""
    r = x[first + P - 1] - post[w]
    for i in range(1, P):
        r -= post[w + i] * x[first + i - 1]
    return r


@inlined
def _spread(P: int, post: Array, root: int, x: Array, first: int) -> float:
    """Return phi' (L L')^-1 phi: the variance of w' phi in units of the noise variance."""
    total = 0.0
    at = root
    for i in range(P):
        z = post[at]
        for j in range(1, i + 1):
            z += post[at + j] * x[first + j - 1]
        total += z * z
        at += i + 1
    return total


@unchecked
def lr_predictive(hyper: Array, h: int, post: Array, q: int, x: Array, c: int) -> float:
    D, P = int(hyper[h + 1]), int(hyper[h + 2])
    triangle = packed_length(P)
    total = 0.0
    for d in range(D):
        w = q + 1 + d * (P + triangle + 5)
        r = _residual(P, post, w, x, c + d * P)
        if not math.isnan(r):
            spread = _spread(P, post, w + P, x, c + d * P)
            at = w + P + triangle
            distance = post[at + 2] * r * r / (1.0 + spread)
            total += post[at] - 0.5 * math.log1p(spread) - post[at + 1] * math.log1p(distance)
    return total


@unchecked
def lr_expected(hyper: Array, h: int, post: Array, q: int, x: Array, c: int) -> float:
    D, P = int(hyper[h + 1]), int(hyper[h + 2])
    triangle = packed_length(P)
    total = 0.0
    for d in range(D):
        w = q + 1 + d * (P + triangle + 5)
        r = _residual(P, post, w, x, c + d * P)
        if not math.isnan(r):
            at = w + P + triangle
            spread = _spread(P, post, w + P, x, c + d * P)
            total += post[at + 3] - 0.5 * spread - post[at + 4] * r * r
    return total


@unchecked
def lr_natural(hyper: Array, h: int, post: Array, q: int, out: Array, s: int) -> None:
    # -(precision (y - w' phi)^2 + phi' (L L')^-1 phi) / 2 as coefficients of v v', v = (phi, y)
    D, P = int(hyper[h + 1]), int(hyper[h + 2])
    triangle = packed_length(P)
    to = s + 1
    for d in range(D):
        w = q + 1 + d * (P + triangle + 5)
        root, at = w + P, w + P + triangle
        out[to] = post[at + 3]
        for i in range(P):
            for j in range(i + 1):
                spread = 0.0
                for k in range(i, P):
                    row = root + packed_length(k)
                    spread += post[row + i] * post[row + j]
                entry = -0.5 * spread - post[at + 4] * post[w + i] * post[w + j]
                if i == j == 0:
                    out[to] += entry
                else:
                    out[to] = entry if i == j else 2.0 * entry
                to += 1
        for i in range(P):
            out[to] = 2.0 * post[at + 4] * post[w + i]
            to += 1
        out[to] = -post[at + 4]
        to += 1
