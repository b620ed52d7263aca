"""One step of the stream, over any number of rows: grow where needed, call the kernel."""

import logging
import math

import numpy as np

from streamddcrp.compilation import compiled, entry_point
from streamddcrp.contract import N_OUTPUTS
from streamddcrp.decay import Decay
from streamddcrp.models.seqddcrp.config import Config
from streamddcrp.models.seqddcrp.kernels.arrival import predict, step_rows
from streamddcrp.models.seqddcrp.kernels.layout import N_GROUPS, N_ROWS, N_SEEN, N_TABLES
from streamddcrp.models.seqddcrp.kernels.state import objective
from streamddcrp.models.seqddcrp.state import State, grown
from streamddcrp.numerics import CALLER_GIVEN, EXPONENTIAL, NO_DECAY
from streamddcrp.typing import FloatArray

_log = logging.getLogger(__name__)
_NOTHING = np.empty((1, 0))
_MOST_HALO = 16  # windows


def halo_of(decay: Decay, alpha: float, window: int, *, clocked: bool) -> tuple[bool, int]:
    """Say how evicted customers are kept: in tied groups, or alone and how many.

    Under no decay and exponential decay the weights of a group's members keep their proportions, so
    ties are exact for ever and nothing else is needed. Under any other decay an evicted customer
    stays a link target of its own while it is within reach: to the horizon of the decay, at most
    16 windows; with a clock, where the horizon is no number of customers, 4 windows.
    """
    if decay.code in (NO_DECAY, EXPONENTIAL):
        return True, 0
    if clocked:
        return False, 4 * window
    share = 1e-12 * alpha / float(decay.weight(0.0))
    horizon = decay.horizon(min(max(share, 1e-300), 0.5))
    halo = math.ceil(min(horizon, _MOST_HALO * window))
    if halo < horizon:
        cut = float(decay.weight(np.array([float(halo)]))[0])
        if cut > 1e-6 * alpha:
            _log.warning(
                "links reach %d customers (%d windows) back, where the decay still weighs %.3g; "
                "a larger window or a decay that falls faster loses less",
                halo, _MOST_HALO, cut,
            )  # fmt: skip
    return False, halo


def given_weights(
    decay: Decay, config: Config, state: State, t: FloatArray, *, clocked: bool
) -> FloatArray:
    """Log weights for the kernel where it does not know the decay: column gap - 1.

    Returns
    -------
    ndarray of float64, shape (1, M) or (N, M)
        One row for all arrivals where the distance is the gap itself.
    """
    if config.decay_code != CALLER_GIVEN:
        return _NOTHING
    reach = config.window + config.sweep_every + max(config.halo, 1) + config.sweep_every
    if not clocked:
        return np.ascontiguousarray(decay.log_weight(np.arange(1.0, reach + 1.0))[None, :])
    w, n_groups = int(state.counts[N_ROWS]), int(state.counts[N_GROUPS])
    seen = int(state.counts[N_SEEN])
    past = np.full(reach, np.nan)
    past[reach - w :] = state.rows.t[:w]
    gaps = seen - state.groups.arrival[:n_groups]
    past[reach - gaps] = state.groups.t[:n_groups]
    earlier = np.lib.stride_tricks.sliding_window_view(np.concatenate([past, t[:-1]]), reach)
    distance = t[:, None] - earlier[:, ::-1]
    there = ~np.isnan(distance)
    weights = np.full(distance.shape, -np.inf)
    weights[there] = decay.log_weight(distance[there])
    return weights


def step(config: Config, state: State, X: FloatArray, t: FloatArray, given: FloatArray) -> tuple[
    State, FloatArray
]:  # fmt: skip
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
    X, t, given = np.ascontiguousarray(X), np.ascontiguousarray(t), np.ascontiguousarray(given)
    out = np.empty((len(X), N_OUTPUTS))
    kernel = entry_point(step_rows)
    done = 0
    while True:
        done = kernel(
            config, state.rows, state.groups, state.atoms, state.table, state.events, state.counts,
            state.sums, state.scratch, X, t, given, done, out,
        )  # fmt: skip
        if done == len(X):
            return state, out
        state = grown(state, config, 2 * len(state.table.ids))


def predict_row(config: Config, state: State, x: FloatArray, t: float, given: FloatArray) -> tuple[
    FloatArray, FloatArray
]:  # fmt: skip
    """Predict one row and change nothing.

    Returns
    -------
    out : ndarray of float64, shape (6,)
    probs : ndarray of float64, shape (K,)
        Probability of each live column; what is missing to 1 is that of a new table.
    """
    out = np.empty(N_OUTPUTS)
    entry_point(predict)(
        config, state.rows, state.groups, state.atoms, state.table, state.counts, state.sums,
        state.scratch, np.ascontiguousarray(x), t, given, 0, out,
    )  # fmt: skip
    return out, state.scratch.weight[: state.counts[N_TABLES]].copy()


def bound(config: Config, state: State) -> float:
    """Bound on the log evidence of everything learned so far."""
    return float(
        objective(
            config, state.rows, state.atoms, state.table, state.counts, state.sums, state.scratch
        )
    )
