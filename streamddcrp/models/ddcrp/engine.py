"""Steps of the particle filter."""

import math

import numpy as np

from streamddcrp.contract import N_OUTPUTS
from streamddcrp.decay import Decay
from streamddcrp.models.ddcrp.kernels.filter import step_rows
from streamddcrp.models.ddcrp.state import Config, State, arrays_of, in_ring, state_from_arrays
from streamddcrp.numerics import CALLER_GIVEN
from streamddcrp.particles.kernels.names import N_SEEN
from streamddcrp.particles.state import learn_rows
from streamddcrp.typing import FloatArray

AT_ONCE = 1 << 18  # random numbers drawn in one piece, 2 MB


def uniforms(config: Config, first: int, n_rows: int) -> FloatArray:
    """Return counter-based random numbers from arrival ``first`` on, (N, 4 ceil((1 + P U) / 4)).

    U = 2 with recall, else 1. Philox: arrival n owns the numbers from n row lengths on.
    """
    blocks = _blocks(config)
    bits = np.random.Philox(key=config.seed, counter=first * blocks)
    return np.random.Generator(bits).random((n_rows, 4 * blocks))


def _blocks(config: Config) -> int:
    """Return an arrival's number of Philox blocks of four numbers."""
    return -(-(1 + config.n_particles * (2 if config.gamma < math.inf else 1)) // 4)


def given_weights(decay: Decay, config: Config, state: State, t: FloatArray) -> FloatArray:
    """Return weights (N, W) of links by gap - 1, one row if distances are of indices."""
    if not (config.clocked and config.decay_code == CALLER_GIVEN):
        return config.by_gap[None, :]
    past = state.ring.t[in_ring(state)]
    times = np.concatenate([past, t])
    reached = np.searchsorted(times, t - config.reach, side="left")
    width = int(np.max(np.arange(len(past), len(times)) - reached, initial=1))
    earlier = np.concatenate([np.full(width, -np.inf), times])
    weights = np.zeros((len(t), width))
    for gap in range(1, width + 1):
        distance = t - earlier[len(past) + width - gap : len(times) + width - gap]
        near = distance <= config.reach
        weights[near, gap - 1] = decay.weight(distance[near])
    return weights


def step(
    config: Config, state: State, X: FloatArray, t: FloatArray, given: FloatArray
) -> tuple[State, FloatArray]:
    """Learn rows (N, D); return the state, perhaps a larger one, and outputs (N, 6)."""
    X, t = np.ascontiguousarray(X), np.ascontiguousarray(t)
    out = np.empty((len(X), N_OUTPUTS))
    piece = max(1, AT_ONCE // (4 * _blocks(config)))
    for a in range(0, max(len(X), 1), piece):
        rows = slice(a, min(a + piece, len(X)))
        weights = given if len(given) == 1 else given[rows]
        drawn = uniforms(config, int(state.counts[N_SEEN]), rows.stop - a)
        inputs = X[rows], t[rows], drawn, weights
        state = learn_rows(step_rows, config, state, _grown, inputs, [out[rows]])
    return state, out


def _grown(state: State, config: Config) -> State:
    return state_from_arrays(config, arrays_of(state))
