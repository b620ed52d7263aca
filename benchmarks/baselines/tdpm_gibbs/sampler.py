"""Draws from the posterior of the finite temporal mixture with known scales."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from benchmarks.baselines.tdpm_gibbs.kernels import sweep
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.models.temporal.batch import as_epochs
from streamddcrp.models.temporal.emissions.drift import GaussianDrift
from streamddcrp.models.temporal.window import past_weights
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import whole

_SCALES = ("birth_mean", "birth_var", "drift", "noise")


@dataclass(frozen=True, slots=True)
class TemporalDPMSamples:
    """S draws of the slots of all rows.

    Attributes
    ----------
    labels : list of ndarray of int32, shape (S, N_t)
        Slots, 0 to K - 1, of the rows of every epoch. Slots may change their names from draw to
        draw.
    log_joint : ndarray of float64, shape (S,)
        log p(c) + log p(x | c, phi) of each draw, in nats.
    n_components : ndarray of int64, shape (S,)
        Slots in use over all epochs.
    """

    labels: list[NDArray[np.int32]]
    log_joint: FloatArray
    n_components: IntArray

    def modes(self, last: int = 100) -> list[IntArray]:
        """Return every row's most frequent slot in the last draws, for chains that have settled."""
        out = []
        for labels in self.labels:
            some = labels[-last:]
            votes = np.zeros((int(some.max(initial=0)) + 1, some.shape[1]), np.int64)
            for draw in some:
                votes[draw, np.arange(len(draw))] += 1
            out.append(votes.argmax(axis=0))
        return out


def sample_temporal_dpm(
    epochs: Iterable[Any],
    emission: GaussianDrift,
    *,
    alpha: float = 1.0,
    decay: object = ("exponential", 1.0),
    width: int = 3,
    slots: int = 30,
    n_sweeps: int = 1000,
    burn_in: int = 500,
    thin: int = 1,
    seed: int | None = None,
    progress: bool = False,
) -> TemporalDPMSamples:
    """Sample the slots of all rows of all epochs, by blocked Gibbs sampling.

    Parameters
    ----------
    epochs : iterable of array_like of float, shape (N_t, D)
        Rows of each epoch; an epoch may be empty.
    emission : GaussianDrift
        With known scales, e.g. ``GaussianDrift.known(mean, birth_var, drift, noise)``.
    alpha : float, default 1.0
        Concentration.
    decay : Decay, tuple, str or callable, default ("exponential", 1.0)
        Weight of a slot's rows of 1, 2, .. epochs before.
    width : int, default 3
        Epochs that the past counts.
    slots : int, default 30
        Components of the finite model.
    n_sweeps : int, default 1000
        Sweeps after the burn-in.
    burn_in : int, default 500
        Sweeps before the first draw, from slots drawn uniformly.
    thin : int, default 1
        Sweeps for each draw that is kept.
    seed : int, optional
    progress : bool, default False
        Show a progress bar.

    Returns
    -------
    TemporalDPMSamples

    Raises
    ------
    ConfigError
        An option is out of range.
    SchemaError
        A value is not finite, or the epochs do not fit together; the message names epoch and row.

    Notes
    -----
    A sweep costs O(N K D) for N rows; draws take 4 bytes a row. Equal seeds give equal bits.

    Examples
    --------
    >>> import numpy as np
    >>> from streamddcrp.models.temporal.emissions.drift import GaussianDrift
    >>> from benchmarks.baselines.tdpm_gibbs import sample_temporal_dpm
    >>> law = GaussianDrift.known(*(np.array([v]) for v in (0.0, 25.0, 0.1, 1.0)))
    >>> epochs = [[[-6.1], [5.8], [6.3]], [[-5.9], [-6.4], [6.0]]]
    >>> draws = sample_temporal_dpm(epochs, law, slots=5, n_sweeps=200, burn_in=100, seed=0)
    >>> first, second = draws.modes()
    >>> bool(first[1] == first[2] == second[2]), bool(first[0] == second[0] == second[1])
    (True, True)
    """
    if not 0.0 < alpha < np.inf:
        message = f"alpha must be a positive number, got {alpha!r}"
        raise ConfigError(message)
    for name, value, least in (
        ("slots", slots, 1), ("n_sweeps", n_sweeps, 1), ("burn_in", burn_in, 0), ("thin", thin, 1)
    ):  # fmt: skip
        whole(name, value, least)
    if thin > n_sweeps:
        message = f"thin is {thin}, more than n_sweeps, {n_sweeps}: no draw would be kept"
        raise ConfigError(message)
    rows = as_epochs(epochs)
    X = np.concatenate(rows)
    if X.shape[1] != len(emission.noise):
        message = f"emission is for {len(emission.noise)} columns, the rows have {X.shape[1]}"
        raise ConfigError(message)
    if np.isnan(X).any():
        message = "the sampler takes no missing values; leave their rows out"
        raise SchemaError(message)
    kappa = np.array(past_weights(decay, width))
    first = np.cumsum([0, *(len(part) for part in rows)])
    law = [np.ascontiguousarray(getattr(emission, name), np.float64) for name in _SCALES]
    rng = np.random.default_rng(seed)
    T, S = len(rows), n_sweeps // thin
    state = np.zeros((T, slots)), np.zeros((T, slots)), np.zeros((T, slots, X.shape[1]))
    c = rng.integers(0, slots, len(X))
    arrays: list[Any] = [X, first, c, float(alpha), kappa, *law, rng, *state]
    draws = np.empty((S, len(X)), np.int32)
    trace, used = np.empty(S), np.empty(S, np.int64)
    with tqdm(total=burn_in + S * thin, unit=" sweeps", disable=not progress) as bar:
        for s in range(-burn_in, S):
            n = 1 if s < 0 else thin
            value = sweep(n, *arrays)
            bar.update(n)
            if s >= 0:
                draws[s], trace[s], used[s] = c, value, len(np.unique(c))
    labels = [draws[:, a:b] for a, b in pairwise(first)]
    return TemporalDPMSamples(labels, trace, used)
