"""Settings of the particle filter."""

import math
from typing import NamedTuple

import numpy as np

from streamddcrp.decay import Decay
from streamddcrp.errors import ConfigError
from streamddcrp.numerics import CALLER_GIVEN, EXPONENTIAL, NO_DECAY
from streamddcrp.typing import FloatArray

TAIL = 1e-12  # weight, as a share of alpha, below which links and tables are dropped
LARGEST_REACH = 1 << 20  # arrivals


class Config(NamedTuple):
    """Settings in the kernels' terms; made and checked by `make_config`."""

    family: int
    hyper: FloatArray
    decay_code: int
    decay_location: float
    decay_scale: float
    alpha: float
    least: float  # weight below which a table that nobody can leave is dropped
    carried: bool  # whether tables carry the weight of members that have left the ring
    given: bool  # whether the weights of links are evaluated outside
    clocked: bool  # whether distances are times; else numbers of arrivals
    reach: float  # largest distance of a link
    by_gap: FloatArray  # (W,) weights over 1 .. W arrivals; empty where they are not needed
    n_particles: int
    lag: int
    seed: int


def make_config(
    *,
    family: int,
    hyper: FloatArray,
    decay: Decay,
    alpha: float,
    n_particles: int,
    lag: int,
    seed: int,
    clocked: bool,
) -> Config:
    """Check the settings and put them into the kernels' order.

    Parameters
    ----------
    family, hyper
        Code and prior of the likelihood.
    decay : Decay
        Exponential and no decay are followed without bound; any other one is cut where it falls
        below 1e-12 ``alpha``, and must fall that low.
    alpha : float
        Weight of opening a table, > 0.
    n_particles : int
    lag : int
        Number of last customers whose links are drawn anew after each arrival.
    seed : int
        Key of the random numbers, 0 .. 2^63 - 1.
    clocked : bool
        Whether distances are differences of times; else of arrival indices.

    Raises
    ------
    ConfigError
        If a setting is out of its range, or the decay reaches without end.
    """
    for name, count, least in (("n_particles", n_particles, 1), ("lag", lag, 0), ("seed", seed, 0)):
        if isinstance(count, bool) or not float(count).is_integer() or count < least:
            message = f"{name} must be a whole number of at least {least}, got {count!r}"
            raise ConfigError(message)
    if seed >= 1 << 63:
        message = f"seed must be below 2^63, got {seed!r}"
        raise ConfigError(message)
    if not (alpha > 0 and math.isfinite(alpha)):
        message = f"alpha must be a positive number, got {alpha!r}"
        raise ConfigError(message)
    carried = decay.code in (EXPONENTIAL, NO_DECAY)
    reach, by_gap = math.inf, np.empty(0)
    if not carried:
        share = TAIL * alpha / float(decay.weight(0.0))
        reach = decay.horizon(min(max(share, 1e-300), 0.5))
        if math.isinf(reach):
            message = (
                "decay: it never falls below 1e-12 alpha, so nothing could be forgotten; multiply "
                "it by a window"
            )
            raise ConfigError(message)
        if not clocked and reach > LARGEST_REACH:
            message = (
                f"decay: links reach {reach:.0f} arrivals back, and every particle would keep so "
                f"many; at most {LARGEST_REACH}, or take an exponential decay or none"
            )
            raise ConfigError(message)
        if not clocked:
            by_gap = np.trim_zeros(decay.weight(np.arange(1.0, math.floor(reach) + 1.0)), "b")
    return Config(
        family, hyper, decay.code, decay.location, decay.scale, float(alpha), TAIL * float(alpha),
        carried, not carried and (not clocked or decay.code == CALLER_GIVEN), clocked, reach,
        by_gap, int(n_particles), int(lag), int(seed),
    )  # fmt: skip
