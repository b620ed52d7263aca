"""The engine of `GroupDP`: settings, state, steps and predictions.

Axes: P particles, K tables per particle, A nodes (the root is node 0), G groups, N names of tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streamddcrp.compilation import entry_point
from streamddcrp.contract import N_OUTPUTS, EventRing
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.estimator.particle_engine import ParticleEngine, live_names
from streamddcrp.likelihoods import Likelihood
from streamddcrp.likelihoods.kernels.families import n_stats
from streamddcrp.models.graph.config import Grid, alpha_by_particle, alpha_weights
from streamddcrp.models.graph.kernels.cells import list_cells
from streamddcrp.models.graph.kernels.children import CACHED, N_COUNTS, STAMP
from streamddcrp.models.graph.kernels.group import predict_row as _predict_row
from streamddcrp.models.graph.kernels.group import step_rows
from streamddcrp.particles import state as shared
from streamddcrp.particles.kernels.names import MOST_TABLES, N_NAMES
from streamddcrp.particles.state import Children, Memo, Names, ParticleState, Pool, learn_rows, room
from streamddcrp.records import (
    ANY,
    CHANCE,
    check,
    check_one,
    empty,
    index,
    refuse_if,
    stored_array,
    up_to,
)
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import whole

FIXED = np.empty(0)
Path = tuple[str, ...]  # a group's name, after that of its node where there are two layers


def layers_of(n_shared: Any) -> list[int]:
    """Return the numbers of auxiliary items of the root and, with two layers, of each node.

    Raises
    ------
    ConfigError
        If ``n_shared`` is not one or two positive whole numbers.
    """
    layers = n_shared if isinstance(n_shared, tuple | list) else (n_shared,)
    if len(layers) not in (1, 2):
        message = f"n_shared must be one or two whole numbers, got {n_shared!r}"
        raise ConfigError(message)
    return [whole("n_shared", n, 1, 1 << 16) for n in layers]


def path_of(group: Any, n_layers: int, row: int = 0) -> Path:
    """Return a group's name as text, checked; None is one group for all.

    Raises
    ------
    SchemaError
        If it is no name or, with two layers, no pair of names.
    """
    parts = group if isinstance(group, tuple | list) else (group,)
    if group is None:
        parts = ("",) * n_layers
    if len(parts) != n_layers:
        what = "a name" if n_layers == 1 else "(node, name)"
        message = f"row {row}, group: expected {what}, got {group!r}"
        raise SchemaError(message, row=row)
    return tuple(str(part) for part in parts)


def listed(group: Any, n_rows: int) -> list[Any]:
    """Return the groups of so many rows as a list, from arrays and Arrow columns, too.

    Raises
    ------
    SchemaError
        If there is not one for each row.
    """
    if hasattr(group, "to_pylist"):
        found = list(group.to_pylist())
    else:
        found = group.tolist() if isinstance(group, np.ndarray) else list(group)
    if len(found) != n_rows:
        message = f"group: expected one for each of the {n_rows} rows, got {len(found)}"
        raise SchemaError(message)
    return found


def refuse_regression(likelihood: Likelihood, n_features: int) -> None:
    """Refuse a likelihood that regresses on the rows before: ConfigError."""
    if likelihood.prepare(np.zeros((1, n_features)))[1] is not None:
        message = "likelihood: rows of several groups have no common past to regress on"
        raise ConfigError(message)


class RowGroups(NamedTuple):
    """Groups of N rows."""

    paths: list[Path]

    def rows(self, a: int, z: int) -> "RowGroups":
        """Return those of rows a to z."""
        return RowGroups(self.paths[a:z])

    def and_then(self, more: "RowGroups") -> "RowGroups":
        """Return these rows and more."""
        return RowGroups(self.paths + more.paths)


class Config(NamedTuple):
    """Settings in the kernels' terms."""

    family: int
    hyper: FloatArray
    alpha: float  # NaN where it is integrated out
    n_root: int  # auxiliary items of the root
    n_node: int  # and of each node; 0: all groups are below the root
    n_particles: int
    markov: bool  # whether the table of the row before is a row's group
    moves: int  # auxiliary items resampled after an arrival
    seed: int
    # (J,): the values of alpha that are summed over, their logs and log weights; none: it is fixed
    nodes: FloatArray = FIXED
    log_nodes: FloatArray = FIXED
    log_prior: FloatArray = FIXED


class Particles(NamedTuple):
    """Particles and their tables."""

    weight: Annotated[FloatArray, "P", CHANCE]
    n_tables: Annotated[IntArray, "P", up_to("K")]  # places in use
    last: Annotated[IntArray, "P", -1, index("K", none=True)]  # table of the last row
    # place of the table's cluster in the pool; -1: no data
    entry: Annotated[IntArray, "P K", -1, index("C", none=True)]
    n_aux: Annotated[IntArray, "P K"]  # auxiliary items of all nodes
    aux: Annotated[IntArray, "P A K"]  # auxiliary items of each node
    own: Annotated[IntArray, "P G K"]  # rows of each group; in a Markov chain after each table


class Cells(NamedTuple):
    """Where ``own`` is not zero, in order; not stored, since it follows from that."""

    cell: Annotated[IntArray, "P R"]
    n: Annotated[IntArray, "P"]


class Groups(NamedTuple):
    """Groups, the same for all particles; in a Markov chain the start, and all tables."""

    node: Annotated[IntArray, "G", index("A")]  # the parent of each
    size: Annotated[IntArray, "G"]  # rows
    n: Annotated[IntArray, "2"]  # how many nodes have auxiliary items, and how many groups rows


class Scratch(NamedTuple):
    """Work space; nothing in it outlives an arrival."""

    at_name: Annotated[FloatArray, "N"]
    work: Annotated[FloatArray, "O"]  # O = K + 1
    log_weight: Annotated[FloatArray, "O"]
    n_users: Annotated[IntArray, "K"]
    only: Annotated[FloatArray, "K"]


@dataclass(slots=True)
class State(ParticleState):
    """The sampler's memory; exactly one owner."""

    particles: Particles
    cells: Cells
    pool: Pool
    memo: Memo
    groups: Groups
    grid: Grid
    names: Names
    recent: IntArray
    events: EventRing
    counts: IntArray
    sums: FloatArray
    children: Children
    scratch: Scratch


def empty_state(config: Config) -> State:
    """Return the state before the first arrival."""
    state = _empty(config, 0, 0, 16, 1 + (config.n_node > 0), 1)
    state.particles.weight[:] = 1.0 / config.n_particles
    return state


def _empty(
    config: Config, n_tables: int, n_clusters: int, n_names: int, n_nodes: int, n_groups: int,
    n_cells: int = 0,
) -> State:  # fmt: skip
    """Return an empty state with room for so much, and for one more arrival."""
    P, K = config.n_particles, room(n_tables + config.n_root + config.n_node + 1 + config.moves, 8)
    C = room(n_clusters + P + 4, 64)
    n_groups = max(n_groups, K + 1) if config.markov else n_groups
    n_values = len(config.nodes)
    rows = P if config.markov and n_values else 1
    lengths = {
        "P": P, "K": K, "O": K + 1, "N": n_names, "A": n_nodes, "G": n_groups, "J": n_values,
        "B": rows, "T": room(CACHED * rows, 256) if n_values else 1, "R": room(n_cells + 1, 64),
    }  # fmt: skip
    grid = empty(Grid, lengths)
    grid.base[:] = config.log_prior
    parts = shared.empty_parts(
        config.family, config.hyper, n_particles=P, n_children=P * (K + 2), n_clusters=C,
        n_names=n_names, n_counts=N_COUNTS,
    )  # fmt: skip
    return State(
        particles=empty(Particles, lengths),
        cells=empty(Cells, lengths),
        groups=empty(Groups, lengths),
        grid=grid,
        recent=np.full(1, -1),
        scratch=empty(Scratch, lengths),
        **parts,
    )


def grown(state: State, config: Config, n_nodes: int = 0, n_groups: int = 0) -> State:
    """Return the state with room for one more arrival, and for so many nodes and groups at least.

    Nodes and groups that are still to come in a batch keep their places.
    """
    n_old, n_nodes = len(state.groups.node), max(n_nodes, state.particles.aux.shape[1])
    new = state_from_arrays(config, arrays_of(config, state), n_nodes, max(n_groups, n_old))
    new.groups.node[:n_old] = state.groups.node
    return new


def arrays_of(config: Config, state: State) -> dict[str, NDArray[Any]]:
    """Return copies of all arrays without unused capacity, for a checkpoint."""
    groups = state.groups
    n_nodes, n_groups = (int(n) for n in groups.n)
    arrays, _ = shared.arrays_of(state, STAMP, A=slice(n_nodes), G=slice(n_groups))
    if len(config.nodes) > 0:
        alive = state.particles.weight[:, None] > 0
        base = state.grid.base
        arrays["grid.base"] = np.where(alive, base, 0.0) if config.markov else base[0].copy()
    return arrays | {
        "groups.node": groups.node[:n_groups].copy(),
        "groups.size": groups.size[:n_groups].copy(),
        "groups.n": groups.n.copy(),
        "sums": state.sums.copy(),
    }


def check_arrays(config: Config, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse arrays that do not belong together, before any is used."""
    aux, G = arrays["particles.aux"], len(arrays["groups.node"])
    A = aux.shape[1] if aux.ndim == 3 else 0
    stats = int(n_stats(config.family, config.hyper))
    known = shared.check(Particles, arrays, N_COUNTS, stats, P=config.n_particles, A=A, G=G)
    check(Groups, arrays, known, "groups.")
    if len(config.nodes) > 0:
        base = stored_array("grid.base", arrays)
        rows = (config.n_particles,) * config.markov
        check_one("grid.base", base, (*rows, *config.nodes.shape), np.float64, ANY)
    wrong = config.markov and known["K"] >= G
    refuse_if(wrong or arrays["groups.n"].tolist() != [A, G], "nodes and groups")


def state_from_arrays(
    config: Config, arrays: Mapping[str, NDArray[Any]], n_nodes: int = 0, n_groups: int = 0
) -> State:
    """Rebuild the state that `arrays_of` described, with room for one more arrival at least."""
    counts, n = arrays["counts"], arrays["groups.n"]
    state = _empty(
        config, int(counts[MOST_TABLES]), 2 * len(arrays["pool.stats"]),
        room(int(counts[N_NAMES]) + 1, 16), room(max(n_nodes, int(n[0])), 1),
        room(max(n_groups, int(n[1])), 1),
        int((arrays["particles.own"] > 0).sum(axis=(1, 2)).max(initial=0)),
    )  # fmt: skip
    shared.restore(
        state, config.family, config.hyper, arrays, A=slice(int(n[0])), G=slice(int(n[1]))
    )
    state.sums[:], state.groups.n[:] = arrays["sums"], n
    if len(config.nodes) > 0:
        state.grid.base[:] = arrays["grid.base"]
    state.groups.node[: n[1]] = arrays["groups.node"]
    state.groups.size[: n[1]] = arrays["groups.size"]
    list_cells(state.particles.own[:, : n[1]], *state.cells)
    return state


def step(
    config: Config, state: State, X: FloatArray, t: FloatArray, group: IntArray, node: IntArray
) -> tuple[State, FloatArray]:
    """Predict and learn rows (N, D) in order; return the state and outputs (N, 6).

    The state is updated in place, or replaced by a larger one. Times (N,) are for the events.
    ``group`` (N,): numbers of groups; ``node``: the parent of each group, 0 is the root. New ones
    are numbered in the order of their first rows.
    """
    n_nodes = int(node.max(initial=0)) + 1
    if len(node) > len(state.groups.node) or n_nodes > state.particles.aux.shape[1]:
        state = grown(state, config, n_nodes, len(node))
    state.groups.node[: len(node)] = node
    out = np.empty((len(X), N_OUTPUTS))
    inputs = np.ascontiguousarray(X), np.ascontiguousarray(t), group
    return learn_rows(step_rows, config, state, grown, inputs, [out]), out


@dataclass
class GroupEngine(ParticleEngine):
    """Likelihood, settings and state; side input: the rows' groups."""

    paths: list[Path] = field(default_factory=list)  # groups so far
    nodes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._number = {path: g for g, path in enumerate(self.paths)}
        self._place = {node: a for a, node in enumerate(self.nodes, 1)}
        self._node = self._nodes_of(self.paths)

    def _nodes_of(self, paths: list[Path]) -> IntArray:
        """Return the nodes above groups; 0 is the root."""
        return np.array([self._place[p[0]] if len(p) == 2 else 0 for p in paths], np.int64)

    def _meet(self, paths: list[Path]) -> IntArray:
        """Return the numbers of groups, of which some may be new."""
        known = len(self.paths)
        for path in paths:
            if path not in self._number:
                self._number[path] = len(self.paths)
                self.paths.append(path)
                if len(path) == 2 and path[0] not in self._place:
                    self.nodes.append(path[0])
                    self._place[path[0]] = len(self.nodes)
        if len(self.paths) > known:
            self._node = np.append(self._node, self._nodes_of(self.paths[known:]))
        return np.array([self._number[path] for path in paths], np.int64)

    _empty = staticmethod(empty_state)
    _restored = staticmethod(state_from_arrays)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return arrays_of(self.config, self.state)

    def with_prior(self, likelihood: Likelihood) -> Self:
        return replace(
            super().with_prior(likelihood), paths=list(self.paths), nodes=list(self.nodes)
        )

    def step(self, X: FloatArray, t: FloatArray, groups: RowGroups) -> FloatArray:
        config, state = self._for_width(X.shape[1])
        group = self._meet(groups.paths)
        self.config, self.n_features = config, X.shape[1]
        rows = self.likelihood.prepare(X)[0]
        self.state, out = step(config, state, rows, t, group, self._node)
        return out

    def _predict(
        self, config: Config, state: State, x: FloatArray, t: float, groups: RowGroups
    ) -> FloatArray:
        path, out = groups.paths[0], np.empty(N_OUTPUTS)
        group = self._number.get(path, -1)
        node = self._place.get(path[0], 0) if len(path) == 2 else 0
        unknown = len(path) == 2 and node == 0
        entry_point(_predict_row)(
            config, state.particles, state.pool, state.memo, state.groups, state.grid, state.names,
            state.counts, state.children, state.scratch, x, group, node, unknown, out,
        )  # fmt: skip
        return out

    def alpha_weights(self) -> tuple[FloatArray, FloatArray]:
        """Return the values of alpha that are summed over and their posterior probabilities."""
        weight = self.state.particles.weight
        return alpha_weights(self.config, self.state.grid.base, self._n_clusters(), weight)

    def _n_clusters(self) -> IntArray:
        particles = self.state.particles
        n: IntArray = ((particles.entry >= 0) | (particles.n_aux > 0)).sum(axis=1)
        return n

    def _statistics(self) -> tuple[FloatArray, dict[str, Any]]:
        names, pool, particles = self.state.names, self.state.pool, self.state.particles
        total = np.zeros((len(names.opener), pool.stats.shape[1]))
        of_group = np.zeros((len(names.opener), len(self.paths)))
        for p in np.flatnonzero(particles.weight > 0):
            k = np.flatnonzero(particles.entry[p] >= 0)
            at = pool.name[particles.entry[p, k]]
            total[at] += particles.weight[p] * pool.stats[particles.entry[p, k]]
            of_group[at] += particles.weight[p] * particles.own[p, : len(self.paths), k]
        live = live_names(names)
        own = {
            "weight_" + "/".join(path): of_group[live, g] / names.weight[live]
            for g, path in enumerate(self.paths)
        }
        return total, {} if self.config.markov else own

    def transitions(self) -> FloatArray:
        """Probability of each live cluster after each, (C, C), over the particles that have it."""
        names, pool, particles = self.state.names, self.state.pool, self.state.particles
        found, config = np.zeros((len(names.opener),) * 2), self.config
        alpha, prob = alpha_by_particle(config, self.state.grid.base, self._n_clusters())
        for p in np.flatnonzero(particles.weight > 0):
            k = np.flatnonzero(particles.entry[p] >= 0)
            at = pool.name[particles.entry[p, k]]
            rows = particles.own[p, 1:][k]
            size = config.n_root + rows.sum(axis=1, keepdims=True)
            share = particles.weight[p] * (prob[p] / (alpha + size)).sum(axis=1, keepdims=True)
            found[np.ix_(at, at)] += share * (particles.aux[p, 0, k] + rows[:, k])
        live = live_names(names)
        after: FloatArray = found[np.ix_(live, live)] / names.weight[live][:, None]
        return after

    def to_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays, meta = super().to_state()
        return arrays, meta | {"paths": [list(path) for path in self.paths], "nodes": self.nodes}
