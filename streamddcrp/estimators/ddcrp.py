"""The sequential distance-dependent CRP mixture by a particle filter, as a streaming estimator."""

import logging
import math
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from river import base

from streamddcrp.decay import make_decay
from streamddcrp.errors import ConfigError
from streamddcrp.estimators.base import RowModel
from streamddcrp.estimators.batches import batch_times, read_batch, widest
from streamddcrp.estimators.events import Event
from streamddcrp.estimators.filtering import Filtering, Options, best_of, started
from streamddcrp.estimators.views import events_since, no_tables
from streamddcrp.inference.ddcrp_filter._kernels_layout import (
    LABEL,
    LIVE_TABLES,
    N_EVENTS,
    N_LIVE,
    N_OUTPUTS,
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
from streamddcrp.stream import Vectorizer, typical_gap
from streamddcrp.typing import ArrayLike, FloatArray

__all__ = ["DDCRPSampler"]

_log = logging.getLogger(__name__)
RECENT = 64  # arrivals within which a table counts as present in a picture


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


class DDCRPSampler(RowModel, base.Clusterer):
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
        super().__init__(
            is_open=isinstance(self._family, DirichletMultinomial)
            and self._family.n_features is None
        )
        self._filter: Filtering | None = None
        self._waiting = _NOTHING  # during warm-up

    @classmethod
    def _unit_test_params(cls) -> Any:
        yield {}
        yield {"likelihood": ("normal_gamma", 0.0, 0.05, 1.5, 1.0), "lag": 3}

    # -- learning --------------------------------------------------------------------------------

    @property
    def _wants_types(self) -> bool:
        return self._filter is None

    def _advance(self, X: FloatArray, t: FloatArray | None, types: list[str]) -> FloatArray:
        """Check rows and times, then learn them all; raises before anything has changed."""
        if len(X) == 0:
            return np.empty((0, N_OUTPUTS))
        clocked = t is not None
        self._check_times(t)
        if t is None:
            t = np.arange(self._n_seen, self._n_seen + len(X), dtype=np.float64)
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

    @property
    def _has_begun(self) -> bool:
        return self._filter is not None

    def _check_rows(self, X: FloatArray, names: list[str]) -> None:
        self._filtering.likelihood.check_rows(X, names)

    def _predict_row(self, x: FloatArray, t: float) -> tuple[FloatArray, dict[int, float]]:
        return self._filtering.predict(x, t)

    @property
    def _filtering(self) -> Filtering:
        assert self._filter is not None  # for mypy
        return self._filter

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

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays: dict[str, Any] = {"waiting.x": self._waiting.X, "waiting.t": self._waiting.t}
        meta: dict[str, Any] = self._progress() | {"types": self._waiting.types, "filter": None}
        if self._filter is not None:
            more, meta["filter"] = self._filter.to_state()
            arrays |= more
        return arrays, meta

    def _restore(self, arrays: dict[str, Any], meta: dict[str, Any]) -> None:
        self._waiting = Waiting(arrays["waiting.x"], arrays["waiting.t"], meta["types"])
        kept = meta["filter"]
        if kept is not None:
            self._family = likelihood_from_config(kept["likelihood"])
            self._filter = Filtering.from_state(self._options, self._family, arrays, kept)
