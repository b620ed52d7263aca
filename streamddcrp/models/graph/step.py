"""One step of the sampler, over any number of rows: grow where needed, call the kernel."""

import numpy as np

from streamddcrp.compilation import compiled, entry_point
from streamddcrp.contract import N_OUTPUTS
from streamddcrp.models.graph.config import Config
from streamddcrp.models.graph.kernels.arrival import predict_row as _predict
from streamddcrp.models.graph.kernels.arrival import step_rows
from streamddcrp.models.graph.kernels.layout import N_BEST
from streamddcrp.models.graph.state import State, grown
from streamddcrp.particles.kernels.layout import LOG_EVIDENCE
from streamddcrp.typing import FloatArray, IntArray

NO_PARENTS = np.empty(0, np.int64)


def step(
    config: Config,
    state: State,
    X: FloatArray,
    t: FloatArray,
    parents: IntArray = NO_PARENTS,
    offsets: IntArray = NO_PARENTS,
) -> tuple[State, FloatArray]:
    """Predict and learn rows in order; the state is updated in place, or replaced by a larger one.

    Parameters
    ----------
    X : ndarray of float64, shape (N, D)
    t : ndarray of float64, shape (N,)
        Times, for the events.
    parents, offsets : ndarray of int64, shape (E,) and (N + 1,)
        Where parents are given: those of row b from ``offsets[b]`` on, checked and noted by
        `note_parents`.

    Returns
    -------
    state : State
    out : ndarray of float64, shape (N, 6)
    """
    with compiled(step_rows) as needed:
        if needed and len(X):
            step(config, state, X[:0], t[:0], parents[:0], offsets[:0])
    X, t = np.ascontiguousarray(X), np.ascontiguousarray(t)
    out = np.empty((len(X), N_OUTPUTS))
    kernel = entry_point(step_rows)
    done = 0
    while True:
        done = kernel(
            config, state.particles, state.pool, state.memo, state.grid, state.names, state.recent,
            state.events, state.counts, state.sums, state.children, state.scratch, X, t,
             parents, offsets, done, out,
        )  # fmt: skip
        if done == len(X):
            break
        state = grown(state, config)
    if config.scheme == N_BEST:
        state.sums[LOG_EVIDENCE] = np.nan
    return state, out


def predict_row(
    config: Config, state: State, x: FloatArray, parents: IntArray = NO_PARENTS
) -> FloatArray:
    """Predict one row; leaves the tables' probabilities in ``state.scratch.at_name``.

    Returns
    -------
    ndarray of float64, shape (6,)
    """
    out = np.empty(N_OUTPUTS)
    entry_point(_predict)(
        config, state.particles, state.pool, state.memo, state.grid, state.names, state.counts,
        state.children, state.scratch, np.ascontiguousarray(x), parents, out,
    )  # fmt: skip
    return out
