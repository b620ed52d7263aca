"""The engine of `GroupDP`: the groups of rows, steps and predictions. Axes as in `group_state`."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from streamddcrp.arguments import as_list
from streamddcrp.compilation import entry_point
from streamddcrp.contract import N_OUTPUTS
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.estimator.particle_engine import Memory, ParticleEngine, live_names
from streamddcrp.likelihoods import Likelihood
from streamddcrp.models.graph import group_state as states
from streamddcrp.models.graph.config import alpha_by_particle, alpha_weights
from streamddcrp.models.graph.group_state import Config, State, dense
from streamddcrp.models.graph.kernels.forget import forget_group
from streamddcrp.models.graph.kernels.group import amend, step_rows
from streamddcrp.models.graph.kernels.group import predict_row as _predict_row
from streamddcrp.particles.kernels.names import N_NAMES
from streamddcrp.particles.state import learn_rows
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import whole

_log = logging.getLogger(__name__)
Path = tuple[str, ...]  # a group's name, with two layers after its node's


def layers_of(n_shared: Any) -> list[int]:
    """Return the numbers of auxiliary items of the root and of each node; raises ConfigError."""
    layers = n_shared if isinstance(n_shared, tuple | list) else (n_shared,)
    if len(layers) not in (1, 2):
        raise ConfigError(f"n_shared must be one or two whole numbers, got {n_shared!r}")
    return [whole("n_shared", n, 1, 1 << 16) for n in layers]


def path_of(group: Any, n_layers: int, row: int = 0) -> Path:
    """Return a group's name as text, with two layers (node, name); raises SchemaError."""
    parts = group if isinstance(group, tuple | list) else (group,)
    if group is None:
        parts = ("",) * n_layers
    if len(parts) != n_layers:
        what = "a name" if n_layers == 1 else "(node, name)"
        raise SchemaError(f"row {row}, group: expected {what}, got {group!r}", row=row)
    return tuple(str(part) for part in parts)


def group_of(path: Sequence[str]) -> Any:
    """Return the group with this name: the name, or with two layers (node, name)."""
    return path[0] if len(path) == 1 else tuple(path)


def listed(group: Any, n_rows: int) -> list[Any]:
    """Return each row's group as a list; raises SchemaError."""
    found = as_list("group", group)
    if len(found) != n_rows:
        raise SchemaError(f"group: expected one for each of the {n_rows} rows, got {len(found)}")
    return found


def refuse_regression(likelihood: Likelihood, n_features: int) -> None:
    """Refuse an autoregressive likelihood: ConfigError."""
    if likelihood.prepare(np.zeros((1, n_features)))[1] is not None:
        raise ConfigError("likelihood: rows of several groups have no common past to regress on")


class RowGroups(NamedTuple):
    """Groups of N rows."""

    paths: list[Path]

    def rows(self, a: int, z: int) -> "RowGroups":
        return RowGroups(self.paths[a:z])

    def and_then(self, more: "RowGroups") -> "RowGroups":
        return RowGroups(self.paths + more.paths)


def step(
    config: Config, state: State, X: FloatArray, t: FloatArray, group: IntArray, node: IntArray
) -> tuple[State, FloatArray]:
    """Learn rows (N, D) at times (N,); return the state, perhaps larger, and outputs (N, 6).

    ``group`` (N,): numbers, new ones in the order of first rows; ``node``: parents of groups, 0 the
    root.
    """
    n_nodes = int(node.max(initial=0)) + 1
    if len(node) > len(state.groups.node) or n_nodes > states.n_nodes_of(config, state):
        state = states.grown(state, config, n_nodes, len(node))
    state.groups.node[: len(node)] = node
    out = np.empty((len(X), N_OUTPUTS))
    inputs = np.ascontiguousarray(X), np.ascontiguousarray(t), group
    return learn_rows(step_rows, config, state, states.grown, inputs, [out]), out


@dataclass
class GroupEngine(ParticleEngine):
    """Likelihood, settings and state; side input: the rows' groups."""

    paths: list[Path] = field(default_factory=list)  # groups so far
    nodes: list[str] = field(default_factory=list)
    warned: set[str] = field(default_factory=set)  # options already warned about

    def __post_init__(self) -> None:
        self._number = {path: g for g, path in enumerate(self.paths)}
        self._place = {node: a for a, node in enumerate(self.nodes, 1)}
        self._node = self._nodes_of(self.paths)

    def _nodes_of(self, paths: list[Path]) -> IntArray:
        return np.array([self._place[p[0]] if len(p) == 2 else 0 for p in paths], np.int64)

    def _meet(self, paths: list[Path], start: int) -> IntArray:
        """Return the numbers of groups from ``start`` on, up to the first without room."""
        found, known = [], len(self.paths)
        for path in paths[start:]:
            if path not in self._number:
                self._number[path] = len(self.paths)
                self.paths.append(path)
                if len(path) == 2 and path[0] not in self._place:
                    self.nodes.append(path[0])
                    self._place[path[0]] = len(self.nodes)
            found.append(self._number[path])
            if len(self.paths) > self.config.max_groups:
                break
        if len(self.paths) > known:
            self._node = np.append(self._node, self._nodes_of(self.paths[known:]))
        return np.array(found, np.int64)

    def _forget_group(self, t: float) -> None:
        """Forget the group with the fewest rows relative to its absence, but not the last group."""
        state, others = self.state, len(self.paths) - 1
        away = state.n_seen - state.groups.seen[:others]
        g = int(np.argmin(state.groups.size[:others] / away))
        node = int(self._node[g])
        alone = node > 0 and int((self._node == node).sum()) == 1
        entry_point(forget_group)(self.config, state, g, alone, t)
        self._warn_when_full("max_groups", "groups")
        self.paths.pop(g)
        if alone:
            self.nodes.pop(node - 1)
        self.__post_init__()

    def _warn_when_full(self, option: str, what: str) -> None:
        if option not in self.warned:
            self.warned.add(option)
            message = "as many %s as %s allows: the ones that are least missed are forgotten"
            _log.warning(message, what, option)

    memory = Memory(
        states.empty_state, states.arrays_of, states.check_arrays, states.state_from_arrays
    )
    amending = staticmethod(amend)

    @property
    def n_correctable(self) -> int:
        label, n = self.state.particles.label[self.state.particles.weight > 0.0], self.state.n_seen
        last = np.arange(n - 1, max(n - label.shape[1], 0) - 1, -1) % label.shape[1]
        return int(np.cumprod((label[:, last] >= 0).all(axis=0)).sum())

    def with_prior(self, likelihood: Likelihood) -> Self:
        return replace(
            super().with_prior(likelihood), paths=list(self.paths), nodes=list(self.nodes)
        )

    def step(self, X: FloatArray, t: FloatArray, groups: RowGroups) -> FloatArray:
        config, self.state = self._for_width(X.shape[1])
        self.config, self.n_features = config, X.shape[1]
        rows, done, out = self.likelihood.prepare(X)[0], 0, np.empty((len(X), N_OUTPUTS))
        while done < len(rows):
            group = self._meet(groups.paths, done)
            upto = done + len(group)
            self.state, out[done:upto] = step(
                config, self.state, rows[done:upto], t[done:upto], group, self._node
            )
            if len(self.paths) > config.max_groups:
                self._forget_group(float(t[upto - 1]))
            done = upto
        if self.state.counts[N_NAMES] >= config.max_tables:
            self._warn_when_full("max_tables", "clusters")
        return out

    def _predict(
        self, config: Config, state: State, x: FloatArray, t: float, groups: RowGroups
    ) -> FloatArray:
        path, out = groups.paths[0], np.empty(N_OUTPUTS)
        group = self._number.get(path, -1)
        node = self._place.get(path[0], 0) if len(path) == 2 else 0
        unknown = len(path) == 2 and node == 0
        entry_point(_predict_row)(config, state, x, group, node, unknown, out)
        return out

    def alpha_weights(self) -> tuple[FloatArray, FloatArray]:
        """Return the values of alpha to sum over and their posterior probabilities."""
        weight = self.state.particles.weight
        return alpha_weights(self.config, self.state.grid.base, self._n_clusters(), weight)

    def _n_clusters(self) -> IntArray:
        particles = self.state.particles
        if self.config.gamma < np.inf:  # tables of groups, each opened by alpha
            return np.asarray(particles.n_aux.sum(axis=1), np.int64)
        return np.asarray(((particles.entry >= 0) | (particles.n_aux > 0)).sum(axis=1), np.int64)

    def _statistics(self) -> tuple[FloatArray, dict[str, Any]]:
        names, pool, particles = self.state.names, self.state.pool, self.state.particles
        total = np.zeros((len(names.opener), pool.stats.shape[1]))
        of_group = np.zeros((len(names.opener), len(self.paths)))
        for p in np.flatnonzero(particles.weight > 0):
            k = np.flatnonzero(particles.entry[p] >= 0)
            at = pool.name[particles.entry[p, k]]
            total[at] += particles.weight[p] * pool.stats[particles.entry[p, k]]
            if not self.config.markov:
                rows = dense(self.state.own, p, len(self.paths), particles.entry.shape[1])
                of_group[at] += particles.weight[p] * rows[:, k].T
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
            K = particles.entry.shape[1]
            rows = dense(self.state.own, p, K + 1, K)[1:][k]
            size, items = config.n_root + rows.sum(axis=1, keepdims=True), particles.n_aux[p, k]
            weight = particles.weight[p] * prob[p] / (alpha + size)
            tied = weight.sum(axis=1, keepdims=True)
            found[np.ix_(at, at)] += tied * rows[:, k]
            if config.gamma < np.inf:
                tied = weight @ alpha[:, None] / (config.gamma + items.sum())
            found[np.ix_(at, at)] += tied * items
        live = live_names(names)
        return np.asarray(found[np.ix_(live, live)] / names.weight[live][:, None])

    def to_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays, meta = super().to_state()
        return arrays, meta | {"paths": [list(path) for path in self.paths], "nodes": self.nodes}
