"""Everything a stream has left behind: a window of customers, groups of older ones, tables.

The arrays are grouped by axis into named tuples so that a kernel takes four arguments, not forty;
kernels update them in place. Sizes are capacities; `State.counts` says how much is in use.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamddcrp.contract import EVENT_CAPACITY, EventRing, empty_events
from streamddcrp.likelihoods.kernels.families import n_post, n_stats, posterior
from streamddcrp.models.seqddcrp.config import Config
from streamddcrp.models.seqddcrp.kernels.layout import (
    DEAD_LOG_MASS,
    LAST_TIME,
    LOG_ALPHA,
    N_ACTIVE,
    N_COUNTS,
    N_EVENTS,
    N_GROUPS,
    N_ROWS,
    N_SUMS,
    N_TABLES,
    NEW_BETA,
    NEW_LOG_BETA,
    REGIME,
)
from streamddcrp.models.seqddcrp.table import ComponentTable, empty_table, resized
from streamddcrp.typing import FloatArray, IntArray

_Arrays = TypeVar("_Arrays", "Rows", "Groups", "Atoms")


class Rows(NamedTuple):
    """The window: customers whose links may still change, oldest first. W capacity.

    Attributes
    ----------
    x : ndarray of float64, shape (W, D)
    t : ndarray of float64, shape (W,)
    log_birth : ndarray of float64, shape (W,)
        log alpha - log S_i as it was when the customer arrived.
    links, log_weight : ndarray of float64, shape (W, W)
        q(c_i = j) and log p(c_i = j) for j < i in the window.
    group_links, group_log_weight : ndarray of float64, shape (W, G)
        The same for groups of evicted customers, whose links are tied to the prior's proportions.
    rate : ndarray of float64, shape (W,)
        1 / S_i.
    term : ndarray of float64, shape (W,)
        The customer's link term of the bound.
    births : ndarray of float64, shape (K, W)
        q(c_i = i, d_i = m): i opens a table with atom m. Zero beyond the rows in use.
    probs : ndarray of float64, shape (K, W)
        Z: probability that customer i's parameter is that of atom m. Zero beyond the rows in use.
    """

    x: FloatArray
    t: FloatArray
    log_birth: FloatArray
    links: FloatArray
    log_weight: FloatArray
    group_links: FloatArray
    group_log_weight: FloatArray
    rate: FloatArray
    term: FloatArray
    births: FloatArray
    probs: FloatArray


class Groups(NamedTuple):
    """Evicted customers that are still linked to. G capacity.

    Attributes
    ----------
    log_mass, t : ndarray of float64, shape (G,)
        The group's decay weight is exp(log_mass) f(now - t).
    arrival : ndarray of int64, shape (G,)
        Arrival index of the youngest member.
    atom : ndarray of int64, shape (G,)
        Column of the atom most of its members share; -1 for a group of one customer.
    probs : ndarray of float64, shape (G, K)
        Mass-weighted mean of its members' Z rows.
    shadow : ndarray of float64, shape (G, K)
        The part of it that is at the atoms' shadows.
    """

    log_mass: FloatArray
    t: FloatArray
    arrival: IntArray
    atom: IntArray
    probs: FloatArray
    shadow: FloatArray


class Atoms(NamedTuple):
    """What the prior over atoms needs, one entry a column. K capacity.

    Attributes
    ----------
    active : ndarray of int64, shape (K,)
        The columns that somebody in memory may sit at, as many as ``counts`` says.
    opener : ndarray of int64, shape (K,)
        Arrival index of the customer that opened the column.
    births, frozen_births : ndarray of float64, shape (K,)
        Expected number of tables opened with the atom: by all customers, by evicted ones.
    shadow_births : ndarray of float64, shape (K,)
        The shadow's part of the openings by evicted customers.
    failed_at : ndarray of float64, shape (K,)
        Expected rows of the shadow when a split was last tried in vain; 0: not tried.
    log_beta, beta : ndarray of float64, shape (K,)
        E log and E of the atom's stick weight; 0 and 0 without recall.
    overlap : ndarray of float64, shape (K, K)
        Entropy that evicted rows would lose if two atoms were one option: sum of h(s_il, s_im).
    """

    active: IntArray
    opener: IntArray
    births: FloatArray
    frozen_births: FloatArray
    shadow_births: FloatArray
    failed_at: FloatArray
    log_beta: FloatArray
    beta: FloatArray
    overlap: FloatArray


class Scratch(NamedTuple):
    """Work space of the kernels; nothing in it outlives a call but the constant ``prior_post``.

    Attributes
    ----------
    local : ndarray of float64, shape (W,)
    message, share, work : ndarray of float64, shape (W + G + K + 1,)
    group : ndarray of float64, shape (G,)
    own, weight : ndarray of float64, shape (K,)
    shadow : ndarray of float64, shape (K, W)
        Probability that rows being evicted sit at the atoms' shadows.
    sides : ndarray of float64, shape (K, W)
        1 where the opening of a row evicted last went to the shadow.
    kept_frozen : ndarray of float64, shape (P,)
    kept_column : ndarray of float64, shape (G,)
    log_new : ndarray of float64, shape (1,)
        Log density of the arrival under the base measure.
    received : ndarray of float64, shape (K, W)
        G: what a customer's table would receive from it and from those that reach it.
    stats : ndarray of float64, shape (P,)
    taken : ndarray of float64, shape (K, P)
        Statistics of some of the tables' rows.
    rest : ndarray of float64, shape (P,)
    moved : ndarray of float64, shape (W,)
        1 for the rows that a move gives to a new table.
    post, shadow_post, prior_post : ndarray of float64, shape (Q,)
        Two posteriors; the posterior of no data.
    kept_links, kept_group_links, kept_births, kept_term : ndarray of float64
        The rows' links before a move, to be put back if it fails.
    """

    local: FloatArray
    message: FloatArray
    share: FloatArray
    work: FloatArray
    group: FloatArray
    own: FloatArray
    weight: FloatArray
    shadow: FloatArray
    sides: FloatArray
    kept_frozen: FloatArray
    kept_column: FloatArray
    log_new: FloatArray
    received: FloatArray
    stats: FloatArray
    taken: FloatArray
    rest: FloatArray
    moved: FloatArray
    post: FloatArray
    shadow_post: FloatArray
    prior_post: FloatArray
    kept_links: FloatArray
    kept_group_links: FloatArray
    kept_births: FloatArray
    kept_term: FloatArray


@dataclass(slots=True)
class State:
    """The engine's memory; exactly one owner."""

    rows: Rows
    groups: Groups
    atoms: Atoms
    table: ComponentTable
    events: EventRing
    counts: IntArray
    sums: FloatArray
    scratch: Scratch

    @property
    def n_tables(self) -> int:
        """Number of live columns."""
        return int(self.counts[N_TABLES])


def _rows(width: int, n_groups: int, n_tables: int, n_features: int) -> Rows:
    return Rows(
        x=np.zeros((width, n_features)),
        t=np.zeros(width),
        log_birth=np.zeros(width),
        links=np.zeros((width, width)),
        log_weight=np.full((width, width), -np.inf),
        group_links=np.zeros((width, n_groups)),
        group_log_weight=np.full((width, n_groups), -np.inf),
        rate=np.zeros(width),
        term=np.zeros(width),
        births=np.zeros((n_tables, width)),
        probs=np.zeros((n_tables, width)),
    )


def _groups(n_groups: int, n_tables: int) -> Groups:
    return Groups(
        log_mass=np.zeros(n_groups),
        t=np.zeros(n_groups),
        arrival=np.zeros(n_groups, np.int64),
        atom=np.full(n_groups, -1, np.int64),
        probs=np.zeros((n_groups, n_tables)),
        shadow=np.zeros((n_groups, n_tables)),
    )


def _atoms(n_tables: int) -> Atoms:
    return Atoms(
        active=np.zeros(n_tables, np.int64),
        opener=np.full(n_tables, -1, np.int64),
        births=np.zeros(n_tables),
        frozen_births=np.zeros(n_tables),
        shadow_births=np.zeros(n_tables),
        failed_at=np.zeros(n_tables),
        log_beta=np.zeros(n_tables),
        beta=np.zeros(n_tables),
        overlap=np.zeros((n_tables, n_tables)),
    )


def _scratch(config: Config, width: int, n_groups: int, n_tables: int, n_post: int) -> Scratch:
    size = int(n_stats(config.family, config.hyper))
    n_options = width + n_groups + n_tables + 1
    prior_post = np.empty(n_post)
    posterior(config.family, config.hyper, np.zeros(size), prior_post)
    return Scratch(
        local=np.zeros(width),
        message=np.zeros(n_options),
        share=np.zeros(n_options),
        work=np.zeros(n_options),
        group=np.zeros(n_groups),
        own=np.zeros(n_tables),
        weight=np.zeros(n_tables),
        shadow=np.zeros((n_tables, width)),
        sides=np.zeros((n_tables, width)),
        kept_frozen=np.zeros(size),
        kept_column=np.zeros(n_groups),
        log_new=np.zeros(1),
        received=np.zeros((n_tables, width)),
        stats=np.zeros(size),
        taken=np.zeros((n_tables, size)),
        rest=np.zeros(size),
        moved=np.zeros(width),
        post=np.empty(n_post),
        shadow_post=np.empty(n_post),
        prior_post=prior_post,
        kept_links=np.zeros((width, width)),
        kept_group_links=np.zeros((width, n_groups)),
        kept_births=np.zeros((n_tables, width)),
        kept_term=np.zeros(width),
    )


def _counts() -> IntArray:
    counts = np.zeros(N_COUNTS, np.int64)
    counts[REGIME] = -1
    return counts


def _n_groups(config: Config, n_tables: int) -> int:
    return n_tables + 1 if config.tied else config.halo + config.sweep_every + 1


def empty_state(config: Config, capacity: int = 8) -> State:
    """Return the state before the first arrival, with room for ``capacity`` tables."""
    n_features = int(config.hyper[0])
    family, hyper = config.family, config.hyper
    size, cached = int(n_stats(family, hyper)), int(n_post(family, hyper))
    width = config.window + config.sweep_every
    n_groups = _n_groups(config, capacity)
    sums = np.zeros(N_SUMS)
    sums[[DEAD_LOG_MASS, LAST_TIME]] = -np.inf
    sums[NEW_BETA] = 1.0
    sums[LOG_ALPHA] = math.log(config.alpha)
    if config.recall:
        sums[NEW_LOG_BETA] = -math.log(1.0 + config.gamma)
    return State(
        rows=_rows(width, n_groups, capacity, n_features),
        groups=_groups(n_groups, capacity),
        atoms=_atoms(capacity),
        table=empty_table(capacity, n_stats=size, n_post=cached),
        events=empty_events(),
        counts=_counts(),
        sums=sums,
        scratch=_scratch(config, width, n_groups, capacity, cached),
    )


def _copied(new: _Arrays, old: _Arrays) -> _Arrays:
    """Copy the overlap of every array of ``old`` into ``new``."""
    for target, source in zip(new, old, strict=True):
        overlap = tuple(slice(min(a, b)) for a, b in zip(target.shape, source.shape, strict=True))
        target[overlap] = source[overlap]
    return new


def grown(state: State, config: Config, capacity: int) -> State:
    """Return the state with room for ``capacity`` tables; no number in it changes."""
    width, n_features = state.rows.x.shape
    n_groups = _n_groups(config, capacity)
    return State(
        rows=_copied(_rows(width, n_groups, capacity, n_features), state.rows),
        groups=_copied(_groups(n_groups, capacity), state.groups),
        atoms=_copied(_atoms(capacity), state.atoms),
        table=resized(state.table, capacity),
        events=state.events,
        counts=state.counts,
        sums=state.sums,
        scratch=_scratch(config, width, n_groups, capacity, state.table.post.shape[1]),
    )


def widened(state: State, config: Config) -> State:
    """Return the state for ``config`` with more features, absent in everything seen so far.

    For families whose statistics of a further feature stand behind those of the others and are zero
    where it is absent: counts of words.
    """
    wide = empty_state(config, capacity=len(state.table.ids))
    for target, source in (
        (wide.rows.x, state.rows.x),
        (wide.table.stats, state.table.stats),
        (wide.table.frozen, state.table.frozen),
        (wide.table.shadow, state.table.shadow),
    ):
        target[:, : source.shape[1]] = source
    for m in range(state.n_tables):
        posterior(config.family, config.hyper, wide.table.stats[m], wide.table.post[m])
    return State(
        rows=state.rows._replace(x=wide.rows.x),
        groups=state.groups,
        atoms=state.atoms,
        table=state.table._replace(
            stats=wide.table.stats,
            frozen=wide.table.frozen,
            shadow=wide.table.shadow,
            post=wide.table.post,
        ),
        events=state.events,
        counts=state.counts,
        sums=state.sums,
        scratch=wide.scratch,
    )


def _in_use(state: State) -> dict[str, tuple[slice, ...]]:
    """Per array, the part in use: rows, groups, tables, features."""
    w, g, k = (slice(int(n)) for n in state.counts[[N_ROWS, N_GROUPS, N_TABLES]])
    e = slice(int(min(state.counts[N_EVENTS], EVENT_CAPACITY)))
    return {
        "rows.x": (w,), "rows.t": (w,), "rows.log_birth": (w,), "rows.links": (w, w),
        "rows.log_weight": (w, w), "rows.group_links": (w, g), "rows.group_log_weight": (w, g),
        "rows.rate": (w,), "rows.term": (w,), "rows.births": (k, w), "rows.probs": (k, w),
        "groups.log_mass": (g,), "groups.t": (g,), "groups.arrival": (g,), "groups.atom": (g,),
        "groups.probs": (g, k), "groups.shadow": (g, k),
        **{f"atoms.{name}": (k,) for name in Atoms._fields},
        "atoms.active": (slice(int(state.counts[N_ACTIVE])),), "atoms.overlap": (k, k),
        **{f"table.{name}": (k,) for name in ComponentTable._fields},
        **{f"events.{name}": (e,) for name in EventRing._fields},
    }  # fmt: skip


def _array(state: State, name: str) -> FloatArray | IntArray:
    part, attribute = name.split(".")
    array: FloatArray | IntArray = getattr(getattr(state, part), attribute)
    return array


def arrays_of(state: State) -> dict[str, FloatArray | IntArray]:
    """Return copies of all arrays, without unused capacity, for a checkpoint."""
    arrays = {name: _array(state, name)[used].copy() for name, used in _in_use(state).items()}
    return arrays | {"counts": state.counts.copy(), "sums": state.sums.copy()}


def state_from_arrays(config: Config, arrays: Mapping[str, NDArray[Any]]) -> State:
    """Rebuild the state that `arrays_of` described."""
    counts = arrays["counts"]
    state = empty_state(config, capacity=max(8, int(counts[N_TABLES])))
    state.counts[:] = counts
    state.sums[:] = arrays["sums"]
    for name, used in _in_use(state).items():
        _array(state, name)[used] = arrays[name]
    return state
