"""Labels by the true parameters: what no learner can be expected to beat."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def sticky_filter(X: FloatArray, y: IntArray, mean: FloatArray, sd: FloatArray) -> IntArray:
    """Causal labels of a chain that stays in its state with the true mean frequency, shape (N,).

    Rows are 1-D Gaussian given the state; `mean` and `sd` have shape (K,).
    """
    log_density = -0.5 * ((X - mean) / sd) ** 2 - np.log(sd)
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    stay = float(np.mean(y[1:] == y[:-1]))
    move = (1 - stay) / (len(mean) - 1)
    prob = np.full(len(mean), 1 / len(mean))
    out = np.empty(len(X), dtype=np.int64)
    for t, row in enumerate(density):
        prob = (move + (stay - move) * prob) * row
        prob /= prob.sum()
        out[t] = prob.argmax()
    return out


def nearest(X: FloatArray, mean: FloatArray) -> IntArray:
    """Index of the nearest mean; `mean` is (K, D), or (N, K, D) where the means move."""
    out: IntArray = ((X[:, None, :] - mean) ** 2).sum(axis=2).argmin(axis=1)
    return out
