"""Random numbers as functions of their purpose: counter-based Philox4x32-10.

A draw is fixed by (seed, t, particle, purpose, index). Results therefore do not depend on cuts of
the stream into calls, on the order of evaluation, or on a restart, and no generator state is kept.

References: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011;
Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 2000.
"""

import math

import numpy as np

from streamddcrp.compilation import inner, kernel, uncounted

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_PURPOSE = np.uint64(24)  # bits of `t` above the first 32; those of the purpose follow
_26, _5, _6 = np.uint64(26), np.uint64(5), np.uint64(6)
_UNIT = 2.0**-53


@kernel
def philox(c0, c1, c2, c3, k0, k1):
    """Turn a counter of four words (uint64 below 2^32), under a key of two, into random words."""
    for _ in range(10):
        p0, p1 = _M0 * c0, _M1 * c2
        c0, c1, c2, c3 = (p1 >> _HALF) ^ c1 ^ k0, p1 & _LOW, (p0 >> _HALF) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return c0, c1, c2, c3


@inner
def _words(seed, t, particle, purpose, index):
    """Four random words for one draw: t below 2^56, purpose below 2^8, the others below 2^32."""
    seed, t = np.uint64(seed), np.uint64(t)
    high = (t >> _HALF) | (np.uint64(purpose) << _PURPOSE)
    return philox(t & _LOW, high, np.uint64(particle), np.uint64(index), seed & _LOW, seed >> _HALF)


@inner
def _as_uniform(high, low):
    """One number in (0, 1) of 53 random bits."""
    return (float((high >> _5) << _26 | (low >> _6)) + 0.5) * _UNIT


@kernel
def uniform(seed, t, particle, purpose, index):
    """Draw from (0, 1)."""
    a, b, _, _ = _words(seed, t, particle, purpose, index)
    return _as_uniform(a, b)


@kernel
def normal(seed, t, particle, purpose, index):
    """Draw from N(0, 1)."""
    a, b, c, d = _words(seed, t, particle, purpose, index)
    radius = math.sqrt(-2.0 * math.log(_as_uniform(a, b)))
    return radius * math.cos(2.0 * math.pi * _as_uniform(c, d))


@kernel
def gamma(shape, seed, t, particle, purpose, index):
    """Draw from the gamma distribution of rate 1; ``index`` below 2^24."""
    boosted = shape if shape >= 1.0 else shape + 1.0
    d = boosted - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    at = index << 8
    value = d
    for attempt in range(0, 254, 2):  # a rejection has a probability below 5 %
        z = normal(seed, t, particle, purpose, at + attempt)
        v = (1.0 + c * z) ** 3
        u = uniform(seed, t, particle, purpose, at + attempt + 1)
        if v > 0.0 and math.log(u) < 0.5 * z * z + d - d * v + d * math.log(v):
            value = d * v
            break
    if shape < 1.0:
        value *= uniform(seed, t, particle, purpose, at + 255) ** (1.0 / shape)
    return value


@kernel
def hash_of(a, b):
    """64 random bits (uint64) that identify a pair of 64-bit words."""
    a, b = np.uint64(a), np.uint64(b)
    high, low, _, _ = philox(a & _LOW, a >> _HALF, b & _LOW, b >> _HALF, _W0, _W1)
    return high << _HALF | low


@kernel
def add_wrapping(a, b):
    """Add two uint64 modulo 2^64 (plain addition would warn where kernels run uncompiled)."""
    low = (a & _LOW) + (b & _LOW)
    high = (a >> _HALF) + (b >> _HALF) + (low >> _HALF)
    return (high & _LOW) << _HALF | (low & _LOW)


@uncounted
def draw(weight, n, u):
    """Draw one of the first n in proportion to their weights."""
    total = 0.0
    for k in range(n):
        total += weight[k]
    rest, chosen = u * total, 0
    for k in range(n):
        if weight[k] > 0.0:
            chosen = k
            rest -= weight[k]
            if rest < 0.0:
                break
    return chosen


@uncounted
def draw_log(log_weight, n, u):
    """Draw one of the first n by log weights; these become weights relative to the largest."""
    top = -np.inf
    for k in range(n):
        top = max(top, log_weight[k])
    one = math.exp(-top)
    for k in range(n):  # often nearly all are logs of 1
        log_weight[k] = math.exp(log_weight[k] - top) if log_weight[k] != 0.0 else one
    return draw(log_weight, n, u)
