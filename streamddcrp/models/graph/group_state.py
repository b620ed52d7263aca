"""Settings and memory of the sampler for groups.

Sizes are capacities: P particles, K tables a particle, A nodes (the root is node 0), G groups, C
clusters.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.contract import EventRing, empty_events
from streamddcrp.models.graph.kernels.group import STAMP
from streamddcrp.particles.children import Children, empty_children
from streamddcrp.particles.kernels.layout import LOG_EVIDENCE, MOST_TABLES, N_NAMES, N_SEEN
from streamddcrp.particles.names import Names, empty_names, room
from streamddcrp.particles.pool import Memo, Pool, empty_memo, empty_pool
from streamddcrp.particles.stored import arrays_shared, restore_shared
from streamddcrp.records import nbytes_of
from streamddcrp.typing import FloatArray, IntArray


class Config(NamedTuple):
    """Settings in the kernels' terms."""

    family: int
    hyper: FloatArray
    alpha: float
    n_root: int  # auxiliary items of the root
    n_node: int  # and of each node; 0: groups hang on the root
    n_particles: int
    moves: int  # auxiliary items drawn anew after an arrival
    seed: int


class Particles(NamedTuple):
    """Particles and their tables.

    Attributes
    ----------
    weight : ndarray of float64, shape (P,)
    n_tables, last : ndarray of int64, shape (P,)
        Places in use; table of the last row.
    entry : ndarray of int64, shape (P, K)
        Place of the table's cluster in the pool; -1: no data.
    n_aux : ndarray of int64, shape (P, K)
        Auxiliary items of all nodes.
    aux : ndarray of int64, shape (P, A, K)
        Auxiliary items of each node.
    own : ndarray of int64, shape (P, G, K)
        Rows of each group.
    """

    weight: FloatArray
    n_tables: IntArray
    last: IntArray
    entry: IntArray
    n_aux: IntArray
    aux: IntArray
    own: IntArray


class Groups(NamedTuple):
    """Groups, the same for all particles.

    Attributes
    ----------
    node : ndarray of int64, shape (G,)
        On which each hangs.
    size : ndarray of int64, shape (G,)
        Rows.
    n : ndarray of int64, shape (2,)
        How many nodes have auxiliary items, and how many groups rows.
    """

    node: IntArray
    size: IntArray
    n: IntArray


class Scratch(NamedTuple):
    """Work space; nothing in it outlives an arrival."""

    at_name: FloatArray
    work: FloatArray  # (K + 1,)
    log_weight: FloatArray
    n_users: IntArray
    only: FloatArray


@dataclass(slots=True)
class State:
    """The sampler's memory; exactly one owner."""

    particles: Particles
    pool: Pool
    memo: Memo
    groups: Groups
    names: Names
    recent: IntArray
    events: EventRing
    counts: IntArray
    sums: FloatArray
    children: Children
    scratch: Scratch

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return nbytes_of(self)

    @property
    def n_seen(self) -> int:
        """Number of rows learned."""
        return int(self.counts[N_SEEN])

    @property
    def log_evidence(self) -> float:
        """Estimate of the log evidence."""
        return float(self.sums[LOG_EVIDENCE])


def empty_state(config: Config) -> State:
    """Return the state before the first arrival."""
    K = room(config.n_root + config.n_node + 1 + config.moves, 8)
    state = _laid_out(config, K, 0, 16, 1 + (config.n_node > 0), 1)
    state.particles.weight[:] = 1.0 / config.n_particles
    return state


def _laid_out(config: Config, K: int, n_clusters: int, n_names: int, A: int, G: int) -> State:
    P, whole = config.n_particles, np.int64
    C = room(n_clusters + P + 4, 64)
    pool = empty_pool(config.family, config.hyper, C)
    return State(
        particles=Particles(
            weight=np.zeros(P), n_tables=np.zeros(P, whole), last=np.full(P, -1),
            entry=np.full((P, K), -1), n_aux=np.zeros((P, K), whole),
            aux=np.zeros((P, A, K), whole), own=np.zeros((P, G, K), whole),
        ),
        pool=pool,
        memo=empty_memo(C),
        groups=Groups(np.zeros(G, whole), np.zeros(G, whole), np.zeros(2, whole)),
        names=empty_names(n_names),
        recent=np.full(1, -1),
        events=empty_events(),
        counts=np.zeros(STAMP + 1, whole),
        sums=np.zeros(1),
        children=empty_children(P, P * (K + 2)),
        scratch=Scratch(
            np.zeros(n_names), np.zeros(K + 1), np.zeros(K + 1), np.zeros(K, whole), np.zeros(K)
        ),
    )  # fmt: skip


def grown(state: State, config: Config, n_nodes: int = 0, n_groups: int = 0) -> State:
    """Return the state with room for one more arrival, and for so many nodes and groups."""
    arrays = arrays_of(state)
    n_nodes = max(n_nodes, len(arrays["particles.aux"][0]))
    n_groups = max(n_groups, len(state.groups.node))
    new = state_from_arrays(config, arrays, n_nodes, n_groups)
    new.groups.node[: len(state.groups.node)] = state.groups.node
    return new


def arrays_of(state: State) -> dict[str, NDArray[Any]]:
    """Return copies of all arrays without unused capacity, for a checkpoint (`arrays_shared`)."""
    particles, groups = state.particles, state.groups
    arrays, inside, _ = arrays_shared(
        particles, state.pool, state.names, state.events, state.counts, STAMP
    )
    n_nodes, n_groups = (int(n) for n in groups.n)
    K = inside.shape[1]
    return arrays | {
        "particles.last": np.where(particles.weight > 0, particles.last, -1),
        "particles.n_aux": np.where(inside, particles.n_aux[:, :K], 0),
        "particles.aux": np.where(inside[:, None], particles.aux[:, :n_nodes, :K], 0),
        "particles.own": np.where(inside[:, None], particles.own[:, :n_groups, :K], 0),
        "groups.node": groups.node[:n_groups].copy(),
        "groups.size": groups.size[:n_groups].copy(),
        "groups.n": groups.n.copy(),
        "sums": state.sums.copy(),
    }


def state_from_arrays(
    config: Config, arrays: Mapping[str, NDArray[Any]], n_nodes: int = 0, n_groups: int = 0
) -> State:
    """Rebuild the state that `arrays_of` described, with room for one more arrival at least."""
    counts, n = arrays["counts"], arrays["groups.n"]
    K, n_names = int(counts[MOST_TABLES]), int(counts[N_NAMES])
    n_clusters = len(arrays["pool.stats"])
    state = _laid_out(
        config, room(K + config.n_root + config.n_node + 1 + config.moves, 8), 2 * n_clusters,
        room(n_names + 1, 16), room(max(n_nodes, int(n[0])), 1), room(max(n_groups, int(n[1])), 1),
    )  # fmt: skip
    particles = state.particles
    restore_shared(
        config.family, config.hyper, arrays, particles, state.pool, state.names, state.events,
        state.counts,
    )  # fmt: skip
    state.sums[:], state.groups.n[:] = arrays["sums"], n
    particles.last[:] = arrays["particles.last"]
    particles.n_aux[:, :K] = arrays["particles.n_aux"]
    particles.aux[:, : n[0], :K] = arrays["particles.aux"]
    particles.own[:, : n[1], :K] = arrays["particles.own"]
    state.groups.node[: n[1]] = arrays["groups.node"]
    state.groups.size[: n[1]] = arrays["groups.size"]
    return state
