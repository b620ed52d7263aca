"""Shared compiled leaf functions: special functions and the decay families.

Every kernel of the package may call these; they call nothing but numpy and ``math``.
"""

import math

import numpy as np
from numba import njit

__all__ = [
    "CALLER_GIVEN",
    "EXPONENTIAL",
    "LINEAR_WINDOW",
    "LOGISTIC",
    "NO_DECAY",
    "WINDOW",
    "digamma",
    "log_add_exp",
    "log_decay",
]

# Codes of the decay families (`streamddcrp.decay`). CALLER_GIVEN: a decay that is not one of these;
# its log weights come to the kernel as an array, evaluated outside.
CALLER_GIVEN = -1
NO_DECAY = 0
WINDOW = 1
EXPONENTIAL = 2
LOGISTIC = 3
LINEAR_WINDOW = 4


@njit(cache=True)
def digamma(x):
    """Digamma function for x > 0: recurrence up to 10, then the asymptotic series (1e-15)."""
    shift = 0.0
    while x < 10.0:
        shift -= 1.0 / x
        x += 1.0
    inv = 1.0 / x
    inv2 = inv * inv
    series = inv2 * (
        1.0 / 12.0
        - inv2
        * (
            1.0 / 120.0
            - inv2
            * (1.0 / 252.0 - inv2 * (1.0 / 240.0 - inv2 * (1.0 / 132.0 - inv2 * (691.0 / 32760.0))))
        )
    )
    return shift + math.log(x) - 0.5 * inv - series


@njit(cache=True)
def log_add_exp(a, b):
    """log(exp(a) + exp(b)), safe at -inf."""
    if a < b:
        a, b = b, a
    if b == -np.inf:
        return a
    return a + math.log1p(math.exp(b - a))


@njit(cache=True)
def log_decay(code, location, scale, distance):
    """Log weight of a link over ``distance`` under decay family ``code``.

    ``location`` is the width or the knee, ``scale`` the length scale; see `streamddcrp.decay`.
    """
    if code == EXPONENTIAL:
        return -distance / scale
    if code == NO_DECAY:
        return 0.0 if distance < np.inf else -np.inf
    if code == WINDOW:
        return 0.0 if distance < location else -np.inf
    if code == LOGISTIC:
        z = (distance - location) / scale
        return -(max(z, 0.0) + math.log1p(math.exp(-abs(z))))
    # LINEAR_WINDOW
    return math.log1p(-distance / location) if distance < location else -np.inf
