"""Compiled functions shared by several families: factorials, packed triangular matrices."""

import math

import numpy as np
from numpy.typing import NDArray

from streamddcrp.compilation import inlined, kernel
from streamddcrp.numerics import digamma

Array = NDArray[np.float64]

LOG_2 = math.log(2.0)
LOG_PI = math.log(math.pi)
LOG_2PI = math.log(2.0 * math.pi)
LOG_FACTORIALS = np.array([math.lgamma(k + 1.0) for k in range(64)])
LOG_GAMMAS = np.array([math.inf, *(math.lgamma(0.5 * k) for k in range(1, 64))])  # of halves


@kernel
def log_factorial(x: float) -> float:
    """Log of x! for x >= 0, from a table when x is a small integer."""
    if x < 64.0 and x == math.floor(x):
        return LOG_FACTORIALS[int(x)]
    return math.lgamma(x + 1.0)


@kernel
def _stirling_tail(z: float) -> float:
    """Return the remainder of Stirling's formula for log Gamma(z), to 1e-16 for z >= 16."""
    r = 1.0 / z
    r2 = r * r
    return r * (
        1.0 / 12.0
        - r2 * (1.0 / 360.0 - r2 * (1.0 / 1260.0 - r2 * (1.0 / 1680.0 - r2 * (1.0 / 1188.0))))
    )


@kernel
def log_gamma(x: float) -> float:
    """Log of Gamma(x) for x > 0; small multiples of a half, usual for priors, are tabulated."""
    if x >= 16.0:
        return (x - 0.5) * math.log(x) - x + 0.5 * LOG_2PI + _stirling_tail(x)
    if 2.0 * x == math.floor(2.0 * x):
        return LOG_GAMMAS[int(2.0 * x)]
    return math.lgamma(x)


@kernel
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
    return log_gamma(a + n) - log_gamma(a)


@kernel
def gamma_terms(a: float) -> tuple[float, float, float]:
    """Log of Gamma(a), log of Gamma(a + 1/2) / Gamma(a) and digamma(a), for a > 0.

    From a = 16 on they use asymptotic series, to 1e-16, which share a log.
    """
    if a < 16.0:
        return log_gamma(a), log_rising(a, 0.5), digamma(a)
    log_a, r = math.log(a), 1.0 / a
    r2 = r * r
    gamma = (a - 0.5) * log_a - a + 0.5 * LOG_2PI + _stirling_tail(a)
    more = 17.0 / 14336.0 - r2 * (31.0 / 18432.0 - r2 * (691.0 / 180224.0))
    half = 1.0 / 8.0 - r2 * (1.0 / 192.0 - r2 * (1.0 / 640.0 - r2 * more))
    more = 1.0 / 252.0 - r2 * (1.0 / 240.0 - r2 * (1.0 / 132.0 - r2 * (691.0 / 32760.0)))
    psi = 0.5 * r + r2 * (1.0 / 12.0 - r2 * (1.0 / 120.0 - r2 * more))
    return gamma, 0.5 * log_a - r * half, log_a - psi


# In the next two, ``inline`` saves reference counting: a quarter of the time.


@inlined
def factor_packed(D: int, floors: Array, first: int, matrix: Array, at: int) -> float:
    """Replace the packed matrix that begins at ``at`` by its Cholesky factor; return log|matrix|.

    Pivots are kept above ``floors``, of which D are read from ``first`` on.
    """
    log_det = 0.0
    for i in range(D):
        row_i = at + i * (i + 1) // 2
        left = matrix[row_i + i]
        for j in range(i + 1):
            row_j = at + j * (j + 1) // 2
            total = matrix[row_i + j]
            for k in range(j):
                total -= matrix[row_i + k] * matrix[row_j + k]
            if j < i:
                entry = total / matrix[row_j + j]
                if entry * entry > left:  # rounding alone, which would grow from column to column
                    entry = math.copysign(math.sqrt(max(left, 0.0)), entry)
                left -= entry * entry
                matrix[row_i + j] = entry
            else:
                total = max(total, floors[first + i])
                log_det += math.log(total)
                matrix[row_i + i] = math.sqrt(total)
    return log_det


@inlined
def invert_packed(D: int, matrix: Array, at: int) -> None:
    """Replace the packed lower-triangular matrix that begins at ``at`` by its inverse."""
    for j in range(D):
        row_j = at + j * (j + 1) // 2
        matrix[row_j + j] = 1.0 / matrix[row_j + j]
        for i in range(j + 1, D):
            row_i = at + i * (i + 1) // 2
            total = 0.0
            for k in range(j, i):
                total += matrix[row_i + k] * matrix[at + k * (k + 1) // 2 + j]
            matrix[row_i + j] = -total / matrix[row_i + i]
