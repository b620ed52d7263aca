"""Settings of `GraphCRP` in the kernels' form, and its concentration.

Axes: J values of alpha, T places of a cache.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from streamddcrp.errors import ConfigError
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import particle_count, positive, whole

LARGEST_WINDOW = 1 << 15
MOST_CLUSTERS = 1 << 31
CLUSTER = 16  # least numbers per place of the pool
NODES = 65  # of the grid for alpha: a factor of 1.23 between neighbours
LEAST_ALPHA, LARGEST_ALPHA = 1e-4, 60.0


class Config(NamedTuple):
    """Settings in the kernels' form; created and checked by `make_config`."""

    family: int
    hyper: FloatArray
    r: int  # parents are, or are among, the last r items
    given: bool  # whether items come with parents
    rejuvenate: int  # last items from which ``moves`` are resampled; 0: none
    moves: int  # resampled items after an arrival
    n_particles: int
    alpha: float  # NaN if integrated out
    discount: float  # -alpha / n_clusters where that is limited
    n_clusters: int  # most clusters in a set of neighbours; 0: unlimited
    whole_graph: bool  # or in the whole graph: clusters out of sight stay alive
    nodes: FloatArray  # (J,) the values of alpha to sum over; empty if fixed
    log_nodes: FloatArray  # (J,) their logs
    log_prior: FloatArray  # (J,) of the nodes, with the weights of the quadrature
    seed: int


class Grid(NamedTuple):
    """The concentration at its nodes, and sums over them cached for an arrival."""

    # log prior - sum of log(alpha + m) over arrivals, m parents; one row for all particles, or one
    # for each if they differ in m
    base: Annotated[FloatArray, "B J"]
    stamp: Annotated[IntArray, "T", -1]  # the arrival for which the entry is valid
    k: Annotated[IntArray, "T"]  # and the number of tables opened
    row: Annotated[IntArray, "T"]  # and the row of ``base``
    log_total: Annotated[FloatArray, "T"]
    join: Annotated[FloatArray, "T"]
    new: Annotated[FloatArray, "T"]


Concentration = float | Sequence[Any]  # a number, or ("gamma", shape, rate), a prior


def concentration(alpha: Concentration) -> tuple[float, FloatArray, FloatArray]:
    """Check alpha; return it, or for a prior NaN, and the prior's nodes and log weights."""
    also = 'or ("gamma", shape, rate) of positive numbers'
    if isinstance(alpha, tuple | list) and len(alpha) == 3 and str(alpha[0]) == "gamma":
        shape, rate = (positive("alpha", value, also) for value in alpha[1:])
        nodes = np.exp(np.linspace(math.log(LEAST_ALPHA), math.log(LARGEST_ALPHA), NODES))
        log_prior = shape * (math.log(rate) + np.log(nodes)) - rate * nodes - math.lgamma(shape)
        return math.nan, nodes, log_prior + math.log(math.log(nodes[1] / nodes[0]))  # trapezoids
    return positive("alpha", alpha, also), np.empty(0), np.empty(0)


def alpha_weights(
    config: Any, base: FloatArray, n_clusters: IntArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the values of alpha to sum over, and their posterior probabilities."""
    if len(config.nodes) == 0:
        return np.array([config.alpha]), np.ones(1)
    nodes, of_particle = alpha_by_particle(config, base, n_clusters)
    return nodes, weight @ of_particle


def alpha_by_particle(
    config: Any, base: FloatArray, n_clusters: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the values of alpha (J,) and their probabilities in each particle (P, J)."""
    if len(config.nodes) == 0:
        return np.array([config.alpha]), np.ones((len(n_clusters), 1))
    log_weight = base + n_clusters[:, None] * config.log_nodes
    of_node = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
    of_node /= of_node.sum(axis=1, keepdims=True)
    return config.nodes, of_node


def make_config(
    *,
    family: int = 0,
    hyper: FloatArray | None = None,
    window: int,
    given: bool = False,
    alpha: Concentration,
    discount: float = 0.0,
    n_clusters: int | None = None,
    whole_graph: bool = False,
    n_particles: int = 100,
    rejuvenate: int = 0,
    moves: int = 1,
    seed: int = 0,
) -> Config:
    """Check the options of `GraphCRP`; without ``hyper`` nothing else. Raises ConfigError."""
    r, rejuvenate = whole("window", window, 1, LARGEST_WINDOW), whole("rejuvenate", rejuvenate, 0)
    moves = whole("moves", moves, 1, 1 << 16)
    seed = whole("seed", seed, 0, (1 << 63) - 1)
    if rejuvenate > r:
        raise ConfigError(
            f"rejuvenate must not exceed window, {r}: older items are no parents any more, "
            f"got {rejuvenate}"
        )
    if rejuvenate > 0 and given:
        raise ConfigError("rejuvenate: items are resampled only where their parents are the window")
    moves = moves if rejuvenate else 0
    each = r + rejuvenate + CLUSTER * (1 + 2 * moves)
    n_particles = particle_count(n_particles, each, "r, rejuvenate and moves")
    fixed, nodes, log_prior = concentration(alpha)
    discount, most = _discount(discount, n_clusters, fixed)
    if whole_graph and most == 0:
        raise ConfigError("whole_graph: the whole graph has n_clusters clusters; say how many")
    return Config(
        family, np.ones(1) if hyper is None else hyper, r, bool(given), rejuvenate,
        moves, n_particles, fixed, discount, most, bool(whole_graph), nodes, np.log(nodes),
        log_prior, seed,
    )  # fmt: skip


def _discount(discount: Any, n_clusters: Any, alpha: float) -> tuple[float, int]:
    """Return the discount, -alpha / K for a symmetric Dirichlet of K clusters, and K, 0: any."""
    if discount != 0:
        discount = positive("discount", discount, "0")
    if discount >= 1:
        raise ConfigError(f"discount must be a number from 0 to below 1, got {discount!r}")
    if n_clusters is None and not discount:
        return 0.0, 0
    if math.isnan(alpha):
        raise ConfigError(
            "discount, n_clusters: what they make of alpha's prior is not known by the number of "
            "clusters alone; set alpha to a number"
        )
    if n_clusters is None:
        return discount, 0
    if discount:
        raise ConfigError(
            "n_clusters: a discount is for any number of clusters; leave one of them out"
        )
    most = whole("n_clusters", n_clusters, 1, MOST_CLUSTERS)
    return -alpha / most, most
