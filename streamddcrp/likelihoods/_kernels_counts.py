"""Compiled families of counts: DIRICHLET_MULTINOMIAL, GAMMA_POISSON, BETA_BERNOULLI.

Layouts are told in `_kernels`.
"""

import math

from numba import njit

from streamddcrp._numerics import digamma
from streamddcrp.likelihoods._kernels_special import Array, log_factorial, log_rising

__all__ = [
    "bb_add",
    "bb_expected",
    "bb_natural",
    "bb_posterior",
    "bb_predictive",
    "dm_add",
    "dm_expected",
    "dm_natural",
    "dm_posterior",
    "dm_predictive",
    "gp_add",
    "gp_expected",
    "gp_natural",
    "gp_posterior",
    "gp_predictive",
]

# --- Dirichlet-multinomial: rows are counts of tokens, no multinomial coefficient ----------------
# post: log marginal, total mass, mass of each category (D), E log theta of each category (D).


@njit(cache=True)
def dm_add(hyper: Array, x: Array, weight: float, stats: Array) -> None:
    for d in range(int(hyper[0])):
        if x[d] > 0.0:
            stats[1 + d] += weight * x[d]


@njit(cache=True)
def dm_posterior(hyper: Array, stats: Array, post: Array) -> None:
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
def dm_predictive(hyper: Array, post: Array, x: Array) -> float:
    tokens = 0.0
    total = 0.0
    for d in range(int(hyper[0])):
        if x[d] > 0.0:
            tokens += x[d]
            total += log_rising(post[2 + d], x[d])
    return total - log_rising(post[1], tokens)


@njit(cache=True)
def dm_expected(hyper: Array, post: Array, x: Array) -> float:
    D = int(hyper[0])
    total = 0.0
    for d in range(D):
        if x[d] > 0.0:
            total += x[d] * post[2 + D + d]
    return total


@njit(cache=True)
def dm_natural(hyper: Array, post: Array, out: Array) -> None:
    D = int(hyper[0])
    for d in range(D):
        out[1 + d] = post[2 + D + d]


# --- Gamma-Poisson: intensity ~ Gamma(shape, rate), counts ---------------------------------------
# post: log marginal, then for each feature: shape, log predictive of zero, log(rate + 1),
# E log intensity, E intensity.


@njit(cache=True)
def gp_add(hyper: Array, x: Array, weight: float, stats: Array) -> None:
    D = int(hyper[0])
    for d in range(D):
        if not math.isnan(x[d]):
            stats[1] -= weight * log_factorial(x[d])
            stats[2 + d] += weight
            stats[2 + D + d] += weight * x[d]


@njit(cache=True)
def gp_posterior(hyper: Array, stats: Array, post: Array) -> None:
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
def gp_predictive(hyper: Array, post: Array, x: Array) -> float:
    total = 0.0
    for d in range(int(hyper[0])):
        if not math.isnan(x[d]):
            at = 1 + 5 * d
            total += post[at + 1]
            if x[d] > 0.0:
                total += log_rising(post[at], x[d]) - log_factorial(x[d]) - x[d] * post[at + 2]
    return total


@njit(cache=True)
def gp_expected(hyper: Array, post: Array, x: Array) -> float:
    total = 0.0
    for d in range(int(hyper[0])):
        if not math.isnan(x[d]):
            at = 1 + 5 * d
            total += x[d] * post[at + 3] - post[at + 4] - log_factorial(x[d])
    return total


@njit(cache=True)
def gp_natural(hyper: Array, post: Array, out: Array) -> None:
    D = int(hyper[0])
    out[1] = 1.0
    for d in range(D):
        at = 1 + 5 * d
        out[2 + d] = -post[at + 4]
        out[2 + D + d] = post[at + 3]


# --- Beta-Bernoulli: p(1) ~ Beta(a, b) -----------------------------------------------------------
# post: log marginal, then for each feature: log predictive of 1 and of 0, E log p, E log(1 - p).


@njit(cache=True)
def bb_add(hyper: Array, x: Array, weight: float, stats: Array) -> None:
    D = int(hyper[0])
    for d in range(D):
        if not math.isnan(x[d]):
            stats[1 + d] += weight * x[d]
            stats[1 + D + d] += weight * (1.0 - x[d])


@njit(cache=True)
def bb_posterior(hyper: Array, stats: Array, post: Array) -> None:
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


@njit(cache=True, inline="always")
def _bb_mix(hyper: Array, post: Array, x: Array, at: int) -> float:
    """Sum of x post[at] + (1 - x) post[at + 1] over features; `at` selects the pair of numbers."""
    total = 0.0
    for d in range(int(hyper[0])):
        if not math.isnan(x[d]):
            i = at + 4 * d
            total += x[d] * post[i] + (1.0 - x[d]) * post[i + 1]
    return total


@njit(cache=True)
def bb_predictive(hyper: Array, post: Array, x: Array) -> float:
    return _bb_mix(hyper, post, x, 1)


@njit(cache=True)
def bb_expected(hyper: Array, post: Array, x: Array) -> float:
    return _bb_mix(hyper, post, x, 3)


@njit(cache=True)
def bb_natural(hyper: Array, post: Array, out: Array) -> None:
    D = int(hyper[0])
    for d in range(D):
        at = 1 + 4 * d
        out[1 + d] = post[at + 2]
        out[1 + D + d] = post[at + 3]
