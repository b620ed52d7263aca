"""Bayesian online change-point detection (Adams and MacKay 2007), the baseline for alarms.

Gaussian rows with unknown mean and variance (Normal-Gamma), a constant hazard. The posterior of the
run length is exact but for run lengths that have become less probable than 1e-8, which are dropped:
otherwise memory would grow with the stream. Written independently of the library.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

NEGLIGIBLE = 1e-8


def run_lengths(
    x: FloatArray,
    hazard: float = 0.01,
    *,
    mean: float = 0.0,
    kappa: float = 0.01,
    shape: float = 1.0,
    rate: float = 1.0,
) -> IntArray:
    """Most probable run length after every row, shape (N,); 0 where a regime has just begun.

    `x` has shape (N,), or (N, D) with independent columns that change together. A Python loop,
    O(run lengths kept) a row.
    """
    length = np.zeros(1, dtype=np.int64)
    prob = np.ones(1)
    rows = x.reshape(len(x), -1)
    first = np.ones((1, rows.shape[1]))
    m, k, a, b = (value * first for value in (mean, kappa, shape, rate))
    out = np.empty(len(x), dtype=np.int64)
    for t, value in enumerate(rows):
        scale = b * (k + 1) / (a * k)
        log_densities = gammaln(a + 0.5) - gammaln(a) - 0.5 * np.log(2 * np.pi * a * scale)
        log_densities -= (a + 0.5) * np.log1p((value - m) ** 2 / (2 * a * scale))
        log_t = log_densities.sum(axis=1)
        # The row belongs to the run that the state before it carries.
        weight = prob * np.exp(log_t - log_t.max())
        weight /= weight.sum()
        out[t] = length[weight.argmax()]
        b = b + 0.5 * k * (value - m) ** 2 / (k + 1)
        m, k, a = (k * m + value) / (k + 1), k + 1, a + 0.5
        keep = weight > NEGLIGIBLE
        prob = np.append(hazard, (1 - hazard) * weight[keep])
        length = np.append(0, length[keep] + 1)
        m, k, a, b = (
            np.concatenate([new * first, old[keep]])
            for new, old in ((mean, m), (kappa, k), (shape, a), (rate, b))
        )
    return out
