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

from streamddcrp.inference.graph_crp._kernels_layout import N_COUNTS, STAMP
from streamddcrp.inference.graph_crp.config import Config
from streamddcrp.inference.memory import nbytes_of
from streamddcrp.inference.seqddcrp_vb.state import EVENT_CAPACITY, EventLog
from streamddcrp.inference.smc._kernels_layout import (
    LOG_EVIDENCE,
    MOST_TABLES,
    N_EVENTS,
    N_NAMES,
    N_SEEN,
)
from streamddcrp.inference.smc.children import Children, empty_children
from streamddcrp.inference.smc.names import Names, empty_names, room
from streamddcrp.inference.smc.pool import Memo, Pool, UintArray, empty_memo, empty_pool
from streamddcrp.likelihoods._kernels import posterior
from streamddcrp.typing import FloatArray, IntArray

__all__ = [
    "Grid",
    "Particles",
    "Recent",
    "Scratch",
    "State",
    "arrays_of",
    "empty_state",
    "grown",
    "state_from_arrays",
]


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
    events: EventLog
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
        events=EventLog(
            kind=np.zeros(EVENT_CAPACITY, whole), label=np.zeros(EVENT_CAPACITY, whole),
            into=np.zeros(EVENT_CAPACITY, whole), arrival=np.zeros(EVENT_CAPACITY, whole),
            t=np.zeros(EVENT_CAPACITY),
        ),
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
    """Return copies of all arrays without unused capacity, for a checkpoint.

    What follows from the rest is left out, and clusters and names are sorted: equal states give
    equal bytes, whatever their capacities.
    """
    particles, pool, names, counts = state.particles, state.pool, state.names, state.counts
    K, seen = int(counts[MOST_TABLES]), int(counts[N_SEEN])
    alive = particles.weight > 0
    entry = np.where(alive[:, None], particles.entry[:, :K], -1)
    entry[np.arange(K) >= particles.n_tables[:, None]] = -1
    held_by = entry[entry >= 0]
    clusters = held_by[np.sort(np.unique(held_by, return_index=True)[1])]
    place = np.full(len(pool.name) + 1, -1)
    place[clusters] = np.arange(1, len(clusters) + 1)
    used = np.flatnonzero(names.opener >= 0)
    used = used[np.argsort(names.opener[used])]
    at = np.full(len(names.opener), -1)
    at[used] = np.arange(len(used))
    R, r = particles.label.shape[1], len(state.recent.n_parents)
    items = np.arange(max(seen - R + 1, 0), seen)
    rows = np.arange(max(seen - len(state.recent.x), 0), seen)
    given = np.arange(max(seen - r, 0), seen) % r
    events = int(min(counts[N_EVENTS], EVENT_CAPACITY))
    named = state.recent.name[items % R]
    inside = alive[:, None] & (np.arange(K) < particles.n_tables[:, None])
    arrays: dict[str, NDArray[Any]] = {
        "particles.weight": particles.weight.copy(),
        "particles.n_tables": np.where(alive, particles.n_tables, 0),
        "particles.opened": np.where(alive, particles.opened, 0),
        "particles.key": np.where(alive, particles.key, np.uint64(0)),
        "particles.entry": place[entry],
        "particles.near": np.where(inside, particles.near[:, :K], 0),
        "particles.held": np.where(inside, particles.held[:, :K], 0),
        "particles.label": np.where(alive[:, None], particles.label[:, items % R], 0),
        "pool.stats": pool.stats[clusters],
        "pool.members": pool.members[clusters],
        "pool.mixed": pool.mixed[clusters],
        "pool.name": at[pool.name[clusters]],
        "recent.x": state.recent.x[rows % len(state.recent.x)],
        "recent.name": np.where((named >= 0) & (names.opener[named] == items), at[named], -1),
        "recent.parents": state.recent.parents[given],
        "recent.n_parents": state.recent.n_parents[given],
        "grid.base": state.grid.base.copy(),
        "counts": np.where(np.arange(len(counts)) == STAMP, 0, counts),
        "sums": state.sums.copy(),
    }
    for name, values in names._asdict().items():
        arrays[f"names.{name}"] = values[used]
    for name, values in state.events._asdict().items():
        arrays[f"events.{name}"] = values[:events].copy()
    return arrays


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
    state.counts[:], state.sums[:] = counts, arrays["sums"]
    state.grid.base[:] = arrays["grid.base"]
    particles, pool = state.particles, state.pool
    for name in ("weight", "n_tables", "opened", "key"):
        getattr(particles, name)[:] = arrays[f"particles.{name}"]
    for name in ("entry", "near", "held"):
        getattr(particles, name)[:, :K] = arrays[f"particles.{name}"]
    R, L, r = config.r + config.lag + 1, len(state.recent.x), len(state.recent.n_parents)
    items = np.arange(max(seen - R + 1, 0), seen)
    particles.label[:, items % R] = arrays["particles.label"]
    state.recent.name[items % R] = arrays["recent.name"]
    x = arrays["recent.x"]
    state.recent.x[np.arange(max(seen - L, 0), seen) % L, : x.shape[1]] = x
    given = np.arange(max(seen - r, 0), seen) % r
    state.recent.parents[given, : parents.shape[1]] = parents
    state.recent.n_parents[given] = arrays["recent.n_parents"]
    stats = arrays["pool.stats"]
    mine = slice(1, n_clusters + 1)  # after the empty one
    pool.stats[mine, : stats.shape[1]] = stats
    for name in ("members", "mixed", "name"):
        getattr(pool, name)[mine] = arrays[f"pool.{name}"]
    entry = particles.entry[particles.entry >= 0]
    pool.holders[:] = np.bincount(entry, minlength=len(pool.holders))
    pool.n_free[0] -= n_clusters  # the list is in descending order
    for e in range(1, n_clusters + 1):
        posterior(config.family, config.hyper, pool.stats[e], pool.post[e])
    for name, values in state.names._asdict().items():
        values[:n_names] = arrays[f"names.{name}"]
    for name, values in state.events._asdict().items():
        values[: len(arrays[f"events.{name}"])] = arrays[f"events.{name}"]
    return state
