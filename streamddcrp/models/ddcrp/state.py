"""The particle filter's settings and state.

Arrays are grouped by axis into named tuples, which kernels update in place. Lengths are capacities:
P particles, K tables of each, B customers in the ring (a power of two; customer i is at i mod B),
N names of tables, S and Q entries of statistics and cached posteriors.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp import records as rec
from streamddcrp.contract import EventRing, empty_events
from streamddcrp.decay import Decay
from streamddcrp.errors import ConfigError
from streamddcrp.likelihoods.kernels.families import n_post, n_stats, posterior
from streamddcrp.models.ddcrp.kernels.tables import N_SUMS
from streamddcrp.numerics import CALLER_GIVEN, EXPONENTIAL, NO_DECAY
from streamddcrp.particles import state as shared
from streamddcrp.particles.kernels.names import FIRST, MOST_TABLES, N_COUNTS, N_NAMES, N_SEEN
from streamddcrp.particles.state import Names, ParticleState, empty_names, room
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import particle_count, positive, whole

BoolArray = NDArray[np.bool_]
TAIL = 1e-12  # weight, as a share of alpha, below which links and tables are dropped
LARGEST_REACH = 1 << 20  # arrivals

# --- Settings -------------------------------------------------------------------------------------


class Config(NamedTuple):
    """Settings in the kernels' form; created and checked by `make_config`."""

    family: int
    hyper: FloatArray
    decay_code: int
    decay_location: float
    decay_scale: float
    alpha: float
    gamma: float  # weight of an opener's new parameter against old ones; inf: no recall
    least: float  # weight below which a table without members in the ring is dropped
    carried: bool  # whether tables carry the weight of members that left the ring
    given: bool  # whether link weights are evaluated outside
    clocked: bool  # whether distances are times; else arrival counts
    reach: float  # largest distance of a link
    by_gap: FloatArray  # (W,) weights over 1 .. W arrivals; empty if not needed
    n_particles: int
    seed: int


def make_config(
    *, family: int, hyper: FloatArray, decay: Decay, alpha: float, n_particles: int,
    seed: int, clocked: bool, gamma: float | None = None,
) -> Config:  # fmt: skip
    """Check the options of `DDCRPFilter` and convert them for the kernels; raises ConfigError.

    Exponential and no decay have unbounded reach; any other one is cut where it falls below 1e-12
    ``alpha``, which it must reach. ``seed``: key of the random numbers. ``clocked``: distances are
    of times; else of arrival indices.
    """
    n_particles = particle_count(n_particles)
    seed, alpha = whole("seed", seed, 0, (1 << 63) - 1), positive("alpha", alpha)
    gamma = math.inf if gamma is None else positive("gamma", gamma, "None")
    carried = decay.code in (EXPONENTIAL, NO_DECAY)
    reach, by_gap = math.inf, np.empty(0)
    if not carried:
        share = TAIL * alpha / float(decay.weight(0.0))
        reach = decay.horizon(min(max(share, 1e-300), 0.5))
        if math.isinf(reach):
            raise ConfigError(
                "decay: it never falls below 1e-12 alpha, so nothing could be forgotten; multiply "
                "it by a window"
            )
        if not clocked and reach > LARGEST_REACH:
            raise ConfigError(
                f"decay: links reach {reach:.0f} arrivals back, and every particle would keep so "
                f"many; at most {LARGEST_REACH}, or take an exponential decay or none"
            )
        if not clocked:
            by_gap = np.trim_zeros(decay.weight(np.arange(1.0, math.floor(reach) + 1.0)), "b")
    given = not carried and (not clocked or decay.code == CALLER_GIVEN)
    return Config(
        family, hyper, decay.code, decay.location, decay.scale, alpha, gamma, TAIL * alpha, carried,
        given, clocked, reach, by_gap, n_particles, seed,
    )  # fmt: skip


# --- State ----------------------------------------------------------------------------------------


class Particles(NamedTuple):
    """Fields that occur once per particle."""

    weight: Annotated[FloatArray, "P", rec.CHANCE]  # sums to 1
    n_tables: Annotated[IntArray, "P", rec.up_to("K")]
    opened: Annotated[IntArray, "P", rec.Within(0, rec.MOST)]  # tables, including closed ones
    # table of the last customer; -1: it is gone
    last: Annotated[IntArray, "P", -1, rec.index("K", none=True)]


class Tables(NamedTuple):
    """Tables of each particle, in opening order."""

    name: Annotated[IntArray, "P K", rec.up_to("N")]  # position in `Names`
    retained: Annotated[IntArray, "P K", rec.up_to("B")]  # members in the ring
    openings: Annotated[FloatArray, "P K", rec.WEIGHT]  # how often it was opened
    # decayed weight of all members, where tables carry it
    carried: Annotated[FloatArray, "P K", rec.WEIGHT]
    stats: Annotated[FloatArray, "P K S"]  # sums over all members
    post: Annotated[FloatArray, "P K Q"]  # the posterior given ``stats``


class Ring(NamedTuple):
    """Customers that may be linked to individually, or corrected."""

    t: Annotated[FloatArray, "B", rec.FINITE]
    label: Annotated[IntArray, "P B", rec.index("K")]  # table


class Scratch(NamedTuple):
    """Work space of the kernels, valid within a call except the constant ``prior_post``."""

    weight: Annotated[FloatArray, "P K"]  # probability of each table for the arrival, times total
    again: Annotated[FloatArray, "P K"]  # probability that the arrival opens its table
    new: Annotated[FloatArray, "P"]  # the same for a new table
    total: Annotated[FloatArray, "P"]  # the sum of both
    gain: Annotated[FloatArray, "P"]  # log predictive density
    mass: Annotated[FloatArray, "K"]
    score: Annotated[FloatArray, "K"]
    at_name: Annotated[FloatArray, "N"]
    offspring: Annotated[IntArray, "P"]
    ancestor: Annotated[IntArray, "P"]
    place: Annotated[IntArray, "P"]
    used: Annotated[BoolArray, "P"]
    link_weight: Annotated[FloatArray, "B"]  # of the arrival's links to customers of the ring
    name: Annotated[IntArray, "1", -1]  # in `Names`, of the table that the arrival opens; -1: none
    prior_post: Annotated[FloatArray, "Q"]


class _Groups(NamedTuple):
    particles: Particles
    tables: Tables
    ring: Ring
    names: Names
    events: EventRing
    counts: IntArray
    sums: FloatArray
    scratch: Scratch


class State(ParticleState, _Groups):
    """The filter's memory; it has exactly one owner."""

    __slots__ = ()


_GROUPS: dict[str, Any] = {"particles": Particles, "tables": Tables, "ring": Ring}


def empty_state(config: Config) -> State:
    """Return the state before the first arrival."""
    return _with_room(config, 8, 16, 16)


def _with_room(config: Config, n_tables: int, n_ring: int, n_names: int) -> State:
    """Return an empty state with these capacities of tables, customers and names."""
    rows = config.family, config.hyper
    lengths = {
        "P": config.n_particles, "K": n_tables, "B": n_ring, "N": n_names,
        "S": int(n_stats(*rows)), "Q": int(n_post(*rows)),
    }  # fmt: skip
    state = State(
        rec.empty(Particles, lengths), rec.empty(Tables, lengths), rec.empty(Ring, lengths),
        empty_names(n_names), empty_events(), np.zeros(N_COUNTS, np.int64), np.zeros(N_SUMS),
        rec.empty(Scratch, lengths),
    )  # fmt: skip
    state.particles.weight[:] = 1.0 / config.n_particles
    posterior(*rows, np.zeros(lengths["S"]), state.scratch.prior_post)
    return state


def arrays_of(state: State) -> dict[str, NDArray[Any]]:
    """Return copies of all arrays without unused capacity, for a checkpoint.

    Derived arrays are left out, and names are sorted, so equal states give equal bytes.
    """
    arrays, at = shared.names_and_events(state)
    arrays |= {name: values[place].copy() for name, values, place in _stored(state)}
    arrays["tables.name"] = at[arrays["tables.name"]]
    unused = np.arange(state.counts[MOST_TABLES]) >= state.particles.n_tables[:, None]
    for name in ("name", "retained", "openings", "carried", "stats"):
        arrays[f"tables.{name}"][unused] = 0
    return arrays | {"counts": state.counts.copy(), "sums": state.sums.copy()}


def check_arrays(config: Config, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse inconsistent arrays before any is used."""
    lengths: rec.Lengths = {
        "P": config.n_particles, "K": arrays["tables.name"].shape[-1],
        "B": len(arrays["ring.t"]),
    }  # fmt: skip
    lengths = shared.check_names(arrays, lengths, N_COUNTS, N_SUMS)
    for part, group in _GROUPS.items():
        rec.check(group, arrays, lengths, f"{part}.", without=("post",))
    seen, first = arrays["counts"][[N_SEEN, FIRST]]
    n_tables = arrays["particles.n_tables"]
    labels = arrays["ring.label"]
    taken = np.arange(lengths["K"]) < n_tables[:, None]
    rec.refuse_if(
        seen - first != lengths["B"]
        or first > seen
        or arrays["tables.stats"].shape[-1] > int(n_stats(config.family, config.hyper))
        or bool((arrays["tables.name"] >= max(lengths["N"], 1)).any())
        or bool((labels >= np.maximum(n_tables, 1)[:, None]).any())
        or bool((arrays["particles.last"] >= n_tables).any())
        or bool((arrays["particles.opened"] < n_tables).any())
        or bool((arrays["particles.opened"] > seen).any()),
        "customers and tables",
    )
    members = np.zeros((config.n_particles, lengths["K"]), np.int64)
    np.add.at(members, (np.arange(config.n_particles)[:, None], labels), 1)
    rec.refuse_if(bool((members != arrays["tables.retained"])[taken].any()), "members of tables")


def state_from_arrays(config: Config, arrays: Mapping[str, NDArray[Any]]) -> State:
    """Rebuild the state from `arrays_of`, with room for at least one more arrival.

    The statistics may be shorter than those of ``config``, because of unseen words.
    """
    counts = arrays["counts"]
    K, seen, first, n_names = (int(counts[i]) for i in (MOST_TABLES, N_SEEN, FIRST, N_NAMES))
    state = _with_room(config, room(K + 1, 8), room(seen - first + 1, 16), room(n_names + 1, 16))
    shared.restore_names(state, arrays)
    for name, values, place in _stored(state):
        kept = arrays[name]
        target = values[..., : kept.shape[2]] if name == "tables.stats" else values
        target[place] = kept
    rows, tables = (config.family, config.hyper), state.tables
    for p, n_tables in enumerate(state.particles.n_tables):
        for k in range(n_tables):
            posterior(*rows, tables.stats[p, k], tables.post[p, k])
    return state


def in_ring(state: State) -> IntArray:
    """Return the ring places of its customers, oldest first."""
    return np.arange(state.counts[FIRST], state.counts[N_SEEN]) & (len(state.ring.t) - 1)


def _stored(state: State) -> Iterator[tuple[str, NDArray[Any], Any]]:
    """Yield name, array and part in use for particles, tables and customers."""
    in_use = {
        "particles": ..., "tables": (slice(None), slice(int(state.counts[MOST_TABLES]))),
        "ring": (..., in_ring(state)),
    }  # fmt: skip
    for part, place in in_use.items():
        for name, values in getattr(state, part)._asdict().items():
            if name != "post":  # it follows from the statistics
                yield f"{part}.{name}", values, place
