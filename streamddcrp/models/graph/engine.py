"""The engine of `GraphCRP`: particles with their clusters, the last items, and steps.

The arrays are grouped by axis into named tuples; kernels update them in place. Axes: P particles,
K tables per particle, R = r + rejuvenate + 1 items in memory (item i at i mod R), L items with
their rows, I items with their parents, W parents of an item, J values of alpha, N names of tables.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamddcrp import records as rec
from streamddcrp.compilation import entry_point
from streamddcrp.contract import N_OUTPUTS, EventRing
from streamddcrp.data.graphs import NO_PARENTS, Parents, keep
from streamddcrp.estimator.particle_engine import Memory, ParticleEngine
from streamddcrp.likelihoods.kernels.families import n_stats
from streamddcrp.models.graph.config import Config, Grid, alpha_weights
from streamddcrp.models.graph.kernels import children as kernels
from streamddcrp.models.graph.kernels.arrival import predict_row as _predict_row
from streamddcrp.models.graph.kernels.arrival import step_rows
from streamddcrp.models.graph.kernels.revise import amend
from streamddcrp.particles import state as shared
from streamddcrp.particles.kernels.names import MOST_TABLES, N_NAMES, N_SEEN
from streamddcrp.typing import FloatArray, IntArray


class Particles(NamedTuple):
    """Particles and their tables."""

    weight: Annotated[FloatArray, "P", rec.CHANCE]  # sums to 1; 0: the place is empty
    n_tables: Annotated[IntArray, "P", rec.up_to("K")]  # places in use, gaps included
    opened: Annotated[IntArray, "P"]  # tables ever opened
    key: Annotated[shared.UintArray, "P"]  # hash of everything the future depends on
    # place of the table's cluster in the pool; -1: no table
    entry: Annotated[IntArray, "P K", -1, rec.index("C", none=True)]
    near: Annotated[IntArray, "P K"]  # members among the last r items
    held: Annotated[IntArray, "P K"]  # members among the last R items
    # tables of the items in memory
    label: Annotated[NDArray[np.int32], "P R", rec.index("K", none=True)]


class Recent(NamedTuple):
    """The last items."""

    x: Annotated[FloatArray, "L D", rec.PREPARED]
    # of the table they open; -1 while no particle has it
    name: Annotated[IntArray, "R", -1, rec.index("N", none=True)]
    parents: Annotated[IntArray, "I W"]  # in ascending order, if given
    n_parents: Annotated[IntArray, "I", rec.up_to("W")]


class Scratch(NamedTuple):
    """Further work space, valid within an arrival."""

    at_name: Annotated[FloatArray, "N"]
    near: Annotated[IntArray, "K"]
    opens: Annotated[IntArray, "K"]
    log_count: Annotated[FloatArray, "K"]
    log_weight: Annotated[FloatArray, "O"]  # O = K + 1


class _Groups(NamedTuple):
    particles: Particles
    pool: shared.Pool
    memo: shared.Memo
    grid: Grid
    names: shared.Names
    recent: Recent
    events: EventRing
    counts: IntArray
    sums: FloatArray
    children: shared.Children
    scratch: Scratch


class State(shared.ParticleState, _Groups):
    """The sampler's memory; it has exactly one owner."""

    __slots__ = ()


def empty_state(config: Config) -> State:
    """Return the state before the first arrival."""
    state = _empty(config, n_tables=8, n_clusters=1, n_names=16, n_parents=4)
    state.particles.weight[0] = 1.0
    return state


def _empty(
    config: Config, *, n_tables: int, n_clusters: int, n_names: int, n_parents: int
) -> State:
    """Return an empty state with these capacities and room for one more arrival."""
    P, n_nodes = config.n_particles, len(config.nodes)
    C = shared.room(n_clusters + 4 + P + config.moves * (2 * P + 2), 64)
    lengths = {
        "P": P, "K": n_tables, "O": n_tables + 1, "R": config.r + config.rejuvenate + 1,
        "N": n_names, "L": max(config.rejuvenate, 1), "D": int(config.hyper[0]),
        "I": config.r if config.given else 1, "W": n_parents, "J": n_nodes, "B": 1,
        "T": 256 if n_nodes else 1,
    }  # fmt: skip
    grid = rec.empty(Grid, lengths)
    grid.base[:] = config.log_prior
    parts = shared.empty_parts(
        config.family, config.hyper, n_particles=P, n_children=P * (n_tables + 1), n_clusters=C,
        n_names=n_names, n_counts=kernels.N_COUNTS,
    )  # fmt: skip
    return State(
        particles=rec.empty(Particles, lengths),
        grid=grid,
        recent=rec.empty(Recent, lengths),
        scratch=rec.empty(Scratch, lengths),
        **parts,
    )


def grown(state: State, config: Config, n_parents: int = 0) -> State:
    """Return the state with room for one more arrival; no number in it changes."""
    return state_from_arrays(config, arrays_of(state), n_parents)


def _in_rings(state: State) -> dict[str, IntArray]:
    """Return the items in memory by axis: all, those with rows, those with parents."""
    recent, seen = state.recent, state.n_seen
    kept = {"R": len(recent.name) - 1, "L": len(recent.x), "I": len(recent.n_parents)}
    return {axis: np.arange(max(seen - n, 0), seen) for axis, n in kept.items()}


def arrays_of(state: State) -> dict[str, NDArray[Any]]:
    """Return copies of all arrays without unused capacity, for a checkpoint."""
    recent, names, items = state.recent, state.names, _in_rings(state)
    ring, given = items["R"] % len(recent.name), items["I"] % len(recent.n_parents)
    arrays, at = shared.arrays_of(state, kernels.STAMP, R=ring)
    named = recent.name[ring]
    return arrays | {
        "recent.x": recent.x[items["L"] % len(recent.x)],
        "recent.name": np.where((named >= 0) & (names.opener[named] == items["R"]), at[named], -1),
        "recent.parents": recent.parents[given],
        "recent.n_parents": recent.n_parents[given],
        "grid.base": state.grid.base[0].copy(),
        "sums": state.sums.copy(),
    }


def check_arrays(config: Config, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Refuse inconsistent arrays before any is used."""
    seen, r, more = int(arrays["counts"][N_SEEN]), config.r, config.rejuvenate
    lengths = {
        "P": config.n_particles, "R": min(seen, r + more),
        "L": min(seen, max(more, 1)), "I": min(seen, r if config.given else 1),
        "D": arrays["recent.x"].shape[1],
    }  # fmt: skip
    stats = int(n_stats(config.family, config.hyper))
    known = shared.check(Particles, arrays, kernels.N_COUNTS, stats, **lengths)
    rec.check(Recent, arrays, known, "recent.")
    rec.check_one("grid.base", arrays["grid.base"], config.nodes.shape, np.float64, rec.ANY)
    particles, parents = arrays["particles.n_tables"], arrays["recent.parents"]
    most = config.n_clusters if config.whole_graph else 2 * (r + more + 2)
    wrong = lengths["D"] > int(config.hyper[0]) or known["K"] > most
    wrong = wrong or bool((parents >= max(seen, 1)).any())
    alive, labels = arrays["particles.weight"] > 0, arrays["particles.label"]
    rec.refuse_if(
        wrong or bool((labels >= particles[:, None])[alive].any() or (labels[alive] < 0).any()),
        "items, tables and parents",
    )
    near, held, entry = (arrays[f"particles.{name}"][alive] for name in ("near", "held", "entry"))
    rec.refuse_if(
        bool((near != _members(labels[alive, -r:], known["K"])).any())
        or bool((held != _members(labels[alive], known["K"])).any() or (entry[near > 0] < 0).any()),
        "items and tables",
    )


def _members(labels: NDArray[np.int32], n_tables: int) -> IntArray:
    """Return how often each table (P, K) is among labels (P, R)."""
    found = np.zeros((len(labels), n_tables), dtype=np.int64)
    np.add.at(found, (np.arange(len(labels))[:, None], labels), 1)
    return found


def state_from_arrays(
    config: Config, arrays: Mapping[str, NDArray[Any]], n_parents: int = 0
) -> State:
    """Rebuild the state from `arrays_of`, with room for at least one more arrival.

    The statistics may be shorter than those of ``config``, because of unseen words.
    """
    counts, parents, x = arrays["counts"], arrays["recent.parents"], arrays["recent.x"]
    state = _empty(
        config,
        n_tables=shared.room(int(counts[MOST_TABLES]) + 1 + config.moves, 8),
        n_clusters=2 * len(arrays["pool.stats"]),
        n_names=shared.room(int(counts[N_NAMES]) + 1 + config.rejuvenate, 16),
        n_parents=shared.room(max(parents.shape[1], n_parents), 4),
    )
    state.counts[N_SEEN] = counts[N_SEEN]
    recent, items = state.recent, _in_rings(state)
    ring, given = items["R"] % len(recent.name), items["I"] % len(recent.n_parents)
    shared.restore(state, config.family, config.hyper, arrays, R=ring)
    state.grid.base[:] = arrays["grid.base"]
    recent.x[items["L"] % len(recent.x), : x.shape[1]] = x
    recent.name[ring] = arrays["recent.name"]
    recent.parents[given, : parents.shape[1]] = parents
    recent.n_parents[given] = arrays["recent.n_parents"]
    return state


def step(
    config: Config, state: State, X: FloatArray, t: FloatArray,
    parents: IntArray = NO_PARENTS.items, offsets: IntArray = NO_PARENTS.offsets,
) -> tuple[State, FloatArray]:  # fmt: skip
    """Learn rows (N, D) at times (N,); return the state, perhaps larger, and outputs (N, 6).

    Given ``parents`` are already checked; those of row b start at ``offsets[b]``.
    """
    out = np.empty((len(X), N_OUTPUTS))
    inputs = np.ascontiguousarray(X), np.ascontiguousarray(t), parents, offsets
    return shared.learn_rows(step_rows, config, state, grown, inputs, [out]), out


def predict_row(
    config: Config, state: State, x: FloatArray, parents: IntArray = NO_PARENTS.items
) -> FloatArray:
    """Predict one row; return (6,). The tables' probabilities are in ``scratch.at_name``."""
    out = np.empty(N_OUTPUTS)
    entry_point(_predict_row)(config, state, x, parents, out)
    return out


@dataclass
class GraphEngine(ParticleEngine):
    """Likelihood, settings and state; side input: the checked parents, if given."""

    memory = Memory(empty_state, arrays_of, check_arrays, state_from_arrays)
    amending = staticmethod(amend)

    def labels(self) -> IntArray:
        """Return each row's table in each particle, (P, n), for rows in memory, oldest first."""
        label: IntArray = self.state.particles.label
        return label[:, _in_rings(self.state)["R"] % label.shape[1]]

    def step(self, X: FloatArray, t: FloatArray, parents: Parents = NO_PARENTS) -> FloatArray:
        config, state = self._for_width(X.shape[1])
        rows, self.past = self.likelihood.prepare(X, self.past)
        self.config, self.n_features = config, X.shape[1]  # nothing can fail from here on
        first = state.n_seen
        state, out = step(config, state, rows, t, *parents)
        if parents.most > state.recent.parents.shape[1]:
            state = grown(state, config, parents.most)
        keep(parents, first, state.recent.parents, state.recent.n_parents)
        self.state = state
        return out

    @property
    def n_correctable(self) -> int:
        return int(self.config.r)

    def _predict(
        self, config: Config, state: State, x: FloatArray, t: float, parents: Parents = NO_PARENTS
    ) -> FloatArray:
        return predict_row(config, state, x, parents.items)

    def _statistics(self) -> tuple[FloatArray, dict[str, Any]]:
        names, pool, particles = self.state.names, self.state.pool, self.state.particles
        in_use = np.arange(particles.entry.shape[1]) < particles.n_tables[:, None]
        weight = np.where(in_use & (particles.entry >= 0), particles.weight[:, None], 0.0)
        held = particles.entry[weight > 0]
        of_cluster = np.bincount(held, weight[weight > 0], minlength=len(pool.name))
        total = np.zeros((len(names.opener), pool.stats.shape[1]))
        clusters = np.flatnonzero(of_cluster)
        np.add.at(total, pool.name[clusters], of_cluster[clusters, None] * pool.stats[clusters])
        return total, {}

    def alpha_weights(self) -> tuple[FloatArray, FloatArray]:
        """Return the values of alpha to sum over and their posterior probabilities."""
        particles = self.state.particles
        return alpha_weights(self.config, self.state.grid.base, particles.opened, particles.weight)

    def to_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays, meta = super().to_state()
        return arrays, meta | {"given": self.config.given}
