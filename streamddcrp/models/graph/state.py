"""Everything the sampler has to remember: particles, the clusters they share, the last items.

The arrays are grouped by axis into named tuples; kernels update them in place. Sizes are
capacities: P particles, K tables a particle, C clusters, G names of tables, R = r + lag + 1 items
in memory (item i at i mod R), W parents of an item.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.contract import EventRing, empty_events
from streamddcrp.models.graph.config import Config
from streamddcrp.models.graph.kernels.layout import N_COUNTS, STAMP
from streamddcrp.particles.children import Children, empty_children
from streamddcrp.particles.kernels.layout import LOG_EVIDENCE, MOST_TABLES, N_NAMES, N_SEEN
from streamddcrp.particles.names import Names, empty_names, room
from streamddcrp.particles.pool import Memo, Pool, UintArray, empty_memo, empty_pool
from streamddcrp.particles.stored import arrays_shared, restore_shared
from streamddcrp.records import nbytes_of
from streamddcrp.typing import FloatArray, IntArray


class Particles(NamedTuple):
    """Particles and their tables.

    Attributes
    ----------
    weight : ndarray of float64, shape (P,)
        Sums to 1; 0: the place is empty.
    n_tables : ndarray of int64, shape (P,)
        Places in use, gaps included.
    opened : ndarray of int64, shape (P,)
        Tables ever opened.
    key : ndarray of uint64, shape (P,)
        Hash of what the future depends on.
    entry : ndarray of int64, shape (P, K)
        Place of the table's cluster in the pool; -1: no table.
    near, held : ndarray of int64, shape (P, K)
        Members among the last r and the last R items.
    label : ndarray of int32, shape (P, R)
        Tables of the items in memory.
    """

    weight: FloatArray
    n_tables: IntArray
    opened: IntArray
    key: UintArray
    entry: IntArray
    near: IntArray
    held: IntArray
    label: NDArray[np.int32]


class Recent(NamedTuple):
    """The last items.

    Attributes
    ----------
    x : ndarray of float64, shape (max(lag, 1), D)
    name : ndarray of int64, shape (R,)
        Position in `Names` of the table they open; -1 while no particle has it.
    parents : ndarray of int64, shape (r, W)
        Their parents in ascending order, where they are given.
    n_parents : ndarray of int64, shape (r,)
    """

    x: FloatArray
    name: IntArray
    parents: IntArray
    n_parents: IntArray


class Grid(NamedTuple):
    """The concentration at its nodes, and what was worked out about it for an arrival.

    Attributes
    ----------
    base : ndarray of float64, shape (G,)
        Log prior less the sum of log(alpha + m) over the arrivals, m their numbers of parents.
    stamp, k : ndarray of int64
        For which arrival, and how many tables opened, the rest holds.
    log_total, join, new : ndarray of float64
    """

    base: FloatArray
    stamp: IntArray
    k: IntArray
    log_total: FloatArray
    join: FloatArray
    new: FloatArray


class Scratch(NamedTuple):
    """Further work space; nothing in it outlives an arrival."""

    at_name: FloatArray  # (G,)
    near: IntArray  # (K,)
    opens: IntArray  # (K,)
    log_count: FloatArray  # (K,)
    log_weight: FloatArray  # (K + 1,)
    sums: FloatArray  # (3,) weights of all children, of new tables, of the last item's table


@dataclass(slots=True)
class State:
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

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return nbytes_of(self)

    @property
    def n_seen(self) -> int:
        """Number of items learned."""
        return int(self.counts[N_SEEN])

    @property
    def log_evidence(self) -> float:
        """Estimate of the log evidence; NaN where the scheme gives none."""
        return float(self.sums[LOG_EVIDENCE])


def empty_state(config: Config) -> State:
    """Return the state before the first arrival."""
    state = _laid_out(config, n_tables=8, n_clusters=1, n_names=16, n_parents=4)
    if config.scheme in (1, 2):  # one child a particle: all begin alike
        state.particles.weight[:] = 1.0 / config.n_particles
    else:
        state.particles.weight[0] = 1.0
    return state


def _laid_out(
    config: Config, *, n_tables: int, n_clusters: int, n_names: int, n_parents: int
) -> State:
    """Return an empty state with room for so much, and for an arrival more."""
    P, R, D, K = config.n_particles, config.r + config.lag + 1, int(config.hyper[0]), n_tables
    C = room(n_clusters + 4 + P + config.moves * (2 * P + 2), 64)
    pool = empty_pool(config.family, config.hyper, C)
    n_ks = 256 if len(config.nodes) else 1
    whole = np.int64
    return State(
        particles=Particles(
            weight=np.zeros(P), n_tables=np.zeros(P, whole), opened=np.zeros(P, whole),
            key=np.zeros(P, np.uint64), entry=np.full((P, K), -1), near=np.zeros((P, K), whole),
            held=np.zeros((P, K), whole), label=np.zeros((P, R), np.int32),
        ),
        pool=pool,
        memo=empty_memo(C),
        grid=Grid(
            config.log_prior.copy(), np.full(n_ks, -1), np.zeros(n_ks, whole), np.zeros(n_ks),
            np.zeros(n_ks), np.zeros(n_ks),
        ),
        names=empty_names(n_names),
        recent=Recent(
            x=np.zeros((max(config.lag, 1), D)), name=np.full(R, -1),
            parents=np.zeros((config.r if config.given else 1, n_parents), whole),
            n_parents=np.zeros(config.r if config.given else 1, whole),
        ),
        events=empty_events(),
        counts=np.zeros(N_COUNTS, whole),
        sums=np.zeros(1),
        children=empty_children(P, P * (K + 1)),
        scratch=Scratch(
            at_name=np.zeros(n_names), near=np.zeros(K, whole),
            opens=np.zeros(K, whole), log_count=np.zeros(K), log_weight=np.zeros(K + 1),
            sums=np.zeros(3),
        ),
    )  # fmt: skip


def grown(state: State, config: Config, n_parents: int = 0) -> State:
    """Return the state with room for one more arrival; no number in it changes."""
    return state_from_arrays(config, arrays_of(state), n_parents)


def arrays_of(state: State) -> dict[str, NDArray[Any]]:
    """Return copies of all arrays without unused capacity, for a checkpoint (`arrays_shared`)."""
    particles, names, seen = state.particles, state.names, state.n_seen
    arrays, inside, at = arrays_shared(
        particles, state.pool, names, state.events, state.counts, STAMP
    )
    alive, K = particles.weight > 0, inside.shape[1]
    R, r = particles.label.shape[1], len(state.recent.n_parents)
    items = np.arange(max(seen - R + 1, 0), seen)
    rows = np.arange(max(seen - len(state.recent.x), 0), seen)
    given = np.arange(max(seen - r, 0), seen) % r
    named = state.recent.name[items % R]
    return arrays | {
        "particles.opened": np.where(alive, particles.opened, 0),
        "particles.key": np.where(alive, particles.key, np.uint64(0)),
        "particles.near": np.where(inside, particles.near[:, :K], 0),
        "particles.held": np.where(inside, particles.held[:, :K], 0),
        "particles.label": np.where(alive[:, None], particles.label[:, items % R], 0),
        "recent.x": state.recent.x[rows % len(state.recent.x)],
        "recent.name": np.where((named >= 0) & (names.opener[named] == items), at[named], -1),
        "recent.parents": state.recent.parents[given],
        "recent.n_parents": state.recent.n_parents[given],
        "grid.base": state.grid.base.copy(),
        "sums": state.sums.copy(),
    }


def state_from_arrays(
    config: Config, arrays: Mapping[str, NDArray[Any]], n_parents: int = 0
) -> State:
    """Rebuild the state that `arrays_of` described, with room for one more arrival at least.

    The statistics may be shorter than those of ``config``: words that had not been seen.
    """
    counts = arrays["counts"]
    K, seen, n_names = (int(counts[i]) for i in (MOST_TABLES, N_SEEN, N_NAMES))
    n_clusters = len(arrays["pool.stats"])
    parents = arrays["recent.parents"]
    state = _laid_out(
        config, n_tables=room(K + 1 + config.moves, 8), n_clusters=2 * n_clusters,
        n_names=room(n_names + 1 + config.lag, 16),
        n_parents=room(max(parents.shape[1], n_parents), 4),
    )  # fmt: skip
    particles, recent = state.particles, state.recent
    restore_shared(
        config.family, config.hyper, arrays, particles, state.pool, state.names, state.events,
        state.counts,
    )  # fmt: skip
    state.sums[:] = arrays["sums"]
    state.grid.base[:] = arrays["grid.base"]
    for name in ("opened", "key"):
        getattr(particles, name)[:] = arrays[f"particles.{name}"]
    for name in ("near", "held"):
        getattr(particles, name)[:, :K] = arrays[f"particles.{name}"]
    R, L, r = config.r + config.lag + 1, len(recent.x), len(recent.n_parents)
    items = np.arange(max(seen - R + 1, 0), seen)
    particles.label[:, items % R] = arrays["particles.label"]
    recent.name[items % R] = arrays["recent.name"]
    x = arrays["recent.x"]
    recent.x[np.arange(max(seen - L, 0), seen) % L, : x.shape[1]] = x
    given = np.arange(max(seen - r, 0), seen) % r
    recent.parents[given, : parents.shape[1]] = parents
    recent.n_parents[given] = arrays["recent.n_parents"]
    return state
