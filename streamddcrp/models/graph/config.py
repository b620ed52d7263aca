"""Settings of the samplers on decomposable graphs."""

import math
from typing import Any, NamedTuple

import numpy as np

from streamddcrp.errors import ConfigError
from streamddcrp.models.graph.kernels.layout import N_BEST, OPTIMAL, STRATIFIED, SYSTEMATIC
from streamddcrp.typing import FloatArray
from streamddcrp.validation import choice, positive, whole

SCHEMES = {"optimal": OPTIMAL, "systematic": SYSTEMATIC, "stratified": STRATIFIED, "n_best": N_BEST}
LARGEST_WINDOW = 1 << 15
NODES = 65  # of the grid for alpha: a factor of 1.23 between neighbours
LEAST_ALPHA, LARGEST_ALPHA = 1e-4, 60.0


class Config(NamedTuple):
    """Settings in the kernels' terms; made and checked by `make_config`."""

    family: int
    hyper: FloatArray
    r: int  # parents are the last r items, or among them
    given: bool  # whether the items come with their parents
    rejuvenate: int  # of the last so many items ``moves`` are resampled; 0: none
    moves: int  # how many after an arrival
    n_particles: int
    scheme: int
    merge: bool
    alpha: float  # NaN where it is integrated out
    nodes: FloatArray  # (J,) the values of alpha that are summed over; empty where it is fixed
    log_nodes: FloatArray  # (J,) their logs
    log_prior: FloatArray  # (J,) of the nodes, with the weights of the quadrature
    seed: int


def alpha_grid(shape: float, rate: float) -> tuple[FloatArray, FloatArray]:
    """Nodes for alpha ~ Gamma(shape, rate) and their log weights: trapezoids in log alpha."""
    nodes = np.exp(np.linspace(math.log(LEAST_ALPHA), math.log(LARGEST_ALPHA), NODES))
    step = math.log(nodes[1] / nodes[0])
    log_prior = shape * (math.log(rate) + np.log(nodes)) - rate * nodes - math.lgamma(shape)
    return nodes, log_prior + math.log(step)


def make_config(
    *,
    family: int = 0,
    hyper: FloatArray | None = None,
    r: int,
    given: bool = False,
    alpha: Any,
    n_particles: int = 100,
    resampling: str = "optimal",
    merge: bool = True,
    rejuvenate: int = 0,
    moves: int = 1,
    seed: int = 0,
) -> Config:
    """Check the options of `GraphCRP` and put them into the kernels' order.

    Without ``family`` and ``hyper``, code and prior of the likelihood, they are only checked.

    Raises
    ------
    ConfigError
        If an option is out of its range.
    """
    r = whole("r", r, 1, LARGEST_WINDOW)
    n_particles = whole("n_particles", n_particles, 1, 1 << 24)
    rejuvenate, moves = whole("rejuvenate", rejuvenate, 0), whole("moves", moves, 1, 1 << 16)
    seed = whole("seed", seed, 0, (1 << 63) - 1)
    choice("resampling", resampling, SCHEMES)
    if rejuvenate > r:
        message = (
            f"rejuvenate must not exceed r, {r}: older items are no parents any more, "
            f"got {rejuvenate}"
        )
        raise ConfigError(message)
    if rejuvenate > 0 and given:
        message = "rejuvenate: items are resampled only where their parents are the last r items"
        raise ConfigError(message)
    nodes, log_prior, fixed = np.empty(0), np.empty(0), math.nan
    also = 'or ("gamma", shape, rate) of positive numbers'
    if isinstance(alpha, tuple | list) and len(alpha) == 3 and alpha[0] == "gamma":
        nodes, log_prior = alpha_grid(*(positive("alpha", value, also) for value in alpha[1:]))
    else:
        fixed = positive("alpha", alpha, also)
    merges = bool(merge) and resampling in {"optimal", "n_best"}
    return Config(
        family, np.ones(1) if hyper is None else hyper, r, bool(given), rejuvenate,
        moves if rejuvenate else 0, n_particles, SCHEMES[resampling], merges, fixed, nodes,
        np.log(nodes), log_prior, seed,
    )  # fmt: skip
