"""Compiled conjugate families behind one dispatcher that selects by an integer code.

A method's kernel calls `add_stats`, `posterior`, `log_predictive` and `expected_log_lik` and never
names a family. All callees are in this file, because numba does not notice edits elsewhere.

``hyper`` holds the prior, ``hyper[0]`` always the number of features D. A method may move the prior
in place (empirical Bayes), but not the centre, to which the statistics refer, nor the scatter of
NORMAL_WISHART, whose determinant and pivots are stored with it. Layouts, each block of length D
unless said otherwise; [i, j] stands for a lower triangle packed by rows:

======================  ===========================================  =============================
family                  hyper                                        stats
======================  ===========================================  =============================
NORMAL_WISHART          D, kappa, dof, log|scatter|, center, mean,   n, sum y, sum y y' [i, j]
                        pivots, scatter [i, j]
NORMAL_GAMMA            D, center, mean, kappa, shape, rate          n, count, sum y, sum y^2
DIRICHLET_MULTINOMIAL   D, mass of a category, total mass            n, count
GAMMA_POISSON           D, shape, rate                               n, -sum log x!, count, sum x
BETA_BERNOULLI          D, a, b                                      n, ones, zeros
======================  ===========================================  =============================

with y = x - center. ``post[0]`` is the log marginal likelihood; the rest of ``post`` is private to
this package. Statistics that rounding left outside their domain (a tiny negative count, a scatter
that is not positive definite) are clipped to its border; nothing here raises or returns NaN.
"""

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamddcrp._numerics import digamma

__all__ = [
    "BETA_BERNOULLI",
    "DIRICHLET_MULTINOMIAL",
    "GAMMA_POISSON",
    "NORMAL_GAMMA",
    "NORMAL_WISHART",
    "add_stats",
    "add_to_tables",
    "expected_log_lik",
    "expected_log_liks",
    "factor_packed",
    "log_predictive",
    "log_predictives",
    "log_rising",
    "n_post",
    "n_stats",
    "natural_parameters",
    "posterior",
    "posteriors",
    "stats_of_rows",
    "table_scores",
]

NORMAL_WISHART = 0
NORMAL_GAMMA = 1
DIRICHLET_MULTINOMIAL = 2
GAMMA_POISSON = 3
BETA_BERNOULLI = 4

Array = NDArray[np.float64]

LOG_2 = math.log(2.0)
LOG_PI = math.log(math.pi)
LOG_2PI = math.log(2.0 * math.pi)
LOG_FACTORIALS = np.array([math.lgamma(k + 1.0) for k in range(64)])


@njit(cache=True)
def _log_factorial(x: float) -> float:
    """Log of x! for x >= 0, from a table when x is a small integer."""
    if x < 64.0 and x == math.floor(x):
        return LOG_FACTORIALS[int(x)]
    return math.lgamma(x + 1.0)


@njit(cache=True)
def _stirling_tail(z: float) -> float:
    """Return what Stirling's formula lacks of log Gamma(z), to 1e-16 for z >= 16."""
    r = 1.0 / z
    r2 = r * r
    return r * (
        1.0 / 12.0
        - r2 * (1.0 / 360.0 - r2 * (1.0 / 1260.0 - r2 * (1.0 / 1680.0 - r2 * (1.0 / 1188.0))))
    )


@njit(cache=True)
def log_rising(a: float, n: float) -> float:
    """Log of Gamma(a + n) / Gamma(a) for a > 0, n >= 0, without cancellation for large a."""
    if n == 0.0:
        return 0.0
    if n <= 12.0 and a < 1e20 and n == math.floor(n):
        product = a
        for k in range(1, int(n)):
            product *= a + k
        return math.log(product)
    if a >= 16.0:
        tails = _stirling_tail(a + n) - _stirling_tail(a)
        return (a - 0.5) * math.log1p(n / a) + n * (math.log(a + n) - 1.0) + tails
    return math.lgamma(a + n) - math.lgamma(a)


# --- Normal-Wishart: Lambda ~ W(scatter^-1, dof), mu | Lambda ~ N(mean, (kappa Lambda)^-1) -------
# post: log marginal, kappa, dof, coefficient of the distance in the Student t, its constant,
# constant of the expectation, mean about the centre (D), inverse Cholesky factor of the scatter.

_NW_HYPER = 4  # where center starts in hyper
_NW_POST = 6  # where the mean starts in post


@njit(cache=True)
def factor_packed(D: int, floors: Array, matrix: Array) -> float:
    """Replace a packed matrix by its Cholesky factor, pivots floored; return log|matrix|."""
    log_det = 0.0
    for i in range(D):
        row_i = i * (i + 1) // 2
        left = matrix[row_i + i]
        for j in range(i + 1):
            row_j = j * (j + 1) // 2
            total = matrix[row_i + j]
            for k in range(j):
                total -= matrix[row_i + k] * matrix[row_j + k]
            if j < i:
                entry = total / matrix[row_j + j]
                if entry * entry > left:  # rounding alone: it would grow from column to column
                    entry = math.copysign(math.sqrt(max(left, 0.0)), entry)
                left -= entry * entry
                matrix[row_i + j] = entry
            else:
                total = max(total, floors[i])
                log_det += math.log(total)
                matrix[row_i + i] = math.sqrt(total)
    return log_det


@njit(cache=True)
def _invert_packed(D: int, matrix: Array) -> None:
    """Replace a packed lower-triangular matrix by its inverse."""
    for j in range(D):
        row_j = j * (j + 1) // 2
        matrix[row_j + j] = 1.0 / matrix[row_j + j]
        for i in range(j + 1, D):
            row_i = i * (i + 1) // 2
            total = 0.0
            for k in range(j, i):
                total += matrix[row_i + k] * matrix[k * (k + 1) // 2 + j]
            matrix[row_i + j] = -total / matrix[row_i + i]


@njit(cache=True)
def _nw_add(hyper: Array, x: Array, weight: float, stats: Array) -> None:
    D = int(hyper[0])
    at = 1 + D
    for i in range(D):
        y_i = weight * (x[i] - hyper[_NW_HYPER + i])
        stats[1 + i] += y_i
        for j in range(i + 1):
            stats[at] += y_i * (x[j] - hyper[_NW_HYPER + j])
            at += 1


@njit(cache=True)
def _nw_posterior(hyper: Array, stats: Array, post: Array) -> None:
    # With r = x - mean: kappa_n = kappa + n, dof_n = dof + n, and without dividing by n
    # scatter_n = scatter + sum r r' - (sum r)(sum r)' / kappa_n.
    D = int(hyper[0])
    mean = _NW_HYPER + D
    pivots = mean + D
    scatter = pivots + D
    n = max(stats[0], 0.0)
    kappa, dof = hyper[1] + n, hyper[2] + n
    out_mean = post[_NW_POST : _NW_POST + D]
    factor = post[_NW_POST + D : _NW_POST + D + D * (D + 1) // 2]
    at = 0
    for i in range(D):
        shift_i = hyper[mean + i] - hyper[_NW_HYPER + i]
        r_i = stats[1 + i] - n * shift_i
        out_mean[i] = shift_i + r_i / kappa
        for j in range(i + 1):
            shift_j = hyper[mean + j] - hyper[_NW_HYPER + j]
            r_j = stats[1 + j] - n * shift_j
            square = stats[1 + D + at] - shift_i * stats[1 + j] - r_i * shift_j
            factor[at] = hyper[scatter + at] + (square - r_i * r_j / kappa)
            at += 1
    # A Schur complement grows with the matrix, so the prior's pivots bound these from below.
    log_det = factor_packed(D, hyper[pivots : pivots + D], factor)
    _invert_packed(D, factor)
    # log Gamma_D((dof + n) / 2) / Gamma_D(dof / 2): two chains of arguments that differ by one.
    gammas = 0.0
    psis = 0.0
    for parity in range(min(2, D)):
        a = 0.5 * (hyper[2] + 1.0 - (D - parity))
        rising = log_rising(a, 0.5 * n)
        psi = digamma(a + 0.5 * n)
        gammas += rising
        psis += psi
        for _ in range(D - parity - 2, 0, -2):
            rising += math.log1p(0.5 * n / a)
            psi += 1.0 / (a + 0.5 * n)
            a += 1.0
            gammas += rising
            psis += psi
    post[0] = (
        gammas
        + 0.5 * hyper[2] * (hyper[3] - log_det)
        - 0.5 * n * (log_det + D * LOG_PI)
        - 0.5 * D * math.log(kappa / hyper[1])
    )
    post[1], post[2] = kappa, dof
    post[3] = kappa / (kappa + 1.0)
    post[4] = log_rising(0.5 * (dof + 1.0 - D), 0.5 * D) - 0.5 * (
        D * (LOG_PI - math.log(post[3])) + log_det
    )
    post[5] = 0.5 * (psis + D * (LOG_2 - LOG_2PI - 1.0 / kappa) - log_det)


@njit(cache=True)
def _nw_distance(hyper: Array, post: Array, x: Array) -> float:
    """Return the squared length of L^-1 (x - mean), L the Cholesky factor of the scatter."""
    D = int(hyper[0])
    at = _NW_POST + D
    total = 0.0
    for i in range(D):
        z = 0.0
        for j in range(i + 1):
            z += post[at] * ((x[j] - hyper[_NW_HYPER + j]) - post[_NW_POST + j])
            at += 1
        total += z * z
    return total


# --- Normal-Gamma: precision ~ Gamma(shape, rate), mu ~ N(mean, 1 / (kappa precision)) -----------
# post: log marginal, then for each feature: mean about the centre, kappa, shape, rate, constant and
# coefficient of the Student t, constant of the expectation, half the expected precision.


@njit(cache=True)
def _ng_add(hyper: Array, x: Array, weight: float, stats: Array) -> None:
    D = int(hyper[0])
    for d in range(D):
        y = x[d] - hyper[1 + d]
        if not math.isnan(y):
            stats[1 + d] += weight
            stats[1 + D + d] += weight * y
            stats[1 + 2 * D + d] += weight * y * y


@njit(cache=True)
def _ng_posterior(hyper: Array, stats: Array, post: Array) -> None:
    # With r = x - mean: rate_n = rate + (sum r^2 - (sum r)^2 / kappa_n) / 2; no division by n.
    D = int(hyper[0])
    total = 0.0
    old_n, old_kappa, old_shape = -1.0, -1.0, -1.0
    gammas, half, psi, log_shrink, log_spread = 0.0, 0.0, 0.0, 0.0, 0.0
    for d in range(D):
        n = max(stats[1 + d], 0.0)
        shift = hyper[1 + D + d] - hyper[1 + d]
        kappa0, shape0, rate0 = hyper[1 + 2 * D + d], hyper[1 + 3 * D + d], hyper[1 + 4 * D + d]
        sum_y = stats[1 + D + d]
        r = sum_y - n * shift
        square = stats[1 + 2 * D + d] - shift * (sum_y + r)
        kappa, shape = kappa0 + n, shape0 + 0.5 * n
        rate = rate0 + 0.5 * max(square - r * r / kappa, 0.0)
        if n != old_n or kappa0 != old_kappa or shape0 != old_shape:  # else as for the last feature
            old_n, old_kappa, old_shape = n, kappa0, shape0
            gammas = log_rising(shape0, 0.5 * n) - 0.5 * n * LOG_2PI
            half = log_rising(shape, 0.5)
            psi = digamma(shape)
            log_shrink = math.log(kappa0 / kappa)
            log_spread = math.log(kappa / (kappa + 1.0))
        log_rate = math.log(rate)
        total += (
            gammas + shape0 * (math.log(rate0) - log_rate) - 0.5 * n * log_rate + 0.5 * log_shrink
        )
        at = 1 + 8 * d
        post[at] = shift + r / kappa
        post[at + 1], post[at + 2], post[at + 3] = kappa, shape, rate
        post[at + 4] = half + 0.5 * (log_spread - log_rate - LOG_2PI)
        post[at + 5] = 0.5 * kappa / (rate * (kappa + 1.0))
        post[at + 6] = 0.5 * (psi - log_rate - LOG_2PI - 1.0 / kappa)
        post[at + 7] = 0.5 * shape / rate
    post[0] = total


@njit(cache=True)
def _ng_predictive(hyper: Array, post: Array, x: Array) -> float:
    total = 0.0
    for d in range(int(hyper[0])):
        at = 1 + 8 * d
        r = (x[d] - hyper[1 + d]) - post[at]
        if not math.isnan(r):
            total += post[at + 4] - (post[at + 2] + 0.5) * math.log1p(post[at + 5] * r * r)
    return total


@njit(cache=True)
def _ng_expected(hyper: Array, post: Array, x: Array) -> float:
    total = 0.0
    for d in range(int(hyper[0])):
        at = 1 + 8 * d
        r = (x[d] - hyper[1 + d]) - post[at]
        if not math.isnan(r):
            total += post[at + 6] - post[at + 7] * r * r
    return total


# --- Dirichlet-multinomial: rows are counts of tokens, no multinomial coefficient ----------------
# post: log marginal, total mass, mass of each category (D), E log theta of each category (D).


@njit(cache=True)
def _dm_add(hyper: Array, x: Array, weight: float, stats: Array) -> None:
    for d in range(int(hyper[0])):
        if x[d] > 0.0:
            stats[1 + d] += weight * x[d]


@njit(cache=True)
def _dm_posterior(hyper: Array, stats: Array, post: Array) -> None:
    D = int(hyper[0])
    mass0 = hyper[1]
    psi0 = digamma(mass0)
    tokens = 0.0
    total = 0.0
    for d in range(D):
        count = stats[1 + d]
        if count > 0.0:
            tokens += count
            total += log_rising(mass0, count)
            post[2 + d] = mass0 + count
            post[2 + D + d] = digamma(mass0 + count)
        else:
            post[2 + d] = mass0
            post[2 + D + d] = psi0
    post[0] = total - log_rising(hyper[2], tokens)
    post[1] = hyper[2] + tokens
    psi = digamma(post[1])
    for d in range(D):
        post[2 + D + d] -= psi


@njit(cache=True)
def _dm_predictive(hyper: Array, post: Array, x: Array) -> float:
    tokens = 0.0
    total = 0.0
    for d in range(int(hyper[0])):
        if x[d] > 0.0:
            tokens += x[d]
            total += log_rising(post[2 + d], x[d])
    return total - log_rising(post[1], tokens)


@njit(cache=True)
def _dm_expected(hyper: Array, post: Array, x: Array) -> float:
    D = int(hyper[0])
    total = 0.0
    for d in range(D):
        if x[d] > 0.0:
            total += x[d] * post[2 + D + d]
    return total


# --- Gamma-Poisson: intensity ~ Gamma(shape, rate), counts ---------------------------------------
# post: log marginal, then for each feature: shape, log predictive of zero, log(rate + 1),
# E log intensity, E intensity.


@njit(cache=True)
def _gp_add(hyper: Array, x: Array, weight: float, stats: Array) -> None:
    D = int(hyper[0])
    for d in range(D):
        if not math.isnan(x[d]):
            stats[1] -= weight * _log_factorial(x[d])
            stats[2 + d] += weight
            stats[2 + D + d] += weight * x[d]


@njit(cache=True)
def _gp_posterior(hyper: Array, stats: Array, post: Array) -> None:
    D = int(hyper[0])
    total = stats[1]
    for d in range(D):
        n, events = max(stats[2 + d], 0.0), max(stats[2 + D + d], 0.0)
        shape0, rate0 = hyper[1 + d], hyper[1 + D + d]
        shape, rate = shape0 + events, rate0 + n
        log_rate = math.log(rate)
        # shape0 log rate0 - shape log rate + log Gamma(shape) / Gamma(shape0)
        total += log_rising(shape0, events) - shape0 * math.log1p(n / rate0) - events * log_rate
        at = 1 + 5 * d
        post[at] = shape
        post[at + 1] = -shape * math.log1p(1.0 / rate)
        post[at + 2] = math.log1p(rate)
        post[at + 3] = digamma(shape) - log_rate
        post[at + 4] = shape / rate
    post[0] = total


@njit(cache=True)
def _gp_predictive(hyper: Array, post: Array, x: Array) -> float:
    total = 0.0
    for d in range(int(hyper[0])):
        if not math.isnan(x[d]):
            at = 1 + 5 * d
            total += post[at + 1]
            if x[d] > 0.0:
                total += log_rising(post[at], x[d]) - _log_factorial(x[d]) - x[d] * post[at + 2]
    return total


@njit(cache=True)
def _gp_expected(hyper: Array, post: Array, x: Array) -> float:
    total = 0.0
    for d in range(int(hyper[0])):
        if not math.isnan(x[d]):
            at = 1 + 5 * d
            total += x[d] * post[at + 3] - post[at + 4] - _log_factorial(x[d])
    return total


# --- Beta-Bernoulli: p(1) ~ Beta(a, b) -----------------------------------------------------------
# post: log marginal, then for each feature: log predictive of 1 and of 0, E log p, E log(1 - p).


@njit(cache=True)
def _bb_add(hyper: Array, x: Array, weight: float, stats: Array) -> None:
    D = int(hyper[0])
    for d in range(D):
        if not math.isnan(x[d]):
            stats[1 + d] += weight * x[d]
            stats[1 + D + d] += weight * (1.0 - x[d])


@njit(cache=True)
def _bb_posterior(hyper: Array, stats: Array, post: Array) -> None:
    D = int(hyper[0])
    total = 0.0
    old_mass, psi = -1.0, 0.0
    for d in range(D):
        ones, zeros = max(stats[1 + d], 0.0), max(stats[1 + D + d], 0.0)
        a0, b0 = hyper[1 + d], hyper[1 + D + d]
        a, b = a0 + ones, b0 + zeros
        total += log_rising(a0, ones) + log_rising(b0, zeros) - log_rising(a0 + b0, ones + zeros)
        at = 1 + 4 * d
        post[at] = -math.log1p(b / a)
        post[at + 1] = -math.log1p(a / b)
        if a + b != old_mass:
            old_mass = a + b
            psi = digamma(old_mass)
        post[at + 2] = digamma(a) - psi
        post[at + 3] = digamma(b) - psi
    post[0] = total


@njit(cache=True)
def _bb_mix(hyper: Array, post: Array, x: Array, at: int) -> float:
    """Sum of x post[at] + (1 - x) post[at + 1] over features; `at` selects the pair of numbers."""
    total = 0.0
    for d in range(int(hyper[0])):
        if not math.isnan(x[d]):
            i = at + 4 * d
            total += x[d] * post[i] + (1.0 - x[d]) * post[i + 1]
    return total


# --- The dispatcher ------------------------------------------------------------------------------


@njit(cache=True)
def n_stats(family: int, n_features: int) -> int:
    """Length P of the sufficient statistics."""
    D = n_features
    if family == NORMAL_WISHART:
        return 1 + D + D * (D + 1) // 2
    if family == NORMAL_GAMMA:
        return 1 + 3 * D
    if family == DIRICHLET_MULTINOMIAL:
        return 1 + D
    if family == GAMMA_POISSON:
        return 2 + 2 * D
    return 1 + 2 * D


@njit(cache=True)
def n_post(family: int, n_features: int) -> int:
    """Length Q of the cached posterior."""
    D = n_features
    if family == NORMAL_WISHART:
        return _NW_POST + D + D * (D + 1) // 2
    if family == NORMAL_GAMMA:
        return 1 + 8 * D
    if family == DIRICHLET_MULTINOMIAL:
        return 2 + 2 * D
    if family == GAMMA_POISSON:
        return 1 + 5 * D
    return 1 + 4 * D


@njit(cache=True)
def add_stats(family: int, hyper: Array, x: Array, weight: float, stats: Array) -> None:
    """Add ``weight`` times the statistics of row ``x`` (D,) to ``stats`` (P,), in place."""
    stats[0] += weight
    if family == NORMAL_GAMMA:
        _ng_add(hyper, x, weight, stats)
    elif family == NORMAL_WISHART:
        _nw_add(hyper, x, weight, stats)
    elif family == DIRICHLET_MULTINOMIAL:
        _dm_add(hyper, x, weight, stats)
    elif family == GAMMA_POISSON:
        _gp_add(hyper, x, weight, stats)
    else:
        _bb_add(hyper, x, weight, stats)


@njit(cache=True)
def posterior(family: int, hyper: Array, stats: Array, post: Array) -> None:
    """Fill ``post`` (Q,) from ``stats`` (P,); ``post[0]`` is the log marginal likelihood."""
    if family == NORMAL_GAMMA:
        _ng_posterior(hyper, stats, post)
    elif family == NORMAL_WISHART:
        _nw_posterior(hyper, stats, post)
    elif family == DIRICHLET_MULTINOMIAL:
        _dm_posterior(hyper, stats, post)
    elif family == GAMMA_POISSON:
        _gp_posterior(hyper, stats, post)
    else:
        _bb_posterior(hyper, stats, post)


@njit(cache=True)
def log_predictive(family: int, hyper: Array, post: Array, x: Array) -> float:
    """Log density of row ``x`` (D,) with the parameter integrated out."""
    if family == NORMAL_GAMMA:
        return _ng_predictive(hyper, post, x)
    if family == NORMAL_WISHART:
        distance = post[3] * _nw_distance(hyper, post, x)
        return post[4] - 0.5 * (post[2] + 1.0) * math.log1p(distance)
    if family == DIRICHLET_MULTINOMIAL:
        return _dm_predictive(hyper, post, x)
    if family == GAMMA_POISSON:
        return _gp_predictive(hyper, post, x)
    return _bb_mix(hyper, post, x, 1)


@njit(cache=True)
def expected_log_lik(family: int, hyper: Array, post: Array, x: Array) -> float:
    """Posterior expectation of the log density of row ``x`` (D,)."""
    if family == NORMAL_GAMMA:
        return _ng_expected(hyper, post, x)
    if family == NORMAL_WISHART:
        return post[5] - 0.5 * post[2] * _nw_distance(hyper, post, x)
    if family == DIRICHLET_MULTINOMIAL:
        return _dm_expected(hyper, post, x)
    if family == GAMMA_POISSON:
        return _gp_expected(hyper, post, x)
    return _bb_mix(hyper, post, x, 3)


# --- The expected log likelihood of any rows is linear in their statistics -----------------------


@njit(cache=True)
def _nw_natural(hyper: Array, post: Array, out: Array) -> None:
    D = int(hyper[0])
    mean = post[_NW_POST : _NW_POST + D]
    factor = post[_NW_POST + D :]
    out[0] = post[5]
    out[1 : 1 + D] = 0.0
    at = 1 + D
    for i in range(D):
        for j in range(i + 1):
            precision = 0.0
            for k in range(i, D):
                row = k * (k + 1) // 2
                precision += factor[row + i] * factor[row + j]
            precision *= post[2]
            out[1 + i] += precision * mean[j]
            if i == j:
                out[at] = -0.5 * precision
            else:
                out[at] = -precision
                out[1 + j] += precision * mean[i]
            at += 1
    for i in range(D):
        out[0] -= 0.5 * out[1 + i] * mean[i]


@njit(cache=True)
def natural_parameters(family: int, hyper: Array, post: Array, out: Array) -> None:
    """Fill ``out`` (P,): its dot product with statistics is their expected log likelihood.

    The terms cancel where a table lies many standard deviations from the centre; for a single row
    `expected_log_lik` has no such loss.
    """
    D = int(hyper[0])
    out[0] = 0.0
    if family == NORMAL_GAMMA:
        for d in range(D):
            at = 1 + 8 * d
            mean, half_precision = post[at], post[at + 7]
            out[1 + d] = post[at + 6] - half_precision * mean * mean
            out[1 + D + d] = 2.0 * half_precision * mean
            out[1 + 2 * D + d] = -half_precision
    elif family == NORMAL_WISHART:
        _nw_natural(hyper, post, out)
    elif family == DIRICHLET_MULTINOMIAL:
        for d in range(D):
            out[1 + d] = post[2 + D + d]
    elif family == GAMMA_POISSON:
        out[1] = 1.0
        for d in range(D):
            at = 1 + 5 * d
            out[2 + d] = -post[at + 4]
            out[2 + D + d] = post[at + 3]
    else:
        for d in range(D):
            at = 1 + 4 * d
            out[1 + d] = post[at + 2]
            out[1 + D + d] = post[at + 3]


# --- All tables in one call: a third of the cost of one call for each table -----------------------


@njit(cache=True)
def stats_of_rows(family: int, hyper: Array, X: Array, out: Array) -> None:
    """Write the statistics of each row of ``X`` (N, D) into ``out`` (N, P)."""
    out[:] = 0.0
    for i in range(X.shape[0]):
        add_stats(family, hyper, X[i], 1.0, out[i])


@njit(cache=True)
def add_to_tables(
    family: int, hyper: Array, x: Array, weights: Array, n_tables: int, stats: Array
) -> None:
    """Do `add_stats` of row ``x`` for the first tables, with ``weights`` (K,); ``stats`` (K, P)."""
    for k in range(n_tables):
        stats[k, 0] += weights[k]
    if family == NORMAL_GAMMA:
        for k in range(n_tables):
            _ng_add(hyper, x, weights[k], stats[k])
    elif family == NORMAL_WISHART:
        for k in range(n_tables):
            _nw_add(hyper, x, weights[k], stats[k])
    elif family == DIRICHLET_MULTINOMIAL:
        for k in range(n_tables):
            _dm_add(hyper, x, weights[k], stats[k])
    elif family == GAMMA_POISSON:
        for k in range(n_tables):
            _gp_add(hyper, x, weights[k], stats[k])
    else:
        for k in range(n_tables):
            _bb_add(hyper, x, weights[k], stats[k])


@njit(cache=True)
def posteriors(family: int, hyper: Array, stats: Array, n_tables: int, post: Array) -> None:
    """Do `posterior` for the first tables; ``stats`` (K, P), ``post`` (K, Q)."""
    for k in range(n_tables):
        posterior(family, hyper, stats[k], post[k])


@njit(cache=True)
def log_predictives(
    family: int, hyper: Array, post: Array, x: Array, n_tables: int, out: Array
) -> None:
    """Do `log_predictive` for the first tables; ``post`` (K, Q), ``out`` (K,)."""
    if family == NORMAL_GAMMA:
        for k in range(n_tables):
            out[k] = _ng_predictive(hyper, post[k], x)
    elif family == NORMAL_WISHART:
        for k in range(n_tables):
            distance = post[k, 3] * _nw_distance(hyper, post[k], x)
            out[k] = post[k, 4] - 0.5 * (post[k, 2] + 1.0) * math.log1p(distance)
    elif family == DIRICHLET_MULTINOMIAL:
        for k in range(n_tables):
            out[k] = _dm_predictive(hyper, post[k], x)
    elif family == GAMMA_POISSON:
        for k in range(n_tables):
            out[k] = _gp_predictive(hyper, post[k], x)
    else:
        for k in range(n_tables):
            out[k] = _bb_mix(hyper, post[k], x, 1)


@njit(cache=True)
def expected_log_liks(
    family: int, hyper: Array, post: Array, x: Array, n_tables: int, out: Array
) -> None:
    """Do `expected_log_lik` for the first tables; ``post`` (K, Q), ``out`` (K,)."""
    if family == NORMAL_GAMMA:
        for k in range(n_tables):
            out[k] = _ng_expected(hyper, post[k], x)
    elif family == NORMAL_WISHART:
        for k in range(n_tables):
            out[k] = post[k, 5] - 0.5 * post[k, 2] * _nw_distance(hyper, post[k], x)
    elif family == DIRICHLET_MULTINOMIAL:
        for k in range(n_tables):
            out[k] = _dm_expected(hyper, post[k], x)
    elif family == GAMMA_POISSON:
        for k in range(n_tables):
            out[k] = _gp_expected(hyper, post[k], x)
    else:
        for k in range(n_tables):
            out[k] = _bb_mix(hyper, post[k], x, 3)


@njit(cache=True)
def table_scores(
    family: int, hyper: Array, x: Array, stats: Array, expected: bool, post: Array, out: Array
) -> None:
    """Score ``x`` at each row of ``stats`` by `expected_log_lik`, else by `log_predictive`.

    For callers that keep no posteriors: ``post`` (Q,) is work space, ``out`` (K,).
    """
    for k in range(stats.shape[0]):
        posterior(family, hyper, stats[k], post)
        if expected:
            out[k] = expected_log_lik(family, hyper, post, x)
        else:
            out[k] = log_predictive(family, hyper, post, x)
