"""The first rows at once: features found by annealing compete with those found row by row.

Row by row the first combinations of dense causes become features of their own, and single rows
drawn anew do not take them apart. So a few particles learn the first rows under a prior of much
noise, in which there are few features, and are led from there to the prior that is meant: annealed
importance sampling. Both ways estimate the evidence without bias, and so does their mean; all
particles compete, weighted by the evidence they found.

References
----------
Neal, "Annealed importance sampling", Statistics and Computing 2001.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamddcrp.compilation import entry_point
from streamddcrp.likelihoods.linear_gaussian import LinearGaussian
from streamddcrp.models.features.config import Config
from streamddcrp.models.features.kernels.anneal import anneal, name_anew
from streamddcrp.models.features.kernels.layout import (
    ALL,
    LOG_EVIDENCE,
    N_ACTIVE,
    N_EVENTS,
    N_NAMED,
    N_SEEN,
)
from streamddcrp.models.features.state import (
    SLOTTED,
    Names,
    Particles,
    State,
    arrays_of,
    empty_state,
    state_from_arrays,
)
from streamddcrp.models.features.step import step
from streamddcrp.particles import optimal, uniform
from streamddcrp.typing import FloatArray

JOIN = 1  # index of a random number
RUNS = 3  # particles that are annealed
LEVELS = 150  # priors on the way, for each row that an arrival draws anew
MANY = 50  # rows from which on the levels become fewer
HOT = 4.0  # weight of the first prior of the noise, in rows: it holds the variance of all rows
WAY = ((0.0, 0.8, 1.0), (0.0, 0.6, 1.0))  # share of the levels; of the way, on the log scale


def start(
    config: Config,
    likelihood: LinearGaussian,
    X: FloatArray,
    t: FloatArray,
    baseline: float = 0.0,
    runs: int = RUNS,
    levels: int | None = None,
) -> State:
    """Return the state after the first rows.

    Parameters
    ----------
    likelihood : LinearGaussian
        Of unknown noise.
    X : ndarray of float64, shape (N, D)
        Without gaps, N at most the window.
    t : ndarray of float64, shape (N,)
        Times, for the record of events.
    baseline : float
        As for `empty_state`.
    runs, levels : int
        Particles that are annealed, and in how many steps, of N rows drawn anew each. Default:
        three particles, 150 steps for each row that an arrival draws anew.
    """
    state, _ = step(config, empty_state(config, likelihood, X.shape[1], baseline), X, t)
    if levels is None:
        levels = max(LEVELS * config.n_redrawn * MANY // max(len(X), MANY), 1)
    shapes, rates = cooling(likelihood, X, levels)
    hot = replace(likelihood, noise_shape=shapes[0], noise_rate=rates[0])
    few = config._replace(n_particles=runs)
    other, _ = step(few, empty_state(few, hot, X.shape[1], baseline), X, t)
    other = state_from_arrays(few, arrays_of(other), more=4)  # slots: nothing grows on the way
    log_weight = np.zeros(runs)
    entry_point(anneal)(
        few, other.particles, other.rows, other.counts, other.sums, other.work, shapes, rates,
        log_weight,
    )  # fmt: skip
    return _joined(config, state, other, log_weight, float(t[-1]))


def cooling(likelihood: LinearGaussian, X: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
    """Return shapes and rates of the noise variance's prior, n steps from much noise to its own.

    The first one weighs as much as ``HOT`` times the rows (N, D), and has their variance. Most of
    the steps go where features appear: while the prior weighs a hundredth of the rows or more.
    """
    shape = HOT * 0.5 * X.size
    way = np.interp(np.linspace(0.0, 1.0, n + 1), *WAY)
    rate = shape * max(float(X.var()), 1e-6)
    return shape ** (1.0 - way) * likelihood.shape**way, rate ** (1.0 - way) * likelihood.rate**way


def _joined(config: Config, state: State, other: State, log_gain: FloatArray, time: float) -> State:
    """Return a state of the particles of both, resampled, with the mean of both evidences."""
    parts = [arrays_of(state), arrays_of(other)]
    n = [int(part["counts"][N_ACTIVE]) for part in parts]
    logs = np.concatenate(
        [np.log(part["particles.weight"]) + part["sums"][LOG_EVIDENCE] for part in parts]
    )
    logs[n[0] :] += log_gain[: n[1]]
    top = logs.max()
    weight = np.exp(logs - top)
    total = weight.sum()
    chosen, kept = np.zeros(config.n_particles, np.int64), np.zeros(config.n_particles)
    u = uniform(config.seed, int(state.counts[N_SEEN]), 0, ALL, JOIN)
    size = optimal(weight / total, len(weight), config.n_particles, u, chosen, kept)
    K = max(part["particles.n_owners"].shape[1] for part in parts)
    merged = parts[0]
    for name in Particles._fields:
        both = [_widened(part[f"particles.{name}"], K, name) for part in parts]
        merged[f"particles.{name}"] = np.concatenate(both)[chosen[:size]]
    merged["particles.weight"] = kept[:size] / kept[:size].sum()
    n_slots = int(merged["n_slots"])
    while n_slots < K:
        n_slots *= 2
    merged["n_slots"] = np.array(n_slots)
    merged["counts"][[N_ACTIVE, N_NAMED, N_EVENTS]] = size, 0, 0
    merged["sums"][LOG_EVIDENCE] = top + math.log(0.5 * total)
    for name in Names._fields:
        merged.pop(f"names.{name}", None)
    joined = state_from_arrays(config, merged)
    entry_point(name_anew)(config, joined.particles, joined.names, joined.counts, joined.work, time)
    return joined


def _widened(values: NDArray[Any], n_slots: int, name: str) -> NDArray[Any]:
    """Return values of particles with so many slots."""
    if name not in SLOTTED:
        return values
    more = n_slots - values.shape[1]
    pads = [(0, 0), (0, more), *[(0, more if name == "cov" else 0)] * (values.ndim - 2)]
    return np.pad(values, pads, constant_values=-1 if name == "name" else 0)
