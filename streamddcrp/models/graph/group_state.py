"""Settings and state of `GroupDP`.

Axes: P particles, K tables per particle, A nodes (the root is node 0), G groups, N names of tables,
R cells of a particle.
"""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp import records as rec
from streamddcrp.contract import EventRing
from streamddcrp.likelihoods.kernels.families import n_stats
from streamddcrp.models.graph.config import Grid
from streamddcrp.models.graph.kernels.cells import TABLES
from streamddcrp.models.graph.kernels.children import CACHED, N_COUNTS, STAMP
from streamddcrp.particles import state as shared
from streamddcrp.particles.kernels.names import MOST_TABLES, N_NAMES, N_SEEN
from streamddcrp.particles.state import Children, Memo, Names, ParticleState, Pool, room
from streamddcrp.typing import FloatArray, IntArray

FIXED = np.empty(0)
BoolArray = NDArray[np.bool_]


class Config(NamedTuple):
    """Settings in the kernels' form."""

    family: int
    hyper: FloatArray
    alpha: float  # NaN if integrated out
    n_root: int  # auxiliary items of the root
    n_node: int  # for each node; 0: all groups are below the root
    n_particles: int
    markov: bool  # whether the previous row's table is a row's group
    moves: int  # auxiliary items resampled after an arrival
    seed: int
    # (J,): values of alpha to sum over, their logs and log weights; empty if alpha is fixed
    nodes: FloatArray = FIXED
    log_nodes: FloatArray = FIXED
    log_prior: FloatArray = FIXED
    max_tables: int = rec.MOST  # most clusters of all particles together
    max_groups: int = rec.MOST
    gamma: float = np.inf  # of the process that the groups' tables follow; inf: none


class Particles(NamedTuple):
    """Particles and their tables."""

    weight: Annotated[FloatArray, "P", rec.CHANCE]
    n_tables: Annotated[IntArray, "P", rec.up_to("K")]  # places in use
    # table of the last row; -1: none, or a forgotten one
    last: Annotated[IntArray, "P", -1, rec.index("K", none=True)]
    # place of the table's cluster in the pool; -1: no data
    entry: Annotated[IntArray, "P K", -1, rec.index("C", none=True)]
    n_aux: Annotated[IntArray, "P K"]  # auxiliary items of all nodes, or tables of all groups
    # table of each of the last rows, of row i at i mod 64; -1: none, or a forgotten one
    label: Annotated[IntArray, "P 64", -1, rec.index("K", none=True)]


class Cells(NamedTuple):
    """Sparse counts of items at tables: see `streamddcrp.models.graph.kernels.cells`."""

    cell: Annotated[IntArray, "P R"]  # row and table, ascending
    items: Annotated[IntArray, "P R"]  # their count, above 0
    n: Annotated[IntArray, "P"]


def dense(cells: Cells, p: int | np.integer, n_rows: int, n_tables: int) -> IntArray:
    """Return a particle's counts, shape (n_rows, n_tables)."""
    found, n = np.zeros((n_rows, n_tables), np.int64), cells.n[p]
    found[np.divmod(cells.cell[p, :n], TABLES)] = cells.items[p, :n]
    return found


class Groups(NamedTuple):
    """Groups, the same for all particles; in a Markov chain there is one."""

    node: Annotated[IntArray, "G", rec.index("A")]  # the parent of each
    size: Annotated[IntArray, "G"]  # number of its rows
    seen: Annotated[IntArray, "G"]  # the last of these rows
    n: Annotated[IntArray, "2"]  # numbers of nodes with auxiliary items, and of groups with rows


class Scratch(NamedTuple):
    """Work space, valid within an arrival."""

    at_name: Annotated[FloatArray, "N"]
    work: Annotated[FloatArray, "O"]  # O = K + 1
    log_weight: Annotated[FloatArray, "O"]
    items: Annotated[IntArray, "K"]
    opens: Annotated[BoolArray, "P"]  # whether the arrival opens a table of its group
    n_users: Annotated[IntArray, "K"]
    only: Annotated[FloatArray, "K"]


class _Groups(NamedTuple):
    particles: Particles
    own: Cells  # rows of each group; in a Markov chain of the start, then after each table
    aux: Cells  # auxiliary items of each node
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


class State(ParticleState, _Groups):
    """The sampler's memory; it has exactly one owner."""

    __slots__ = ()


def empty_state(config: Config) -> State:
    """Return the state before the first arrival."""
    state = _empty(config, 0, 0, 16, 1 + (config.n_node > 0), 1, 0, config.markov)
    state.particles.weight[:] = 1.0 / config.n_particles
    return state


def _empty(
    config: Config, n_tables: int, n_clusters: int, n_names: int, n_nodes: int, n_groups: int,
    n_cells: int, apart: bool,
) -> State:  # fmt: skip
    """Return an empty state; ``apart``: a row's items may differ between particles."""
    P, K = config.n_particles, room(n_tables + config.n_root + config.n_node + 1 + config.moves, 8)
    C = room(n_clusters + P + 4, 64)
    n_values = len(config.nodes)
    rows = P if apart and n_values else 1
    lengths = {
        "P": P, "K": K, "O": K + 1, "N": n_names, "A": n_nodes, "G": n_groups, "J": n_values,
        "B": rows, "T": room(CACHED * rows, 256) if n_values else 1,
    }  # fmt: skip
    grid = rec.empty(Grid, lengths)
    grid.base[:] = config.log_prior
    parts = shared.empty_parts(
        config.family, config.hyper, n_particles=P, n_children=P * (K + 2), n_clusters=C,
        n_names=n_names, n_counts=N_COUNTS,
    )  # fmt: skip
    return State(
        particles=rec.empty(Particles, lengths),
        own=rec.empty(Cells, {"P": P, "R": room(n_cells + 1, 64)}),
        aux=rec.empty(Cells, {"P": P, "R": config.n_root + config.n_node * n_nodes}),
        groups=rec.empty(Groups, lengths),
        grid=grid,
        recent=np.full(1, -1),
        scratch=rec.empty(Scratch, lengths),
        **parts,
    )


def grown(state: State, config: Config, n_nodes: int = 0, n_groups: int = 0) -> State:
    """Return the state with room for one more arrival, and at least these nodes and groups.

    Nodes and groups still to come in a batch keep their places. Once a cluster was forgotten,
    particles may differ in the number of items that a row saw.
    """
    n_old = len(state.groups.node)
    apart = bool(state.counts[N_NAMES] >= config.max_tables)
    new = state_from_arrays(
        config, arrays_of(state), max(n_nodes, n_nodes_of(config, state)),
        max(n_groups, n_old), apart=apart,
    )  # fmt: skip
    new.groups.node[:n_old] = state.groups.node
    return new


def n_nodes_of(config: Config, state: State) -> int:
    """Return the capacity in nodes."""
    items = state.aux.cell.shape[1] - config.n_root
    return items // config.n_node if config.n_node else 1


def arrays_of(state: State) -> dict[str, NDArray[Any]]:
    """Return copies of all arrays without unused capacity, for a checkpoint."""
    n_groups = int(state.groups.n[1])
    arrays, _ = shared.arrays_of(state, STAMP)
    alive, base = state.particles.weight > 0, state.grid.base
    if base.size > 0:
        arrays["grid.base"] = np.where(alive[:, None], base, 0.0) if len(base) > 1 else base.copy()
    for name, cells in (("own", state.own), ("aux", state.aux)):
        n = np.where(alive, cells.n, 0)
        used = np.arange(cells.cell.shape[1]) < n[:, None]
        arrays |= {f"{name}.cell": cells.cell[used], f"{name}.items": cells.items[used]}
        arrays[f"{name}.n"] = n
    for name, values in state.groups._asdict().items():
        arrays[f"groups.{name}"] = values[: n_groups if name != "n" else 2].copy()
    return arrays | {"sums": state.sums.copy()}


def check_arrays(config: Config, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse inconsistent arrays before any is used."""
    P, G, n = config.n_particles, len(arrays["groups.node"]), rec.stored_array("groups.n", arrays)
    rec.check_one("groups.n", n, (2,), np.int64, rec.Within(0, G + 1))
    A, stats = int(n[0]), int(n_stats(config.family, config.hyper))
    known = shared.check(Particles, arrays, N_COUNTS, stats, P=P)
    rec.check(Groups, arrays, {"A": A, "G": G}, "groups.")
    if len(config.nodes) > 0:
        base = rec.stored_array("grid.base", arrays)
        rows = P if config.markov or len(base) > 1 else 1
        rec.check_one("grid.base", base, (rows, len(config.nodes)), np.float64, rec.ANY)
    n_tables, entry = arrays["particles.n_tables"], arrays["particles.entry"]
    rows_of = n_tables + 1 if config.markov else np.full(P, G)
    p, _, k, _ = _checked_cells("own", arrays, rec.MOST, rows_of, n_tables)
    most = max(config.n_root, config.n_node)
    q, a, j, count = _checked_cells("aux", arrays, most, np.full(P, A), n_tables)
    of_node, n_aux = np.zeros((P, A), np.int64), np.zeros((P, known["K"]), np.int64)
    np.add.at(of_node, (q, a), count)
    np.add.at(n_aux, (q, j), count)
    at = arrays["particles.label"]
    of_label = np.take_along_axis(np.pad(entry, [(0, 0), (0, 1)]), at, axis=1)
    has_rows = np.zeros((P, known["K"]), np.bool_)
    has_rows[p, k] = True
    items = np.where(np.arange(A) == 0, config.n_root, config.n_node)
    rec.refuse_if(
        n[1] != G
        or G * (config.n_node > 0) < A - 1
        or (of_node != items * (arrays["particles.weight"][:, None] > 0)).any()
        or bool((arrays["particles.n_aux"] != n_aux).any() and config.gamma == np.inf)
        or bool(((arrays["particles.n_aux"] > 0) != (entry >= 0)).any() and config.gamma < np.inf)
        or bool((of_label < 0).any())
        or (has_rows != (entry >= 0)).any()  # a table has data if and only if it has rows
        or (arrays["groups.seen"] >= arrays["counts"][N_SEEN]).any(),
        "nodes and groups",
    )


def _checked_cells(
    name: str, arrays: Mapping[str, NDArray[Any]], most: int, n_rows: IntArray, n_tables: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return particles, rows, tables and counts of stored cells, or refuse them."""
    cell, n = rec.stored_array(f"{name}.cell", arrays), rec.stored_array(f"{name}.n", arrays)
    count = rec.stored_array(f"{name}.items", arrays)
    rec.check_one(f"{name}.n", n, n_rows.shape, np.int64, rec.Within(0, len(cell)))
    rec.refuse_if(n.sum() != cell.size, f"{name}.n")
    rec.check_one(f"{name}.cell", cell, (cell.size,), np.int64, rec.Within(0, rec.MOST))
    rec.check_one(f"{name}.items", count, cell.shape, np.int64, rec.Within(1, most))
    particle = np.repeat(np.arange(len(n)), n)
    row, table = np.divmod(cell, TABLES)
    mixed = (np.diff(particle) == 0) & (np.diff(cell) <= 0)
    outside = (row >= n_rows[particle]) | (table >= n_tables[particle])
    rec.refuse_if(bool(mixed.any() or outside.any()), f"{name} and tables")
    return particle, row, table, count


def state_from_arrays(
    config: Config, arrays: Mapping[str, NDArray[Any]], n_nodes: int = 0, n_groups: int = 0,
    *, apart: bool = False,
) -> State:  # fmt: skip
    """Rebuild the state from `arrays_of`, with room for at least one more arrival."""
    counts, n = arrays["counts"], arrays["groups.n"]
    base = arrays.get("grid.base", FIXED)
    state = _empty(
        config, int(counts[MOST_TABLES]), 2 * len(arrays["pool.stats"]),
        room(int(counts[N_NAMES]) + 1, 16), room(max(n_nodes, int(n[0])), 1),
        room(max(n_groups, int(n[1])), 1), int(arrays["own.n"].max()),
        config.markov or apart or len(base) > 1,
    )  # fmt: skip
    shared.restore(state, config.family, config.hyper, arrays)
    if len(config.nodes) > 0:
        state.grid.base[:] = base
    for name, cells in (("own", state.own), ("aux", state.aux)):
        cells.n[:] = arrays[f"{name}.n"]
        used = np.arange(cells.cell.shape[1]) < cells.n[:, None]
        cells.cell[used], cells.items[used] = arrays[f"{name}.cell"], arrays[f"{name}.items"]
    for name, values in state.groups._asdict().items():
        stored = arrays[f"groups.{name}"]
        values[: len(stored)] = stored
    return state
