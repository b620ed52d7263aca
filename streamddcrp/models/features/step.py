"""One step of the filter, over any number of rows: grow where needed, call the kernel."""

import numpy as np

from streamddcrp.compilation import compiled, entry_point
from streamddcrp.models.features.config import Config
from streamddcrp.models.features.kernels.arrival import predict, step_rows
from streamddcrp.models.features.kernels.layout import N_OUTPUTS, N_TOLD
from streamddcrp.models.features.state import State, arrays_of, state_from_arrays
from streamddcrp.typing import FloatArray, IntArray

Told = tuple[FloatArray, IntArray, FloatArray]


def _split(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the rows with 0 for what is missing, and 1 where there is a value."""
    seen = np.isfinite(X)
    return np.where(seen, X, 0.0), seen.astype(np.float64)


def _outputs(n: int) -> Told:
    return np.zeros((n, N_OUTPUTS)), np.full((n, N_TOLD), -1), np.zeros((n, N_TOLD))


def step(config: Config, state: State, X: FloatArray, t: FloatArray) -> tuple[State, Told]:
    """Predict and learn rows in order; the state is updated in place, or replaced by a larger one.

    Parameters
    ----------
    X : ndarray of float64, shape (N, D)
        NaN where a value is missing.
    t : ndarray of float64, shape (N,)
        Times, for the record of events.

    Returns
    -------
    state : State
    out : ndarray of float64, shape (N, 3)
        Log predictive density, probability of a new feature, number of live features.
    ids, probs : ndarray, shape (N, 64)
        Live features (-1 behind the last) and the probability that the row has each.
    """
    with compiled(step_rows) as needed:
        if needed and len(X):
            step(config, state, X[:0], t[:0])
    rows, seen = _split(X)
    t = np.ascontiguousarray(t)
    out, ids, probs = _outputs(len(X))
    kernel, done = entry_point(step_rows), 0
    while True:
        done = kernel(
            config, state.particles, state.rows, state.names, state.counts, state.sums, state.work,
            rows, seen, t, done, out, ids, probs,
        )  # fmt: skip
        if done == len(X):
            return state, (out, ids, probs)
        state = state_from_arrays(config, arrays_of(state), more=2)


def predict_rows(config: Config, state: State, X: FloatArray) -> tuple[Told, FloatArray]:
    """Predict rows (N, D), each as if it came next, and change nothing.

    Returns
    -------
    told : tuple
        As from `step`.
    fit : ndarray of float64, shape (N, D)
        The rows without their noise.
    """
    rows, seen = _split(X)
    out, ids, probs = _outputs(len(X))
    fit = np.empty(X.shape)
    entry_point(predict)(
        config, state.particles, state.names, state.counts, state.sums, state.work, rows, seen,
        out, ids, probs, fit,
    )  # fmt: skip
    return (out, ids, probs), fit
