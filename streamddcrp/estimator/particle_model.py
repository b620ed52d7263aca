"""Shared by models that warm up and then follow a stream with particles."""

import logging
import math
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from streamddcrp.arguments import generator
from streamddcrp.contract import LABEL, LIVE_TABLES, N_OUTPUTS, Event
from streamddcrp.data.batches import widest
from streamddcrp.data.scaled import tell_of_constants
from streamddcrp.estimator.particle_engine import ParticleEngine
from streamddcrp.estimator.recent import Correctable, TimeLine
from streamddcrp.estimator.stored import check_types
from streamddcrp.estimator.views import events_since, in_pieces, no_tables
from streamddcrp.likelihoods import (
    DirichletMultinomial,
    Likelihood,
    NormalGamma,
    choose_likelihood,
    likelihood_from_config,
    make_likelihood,
)
from streamddcrp.likelihoods.columns import TABLE_VARIANCE
from streamddcrp.particles.kernels.names import N_EVENTS, N_LIVE
from streamddcrp.partitions import named
from streamddcrp.records import FINITE, VALUE, check_one, refuse_if
from streamddcrp.typing import FloatArray, IntArray, Probabilities
from streamddcrp.validation import whole

_log = logging.getLogger(__name__)
SPREADS = (0.01, 0.05, 0.2, 1.0)  # expected variances within a table, as shares of the rows'


class Waiting(NamedTuple):
    """Rows of the warm-up."""

    X: FloatArray  # (N, D)
    t: FloatArray  # (N,)
    types: list[str] | None = None  # "bool", "int" or "float": each column's original type
    side: tuple[Any, ...] = ()  # side inputs, with methods `rows` and `and_then`

    def and_then(
        self, X: FloatArray, t: FloatArray, types: list[str], side: tuple[Any, ...]
    ) -> "Waiting":
        """Return these rows and more; new words are missing in earlier rows."""
        rows = np.full((len(self.X) + len(X), X.shape[1]), np.nan)
        rows[: len(self.X), : self.X.shape[1]] = self.X
        rows[len(self.X) :] = X
        if self.side:
            side = tuple(a.and_then(b) for a, b in zip(self.side, side, strict=True))
        return Waiting(rows, np.concatenate([self.t, t]), widest(self.types, types), side)

    def rows(self, a: int, z: int) -> tuple[Any, ...]:
        """Return rows a to z as an engine takes them: values, times, side inputs."""
        return self.X[a:z], self.t[a:z], *(one.rows(a, z) for one in self.side)


NOTHING = Waiting(np.empty((0, 0)), np.empty(0))


class WarmingUp(TimeLine):
    """A model whose engine starts once the first ``warmup`` rows have come."""

    def __init__(self, warmup: int, *, is_open: bool = False) -> None:
        whole("warmup", warmup, 1)
        super().__init__(is_open=is_open)
        self.warmup = warmup
        self._engine: Any = None
        self._waiting = NOTHING

    @property
    def _has_begun(self) -> bool:
        return self._engine is not None

    @property
    def nbytes(self) -> int:
        """Bytes of the model's arrays in memory, as `Keyed` counts them."""
        waiting = self._waiting.X.nbytes + self._waiting.t.nbytes + self._nbytes_kept
        return waiting + (0 if self._engine is None else self._engine.state.nbytes)

    @property
    def log_evidence(self) -> float:
        """Estimate of the log evidence of everything learned so far; NaN in warm-up.

        Its exponential is unbiased given what the first rows fixed; the log is too low by half its
        variance over seeds.
        """
        if self._engine is None:
            return math.nan if self._n_seen else 0.0
        return float(self._engine.log_evidence)

    objective = log_evidence

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays: dict[str, Any] = {"waiting.x": self._waiting.X, "waiting.t": self._waiting.t}
        meta = self._progress() | {"filter": None}
        if self._engine is not None:
            more, meta["filter"] = self._engine.to_state()
            arrays |= more
        return arrays, meta

    def _check_waiting(self) -> None:
        """Refuse stored warm-up rows that this model would not have kept."""
        X, t = self._waiting.X, self._waiting.t
        D = self._vectorizer.n_features if len(X) else X.shape[-1]
        check_one("waiting.x", X, (len(X), D), np.float64, VALUE)
        check_one("waiting.t", t, (len(X),), np.float64, FINITE)
        check_types(self._waiting.types, D)
        refuse_if(len(X) > self.warmup or bool(np.isinf(X).any()), "warm-up")


class ParticleModel(WarmingUp, Correctable):
    """A model that follows numeric rows with particles once the first rows have set the scale.

    A subclass supplies `_blank` and `_continued`, which create its engine. Side inputs of rows
    (parents, groups), if the model has them, go to the engine with the rows; they have methods
    ``rows(a, z)`` and ``and_then(more)``.

    Parameters
    ----------
    likelihood : "auto", tuple or Likelihood
    warmup : int
        Rows collected first if something must be learned from them.
    """

    def __init__(self, likelihood: Any, warmup: int) -> None:
        is_auto = isinstance(likelihood, str) and likelihood == "auto"
        # None: chosen automatically. Missing numbers are taken from the first rows.
        self._family: Likelihood | None = None if is_auto else make_likelihood(likelihood)
        is_open = isinstance(self._family, DirichletMultinomial) and self._family.n_features is None
        super().__init__(warmup, is_open=is_open)

    # -- supplied by a model ---------------------------------------------------------------------

    _waits_for_times = False  # whether a unit of time must be learned from the first rows

    def _blank(
        self, likelihood: Likelihood, n_features: int, *, clocked: bool, first_time: float,
        times: FloatArray,
    ) -> ParticleEngine:  # fmt: skip
        """Return an untrained engine, given side inputs and times of the warm-up."""
        raise NotImplementedError

    def _continued(
        self, likelihood: Likelihood, arrays: dict[str, Any], meta: dict[str, Any]
    ) -> ParticleEngine:
        """Return the engine that `to_state` described."""
        raise NotImplementedError

    # -- learning --------------------------------------------------------------------------------

    @property
    def _wants_types(self) -> bool:
        return self._engine is None

    def _advance(
        self, X: FloatArray, t: FloatArray | None, types: list[str], *side: Any
    ) -> FloatArray:
        if len(X) == 0:
            return np.empty((0, N_OUTPUTS))
        clocked = t is not None
        self._check_times(t)
        if t is None:
            t = np.arange(self._n_seen, self._n_seen + len(X), dtype=np.float64)
        if self._engine is not None:
            self._engine.likelihood.check_rows(X, self._feature_names())
        begun, before = self._engine, self._n_seen
        try:
            if begun is not None:
                return in_pieces(self._backlog, begun, N_EVENTS, X, t, *side)
            return self._begin(X, self._waiting.and_then(X, t, types, side), clocked=clocked)
        finally:  # whatever happened, this many were learned
            engine = self._engine
            self._n_seen = len(self._waiting.X) if engine is None else engine.state.n_seen
            if self._n_seen > before:
                self._clocked = clocked
                self._last_time = float(t[self._n_seen - before - 1]) if clocked else None

    def _begin(self, X: FloatArray, waiting: Waiting, *, clocked: bool) -> FloatArray:
        """Collect rows, or start the engine on the collected ones and learn the others."""
        family = self._family
        (family or NormalGamma()).check_rows(X, self._feature_names())  # what no family takes
        if family is not None and family.is_scaled:
            family.hyper(X.shape[1])  # refuses a width it does not support
        ready = family is not None and family.is_scaled and not (clocked and self._waits_for_times)
        out = np.full((len(X), N_OUTPUTS), np.nan)
        out[:, LABEL], out[:, LIVE_TABLES] = 0, 1
        n_old, n = len(self._waiting.X), len(waiting.X)
        if not ready and n < self.warmup:
            self._waiting = waiting
            return out
        wait = 0 if ready else self.warmup
        engine = self._started(waiting, wait, X, clocked=clocked)
        if n > wait:
            rows = waiting.rows(wait, n)
            out[max(wait - n_old, 0) :] = in_pieces(self._backlog, engine, N_EVENTS, *rows)
        self._engine, self._family, self._waiting = engine, engine.likelihood, NOTHING
        return out

    def _started(
        self, waiting: Waiting, wait: int, X: FloatArray, *, clocked: bool
    ) -> ParticleEngine:
        """Return an engine with family, scale and time unit from the first rows."""
        names, family = self._feature_names(), self._family
        rows = waiting.rows(0, wait)
        tell_of_constants(rows[0], names)
        if family is None:
            chosen, reason = choose_likelihood(rows[0], types=waiting.types, names=names)
            family = chosen.unscaled()
            family.check_rows(X, names)
            _log.info("likelihood: %s", reason)
        blank = self._blank(
            family.scaled(rows[0], names), X.shape[1], *waiting.side, clocked=clocked,
            first_time=float(waiting.t[0]), times=rows[1],
        )  # fmt: skip
        return best_of(blank, family, *rows)

    def _check_rows(self, X: FloatArray, names: list[str]) -> None:
        self._engine.likelihood.check_rows(X, names)

    def _predict_row(self, x: FloatArray, t: float, *side: Any) -> tuple[FloatArray, Probabilities]:
        predicted: tuple[FloatArray, Probabilities] = self._engine.predict(x, t, *side)
        return predicted

    @property
    def _n_correctable(self) -> int:
        engine = self._engine
        return 0 if engine is None or engine.past is not None else int(engine.n_correctable)

    def _correct(self, back: int, old: FloatArray, new: FloatArray) -> None:
        self._engine.amend(self._n_seen - back, old, new)

    # -- looking at the model --------------------------------------------------------------------

    @property
    def n_tables(self) -> int:
        """Number of live tables, those that at least half the particle weight has."""
        return 0 if self._engine is None else int(self._engine.state.counts[N_LIVE])

    def events(self) -> list[Event]:
        """Return births and deaths of tables since the last call.

        Includes all of the last call that learned, and the last 256 before it.

        A table is born when half the particle weight has it, and dead when no particle has it.
        """
        if self._engine is None:
            return []
        unit = self._engine.time_unit if self._clocked else 1.0
        state, read = self._engine.state, self._events_read
        self._events_read = int(state.counts[N_EVENTS])
        first = self._engine.first_time
        return events_since(state.events, self._events_read, read, first, unit, self._backlog)

    def summary(self) -> pa.Table:
        """Return one row per live table: id, weight, prob, born, last seen, parameters.

        ``weight`` is the expected number of rows, ``prob`` the weight of the particles that have
        the table. ``born`` and ``last_seen`` are arrival indices; ``last_seen`` is null if the
        table was never the most probable one. The parameters are the likelihood's `point_estimates`
        at the mean statistics of these particles, one column per feature.
        """
        if self._engine is None:
            return no_tables(prob=pa.float64())
        return self._engine.summary(self._feature_names())

    # -- checkpoints -----------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays, meta = super()._state()
        return arrays, meta | {"types": self._waiting.types}

    def _restore(self, arrays: dict[str, Any], meta: dict[str, Any]) -> None:
        self._waiting = Waiting(arrays["waiting.x"], arrays["waiting.t"], meta["types"])
        self._check_waiting()
        kept = meta["filter"]
        if kept is not None:
            refuse_if(kept["n_features"] != self._vectorizer.n_features, "n_features")
            self._family = likelihood_from_config(kept["likelihood"])
            self._engine = self._continued(self._family, arrays, kept)
        learned = len(self._waiting.X) if kept is None else self._engine.state.n_seen
        refuse_if(self._n_seen != learned, "n_seen")


class PartitionModel(ParticleModel):
    """A model whose particles store the tables of the last rows: the engine's ``labels()``."""

    def partitions(self, n_draws: int = 1000, seed: int | None = 0) -> IntArray:
        """Draw partitions of the last rows from the particles, by weight.

        The rows are those in memory: a window and, in `GraphCRP`, those of ``rejuvenate``.
        `point_estimate` and `similarity_matrix` take the draws.

        Parameters
        ----------
        n_draws : int, default 1000
        seed : int or None, default 0

        Returns
        -------
        ndarray of int64, shape (n_draws, n)
            Tables, named after their first row; the oldest row first. Empty in warm-up.
        """
        n_draws, rng = whole("n_draws", n_draws, 1), generator(seed)
        if self._engine is None:
            return np.empty((n_draws, 0), np.int64)
        labels, weight = self._engine.labels(), self._engine.state.particles.weight
        drawn = rng.choice(len(labels), n_draws, p=weight / weight.sum())
        return np.array([named(row) for row in labels])[drawn]


def best_of(
    blank: ParticleEngine, family: Likelihood, X: FloatArray, t: FloatArray, *side: Any
) -> ParticleEngine:
    """Let engines with different prior spreads learn the first rows; return the best."""
    if not family.free_spread:
        blank.step(X, t, *side)
        return blank
    trials = []
    for spread in SPREADS:
        trial = blank.with_prior(blank.likelihood.spread_by(spread / TABLE_VARIANCE, X))
        trial.step(X, t, *side)
        trials.append(trial)
    evidence = [trial.log_evidence for trial in trials]
    best = evidence.index(max(evidence))
    _log.info(
        "prior chosen after %d rows: variance within a table %g of the total variance",
        len(X),
        SPREADS[best],
    )
    _log.debug("log evidence by that share: %s", dict(zip(SPREADS, evidence, strict=True)))
    return trials[best]
