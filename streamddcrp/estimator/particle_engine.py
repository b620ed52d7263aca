"""Engines of particles over tables: their common parts, and views of their tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pyarrow as pa

from streamddcrp.compilation import entry_point
from streamddcrp.contract import LIVE, P_NEW
from streamddcrp.estimator.stored import past_of
from streamddcrp.estimator.views import with_parameters
from streamddcrp.likelihoods import Likelihood
from streamddcrp.particles.kernels.names import LOG_EVIDENCE
from streamddcrp.particles.state import Arrays, Names
from streamddcrp.typing import FloatArray, IntArray, Probabilities


def live_names(names: Names) -> IntArray:
    """Return the ids of live tables, oldest first."""
    live = np.flatnonzero(names.weight >= LIVE)
    return live[np.argsort(names.opener[live])]


class Memory(NamedTuple):
    """How an engine's state is created, checked and restored."""

    empty: Callable[[Any], Any]  # from the settings, before the first row
    arrays: Callable[[Any], Arrays]
    check: Callable[[Any, Arrays], None]  # refuses inconsistent arrays
    restored: Callable[[Any, Arrays], Any]  # for rows of the settings' width


@dataclass
class ParticleEngine:
    """Likelihood, settings and state of particles; ``side`` inputs come with the rows.

    A model's engine implements the methods that raise NotImplementedError here.
    """

    likelihood: Likelihood
    config: Any  # a named tuple with ``hyper``
    state: Any
    n_features: int  # columns of the input rows
    past: FloatArray | None = None  # (n_lags, D) last rows, for an autoregressive likelihood
    first_time: float = 0.0  # the engine's time is (t - first_time) / time_unit
    time_unit: float = 1.0

    memory: ClassVar[Memory]
    amending: ClassVar[Any]  # kernel(config, state, item, old, new)

    @classmethod
    def continued(
        cls,
        likelihood: Likelihood,
        config: Any,
        arrays: dict[str, Any],
        n_features: int,
        **more: Any,
    ) -> Self:
        """Return the engine that `to_state` described; ``more`` has the model's own fields."""
        past = past_of(likelihood, arrays, n_features)
        cls.memory.check(config, arrays)
        state = cls.memory.restored(config, arrays)
        return cls(likelihood, config, state, n_features, past, **more)

    def _predict(self, config: Any, state: Any, x: FloatArray, t: float, *side: Any) -> FloatArray:
        """Predict a prepared row; leaves the tables' probabilities in ``state.scratch.at_name``."""
        raise NotImplementedError

    def _statistics(self) -> tuple[FloatArray, dict[str, Any]]:
        """Return the sums of statistics by id (N, S), and further columns of the summary."""
        raise NotImplementedError

    def step(self, X: FloatArray, t: FloatArray, *side: Any) -> FloatArray:
        """Predict and learn checked rows (N, D) at times (N,); return the predictions (N, 6)."""
        raise NotImplementedError

    @property
    def n_correctable(self) -> int:
        """How many of the last rows each particle knows the table of."""
        raise NotImplementedError

    def amend(self, item: int, old: FloatArray, new: FloatArray) -> None:
        """Replace the values (D,) of one of these rows."""
        rows, _ = self.likelihood.prepare(np.stack([old, new]), None)
        entry_point(self.amending)(self.config, self.state, item, *np.ascontiguousarray(rows))

    @property
    def log_evidence(self) -> float:
        """Estimate of the log evidence of all rows so far."""
        return float(self.state.sums[LOG_EVIDENCE])

    def with_prior(self, likelihood: Likelihood) -> Self:
        """Return the engine with another prior, in its state before the first row."""
        config = self.config._replace(hyper=likelihood.hyper(self.n_features))
        return replace(self, likelihood=likelihood, config=config, state=self.memory.empty(config))

    def predict(self, x: FloatArray, t: float, *side: Any) -> tuple[FloatArray, Probabilities]:
        """Predict a checked row (D,); return predictions (6,) and a function for the tables'."""
        config, state = self._for_width(len(x))
        rows, _ = self.likelihood.prepare(x[None], self.past)
        out = self._predict(config, state, np.ascontiguousarray(rows[0]), t, *side)

        def probabilities() -> dict[int, float]:
            held = np.flatnonzero(state.names.n_holders)
            openers, probs = state.names.opener[held], state.scratch.at_name[held]
            known = zip(openers.tolist(), probs.tolist(), strict=True)
            return dict(known) | {-1: float(out[P_NEW])}

        return out, probabilities

    def summary(self, features: Sequence[str]) -> pa.Table:
        """Return one row per live table; statistics are means over the particles that have it."""
        (total, more), names = self._statistics(), self.state.names
        live = live_names(names)
        last_seen, prob = names.last_seen[live], names.weight[live]
        columns = {
            "id": names.opener[live],
            "weight": np.ascontiguousarray(total[live, 0]),
            "prob": prob,
            "born": names.opener[live],
            "last_seen": pa.array(last_seen, mask=last_seen < 0),
            **more,
        }
        return with_parameters(columns, total[live] / prob[:, None], self.likelihood, features)

    def to_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return arrays and settings for a checkpoint."""
        arrays: dict[str, Any] = self.memory.arrays(self.state)
        if self.past is not None:
            arrays["past"] = self.past
        return arrays, {"likelihood": self.likelihood.to_config(), "n_features": self.n_features}

    def _for_width(self, n_features: int) -> tuple[Any, Any]:
        """Return settings and state for a width of rows, grown for new words."""
        if n_features == self.n_features:
            return self.config, self.state
        config = self.config._replace(hyper=self.likelihood.hyper(n_features))
        return config, self.memory.restored(config, self.memory.arrays(self.state))
