"""The sampler on decomposable graphs under way: what exists once the scale of the data is known."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp.contract import P_NEW
from streamddcrp.data.graphs import NOBODY, Parents, keep
from streamddcrp.estimator.particle_views import probabilities, summary_of
from streamddcrp.likelihoods import Likelihood
from streamddcrp.models.graph.config import Config, make_config
from streamddcrp.models.graph.state import State, arrays_of, empty_state, grown, state_from_arrays
from streamddcrp.models.graph.step import predict_row, step
from streamddcrp.typing import FloatArray


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller fixed, as `make_config` takes it."""

    r: int
    alpha: Any
    n_particles: int
    resampling: str
    merge: bool
    lag: int
    moves: int
    seed: int

    def config(self, likelihood: Likelihood, n_features: int, *, given: bool) -> Config:
        """Return the settings for rows of a width."""
        return make_config(
            family=likelihood.family, hyper=likelihood.hyper(n_features), given=given, r=self.r,
            alpha=self.alpha, n_particles=self.n_particles, resampling=self.resampling,
            merge=self.merge, lag=self.lag, moves=self.moves, seed=self.seed,
        )  # fmt: skip


@dataclass(slots=True)
class GraphFiltering:
    """Likelihood and state of a sampler that has begun.

    Attributes
    ----------
    first_time, time_unit : float
        0 and 1: times serve the events only, and stay as they came.
    n_features : int
        Columns of the rows as they come.
    past : ndarray of float64, shape (n_lags, D), or None
        The last rows, for a likelihood that regresses on them.
    coming : Parents or None
        Checked parents of the rows to come, where they are given.
    """

    likelihood: Likelihood
    config: Config
    state: State
    n_features: int
    past: FloatArray | None = None
    coming: Parents | None = None
    first_time: float = 0.0
    time_unit: float = 1.0

    @property
    def log_evidence(self) -> float:
        """Estimate of the log evidence of all rows so far; NaN where the scheme gives none."""
        return self.state.log_evidence

    def anew(self, likelihood: Likelihood) -> "GraphFiltering":
        """Return the filter with another prior, as it was before the first row."""
        config = self.config._replace(hyper=likelihood.hyper(self.n_features))
        return replace(self, likelihood=likelihood, config=config, state=empty_state(config))

    def step(self, X: FloatArray, t: FloatArray) -> FloatArray:
        """Predict and learn checked rows (N, D) at times (N,); return the predictions (N, 6)."""
        config, state = self._for_width(X.shape[1])
        rows, past = self.likelihood.prepare(X, self.past)
        mine, first = NOBODY, state.n_seen
        if self.coming is not None:
            n = len(self.coming.offsets) - 1
            mine, self.coming = self.coming.rows(0, len(X)), self.coming.rows(len(X), n)
        self.config, self.n_features, self.past = config, X.shape[1], past  # nothing fails now
        state, out = step(config, state, rows, t, mine.items, mine.offsets)
        if mine.most > state.recent.parents.shape[1]:
            state = grown(state, config, mine.most)
        keep(mine, first, state.recent.parents, state.recent.n_parents)
        self.state = state
        return out

    def predict(self, x: FloatArray, t: float) -> tuple[FloatArray, dict[int, float]]:
        """Predict a checked row (D,); return predictions (6,) and the probability of each table.

        Where parents are given, they are the first ones of ``coming``.
        """
        config, state = self._for_width(len(x))
        rows, _ = self.likelihood.prepare(x[None], self.past)
        parents = NOBODY.items if self.coming is None else self.coming.rows(0, 1).items
        out = predict_row(config, state, rows[0], parents)
        return out, probabilities(state, float(out[P_NEW]))

    def summary(self, features: Sequence[str]) -> pa.Table:
        """Return one row a live table; its statistics are means over the particles that have it."""
        names, pool, particles = self.state.names, self.state.pool, self.state.particles
        in_use = np.arange(particles.entry.shape[1]) < particles.n_tables[:, None]
        weight = np.where(in_use & (particles.entry >= 0), particles.weight[:, None], 0.0)
        held = particles.entry[weight > 0]
        of_cluster = np.bincount(held, weight[weight > 0], minlength=len(pool.name))
        total = np.zeros((len(names.opener), pool.stats.shape[1]))
        clusters = np.flatnonzero(of_cluster)
        np.add.at(total, pool.name[clusters], of_cluster[clusters, None] * pool.stats[clusters])
        return summary_of(names, total, self.likelihood, features)

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
        """Return arrays and settings for a checkpoint."""
        arrays: dict[str, Any] = dict(arrays_of(self.state))
        if self.past is not None:
            arrays["past"] = self.past
        meta = {
            "likelihood": self.likelihood.to_config(),
            "given": self.config.given,
            "n_features": self.n_features,
        }
        return arrays, meta

    @classmethod
    def from_state(
        cls, options: Options, likelihood: Likelihood, arrays: dict[str, Any], meta: dict[str, Any]
    ) -> "GraphFiltering":
        """Rebuild a filter from `to_state`."""
        config = options.config(likelihood, meta["n_features"], given=meta["given"])
        return cls(
            likelihood, config, state_from_arrays(config, arrays), meta["n_features"],
            arrays.get("past"), NOBODY if meta["given"] else None,
        )  # fmt: skip

    def _for_width(self, n_features: int) -> tuple[Config, State]:
        """Return settings and state for rows of a width: wider where new words have come."""
        if n_features == self.n_features:
            return self.config, self.state
        config = self.config._replace(hyper=self.likelihood.hyper(n_features))
        return config, state_from_arrays(config, arrays_of(self.state))
