"""A stream under way: what exists once the first rows have told the scale of the data."""

from dataclasses import dataclass

import numpy as np

from streamddcrp.decay import Decay
from streamddcrp.likelihoods import Likelihood
from streamddcrp.models.seqddcrp.config import Config
from streamddcrp.models.seqddcrp.kernels.layout import N_FORBIDDEN
from streamddcrp.models.seqddcrp.state import State, widened
from streamddcrp.models.seqddcrp.step import given_weights, predict_row, step
from streamddcrp.records import nbytes_of
from streamddcrp.typing import FloatArray


@dataclass(slots=True)
class Running:
    """Likelihood, clock and state of a model that has begun.

    Attributes
    ----------
    clocked : bool
        Whether rows come with times; else the time is the arrival index.
    n_features : int
        Columns of the rows as they come; the engine's may be longer.
    opening : float
        Probability of opening a table from which alpha started.
    past : ndarray of float64, shape (n_lags, D), or None
        The last rows, for a likelihood that regresses on them.
    first_time, time_unit : float
        The engine's time is (t - first_time) / time_unit.
    """

    likelihood: Likelihood
    decay: Decay
    clocked: bool
    first_time: float
    time_unit: float
    config: Config
    state: State
    n_features: int
    opening: float
    past: FloatArray | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays of the state take."""
        return nbytes_of(self.state)

    @property
    def n_forbidden(self) -> int:
        """Rows that wanted a new table when all were in use."""
        return int(self.state.counts[N_FORBIDDEN])

    def step(self, X: FloatArray, t: FloatArray) -> FloatArray:
        """Predict and learn checked rows (N, D) at times (N,); return the predictions (N, 6)."""
        config, state = self._for_width(X.shape[1])
        rows, past = self.likelihood.prepare(X, self.past)
        times = self._engine_time(t)
        given = given_weights(self.decay, config, state, times, clocked=self.clocked)
        self.config, self.n_features, self.past = config, X.shape[1], past  # nothing fails now
        self.state, out = step(config, state, rows, times, given)
        return out

    def predict(self, x: FloatArray, t: float) -> tuple[FloatArray, FloatArray]:
        """Predict a checked row (D,); return predictions (6,) and probabilities of the columns."""
        config, state = self._for_width(len(x))
        rows, _ = self.likelihood.prepare(x[None], self.past)
        time = self._engine_time(np.array([t]))
        given = given_weights(self.decay, config, state, time, clocked=self.clocked)
        return predict_row(config, state, rows[0], float(time[0]), given)

    def _engine_time(self, t: FloatArray) -> FloatArray:
        return (t - self.first_time) / self.time_unit if self.clocked else t

    def _for_width(self, n_features: int) -> tuple[Config, State]:
        """Return settings and state for rows of a width: wider where new words have come."""
        if n_features == self.n_features:
            return self.config, self.state
        config = self.config._replace(hyper=self.likelihood.hyper(n_features))
        return config, widened(self.state, config)
