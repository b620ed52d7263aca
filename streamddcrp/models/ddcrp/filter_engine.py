"""A particle filter under way: what exists once the first rows have told the scale of the data."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from streamddcrp.contract import P_NEW
from streamddcrp.decay import Decay
from streamddcrp.estimator.particle_engine import probabilities, summary_of
from streamddcrp.likelihoods import Likelihood
from streamddcrp.models.ddcrp.filter_config import Config, make_config
from streamddcrp.models.ddcrp.filter_state import State, arrays_of, empty_state, state_from_arrays
from streamddcrp.models.ddcrp.filter_step import given_weights, predict_row, step
from streamddcrp.particles.kernels.layout import LOG_EVIDENCE
from streamddcrp.typing import FloatArray


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller fixed, as `make_config` takes it."""

    decay: Decay
    alpha: float
    n_particles: int
    lag: int
    seed: int


@dataclass(slots=True)
class Filtering:
    """Likelihood, clock and state of a filter that has begun.

    Attributes
    ----------
    first_time, time_unit : float
        The filter's time is (t - first_time) / time_unit where rows come with times.
    n_features : int
        Columns of the rows as they come; those of the filter may be more.
    past : ndarray of float64, shape (n_lags, D), or None
        The last rows, for a likelihood that regresses on them.
    """

    likelihood: Likelihood
    decay: Decay
    config: Config
    state: State
    first_time: float
    time_unit: float
    n_features: int
    past: FloatArray | None = None

    @property
    def log_evidence(self) -> float:
        """Estimate of the log evidence of all rows so far."""
        return float(self.state.sums[LOG_EVIDENCE])

    def anew(self, likelihood: Likelihood) -> "Filtering":
        """Return the filter with another prior, as it was before the first row."""
        config = self.config._replace(hyper=likelihood.hyper(self.n_features))
        return replace(self, likelihood=likelihood, config=config, state=empty_state(config))

    def step(self, X: FloatArray, t: FloatArray) -> FloatArray:
        """Predict and learn checked rows (N, D) at times (N,); return the predictions (N, 6)."""
        config, state = self._for_width(X.shape[1])
        rows, past = self.likelihood.prepare(X, self.past)
        times = self._own_time(t)
        given = given_weights(self.decay, config, state, times)
        self.config, self.n_features, self.past = config, X.shape[1], past  # nothing fails now
        self.state, out = step(config, state, rows, times, given)
        return out

    def predict(self, x: FloatArray, t: float) -> tuple[FloatArray, dict[int, float]]:
        """Predict a checked row (D,); return predictions (6,) and the probability of each table."""
        config, state = self._for_width(len(x))
        rows, _ = self.likelihood.prepare(x[None], self.past)
        time = self._own_time(np.array([t]))
        given = given_weights(self.decay, config, state, time)
        out = predict_row(config, state, rows[0], float(time[0]), given)
        return out, probabilities(state, float(out[P_NEW]))

    def summary(self, features: Sequence[str]) -> pa.Table:
        """Return one row a live table; its statistics are means over the particles that have it."""
        names, tables, particles = self.state.names, self.state.tables, self.state.particles
        total = np.zeros((len(names.opener), tables.stats.shape[2]))
        for p, n_tables in enumerate(particles.n_tables):
            total[tables.name[p, :n_tables]] += particles.weight[p] * tables.stats[p, :n_tables]
        return summary_of(names, total, self.likelihood, features)

    def to_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return arrays and settings for a checkpoint."""
        arrays: dict[str, Any] = dict(arrays_of(self.state, self.config))
        if self.past is not None:
            arrays["past"] = self.past
        meta = {
            "likelihood": self.likelihood.to_config(),
            "clocked": self.config.clocked,
            "first_time": self.first_time,
            "time_unit": self.time_unit,
            "n_features": self.n_features,
        }
        return arrays, meta

    @classmethod
    def from_state(
        cls, options: Options, likelihood: Likelihood, arrays: dict[str, Any], meta: dict[str, Any]
    ) -> "Filtering":
        """Rebuild a filter from `to_state`."""
        config = _config(options, likelihood, meta["n_features"], clocked=meta["clocked"])
        return cls(
            likelihood, options.decay, config, state_from_arrays(config, arrays),
            meta["first_time"], meta["time_unit"], meta["n_features"], arrays.get("past"),
        )  # fmt: skip

    def _own_time(self, t: FloatArray) -> FloatArray:
        return (t - self.first_time) / self.time_unit if self.config.clocked else t

    def _for_width(self, n_features: int) -> tuple[Config, State]:
        """Return settings and state for rows of a width: wider where new words have come."""
        if n_features == self.n_features:
            return self.config, self.state
        config = self.config._replace(hyper=self.likelihood.hyper(n_features))
        return config, state_from_arrays(config, arrays_of(self.state, self.config))


def _config(options: Options, likelihood: Likelihood, n_features: int, *, clocked: bool) -> Config:
    return make_config(
        family=likelihood.family, hyper=likelihood.hyper(n_features), decay=options.decay,
        alpha=options.alpha, n_particles=options.n_particles, lag=options.lag, seed=options.seed,
        clocked=clocked,
    )  # fmt: skip


def started(
    options: Options,
    likelihood: Likelihood,
    n_features: int,
    *,
    clocked: bool,
    first_time: float,
    time_unit: float,
) -> Filtering:
    """Return a filter that has seen nothing."""
    config = _config(options, likelihood, n_features, clocked=clocked)
    return Filtering(
        likelihood, options.decay, config, empty_state(config), first_time, time_unit, n_features
    )
