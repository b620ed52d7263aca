"""Rows one after the other, and the first rows at once by annealing.

Row by row the first combinations of dense causes become features of their own, and resampling
single rows does not take them apart. So a few particles learn the first rows under a prior of much
noise, in which there are few features, and are annealed from there to the given prior: annealed
importance sampling. Both ways estimate the evidence without bias, and so does their mean; all
particles compete, weighted by the evidence they found.

References
----------
Neal, "Annealed importance sampling", Statistics and Computing 2001.
"""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.compilation import entry_point
from streamddcrp.likelihoods.linear_gaussian import LinearGaussian
from streamddcrp.models.features.kernels.arrival import anneal, predict, rename, step_rows
from streamddcrp.models.features.kernels.slots import (
    ALL,
    LOG_EVIDENCE,
    N_ACTIVE,
    N_EVENTS,
    N_NAMED,
    N_OUTPUTS,
    N_REPORTED,
    N_SEEN,
)
from streamddcrp.models.features.state import (
    Config,
    Names,
    Particles,
    State,
    arrays_of,
    empty_state,
    state_from_arrays,
)
from streamddcrp.particles import optimal, uniform
from streamddcrp.particles.state import learn_rows
from streamddcrp.records import declared
from streamddcrp.typing import FloatArray, IntArray

JOIN = 1  # index of a random number
RUNS = 3  # particles that are annealed
LEVELS = 150  # priors on the way, for each row that an arrival resamples
MANY = 50  # rows from which on the levels become fewer
HOT = 4.0  # weight of the first prior of the noise, in rows: it holds the variance of all rows
WAY = ((0.0, 0.8, 1.0), (0.0, 0.6, 1.0))  # share of the levels; of the way, on the log scale


class Reported(NamedTuple):
    """Predictions of N rows."""

    out: FloatArray  # (N, 3) log predictive density, probability of a new feature, live features
    ids: IntArray  # (N, F) live features (-1 behind the last)
    probs: FloatArray  # (N, F) probability that the row has each


def nothing_reported(n: int) -> Reported:
    """Return what is reported of rows in warm-up."""
    return Reported(np.full((n, N_OUTPUTS), np.nan), np.full((n, 0), -1), np.zeros((n, 0)))


def joined(parts: list[Reported]) -> Reported:
    """Concatenate predictions with different numbers of features."""
    width = max(part.ids.shape[1] for part in parts)

    def wide(values: NDArray[Any], fill: int) -> NDArray[Any]:
        return np.pad(values, ((0, 0), (0, width - values.shape[1])), constant_values=fill)

    return Reported(
        np.concatenate([part.out for part in parts]),
        np.concatenate([wide(part.ids, -1) for part in parts]),
        np.concatenate([wide(part.probs, 0) for part in parts]),
    )


def _prepared(X: FloatArray) -> tuple[FloatArray, FloatArray, Reported]:
    """Return rows with 0 for what is missing, 1 where there is a value, and room for outputs."""
    n, seen = len(X), np.isfinite(X)
    ids = np.full((n, N_REPORTED), -1)
    reported = Reported(np.zeros((n, N_OUTPUTS)), ids, np.zeros((n, N_REPORTED)))
    return np.where(seen, X, 0.0), seen.astype(np.float64), reported


def _grown(state: State, config: Config) -> State:
    return state_from_arrays(config, arrays_of(state), more=2)


def step(config: Config, state: State, X: FloatArray, t: FloatArray) -> tuple[State, Reported]:
    """Predict and learn rows (N, D) in order, NaN where a value is missing, at times (N,).

    The state is updated in place, or replaced by a larger one; `Reported` has 64 columns of ids.
    """
    rows, seen, reported = _prepared(X)
    inputs = rows, seen, np.ascontiguousarray(t)
    return learn_rows(step_rows, config, state, _grown, inputs, reported), reported


def predict_rows(config: Config, state: State, X: FloatArray) -> tuple[Reported, FloatArray]:
    """Predict rows (N, D), each as if it came next; also return them without their noise (N, D)."""
    rows, seen, reported = _prepared(X)
    fit = np.empty(X.shape)
    entry_point(predict)(
        config, state.particles, state.names, state.counts, state.sums, state.scratch, rows, seen,
        *reported, fit,
    )  # fmt: skip
    return reported, fit


def start(
    config: Config,
    likelihood: LinearGaussian,
    X: FloatArray,
    t: FloatArray,
    baseline: float = 0.0,
    runs: int = RUNS,
    levels: int | None = None,
) -> State:
    """Return the state after the first rows (N, D), without gaps, N at most the window.

    ``likelihood``: of unknown noise; ``baseline``: as for `empty_state`. ``runs`` particles are
    annealed in ``levels`` steps, of N rows resampled each: by default `LEVELS` for each row that an
    arrival resamples.
    """
    state, _ = step(config, empty_state(config, likelihood, X.shape[1], baseline), X, t)
    if levels is None:
        levels = max(LEVELS * config.moves * MANY // max(len(X), MANY), 1)
    shapes, rates = cooling(likelihood, X, levels)
    hot = replace(likelihood, noise_shape=shapes[0], noise_rate=rates[0])
    few = config._replace(n_particles=runs)
    other, _ = step(few, empty_state(few, hot, X.shape[1], baseline), X, t)
    other = state_from_arrays(few, arrays_of(other), more=4)  # slots: nothing grows on the way
    log_weight = np.zeros(runs)
    entry_point(anneal)(
        few, other.particles, other.rows, other.counts, other.sums, other.scratch, shapes, rates,
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
    for field in declared(Particles):
        name = f"particles.{field.name}"
        both = [_widened(part[name], K, field.room, field.fill) for part in parts]
        merged[name] = np.concatenate(both)[chosen[:size]]
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
    entry_point(rename)(config, joined.particles, joined.names, joined.counts, joined.scratch, time)
    return joined


def _widened(values: NDArray[Any], K: int, axes: tuple[str, ...], fill: int) -> NDArray[Any]:
    """Return values of particles with ``K`` slots."""
    pads = [(0, K - n if axis == "K" else 0) for axis, n in zip(axes, values.shape, strict=True)]
    return np.pad(values, pads, constant_values=fill)
