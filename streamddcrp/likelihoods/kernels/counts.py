"""Compiled families of counts: DIRICHLET_MULTINOMIAL, GAMMA_POISSON, BETA_BERNOULLI.

Layouts as in `kernels.families`.
"""

import math

from streamddcrp.compilation import inlined, uncounted
from streamddcrp.likelihoods.kernels.special import Array, log_factorial, log_rising
from streamddcrp.numerics import digamma

# --- Dirichlet-multinomial: rows are token counts, without multinomial coefficient ---------------
# post: log marginal, total mass, then for D categories their mass and E log theta.


@uncounted
def dm_add(hyper: Array, h: int, x: Array, c: int, weight: float, stats: Array, s: int) -> None:
    for d in range(int(hyper[h])):
        if x[c + d] > 0.0:
            stats[s + 1 + d] += weight * x[c + d]


@uncounted
def dm_posterior(hyper: Array, h: int, stats: Array, s: int, post: Array, q: int) -> None:
    D = int(hyper[h])
    mass0 = hyper[h + 1]
    psi0 = digamma(mass0)
    tokens = 0.0
    total = 0.0
    for d in range(D):
        count = stats[s + 1 + d]
        if count > 0.0:
            tokens += count
            total += log_rising(mass0, count)
            post[q + 2 + d] = mass0 + count
            post[q + 2 + D + d] = digamma(mass0 + count)
        else:
            post[q + 2 + d] = mass0
            post[q + 2 + D + d] = psi0
    post[q] = total - log_rising(hyper[h + 2], tokens)
    post[q + 1] = hyper[h + 2] + tokens
    psi = digamma(post[q + 1])
    for d in range(D):
        post[q + 2 + D + d] -= psi


@uncounted
def dm_predictive(hyper: Array, h: int, post: Array, q: int, x: Array, c: int) -> float:
    tokens = 0.0
    total = 0.0
    for d in range(int(hyper[h])):
        if x[c + d] > 0.0:
            tokens += x[c + d]
            total += log_rising(post[q + 2 + d], x[c + d])
    return total - log_rising(post[q + 1], tokens)


@uncounted
def dm_expected(hyper: Array, h: int, post: Array, q: int, x: Array, c: int) -> float:
    D = int(hyper[h])
    total = 0.0
    for d in range(D):
        if x[c + d] > 0.0:
            total += x[c + d] * post[q + 2 + D + d]
    return total


@uncounted
def dm_natural(hyper: Array, h: int, post: Array, q: int, out: Array, s: int) -> None:
    D = int(hyper[h])
    for d in range(D):
        out[s + 1 + d] = post[q + 2 + D + d]


# --- Gamma-Poisson: intensity ~ Gamma(shape, rate), counts ---------------------------------------
# post: log marginal, then for each feature: shape, log predictive of zero, log(rate + 1),
# E log intensity, E intensity.


@uncounted
def gp_add(hyper: Array, h: int, x: Array, c: int, weight: float, stats: Array, s: int) -> None:
    D = int(hyper[h])
    for d in range(D):
        x_d = x[c + d]
        if not math.isnan(x_d):
            stats[s + 1] -= weight * hyper[h + 1 + 2 * D + d] * log_factorial(x_d)
            stats[s + 2 + d] += weight
            stats[s + 2 + D + d] += weight * x_d


@uncounted
def gp_posterior(hyper: Array, h: int, stats: Array, s: int, post: Array, q: int) -> None:
    D = int(hyper[h])
    total = stats[s + 1]
    for d in range(D):
        n, events = max(stats[s + 2 + d], 0.0), max(stats[s + 2 + D + d], 0.0)
        shape0, rate0 = hyper[h + 1 + d], hyper[h + 1 + D + d]
        shape, rate = shape0 + events, rate0 + n
        log_rate = math.log(rate)
        # shape0 log rate0 - shape log rate + log Gamma(shape) / Gamma(shape0)
        total += hyper[h + 1 + 2 * D + d] * (
            log_rising(shape0, events) - shape0 * math.log1p(n / rate0) - events * log_rate
        )
        at = q + 1 + 5 * d
        post[at] = shape
        post[at + 1] = -shape * math.log1p(1.0 / rate)
        post[at + 2] = math.log1p(rate)
        post[at + 3] = digamma(shape) - log_rate
        post[at + 4] = shape / rate
    post[q] = total


@uncounted
def gp_predictive(hyper: Array, h: int, post: Array, q: int, x: Array, c: int) -> float:
    D = int(hyper[h])
    total = 0.0
    for d in range(D):
        x_d = x[c + d]
        if not math.isnan(x_d):
            at = q + 1 + 5 * d
            value = post[at + 1]
            if x_d > 0.0:
                value += log_rising(post[at], x_d) - log_factorial(x_d) - x_d * post[at + 2]
            total += hyper[h + 1 + 2 * D + d] * value
    return total


@uncounted
def gp_expected(hyper: Array, h: int, post: Array, q: int, x: Array, c: int) -> float:
    D = int(hyper[h])
    total = 0.0
    for d in range(D):
        x_d = x[c + d]
        if not math.isnan(x_d):
            at = q + 1 + 5 * d
            value = x_d * post[at + 3] - post[at + 4] - log_factorial(x_d)
            total += hyper[h + 1 + 2 * D + d] * value
    return total


@uncounted
def gp_natural(hyper: Array, h: int, post: Array, q: int, out: Array, s: int) -> None:
    D = int(hyper[h])
    out[s + 1] = 1.0
    for d in range(D):
        at = q + 1 + 5 * d
        share = hyper[h + 1 + 2 * D + d]
        out[s + 2 + d] = -share * post[at + 4]
        out[s + 2 + D + d] = share * post[at + 3]


# --- Beta-Bernoulli: p(1) ~ Beta(a, b) -----------------------------------------------------------
# post: log marginal, then for each feature: log predictive of 1 and of 0, E log p, E log(1 - p).


@uncounted
def bb_add(hyper: Array, h: int, x: Array, c: int, weight: float, stats: Array, s: int) -> None:
    D = int(hyper[h])
    for d in range(D):
        x_d = x[c + d]
        if not math.isnan(x_d):
            stats[s + 1 + d] += weight * x_d
            stats[s + 1 + D + d] += weight * (1.0 - x_d)


@uncounted
def bb_posterior(hyper: Array, h: int, stats: Array, s: int, post: Array, q: int) -> None:
    D = int(hyper[h])
    total = 0.0
    old_mass, psi = -1.0, 0.0
    for d in range(D):
        ones, zeros = max(stats[s + 1 + d], 0.0), max(stats[s + 1 + D + d], 0.0)
        a0, b0 = hyper[h + 1 + d], hyper[h + 1 + D + d]
        a, b = a0 + ones, b0 + zeros
        total += hyper[h + 1 + 2 * D + d] * (
            log_rising(a0, ones) + log_rising(b0, zeros) - log_rising(a0 + b0, ones + zeros)
        )
        at = q + 1 + 4 * d
        post[at] = -math.log1p(b / a)
        post[at + 1] = -math.log1p(a / b)
        if a + b != old_mass:
            old_mass = a + b
            psi = digamma(old_mass)
        post[at + 2] = digamma(a) - psi
        post[at + 3] = digamma(b) - psi
    post[q] = total


@inlined
def _bb_mix(hyper: Array, h: int, post: Array, at: int, x: Array, c: int) -> float:
    """Sum of x post[at] + (1 - x) post[at + 1] over features; `at` selects the pair of numbers."""
    D = int(hyper[h])
    total = 0.0
    for d in range(D):
        x_d = x[c + d]
        if not math.isnan(x_d):
            i = at + 4 * d
            value = x_d * post[i] + (1.0 - x_d) * post[i + 1]
            total += hyper[h + 1 + 2 * D + d] * value
    return total


@uncounted
def bb_predictive(hyper: Array, h: int, post: Array, q: int, x: Array, c: int) -> float:
    return _bb_mix(hyper, h, post, q + 1, x, c)


@uncounted
def bb_expected(hyper: Array, h: int, post: Array, q: int, x: Array, c: int) -> float:
    return _bb_mix(hyper, h, post, q + 3, x, c)


@uncounted
def bb_natural(hyper: Array, h: int, post: Array, q: int, out: Array, s: int) -> None:
    D = int(hyper[h])
    for d in range(D):
        at = q + 1 + 4 * d
        share = hyper[h + 1 + 2 * D + d]
        out[s + 1 + d] = share * post[at + 2]
        out[s + 1 + D + d] = share * post[at + 3]
