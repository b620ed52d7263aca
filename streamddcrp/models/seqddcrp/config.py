"""Settings of the streaming engine, and the presets."""

import logging
import math
from typing import Any, NamedTuple

import numpy as np

from streamddcrp.decay import Decay
from streamddcrp.errors import ConfigError
from streamddcrp.numerics import EXPONENTIAL, NO_DECAY
from streamddcrp.typing import FloatArray
from streamddcrp.validation import whole

_log = logging.getLogger(__name__)
_MOST_HALO = 16  # windows
FASTER = 4.0  # factor by which `memory` exceeds the independent rows that are recent
LONGEST = 1 << 12  # rows of a window; memory is quadratic: 1 GB


class Config(NamedTuple):
    """Settings of the engine in the kernels' form; created and checked by `make_config`."""

    family: int
    hyper: FloatArray  # the base measure, updated in place if learned
    start: FloatArray  # the base measure at the start
    decay_code: int
    decay_location: float
    decay_scale: float
    alpha: float  # initial value
    alpha_rate: float  # for the Gamma(1, rate) prior of alpha; infinity: alpha is fixed
    learn_prior: bool  # whether the base measure is learned
    memory: float  # most evicted customers that a table remembers; more are scaled down
    recent: float  # the same for a table with a moving level: `kernels.pace`
    gamma: float  # concentration of the atoms
    recall: bool  # False: every table has its own parameter (gamma to infinity)
    window: int
    sweep_every: int
    n_sweeps: int
    look_back: int  # most arrivals that a move assigns to a new table
    birth_threshold: float
    max_tables: int
    tied: bool  # evicted customers join groups tied to the prior's proportions; else stay single
    far: float  # reach of links if rows come in no order; 0: unchanged
    halo: int  # number of evicted customers kept single


def make_config(
    *,
    family: int,
    hyper: FloatArray,
    decay: tuple[int, float, float],
    alpha: float,
    alpha_rate: float = math.inf,
    learn_prior: bool = False,
    memory: float = math.inf,
    power: float = 1.0,
    gamma: float,
    recall: bool,
    window: int,
    sweep_every: int,
    n_sweeps: int,
    look_back: int,
    birth_threshold: float,
    max_tables: int,
    tied: bool,
    far: float = 0.0,
    halo: int,
) -> Config:
    """Check the settings and arrange them for the kernels."""
    window = whole("window", window, 1, LONGEST)
    sweep_every = whole("sweep_every", sweep_every, 1, LONGEST)
    max_tables = whole("max_tables", max_tables, 1, 1 << 20)
    n_sweeps, look_back = whole("n_sweeps", n_sweeps, 0, 1 << 16), whole("look_back", look_back)
    for name, value in (("alpha", alpha), ("gamma", gamma)):
        if not (value > 0 and (math.isfinite(value) or name == "gamma")):
            raise ConfigError(f"{name} must be a positive number, got {value!r}")
    if not memory >= 1:
        raise ConfigError(f"memory must be at least 1 row, or infinity, got {memory!r}")
    if not 0 < birth_threshold < 1:
        raise ConfigError(f"birth_threshold must lie between 0 and 1, got {birth_threshold!r}")
    recall = recall and math.isfinite(gamma)
    faster = max(FASTER * power, 1.0)  # 1 / power rows count as one independent row
    return Config(
        family, hyper, hyper.copy(), *decay, float(alpha), float(alpha_rate),
        bool(learn_prior), float(memory), memory / faster,
        float(gamma) if recall else math.inf, bool(recall),
        window, sweep_every, n_sweeps, look_back, float(birth_threshold), max_tables, tied,
        float(far), halo,
    )  # fmt: skip


def halo_of(decay: Decay, alpha: float, window: int, *, clocked: bool) -> tuple[bool, int]:
    """Return how evicted customers are kept: in tied groups, or how many of them singly.

    Under no decay and exponential decay the weights of a group's members keep their proportions, so
    ties are exact for ever. Under any other decay an evicted customer remains a separate link
    target while within reach: to the horizon of the decay, at most 16 windows; with times, if the
    horizon is not a number of customers, 4 windows.
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


class Candidate(NamedTuple):
    """A prior that competes on the first rows."""

    opening: float  # prior probability that an arrival opens a table
    spread: float  # expected variance within a table, as a share of the rows'


class Preset(NamedTuple):
    """Joint default settings: assumptions on a stream before any row has been seen."""

    likelihood: Any  # for ``likelihood="auto"``; "auto" here inspects the first rows
    gamma: float  # concentration of the atoms
    candidates: tuple[Candidate, ...]
    reaches: tuple[float, ...] = (8.0, 1.0, 32.0)  # of links, in rows; the first is the initial one


PRESETS = {
    "process": Preset(
        "auto",
        3.0,
        tuple(
            Candidate(opening, spread)
            for opening, spread in (
                (0.0133, 0.05), (0.0133, 0.2), (0.0133, 1.0), (0.1, 0.05), (0.1, 0.01), (0.1, 0.2),
                (0.5, 0.05), (0.5, 0.01), (0.5, 0.003),
            )
        ),
    ),
    "short-series": Preset(
        ("autoregression", 1),
        10.0,
        tuple(Candidate(0.005, spread) for spread in (0.05, 0.2, 1.0)),
        (8.0,),
    ),
}  # fmt: skip
