"""Shared states of particle filters: arrays, storage, and the loop of a step.

Axes: P particles, K tables per particle, C clusters, S and Q entries of statistics and posteriors,
N names of tables, M children of all particles.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamddcrp import records as rec
from streamddcrp.compilation import entry_point
from streamddcrp.contract import EVENT_CAPACITY, EventRing, empty_events
from streamddcrp.likelihoods.kernels.families import n_post, n_stats, posterior
from streamddcrp.particles.kernels import names as naming
from streamddcrp.typing import FloatArray, IntArray

Arrays = dict[str, NDArray[Any]]
BoolArray = NDArray[np.bool_]
UintArray = NDArray[np.uint64]
_State = TypeVar("_State")


class Names(NamedTuple):
    """Tables of any particle, named by the customer that opened them."""

    opener: Annotated[IntArray, "N", -1]  # arrival index: the table's id; -1: the place is free
    last_seen: Annotated[IntArray, "N", -1]  # last arrival most probably there; -1: none
    reported: Annotated[BoolArray, "N"]  # whether its birth has been reported
    weight: Annotated[FloatArray, "N", rec.WEIGHT]  # of the particles with it
    n_holders: Annotated[IntArray, "N", rec.up_to("P")]  # their number


class Pool(NamedTuple):
    """Clusters; place 0 is the empty one, which no particle holds or frees."""

    stats: Annotated[FloatArray, "C S"]
    post: Annotated[FloatArray, "C Q"]  # the posterior given ``stats``
    members: Annotated[UintArray, "C"]  # exclusive or of members' hashes
    mixed: Annotated[UintArray, "C"]  # hash of ``members``; partitions take their exclusive or
    name: Annotated[IntArray, "C", rec.index("N")]  # position in `Names`
    holders: Annotated[IntArray, "C"]  # number of holding particles
    free: Annotated[IntArray, "C"]  # free places, the first ``n_free[0]`` entries
    n_free: Annotated[IntArray, "1"]


class Memo(NamedTuple):
    """Work space: values per cluster for an arrival."""

    seen: Annotated[IntArray, "C", -1]  # arrival for which the other entries are valid
    which: Annotated[IntArray, "C"]  # list of clusters
    score: Annotated[FloatArray, "C"]  # log predictive density
    lik: Annotated[FloatArray, "C"]  # the density relative to the largest one
    successor: Annotated[IntArray, "C", -1]  # place of the cluster plus the arrival; -1: none
    successor_mixed: Annotated[UintArray, "C"]


class Children(NamedTuple):
    """Work space: the children of all particles, and those kept."""

    parent: Annotated[IntArray, "M"]
    table: Annotated[IntArray, "M"]
    weight: Annotated[FloatArray, "M"]
    key: Annotated[UintArray, "M"]
    hashed: Annotated[IntArray, "H"]  # H a power of two, at least 2 M
    chosen: Annotated[IntArray, "P"]
    kept_weight: Annotated[FloatArray, "P"]
    ancestor: Annotated[IntArray, "P"]
    place: Annotated[IntArray, "P"]
    to: Annotated[IntArray, "P"]
    n: Annotated[IntArray, "1"]  # number kept
    used: Annotated[BoolArray, "P"]


class ParticleState:
    """Properties of any particle state, a named tuple of groups that kernels take."""

    __slots__ = ()
    counts: IntArray
    sums: FloatArray

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return rec.nbytes_of(self)

    @property
    def n_seen(self) -> int:
        """Number of rows learned."""
        return int(self.counts[naming.N_SEEN])

    @property
    def log_evidence(self) -> float:
        """Estimate of the log evidence."""
        return float(self.sums[naming.LOG_EVIDENCE])


def room(needed: int, least: int) -> int:
    """Return a sufficient power of two."""
    return max(least, 1 << (needed - 1).bit_length())


def empty_names(n: int) -> Names:
    """Return capacity for this many names."""
    return rec.empty(Names, {"N": n})


def empty_parts(
    family: int, hyper: FloatArray, *, n_particles: int, n_children: int, n_clusters: int,
    n_names: int, n_counts: int,
) -> dict[str, Any]:  # fmt: skip
    """Return the shared fields of states with a pool, with the given capacities."""
    lengths = {
        "P": n_particles, "M": n_children, "H": room(2 * n_children, 2), "C": n_clusters,
        "S": int(n_stats(family, hyper)), "Q": int(n_post(family, hyper)),
    }  # fmt: skip
    pool = rec.empty(Pool, lengths)
    pool.free[:] = np.arange(n_clusters)[::-1]
    pool.n_free[0] = n_clusters - 1  # place 0, last in the list, is the empty cluster
    posterior(family, hyper, pool.stats[0], pool.post[0])
    return {
        "pool": pool, "memo": rec.empty(Memo, lengths), "children": rec.empty(Children, lengths),
        "names": empty_names(n_names), "events": empty_events(),
        "counts": np.zeros(n_counts, np.int64), "sums": np.zeros(1),
    }  # fmt: skip


def names_and_events(state: Any) -> tuple[Arrays, IntArray]:
    """Return copies of names, by opener, and of events; and the places of names.

    The second result (N,) is the new position of each name; -1: not in use.
    """
    names, used = state.names, np.flatnonzero(state.names.opener >= 0)
    used = used[np.argsort(names.opener[used])]
    at = np.full(len(names.opener), -1)
    at[used] = np.arange(len(used))
    n_events = int(min(state.counts[naming.N_EVENTS], len(state.events.kind)))
    arrays = {f"names.{name}": values[used] for name, values in names._asdict().items()}
    events = state.events._asdict().items()
    return arrays | {f"events.{name}": values[:n_events].copy() for name, values in events}, at


def arrays_of(state: Any, stamp: int, **index: Any) -> tuple[Arrays, IntArray]:
    """Return checkpoint copies of the shared fields of states with a pool, and name places.

    Clusters and names are sorted, and unused entries have their declared fill, so equal states give
    equal bytes, whatever their capacities. ``stamp`` is an entry of ``counts`` without influence;
    ``index`` gives the entries in use of further axes of the particles. The second result (N,) is
    each name's new position; -1: not in use.
    """
    particles, pool, counts = state.particles, state.pool, state.counts
    K = int(counts[naming.MOST_TABLES])
    alive = particles.weight > 0
    inside = alive[:, None] & (np.arange(K) < particles.n_tables[:, None])
    arrays, at = names_and_events(state)
    for field in rec.declared(type(particles)):  # type: ignore[arg-type]
        axes = field.room
        cut = tuple({"K": slice(K), **index}.get(axis, slice(None)) for axis in axes)
        values = getattr(particles, field.name)[cut]
        in_use = inside if "K" in axes else alive
        more = (1,) * (values.ndim - in_use.ndim)
        in_use = in_use.reshape(len(alive), *more, *in_use.shape[1:])
        arrays[f"particles.{field.name}"] = np.where(in_use, values, field.fill)
    entry = arrays["particles.entry"]
    held = entry[entry >= 0]
    clusters = held[np.sort(np.unique(held, return_index=True)[1])]
    place = np.full(len(pool.name) + 1, -1)
    place[clusters] = np.arange(1, len(clusters) + 1)
    arrays |= {
        "particles.entry": place[entry],
        "pool.stats": pool.stats[clusters],
        "pool.members": pool.members[clusters],
        "pool.mixed": pool.mixed[clusters],
        "pool.name": at[pool.name[clusters]],
        "counts": np.where(np.arange(len(counts)) == stamp, 0, counts),
    }
    return arrays, at


COUNTS = rec.counters(
    {
        naming.MOST_TABLES: rec.up_to("K"),
        naming.N_NAMES: rec.up_to("N"),
        naming.N_LIVE: rec.up_to("N"),
    }
)
_BY_CLUSTER = ("members", "mixed", "name")


def check_names(
    arrays: Mapping[str, NDArray[Any]], lengths: rec.Lengths, n_counts: int, n_sums: int = 1
) -> dict[str, int]:
    """Check counters, names and events before use; return all lengths, or CheckpointError.

    ``lengths`` has the known ones, at least ``P`` and ``K``.
    """
    openers, counts = arrays["names.opener"], arrays["counts"]
    known = {**lengths, "N": len(openers), "E": len(arrays["events.kind"])}
    rec.check_one("counts", counts, (n_counts,), np.int64, COUNTS, known)
    rec.check_one("sums", arrays["sums"], (n_sums,), np.float64, rec.ANY)
    rec.check(Names, arrays, known, "names.")
    rec.check(EventRing, arrays, known, "events.")
    rec.refuse_if(
        counts[naming.MOST_TABLES] != known["K"]
        or counts[naming.N_NAMES] != len(openers)
        or min(counts[naming.N_EVENTS], EVENT_CAPACITY) != known["E"]
        or bool((openers >= counts[naming.N_SEEN]).any() or (np.diff(openers) <= 0).any()),
        "tables and names",
    )
    return known


def check(
    group: Any, arrays: Mapping[str, NDArray[Any]], n_counts: int, n_stats: int, **lengths: int
) -> dict[str, int]:
    """Check the output of `arrays_of` before use; return all lengths, or CheckpointError.

    ``group`` is that of the particles; ``lengths`` has the known ones, of ``P`` and further axes.
    """
    clusters, K = arrays["pool.name"], int(arrays["particles.entry"].shape[1])
    known = check_names(arrays, {**lengths, "K": K, "C": len(clusters)}, n_counts)
    rec.check(group, arrays, known | {"C": len(clusters) + 1}, "particles.")
    for field in rec.declared(Pool):
        if field.name in _BY_CLUSTER:
            name = f"pool.{field.name}"
            rec.check_one(name, arrays[name], clusters.shape, field.dtype, field.within, known)
    stats = arrays["pool.stats"]
    rec.check_one("pool.stats", stats, (len(clusters), stats.shape[1]), np.float64, rec.ANY)
    rec.refuse_if(
        stats.shape[1] > n_stats
        or bool((arrays["particles.n_tables"] > K).any())
        or not bool((arrays["particles.weight"] > 0).any()),
        "particles and tables",
    )
    return known


def restore_names(state: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write counters, names and events into an empty state."""
    state.counts[:], state.sums[:] = arrays["counts"], arrays["sums"]
    for prefix in ("names", "events"):
        for name, values in getattr(state, prefix)._asdict().items():
            kept = arrays[f"{prefix}.{name}"]
            values[: len(kept)] = kept


def restore(
    state: Any, family: int, hyper: FloatArray, arrays: Mapping[str, NDArray[Any]], **index: Any
) -> None:
    """Write the output of `arrays_of` into an empty state; unseen words may lack statistics."""
    particles, pool = state.particles, state.pool
    entry, stats = arrays["particles.entry"], arrays["pool.stats"]
    restore_names(state, arrays)
    for field in rec.declared(type(particles)):  # type: ignore[arg-type]
        cut = {"K": slice(entry.shape[1]), **index}
        at = tuple(cut.get(axis, slice(None)) for axis in field.room)
        getattr(particles, field.name)[at] = arrays[f"particles.{field.name}"]
    mine = slice(1, len(stats) + 1)  # after the empty one
    pool.stats[mine, : stats.shape[1]] = stats
    for name in ("members", "mixed", "name"):
        getattr(pool, name)[mine] = arrays[f"pool.{name}"]
    pool.holders[:] = np.bincount(entry[entry >= 0], minlength=len(pool.holders))
    pool.n_free[0] -= len(stats)  # the list is in descending order
    for e in range(1, len(stats) + 1):
        posterior(family, hyper, pool.stats[e], pool.post[e])


def learn_rows(
    kernel: Any,
    config: Any,
    state: _State,
    grown: Callable[[_State, Any], _State],
    inputs: Sequence[NDArray[Any]],
    outputs: Sequence[NDArray[Any]],
) -> _State:
    """Let a kernel learn rows in order; return the state, or a larger replacement.

    ``kernel(config, state, *inputs, done, *outputs)`` returns the rows done, fewer than those of
    the first input if it runs out of room; ``grown`` then enlarges the state.
    """
    n = len(inputs[0])
    run, done = entry_point(kernel), 0
    while True:
        done = run(config, state, *inputs, done, *outputs)
        if done == n:
            return state
        state = grown(state, config)
