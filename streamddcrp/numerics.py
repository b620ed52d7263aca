"""Shared compiled leaf functions: special functions and the decay families.

Every kernel of the package may call these; they call nothing but numpy and ``math``.
"""

import math

import numpy as np

from streamddcrp.compilation import inlined, kernel, leaf, uncounted
from streamddcrp.lanes import LANES, lanes, larger, power_of, times_power

# Codes of the decay families (`streamddcrp.decay`). CALLER_GIVEN is any other decay; it is
# evaluated outside, and its log weights come to the kernel as an array.
CALLER_GIVEN = -1
NO_DECAY = 0
WINDOW = 1
EXPONENTIAL = 2
LOGISTIC = 3
LINEAR_WINDOW = 4


@leaf
def natural(i):
    """Return an index that must not be negative; this is not checked."""
    return np.uint64(i)


@kernel
def digamma(x):
    """Digamma function for x > 0: recurrence up to 10, then the asymptotic series (1e-15)."""
    if x < 0.0:  # the recurrence would practically never end
        return math.nan
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


@kernel
def log_add_exp(a, b):
    """log(exp(a) + exp(b)), safe at -inf."""
    if a < b:
        a, b = b, a
    if b == -np.inf:
        return a
    return a + math.log1p(math.exp(b - a))


@kernel
def log_decay(code, location, scale, distance):
    """Log weight of a link by decay ``code``, ``location`` (width or knee) and length ``scale``."""
    if code == EXPONENTIAL:
        return -distance / scale
    if code == NO_DECAY:
        return 0.0 if distance < np.inf else -np.inf
    if code == WINDOW:
        return 0.0 if distance < location else -np.inf
    if code == LOGISTIC:
        z = (distance - location) / scale
        return -(max(z, 0.0) + math.log1p(math.exp(-abs(z))))
    if code == LINEAR_WINDOW:
        return math.log1p(-distance / location) if distance < location else -np.inf
    return np.nan  # no decay has this code


# exp(x) = 2^k exp(r), k = round(x / log 2), |r| <= log(2) / 2. Adding ROUND leaves k in the low
# bits of the sum, so the loops below vectorise to four numbers at once.
_ROUND = 6755399441055744.0  # 1.5 2^52
_PER_LOG_2 = 1.4426950408889634
_LOG_2_HIGH = 0.693145751953125
_LOG_2_LOW = 1.42860682030941723212e-6
_LEAST = -700.0  # everything below gives exp(-700), about 1e-304


@inlined
def _series(r):
    """Taylor series of exp to r^12, in independent pieces."""
    r2 = r * r
    r4 = r2 * r2
    low = (1.0 / 6.0 * r + 0.5) * r2 + (r + 1.0)
    middle = (1.0 / 5040.0 * r + 1.0 / 720.0) * r2 + (1.0 / 120.0 * r + 1.0 / 24.0)
    high = (1.0 / 39916800.0 * r + 1.0 / 3628800.0) * r2 + (1.0 / 362880.0 * r + 1.0 / 40320.0)
    return ((1.0 / 479001600.0 * r4 + high) * r4 + middle) * r4 + low


@kernel(fastmath={"contract"})
def exp_all(x, n, work):
    """Replace the first ``n`` of ``x``, at most 700, by their exp, to 3e-16."""
    shifted, bits = work.view(np.int64), x.view(np.int64)
    for i in range(n):
        y = max(x[i], _LEAST)
        work[i] = y * _PER_LOG_2 + _ROUND
        k = work[i] - _ROUND
        x[i] = _series((y - k * _LOG_2_HIGH) - k * _LOG_2_LOW)
    for i in range(n):
        bits[i] += shifted[i] << 52


@leaf
def exp_lanes(x):
    """Apply `exp_all` to lanes."""
    y = larger(x, lanes(_LEAST))
    shifted = y * _PER_LOG_2 + _ROUND
    k = shifted - _ROUND
    return times_power(_series((y - k * _LOG_2_HIGH) - k * _LOG_2_LOW), shifted)


# log x = k log 2 + log(1 + f), and with s = f / (2 + f) <= .172 log(1 + f) = 2 atanh s. It is
# written as f - (f^2 / 2 - s (f^2 / 2 + R)), R = 2 atanh(s) / s - 2, which keeps all digits of f.
_TINY = 1e-300  # smaller arguments give its log
_LOG_2_UPPER = 6.93147180369123816490e-01  # times a power of two it is exact
_LOG_2_LOWER = 1.90821492927058770002e-10


@leaf
def log_lanes(x):
    """Log of finite lanes; arguments below 1e-300 count as 1e-300. Error below 1 ulp."""
    x = larger(x, lanes(_TINY))
    k = power_of(x)
    f = times_power(x, _ROUND - k) - 1.0
    s = f / (f + 2.0)
    z = s * s
    z2 = z * z
    z4 = z2 * z2
    low = (2.0 / 5.0 * z + 2.0 / 3.0) + (2.0 / 9.0 * z + 2.0 / 7.0) * z2
    high = (2.0 / 13.0 * z + 2.0 / 11.0) + (2.0 / 17.0 * z + 2.0 / 15.0) * z2
    rest = z * (low + z4 * (high + z4 * (2.0 / 21.0 * z + 2.0 / 19.0)))
    half = 0.5 * f * f
    return k * _LOG_2_UPPER - ((half - (s * (half + rest) + k * _LOG_2_LOWER)) - f)


@leaf
def padded(n):
    """Round ``n`` up to a multiple of `LANES`."""
    return (n + LANES - 1) // LANES * LANES


# reassoc lets a sum run in four lanes; NaN and infinities keep their meaning, but in `largest`
@kernel(fastmath={"reassoc", "contract"})
def dot(a, b, n):
    """Dot product of the first ``n`` entries."""
    total = 0.0
    for i in range(n):
        total += a[i] * b[i]
    return total


@kernel(fastmath={"reassoc", "nnan", "nsz"})
def largest(a, n):
    """Largest of the first ``n`` entries, none of them NaN; in four independent streams."""
    p, q, r, s = -np.inf, -np.inf, -np.inf, -np.inf
    rest = n % 4
    for i in range(rest):
        p = max(p, a[i])
    for i in range(rest, n, 4):
        p, q, r, s = max(p, a[i]), max(q, a[i + 1]), max(r, a[i + 2]), max(s, a[i + 3])
    return max(p, q, r, s)


@kernel(fastmath={"reassoc"})
def floor_and_sum(a, start, stop, floor):
    """Set entries below ``floor`` to zero; return the sum of the rest."""
    total = 0.0
    for i in range(natural(start), natural(stop)):
        a[i] = a[i] if a[i] >= floor else 0.0
        total += a[i]
    return total


@kernel(fastmath={"reassoc"})
def sum_first(a, n):
    """Sum of the first ``n`` entries."""
    total = 0.0
    for i in range(n):
        total += a[i]
    return total


@kernel(fastmath={"reassoc"})
def count_and_sum(a, start, stop):
    """Return the number of nonzero entries from ``start`` to ``stop``, and their sum."""
    n, total = 0, 0.0
    for i in range(natural(start), natural(stop)):
        n += a[i] != 0.0
        total += a[i]
    return n, total


# Uncounted kernels may not assign to an array slice, because numba would allocate.
@uncounted
def copy_first(target, source, n):
    """Copy the first ``n`` entries of ``source`` to ``target``."""
    for i in range(n):
        target[i] = source[i]


@uncounted
def copy_row(target, source):
    """Copy all entries of ``source`` to ``target``."""
    copy_first(target, source, len(source))


@uncounted
def same(a, b):
    """Whether all entries are equal."""
    n_different = 0
    for i in range(a.shape[0]):
        n_different += a[i] != b[i]
    return n_different == 0


@uncounted
def add(target, factor, source):
    """Add ``factor`` times ``source`` to ``target``."""
    for i in range(target.shape[0]):
        target[i] += factor * source[i]


@uncounted
def scale(target, factor):
    """Multiply every entry of ``target``."""
    for i in range(target.shape[0]):
        target[i] *= factor


@leaf
def holds(x, value):
    """Return whether an array contains a value; no early exit, so that it vectorises."""
    found = 0
    for i in range(len(x)):
        found |= x[i] == value
    return found != 0
