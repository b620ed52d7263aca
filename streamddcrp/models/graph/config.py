"""Settings of the sampler on decomposable graphs."""

import math
from typing import NamedTuple

import numpy as np

from streamddcrp.errors import ConfigError
from streamddcrp.models.graph.kernels.layout import N_BEST, OPTIMAL, STRATIFIED, SYSTEMATIC
from streamddcrp.typing import FloatArray
from streamddcrp.validation import whole

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
    lag: int  # of the last so many items one is drawn anew; 0: none
    moves: int  # how many after an arrival
    n_particles: int
    scheme: int
    merge: bool
    alpha: float  # NaN where it is integrated out
    nodes: FloatArray  # (G,) the values of alpha that are summed over; empty where it is fixed
    log_nodes: FloatArray  # (G,) their logs
    log_prior: FloatArray  # (G,) of the nodes, with the weights of the quadrature
    seed: int


def alpha_grid(shape: float, rate: float) -> tuple[FloatArray, FloatArray]:
    """Nodes for alpha ~ Gamma(shape, rate) and their log weights: trapezoids in log alpha."""
    nodes = np.exp(np.linspace(math.log(LEAST_ALPHA), math.log(LARGEST_ALPHA), NODES))
    step = math.log(nodes[1] / nodes[0])
    log_prior = shape * (math.log(rate) + np.log(nodes)) - rate * nodes - math.lgamma(shape)
    return nodes, log_prior + math.log(step)


def make_config(
    *,
    family: int,
    hyper: FloatArray,
    r: int,
    given: bool,
    alpha: object,
    n_particles: int = 100,
    resampling: str = "optimal",
    merge: bool = True,
    lag: int = 0,
    moves: int = 1,
    seed: int = 0,
) -> Config:
    """Check the settings and put them into the kernels' order.

    Parameters
    ----------
    family, hyper
        Code and prior of the likelihood.
    r : int
        The parents of an item are the last r items; where they are given, they are among these.
    given : bool
        Whether items come with their parents.
    alpha : float or ("gamma", shape, rate)
        Concentration; with a prior it is integrated out.
    n_particles : int
    resampling : {"optimal", "systematic", "stratified", "n_best"}
    merge : bool
        Whether equivalent particles are joined; for "optimal" and "n_best".
    lag, moves : int
        After an arrival so many of the last ``lag`` items are drawn anew, in each particle; only
        for window graphs.
    seed : int
        Key of the random numbers, 0 .. 2^63 - 1.

    Raises
    ------
    ConfigError
        If a setting is out of its range.
    """
    r = whole("r", r, 1, LARGEST_WINDOW)
    n_particles = whole("n_particles", n_particles, 1, 1 << 24)
    lag, moves = whole("lag", lag, 0), whole("moves", moves, 1, 1 << 16)
    seed = whole("seed", seed, 0, (1 << 63) - 1)
    if resampling not in SCHEMES:
        message = f"resampling must be one of {sorted(SCHEMES)}, got {resampling!r}"
        raise ConfigError(message)
    if lag > r:
        message = f"lag must not exceed r, {r}: older items are no parents any more, got {lag}"
        raise ConfigError(message)
    if lag > 0 and given:
        message = "lag: items are drawn anew only where their parents are the last r items"
        raise ConfigError(message)
    nodes, log_prior, fixed = np.empty(0), np.empty(0), math.nan
    if isinstance(alpha, tuple | list) and len(alpha) == 3 and alpha[0] == "gamma":
        shape, rate = (_positive("alpha", value) for value in alpha[1:])
        nodes, log_prior = alpha_grid(shape, rate)
    else:
        fixed = _positive("alpha", alpha)
    merges = bool(merge) and resampling in {"optimal", "n_best"}
    return Config(
        family, hyper, r, bool(given), lag, moves if lag else 0, n_particles, SCHEMES[resampling],
        merges, fixed, nodes, np.log(nodes), log_prior, seed,
    )  # fmt: skip


def _positive(name: str, value: object) -> float:
    good = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not good or not (value > 0 and math.isfinite(value)):  # type: ignore[operator,arg-type]
        message = (
            f'{name} must be a positive number or ("gamma", shape, rate) of positive numbers, '
            f"got {value!r}"
        )
        raise ConfigError(message)
    return float(value)  # type: ignore[arg-type]
