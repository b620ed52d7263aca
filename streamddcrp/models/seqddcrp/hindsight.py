"""What the rows of the window tell in hindsight: their tables, and when a regime began."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from streamddcrp.compilation import entry_point
from streamddcrp.likelihoods.kernels.families import posteriors, stats_of_rows
from streamddcrp.models.seqddcrp.engine import Engine
from streamddcrp.models.seqddcrp.kernels import layout
from streamddcrp.models.seqddcrp.kernels.known import LASTING
from streamddcrp.models.seqddcrp.kernels.path import most_probable_path
from streamddcrp.typing import FloatArray, IntArray

AWAY = 4  # rows elsewhere that end a stay
LEVEL = 0.95


def path_in_window(engine: Engine) -> IntArray:
    """Return the column of each row in the window, oldest first."""
    state = engine.state
    n_rows = int(state.counts[layout.N_ROWS])
    path = np.empty(n_rows, np.int64)
    if n_rows:
        entry_point(most_probable_path)(
            engine.config, state.rows, state.atoms, state.table, state.counts, state.sums,
            state.scratch, np.empty((n_rows, state.n_tables), np.int64), path,
        )  # fmt: skip
    return path


def began(engine: Engine, label: int, index: int) -> tuple[float, float] | None:
    """Return between which times lies, with probability .95, the first row of a regime.

    ``index``: a row about which it began. None where that, or all before it, has left the window,
    no row there is the regime's by now, or the regime had been there for 32 rows. Equation (10) of
    ``docs/math/states_over_tables.md``; O(W P).
    """
    config, state = engine.config, engine.state
    one, n_rows = engine.column(label), int(state.counts[layout.N_ROWS])
    at = index - int(state.counts[layout.N_SEEN]) + n_rows
    if one is None or not 0 <= at < n_rows:
        return None
    path = path_in_window(engine)
    mine = np.flatnonzero(path == one)
    if not len(mine):
        return None
    told, at = at, int(mine[np.argmin(np.abs(mine - at))])
    first = at + 1 - _stay(path[at::-1] == one)
    if first == 0:
        return None
    other = int(np.bincount(path[first - AWAY : first]).argmax())
    start = first - _stay(path[first - 1 :: -1] == other)
    end = at + _stay(path[at:] == one)
    rows, two = state.rows, [other, one]
    stats = np.empty((n_rows, state.table.stats.shape[1]))
    stats_of_rows(config.family, config.hyper, rows.x[:n_rows], stats)
    away = np.r_[:start, end:n_rows]
    known = state.table.frozen[two] + rows.probs[two][:, away] @ stats[away]
    there = rows.probs[two, start:end].sum(axis=0)[:, None] * stats[start:end]
    before = np.vstack([np.zeros_like(stats[:1]), np.cumsum(there, axis=0)])
    both = np.concatenate([known[0] + before, known[1] + (before[-1] - before)])
    post = np.empty((len(both), state.table.post.shape[1]))
    posteriors(config.family, config.hyper, both, len(both), post)
    low, high = shortest(softmax(post[:, 0].reshape(2, -1).sum(axis=0))[: end - start], LEVEL)
    if start + high < told - LASTING:
        return None
    clock = rows.clock[start:end]
    return float(clock[low]), float(clock[high])


def _stay(here: NDArray[np.bool_]) -> int:
    """Return how many rows come before the first `AWAY` that are not here."""
    ends = np.convolve(~here, np.ones(AWAY), "valid") > AWAY - 0.5 if len(here) >= AWAY else here
    return int(ends.argmax()) if len(here) >= AWAY and ends.any() else len(here)


def shortest(p: FloatArray, level: float) -> tuple[int, int]:
    """Return the first and last place of the shortest interval that holds a share of ``p``.

    Examples
    --------
    >>> shortest(np.array([0.02, 0.5, 0.46, 0.02]), 0.95)
    (1, 2)
    """
    mass = np.concatenate([[0.0], np.cumsum(p)]) / p.sum()
    end = np.searchsorted(mass, mass[:-1] + level)
    length = np.where(end < len(mass), end - np.arange(len(p)), np.inf)
    # of equally short ones, that which holds most
    first = int(np.argmin(length - (mass[np.minimum(end, len(p))] - mass[:-1])))
    return first, int(end[first]) - 1
