"""One step of the sampler for groups, over any number of rows."""

import numpy as np

from streamddcrp.compilation import compiled, entry_point
from streamddcrp.contract import N_OUTPUTS
from streamddcrp.models.graph.group_state import Config, State, grown
from streamddcrp.models.graph.kernels.group import predict_row as _predict
from streamddcrp.models.graph.kernels.group import step_rows
from streamddcrp.typing import FloatArray, IntArray


def step(
    config: Config, state: State, X: FloatArray, t: FloatArray, group: IntArray, node: IntArray
) -> tuple[State, FloatArray]:
    """Predict and learn rows in order; the state is updated in place, or replaced by a larger one.

    Parameters
    ----------
    X : ndarray of float64, shape (N, D)
    t : ndarray of float64, shape (N,)
        Times, for the events.
    group : ndarray of int64, shape (N,)
        Numbers of groups, new ones in the order of their first rows.
    node : ndarray of int64, shape (>= groups,)
        On which each group hangs: 0 the root; else new ones in the order of their first rows.

    Returns
    -------
    state : State
    out : ndarray of float64, shape (N, 6)
    """
    with compiled(step_rows) as needed:
        if needed and len(X):
            step(config, state, X[:0], t[:0], group[:0], node)
    X, t = np.ascontiguousarray(X), np.ascontiguousarray(t)
    if len(node) > len(state.groups.node) or node.max(initial=0) >= state.particles.aux.shape[1]:
        state = grown(state, config, int(node.max(initial=0)) + 1, len(node))
    state.groups.node[: len(node)] = node
    out = np.empty((len(X), N_OUTPUTS))
    kernel = entry_point(step_rows)
    done = 0
    while True:
        done = kernel(
            config, state.particles, state.pool, state.memo, state.groups, state.names,
            state.recent, state.events, state.counts, state.sums, state.children, state.scratch, X,
            t, group, done, out,
        )  # fmt: skip
        if done == len(X):
            return state, out
        state = grown(state, config)


def predict_row(config: Config, state: State, x: FloatArray, group: int, node: int) -> FloatArray:
    """Predict one row; leaves the tables' probabilities in ``state.scratch.at_name``.

    ``group`` -1: without rows so far; ``node`` -1: without rows so far, below the root.
    """
    out = np.empty(N_OUTPUTS)
    share = config.n_node / (config.alpha + config.n_node) if node < 0 else 1.0
    entry_point(_predict)(
        config, state.particles, state.pool, state.memo, state.groups, state.names, state.counts,
        state.children, state.scratch, np.ascontiguousarray(x), group,
        max(node, 0), share, out,
    )  # fmt: skip
    return out
