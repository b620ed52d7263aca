"""Compiled Gaussian families: NORMAL_WISHART and NORMAL_GAMMA; layouts as in `kernels.families`."""

import math

import numpy as np

from streamddcrp.compilation import inlined, kernel, uncounted
from streamddcrp.lanes import LANES, lanes, larger, load, load_column, store, sum_of
from streamddcrp.likelihoods.kernels.special import (
    LOG_2,
    LOG_2PI,
    LOG_PI,
    Array,
    factor_packed,
    gamma_terms,
    invert_packed,
    log_gamma,
    log_rising,
)
from streamddcrp.numerics import digamma, log_lanes, natural

HUGE = 1e280  # largest product of factors before a new one begins
FURTHEST = 1e300  # squared distance beyond which all values are alike
# Offsets in a feature's Normal-Gamma posterior.
_SHAPE, _CONSTANT, _SLOPE = np.uint64(2), np.uint64(4), np.uint64(5)
_EXPECTED, _HALF = np.uint64(6), np.uint64(7)

# --- Normal-Wishart: Lambda ~ W(scatter^-1, dof), mu | Lambda ~ N(mean, (kappa Lambda)^-1) -------
# post: log marginal, kappa, dof, coefficient of the distance in the Student t, its constant,
# constant of the expectation, mean about the centre (D), inverse Cholesky factor of the scatter.

_NW_HYPER = 4  # where center starts in hyper
_NW_POST = 6  # where the mean starts in post


@inlined
def _nw_value(hyper: Array, h: int, x: Array, c: int, i: int) -> float:
    """Return column ``i`` of a row about the centre; the prior mean for a missing value."""
    y = x[c + i] - hyper[h + _NW_HYPER + i]
    if math.isnan(y):
        y = hyper[h + _NW_HYPER + int(hyper[h]) + i] - hyper[h + _NW_HYPER + i]
    return y


@uncounted
def nw_add(hyper: Array, h: int, x: Array, c: int, weight: float, stats: Array, s: int) -> None:
    D = int(hyper[h])
    at = 1 + D
    for i in range(D):
        y_i = weight * _nw_value(hyper, h, x, c, i)
        stats[s + 1 + i] += y_i
        for j in range(i + 1):
            stats[s + at] += y_i * _nw_value(hyper, h, x, c, j)
            at += 1


@uncounted
def nw_add_rows(
    hyper: Array, h: int, X: Array, columns: Array, c: int, weights: Array, start: int, stop: int,
    stats: Array, s: int,
) -> None:  # fmt: skip
    """Apply `nw_add` to complete rows, `LANES` rows at a time."""
    D = int(hyper[h])
    end = start + (stop - start) // LANES * LANES
    at = s + 1 + D
    for i in range(D):
        center, total = hyper[h + _NW_HYPER + i], lanes(0.0)
        for r in range(start, end, LANES):
            total = total + load(weights, r) * (load(columns[c + i], r) - center)
        stats[s + 1 + i] += sum_of(total)
        for j in range(i + 1):
            other, total = hyper[h + _NW_HYPER + j], lanes(0.0)
            for r in range(start, end, LANES):
                y = load(weights, r) * (load(columns[c + i], r) - center)
                total = total + y * (load(columns[c + j], r) - other)
            stats[at] += sum_of(total)
            at += 1
    for r in range(end, stop):
        nw_add(hyper, h, X[r], c, weights[r], stats, s)


@uncounted
def nw_marginal(hyper: Array, h: int, stats: Array, s: int, post: Array, q: int) -> float:
    """Return the log marginal; leave mean and Cholesky factor of the scatter in ``post``."""
    # With r = x - mean: kappa_n = kappa + n, dof_n = dof + n, and without dividing by n
    # scatter_n = scatter + sum r r' - (sum r)(sum r)' / kappa_n.
    D = int(hyper[h])
    mean = h + _NW_HYPER + D
    pivots = mean + D
    scatter = pivots + D
    n = max(stats[s], 0.0)
    kappa, dof = hyper[h + 1] + n, hyper[h + 2] + n
    factor = q + _NW_POST + D
    at = 0
    for i in range(D):
        shift_i = hyper[mean + i] - hyper[h + _NW_HYPER + i]
        r_i = stats[s + 1 + i] - n * shift_i
        post[q + _NW_POST + i] = shift_i + r_i / kappa
        for j in range(i + 1):
            shift_j = hyper[mean + j] - hyper[h + _NW_HYPER + j]
            r_j = stats[s + 1 + j] - n * shift_j
            square = stats[s + 1 + D + at] - shift_i * stats[s + 1 + j] - r_i * shift_j
            post[factor + at] = hyper[scatter + at] + (square - r_i * r_j / kappa)
            at += 1
    # A Schur complement grows with the matrix, so the prior's pivots bound these from below.
    log_det = factor_packed(D, hyper, pivots, post, factor)
    # log Gamma_D((dof + n) / 2) / Gamma_D(dof / 2): two chains with arguments in steps of one.
    gammas = 0.0
    for parity in range(min(2, D)):
        a = 0.5 * (hyper[h + 2] + 1.0 - (D - parity))
        rising = log_rising(a, 0.5 * n)
        gammas += rising
        for _ in range(D - parity - 2, 0, -2):
            rising += math.log1p(0.5 * n / a)
            a += 1.0
            gammas += rising
    post[q] = (
        gammas
        + 0.5 * hyper[h + 2] * (hyper[h + 3] - log_det)
        - 0.5 * n * (log_det + D * LOG_PI)
        - 0.5 * D * math.log(kappa / hyper[h + 1])
    )
    post[q + 1], post[q + 2], post[q + 5] = kappa, dof, log_det
    return post[q]


@uncounted
def nw_posterior(hyper: Array, h: int, stats: Array, s: int, post: Array, q: int) -> None:
    nw_marginal(hyper, h, stats, s, post, q)
    D = int(hyper[h])
    invert_packed(D, post, q + _NW_POST + D)
    kappa, dof, log_det = post[q + 1], post[q + 2], post[q + 5]
    psis = 0.0
    for parity in range(min(2, D)):
        a = 0.5 * (dof + 1.0 - (D - parity))
        psi = digamma(a)
        psis += psi
        for _ in range(D - parity - 2, 0, -2):
            psi += 1.0 / a
            a += 1.0
            psis += psi
    post[q + 3] = kappa / (kappa + 1.0)
    post[q + 4] = log_rising(0.5 * (dof + 1.0 - D), 0.5 * D) - 0.5 * (
        D * (LOG_PI - math.log(post[q + 3])) + log_det
    )
    post[q + 5] = 0.5 * (psis + D * (LOG_2 - LOG_2PI - 1.0 / kappa) - log_det)


@inlined
def _nw_distance(hyper: Array, h: int, post: Array, q: int, x: Array, c: int) -> float:
    """Return the squared length of L^-1 (x - mean), L the Cholesky factor of the scatter."""
    D = int(hyper[h])
    mean = q + _NW_POST
    at = mean + D
    total = 0.0
    for i in range(D):
        z = 0.0
        for j in range(i + 1):
            z += post[at] * (_nw_value(hyper, h, x, c, j) - post[mean + j])
            at += 1
        total += z * z
    return min(total, FURTHEST)


@uncounted
def nw_predictive(hyper: Array, h: int, post: Array, q: int, x: Array, c: int) -> float:
    distance = post[q + 3] * _nw_distance(hyper, h, post, q, x, c)
    return post[q + 4] - 0.5 * (post[q + 2] + 1.0) * math.log1p(distance)


@uncounted
def nw_expected(hyper: Array, h: int, post: Array, q: int, x: Array, c: int) -> float:
    value = post[q + 5] - 0.5 * post[q + 2] * _nw_distance(hyper, h, post, q, x, c)
    return max(value, -FURTHEST)


@uncounted
def nw_expected_of_rows(
    hyper: Array, h: int, post: Array, q: int, X: Array, columns: Array, c: int, start: int,
    stop: int, out: Array,
) -> None:  # fmt: skip
    """Add `nw_expected` of complete rows to ``out``, `LANES` rows at a time."""
    D = int(hyper[h])
    center, mean = h + _NW_HYPER, q + _NW_POST
    end = start + (stop - start) // LANES * LANES
    for r in range(start, end, LANES):
        at, total = mean + D, lanes(0.0)
        for i in range(D):
            z = lanes(0.0)
            for j in range(i + 1):
                y = load(columns[c + j], r) - (hyper[center + j] + post[mean + j])
                z = z + post[at] * y
                at += 1
            total = total + z * z
        value = larger(post[q + 5] - 0.5 * post[q + 2] * total, lanes(-FURTHEST))
        store(out, r, load(out, r) + value)
    for r in range(end, stop):
        out[r] += nw_expected(hyper, h, post, q, X[r], c)


@uncounted
def nw_fill(hyper: Array, h: int, posts: Array, q: int, n: int, x: Array, c: int) -> float:
    """Impute a row's missing values; return their log density, given the others.

    Each becomes its conditional expectation at the most likely of the first ``n`` tables; those
    still missing get its mean. Densities are those of a Gaussian at its mode.
    """
    D = int(hyper[h])
    home, best = -1, -math.inf
    for k in range(n):
        post, at, total = posts[k], q + _NW_POST + D, 0.0
        for i in range(D):
            z = 0.0
            for j in range(i + 1):
                y = (x[c + j] - hyper[h + _NW_HYPER + j]) - post[q + _NW_POST + j]
                z += 0.0 if math.isnan(y) else post[at] * y
                at += 1
            total += z * z
        value = post[q + 4] - 0.5 * (post[q + 2] + 1.0) * math.log1p(post[q + 3] * total)
        if value > best:
            home, best = k, value
    said = 0.0
    for d in range(D):
        if not math.isnan(x[c + d]):
            continue
        if home < 0:
            x[c + d] = hyper[h + _NW_HYPER + D + d]
            continue
        post, at, slope, precision = posts[home], q + _NW_POST + D, 0.0, 0.0
        for i in range(D):
            z = 0.0
            for j in range(i + 1):
                y = (x[c + j] - hyper[h + _NW_HYPER + j]) - post[q + _NW_POST + j]
                z += 0.0 if math.isnan(y) else post[at + j] * y
            if d <= i:
                slope += post[at + d] * z
                precision += post[at + d] * post[at + d]
            at += i + 1
        x[c + d] = hyper[h + _NW_HYPER + d] + post[q + _NW_POST + d] - slope / precision
        said += 0.5 * (math.log(post[q + 2] * post[q + 3] * precision) - LOG_2PI)
    return said


@uncounted
def nw_natural(hyper: Array, h: int, post: Array, q: int, out: Array, s: int) -> None:
    D = int(hyper[h])
    mean = q + _NW_POST
    factor = mean + D
    out[s] = post[q + 5]
    for i in range(D):
        out[s + 1 + i] = 0.0
    at = s + 1 + D
    for i in range(D):
        for j in range(i + 1):
            precision = 0.0
            for k in range(i, D):
                row = factor + k * (k + 1) // 2
                precision += post[row + i] * post[row + j]
            precision *= post[q + 2]
            out[s + 1 + i] += precision * post[mean + j]
            if i == j:
                out[at] = -0.5 * precision
            else:
                out[at] = -precision
                out[s + 1 + j] += precision * post[mean + i]
            at += 1
    for i in range(D):
        out[s] -= 0.5 * out[s + 1 + i] * post[mean + i]


# --- Normal-Gamma: precision ~ Gamma(shape, rate), mu ~ N(mean, 1 / (kappa precision)) -----------
# A value rounded to a grid of step h stands for a latent one, uniform in its cell: its mean squared
# distance to a point is (x - point)^2 + h^2 / 12. A row has weight ``power`` in a column; the
# column, including its prior, has weight ``share``.
# post: log marginal, then for each feature: mean about the centre, kappa, shape, rate, constant and
# coefficient of the Student t, constant of the expectation, half the expected precision.


@uncounted
def ng_add(hyper: Array, h: int, x: Array, c: int, weight: float, stats: Array, s: int) -> None:
    D = int(hyper[h])
    for d in range(D):
        i, at, step = natural(h + 1 + d), natural(s + 1 + d), natural(D)
        y = x[natural(c + d)] - hyper[i]
        if not math.isnan(y):
            share = weight * hyper[natural(h + 1 + 6 * D + d)]
            stats[at] += share
            stats[at + step] += share * y
            stats[at + step + step] += share * (y * y + hyper[natural(h + 1 + 5 * D + d)])


@kernel(_nrt=False, fastmath={"reassoc", "contract"})
def ng_add_rows(
    hyper: Array, h: int, columns: Array, c: int, weights: Array, start: int, stop: int,
    stats: Array, s: int,
) -> None:  # fmt: skip
    """Apply `ng_add` to rows ``start`` to ``stop`` by column, with sums in registers."""
    D = int(hyper[h])
    for d in range(D):
        center, cell = hyper[h + 1 + d], hyper[h + 1 + 5 * D + d]
        n, total, square = 0.0, 0.0, 0.0
        column = columns[c + d]
        for r in range(natural(start), natural(stop)):
            y = column[r] - center
            weight = 0.0 if math.isnan(y) else weights[r]
            y = 0.0 if math.isnan(y) else y
            n += weight
            total += weight * y
            square += weight * (y * y + cell)
        power = hyper[h + 1 + 6 * D + d]
        stats[s + 1 + d] += power * n
        stats[s + 1 + D + d] += power * total
        stats[s + 1 + 2 * D + d] += power * square


@uncounted
def _rate(
    rate: float, m: float, weight: float, per_kappa: float, n: float, sum_y: float, square: float
) -> float:
    """Return rate + (sum y^2 - (sum y)^2 / kappa_n + w m (n m - 2 sum y)) / 2, w = kappa / kappa_n.

    All values are relative to the centre, including the prior mean m: sums about m would lose
    digits of rows near the centre if a moved prior is far away. There is no division by n.
    """
    square -= sum_y * sum_y * per_kappa
    square += weight * m * (n * m - 2.0 * sum_y)
    return rate + 0.5 * max(square, 0.0)


@uncounted
def ng_posterior(hyper: Array, h: int, stats: Array, s: int, post: Array, q: int) -> None:
    D = int(hyper[h])
    share = h + 1 + 7 * D
    total = 0.0
    old_n, old_kappa, old_shape = -1.0, -1.0, -1.0
    gammas, half, psi, weight, log_shrink, log_spread = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    per_kappa, spread = 0.0, 0.0
    for d in range(D):
        n = max(stats[s + 1 + d], 0.0)
        i = h + 1 + D + d  # mean
        shift = hyper[i] - hyper[i - D]
        kappa0, shape0, rate0 = hyper[i + D], hyper[i + 2 * D], hyper[i + 3 * D]
        sum_y = stats[s + 1 + D + d]
        kappa, shape = kappa0 + n, shape0 + 0.5 * n
        if n != old_n or kappa0 != old_kappa or shape0 != old_shape:  # else as for the last feature
            old_n, old_kappa, old_shape = n, kappa0, shape0
            gammas, half, psi = gamma_terms(shape)
            if shape0 < 16.0:
                gammas -= log_gamma(shape0)
            else:  # their difference would lose digits
                gammas = log_rising(shape0, 0.5 * n)
            gammas -= 0.5 * n * LOG_2PI
            per_kappa, spread = 1.0 / kappa, kappa / (kappa + 1.0)
            weight = kappa0 / kappa  # 1 without data
            log_shrink = math.log(weight)
            log_spread = math.log(spread)
        rate = _rate(rate0, shift, weight, per_kappa, n, sum_y, stats[s + 1 + 2 * D + d])
        log_rate, per_rate = math.log(rate), 1.0 / rate
        total += hyper[share + d] * (
            gammas + shape0 * (math.log(rate0) - log_rate) - 0.5 * n * log_rate + 0.5 * log_shrink
        )
        at = q + 1 + 8 * d
        post[at] = weight * shift + sum_y * per_kappa
        post[at + 1], post[at + 2], post[at + 3] = kappa, shape, rate
        post[at + 4] = half + 0.5 * (log_spread - log_rate - LOG_2PI)
        post[at + 5] = 0.5 * spread * per_rate
        post[at + 6] = 0.5 * (psi - log_rate - LOG_2PI - per_kappa)
        post[at + 7] = 0.5 * shape * per_rate
    post[q] = total


@uncounted
def ng_marginal(hyper: Array, h: int, stats: Array, s: int) -> float:
    """Return the log marginal of `ng_posterior`, with one log for many features."""
    D = int(hyper[h])
    total, each = 0.0, 0.0
    old_n, old_kappa, old_shape, old_share = 0.0, -1.0, 0.0, 0.0
    before, after = 1.0, 1.0  # products of rates over features with equal exponents
    for d in range(D):
        n = max(stats[s + 1 + d], 0.0)
        i = h + 1 + D + d  # mean
        shift = hyper[i] - hyper[i - D]
        kappa0, shape0, rate0 = hyper[i + D], hyper[i + 2 * D], hyper[i + 3 * D]
        share = hyper[i + 6 * D]
        kappa = kappa0 + n
        sum_y, square = stats[s + 1 + D + d], stats[s + 1 + 2 * D + d]
        per_kappa = 1.0 / kappa
        rate = _rate(rate0, shift, kappa0 * per_kappa, per_kappa, n, sum_y, square)
        is_new = n != old_n or kappa0 != old_kappa or shape0 != old_shape or share != old_share
        least, most = min(before * rate0, after * rate), max(before * rate0, after * rate)
        if is_new or least < 1.0 / HUGE or most > HUGE:
            if d > 0:
                exponent = old_shape + 0.5 * old_n
                total += old_share * (old_shape * math.log(before) - exponent * math.log(after))
            before, after = rate0, rate
            if is_new:
                old_n, old_kappa, old_shape, old_share = n, kappa0, shape0, share
                gammas = log_rising(shape0, 0.5 * n) - 0.5 * n * LOG_2PI
                each = share * (gammas + 0.5 * math.log(kappa0 / kappa))
        else:
            before *= rate0
            after *= rate
        total += each
    exponent = old_shape + 0.5 * old_n
    return total + old_share * (old_shape * math.log(before) - exponent * math.log(after))


@uncounted
def ng_predictive(hyper: Array, h: int, post: Array, q: int, x: Array, c: int) -> float:
    # Features of equal weight share one log: log1p(a) + log1p(b) = log1p(a + b + a b).
    D = int(hyper[h])
    total, old, product = 0.0, 0.0, 0.0
    for d in range(D):
        at = natural(q + 1 + 8 * d)
        cell, power = natural(h + 1 + 5 * D + d), natural(h + 1 + 6 * D + d)
        r = (x[natural(c + d)] - hyper[natural(h + 1 + d)]) - post[at]
        if not math.isnan(r):
            distance = post[at + _SLOPE] * (r * r + hyper[cell])
            weight = hyper[natural(h + 1 + 7 * D + d)] * hyper[power]
            exponent = weight * (post[at + _SHAPE] + 0.5)
            total += weight * post[at + _CONSTANT]
            both = product + distance + product * distance
            if exponent == old and both <= HUGE:
                product = both
                continue
            if product > 0.0:
                total -= old * math.log1p(product)
            old, product = exponent, distance
    return total - old * math.log1p(product)


@uncounted
def ng_predictives(
    hyper: Array, h: int, post: Array, q: int, x: Array, c: int, n: int, out: Array
) -> None:
    """Add `ng_predictive` of a row at each of ``n`` tables to ``out``, `LANES` tables at a time."""
    D = int(hyper[h])
    for k in range(0, n, LANES):
        total = load(out, k)
        for d in range(D):
            y, at = x[c + d] - hyper[h + 1 + d], q + 1 + 8 * d
            if not math.isnan(y):
                r = y - load_column(post, k, at)
                square = r * r + hyper[h + 1 + 5 * D + d]
                less = larger(-1.0 * load_column(post, k, at + 5) * square, lanes(-HUGE))
                weight = hyper[h + 1 + 7 * D + d] * hyper[h + 1 + 6 * D + d]
                exponent = load_column(post, k, at + 2) + 0.5
                value = load_column(post, k, at + 4) - exponent * log_lanes(1.0 - less)
                total = total + weight * value
        store(out, k, total)


@uncounted
def ng_expected(hyper: Array, h: int, post: Array, q: int, x: Array, c: int) -> float:
    D = int(hyper[h])
    total = 0.0
    for d in range(D):
        at = natural(q + 1 + 8 * d)
        cell, power = natural(h + 1 + 5 * D + d), natural(h + 1 + 6 * D + d)
        r = (x[natural(c + d)] - hyper[natural(h + 1 + d)]) - post[at]
        if not math.isnan(r):
            value = post[at + _EXPECTED] - post[at + _HALF] * (r * r + hyper[cell])
            total += hyper[natural(h + 1 + 7 * D + d)] * hyper[power] * value
    return total


@uncounted
def ng_expected_of_rows(
    hyper: Array, h: int, post: Array, q: int, columns: Array, c: int, start: int, stop: int,
    out: Array,
) -> None:  # fmt: skip
    """Add `ng_expected` of rows ``start`` to ``stop`` to ``out``, column by column."""
    D = int(hyper[h])
    for d in range(D):
        at = q + 1 + 8 * d
        center, cell, mean = hyper[h + 1 + d], hyper[h + 1 + 5 * D + d], post[at]
        constant, precision = post[at + 6], post[at + 7]
        weight = hyper[h + 1 + 7 * D + d] * hyper[h + 1 + 6 * D + d]
        column = columns[c + d]
        for r in range(natural(start), natural(stop)):
            y = (column[r] - center) - mean
            value = weight * (constant - precision * (y * y + cell))
            out[r] += 0.0 if math.isnan(y) else value


@uncounted
def ng_natural(hyper: Array, h: int, post: Array, q: int, out: Array, s: int) -> None:
    D = int(hyper[h])
    for d in range(D):
        at = q + 1 + 8 * d
        mean, share = post[at], hyper[h + 1 + 7 * D + d]
        half_precision = share * post[at + 7]
        out[s + 1 + d] = share * post[at + 6] - half_precision * mean * mean
        out[s + 1 + D + d] = 2.0 * half_precision * mean
        out[s + 1 + 2 * D + d] = -half_precision
