"""Synthetic data: the experiments of Bartunov and Vetrov (2014), drift, overlapping clusters.

Every generator returns ``(X, y)``: rows in arrival order, shape (N, D), and the integer label of
the component that made each of them, shape (N,); those that say so, then the true parameters.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pyarrow import parquet

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

CORNERS = np.array([(0, 0), (-1, -1), (-1, 1), (1, -1), (1, 1)], dtype=np.float64)
STATES, SWITCH_RATE, JITTER, SMALLEST_PRECISION = 5, 0.01, 5, 0.05  # of `regimes`
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


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


def rare_switches(
    n: int = 2000, seed: int = 0, *, n_states: int = 5, jitter: int = 3
) -> tuple[FloatArray, IntArray, FloatArray, FloatArray]:
    """Regimes that last: `regimes` with about 2 log10(n)^2 switches in all (section 5.3), 1-D.

    Precisions are cut off at 0.05 instead of drawn again. Returns also the means and the standard
    deviations of the states, shapes (n_states,).
    """
    rng = np.random.default_rng(seed)
    n_switches = max(10, round(10 * np.log10(n) ** 2 / 5))
    mean = 5.0 * np.arange(1, n_states + 1)
    sd = 1 / np.sqrt(np.maximum(rng.gamma(0.8, 1.1, n_states), 0.05))
    y = np.empty(n, dtype=np.int64)
    switches = []
    state = rng.integers(n_states)
    for t in range(n):
        if t and rng.random() < n_switches / n:
            state = (state + rng.integers(1, n_states)) % n_states
            switches.append(t)
        y[t] = state
    order = np.arange(n)
    for place in switches:
        near = slice(max(0, place - jitter), min(n, place + jitter))
        order[near] = rng.permutation(order[near])
    y = y[order]
    return (mean[y] + sd[y] * rng.standard_normal(n))[:, None], y, mean, sd


def drifting_gaussians(
    n: int = 2000,
    seed: int = 0,
    *,
    active: int = 5,
    dim: int = 2,
    step: float = 0.02,
    life: float = 2000.0,
    box: float = 10.0,
) -> tuple[FloatArray, IntArray, FloatArray, IntArray]:
    """``active`` unit Gaussians at a time, whose means walk at random; some die, others are born.

    A component lives ``life`` rows on average; at its death one with a new label is born somewhere
    in the box [-box, box]^dim. Returns also, for every row, the means of the components alive,
    shape (N, active, dim), and their labels, shape (N, active).
    """
    rng = np.random.default_rng(seed)
    mean = rng.uniform(-box, box, (active, dim))
    alive = np.arange(active)
    n_born = active
    X, y = np.empty((n, dim)), np.empty(n, dtype=np.int64)
    means, labels = np.empty((n, active, dim)), np.empty((n, active), dtype=np.int64)
    for t in range(n):
        mean = np.clip(mean + step * rng.standard_normal(mean.shape), -box, box)
        for k in np.flatnonzero(rng.random(active) < 1 / life):
            mean[k], alive[k], n_born = rng.uniform(-box, box, dim), n_born, n_born + 1
        k = rng.integers(active)
        X[t], y[t] = mean[k] + rng.standard_normal(dim), alive[k]
        means[t], labels[t] = mean, alive
    return X, y, means, labels


def scattered_gaussians(
    n: int = 10_000, seed: int = 0, *, n_clusters: int = 20, dim: int = 2, box: float = 20.0
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Unit Gaussians with means uniform in [-box, box]^dim, rows in no order; in 2-D many overlap.

    Returns also the means, shape (n_clusters, dim).
    """
    rng = np.random.default_rng(seed)
    mean = rng.uniform(-box, box, (n_clusters, dim))
    y = rng.integers(n_clusters, size=n)
    return mean[y] + rng.standard_normal((n, dim)), y, mean


def square_of_gaussians(n: int = 4000, seed: int = 0) -> tuple[FloatArray, IntArray, FloatArray]:
    """Four unit Gaussians at the corners of a square 3 wide, rows in no order; and their means."""
    rng = np.random.default_rng(seed)
    mean = np.array([(0, 0), (3, 0), (0, 3), (3, 3)], dtype=np.float64)
    y = rng.integers(4, size=n)
    return mean[y] + rng.standard_normal((n, 2)), y, mean


def moving_gaussians(
    n: int = 12_000, seed: int = 0, *, apart: float = 5.0, speed: float = 0.002
) -> tuple[FloatArray, IntArray, FloatArray]:
    """Three unit Gaussians at the corners of a triangle that moves on in one direction, and back.

    Direction and triangle are turned at random. Returns also the means of all rows, (N, 3, 2).
    """
    rng = np.random.default_rng(seed)
    angle, way = rng.uniform(0.0, 2.0 * np.pi, 2)
    turns = angle + 2.0 * np.pi * np.arange(3) / 3.0
    corners = apart / np.sqrt(3.0) * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    steps = speed * np.minimum(np.arange(n), n - np.arange(n))
    means = corners + steps[:, None, None] * np.array([np.cos(way), np.sin(way)])
    y = rng.integers(0, 3, n)
    return means[np.arange(n), y] + rng.standard_normal((n, 2)), y, means


def balley() -> FloatArray | None:
    """The 400 demonstration points of the paper's authors, or None where they are not stored."""
    path = DATA / "balley" / "balley.parquet"
    if not path.exists():
        return None
    table = parquet.read_table(path, columns=["x", "y"])
    return np.column_stack([table[c].to_numpy() for c in ("x", "y")]).astype(np.float64)
