"""The time-varying Indian buffet process as a streaming estimator: transient causes."""

from typing import Any

import numpy as np
import pyarrow as pa
from river import base

from streamddcrp.contract import DEATH, LIVE_TABLES, P_NEW, SCORE, Event
from streamddcrp.data.batches import read_batch
from streamddcrp.data.scaled import tell_of_constants
from streamddcrp.errors import ConfigError, SchemaError
from streamddcrp.estimator.interrupts import pause
from streamddcrp.estimator.particle_model import NOTHING, Waiting, WarmingUp
from streamddcrp.estimator.reasons import Explanation
from streamddcrp.estimator.row_model import Features
from streamddcrp.estimator.stored import refuse_unless_plain
from streamddcrp.estimator.views import empty_table, events_since
from streamddcrp.likelihoods import LinearGaussian, NormalGamma
from streamddcrp.models.features import engine, views
from streamddcrp.models.features.state import make_config
from streamddcrp.plots.series import Cause
from streamddcrp.records import FINITE, check_one, refuse_if
from streamddcrp.typing import Axes, FloatArray, IntArray, Probabilities
from streamddcrp.validation import choice


class TimeVaryingIBP(WarmingUp, base.Transformer):
    """Latent features that come and go: a time-varying Indian buffet process.

    A row is the sum of the loadings of its active features, a baseline, and noise. Any number may
    be on at once. A feature that m of the last ``window`` rows had is on in the next one with
    probability m / (window + 1); new ones are born at the rate alpha / (window + 1); a feature that
    was off for a whole window is dead, and its id is not reused. The number of features, their
    loadings, the times when they are on, and the noise level are learned as the rows arrive, by
    sequential Monte Carlo in bounded memory.

    Parameters
    ----------
    window : int, default 50
        Rows within which a feature must be on to stay alive. A longer window follows changes more
        slowly, and keeps rare features.
    alpha : float, default 1.0
        Expected number of features of a row; ``alpha (1 + 1/2 + .. + 1/window)`` are alive.
    missing : bool, default False
        Whether values may be missing (None, null). If not, such rows are refused.
    n_particles : int, default 40
    moves : int, default 16
        Rows of the window whose features each particle resamples after an arrival. These moves find
        the right features; 5 are enough if speed matters more.
    seed : int, default 0

    Other Parameters
    ----------------
    sigma_x, sigma_y : float, optional
        Standard deviations of noise and loadings, in the units of the rows. Default: unknown, and
        learned; columns of different spread are then scaled. ``sigma_y`` is at most 1000 times
        ``sigma_x``, since rounding hides smaller noise.
    baseline : bool, optional
        Whether a row with nothing on equals a learned baseline, rather than zero. Default: true if
        a column of the first rows stays on one side of zero.
    warmup : int, default 50
        Rows collected to find baseline and scale; then they are learned at once. Not needed if
        ``sigma_x`` and ``baseline`` are given.

    Notes
    -----
    An arrival costs about 1 us per particle and resampled row at 36 columns and four features, 2 us
    at eight columns and a dozen, and needs no more memory once the window is full. If noise must be
    learned and nothing is missing, the warm-up rows are also learned by annealing: one to three
    seconds. The algorithm is described in `streamddcrp.models.features`.

    Examples
    --------
    >>> import numpy as np
    >>> from streamddcrp import TimeVaryingIBP
    >>> rng = np.random.default_rng(0)
    >>> causes = np.array([[3.0, 0.0, 3.0], [0.0, 4.0, 0.0]])
    >>> on = rng.random((60, 2)) < 0.5
    >>> model = TimeVaryingIBP(n_particles=10, moves=5, window=20)
    >>> model.learn_many(on @ causes + 0.3 * rng.normal(size=(60, 3)))
    >>> model.n_features
    2
    >>> {i: round(p) for i, p in model.transform_one({0: 3.1, 1: 0.0, 2: 2.9}).items() if i >= 0}
    {0: 1, 1: 0}
    """

    _engine: engine.FeatureEngine | None

    def __init__(
        self,
        *,
        window: int = 50,
        alpha: float = 1.0,
        missing: bool = False,
        n_particles: int = 40,
        moves: int = 16,
        seed: int = 0,
        sigma_x: float | None = None,
        sigma_y: float | None = None,
        baseline: bool | None = None,
        warmup: int = 50,
    ) -> None:
        self.window = window
        self.alpha = alpha
        self.sigma_x = sigma_x
        self.sigma_y = sigma_y
        self.baseline = baseline
        self.missing = missing
        self.n_particles = n_particles
        self.moves = moves
        self.seed = seed
        self._likelihood = LinearGaussian(sigma_x, sigma_y)
        self._config = make_config(
            window=window, alpha=alpha, n_particles=n_particles, moves=moves, seed=seed,
            ratios=self._likelihood.ratios,
        )  # fmt: skip
        if baseline is not None and not isinstance(baseline, bool):
            raise ConfigError(f"baseline must be True, False or None, got {baseline!r}")
        super().__init__(warmup)
        self._combinations = views.Combinations()

    # -- learning --------------------------------------------------------------------------------

    def step_many(self, batch: object, t: object = None, *, index: bool = False) -> pa.RecordBatch:
        """Predict each row of a batch, then learn it, as `SeqDDCRP.step_many` does.

        Rows with the same active features have the same ``label``, the arrival index of the first
        of them. ``p_new`` is the probability of a feature new to all rows, ``n_tables`` is the
        number of live features before the row; last come ``features`` (list of int64, ids of active
        features) and ``feature_probs`` (list of float64).
        """
        return self._stepped(batch, t, index)

    def _named(self, out: Any) -> pa.RecordBatch:
        return views.predictions(*out)

    def _advance(self, X: FloatArray, t: FloatArray | None, types: list[str]) -> Any:
        self._check_rows(X, self._feature_names())
        self._check_times(t)
        first, n = self._n_seen, len(X)
        times = np.arange(first, first + n, dtype=np.float64) if t is None else t
        labels, probs, reported = [], [], []
        for a in range(0, max(n, 1), views.PIECE):  # in pieces, so that no event of them is lost
            if a:
                pause()
                if self._engine is not None:
                    self._backlog.keep(*views.events_of(self._engine))
            piece = slice(a, a + views.PIECE)
            reported.append(self._step(X[piece], times[piece]))
            label, prob = self._combinations.of_rows(reported[-1], self._n_seen)
            labels.append(label)
            probs.append(prob)
            if n:
                self._clocked = t is not None
                self._last_time = None if t is None else float(t[piece][-1])
            self._n_seen += len(label)
        return np.concatenate(labels), np.concatenate(probs), engine.joined(reported)

    def _step(self, X: FloatArray, t: FloatArray) -> engine.Reported:
        """Learn rows, collect them, or start the engine with the collected ones."""
        if self._engine is not None:
            return self._engine.step(X, t)
        wait = 0 if self.sigma_x is not None and self.baseline is not None else self.warmup
        waiting, n_old = self._waiting.and_then(X, t, [], ()), len(self._waiting.X)
        rows, times = waiting.X, waiting.t
        if len(rows) < max(wait, 1):
            self._waiting = waiting
            return engine.nothing_reported(len(X))
        tell_of_constants(rows[:wait], self._feature_names())
        scales = engine.scales_of(rows[: max(wait, 1)], self.baseline, scaled=self.sigma_x is None)
        self._engine = engine.FeatureEngine.started(
            scales, self._config, self._likelihood, rows[:wait], times[:wait]
        )
        self._waiting = NOTHING
        reported = self._engine.step(rows[wait:], times[wait:])
        return engine.joined([engine.nothing_reported(max(wait - n_old, 0)), reported])

    # -- predicting ------------------------------------------------------------------------------

    def _check_rows(self, X: FloatArray, names: list[str]) -> None:
        NormalGamma().check_rows(X, names)  # outside every numeric family's support
        if not self.missing and np.isnan(X).any():
            row, d = (int(i) for i in np.argwhere(np.isnan(X))[0])
            raise SchemaError(
                f"row {row}, column {names[d]!r}: missing; fill it in, drop the row, or allow "
                "missing values by missing=True",
                row=row,
            )

    def explain_one(self, x: Features, t: Any = None, **side: Any) -> Explanation:
        self.score_one(x, t)  # refuses disallowed missing values
        allowed, self.missing = self.missing, True
        try:  # each column is left out in turn
            return super().explain_one(x, t, **side)
        finally:
            self.missing = allowed

    def _predict_row(self, x: FloatArray, t: float) -> tuple[FloatArray, Probabilities]:
        assert self._engine is not None  # for mypy
        reported, _ = self._engine.predict(x[None])
        labels, sure = self._combinations.of_rows(reported, self._n_seen, learn=False)
        out, ids, probs = reported
        row = np.array(
            [labels[0], sure[0], out[0, SCORE], out[0, P_NEW], np.nan, out[0, LIVE_TABLES]]
        )

        def probabilities() -> dict[int, float]:
            known = zip(ids[0].tolist(), probs[0].tolist(), strict=True)
            return {i: p for i, p in known if i >= 0} | {-1: float(out[0, P_NEW])}

        return row, probabilities

    def transform_one(self, x: Features) -> dict[Any, Any]:
        """Return the probability that a row has each live feature, with -1 for a new one."""
        predicted = self._predict(x, self._last_time)
        return {} if predicted is None else predicted[1]()

    def transform_many(self, batch: object) -> pa.Table:
        """Return the probabilities of live features (N rows), one column ``feature_ID`` each.

        Every row is treated as the next one. In warm-up there are no columns. SchemaError for other
        columns than before, an infinite value, or a missing one without ``missing=True``.
        """
        reported, _ = self._explained(read_batch(batch, self._vectorizer, learn=False).X)
        ids = reported.ids[0].tolist() if len(reported.ids) else []
        columns = {f"feature_{i}": reported.probs[:, f] for f, i in enumerate(ids)}
        return pa.table({name: np.ascontiguousarray(p) for name, p in columns.items()})

    def reconstruct_one(self, x: Features) -> dict[Any, float]:
        """Return a row without noise: its explanation by baseline and features; gaps are filled."""
        X = self._vectorizer.row(x, learn=False)
        _, fit = self._explained(X)
        return dict(zip(self._vectorizer.columns or (), fit[0].tolist(), strict=False))

    def reconstruct(self, batch: object) -> pa.Table:
        """Return N rows without their noise, under the names of the columns."""
        _, fit = self._explained(read_batch(batch, self._vectorizer, learn=False).X)
        columns = self._vectorizer.columns or ()
        return pa.table({str(c): np.ascontiguousarray(fit[:, d]) for d, c in enumerate(columns)})

    def _explained(self, X: FloatArray) -> tuple[engine.Reported, FloatArray]:
        self._check_rows(X, self._feature_names() or [str(d) for d in range(X.shape[1])])
        if self._engine is None:
            return engine.nothing_reported(len(X)), X
        return self._engine.predict(X)

    # -- looking at the model --------------------------------------------------------------------

    @property
    def n_features(self) -> int:
        """Number of live features, those that at least half the particle weight has."""
        return 0 if self._engine is None else len(self._engine.live())

    n_tables = n_features  # under the name that all models have

    @property
    def noise(self) -> dict[Any, float]:
        """Standard deviation of the noise of each column, as learned so far; NaN in warm-up."""
        columns = self._vectorizer.columns or ()
        values = np.full(len(columns), np.nan) if self._engine is None else self._engine.noise
        return dict(zip(columns, values.tolist(), strict=True))

    def events(self) -> list[Event]:
        """Return births, deaths and merges of features since the last call.

        Includes all of the last call that learned, and the last 128 before it.

        A feature is born when particles of half the weight and three rows of the window have it,
        and dead when no particle has it. Two that prove to be one are merged: the younger id ends.
        """
        if self._engine is None:
            return []
        log, made = views.events_of(self._engine)
        read, self._events_read = self._events_read, made
        return events_since(log, made, read, 0.0, 1.0, self._backlog)

    def summary(self) -> pa.Table:
        """Return one row per live feature: id, prob, owners, born and its loading, one column each.

        ``owners`` is the expected number of the window's rows with it, ``born`` the arrival index
        of its first row, ``loading_NAME`` its addition to a column.
        """
        if self._engine is None:
            whole, real = pa.int64(), pa.float64()
            return empty_table(id=whole, prob=real, owners=real, born=whole)
        names, live = self._engine.state.names, self._engine.live()
        table: dict[str, Any] = {
            "id": names.label[live],
            "prob": np.minimum(names.weight[live], 1.0),
            "owners": self._engine.window(names.label[live]).sum(axis=0),
            "born": names.born[live],
        }
        loading = names.loading[live] * self._engine.scales.scale
        for d, column in enumerate(self._feature_names()):
            table[f"loading_{column}"] = np.ascontiguousarray(loading[:, d])
        return pa.table(table)

    def loadings(self) -> dict[int, FloatArray]:
        """Return the loading of each feature, shape (D,): live ones and the last dead ones."""
        if self._engine is None:
            return {}
        names, scale = self._engine.state.names, self._engine.scales.scale
        events, made = views.events_of(self._engine)
        some = np.flatnonzero(events.kind[:made] == DEATH).tolist()
        found = {int(events.label[e]): names.gone[e] * scale for e in some}
        live = np.flatnonzero(names.label >= 0).tolist()
        found |= {int(names.label[g]): names.loading[g] * scale for g in live}
        return dict(sorted(found.items()))

    def assignments(self) -> pa.Table:
        """Return the features of the last rows, given later rows.

        Returns
        -------
        pyarrow.Table
            ``row`` (arrival index), ``features`` (list of ids), ``final`` (False while the row is
            in the window and may be revised). At most 1,024 rows plus the window.
        """
        if self._engine is None:
            return empty_table(row=pa.int64(), features=pa.list_(pa.int64()), final=pa.bool_())
        rows, ids = self._engine.settled()
        names = self._engine.state.names
        labels = np.sort(names.label[names.label >= 0])
        recent = self._engine.window(labels) > views.ON
        open_rows = np.arange(self._n_seen - len(recent), self._n_seen)
        still = open_rows > (rows[-1] if len(rows) else -1)
        sets = [[i for i in row if i >= 0] for row in ids.tolist()]
        sets += [labels[on].tolist() for on in recent[still]]
        columns = {
            "row": np.concatenate([rows, open_rows[still]]),
            "features": pa.array([sorted(s) for s in sets], pa.list_(pa.int64())),
            "final": np.arange(len(sets)) < len(rows),
        }
        return pa.table(columns)

    def _said(self, out: Any) -> tuple[FloatArray, FloatArray]:
        labels, _, reported = out
        return labels, reported[0][:, SCORE]

    def _causes(self, rows: IntArray) -> tuple[Cause, ...]:
        last = self.assignments()
        at, sets = last["row"].to_numpy(), last["features"].to_pylist()
        ids = sorted({i for one in sets for i in one})
        on = (np.array([i in one for one in sets]) for i in ids)
        found = (Cause(i, np.isin(rows, at[mine])) for i, mine in zip(ids, on, strict=True))
        return tuple(cause for cause in found if cause.on.any())

    def plot(self, kind: str = "rows", ax: Axes | None = None) -> Any:
        """Draw the time line of the last rows, or with ``kind="features"`` the loadings.

        The time line is that of other models (`SeqDDCRP.plot`), with a lane for each feature that
        came and went: a bar marks when it is on. "features" also has lanes, and each feature's
        effect on the columns. Needs matplotlib.

        Parameters
        ----------
        kind : {"rows", "features"}
        ax : matplotlib axes, optional
            For the lanes of "features" alone.

        Returns
        -------
        matplotlib.figure.Figure
            Of "rows"; the axes of the lanes of "features".
        """
        from streamddcrp.plots.features import plot_features  # noqa: PLC0415 -- only for pictures

        if choice("kind", kind, ("rows", "features")) == "rows":
            return super().plot()
        return plot_features(self.assignments(), self.loadings(), self._feature_names(), ax)

    # -- checkpoints -----------------------------------------------------------------------------

    def _state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        arrays, meta = super()._state()
        return arrays | self._combinations.arrays(), meta

    def _restore(self, arrays: dict[str, Any], meta: dict[str, Any]) -> None:
        self._waiting = Waiting(arrays["waiting.x"], arrays["waiting.t"])
        self._check_waiting()
        self._combinations.restore(arrays)
        if meta["filter"] is not None:
            refuse_unless_plain(meta["filter"], numbers=("log_unit",), flags=("baseline",))
            D = self._vectorizer.n_features
            for name in ("centre", "scale"):
                check_one(f"scales.{name}", arrays[f"scales.{name}"], (D,), np.float64, FINITE)
            refuse_if(arrays["rows.x"].shape[-1] != D, "columns")
            self._engine = engine.FeatureEngine.from_state(self._config, arrays, meta["filter"])
