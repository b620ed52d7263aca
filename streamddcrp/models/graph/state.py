"""State of the sampler on a decomposable graph: particles, their clusters, the last items.

The arrays are grouped by axis into named tuples; kernels update them in place. Axes: P particles,
K tables per particle, R = r + rejuvenate + 1 items in memory (item i at i mod R), L items with
their rows, I items with their parents, W parents of an item, J values of alpha, N names of tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.contract import EventRing
from streamddcrp.models.graph.config import Config
from streamddcrp.models.graph.kernels.layout import N_COUNTS, STAMP, STRATIFIED, SYSTEMATIC
from streamddcrp.particles import state as shared
from streamddcrp.particles.kernels.layout import MOST_TABLES, N_NAMES, N_SEEN
from streamddcrp.particles.state import Children, Memo, Names, ParticleState, Pool, UintArray, room
from streamddcrp.records import empty
from streamddcrp.typing import FloatArray, IntArray


class Particles(NamedTuple):
    """Particles and their tables."""

    weight: Annotated[FloatArray, "P"]  # sums to 1; 0: the place is empty
    n_tables: Annotated[IntArray, "P"]  # places in use, gaps included
    opened: Annotated[IntArray, "P"]  # tables ever opened
    key: Annotated[UintArray, "P"]  # hash of what the future depends on
    entry: Annotated[IntArray, "P K", -1]  # place of the table's cluster in the pool; -1: no table
    near: Annotated[IntArray, "P K"]  # members among the last r items
    held: Annotated[IntArray, "P K"]  # members among the last R items
    label: Annotated[NDArray[np.int32], "P R"]  # tables of the items in memory


class Recent(NamedTuple):
    """The last items."""

    x: Annotated[FloatArray, "L D"]
    name: Annotated[IntArray, "R", -1]  # of the table they open; -1 while no particle has it
    parents: Annotated[IntArray, "I W"]  # in ascending order, where they are given
    n_parents: Annotated[IntArray, "I"]


class Grid(NamedTuple):
    """The concentration at its nodes, and sums over them cached for an arrival."""

    base: Annotated[FloatArray, "J"]  # log prior - sum of log(alpha + m) over arrivals, m parents
    stamp: Annotated[IntArray, "T", -1]  # the arrival that the rest is for
    k: Annotated[IntArray, "T"]  # and the number of tables opened
    log_total: Annotated[FloatArray, "T"]
    join: Annotated[FloatArray, "T"]
    new: Annotated[FloatArray, "T"]


class Scratch(NamedTuple):
    """Further work space; nothing in it outlives an arrival."""

    at_name: Annotated[FloatArray, "N"]
    near: Annotated[IntArray, "K"]
    opens: Annotated[IntArray, "K"]
    log_count: Annotated[FloatArray, "K"]
    log_weight: Annotated[FloatArray, "O"]  # O = K + 1
    sums: Annotated[FloatArray, "3"]  # weights of all children, at new tables, at the last item's


@dataclass(slots=True)
class State(ParticleState):
    """The sampler's memory; exactly one owner."""

    particles: Particles
    pool: Pool
    memo: Memo
    grid: Grid
    names: Names
    recent: Recent
    events: EventRing
    counts: IntArray
    sums: FloatArray
    children: Children
    scratch: Scratch


def empty_state(config: Config) -> State:
    """Return the state before the first arrival."""
    state = _empty(config, n_tables=8, n_clusters=1, n_names=16, n_parents=4)
    if config.scheme in (SYSTEMATIC, STRATIFIED):  # one child per particle: all begin alike
        state.particles.weight[:] = 1.0 / config.n_particles
    else:
        state.particles.weight[0] = 1.0
    return state


def _empty(
    config: Config, *, n_tables: int, n_clusters: int, n_names: int, n_parents: int
) -> State:
    """Return an empty state with room for so much, and for one more arrival."""
    P, n_nodes = config.n_particles, len(config.nodes)
    C = room(n_clusters + 4 + P + config.moves * (2 * P + 2), 64)
    lengths = {
        "P": P, "K": n_tables, "O": n_tables + 1, "R": config.r + config.rejuvenate + 1,
        "N": n_names, "L": max(config.rejuvenate, 1), "D": int(config.hyper[0]),
        "I": config.r if config.given else 1, "W": n_parents, "J": n_nodes,
        "T": 256 if n_nodes else 1,
    }  # fmt: skip
    grid = empty(Grid, lengths)
    grid.base[:] = config.log_prior
    parts = shared.empty_parts(
        config.family, config.hyper, n_particles=P, n_children=P * (n_tables + 1), n_clusters=C,
        n_names=n_names, n_counts=N_COUNTS,
    )  # fmt: skip
    return State(
        particles=empty(Particles, lengths),
        grid=grid,
        recent=empty(Recent, lengths),
        scratch=empty(Scratch, lengths),
        **parts,
    )


def grown(state: State, config: Config, n_parents: int = 0) -> State:
    """Return the state with room for one more arrival; no number in it changes."""
    return state_from_arrays(config, arrays_of(state), n_parents)


def _in_rings(state: State) -> dict[str, IntArray]:
    """Return the items in memory by axis: all, those with rows, those with parents."""
    recent, seen = state.recent, state.n_seen
    kept = {"R": len(recent.name) - 1, "L": len(recent.x), "I": len(recent.n_parents)}
    return {axis: np.arange(max(seen - n, 0), seen) for axis, n in kept.items()}


def arrays_of(state: State) -> dict[str, NDArray[Any]]:
    """Return copies of all arrays without unused capacity, for a checkpoint."""
    recent, names, items = state.recent, state.names, _in_rings(state)
    R = len(recent.name)
    arrays, at = shared.arrays_of(state, STAMP, R=items["R"] % R)
    named, given = recent.name[items["R"] % R], items["I"] % len(recent.n_parents)
    return arrays | {
        "recent.x": recent.x[items["L"] % len(recent.x)],
        "recent.name": np.where((named >= 0) & (names.opener[named] == items["R"]), at[named], -1),
        "recent.parents": recent.parents[given],
        "recent.n_parents": recent.n_parents[given],
        "grid.base": state.grid.base.copy(),
        "sums": state.sums.copy(),
    }


def state_from_arrays(
    config: Config, arrays: Mapping[str, NDArray[Any]], n_parents: int = 0
) -> State:
    """Rebuild the state that `arrays_of` described, with room for one more arrival at least.

    The statistics may be shorter than those of ``config``: words that had not been seen.
    """
    counts, parents, x = arrays["counts"], arrays["recent.parents"], arrays["recent.x"]
    state = _empty(
        config,
        n_tables=room(int(counts[MOST_TABLES]) + 1 + config.moves, 8),
        n_clusters=2 * len(arrays["pool.stats"]),
        n_names=room(int(counts[N_NAMES]) + 1 + config.rejuvenate, 16),
        n_parents=room(max(parents.shape[1], n_parents), 4),
    )
    state.counts[N_SEEN] = counts[N_SEEN]
    recent, items = state.recent, _in_rings(state)
    ring, given = items["R"] % len(recent.name), items["I"] % len(recent.n_parents)
    shared.restore(state, config.family, config.hyper, arrays, R=ring)
    state.sums[:] = arrays["sums"]
    state.grid.base[:] = arrays["grid.base"]
    recent.x[items["L"] % len(recent.x), : x.shape[1]] = x
    recent.name[ring] = arrays["recent.name"]
    recent.parents[given, : parents.shape[1]] = parents
    recent.n_parents[given] = arrays["recent.n_parents"]
    return state
