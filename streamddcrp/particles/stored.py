"""What the filters of tables store alike: weights, clusters of the pool, names, events."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamddcrp.contract import EventRing
from streamddcrp.likelihoods.kernels.families import posterior
from streamddcrp.particles.kernels.layout import MOST_TABLES, N_EVENTS
from streamddcrp.particles.names import Names
from streamddcrp.particles.pool import Pool
from streamddcrp.typing import FloatArray, IntArray

Arrays = dict[str, NDArray[Any]]


def arrays_shared(
    particles: Any, pool: Pool, names: Names, events: EventRing, counts: IntArray, stamp: int
) -> tuple[Arrays, NDArray[np.bool_], IntArray]:
    """Return copies of arrays without unused capacity, for a checkpoint.

    Clusters and names are sorted, so that equal states give equal bytes, whatever their capacities.

    Parameters
    ----------
    particles : named tuple
        With ``weight``, ``n_tables`` and ``entry``.
    stamp : int
        Entry of ``counts`` that nothing depends on.

    Returns
    -------
    arrays : dict
    inside : ndarray of bool, shape (P, K)
        Places of tables that particles with a weight use.
    at : ndarray of int64, shape (G,)
        New position of each name; -1: not in use.
    """
    K = int(counts[MOST_TABLES])
    alive = particles.weight > 0
    inside = alive[:, None] & (np.arange(K) < particles.n_tables[:, None])
    entry = np.where(inside, particles.entry[:, :K], -1)
    held_by = entry[entry >= 0]
    clusters = held_by[np.sort(np.unique(held_by, return_index=True)[1])]
    place = np.full(len(pool.name) + 1, -1)
    place[clusters] = np.arange(1, len(clusters) + 1)
    used = np.flatnonzero(names.opener >= 0)
    used = used[np.argsort(names.opener[used])]
    at = np.full(len(names.opener), -1)
    at[used] = np.arange(len(used))
    arrays: Arrays = {
        "particles.weight": particles.weight.copy(),
        "particles.n_tables": np.where(alive, particles.n_tables, 0),
        "particles.entry": place[entry],
        "pool.stats": pool.stats[clusters],
        "pool.members": pool.members[clusters],
        "pool.mixed": pool.mixed[clusters],
        "pool.name": at[pool.name[clusters]],
        "counts": np.where(np.arange(len(counts)) == stamp, 0, counts),
    }
    for name, values in names._asdict().items():
        arrays[f"names.{name}"] = values[used]
    told = int(min(counts[N_EVENTS], len(events.kind)))
    for name, values in events._asdict().items():
        arrays[f"events.{name}"] = values[:told].copy()
    return arrays, inside, at


def restore_shared(
    family: int, hyper: FloatArray, arrays: Mapping[str, NDArray[Any]], particles: Any, pool: Pool,
    names: Names, events: EventRing, counts: IntArray,
) -> None:  # fmt: skip
    """Write what `arrays_shared` returned to empty places.

    The statistics may be shorter than those of ``hyper``: words that had not been seen.
    """
    counts[:] = arrays["counts"]
    particles.weight[:] = arrays["particles.weight"]
    particles.n_tables[:] = arrays["particles.n_tables"]
    entry = arrays["particles.entry"]
    particles.entry[:, : entry.shape[1]] = entry
    stats = arrays["pool.stats"]
    mine = slice(1, len(stats) + 1)  # after the empty one
    pool.stats[mine, : stats.shape[1]] = stats
    for name in ("members", "mixed", "name"):
        getattr(pool, name)[mine] = arrays[f"pool.{name}"]
    pool.holders[:] = np.bincount(entry[entry >= 0], minlength=len(pool.holders))
    pool.n_free[0] -= len(stats)  # the list is in descending order
    for e in range(1, len(stats) + 1):
        posterior(family, hyper, pool.stats[e], pool.post[e])
    for prefix, parts in (("names", names), ("events", events)):
        for name, values in parts._asdict().items():
            kept = arrays[f"{prefix}.{name}"]
            values[: len(kept)] = kept
