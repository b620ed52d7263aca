"""Batch inference for the temporal Dirichlet-process mixture.

This is the engine with all epochs in its window, started from the result of a stream with a short
window, which beats k-means and random starts. Sweeps pass over all epochs; after convergence,
components are merged, deleted and split (docs/math/temporal.md (4)).
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm import tqdm

from streamddcrp.arguments import checked, generator
from streamddcrp.cards import ResultCard
from streamddcrp.data import as_observations
from streamddcrp.data.batches import sliceable
from streamddcrp.data.documents import sparse_rows
from streamddcrp.decay import DecaySpec
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.likelihoods import LikelihoodSpec
from streamddcrp.models.temporal.emissions import AnyEmission
from streamddcrp.models.temporal.emissions.drift import GaussianDrift
from streamddcrp.models.temporal.engine import Engine
from streamddcrp.models.temporal.likelihood import NUMBERS, TEXT, LikelihoodOption
from streamddcrp.models.temporal.moves import move
from streamddcrp.models.temporal.window import Settings, count_settings
from streamddcrp.typing import FloatArray, IntArray
from streamddcrp.validation import whole

_log = logging.getLogger(__name__)
_TRIAL = 4  # epochs that judge the initial scales
_REFITS = 3  # of the scales, before the first sweep
_ROUNDS = 10  # of moves


@dataclass(frozen=True, slots=True)
class TemporalDPMFit(ResultCard):
    """A variational posterior of epochs t = 0, .., T - 1.

    Attributes
    ----------
    objective_trace : ndarray of float64, shape (n_sweeps,)
        Objective (nats) after each sweep; not a bound, so it may decrease slightly.
    labels : list of ndarray of int64, shape (N_t,)
        Id of the most probable component of every row.
    q : list of ndarray of float64, shape (N_t, K)
        Probability of every component for every row.
    ids, born : ndarray of int64, shape (K,)
        Ids of the components, increasing with birth, and the epochs in which they were born.
    smoothed : named tuple of arrays
        Moments of the components over all epochs, in the emission's form; shapes (T, K, ..).
    emission : Emission
        With its learned scales.
    """

    objective_trace: FloatArray
    labels: list[IntArray]
    q: list[FloatArray]
    ids: IntArray
    born: IntArray
    smoothed: Any
    emission: Any
    converged: bool

    @property
    def objective(self) -> float:
        """The final objective."""
        return float(self.objective_trace[-1])


@checked
def fit_temporal_dpm(
    epochs: Iterable[Any],
    likelihood: LikelihoodSpec | AnyEmission = "auto",
    *,
    alpha: float | None = None,
    decay: DecaySpec = None,
    window: int | None = None,
    slots: int = 1000,
    lag: int = 3,
    n_starts: int = 1,
    max_sweeps: int = 60,
    tol: float = 1e-4,
    seed: int | None = 0,
    progress: bool = False,
) -> TemporalDPMFit:
    """Cluster all rows of all epochs, each epoch in the light of earlier and later ones.

    Parameters
    ----------
    epochs : iterable of array_like of float, shape (N_t, D)
        Rows of each epoch; an epoch may be empty. For texts, sparse word counts (N_t, V).
    likelihood, alpha, decay, window
        As for `TemporalDPM`. Scales are the best of several initial values on the first epochs.
    slots : int, default 1000
        Components of the finite model, and the most at a time in the starting stream.
    lag : int, default 3
        Epochs that the starting stream may still revise.
    n_starts : int, default 1
        Orders of the rows within epochs, the given one first, for the starting streams; the fit
        with the largest objective is returned.
    max_sweeps, seed, progress
        As for `fit_seqddcrp`.
    tol : float, default 1e-4
        Sweeps stop when no probability changes by more than this.

    Notes
    -----
    A sweep takes O(N K window) steps for N rows and K components in all; memory O(N K). SchemaError
    names epoch and row of a value that is not finite or is invalid.

    Examples
    --------
    >>> import numpy as np
    >>> from streamddcrp.models.temporal.batch import fit_temporal_dpm
    >>> rng = np.random.default_rng(0)
    >>> epochs = [rng.normal(0.0, 1.0, (30, 2)) for _ in range(6)]
    >>> for t, X in enumerate(epochs):
    ...     X[:15] += [12.0, 0.5 * t]  # one cluster climbs, the other stays
    >>> fit = fit_temporal_dpm(epochs)
    >>> [np.unique(labels).tolist() for labels in fit.labels]
    [[0, 1], [0, 1], [0, 1], [0, 1], [0, 1], [0, 1]]
    """
    settings = Settings(**count_settings(alpha, decay, window))
    settings = settings._replace(slots=whole("slots", slots, 1), lag=whole("lag", lag))
    whole("max_sweeps", max_sweeps, 1)
    if not tol >= 0.0:
        raise ConfigError(f"tol must be >= 0, got {tol!r}")
    emission, rows = read_epochs(likelihood, settings, epochs)
    n_starts, rng = whole("n_starts", n_starts, 1), generator(seed)
    fits = []
    with tqdm(total=n_starts * max_sweeps, unit=" sweeps", disable=not progress) as bar:
        for start in range(n_starts):
            order = [rng.permutation(X.shape[0]) if start else np.arange(X.shape[0]) for X in rows]
            fits.append(_fit(_started(settings, emission, rows, order), max_sweeps, tol, bar))
    return max(fits, key=lambda fit: fit.objective)


def _fit(engine: Engine, max_sweeps: int, tol: float, bar: Any) -> TemporalDPMFit:
    for _ in range(_REFITS):
        stats, begins = engine.stats(engine.resp), engine.begins
        smoothed = engine.emission.smooth(stats, engine.starts, begins)
        engine.emission = engine.emission.learned(stats, smoothed, begins)
    trace, converged = _ascend(engine, max_sweeps, tol, bar)
    _log.info("%d sweeps, objective %.4f, %d components", len(trace), trace[-1], len(engine.ids))
    labels = [engine.ids[q.argmax(axis=1)] for q in engine.resp]
    return TemporalDPMFit(
        np.array(trace), labels, engine.resp, engine.ids, engine.born, engine.smooth(),
        engine.emission, converged,
    )  # fmt: skip


def read_epochs(
    likelihood: Any, settings: Settings, epochs: Iterable[Any]
) -> tuple[Any, list[Any]]:
    """Return the emission of an option, scaled by the epochs, and the epochs in its form."""
    given = list(epochs)
    if hasattr(likelihood, "no_starts") and not isinstance(likelihood, GaussianDrift):
        return likelihood, given
    option = LikelihoodOption(likelihood)
    if option.kind_of(next((X for X in given if sum(np.shape(X)[:1])), [[]])) == TEXT:
        return option.emission(TEXT, None), [sparse_rows(X, "epochs") for X in given]
    rows = as_epochs(given)
    first = next(X for X in rows if len(X))
    emission = option.emission(NUMBERS, first.shape[1])
    if emission is None:
        found = option.candidates(first, [*map(str, range(first.shape[1]))])
        emission = found[best_start([Engine(settings, guess) for guess in found], rows)]
    return emission, rows


def best_start(engines: Sequence[Engine], epochs: Sequence[Any]) -> int:
    """Let engines learn the first epochs with rows; return the least surprised one.

    A row's surprise is -log of its density given all earlier rows, which makes emissions with
    different scales comparable.
    """
    seen = 0
    surprise = np.zeros(len(engines))
    for X in epochs:
        surprise += [float(engine.learn(X).sum()) for engine in engines]
        seen += len(X) > 0
        if seen == _TRIAL:
            break
    return int(surprise.argmin())


def _ascend(engine: Engine, max_sweeps: int, tol: float, bar: Any) -> tuple[list[float], bool]:
    """Sweep to convergence, try moves, repeat, finally exactly; return the objectives."""
    trace: list[float] = []
    rounds, exact = _ROUNDS, False
    while len(trace) < max_sweeps:
        before = [q.copy() for q in engine.resp]
        engine.sweep(1, exact=exact)
        engine.learn_counts()
        trace.append(engine.objective().total)
        bar.update()
        bar.set_postfix(objective=f"{trace[-1]:.3f}", components=engine.n_components)
        pairs = zip(engine.resp, before, strict=True)
        if max(float(np.abs(q - old).max(initial=0.0)) for q, old in pairs) < tol:
            if exact:
                return trace, True
            exact = rounds == 0 or not move(engine)
            rounds -= 1
            engine.retire()
    return trace, False


def _started(settings: Settings, emission: Any, rows: list[Any], order: list[IntArray]) -> Engine:
    """Return an engine with all epochs in its window, with a stream's assignments."""
    stream = Engine(settings, emission)
    final: list[tuple[IntArray, FloatArray]] = []
    born: dict[int, int] = {}
    for X, at in zip(rows, order, strict=True):
        if len(stream.rows) > settings.lag:  # the oldest epoch will leave next
            final.append((stream.ids, stream.resp[0]))
        stream.learn(X[at])
        born.update(zip(stream.ids.tolist(), stream.born.tolist(), strict=True))
    final += [(stream.ids, q) for q in stream.resp]
    ids = np.unique(np.concatenate([ids[q.any(axis=0)] for ids, q in final]))
    resp = []
    for (at, q), place in zip(final, map(np.argsort, order), strict=True):
        some = q.any(axis=0)
        resp.append(np.zeros((len(q), len(ids))))
        resp[-1][:, np.searchsorted(ids, at[some])] = q[place][:, some]
    births = np.array([born[i] for i in ids.tolist()])
    engine = whole_window(stream.settings, emission, rows, resp, ids, births)
    engine.first_alpha = settings.alpha
    engine.retire()  # what left the stream with crumbs of rows
    return engine


def whole_window(
    settings: Settings, emission: Any, rows: list[Any], resp: list[FloatArray], ids: IntArray,
    born: IntArray,
) -> Engine:  # fmt: skip
    """Return an engine whose window holds all epochs, as a stream's with ``lag`` >= T - 1 does."""
    engine = Engine(settings._replace(lag=max(len(rows) - 1, 0)), emission, epoch=len(rows) - 1)
    engine.rows, engine.resp = list(rows), resp
    engine.ids, engine.born, engine.last_active = ids, born, born.copy()
    engine.next_id = int(ids.max(initial=-1)) + 1
    engine.before = np.zeros((len(engine.settings.past_weights), len(ids), 3))
    engine.starts = emission.no_starts(len(ids))
    return engine


def as_epochs(epochs: Iterable[Any]) -> list[FloatArray]:
    """Return epochs as matrices (N_t, D) of one width; name an invalid one in the error."""
    given = [sliceable(X) for X in epochs]
    out: list[FloatArray] = []
    width = next((np.shape(X)[1] for X in given if np.ndim(X) == 2 and len(X)), None)
    if all(len(X) == 0 for X in given):
        raise SchemaError("epochs hold no rows; at least one row is needed")
    for t, X in enumerate(given):
        try:
            rows = as_observations(X) if len(X) else np.zeros((0, width or 0))
            if width is not None and rows.shape[1] != width:
                raise SchemaError(f"batch: expected {width} columns, got {rows.shape[1]}")
        except SchemaError as error:
            raise SchemaError(f"epoch {t}, {error}", row=error.row) from None
        out.append(rows)
    return out
