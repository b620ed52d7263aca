"""Everything a particle filter has to remember: particles, their tables, the last customers.

The arrays are grouped by axis into named tuples, so that a kernel takes seven arguments, not forty;
kernels update them in place. Sizes are capacities: P particles, K tables a particle, B customers in
the ring (a power of two; customer i stands at i mod B), G names of tables, L = max(lag, 1) recent
customers (customer i at i mod L), S the length of the statistics, Q that of a cached posterior.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.contract import EVENT_CAPACITY, EventRing, empty_events
from streamddcrp.likelihoods.kernels.families import n_post, n_stats, posterior
from streamddcrp.models.ddcrp.filter_config import Config
from streamddcrp.models.ddcrp.kernels.filter_layout import N_SUMS
from streamddcrp.particles.kernels.layout import (
    FIRST,
    MOST_TABLES,
    N_COUNTS,
    N_EVENTS,
    N_NAMES,
    N_SEEN,
)
from streamddcrp.particles.state import Names, empty_names, room
from streamddcrp.records import nbytes_of
from streamddcrp.typing import FloatArray, IntArray

BoolArray = NDArray[np.bool_]
PARTS = ("particles", "tables", "ring", "names", "events")  # of the state, written to checkpoints


class Particles(NamedTuple):
    """What there is once a particle.

    Attributes
    ----------
    weight : ndarray of float64, shape (P,)
        Sums to 1.
    n_tables : ndarray of int64, shape (P,)
    last : ndarray of int64, shape (P,)
        Table of the last customer, -1 where it is gone.
    """

    weight: FloatArray
    n_tables: IntArray
    last: IntArray


class Tables(NamedTuple):
    """Tables of each particle, in the order in which it opened them.

    Attributes
    ----------
    name : ndarray of int64, shape (P, K)
        Position of the table's name in `Names`.
    retained : ndarray of int64, shape (P, K)
        Members in the ring.
    carried : ndarray of float64, shape (P, K)
        Decayed weight of the members that have left the ring.
    stats : ndarray of float64, shape (P, K, S)
        Sums over all members.
    post : ndarray of float64, shape (P, K, Q)
        The posterior that belongs to ``stats``.
    """

    name: IntArray
    retained: IntArray
    carried: FloatArray
    stats: FloatArray
    post: FloatArray


class Ring(NamedTuple):
    """Customers that may be linked to one by one.

    Attributes
    ----------
    t : ndarray of float64, shape (B,)
    label : ndarray of int64, shape (P, B)
        Table.
    link : ndarray of int64, shape (P, B)
        Arrival index of the customer linked to; -1 where it had left the ring. Kept with a lag.
    """

    t: FloatArray
    label: IntArray
    link: IntArray


class Recent(NamedTuple):
    """Customers whose links are drawn anew.

    Attributes
    ----------
    x : ndarray of float64, shape (L, D)
    weight : ndarray of float64, shape (L, B)
        Decay weights of their links to the customers of the ring.
    name : ndarray of int64, shape (L,)
        Position in `Names` of the table they open; -1 while no particle has it.
    """

    x: FloatArray
    weight: FloatArray
    name: IntArray


class Scratch(NamedTuple):
    """Work space of the kernels; nothing in it outlives a call but the constant ``prior_post``.

    Attributes
    ----------
    weight : ndarray of float64, shape (P, K)
        Probability of each table for the arrival, but for ``total``.
    new, total, gain : ndarray of float64, shape (P,)
        The same for a new table; the sum of both; log predictive density.
    mass, score : ndarray of float64, shape (K,)
    at_name : ndarray of float64, shape (G,)
    offspring, ancestor, place : ndarray of int64, shape (P,)
    used : ndarray of bool, shape (P,)
    inside : ndarray of bool, shape (L,)
        Whether the customers from one on hang on it.
    taken, kept_stats, joint : ndarray of float64, shape (S,)
    taken_post, kept_post, joint_post, prior_post : ndarray of float64, shape (Q,)
    """

    weight: FloatArray
    new: FloatArray
    total: FloatArray
    gain: FloatArray
    mass: FloatArray
    score: FloatArray
    at_name: FloatArray
    offspring: IntArray
    ancestor: IntArray
    place: IntArray
    used: BoolArray
    inside: BoolArray
    taken: FloatArray
    kept_stats: FloatArray
    joint: FloatArray
    taken_post: FloatArray
    kept_post: FloatArray
    joint_post: FloatArray
    prior_post: FloatArray


@dataclass(slots=True)
class State:
    """The filter's memory; exactly one owner."""

    particles: Particles
    tables: Tables
    ring: Ring
    recent: Recent
    names: Names
    events: EventRing
    counts: IntArray
    sums: FloatArray
    scratch: Scratch

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays take."""
        return nbytes_of(self)


def empty_state(config: Config) -> State:
    """Return the state before the first arrival."""
    return _laid_out(config, 8, 16, 16)


def _laid_out(config: Config, n_tables: int, n_ring: int, n_names: int) -> State:
    """Return an empty state with room for so many tables, customers and names."""
    P, L, D = config.n_particles, max(config.lag, 1), int(config.hyper[0])
    S, Q = (int(size(config.family, config.hyper)) for size in (n_stats, n_post))
    prior_post = np.empty(Q)
    posterior(config.family, config.hyper, np.zeros(S), prior_post)
    return State(
        particles=Particles(
            weight=np.full(P, 1.0 / P), n_tables=np.zeros(P, np.int64), last=np.full(P, -1)
        ),
        tables=Tables(
            name=np.zeros((P, n_tables), np.int64),
            retained=np.zeros((P, n_tables), np.int64),
            carried=np.zeros((P, n_tables)),
            stats=np.zeros((P, n_tables, S)),
            post=np.zeros((P, n_tables, Q)),
        ),
        ring=Ring(
            t=np.zeros(n_ring),
            label=np.zeros((P, n_ring), np.int64),
            link=np.zeros((P, n_ring), np.int64),
        ),
        recent=Recent(x=np.zeros((L, D)), weight=np.zeros((L, n_ring)), name=np.full(L, -1)),
        names=empty_names(n_names),
        events=empty_events(),
        counts=np.zeros(N_COUNTS, np.int64),
        sums=np.zeros(N_SUMS),
        scratch=Scratch(
            weight=np.zeros((P, n_tables)),
            new=np.zeros(P),
            total=np.zeros(P),
            gain=np.zeros(P),
            mass=np.zeros(n_tables),
            score=np.zeros(n_tables),
            at_name=np.zeros(n_names),
            offspring=np.zeros(P, np.int64),
            ancestor=np.zeros(P, np.int64),
            place=np.zeros(P, np.int64),
            used=np.zeros(P, np.bool_),
            inside=np.zeros(L, np.bool_),
            taken=np.zeros(S),
            kept_stats=np.zeros(S),
            joint=np.zeros(S),
            taken_post=np.zeros(Q),
            kept_post=np.zeros(Q),
            joint_post=np.zeros(Q),
            prior_post=prior_post,
        ),
    )


def grown(state: State, config: Config) -> State:
    """Return the state with room for one more arrival; no number in it changes."""
    return state_from_arrays(config, arrays_of(state, config))


def arrays_of(state: State, config: Config) -> dict[str, NDArray[Any]]:
    """Return copies of all arrays without unused capacity, for a checkpoint.

    What follows from the rest (cached posteriors, scratch) is left out, and names are sorted: equal
    states give equal bytes, whatever their capacities.
    """
    arrays = {f"{part}.{name}": values for part in PARTS for name, values in _fields(state, part)}
    K, seen, first = (int(state.counts[i]) for i in (MOST_TABLES, N_SEEN, FIRST))
    used = np.flatnonzero(state.names.opener >= 0)
    used = used[np.argsort(state.names.opener[used])]
    place = np.zeros(len(state.names.opener), np.int64)
    place[used] = np.arange(len(used))
    arrays["tables.name"] = place[state.tables.name]
    empty = np.arange(K) >= state.particles.n_tables[:, None]
    at = np.arange(first, seen) & (len(state.ring.t) - 1)
    events = slice(int(min(state.counts[N_EVENTS], EVENT_CAPACITY)))
    in_use: dict[str, Any] = {"ring": (..., at), "names": used, "events": events}
    for name, values in arrays.items():
        part = name.partition(".")[0]
        if part == "tables":
            kept = values[:, :K].copy()
            kept[empty] = 0
        else:
            kept = values[in_use.get(part, ...)].copy()
        arrays[name] = kept
    recent = _recent(seen, config.lag)
    row = recent % len(state.recent.name)
    arrays["recent.x"] = state.recent.x[row]
    earlier = np.arange(first, seen) < recent[:, None]
    arrays["recent.weight"] = np.where(earlier, state.recent.weight[row][:, at], 0.0)
    return arrays | {"counts": state.counts.copy(), "sums": state.sums.copy()}


def state_from_arrays(config: Config, arrays: Mapping[str, NDArray[Any]]) -> State:
    """Rebuild the state that `arrays_of` described, with room for one more arrival at least.

    The statistics may be shorter than those of ``config``: words that had not been seen.
    """
    counts = arrays["counts"]
    K, seen, first, n_names = (int(counts[i]) for i in (MOST_TABLES, N_SEEN, FIRST, N_NAMES))
    more = 1 + config.lag
    state = _laid_out(
        config, room(K + more, 8), room(seen - first + 1, 16), room(n_names + more, 16)
    )
    state.counts[:], state.sums[:] = counts, arrays["sums"]
    at = np.arange(first, seen) & (len(state.ring.t) - 1)
    in_use: dict[str, Any] = {
        "ring": (..., at), "names": slice(n_names), "tables": (slice(None), slice(K)),
        "events": slice(int(min(counts[N_EVENTS], EVENT_CAPACITY))),
    }  # fmt: skip
    for part in PARTS:
        for name, values in _fields(state, part):
            kept = arrays[f"{part}.{name}"]
            target = values[..., : kept.shape[2]] if name == "stats" else values
            target[in_use.get(part, ...)] = kept
    recent = _recent(seen, config.lag)
    row = recent % len(state.recent.name)
    x = arrays["recent.x"]
    state.recent.x[row, : x.shape[1]] = x
    state.recent.weight[row[:, None], at] = arrays["recent.weight"]
    known = {int(opener): g for g, opener in enumerate(arrays["names.opener"])}
    state.recent.name[row] = [known.get(i, -1) for i in recent.tolist()]
    for p, n_tables in enumerate(state.particles.n_tables):
        for k in range(n_tables):
            posterior(
                config.family, config.hyper, state.tables.stats[p, k], state.tables.post[p, k]
            )
    return state


def _fields(state: State, part: str) -> list[tuple[str, NDArray[Any]]]:
    """Return the arrays of a part by name, without what follows from the others."""
    fields: dict[str, NDArray[Any]] = getattr(state, part)._asdict()
    return [(name, values) for name, values in fields.items() if name != "post"]


def _recent(seen: int, lag: int) -> IntArray:
    """Return the customers so far whose links will be drawn anew after the next arrival."""
    return np.arange(max(0, seen + 1 - lag), seen)
