"""One step of the filter, over any number of rows: grow where needed, call the kernel."""

import numpy as np

from streamddcrp.compilation import compiled, entry_point
from streamddcrp.contract import N_OUTPUTS
from streamddcrp.decay import Decay
from streamddcrp.models.ddcrp.filter_config import Config
from streamddcrp.models.ddcrp.filter_state import State, grown
from streamddcrp.models.ddcrp.kernels.filter import predict, step_rows
from streamddcrp.numerics import CALLER_GIVEN
from streamddcrp.particles.kernels.layout import FIRST, N_SEEN
from streamddcrp.typing import FloatArray

AT_ONCE = 1 << 18  # random numbers drawn in one piece, 2 MB


def uniforms(config: Config, first: int, n_rows: int) -> FloatArray:
    """Return the random numbers of arrivals ``first`` on, whatever the cutting into calls.

    Philox counts: arrival n owns the numbers from n times the row's length on.

    Returns
    -------
    ndarray of float64, shape (N, 4 ceil((1 + P U) / 4))
        U = 2 + 2 lag, or 1 without a lag.
    """
    blocks = _blocks(config)
    bits = np.random.Philox(key=config.seed, counter=first * blocks)
    return np.random.Generator(bits).random((n_rows, 4 * blocks))


def _blocks(config: Config) -> int:
    """Return how many blocks of four numbers, as Philox makes them, an arrival takes."""
    per_particle = 2 + 2 * config.lag if config.lag else 1
    return -(-(1 + config.n_particles * per_particle) // 4)


def given_weights(decay: Decay, config: Config, state: State, t: FloatArray) -> FloatArray:
    """Weights of links for the kernel where it does not evaluate the decay: column gap - 1.

    Returns
    -------
    ndarray of float64, shape (1, W) or (N, W)
        One row for all arrivals where distances are numbers of arrivals.
    """
    if not (config.clocked and config.decay_code == CALLER_GIVEN):
        return config.by_gap[None, :]
    first, seen = int(state.counts[FIRST]), int(state.counts[N_SEEN])
    past = state.ring.t[np.arange(first, seen) & (len(state.ring.t) - 1)]
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
    """Predict and learn rows in order; the state is updated in place, or replaced by a larger one.

    Parameters
    ----------
    X : ndarray of float64, shape (N, D)
    t : ndarray of float64, shape (N,)
    given : ndarray of float64
        From `given_weights`.

    Returns
    -------
    state : State
    out : ndarray of float64, shape (N, 6)
    """
    with compiled(step_rows) as needed:
        if needed and len(X):
            step(config, state, X[:0], t[:0], given)
    X, t = np.ascontiguousarray(X), np.ascontiguousarray(t)
    out = np.empty((len(X), N_OUTPUTS))
    kernel = entry_point(step_rows)
    piece = max(1, AT_ONCE // (4 * _blocks(config)))
    for a in range(0, max(len(X), 1), piece):
        rows = slice(a, min(a + piece, len(X)))
        weights = given if len(given) == 1 else given[rows]
        drawn = uniforms(config, int(state.counts[N_SEEN]), rows.stop - a)
        done = 0
        while True:
            done = kernel(
                config, state.particles, state.tables, state.ring, state.recent, state.names,
                state.events, state.counts, state.sums, state.scratch, X[rows], t[rows], drawn,
                weights, done, out[rows],
            )  # fmt: skip
            if done == rows.stop - a:
                break
            state = grown(state, config)
    return state, out


def predict_row(
    config: Config, state: State, x: FloatArray, t: float, given: FloatArray
) -> FloatArray:
    """Predict one row and change nothing; leaves the tables' probabilities in scratch.

    Returns
    -------
    ndarray of float64, shape (6,)
    """
    out = np.empty(N_OUTPUTS)
    entry_point(predict)(
        config, state.particles, state.tables, state.ring, state.recent, state.names, state.counts,
        state.sums, state.scratch, np.ascontiguousarray(x), t, given, 0, out,
    )  # fmt: skip
    return out
