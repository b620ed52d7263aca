"""The engine of `GraphCRP`: steps and predictions once the scale of the data is known."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamddcrp.compilation import entry_point
from streamddcrp.contract import N_OUTPUTS
from streamddcrp.data.graphs import NO_PARENTS, Parents, keep
from streamddcrp.estimator.particle_engine import ParticleEngine
from streamddcrp.models.graph.kernels.arrival import predict_row as _predict_row
from streamddcrp.models.graph.kernels.arrival import step_rows
from streamddcrp.models.graph.kernels.children import N_BEST
from streamddcrp.models.graph.state import (
    Config,
    State,
    arrays_of,
    empty_state,
    grown,
    state_from_arrays,
)
from streamddcrp.particles.kernels.names import LOG_EVIDENCE
from streamddcrp.particles.state import learn_rows
from streamddcrp.typing import FloatArray, IntArray


def step(
    config: Config, state: State, X: FloatArray, t: FloatArray,
    parents: IntArray = NO_PARENTS.items, offsets: IntArray = NO_PARENTS.offsets,
) -> tuple[State, FloatArray]:  # fmt: skip
    """Predict and learn rows (N, D) in order; return the state and outputs (N, 6).

    The state is updated in place, or replaced by a larger one. Times (N,) are for the events. Where
    parents are given: the checked ones of row b from ``offsets[b]`` on.
    """
    out = np.empty((len(X), N_OUTPUTS))
    inputs = np.ascontiguousarray(X), np.ascontiguousarray(t), parents, offsets
    state = learn_rows(step_rows, config, state, grown, inputs, [out])
    if config.scheme == N_BEST:
        state.sums[LOG_EVIDENCE] = np.nan
    return state, out


def predict_row(
    config: Config, state: State, x: FloatArray, parents: IntArray = NO_PARENTS.items
) -> FloatArray:
    """Predict one row; return (6,). Leaves the tables' probabilities in ``scratch.at_name``."""
    out = np.empty(N_OUTPUTS)
    entry_point(_predict_row)(
        config, state.particles, state.pool, state.memo, state.grid, state.names, state.counts,
        state.children, state.scratch, x, parents, out,
    )  # fmt: skip
    return out


@dataclass
class GraphEngine(ParticleEngine):
    """Likelihood, settings and state; side input: the checked parents, where they are given."""

    _empty = staticmethod(empty_state)
    _restored = staticmethod(state_from_arrays)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return arrays_of(self.state)

    def step(self, X: FloatArray, t: FloatArray, parents: Parents = NO_PARENTS) -> FloatArray:
        config, state = self._for_width(X.shape[1])
        rows, past = self.likelihood.prepare(X, self.past)
        self.config, self.n_features, self.past = config, X.shape[1], past  # nothing fails now
        first = state.n_seen
        state, out = step(config, state, rows, t, *parents)
        if parents.most > state.recent.parents.shape[1]:
            state = grown(state, config, parents.most)
        keep(parents, first, state.recent.parents, state.recent.n_parents)
        self.state = state
        return out

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
        """Return the values of alpha that are summed over and their posterior probabilities."""
        nodes, particles = self.config.nodes, self.state.particles
        if len(nodes) == 0:
            return np.array([self.config.alpha]), np.ones(1)
        log_weight = self.state.grid.base + particles.opened[:, None] * np.log(nodes)
        weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        return nodes, particles.weight @ weight

    def to_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays, meta = super().to_state()
        return arrays, meta | {"given": self.config.given}
