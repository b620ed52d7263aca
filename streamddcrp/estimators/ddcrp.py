"""The sequential distance-dependent CRP mixture by a particle filter, as a streaming estimator."""

import logging
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from river import base

from streamddcrp.checkpoint.codec import decode_state, encode_state
from streamddcrp.decay import make_decay
from streamddcrp.errors import CheckpointError, ConfigError, SchemaError, StreamDDCRPError
from streamddcrp.estimators.batches import batch_times, read_batch, row_types, widest
from streamddcrp.estimators.events import Event
from streamddcrp.estimators.filtering import Filtering, Options, best_of, started
from streamddcrp.estimators.options import from_json, to_json
from streamddcrp.estimators.stored import Stored
from streamddcrp.estimators.views import events_since, no_tables, predictions
from streamddcrp.inference.ddcrp_filter._kernels_layout import (
    LABEL,
    LIVE_TABLES,
    N_EVENTS,
    N_LIVE,
    N_OUTPUTS,
    SCORE,
)
from streamddcrp.inference.ddcrp_filter.config import make_config
from streamddcrp.inference.ddcrp_gibbs import (
    DDCRPSamples,
    Distances,
    HyperGrid,
    sample_ddcrp,
)
from streamddcrp.likelihoods import (
    DirichletMultinomial,
    Likelihood,
    NormalGamma,
    choose_likelihood,
    likelihood_from_config,
    make_likelihood,
)
from streamddcrp.stream import Vectorizer, as_time, check_clocked, check_times, typical_gap
from streamddcrp.typing import ArrayLike, FloatArray

__all__ = ["DDCRPSampler"]

_log = logging.getLogger(__name__)
_MODEL_ID = "DDCRPSampler"
_VERSION = 1
RECENT = 64  # arrivals within which a table counts as present in a picture
Features = Mapping[Any, Any]


class Waiting(NamedTuple):
    """Rows of the warm-up.

    Attributes
    ----------
    X : ndarray of float64, shape (N, D)
    t : ndarray of float64, shape (N,)
    types : list of {"bool", "int", "float"}
        As what the values of each column came.
    """

    X: FloatArray
    t: FloatArray
    types: list[str] | None = None

    def and_then(self, X: FloatArray, t: FloatArray, types: list[str]) -> "Waiting":
        """Return these rows and more; words that came later are missing in earlier ones."""
        rows = np.full((len(self.X) + len(X), X.shape[1]), np.nan)
        rows[: len(self.X), : self.X.shape[1]] = self.X
        rows[len(self.X) :] = X
        return Waiting(rows, np.concatenate([self.t, t]), widest(self.types, types))


_NOTHING = Waiting(np.empty((0, 0)), np.empty(0))


class DDCRPSampler(Stored, base.Clusterer):
    """Sequential distance-dependent CRP mixture by Monte Carlo.

    Each arrival links to an earlier one with a probability that decays with their distance, or
    opens a table; linked arrivals share the parameter of a conjugate family. On a stream a particle
    filter follows it: every particle is one seating of all arrivals, and what is told is the mean
    over the particles. No approximation but their number, bounded memory, and an unbiased estimate
    of the evidence. A table's id is the arrival index of the row that opened it.

    Parameters
    ----------
    alpha : float, default 0.3
        Weight of opening a table against the decay weights of earlier arrivals.
    decay : tuple, str, Decay or callable, default ("exponential", 16.0)
        How the weight of a link falls with distance; see `streamddcrp.decay`. "none" is the CRP.
    likelihood : "auto", tuple or Likelihood, default "auto"
        "auto" picks a family for each column from the first rows, and logs what it picked. Numbers
        that are left out, as in ``("normal_wishart",)``, come from the first rows.
    n_particles : int, default 10
        More of them predict better and cost as much more.
    lag : int, default 0
        Number of last arrivals whose links are drawn anew after each arrival: revises recent
        assignments, at the cost of one more arrival each.
    warmup : int, default 64
        Rows that wait where likelihood or time unit must be learned from them; then they are
        filtered at once. Until then the label is 0 and there is no score.
    time_unit : float, optional
        Length of the decay's unit in the units of ``t`` (seconds for time stamps). Default: the
        median gap between the warm-up rows, so that distances count typical gaps.
    seed : int, default 0

    Notes
    -----
    With two features and ten tables an arrival takes about 1.4 us a particle, with a lag as much
    again and more for each link drawn anew; a particle takes a few kB. The algorithm is told in
    `streamddcrp.inference.ddcrp_filter`.

    Examples
    --------
    >>> from streamddcrp import DDCRPSampler
    >>> model = DDCRPSampler(likelihood=("normal_gamma", 0.0, 0.05, 1.5, 0.5))
    >>> for y in [0.1, -0.2, 0.3, 8.1, 7.9, 8.2, 0.2]:
    ...     model.learn_one({"y": y})
    >>> model.predict_one({"y": 8.0}), model.predict_one({"y": 0.0})
    (3, 0)
    >>> model.objective
    -16.62
    """

    def __init__(
        self,
        *,
        alpha: float = 0.3,
        decay: Any = ("exponential", 16.0),
        likelihood: Any = "auto",
        n_particles: int = 10,
        lag: int = 0,
        warmup: int = 64,
        time_unit: float | None = None,
        seed: int = 0,
    ) -> None:
        self.alpha = alpha
        self.decay = decay
        self.likelihood = likelihood
        self.n_particles = n_particles
        self.lag = lag
        self.warmup = warmup
        self.time_unit = time_unit
        self.seed = seed
        is_auto = isinstance(likelihood, str) and likelihood == "auto"
        # None: to be chosen. It may lack numbers, which the first rows then supply.
        self._family: Likelihood | None = None if is_auto else make_likelihood(likelihood)
        self._options = Options(make_decay(decay), alpha, n_particles, lag, seed)
        if isinstance(warmup, bool) or not float(warmup).is_integer() or warmup < 1:
            message = f"warmup must be a whole number of at least 1, got {warmup!r}"
            raise ConfigError(message)
        if time_unit is not None and not (time_unit > 0 and math.isfinite(time_unit)):
            message = f"time_unit must be a positive number or None, got {time_unit!r}"
            raise ConfigError(message)
        make_config(  # checks the other options
            family=0, hyper=np.ones(1), decay=self._options.decay, alpha=alpha,
            n_particles=n_particles, lag=lag, seed=seed, clocked=True,
        )  # fmt: skip
        self._vectorizer = Vectorizer(
            open=isinstance(self._family, DirichletMultinomial) and self._family.n_features is None
        )
        self._filter: Filtering | None = None
        self._waiting = _NOTHING  # during warm-up
        self._clocked: bool | None = None  # whether rows come with times
        self._last_time: float | None = None
        self._n_seen = 0
        self._events_read = 0

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {}
        yield {"likelihood": ("normal_gamma", 0.0, 0.05, 1.5, 1.0), "lag": 3}

    # -- learning --------------------------------------------------------------------------------

    def learn_one(self, x: Features, t: Any = None) -> None:
        """Learn one row.

        Parameters
        ----------
        x : mapping
            Feature name to number; None, or an absent feature, is a missing value.
        t : number or time stamp, optional
            Its time; without it the arrival index is the time.

        Raises
        ------
        SchemaError
            A value is not a finite number or outside the family's support. Nothing was learned.
        OrderError
            ``t`` is before the time of the row before. Nothing was learned.
        """
        mark = self._vectorizer.mark()
        try:
            X = self._vectorizer.transform(x)[None].copy()
            types = row_types(x, self._vectorizer.columns or ()) if self._filter is None else []
            self._advance(X, None if t is None else np.array([as_time(t)]), types)
        except StreamDDCRPError:
            self._vectorizer.rollback(mark)
            raise

    def learn_many(self, batch: object, t: object = None) -> None:
        """Learn a batch of rows; the same, bit for bit, as learning them one by one.

        Parameters
        ----------
        batch : Arrow table or batch, data frame, or array_like of shape (N, D)
        t : array_like of shape (N,), optional

        Raises
        ------
        SchemaError, OrderError
            As for `learn_one`, with the row's number in ``row``. Nothing was learned.
        """
        self._learn_batch(batch, t)

    def step_many(self, batch: object, t: object = None) -> pa.RecordBatch:
        """Predict each row of a batch, then learn it, in one pass.

        Parameters
        ----------
        batch, t
            As for `learn_many`.

        Returns
        -------
        pyarrow.RecordBatch
            A row each with ``label`` (int64, the most probable table before the row was learned; a
            new one has the row's arrival index), ``label_prob``, ``score`` (-log predictive density
            in nats), ``p_new`` (probability of a new table), ``p_change`` (of another table than
            that of the row before), ``n_tables`` (int64). The floats are null in warm-up.
        """
        return predictions(self._learn_batch(batch, t))

    def _learn_batch(self, batch: object, t: object) -> FloatArray:
        mark = self._vectorizer.mark()
        try:
            X, types = read_batch(batch, self._vectorizer)
            return self._advance(X, None if t is None else batch_times(t, len(X)), types)
        except StreamDDCRPError:
            self._vectorizer.rollback(mark)
            raise

    def _advance(self, X: FloatArray, t: FloatArray | None, types: list[str]) -> FloatArray:
        """Check rows and times, then learn them all; raises before anything has changed."""
        if len(X) == 0:
            return np.empty((0, N_OUTPUTS))
        clocked = t is not None
        check_clocked(self._clocked, t is not None)
        if t is None:
            t = np.arange(self._n_seen, self._n_seen + len(X), dtype=np.float64)
        else:
            check_times(t, self._last_time)
        if self._filter is not None:
            self._filter.likelihood.check_rows(X, self._feature_names())
            out = self._filter.step(X, t)
        else:
            out = self._begin(X, t, types, clocked=clocked)
        self._clocked = clocked
        self._last_time = float(t[-1]) if clocked else None
        self._n_seen += len(X)
        return out

    def _begin(
        self, X: FloatArray, t: FloatArray, types: list[str], *, clocked: bool
    ) -> FloatArray:
        """Let rows wait, or found the filter on those that have waited and learn the others."""
        family = self._family
        (family or NormalGamma()).check_rows(X, self._feature_names())  # what no family takes
        if family is not None and family.is_scaled:
            family.hyper(X.shape[1])  # refuses a width it is not for
        ready = family is not None and family.is_scaled and not (clocked and self.time_unit is None)
        waiting = self._waiting.and_then(X, t, types)
        out = np.full((len(X), N_OUTPUTS), np.nan)
        out[:, LABEL], out[:, LIVE_TABLES] = 0, 1
        if not ready and len(waiting.X) < self.warmup:
            self._waiting = waiting
            return out
        wait = 0 if ready else self.warmup
        found = self._found(waiting.X[:wait], waiting.t[:wait], X, waiting, clocked=clocked)
        n_old = len(self._waiting.X)
        if len(waiting.X) > wait:
            out[max(wait - n_old, 0) :] = found.step(waiting.X[wait:], waiting.t[wait:])
        self._filter, self._family, self._waiting = found, found.likelihood, _NOTHING
        return out

    def _found(
        self, rows: FloatArray, times: FloatArray, X: FloatArray, waiting: Waiting, *, clocked: bool
    ) -> Filtering:
        """Return a filter of which family, scale and time unit are taken from the first rows."""
        names, family = self._feature_names(), self._family
        if family is None:
            chosen, reason = choose_likelihood(rows, types=waiting.types, names=names)
            family = chosen.unscaled()
            family.check_rows(X, names)
            _log.info("likelihood: %s", reason)
        unit = 1.0 if self.time_unit is None else self.time_unit
        if clocked and self.time_unit is None:
            unit = typical_gap(times)
        blank = started(
            self._options, family.scaled(rows, names), X.shape[1], clocked=clocked,
            first_time=float(waiting.t[0]), time_unit=unit,
        )  # fmt: skip
        return best_of(blank, family, rows, times)

    def _feature_names(self) -> list[str]:
        return [str(name) for name in self._vectorizer.columns or ()]

    # -- predicting ------------------------------------------------------------------------------

    def predict_one(self, x: Features, t: Any = None) -> int:
        """Return the id of the most probable table; the next id where that is a new one."""
        predicted = self._predict(x, t)
        return 0 if predicted is None else int(predicted[0][LABEL])

    def predict_proba_one(self, x: Features, t: Any = None) -> dict[int, float]:
        """Return the probability of each table of any particle, and under -1 that of a new one."""
        predicted = self._predict(x, t)
        if predicted is None:
            return {0: 1.0} if self._n_seen else {-1: 1.0}
        return predicted[1]

    def score_one(self, x: Features, t: Any = None) -> float:
        """Return -log predictive density (nats): high is surprising. NaN in warm-up."""
        predicted = self._predict(x, t)
        return math.nan if predicted is None else float(predicted[0][SCORE])

    def _predict(self, x: Features, t: Any) -> tuple[FloatArray, dict[int, float]] | None:
        """Predict a row; None in warm-up. Changes nothing."""
        mark = self._vectorizer.mark()
        try:  # new words of an open vocabulary count in the prediction, but are not learned
            X = self._vectorizer.transform(x, learn=self._vectorizer.open)[None].copy()
            names = self._feature_names()
        finally:
            self._vectorizer.rollback(mark)
        if self._filter is None:
            return None
        self._filter.likelihood.check_rows(X, names)
        if not self._clocked:
            if t is not None:
                message = "t: the rows before came without times; predict without one, too"
                raise SchemaError(message)
            time = float(self._n_seen)
        else:
            time = as_time(t) if t is not None else self._last_time or 0.0
            check_times(np.array([time]), self._last_time)
        return self._filter.predict(X[0], time)

    # -- a whole data set ------------------------------------------------------------------------

    def sample(
        self,
        X: object,
        t: ArrayLike | None = None,
        *,
        distances: Distances | None = None,
        sequential: bool = True,
        n_sweeps: int = 1000,
        burn_in: int = 200,
        n_chains: int = 4,
        hyper: str | HyperGrid | None = None,
        progress: bool = False,
    ) -> DDCRPSamples:
        """Sample the seating of a whole data set by Gibbs, with the options of this model.

        The stream is neither used nor changed. `sample_ddcrp` has more options.

        Parameters
        ----------
        X : Arrow table or batch, data frame, or array_like of shape (N, D)
        t : array_like, shape (N,), optional
            Times or time stamps. Default: the arrival index.
        distances : Distances, optional
            Of another kind: on covariates, a graph, from a matrix or a function.
        sequential, n_sweeps, burn_in, n_chains, hyper, progress
            As for `sample_ddcrp`.

        Returns
        -------
        DDCRPSamples

        Raises
        ------
        SchemaError
            A value is not finite or outside the family's support.

        Examples
        --------
        >>> from streamddcrp import DDCRPSampler, point_estimate
        >>> model = DDCRPSampler(likelihood=("normal_gamma", 0.0, 0.05, 1.5, 0.5))
        >>> samples = model.sample([[0.1], [-0.2], [8.1], [7.9], [0.2]], n_sweeps=200)
        >>> point_estimate(samples.labels).tolist()
        [0, 0, 2, 2, 0]
        """
        vectorizer = Vectorizer()
        rows, types = read_batch(X, vectorizer)
        names = [str(name) for name in vectorizer.columns or ()]
        if isinstance(self.likelihood, str) and self.likelihood == "auto":
            NormalGamma().check_rows(rows, names)  # what no family takes
            family, reason = choose_likelihood(rows, types=types, names=names)
            _log.info("likelihood: %s", reason)
        else:
            family = make_likelihood(self.likelihood)
            family.check_rows(rows, names)
        times = None if t is None else batch_times(t, len(rows))
        if times is not None:
            times = (times - times[:1]) / (self.time_unit or typical_gap(times))
        return sample_ddcrp(
            np.ma.masked_invalid(rows), family.scaled(rows, names), alpha=self.alpha,
            decay=self.decay, distances=distances, t=times,
            sequential=sequential, n_sweeps=n_sweeps, burn_in=burn_in, n_chains=n_chains,
            hyper=hyper, seed=self.seed, progress=progress,
        )  # fmt: skip

    # -- looking at the model --------------------------------------------------------------------

    @property
    def n_seen(self) -> int:
        """Number of rows learned."""
        return self._n_seen

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays of the model take in memory, as `Keyed` counts them."""
        waiting = self._waiting.X.nbytes + self._waiting.t.nbytes
        return waiting + (0 if self._filter is None else self._filter.state.nbytes)

    @property
    def n_tables(self) -> int:
        """Number of live tables: those that particles of at least half the weight have."""
        return 0 if self._filter is None else int(self._filter.state.counts[N_LIVE])

    @property
    def objective(self) -> float:
        """Estimate of the log evidence of everything learned so far; NaN in warm-up.

        Its exponential is unbiased; itself it is low by half its variance over seeds.
        """
        if self._filter is None:
            return math.nan if self._n_seen else 0.0
        return self._filter.log_evidence

    def events(self) -> list[Event]:
        """Return births and deaths of tables since the last call, at most the last 256.

        A table is born when particles of half the weight have it, and dead when none has.
        """
        if self._filter is None:
            return []
        unit = self._filter.time_unit if self._clocked else 1.0
        state, read = self._filter.state, self._events_read
        self._events_read = int(state.counts[N_EVENTS])
        return events_since(state.events, self._events_read, read, self._filter.first_time, unit)

    def summary(self) -> pa.Table:
        """Return one row a live table: id, size, prob, born, last seen, parameters.

        ``size`` is the expected number of rows, ``prob`` the weight of the particles that have the
        table; ``born`` and ``last_seen`` are arrival indices (``last_seen`` is null where no row
        was ever most probably there). The parameters are those of the likelihood's
        `point_estimates` at the mean statistics of these particles, one column a feature.
        """
        if self._filter is None:
            return no_tables(prob=pa.float64())
        return self._filter.summary(self._feature_names())

    def plot(self, ax: Any = None) -> Any:
        """Draw the live tables by size, those at hand in colour; return the axes.

        Parameters
        ----------
        ax : matplotlib axes, optional

        Raises
        ------
        MissingExtraError
            If matplotlib is not installed.
        """
        from streamddcrp.estimators.plotting import plot_tables  # noqa: PLC0415  # heavy, optional

        return plot_tables(self.summary(), self._n_seen - RECENT, ax)

    # -- checkpoints -----------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Return the whole model as one checksummed blob; `from_bytes` continues bit for bit."""
        arrays: dict[str, Any] = {"waiting.x": self._waiting.X, "waiting.t": self._waiting.t}
        meta: dict[str, Any] = {
            "options": {name: to_json(value) for name, value in self._get_params().items()},
            "vectorizer": self._vectorizer.to_config(),
            "types": self._waiting.types,
            "clocked": self._clocked,
            "last_time": self._last_time,
            "n_seen": self._n_seen,
            "events_read": self._events_read,
            "filter": None,
        }
        if self._filter is not None:
            more, meta["filter"] = self._filter.to_state()
            arrays |= more
        return encode_state(_MODEL_ID, _VERSION, arrays, meta)

    @classmethod
    def from_bytes(cls, blob: bytes) -> Self:
        """Restore a model from `to_bytes`.

        Raises
        ------
        CheckpointError
            If the blob is damaged, of another model or of a newer version.
        """
        arrays, meta = decode_state(blob, _MODEL_ID)
        try:
            model = cls(**{name: from_json(value) for name, value in meta["options"].items()})
            model._restore(arrays, meta)
        except (LookupError, TypeError, ValueError) as error:
            message = f"the state does not fit this release: {error}"
            raise CheckpointError(message) from error
        return model

    def _restore(self, arrays: dict[str, Any], meta: dict[str, Any]) -> None:
        self._vectorizer = Vectorizer.from_config(meta["vectorizer"])
        for name in ("clocked", "last_time", "n_seen", "events_read"):
            setattr(self, f"_{name}", meta[name])
        self._waiting = Waiting(arrays["waiting.x"], arrays["waiting.t"], meta["types"])
        kept = meta["filter"]
        if kept is not None:
            self._family = likelihood_from_config(kept["likelihood"])
            self._filter = Filtering.from_state(self._options, self._family, arrays, kept)
