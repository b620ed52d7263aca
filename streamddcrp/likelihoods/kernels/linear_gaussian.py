"""Compiled linear-Gaussian features in moment form; rows are added and removed.

``X = Z Y + E`` with noise variance ``s2`` and ``Y ~ N(0, s2 / ratio)``. The state is the posterior
of the live features, ``Y | s2 ~ MN(mean, s2 cov, I)``: ``cov`` (K, K), ``mean`` (K, D). A feature
that can never be used again is marginalised out by ignoring its row and column.
"""

import math

import numpy as np

from streamddcrp.compilation import column, uncounted


@uncounted
def begin_feature(cov, mean, slots, n_slots, slot, ratio):
    """Give a slot a feature's prior: variance 1 / ratio, mean 0, no covariance with others."""
    for a in range(n_slots):
        cov[slots[a], slot] = 0.0
        cov[slot, slots[a]] = 0.0
    cov[slot, slot] = 1.0 / ratio
    mean[slot] = 0.0


@uncounted
def add_row(cov, mean, slots, n_slots, on, n_on, x, v, e):
    """Condition on a row ``x`` (D,) with features ``on``: docs/math/graphs.md (12).

    ``s = 1 + z' cov z``, ``e = x - z' mean``, ``v = cov z``; ``mean += v e' / s``,
    ``cov -= v v' / s``. ``v`` (K,) and ``e`` (D,) are work space; returns ``s`` and ``||e||^2``.
    """
    s, square = project(cov, mean, slots, n_slots, on, n_on, x, v, e)
    s += 1.0
    for a in range(n_slots):
        j = slots[a]
        gain = v[j] / s
        if gain != 0.0:
            for d in range(len(x)):
                mean[j, d] += gain * e[d]
            for b in range(n_slots):
                cov[j, slots[b]] -= gain * v[slots[b]]
    return s, square


@uncounted
def remove_row(cov, mean, slots, n_slots, on, n_on, x, noise, v, e):
    """Undo `add_row` for a row whose noise variance was ``noise`` s2; the same return values.

    ``c = noise - z' cov z``, ``cov += v v' / c``, ``mean -= v e' / c``. The returned ``s`` and
    ``||e||^2`` are those of adding the row again. Features of this row alone are not in ``slots``:
    each adds 1 / ratio to ``noise``, which keeps ``c`` away from zero.
    """
    taken, square = project(cov, mean, slots, n_slots, on, n_on, x, v, e)
    c = noise - taken
    for a in range(n_slots):
        j = slots[a]
        gain = v[j] / c
        if gain != 0.0:
            for d in range(len(x)):
                mean[j, d] -= gain * e[d]
            for b in range(n_slots):
                cov[j, slots[b]] += gain * v[slots[b]]
    return noise * noise / c, square * (noise / c) ** 2


@uncounted
def project(cov, mean, slots, n_slots, on, n_on, x, v, e):
    """Write ``v = cov z`` and ``e = x - z' mean`` of a row; return ``z' cov z`` and ``||e||^2``."""
    square = taken = 0.0
    for d in range(len(x)):
        e[d] = x[d]
    for a in range(n_on):
        j = on[a]
        for d in range(len(x)):
            e[d] -= mean[j, d]
    for d in range(len(x)):
        square += e[d] * e[d]
    for a in range(n_slots):
        total = 0.0
        for b in range(n_on):
            total += cov[slots[a], on[b]]
        v[slots[a]] = total
    for b in range(n_on):
        taken += v[on[b]]
    return taken, square


@uncounted
def log_density(s, square, n_dims, shape, rate):
    """Log density, docs/math/graphs.md (11), up to its constant.

    ``shape`` 0 means that the noise variance is ``rate``.

    Known noise: ``-D/2 log s - ||e||^2 / (2 s2 s)``. Unknown, s2 ~ InvGamma(shape, rate): Student t
    with 2 shape degrees of freedom, ``shape log s - (shape + D/2) log(s + ||e||^2 / (2 rate))``.
    """
    if shape == 0.0:
        return -0.5 * n_dims * math.log(s) - square / (2.0 * rate * s)
    return shape * math.log(s) - (shape + 0.5 * n_dims) * math.log(s + square / (2.0 * rate))


@uncounted
def log_constant(n_dims, shape, rate):
    """Return the constant that `log_density` leaves out."""
    if shape == 0.0:
        return -0.5 * n_dims * math.log(2.0 * np.pi * rate)
    return (
        math.lgamma(shape + 0.5 * n_dims)
        - math.lgamma(shape)
        - 0.5 * n_dims * math.log(2.0 * np.pi * rate)
    )


# log(x) = k log 2 + log(1 + f) with 1 + f between sqrt(1/2) and sqrt(2); the series is that of
# log(1 + f) = log((1 + z) / (1 - z)), z = f / (2 + f). All steps vectorise to four numbers at once.
_ROOT_HALF = np.uint64(0x3FE6A09E667F3BCD)  # bits of sqrt(1/2)
_TO_ONE = np.uint64(0x3FF0000000000000 - 0x3FE6A09E667F3BCD)
_FRACTION = np.uint64(0x000FFFFFFFFFFFFF)
_SHIFT = np.uint64(52)
_INTEGER = np.uint64(0x4330000000000000)  # bits of 2^52
_BIAS = 4503599627370496.0 + 1023.0
_LOG_2_HIGH = 6.93147180369123816490e-01
_LOG_2_LOW = 1.90821492927058770002e-10


@column
def log_all(x, n, work):
    """Replace the first ``n`` of ``x``, positive and finite, by their logs, to 3e-16."""
    bits, exponent = x.view(np.uint64), work.view(np.uint64)
    for i in range(n):
        shifted = bits[i] + _TO_ONE
        exponent[i] = (shifted >> _SHIFT) | _INTEGER
        bits[i] = (shifted & _FRACTION) + _ROOT_HALF
    for i in range(n):
        k, f = work[i] - _BIAS, x[i] - 1.0
        z = f / (2.0 + f)
        z2 = z * z
        p = 1.479819860511658591e-01
        p = p * z2 + 1.531383769920937332e-01
        p = p * z2 + 1.818357216161805012e-01
        p = p * z2 + 2.222219843214978396e-01
        p = p * z2 + 2.857142874366239149e-01
        p = p * z2 + 3.999999999940941908e-01
        p = p * z2 + 6.666666666666735130e-01
        half = 0.5 * f * f
        x[i] = k * _LOG_2_HIGH - ((half - (z * (half + p * z2) + k * _LOG_2_LOW)) - f)


@column
def add_log_densities(s, square, n, n_dims, shape, rate, work, out):
    """Add `log_density` of ``n`` pairs to ``out``; overwrites ``s``, ``square`` and ``work``."""
    if shape == 0.0:
        for i in range(n):
            out[i] -= square[i] / (2.0 * rate * s[i])
        log_all(s, n, work)
        for i in range(n):
            out[i] -= 0.5 * n_dims * s[i]
        return
    for i in range(n):
        square[i] = s[i] + square[i] / (2.0 * rate)
    log_all(s, n, work)
    log_all(square, n, work)
    for i in range(n):
        out[i] += shape * s[i] - (shape + 0.5 * n_dims) * square[i]
