"""The memory of a stream: a window of customers, groups of older ones, tables.

The arrays are grouped by axis into named tuples, so that a kernel takes four arguments, not forty;
kernels update them in place. Axes: W rows of the window, D features, G groups, K tables, P and Q
entries of statistics and posteriors, O options of a link. Lengths are capacities; `State.counts`
gives the lengths in use.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp.contract import EVENT_CAPACITY, FORGET, LIVE
from streamddcrp.lanes import LANES
from streamddcrp.likelihoods.kernels.families import n_post, n_stats, posterior
from streamddcrp.models.seqddcrp.config import Config
from streamddcrp.models.seqddcrp.kernels import layout
from streamddcrp.models.seqddcrp.kernels.halves import PAST
from streamddcrp.models.seqddcrp.kernels.known import LASTING, LONG_RUN, UNREPORTED
from streamddcrp.models.seqddcrp.kernels.states import MIXTURES, STATES
from streamddcrp.records import (
    CHANCE,
    FINITE,
    MOST,
    PREPARED,
    REAL,
    WEIGHT,
    Within,
    check_one,
    clear,
    counters,
    empty,
    index,
    refuse_if,
    resized,
    restore,
    up_to,
)
from streamddcrp.records import arrays_of as stored_arrays
from streamddcrp.typing import FloatArray, IntArray

MIXED = {"M": MIXTURES, "S": STATES}  # lengths that never change
EXPECTED = Within(-0.5, MOST)  # an expected count; below 0 only by rounding


class Rows(NamedTuple):
    """The window: customers whose links may still change, oldest first."""

    x: Annotated[FloatArray, "W D", PREPARED]
    t: Annotated[FloatArray, "W"]
    clock: Annotated[FloatArray, "W"]  # users' times; not for kernels
    log_birth: Annotated[FloatArray, "W"]  # log alpha - log S_i when the customer arrived
    links: Annotated[FloatArray, "W W", CHANCE]  # q(c_i = j) for j < i in the window
    log_weight: Annotated[FloatArray, "W W", -np.inf]  # log p(c_i = j)
    group_links: Annotated[
        FloatArray, "W G", CHANCE
    ]  # the same for groups of evicted customers, whose
    group_log_weight: Annotated[FloatArray, "W G", -np.inf]  # links keep the prior's proportions
    rate: Annotated[FloatArray, "W"]  # 1 / S_i
    term: Annotated[FloatArray, "W"]  # the customer's link term of the bound
    surprise: Annotated[FloatArray, "W"]  # -log p of its values on arrival
    # q(c_i = i, d_i = m): i opens a table with atom m. Zero beyond the rows in use.
    births: Annotated[FloatArray, "K W", CHANCE]
    # Z: probability that i's parameter is that of atom m. Zero beyond the rows in use.
    probs: Annotated[FloatArray, "K W", CHANCE]
    past: Annotated[FloatArray, "R D", PREPARED]  # ring of evicted rows, while one table is known


class Groups(NamedTuple):
    """Evicted customers that rows still link to."""

    log_mass: Annotated[FloatArray, "G"]  # the decay weight is exp(log_mass) f(now - t)
    t: Annotated[FloatArray, "G"]
    arrival: Annotated[IntArray, "G"]  # arrival index of the youngest member
    # column of its members; -1: a single one
    atom: Annotated[IntArray, "G", -1, index("K", none=True)]
    probs: Annotated[FloatArray, "G K", CHANCE]  # mass-weighted mean of the members' Z
    shadow: Annotated[FloatArray, "G K", CHANCE]  # the part of it at the atoms' shadows


class Atoms(NamedTuple):
    """Data of the prior over atoms."""

    active: Annotated[IntArray, "K:A", index("K")]  # columns where a customer in memory may sit
    opener: Annotated[IntArray, "K", -1]  # arrival index of the customer that opened the column
    # Expected number of tables opened with the atom: by all customers and by evicted ones; by those
    # in the shadow and in the rest, if it were split.
    births: Annotated[FloatArray, "K", EXPECTED]
    frozen_births: Annotated[FloatArray, "K", EXPECTED]
    shadow_births: Annotated[FloatArray, "K", EXPECTED]
    rest_births: Annotated[FloatArray, "K", EXPECTED]
    # A split's addition to the link terms of evicted rows: this, minus the sticks' payments.
    side_terms: Annotated[FloatArray, "K"]
    side_sticks: Annotated[FloatArray, "K"]
    # Nats by which its halves predicted rows better than their pool, the number of rows, and the
    # sum of the probabilities of each row's likelier half.
    lead: Annotated[FloatArray, "K"]
    foretold: Annotated[FloatArray, "K", WEIGHT]
    told: Annotated[FloatArray, "K", WEIGHT]
    # Expected rows of the shadow when a split last failed; 0: never tried.
    failed_at: Annotated[FloatArray, "K"]
    log_beta: Annotated[FloatArray, "K"]  # E log of the atom's stick weight; 0 without recall
    beta: Annotated[FloatArray, "K"]  # E of it; 0 without recall
    # Nats by which evicted rows favour faster forgetting, and whether the atom uses it:
    # `kernels.pace`.
    pace_lead: Annotated[FloatArray, "K"]
    is_fast: Annotated[IntArray, "K", Within(0, 1)]
    # Rows of absence before it returned; since then all rows go to the shadow. Below 0 once
    # outdated parts are forgotten; 0: no long absence.
    visiting: Annotated[IntArray, "K", Within(-MOST, MOST)]
    # Rows since the last one there that would have suited it as well as their own atom.
    missed: Annotated[FloatArray, "K", WEIGHT]
    # Arrivals seen there, their runs, and whether users know of it: `kernels.known`.
    n_rows: Annotated[IntArray, "K"]
    n_visits: Annotated[IntArray, "K"]
    reported: Annotated[IntArray, "K", Within(-2, 1)]
    # Weight of the atom as the present state, up to a factor: `kernels.states`.
    filtered: Annotated[FloatArray, "K", Within(0.0, MOST)]
    joint: Annotated[FloatArray, "K", Within(0.0, MOST)]  # the same beside mixed states
    settled_at: Annotated[IntArray, "K", Within(-1, MOST)]  # last arrival in that state, or -1
    alone: Annotated[IntArray, "K"]  # rows for which it was the most probable state
    # Mixtures of atoms: places for mixed states, then for candidate runs of rows. Expected rows at
    # each atom, and in total; shares of the concentrations; weight as the present state, or the
    # run's predictive lead in nats; last arrival in the state, or first of the run, or -1.
    mix: Annotated[FloatArray, "M K", WEIGHT]
    mix_total: Annotated[FloatArray, "M", WEIGHT]
    mix_conc: Annotated[FloatArray, "M 3", CHANCE, 1.0 / 3.0]
    mix_weight: Annotated[FloatArray, "M", FINITE]
    mix_at: Annotated[IntArray, "M", Within(-1, MOST), -1]
    mix_id: Annotated[IntArray, "S", Within(-1, MOST), -1]


class ComponentTable(NamedTuple):
    """Live components; further rows are unused capacity."""

    ids: Annotated[IntArray, "K", -1]  # shown to users, in order of birth, never reused
    born: Annotated[IntArray, "K"]  # arrival index of the customer that opened it
    last_seen: Annotated[IntArray, "K", Within(-1, MOST)]  # and of the last one seen there, or -1
    stats: Annotated[FloatArray, "K P"]  # expected sufficient statistics of all its customers
    frozen: Annotated[FloatArray, "K P"]  # the part of evicted customers
    shadow: Annotated[FloatArray, "K P"]  # the part of ``frozen`` that a split would remove
    other: Annotated[FloatArray, "K P"]  # the same under the second memory: `kernels.pace`
    undivided: Annotated[FloatArray, "K P"]  # the part of ``frozen`` older than the shadow
    left: Annotated[FloatArray, "K P"]  # statistics of its halves: `kernels.halves`
    right: Annotated[FloatArray, "K P"]
    post: Annotated[FloatArray, "K Q"]  # posterior given ``stats``; column 0: log marginal


class Scratch(NamedTuple):
    """Work space of the kernels.

    Only ``columns``, the constant ``prior_post`` and the notes on events outlive a call, and a
    prediction until the next one.
    """

    columns: Annotated[FloatArray, "D W"]  # values transposed, for contiguous loops over rows
    sole: Annotated[IntArray, "W"]  # the only column where a row may sit; -1: several
    local: Annotated[FloatArray, "W"]
    message: Annotated[FloatArray, "O"]
    share: Annotated[FloatArray, "O"]
    work: Annotated[FloatArray, "O"]
    group: Annotated[FloatArray, "G"]
    own: Annotated[FloatArray, "K"]
    weight: Annotated[FloatArray, "K"]
    stale: Annotated[FloatArray, "K", 1]  # 1 if a posterior waits for the next block
    # Nats by which rows being evicted suit the shadows better; then 1 if they went there.
    sides: Annotated[FloatArray, "K W"]
    opened: Annotated[FloatArray, "W"]  # probability that it opens its half of the atom
    paid: Annotated[FloatArray, "W"]  # and its addition to ``side_sticks``
    home: Annotated[IntArray, "W"]  # columns at which rows have just been frozen
    joined: Annotated[IntArray, "W"]  # groups that rows being evicted have joined
    growth: Annotated[FloatArray, "W"]  # growth of these groups' log mass
    kept_frozen: Annotated[FloatArray, "P"]
    kept_column: Annotated[FloatArray, "G"]
    kept_weight: Annotated[FloatArray, "W"]  # of the links to a divided group
    log_new: Annotated[FloatArray, "1"]  # log density of the arrival under the base measure
    mixed: Annotated[FloatArray, "S"]  # density of the arrival in mixed states
    # G: what a customer's table would receive from it and from those that reach it.
    received: Annotated[FloatArray, "K W"]
    stats: Annotated[FloatArray, "P"]
    taken: Annotated[FloatArray, "K P"]  # statistics of some of the tables' rows
    rest: Annotated[FloatArray, "P"]
    mine: Annotated[FloatArray, "H D"]  # rows of one table, and their probabilities there
    there: Annotated[FloatArray, "H"]
    corner: Annotated[FloatArray, "L L"]  # links among eight rows, transposed
    moved: Annotated[FloatArray, "W"]  # 1 for the rows that a move gives to a new table
    post: Annotated[FloatArray, "Q"]
    shadow_post: Annotated[FloatArray, "Q"]
    whole_post: Annotated[FloatArray, "Q"]
    prior_post: Annotated[FloatArray, "Q", math.nan]  # posterior of no data; NaN: not computed yet
    # The last predicted row: number (-1: none), time, log S; values; the prediction.
    asked: Annotated[FloatArray, "3", -1]
    asked_x: Annotated[FloatArray, "D"]
    answer: Annotated[FloatArray, "N"]
    # The rows' links before a move, to restore if it fails.
    kept_links: Annotated[FloatArray, "W W"]
    kept_group_links: Annotated[FloatArray, "W G"]
    kept_births: Annotated[FloatArray, "K W"]
    kept_term: Annotated[FloatArray, "W"]
    # Differences between the last events' regimes and others: `kernels.reasons`.
    noted: Annotated[IntArray, "2"]
    told: Annotated[IntArray, "16 3", -1]
    views: Annotated[FloatArray, "16 3 3 D"]
    spans: Annotated[IntArray, "E 2", -1]  # arrivals whose times are not noted yet


class Events(NamedTuple):
    """Ring of the last events, as `streamddcrp.contract.EventRing`, with times of users."""

    kind: Annotated[IntArray, "E", Within(0, FORGET)]
    label: Annotated[IntArray, "E"]
    into: Annotated[IntArray, "E", Within(-1, MOST)]
    arrival: Annotated[IntArray, "E"]
    t: Annotated[FloatArray, "E", REAL]  # when it was noticed
    begun: Annotated[FloatArray, "E", REAL]  # of its arrival
    # Times between which the first row of its regime lies; NaN if not noted.
    earliest: Annotated[FloatArray, "E", math.nan]
    latest: Annotated[FloatArray, "E", math.nan]
    noted: Annotated[IntArray, "E", Within(0, MOST)]  # 9 number of the event + rows they are of


COUNTS = counters({
    layout.N_ROWS: up_to("W"), layout.N_GROUPS: up_to("G"), layout.N_TABLES: up_to("K"),
    layout.N_ACTIVE: up_to("K"), layout.REGIME: Within(-1, MOST), layout.STATE: Within(-1, MOST),
    layout.LIKELY: Within(-1, MOST), layout.ASKED: Within(-1, MOST), layout.AT: Within(-1, "S"),
})  # fmt: skip


@dataclass(slots=True)
class State:
    """The engine's memory; it has exactly one owner."""

    rows: Rows
    groups: Groups
    atoms: Atoms
    table: ComponentTable
    events: Events
    counts: Annotated[IntArray, COUNTS]
    sums: Annotated[FloatArray, REAL]
    scratch: Scratch

    @property
    def n_tables(self) -> int:
        """Number of live columns."""
        return int(self.counts[layout.N_TABLES])


def _padded(n: int) -> int:
    return -(-n // LANES) * LANES


def _lengths(config: Config, capacity: int, n_rows: int | None = None) -> dict[str, int]:
    """Return the capacities of all axes, given room for ``capacity`` tables and ``n_rows``."""
    window = config.window if n_rows is None else min(config.window, n_rows)
    width = _padded(window + config.sweep_every)
    n_groups = capacity + 2 if config.tied else config.halo + config.sweep_every + 1
    return {
        "W": width,
        "D": int(config.hyper[0]),
        "G": n_groups,
        "K": _padded(capacity),
        "A": capacity,
        "P": int(n_stats(config.family, config.hyper)),
        "Q": int(n_post(config.family, config.hyper)),
        "O": width + _padded(n_groups) + _padded(capacity + 1),
        "L": LANES,
        "R": PAST,
        "H": PAST + width,
        "E": EVENT_CAPACITY,
        "N": layout.N_COLUMNS,
        **MIXED,
    }


def empty_state(
    config: Config, capacity: int = 16, n_rows: int | None = None, old: State | None = None
) -> State:
    """Return the state before the first arrival, with room for ``capacity`` tables.

    It has room for ``n_rows`` rows, or for any number of them: `grown` gives it that later. It
    takes the place of a state that is ``old``, where that has the same room.
    """
    lengths = _lengths(config, capacity, n_rows)
    if old is not None and _room(old) == tuple([lengths[axis] for axis in "WDGKPQ"]):
        for group in (old.rows, old.groups, old.atoms, old.table, old.events, old.scratch):
            clear(group)
        state = old
    else:
        state = State(
            rows=empty(Rows, lengths),
            groups=empty(Groups, lengths),
            atoms=empty(Atoms, lengths),
            table=empty(ComponentTable, lengths),
            events=empty(Events, lengths),
            counts=np.empty(layout.N_COUNTS, np.int64),
            sums=np.empty(layout.N_SUMS),
            scratch=empty(Scratch, lengths),
        )
    counts, sums = state.counts, state.sums
    counts[:] = sums[:] = 0
    counts[[layout.REGIME, layout.STATE, layout.LIKELY, layout.AT, layout.ASKED]] = -1
    counts[layout.ENOUGH] = counts[layout.RUNS_LAST] = 1
    sums[layout.DEAD_LOG_MASS] = sums[layout.LAST_TIME] = -np.inf
    sums[layout.NEW_BETA] = sums[layout.REDRAWN] = 1.0
    sums[layout.FOLLOWED] = 8.0
    sums[layout.SPEED] = 1.0
    sums[layout.LOG_ALPHA] = math.log(config.alpha)
    if config.recall:
        sums[layout.NEW_LOG_BETA] = -math.log(1.0 + config.gamma)
    return state


def _room(state: State) -> tuple[int, ...]:
    """Return a state's capacity along each axis."""
    table, groups = state.table, state.groups
    return (*state.rows.x.shape, *groups.probs.shape, table.stats.shape[1], table.post.shape[1])


def grown(state: State, config: Config, capacity: int) -> State:
    """Return the state with room for ``capacity`` tables and unchanged numbers."""
    lengths = _lengths(config, capacity)
    larger = replace(
        state,
        rows=resized(state.rows, lengths),
        groups=resized(state.groups, lengths),
        atoms=resized(state.atoms, lengths),
        table=resized(state.table, lengths),
        scratch=empty(Scratch, lengths),
    )
    larger.scratch.columns[:] = larger.rows.x.T
    if state.rows.x.shape == larger.rows.x.shape:
        for name in ("noted", "told", "views", "spans"):
            getattr(larger.scratch, name)[:] = getattr(state.scratch, name)
    return larger


def widened(state: State, config: Config) -> State:
    """Return the state for ``config`` with more features, absent so far.

    For families where the statistics of a further feature are appended and are zero if it is
    absent: word counts.
    """
    wide = grown(state, config, len(state.table.ids))
    for m in range(state.n_tables):
        posterior(config.family, config.hyper, wide.table.stats[m], wide.table.post[m])
    return wide


def live_columns(state: State) -> IntArray:
    """Return the columns of known live tables."""
    K = state.n_tables
    atoms, rows = state.atoms, state.atoms.n_rows[:K]
    lasted = (rows >= LASTING) | ((rows > 0) & (rows >= LONG_RUN * atoms.n_visits[:K]))
    enough = state.counts[layout.ENOUGH] == 1 or rows >= state.counts[layout.ENOUGH]
    known = (atoms.reported[:K] >= UNREPORTED) & (enough | lasted)
    return np.flatnonzero((state.table.stats[:K, 0] >= LIVE) & known)


def arrays_of(state: State) -> dict[str, NDArray[Any]]:
    """Return copies of all arrays, without unused capacity, for a checkpoint."""
    return stored_arrays(state, _used(state))


def _used(state: State) -> dict[str, int]:
    """Return the length in use of each axis."""
    axes = {"W": layout.N_ROWS, "G": layout.N_GROUPS, "K": layout.N_TABLES, "A": layout.N_ACTIVE}
    used = {axis: int(state.counts[at]) for axis, at in axes.items()}
    D, P, Q = state.rows.x.shape[1], state.table.stats.shape[1], state.table.post.shape[1]
    n_events = int(min(state.counts[layout.N_EVENTS], len(state.events.kind)))
    return {
        **used,
        **MIXED,
        "D": D,
        "P": P,
        "Q": Q,
        "E": n_events,
        "R": min(int(state.counts[layout.N_KEPT]), PAST),
    }


def state_from_arrays(config: Config, arrays: Mapping[str, NDArray[Any]]) -> State:
    """Rebuild the state from `arrays_of`; raises CheckpointError."""
    counts, n_tables = arrays["counts"], len(arrays["table.ids"])
    lengths = _lengths(config, max(16, n_tables)) | {"K": n_tables}
    check_one("counts", counts, (layout.N_COUNTS,), np.int64, COUNTS, lengths)
    state = empty_state(config, capacity=max(16, n_tables))
    state.counts[:] = counts
    restore(state, _used(state), arrays)
    later = _not_before(len(state.rows.x))
    np.copyto(state.rows.links, 0.0, where=later)
    np.copyto(state.rows.log_weight, -np.inf, where=later)
    state.scratch.columns[:] = state.rows.x.T
    refuse_if(not _has_room(config, state), "numbers of rows, groups and tables")
    refuse_if(not state.sums[layout.FOLLOWED] > 0.0, "sums")
    return state


@cache
def _not_before(n: int) -> NDArray[np.bool_]:
    """Return for successive rows whether the second is not earlier."""
    return np.triu(np.ones((n, n), np.bool_))


def _has_room(config: Config, state: State) -> bool:
    """Whether rows and groups have room until the next block, as in every state created here."""
    counts, groups = state.counts, state.groups
    w, n_groups, n_active = map(int, counts[[layout.N_ROWS, layout.N_GROUPS, layout.N_ACTIVE]])
    active, atom = state.atoms.active[:n_active].tolist(), groups.atom[:n_groups].tolist()
    if (
        counts[layout.SINCE_BLOCK] >= config.sweep_every
        or w - config.window > counts[layout.SINCE_BLOCK]
    ):
        return False
    if w > counts[layout.N_SEEN] or (n_active == 0 and w > 0) or len(set(active)) < n_active:
        return False
    age = counts[layout.N_SEEN] - w - groups.arrival[:n_groups]  # relative to the oldest row
    if bool((age <= 0).any()):
        return False
    if not config.tied:
        return bool((age <= config.halo).all() and (np.diff(age) < 0).all())  # one for each row
    return n_groups - len(set(atom) - {-1}) <= 1
