"""The synthetic data of Bartunov and Vetrov (2014).

Every generator returns ``(X, y)``: rows in arrival order, shape (N, D), and the integer label of
the component that made each of them, shape (N,).
"""

import numpy as np

from streamddcrp.typing import FloatArray, IntArray

CORNERS = np.array([(0, 0), (-1, -1), (-1, 1), (1, -1), (1, 1)], dtype=np.float64)
STATES, SWITCH_RATE, JITTER, SMALLEST_PRECISION = 5, 0.01, 5, 0.05  # of `regimes`


def five_gaussians(
    n: int = 200, radius: float = 3.0, seed: int = 0, *, shuffled: bool = False
) -> tuple[FloatArray, IntArray]:
    """Five equally likely 2-D unit Gaussians at (0, 0) and (+-radius, +-radius) (section 5.2).

    Rows come component by component, as in the paper's training data, or ``shuffled``.
    """
    rng = np.random.default_rng(seed)
    y = np.sort(np.arange(n, dtype=np.int64) % len(CORNERS))
    if shuffled:
        y = rng.permutation(y)
    return radius * CORNERS[y] + rng.standard_normal((n, 2)), y


def regimes(n: int = 1000, seed: int = 0) -> tuple[FloatArray, IntArray]:
    """One active state at a time, switching at random (section 5.3), 1-D.

    State k = 1..5 has mean 5 k and precision Gamma(shape 0.8, scale 1.1), drawn again while below
    0.05 (such a state would cover all others). Each step leaves the state with probability 0.01;
    the rows within 5 places of a switch are permuted.
    """
    rng = np.random.default_rng(seed)
    mean = 5.0 * np.arange(1, STATES + 1)
    precision = rng.gamma(0.8, 1.1, STATES)
    while np.any(low := precision < SMALLEST_PRECISION):
        precision[low] = rng.gamma(0.8, 1.1, int(low.sum()))
    switches = rng.random(n) < SWITCH_RATE
    switches[0] = False
    jumps = rng.integers(1, STATES, n)
    y = (rng.integers(STATES) + np.cumsum(np.where(switches, jumps, 0))) % STATES
    for place in np.flatnonzero(switches):
        near = slice(max(0, place - JITTER), min(n, place + JITTER))
        y[near] = rng.permutation(y[near])
    X = mean[y] + rng.standard_normal(n) / np.sqrt(precision[y])
    return X[:, None], y.astype(np.int64)
